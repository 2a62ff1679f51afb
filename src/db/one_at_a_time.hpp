// SPDX-License-Identifier: Apache-2.0
// one_at_a_time.hpp: what one thread at a time does, and others go on without. Internal.
#pragma once

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// The right to do it, unless another thread has it.
class one_at_a_time {
 public:
  explicit one_at_a_time(atomic<bool>& busy) noexcept : busy_(busy), mine_(taken(busy)) {}
  /// Waits until it has it.
  one_at_a_time(atomic<bool>& busy, backoff waiting) noexcept : busy_(busy), mine_(true) {
    while (!taken(busy)) waiting.pause();
  }
  one_at_a_time(const one_at_a_time&) = delete;
  one_at_a_time& operator=(const one_at_a_time&) = delete;
  ~one_at_a_time() {
    if (mine_) busy_.store_release(false);  // → the acquire below
  }
  explicit operator bool() const noexcept { return mine_; }

 private:
  static bool taken(atomic<bool>& busy) noexcept {
    // acquire ← the release above: what the last one has done.
    return !busy.load_relaxed() && !busy.exchange_acquire(true);
  }

  atomic<bool>& busy_;
  const bool mine_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
