// SPDX-License-Identifier: Apache-2.0
/// \file
/// How to wait for another thread without a lock: one spin step, and bounded exponential back-off.
#pragma once

#include <cstdint>
#include <thread>

#include <spolia/base/config.hpp>
#if defined(SPOLIA_MODEL)
#include <spolia/model/hooks.hpp>
#endif

namespace spolia::inline SPOLIA_FLAVOUR {

/// One step of a loop that waits until another thread changes something. Every such loop must call
/// it (or backoff::pause) in each round: the model checker parks the thread here until some other
/// thread has stored something, and reports a deadlock when all of them are parked. A loop that
/// retries because it lost a race (a failed compare-and-swap) need not call it.
SPOLIA_ALWAYS_INLINE void spin_wait() noexcept {
#if defined(SPOLIA_MODEL)
  model::spin_wait();
#else
  cpu_relax();
#endif
}

/// Back-off for one loop: doubles its pause up to a bound, then gives the processor away, so that
/// a waiting thread cannot starve the one that it waits for when there are more threads than cores.
/// Not shared between threads.
class backoff {
 public:
  void pause() noexcept {
#if defined(SPOLIA_MODEL)
    model::spin_wait();
#else
    if (spins_ > longest) {
      std::this_thread::yield();
      return;
    }
    for (std::uint32_t i = 0; i < spins_; ++i) cpu_relax();
    spins_ *= 2;
#endif
  }

  /// Starts again from the shortest pause.
  void reset() noexcept { spins_ = 1; }

 private:
  static constexpr std::uint32_t longest = 64;  // about a microsecond of `pause` on recent x86
  std::uint32_t spins_ = 1;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
