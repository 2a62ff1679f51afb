// SPDX-License-Identifier: Apache-2.0
// Secondary hash indexes: alone, under transactions, and after a reopening.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <spolia/db/commit.hpp>

#include "db/durable.hpp"
#include "db/hash_kinds.hpp"
#include "db/storages.hpp"
#include "support/cost.hpp"
#include "support/faults.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

std::vector<std::uint64_t> slots_of(const secondary_index& i, const key_words& key) {
  std::vector<std::uint64_t> found;
  const auto note = [&](std::uint64_t slot, const std::uint64_t* words) {
    EXPECT_EQ(words[0], key[0]);
    found.push_back(slot);
    return true;
  };
  i.scan(key, key, not_yet, slot_visitor(note));
  std::sort(found.begin(), found.end());
  return found;
}

template <class Kind>
class hash_secondary_of : public testing::Test {};
TYPED_TEST_SUITE(hash_secondary_of, hash_tables, hash_table_name);

/// Keys of one word, of three that fit into one and of three that do not, with few and many rows.
TYPED_TEST(hash_secondary_of, does_what_a_map_of_sets_does) {
  for (const std::uint32_t words : {1U, 3U}) {
    region_domain nodes;
    domain<> graves;
    typename TypeParam::secondary index(nodes, graves, words);
    std::map<key_words, std::map<std::uint64_t, std::uint64_t>> expected;
    std::mt19937_64 random(words);
    std::uint64_t claim = 0;
    for (int n = 0; n < 20000; ++n) {
      key_words key{};
      const std::uint64_t which = random() % 4 == 0 ? 0 : random() % 300;
      key[0] = which % 2 == 0 ? std::uint64_t{1} << 63U | which : which;
      if (words > 1) key[2] = which * 7;
      auto& rows = expected[key];
      const std::uint64_t slot = random() % (which == 0 ? 5000 : 8);
      const auto there = rows.find(slot);
      ASSERT_EQ(index.entry_of(key, slot).claim, there == rows.end() ? 0 : there->second);
      const bool shrinking = n / 10000 % 2 == 1;
      if (random() % 4 < (shrinking ? 3 : 1)) {
        ASSERT_TRUE(index.remove(key, slot, claim + 1)) << "another's claim";
        if (there == rows.end()) continue;
        ASSERT_TRUE(index.remove(key, slot, there->second));
        rows.erase(there);
      } else {
        index.add(key, slot, {++claim, 0});
        rows[slot] = claim;
      }
    }
    for (const auto& [key, rows] : expected) {
      std::vector<std::uint64_t> slots;
      for (const auto& [slot, ignored] : rows) slots.push_back(slot);
      ASSERT_EQ(slots_of(index, key), slots);
    }
  }
}

/// Of a pair that is there, the claim stays: a transaction may rely on it.
void look_at_pairs_added_once(secondary_index& index) {
  const key_words key{7};
  EXPECT_EQ(index.add_once(key, 1, {10, 0}), 10U);
  EXPECT_EQ(index.add_once(key, 1, {11, 0}), 10U);
  EXPECT_EQ(index.entry_of(key, 1).claim, 10U);
  index.add(key, 1, {12, 0});
  EXPECT_EQ(index.add_once(key, 1, {13, 0}), 12U);
  EXPECT_EQ(index.add_once(key, 2, {14, 0}), 14U);
  EXPECT_EQ(slots_of(index, key), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_TRUE(index.remove(key, 1, 12));
  EXPECT_EQ(index.add_once(key, 1, {15, 0}), 15U);
}
TYPED_TEST(hash_secondary_of, keeps_the_claims_of_pairs_that_are_there) {
  region_domain nodes;
  domain<> graves;
  typename TypeParam::secondary index(nodes, graves, 1);
  look_at_pairs_added_once(index);
}
TEST(ordered_secondary, keeps_the_claims_of_pairs_that_are_there) {
  domain<> nodes;
  const auto index = make_ordered_secondary(1, nodes);
  look_at_pairs_added_once(*index);
}

/// What is buried is shown to snapshots in its life, and to no others: old ones do not walk over
/// what lived after them.
void look_at_buried_pairs(secondary_index& index) {
  const key_words key{7};
  const auto shown_at = [&](std::uint64_t time) {
    std::vector<std::uint64_t> found;
    const auto note = [&](std::uint64_t slot, const std::uint64_t*) {
      found.push_back(slot);
      return true;
    };
    index.scan(key, key, time, slot_visitor(note));
    std::sort(found.begin(), found.end());
    return found;
  };
  using slots_found = std::vector<std::uint64_t>;
  for (std::uint64_t slot = 1; slot <= 3; ++slot) {
    const std::uint64_t since = 10 * slot;
    index.add(key, slot, {slot, since});
    EXPECT_EQ(index.bury(key, slot, slot + 9, since, since + 15), burial::not_there);
    EXPECT_EQ(index.bury(key, slot, slot, since, since + 15), burial::done);
  }
  EXPECT_EQ(shown_at(9), slots_found{});
  EXPECT_EQ(shown_at(10), slots_found{1});
  EXPECT_EQ(shown_at(19), slots_found{1});
  EXPECT_EQ(shown_at(24), (slots_found{1, 2}));
  EXPECT_EQ(shown_at(25), slots_found{2});
  EXPECT_EQ(shown_at(44), slots_found{3});
  EXPECT_EQ(shown_at(45), slots_found{});
  EXPECT_TRUE(index.unbury(key, 2, 2, 35));
  EXPECT_EQ(shown_at(25), slots_found{});
  EXPECT_EQ(shown_at(30), slots_found{3});
}
TYPED_TEST(hash_secondary_of, shows_what_is_buried_to_those_of_then) {
  region_domain nodes;
  domain<> graves;
  typename TypeParam::secondary index(nodes, graves, 1);
  look_at_buried_pairs(index);
}
TEST(ordered_secondary, shows_what_is_buried_to_those_of_then) {
  domain<> nodes;
  const auto index = make_ordered_secondary(1, nodes);
  look_at_buried_pairs(*index);
}

TYPED_TEST(hash_secondary_of, stops_where_it_is_told_to) {
  region_domain nodes;
  domain<> graves;
  typename TypeParam::secondary index(nodes, graves, 1);
  for (std::uint64_t slot = 0; slot < 10000; ++slot) index.add({7}, slot, {slot + 1, 0});
  std::uint64_t seen = 0;
  const auto some = [&](std::uint64_t, const std::uint64_t*) { return ++seen < 300; };
  index.scan({7}, {7}, not_yet, slot_visitor(some));
  EXPECT_EQ(seen, 300U);
  for (std::uint64_t slot = 1; slot < 10000; ++slot) index.remove({7}, slot, slot + 1);
  EXPECT_EQ(slots_of(index, {7}), (std::vector<std::uint64_t>{0}));
  EXPECT_TRUE(slots_of(index, {8}).empty());
}

constexpr std::uint64_t many_rows = 20000;

/// A queue: at each time the first row of a key is taken out. What was taken before is in no way.
TYPED_TEST(hash_secondary_of, the_first_row_is_found_as_soon_whatever_was_taken_before_it) {
  region_domain nodes;
  domain<> graves;
  typename TypeParam::secondary index(nodes, graves, 1);
  for (std::uint64_t slot = 0; slot < many_rows; ++slot) index.add({7}, slot, {slot + 1, 0});
  std::uint64_t time = 1;
  const auto take_some = [&] {
    for (std::uint64_t end = time + many_rows / 20; time < end; ++time) {
      std::uint64_t first = no_slot;
      const auto note = [&](std::uint64_t slot, const std::uint64_t*) {
        first = slot;
        return false;
      };
      index.scan({7}, {7}, time, slot_visitor(note));
      ASSERT_NE(first, no_slot);
      ASSERT_TRUE(index.remove({7}, first, first + 1));
    }
  };
  std::vector<double> costs;
  for (int part = 0; part < 20; ++part) costs.push_back(cost_of(take_some));
  EXPECT_TRUE(slots_of(index, {7}).empty());
  const double at_first = std::min(costs[0], costs[1]);
  std::sort(costs.begin(), costs.end());
  EXPECT_LE(costs[18], 8 * at_first);  // one part may be disturbed
}

/// What is left of a key when a part of its rows was deleted in the order of one scan.
TYPED_TEST(hash_secondary_of, changes_cost_the_same_after_a_scan_has_deleted_most_rows) {
  region_domain nodes;
  domain<> graves;
  typename TypeParam::secondary index(nodes, graves, 1);
  for (std::uint64_t slot = 0; slot < many_rows; ++slot) index.add({7}, slot, {slot + 1, 0});
  const auto change_some = [&] {
    for (std::uint64_t slot = many_rows; slot < many_rows + 2000; ++slot) {
      index.add({7}, slot, {slot + 1, 0});
      index.remove({7}, slot, slot + 1);
    }
  };
  const double before = std::min(cost_of(change_some), cost_of(change_some));
  std::vector<std::uint64_t> in_order;
  const auto note = [&](std::uint64_t slot, const std::uint64_t*) {
    in_order.push_back(slot);
    return true;
  };
  index.scan({7}, {7}, 1, slot_visitor(note));
  ASSERT_EQ(in_order.size(), many_rows);
  in_order.resize(many_rows - many_rows / 10);
  for (const std::uint64_t slot : in_order) ASSERT_TRUE(index.remove({7}, slot, slot + 1));
  EXPECT_EQ(slots_of(index, {7}).size(), many_rows / 10);
  EXPECT_LE(std::min(cost_of(change_some), cost_of(change_some)), 8 * before);
}

TYPED_TEST(hash_secondary_of, memory_that_is_missing_changes_nothing) {
  const std::int64_t before = live_allocations();
  for_each_allocation_failure([&] {
    region_domain nodes;
    domain<> graves;
    typename TypeParam::secondary index(nodes, graves, 2);
    for (std::uint64_t slot = 0; slot < 40; ++slot) {
      const key_words key{slot % 3, ~std::uint64_t{0}};
      try {
        index.add(key, slot, {slot + 1, 0});
      } catch (const std::bad_alloc&) {
        EXPECT_EQ(index.entry_of(key, slot).claim, 0U);
        EXPECT_EQ(index.entry_of({0, ~std::uint64_t{0}}, 0).claim, slot == 0 ? 0U : 1U);
        throw;
      }
    }
    for (std::uint64_t slot = 0; slot < 40; ++slot) {
      EXPECT_TRUE(index.remove({slot % 3, ~std::uint64_t{0}}, slot, slot + 1));
    }
  });
  EXPECT_EQ(live_allocations(), before);
}

/// What is there all the time comes once, while others of its key come and go.
TYPED_TEST(hash_secondary_of, rows_that_stay_come_once_beside_writers) {
  region_domain nodes;
  domain<> graves;
  typename TypeParam::secondary index(nodes, graves, 1);
  constexpr std::uint64_t stay = 500;
  for (std::uint64_t slot = 0; slot < stay; ++slot) index.add({1}, slot * 1000, {1, 0});
  run_stress({.threads = 4, .share = 0.5}, [&](stress_thread& self) {
    std::uint64_t n = 0;
    while (self.running()) {
      if (self.index() % 2 == 0) {
        const std::vector<std::uint64_t> all = slots_of(index, {1});
        EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << "comes twice";
        EXPECT_EQ(std::count_if(all.begin(), all.end(), [](auto s) { return s % 1000 == 0; }),
                  static_cast<std::ptrdiff_t>(stay));
        static_cast<void>(slots_of(index, {2}));
        continue;
      }
      const std::uint64_t most = 1U << (n++ % 12);
      const std::uint64_t first = self.index();
      for (std::uint64_t i = 0; i < most; ++i) index.add({1 + i % 2}, i * 1000 + first, {n, 0});
      for (std::uint64_t i = 0; i < most; ++i) index.remove({1 + i % 2}, i * 1000 + first, n);
    }
  });
  EXPECT_EQ(slots_of(index, {1}).size(), stay);
  EXPECT_TRUE(slots_of(index, {2}).empty());
}

/// The items have an ordered index over a and a unique one over b; these have hash indexes.
class hashed : public over_storages {
 protected:
  hashed()
      : twins(base.create_table(
            {.name = "twins",
             .columns =
                 {{"id", int64, primary_key}, {"a", int64}, {"b", int64}, {"note", text(20)}},
             .indexes = {
                 {.name = "by_a", .columns = {"a"}, .kind = hash},
                 {.name = "by_b", .columns = {"b", "note"}, .unique = true, .kind = hash}}})) {}
  static constexpr index_kind hash = index_kind::hash;

  std::multiset<std::int64_t> with(const reader& at, const table& t, std::int64_t x) {
    std::multiset<std::int64_t> ids;
    at.scan(t.index("by_a"), {x}, {x}, [&](const row& r) {
      EXPECT_EQ(r.get(t.column<std::int64_t>("a")), x);
      ids.insert(r.get(t.column<std::int64_t>("id")));
    });
    return ids;
  }
  void expect_twins(const reader& at) {
    for (std::int64_t x = 0; x < 6; ++x) {
      ASSERT_EQ(with(at, items, x), with(at, twins, x)) << "for " << x;
    }
  }
  /// The same change of both tables.
  status change(transaction& tx, std::int64_t key, std::uint64_t what) {
    const auto x = static_cast<std::int64_t>(what / 4 % 6);
    const bool there = static_cast<bool>(tx.find(items, {key}));
    if (!there) {
      if (const status s = tx.insert(items, {key, x, key * 10, "new"}); !s) return s;
      return tx.insert(twins, {key, x, key * 10, "new"});
    }
    for (table* const t : {&items, &twins}) {
      const status s = what % 4 == 0 ? tx.erase(*t, {key}) : tx.update(*t, {key}, {{"a", x}});
      if (!s) return s;
    }
    return outcome::ok;
  }

  table& twins;
};
SPOLIA_OVER_STORAGES_AND_TABLES(hashed);

TEST_P(hashed, finds_what_an_ordered_index_finds) {
  std::mt19937_64 random(7);
  std::vector<std::unique_ptr<reader>> held;
  for (int n = 0; n < 160; ++n) {
    if (n % 80 == 0) held.emplace_back(new reader(base.snapshot()));
    transaction tx = base.begin();
    const savepoint start = tx.savepoint();
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(change(tx, static_cast<std::int64_t>(random() % 40), random()));
      if (i == 2 && n % 7 == 0) {
        ASSERT_TRUE(tx.rollback_to(start));
      }
    }
    expect_twins(tx);
    if (n % 5 != 0) {
      ASSERT_TRUE(tx.commit());
    }
  }
  for (const auto& r : held) expect_twins(*r);
  held.clear();
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U) << "entries that lead nowhere are taken out";
  expect_twins(base.snapshot());
}

TEST_P(hashed, entries_of_deleted_rows_go) {
  for (int round = 0; round < 300; ++round) {
    ASSERT_TRUE(base.transact([&](transaction& tx) { return change(tx, round, 5); }));
    ASSERT_TRUE(base.transact([&](transaction& tx) { return change(tx, round, 9); }));
    ASSERT_TRUE(base.transact([&](transaction& tx) { return change(tx, round, 0); }));
  }
  EXPECT_LE(twins.row_slots(), 100U);
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
}

TEST_P(hashed, a_unique_one_refuses_a_second_row) {
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(twins, {1, 5, 10, "x"}); }));
  transaction tx = base.begin();
  EXPECT_EQ(tx.insert(twins, {2, 5, 10, "x"}), outcome::duplicate_key);
  EXPECT_TRUE(tx.insert(twins, {2, 5, 10, "y"}));
  EXPECT_EQ(tx.update(twins, {2}, {{"note", "x"}}), outcome::duplicate_key);
  EXPECT_TRUE(tx.update(twins, {1}, {{"b", 12}}));
  EXPECT_TRUE(tx.update(twins, {2}, {{"note", "x"}})) << "given up by the same transaction";
  transaction other = base.begin();
  EXPECT_EQ(other.insert(twins, {3, 5, 12, "x"}), outcome::conflict) << "about to be taken";
  EXPECT_TRUE(tx.commit());
  EXPECT_EQ(base.transact([&](transaction& t) { return t.insert(twins, {3, 0, 12, "x"}); }),
            outcome::duplicate_key);
}

TEST_P(hashed, ranges_are_refused) {
  const reader now = base.snapshot();
  const auto none = [](const row&) { FAIL(); };
  const secondary& i = twins.index("by_b");
  EXPECT_EQ(i.kind(), index_kind::hash);
  EXPECT_EQ(items.index("by_a").kind(), index_kind::ordered);
  now.scan(i, {1, "x"}, {1, "x"}, none);
  now.scan_down(i, {1, "x"}, {1, "x"}, none);
  EXPECT_THROW(now.scan(i, {}, {}, none), std::invalid_argument);
  EXPECT_THROW(now.scan(i, {1}, {1}, none), std::invalid_argument);
  EXPECT_THROW(now.scan(i, {1, "x"}, {}, none), std::invalid_argument);
  EXPECT_THROW(now.scan_down(i, {1, "x"}, {1, "y"}, none), std::invalid_argument);
  try {
    now.scan(twins.index("by_a"), {1}, {2}, none);
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(),
                 "spolia::db: index by_a of table twins is a hash index, which finds the rows of "
                 "one whole key and no ranges");
  }
}

TEST_P(hashed, phantoms_are_caught_when_serializable) {
  for (const isolation level : {isolation::snapshot, isolation::serializable}) {
    transaction one = base.begin({.isolation = level});
    transaction two = base.begin({.isolation = level});
    const std::int64_t key = level == isolation::snapshot ? 0 : 10;
    EXPECT_TRUE(with(one, twins, key).empty());
    EXPECT_TRUE(with(two, twins, key).empty());
    ASSERT_TRUE(one.insert(twins, {key + 1, key, key + 1, ""}));
    ASSERT_TRUE(two.insert(twins, {key + 2, key, key + 2, ""}));
    EXPECT_TRUE(one.commit());
    const status s = two.commit();
    EXPECT_EQ(s, level == isolation::snapshot ? outcome::ok : outcome::conflict);
  }
  transaction reads_another = base.begin({.isolation = isolation::serializable});
  EXPECT_TRUE(with(reads_another, twins, 3).empty());
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(twins, {50, 4, 50, ""}); }));
  ASSERT_TRUE(reads_another.insert(twins, {60, 5, 60, ""}));
  EXPECT_TRUE(reads_another.commit()) << "other keys do not matter";
}

TEST_P(hashed, beside_writers_both_indexes_say_the_same) {
  run_stress({.threads = 4, .share = 0.5}, [&](stress_thread& self) {
    while (self.running()) {
      if (self.index() == 0) {
        const reader now = base.snapshot();
        self.jitter();
        expect_twins(now);
        continue;
      }
      const status s = base.transact([&](transaction& tx) {
        return change(tx, static_cast<std::int64_t>(self.random().below(30)),
                      self.random().below(1000));
      });
      EXPECT_TRUE(s) << s.message();
    }
  });
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
  expect_twins(base.snapshot());
}

/// And which table it is does not matter.
TEST(hash_secondary, survives_a_reopening) {
  const disk files = new_disk();
  options cuckoo = over(files);
  cuckoo.hash_indexes = hash_kind::cuckoo;
  const auto count = [](database& base, std::int64_t x) {
    std::int64_t rows = 0;
    table& t = base.find_table("t");
    EXPECT_EQ(t.spec().indexes.at(0).kind, index_kind::hash);
    EXPECT_EQ(t.spec().indexes.at(1).kind, index_kind::ordered);
    EXPECT_TRUE(t.spec().indexes.at(2).unique);
    EXPECT_EQ(t.spec().indexes.at(2).kind, index_kind::hash);
    base.snapshot().scan(t.index("by_a"), {x}, {x}, [&](const row&) { ++rows; });
    return rows;
  };
  {
    database base = database::open(place, cuckoo);
    table& t = base.create_table(
        {.name = "t",
         .columns = {{"id", int64, primary_key}, {"a", int64}, {"b", text(8)}},
         .indexes = {
             {.name = "by_a", .columns = {"a"}, .kind = index_kind::hash},
             {.name = "by_a_too", .columns = {"a"}},
             {.name = "by_b", .columns = {"b"}, .unique = true, .kind = index_kind::hash}}});
    for (std::int64_t n = 0; n < 50; ++n) {
      ASSERT_TRUE(base.transact(
          [&](transaction& tx) { return tx.insert(t, {n, n % 5, std::to_string(n)}); }));
    }
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.erase(t, {7}); }));
  }
  for (const hash_kind kind : {hash_kind::probing, hash_kind::cuckoo}) {
    options o = over(files->copy());
    o.hash_indexes = kind;
    database base = database::open(place, o);
    EXPECT_EQ(count(base, 2), 9) << "from the log";
    table& t = base.find_table("t");
    EXPECT_EQ(base.transact([&](transaction& tx) { return tx.insert(t, {99, 0, "8"}); }),
              outcome::duplicate_key);
  }
  database::open(place, cuckoo).checkpoint();
  for (const options& o : {over(files), cuckoo}) {
    database base = database::open(place, o);
    EXPECT_EQ(count(base, 2), 9) << "from a checkpoint";
    EXPECT_EQ(count(base, 3), 10);
    EXPECT_TRUE(base.snapshot().find(base.find_table("t"), {8}));
    EXPECT_FALSE(base.snapshot().find(base.find_table("t"), {7}));
  }
}

}  // namespace
