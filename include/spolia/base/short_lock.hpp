// SPDX-License-Identifier: Apache-2.0
// short_lock.hpp: a lock for short work. Its holder waits for no transaction, for no user code, and
// for no input or output: so it may also be taken inside a guard.
#pragma once

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

class short_lock {
 public:
  SPOLIA_ALWAYS_INLINE void lock() noexcept {
    // acquire ← the release in unlock(): we see what the last holder did.
    if (held_.exchange_acquire(true)) [[unlikely]]
      wait();
  }
  void unlock() noexcept {
    if (SPOLIA_FAULT("short_lock.relaxed")) return held_.store_relaxed(false);
    // release → the acquire in lock().
    held_.store_release(false);
  }
  /// In a fork's child, where no other holder is left: was it held?
  bool reset() noexcept { return held_.exchange_relaxed(false); }

 private:
  SPOLIA_NOINLINE void wait() noexcept {
    backoff pause;
    do {
      while (held_.load_relaxed()) pause.pause();
      // acquire: as in lock().
    } while (held_.exchange_acquire(true));
  }

  atomic<bool> held_{false};
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
