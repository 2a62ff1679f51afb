// SPDX-License-Identifier: Apache-2.0
/// \file
/// How to wait for another thread: one spin step, and a wait that ends in a sleep.
#pragma once

#include <chrono>
#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#if defined(SPOLIA_MODEL)
#include <spolia/model/hooks.hpp>
#endif

namespace spolia::core::inline SPOLIA_OF_VERSION {

/// The later rounds of a backoff, from 0: gives the processor away, or sleeps.
SPOLIA_EXPORT void give_way(std::uint32_t round) noexcept;
/// How long those before `round` have slept.
SPOLIA_EXPORT std::chrono::nanoseconds slept_in(std::uint32_t round) noexcept;
/// Sleeps so long, which is below a second. No cancellation point.
SPOLIA_EXPORT void nap(std::chrono::nanoseconds length) noexcept;

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {

/// One step of a loop that waits until another thread changes something. Every such loop must call
/// it (or backoff::pause) in each round: the model checker parks the thread here until some other
/// thread has stored something, and reports a deadlock when all of them are parked. A loop that
/// retries because it lost a race (a failed compare-and-swap) need not call it.
///
/// It neither yields nor sleeps. So it is for loops with a bound on their rounds alone: on one
/// processor the other thread does not run meanwhile. All other loops use backoff.
SPOLIA_ALWAYS_INLINE void spin_wait() noexcept {
#if defined(SPOLIA_MODEL)
  model::spin_wait();
#else
  cpu_relax();
#endif
}

/// One wait of one thread. Pauses at first, doubling them up to about a microsecond; then gives the
/// processor away, some two hundred times; then sleeps, from 20 microseconds, doubling up to a
/// millisecond. So a short wait costs no system call, a long one costs no processor and is late by
/// a millisecond at most, and every wait ends whatever the threads' priorities are: giving the
/// processor away lets no thread of a lower real-time priority run, but sleeping does.
///
/// Not shared between threads. Never throws, and is no cancellation point, so that a thread that is
/// asked to end while it waits ends where its caller expects it.
class backoff {
 public:
  void pause() noexcept {
#if defined(SPOLIA_MODEL)
    model::spin_wait();
#else
    if (rounds_ < short_ones) {
      for (std::uint32_t i = 0; i < 1U << rounds_; ++i) cpu_relax();
    } else {
      core::give_way(rounds_ - short_ones);
    }
    ++rounds_;
#endif
  }

  /// Starts again from the shortest pause.
  void reset() noexcept { rounds_ = 0; }

  /// How long it has slept at least, by no clock: code that bounds a wait by a time asks this, too,
  /// since a clock may stand. 0 in the model build variant.
  [[nodiscard]] std::chrono::nanoseconds slept() const noexcept {
#if defined(SPOLIA_MODEL)
    return {};
#else
    return core::slept_in(rounds_ < short_ones ? 0 : rounds_ - short_ones);
#endif
  }

 private:
  static constexpr std::uint32_t short_ones = 7;  // the last is of 64 pause instructions
  std::uint32_t rounds_ = 0;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
