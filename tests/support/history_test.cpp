// SPDX-License-Identifier: Apache-2.0
// history_test.cpp: what threads really did is recorded truly, and judged end to end.
#include "support/history.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <vector>

#include "support/linearizability.hpp"
#include "support/stress.hpp"

namespace spolia::test {
namespace {

TEST(stamp_clock, does_not_go_backwards_in_one_thread) {
  for (const stamp_clock clock : {stamp_clock(), stamp_clock::steady()}) {
    std::uint64_t last = 0;
    for (int i = 0; i < 10'000; ++i) {
      const std::uint64_t start = clock.before();
      const std::uint64_t end = clock.after();
      ASSERT_LE(last, start);
      ASSERT_LE(start, end);
      last = end;
    }
  }
  EXPECT_FALSE(stamp_clock::steady().uses_counter());
}

// If a thread sees a number, the stamp it takes then is not below the stamp that was taken before
// the number was written: the clocks of the processors agree.
TEST(stamp_clock, does_not_go_backwards_from_thread_to_thread) {
  for (const stamp_clock clock : {stamp_clock(), stamp_clock::steady()}) {
    std::atomic<std::uint64_t> published{0};
    std::atomic<int> violations{0};
    run_stress({.threads = 2, .share = 0.3}, [&](stress_thread& self) {
      while (self.running()) {
        if (published.load(std::memory_order_acquire) > clock.after()) violations.fetch_add(1);
        published.store(clock.before(), std::memory_order_release);
      }
    });
    EXPECT_EQ(violations.load(), 0);
  }
}

TEST(map_recorder, records_what_was_asked_and_answered) {
  map_recorder record(2, 10, 10);
  auto& lane = record.of(1);
  EXPECT_TRUE(lane.insert(1, 10, [] { return true; }));
  EXPECT_FALSE(lane.insert_or_assign(1, 11, [] { return false; }));
  EXPECT_EQ(lane.find(1, [] { return std::optional<int>(11); }), std::optional(11U));
  EXPECT_EQ(lane.find(2, [] { return std::optional<int>(); }), std::nullopt);
  EXPECT_TRUE(lane.contains(1, [] { return true; }));
  EXPECT_TRUE(lane.erase(1, [] { return true; }));
  lane.scan(5, 9, [](auto&& show) {
    show(6, 60);
    show(7, 70);
  });
  const auto events = record.events();
  ASSERT_EQ(events.size(), 6U);
  const map_op ops[] = {map_op::insert, map_op::insert_or_assign, map_op::find,
                        map_op::find,   map_op::contains,         map_op::erase};
  const std::uint64_t values[] = {10, 11, 11, 0, 0, 0};
  const bool oks[] = {true, false, true, false, true, true};
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].op, ops[i]) << i;
    EXPECT_EQ(events[i].value, values[i]) << i;
    EXPECT_EQ(events[i].ok, oks[i]) << i;
    EXPECT_EQ(events[i].thread, 1U);
    EXPECT_LE(events[i].start, events[i].end);
  }
  const auto scans = record.scans();
  ASSERT_EQ(scans.size(), 1U);
  EXPECT_EQ(scans[0].low, 5U);
  EXPECT_EQ(scans[0].high, 9U);
  EXPECT_EQ(scans[0].shown, (decltype(scans[0].shown){{6, 60}, {7, 70}}));
}

TEST(map_recorder, runs_no_operation_for_which_there_is_no_room) {
  map_recorder record(1, 1);
  auto& lane = record.of(0);
  int runs = 0;
  const auto run = [&] { return ++runs > 0; };
  EXPECT_FALSE(lane.full());
  lane.erase(1, run);
  EXPECT_TRUE(lane.full());
  EXPECT_THROW(lane.erase(1, run), std::length_error);
  EXPECT_EQ(runs, 1);
}

TEST(map_recorder, leaves_out_operations_that_throw) {
  map_recorder record(1, 4);
  EXPECT_THROW(record.of(0).erase(1, []() -> bool { throw std::bad_alloc(); }), std::bad_alloc);
  EXPECT_TRUE(record.events().empty());
}

/// A map under a mutex that can be told to be wrong.
class locked_map {
 public:
  bool insert(std::uint64_t key, std::uint64_t value) {
    const std::lock_guard lock(mutex_);
    if (loses_inserts && ++inserts_ % 500 == 0) return !map_.contains(key);
    return map_.emplace(key, value).second;
  }
  bool insert_or_assign(std::uint64_t key, std::uint64_t value) {
    const std::lock_guard lock(mutex_);
    return map_.insert_or_assign(key, value).second;
  }
  bool erase(std::uint64_t key) {
    const std::lock_guard lock(mutex_);
    return map_.erase(key) != 0;
  }
  std::optional<std::uint64_t> find(std::uint64_t key) {
    const std::lock_guard lock(mutex_);
    const auto at = map_.find(key);
    return at == map_.end() ? std::nullopt : std::optional(at->second);
  }
  template <class Show>
  void scan(std::uint64_t low, std::uint64_t high, Show&& show) {
    for (std::uint64_t key = low; key <= high; ++key) {  // a lock a key: weakly consistent
      if (skips_keys && key % 8 == 7) continue;
      if (const auto value = find(key)) show(key, *value);
    }
  }

  bool loses_inserts = false;
  bool skips_keys = false;

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> map_;
  int inserts_ = 0;
};

constexpr std::size_t each = 10'000;

// Each lane is filled, however long that takes; a thread's failure still stops the others.
constexpr stress_options until_full{.threads = 4, .share = 1000};

void work(locked_map& map, map_recorder& record, stress_thread& self) {
  auto& lane = record.of(self.index());
  for (std::uint64_t n = 0; self.running() && !lane.full(); ++n) {
    const std::uint64_t key = self.random().below(32);
    const std::uint64_t value = n * self.count() + self.index() + 1;
    switch (self.random().below(5)) {
      case 0:
        lane.insert(key, value, [&] { return map.insert(key, value); });
        break;
      case 1:
        lane.insert_or_assign(key, value, [&] { return map.insert_or_assign(key, value); });
        break;
      case 2:
        lane.erase(key, [&] { return map.erase(key); });
        break;
      case 3:
        lane.contains(key, [&] { return map.find(key).has_value(); });
        break;
      default:
        lane.find(key, [&] { return map.find(key); });
        break;
    }
    if (n % 64 == 0) lane.scan(0, 31, [&](auto&& show) { map.scan(0, 31, show); });
    self.jitter();
  }
}

map_recorder record_run(locked_map& map) {
  map_recorder record(until_full.threads, each, each);
  run_stress(until_full, [&](stress_thread& self) { work(map, record, self); });
  return record;
}

TEST(end_to_end, accepts_a_locked_map) {
  locked_map map;
  const map_recorder record = record_run(map);
  EXPECT_TRUE(accepted(check_map(record.events())));
  EXPECT_TRUE(accepted(check_scans(record.events(), record.scans())));
}

TEST(end_to_end, refuses_a_map_that_loses_inserts) {
  locked_map map;
  map.loses_inserts = true;
  EXPECT_TRUE(refused(check_map(record_run(map).events())));
}

TEST(end_to_end, refuses_scans_that_skip_keys) {
  locked_map map;
  map.skips_keys = true;
  const map_recorder record = record_run(map);
  EXPECT_TRUE(accepted(check_map(record.events())));
  EXPECT_TRUE(refused(check_scans(record.events(), record.scans())));
}

/// A deque under a mutex; takes from the front or the back, or now and then from the wrong end.
class locked_bag {
 public:
  enum class end { front, back };

  locked_bag(end taken, int wrong_every) : taken_(taken), wrong_every_(wrong_every) {}

  void put(std::uint64_t value) {
    const std::lock_guard lock(mutex_);
    content_.push_back(value);
  }
  std::optional<std::uint64_t> take() {
    const std::lock_guard lock(mutex_);
    if (content_.empty()) return std::nullopt;
    const bool wrong = wrong_every_ > 0 && content_.size() > 8 && ++takes_ % wrong_every_ == 0;
    const bool front = (taken_ == end::front) != wrong;
    const std::uint64_t value = front ? content_.front() : content_.back();
    front ? content_.pop_front() : content_.pop_back();
    return value;
  }

 private:
  end taken_;
  int wrong_every_;
  int takes_ = 0;
  std::mutex mutex_;
  std::deque<std::uint64_t> content_;
};

std::vector<bag_event> record_run(locked_bag& bag) {
  bag_recorder record(until_full.threads, each);
  run_stress(until_full, [&](stress_thread& self) {
    auto& lane = record.of(self.index());
    for (std::uint64_t n = 0; self.running() && !lane.full(); ++n) {
      const std::uint64_t value = n * self.count() + self.index();
      const bool filling = n / 64 % 2 == 0;  // fill, then drain, so that it also runs empty
      if (self.random().chance(filling ? 2 : 1, 3)) {
        lane.put(value, [&] { bag.put(value); });
      } else {
        lane.take([&] { return bag.take(); });
      }
      self.jitter();
    }
  });
  return record.events();
}

TEST(end_to_end, tells_queues_stacks_and_broken_ones_apart) {
  locked_bag queue(locked_bag::end::front, 0);
  const auto of_queue = record_run(queue);
  EXPECT_TRUE(accepted(check_queue(of_queue)));
  EXPECT_TRUE(refused(check_stack(of_queue)));

  locked_bag stack(locked_bag::end::back, 0);
  const auto of_stack = record_run(stack);
  EXPECT_TRUE(accepted(check_stack(of_stack)));
  EXPECT_TRUE(refused(check_queue(of_stack)));

  locked_bag bad_queue(locked_bag::end::front, 200);
  EXPECT_TRUE(refused(check_queue(record_run(bad_queue))));
  locked_bag bad_stack(locked_bag::end::back, 200);
  EXPECT_TRUE(refused(check_stack(record_run(bad_stack))));
}

}  // namespace
}  // namespace spolia::test
