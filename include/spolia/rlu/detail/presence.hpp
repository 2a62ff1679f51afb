// SPDX-License-Identifier: Apache-2.0
// presence.hpp: what lets a collector do without a look at the census: a glance, which costs a full
// fence and a load for each thread, where a look interrupts all of them.
//
// Source:      none. Quiescence, as of epochs, by the times that sections announce anyway.
// Idea:        a look needs a heavy fence because of announcements that nobody sees yet. But who is
//              seen in a section of time s has ended all its sections before, and begins none below
//              s any more. Who is between two sections says nothing by that, and who sleeps in one
//              nothing new. So a thread that gives its processor away, or is found as it was by
//              several looks in a row, is away: before its next section it comes back, by
//              announcing its time once more.
//
//     glance:   limit := clock;  full fence;  of each other its stamp, if it is in a section: whom
//               it found. What is known is the least of `limit` and of their times who are not
//               away, and nothing if one of these is in no section
//     section:  announces its time;  light fence;  called?  then come back:
//               nothing to do any more;  full fence;  announces its time again;  called?
//     call:     called := true;  heavy fence;  away, unless it has come back
//
// Why no section is missed. Take a section whose time is below what a glance knows, and which it
// has not found. If its thread was not away, the glance has seen a stamp of it, that was of an
// earlier section or of a later one. Clocks do not go back for a thread, so later ones have no
// less, and what is known is not above it; earlier ones have ended, and happen before the glance,
// by the stamp's release. If it was away, either the section has begun before it was. Then the
// glance has seen its stamp or its end: the thread has said itself that it is away, after its end,
// or a call's heavy fence came in between; had the section begun without seeing the call, its light
// fence would come first, and what follows the call sees the stamp. Or the thread has come back for
// it, after the glance has seen it away. Then its full fence is behind the glance's, so its clock,
// read again, says `limit` or more.
//   - Without the second announcement, the thread goes on at a time that it read before it was
//   away.
//   - Without the heavy fence, a thread is away whose section nobody sees yet.
// For clocks that do not advance alone: others announce what is open first.
#pragma once

#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu::detail {

/// Of one thread: what it does before its next section or pass. At first it asks, and is away.
class presence {
 public:
  // -- the thread

  /// Behind the fence of an announcement, or of a pass.
  [[nodiscard]] SPOLIA_ALWAYS_INLINE bool is_called() const noexcept {
    return to_do_.load_relaxed() != 0;
  }
  /// True if it has to ask who is alone, too (alone.hpp). A section announces its time again.
  bool come_back() noexcept {
    // acquire ← the release in call: with the question comes who asks it. release → the acquire in
    // is_away: the seat.
    const std::uint32_t before = to_do_.exchange_acq_rel(0);
    const bool asks = (before & asks_) != 0 &&
                      !(SPOLIA_FAULT("rlu.comes_and_does_not_ask") && (before & called_) != 0);
    if (!SPOLIA_FAULT("rlu.comes_back_unfenced")) fence::full();  // ↔ the one in a glance
    return asks;
  }
  /// Between two sections, or of a thread that was lost. release → the acquire in is_away: the
  /// sections before.
  void go_away() noexcept {
    if ((to_do_.load_relaxed() & away_) == 0) to_do_.fetch_or_release(away_);
  }

  // -- others

  /// With the busy flag of `solitude`: so between the two nobody else calls.
  void call() noexcept { to_do_.fetch_or_release(called_); }
  /// The same, of one that is to ask who is alone, too.
  void call_to_ask() noexcept { to_do_.fetch_or_release(asks_); }
  /// Of one that has been called, behind a heavy fence.
  void found_away() noexcept {
    std::uint32_t called = to_do_.load_relaxed();
    if ((called & (called_ | asks_)) == 0) return;      // it has come back
    to_do_.cas_strong_release(called, called | away_);  // release → the acquire in is_away
  }
  [[nodiscard]] bool is_asking() const noexcept { return (to_do_.load_relaxed() & asks_) != 0; }
  /// acquire ← the releases above. If it is not away, it has been here, and has a seat.
  [[nodiscard]] bool is_away() const noexcept { return (to_do_.load_acquire() & away_) != 0; }

  // With the busy flag:
  std::uint64_t seen = 0;   // its stamp, at the last look
  std::uint32_t still = 0;  // looks in a row that have seen the same

 private:
  static constexpr std::uint32_t called_ = 1;
  static constexpr std::uint32_t asks_ = 2;
  static constexpr std::uint32_t away_ = 4;
  atomic<std::uint32_t> to_do_{asks_ | away_};
};

}  // namespace rlu::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
