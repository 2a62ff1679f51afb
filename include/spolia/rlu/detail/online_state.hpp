// SPDX-License-Identifier: Apache-2.0
// online_state.hpp: what lets a collector do without a scan of the census: a fast-path check, which
// costs a full fence and a load for each thread, where a scan interrupts all of them.
//
// Source:      none. Quiescence, as of epochs, by the times that sections announce anyway.
// Idea:        a scan needs a heavy fence because there may be announcements that no other thread
//              sees yet. But a thread that is seen in a section of time s has ended all its
//              sections before, and begins none below s any more. A thread that is between two
//              sections says nothing by that, and one that sleeps in a section says nothing new.
//              So a thread that gives its processor away, or is found unchanged by several scans in
//              a row, is offline: before its next section it comes online, by announcing its time
//              once more.
//
//     check:    limit := clock;  full fence;  of each other thread its stamp, if it is in a
//               section: these are the sections found. What is known is the least of `limit` and
//               the times of threads that are online, and nothing if one of these is in no section
//     section:  announces its time;  light fence;  called?  then come online:
//               nothing to do any more;  full fence;  announces its time again;  called?
//     call:     called := true;  heavy fence;  offline, unless it has come online
//
// Why no section is missed. Take a section whose time is below what a check knows, and which it has
// not found.
//   Its thread was online. Then the check has seen a stamp of it, of an earlier section or of a
//     later one. Clocks do not go back for a thread, so later ones have no less, and what is known
//     is not above it; earlier ones have ended, and happen before the check, by the stamp's
//     release.
//   Its thread was offline, and the section has begun before it was. Then the check has seen the
//     section's stamp or its end: the thread has said itself that it is offline, after its end, or
//     a call's heavy fence came in between. Had the section begun without seeing the call, its
//     light fence would come first, and what follows the call sees the stamp.
//   Its thread was offline, and has come online for the section, after the check has seen it
//     offline. Then its full fence comes after the check's, so its clock, read again, says `limit`
//     or more.
//   - Without the second announcement, the thread goes on at a time that it read before it was
//     offline.
//   - Without the heavy fence, a thread is offline whose section no other thread sees yet.
// For clocks that do not advance alone: others announce what is open first.
#pragma once

#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu::detail {

/// Of one thread: what it does before its next section or sweep. At first it asks, and is offline.
class online_state {
 public:
  // -- the thread

  /// After the fence of an announcement, or of a sweep.
  [[nodiscard]] SPOLIA_ALWAYS_INLINE bool is_called() const noexcept {
    return to_do_.load_relaxed() != 0;
  }
  /// True if it has to end another thread's exclusive mode, too (exclusive_mode.hpp). A section
  /// announces its time again.
  bool come_online() noexcept {
    // acquire ← the release in call: with the question comes the thread that asks it. release →
    // the acquire in is_offline: the slot.
    const std::uint32_t before = to_do_.exchange_acq_rel(0);
    const bool asks = (before & asks_) != 0 &&
                      !(SPOLIA_FAULT("rlu.comes_and_does_not_ask") && (before & called_) != 0);
    if (!SPOLIA_FAULT("rlu.comes_online_unfenced")) fence::full();  // ↔ the one in fast_check
    return asks;
  }
  /// Between two sections, or of a thread that was lost. release → the acquire in is_offline: the
  /// sections before.
  void go_offline() noexcept {
    if ((to_do_.load_relaxed() & offline_) == 0) to_do_.fetch_or_release(offline_);
  }

  // -- others

  /// With the busy flag of `exclusive_mode`: so between the two no other thread calls.
  void call() noexcept { to_do_.fetch_or_release(called_); }
  /// The same, of one that is to end another thread's exclusive mode, too.
  void call_to_ask() noexcept { to_do_.fetch_or_release(asks_); }
  /// Of one that has been called, after a heavy fence.
  void found_offline() noexcept {
    std::uint32_t called = to_do_.load_relaxed();
    if ((called & (called_ | asks_)) == 0) return;         // it is online
    to_do_.cas_strong_release(called, called | offline_);  // release → the acquire in is_offline
  }
  [[nodiscard]] bool is_asking() const noexcept { return (to_do_.load_relaxed() & asks_) != 0; }
  /// acquire ← the releases above. A thread that is online has been here, and has a slot.
  [[nodiscard]] bool is_offline() const noexcept { return (to_do_.load_acquire() & offline_) != 0; }

  // With the busy flag:
  std::uint64_t seen = 0;   // its stamp, at the last scan
  std::uint32_t still = 0;  // scans in a row that have seen the same

 private:
  static constexpr std::uint32_t called_ = 1;
  static constexpr std::uint32_t asks_ = 2;
  static constexpr std::uint32_t offline_ = 4;
  atomic<std::uint32_t> to_do_{asks_ | offline_};
};

}  // namespace rlu::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
