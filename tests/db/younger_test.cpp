// SPDX-License-Identifier: Apache-2.0
// Tables and indexes that are made and dropped beside readers and transactions that are older: what
// these hold of them, and what they can do with them.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/db.hpp>

#include "db/versions/delta_one_shot.hpp"

#include "db/storages.hpp"
#include "support/resident.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using db::index_kind;
using db::outcome;
using db::reader;
using db::row;
using db::status;
using db::table;
using db::transaction;

class younger_things : public over_storages {
 protected:
  static constexpr std::int64_t few_rows = 40;

  static outcome came_to(const std::function<void()>& what) {
    try {
      what();
    } catch (const db::no_result& e) {
      return e.code();
    }
    return outcome::ok;
  }
  table& make(const std::string& name, index_kind primary = index_kind::hash) {
    return base.create_table({.name = name,
                              .columns = {{"k", db::int64, db::primary_key}, {"v", db::int64}},
                              .primary = primary,
                              .indexes = {{"by_v", {"v"}}}});
  }
  void fill(table& t, std::int64_t rows = few_rows) {
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      for (std::int64_t k = 0; k < rows; ++k) {
        if (const status s = tx.insert(t, {k, k}); !s) return s;
      }
      return {};
    }));
  }
  void touch(table& t, std::int64_t to) {
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      for (std::int64_t k = 0; k < few_rows; ++k) {
        if (const status s = tx.update(t, {k}, {{"v", to + k}}); !s) return s;
      }
      return {};
    }));
  }
  void erase_half(table& t) {
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      for (std::int64_t k = 0; k < few_rows; k += 2) {
        if (const status s = tx.erase(t, {k}); !s) return s;
      }
      return {};
    }));
  }
  static int rows_of(const reader& at, const table& t) {
    int n = 0;
    at.for_each(t, [&](const row&) { ++n; });
    return n;
  }
  static int rows_by(const reader& at, const db::secondary& i) {
    int n = 0;
    at.scan(i, {}, {}, [&](const row&) { ++n; });
    return n;
  }
  /// Of tables and indexes, as the store counts them.
  std::uint64_t bytes() {
    base.collect();
    const db::statistics now = base.stats();
    return now.table_bytes + now.index_bytes;
  }
  /// What the process has more after each of so many calls of f, by the system's account.
  template <class F>
  std::uint64_t left_by_each(std::uint64_t times, F&& f) {
    for (std::uint64_t n = 0; n < 20; ++n) f(n);
    base.collect();
    const std::uint64_t before = resident_when_trimmed();
    for (std::uint64_t n = 0; n < times; ++n) f(n);
    base.collect();
    return (std::max(resident_when_trimmed(), before) - before) / times;
  }
  /// Rows of dropped tables stay with the database.
  [[nodiscard]] static bool keeps_rows() { return GetParam() == db::version_storage::range; }
};
SPOLIA_OVER_STORAGES_AND_TABLES(younger_things);

constexpr std::uint64_t younger_ones = 200 / fewer;

TEST_P(younger_things, tables_that_were_dropped_leave_nothing_beside_an_older_reader) {
  ASSERT_TRUE(put(1, 1));
  const reader held = base.snapshot("report");
  const std::uint64_t before = bytes();
  const std::uint64_t left = left_by_each(younger_ones, [&](std::uint64_t n) {
    table& t = make("t", n % 2 == 0 ? index_kind::hash : index_kind::ordered);
    fill(t);
    ASSERT_TRUE(base.create_index(t, {.name = "more", .columns = {"v"}, .kind = index_kind::hash}));
    ASSERT_TRUE(base.drop_table(t));
  });
  EXPECT_EQ(base.stats().cleaning, 0U);
  EXPECT_EQ(base.readers().at(0).held_bytes, 0U);
  EXPECT_EQ(a_of(held, 1), 1);
  if (keeps_rows()) return;
  EXPECT_EQ(bytes(), before);
  if (!sanitized) {
    EXPECT_LE(left, 600U) << "of which 200 for good";
  }
}

TEST_P(younger_things, rows_that_were_changed_leave_nothing_with_their_table) {
  if (!collects_between()) GTEST_SKIP() << "it keeps versions, whatever they are of";
  const reader held = base.snapshot("report");
  const std::uint64_t left = left_by_each(younger_ones, [&](std::uint64_t n) {
    table& t = make("t", n % 2 == 0 ? index_kind::hash : index_kind::ordered);
    fill(t);
    touch(t, 100);
    erase_half(t);
    ASSERT_TRUE(base.drop_table(t));
  });
  EXPECT_EQ(base.stats().cleaning, 0U);
  const bool has_partitions = GetParam() == db::version_storage::one_shot_consolidated;
  if (!sanitized && !keeps_rows()) {
    EXPECT_LE(left, has_partitions ? 8000U : 1200U) << "partitions that wait, for one";
  }
}

TEST_P(younger_things, indexes_that_were_dropped_leave_nothing_beside_an_older_reader) {
  for (std::int64_t n = 0; n < 1000; ++n) ASSERT_TRUE(put(n, n));
  const reader held = base.snapshot("report");
  const std::uint64_t before = bytes();
  const std::uint64_t left = left_by_each(younger_ones, [&](std::uint64_t n) {
    ASSERT_TRUE(
        base.create_index(items, {.name = "more",
                                  .columns = {"a"},
                                  .unique = n % 4 > 1,
                                  .kind = n % 2 == 0 ? index_kind::hash : index_kind::ordered}));
    ASSERT_TRUE(base.drop_index(items, "more"));
  });
  EXPECT_EQ(base.stats().cleaning, 0U);
  EXPECT_LE(bytes(), before + 1024);
  if (!sanitized) {
    EXPECT_LE(left, 1600U) << "of which 40 and a name for good, and the set of indexes";
  }
}

TEST_P(younger_things, a_build_that_failed_leaves_nothing_beside_an_older_reader) {
  for (std::int64_t n = 0; n < 100; ++n) ASSERT_TRUE(put(n, 1));
  const reader held = base.snapshot("report");
  const std::uint64_t before = bytes();
  for (int n = 0; n < 10; ++n) {
    EXPECT_EQ(base.create_index(items, {.name = "one", .columns = {"a"}, .unique = true}),
              outcome::duplicate_key);
  }
  EXPECT_EQ(base.stats().cleaning, 0U);
  EXPECT_LE(bytes(), before + 1024);
}

/// A reader from between the two holds what it sees, to its end, and no other one does.
TEST_P(younger_things, a_reader_of_the_right_age_holds_what_it_sees) {
  ASSERT_TRUE(put(1, 1));
  const reader older = base.snapshot("older");
  const std::uint64_t before = bytes();
  table& t = make("t");
  fill(t);
  ASSERT_TRUE(base.create_index(items, {.name = "more", .columns = {"a"}}));
  const db::secondary& more = items.index("more");
  const db::secondary& by_v = t.index("by_v");
  {
    const reader sees = base.snapshot("sees");
    ASSERT_TRUE(base.drop_table(t));
    ASSERT_TRUE(base.drop_index(items, "more"));
    const reader later = base.snapshot("later");
    for (int n = 0; n < 3; ++n) {
      base.collect();
      EXPECT_EQ(rows_of(sees, t), few_rows);
      EXPECT_EQ(rows_by(sees, by_v), few_rows);
      EXPECT_TRUE(sees.find(t, {7}));
      EXPECT_EQ(rows_by(sees, more), 1);
    }
    const std::vector<db::reader_info> all = base.readers();
    EXPECT_EQ(all.at(0).held, 0U) << all.at(0).label;
    EXPECT_EQ(all.at(1).held, 2U) << all.at(1).label;
    EXPECT_GT(all.at(1).held_bytes, 1000U);
    EXPECT_EQ(all.at(2).held, 0U) << all.at(2).label;
    EXPECT_EQ(later.find(t, {7}).code(), outcome::dropped);
  }
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
  if (!keeps_rows()) {
    EXPECT_LE(bytes(), before + 1024);
  }
  EXPECT_EQ(older.find(t, {7}).code(), outcome::dropped);
  EXPECT_EQ(came_to([&] { rows_of(older, t); }), outcome::dropped);
  EXPECT_EQ(came_to([&] { rows_by(older, by_v); }), outcome::dropped);
  EXPECT_EQ(came_to([&] { rows_by(older, more); }), outcome::schema_changed);
  EXPECT_EQ(t.name(), "t");
}

/// It sees no rows there, and what it has come to stays for it.
TEST_P(younger_things, an_older_reader_goes_on_in_what_it_has_come_to) {
  const std::uint64_t before = bytes();
  for (int way = 0; way < 5; ++way) {
    SCOPED_TRACE(way);
    const reader older = base.snapshot("older");
    table& t = make("t", index_kind::ordered);
    table& other = make("other");
    fill(t);
    const auto look = [&] {
      switch (way) {
        case 0:
          return older.find(t, {1}).code();
        case 1:
          return came_to([&] { EXPECT_EQ(rows_of(older, t), 0); });
        case 2:
          return came_to([&] { older.scan(t, {}, {}, [](const row&) { ADD_FAILURE(); }); });
        case 3:
          return came_to([&] { EXPECT_EQ(rows_by(older, t.index("by_v")), 0); });
        default:
          return older.query(t).aggregate(db::count()).run().code();
      }
    };
    const outcome first = look();
    EXPECT_EQ(first, way == 0 ? outcome::not_found : outcome::ok);
    ASSERT_TRUE(base.drop_index(t, "by_v"));
    ASSERT_TRUE(base.drop_table(t));
    ASSERT_TRUE(base.drop_table(other));
    base.collect();
    EXPECT_GE(base.stats().cleaning, 1U);
    EXPECT_EQ(older.find(t, {1}).code(), outcome::not_found);
    EXPECT_EQ(rows_of(older, t), 0);
    older.scan(t, {}, {}, [](const row&) { ADD_FAILURE(); });
    EXPECT_EQ(t.layout().columns().size(), 2U);
    EXPECT_EQ(older.find(other, {1}).code(), outcome::dropped) << "it has not come there";
    EXPECT_EQ(came_to([&] { static_cast<void>(other.layout()); }),
              keeps_rows() ? outcome::ok : outcome::dropped);
  }
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
  if (!keeps_rows()) {
    EXPECT_EQ(bytes(), before);
  }
}

TEST_P(younger_things, an_older_transaction_changes_them_until_they_are_dropped) {
  const std::uint64_t before = bytes();
  {
    transaction commits = base.begin();
    transaction fails = base.begin();
    transaction reads = base.begin({.isolation = db::isolation::serializable});
    table& t = make("t");
    ASSERT_TRUE(commits.insert(t, {1, 1}));
    ASSERT_TRUE(commits.commit());
    ASSERT_TRUE(fails.insert(t, {2, 2}));
    EXPECT_EQ(reads.find(t, {1}).code(), outcome::not_found);
    EXPECT_EQ(rows_of(reads, t), 0);
    EXPECT_TRUE(base.snapshot().find(t, {1}));
    ASSERT_TRUE(base.drop_table(t));
    base.collect();
    EXPECT_TRUE(fails.find(t, {2})) << "its own";
    EXPECT_EQ(rows_of(fails, t), 1);
    EXPECT_EQ(rows_of(reads, t), 0);
    ASSERT_TRUE(reads.insert(items, {1, 1, 1, nullptr}));
    EXPECT_EQ(reads.commit(), outcome::conflict) << "what it has not seen came before";
    EXPECT_EQ(fails.commit(), outcome::schema_changed);
    transaction late = base.begin();
    EXPECT_EQ(late.insert(t, {1, 1}), outcome::dropped);
  }
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
  if (!keeps_rows()) {
    EXPECT_LE(bytes(), before + 1024) << "with the row of another one";
  }
}

/// Its changes go to the index, also when that was dropped, and to the end.
TEST_P(younger_things, an_older_transaction_goes_on_with_an_index_that_was_dropped) {
  for (std::int64_t n = 0; n < 10; ++n) ASSERT_TRUE(put(n, n));
  for (const bool commits : {true, false}) {
    transaction tx = base.begin();
    EXPECT_EQ(a_of(tx, 1), 1);
    ASSERT_TRUE(base.create_index(items, {.name = "more", .columns = {"a"}, .unique = commits}));
    ASSERT_TRUE(tx.update(items, {1}, {{"a", 100}}));
    ASSERT_TRUE(base.drop_index(items, "more"));
    base.collect();
    EXPECT_EQ(base.stats().cleaning, 1U) << "it may add entries";
    ASSERT_TRUE(tx.update(items, {1}, {{"a", 200}}));
    ASSERT_TRUE(tx.insert(items, {100, 300, 300, nullptr}));
    base.collect();
    if (commits) {
      EXPECT_EQ(tx.commit(), outcome::schema_changed);
    } else {
      tx.rollback();
    }
    base.collect();
    EXPECT_EQ(base.stats().cleaning, 0U);
  }
}

/// An index is made while a transaction waits for a row's lock, and dropped when it has that.
TEST_P(younger_things, a_transaction_that_waits_meets_no_younger_index) {
  for (std::int64_t n = 0; n < 10; ++n) ASSERT_TRUE(put(n, n));
  std::atomic<int> stage{0};
  int tries = 0;
  transaction holds = base.begin();
  ASSERT_TRUE(holds.update(items, {1}, {{"b", 5}}));
  std::thread other([&] {
    const db::retries how{.begin = {.longest_wait = std::chrono::minutes(1)}};
    EXPECT_TRUE(base.transact(
        [&](transaction& tx) -> status {
          const bool first = ++tries == 1;
          if (first) {
            EXPECT_EQ(a_of(tx, 2), 2);
            stage.store(1, std::memory_order_release);
          }
          if (const status s = tx.update(items, {1}, {{"b", 1000}}); !s) return s;
          if (first) {
            stage.store(3, std::memory_order_release);
            while (stage.load(std::memory_order_acquire) != 4) std::this_thread::yield();
          }
          return tx.update(items, {1}, {{"a", 1000}});
        },
        how));
  });
  while (stage.load(std::memory_order_acquire) != 1) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_TRUE(base.create_index(items, {.name = "more", .columns = {"a"}}));
  holds.rollback();
  while (stage.load(std::memory_order_acquire) != 3) std::this_thread::yield();
  ASSERT_TRUE(base.drop_index(items, "more"));
  base.collect();
  stage.store(4, std::memory_order_release);
  other.join();
  EXPECT_EQ(a_now(1), 1000);
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
}

/// A commit stands still in it, so the thread that makes the index waits before its snapshot.
class storage_that_stands final : public db::delta_one_shot {
 public:
  storage_that_stands(db::commit_board& board, std::function<void()> stop)
      : delta_one_shot(board, {}), stop_(std::move(stop)) {}
  bool reserve(std::uint32_t writer, std::span<db::ask> asks, std::uint64_t most) override {
    stop_();
    return delta_one_shot::reserve(writer, asks, most);
  }

 private:
  const std::function<void()> stop_;
};

/// A transaction from between the birth of an index and its first snapshot changes rows, and so the
/// index, and is no elder: it holds the index as one of those that began later does.
TEST(younger_index, is_held_by_transactions_that_began_while_it_was_shown) {
  std::mutex lock;
  std::condition_variable changed;
  bool stops = false;
  bool stands = false;
  const auto stop = [&] {
    std::unique_lock hold(lock);
    if (!std::exchange(stops, false)) return;
    stands = true;
    changed.notify_all();
    changed.wait(hold, [&] { return !stands; });
  };
  db::database base = db::database::open({.own_versions = [&](db::commit_board& board) {
    return std::make_unique<storage_that_stands>(board, stop);
  }});
  table& t = base.create_table(
      {.name = "t", .columns = {{"k", db::int64, db::primary_key}, {"v", db::int64}}});
  ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
    for (std::int64_t k = 0; k < 10; ++k) {
      if (const status s = tx.insert(t, {k, k}); !s) return s;
    }
    return {};
  }));
  stops = true;
  std::thread commits([&] {
    EXPECT_TRUE(base.transact([&](transaction& tx) { return tx.update(t, {0}, {{"v", 7}}); }));
  });
  {
    std::unique_lock hold(lock);
    changed.wait(hold, [&] { return stands; });
  }
  const std::uint64_t before = base.snapshot().timestamp();
  std::atomic<bool> made{false};
  std::thread makes([&] {
    EXPECT_TRUE(base.create_index(t, {.name = "by_v", .columns = {"v"}}));
    made.store(true);
  });
  // It begins when the clock has gone on, and changes rows when the index is shown, if the machine
  // is not too busy.
  for (int n = 0; n < 10'000 && base.snapshot().timestamp() == before; ++n) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  transaction tx = base.begin();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(made.load());
  ASSERT_TRUE(tx.update(t, {5}, {{"v", 50}}));
  {
    const std::lock_guard hold(lock);
    stands = false;
    changed.notify_all();
  }
  commits.join();
  makes.join();
  ASSERT_TRUE(base.drop_index(t, "by_v"));
  base.collect();
  EXPECT_EQ(base.readers().at(0).held, 1U);
  ASSERT_TRUE(tx.update(t, {5}, {{"v", 51}}));
  ASSERT_TRUE(tx.insert(t, {100, 100}));
  EXPECT_EQ(tx.commit(), outcome::schema_changed);
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
}

/// Rows that are changed while an index is built: what has the cleaner look for them waits for
/// no reader that is older than the index.
TEST_P(younger_things, changes_beside_a_build_leave_nothing_beside_an_older_reader) {
  for (std::int64_t n = 0; n < 200; ++n) ASSERT_TRUE(put(n, n));
  const reader held = base.snapshot("report");
  std::atomic<bool> over{false};
  std::thread changes([&] {
    for (std::int64_t n = 0; !over.load(); ++n) {
      EXPECT_TRUE(set_a(n % 200, n));
    }
  });
  for (int n = 0; n < 30; ++n) {
    ASSERT_TRUE(
        base.create_index(items, {.name = "more",
                                  .columns = {"a"},
                                  .kind = n % 2 == 0 ? index_kind::hash : index_kind::ordered}));
    ASSERT_TRUE(base.drop_index(items, "more"));
  }
  over.store(true);
  changes.join();
  base.collect();
  base.collect();
  // Of each row an entry of the first value, which the reader sees, and of by_a alone.
  EXPECT_LE(base.stats().cleaning, 200U);
  EXPECT_LE(base.readers().at(0).held, 200U);
}

/// One that was ended, and has not come back, keeps what it may be in the midst of, and no more.
TEST_P(younger_things, a_reader_that_was_ended_keeps_what_was_there) {
  for (std::int64_t n = 0; n < 10; ++n) ASSERT_TRUE(put(n, n));
  const reader ends = base.snapshot({.label = "ends", .deadline = std::chrono::nanoseconds(1)});
  std::uint64_t kept = 0;
  std::uint64_t others = 0;
  EXPECT_EQ(came_to([&] {
              ends.scan(items.index("by_a"), {}, {}, [&](const row&) {
                base.collect();  // ends it
                fill(make("younger"));
                EXPECT_TRUE(base.drop_table(base.find_table("younger")));
                base.collect();
                others = base.stats().cleaning;
                EXPECT_TRUE(base.drop_index(items, "by_a"));
                base.collect();
                kept = base.stats().cleaning;
              });
            }),
            outcome::ended_by_policy);
  EXPECT_EQ(others, 0U);
  EXPECT_EQ(kept, 1U);
}

/// Tables and indexes come and go, and readers and transactions of all ages.
class younger_load : public younger_things {
 protected:
  void change_catalog(stress_thread& self, std::int64_t n) {
    const std::string name = "t" + std::to_string(self.index());
    table& t = make(name, n % 2 == 0 ? index_kind::hash : index_kind::ordered);
    fill(t);
    self.jitter();
    if (n % 2 == 0) {
      ASSERT_TRUE(base.create_index(t, {.name = "more", .columns = {"v"}}));
      touch_some(self, t);
      ASSERT_TRUE(base.drop_index(t, "more"));
    }
    ASSERT_TRUE(base.drop_table(t));
    EXPECT_EQ(base.snapshot().find(t, {1}).code(), outcome::dropped);
  }
  void touch_some(stress_thread& self, table& t) {
    const status s = base.transact([&](transaction& tx) -> status {
      for (int n = 0; n < 3; ++n) {
        const auto k = static_cast<std::int64_t>(self.random().below(few_rows));
        const status done = tx.update(t, {k}, {{"v", k + n}});
        if (!done && done != outcome::not_found) return done;
        self.jitter();
      }
      return {};
    });
    EXPECT_TRUE(s || s == outcome::dropped) << s.message();
  }
  /// What one thread drops, the other ones come to at any time.
  void use(stress_thread& self) {
    const reader early = base.snapshot();
    transaction changes = base.begin();
    self.jitter();
    const std::vector<table*> all = base.tables();
    table& t = *all[self.random().below(all.size())];
    if (&t == &items) return;
    self.jitter();
    const reader late = base.snapshot();
    for (const reader* at : {&early, &late}) {
      const outcome found = at->find(t, {1}).code();
      EXPECT_TRUE(found == outcome::ok || found == outcome::not_found || found == outcome::dropped)
          << static_cast<int>(found);
      outcome scanned = outcome::ok;
      const outcome ended = came_to([&] {
        const int rows = rows_of(*at, t);
        self.jitter();
        EXPECT_EQ(rows_of(*at, t), rows);
        EXPECT_TRUE(rows == 0 || rows == few_rows) << rows;
        scanned = came_to([&] { EXPECT_EQ(rows_by(*at, t.index("by_v")), rows); });
      });
      EXPECT_TRUE(ended == outcome::ok || ended == outcome::dropped) << static_cast<int>(ended);
      EXPECT_TRUE(scanned == outcome::ok || scanned == outcome::dropped ||
                  scanned == outcome::schema_changed);
    }
    try {
      static_cast<void>(changes.update(t, {1}, {{"v", 7}}));
    } catch (const db::no_result&) {
    }
    if (self.random().chance(1, 2)) static_cast<void>(changes.commit());
    touch_some(self, t);
  }
};
SPOLIA_OVER_STORAGES_AND_TABLES(younger_load);

TEST_P(younger_load, nothing_is_lost_or_left) {
  const reader held = base.snapshot();
  run_stress({.threads = 4, .share = 0.3}, [&](stress_thread& self) {
    for (std::int64_t n = 0; self.running(); ++n) {
      if (self.index() < 2) {
        change_catalog(self, n);
      } else {
        use(self);
      }
    }
  });
  base.collect();
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
  EXPECT_EQ(base.tables().size(), 1U);
  EXPECT_EQ(rows_of(held, items), 0);
}

}  // namespace
