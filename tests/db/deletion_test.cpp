// SPDX-License-Identifier: Apache-2.0
// Deletion gives memory back, and what is left is found as if nothing else had ever been there: by
// the system's account of memory, and by the processor's time.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/db.hpp>

#include "db/storages.hpp"
#include "support/cost.hpp"
#include "support/resident.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using db::outcome;
using db::reader;
using db::status;
using db::transaction;

constexpr std::int64_t many = test::sanitized ? 10'000 : 50'000;
constexpr std::int64_t left_over = 10;

/// Sanitizers keep what is freed, and more besides.
constexpr bool tells_memory = !SPOLIA_ASAN && !SPOLIA_TSAN;

struct rows_of {
  explicit rows_of(const db::options& o, db::index_kind primary = db::index_kind::hash,
                   std::vector<db::index_spec> indexes =
                       {{"by_v", {"v"}}, {"by_w", {"w"}, false, db::index_kind::hash}})
      : base(db::database::open(o)),
        rows(base.create_table({.name = "rows",
                                .columns = {{"k", db::int64, db::primary_key},
                                            {"v", db::int64},
                                            {"w", db::int64},
                                            {"t", db::text(14)}},
                                .primary = primary,
                                .indexes = std::move(indexes)})),
        v(rows.column<std::int64_t>("v")) {}

  void in_batches(std::int64_t from, std::int64_t end, std::int64_t batch,
                  const std::function<status(transaction&, std::int64_t)>& each) {
    for (; from < end; from += batch) {
      ASSERT_TRUE(base.transact([&](transaction& tx) {
        status s;
        for (std::int64_t n = from; n < std::min(end, from + batch) && s; ++n) s = each(tx, n);
        return s;
      }));
    }
  }
  void insert(std::int64_t from, std::int64_t end, std::int64_t batch = 1000) {
    in_batches(from, end, batch, [&](transaction& tx, std::int64_t n) {
      return tx.insert(rows, {n, n, n, "fourteen bytes"});
    });
  }
  void erase(std::int64_t from, std::int64_t end, std::int64_t batch = 1000) {
    in_batches(from, end, batch,
               [&](transaction& tx, std::int64_t n) { return tx.erase(rows, {n}); });
  }
  static std::int64_t count(const reader& at, const db::table& t) {
    std::int64_t seen = 0;
    at.for_each(t, [&](const db::row&) { ++seen; });
    return seen;
  }
  static std::int64_t count_by_query(const reader& at, const db::table& t) {
    return at.query(t).aggregate(db::count()).run({.threads = 1}).value().get<std::int64_t>(0, 0);
  }

  db::database base;
  db::table& rows;
  const db::column<std::int64_t> v;
};

/// Each storage that collects; and hash indexes of the other kind.
std::vector<storage_kind> kinds() {
  std::vector<storage_kind> all;
  for (const auto& info : db::version_storages()) {
    if (info.storage != db::version_storage::none) all.push_back({info.storage});
  }
  all.push_back({db::version_storage::one_shot_consolidated, false, db::hash_kind::cuckoo});
  return all;
}

std::string kind_name(const testing::TestParamInfo<storage_kind>& of) {
  return std::string(db::info_of(of.param).name) +
         (of.param.hashes == db::hash_kind::cuckoo ? "_cuckoo" : "");
}

db::options options_of(const storage_kind& kind) {
  return {.versions = kind, .hash_indexes = kind.hashes};
}

class deletion : public testing::TestWithParam<storage_kind> {};
INSTANTIATE_TEST_SUITE_P(each, deletion, testing::ValuesIn(kinds()), kind_name);

/// A scan of the table, a count by a query, and the first row by each index.
TEST_P(deletion, of_nearly_all_leaves_what_is_found_at_once) {
  rows_of t(options_of(GetParam()));
  rows_of whole(options_of(GetParam()));
  t.insert(0, many);
  whole.insert(0, many);
  // At a snapshot of its own each: what it does for the cleaner when it begins does not count.
  const auto scan = [](const rows_of& of) {
    const reader now = of.base.snapshot();
    return cost_of([&] { EXPECT_GT(of.count(now, of.rows), 0); });
  };
  const auto query = [](const rows_of& of) {
    const reader now = of.base.snapshot();
    return cost_of([&] { EXPECT_GT(of.count_by_query(now, of.rows), 0); });
  };
  const auto times_as_long = [&](const auto& way) {
    const auto [of_all, of_few] =
        least_in_turn(7, [&] { return way(whole); }, [&] { return way(t); });
    return of_all / of_few;
  };
  t.base.collect();
  for (const bool held : {false, true}) {
    SCOPED_TRACE(held ? "beside a reader that sees them" : "without a reader");
    if (held) t.insert(left_over, many);
    const reader before = held ? t.base.snapshot() : reader(t.base.snapshot());
    t.erase(left_over, many, many);
    if (held) {  // what a transaction does to the deleted rows and takes back
      transaction tx = t.base.begin();
      for (std::int64_t n = left_over; n < many; n += 10) {
        ASSERT_TRUE(tx.insert(t.rows, {n, n, n, "not after all"}));
      }
    }
    EXPECT_EQ(t.count(t.base.snapshot(), t.rows), left_over);
    EXPECT_EQ(t.count_by_query(t.base.snapshot(), t.rows), left_over);
    if (!sanitized) {  // where a query or scan of nothing takes half as long as of all
      EXPECT_GT(times_as_long(scan), 20);
      EXPECT_GT(times_as_long(query), 2);
    }
    if (held) {
      EXPECT_EQ(t.count(before, t.rows), many);
      EXPECT_EQ(t.count_by_query(before, t.rows), many);
    }
  }
}

TEST_P(deletion, gives_the_memory_back) {
  const std::uint64_t base = resident_when_trimmed();
  rows_of t(options_of(GetParam()));
  t.insert(0, many);
  t.base.collect();
  const std::uint64_t full = resident_when_trimmed() - base;
  const std::uint64_t full_rows = t.rows.bytes();
  t.erase(left_over, many);
  t.base.collect();
  // As collect() leaves it: what the allocator has given back, collect() has made it give.
  const std::uint64_t left = std::max(resident_bytes(), base) - base;
  if (tells_memory) {
    EXPECT_LE(left * 10, full * 3) << left << " of " << full;
  }
  EXPECT_LE(t.rows.bytes() * (sanitized ? 8 : 20), full_rows) << "of few there are less";
  EXPECT_EQ(t.count(t.base.snapshot(), t.rows), left_over);
  t.insert(left_over, many);  // into what was given back
  EXPECT_EQ(t.count(t.base.snapshot(), t.rows), many);
  EXPECT_LE(t.rows.bytes(), full_rows + (full_rows >> 4U));
}

/// So it is with jemalloc, which by itself would keep it while the program rests: this program once
/// more. Where the system has none, it says so, and glibc's allocator is tried again.
TEST(deletion_with_jemalloc, gives_the_memory_back) {
  if (!tells_memory) return;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "LD_PRELOAD=libjemalloc.so.2 '" + self +
                              "' --gtest_brief=1 --gtest_filter='"
                              "each/deletion.gives_the_memory_back/one_shot_evacuated:"
                              "each/deletion.gives_the_memory_back/steam_eager'";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_P(deletion, in_one_transaction_gives_back_what_it_took_itself) {
  const std::uint64_t base = resident_when_trimmed();
  rows_of t(options_of(GetParam()));
  t.insert(0, many);
  t.base.collect();
  const std::uint64_t full = resident_when_trimmed() - base;
  t.erase(left_over, many, many);
  t.base.collect();
  const std::uint64_t left = std::max(resident_bytes(), base) - base;
  if (tells_memory) {
    EXPECT_LE(left * 10, full * 3) << left << " of " << full;
  }
}

TEST_P(deletion, in_batches_takes_little_memory) {
  static_cast<void>(resident_when_trimmed());
  rows_of t(options_of(GetParam()));
  t.insert(0, many);
  const std::uint64_t full = resident_when_trimmed();
  peak_resident most;
  for (std::int64_t n = 0; n < many; n += many / 20) {
    t.erase(n, n + many / 20, many / 20);
    most.look();
  }
  if (tells_memory) {
    EXPECT_LE(most.bytes() * 4, full * 5) << most.bytes() << " of " << full;
  }
}

/// A queue: rows come at one end and go at the other.
TEST_P(deletion, of_a_queue_keeps_the_table_small) {
  rows_of t(options_of(GetParam()));
  t.insert(0, 100);
  for (std::int64_t n = 100; n < 20'000; ++n) {
    ASSERT_TRUE(t.base.transact([&](transaction& tx) {
      const status s = tx.insert(t.rows, {n, n, n, "next"});
      return s ? tx.erase(t.rows, {n - 100}) : s;
    }));
  }
  EXPECT_LE(t.rows.bytes(), 300U << 10U);
  EXPECT_LE(t.rows.row_slots(), 2500U);
}

/// Rows that are inserted again in the slots where a reader sees their former lives.
TEST_P(deletion, of_rows_that_come_again_hides_none) {
  rows_of t(options_of(GetParam()));
  t.insert(0, 100);
  const reader before = t.base.snapshot();
  t.erase(0, 100);
  EXPECT_EQ(t.count(t.base.snapshot(), t.rows), 0);
  const auto insert = [&](transaction& tx) {
    status s;
    for (std::int64_t n = 0; n < 100 && s; ++n) s = tx.insert(t.rows, {n, n + 1000, n, "again"});
    return s;
  };
  {  // its own rows, and after that none
    transaction tx = t.base.begin();
    const auto empty = tx.savepoint();
    ASSERT_TRUE(insert(tx));
    EXPECT_EQ(t.count(tx, t.rows), 100);
    EXPECT_EQ(t.count_by_query(tx, t.rows), 100);
    ASSERT_TRUE(tx.rollback_to(empty));
    EXPECT_EQ(t.count(tx, t.rows), 0);
    ASSERT_TRUE(insert(tx));
    EXPECT_EQ(t.count(tx, t.rows), 100);
  }
  EXPECT_EQ(t.count(t.base.snapshot(), t.rows), 0);
  EXPECT_EQ(t.count_by_query(t.base.snapshot(), t.rows), 0);
  ASSERT_TRUE(t.base.transact(insert));
  EXPECT_EQ(t.count(t.base.snapshot(), t.rows), 100);
  EXPECT_EQ(t.count_by_query(t.base.snapshot(), t.rows), 100);
  {
    transaction tx = t.base.begin({.isolation = db::isolation::serializable});
    EXPECT_EQ(t.count(tx, t.rows), 100);
    ASSERT_TRUE(tx.insert(t.rows, {100, 0, 0, "one more"}));
    t.erase(0, 1);
    EXPECT_EQ(tx.commit(), outcome::conflict) << "what it has counted has changed";
  }
  t.erase(1, 100);
  EXPECT_EQ(t.count(t.base.snapshot(), t.rows), 0);
  EXPECT_EQ(t.count(before, t.rows), 100);
}

/// A reader that was ended hears it, also where nothing is left of what it saw.
TEST_P(deletion, of_what_an_ended_reader_saw_is_told) {
  rows_of t(options_of(GetParam()));
  t.insert(0, 100);
  const reader late = t.base.snapshot({.deadline = std::chrono::nanoseconds(1)});
  t.erase(0, 100);
  t.base.collect();
  ASSERT_TRUE(late.ended());
  try {
    t.count(late, t.rows);
    ADD_FAILURE() << "a scan has shown that there is nothing";
  } catch (const db::no_result& e) {
    EXPECT_EQ(e.code(), outcome::ended_by_policy);
  }
  EXPECT_EQ(late.query(t.rows).aggregate(db::count()).run().code(), outcome::ended_by_policy);
}

// --- what transactions work with -----------------------------------------------------------------

class large_transactions : public testing::Test {
 protected:
  // Hash tables keep twice what they need, and more.
  large_transactions() : t({}, db::index_kind::ordered, {}) {
    t.insert(0, many);
    t.base.collect();
    before = resident_when_trimmed();
  }
  void expect_small(const char* what) {
    t.base.collect();
    const std::uint64_t now = resident_bytes();
    if (tells_memory) {
      EXPECT_LE(now, before + (std::uint64_t{3} << 20U)) << what;
    }
  }
  std::uint64_t before = 0;
  rows_of t;
};

TEST_F(large_transactions, leave_a_small_workspace) {
  const auto text = t.rows.column<std::string_view>("t");
  {  // locks many rows, and gives up
    transaction tx = t.base.begin();
    for (std::int64_t n = 0; n < many; ++n) ASSERT_TRUE(tx.lock(t.rows, {n}));
  }
  expect_small("locks");
  {
    transaction tx = t.base.begin();
    for (std::int64_t n = 0; n < many; ++n) static_cast<void>(tx.savepoint());
  }
  expect_small("savepoints");
  {
    transaction tx = t.base.begin({.isolation = db::isolation::serializable});
    for (std::int64_t n = 0; n < many; ++n) ASSERT_TRUE(tx.find(t.rows, {n}));
    for (std::int64_t n = 0; n < many; ++n) ASSERT_FALSE(tx.find(t.rows, {many + n}));
    ASSERT_TRUE(tx.commit());
  }
  expect_small("what was read");
  {
    transaction tx = t.base.begin();
    tx.for_each(t.rows, [&](const db::row& r) {
      auto e = tx.edit(t.rows, {r.get(t.v)});
      ASSERT_TRUE(e);
      ASSERT_TRUE(e->set(text, "changed"));
    });
    tx.rollback();
  }
  expect_small("changes of what is scanned");
  {
    transaction tx = t.base.begin();
    for (std::int64_t n = many; n < 2 * many; ++n) {
      ASSERT_TRUE(tx.insert(t.rows, {n, n, n, "more"}));
    }
    tx.rollback();
  }
  expect_small("insertions");
}

// --- budgets -------------------------------------------------------------------------------------

/// What was given back is free for others, and is asked for again; a refusal changes nothing.
TEST(deletion_with_a_budget, makes_room) {
  constexpr std::uint64_t budget = std::uint64_t{8} << 20U;
  rows_of t({.budget = budget}, db::index_kind::ordered, {});
  auto& other = t.base.create_table(
      {.name = "other", .columns = {{"k", db::int64, db::primary_key}, {"v", db::int64}}});
  /// Inserts rows from that key on until there is no room for one more; the key that had none.
  const auto fill = [&](db::table& to, std::int64_t n, auto&& one) {
    for (;; ++n) {
      const status s = t.base.transact([&](transaction& tx) { return one(tx, to, n); });
      if (s) continue;
      EXPECT_EQ(s, outcome::limit);
      return n;
    }
  };
  const auto one_row = [](transaction& tx, db::table& to, std::int64_t n) {
    return tx.insert(to, {n, n, n, "fourteen bytes"});
  };
  const auto one_other = [](transaction& tx, db::table& to, std::int64_t n) {
    return tx.insert(to, {n, n});
  };
  const std::int64_t fit = fill(t.rows, 0, one_row);
  EXPECT_GT(fit, 20'000);
  const std::int64_t few = fill(other, 0, one_other);
  EXPECT_LT(few, 3000);
  EXPECT_EQ(fill(other, few, one_other), few) << "refused again";
  EXPECT_EQ(t.count(t.base.snapshot(), t.rows), fit);
  t.erase(0, fit);
  t.base.collect();
  EXPECT_EQ(t.count(t.base.snapshot(), t.rows), 0);
  const std::int64_t others = fill(other, few, one_other);
  EXPECT_GT(others, fit / 2) << "what was given back is another table's";
  const std::int64_t again = fill(t.rows, 0, one_row);
  EXPECT_LT(again, 5000) << "one chunk at most was kept";
  EXPECT_EQ(t.count(t.base.snapshot(), t.rows), again);
  const std::int64_t gone = others / 4 * 3;
  // What a transaction works with counts, too, so that not all rows can go in one.
  t.in_batches(0, gone, 5000,
               [&](transaction& tx, std::int64_t n) { return tx.erase(other, {n}); });
  t.base.collect();
  t.insert(again, again + fit / 4);
  EXPECT_EQ(t.count(t.base.snapshot(), t.rows), again + fit / 4);
  EXPECT_EQ(t.count(t.base.snapshot(), other), others - gone);
}

/// While an index is built over the rows: its builder adds entries of rows that its snapshot sees,
/// and that were erased before it came to them.
TEST(deletion_beside_a_builder, leaves_no_entries) {
  constexpr std::int64_t some = test::sanitized ? 5'000 : 20'000;
  rows_of t({}, db::index_kind::hash, {});
  const db::index_spec by_v{.name = "by_v", .columns = {"v"}};
  const auto bytes_left = [&](bool beside) {
    t.insert(0, some);
    std::atomic<bool> begun{false};
    std::thread eraser([&] {
      for (std::int64_t n = some; n > 0; n -= 20) {
        if (!beside || n < some / 8 * 7) begun.store(true, std::memory_order_relaxed);
        t.erase(n - 20, n);
      }
    });
    if (!beside) eraser.join();
    while (!begun.load(std::memory_order_relaxed)) std::this_thread::yield();
    EXPECT_TRUE(t.base.create_index(t.rows, by_v));
    if (beside) eraser.join();
    t.base.collect();
    t.base.collect();
    EXPECT_EQ(t.count(t.base.snapshot(), t.rows), 0);
    const std::uint64_t left = t.rows.index_bytes();
    EXPECT_TRUE(t.base.drop_index(t.rows, "by_v"));
    t.base.collect();
    return left;
  };
  const std::uint64_t without = bytes_left(false);
  for (int round = 0; round < (sanitized ? 2 : 20); ++round) {
    EXPECT_LE(bytes_left(true), without + 4096);
  }
}

}  // namespace
