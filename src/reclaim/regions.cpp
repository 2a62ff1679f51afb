// SPDX-License-Identifier: Apache-2.0
// regions.cpp: what a thread knows of its regions, whichever shared object opens and closes them.
#include "reclaim/regions.hpp"

#include <cstdint>

namespace spolia::core::inline SPOLIA_OF_VERSION {

std::uint32_t& own_strange_regions() noexcept {
  static constinit thread_local std::uint32_t count = 0;
  return count;
}

}  // namespace spolia::core::inline SPOLIA_OF_VERSION
