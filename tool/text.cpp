// SPDX-License-Identifier: Apache-2.0
#include "text.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <stdexcept>
#include <system_error>

namespace tool {
namespace {

constexpr std::string_view digits64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

template <class T>
std::optional<T> parsed(std::string_view s) noexcept {
  T v{};
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (error != std::errc{} || end != s.data() + s.size()) return std::nullopt;
  return v;
}

}  // namespace

void append(std::string& to, std::int64_t v) {
  std::array<char, 24> text{};
  to.append(text.data(), std::to_chars(text.data(), text.data() + text.size(), v).ptr);
}

void append(std::string& to, double v) { spolia::db::append_number(to, v); }

std::optional<std::int64_t> to_int64(std::string_view s) noexcept {
  return parsed<std::int64_t>(s);
}
std::optional<double> to_float64(std::string_view s) noexcept { return parsed<double>(s); }

std::optional<spolia::db::decimal_number> to_decimal(std::string_view s) {
  try {
    return spolia::db::decimal_number(s);
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}
std::optional<spolia::db::instant> to_instant(std::string_view s) {
  try {
    return spolia::db::instant_of(s);
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

std::optional<std::string> from_base64(std::string_view s) {
  if (s.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < s.size(); i += 4) {
    const bool last = i + 4 == s.size();
    const std::size_t padding = !last ? 0 : s.ends_with("==") ? 2 : s.ends_with("=") ? 1 : 0;
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t digit = k < 4 - padding ? digits64.find(s[i + k]) : 0;
      if (digit == std::string_view::npos) return std::nullopt;
      bits = bits << 6U | static_cast<std::uint32_t>(digit);
    }
    // What falls off must be zero, so that there is one way only to write something.
    if ((bits & ((1U << (8U * padding)) - 1U)) != 0) return std::nullopt;
    for (unsigned k = 0; k < 3 - padding; ++k) {
      bytes += static_cast<char>(bits >> (16U - 8U * k) & 0xffU);
    }
  }
  return bytes;
}

std::uint64_t fnv1a(std::string_view s, std::uint64_t before) noexcept {
  std::uint64_t h = before;
  for (const char c : s) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return h;
}

std::string in_words(const spolia::db::status& s) {
  std::string words(s.message());
  if (!s.reason().empty()) (words += ": ") += s.reason();
  return words;
}

std::string printable(std::string_view s) {
  std::string shown(s);
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return shown;
}

void say(std::string_view words) noexcept {
  static_cast<void>(std::fwrite(words.data(), 1, words.size(), stderr));
  static_cast<void>(std::fflush(stderr));
}

std::string short_count(std::uint64_t n) {
  static constexpr std::array<const char*, 6> units = {"", " k", " M", " G", " T", " P"};
  double scaled = static_cast<double>(n);
  std::size_t unit = 0;
  while (scaled >= 999.95 && unit + 1 < units.size()) {
    scaled /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{}", n) : fmt::format("{:.1f}{}", scaled, units[unit]);
}

}  // namespace tool
