// SPDX-License-Identifier: Apache-2.0
// courtesy.hpp: threads that share a processor change places between two operations, not within.
//
// With more threads than processors most threads are interrupted in the middle of an operation, and
// stay so for several time slices of the others. No epoch can end before each of them has run
// again: all that is retired meanwhile waits, some 25 000 blocks a thread, and is gone from the
// caches of the thread that frees it. So when an epoch is seen to be held up, threads give their
// processor away by themselves for a second: between two operations, a little before the system
// would take it in the middle of one. While they are away they are parked (biased_gate.hpp): no
// round asks for them, and the token is not with them. Where no other thread wants the processor
// that costs one system call in 300 microseconds.
//
// Threads that do not give the processor back so soon, of other programs or of other parts of this
// one, take what we give, and whole time slices instead of turns. A thread of ours that was away
// for longer than the turns of our own threads take has met one of these. When that happens most
// times, we stop yielding at once, for a second at first and for twice as long each time, about a
// minute at most.
// One interruption makes all late that share a processor, and at the beginning some have run more
// than others and wait for these to catch up. So it takes several such turns of each thread, and
// some time more than the turns is forgiven: less than a time slice, or two slices where turns are
// worth that (rlu/options.hpp).
//
// A thread that was interrupted all the same would wait for the turns of all others. So a thread
// that sees that an epoch is held up can end its own turn at once, one time for that epoch.
//
// Only a hint to the system's scheduler: nothing here matters to safety. A reader that stalls for
// good calls for one such second, not for more.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <thread>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/passed.hpp>
#include <spolia/base/processors.hpp>
#include <spolia/reclaim/detail/pins.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// Shared by the threads of a domain. Relaxed words: what they say may be late or lost.
class courtesy {
 public:
  /// One thread's part.
  struct turn {
    std::int64_t began_ns = 0;  // when it was last seen to begin anew
    std::uint64_t epoch = 0;    // at its last look
    std::uint64_t hurried = 0;  // the last epoch for whose sake its turn ended early
    std::uint32_t futile = 0;  // how often in a row it gave way while much was held up, for nothing
    tally given;
  };

  /// `forgiven_us`: how much longer than the turns of others a thread may be away.
  explicit courtesy(std::uint32_t turn_us, std::uint32_t forgiven_us = 750) noexcept
      : turn_ns_(std::int64_t{1000} * turn_us),
        forgiven_ns_(std::int64_t{1000} * forgiven_us),
        processors_(processors()) {}

  /// Every few dozen operations, between two of them: is it time to give the processor away?
  bool is_due(const turn& mine) noexcept {
#if defined(SPOLIA_MODEL)  // which knows no time: always, where scenarios ask for the shortest
    static_cast<void>(mine);
    return turn_ns_ == 1000;
#else
    const std::int64_t until = until_ns_.load_relaxed();
    if (until == 0) [[likely]]
      return false;
    const std::int64_t now = pin_watch::now_ns();
    if (is_over(now, until, period_ns)) {
      until_ns_.store_relaxed(0);
      pause_ns_.store_relaxed(period_ns);  // all went well
      return false;
    }
    return has_passed(now, mine.began_ns, turn_ns_);
#endif
  }

  /// The same when `epoch` is seen to be held up, by a thread that may wait for this processor: at
  /// once while all are courteous, but one time only, since it may as well sleep. Later epochs have
  /// higher numbers.
  bool is_due_early(turn& mine, std::uint64_t epoch) noexcept {
    if (epoch <= mine.hurried || until_ns_.load_relaxed() == 0) return false;
    mine.hurried = epoch;
    return true;
  }

  /// `threads`: how many may share the processors with this one, at most.
  void give(turn& mine, [[maybe_unused]] std::uint32_t threads) noexcept {
    mine.given.add(1);
#if !defined(SPOLIA_MODEL)  // whose threads give way at every step
    const std::int64_t left = pin_watch::now_ns();
    std::this_thread::yield();
    mine.began_ns = pin_watch::now_ns();
    was_away(mine.began_ns, mine.began_ns - left, threads);
#endif
  }

  /// Much is held up, mostly because a thread was interrupted in the middle of an operation, and
  /// waits for a processor. So this thread yields its own, and calls again(), a few times at most,
  /// in any period. That does not help against a thread that sleeps in the middle of an operation:
  /// then it is tried less and less often.
  template <class HeldUp, class Again>
  void give_way_while(turn& mine, HeldUp&& is_held_up, Again&& again) const noexcept {
    constexpr std::uint32_t most = 8;
    for (std::uint32_t left = most >> mine.futile; left != 0 && is_held_up(); --left) {
      if (turn_ns_ == 0) return;
#if !defined(SPOLIA_MODEL)  // whose threads give way at every step
      std::this_thread::yield();
#endif
      again();
    }
    mine.futile = is_held_up() ? (std::min)(mine.futile + 1, 4U) : 0;
  }

  /// Judges one turn: how long its thread was away.
  void was_away(std::int64_t now, std::int64_t away_ns, std::uint32_t threads) noexcept {
    const std::int64_t others = threads / processors_ + 1;
    const bool strangers = away_ns > others * turn_ns_ * 5 / 4 + forgiven_ns_;
    const std::int32_t met = strangers_.load_relaxed() + (strangers ? 1 : -1);
    const auto too_many = (std::max)(least_too_many, 4 * static_cast<std::int32_t>(threads));
    strangers_.store_relaxed(std::clamp(met, 0, too_many));
    if (met < too_many) return;
    strangers_.store_relaxed(0);
    until_ns_.store_relaxed(0);
    const std::int64_t pause = pause_ns_.load_relaxed();
    not_before_ns_.store_relaxed(now + pause);
    pause_ns_.store_relaxed((std::min)(2 * pause, longest_pause_ns));
  }

  /// Every two thousand operations or so, while `waiting` of this thread's blocks wait: is the
  /// epoch held up? Then all are courteous for a second; once for each epoch.
  void watch(turn& mine, std::uint64_t epoch, std::size_t waiting) noexcept {
#if defined(SPOLIA_MODEL)
    static_cast<void>(mine), static_cast<void>(epoch), static_cast<void>(waiting);
#else
    const bool held_up = mine.epoch == epoch && waiting >= many && turn_ns_ != 0;
    mine.epoch = epoch;
    if (!held_up || blamed_.load_relaxed() == epoch) return;
    blamed_.store_relaxed(epoch);
    const std::int64_t now = pin_watch::now_ns();
    if (is_over(now, not_before_ns_.load_relaxed(), longest_pause_ns))
      until_ns_.store_relaxed(now + period_ns);
#endif
  }

 private:
  static constexpr std::size_t many = 2048;
  static constexpr std::int64_t period_ns = 1'000'000'000;
  static constexpr std::int64_t longest_pause_ns = 64 * period_ns;
  static constexpr std::int32_t least_too_many = 8;  // strangers met, less the turns without one

  const std::int64_t turn_ns_;
  const std::int64_t forgiven_ns_;
  const std::uint32_t processors_;
  atomic<std::int64_t> until_ns_{0};          // be courteous until then; 0: not now
  atomic<std::int64_t> not_before_ns_{0};     // and not again before
  atomic<std::int64_t> pause_ns_{period_ns};  // next time there are too many strangers
  atomic<std::int32_t> strangers_{0};
  atomic<std::uint64_t> blamed_{~0U};  // the last epoch that was found to be held up
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
