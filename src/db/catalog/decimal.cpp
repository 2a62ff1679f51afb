// SPDX-License-Identifier: Apache-2.0
// decimal.cpp: decimals from text and back.
#include <spolia/db/decimal.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr auto powers_of_ten = [] {
  std::array<std::int64_t, most_digits + 1> made{};
  std::int64_t p = 1;
  for (std::uint32_t i = 0; i < made.size(); ++i, p *= i <= most_digits ? 10 : 1) made[i] = p;
  return made;
}();

[[noreturn]] void refuse_decimal(const char* why) {
  throw std::invalid_argument(std::string("spolia::db: ") + why);
}

constexpr const char* too_large = "a decimal does not fit in 64 bits";
constexpr const char* not_one = "this is not a decimal number";

/// Puts a digit behind a number that is not positive: there is one more of those.
void put_digit(std::int64_t& negative, char c) {
  if (__builtin_mul_overflow(negative, std::int64_t{10}, &negative) ||
      __builtin_sub_overflow(negative, std::int64_t{c - '0'}, &negative)) {
    refuse_decimal(too_large);
  }
}

}  // namespace

decimal_number::decimal_number(std::int64_t scaled, std::uint32_t digits)
    : scaled_(scaled), digits_(digits) {
  if (digits > most_digits) refuse_decimal("a decimal has at most 18 digits after the point");
}

decimal_number::decimal_number(std::string_view text) {
  const bool minus = text.starts_with('-');
  if (minus || text.starts_with('+')) text.remove_prefix(1);
  const std::size_t point = std::min(text.find('.'), text.size());
  if (point == 0 || point + 1 == text.size()) refuse_decimal(not_one);
  std::int64_t negative = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == point) continue;
    if (text[i] < '0' || text[i] > '9') refuse_decimal(not_one);
    if (i > point && ++digits_ > most_digits) {
      refuse_decimal("a decimal has at most 18 digits after the point");
    }
    put_digit(negative, text[i]);
  }
  if (!minus && negative == std::numeric_limits<std::int64_t>::min()) refuse_decimal(too_large);
  scaled_ = minus ? negative : -negative;
}

decimal_number decimal_number::with(std::uint32_t digits) const {
  decimal_number made(scaled_, digits);
  if (digits >= digits_) {
    if (__builtin_mul_overflow(scaled_, powers_of_ten[digits - digits_], &made.scaled_)) {
      refuse_decimal(too_large);
    }
    return made;
  }
  const std::int64_t by = powers_of_ten[digits_ - digits];
  if (scaled_ % by != 0) refuse_decimal("a decimal has more digits after the point than are kept");
  made.scaled_ = scaled_ / by;
  return made;
}

std::string decimal_number::text() const {
  std::string digits = std::to_string(scaled_);
  const std::size_t sign = scaled_ < 0 ? 1 : 0;
  if (digits_ == 0) return digits;
  if (digits.size() - sign <= digits_)
    digits.insert(sign, digits_ + 1 - (digits.size() - sign), '0');
  digits.insert(digits.size() - digits_, 1, '.');
  return digits;
}

std::weak_ordering operator<=>(decimal_number a, decimal_number b) noexcept {
  // Whole parts first. Of two numbers that have the same one, the fractions have the same sign, and
  // fit however many digits they have.
  const auto whole = [](decimal_number d) { return d.scaled_ / powers_of_ten[d.digits_]; };
  const auto fraction = [](decimal_number d) {
    return d.scaled_ % powers_of_ten[d.digits_] * powers_of_ten[most_digits - d.digits_];
  };
  if (whole(a) != whole(b)) return whole(a) <=> whole(b);
  return fraction(a) <=> fraction(b);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
