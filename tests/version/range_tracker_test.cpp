// SPDX-License-Identifier: Apache-2.0
// The range tracker: what it lets go, what it keeps, how much, and when threads end.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/version/range_tracker.hpp>
#include <spolia/version/snapshot.hpp>
#include <spolia/version/timeline.hpp>

#include "support/elsewhere.hpp"
#include "support/parked_thread.hpp"
#include "support/sanitized.hpp"
#include "support/single_steps.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using spolia::tracked;

/// A tracker over ranges that stand for themselves: there is no list.
struct world {
  explicit world(range_tracker::options o = {}) : tracker(o) {}
  ~world() {
    tracker.abandon([](tracked* t) { delete t; });
  }

  auto look() {
    return [this](scan_times& found) { time.scan(found); };
  }
  auto expire() {
    return [this](tracked* t) {
      ++expired;
      --live;
      delete t;
      return true;
    };
  }
  /// A version that was current from `since` until `until`.
  void end(std::uint64_t since, std::uint64_t until) {
    auto* const t = new tracked();
    t->since.store_relaxed(since);
    const std::int64_t now = ++live;
    for (std::int64_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    auto& me = tracker.mine();
    tracker.deprecate(me, t, until);
    tracker.work(me, look(), expire());
  }
  /// The clock goes on by one, and the version of that time ends.
  void tick_and_end() {
    const std::uint64_t before = time.now();
    snapshot(time).withdraw();
    end(before, time.now());
  }
  void collect() { tracker.collect(tracker.mine(), look(), expire()); }

  timeline time;
  range_tracker tracker;
  std::atomic<std::uint64_t> expired{0};
  std::atomic<std::int64_t> live{0};
  std::atomic<std::int64_t> most{0};
};

constexpr range_tracker::options small{.batch = 8, .least_batch = 1, .steps = 6};

TEST(range_tracker, lets_go_what_no_snapshot_needs) {
  world w(small);
  for (int i = 0; i < 1000; ++i) {
    w.tick_and_end();
    ASSERT_LE(w.tracker.held(), 5U * 8);
  }
  EXPECT_GT(w.expired, 900U);
  w.collect();
  EXPECT_EQ(w.expired, 1000U);
  EXPECT_EQ(w.tracker.held(), 0U);
}

/// A thread that ends versions which no snapshot needs looks at them when there are B, and frees
/// them itself.
TEST(range_tracker, what_has_just_ended_does_not_wait_for_other_lists) {
  world w(small);
  std::uint64_t looks = 0;
  const auto look = [&](scan_times& found) {
    ++looks;
    w.time.scan(found);
  };
  auto& me = w.tracker.mine();
  std::uint64_t due = 0;
  for (int i = 0; i < 80; ++i) {
    auto* const t = new tracked();
    t->since.store_relaxed(1);
    ++w.live;
    w.tracker.deprecate(me, t, 1);
    if (!range_tracker::is_due(me)) continue;
    ++due;
    w.tracker.work(me, look, w.expire());
    ASSERT_LE(w.tracker.held(), 8U);
  }
  EXPECT_EQ(looks, 10U);    // at each eighth
  EXPECT_LE(due, 10 * 3U);  // of which two more are needed for what the look has found
  EXPECT_EQ(w.tracker.held(), 8U);
}

TEST(range_tracker, keeps_what_a_snapshot_sees_and_nothing_else) {
  world w(small);
  const std::uint64_t t0 = w.time.now();
  w.tick_and_end();
  snapshot held(w.time);
  w.end(t0, held.timestamp());                        // ended just before
  w.end(t0, held.timestamp() + 1);                    // current when the snapshot began
  w.end(held.timestamp(), held.timestamp() + 1);      // exactly then
  w.end(held.timestamp() + 1, held.timestamp() + 1);  // began after
  for (int i = 0; i < 100; ++i) w.tick_and_end();
  w.collect();
  EXPECT_EQ(w.tracker.held(), 2U);
  held.withdraw();
  w.collect();
  EXPECT_EQ(w.tracker.held(), 0U);
}

TEST(range_tracker, an_end_that_no_scan_knows_of_is_kept) {
  world w(small);
  w.end(1, w.time.now() + 5);
  w.collect();
  EXPECT_EQ(w.tracker.held(), 1U);
}

TEST(range_tracker, no_update_pays_for_a_whole_batch) {
  world w({.batch = 64, .least_batch = 1, .steps = 6});
  std::uint64_t most = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::uint64_t before = w.expired;
    w.tick_and_end();
    most = std::max(most, w.expired - before);
  }
  EXPECT_LE(most, 6U);
  EXPECT_GT(w.expired, 4500U);
}

/// Of an update that ends many versions, whose own snapshot needs them all, the next ones pay for
/// parts; and many such updates leave no more than one.
TEST(range_tracker, no_update_pays_for_a_large_one) {
  constexpr std::uint64_t b = 64;
  constexpr std::uint64_t many = 100 * b;
  world w({.batch = b, .least_batch = 1, .steps = 6});
  auto& me = w.tracker.mine();
  for (int round = 0; round < 20; ++round) {
    const std::uint64_t before = w.time.now();
    const snapshot own(w.time);
    snapshot(w.time).withdraw();
    for (std::uint64_t i = 0; i < many; ++i) {
      auto* const t = new tracked();
      t->since.store_relaxed(before);
      ++w.live;
      w.tracker.deprecate(me, t, w.time.now());
    }
    w.tracker.work(me, w.look(), w.expire());
    ASSERT_LE(w.tracker.held(), 3 * many) << round;
  }
  std::uint64_t most = 0;
  for (std::uint64_t i = 0; i < 2 * many; ++i) {
    const std::uint64_t before = w.expired;
    w.tick_and_end();
    most = std::max(most, w.expired - before);
  }
  EXPECT_LE(most, 6 + 4 * b);
  EXPECT_LE(w.tracker.held(), 5 * b);
}

/// What is needed goes round in the queue, and does not keep what is not from being found.
TEST(range_tracker, a_long_snapshot_costs_what_it_sees) {
  world w(small);
  constexpr std::uint64_t seen = 500;
  const std::uint64_t t0 = w.time.now();
  w.tick_and_end();
  const snapshot held(w.time);
  for (std::uint64_t i = 0; i < seen; ++i) w.end(t0, held.timestamp() + 1);
  for (int i = 0; i < 20000; ++i) {
    w.tick_and_end();
    ASSERT_LE(w.tracker.held(), 3 * seen + 5 * 8);
  }
}

TEST(range_tracker, threads_leave_their_lists_behind) {
  world w(small);
  std::thread([&] {
    for (int i = 0; i < 5; ++i) w.tick_and_end();
  }).join();
  EXPECT_EQ(w.tracker.held(), 5U);
  w.collect();
  EXPECT_EQ(w.tracker.held(), 0U);
}

/// What a thread has looked at and found needed when it ends, amid a list, is needed still.
TEST(range_tracker, threads_leave_behind_what_they_have_found_needed) {
  world w({.batch = 64, .least_batch = 1, .steps = 6});
  const std::uint64_t t0 = w.time.now();
  w.tick_and_end();
  w.collect();
  const snapshot held(w.time);
  std::thread([&] {
    for (int i = 0; i < 64 + 5; ++i) w.end(t0, held.timestamp() + 1);
  }).join();
  std::uint64_t seen = 0;
  w.tracker.collect(w.tracker.mine(), w.look(), w.expire(), [&](const tracked*) { ++seen; });
  EXPECT_EQ(seen, 64U + 5);
  EXPECT_EQ(w.tracker.held(), 64U + 5);
}

/// Threads that come one after the other, or a few at once, and make few updates each: no thread
/// comes to a batch of its own, or to the end of looking at it.
class short_lives : public testing::TestWithParam<std::pair<unsigned, int>> {
 protected:
  static constexpr std::uint32_t batch = 64;
  static constexpr unsigned lives = fewer > 4 ? 300 : 2000;

  /// Returns the most that was held when a thread had ended.
  static std::uint64_t run(world& w) {
    const auto [at_once, updates] = GetParam();
    std::uint64_t most = 0;
    for (unsigned n = 0; n < lives; n += at_once) {
      std::vector<std::thread> some;
      for (unsigned t = 0; t < at_once; ++t) {
        some.emplace_back([&w, u = updates] {
          for (int i = 0; i < u; ++i) w.tick_and_end();
        });
      }
      for (std::thread& t : some) t.join();
      most = std::max(most, w.tracker.held());
    }
    return most;
  }
};
INSTANTIATE_TEST_SUITE_P(lives, short_lives,
                         testing::Values(std::pair(1U, 1), std::pair(1U, 8), std::pair(1U, 40),
                                         std::pair(1U, 66), std::pair(1U, 100), std::pair(4U, 1),
                                         std::pair(4U, 40), std::pair(4U, 100)),
                         [](const auto& p) {
                           return std::to_string(p.param.first) + "_at_once_with_" +
                                  std::to_string(p.param.second) + "_updates";
                         });

TEST_P(short_lives, leave_no_more_than_the_bound) {
  world w({.batch = batch, .least_batch = 1, .steps = 6});
  EXPECT_LE(run(w), (10 * GetParam().first + 3) * batch);
  w.collect();
  EXPECT_EQ(w.tracker.held(), 0U);
  EXPECT_EQ(w.live, 0);
}

TEST_P(short_lives, keep_what_a_snapshot_sees_and_little_else) {
  constexpr unsigned needed = 500;
  world w({.batch = batch, .least_batch = 1, .steps = 6});
  const std::uint64_t t0 = w.time.now();
  w.tick_and_end();
  snapshot held(w.time, "held");
  for (unsigned i = 0; i < needed; ++i) w.end(t0, held.timestamp() + 1);
  const unsigned p = GetParam().first + 1;  // and this thread, with its list
  EXPECT_LE(run(w), 3 * needed + (10 * p + 3) * batch);
  w.collect();
  EXPECT_EQ(w.tracker.held(), needed);
  held.withdraw();
  w.collect();
  EXPECT_EQ(w.live, 0);
}

/// Many threads at one time, each with a number of its own, that end with a list of their own.
void let_a_crowd_end(world& w) {
  std::vector<std::unique_ptr<parked_thread>> crowd;
  for (int t = 0; t < 40; ++t) {
    crowd.push_back(std::make_unique<parked_thread>([&](parking_spot& spot) {
      for (int i = 0; i < 15; ++i) w.tick_and_end();
      spot.park();
    }));
  }
}

/// What many threads have left at once goes with the updates of a few that come later.
TEST(range_tracker, a_crowd_that_has_gone_is_forgotten) {
  constexpr std::uint32_t batch = 16;
  world w({.batch = batch, .least_batch = 1, .steps = 6});
  let_a_crowd_end(w);
  for (int life = 0; life < 100; ++life) std::thread([&] { w.tick_and_end(); }).join();
  EXPECT_LE(w.tracker.held(), (10 + 3) * batch);
}
/// One thread makes a look for others at each update, not only at its first.
TEST(range_tracker, a_crowd_that_has_gone_is_forgotten_by_one_thread) {
  constexpr std::uint32_t batch = 16;
  world w({.batch = batch, .least_batch = 1, .steps = 6});
  let_a_crowd_end(w);
  for (int i = 0; i < 60; ++i) w.tick_and_end();
  EXPECT_LE(w.live, (10 + 3) * batch);
}

TEST(range_tracker, idle_threads_are_collected_too) {
  world w(small);
  parked_thread idle([&](parking_spot& spot) {
    for (int i = 0; i < 5; ++i) w.tick_and_end();
    spot.park();
  });
  EXPECT_EQ(w.tracker.held(), 5U);
  w.collect();
  EXPECT_EQ(w.tracker.held(), 0U);
}

/// Parts of a look at all go on where the last one has ended.
TEST(range_tracker, looks_at_all_in_parts) {
  constexpr std::uint64_t batch = 8;
  world w(small);
  std::deque<snapshot> held;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t time = held.emplace_back(w.time).timestamp();
    w.end(time, time + 1);
  }
  w.collect();
  ASSERT_EQ(w.tracker.held(), 100U);
  held.clear();
  auto& me = w.tracker.mine();
  std::uint64_t left = w.tracker.lists();
  EXPECT_EQ(left, 100 / batch);
  std::uint64_t calls = 0;
  for (; left != 0 && calls < 100; ++calls) {
    const std::uint64_t before = w.expired;
    const auto stop = [&](std::uint64_t) { return w.expired >= before + batch; };
    w.tracker.collect_some(me, left, w.look(), w.expire(), [](const tracked*) {}, stop);
    ASSERT_GE(w.expired - before, batch);
    ASSERT_LE(w.expired - before, 2 * batch);
  }
  EXPECT_GE(calls, 100 / (2 * batch));
  EXPECT_EQ(w.tracker.held(), 0U);
}

TEST(range_tracker, a_scan_without_memory_loses_nothing) {
  world w(small);
  bool full = true;
  const auto look = [&](scan_times& found) {
    if (full) throw std::bad_alloc();
    w.time.scan(found);
  };
  auto& me = w.tracker.mine();
  for (int i = 0; i < 100; ++i) {
    auto* const t = new tracked();
    t->since.store_relaxed(1);
    w.tracker.deprecate(me, t, 1);
    w.tracker.work(me, look, w.expire());
  }
  EXPECT_EQ(w.expired, 0U);
  EXPECT_EQ(w.tracker.held(), 100U);
  full = false;
  w.tracker.collect(me, look, w.expire());
  EXPECT_EQ(w.expired, 100U);
}

TEST(range_tracker, what_cannot_go_yet_is_tried_again) {
  world w(small);
  auto& me = w.tracker.mine();
  int refusals = 3;
  const auto reluctant = [&](tracked* t) {
    if (refusals-- > 0) return false;
    delete t;
    return true;
  };
  auto* const t = new tracked();
  t->since.store_relaxed(1);
  w.tracker.deprecate(me, t, 1);
  for (int i = 0; i < 3; ++i) {
    w.tracker.collect(me, w.look(), reluctant);
    ASSERT_EQ(w.tracker.held(), 1U);
  }
  w.tracker.collect(me, w.look(), reluctant);
  EXPECT_EQ(w.tracker.held(), 0U);
}

TEST(range_tracker, numbers_that_make_no_sense_are_told) {
  EXPECT_EQ(range_tracker::what_is_wrong({}), nullptr);
  EXPECT_NE(range_tracker::what_is_wrong({.steps = 5}), nullptr);
  EXPECT_NE(range_tracker::what_is_wrong({.least_batch = 0}), nullptr);
}

/// The victim stops after each of its instructions, and a fork finds it there.
TEST(range_tracker_queue, loses_all_or_nothing_in_a_fork) {
  if (sanitized) GTEST_SKIP() << "a fork waits for locks of the sanitizer";
  if (!single_steps::possible) GTEST_SKIP() << "no trap flag";
  std::array<tracked, 3> lists;
  detail::version::list_queue queue;
  queue.push(&lists[0]);
  ASSERT_EQ(queue.put_aside(&lists[1], 1), nullptr);
  single_steps steps(0, 1);
  std::thread victim([&] { steps.run([&] { static_cast<void>(queue.put_aside(&lists[2], 8)); }); });
  constexpr int was_locked = 7;
  bool caught = false;
  for (; steps.stopped(); steps.go_on()) {
    if (HasFailure()) continue;
    const int status = status_of_child(
        [&] {
          queue.after_fork();
          int left = 0;
          for (const tracked* l = queue.take_all(); l != nullptr; l = l->next_list.read()) ++left;
          if (left == 0) _exit(was_locked);
          EXPECT_GE(left, 2) << "only some of the lists are forgotten";
        },
        20);
    if (WIFEXITED(status) && WEXITSTATUS(status) == was_locked) {
      caught = true;
    } else {
      EXPECT_EQ(status, 0);
    }
  }
  victim.join();
  EXPECT_TRUE(caught);
  int left = 0;
  for (const tracked* l = queue.take_all(); l != nullptr; l = l->next_list.read()) ++left;
  EXPECT_EQ(left, 3);
}

#if !SPOLIA_TSAN  // no threads in a forked child
/// A thread is lost amid a collection, of its own lists and of another thread's.
TEST(range_tracker, goes_on_in_a_forked_child_where_a_collection_was_lost) {
  world w(small);
  for (int i = 0; i < 5; ++i) w.tick_and_end();
  parked_thread lost([&](parking_spot& spot) {
    for (int i = 0; i < 5; ++i) w.tick_and_end();
    w.tracker.collect(w.tracker.mine(), w.look(), [&](tracked* t) {
      spot.park();
      delete t;
      return true;
    });
  });
  EXPECT_EQ(status_of_child(
                [&] {
                  const auto goes_on = [&] {
                    for (int i = 0; i < 200; ++i) w.tick_and_end();
                    w.collect();
                    EXPECT_LE(w.tracker.held(), 10U) << "more than what was lost";
                  };
                  goes_on();
                  std::thread(goes_on).join();  // has the number of the one that was lost
                  goes_on();
                },
                20),
            0);
  lost.release();
}
#endif

/// Threads that come and go, snapshots that come and go: the bound holds at every moment, and at
/// the end everything goes.
TEST(range_tracker, holds_its_bound_under_churn) {
  constexpr std::uint32_t batch = 16;
  constexpr unsigned needed = 100;
  constexpr unsigned threads = 4;
  world w({.batch = batch, .least_batch = 1, .steps = 6});
  const std::uint64_t t0 = w.time.now();
  w.tick_and_end();
  auto held = std::make_unique<snapshot>(w.time, "held");
  for (unsigned i = 0; i < needed; ++i) w.end(t0, held->timestamp() + 1);
  run_stress({.threads = threads}, [&](stress_thread& self) {
    while (self.running()) w.tick_and_end();
  });
  // At most one version more is needed for each thread, whose snapshot has just begun.
  EXPECT_LE(w.most, 3 * (needed + threads) + 5 * (threads + 1) * batch);
  held.reset();
  w.collect();
  EXPECT_EQ(w.tracker.held(), 0U);
}

}  // namespace
