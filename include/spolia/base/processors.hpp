// SPDX-License-Identifier: Apache-2.0
// processors.hpp: how many threads can run at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// How many processors the machine has, at least 1. Asked once: the C library reads a file of the
/// kernel's for each answer, which took longer than making the domain that wanted to know.
/// Safe from any thread.
inline std::uint32_t processors() noexcept {
  static const std::uint32_t count = std::max(std::thread::hardware_concurrency(), 1U);
  return count;
}

}  // namespace spolia::inline SPOLIA_FLAVOUR
