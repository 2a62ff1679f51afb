// SPDX-License-Identifier: Apache-2.0
// parked_mark.hpp: a thread that has run no operations for long is parked, and no thread asks for
// it when a round of its scheme (an epoch, an era) is to end.
//
// The mark is set inside the thread's closed gate (biased_gate.hpp), where it finds it when it
// comes back. It then takes the mark back, and makes itself known by a read-modify-write of the
// round, as the end of each round is one. So of the two one comes first. If the thread's does,
// a thread that ends the round, or works in a later one, finds it back. If the end does, the thread
// sees all unlinkings that were known by then.
#pragma once

#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// Set from the start, until the thread comes.
class parked_mark {
 public:
  /// Inside its closed gate: until it comes back, the thread is between two operations.
  void set() noexcept {
    // release → the acquire in is_set(): its last accesses happen before.
    set_.store_release(true);
  }

  bool is_set() const noexcept {
    // acquire ← the release in set(): what it accessed before happens before us.
    return set_.load_acquire();
  }
  /// A hint, which makes nothing that the thread accessed happen before.
  bool looks_set() const noexcept { return set_.load_relaxed(); }

  /// The thread is back, and has announced its operation, if it begins one.
  void come_back(atomic<std::uint64_t>& round) noexcept {
    if (SPOLIA_FAULT("parked.stays")) return;
    set_.store_relaxed(false);
    // release → the acquire of the thread that ends the round, or a later one: it sees us. acquire
    // ← the release there: if the round was over before, we see the unlinkings that were known by
    // then.
    if (!SPOLIA_FAULT("parked.back_by_a_load")) {
      round.fetch_add_acq_rel(0);
    } else {
      static_cast<void>(round.load_acquire());  // ← the release of the end: not enough
    }
  }

  /// In a fork's child, for a thread that is gone and whose gate is open.
  void reset() noexcept { set_.store_relaxed(false); }

 private:
  /// Written by others while the gate is closed, and by the owner.
  atomic<bool> set_{true};
};

/// What epochs and token rounds say of a thread: round << 1 | inside an operation. Has it run none
/// for `park_after` rounds, not 0, so that its gate should be closed? Only a hint.
inline bool idle_for(std::uint32_t park_after, std::uint64_t announced,
                     std::uint64_t round) noexcept {
  return park_after != 0 && (announced & 1U) == 0 && (announced >> 1U) + park_after <= round;
}

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
