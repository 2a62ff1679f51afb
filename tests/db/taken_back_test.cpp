// SPDX-License-Identifier: Apache-2.0
// What a transaction sets and takes back before its end leaves nothing, however much that was, and
// is free for others at once.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <spolia/db.hpp>

#include "support/resident.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using db::isolation;
using db::outcome;

constexpr std::int64_t distinct = fewer > 1 ? 3000 : 60000;
// One of these values would take 92 bytes and more.
constexpr std::uint64_t little = 1U << 20U;

class taken_back : public testing::Test {
 protected:
  taken_back() {
    const auto fill = [&](db::transaction& tx) {
      for (std::int64_t n = 0; n < 10; ++n) {
        if (const db::status s = tx.insert(rows, {n, n, n, n, n, 0}); !s) return s;
      }
      return db::status();
    };
    EXPECT_TRUE(base.transact(fill));
  }
  static db::table_spec spec() {
    return {.name = "rows",
            .columns = {{"k", db::int64, db::primary_key},
                        {"a", db::int64},
                        {"b", db::int64},
                        {"c", db::int64},
                        {"d", db::int64},
                        {"e", db::int64}},
            .primary = db::index_kind::ordered,
            .indexes = {
                {.name = "by_a", .columns = {"a"}},
                {.name = "by_b", .columns = {"b"}, .kind = db::index_kind::hash},
                {.name = "by_c", .columns = {"c"}, .unique = true},
                {.name = "by_d", .columns = {"d"}, .unique = true, .kind = db::index_kind::hash},
                {.name = "by_ae", .columns = {"a", "e"}}}};
  }

  /// Beside a reader that was there before, and one that begins meanwhile.
  template <class F>
  void leaves_nothing(F&& f) {
    const db::reader before = base.snapshot();
    db::transaction tx = base.begin();
    for (std::int64_t n = 0; n < 2000; ++n) f(tx, n);
    const db::reader meanwhile = base.snapshot();
    const std::uint64_t index_bytes = rows.index_bytes();
    const std::uint64_t resident = resident_bytes();
    for (std::int64_t n = 2000; n < 2000 + distinct; ++n) f(tx, n);
    EXPECT_LE(resident_bytes(), resident + (sanitized ? ~std::uint64_t{0} / 2 : little));
    EXPECT_LE(rows.index_bytes(), index_bytes + little / 4);
    EXPECT_LE(rows.row_slots(), 100U);
    ASSERT_TRUE(tx.commit());
    base.collect();
    // Of rows that were changed, what the first readers see.
    EXPECT_LE(base.stats().cleaning, 10U * 5U);
    static_cast<void>(db::reader(base.snapshot()));
    look(base.snapshot());
  }
  /// Each index leads to each row once.
  /// The value 77 of `c` and `d`, which the first row was given after `before`, and has at `here`.
  void is_free_before(db::transaction& tx, const db::savepoint& before, const db::savepoint& here) {
    const auto take = [&](db::transaction& other) {
      return other.insert(rows, {100, 1, 1, 77, 77, 1});
    };
    ASSERT_TRUE(tx.rollback_to(here));
    EXPECT_EQ(base.transact(take, {.tries = 1}), outcome::conflict);  // the row has it yet
    ASSERT_TRUE(tx.rollback_to(before));
    EXPECT_EQ(base.transact(take, {.tries = 1}), outcome::ok);
    ASSERT_TRUE(tx.commit());
    look(base.snapshot());
  }
  void look(const db::reader& at) {
    std::map<std::int64_t, std::vector<std::int64_t>> in;
    at.for_each(rows, [&](const db::row& r) {
      in[r.get(k)] = {r.get(a), r.get(b), r.get(c), r.get(d), r.get(e)};
    });
    const char* const names[] = {"by_a", "by_b", "by_c", "by_d"};
    for (std::size_t i = 0; i < 4; ++i) {
      std::set<std::int64_t> seen;
      for (const auto& [key, values] : in) {
        at.scan(rows.index(names[i]), {values[i]}, {values[i]},
                [&](const db::row& r) { seen.insert(r.get(k)); });
      }
      EXPECT_EQ(seen.size(), in.size()) << names[i];
    }
    std::size_t shown = 0;
    at.scan(rows.index("by_ae"), {}, {}, [&](const db::row&) { ++shown; });
    EXPECT_EQ(shown, in.size());
  }

  db::database base = db::database::open();
  db::table& rows = base.create_table(spec());
  db::column<std::int64_t> k = rows.column<std::int64_t>("k");
  db::column<std::int64_t> a = rows.column<std::int64_t>("a");
  db::column<std::int64_t> b = rows.column<std::int64_t>("b");
  db::column<std::int64_t> c = rows.column<std::int64_t>("c");
  db::column<std::int64_t> d = rows.column<std::int64_t>("d");
  db::column<std::int64_t> e = rows.column<std::int64_t>("e");
};

TEST_F(taken_back, ever_new_values) {
  leaves_nothing([&](db::transaction& tx, std::int64_t n) {
    const std::int64_t v = 1000 + n;
    ASSERT_TRUE(tx.update(rows, {n % 10}, {{"a", v}, {"b", v}, {"c", v}, {"d", v}}));
    ASSERT_TRUE(tx.edit(rows, {1})->set(e, n));
  });
}

TEST_F(taken_back, values_that_a_savepoint_undoes) {
  leaves_nothing([&](db::transaction& tx, std::int64_t n) {
    const std::int64_t v = 1000 + n;
    const db::savepoint here = tx.savepoint();
    ASSERT_TRUE(tx.update(rows, {n % 10}, {{"a", v}, {"b", v}, {"c", v}, {"d", v}}));
    ASSERT_TRUE(tx.edit(rows, {1})->set(a, -v));
    ASSERT_TRUE(tx.rollback_to(here));
  });
}

TEST_F(taken_back, rows_that_a_savepoint_undoes) {
  leaves_nothing([&](db::transaction& tx, std::int64_t n) {
    const std::int64_t v = 1000 + n;
    const db::savepoint here = tx.savepoint();
    ASSERT_TRUE(tx.insert(rows, {v, v, v, v, v, v}));
    const db::savepoint inner = tx.savepoint();
    ASSERT_TRUE(tx.update(rows, {v}, {{"a", -v}, {"d", -v}}));
    ASSERT_TRUE(tx.insert(rows, {-v, v, v, v, -v, v}) == outcome::duplicate_key);
    ASSERT_TRUE(tx.insert(rows, {-v, v, v, -v, v, v}));
    if (n % 2 == 0) {
      ASSERT_TRUE(tx.rollback_to(inner));
    }
    ASSERT_TRUE(tx.edit(rows, {2})->set(a, n));
    ASSERT_TRUE(tx.rollback_to(here));
  });
}

TEST_F(taken_back, rows_that_are_erased) {
  leaves_nothing([&](db::transaction& tx, std::int64_t n) {
    const std::int64_t v = 1000 + n;
    ASSERT_TRUE(tx.insert(rows, {v, v, v, v, v, v}));
    ASSERT_TRUE(tx.insert(rows, {-v, v, v, -v, -v, v}));
    ASSERT_TRUE(tx.update(rows, {v}, {{"a", n}, {"c", n * 2 + 2000}}));
    ASSERT_TRUE(tx.erase(rows, {v}));
    ASSERT_TRUE(tx.erase(rows, {-v}));
  });
}

TEST_F(taken_back, what_is_refused) {
  leaves_nothing([&](db::transaction& tx, std::int64_t n) {
    const std::int64_t v = 1000 + n;
    ASSERT_EQ(tx.insert(rows, {v, v, v, v, 3, v}), outcome::duplicate_key);
    ASSERT_EQ(tx.update(rows, {4}, {{"a", v}, {"b", v}, {"c", 3}}), outcome::duplicate_key);
    ASSERT_EQ(tx.update(rows, {4}, {{"c", v}, {"d", 3}}), outcome::duplicate_key);
  });
}

TEST_F(taken_back, rows_and_values_in_scans) {
  leaves_nothing([&](db::transaction& tx, std::int64_t n) {
    if (n % 100 != 0) return;
    std::int64_t seen = 0;
    tx.scan(rows.index("by_c"), {}, {}, [&](const db::row&) {
      const std::int64_t v = 10000 + 10 * n + ++seen;
      ASSERT_TRUE(tx.update(rows, {5}, {{"a", v}, {"b", v}, {"c", v}, {"d", v}}));
      ASSERT_TRUE(tx.insert(rows, {v, v, v, -v, -v, v}));
      ASSERT_TRUE(tx.erase(rows, {v}));
    });
    EXPECT_EQ(seen, 10);
  });
}

// Nothing but the entries of this transaction is in the way of others.
TEST_F(taken_back, values_are_free_for_others) {
  const auto take = [&](db::transaction& other) {
    return other.insert(rows, {100, 1, 1, 77, 77, 1});
  };
  db::transaction tx = base.begin();
  ASSERT_TRUE(tx.update(rows, {1}, {{"c", 77}, {"d", 77}}));
  const db::savepoint here = tx.savepoint();
  EXPECT_EQ(base.transact(take, {.tries = 1}), outcome::conflict);
  ASSERT_TRUE(tx.update(rows, {1}, {{"c", 78}, {"d", 78}}));
  EXPECT_EQ(base.transact(take, {.tries = 1}), outcome::conflict);  // the savepoint has them
  ASSERT_TRUE(tx.rollback_to(here));
  ASSERT_TRUE(tx.update(rows, {1}, {{"c", 79}, {"d", 79}}));
  EXPECT_EQ(base.transact(take, {.tries = 1}), outcome::conflict);
  ASSERT_TRUE(tx.insert(rows, {101, 1, 1, 80, 80, 1}));
  ASSERT_TRUE(tx.rollback_to(here));
  const auto take_row = [&](db::transaction& other) {
    return other.insert(rows, {101, 1, 1, 80, 80, 1});
  };
  ASSERT_EQ(base.transact(take_row, {.tries = 1}), outcome::ok);
  ASSERT_TRUE(tx.commit());
  look(base.snapshot());
}

// Also where the transaction has had a value, and again on a later level.
TEST_F(taken_back, a_value_that_was_set_twice_is_free) {
  db::transaction tx = base.begin();
  const db::savepoint before = tx.savepoint();
  ASSERT_TRUE(tx.update(rows, {1}, {{"c", 77}, {"d", 77}}));
  const db::savepoint here = tx.savepoint();
  ASSERT_TRUE(tx.update(rows, {1}, {{"c", 78}, {"d", 78}}));
  ASSERT_TRUE(tx.update(rows, {1}, {{"c", 77}, {"d", 77}}));
  ASSERT_NO_FATAL_FAILURE(is_free_before(tx, before, here));
}

// Each time after the first, its entry is there already. (Other rows have so many that what was
// taken back is not forgotten at once.)
TEST_F(taken_back, a_value_that_was_set_again_and_again_is_free) {
  db::transaction tx = base.begin();
  for (std::int64_t n = 2; n < 10; ++n) {
    ASSERT_TRUE(tx.update(rows, {n}, {{"c", 200 + n}, {"d", 200 + n}}));
  }
  const db::savepoint before = tx.savepoint();
  ASSERT_TRUE(tx.update(rows, {1}, {{"c", 77}, {"d", 77}}));
  const db::savepoint here = tx.savepoint();
  for (int again = 0; again < 3; ++again) {
    ASSERT_TRUE(tx.update(rows, {1}, {{"c", 78}, {"d", 78}}));
    ASSERT_TRUE(tx.update(rows, {1}, {{"c", 77}, {"d", 77}}));
  }
  ASSERT_NO_FATAL_FAILURE(is_free_before(tx, before, here));
}

TEST_F(taken_back, a_row_that_was_inserted_twice_is_free) {
  db::transaction tx = base.begin();
  const db::savepoint before = tx.savepoint();
  const auto take = [&](db::transaction& by) { return by.insert(rows, {100, 1, 1, 77, 77, 1}); };
  ASSERT_TRUE(take(tx));
  const db::savepoint here = tx.savepoint();
  ASSERT_TRUE(tx.erase(rows, {100}));
  ASSERT_TRUE(take(tx));
  ASSERT_TRUE(tx.rollback_to(here));
  EXPECT_EQ(base.transact(take, {.tries = 1}), outcome::conflict);
  ASSERT_TRUE(tx.rollback_to(before));
  EXPECT_EQ(base.transact(take, {.tries = 1}), outcome::ok);
  ASSERT_TRUE(tx.commit());
  look(base.snapshot());
}

// What a row has in several columns is another value when one of them changes.
TEST_F(taken_back, values_of_several_columns_are_free) {
  ASSERT_TRUE(base.create_index(rows, {.name = "by_be", .columns = {"b", "e"}, .unique = true}));
  db::transaction tx = base.begin();
  db::editor of = *tx.edit(rows, {1});
  ASSERT_TRUE(of.set(b, 77));
  ASSERT_TRUE(of.set(e, 5));
  const auto take = [&](db::transaction& other) {
    return other.insert(rows, {100, 1, 77, 100, 100, 0});
  };
  EXPECT_EQ(base.transact(take, {.tries = 1}), outcome::ok);
  ASSERT_TRUE(tx.commit());
  look(base.snapshot());
}

// It has seen that they were free.
TEST_F(taken_back, values_are_not_free_beside_a_serializable_transaction) {
  db::transaction tx = base.begin({.isolation = isolation::serializable});
  const db::savepoint here = tx.savepoint();
  ASSERT_TRUE(tx.update(rows, {1}, {{"c", 77}}));
  ASSERT_TRUE(tx.insert(rows, {101, 1, 1, 80, 80, 1}));
  ASSERT_TRUE(tx.rollback_to(here));
  const auto value = [&](db::transaction& other) { return other.edit(rows, {2})->set(c, 77); };
  const auto row = [&](db::transaction& other) {
    return other.insert(rows, {101, 1, 1, 90, 90, 1});
  };
  EXPECT_EQ(base.transact(value, {.tries = 1}), outcome::conflict);
  EXPECT_EQ(base.transact(row, {.tries = 1}), outcome::conflict);
  ASSERT_TRUE(tx.edit(rows, {3})->set(e, 5));
  ASSERT_TRUE(tx.commit());
  EXPECT_TRUE(base.transact(value));
  EXPECT_TRUE(base.transact(row));
}

// The number of its write is known to the editor.
TEST_F(taken_back, a_row_that_an_editor_has_is_not_another_one) {
  db::transaction tx = base.begin();
  const db::savepoint here = tx.savepoint();
  ASSERT_TRUE(tx.insert(rows, {100, 1, 1, 77, 77, 1}));
  db::editor of = *tx.edit(rows, {100});
  ASSERT_TRUE(tx.rollback_to(here));
  ASSERT_TRUE(tx.insert(rows, {101, 1, 1, 78, 78, 1}));
  EXPECT_EQ(of.set(a, 5), outcome::not_found);
  EXPECT_EQ(of.set(e, 5), outcome::not_found);
  ASSERT_TRUE(tx.commit());
  EXPECT_EQ(base.snapshot().find(rows, {101})->get(a), 1);
  EXPECT_EQ(base.snapshot().find(rows, {101})->get(e), 1);
}

// Also where it was made on a level that was gone back from.
TEST_F(taken_back, a_row_that_an_editor_has_had_is_not_another_one) {
  db::transaction tx = base.begin();
  const db::savepoint before = tx.savepoint();
  ASSERT_TRUE(tx.insert(rows, {100, 1, 1, 77, 77, 1}));
  const db::savepoint here = tx.savepoint();
  ASSERT_TRUE(tx.update(rows, {100}, {{"a", 2}}));
  db::editor of = *tx.edit(rows, {100});
  ASSERT_TRUE(tx.rollback_to(here));
  ASSERT_TRUE(tx.rollback_to(before));
  ASSERT_TRUE(tx.insert(rows, {101, 1, 1, 78, 78, 1}));
  EXPECT_EQ(of.set(a, 5), outcome::not_found);
  ASSERT_TRUE(tx.commit());
  EXPECT_EQ(base.snapshot().find(rows, {101})->get(a), 1);
}

// What it has found free at its snapshot it has seen there.
TEST_F(taken_back, a_snapshot_stays_where_a_row_was_inserted) {
  db::transaction tx = base.begin({.longest_wait = std::chrono::milliseconds(1)});
  ASSERT_TRUE(tx.insert(rows, {100, 1, 1, 77, 77, 1}));
  ASSERT_TRUE(tx.erase(rows, {100}));
  ASSERT_TRUE(
      base.transact([&](db::transaction& other) { return other.edit(rows, {1})->set(e, 9); }));
  EXPECT_EQ(tx.edit(rows, {1}).code(), outcome::conflict);
}

/// Random changes and savepoints, so few keys and values that they meet again and again.
class taken_back_at_random : public taken_back {
 protected:
  using content = std::map<std::int64_t, std::vector<std::int64_t>>;

  taken_back_at_random() {
    for (std::int64_t n = 0; n < 10; ++n) committed[n] = {n, n, n, n, 0};
  }
  std::int64_t any(unsigned below) { return static_cast<std::int64_t>(random.below(below)); }
  std::vector<std::int64_t> values_of(const db::row& r) const {
    return {r.get(a), r.get(b), r.get(c), r.get(d), r.get(e)};
  }
  void same(const db::reader& at, const content& in) {
    content seen;
    at.scan(rows.index("by_c"), {}, {}, [&](const db::row& r) { seen[r.get(k)] = values_of(r); });
    ASSERT_EQ(seen, in);
    std::size_t shown = 0;
    at.scan_down(rows.index("by_ae"), {}, {}, [&](const db::row&) { ++shown; });
    ASSERT_EQ(shown, in.size());
    for (const auto& [key, values] : in) {
      const auto leads = [&, id = key](const char* name, std::int64_t value) {
        bool there = false;
        at.scan(rows.index(name), {value}, {value},
                [&](const db::row& r) { there = there || r.get(k) == id; });
        return there;
      };
      ASSERT_TRUE(leads("by_a", values[0]) && leads("by_b", values[1]) && leads("by_d", values[3]));
      ASSERT_TRUE(at.find(rows, {key}));
    }
  }
  /// Another row than that of the key has the value.
  bool taken(std::size_t column, std::int64_t value, std::int64_t but) const {
    return std::any_of(now.begin(), now.end(),
                       [&](const auto& r) { return r.first != but && r.second[column] == value; });
  }
  void change(db::transaction& tx) {
    const std::int64_t key = any(20);
    const std::vector<std::int64_t> v = {any(8), any(8), any(24), any(24), any(3)};
    const bool there = now.contains(key);
    const bool c_free = !taken(2, v[2], key);
    const bool d_free = !taken(3, v[3], key);
    const auto ends = [](bool free) { return free ? outcome::ok : outcome::duplicate_key; };
    switch (random.below(4)) {
      case 0: {
        const bool free = !there && c_free && d_free;
        ASSERT_EQ(tx.insert(rows, {key, v[0], v[1], v[2], v[3], v[4]}), ends(free));
        if (free) now[key] = v;
        break;
      }
      case 1:
        ASSERT_EQ(tx.erase(rows, {key}), now.erase(key) != 0 ? outcome::ok : outcome::not_found);
        break;
      case 2:
        if (!there) break;
        ASSERT_EQ(tx.update(rows, {key}, {{"a", v[0]}, {"b", v[1]}, {"c", v[2]}}), ends(c_free));
        if (c_free) std::copy_n(v.begin(), 3, now[key].begin());
        break;
      default:
        if (!there) break;
        ASSERT_EQ(tx.edit(rows, {key})->set(d, v[3]), ends(d_free));
        if (d_free) now[key][3] = v[3];
        ASSERT_TRUE(tx.edit(rows, {key})->set(e, v[4]));
        now[key][4] = v[4];
    }
  }
  /// The scan shows what was there before it.
  void change_in_scan(db::transaction& tx) {
    const content before = now;
    content seen;
    tx.scan(rows.index("by_a"), {}, {}, [&](const db::row& r) {
      seen[r.get(k)] = values_of(r);
      change(tx);
      if (!random.chance(1, 4)) return;
      const db::savepoint here = tx.savepoint();
      const content then = now;
      change(tx);
      ASSERT_TRUE(tx.rollback_to(here));
      now = then;
      if (marks.empty() || !random.chance(1, 3)) return;
      ASSERT_TRUE(tx.rollback_to(marks.back().first));
      now = marks.back().second;
    });
    ASSERT_EQ(seen, before);
  }
  void step(db::transaction& tx) {
    if (random.chance(1, 5)) {
      marks.emplace_back(tx.savepoint(), now);
    } else if (random.chance(1, 6) && !marks.empty()) {
      marks.resize(1 + random.below(marks.size()));
      ASSERT_TRUE(tx.rollback_to(marks.back().first));
      now = marks.back().second;
    } else if (random.chance(1, 10)) {
      change_in_scan(tx);
    } else {
      change(tx);
    }
    if (random.chance(1, 10)) same(tx, now);
  }
  void one_transaction() {
    const bool serial = random.chance(1, 4);
    db::transaction tx =
        base.begin({.isolation = serial ? isolation::serializable : isolation::snapshot});
    now = committed;
    marks.clear();
    const std::int64_t steps = 1 + any(random.chance(1, 8) ? 400 : 40);
    for (std::int64_t i = 0; i < steps && !HasFatalFailure(); ++i) step(tx);
    same(tx, now);
    if (random.chance(1, 3)) return tx.rollback();
    ASSERT_TRUE(tx.commit());
    committed = now;
  }

  rng random = rng(seed_for(1));
  content committed;
  content now;  // what the transaction sees
  std::vector<std::pair<db::savepoint, content>> marks;
  std::vector<std::pair<db::reader, content>> held;
};

TEST_F(taken_back_at_random, shows_what_a_map_shows) {
  for (int round = 0; round < tries(600); ++round) {
    one_transaction();
    if (random.chance(1, 5)) held.emplace_back(base.snapshot(), committed);
    if (random.chance(1, 8) && !held.empty()) {
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(random.below(held.size())));
    }
    for (const auto& [at, in] : held) same(at, in);
    same(base.snapshot(), committed);
    ASSERT_FALSE(HasFatalFailure());
  }
  held.clear();
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
}

}  // namespace
