// SPDX-License-Identifier: Apache-2.0
/// \file
/// A disk that takes as long as it is told to.
#pragma once

#include <condition_variable>
#include <mutex>

#include "db/durable.hpp"

namespace spolia::test {

class slow_disk {
 public:
  slow_disk() {
    files->before_sync = [this] {
      std::unique_lock hold(lock_);
      ++waiting_;
      changed_.notify_all();
      changed_.wait(hold, [this] { return open_; });
      --waiting_;
    };
  }
  void stop() {
    const std::lock_guard hold(lock_);
    open_ = false;
  }
  void go_on() {
    const std::lock_guard hold(lock_);
    open_ = true;
    changed_.notify_all();
  }
  /// Until somebody waits for it.
  void meet() {
    std::unique_lock hold(lock_);
    changed_.wait(hold, [this] { return waiting_ != 0; });
  }
  const disk files = new_disk();

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  bool open_ = true;
  int waiting_ = 0;
};

}  // namespace spolia::test
