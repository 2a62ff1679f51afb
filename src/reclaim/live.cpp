// SPDX-License-Identifier: Apache-2.0
// live.cpp: the process's one set of slots in which threads name the live values that they read.
#include <spolia/base/made_once.hpp>
#include <spolia/reclaim/detail/reading_slots.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {

void* all_readings() noexcept {
  static constinit made_once<detail::reclaim::reading_slots> it;
  return &it.get();
}

}  // namespace spolia::core::inline SPOLIA_OF_VERSION
