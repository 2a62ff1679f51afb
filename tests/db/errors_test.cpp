// SPDX-License-Identifier: Apache-2.0
// Databases when allocations fail: all of a transaction, or nothing.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <new>

#include "db/storages.hpp"
#include "support/faults.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

class db_errors : public over_storages {};
SPOLIA_OVER_STORAGES_AND_TABLES(db_errors);

TEST_P(db_errors, memory_that_is_missing_changes_nothing) {
  ASSERT_TRUE(put(1, 5));
  ASSERT_TRUE(put(2, 5));
  std::int64_t round = 0;
  const std::uint64_t failures = for_each_allocation_failure([&] {
    ++round;
    const std::int64_t key = 1000 + round;
    const std::int64_t before = a_now(1);
    try {
      transaction tx = base.begin();
      if (!tx.insert(items, {key, 1, key, "fresh"})) throw std::logic_error("insert");
      if (!tx.update(items, {1}, {{"a", round + 100}})) throw std::logic_error("update");
      if (!tx.commit()) throw std::logic_error("commit");
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(a_now(1), before);
      EXPECT_EQ(a_now(key), -1);
      throw;
    }
    EXPECT_EQ(a_now(1), round + 100);
    EXPECT_EQ(a_now(key), 1);
  });
  EXPECT_GT(failures, 3U);
  EXPECT_TRUE(set_a(1, 7)) << "no lock is left";
  int rows = 0;
  base.snapshot().scan(items.index("by_a"), {}, {}, [&](const row&) { ++rows; });
  EXPECT_EQ(rows, 3);
}

TEST_P(db_errors, serializable_transactions_without_memory) {
  ASSERT_TRUE(put(1, 5));
  std::int64_t round = 0;
  const std::uint64_t failures = for_each_allocation_failure([&] {
    const std::int64_t before = a_now(1);
    ++round;
    try {
      transaction tx = base.begin({.isolation = isolation::serializable});
      tx.scan(items, {}, {}, [](const row&) {});
      tx.scan(items.index("by_a"), {3}, {}, [](const row&) {});
      static_cast<void>(tx.find(items, {7}));
      if (!tx.update(items, {1}, {{"a", round + 100}})) throw std::logic_error("update");
      // Without memory to look at its reads again, a transaction is one in conflict.
      if (!tx.commit()) throw std::bad_alloc();
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(a_now(1), before);
      throw;
    }
    EXPECT_EQ(a_now(1), round + 100);
  });
  EXPECT_GT(failures, 3U);
  EXPECT_TRUE(set_a(1, 7)) << "no lock is left";
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
}

TEST_P(db_errors, updates_of_several_columns_without_memory) {
  table& t = base.create_table({.name = "wide",
                                .columns = {{"k", int64, primary_key},
                                            {"x", int64},
                                            {"y", int64},
                                            {"free", text(), nullable},
                                            {"more", blob(), nullable}},
                                .indexes = {{"by_xy", {"x", "y"}, true}, {"by_y", {"y"}}}});
  const auto x = t.column<std::int64_t>("x");
  const auto y = t.column<std::int64_t>("y");
  const auto free = t.column<std::string_view>("free");
  ASSERT_TRUE(
      base.transact([&](transaction& tx) { return tx.insert(t, {1, 0, 0, nullptr, nullptr}); }));
  std::int64_t round = 0;
  std::int64_t last = 0;
  const auto is_after = [&](std::int64_t n) {
    const reader now = base.snapshot();
    const auto row = now.find(t, {1});
    int found = 0;
    now.scan(t.index("by_xy"), {n, -n}, {n, -n}, [&](const auto&) { ++found; });
    return row && row->get(x) == n && row->get(y) == -n && found == 1 &&
           (n == 0 || row->get(free) == std::string(100, static_cast<char>('a' + n % 26)));
  };
  const std::uint64_t failures = for_each_allocation_failure([&] {
    const std::string words(100, static_cast<char>('a' + ++round % 26));
    try {
      transaction tx = base.begin();
      const status s =
          tx.update(t, {1}, {{"x", round}, {"free", words}, {"y", -round}, {"more", blob_view()}});
      if (!s) throw std::logic_error("update");
      if (!tx.commit()) throw std::logic_error("commit");
      last = round;
    } catch (const std::bad_alloc&) {
      EXPECT_TRUE(is_after(last));
      throw;
    }
    EXPECT_TRUE(is_after(round));
  });
  EXPECT_GT(failures, 3U);
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
}

TEST_P(db_errors, savepoints_without_memory) {
  ASSERT_TRUE(put(1, 5));
  ASSERT_TRUE(put(2, 5));
  const std::uint64_t failures = for_each_allocation_failure([&] {
    const std::int64_t before = a_now(1);
    try {
      transaction tx = base.begin({.longest_wait = std::chrono::milliseconds(1)});
      if (!tx.update(items, {1}, {{"a", before + 1}})) throw std::logic_error("update");
      const savepoint here = tx.savepoint();
      if (!tx.update(items, {1}, {{"a", 0}})) throw std::logic_error("update");
      if (!tx.erase(items, {2})) throw std::logic_error("erase");
      if (!tx.insert(items, {3, 0, 30, nullptr})) throw std::logic_error("insert");
      if (!tx.rollback_to(here)) throw std::logic_error("rollback_to");
      if (!tx.commit()) throw std::logic_error("commit");
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(a_now(1), before);
      throw;
    }
    EXPECT_EQ(a_now(1), before + 1);
    EXPECT_EQ(a_now(2), 5);
    EXPECT_EQ(a_now(3), -1);
  });
  EXPECT_GT(failures, 3U);
}

TEST_P(db_errors, deletions_without_memory) {
  std::int64_t round = 0;
  for_each_allocation_failure([&] {
    ++round;
    if (a_now(5) < 0) {
      ASSERT_TRUE(put(5, round));
    }
    const std::int64_t before = a_now(5);
    try {
      transaction tx = base.begin();
      if (!tx.erase(items, {5})) throw std::logic_error("erase");
      if (!tx.commit()) throw std::logic_error("commit");
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(a_now(5), before);
      throw;
    }
    EXPECT_EQ(a_now(5), -1);
  });
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
}

/// What a held reader sees is buried, and taken away when the reader has ended, with each
/// allocation of the cleaner failing in turn.
TEST_P(db_errors, cleaning_without_memory) {
  const auto rows_of = [&](const reader& at) {
    int rows = 0;
    at.scan(items, {}, {}, [&](const row&) { ++rows; });
    at.scan_down(items.index("by_a"), {}, {}, [&](const row&) { ++rows; });
    at.scan(items.index("by_b"), {}, {}, [&](const row&) { ++rows; });
    for (std::int64_t key = 0; key < 3; ++key) rows += a_of(at, key) == 5 ? 1 : 0;
    return rows;
  };
  bool failed = true;
  for (std::uint64_t n = 1; failed; ++n) {
    ASSERT_LT(n, 500U);
    SCOPED_TRACE(n);
    for (std::int64_t key = 0; key < 3; ++key) ASSERT_TRUE(put(key, 5));
    {
      const reader held = base.snapshot();
      ASSERT_TRUE(set_a(0, 6));
      for (std::int64_t key = 0; key < 3; ++key) {
        ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.erase(items, {key}); }));
      }
      {
        const fail_after fault(n);
        for (int looks = 0; looks < 3; ++looks) base.collect();
        failed = fault.fired();
      }
      EXPECT_EQ(rows_of(held), 12);
      EXPECT_EQ(rows_of(base.snapshot()), 0);
    }
    {
      const fail_after fault(n);
      base.collect();
      failed = failed || fault.fired();
    }
    base.collect();
    EXPECT_EQ(base.stats().cleaning, 0U);
    EXPECT_EQ(rows_of(base.snapshot()), 0);
  }
}

TEST_P(db_errors, a_database_without_memory) {
  const table_spec spec{.name = "t",
                        .columns = {{"k", int64, primary_key}, {"x", text(8)}},
                        .indexes = {{"by_x", {"x"}}}};
  static_cast<void>(db::schema(spec));  // the process remembers what it looks like
  const std::int64_t before = live_allocations();
  for_each_allocation_failure([&] {
    database other = database::open({.versions = GetParam(), .hash_indexes = GetParam().hashes});
    table& t = other.create_table(spec);
    const status s = other.transact([&](transaction& tx) { return tx.insert(t, {1, "y"}); });
    EXPECT_TRUE(s);
  });
  EXPECT_EQ(live_allocations(), before);
}

}  // namespace
