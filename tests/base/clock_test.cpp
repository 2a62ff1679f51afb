// SPDX-License-Identifier: Apache-2.0
// clock_test.cpp: what timestamp_clock promises, for each clock, alone and between threads.
#include <spolia/base/clock.hpp>

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include <spolia/base/processors.hpp>

#include "support/one_processor.hpp"

namespace {

using namespace spolia;

constexpr std::uint64_t no_commit_yet = std::numeric_limits<std::uint64_t>::max();

/// What other threads have shown of their timestamps: read before, published after.
class notice_board {
 public:
  std::uint64_t highest() const { return highest_.load(std::memory_order_acquire); }
  void post(std::uint64_t t) {
    std::uint64_t old = highest_.load(std::memory_order_relaxed);
    while (old < t && !highest_.compare_exchange_weak(old, t, std::memory_order_acq_rel)) {
    }
  }

 private:
  std::atomic<std::uint64_t> highest_{0};
};

template <class Clock>
void check_between_threads(Clock& clock, int rounds) {
  notice_board taken;   // everything that now() and tick() returned
  notice_board passed;  // what was posted after pass() of it
  const auto body = [&] {
    for (int i = 0; i < rounds; ++i) {
      const std::uint64_t seen = taken.highest();
      const std::uint64_t behind_us = passed.highest();
      const std::uint64_t now = clock.now();
      ASSERT_GT(now, behind_us);
      ASSERT_GE(now + clock.bound(), seen);
      taken.post(now);
      const std::uint64_t all_before = taken.highest();
      const std::uint64_t mine = clock.tick();
      ASSERT_GT(mine, all_before);
      ASSERT_LE(mine, largest_timestamp);
      taken.post(mine);
      const std::uint64_t snapshot = clock.now();
      clock.pass(snapshot);
      passed.post(snapshot);
    }
  };
  std::vector<std::thread> crowd;
  for (int i = 0; i < 4; ++i) crowd.emplace_back(body);
  for (auto& t : crowd) t.join();
}

TEST(LogicalClock, CountsFromItsFirstValue) {
  logical_clock clock(41);
  EXPECT_EQ(clock.now(), 41U);
  EXPECT_EQ(clock.tick(), 42U);
  EXPECT_EQ(clock.now(), 42U);
  clock.pass(42);
  EXPECT_EQ(clock.now(), 43U);
}

TEST(LogicalClock, TellsItsOwnStepsFromThoseOfACrowd) {
  logical_clock clock;
  constexpr int threads = 2;
  constexpr int tries = 20000;
  std::vector<std::vector<std::uint64_t>> own(threads);
  {
    std::vector<std::jthread> all;
    for (auto& mine : own) {
      all.emplace_back([&] {
        for (int i = 0; i < tries; ++i) {
          const std::uint64_t t = clock.tick_alone();
          mine.push_back(t);
          if (t == 0) clock.tick();
        }
      });
    }
  }
  std::set<std::uint64_t> seen;
  for (const auto& mine : own) {
    for (const std::uint64_t t : mine) {
      EXPECT_TRUE(t == 0 || seen.insert(t).second) << t << " was two threads' own";
    }
  }
  EXPECT_FALSE(seen.empty());
}

TEST(LogicalClock, PassingWhatHasPassedChangesNothing) {
  logical_clock clock;
  const std::uint64_t old = clock.now();
  clock.tick();
  clock.tick();
  const std::uint64_t now = clock.now();
  clock.pass(old);
  EXPECT_EQ(clock.now(), now);
}

TEST(LogicalClock, KeepsItsPromisesBetweenThreads) {
  logical_clock clock;
  constexpr int rounds = 20000;
  check_between_threads(clock, rounds);
  EXPECT_LE(clock.now(), 1U + 4U * 2U * rounds) << "more increments than calls";
}

TEST(LogicalClock, ComparesExactly) {
  EXPECT_EQ(logical_clock::compare(1, 2), time_order::less);
  EXPECT_EQ(logical_clock::compare(2, 1), time_order::greater);
  EXPECT_EQ(logical_clock::compare(2, 2), time_order::uncertain);
  EXPECT_TRUE(logical_clock::after(2, 1));
  EXPECT_FALSE(logical_clock::after(2, 2));
}

TEST(HardwareClock, IsTrustedOrSaysWhyNot) {
  EXPECT_EQ(hardware_clock::trusted(), hardware_clock::reason().empty());
  if (hardware_clock::trusted()) {
    EXPECT_GE(core::counters_compared().cpus, 1U);
    EXPECT_LT(static_cast<double>(hardware_clock().bound()) * core::ns_per_tick(), 10e3);
  }
  EXPECT_EQ(&core::counters_compared(), &core::counters_compared());
}

TEST(HardwareClock, MeasuringLeavesTheCallerWhereItMayRun) {
  cpu_set_t before;
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const hardware_clock clock;
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(HardwareClock, KeepsItsPromisesBetweenThreadsIfTrusted) {
  hardware_clock clock;
  if (hardware_clock::trusted()) check_between_threads(clock, 5000);
}

TEST(HardwareClock, TickAndPassWaitOutTheBound) {
  std::thread([] {
    const test::one_processor here;
    hardware_clock clock;
    for (int i = 0; i < 100; ++i) {
      const std::uint64_t before = clock.now();
      EXPECT_TRUE(clock.after(clock.tick(), before));
      const std::uint64_t snapshot = clock.now();
      clock.pass(snapshot);
      EXPECT_TRUE(clock.after(clock.now(), snapshot));
    }
  }).join();
}

TEST(HardwareClock, DoesNotOrderWhatIsTooClose) {
  const hardware_clock clock;
  const std::uint64_t b = clock.bound();
  const std::uint64_t t = clock.now();
  EXPECT_EQ(clock.compare(t, t), time_order::uncertain);
  EXPECT_EQ(clock.compare(t, t + b), time_order::uncertain);
  EXPECT_EQ(clock.compare(t + b, t), time_order::uncertain);
  EXPECT_EQ(clock.compare(t, t + b + 1), time_order::less);
  EXPECT_EQ(clock.compare(t + b + 1, t), time_order::greater);
  EXPECT_FALSE(clock.after(t + b, t));
  EXPECT_TRUE(clock.after(t + b + 1, t));
}

TEST(HardwareClock, TheMarkOfTheUncommittedStaysNewest) {
  const hardware_clock clock;
  EXPECT_TRUE(clock.after(no_commit_yet, clock.now()));
  EXPECT_FALSE(clock.after(clock.now(), no_commit_yet));
  EXPECT_FALSE(clock.after(0, clock.now()));
  EXPECT_EQ(clock.compare(no_commit_yet, clock.now()), time_order::greater);
}

TEST(OffsetBound, CoversEveryPairOfSkewedProcessors) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 500; ++round) {
    std::uniform_int_distribution<std::int64_t> skew(-5000, 5000);
    std::uniform_int_distribution<std::int64_t> flight(20, 300);
    const auto count = static_cast<std::uint32_t>(random() % 6);
    std::vector<std::int64_t> offset{0};
    std::vector<std::int64_t> to;
    std::vector<std::int64_t> from;
    for (std::uint32_t i = 0; i < count; ++i) {
      offset.push_back(skew(random));
      to.push_back(offset.back() + flight(random));
      from.push_back(-offset.back() + flight(random));
    }
    const auto [low, high] = std::minmax_element(offset.begin(), offset.end());
    const auto widest = static_cast<std::uint64_t>(*high - *low);
    const std::uint64_t bound = core::offset_bound(to.data(), from.data(), count);
    EXPECT_GE(bound, widest);
    EXPECT_LE(bound, widest + 2 * 300);
  }
}

TEST(OffsetBound, TwoProcessorsGiveTheLargerDirection) {
  const std::int64_t to = 100;
  const std::int64_t from = 260;
  EXPECT_EQ(core::offset_bound(&to, &from, 1), 260U);
  EXPECT_EQ(core::offset_bound(&from, &to, 1), 260U);
  EXPECT_EQ(core::offset_bound(nullptr, nullptr, 0), 0U);
}

TEST(SelectedClock, GivesWhatWasAskedForIfItCan) {
  EXPECT_EQ(selected_clock(clock_kind::logical).kind(), clock_kind::logical);
  EXPECT_EQ(selected_clock(clock_kind::hardware).kind() == clock_kind::hardware,
            hardware_clock::trusted());
}

TEST(SelectedClock, KeepsItsPromisesBetweenThreads) {
  for (const clock_kind kind : {clock_kind::logical, clock_kind::hardware}) {
    selected_clock clock(kind);
    check_between_threads(clock, 5000);
    EXPECT_EQ(clock.compare(5, 5 + clock.bound()), time_order::uncertain);
    EXPECT_TRUE(clock.after(6 + clock.bound(), 5));
  }
}

TEST(Ticks, AreAsLongAsTheySay) {
  using std::chrono::steady_clock;
  const auto before = steady_clock::now();
  const std::uint64_t first = ticks::read_in_order();
  const auto start = steady_clock::now();
  while (steady_clock::now() - start < std::chrono::milliseconds(20)) cpu_relax();
  const auto end = steady_clock::now();
  const std::uint64_t last = ticks::read_in_order();
  const auto after = steady_clock::now();
  // Between two readings of the clock on either side, between which we may have been interrupted.
  const auto ns = [](auto time) { return std::chrono::duration<double, std::nano>(time).count(); };
  const double counted = static_cast<double>(last - first) * core::ns_per_tick();
  EXPECT_LE(counted, ns(after - before) * 1.01);
  EXPECT_GE(counted, ns(end - start) * 0.99);
}

TEST(Processors, AreThoseThatTheProcessMayUse) {
  const std::uint32_t all = processors();
  EXPECT_GE(all, 1U);
  std::thread([all] {
    const test::one_processor here;
    EXPECT_EQ(processors(), all);  // others may use them
  }).join();
  {
    const test::one_processor here;
    EXPECT_EQ(processors(), 1U);
    std::thread([] { EXPECT_EQ(processors(), 1U); }).join();
  }
  EXPECT_EQ(processors(), all);
}

TEST(Processors, AreAllComparedOrTheClockIsNotTrusted) {
  const std::array<std::uint32_t, 4> compared{0, 1, 2, 8};
  const auto all_in = [&](std::string_view list, std::uint32_t count = 4) {
    return core::all_among(list, compared.data(), count);
  };
  for (const auto* const list : {"0\n", "0-2,8\n", "8", "0,1,2\n", "1-2"}) {
    EXPECT_TRUE(all_in(list)) << list;
  }
  EXPECT_FALSE(all_in("0-2,8", 3));  // as many as a count would say, but not those
  // What may come, what is no list, and what cannot be read.
  for (const auto* const list : {"0-3", "0-2,9\n", "0-8", "", "x", "0-", "0,,1", "2-1", "0;1",
                                 "0-4294967295", "99999999999"}) {
    EXPECT_FALSE(all_in(list)) << list;
  }
}

}  // namespace
