// SPDX-License-Identifier: Apache-2.0
// Queries beside writers, under each version storage, and without memory.

#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "db/storages.hpp"
#include "support/faults.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

class db_queries : public over_storages {
 protected:
  static constexpr std::int64_t accounts = 60;
  static constexpr std::int64_t all = accounts * 100;

  /// Money goes from one account to another, which is opened or closed on the way.
  status move(std::int64_t from, std::int64_t to, bool close) {
    return base.transact([&](transaction& tx) -> status {
      auto one = tx.edit(items, {from});
      if (!one) return one.code() == outcome::not_found ? status() : one.why();
      const std::int64_t has = one->get(a);
      auto other = tx.edit(items, {to});
      if (other) {
        if (const status s = other->set(a, other->get(a) + has); !s) return s;
        if (const status s = other->set(note, other->null(note) ? value("new") : value()); !s) {
          return s;
        }
      } else if (other.code() != outcome::not_found) {
        return other.why();
      } else if (const status s = tx.insert(items, {to, has, to * 10, nullptr}); !s) {
        return s;
      }
      if (close) return tx.erase(items, {from});
      return one->set(a, 0);
    });
  }
  /// What a query finds is what the rows say, one by one.
  void check(const reader& now, const query_options& o) {
    const auto sums = now.query(items).aggregate(sum("a"), count(), count("note")).run(o);
    ASSERT_TRUE(sums);
    std::int64_t rows = 0;
    std::int64_t notes = 0;
    now.for_each(items, [&](const row& r) {
      ++rows;
      notes += r.null(note) ? 0 : 1;
    });
    EXPECT_EQ(sums->get<std::int64_t>(0, 0), all);
    EXPECT_EQ(sums->get<std::int64_t>(0, 1), rows);
    EXPECT_EQ(sums->get<std::int64_t>(0, 2), notes);
    const auto groups = now.query(items).group_by("note").aggregate(sum("a"), min("id")).run(o);
    ASSERT_TRUE(groups);
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < groups->size(); ++i) sum += groups->get<std::int64_t>(i, 1);
    EXPECT_EQ(sum, all);
    EXPECT_LE(groups->size(), 2U);
  }
};
SPOLIA_OVER_STORAGES(db_queries);

TEST_P(db_queries, sums_stay_beside_writers) {
  for (std::int64_t i = 0; i < accounts; ++i) ASSERT_TRUE(put(i, 100));
  const reader first = base.snapshot("first");
  run_stress({.threads = 4, .share = 0.6}, [&](stress_thread& self) {
    while (self.running()) {
      if (self.index() < 2) {
        const reader now = base.snapshot("sums");
        check(now, {.threads = 1 + self.index(), .morsel = 16});
        self.jitter();
        check(now, {.threads = 2 - self.index(), .morsel = 8});
        if (self.index() == 0) check(first, {.threads = 1});
        continue;
      }
      const auto from = static_cast<std::int64_t>(self.random().below(accounts));
      const auto to = static_cast<std::int64_t>(self.random().below(accounts));
      if (from == to) continue;
      EXPECT_TRUE(move(from, to, self.random().chance(1, 2)));
    }
  });
  const auto a_then = first.query(items).aggregate(min("a"), max("a"), sum("id")).run();
  EXPECT_EQ(a_then->get<std::int64_t>(0, 0), 100);
  EXPECT_EQ(a_then->get<std::int64_t>(0, 1), 100);
  EXPECT_EQ(a_then->get<std::int64_t>(0, 2), accounts * (accounts - 1) / 2);
  check(base.snapshot(), {});
}

/// Readers are ended while several threads read for them.
TEST_P(db_queries, readers_are_ended_in_the_midst) {
  for (std::int64_t i = 0; i < accounts; ++i) ASSERT_TRUE(put(i, 100));
  run_stress({.threads = 3, .share = 0.3}, [&](stress_thread& self) {
    while (self.running()) {
      if (self.index() != 0) {
        const auto from = static_cast<std::int64_t>(self.random().below(accounts));
        EXPECT_TRUE(move(from, (from + 7) % accounts, false));
        continue;
      }
      const reader now = base.snapshot({.deadline = std::chrono::microseconds(100)});
      for (;;) {
        const auto sums = now.query(items).aggregate(sum("a")).run({.threads = 3, .morsel = 8});
        if (!sums) {
          EXPECT_EQ(sums.code(), outcome::ended_by_policy);
          break;
        }
        EXPECT_EQ(sums->get<std::int64_t>(0, 0), all);
        if (!self.running()) break;
      }
    }
  });
}

TEST_P(db_queries, without_memory) {
  for (std::int64_t i = 0; i < accounts; ++i) ASSERT_TRUE(put(i, 100));
  const reader now = base.snapshot();
  for (std::int64_t i = 0; i < accounts; i += 3) ASSERT_TRUE(set_a(i, 5));
  for (const std::uint32_t threads : {1U, 3U}) {
    const std::uint64_t failures = for_each_allocation_failure([&] {
      const auto sums = now.query(items)
                            .where("note", equal, "new")
                            .group_by("id")
                            .aggregate(sum("a"))
                            .run({.threads = threads, .morsel = 8});
      ASSERT_EQ(sums->size(), std::size_t{accounts});
      for (std::size_t i = 0; i < sums->size(); ++i) ASSERT_EQ(sums->get<std::int64_t>(i, 1), 100);
    });
    EXPECT_GT(failures, 3U);
  }
  EXPECT_TRUE(set_a(1, 6)) << "no transaction is held up";
}

/// A question that could not be put whole is as it was before.
TEST(db_query, is_built_without_memory) {
  database base = database::open();
  table& t =
      base.create_table({.name = "t", .columns = {{"k", int64, primary_key}, {"x", text(20)}}});
  const reader now = base.snapshot();
  for_each_allocation_failure([&] {
    query q = now.query(t);
    try {
      q.where("x", equal, "a text that is long").group_by("k", "x").aggregate(count(), max("x"));
    } catch (const std::bad_alloc&) {
      q.aggregate(count());
      const auto a = q.run();
      EXPECT_EQ(a->name(a->columns() - 1), "count");
      if (a->size() != 0) {
        EXPECT_EQ(a->get<std::int64_t>(0, a->columns() - 1), 0);
      }
      throw;
    }
  });
}

}  // namespace
