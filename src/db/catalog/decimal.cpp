// SPDX-License-Identifier: Apache-2.0
// decimal.cpp: decimals from text and back.
#include <spolia/db/decimal.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

#include "base/so_many.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr auto powers_of_ten = [] {
  std::array<std::int64_t, most_digits + 1> made{};
  std::int64_t p = 1;
  for (std::uint32_t i = 0; i < made.size(); ++i, p *= i <= most_digits ? 10 : 1) made[i] = p;
  return made;
}();

[[noreturn]] void refuse_decimal(const std::string& why) {
  throw std::invalid_argument("spolia::db: " + why);
}

/// As much of it as an error shows.
std::string quoted(std::string_view text) {
  constexpr std::size_t most_shown = 60;
  const bool whole = text.size() <= most_shown;
  return '"' + std::string(text.substr(0, most_shown)) + (whole ? "\"" : "...\"");
}

[[noreturn]] void refuse_digits(const std::string& what, std::size_t digits) {
  refuse_decimal(what + " has " + so_many(digits, "digit") +
                 " after the point: at most 18 are allowed");
}

[[noreturn]] void refuse_text(std::string_view text) {
  refuse_decimal(quoted(text) +
                 " is not a decimal number: digits, maybe a sign before them and a point between "
                 "them, as in -12.50");
}

[[noreturn]] void refuse_large(const std::string& what) {
  refuse_decimal(what +
                 " does not fit in 64 bits: a decimal has at most 18 digits, or 19 up to "
                 "9223372036854775807");
}

/// Puts a digit behind a number that is not positive: there is one more of those. False: it does
/// not fit.
bool put_digit(std::int64_t& negative, char c) noexcept {
  return !__builtin_mul_overflow(negative, std::int64_t{10}, &negative) &&
         !__builtin_sub_overflow(negative, std::int64_t{c - '0'}, &negative);
}

}  // namespace

decimal_number::decimal_number(std::int64_t scaled, std::uint32_t digits)
    : scaled_(scaled), digits_(digits) {
  if (digits > most_digits) refuse_digits("a decimal number", digits);
}

decimal_number::decimal_number(std::string_view all) {
  const bool minus = all.starts_with('-');
  const std::string_view text = all.substr(minus || all.starts_with('+') ? 1 : 0);
  const std::size_t point = std::min(text.find('.'), text.size());
  if (point == 0 || point + 1 == text.size()) refuse_text(all);
  std::int64_t negative = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == point) continue;
    if (text[i] < '0' || text[i] > '9') refuse_text(all);
    if (i > point && ++digits_ > most_digits) refuse_digits(quoted(all), text.size() - point - 1);
    if (!put_digit(negative, text[i])) refuse_large(quoted(all));
  }
  if (!minus && negative == std::numeric_limits<std::int64_t>::min()) refuse_large(quoted(all));
  scaled_ = minus ? negative : -negative;
}

decimal_number decimal_number::with(std::uint32_t digits) const {
  decimal_number made(scaled_, digits);
  if (digits >= digits_) {
    if (__builtin_mul_overflow(scaled_, powers_of_ten[digits - digits_], &made.scaled_)) {
      refuse_large(text() + " with " + so_many(digits, "digit") + " after the point");
    }
    return made;
  }
  const std::int64_t by = powers_of_ten[digits_ - digits];
  if (scaled_ % by != 0) {
    refuse_decimal(text() + " has more digits after the point than the " + std::to_string(digits) +
                   " that are kept: round it before");
  }
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
