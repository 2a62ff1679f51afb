// SPDX-License-Identifier: Apache-2.0
// decimal.hpp: the values of decimal columns, which are whole numbers of 10^-digits. They are
// exact: a number that does not fit, or would have to be rounded, is refused.
//
//     const decimal_number price("12.50");     // as many digits after the point as are written
//     price == decimal_number(1250, 2)         // 1250 hundredths
//
// Errors:      std::invalid_argument with one sentence.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Decimals have no more digits after the point: all powers of ten up to that one fit in 64 bits.
inline constexpr std::uint32_t most_digits = 18;

/// A number of 64 bits, divided by a power of ten. A comparison is about the number, not about how
/// it is written: 1.5 equals 1.50.
class decimal_number {
 public:
  constexpr decimal_number() noexcept = default;
  /// `scaled` / 10^`digits`.
  SPOLIA_EXPORT decimal_number(std::int64_t scaled, std::uint32_t digits);
  /// An optional sign, digits, and, if there are any after it, a point: "-0.05", "+7".
  SPOLIA_EXPORT explicit decimal_number(std::string_view text);

  [[nodiscard]] constexpr std::int64_t scaled() const noexcept { return scaled_; }
  [[nodiscard]] constexpr std::uint32_t digits() const noexcept { return digits_; }
  /// The same number with so many digits after the point. Throws if there is none of 64 bits.
  [[nodiscard]] SPOLIA_EXPORT decimal_number with(std::uint32_t digits) const;
  /// With all its digits after the point, and one at least before: "0.50".
  [[nodiscard]] SPOLIA_EXPORT std::string text() const;

  SPOLIA_EXPORT friend std::weak_ordering operator<=>(decimal_number a, decimal_number b) noexcept;
  friend bool operator==(decimal_number a, decimal_number b) noexcept {
    return std::is_eq(a <=> b);
  }

 private:
  std::int64_t scaled_ = 0;
  std::uint32_t digits_ = 0;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
