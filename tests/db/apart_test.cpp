// SPDX-License-Identifier: Apache-2.0
// Variable text and blobs: values, how long their blocks live, and that none is left behind.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "db/storages.hpp"
#include "support/faults.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

/// A value that tells its number, of a length that depends on it.
std::string made_of(std::int64_t n) {
  const std::string word = std::to_string(n) + ";";
  std::string all;
  const std::size_t size = 20 + static_cast<std::size_t>(n * 37 % 300);
  while (all.size() < size) all += word;
  return all;
}

/// A database whose rows have a number, and a text and a blob made of it.
class db_apart : public testing::TestWithParam<storage_kind> {
 protected:
  explicit db_apart(const options& o = {}) : base(database::open(with_storage(o))) {}

  static options with_storage(options o) {
    o.versions = GetParam();
    o.changes_only = GetParam().changes_only;
    o.partition_transactions = 16;
    return o;
  }
  status put(std::int64_t key, std::int64_t number) {
    const std::string s = made_of(number);
    return base.transact(
        [&](transaction& tx) { return tx.insert(rows, {key, number, s, blob_view(s)}); });
  }
  status change(std::int64_t key, std::int64_t number) {
    const std::string s = made_of(number);
    return base.transact([&](transaction& tx) {
      return tx.update(rows, {key}, {{"n", number}, {"words", s}, {"bytes", blob_view(s)}});
    });
  }
  status erase(std::int64_t key) {
    return base.transact([&](transaction& tx) { return tx.erase(rows, {key}); });
  }
  /// The number of a row whose values all tell the same one; -1: there is none; -2: they do not.
  std::int64_t number_of(const row& r) const {
    const std::string wanted = made_of(r.get(n));
    return r.get(words) == wanted && r.get(bytes).chars() == wanted ? r.get(n) : -2;
  }
  std::int64_t seen(const reader& at, std::int64_t key) const {
    const auto r = at.find(rows, {key});
    return r ? number_of(*r) : -1;
  }
  /// Bytes of blocks that the rows as of now need.
  std::uint64_t needed() const {
    std::uint64_t sum = 0;
    base.snapshot().for_each(rows, [&](const row& r) {
      for (const std::size_t size : {r.get(words).size(), r.get(bytes).size()}) {
        if (size > 8) sum += 32 + size;
      }
    });
    return sum;
  }
  void expect_nothing_left() {
    base.collect();
    EXPECT_EQ(base.stats().value_bytes, needed());
    EXPECT_EQ(base.stats().value_bytes_waiting, 0U);
  }

  database base;
  table& rows = base.create_table({.name = "rows",
                                   .columns = {{"id", int64, primary_key},
                                               {"n", int64},
                                               {"words", text(), nullable},
                                               {"bytes", blob(), nullable}},
                                   .primary = index_kind::ordered,
                                   .indexes = {{"by_n", {"n"}, true}}});
  column<std::int64_t> n = rows.column<std::int64_t>("n");
  column<std::string_view> words = rows.column<std::string_view>("words");
  column<blob_view> bytes = rows.column<blob_view>("bytes");
};
SPOLIA_OVER_STORAGES(db_apart);

TEST_P(db_apart, values_of_all_lengths_are_kept) {
  for (const std::size_t size : {0U, 1U, 7U, 8U, 9U, 16U, 1000U, 100000U, 1U << 24U}) {
    const std::string s(size, static_cast<char>(size * 7 + 1));
    const auto key = static_cast<std::int64_t>(size);
    ASSERT_TRUE(base.transact(
        [&](transaction& tx) { return tx.insert(rows, {key, key, s, blob_view(s)}); }));
    const reader now = base.snapshot();
    const auto r = now.find(rows, {key});
    ASSERT_TRUE(r);
    EXPECT_EQ(r->get(words), s);
    EXPECT_EQ(r->get(bytes), blob_view(s));
    EXPECT_EQ(r->get(rows.layout().column("words")).what(), value(s).what());
    EXPECT_EQ(r->get(rows.layout().column("bytes")).what(), value(blob_view(s)).what());
    EXPECT_FALSE(r->null(words));
  }
  ASSERT_TRUE(base.transact(
      [&](transaction& tx) { return tx.update(rows, {1000}, {{"words", nullptr}}); }));
  ASSERT_TRUE(
      base.transact([&](transaction& tx) { return tx.insert(rows, {-1, -1, nullptr, nullptr}); }));
  EXPECT_TRUE(base.snapshot().find(rows, {1000})->null(words));
  EXPECT_EQ(base.snapshot().find(rows, {1000})->get(words), "");
  EXPECT_EQ(base.snapshot().find(rows, {1000})->get(bytes).size(), 1000U);
  EXPECT_TRUE(base.snapshot().find(rows, {-1})->null(bytes));
  expect_nothing_left();
}

TEST_P(db_apart, what_cannot_be_is_refused_with_a_sentence) {
  const auto refused = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  const auto create = [&](const table_spec& s) { return refused([&] { base.create_table(s); }); };
  EXPECT_EQ(create({.name = "t", .columns = {{"k", text(), primary_key}}}),
            "spolia::db: column k of table t has type text() and cannot be in a key: text(n) can, "
            "and other types");
  EXPECT_EQ(create({.name = "t", .columns = {{"k", blob(), primary_key}}}),
            "spolia::db: column k of table t has type blob() and cannot be in a key: text(n) can, "
            "and other types");
  EXPECT_EQ(create({.name = "t",
                    .columns = {{"k", int64, primary_key}, {"v", text()}},
                    .indexes = {{"by_v", {"v"}}}}),
            "spolia::db: column v of table t has type text() and cannot be in a key: text(n) can, "
            "and other types");
  const std::string s((1U << 24U) + 1, 'x');
  const auto insert = [&](const value& text, const value& blob) {
    return refused([&] {
      transaction tx = base.begin();
      static_cast<void>(tx.insert(rows, {1, 1, text, blob}));
    });
  };
  {
    transaction tx = base.begin();
    const status long_one = tx.insert(rows, {1, 1, s, nullptr});
    EXPECT_EQ(long_one, outcome::too_long);
    EXPECT_EQ(long_one.reason(),
              "column words of table rows takes at most 16777216 bytes (16 MiB), got 16777217");
  }
  EXPECT_EQ(
      insert(nullptr, "x"),
      "spolia::db: column bytes of table rows has type blob() and takes a blob_view, not a text");
  EXPECT_EQ(
      insert(blob_view("x"), nullptr),
      "spolia::db: column words of table rows has type text() and takes a text, not a blob_view");
  EXPECT_THROW(static_cast<void>(rows.column<std::string_view>("bytes")), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(rows.column<blob_view>("words")), std::invalid_argument);
  expect_nothing_left();
}

TEST_P(db_apart, a_snapshot_keeps_what_it_sees_and_nothing_else) {
  ASSERT_TRUE(put(1, 1));
  ASSERT_TRUE(put(2, 1000));
  std::unique_ptr<reader> first(new reader(base.snapshot()));
  const auto kept = first->find(rows, {1});  // before it is replaced
  for (std::int64_t i = 2; i <= 300; ++i) ASSERT_TRUE(change(1, i));
  const reader second = base.snapshot();
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.update(rows, {1}, {{"n", 300}}); }));
  for (std::int64_t i = 301; i <= 600; ++i) ASSERT_TRUE(change(1, i));
  ASSERT_TRUE(erase(2));
  ASSERT_TRUE(erase(1));
  EXPECT_EQ(number_of(*kept), 1);
  EXPECT_EQ(seen(*first, 1), 1);
  EXPECT_EQ(seen(*first, 2), 1000);
  EXPECT_EQ(seen(second, 1), 300);
  EXPECT_EQ(seen(base.snapshot(), 1), -1);
  base.collect();
  // The two values each of two versions of a row, and those of the other.
  const auto size = [](std::int64_t of) { return 2 * (32 + made_of(of).size()); };
  EXPECT_EQ(base.stats().value_bytes, size(1) + size(300) + size(1000));
  EXPECT_EQ(base.stats().value_bytes_waiting, base.stats().value_bytes);
  first.reset();
  base.collect();
  EXPECT_EQ(base.stats().value_bytes, size(300) + size(1000));
  EXPECT_EQ(seen(second, 1), 300);
}

TEST_P(db_apart, garbage_is_bounded_without_asking) {
  ASSERT_TRUE(put(1, 1));
  const reader old = base.snapshot();
  std::uint64_t most = 0;
  for (std::int64_t i = 2; i < 2000; ++i) {
    ASSERT_TRUE(change(1, i));
    most = std::max(most, base.stats().value_bytes_waiting);
  }
  EXPECT_LT(most, std::uint64_t{80} * (32 + 320)) << "64 blocks wait, and what the reader sees";
  EXPECT_EQ(seen(old, 1), 1);
}

/// What waits besides what readers see: 64 blocks, and those of the last commit.
constexpr std::uint64_t besides = std::uint64_t{80} * (32 + 320);

TEST_P(db_apart, what_a_reader_saw_goes_when_it_has_ended) {
  constexpr std::int64_t count = 200;
  std::uint64_t seen_by_it = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    ASSERT_TRUE(put(i, i));
    seen_by_it += 2 * (32 + made_of(i).size());
  }
  const auto waiting = [&] { return base.stats().value_bytes_waiting; };
  std::unique_ptr<reader> old(new reader(base.snapshot()));
  std::uint64_t most = 0;
  for (std::int64_t i = 0; i < 5 * count; ++i) {
    ASSERT_TRUE(change(i % count, i + 1000));
    most = std::max(most, waiting());
  }
  EXPECT_LT(most, seen_by_it + besides) << "as much again waits";
  EXPECT_GT(most, seen_by_it);
  old.reset();
  // None of these replaces a value.
  for (std::int64_t i = 0; i < count; ++i) {
    ASSERT_TRUE(
        base.transact([&](transaction& tx) { return tx.update(rows, {i}, {{"n", i + 2000}}); }));
  }
  EXPECT_LT(waiting(), besides) << "the reader has ended";
  expect_nothing_left();
}

TEST_P(db_apart, what_many_readers_saw_goes_without_commits) {
  constexpr std::int64_t count = 200;
  for (std::int64_t i = 0; i < count; ++i) ASSERT_TRUE(put(i, i));
  std::vector<reader> old;
  // Each alone sees a few values.
  for (std::int64_t i = 0; i < 10 * count; ++i) {
    if (i % 50 == 0) old.push_back(base.snapshot());
    ASSERT_TRUE(change(i % count, i + 1000));
  }
  EXPECT_GT(base.stats().value_bytes_waiting, besides);
  old.clear();
  for (int i = 0; i < 20; ++i) static_cast<void>(base.snapshot());
  EXPECT_LT(base.stats().value_bytes_waiting, besides);
  expect_nothing_left();
}

TEST_P(db_apart, no_commit_frees_all_that_a_reader_saw) {
  constexpr std::int64_t count = sanitized ? 3000 : quick_tests ? 10000 : 40000;
  const std::string text(20, 'x');
  const auto all = [&](auto&& f) {
    for (std::int64_t i = 0; i < count; i += 100) {
      ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
        for (std::int64_t k = i; k < i + 100; ++k) {
          if (status s = f(tx, k); !s) return s;
        }
        return {};
      }));
    }
  };
  all([&](transaction& tx, std::int64_t k) { return tx.insert(rows, {k, k, text, nullptr}); });
  std::unique_ptr<reader> old(new reader(base.snapshot()));
  all([&](transaction& tx, std::int64_t k) { return tx.update(rows, {k}, {{"words", text}}); });
  old.reset();
  std::uint64_t before = base.stats().value_bytes_waiting;
  std::uint64_t most = 0;
  for (std::int64_t i = 0; i < count / 10; ++i) {
    ASSERT_TRUE(
        base.transact([&](transaction& tx) { return tx.update(rows, {i}, {{"words", text}}); }));
    const std::uint64_t now = base.stats().value_bytes_waiting;
    most = std::max(most, before > now ? before - now : 0);
    before = now;
  }
  EXPECT_LT(most, std::uint64_t{400} * (32 + 20)) << "a commit has freed so many bytes at once";
  EXPECT_LT(before, besides);
  expect_nothing_left();
}

TEST_P(db_apart, own_values_are_seen_and_go_with_the_transaction) {
  ASSERT_TRUE(put(1, 1));
  {
    transaction tx = base.begin();
    const std::string two = made_of(2);
    const std::string three = made_of(3);
    auto e = tx.edit(rows, {1});
    ASSERT_TRUE(e);
    const auto before = e->get(words);
    ASSERT_TRUE(e->set(words, two));
    const auto found = tx.find(rows, {1});
    const std::string_view own = found->get(words);
    ASSERT_TRUE(e->set(words, three));
    ASSERT_TRUE(e->set(bytes, nullptr));
    EXPECT_EQ(before, made_of(1));
    EXPECT_EQ(own, two) << "it stays until the transaction ends";
    EXPECT_EQ(tx.find(rows, {1})->get(words), three);
    EXPECT_TRUE(e->null(bytes));
    EXPECT_EQ(seen(base.snapshot(), 1), 1);
    EXPECT_EQ(tx.insert(rows, {1, 5, two, nullptr}), outcome::duplicate_key);
    EXPECT_EQ(tx.insert(rows, {7, 1, two, blob_view(two)}), outcome::duplicate_key) << "by_n";
    ASSERT_TRUE(tx.insert(rows, {8, 8, two, blob_view(two)}));
    ASSERT_TRUE(tx.erase(rows, {8}));
    ASSERT_TRUE(tx.insert(rows, {8, 9, three, nullptr}));
    ASSERT_TRUE(tx.insert(rows, {9, 10, three, nullptr}));
    ASSERT_TRUE(tx.erase(rows, {9}));
  }
  expect_nothing_left();
  EXPECT_EQ(seen(base.snapshot(), 1), 1);
}

TEST_P(db_apart, savepoints_lead_back_to_values) {
  ASSERT_TRUE(put(1, 1));
  ASSERT_TRUE(put(2, 2000));
  for (const bool commit : {false, true}) {
    transaction tx = base.begin();
    auto e = tx.edit(rows, {1});
    ASSERT_TRUE(e);
    const std::string two = made_of(2);
    ASSERT_TRUE(e->set(n, 2));
    ASSERT_TRUE(e->set(words, two));
    ASSERT_TRUE(e->set(bytes, blob_view(two)));
    const savepoint here = tx.savepoint();
    ASSERT_TRUE(e->set(words, made_of(3)));
    ASSERT_TRUE(e->set(bytes, nullptr));
    ASSERT_TRUE(tx.insert(rows, {3, 30, two, nullptr}));
    ASSERT_TRUE(tx.erase(rows, {2}));
    ASSERT_TRUE(tx.rollback_to(here));
    EXPECT_EQ(seen(tx, 1), 2);
    EXPECT_EQ(seen(tx, 2), 2000);
    EXPECT_EQ(seen(tx, 3), -1);
    if (commit) {
      ASSERT_TRUE(tx.commit());
    }
  }
  EXPECT_EQ(seen(base.snapshot(), 1), 2);
  EXPECT_EQ(seen(base.snapshot(), 2), 2000);
  expect_nothing_left();
}

TEST_P(db_apart, refused_changes_leave_no_values) {
  table& t =
      base.create_table({.name = "named",
                         .columns = {{"k", int64, primary_key}, {"name", int64}, {"words", text()}},
                         .indexes = {{.name = "by_name", .columns = {"name"}, .unique = true}}});
  const std::string large(100'000, 'x');
  transaction tx = base.begin();
  ASSERT_TRUE(tx.insert(t, {1, 1, "one"}));
  ASSERT_TRUE(tx.insert(t, {2, 2, "two"}));
  const std::uint64_t before = base.stats().value_bytes;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(tx.update(t, {2}, {{"name", 1}, {"words", large}}), outcome::duplicate_key);
    EXPECT_EQ(tx.insert(t, {3, 1, large}), outcome::duplicate_key);
    EXPECT_EQ(tx.insert(t, {1, 3, large}), outcome::duplicate_key);
  }
  EXPECT_EQ(base.stats().value_bytes, before);
  const auto found = tx.find(t, {2});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->get(t.column<std::string_view>("words")), "two");
  EXPECT_TRUE(tx.commit());
}

TEST_P(db_apart, deleted_rows_that_come_back_have_their_own_values) {
  for (std::int64_t i = 1; i <= 100; ++i) {
    ASSERT_TRUE(put(1, i));
    EXPECT_EQ(seen(base.snapshot(), 1), i);
    if (i % 3 == 0) base.collect();
    ASSERT_TRUE(erase(1));
    if (i % 5 == 0) base.collect();
  }
  expect_nothing_left();
  EXPECT_EQ(base.stats().value_bytes, 0U);
}

TEST_P(db_apart, serializable_commits_that_are_withdrawn_leave_nothing) {
  ASSERT_TRUE(put(1, 1));
  ASSERT_TRUE(put(2, 2));
  transaction tx = base.begin({.isolation = isolation::serializable});
  EXPECT_EQ(seen(tx, 2), 2);
  const std::string s = made_of(3);
  ASSERT_TRUE(tx.update(rows, {1}, {{"n", 3}, {"words", s}, {"bytes", blob_view(s)}}));
  ASSERT_TRUE(change(2, 4));
  EXPECT_EQ(tx.commit(), outcome::conflict);
  EXPECT_EQ(seen(base.snapshot(), 1), 1);
  expect_nothing_left();
}

TEST_P(db_apart, who_may_be_ended_keeps_what_it_has) {
  ASSERT_TRUE(put(1, 1));
  const reader old = base.snapshot({.label = "old", .deadline = std::chrono::milliseconds(1)});
  const auto r = old.find(rows, {1});
  ASSERT_TRUE(r);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  for (std::int64_t i = 2; i < 200; ++i) ASSERT_TRUE(change(1, i));
  base.collect();
  EXPECT_TRUE(old.ended());
  EXPECT_EQ(number_of(*r), 1);
  expect_nothing_left();
}

TEST_P(db_apart, memory_that_is_missing_changes_nothing) {
  ASSERT_TRUE(put(1, 1));
  ASSERT_TRUE(put(2, 2));
  std::int64_t round = 0;
  const std::uint64_t failures = for_each_allocation_failure([&] {
    ++round;
    const std::int64_t before = seen(base.snapshot(), 1);
    const bool there = seen(base.snapshot(), 2) > 0;
    const std::string s = made_of(round + 10);
    const std::string t = made_of(round + 5000);
    try {
      transaction tx = base.begin();
      if (!tx.insert(rows, {1000 + round, round + 5000, t, blob_view(t)})) {
        throw std::logic_error("insert");
      }
      if (tx.insert(rows, {1, 0, s, blob_view(s)})) throw std::logic_error("insert twice");
      auto e = tx.edit(rows, {1});
      if (!e || !e->set(n, round + 10) || !e->set(words, t)) throw std::logic_error("edit");
      const savepoint here = tx.savepoint();
      if (!e->set(words, s) || !e->set(bytes, blob_view(s))) throw std::logic_error("set");
      if (there && !tx.erase(rows, {2})) throw std::logic_error("erase");
      static_cast<void>(here);
      if (!tx.commit()) throw std::logic_error("commit");
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(seen(base.snapshot(), 1), before);
      EXPECT_EQ(seen(base.snapshot(), 1000 + round), -1);
      expect_nothing_left();
      throw;
    }
    EXPECT_EQ(seen(base.snapshot(), 1), round + 10);
    EXPECT_EQ(seen(base.snapshot(), 1000 + round), round + 5000);
  });
  EXPECT_GT(failures, 8U);
  expect_nothing_left();
}

TEST_P(db_apart, nothing_is_left_when_a_database_goes) {
  const std::int64_t before = live_allocations();
  {
    database other = database::open(with_storage({}));
    table& t = other.create_table(rows.spec());
    ASSERT_TRUE(other.transact([&](transaction& tx) -> status {
      for (std::int64_t i = 0; i < 20; ++i) {
        if (status s = tx.insert(t, {i, i, made_of(i), nullptr}); !s) return s;
      }
      return {};
    }));
    ASSERT_TRUE(other.transact([&](transaction& tx) { return tx.erase(t, {3}); }));
    ASSERT_TRUE(
        other.transact([&](transaction& tx) { return tx.update(t, {4}, {{"words", "short"}}); }));
    EXPECT_GT(other.stats().value_bytes_waiting, 0U);
  }
  EXPECT_EQ(live_allocations(), before);
}

TEST_P(db_apart, budgets_count_values) {
  options o = with_storage({});
  o.budget = 5U << 20U;  // of which that for versions is set aside
  o.version_budget = 2U << 20U;
  database small = database::open(o);
  table& t = small.create_table(rows.spec());
  const std::string big(1U << 20U, 'x');
  ASSERT_TRUE(small.transact([&](transaction& tx) { return tx.insert(t, {1, 1, big, nullptr}); }));
  EXPECT_EQ(small.transact([&](transaction& tx) -> status {
    const std::string huge(3U << 20U, 'y');
    EXPECT_EQ(tx.insert(t, {2, 2, huge, nullptr}), outcome::limit);
    EXPECT_EQ(tx.update(t, {1}, {{"bytes", blob_view(huge)}}), outcome::limit);
    return tx.insert(t, {3, 3, "and goes on", nullptr});
  }),
            outcome::ok);
  // Replaced, each makes room for the next.
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(
        small.transact([&](transaction& tx) { return tx.update(t, {1}, {{"words", big}}); }));
    small.collect();
  }
  o.budget = 0;
  database free = database::open(o);
  table& u = free.create_table(rows.spec());
  ASSERT_TRUE(free.transact([&](transaction& tx) { return tx.insert(u, {1, 1, big, nullptr}); }));
  {
    std::vector<std::unique_ptr<reader>> all;
    status s;
    for (int i = 0; s && i < 5; ++i) {
      all.emplace_back(new reader(free.snapshot()));
      s = free.transact([&](transaction& tx) { return tx.update(u, {1}, {{"words", big}}); });
    }
    EXPECT_EQ(s, outcome::limit) << "versions may have two megabytes";
    EXPECT_EQ(all.size(), 2U);
    EXPECT_TRUE(free.transact([&](transaction& tx) { return tx.update(u, {1}, {{"n", 2}}); }));
  }
  EXPECT_TRUE(free.transact([&](transaction& tx) { return tx.update(u, {1}, {{"words", big}}); }));
}

/// Writers change and delete rows; readers, of which some stay, find whole values only.
TEST_P(db_apart, readers_never_meet_a_value_that_is_gone) {
  constexpr std::int64_t keys = 6;
  for (std::int64_t k = 0; k < keys; ++k) ASSERT_TRUE(put(k, k));
  std::atomic<bool> done{false};
  std::atomic<std::int64_t> looks{0};
  std::atomic<std::int64_t> wrong{0};
  std::atomic<std::int64_t> next{100};
  const auto write = [&](std::uint64_t seed) {
    for (std::uint64_t x = seed; !done; x = x * 6364136223846793005U + 1442695040888963407U) {
      const auto key = static_cast<std::int64_t>((x >> 33U) % keys);
      const std::int64_t number = next.fetch_add(1);
      const auto what = (x >> 40U) % 8;
      const status s = what == 0   ? erase(key)
                       : what == 1 ? base.transact([&](transaction& tx) {
                           return tx.update(rows, {key}, {{"words", nullptr}, {"bytes", nullptr}});
                         })
                                   : change(key, number);
      if (s == outcome::not_found) static_cast<void>(put(key, number));
    }
  };
  const auto read = [&](bool gated) {
    std::unique_ptr<reader> held;
    std::vector<std::int64_t> first(keys);
    for (int i = 0; !done; ++i) {
      const bool begin = i % 16 == 0;
      if (begin) {
        held.reset(new reader(base.snapshot({.deadline = std::chrono::seconds(gated ? 100 : 0)})));
      }
      held->for_each(rows, [&](const row& r) {
        if (!r.null(words) && number_of(r) < 0) ++wrong;
      });
      for (std::int64_t k = 0; k < keys; ++k) {
        const auto r = held->find(rows, {k});
        const std::int64_t got = !r ? -1 : r->null(words) ? -3 : number_of(*r);
        if (got == -2) ++wrong;
        if (begin) first[static_cast<std::size_t>(k)] = got;
        if (first[static_cast<std::size_t>(k)] != got) ++wrong;
      }
      ++looks;
    }
  };
  {
    std::vector<std::jthread> all;
    for (const std::uint64_t seed : {1U, 2U}) all.emplace_back(write, seed);
    for (const bool gated : {false, true}) all.emplace_back(read, gated);
    do {
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
    } while (looks == 0);
    done = true;
  }
  EXPECT_EQ(wrong, 0);
  expect_nothing_left();
}

}  // namespace
