// SPDX-License-Identifier: Apache-2.0
// turns.hpp: work that one thread does at a time: the others wait for their turn, or leave it to
// the thread that is at it.
//
// Fork:        both hold the identity of the thread that has the turn (threads.hpp). One that was
//              lost in a fork has none any more: the next thread takes it, and is told so.
#pragma once

#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/threads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// A lock that code of the user may run under. Waiting ends in a sleep.
class turn {
 public:
  void enter(std::uint64_t self) noexcept {
    backoff wait;
    for (;;) {
      std::uint64_t seen = holder_.load_relaxed();
      // acquire ← the release in leave(): what the thread before us did. What a lost one did is
      // here since the fork.
      if ((seen == 0 || threads::lost(seen)) && holder_.cas_strong_acquire(seen, self)) return;
      wait.pause();
    }
  }
  void leave() noexcept {
    // release → the acquire in enter().
    SPOLIA_FAULT("live.leave_relaxed") ? holder_.store_relaxed(0) : holder_.store_release(0);
  }
  /// Whether this thread has it.
  [[nodiscard]] bool is(std::uint64_t self) const noexcept {
    return holder_.load_relaxed() == self;
  }

 private:
  atomic<std::uint64_t> holder_{0};
};

/// The same for work that a thread may leave to the one that is at it, which does it once more.
class shared_work {
 public:
  enum class begun : std::uint8_t { left_to_another, yes, after_a_lost_thread };

  /// Begins, or asks the thread that is at it to do it once more.
  begun begin_or_ask(std::uint64_t self) noexcept {
    std::uint64_t seen = worker_.load_relaxed();
    for (;;) {
      const begun found = state_of(seen);
      const std::uint64_t next = found != begun::left_to_another ? self
                                 : SPOLIA_FAULT("live.no_ask")   ? seen
                                                                 : seen | asked;
      // release → the acquire in end(): what we leave is seen by the thread that does it. acquire ←
      // the release in end(): we see what the last one did.
      if (worker_.cas_weak_acq_rel(seen, next)) return found;
    }
  }
  /// Begins, after the thread that is at it.
  begun wait_and_begin(std::uint64_t self) noexcept {
    backoff wait;
    for (;;) {
      std::uint64_t seen = worker_.load_relaxed();
      const begun found = state_of(seen);
      // acquire ← the release in end(), as above.
      if (found != begun::left_to_another && worker_.cas_strong_acquire(seen, self)) return found;
      wait.pause();
    }
  }
  /// True: it is over. False: another thread has asked meanwhile, and this one does it once more.
  bool end(std::uint64_t self) noexcept {
    std::uint64_t seen = self;
    // release → the acquires in begin_or_ask() and wait_and_begin().
    if (worker_.cas_strong_release(seen, 0)) return true;
    // acquire ← the release in begin_or_ask(): we see what the thread left that has asked.
    worker_.exchange_acquire(self);
    return false;
  }

 private:
  static constexpr std::uint64_t asked = std::uint64_t{1} << 31U;  // above all threads' numbers

  static begun state_of(std::uint64_t word) noexcept {
    if (word == 0) return begun::yes;
    return threads::lost(word & ~asked) ? begun::after_a_lost_thread : begun::left_to_another;
  }

  atomic<std::uint64_t> worker_{0};
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
