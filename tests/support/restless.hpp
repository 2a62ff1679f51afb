// SPDX-License-Identifier: Apache-2.0
/// \file
/// A thread that changes something all the time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>

namespace spolia::test {

/// Calls change(0), change(1) and so on, two thousand times a second, until it goes.
class restless {
 public:
  template <class Change>
  explicit restless(Change change)
      : changer_([this, change = std::move(change)] {
          for (std::size_t i = 0; !stop_.load(std::memory_order_relaxed); ++i) {
            change(i);
            std::this_thread::sleep_for(std::chrono::microseconds(500));
          }
        }) {}
  restless(const restless&) = delete;
  restless& operator=(const restless&) = delete;
  ~restless() {
    stop_.store(true, std::memory_order_relaxed);
    changer_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread changer_;  // last: it reads the other
};

}  // namespace spolia::test
