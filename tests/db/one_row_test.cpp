// SPDX-License-Identifier: Apache-2.0
// Many threads that edit one row: those that wait leave the processors to the one that has it. And
// what an editor sets.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

#include <spolia/db.hpp>

namespace {

namespace db = spolia::db;

TEST(one_row, a_thousand_threads_edit_it_in_few_tries) {
  constexpr int threads = 1000;
  constexpr int edits = 10;  // of each thread
  db::database base = db::database::open();
  db::table& t = base.create_table(
      {.name = "t", .columns = {{"key", db::int64, db::primary_key}, {"sum", db::int64}}});
  ASSERT_TRUE(base.transact([&](db::transaction& tx) { return tx.insert(t, {1, 0}); }));
  const auto sum = t.column<std::int64_t>("sum");

  std::atomic<int> ready{0};
  std::atomic<long> tries{0};
  std::atomic<int> failed{0};
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&] {
      ++ready;
      ready.notify_all();
      for (int seen = ready; seen < threads; seen = ready) ready.wait(seen);
      for (int e = 0; e < edits; ++e) {
        const db::status s = base.transact([&](db::transaction& tx) -> db::status {
          ++tries;
          auto row = tx.edit(t, {1});
          if (!row) return row.why();
          return row->set(sum, row->get(sum) + 1);
        });
        if (!s) ++failed;
      }
    });
  }
  for (std::thread& one : all) one.join();

  EXPECT_EQ(failed, 0);
  EXPECT_EQ(base.snapshot().find(t, {1})->get(sum), threads * edits);
  // A thread that tries again at once keeps the one that has the row from running. With pauses of a
  // millisecond at most there are a hundred tries for each edit, and more with more threads.
  EXPECT_LT(tries, 20 * threads * edits);
}

/// A number is set by a shorter way where nothing has to be asked: to the same end.
TEST(one_row, a_number_is_set_as_any_value_is) {
  db::database base = db::database::open();
  db::table& t = base.create_table(
      {.name = "t",
       .columns = {
           {"k", db::int64, db::primary_key}, {"v", db::int64, db::nullable}, {"w", db::int64}}});
  const auto k = t.column<std::int64_t>("k");
  const auto v = t.column<std::int64_t>("v");
  const auto w = t.column<std::int64_t>("w");
  const auto of_other =
      base.create_table(
              {.name = "other",
               .columns = {{"k", db::int64, db::primary_key}, {"v", db::int64}, {"w", db::int64}}})
          .column<std::int64_t>("w");
  ASSERT_TRUE(base.transact([&](db::transaction& tx) { return tx.insert(t, {1, nullptr, 5}); }));
  db::transaction tx = base.begin();
  db::editor of = *tx.edit(t, {1});
  ASSERT_TRUE(of.set(v, 7));
  EXPECT_FALSE(of.null(v));
  EXPECT_THROW(static_cast<void>(of.set(k, 2)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(of.set(of_other, 2)), std::invalid_argument);
  const db::savepoint here = tx.savepoint();
  ASSERT_TRUE(of.set(v, 8));
  ASSERT_TRUE(of.set(w, 8));
  ASSERT_TRUE(tx.rollback_to(here));
  EXPECT_EQ(of.get(v), 7);
  EXPECT_EQ(of.get(w), 5);
  ASSERT_TRUE(tx.erase(t, {1}));
  EXPECT_EQ(of.set(w, 9), db::outcome::not_found);
  ASSERT_TRUE(tx.rollback_to(here));
  ASSERT_TRUE(of.set(w, 6));
  ASSERT_TRUE(tx.commit());
  EXPECT_FALSE(of.set(w, 10));
  const auto found = base.snapshot().find(t, {1});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->get(v), 7);
  EXPECT_EQ(found->get(w), 6);
}

/// Neither when its transaction has ended, nor when another one has its place, nor when others have
/// ended it.
TEST(one_row, a_number_is_set_by_a_transaction_that_goes_on_alone) {
  db::database base = db::database::open();
  db::table& t = base.create_table(
      {.name = "t", .columns = {{"k", db::int64, db::primary_key}, {"v", db::int64}}});
  const auto v = t.column<std::int64_t>("v");
  ASSERT_TRUE(base.transact([&](db::transaction& tx) { return tx.insert(t, {1, 1}); }));
  ASSERT_TRUE(base.transact([&](db::transaction& tx) { return tx.insert(t, {2, 2}); }));
  {
    db::transaction tx = base.begin();
    db::editor of = *tx.edit(t, {1});
    ASSERT_TRUE(of.set(v, 10));
    ASSERT_TRUE(tx.commit());
    EXPECT_FALSE(of.set(v, 11)) << "it has ended";
    db::transaction next = base.begin();
    ASSERT_TRUE(next.edit(t, {2})->set(v, 20));
    EXPECT_FALSE(of.set(v, 12)) << "another one has its place";
    ASSERT_TRUE(next.commit());
  }
  db::transaction slow = base.begin({.deadline = std::chrono::nanoseconds(1)});
  db::editor of = *slow.edit(t, {1});
  db::outcome how = db::outcome::ok;
  for (int i = 0; how == db::outcome::ok && i < 100'000; ++i) {
    ASSERT_TRUE(base.transact([&](db::transaction& tx) { return tx.update(t, {2}, {{"v", 21}}); }));
    how = of.set(v, 13).code();
  }
  EXPECT_EQ(how, db::outcome::ended_by_policy);
  EXPECT_FALSE(slow.commit());
  const auto found = base.snapshot();
  EXPECT_EQ(found.find(t, 1)->get(v), 10);
  EXPECT_EQ(found.find(t, 2)->get(v), 21);
}

TEST(one_row, a_number_that_is_set_is_found_by_its_index) {
  db::database base = db::database::open();
  db::table& t =
      base.create_table({.name = "t",
                         .columns = {{"k", db::int64, db::primary_key}, {"v", db::int64}},
                         .indexes = {{"by_v", {"v"}}}});
  const auto v = t.column<std::int64_t>("v");
  ASSERT_TRUE(base.transact([&](db::transaction& tx) { return tx.insert(t, {1, 1}); }));
  ASSERT_TRUE(base.transact([&](db::transaction& tx) { return tx.edit(t, 1)->set(v, 5); }));
  int found = 0;
  base.snapshot().scan(t.index("by_v"), 5, 5, [&](const db::row&) { ++found; });
  EXPECT_EQ(found, 1);
}

}  // namespace
