// SPDX-License-Identifier: Apache-2.0
// hazard_pointer.cpp: the process's one domain of hazard pointers.
#include <spolia/hazard_pointer.hpp>

#include <cstddef>
#include <cstdint>

#include <spolia/base/made_once.hpp>

#include "reclaim/homes.hpp"

namespace spolia::core::inline SPOLIA_OF_VERSION {
namespace {

using standard_hazards = detail::reclaim::hazard_home;

standard_hazards& hazards() noexcept {
  static constinit made_once<standard_hazards> it;
  return it.get();
}

}  // namespace

void* take_hazard_slot() { return &hazards().take(); }

void give_back_hazard_slot(void* slot) noexcept {
  hazards().give_back(*static_cast<standard_hazards::slot*>(slot));
}

void retire_by_hazards(place& where, std::size_t bytes) noexcept { hazards().retire(where, bytes); }
bool clean_up_hazards() noexcept { return hazards().clean_up(); }
std::uint64_t hazards_garbage() noexcept { return hazards().garbage(); }
std::uint64_t hazards_garbage_bytes() noexcept { return hazards().garbage_bytes(); }
std::uint64_t hazards_garbage_bound(std::size_t threads) noexcept {
  return hazards().garbage_bound(threads).value();
}

}  // namespace spolia::core::inline SPOLIA_OF_VERSION
