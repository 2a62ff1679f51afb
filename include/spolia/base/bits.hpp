// SPDX-License-Identifier: Apache-2.0
/// \file
/// How many bits a number takes.
#pragma once

#include <bit>
#include <cstdint>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// std::bit_width(), always as an unsigned: standard libraries differ in what it returns, so that
/// a cast of it is useless with one of them and missed with another, and both have a warning.
[[nodiscard]] constexpr unsigned bit_length(std::uint64_t n) noexcept {
  return 64 - static_cast<unsigned>(std::countl_zero(n));
}

}  // namespace spolia::inline SPOLIA_FLAVOUR
