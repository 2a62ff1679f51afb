// SPDX-License-Identifier: Apache-2.0
// hazard_pointer.cpp: the process's one domain of hazard pointers.
#include <spolia/hazard_pointer.hpp>

#include <cstddef>
#include <cstdint>

#include <spolia/base/made_once.hpp>
#include <spolia/reclaim/homes.hpp>

namespace spolia::core {
namespace {

using home_type = detail::hazard_home;

home_type& home() noexcept {
  static constinit made_once<home_type> it;
  return it.get();
}

}  // namespace

void* take_hazard_slot() { return &home().take(); }

void give_back_hazard_slot(void* slot) noexcept {
  home().give_back(*static_cast<home_type::slot*>(slot));
}

void retire_by_hazards(place& where) noexcept { home().retire(where); }
bool clean_up_hazards() noexcept { return home().clean_up(); }
std::uint64_t hazards_garbage() noexcept { return home().garbage(); }
std::uint64_t hazards_garbage_bound(std::size_t threads) noexcept {
  return home().garbage_bound(threads).value();
}

}  // namespace spolia::core
