// SPDX-License-Identifier: Apache-2.0
// courtesy.hpp: threads that share a processor change places between two operations, not within.
//
// With more threads than processors most threads are interrupted in the middle of an operation, and
// stay so for several time slices of the others. No epoch can end before each of them has run
// again: all that is retired meanwhile waits, some 25 000 blocks a thread, and whoever frees it
// finds it gone from its caches. So when an epoch is seen to be held up, threads give their
// processor away by themselves for a second: between two operations, a little before the system
// would take it in the middle of one. While they are away they are parked (biased_gate.hpp): no
// round asks for them, and the token is not with them. Where nobody else wants the processor that
// costs one system call in 300 microseconds.
//
// Only a hint to the system's scheduler: nothing here matters to safety. A reader that stalls for
// good calls for one such second, not for more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <thread>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/reclaim/pins.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

/// Shared by the threads of a domain. Two relaxed words: what they say may be late or lost.
class courtesy {
 public:
  /// One thread's part.
  struct turn {
    std::int64_t began_ns = 0;  // when it was last seen to begin anew
    std::uint64_t epoch = 0;    // at its last look
    tally given;
  };

  explicit courtesy(std::uint32_t turn_us) noexcept : turn_ns_(std::int64_t{1000} * turn_us) {}

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
    if (now >= until) until_ns_.store_relaxed(0);
    return now < until && now - mine.began_ns >= turn_ns_;
#endif
  }

  void give(turn& mine) noexcept {
    mine.given.add(1);
#if !defined(SPOLIA_MODEL)  // whose threads give way at every step
    std::this_thread::yield();
    mine.began_ns = pin_watch::now_ns();
#endif
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
    until_ns_.store_relaxed(pin_watch::now_ns() + period_ns);
#endif
  }

 private:
  static constexpr std::size_t many = 2048;
  static constexpr std::int64_t period_ns = 1'000'000'000;

  const std::int64_t turn_ns_;
  atomic<std::int64_t> until_ns_{0};   // be courteous until then; 0: not now
  atomic<std::uint64_t> blamed_{~0U};  // the last epoch that was found to be held up
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
