// SPDX-License-Identifier: Apache-2.0
// Indexes and tables that come and go while transactions run.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "db/versions/delta_one_shot.hpp"

#include "db/durable.hpp"
#include "db/storages.hpp"
#include "support/faults.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

const index_spec ordered_b{.name = "b2", .columns = {"b"}};
const index_spec hash_b{.name = "b2", .columns = {"b"}, .kind = index_kind::hash};

outcome thrown(const std::function<void()>& f) {
  try {
    f();
  } catch (const no_result& e) {
    return e.code();
  }
  return outcome::ok;
}
std::string refused(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

class catalog_changes : public over_storages {
 protected:
  int count(const reader& at, const table& t, const char* name, std::int64_t key) {
    int n = 0;
    at.scan(t.index(name), {key}, {key}, [&](const row&) { ++n; });
    return n;
  }
  table& make(const char* name) {
    return base.create_table({.name = name, .columns = {{"k", int64, primary_key}, {"v", int64}}});
  }
  status put_into(table& t, std::int64_t k, std::int64_t v) {
    return base.transact([&](transaction& tx) { return tx.insert(t, {k, v}); });
  }
};
SPOLIA_OVER_STORAGES_AND_TABLES(catalog_changes);

TEST(catalog, a_program_asks_whether_a_table_is_the_one_that_it_wants) {
  const table_spec wanted{.name = "t",
                          .columns = {{"k", int64, primary_key}, {"v", text(8), nullable}},
                          .indexes = {{.name = "a", .columns = {"k"}}, hash_b}};
  table_spec is = wanted;
  std::swap(is.indexes[0], is.indexes[1]);
  EXPECT_EQ(difference(is, wanted), "") << "their order is of no account";
  const auto after = [&](const std::function<void(table_spec&)>& change) {
    table_spec other = wanted;
    change(other);
    return difference(other, wanted);
  };
  EXPECT_EQ(after([](table_spec& s) { s.name = "u"; }), "the name is u, and not t");
  EXPECT_EQ(after([](table_spec& s) { s.columns[1].name = "w"; }), "column w is where v is wanted");
  EXPECT_EQ(after([](table_spec& s) { s.columns[1].type = text(9); }), "column v has another type");
  EXPECT_EQ(after([](table_spec& s) { s.columns[1].role = column_role::plain; }),
            "column v differs in primary_key or nullable");
  EXPECT_EQ(after([](table_spec& s) { s.columns.pop_back(); }), "column v is missing");
  EXPECT_EQ(after([](table_spec& s) { s.columns.push_back({"w", int64}); }),
            "column w is not wanted");
  EXPECT_EQ(after([](table_spec& s) { s.primary = index_kind::ordered; }),
            "the primary index is of another kind");
  EXPECT_EQ(after([](table_spec& s) { s.indexes.pop_back(); }), "index b2 is missing");
  EXPECT_EQ(after([](table_spec& s) { s.indexes[0].columns = {"v"}; }),
            "index a has other columns");
  EXPECT_EQ(after([](table_spec& s) { s.indexes[0].unique = true; }), "index a differs in unique");
  EXPECT_EQ(after([](table_spec& s) { s.indexes[0].kind = index_kind::hash; }),
            "index a is of another kind");
  EXPECT_EQ(after([](table_spec& s) {
              s.indexes.push_back(ordered_b);
              s.indexes[2].name = "c";
            }),
            "index c is not wanted");
}

TEST(catalog, a_former_name_of_a_function_still_compiles) {
  database base = database::open();
  const table& t = base.create_table({.name = "t", .columns = {{"id", int64, primary_key}}});
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  EXPECT_EQ(t.slots(), t.row_slots());
#pragma GCC diagnostic pop
}

TEST_P(catalog_changes, an_index_finds_what_was_there_and_what_comes) {
  for (const index_spec& spec : {ordered_b, hash_b}) {
    for (int i = 0; i < 100; ++i) {
      if (a_now(i) < 0) {
        ASSERT_TRUE(put(i, i % 3));
      }
    }
    const reader before = base.snapshot();
    ASSERT_TRUE(set_a(5, 7));
    ASSERT_TRUE(base.create_index(items, spec));
    EXPECT_EQ(items.spec().indexes.size(), 3U);
    EXPECT_EQ(items.index("b2").kind(), spec.kind);
    const reader now = base.snapshot();
    for (int i = 0; i < 100; ++i) ASSERT_EQ(count(now, items, "b2", i * 10), 1) << i;
    EXPECT_EQ(thrown([&] { count(before, items, "b2", 10); }), outcome::schema_changed)
        << "older than the index";
    EXPECT_EQ(a_of(before, 5), 2);
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      if (const status s = tx.update(items, {5}, {{"b", 5555}}); !s) return s;
      if (const status s = tx.insert(items, {200, 1, 7777, nullptr}); !s) return s;
      EXPECT_EQ(count(tx, items, "b2", 5555) + count(tx, items, "b2", 7777), 2) << "its own";
      EXPECT_EQ(count(tx, items, "b2", 50), 0);
      return tx.erase(items, {6});
    }));
    EXPECT_EQ(count(now, items, "b2", 50) + count(now, items, "b2", 60), 2);
    const reader later = base.snapshot();
    EXPECT_EQ(count(later, items, "b2", 50) + count(later, items, "b2", 60), 0);
    EXPECT_EQ(count(later, items, "b2", 5555) + count(later, items, "b2", 7777), 2);
    ASSERT_TRUE(base.drop_index(items, "b2"));
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.erase(items, {200}); }));
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.erase(items, {5}); }));
  }
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
}

TEST_P(catalog_changes, a_dropped_index_serves_older_snapshots) {
  ASSERT_TRUE(put(1, 5));
  const secondary& by_a = items.index("by_a");
  const auto rows = [&](const reader& at) {
    int n = 0;
    at.scan(by_a, {5}, {5}, [&](const row&) { ++n; });
    return n;
  };
  {
    const reader before = base.snapshot();
    ASSERT_TRUE(base.drop_index(items, "by_a"));
    ASSERT_TRUE(put(2, 5));
    EXPECT_EQ(rows(before), 1);
    const reader now = base.snapshot();
    EXPECT_EQ(thrown([&] { rows(now); }), outcome::dropped);
    base.collect();
    EXPECT_EQ(rows(before), 1);
    EXPECT_GE(base.stats().cleaning, 1U) << "it waits for the snapshot";
  }
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
  EXPECT_EQ(by_a.name(), "by_a") << "the name stays";
  EXPECT_THROW(static_cast<void>(items.index("by_a")), std::invalid_argument);
  ASSERT_TRUE(base.create_index(items, {.name = "by_a", .columns = {"a"}}));
  EXPECT_EQ(count(base.snapshot(), items, "by_a", 5), 2);
}

TEST_P(catalog_changes, a_transaction_that_has_changed_rows_before_is_tried_again) {
  ASSERT_TRUE(put(1, 5));
  for (const bool add : {true, false}) {
    transaction writes = base.begin();
    transaction reads = base.begin();
    EXPECT_EQ(a_of(reads, 1), 5);
    ASSERT_TRUE(writes.update(items, {1}, {{"a", 6}}));
    ASSERT_TRUE(add ? base.create_index(items, hash_b) : base.drop_index(items, "b2"));
    EXPECT_EQ(writes.commit(), outcome::schema_changed);
    EXPECT_EQ(writes.state(), outcome::schema_changed);
    ASSERT_TRUE(reads.insert(items, {add ? 10 : 11, 1, add ? 100 : 110, nullptr}));
    EXPECT_TRUE(reads.commit()) << "it began before, and has changed nothing before";
  }
  int tries = 0;
  EXPECT_TRUE(base.transact([&](transaction& tx) {
    const status s = tx.update(items, {1}, {{"a", 7}});
    if (++tries == 1) {
      EXPECT_TRUE(base.create_index(items, ordered_b));
    }
    return s;
  }));
  EXPECT_EQ(tries, 2);
  EXPECT_EQ(a_now(1), 7);
  EXPECT_EQ(count(base.snapshot(), items, "b2", 100), 1);
}

// Its index would lack what the transaction has changed before, though nothing was committed since.
TEST_P(catalog_changes, a_transaction_that_has_changed_rows_before_does_not_scan_the_index) {
  table& t = make("t");
  ASSERT_TRUE(put_into(t, 1, 7));
  transaction tx = base.begin();
  ASSERT_TRUE(tx.insert(t, {2, 7}));
  ASSERT_TRUE(base.create_index(t, {.name = "by_v", .columns = {"v"}}));
  EXPECT_EQ(thrown([&] { count(tx, t, "by_v", 7); }), outcome::schema_changed);
  EXPECT_EQ(tx.commit(), outcome::schema_changed);
  EXPECT_EQ(count(base.snapshot(), t, "by_v", 7), 1);
}

TEST_P(catalog_changes, a_unique_index_needs_different_keys) {
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(put(i, i == 17 ? 3 : i));
  for (const index_kind kind : {index_kind::ordered, index_kind::hash}) {
    const index_spec spec{.name = "one", .columns = {"a"}, .unique = true, .kind = kind};
    ASSERT_TRUE(set_a(17, 3));
    EXPECT_EQ(base.create_index(items, spec), outcome::duplicate_key);
    EXPECT_THROW(static_cast<void>(items.index("one")), std::invalid_argument);
    EXPECT_EQ(items.spec().indexes.size(), 2U);
    ASSERT_TRUE(set_a(17, 4)) << "nothing is left of it";
    ASSERT_TRUE(set_a(17, 17));
    EXPECT_TRUE(base.create_index(items, spec));
    EXPECT_EQ(base.transact([&](transaction& tx) { return tx.update(items, {17}, {{"a", 3}}); }),
              outcome::duplicate_key);
    ASSERT_TRUE(base.drop_index(items, "one"));
  }
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
}

TEST_P(catalog_changes, a_dropped_table_is_there_for_older_snapshots) {
  table& gone = make("gone");
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(put_into(gone, i, i));
  const std::uint64_t full = base.stats().table_bytes;
  transaction writes = base.begin();
  ASSERT_TRUE(writes.update(gone, {1}, {{"v", 0}}));
  transaction reads = base.begin();
  ASSERT_TRUE(reads.find(gone, {1}));
  {
    const reader before = base.snapshot();
    ASSERT_TRUE(base.drop_table(gone));
    EXPECT_EQ(base.tables().size(), 1U);
    EXPECT_THROW(static_cast<void>(base.find_table("gone")), std::invalid_argument);
    EXPECT_EQ(writes.commit(), outcome::schema_changed);
    EXPECT_EQ(reads.find(gone, {2})->get(gone.column<std::int64_t>("v")), 2);
    EXPECT_EQ(reads.update(gone, {2}, {{"v", 0}}), outcome::schema_changed);
    base.collect();
    int rows = 0;
    before.for_each(gone, [&](const row&) { ++rows; });
    EXPECT_EQ(rows, 2000);
    EXPECT_EQ(base.stats().table_bytes, full);
  }
  base.collect();
  if (GetParam() != version_storage::range) {
    EXPECT_LT(base.stats().table_bytes, full) << "its rows are freed";
  }
  EXPECT_EQ(base.stats().cleaning, 0U);
  EXPECT_EQ(gone.name(), "gone");
  transaction late = base.begin();
  EXPECT_EQ(late.find(gone, {1}).code(), outcome::dropped);
  EXPECT_EQ(late.insert(gone, {1, 1}), outcome::dropped);
  EXPECT_EQ(late.update(gone, {1}, {{"v", 1}}), outcome::dropped);
  EXPECT_EQ(late.erase(gone, {1}), outcome::dropped);
  EXPECT_EQ(thrown([&] { late.for_each(gone, [](const row&) {}); }), outcome::dropped);
  ASSERT_TRUE(late.insert(items, {1, 1, 1, nullptr}));
  EXPECT_TRUE(late.commit()) << "the rest goes on";
  EXPECT_EQ(base.drop_table(gone), outcome::dropped);
  EXPECT_EQ(base.create_index(gone, {.name = "v", .columns = {"v"}}), outcome::dropped);
  EXPECT_EQ(base.drop_index(gone, "v"), outcome::dropped);
  table& again = make("gone");
  ASSERT_TRUE(put_into(again, 1, 9));
  EXPECT_TRUE(base.snapshot().find(again, {1}));
}

TEST_P(catalog_changes, older_snapshots_find_the_indexes_of_a_dropped_table) {
  table& gone = base.create_table({.name = "gone",
                                   .columns = {{"k", int64, primary_key}, {"v", int64}},
                                   .indexes = {{"by_v", {"v"}}}});
  ASSERT_TRUE(put_into(gone, 1, 5));
  {
    const reader before = base.snapshot();
    ASSERT_TRUE(base.drop_table(gone));
    EXPECT_EQ(count(before, gone, "by_v", 5), 1);
    EXPECT_EQ(thrown([&] { count(base.snapshot(), gone, "by_v", 5); }), outcome::dropped);
  }
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
  EXPECT_EQ(thrown([&] { count(base.snapshot(), gone, "by_v", 5); }), outcome::dropped);
}

/// The row is locked by a transaction that was waited for, and begins then.
TEST_P(catalog_changes, a_transaction_that_waits_finds_the_table_dropped) {
  table& gone = make("gone");
  ASSERT_TRUE(put_into(gone, 1, 1));
  transaction waits = base.begin({.longest_wait = std::chrono::milliseconds(20)});
  ASSERT_TRUE(put_into(gone, 2, 2));
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.update(gone, {1}, {{"v", 5}}); }));
  ASSERT_TRUE(base.drop_table(gone));
  EXPECT_EQ(waits.update(gone, {1}, {{"v", 6}}), outcome::schema_changed);
}

TEST_P(catalog_changes, mistakes_are_refused_one_by_one) {
  const auto with = [&](const index_spec& s) {
    return refused([&] { static_cast<void>(base.create_index(items, s)); });
  };
  EXPECT_EQ(with({.name = "", .columns = {"a"}}),
            "spolia::db: an index of table items needs a name");
  EXPECT_EQ(
      with({.name = "by_a", .columns = {"a"}}),
      "spolia::db: table items has an index by_a already: use another name, or drop it before");
  EXPECT_EQ(with({.name = "x", .columns = {}}),
            "spolia::db: index x of table items needs a column");
  EXPECT_EQ(with({.name = "x", .columns = {"c"}}),
            "spolia::db: table items has no column c. It has id, a, b, note");
  EXPECT_EQ(with({.name = "x", .columns = {"note"}}),
            "spolia::db: index x of table items takes no nullable column, as note is");
  EXPECT_EQ(with({.name = "x", .columns = std::vector<std::string>(9, "a")}),
            "spolia::db: the key of index x of table items has 72 bytes: at most 64 are allowed. "
            "Numbers take 8, and text(n) n + 2, rounded up to 8");
  EXPECT_EQ(refused([&] { static_cast<void>(base.drop_index(items, "x")); }),
            "spolia::db: table items has no index x. It has by_a, by_b");
  EXPECT_EQ(items.spec().indexes.size(), 2U);
}

TEST_P(catalog_changes, memory_that_is_missing_builds_nothing) {
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(put(i, i));
  transaction open = base.begin();
  ASSERT_TRUE(open.update(items, {3}, {{"a", 9}}));
  std::uint64_t failures = 0;
  for (const bool unique : {false, true}) {
    const index_spec spec{.name = "b2", .columns = {"b"}, .unique = unique, .kind = hash_b.kind};
    failures += for_each_allocation_failure([&] {
      try {
        if (!base.create_index(items, spec)) throw std::logic_error("create");
      } catch (const std::bad_alloc&) {
        EXPECT_THROW(static_cast<void>(items.index("b2")), std::invalid_argument);
        throw;
      }
      try {
        EXPECT_EQ(count(base.snapshot(), items, "b2", 50), 1);
        if (!base.drop_index(items, "b2")) throw std::logic_error("drop");
      } catch (const std::bad_alloc&) {
        EXPECT_TRUE(base.drop_index(items, "b2")) << "it is still there";
        throw;
      }
    });
  }
  EXPECT_GT(failures, 10U);
  open.rollback();
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
}

/// Money goes from account to account; b is different for each, and changes hands.
class catalog_load : public catalog_changes {
 protected:
  static constexpr std::int64_t accounts = 40;
  static constexpr std::int64_t money = 1000;

  void transfer(stress_thread& self) {
    const auto from = static_cast<std::int64_t>(self.random().below(accounts));
    const auto to = static_cast<std::int64_t>(self.random().below(accounts));
    const status s = base.transact([&](transaction& tx) -> status {
      auto giver = tx.edit(items, {from});
      if (!giver) return giver.why();
      auto taker = tx.edit(items, {to});
      if (!taker) return taker.why();
      if (const status done = giver->set(a, giver->get(a) - 1); !done) return done;
      if (const status done = taker->set(a, taker->get(a) + 1); !done) return done;
      return from == to || to % 2 == 0 ? status() : swap(tx, *giver, *taker, to);
    });
    EXPECT_TRUE(s) << s.message();
  }
  /// They swap b; and a new row takes the second one's place.
  status swap(transaction& tx, editor& giver, editor& taker, std::int64_t to) {
    const std::int64_t x = giver.get(b);
    const std::int64_t y = taker.get(b);
    if (const status done = giver.set(b, -1 - to); !done) return done;
    if (const status done = taker.set(b, x); !done) return done;
    if (const status done = giver.set(b, y); !done) return done;
    const std::int64_t had = taker.get(a);
    if (const status done = tx.erase(items, {to}); !done) return done;
    return tx.insert(items, {to, had, x, "again"});
  }
  void check(const char* index, index_kind kind) {
    const reader now = base.snapshot();
    std::int64_t sum = 0;
    std::int64_t rows = 0;
    const auto take = [&](const row& r) {
      ++rows;
      sum += r.get(a);
    };
    if (kind == index_kind::ordered) {
      now.scan(items.index(index), {}, {}, take);
    } else {
      for (std::int64_t i = 0; i < accounts; ++i) {
        now.scan(items.index(index), {i * 10}, {i * 10}, take);
      }
    }
    EXPECT_EQ(rows, accounts);
    EXPECT_EQ(sum, accounts * money);
  }
  void change(stress_thread& self, std::int64_t n) {
    const index_spec spec{.name = "b" + std::to_string(n),
                          .columns = {"b"},
                          .unique = n % 4 < 2,
                          .kind = n % 2 == 0 ? index_kind::hash : index_kind::ordered};
    const status made = base.create_index(items, spec);
    ASSERT_TRUE(made) << made.message();
    self.jitter();
    check(spec.name.c_str(), spec.kind);
    ASSERT_TRUE(base.drop_index(items, spec.name));
    table& more = make(("t" + std::to_string(n)).c_str());
    ASSERT_TRUE(put_into(more, n, n));
    const reader held = base.snapshot();
    ASSERT_TRUE(base.drop_table(more));
    EXPECT_TRUE(held.find(more, {n}));
    EXPECT_EQ(base.snapshot().find(more, {n}).code(), outcome::dropped);
  }
};
SPOLIA_OVER_STORAGES_AND_TABLES(catalog_load);

/// One thread makes and drops indexes and tables, and others come and go.
TEST_P(catalog_load, sums_hold) {
  for (std::int64_t i = 0; i < accounts; ++i) ASSERT_TRUE(put(i, money));
  run_stress({.threads = 4, .share = 0.5}, [&](stress_thread& self) {
    for (std::int64_t n = 0; self.running(); ++n) {
      if (self.index() == 0) {
        change(self, n);
      } else if (self.index() == 1) {
        std::thread([&] { transfer(self); }).join();
      } else {
        transfer(self);
      }
    }
  });
  check("by_b", index_kind::ordered);
  base.collect();
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
  EXPECT_EQ(base.tables().size(), 1U);
}

/// Stops one thread, again and again, where it reads a version that is not the newest.
class versions_that_wait final : public delta_one_shot {
 public:
  struct place {
    /// Of the thread that is to stop.
    void arrive() {
      std::unique_lock hold(lock);
      if (std::this_thread::get_id() != whom) return;
      stands = true;
      changed.notify_all();
      changed.wait(hold, [this] { return !stands; });
    }
    /// Whether it has come before `over` became true.
    bool meet(const std::atomic<bool>& over) {
      std::unique_lock hold(lock);
      while (!stands && !over.load()) changed.wait_for(hold, std::chrono::milliseconds(1));
      return stands;
    }
    void go_on() {
      const std::lock_guard hold(lock);
      stands = false;
      changed.notify_all();
    }

    std::mutex lock;
    std::condition_variable changed;
    std::thread::id whom;
    bool stands = false;
  };

  versions_that_wait(commit_board& board, place& where)
      : delta_one_shot(board, {}), where_(where) {}
  [[nodiscard]] const version* find(const atomic<std::uint64_t>& chain, std::uint64_t row,
                                    std::uint64_t time,
                                    const taking_back* on_the_way) const override {
    where_.arrive();
    return delta_one_shot::find(chain, row, time, on_the_way);
  }

 private:
  place& where_;
};

/// A transaction that gives a row its former key back is open when the builder adds an entry for
/// that key, which its snapshot sees: its claim must stay, for a transaction that wants the key for
/// another row.
class claims_of_the_open : public testing::TestWithParam<index_kind> {
 protected:
  static constexpr std::int64_t rows = 50000;
  static constexpr std::int64_t key = 7'000'000;  // of the last row but one
  static constexpr std::int64_t middle = rows / 2;
  static constexpr std::int64_t owner = rows;
  static constexpr std::int64_t last = rows + 1;

  claims_of_the_open() {
    EXPECT_TRUE(base.transact([&](transaction& tx) -> status {
      for (std::int64_t k = 0; k <= last; ++k) {
        if (const status s = tx.insert(t, {k, k == owner ? key : k}); !s) return s;
      }
      return outcome::ok;
    }));
  }
  void set(std::int64_t k, std::int64_t to) {
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.update(t, {k}, {{"v", to}}); }));
  }
  void begin_build() {
    builder = std::thread([&] {
      {
        const std::lock_guard hold(where.lock);
        where.whom = std::this_thread::get_id();
      }
      built = base.create_index(
          t, {.name = "one", .columns = {"v"}, .unique = true, .kind = GetParam()});
      over.store(true);
    });
    const auto snapshot_is_there = [&] {
      for (const reader_info& r : base.readers()) {
        if (r.label == "index") return true;
      }
      return false;
    };
    while (!over.load() && !snapshot_is_there()) std::this_thread::yield();
    set(middle, -1);
  }
  int rows_with_the_key() {
    int n = 0;
    base.snapshot().for_each(t, [&](const row& r) { n += r.get(v) == key ? 1 : 0; });
    return n;
  }

  versions_that_wait::place where;
  database base = database::open({.own_versions = [this](commit_board& board) {
    return std::make_unique<versions_that_wait>(board, where);
  }});
  table& t = base.create_table({.name = "t", .columns = {{"k", int64, primary_key}, {"v", int64}}});
  const column<std::int64_t> v = t.column<std::int64_t>("v");
  std::atomic<bool> over{false};
  status built;
  std::thread builder;
};
INSTANTIATE_TEST_SUITE_P(each, claims_of_the_open,
                         testing::Values(index_kind::ordered, index_kind::hash), [](const auto& i) {
                           return std::string(i.param == index_kind::hash ? "hash" : "ordered");
                         });

TEST_P(claims_of_the_open, stay_while_an_index_is_built) {
  if (no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  begin_build();
  const bool early = where.meet(over);  // else the machine was too busy: the builder is further
  if (early) {
    set(owner, -2);
    set(last, -3);
    transaction gives = base.begin();
    ASSERT_TRUE(gives.update(t, {owner}, {{"v", key}}));
    where.go_on();  // to the row in question, and past it
    ASSERT_TRUE(where.meet(over));
    where.go_on();
    ASSERT_TRUE(where.meet(over));
    transaction wants = base.begin();
    EXPECT_EQ(wants.insert(t, {last + 1, key}), outcome::conflict);
    EXPECT_TRUE(gives.commit());
    static_cast<void>(wants.commit());
    where.go_on();
  }
  builder.join();
  EXPECT_TRUE(built) << built.message();
  EXPECT_EQ(rows_with_the_key(), 1);
}

/// Readers from the builder's snapshot on use the index: a transaction that has added an entry
/// before the builder, and rolls back, does not take it from them.
TEST_P(claims_of_the_open, that_are_taken_back_leave_what_older_readers_see) {
  if (no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  begin_build();
  if (where.meet(over)) {
    const reader old = base.snapshot();
    set(owner, -2);
    set(last, -3);
    transaction gives = base.begin();
    ASSERT_TRUE(gives.update(t, {owner}, {{"v", key}}));
    where.go_on();
    ASSERT_TRUE(where.meet(over));
    where.go_on();
    ASSERT_TRUE(where.meet(over));
    where.go_on();
    builder.join();
    const auto seen = [&] {
      int n = 0;
      old.scan(t.index("one"), {key}, {key}, [&](const row&) { ++n; });
      return n;
    };
    EXPECT_EQ(seen(), 1);
    gives.rollback();
    base.collect();
    EXPECT_EQ(seen(), 1);
  } else {
    builder.join();
  }
  EXPECT_TRUE(built) << built.message();
}

/// Two rows swap their keys, again and again: at no time are they the same, whatever a build sees.
TEST_P(catalog_changes, a_unique_build_beside_keys_that_change_hands) {
  for (std::int64_t i = 0; i < 2; ++i) ASSERT_TRUE(put(i, i));
  std::int64_t built = 0;
  run_stress({.threads = 2, .share = 0.3}, [&](stress_thread& self) {
    for (std::int64_t n = 0; self.running(); ++n) {
      if (self.index() == 0) {
        const status made =
            base.create_index(items, {.name = "one",
                                      .columns = {"a"},
                                      .unique = true,
                                      .kind = n % 2 == 0 ? index_kind::hash : index_kind::ordered});
        ASSERT_TRUE(made) << made.message();
        ++built;
        ASSERT_TRUE(base.drop_index(items, "one"));
        continue;
      }
      const status s = base.transact([&](transaction& tx) -> status {
        if (const status done = tx.update(items, {0}, {{"a", -1}}); !done) return done;
        if (const status done = tx.update(items, {1}, {{"a", n % 2}}); !done) return done;
        return tx.update(items, {0}, {{"a", 1 - n % 2}});
      });
      EXPECT_TRUE(s) << s.message();
    }
  });
  EXPECT_GT(built, 0);
}

TEST_P(catalog_changes, a_table_gets_another_name) {
  table& t = make("t");
  ASSERT_TRUE(put_into(t, 1, 10));
  const std::string& former = t.name();
  transaction under_way = base.begin();
  ASSERT_TRUE(under_way.insert(t, {2, 20}));
  const reader old = base.snapshot();
  ASSERT_TRUE(base.rename_table("t", "u"));
  EXPECT_EQ(t.name(), "u");
  EXPECT_EQ(former, "t") << "a reference to it is good yet";
  EXPECT_EQ(t.layout().name(), "u");
  EXPECT_EQ(t.spec().name, "u");
  EXPECT_EQ(base.try_find_table("t"), nullptr);
  EXPECT_EQ(&base.find_table("u"), &t);
  EXPECT_TRUE(old.find(t, {1}));
  EXPECT_TRUE(under_way.commit()) << "it goes on";
  EXPECT_TRUE(base.rename_table(t, "u")) << "it has that name";

  table& other = make("t");  // which is free
  EXPECT_NE(&other, &t);
  EXPECT_EQ(&base.find_table("t"), &other);
  EXPECT_THROW(static_cast<void>(base.rename_table(t, "t")), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(base.rename_table(t, "")), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(base.rename_table(t, std::string(65536, 'n'))),
               std::invalid_argument);
  EXPECT_THROW(static_cast<void>(base.rename_table("v", "w")), std::invalid_argument);
  EXPECT_EQ(t.name(), "u");
  // The names are exchanged, and all is found by them.
  ASSERT_TRUE(base.rename_table(other, "v") && base.rename_table(t, "t") &&
              base.rename_table(other, "u"));
  EXPECT_EQ(&base.find_table("t"), &t);
  EXPECT_EQ(&base.find_table("u"), &other);
  ASSERT_TRUE(base.drop_table(t));
  EXPECT_EQ(base.rename_table(t, "w"), outcome::dropped);
  EXPECT_EQ(t.name(), "t");
  EXPECT_EQ(base.try_find_table("t"), nullptr);
}

TEST(catalog, what_is_not_there_is_no_mistake) {
  database base = database::open();
  EXPECT_EQ(base.try_find_table("t"), nullptr);
  table& t = base.create_table(
      {.name = "t", .columns = {{"k", int64, primary_key}}, .indexes = {{"by_k", {"k"}}}});
  EXPECT_EQ(base.try_find_table("t"), &t);
  EXPECT_EQ(t.try_index("by_k"), &t.index("by_k"));
  EXPECT_EQ(t.try_index("by_x"), nullptr);
  ASSERT_TRUE(base.drop_index(t, "by_k"));
  EXPECT_EQ(t.try_index("by_k"), nullptr);
  ASSERT_TRUE(base.drop_table(t));
  EXPECT_EQ(base.try_find_table("t"), nullptr);
}

/// Memory that is missing, at each allocation: it has the one name, or the other.
TEST(catalog, a_rename_without_memory_changes_nothing) {
  database base = database::open();
  table& t = base.create_table({.name = "t", .columns = {{"k", int64, primary_key}}});
  const std::string longer(100, 'n');
  for (std::uint64_t nth = 1; t.name() == "t" && nth < 100; ++nth) {
    const fail_after none(nth);
    try {
      EXPECT_TRUE(base.rename_table(t, longer));
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(t.name(), "t");
      EXPECT_EQ(base.try_find_table("t"), &t);
      EXPECT_EQ(base.try_find_table(longer), nullptr);
    }
  }
  EXPECT_EQ(base.try_find_table(longer), &t);
}

/// They lead to its rows by whichever name, and in each database that has the table.
TEST(catalog_of_files, a_renamed_table_keeps_its_columns) {
  const disk files = new_disk();
  const auto spec = [](const char* name) {
    return table_spec{.name = name, .columns = {{"k", int64, primary_key}, {"v", int64}}};
  };
  column<std::int64_t> v;
  selection only;
  const auto are_good = [&](database& base, table& t) {
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      if (const status done = tx.put(t, {1, 1}); !done) return done;
      return tx.edit(t, {1})->set(v, 2);
    }));
    const reader now = base.snapshot();
    EXPECT_EQ(now.find(t, {1}, only)->get(v), 2);
    const auto found = now.query(t).where(v, equal, 2).aggregate(count()).run();
    EXPECT_EQ(found->get<std::int64_t>(0, 0), 1);
    EXPECT_EQ(t.column<std::int64_t>("v").of, v.of);
  };
  {
    database base = database::open(place, over(files));
    table& t = base.create_table(spec("t"));
    v = t.column<std::int64_t>("v");
    only = t.select({"v"});
    ASSERT_TRUE(base.rename_table(t, "u"));
    are_good(base, t);
    are_good(base, base.create_table(spec("t")));
  }
  database other = database::open();
  are_good(other, other.create_table(spec("u")));
  for (const bool checkpoint : {false, true}) {  // read from the log, and from a checkpoint
    database base = database::open(place, over(files));
    are_good(base, base.find_table("u"));
    if (!checkpoint) base.checkpoint();
  }
}

TEST(catalog_of_files, changes_are_refused_to_who_reads) {
  const disk files = new_disk();
  {
    database base = database::open(place, over(files));
    make_ledger(base);
  }
  options look = over(files);
  look.read_only = true;
  database base = database::open(place, look);
  table& t = base.find_table("ledger");
  const auto why = [](const std::string& call) {
    return "spolia::db: the database was opened read_only, and " + call + " would change it";
  };
  EXPECT_EQ(refused([&] { static_cast<void>(base.drop_table(t)); }), why("drop_table()"));
  EXPECT_EQ(refused([&] { static_cast<void>(base.rename_table(t, "x")); }), why("rename_table()"));
  EXPECT_EQ(
      refused([&] { static_cast<void>(base.create_index(t, {.name = "x", .columns = {"n"}})); }),
      why("create_index()"));
  EXPECT_EQ(refused([&] { static_cast<void>(base.drop_index(t, "by_n")); }), why("drop_index()"));
  EXPECT_EQ(refused([&] { make_ledger(base); }), why("create_table()"));
}

}  // namespace
