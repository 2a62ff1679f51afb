// SPDX-License-Identifier: Apache-2.0
// stills.hpp: moments at which all workers stand still, so that what there is can be counted as of
// one instant. Each stands between two steps of its work, and keeps the snapshots that it has.
#pragma once

#include <spolia/base/atomic.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace bench {

class stills {
 public:
  explicit stills(std::size_t workers) : working_(workers) {}

  /// By workers, between two steps.
  void step() {
    if (asked_.load_relaxed()) [[unlikely]]
      stand();
  }

  /// By a worker that takes no more steps.
  void leave() {
    const std::scoped_lock here(lock_);
    --working_;
    arrived_.notify_one();
  }

  /// Calls look() when all have come to stand.
  template <class F>
  void take(F&& look) {
    std::unique_lock here(lock_);
    // relaxed: a worker that has not seen it yet takes a step more. What stands has locked.
    asked_.store_relaxed(true);
    arrived_.wait(here, [&] { return standing_ == working_; });
    look();
    asked_.store_relaxed(false);
    standing_ = 0;
    ++round_;
    over_.notify_all();
  }

 private:
  void stand() {
    std::unique_lock here(lock_);
    if (!asked_.load_relaxed()) return;  // it was over before we came
    ++standing_;
    arrived_.notify_one();
    over_.wait(here, [&, mine = round_] { return round_ != mine; });
  }

  spolia::atomic<bool> asked_{false};
  std::mutex lock_;
  std::condition_variable arrived_;
  std::condition_variable over_;
  std::size_t working_;
  std::size_t standing_ = 0;
  std::uint64_t round_ = 0;
};

}  // namespace bench
