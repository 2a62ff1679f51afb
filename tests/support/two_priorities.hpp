// SPDX-License-Identifier: Apache-2.0
/// \file
/// Two threads of different real-time priorities on one processor, which use one thing. The low one
/// runs only while the high one sleeps. So if the high one waits for the low one in any other way,
/// neither ever gets on.
///
///     TEST(priorities, of_a_thing) { both_get_on<thing>(); }  // thing{}.use(thread, its n-th
///     call)
///
/// The high one comes between two instructions of the low one, thousands of times, whenever it has
/// slept a little. All this is done by a child of the process, which its alarm ends if that takes
/// too long; the system's guard of real-time threads lets no other one run in their place.
#pragma once

#include <gtest/gtest.h>

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include <spolia/base/config.hpp>

#include "support/elsewhere.hpp"
#include "support/one_processor.hpp"

namespace spolia::test {

class two_priorities {
 public:
  /// Null: it can be done here.
  static const char* why_not() {
    if (SPOLIA_TSAN) return "the thread sanitizer's own locks wait without a sleep";
    bool can = false;
    std::thread([&can] { can = set_priority(high); }).join();
    return can ? nullptr : "real-time priorities: needs CAP_SYS_NICE, or `ulimit -r` of 50";
  }

  template <class Shared>
  static int status_of_run() {
    constexpr unsigned limit = 20;  // seconds, which no machine that is only slow comes near
    return status_of_child(
        [] {
          const one_processor here;
          Shared shared;
          run(shared);
        },
        limit);
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr int low = 10;
  static constexpr int high = 50;
  static constexpr std::chrono::milliseconds time{200};

  static bool set_priority(int to) {
    sched_param p{};
    p.sched_priority = to;
    return pthread_setschedparam(pthread_self(), SCHED_FIFO, &p) == 0;
  }

  template <class Shared>
  static void run(Shared& shared) {
    std::atomic<bool> over{false};
    std::thread above([&] {
      EXPECT_TRUE(set_priority(high));
      clock::duration took{0};
      for (unsigned i = 0; !over; ++i) {
        const std::chrono::microseconds little(5 + i * 7 % 90);
        // Twice as long as it has run: another program's two threads may share the processor.
        std::this_thread::sleep_for(std::max<clock::duration>(little, 2 * took));
        const auto begin = clock::now();
        shared.use(1, i);
        took = clock::now() - begin;
      }
    });
    std::thread below([&] {
      EXPECT_TRUE(set_priority(low));
      const auto until = clock::now() + time;
      for (unsigned i = 0; i < 10 || clock::now() < until; ++i) shared.use(0, i);
      over = true;
    });
    below.join();
    above.join();
  }
};

template <class Shared>
void both_get_on() {
  if (const char* const why = two_priorities::why_not()) GTEST_SKIP() << why;
  EXPECT_EQ(two_priorities::status_of_run<Shared>(), 0)
      << "ended by its alarm if it is " << SIGALRM << ": a thread of high priority waits for ever";
}

}  // namespace spolia::test
