// SPDX-License-Identifier: Apache-2.0
// What readers() says of readers and transactions: whose label it is, and since when they are open.

#include <gtest/gtest.h>

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/db.hpp>

#include "support/parked_thread.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;

std::vector<std::string> labels_of(const database& base) {
  std::vector<std::string> all;
  for (const reader_info& r : base.readers()) all.push_back(r.label);
  std::sort(all.begin(), all.end());
  return all;
}

TEST(db_labels, are_copied) {
  database base = database::open();
  std::string text = "a label that is longer than what a string keeps in itself";
  const std::string as_it_was = text;
  const reader first = base.snapshot(text);
  const transaction second = base.begin({.label = text});
  const reader third = base.snapshot({.label = text, .deadline = std::chrono::hours(1)});
  text.assign(text.size(), '-');
  EXPECT_EQ(labels_of(base), (std::vector<std::string>(3, as_it_was)));
  std::string asked;
  options o;
  o.budget = 8U << 20U;
  o.on_slow_reader = [&](const slow_reader& r) {
    asked = r.label;
    return slow_reader_action::leave;
  };
  o.slow_after = std::chrono::nanoseconds(1);
  database other = database::open(o);
  const reader slow = other.snapshot(std::string("a temporary") + " text");
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  other.collect();
  EXPECT_EQ(asked, "a temporary text");
}

/// The thread that has begun it, and not the one that asks.
TEST(db_labels, stand_beside_their_threads) {
  slow_reader asked{};
  options o;
  o.on_slow_reader = [&](const slow_reader& r) {
    asked = r;
    return slow_reader_action::leave;
  };
  o.slow_after = std::chrono::nanoseconds(1);
  database base = database::open(o);
  long os_thread = 0;
  std::optional<reader> slow;
  const test::parked_thread other([&](test::parking_spot& spot) {
    pthread_setname_np(pthread_self(), "night shift");
    os_thread = threads::os_id();
    slow.emplace(base.snapshot());
    spot.park();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  base.collect();
  EXPECT_EQ(asked.os_thread, os_thread);
  EXPECT_EQ(asked.thread_name, "night shift");
  const auto all = base.readers();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].os_thread, os_thread);
  EXPECT_EQ(all[0].thread_name, "night shift");
  EXPECT_EQ(asked.thread, all[0].thread);
}

TEST(db_labels, belong_to_one_reader) {
  database base = database::open();
  for (int n = 0; n < 3; ++n) {
    const reader r = base.snapshot("labelled");
    EXPECT_EQ(labels_of(base), std::vector<std::string>{"labelled"});
  }
  const reader plain = base.snapshot();  // has the same place
  EXPECT_EQ(labels_of(base), std::vector<std::string>{""});
  std::optional<reader> moved(base.snapshot(std::string(1000, 'x')));
  std::vector<reader> all;
  all.push_back(std::move(*moved));
  moved.reset();
  EXPECT_EQ(labels_of(base), (std::vector<std::string>{"", std::string(1000, 'x')}));
}

TEST(db_labels, each_reader_has_an_age) {
  database base = database::open();
  const reader plain = base.snapshot();
  const transaction tx = base.begin();
  const reader labelled = base.snapshot("labelled");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const reader young = base.snapshot();
  const auto all = base.readers();
  ASSERT_EQ(all.size(), 4U);
  int old = 0;
  for (const reader_info& r : all) {
    EXPECT_LT(r.age, std::chrono::minutes(10));
    old += r.age >= std::chrono::milliseconds(19) ? 1 : 0;
  }
  EXPECT_GE(old, 3);
}

/// A transaction that waited for its first lock has a later snapshot, and the same label.
TEST(db_labels, stay_with_a_transaction_that_begins_late) {
  database base = database::open();
  table& t = base.create_table({.name = "t", .columns = {{"k", int64, primary_key}, {"v", int64}}});
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {1, 1}); }));
  transaction late = base.begin({.label = "late", .longest_wait = std::chrono::hours(1)});
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.update(t, {1}, {{"v", 2}}); }));
  ASSERT_TRUE(late.edit(t, {1}));
  EXPECT_EQ(labels_of(base), std::vector<std::string>{"late"});
}

/// Readers come and go on some threads while another one lists them.
TEST(db_labels, of_readers_that_come_and_go) {
  database base = database::open();
  table& t = base.create_table({.name = "t", .columns = {{"k", int64, primary_key}}});
  atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (std::int64_t n = 0; n < 3; ++n) {
    threads.emplace_back([&, n] {
      for (std::int64_t i = 0; !over.load_relaxed(); ++i) {
        EXPECT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {i * 3 + n}); }));
        if (i % 3 == 0) {
          const reader plain = base.snapshot();
          continue;
        }
        const std::string mine = std::to_string(n) + std::string(i % 3 == 1 ? 3 : 60, 'x');
        const reader labelled = base.snapshot(mine);
        std::this_thread::yield();
      }
    });
  }
  std::uint64_t labelled = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (std::chrono::steady_clock::now() < end || labelled < 100) {
    for (const reader_info& r : base.readers()) {
      if (r.label.empty()) continue;
      ++labelled;
      ASSERT_TRUE(r.label.size() == 4 || r.label.size() == 61) << r.label;
      ASSERT_EQ(r.label.find_first_not_of('x', 1), std::string::npos) << r.label;
    }
  }
  over.store_relaxed(true);
  for (std::thread& each : threads) each.join();
}

}  // namespace
