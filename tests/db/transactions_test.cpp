// SPDX-License-Identifier: Apache-2.0
// What one program sees of tables and transactions, on one thread: several transactions may be open
// at once.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "db/storages.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using spolia::test::over_storages;

class transactions : public over_storages {};
SPOLIA_OVER_STORAGES_AND_TABLES(transactions);

TEST_P(transactions, insert_find_update_erase) {
  EXPECT_TRUE(put(1, 5));
  EXPECT_EQ(a_now(1), 5);
  EXPECT_TRUE(set_a(1, 6));
  EXPECT_EQ(a_now(1), 6);
  EXPECT_EQ(a_now(2), -1);
  EXPECT_EQ(set_a(2, 6), outcome::not_found);
  EXPECT_EQ(put(1, 7), outcome::duplicate_key);
  EXPECT_TRUE(base.transact([&](transaction& tx) { return tx.erase(items, {1}); }));
  EXPECT_EQ(a_now(1), -1);
  EXPECT_TRUE(put(1, 8)) << "a deleted key can come back";
  EXPECT_EQ(a_now(1), 8);
}

TEST_P(transactions, nulls_and_text) {
  EXPECT_TRUE(base.transact([&](transaction& tx) { return tx.insert(items, {1, 2, 3, nullptr}); }));
  {
    const reader now = base.snapshot();
    EXPECT_TRUE(now.find(items, {1})->null(note));
  }
  EXPECT_TRUE(base.transact([&](transaction& tx) {
    return tx.update(items, {1}, {{"note", std::string("twenty bytes exactly")}});
  }));
  const reader now = base.snapshot();
  EXPECT_EQ(now.find(items, {1})->get(note), "twenty bytes exactly");
  EXPECT_FALSE(now.find(items, {1})->null(note));
}

TEST_P(transactions, mistakes_are_exceptions) {
  transaction tx = base.begin();
  EXPECT_THROW(static_cast<void>(tx.insert(items, {1, 2})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(tx.insert(items, {1, "x", 3, "y"})), std::invalid_argument);
  EXPECT_EQ(tx.insert(items, {1, 2, 3, "more than twenty bytes of text"}), outcome::too_long);
  EXPECT_THROW(static_cast<void>(tx.insert(items, {1, nullptr, 3, "y"})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(tx.find(items, {1, 2})), std::invalid_argument);
  constexpr std::uint64_t too_large = std::uint64_t{1} << 63U;
  EXPECT_THROW(static_cast<void>(tx.insert(items, {1, too_large, 3, "y"})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(items.column<double>("a")), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(items.column<double>("z")), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(items.index("z")), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(base.find_table("z")), std::invalid_argument);
  EXPECT_THROW(base.create_table({.name = "items", .columns = {{"k", int64, primary_key}}}),
               std::invalid_argument);
  EXPECT_THROW(base.create_table({.name = "no key", .columns = {{"k", int64}}}),
               std::invalid_argument);
  EXPECT_TRUE(tx.insert(items, {1, 2, 3, "y"})) << "a mistake leaves the transaction as it was";
  EXPECT_THROW(static_cast<void>(tx.update(items, {1}, {{"id", 2}})), std::invalid_argument);
  {
    auto row = tx.edit(items, {1});
    EXPECT_THROW(static_cast<void>(row->set(a, too_large)), std::invalid_argument);
    EXPECT_TRUE(row->set(a, too_large - 1));
    EXPECT_EQ(row->get(a), std::numeric_limits<std::int64_t>::max());
  }
  EXPECT_TRUE(tx.commit());
}

TEST_P(transactions, use_no_table_of_another_database) {
  database other = database::open();
  const table_spec spec{.name = "theirs",
                        .columns = {{"k", int64, primary_key}, {"v", int64}},
                        .primary = index_kind::ordered,
                        .indexes = {{.name = "by_v", .columns = {"v"}}}};
  table& theirs = other.create_table(spec);
  const auto refused = [](auto&& f) {
    EXPECT_THROW(static_cast<void>(f()), std::invalid_argument);
  };
  transaction tx = base.begin();
  refused([&] { return tx.insert(theirs, {1, 2}); });
  refused([&] { return tx.update(theirs, {1}, {{"v", 3}}); });
  refused([&] { return tx.edit(theirs, {1}); });
  refused([&] { return tx.lock(theirs, {1}); });
  refused([&] { return tx.erase(theirs, {1}); });
  const auto none = [](const row&) {};
  refused([&] { return tx.find(theirs, {1}); });
  refused([&] { return tx.for_each(theirs, none), 0; });
  refused([&] { return tx.scan(theirs, {}, {}, none), 0; });
  refused([&] { return tx.scan(theirs.index("by_v"), {}, {}, none), 0; });
  refused([&] { return tx.query(theirs); });
  EXPECT_TRUE(tx.insert(items, {1, 2, 3, "y"})) << "the transaction goes on";
  EXPECT_TRUE(tx.commit());
  refused([&] { return base.create_index(theirs, {.name = "more", .columns = {"v"}}); });
  refused([&] { return base.drop_index(theirs, "by_v"); });
  refused([&] { return base.drop_table(theirs); });
}

TEST_P(transactions, see_their_own_changes_and_others_do_not) {
  ASSERT_TRUE(put(1, 5));
  transaction tx = base.begin();
  ASSERT_TRUE(tx.update(items, {1}, {{"a", 6}}));
  ASSERT_TRUE(tx.insert(items, {2, 7, 20, nullptr}));
  EXPECT_EQ(a_of(tx, 1), 6);
  EXPECT_EQ(a_of(tx, 2), 7);
  EXPECT_EQ(a_now(1), 5);
  EXPECT_EQ(a_now(2), -1);
  ASSERT_TRUE(tx.erase(items, {2}));
  EXPECT_EQ(a_of(tx, 2), -1);
  ASSERT_TRUE(tx.insert(items, {2, 8, 20, nullptr}));
  EXPECT_EQ(a_of(tx, 2), 8);
  EXPECT_TRUE(tx.commit());
  EXPECT_EQ(a_now(1), 6);
  EXPECT_EQ(a_now(2), 8);
}

TEST_P(transactions, rollback_leaves_nothing) {
  ASSERT_TRUE(put(1, 5));
  {
    transaction tx = base.begin();
    ASSERT_TRUE(tx.update(items, {1}, {{"a", 6}}));
    ASSERT_TRUE(tx.insert(items, {2, 7, 20, nullptr}));
  }
  EXPECT_EQ(a_now(1), 5);
  EXPECT_EQ(a_now(2), -1);
  EXPECT_EQ(base.stats().versions.versions_made, 0U) << "versions are made by commits";
  EXPECT_TRUE(set_a(1, 7)) << "the lock is gone";
  EXPECT_TRUE(put(2, 9));
}

TEST_P(transactions, the_first_committer_wins) {
  ASSERT_TRUE(put(1, 5));
  transaction late = base.begin();
  EXPECT_EQ(a_of(late, 1), 5);
  ASSERT_TRUE(set_a(1, 6));
  EXPECT_EQ(late.update(items, {1}, {{"a", 7}}), outcome::conflict);
  EXPECT_EQ(late.commit(), outcome::conflict);
  EXPECT_EQ(a_now(1), 6);
  EXPECT_EQ(base.stats().conflicts, 1U);
}

TEST_P(transactions, the_first_to_lock_wins) {
  ASSERT_TRUE(put(1, 5));
  transaction one = base.begin();
  transaction two = base.begin();
  ASSERT_TRUE(one.update(items, {1}, {{"a", 6}}));
  EXPECT_EQ(two.update(items, {1}, {{"a", 7}}), outcome::conflict);
  ASSERT_TRUE(one.insert(items, {9, 1, 90, nullptr}));
  transaction three = base.begin();
  EXPECT_EQ(three.insert(items, {9, 2, 91, nullptr}), outcome::conflict);
  EXPECT_TRUE(one.commit());
  EXPECT_EQ(a_now(1), 6);
}

TEST_P(transactions, a_snapshot_stays) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(put(i, i));
  const reader then = base.snapshot("then");
  for (int round = 1; round <= 100; ++round) {
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(set_a(i, 1000 * round));
  }
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.erase(items, {3}); }));
  ASSERT_TRUE(put(77, 1));
  base.collect();
  std::int64_t rows = 0;
  then.for_each(items, [&](const row& r) {
    EXPECT_EQ(r.get(a), r.get(id));
    ++rows;
  });
  EXPECT_EQ(rows, 10);
  const auto readers = base.readers();
  ASSERT_EQ(readers.size(), 1U);
  EXPECT_EQ(readers[0].label, "then");
  EXPECT_GE(readers[0].behind, 1000U);
}

TEST_P(transactions, versions_go_when_no_snapshot_needs_them) {
  if (GetParam() == version_storage::none) return;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(put(i, i));
  std::uint64_t most = 0;
  for (int round = 0; round < 2000; ++round) {
    // Another column now and then.
    ASSERT_TRUE(round / 10 % 3 == 0 ? base.transact([&](transaction& tx) {
      return tx.update(items, {round % 10}, {{"note", std::to_string(round)}});
    })
                                    : set_a(round % 10, round));
    const auto v = base.stats().versions;
    most = std::max(most, v.versions_made - v.versions_dropped);
  }
  EXPECT_LE(most, GetParam() == version_storage::range ? 1900U : 200U);
  base.collect();
  const auto v = base.stats().versions;
  EXPECT_EQ(v.versions_made, 2000U);
  EXPECT_EQ(v.versions_dropped, 2000U);
}

TEST_P(transactions, slots_and_entries_of_deleted_rows_are_used_again) {
  for (int round = 0; round < 300; ++round) {
    const std::int64_t k = round;
    ASSERT_TRUE(put(k, k % 3));
    ASSERT_TRUE(set_a(k, 100 + k));
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.erase(items, {k}); }));
  }
  EXPECT_LE(items.row_slots(), 100U);
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
  const reader now = base.snapshot();
  now.scan(items.index("by_a"), {}, {}, [&](const row&) { FAIL(); });
}

/// A row that was deleted twice has two clean-up records. While another transaction has the row
/// locked, they change places.
TEST_P(transactions, deletions_that_change_places_are_both_cleaned_up) {
  table& keys = base.create_table({.name = "keys", .columns = {{"k", int64, primary_key}}});
  const auto insert = [&](std::int64_t k) {
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(keys, {k}); }));
  };
  const auto erase = [&](std::int64_t k) {
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.erase(keys, {k}); }));
  };
  auto needs_them = std::unique_ptr<reader>(new reader(base.snapshot()));
  insert(0);
  insert(1);
  erase(0);
  erase(1);
  insert(1);
  erase(1);
  transaction locks = base.begin();
  ASSERT_TRUE(locks.insert(keys, {1}));
  needs_them.reset();
  // A commit works off two clean-up records, and learns now and then which ones no snapshot needs.
  for (std::int64_t k = 2; base.stats().cleaning == 3; ++k) insert(k);
  EXPECT_EQ(base.stats().cleaning, 2U) << "the second waits before the first";
  locks.rollback();
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
}

TEST_P(transactions, scans_are_in_order_and_merge_own_changes) {
  for (int i = 9; i >= 0; --i) ASSERT_TRUE(put(i, i % 3));
  transaction tx = base.begin();
  ASSERT_TRUE(tx.erase(items, {4}));
  ASSERT_TRUE(tx.insert(items, {100, 1, 5000, nullptr}));
  ASSERT_TRUE(tx.update(items, {5}, {{"a", 1}}));
  ASSERT_TRUE(put(50, 1));  // after the snapshot
  std::vector<std::int64_t> keys;
  const auto note_key = [&](const row& r) { keys.push_back(r.get(id)); };
  tx.scan(items, {2}, {7}, note_key);
  EXPECT_EQ(keys, (std::vector<std::int64_t>{2, 3, 5, 6, 7}));
  keys.clear();
  tx.scan(items, {8}, {}, note_key);
  EXPECT_EQ(keys, (std::vector<std::int64_t>{8, 9, 100}));
  keys.clear();
  tx.scan(items.index("by_a"), {1}, {1}, note_key);
  EXPECT_EQ(keys, (std::vector<std::int64_t>{7, 5, 1, 100})) << "by slot";
  keys.clear();
  tx.scan(items, {}, {}, [&](const row& r) {
    keys.push_back(r.get(id));
    return keys.size() < 3;
  });
  EXPECT_EQ(keys, (std::vector<std::int64_t>{0, 1, 2}));
}

TEST_P(transactions, scans_go_down_as_they_go_up) {
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(put(i * 7 % 200, i % 5));
  transaction tx = base.begin();
  ASSERT_TRUE(tx.erase(items, {50}));
  ASSERT_TRUE(tx.insert(items, {1000, 3, 1, nullptr}));
  std::vector<std::int64_t> up;
  std::vector<std::int64_t> down;
  const auto both = [&](const auto& of, std::initializer_list<value> from,
                        std::initializer_list<value> to) {
    up.clear();
    down.clear();
    tx.scan(of, from, to, [&](const row& r) { up.push_back(r.get(id)); });
    tx.scan_down(of, from, to, [&](const row& r) { down.push_back(r.get(id)); });
    std::reverse(up.begin(), up.end());
    return up == down ? down.size() : 0;
  };
  EXPECT_EQ(both(items, {}, {}), 200U);
  EXPECT_EQ(both(items, {49}, {51}), 2U);
  EXPECT_EQ(both(items, {190}, {}), 11U);
  EXPECT_EQ(both(items, {}, {13}), 14U);
  EXPECT_EQ(both(items.index("by_a"), {}, {}), 200U);
  EXPECT_EQ(both(items.index("by_a"), {3}, {3}), 41U);
  tx.scan_down(items, {13}, {12}, [](const row&) { FAIL() << "an empty range"; });
  down.clear();
  tx.scan_down(items, {}, {1000}, [&](const row& r) {
    down.push_back(r.get(id));
    return down.size() < 3;
  });
  EXPECT_EQ(down, (std::vector<std::int64_t>{1000, 199, 198}));
}

TEST_P(transactions, an_index_finds_what_each_snapshot_sees) {
  ASSERT_TRUE(put(1, 5));
  const reader five = base.snapshot();
  ASSERT_TRUE(set_a(1, 6));
  const reader six = base.snapshot();
  ASSERT_TRUE(set_a(1, 5));
  const reader again = base.snapshot();
  ASSERT_TRUE(set_a(1, 7));
  const auto count = [&](const reader& at, std::int64_t x) {
    int n = 0;
    at.scan(items.index("by_a"), {x}, {x}, [&](const row&) { ++n; });
    return n;
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(count(five, 5) * 10 + count(five, 6), 10);
    EXPECT_EQ(count(six, 5) * 10 + count(six, 6), 1);
    EXPECT_EQ(count(again, 5) * 10 + count(again, 6), 10);
    EXPECT_EQ(count(again, 7), 0);
    base.collect();
  }
  EXPECT_EQ(base.stats().cleaning, 2U) << "the snapshots need the old entries, of 5 and of 6";
}

TEST_P(transactions, unique_indexes_refuse_a_second_row) {
  ASSERT_TRUE(put(1, 5));
  transaction tx = base.begin();
  EXPECT_EQ(tx.insert(items, {2, 5, 10, nullptr}), outcome::duplicate_key);
  EXPECT_EQ(a_of(tx, 2), -1);
  EXPECT_TRUE(tx.insert(items, {2, 5, 11, nullptr}));
  EXPECT_EQ(tx.update(items, {2}, {{"b", 10}}), outcome::duplicate_key);
  EXPECT_EQ(tx.find(items, {2})->get(b), 11);
  EXPECT_TRUE(tx.update(items, {1}, {{"b", 12}}));
  EXPECT_TRUE(tx.update(items, {2}, {{"b", 10}})) << "given up by the same transaction";
  EXPECT_TRUE(tx.commit());
  EXPECT_EQ(base.transact([&](transaction& t) { return t.insert(items, {3, 0, 12, nullptr}); }),
            outcome::duplicate_key);
}

TEST_P(transactions, a_lock_keeps_what_was_read) {
  ASSERT_TRUE(put(1, 5));
  ASSERT_TRUE(put(2, 5));
  transaction tx = base.begin();
  EXPECT_EQ(tx.lock(items, {1})->get(a), 5);
  transaction other = base.begin();
  EXPECT_EQ(other.update(items, {1}, {{"a", 0}}), outcome::conflict);
  ASSERT_TRUE(tx.update(items, {2}, {{"a", 6}}));
  EXPECT_TRUE(tx.commit());
  EXPECT_TRUE(set_a(1, 6)) << "the lock is gone";
  EXPECT_EQ(tx.commit(), outcome::ended);
  EXPECT_EQ(tx.find(items, {1}).code(), outcome::ended);
}

TEST_P(transactions, transact_tries_again) {
  ASSERT_TRUE(put(1, 5));
  int tries = 0;
  EXPECT_TRUE(base.transact([&](transaction& tx) {
    const std::int64_t seen = a_of(tx, 1);
    if (++tries < 3) {
      EXPECT_TRUE(set_a(1, seen + 1));
    }
    return tx.update(items, {1}, {{"a", seen * 10}});
  }));
  EXPECT_EQ(tries, 3);
  EXPECT_EQ(a_now(1), 70);
  tries = 0;
  EXPECT_EQ(base.transact(
                [&](transaction& tx) {
                  ++tries;
                  EXPECT_TRUE(set_a(1, tries));
                  static_cast<void>(tx.update(items, {1}, {{"a", 0}}));  // its result overlooked
                },
                {.tries = 4}),
            outcome::conflict);
  EXPECT_EQ(tries, 4);
}

/// Snapshots of many ages, of which some end: each finds its versions, over whatever was dropped.
TEST_P(transactions, snapshots_of_many_ages) {
  constexpr std::int64_t rows = 5;
  struct held {
    std::unique_ptr<reader> at;
    std::array<std::int64_t, rows> values;
  };
  std::array<std::int64_t, rows> now{};
  for (std::int64_t i = 0; i < rows; ++i) ASSERT_TRUE(put(i, 0));
  std::vector<held> all;
  spolia::test::rng random(7);
  for (std::int64_t i = 1; i < 3000; ++i) {
    const auto key = static_cast<std::int64_t>(random.below(rows));
    ASSERT_TRUE(set_a(key, i));
    now[static_cast<std::size_t>(key)] = i;
    if (random.chance(1, 30)) {
      all.push_back({std::unique_ptr<reader>(new reader(base.snapshot())), now});
    }
    if (all.size() > 10) all.erase(all.begin() + static_cast<std::ptrdiff_t>(random.below(11)));
    if (!random.chance(1, 10)) continue;
    for (const held& h : all) {
      for (std::int64_t k = 0; k < rows; ++k) {
        ASSERT_EQ(a_of(*h.at, k), h.values[static_cast<std::size_t>(k)]);
      }
    }
  }
}

/// One snapshot held for the whole run: what is between it and now goes, where the storage can.
TEST_P(transactions, a_held_snapshot_costs_what_it_sees) {
  if (!collects_between()) return;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(put(i, i));
  const reader then = base.snapshot();
  std::uint64_t most = 0;
  for (int round = 0; round < 3000; ++round) {
    // Another column now and then.
    ASSERT_TRUE(round / 10 % 3 == 0 ? base.transact([&](transaction& tx) {
      return tx.update(items, {round % 10}, {{"note", std::to_string(round)}});
    })
                                    : set_a(round % 10, round));
    const auto v = base.stats().versions;
    most = std::max(most, v.versions_made - v.versions_dropped);
  }
  EXPECT_LE(most, GetParam() == version_storage::range ? 2000U : 100U);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(a_of(then, i), i);
    EXPECT_EQ(then.find(items, {i})->get(note), "new");
  }
}

TEST_P(transactions, versions_have_a_budget) {
  database small = database::open({.versions = GetParam(), .version_budget = 300000});
  table& t = small.create_table(
      {.name = "t", .columns = {{"k", int64, primary_key}, {"v", int64}, {"pad", text(900)}}});
  ASSERT_TRUE(small.transact([&](transaction& tx) { return tx.insert(t, {1, 0, ""}); }));
  const auto bump = [&] {
    return small.transact([&](transaction& tx) { return tx.update(t, {1}, {{"v", 1}}); });
  };
  status s;
  {
    const reader then = small.snapshot();
    // The one snapshot sees one version; consolidation needs some time to find that out.
    const bool bounded = collects_between() && GetParam() != version_storage::one_shot_consolidated;
    for (int i = 0; i < 2000 && s; ++i) s = bump();
    EXPECT_EQ(s, bounded ? outcome::ok : outcome::limit);
    EXPECT_LE(small.stats().versions.bytes, 300000U);
    EXPECT_TRUE(then.find(t, {1}));
    EXPECT_TRUE(small.transact([&](transaction& tx) { return tx.insert(t, {2, 0, ""}); }));
    EXPECT_EQ(small.stats().limits == 0, bounded);
  }
  if (GetParam() != version_storage::none) {
    small.collect();
    EXPECT_TRUE(bump()) << "the reader is gone";
  }
}

/// Where no snapshot needs the versions, the budget refuses no commit, however late a storage
/// collects.
TEST_P(transactions, a_budget_is_no_limit_without_snapshots) {
  if (GetParam() == version_storage::none) return;
  database small = database::open({.versions = GetParam(), .version_budget = 600000});
  table& t =
      small.create_table({.name = "t", .columns = {{"k", int64, primary_key}, {"pad", text(900)}}});
  const std::string pad(900, 'x');
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(small.transact([&](transaction& tx) { return tx.insert(t, {i, pad}); }));
  }
  for (int round = 0; round < 60; ++round) {
    ASSERT_TRUE(small.transact([&](transaction& tx) -> status {
      for (int i = 0; i < 20; ++i) {
        if (const status s = tx.update(t, {i}, {{"pad", pad}}); !s) return s;
      }
      return outcome::ok;
    })) << round;
  }
}

TEST_P(transactions, many_at_once_on_one_thread) {
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(put(i, 0));
  {
    std::vector<std::unique_ptr<transaction>> open;
    for (int i = 0; i < 40; ++i) {
      open.emplace_back(new transaction(base.begin()));
      ASSERT_TRUE(open.back()->update(items, {i}, {{"a", i}}));
    }
    for (auto& tx : open) EXPECT_TRUE(tx->commit());
  }
  for (int i = 0; i < 40; ++i) EXPECT_EQ(a_now(i), i);
}

/// What a scan calls may end its transaction, be it by a conflict: the scan ends then.
TEST_P(transactions, one_that_ends_inside_of_a_scan) {
  for (int k = 0; k < 5; ++k) ASSERT_TRUE(put(k, k));
  const auto scans = [&](transaction& tx, int way, const auto& f) {
    if (way == 0) tx.for_each(items, f);
    if (way == 1) tx.scan(items, {}, {}, f);
    if (way == 2) tx.scan_down(items, {}, {}, f);
    if (way == 3) tx.scan(items.index("by_a"), {}, {}, f);
    if (way == 4) tx.scan_down(items.index("by_a"), {}, {}, f);
  };
  for (const isolation how : {isolation::snapshot, isolation::serializable}) {
    for (int way = 0; way < 5; ++way) {
      for (const bool more : {true, false}) {
        transaction first = base.begin();
        ASSERT_TRUE(first.update(items, {2}, {{"a", 2}}));
        transaction tx = base.begin({.isolation = how});
        int shown = 0;
        scans(tx, way, [&](const row&) {
          ++shown;
          EXPECT_EQ(tx.update(items, {2}, {{"a", 2}}), outcome::conflict);
          return more;
        });
        EXPECT_EQ(shown, 1) << way;
        EXPECT_EQ(tx.state(), outcome::conflict);
        transaction done = base.begin({.isolation = how});
        shown = 0;
        scans(done, way, [&](const row&) {
          ++shown;
          EXPECT_TRUE(done.commit());
          return more;
        });
        EXPECT_EQ(shown, 1) << way;
      }
    }
  }
}

TEST(schema, keys_sort_as_their_values) {
  database base = database::open();
  table& t = base.create_table({.name = "t",
                                .columns = {{"d", float64, primary_key},
                                            {"s", text(9), primary_key},
                                            {"f", boolean, primary_key}},
                                .primary = index_kind::ordered});
  const std::vector<double> numbers = {-1e300, -1.5, -1e-9, 0, 1e-9, 2, 1e300};
  const std::vector<std::string> texts = {"", "a", std::string("a\0", 2), "ab", "b", "\xff"};
  ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
    for (auto s = texts.rbegin(); s != texts.rend(); ++s) {
      for (const double d : numbers) {
        for (const bool f : {true, false}) {
          if (const status done = tx.insert(t, {d, *s, f}); !done) return done;
        }
      }
    }
    return tx.insert(t, {-0.0, "", false}) == outcome::duplicate_key ? outcome::ok
                                                                     : outcome::conflict;
  }));
  std::vector<std::string> seen;
  const auto d = t.column<double>("d");
  const auto s = t.column<std::string_view>("s");
  const auto f = t.column<bool>("f");
  std::size_t n = 0;
  base.snapshot().scan(t, {}, {}, [&](const row& r) {
    EXPECT_EQ(r.get(d), numbers[n / 2 / texts.size()]);
    EXPECT_EQ(r.get(s), texts[n / 2 % texts.size()]);
    EXPECT_EQ(r.get(f), n % 2 == 1);
    ++n;
  });
  EXPECT_EQ(n, numbers.size() * texts.size() * 2);
  n = 0;
  base.snapshot().scan(t, {2.0, "a"}, {2.0, "ab"}, [&](const row&) { ++n; });
  EXPECT_EQ(n, 6U);
}

/// What is set through a column of another table would be written anywhere.
TEST(schema, no_two_tables_that_differ_are_taken_for_one) {
  std::set<std::uint32_t> tags;
  table_spec spec{.name = "t", .columns = {{"id", int64, primary_key}, {"x", text(6)}}};
  constexpr std::size_t many = spolia::test::tries(200'000);
  spolia::test::rng random(1);  // numbers that differ
  for (std::size_t i = 0; i < many; ++i) {
    spec.columns[1].name = std::to_string(random());
    tags.insert(db::schema(spec).tag());
  }
  EXPECT_EQ(tags.size(), many);
  EXPECT_TRUE(tags.contains(db::schema(spec).tag()));
  const std::uint32_t last = db::schema(spec).tag();
  spec.name = "u";
  EXPECT_EQ(db::schema(spec).tag(), last) << "a name changes, and columns stay";
  std::swap(spec.columns[0].name, spec.columns[1].name);
  EXPECT_FALSE(tags.contains(db::schema(spec).tag()));
}

TEST(schema, the_largest_integer_is_a_key) {
  database base = database::open();
  table& t = base.create_table(
      {.name = "t", .columns = {{"k", int64, primary_key}}, .primary = index_kind::ordered});
  constexpr auto largest = std::numeric_limits<std::int64_t>::max();
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {largest}); }));
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {least}); }));
  int n = 0;
  base.snapshot().scan(t, {}, {}, [&](const row&) { ++n; });
  EXPECT_EQ(n, 2);
  base.snapshot().scan(t, {0}, {largest}, [&](const row&) { ++n; });
  EXPECT_EQ(n, 3);
}

}  // namespace
