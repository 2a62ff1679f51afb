// SPDX-License-Identifier: Apache-2.0
// Savepoints, and waiting for locks.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "db/storages.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace std::chrono_literals;
using spolia::test::over_storages;

class savepoints : public over_storages {};
SPOLIA_OVER_STORAGES(savepoints);

TEST_P(savepoints, take_back_what_came_since) {
  for (int i = 1; i <= 3; ++i) ASSERT_TRUE(put(i, i));
  transaction tx = base.begin();
  ASSERT_TRUE(tx.update(items, {1}, {{"a", 10}}));
  ASSERT_TRUE(tx.insert(items, {4, 40, 400, nullptr}));
  const savepoint here = tx.savepoint();
  for (int round = 0; round < 3; ++round) {  // as often as one likes
    ASSERT_TRUE(tx.update(items, {1}, {{"a", 11}, {"b", 7 + round}}));
    ASSERT_TRUE(tx.update(items, {2}, {{"a", 22}}));
    ASSERT_TRUE(tx.erase(items, {3}));
    ASSERT_TRUE(tx.erase(items, {4}));
    ASSERT_TRUE(tx.insert(items, {5, 50, 500, nullptr}));
    EXPECT_EQ(a_of(tx, 1), 11);
    ASSERT_TRUE(tx.rollback_to(here));
    EXPECT_EQ(a_of(tx, 1), 10);
    EXPECT_EQ(tx.find(items, {1})->get(b), 10);
    EXPECT_EQ(a_of(tx, 2), 2);
    EXPECT_EQ(a_of(tx, 3), 3);
    EXPECT_EQ(a_of(tx, 4), 40);
    EXPECT_EQ(a_of(tx, 5), -1);
    int rows = 0;
    tx.scan(items.index("by_a"), {22}, {}, [&](const row&) { ++rows; });
    EXPECT_EQ(rows, 1) << "that of 40";
  }
  ASSERT_TRUE(tx.insert(items, {5, 55, 500, nullptr}));
  EXPECT_TRUE(tx.commit());
  EXPECT_EQ(a_now(1), 10);
  EXPECT_EQ(a_now(2), 2);
  EXPECT_EQ(a_now(5), 55);
  EXPECT_TRUE(set_a(2, 3)) << "no lock is left";
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
  int rows = 0;
  base.snapshot().scan(items.index("by_a"), {}, {}, [&](const row&) { ++rows; });
  EXPECT_EQ(rows, 5);
}

TEST_P(savepoints, nest) {
  ASSERT_TRUE(put(1, 0));
  transaction tx = base.begin();
  auto row_1 = tx.edit(items, {1});
  ASSERT_TRUE(row_1);
  std::vector<savepoint> all;
  for (int i = 0; i < 5; ++i) {
    all.push_back(tx.savepoint());
    ASSERT_TRUE(row_1->set(a, i + 1));
  }
  for (int i = 4; i > 2; --i) {
    ASSERT_TRUE(tx.rollback_to(all[static_cast<std::size_t>(i)]));
    EXPECT_EQ(row_1->get(a), i);
  }
  ASSERT_TRUE(tx.rollback_to(all[1]));
  EXPECT_EQ(row_1->get(a), 1);
  EXPECT_THROW(static_cast<void>(tx.rollback_to(all[2])), std::invalid_argument);
  const savepoint again = tx.savepoint();
  EXPECT_THROW(static_cast<void>(tx.rollback_to(all[2])), std::invalid_argument);
  ASSERT_TRUE(row_1->set(a, 100));
  ASSERT_TRUE(tx.rollback_to(again));
  ASSERT_TRUE(tx.rollback_to(all[0]));
  EXPECT_EQ(row_1->get(a), 0);
  EXPECT_TRUE(tx.commit());
  EXPECT_EQ(base.stats().versions.versions_made, 0U) << "nothing has changed";
  EXPECT_EQ(tx.rollback_to(all[0]), outcome::ended);
}

/// Also where all numbers are the same.
TEST_P(savepoints, are_of_one_transaction) {
  const auto expect_refused = [&](transaction& tx, const savepoint& strange) {
    ASSERT_TRUE(tx.insert(items, {1, 1, 10, nullptr}));
    static_cast<void>(tx.savepoint());
    EXPECT_THROW(static_cast<void>(tx.rollback_to(strange)), std::invalid_argument);
    EXPECT_EQ(a_of(tx, 1), 1) << "nothing was taken back";
  };
  savepoint of_another;
  {
    transaction open = base.begin();
    of_another = open.savepoint();
    transaction tx = base.begin();
    expect_refused(tx, of_another);
  }
  transaction tx = base.begin();  // in the other one's place
  expect_refused(tx, of_another);
  EXPECT_THROW(static_cast<void>(tx.rollback_to(savepoint())), std::invalid_argument);
  database elsewhere = database::open();
  transaction there = elsewhere.begin();
  EXPECT_THROW(static_cast<void>(tx.rollback_to(there.savepoint())), std::invalid_argument);
}

TEST_P(savepoints, an_editor_of_a_row_that_was_taken_back) {
  transaction tx = base.begin();
  const savepoint here = tx.savepoint();
  ASSERT_TRUE(tx.insert(items, {1, 1, 10, nullptr}));
  auto e = tx.edit(items, {1});
  ASSERT_TRUE(e);
  ASSERT_TRUE(tx.rollback_to(here));
  EXPECT_EQ(e->set(a, 5), outcome::not_found);
  EXPECT_TRUE(tx.commit());
  EXPECT_EQ(a_now(1), -1);
  EXPECT_TRUE(put(1, 6));
}

/// Whatever is done and taken back, the database is what a plain map says.
TEST_P(savepoints, at_random) {
  constexpr std::int64_t keys = 6;
  spolia::test::rng random(11);
  std::vector<std::int64_t> now(keys, -1);
  std::int64_t made = 0;
  for (int round = 0; round < 200; ++round) {
    transaction tx = base.begin();
    std::vector<std::int64_t> mine = now;
    std::vector<std::pair<savepoint, std::vector<std::int64_t>>> marks;
    for (int step = 0; step < 12; ++step) {
      const auto key = static_cast<std::int64_t>(random.below(keys));
      std::int64_t& has = mine[static_cast<std::size_t>(key)];
      if (random.chance(1, 4)) {
        marks.emplace_back(tx.savepoint(), mine);
      } else if (!marks.empty() && random.chance(1, 4)) {
        marks.resize(1 + random.below(marks.size()));
        ASSERT_TRUE(tx.rollback_to(marks.back().first));
        mine = marks.back().second;
      } else if (has < 0) {
        has = ++made;
        ASSERT_TRUE(tx.insert(items, {key, has, key, nullptr}));
      } else if (random.chance(1, 3)) {
        has = -1;
        ASSERT_TRUE(tx.erase(items, {key}));
      } else {
        has = ++made;
        ASSERT_TRUE(tx.update(items, {key}, {{"a", has}}));
      }
      for (std::int64_t k = 0; k < keys; ++k) {
        ASSERT_EQ(a_of(tx, k), mine[static_cast<std::size_t>(k)]);
      }
    }
    if (random.chance(1, 3)) continue;
    ASSERT_TRUE(tx.commit());
    now = mine;
    for (std::int64_t k = 0; k < keys; ++k) {
      ASSERT_EQ(a_now(k), now[static_cast<std::size_t>(k)]);
    }
  }
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
  EXPECT_LE(items.row_slots(), 60U);
}

class waiting : public over_storages {};
INSTANTIATE_TEST_SUITE_P(one, waiting, testing::Values(version_storage::one_shot),
                         spolia::test::storage_name);

/// Of those that are to get what they wait for, however busy the machine is.
constexpr std::chrono::microseconds patience = 1h;

TEST_P(waiting, the_younger_one_gives_up_at_once) {
  ASSERT_TRUE(put(1, 5));
  transaction older = base.begin({.longest_wait = patience});
  transaction younger = base.begin({.longest_wait = patience});
  EXPECT_LT(older.age(), younger.age());
  ASSERT_TRUE(older.lock(items, {1}));
  EXPECT_EQ(younger.update(items, {1}, {{"a", 6}}), outcome::conflict);
}

TEST_P(waiting, the_older_one_waits) {
  ASSERT_TRUE(put(1, 5));
  std::uint64_t age = 0;
  for (const int round : {0, 1, 2}) {
    const bool waits = round != 1;  // the younger one
    const auto longest = round == 2 ? std::chrono::microseconds::max() : patience;
    transaction older = base.begin({.longest_wait = longest, .age = age});
    age = older.age();
    transaction younger = base.begin({.longest_wait = waits ? patience : 0us});
    ASSERT_TRUE(younger.lock(items, {1}));
    std::thread other([&] {
      std::this_thread::sleep_for(20ms);
      younger.rollback();
    });
    const auto e = older.edit(items, {1});
    other.join();
    EXPECT_TRUE(e);
    EXPECT_TRUE(!waits || younger.age() > age);
  }
}

TEST_P(waiting, has_an_end) {
  ASSERT_TRUE(put(1, 5));
  transaction older = base.begin({.longest_wait = 10ms});
  transaction younger = base.begin({.longest_wait = 10ms});
  ASSERT_TRUE(younger.lock(items, {1}));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(older.update(items, {1}, {{"a", 6}}), outcome::conflict);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 10ms);
}

TEST_P(waiting, for_the_first_row_is_not_for_nothing) {
  ASSERT_TRUE(put(1, 5));
  transaction first = base.begin({.longest_wait = patience});
  transaction read_before = base.begin({.longest_wait = patience});
  EXPECT_EQ(a_of(read_before, 1), 5);
  ASSERT_TRUE(set_a(1, 6));
  ASSERT_TRUE(put(2, 2));
  auto e = first.edit(items, {1});
  ASSERT_TRUE(e) << "its snapshot began late";
  EXPECT_EQ(e->get(a), 6);
  EXPECT_EQ(a_of(first, 2), 2);
  first.rollback();
  EXPECT_EQ(read_before.edit(items, {1}).code(), outcome::conflict);
}

/// Two rows in any order: no deadlock, and no increment is lost.
TEST_P(waiting, is_free_of_deadlocks) {
  constexpr std::int64_t rows = 3;
  for (std::int64_t i = 0; i < rows; ++i) ASSERT_TRUE(put(i, 0));
  std::atomic<std::int64_t> done{0};
  test::run_stress({.threads = 4, .share = 0.5}, [&](test::stress_thread& self) {
    while (self.running()) {
      const auto one = static_cast<std::int64_t>(self.random().below(rows));
      const auto two = static_cast<std::int64_t>(self.random().below(rows));
      const auto level = self.random().chance(1, 2) ? isolation::snapshot : isolation::serializable;
      const status s = base.transact(
          [&](transaction& tx) -> status {
            for (const std::int64_t key : {one, two}) {
              auto e = tx.edit(items, {key});
              if (!e) return e.why();
              if (const status set = e->set(a, e->get(a) + 1); !set) return set;
              self.jitter();
            }
            return outcome::ok;
          },
          {.begin = {.isolation = level, .longest_wait = 100ms}});
      EXPECT_TRUE(s) << s.message();
      if (s) done.fetch_add(2);
    }
  });
  std::int64_t sum = 0;
  base.snapshot().for_each(items, [&](const row& r) { sum += r.get(a); });
  EXPECT_EQ(sum, done.load());
}

}  // namespace
