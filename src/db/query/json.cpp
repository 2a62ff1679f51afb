// SPDX-License-Identifier: Apache-2.0
// json.cpp: values as JSON.
#include <spolia/db/json.hpp>

#include <array>
#include <bit>
#include <cfenv>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <variant>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::string_view digits64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

template <class T>
void append_digits(std::string& to, T v) {
  std::array<char, 32> text{};
  to.append(text.data(), std::to_chars(text.data(), text.data() + text.size(), v).ptr);
}

/// While it lives, the processor computes as it does at a program's start: where it flushes small
/// numbers to zero, std::to_chars would write 0 for them.
class plain_arithmetic {
 public:
  plain_arithmetic() noexcept {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~plain_arithmetic() { std::fesetenv(&before_); }
  plain_arithmetic(const plain_arithmetic&) = delete;
  plain_arithmetic& operator=(const plain_arithmetic&) = delete;

 private:
  std::fenv_t before_{};
};

/// How long the sequence is that begins with this byte; 0: none does.
unsigned length_of(unsigned char first) noexcept {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  if (first >= 0xf0 && first < 0xf5) return 4;
  return 0;
}

/// Whether the second byte makes the sequence overlong, a surrogate, or too large.
bool second_is_wrong(unsigned char lead, unsigned char next) noexcept {
  return (lead == 0xe0 && next < 0xa0) || (lead == 0xed && next > 0x9f) ||
         (lead == 0xf0 && next < 0x90) || (lead == 0xf4 && next > 0x8f);
}

struct appender {
  std::string& to;
  void operator()(std::monostate) const { to += "null"; }
  void operator()(std::int64_t v) const { append_digits(to, v); }
  void operator()(double v) const {
    const std::uint64_t bits = double_word(v);
    const bool quoted = is_nan_word(bits) || is_infinite_word(bits);
    if (quoted) to += '"';
    append_number(to, v);
    if (quoted) to += '"';
  }
  void operator()(bool v) const { to += v ? "true" : "false"; }
  void operator()(decimal_number v) const { to += v.text(); }
  void operator()(instant v) const {
    to += '"';
    to += to_text(v);
    to += '"';
  }
  void operator()(std::string_view v) const {
    if (is_utf8(v)) return append_json_string(to, v);
    (*this)(blob_view(v));
  }
  void operator()(blob_view v) const {
    to += R"({"base64":")";
    append_base64(to, v.chars());
    to += R"("})";
  }
};

}  // namespace

bool is_utf8(std::string_view s) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  for (std::size_t i = 0; i < s.size();) {
    const unsigned length = length_of(byte(i));
    if (length == 0 || s.size() - i < length) return false;
    if (length > 1 && second_is_wrong(byte(i), byte(i + 1))) return false;
    for (unsigned k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xc0U) != 0x80) return false;
    }
    i += length;
  }
  return true;
}

void append_json_string(std::string& to, std::string_view s) {
  constexpr std::string_view digits16 = "0123456789abcdef";
  to += '"';
  for (const char c : s) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      to += '\\';
      to += c;
    } else if (byte < 0x20) {
      to += "\\u00";
      to += digits16[byte >> 4U];
      to += digits16[byte & 0xfU];
    } else {
      to += c;
    }
  }
  to += '"';
}

void append_base64(std::string& to, std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8U | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (unsigned k = 0; k < 4; ++k) {
      to += i + k > bytes.size() ? '=' : digits64[bits >> (18U - 6U * k) & 63U];
    }
  }
}

void append_number(std::string& to, double v) {
  const std::uint64_t bits = double_word(v);
  if (is_nan_word(bits)) {
    to += "nan";
  } else if (is_infinite_word(bits)) {
    to += bits == infinity_word ? "inf" : "-inf";
  } else if ((bits & infinity_word) == 0 && bits != 0) {  // below all numbers of full precision
    const plain_arithmetic now;
    append_digits(to, std::bit_cast<double>(bits));
  } else {
    append_digits(to, std::bit_cast<double>(bits));
  }
}

void append_json(std::string& to, const argument& v) { std::visit(appender{to}, v.what()); }

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
