// SPDX-License-Identifier: Apache-2.0
// Many threads: histories that only snapshot isolation, or only serializable transactions, could
// have made; sums that stay, readers
// that come and go.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <spolia/db.hpp>

#include "db/storages.hpp"
#include "support/isolation.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

/// Rows whose only column besides the key is the number of their version. Keys below `there` are
/// there from the start with version 0; the others are inserted once.
class histories : public testing::TestWithParam<storage_kind> {
 protected:
  static constexpr std::int64_t there = 6;
  static constexpr std::int64_t all = 40;
  static constexpr std::size_t most =
      spolia::test::quick_tests ? 750 : 3000;  // transactions of a thread
  static constexpr std::size_t least = 15;     // however busy the machine is

  histories()
      : base(database::open({.versions = GetParam(),
                             .changes_only = GetParam().changes_only,
                             .partition_transactions = 4,
                             .most_partitions = 8})),
        t(base.create_table({.name = "t",
                             .columns = {{"k", int64, primary_key}, {"v", int64}},
                             .primary = index_kind::ordered})),
        k(t.column<std::int64_t>("k")),
        v(t.column<std::int64_t>("v")) {
    for (std::int64_t i = 0; i < there; ++i) {
      EXPECT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {i, 0}); }));
    }
  }

  static std::uint64_t number(std::int64_t n) { return static_cast<std::uint64_t>(n); }

  void note_read(transaction_log& log, const reader& at, std::int64_t key) {
    const auto r = at.find(t, {key});
    log.reads.push_back({number(key), r ? number(r->get(v)) : 0});
  }
  /// Notes all keys, also the ones that are not there.
  void note_scan(transaction_log& log, const reader& at) {
    std::int64_t next = 0;
    at.scan(t, {}, {}, [&](const row& r) {
      for (; next < r.get(k); ++next) log.reads.push_back({number(next), 0});
      log.reads.push_back({number(next++), number(r.get(v))});
    });
    for (; next < all; ++next) log.reads.push_back({number(next), 0});
  }
  bool change(transaction_log& log, transaction& tx, std::int64_t key, std::int64_t made) {
    for (const auto& w : log.writes) {
      if (w.key == number(key)) return true;
    }
    auto e = tx.edit(t, {key});
    if (e) {
      log.reads.push_back({number(key), number(e->get(v))});
      log.writes.push_back({number(key), number(e->get(v)), number(made)});
      return bool(e->set(v, made));
    }
    if (e.code() != outcome::not_found) return false;
    log.reads.push_back({number(key), 0});
    log.writes.push_back({number(key), 0, number(made)});
    return bool(tx.insert(t, {key, made}));
  }
  bool run(transaction_log& log, stress_thread& self, std::int64_t& made, isolation level) {
    transaction tx = base.begin({.isolation = level});
    if (self.random().chance(1, 8)) note_scan(log, tx);
    for (std::uint64_t n = 1 + self.random().below(4); n > 0; --n) {
      const auto key = static_cast<std::int64_t>(
          self.random().chance(1, 8) ? self.random().below(all) : self.random().below(there));
      if (self.random().chance(1, 2)) {
        bool own = false;
        for (const auto& w : log.writes) own = own || w.key == number(key);
        if (!own) note_read(log, tx, key);
      } else if (!change(log, tx, key, ++made)) {
        return false;
      }
      self.jitter();
    }
    return self.random().chance(1, 16) ? false : bool(tx.commit());
  }

  std::vector<transaction_log> record(isolation level, double share);

  database base;
  table& t;
  column<std::int64_t> k;
  column<std::int64_t> v;
};
SPOLIA_OVER_STORAGES(histories);

std::vector<transaction_log> histories::record(isolation level, double share) {
  std::mutex lock;
  std::vector<transaction_log> logs;
  run_stress({.threads = 4, .share = share}, [&](stress_thread& self) {
    std::vector<transaction_log> mine;
    std::int64_t made = std::int64_t{self.index() + 1} << 40;
    while ((self.running() || mine.size() < least) && mine.size() < most) {
      transaction_log log{.thread = self.index()};
      if (self.random().chance(1, 10)) {
        const reader now = base.snapshot();
        note_scan(log, now);
        self.jitter();
        note_scan(log, now);
      } else if (!run(log, self, made, level)) {
        continue;
      }
      mine.push_back(std::move(log));
    }
    const std::lock_guard hold(lock);
    logs.insert(logs.end(), mine.begin(), mine.end());
  });
  EXPECT_GE(logs.size(), 4 * least);
  return logs;
}

TEST_P(histories, are_of_snapshot_isolation) {
  const auto logs = record(isolation::snapshot, 0.6);
  EXPECT_EQ(snapshot_isolation_broken(logs), "") << logs.size() << " transactions";
}

TEST_P(histories, of_serializable_transactions_are_serial) {
  const auto logs = record(isolation::serializable, 0.6);
  EXPECT_EQ(serializability_broken(logs), "") << logs.size() << " transactions";
}

class banks : public over_storages {};
SPOLIA_OVER_STORAGES(banks);

/// Money goes from account to account, and accounts are opened and closed. Every reader finds all
/// of it, through the table and through an index, however long it reads.
TEST_P(banks, keep_their_sum) {
  constexpr std::int64_t accounts = 20;
  for (std::int64_t i = 0; i < accounts; ++i) ASSERT_TRUE(put(i, 100));
  const auto check = [&](const reader& at) {
    std::int64_t sum = 0;
    at.for_each(items, [&](const row& r) { sum += r.get(a); });
    EXPECT_EQ(sum, accounts * 100);
    sum = 0;
    at.scan(items.index("by_a"), {}, {}, [&](const row& r) { sum += r.get(a); });
    EXPECT_EQ(sum, accounts * 100) << "by the index";
  };
  run_stress({.threads = 4, .share = 0.6}, [&](stress_thread& self) {
    while (self.running()) {
      if (self.random().chance(1, 20)) {
        const reader now = base.snapshot("sum");
        check(now);
        self.jitter();
        check(now);
        continue;
      }
      const auto from = static_cast<std::int64_t>(self.random().below(accounts));
      const auto to = static_cast<std::int64_t>(self.random().below(accounts));
      if (from == to) continue;
      const isolation level =
          self.random().chance(1, 2) ? isolation::snapshot : isolation::serializable;
      const status s = base.transact(
          [&](transaction& tx) -> status {
            auto one = tx.edit(items, {from});
            if (!one && one.code() != outcome::not_found) return one.why();
            const std::int64_t has = one ? one->get(a) : 0;
            auto other = tx.edit(items, {to});
            if (other) {
              if (const status done = other->set(a, other->get(a) + has); !done) return done;
            } else if (other.code() != outcome::not_found) {
              return other.why();
            } else if (const status done = tx.insert(items, {to, has, to * 10, nullptr}); !done) {
              return done;
            }
            if (!one) return outcome::ok;
            if (self.random().chance(1, 4)) return tx.erase(items, {from});
            return one->set(a, 0);
          },
          // The thread that has a lock may be kept off the processor for longer than a thousand
          // tries take.
          {.tries = 1'000'000, .begin = {.isolation = level}});
      EXPECT_TRUE(s) << s.message();
    }
  });
  check(base.snapshot());
  base.collect();
  const statistics s = base.stats();
  EXPECT_EQ(s.cleaning, 0U);
  EXPECT_LE(items.row_slots(), 200U);
  if (GetParam() != version_storage::none) {
    EXPECT_EQ(s.versions.versions_made, s.versions.versions_dropped);
  }
}

/// Readers that are held for long beside writers see what they saw at first; threads come and go.
TEST_P(banks, threads_come_and_go) {
  for (std::int64_t i = 0; i < 8; ++i) ASSERT_TRUE(put(i, 0));
  const reader first = base.snapshot("the first");
  churn_threads({.threads = 4, .share = 0.4}, [&](stress_thread& self) {
    const reader mine = base.snapshot();
    const auto key = static_cast<std::int64_t>(self.random().below(8));
    const std::int64_t seen = a_of(mine, key);
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(base.transact([&](transaction& tx) -> status {
        auto e = tx.edit(items, {key});
        if (!e) return e.why();
        return e->set(a, e->get(a) + 1);
      }));
    }
    EXPECT_EQ(a_of(mine, key), seen);
    EXPECT_GE(a_now(key), seen + 20);
  });
  for (std::int64_t i = 0; i < 8; ++i) EXPECT_EQ(a_of(first, i), 0);
}

/// Two that insert the same value into a unique index: one of them at most.
TEST_P(banks, unique_values_are_unique) {
  std::atomic<std::int64_t> next{1};
  run_stress({.threads = 4, .share = 0.3}, [&](stress_thread& self) {
    while (self.running()) {
      const std::int64_t key = next.fetch_add(1);
      const auto wanted = static_cast<std::int64_t>(self.random().below(5));
      static_cast<void>(base.transact(
          [&](transaction& tx) { return tx.insert(items, {key, key, wanted, nullptr}); }));
      const reader now = base.snapshot();
      int rows = 0;
      now.scan(items.index("by_b"), {wanted}, {wanted}, [&](const row&) { ++rows; });
      EXPECT_LE(rows, 1);
      if (self.random().chance(1, 2)) {
        static_cast<void>(base.transact([&](transaction& tx) { return tx.erase(items, {key}); }));
      }
    }
  });
}

}  // namespace
