// SPDX-License-Identifier: Apache-2.0
// online_state.hpp: whether a thread is online, which lets a collector do without a scan of the
// census. In place of a scan, which interrupts all threads, it makes a fast-path check: a full
// fence and a load for each thread.
//
// Source:      none. Quiescence, as with epochs, told by the times that sections announce anyway.
// Idea:        a scan needs a heavy fence because there may be announcements that no other thread
//              sees yet. But a thread that is seen in a section of time s has ended all its earlier
//              sections, and begins no more sections below s. Nothing follows from a thread that is
//              between two sections, and nothing new from one that sleeps in a section. So a thread
//              that gives its processor away, or that several scans in a row find unchanged, is
//              offline. Before its next section it comes online, by announcing its time once more.
//
//     check:    limit := clock;  full fence;  reads the stamp of each other thread that is in a
//               section: these are the sections found. All sections are known below `limit` and
//               below the times of the threads that are online. The check fails if one of these
//               threads is in no section
//     section:  announces its time;  light fence;  called?  then come online:
//               nothing to do any more;  full fence;  announces its time again;  called?
//     call:     called := true;  heavy fence;  offline, unless it has come online
//
// Why no section is missed. Suppose that a check has not found a section, and that the section's
// time is below what the check knows.
//   Its thread was online. Then the check has seen a stamp of the thread, of another section. If
//     that was an earlier one, our section's time is not below the stamp, since clocks do not go
//     back for a thread; and what is known is not above the stamp, so not above our section's time.
//     If it was a later one, our section has ended, and happens before the check, by the stamp's
//     release.
//   Its thread was offline, and the section had begun before. Then the check has seen the section's
//     stamp or its end. For either the thread itself has said that it is offline, after the section
//     had ended; or a call's heavy fence came in between. Had the section begun without seeing the
//     call, its light fence would come first, and what follows the call would see the stamp.
//   Its thread was offline, and came online for the section after the check had seen it offline.
//     Then its full fence comes after the check's, so its clock, read again, says `limit` or more.
//   - Without the second announcement, the thread would go on at a time that it read before it was
//     offline.
//   - Without the heavy fence, a thread could be offline whose section no other thread sees yet.
// Not for clocks that advance alone: with these, a section first announces that it is open, and its
// time only then.
#pragma once

#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu::detail {

/// One thread's state: whether it is online, and what it has to do before its next section or
/// sweep. At first it is offline and has to ask.
class online_state {
 public:
  // -- the thread

  /// Whether the thread has to come online. To be asked after the fence of an announcement, or of a
  /// sweep.
  [[nodiscard]] SPOLIA_ALWAYS_INLINE bool is_called() const noexcept {
    return to_do_.load_relaxed() != 0;
  }
  /// Makes the thread online. True if it has to end another thread's exclusive mode, too
  /// (exclusive_mode.hpp). A section announces its time again after this.
  bool come_online() noexcept {
    // acquire ← the release in call_to_ask: we see which thread has the grant. release → the
    // acquire in is_offline: another thread sees our slot.
    const std::uint32_t before = to_do_.exchange_acq_rel(0);
    const bool asks = (before & asks_) != 0 &&
                      !(SPOLIA_FAULT("rlu.comes_and_does_not_ask") && (before & called_) != 0);
    if (!SPOLIA_FAULT("rlu.comes_online_unfenced")) fence::full();  // ↔ the one in fast_check
    return asks;
  }
  /// Makes the thread offline. To be called between two sections, or for a thread that was lost.
  /// release → the acquire in is_offline: what the thread's sections have done.
  void go_offline() noexcept {
    if ((to_do_.load_relaxed() & offline_) == 0) to_do_.fetch_or_release(offline_);
  }

  // -- others

  /// Makes the thread come online before its next section. The caller holds the busy flag of
  /// `exclusive_mode` until it has also called `found_offline`: no other thread calls in between.
  void call() noexcept { to_do_.fetch_or_release(called_); }
  /// The same; the thread has to end another thread's exclusive mode, too.
  void call_to_ask() noexcept { to_do_.fetch_or_release(asks_); }
  /// Makes a thread offline that was called, unless it has come online since. To be called after a
  /// heavy fence.
  void found_offline() noexcept {
    std::uint32_t called = to_do_.load_relaxed();
    if ((called & (called_ | asks_)) == 0) return;         // it is online
    to_do_.cas_strong_release(called, called | offline_);  // release → the acquire in is_offline
  }
  [[nodiscard]] bool is_asking() const noexcept { return (to_do_.load_relaxed() & asks_) != 0; }
  /// acquire ← the releases above: a thread that is online has come online before, and has a slot.
  [[nodiscard]] bool is_offline() const noexcept { return (to_do_.load_acquire() & offline_) != 0; }

  // For the holder of the busy flag:
  std::uint64_t seen = 0;   // the thread's stamp at the last scan
  std::uint32_t still = 0;  // how many scans in a row have seen the same stamp

 private:
  static constexpr std::uint32_t called_ = 1;
  static constexpr std::uint32_t asks_ = 2;
  static constexpr std::uint32_t offline_ = 4;
  atomic<std::uint32_t> to_do_{asks_ | offline_};
};

}  // namespace rlu::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
