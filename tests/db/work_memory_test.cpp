// SPDX-License-Identifier: Apache-2.0
// What transactions work with: it is told, and the budget bounds it, by the system's own account.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <spolia/db.hpp>

#include "support/resident.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using db::isolation;
using db::outcome;
using db::reader;
using db::status;
using db::transaction;

constexpr std::uint64_t budget = 64U << 20U;
constexpr std::uint64_t most_resident = budget + budget / 10 + (16U << 20U);

db::table_spec rows_spec(std::uint32_t width) {
  return {.name = "rows",
          .columns = {{"k", db::int64, db::primary_key},
                      {"u", db::int64},
                      {"g", db::int64},
                      {"t", db::text(width)}},
          .indexes = {{.name = "by_u", .columns = {"u"}, .unique = true},
                      {.name = "by_g", .columns = {"g"}}}};
}

class work_memory : public testing::Test {
 protected:
  void fill(std::int64_t count) {
    for (std::int64_t from = 0; from < count; from += 1000) {
      ASSERT_TRUE(base.transact([&](transaction& tx) {
        status s;
        for (std::int64_t n = from; n < from + 1000 && s; ++n) s = tx.insert(rows, {n, n, n, ""});
        return s;
      }));
    }
  }
  [[nodiscard]] std::uint64_t told_of(const std::string& label) const {
    for (const db::reader_info& r : base.readers()) {
      if (r.label == label) return r.work_bytes;
    }
    ADD_FAILURE() << "there is no " << label;
    return 0;
  }

  db::database base = db::database::open();
  db::table& rows = base.create_table(rows_spec(100));
};

/// By reader, also of readers that the same thread has begun at the same time.
TEST_F(work_memory, is_told_of_each_reader) {
  fill(20000);
  const reader idle = base.snapshot("idle");
  const std::uint64_t none = base.stats().work_bytes;
  transaction busy = base.begin("busy");
  transaction looking = base.begin({.label = "looking", .isolation = isolation::serializable});
  const std::uint64_t before = resident_bytes();
  for (std::int64_t n = 0; n < 20000; ++n) ASSERT_TRUE(busy.update(rows, {n}, {{"g", -n}}));
  const std::uint64_t grown = resident_bytes() - before;
  for (std::int64_t n = 0; n < 20000; ++n) {
    ASSERT_EQ(looking.find(rows, {100000 + n}).code(), outcome::not_found);
  }
  EXPECT_LT(told_of("idle"), 256U << 10U) << "what a transaction before it has left";
  // Rows that are locked, images, records of entries.
  EXPECT_GT(told_of("busy"), 20000U * (100 + 100 + 56));
  if (!sanitized) {
    EXPECT_LT(told_of("busy"), 2 * grown);
    EXPECT_LT(grown, 2 * told_of("busy") + (4U << 20U)) << "index entries, too";
  }
  EXPECT_GT(told_of("looking"), 20000U * 100);
  EXPECT_LT(told_of("looking"), 20000U * 1000);
  EXPECT_GE(base.stats().work_bytes, told_of("busy") + told_of("looking"));
  ASSERT_TRUE(busy.commit());
  looking.rollback();
  EXPECT_LT(base.stats().work_bytes, none + (1U << 20U)) << "what is kept for the next ones";
}

/// 64 sessions keep what a usual transaction needs; those beyond keep nothing but themselves.
TEST_F(work_memory, is_given_back_where_many_were_open_at_once) {
  constexpr std::int64_t sessions_that_keep = 64;
  constexpr std::int64_t many_at_once = 400;
  constexpr std::int64_t rows_of_each = 50;
  fill((sessions_that_keep + many_at_once) * rows_of_each);
  const auto use_at_once = [&](std::int64_t count) {
    std::vector<transaction> all;
    for (std::int64_t n = 0; n < count; ++n) {
      all.push_back(base.begin({.isolation = isolation::serializable}));
      std::vector<db::row> found;
      for (std::int64_t k = 0; k < rows_of_each; ++k) {
        ASSERT_TRUE(all.back().lock(rows, {n * rows_of_each + k}));
        auto row = all.back().find(rows, {n * rows_of_each + k});
        ASSERT_TRUE(row);
        found.push_back(*row);
      }
      for (std::int64_t k = 0; k < 1000; ++k) ASSERT_TRUE(all.back().find(rows, {k * 7}));
      int shown = 0;
      all.back().for_each(rows, [&](const db::row&) { return ++shown < 1000; });
      static_cast<void>(all.back().savepoint());
    }
  };
  use_at_once(sessions_that_keep);
  base.collect();
  const std::uint64_t told = base.stats().work_bytes;
  const std::uint64_t before = resident_when_trimmed();
  EXPECT_GT(told, sessions_that_keep * 16384U) << "the first ones keep it";
  use_at_once(sessions_that_keep + many_at_once);
  base.collect();
  EXPECT_LE(base.stats().work_bytes - told, many_at_once * 64U);
  if (!sanitized) {
    EXPECT_LE(resident_when_trimmed(), before + many_at_once * 4096U) << "they are 2 KB each";
  }
}

/// A transaction that goes on and on is refused, has lost nothing, and commits.
void goes_on(const char* what,
             const std::function<status(transaction&, db::table&, std::int64_t)>& f,
             isolation how = isolation::snapshot) {
  SCOPED_TRACE(what);
  db::database base =
      db::database::open({.version_budget = budget / 2, .budget = budget, .on_slow_reader = {}});
  db::table& rows = base.create_table(rows_spec(100));
  ASSERT_TRUE(base.transact([&](transaction& tx) {
    status s;
    for (std::int64_t n = 0; n < 10 && s; ++n) s = tx.insert(rows, {n, n, n, ""});
    return s;
  }));
  const std::uint64_t before = resident_bytes();
  std::uint64_t most = 0;
  transaction tx = base.begin({.isolation = how});
  ASSERT_TRUE(tx.update(rows, {5}, {{"g", 55}}));
  std::int64_t refused = 0;
  for (std::int64_t n = 0; n < 1000000 && refused < 1000; ++n) {
    const status s = f(tx, rows, n);
    ASSERT_TRUE(s || s == outcome::limit) << s.message();
    refused += s ? 0 : 1;
    if (n % 1000 == 0) most = std::max(most, resident_bytes());
  }
  EXPECT_EQ(refused, 1000);
  ASSERT_TRUE(tx.commit());
  most = std::max(most, resident_bytes());
  EXPECT_GT(most - before, budget / 4) << "much less than what there is room for";
  EXPECT_LT(most - before, most_resident);
  EXPECT_EQ(base.snapshot().find(rows, {5})->get(rows.column<std::int64_t>("g")), 55);
  base.collect();
  EXPECT_LT(base.stats().work_bytes, 1U << 20U);
  EXPECT_TRUE(
      base.transact([&](transaction& next) { return next.insert(rows, {77, 77, 77, ""}); }));
}

TEST(work_within_the_budget, is_what_one_transaction_gets) {
  if (sanitized) GTEST_SKIP() << "their allocators keep what is freed";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto in_child = [](auto&&... how) {
    EXPECT_EXIT(
        {
          goes_on(how...);
          std::exit(testing::Test::HasFailure() ? 1 : 0);
        },
        testing::ExitedWithCode(0), "");
  };
  in_child("values of an index", [](transaction& tx, db::table& rows, std::int64_t n) {
    tx.savepoint();  // which leads back to it
    return tx.update(rows, {1}, {{"g", 1000 + n}});
  });
  in_child("rows that are inserted", [](transaction& tx, db::table& rows, std::int64_t n) {
    return tx.insert(rows, {1000 + n, 1000 + n, 1, ""});
  });
  in_child("savepoints", [](transaction& tx, db::table& rows, std::int64_t n) {
    tx.savepoint();
    return tx.update(rows, {n % 10}, {{"t", "word"}});
  });
  in_child(
      "keys that are not there",
      [](transaction& tx, db::table& rows, std::int64_t n) {
        const status s = tx.find(rows, {1000 + n}).why();
        return s == outcome::not_found ? status() : s;
      },
      isolation::serializable);
  in_child(
      "ranges",
      [](transaction& tx, db::table& rows, std::int64_t n) -> status {
        try {
          tx.scan(rows.index("by_g"), {1000 + 2 * n}, {1001 + 2 * n}, [](const db::row&) {});
        } catch (const db::no_result& e) {
          return e.code();
        }
        return {};
      },
      isolation::serializable);
}

/// Nothing of a call that is refused remains, whatever it was about to do.
TEST(work_within_the_budget, refuses_calls_whole) {
  db::database base = db::database::open({.budget = 9U << 20U, .on_slow_reader = {}});
  db::table& rows = base.create_table(rows_spec(1000));
  const auto g = rows.column<std::int64_t>("g");
  constexpr std::int64_t count = 6000;
  for (std::int64_t n = 0; n < count; ++n) {
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(rows, {n, n, n, ""}); }));
  }
  transaction tx = base.begin();
  std::int64_t done = 0;
  const auto here = tx.savepoint();
  std::vector<outcome> ends;
  for (std::int64_t n = 0; n < count; ++n) {
    const status s =
        n % 2 == 0 ? tx.update(rows, {n}, {{"u", count + n}, {"g", -n}}) : tx.erase(rows, {n});
    if (s) {
      ++done;
      continue;
    }
    ASSERT_EQ(s, outcome::limit);
    ASSERT_EQ(tx.find(rows, {n})->get(g), n);
    ASSERT_EQ(tx.insert(rows, {2 * count + n, -1 - n, 1, ""}), outcome::limit);
    ASSERT_EQ(tx.find(rows, {2 * count + n}).code(), outcome::not_found);
  }
  ASSERT_GT(done, 100);
  ASSERT_LT(done, count);
  // To go back is not refused.
  ASSERT_TRUE(tx.rollback_to(here));
  for (std::int64_t n = 0; n < count; ++n) ASSERT_EQ(tx.find(rows, {n})->get(g), n);
  ASSERT_TRUE(tx.commit());
  EXPECT_TRUE(base.transact([&](transaction& next) { return next.update(rows, {0}, {{"g", 7}}); }));
  base.collect();
  std::int64_t shown = 0;
  base.snapshot().scan(rows.index("by_g"), {}, {}, [&](const db::row&) { ++shown; });
  EXPECT_EQ(shown, count);
  EXPECT_EQ(base.stats().cleaning, 0U);
}

/// Rows as many as there may be; then readers of staggered ages, and transactions of many rows,
/// most of which are refused.
void changes_many_rows_beside_readers() {
  db::database base =
      db::database::open({.version_budget = budget / 2, .budget = budget, .on_slow_reader = {}});
  db::table& rows = base.create_table(
      {.name = "rows",
       .columns = {{"k", db::int64, db::primary_key}, {"g", db::int64}, {"t", db::text(176)}},
       .indexes = {{.name = "by_g", .columns = {"g"}}}});
  const std::string text(176, 'x');
  constexpr std::int64_t at_once = 20000;
  std::mt19937_64 random(3);
  std::uint64_t most = 0;
  const std::uint64_t before = resident_bytes();
  std::int64_t count = 0;
  const auto each = [&](std::int64_t times, auto&& f) {
    transaction tx = base.begin();
    status s;
    for (std::int64_t n = 0; n < times && s; ++n) s = f(tx);
    most = std::max(most, resident_bytes());
    const status end = s || s == outcome::not_found ? tx.commit() : s;
    most = std::max(most, resident_bytes());
    return end;
  };
  for (bool full = false; !full;) {
    std::int64_t more = 0;
    full = !each(1000, [&](transaction& tx) {
      return tx.insert(rows, {count + more++, count % 1000, text});
    });
    if (!full) count += more;
  }
  const auto any = [&] {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
  };
  const auto update = [&](transaction& tx) {
    const status s = tx.update(rows, {any()}, {{"g", static_cast<std::int64_t>(random() % 1000)}});
    return s == outcome::not_found ? status() : s;
  };
  const auto erase = [&](transaction& tx) {
    const status s = tx.erase(rows, {any()});
    return s == outcome::not_found ? status() : s;
  };
  std::deque<std::unique_ptr<reader>> held;
  std::int64_t done = 0;
  const auto some = [&](std::int64_t times, std::int64_t of, auto&& f) {
    for (std::int64_t i = 0; i < times; ++i) {
      done += each(of, f) ? 1 : 0;
      if (held.size() < 64)
        held.push_back(std::unique_ptr<reader>(new reader(base.snapshot("held"))));
    }
  };
  some(30, at_once, update);
  some(5, at_once, erase);
  some(200, 100, update);
  some(30, at_once, update);
  held.clear();
  some(30, at_once, update);
  some(5, at_once, erase);
  some(30, at_once, update);
  EXPECT_GT(done, 20);
  EXPECT_LT(most - before, most_resident);
}

TEST(work_within_the_budget, is_given_back_after_large_transactions) {
  if (sanitized) GTEST_SKIP() << "their allocators keep what is freed";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    changes_many_rows_beside_readers();
    std::exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

}  // namespace
