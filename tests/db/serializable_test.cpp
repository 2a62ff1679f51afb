// SPDX-License-Identifier: Apache-2.0
// The anomalies one by one: those that neither level allows, and those that snapshot isolation does
// and serializable transactions do not.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "db/storages.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using spolia::test::over_storages;

/// What no transaction ever sees or does, whatever its level: Berenson and others (SIGMOD 1995) and
/// Adya have the names.
class anomalies : public over_storages {
 protected:
  /// Calls f(level, x) with a fresh row x, whose `a` is 5, and room for nine more keys behind it.
  template <class F>
  void under_each_level(F&& f) {
    std::int64_t x = 100;
    for (const isolation level : {isolation::snapshot, isolation::serializable}) {
      ASSERT_TRUE(put(x, 5));
      f(level, x);
      x += 100;
    }
  }
  /// Keys and values of the rows from `x` on, by the table, by an index, and of all rows.
  std::vector<std::int64_t> seen(const reader& at, std::int64_t x) {
    std::vector<std::int64_t> all;
    const auto take = [&](const row& r) { all.insert(all.end(), {r.get(id), r.get(a)}); };
    at.scan(items, {x}, {x + 9}, take);
    at.scan(items.index("by_a"), {5}, {7}, take);
    at.for_each(items, take);
    return all;
  }
};
SPOLIA_OVER_STORAGES(anomalies);

TEST_P(anomalies, dirty_write) {
  under_each_level([&](isolation level, std::int64_t x) {
    transaction one = base.begin({.isolation = level});
    transaction two = base.begin({.isolation = level});
    ASSERT_TRUE(one.update(items, {x}, {{"a", 6}}));
    EXPECT_EQ(two.update(items, {x}, {{"a", 7}}), outcome::conflict);
    one.rollback();
    EXPECT_EQ(a_now(x), 5);
    EXPECT_TRUE(set_a(x, 8));
  });
}

TEST_P(anomalies, dirty_reads) {
  under_each_level([&](isolation level, std::int64_t x) {
    transaction reads = base.begin({.isolation = level});
    {
      transaction gone = base.begin({.isolation = level});
      ASSERT_TRUE(gone.update(items, {x}, {{"a", 6}}));
      ASSERT_TRUE(gone.insert(items, {x + 1, 6, x, nullptr}));
      EXPECT_EQ(a_of(reads, x), 5) << "what is not committed";
      EXPECT_EQ(a_of(reads, x + 1), -1);
      gone.rollback();
    }
    EXPECT_EQ(a_of(reads, x), 5) << "what never was";
    transaction twice = base.begin({.isolation = level});
    ASSERT_TRUE(twice.update(items, {x}, {{"a", 6}}));
    EXPECT_EQ(a_now(x), 5) << "what will be replaced by its own transaction";
    ASSERT_TRUE(twice.update(items, {x}, {{"a", 7}}));
    EXPECT_TRUE(twice.commit());
    EXPECT_EQ(a_of(reads, x), 5);
    EXPECT_EQ(a_now(x), 7);
    EXPECT_TRUE(reads.commit());
  });
}

TEST_P(anomalies, lost_update) {
  under_each_level([&](isolation level, std::int64_t x) {
    transaction one = base.begin({.isolation = level});
    transaction two = base.begin({.isolation = level});
    const std::int64_t sum = a_of(one, x) + 1;
    EXPECT_EQ(a_of(two, x) + 1, sum);
    ASSERT_TRUE(one.update(items, {x}, {{"a", sum}}));
    EXPECT_TRUE(one.commit());
    EXPECT_EQ(two.update(items, {x}, {{"a", sum}}), outcome::conflict);
    EXPECT_EQ(two.commit(), outcome::conflict);
    EXPECT_EQ(a_now(x), 6);
  });
}

TEST_P(anomalies, reads_that_do_not_repeat) {
  under_each_level([&](isolation level, std::int64_t x) {
    transaction reads = base.begin({.isolation = level});
    EXPECT_EQ(a_of(reads, x), 5);
    ASSERT_TRUE(set_a(x, 6));
    EXPECT_EQ(a_of(reads, x), 5);
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.erase(items, {x}); }));
    base.collect();
    EXPECT_EQ(a_of(reads, x), 5);
    EXPECT_TRUE(reads.commit());
    EXPECT_EQ(a_now(x), -1);
  });
}

TEST_P(anomalies, skewed_reads) {
  under_each_level([&](isolation level, std::int64_t x) {
    ASSERT_TRUE(put(x + 1, 5));
    transaction reads = base.begin({.isolation = level});
    const std::int64_t half = a_of(reads, x);
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      const status s = tx.update(items, {x}, {{"a", 0}});
      return s ? tx.update(items, {x + 1}, {{"a", 10}}) : s;
    }));
    EXPECT_EQ(half + a_of(reads, x + 1), 10);
    EXPECT_TRUE(reads.commit());
  });
}

TEST_P(anomalies, phantoms) {
  under_each_level([&](isolation level, std::int64_t x) {
    ASSERT_TRUE(put(x + 1, 5));
    transaction reads = base.begin({.isolation = level});
    const auto before = seen(reads, x);
    ASSERT_TRUE(put(x + 2, 6));
    ASSERT_TRUE(set_a(x + 1, 60));
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.erase(items, {x}); }));
    base.collect();
    EXPECT_EQ(seen(reads, x), before);
    EXPECT_NE(seen(base.snapshot(), x), before);
    EXPECT_TRUE(reads.commit());
  });
}

class serializable : public over_storages {
 protected:
  transaction serial() { return base.begin({.isolation = isolation::serializable}); }

  /// Two transactions read something and then each inserts or changes what the other one has read.
  /// Both commit under snapshot isolation; one of them only if they are serializable.
  void expect_skew(const std::function<void(transaction&)>& look,
                   const std::function<status(transaction&, int)>& change) {
    for (const isolation level : {isolation::snapshot, isolation::serializable}) {
      transaction one = base.begin({.isolation = level});
      transaction two = base.begin({.isolation = level});
      look(one);
      look(two);
      const int round = level == isolation::snapshot ? 0 : 2;
      ASSERT_TRUE(change(one, round));
      ASSERT_TRUE(change(two, round + 1));
      EXPECT_TRUE(one.commit());
      if (level == isolation::snapshot) {
        EXPECT_TRUE(two.commit());
      } else {
        EXPECT_EQ(two.commit(), outcome::conflict);
      }
    }
  }
};
SPOLIA_OVER_STORAGES(serializable);

TEST_P(serializable, write_skew) {
  ASSERT_TRUE(put(1, 5));
  ASSERT_TRUE(put(2, 5));
  expect_skew([&](transaction& tx) { EXPECT_GE(a_of(tx, 1) + a_of(tx, 2), 0); },
              [&](transaction& tx, int n) { return tx.update(items, {1 + n % 2}, {{"a", n}}); });
}

TEST_P(serializable, phantoms_in_ranges) {
  ASSERT_TRUE(put(1, 5));
  expect_skew(
      [&](transaction& tx) {
        int rows = 0;
        tx.scan(items, {10}, {20}, [&](const row&) { ++rows; });
        EXPECT_GE(rows, 0);
      },
      [&](transaction& tx, int n) { return tx.insert(items, {10 + n, 0, 100 + n, nullptr}); });
}

TEST_P(serializable, phantoms_in_secondary_indexes) {
  ASSERT_TRUE(put(1, 5));
  ASSERT_TRUE(put(2, 5));
  expect_skew([&](transaction& tx) { tx.scan(items.index("by_a"), {7}, {7}, [](const row&) {}); },
              [&](transaction& tx, int n) { return tx.update(items, {1 + n % 2}, {{"a", 7}}); });
}

TEST_P(serializable, phantoms_in_tables) {
  expect_skew(
      [&](transaction& tx) { tx.for_each(items, [](const row&) {}); },
      [&](transaction& tx, int n) { return tx.insert(items, {10 + n, 0, 100 + n, nullptr}); });
}

TEST_P(serializable, keys_that_were_not_there) {
  table& hashed =
      base.create_table({.name = "h", .columns = {{"k", int64, primary_key}, {"v", int64}}});
  for (table* const t : {&items, &hashed}) {
    expect_skew(
        [&](transaction& tx) {
          for (int i = 10; i < 14; ++i) static_cast<void>(tx.find(*t, {i}));
        },
        [&](transaction& tx, int n) {
          return t == &hashed ? tx.insert(*t, {10 + n, 1})
                              : tx.insert(*t, {10 + n, 0, 100 + n, nullptr});
        });
  }
}

TEST_P(serializable, refusals_are_reads) {
  ASSERT_TRUE(put(1, 5));
  ASSERT_TRUE(put(2, 5));
  transaction tx = serial();
  EXPECT_EQ(tx.insert(items, {1, 0, 0, nullptr}), outcome::duplicate_key);
  ASSERT_TRUE(base.transact([&](transaction& t) { return t.erase(items, {1}); }));
  ASSERT_TRUE(tx.update(items, {2}, {{"a", 1}}));
  EXPECT_EQ(tx.commit(), outcome::conflict);

  transaction again = serial();
  EXPECT_EQ(again.erase(items, {1}), outcome::not_found);
  ASSERT_TRUE(put(1, 5));
  ASSERT_TRUE(again.update(items, {2}, {{"a", 1}}));
  EXPECT_EQ(again.commit(), outcome::conflict);

  transaction unique = serial();
  EXPECT_EQ(unique.insert(items, {3, 0, 10, nullptr}), outcome::duplicate_key);
  ASSERT_TRUE(base.transact([&](transaction& t) { return t.erase(items, {1}); }));
  ASSERT_TRUE(unique.update(items, {2}, {{"a", 1}}));
  EXPECT_EQ(unique.commit(), outcome::conflict);
}

/// Fekete, O'Neil and O'Neil: a withdrawal that finds the sum too small pays a fee; it began before
/// a deposit that a report has already seen. Then the report and the fee do not fit together.
TEST_P(serializable, the_read_only_anomaly) {
  for (const isolation level : {isolation::snapshot, isolation::serializable}) {
    const std::int64_t x = level == isolation::snapshot ? 1 : 3;
    ASSERT_TRUE(put(x, 0));
    ASSERT_TRUE(put(x + 1, 0));
    transaction withdrawal = base.begin({.isolation = level});
    EXPECT_EQ(a_of(withdrawal, x) + a_of(withdrawal, x + 1), 0);
    ASSERT_TRUE(base.transact(
        [&](transaction& deposit) { return deposit.update(items, {x + 1}, {{"a", 20}}); },
        {.begin = {.isolation = level}}));
    const reader report = base.snapshot();
    EXPECT_EQ(a_of(report, x) + a_of(report, x + 1), 20);
    ASSERT_TRUE(withdrawal.update(items, {x}, {{"a", -11}}));
    EXPECT_EQ(bool(withdrawal.commit()), level == isolation::snapshot);
  }
}

TEST_P(serializable, reads_alone_never_give_up) {
  ASSERT_TRUE(put(1, 5));
  transaction tx = serial();
  EXPECT_EQ(a_of(tx, 1), 5);
  tx.for_each(items, [](const row&) {});
  ASSERT_TRUE(set_a(1, 6));
  EXPECT_EQ(a_of(tx, 1), 5);
  EXPECT_TRUE(tx.commit());
}

TEST_P(serializable, what_was_not_read_does_not_matter) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(put(i, i));
  transaction tx = serial();
  int rows = 0;
  tx.scan(items, {}, {}, [&](const row&) { return ++rows < 3; });  // 0, 1 and 2
  EXPECT_EQ(a_of(tx, 5), 5);
  ASSERT_TRUE(tx.update(items, {5}, {{"a", 50}}));
  EXPECT_EQ(a_of(tx, 5), 50) << "its own change";
  ASSERT_TRUE(set_a(3, 30));
  ASSERT_TRUE(put(100, 1));
  EXPECT_TRUE(tx.commit());

  transaction down = serial();
  tx.rollback();
  down.scan_down(items, {}, {}, [&](const row& r) { return r.get(id) > 9; });  // 100 and 9
  ASSERT_TRUE(down.update(items, {5}, {{"a", 51}}));
  ASSERT_TRUE(set_a(8, 80));
  const bool reads_the_end = !set_a(9, 90);
  EXPECT_EQ(bool(down.commit()), reads_the_end);
}

/// Sums over all rows decide what is written: any anomaly makes the invariant fail.
TEST_P(serializable, invariants_over_many_rows_hold) {
  constexpr std::int64_t rows = 4;
  for (std::int64_t i = 0; i < rows; ++i) ASSERT_TRUE(put(i, 1));
  test::run_stress({.threads = 4, .share = 0.5}, [&](test::stress_thread& self) {
    while (self.running()) {
      const auto key = static_cast<std::int64_t>(self.random().below(rows));
      // One row at least is on duty: one may leave if it sees another there.
      const status s = base.transact(
          [&](transaction& tx) -> status {
            std::int64_t on_duty = 0;
            tx.scan(items, {0}, {rows}, [&](const row& r) { on_duty += r.get(a); });
            EXPECT_GE(on_duty, 1);
            self.jitter();
            const std::int64_t mine = a_of(tx, key);
            if (mine == 1 && on_duty < 2) return outcome::ok;
            return tx.update(items, {key}, {{"a", 1 - mine}});
          },
          {.begin = {.isolation = isolation::serializable}});
      EXPECT_TRUE(s) << s.message();
      std::int64_t on_duty = 0;
      base.snapshot().for_each(items, [&](const row& r) { on_duty += r.get(a); });
      EXPECT_GE(on_duty, 1);
    }
  });
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
}

}  // namespace
