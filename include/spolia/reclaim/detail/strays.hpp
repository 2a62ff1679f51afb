// SPDX-License-Identifier: Apache-2.0
// strays.hpp: blocks that are in no thread's cell.
//
// Retiring must not fail, also on a thread's first call when memory is short. Such blocks go into
// one list for all threads, and the next thread that retires something takes them along. Another
// such list takes what threads hand over to a barrier (outside.hpp).
#pragma once

#include <cstddef>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/reclaim/limbo.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// A lock for a few instructions that run next to never. No code of the user runs under it.
class rare_lock {
 public:
  void lock() noexcept {
    backoff pause;
    // acquire ← the release in unlock(): we see what the last owner did.
    while (held_.exchange_acquire(true)) pause.pause();
  }
  void unlock() noexcept {
    // release → the acquire in lock().
    held_.store_release(false);
  }
  /// In a fork's child, where no other thread is left: was it held by one that vanished?
  bool break_open() noexcept {
    const bool held = held_.load_relaxed();
    held_.store_relaxed(false);
    return held;
  }

 private:
  atomic<bool> held_{false};
};

class strays {
 public:
  void put(retired* block) noexcept {
    lock_.lock();
    list_.push(block);
    some_.store_relaxed(true);
    lock_.unlock();
  }

  void put(limbo& blocks) noexcept {
    lock_.lock();
    list_.append(blocks);
    some_.store_relaxed(true);
    lock_.unlock();
  }

  /// Cheap: for every retirement.
  bool some() const noexcept { return some_.load_relaxed(); }

  void take(limbo& all) noexcept {
    lock_.lock();
    all.append(list_);
    some_.store_relaxed(false);
    lock_.unlock();
  }

  /// f(list), in a fork's child.
  template <class F>
  void lists(F&& f) {
    f(list_);
  }
  /// In a fork's child: the list may be half-written.
  void forked() noexcept {
    if (!lock_.break_open()) return;
    list_.forget();
    some_.store_relaxed(false);
  }

 private:
  rare_lock lock_;
  limbo list_;
  atomic<bool> some_{false};
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
