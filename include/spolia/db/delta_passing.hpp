// SPDX-License-Identifier: Apache-2.0
// delta_passing.hpp: the part of delta_one_shot.hpp that ends turns and chooses who has the next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>

#include <spolia/base/config.hpp>
#include <spolia/db/delta_lanes.hpp>
#include <spolia/db/delta_one_shot.hpp>
#include <spolia/db/delta_partition.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Gives the lane's turn to another partition, unless somebody else has, or is at it.
inline void delta_one_shot::pass_on(delta_partition& from, unsigned lane,
                                    unsigned stripe) noexcept {
  if (!turns_.begin()) return;
  if (lanes_.current(lane, stripe) == &from) {
    delta_partition* next = nullptr;
    if (lane == 0) {
      const bool whole = turns_.over(from);
      if (!whole && turns_.on(stripe)) next = at_hand(stripe);
      if (next != nullptr) {
        next->home = stripe;
        turns_.next(*next, 0);
      } else {
        look();
        turns_.looked();
        arrange(whole);
      }
    }
    if (next == nullptr) next = &next_of(from, lane, stripe);
    lanes_.turn(lane, next, stripe);
  }
  turns_.end();
}

/// Of lane 0 many partitions are to be dropped one by one; of the others few, each whole.
inline delta_partition& delta_one_shot::next_of(delta_partition& from, unsigned lane,
                                                unsigned stripe) noexcept {
  std::uint32_t used = 0;
  delta_partition* next = choose(stripe, used);
  if (next == nullptr && lane == 0) {
    // The next one, then; or the same.
    for (std::uint32_t i = 1; i < ring_.count() && next == nullptr; ++i) {
      delta_partition& p = ring_.behind(from, i);
      if (!lanes_.has(p) && !p.full()) next = &p;
    }
  }
  if (next == nullptr) next = from.full() ? lanes_.current(0, stripe) : &from;
  if (lane == 0) {
    next->home = stripe;
    turns_.next(*next, used);
  } else {
    std::uint64_t& filled = lanes_.filled(lane);
    filled += from.used_bytes();
    next->begin_turn(delta_partition::any_number, (std::max)(options_.partition_bytes, filled / 8));
  }
  return *next;
}

/// Drops what can be dropped, and finds a free partition, or makes one. Counts those in use.
inline delta_partition* delta_one_shot::choose(unsigned stripe, std::uint32_t& used) noexcept {
  const delta_partition& from = *lanes_.current(0, stripe);
  delta_partition* found = nullptr;
  std::uint32_t free = 0;
  for (std::uint32_t i = 1; i < ring_.count(); ++i) {
    delta_partition& p = ring_.behind(from, i);
    try_drop(p);
    if (lanes_.has(p)) continue;
    if (!p.empty()) {
      ++used;
      continue;
    }
    if (found == nullptr || (p.home == stripe && found->home != stripe)) found = &p;
    const std::size_t keeps = turns_.chunks_of_free(++free);
    if (p.chunks() > keeps && p.lock_if_empty()) {
      p.shrink(keeps);
      p.unlock();
    }
  }
  return found != nullptr || ring_.count() >= options_.most_partitions ? found : more();
}

inline delta_partition* delta_one_shot::more() noexcept {
  try {
    return ring_.add(memory_);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

/// A partition to go on with for now, without a look at what others could go: a free one that this
/// stripe has had before, with its memory; or without; or a new one.
inline delta_partition* delta_one_shot::at_hand(unsigned stripe) noexcept {
  const delta_partition& from = *lanes_.current(0, stripe);
  delta_partition* cold = nullptr;
  for (std::uint32_t i = 1; i < ring_.count(); ++i) {
    delta_partition& p = ring_.behind(from, i);
    if (!p.empty() || lanes_.has(p)) continue;
    if (p.home == stripe && p.chunks() != 0) return &p;
    if (p.chunks() == 0) cold = &p;
  }
  return cold == nullptr && ring_.count() < turns_.most_at_hand() ? more() : cold;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
