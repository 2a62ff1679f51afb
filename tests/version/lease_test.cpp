// SPDX-License-Identifier: Apache-2.0
// Leases: snapshots that end when their time is over, with an error of their own.
#include <spolia/version/lease.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/map/snapshot_hash.hpp>
#include <spolia/map/snapshot_tree.hpp>

#include "support/elsewhere.hpp"
#include "support/faults.hpp"
#include "support/few_types.hpp"
#include "support/stress.hpp"
#include "version/all_collectors.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using namespace std::chrono_literals;

int announced(const timeline& time) {
  int n = 0;
  time.living().for_each([&](const census::entry&) { ++n; });
  return n;
}

template <class Collector>
struct hashes {
  using collector = Collector;
  template <class Key, class Value>
  using of = snapshot_hash<Key, Value, Collector>;
};
template <class Collector>
struct trees {
  using collector = Collector;
  template <class Key, class Value>
  using of = snapshot_tree<Key, Value, Collector>;
};

template <class Maps>
class leases : public testing::Test {
 protected:
  template <class Key, class Value>
  using map = typename Maps::template of<Key, Value>;
  static auto eager() { return eager_options<typename Maps::collector>(); }
};
using maps =
    types<2, hashes<epoch_collector<>>, trees<sl_rt<>>, hashes<sl_rt<>>, trees<epoch_collector<>>>;
TYPED_TEST_SUITE(leases, maps);

TYPED_TEST(leases, see_their_instant_until_they_end) {
  timeline time;
  typename TestFixture::template map<int, std::string> m(time);
  for (int i = 0; i < 200; ++i) m.insert(i, std::to_string(i));
  const lease long_one(time, 1h, "long");
  std::optional<lease> short_one(std::in_place, time, 0ns, "short");
  EXPECT_EQ(m.find(*short_one, 7), "7");  // no thread has looked yet
  EXPECT_TRUE(time.leases().due());
  for (int i = 0; i < 200; ++i) m.insert_or_assign(i, "new");
  EXPECT_TRUE(short_one->expired());
  EXPECT_FALSE(time.leases().due());
  EXPECT_THROW((void)m.find(*short_one, 7), snapshot_expired);
  EXPECT_THROW((void)m.contains(*short_one, 7), snapshot_expired);
  EXPECT_THROW(m.for_each(*short_one, [](auto&, auto&) {}), snapshot_expired);
  try {
    (void)m.find(*short_one, 7);
  } catch (const snapshot_expired& e) {
    EXPECT_NE(std::string(e.what()).find("short"), std::string::npos);
  }
  EXPECT_EQ(announced(time), 1);
  short_one.reset();
  EXPECT_EQ(m.find(long_one, 7), "7");
  EXPECT_EQ(m.find(long_one, 700), std::nullopt);
  int seen = 0;
  m.for_each(long_one,
             [&](int k, const std::string& v) { seen += v == std::to_string(k) ? 1 : 0; });
  EXPECT_EQ(seen, 200);
  m.for_each(long_one, [&](int, const std::string&) { return --seen > 150; });
  EXPECT_EQ(seen, 150);
}

/// What a lease has held goes when it ends, though its owner sleeps.
TYPED_TEST(leases, hold_nothing_when_they_have_ended) {
  timeline time;
  typename TestFixture::template map<int, int> m(time, {.collector = this->eager()});
  for (int i = 0; i < 100; ++i) m.insert(i, 0);
  const lease mine(time, 0ns);
  for (int i = 0; i < 1000; ++i) m.insert_or_assign(i % 100, i);
  m.collect();
  EXPECT_EQ(m.stats().held(), 0U);
  EXPECT_EQ(announced(time), 0);
}

TYPED_TEST(leases, are_read_right_up_to_their_end) {
  timeline time;
  typename TestFixture::template map<std::uint64_t, std::string> m(time,
                                                                   {.collector = this->eager()});
  constexpr std::uint64_t keys = 50;
  const std::string text(40, 'x');
  for (std::uint64_t k = 0; k < keys; ++k) m.insert(k, text);
  std::atomic<int> ended{0};
  run_stress({.threads = 3, .share = 0.2}, [&](stress_thread& self) {
    while (self.running()) {
      if (self.index() == 0) {
        m.insert_or_assign(self.random().below(keys), text);
        continue;
      }
      const lease now(time, std::chrono::nanoseconds(self.random().below(20'000)));
      try {
        for (int n = 0; n < 20; ++n) {
          ASSERT_EQ(m.find(now, self.random().below(keys)), text);
          std::uint64_t seen = 0;
          m.for_each(now, [&](std::uint64_t, const std::string& v) { seen += v == text ? 1 : 0; });
          ASSERT_EQ(seen, keys);
        }
      } catch (const snapshot_expired&) {
        ++ended;
      }
    }
  });
  EXPECT_EQ(announced(time), 0);
}

TEST(leases_of_a_tree, show_it_in_order) {
  timeline time;
  snapshot_tree<int, int> m(time);
  for (int i = 0; i < 100; ++i) m.insert(i, -i);
  const lease now(time, 1h);
  for (int i = 0; i < 100; ++i) m.erase(i);
  int next = 20;
  m.range(now, 20, 60, [&](int k, int v) {
    EXPECT_EQ(k, next++);
    EXPECT_EQ(v, -k);
  });
  EXPECT_EQ(next, 60);
  next = 0;
  m.for_each(now, [&](int k, int) { EXPECT_EQ(k, next++); });
  EXPECT_EQ(next, 100);
  m.range(now, 60, 20, [](int, int) { ADD_FAILURE(); });
}

TEST(limits_of_a_tree, are_told_of) {
  timeline time;
  std::vector<std::string> told;
  const auto tell = [&](const snapshot_holding& s) { told.emplace_back(s.label); };
  snapshot_tree<int, int> old(time, {.limits = {.age = 1ns, .passed = tell, .every = 1ns}});
  snapshot_tree<int, int> large(time, {.limits = {.bytes = 1000, .passed = tell, .every = 0ns}});
  for (int k = 0; k < 100; ++k) large.insert(k, k);
  old.insert(1, 1);
  EXPECT_TRUE(told.empty());
  const snapshot then(time, "held");
  old.insert(2, 2);
  EXPECT_EQ(told, (std::vector<std::string>{"held"}));
  EXPECT_EQ(large.check_snapshots(), 0U);
  for (int k = 0; k < 100; ++k) large.erase(k);
  EXPECT_EQ(told.size(), 1U);
  EXPECT_EQ(large.check_snapshots(), 1U);
  EXPECT_EQ(told, (std::vector<std::string>{"held", "held"}));
}

/// An account of so many pairs takes as long as a thousand updates.
TEST(limits_of_a_tree, are_looked_at_in_a_small_part_of_the_time) {
  constexpr int pairs = 20'000;
  constexpr int updates = 2000;
  timeline time;
  int told = 0;
  const auto tell = [&](const snapshot_holding&) { ++told; };
  snapshot_tree<int, int> m(time, {.limits = {.bytes = 1, .passed = tell, .every = 1ns}});
  for (int k = 0; k < pairs; ++k) m.insert(k, k);
  const snapshot then(time, "held");
  for (int k = 0; k < updates; ++k) m.insert_or_assign(k, -k);
  EXPECT_LT(told, updates / 10);
  EXPECT_EQ(m.check_snapshots(), 1U) << "it is past the limit";
}

TEST(lease, moves_and_ends_on_another_thread) {
  timeline time;
  std::optional<lease> mine(std::in_place, time, 1h);
  std::thread([moved = lease(std::move(*mine))] { EXPECT_FALSE(moved.expired()); }).join();
  mine.reset();
  EXPECT_EQ(announced(time), 0);
  EXPECT_EQ(time.leases().end_overdue(), 0U);
}

TEST(lease, needs_no_timeline_where_others_have_none) {
  snapshot_hash<int, int> stock;
  stock.insert(1, 100);
  const lease now(1h, "report");
  stock.insert_or_assign(1, 99);
  EXPECT_TRUE(now.belongs_to(default_timeline()));
  EXPECT_EQ(stock.find(now, 1), 100);
  const lease over(1ns);
  std::this_thread::sleep_for(1ms);
  default_timeline().leases().end_overdue();
  EXPECT_THROW(static_cast<void>(stock.find(over, 1)), snapshot_expired);
  lease from(1h);
  const lease to(std::move(from));
  EXPECT_FALSE(to.expired());
  EXPECT_TRUE(from.expired());  // NOLINT: that is the question
}

/// What f reports, in the checked variant.
template <class F>
std::string reported(F&& f) {
  static std::string last;
  last.clear();
  const auto before =
      core::set_misuse_handler([](const char* what, std::uint32_t) { last = what; });
  f();
  core::set_misuse_handler(before);
  return last;
}

/// Never nothing, as if the map had been empty then.
TYPED_TEST(leases, that_were_moved_from_are_over) {
  timeline time;
  typename TestFixture::template map<int, int> m(time);
  m.insert(1, 2);
  lease from(time, 1h);
  EXPECT_TRUE(from);
  const lease to(std::move(from));
  EXPECT_TRUE(to);
  EXPECT_FALSE(from);  // NOLINT: that is the question
  EXPECT_EQ(m.find(to, 1), 2);
  const auto is_over = [&](auto&& read) {
    const std::string what = reported([&] { EXPECT_THROW(read(), snapshot_expired); });
    EXPECT_EQ(what, SPOLIA_CHECKS ? "a lease that was moved from is read" : "");
  };
  is_over([&] { (void)m.find(from, 1); });
  is_over([&] { (void)m.contains(from, 1); });
  is_over([&] { m.visit(from, 1, [](int) {}); });
  is_over([&] { m.for_each(from, [](int, int) {}); });
  if constexpr (requires { m.first(from); }) {
    is_over([&] { (void)m.first(from); });
    is_over([&] { (void)m.lower_bound(from, 1); });
    is_over([&] { m.range(from, 0, 2, [](int, int) {}); });
  }
  timeline other;
  const lease strange(other, 1h);
  const std::string what = reported([&] { EXPECT_EQ(m.find(strange, 1), std::nullopt); });
  EXPECT_EQ(what, SPOLIA_CHECKS ? "a lease of another timeline" : "");
}

TEST(lease, without_memory_is_none) {
  timeline time;
  for_each_allocation_failure([&] {
    try {
      const lease one(time, 1h);
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(announced(time), 0);
      throw;
    }
  });
}

TEST(lease, that_would_last_for_ever_does) {
  timeline time;
  const lease one(time, std::chrono::nanoseconds::max());
  EXPECT_FALSE(time.leases().due());
  EXPECT_EQ(time.leases().end_overdue(), 0U);
  EXPECT_FALSE(one.expired());
}

TEST(lease, can_be_begun_in_a_fork_that_caught_a_nameless_thread_ending_others) {
  // The look over so many takes longer than a fork; and the thread that takes it has not asked for
  // a number.
  timeline time;
  std::vector<lease> all;
  all.reserve(20'000);
  while (all.size() < all.capacity()) all.emplace_back(time, 1h);
  std::atomic<bool> stop{false};
  std::thread nameless([&] {
    while (!stop) time.leases().end_overdue();
  });
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(status_of_child([&] {
                alarm(20);
                const lease own(time, 1h);
                EXPECT_FALSE(own.expired());
              }),
              0);
  }
  stop = true;
  nameless.join();
}

TEST(leases_without_a_label, say_which_thread_began_them) {
  timeline time;
  snapshot_hash<int, int> m(time);
  m.insert(1, 1);
  const auto said = [&](const lease& over) -> std::string {
    while (!over.expired()) m.insert_or_assign(1, 2);
    try {
      static_cast<void>(m.find(over, 1));
    } catch (const snapshot_expired& e) {
      return e.what();
    }
    return "nothing";
  };
  const std::string is_over = "the time of a snapshot is over";
  EXPECT_EQ(said(lease(time, 0ns, "weekly")), is_over + ": weekly");
  std::optional<lease> unlabelled;
  long began = 0;
  std::thread([&] {
    began = threads::os_id();
    unlabelled.emplace(time, 0ns);
  }).join();
  const std::string what = said(*unlabelled);
  EXPECT_NE(what.find(" by the system's thread " + std::to_string(began)), what.npos) << what;
}

}  // namespace
