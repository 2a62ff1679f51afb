// SPDX-License-Identifier: Apache-2.0
// saturating.hpp: sums and products that stop at the largest number, for bounds; and rests.
#pragma once

#include <cstdint>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// A bound that is the largest number promises nothing; one that has wrapped would be false.
constexpr std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) noexcept {
  constexpr std::uint64_t most = ~std::uint64_t{0};
  return a > most - b ? most : a + b;
}
constexpr std::uint64_t saturating_product(std::uint64_t a, std::uint64_t b) noexcept {
  constexpr std::uint64_t most = ~std::uint64_t{0};
  return b != 0 && a > most / b ? most : a * b;
}
/// What is left of `all`. Sums that are read while threads work may be late.
constexpr std::uint64_t rest_of(std::uint64_t all, std::uint64_t gone) noexcept {
  return all > gone ? all - gone : 0;
}

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
