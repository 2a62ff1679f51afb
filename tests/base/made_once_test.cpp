// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <spolia/base/made_once.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

#include "support/elsewhere.hpp"

namespace {

using spolia::made_once;
using spolia::test::status_of_child;

/// Counts how often it is made, and takes its time.
struct slow {
  slow() {
    ++begun;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ++made;
  }
  static inline std::atomic<int> begun{0};
  static inline std::atomic<int> made{0};
};

TEST(made_once, threads_that_come_at_once_find_the_same_whole_one) {
  static constinit made_once<slow> it;
  slow::begun = slow::made = 0;
  std::array<slow*, 4> found{};
  {
    std::vector<std::jthread> threads;
    for (slow*& f : found) {
      threads.emplace_back([&f] {
        f = &it.get();
        EXPECT_EQ(slow::made, 1);
      });
    }
  }
  for (const slow* f : found) EXPECT_EQ(f, found[0]);
  EXPECT_EQ(slow::begun, 1);
}

TEST(made_once, a_child_of_a_fork_never_waits_for_a_thread_that_is_not_there) {
  static constinit made_once<slow> it;
  slow::begun = slow::made = 0;
  std::atomic<bool> over{false};
  std::thread maker([&over] {
    it.get();
    over.wait(false);
  });
  while (slow::begun == 0) std::this_thread::yield();
  EXPECT_EQ(status_of_child([] {
              it.get();
              EXPECT_EQ(slow::made, 1);
            }),
            0);
  over = true;
  over.notify_one();
  maker.join();
}

struct inner {
  int value = 7;
};

TEST(made_once, what_is_made_may_ask_for_another) {
  static constinit made_once<inner> first;
  struct outer {
    int value = first.get().value + 1;
  };
  static constinit made_once<outer> second;
  EXPECT_EQ(second.get().value, 8);
  EXPECT_EQ(status_of_child([] {  // the lock was given back
              static constinit made_once<outer> third;
              EXPECT_EQ(third.get().value, 8);
            }),
            0);
}

TEST(made_once, a_constructor_that_throws_is_tried_again) {
  static int tries = 0;
  struct reluctant {
    reluctant() {
      if (++tries < 3) throw std::bad_alloc();
    }
  };
  static constinit made_once<reluctant> it;
  EXPECT_THROW(it.get(), std::bad_alloc);
  EXPECT_THROW(it.get(), std::bad_alloc);
  EXPECT_NO_THROW(it.get());
  EXPECT_NO_THROW(it.get());
  EXPECT_EQ(tries, 3);
}

}  // namespace
