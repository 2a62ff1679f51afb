// SPDX-License-Identifier: Apache-2.0
// live.cpp: the process's one set of slots in which threads name the live values that they read.
#include <spolia/base/made_once.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/detail/reading_slots.hpp>

namespace spolia::core {
namespace {

using detail::reclaim::reading_slots;

reading_slots& slots() noexcept {
  static constinit made_once<reading_slots> it;
  return it.get();
}

}  // namespace

void* all_readings() noexcept { return &slots(); }

void* join_readings() {
  auto& mine = slots().of(threads::number());
  mine.os_thread.set(threads::os_id());
  here.readings = &mine;
  return &mine;
}

}  // namespace spolia::core
