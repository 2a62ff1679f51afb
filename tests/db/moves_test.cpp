// SPDX-License-Identifier: Apache-2.0
// Readers and transactions that are moved: what belongs to them goes on with them.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/misuse.hpp>
#include <spolia/db.hpp>

namespace {

using namespace spolia;
using namespace spolia::db;

static_assert(std::is_nothrow_move_constructible_v<reader>);
static_assert(std::is_nothrow_move_assignable_v<reader>);
static_assert(std::is_nothrow_move_constructible_v<transaction>);
static_assert(std::is_nothrow_move_assignable_v<transaction>);
static_assert(!std::is_copy_constructible_v<reader> && !std::is_copy_assignable_v<transaction>);
static_assert(!std::is_constructible_v<reader, transaction>);
static_assert(!std::is_assignable_v<reader&, transaction>);

class db_moves : public testing::Test {
 protected:
  db_moves() {
    for (std::int64_t k = 1; k <= 9; ++k) {
      EXPECT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {k, 10}); }));
    }
  }
  std::int64_t now(std::int64_t k) { return base.snapshot().find(t, {k})->get(v); }
  status set(std::int64_t k, std::int64_t to) {
    return base.transact([&](transaction& tx) { return tx.update(t, {k}, {{"v", to}}); });
  }
  static int rows_of(const reader& r, const table& t) {
    int rows = 0;
    r.for_each(t, [&](const row&) { ++rows; });
    return rows;
  }

  database base = database::open();
  table& t = base.create_table({.name = "t",
                                .columns = {{"k", int64, primary_key}, {"v", int64}},
                                .primary = index_kind::ordered});
  const column<std::int64_t> v = t.column<std::int64_t>("v");
};

TEST_F(db_moves, readers_in_containers_keep_what_they_see) {
  std::vector<reader> all;  // which moves them as it grows
  for (std::int64_t n = 0; n < 20; ++n) {
    ASSERT_TRUE(set(1, n));
    all.push_back(base.snapshot());
  }
  base.collect();
  for (std::int64_t n = 0; n < 20; ++n) {
    EXPECT_EQ(all[static_cast<std::size_t>(n)].find(t, {1})->get(v), n);
  }
  EXPECT_EQ(base.readers().size(), 20U);
  all.erase(all.begin() + 3, all.end());
  EXPECT_EQ(base.readers().size(), 3U);
  EXPECT_EQ(all[2].find(t, {1})->get(v), 2);
  std::optional<reader> one;
  one = std::move(all[1]);
  all.clear();
  EXPECT_EQ(base.readers().size(), 1U);
  EXPECT_EQ(one->find(t, {1})->get(v), 1);
  const auto boxed = std::make_unique<reader>(std::move(*one));
  EXPECT_EQ(one->find(t, {1}).code(), outcome::ended);
  one.reset();
  EXPECT_EQ(boxed->find(t, {1})->get(v), 1);
}

TEST_F(db_moves, one_that_was_moved_from_has_ended) {
  transaction from = base.begin();
  ASSERT_TRUE(from.update(t, {1}, {{"v", 11}}));
  transaction to = std::move(from);
  EXPECT_EQ(from.state(), outcome::ended);  // NOLINT: this is what is tested
  EXPECT_EQ(from.find(t, {1}).code(), outcome::ended);
  EXPECT_EQ(from.insert(t, {100, 1}), outcome::ended);
  EXPECT_EQ(from.commit(), outcome::ended);
  from.rollback();
  EXPECT_THROW(from.for_each(t, [](const row&) {}), no_result);
  EXPECT_EQ(from.query(t).aggregate(count()).run().code(), outcome::ended);
  EXPECT_FALSE(from.ended());
  EXPECT_EQ(to.state(), outcome::ok);
  EXPECT_EQ(to.find(t, {1})->get(v), 11);
  from = base.begin();  // and may be used again
  EXPECT_EQ(from.find(t, {1})->get(v), 10);
  EXPECT_TRUE(to.commit());
  EXPECT_EQ(now(1), 11);
}

TEST_F(db_moves, how_a_transaction_has_ended_goes_with_it) {
  transaction first = base.begin();
  transaction second = base.begin();
  ASSERT_TRUE(first.update(t, {1}, {{"v", 11}}));
  auto e = second.edit(t, {2});
  EXPECT_EQ(second.update(t, {1}, {{"v", 12}}), outcome::conflict);
  const transaction third = std::move(second);
  EXPECT_EQ(third.state(), outcome::conflict);
  EXPECT_EQ(e->set(v, 5), outcome::conflict);
}

TEST_F(db_moves, what_is_assigned_to_is_rolled_back) {
  database there = database::open();
  table& its = there.create_table({.name = "its", .columns = {{"k", int64, primary_key}}});
  transaction tx = base.begin();
  ASSERT_TRUE(tx.update(t, {1}, {{"v", 11}}));
  transaction other = base.begin();
  ASSERT_TRUE(other.update(t, {2}, {{"v", 22}}));
  tx = std::move(other);
  EXPECT_TRUE(set(1, 12)) << "its lock is gone";
  EXPECT_EQ(set(3, 3), outcome::ok);
  EXPECT_TRUE(tx.commit());
  EXPECT_EQ(now(1), 12);
  EXPECT_EQ(now(2), 22);
  tx = there.begin();  // of another database
  EXPECT_TRUE(tx.insert(its, {1}));
  EXPECT_TRUE(tx.commit());
  EXPECT_TRUE(there.snapshot().find(its, {1}));
  transaction& same = tx;
  tx = there.begin();
  tx = std::move(same);
  EXPECT_TRUE(tx.find(its, {1})) << "to itself";
}

TEST_F(db_moves, editors_savepoints_and_queries_go_on) {
  auto tx = std::make_unique<transaction>(base.begin());
  auto e = tx->edit(t, {1});
  ASSERT_TRUE(e);
  ASSERT_TRUE(e->set(v, 20));
  const savepoint here = tx->savepoint();
  ASSERT_TRUE(e->set(v, 30));
  const query all = tx->query(t).aggregate(sum("v"));
  std::vector<transaction> moved;
  moved.push_back(std::move(*tx));
  tx.reset();  // nothing may refer to it
  EXPECT_EQ(e->get(v), 30);
  EXPECT_EQ(all.run()->get<std::int64_t>(0, 0), 8 * 10 + 30);
  ASSERT_TRUE(e->set(v, 40));
  EXPECT_EQ(moved[0].find(t, {1})->get(v), 40);
  ASSERT_TRUE(moved[0].rollback_to(here));
  EXPECT_EQ(e->get(v), 20);
  ASSERT_TRUE(e->set(v, e->get(v) + 1));
  EXPECT_TRUE(moved[0].commit());
  EXPECT_EQ(now(1), 21);
  EXPECT_EQ(e->set(v, 50), outcome::ended);
  EXPECT_EQ(all.run().code(), outcome::ended);
  moved.clear();
  EXPECT_EQ(e->set(v, 50), outcome::ended) << "the object is gone";
  transaction next = base.begin();  // has its place, maybe
  ASSERT_TRUE(next.edit(t, {2}));
  EXPECT_EQ(e->set(v, 50), outcome::ended);
  EXPECT_EQ(all.run().code(), outcome::ended);
  EXPECT_TRUE(next.commit());
  EXPECT_EQ(now(1), 21);
  EXPECT_EQ(now(2), 10);
}

TEST_F(db_moves, serializable_ones_still_know_what_they_have_read) {
  transaction from = base.begin({.isolation = isolation::serializable});
  EXPECT_EQ(rows_of(from, t), 9);
  ASSERT_TRUE(from.update(t, {1}, {{"v", 11}}));
  transaction to = std::move(from);
  ASSERT_TRUE(set(9, 1));
  EXPECT_EQ(to.commit(), outcome::conflict);
}

/// Another thread may end it while it is moved: its announcement is in the object.
TEST_F(db_moves, those_that_may_be_ended_are_ended_where_they_are) {
  for (int round = 0; round < 50; ++round) {
    std::optional<reader> at(base.snapshot({.deadline = std::chrono::nanoseconds(1)}));
    std::thread other([&] { base.collect(); });
    for (int n = 0; n < 20; ++n) {
      reader next = std::move(*at);
      at.reset();
      at.emplace(std::move(next));
    }
    other.join();
    base.collect();
    EXPECT_TRUE(at->ended());
    EXPECT_EQ(at->find(t, {1}).code(), outcome::ended_by_policy);
    EXPECT_TRUE(base.readers().empty());
  }
  const reader from = base.snapshot({.deadline = std::chrono::hours(1)});
  reader to = base.snapshot({.deadline = std::chrono::hours(1)});
  to = base.snapshot();
  base.collect();
  EXPECT_TRUE(to.find(t, {1}));
  EXPECT_TRUE(from.find(t, {1}));
}

TEST_F(db_moves, on_to_another_thread) {
  transaction tx = base.begin();
  ASSERT_TRUE(tx.update(t, {1}, {{"v", 11}}));
  std::thread([mine = std::move(tx)]() mutable { EXPECT_TRUE(mine.commit()); }).join();
  EXPECT_EQ(now(1), 11);
}

#if SPOLIA_CHECKS

std::string last_mistake;

/// A move that cannot be is named, and does nothing: the scan and its transaction go on.
class db_moves_refused : public db_moves {
 protected:
  db_moves_refused() {
    last_mistake.clear();
    before_ =
        core::set_misuse_handler([](const char* what, std::uint32_t) { last_mistake = what; });
  }
  ~db_moves_refused() override { core::set_misuse_handler(before_); }
  static bool named(const std::string& part) {
    return std::exchange(last_mistake, "").find(part) != std::string::npos;
  }

 private:
  core::misuse_handler before_ = nullptr;
};

TEST_F(db_moves_refused, by_the_function_of_a_scan_or_query) {
  transaction tx = base.begin();
  int rows = 0;
  const auto tries = [&] {
    const transaction moved = std::move(tx);
    EXPECT_TRUE(named("is moved, or assigned to"));
    EXPECT_EQ(moved.state(), outcome::ended);
    EXPECT_EQ(tx.state(), outcome::ok);  // NOLINT: this is what is tested
    tx = base.begin();
    EXPECT_TRUE(named("is moved, or assigned to"));
    ++rows;
  };
  tx.for_each(t, [&](const row&) { tries(); });
  EXPECT_EQ(rows, 9);
  tx.scan(t, {3}, {5}, [&](const row&) { tries(); });
  EXPECT_EQ(rows, 12);
  ASSERT_TRUE(tx.query(t)
                  .where(v, [&](std::int64_t) { return tries(), true; })
                  .aggregate(count())
                  .run({.threads = 1}));
  EXPECT_EQ(rows, 21);
  EXPECT_TRUE(tx.update(t, {1}, {{"v", 11}}));
  tx.for_each(t, [&](const row&) {
    if (tx.state()) {
      EXPECT_TRUE(tx.commit());
    }
    tx = base.begin();
    EXPECT_TRUE(named("is moved, or assigned to")) << "the scan would go on in the wrong one";
  });
  EXPECT_EQ(tx.state(), outcome::ended);
  EXPECT_EQ(now(1), 11);
  tx = base.begin();
  EXPECT_EQ(last_mistake, "");
  EXPECT_TRUE(tx.find(t, {1}));
}

TEST_F(db_moves_refused, of_a_transaction_as_a_reader) {
  transaction tx = base.begin();
  ASSERT_TRUE(tx.update(t, {1}, {{"v", 11}}));
  reader& as_reader = tx;
  const reader taken = std::move(as_reader);
  EXPECT_TRUE(named("moved as a reader"));
  EXPECT_EQ(taken.find(t, {1}).code(), outcome::ended);
  as_reader = base.snapshot();
  EXPECT_TRUE(named("moved as a reader"));
  EXPECT_TRUE(tx.commit());
  EXPECT_EQ(now(1), 11);
}

#endif

}  // namespace
