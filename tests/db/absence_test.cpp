// SPDX-License-Identifier: Apache-2.0
// What serializable transactions did not find: keys whose slot in the table goes to other rows
// while they run, and what is left in indexes of rows that never were or are no more.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "db/storages.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using spolia::test::over_storages;

class absence : public over_storages {
 protected:
  absence() {
    EXPECT_TRUE(put(1, 5));
    EXPECT_TRUE(put(2, 6));
  }

  transaction serial() { return base.begin({.isolation = isolation::serializable}); }
  status insert(transaction& tx, table& t, std::int64_t key) {
    return tx.insert(t, {key, 40, key * 10, "new"});
  }
  /// Inserts them and rolls back, or deletes them again: slots that go to others.
  void leave_gaps(table& t, std::int64_t from, std::int64_t end) {
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      for (std::int64_t k = from; k < end; ++k) {
        if (const status s = insert(tx, t, k); !s) return s;
      }
      return outcome::ok;
    }));
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      for (std::int64_t k = from; k < end; ++k) {
        if (const status s = tx.erase(t, {k}); !s) return s;
      }
      return outcome::ok;
    }));
  }
  /// Another table like `items`, whose keys and values are hashed.
  table& hashed() {
    return base.create_table(
        {.name = "hashed",
         .columns =
             {{"id", int64, primary_key}, {"a", int64}, {"b", int64}, {"note", text(20), nullable}},
         .indexes = {
             {.name = "by_a", .columns = {"a"}, .kind = index_kind::hash},
             {.name = "by_b", .columns = {"b"}, .unique = true, .kind = index_kind::hash}}});
  }

  using look = std::function<void(transaction&, table&, std::int64_t)>;
  struct named_look {
    const char* name;
    look f;
    bool locks = false;  // or wants to: it meets a transaction that has the row locked
    bool orders = false;
  };
  /// All ways not to find a row with this key, whose `a` would be 40.
  static std::vector<named_look> ways() {
    return {
        {"find", [](auto& tx, auto& t, auto k) { EXPECT_FALSE(tx.find(t, {k})); }},
        {"edit", [](auto& tx, auto& t, auto k) { EXPECT_FALSE(tx.edit(t, {k})); }, true},
        {"lock", [](auto& tx, auto& t, auto k) { EXPECT_FALSE(tx.lock(t, {k})); }, true},
        {"erase", [](auto& tx, auto& t, auto k) { EXPECT_FALSE(tx.erase(t, {k})); }, true},
        {"update", [](auto& tx, auto& t, auto k) { EXPECT_FALSE(tx.update(t, {k}, {{"a", 1}})); },
         true},
        {"scan",
         [](auto& tx, auto& t, auto k) { tx.scan(t, {k}, {k}, [](const row&) { FAIL(); }); }, false,
         true},
        {"scan down",
         [](auto& tx, auto& t, auto k) {
           tx.scan_down(t, {k}, {k + 5}, [](const row&) { FAIL(); });
         },
         false, true},
        {"index", [](auto& tx, auto& t,
                     auto) { tx.scan(t.index("by_a"), {40}, {40}, [](const row&) { FAIL(); }); }},
        {"unique index",
         [](auto& tx, auto& t, auto k) {
           tx.scan_down(t.index("by_b"), {k * 10}, {k * 10}, [](const row&) { FAIL(); });
         }},
        {"for_each", [](auto& tx, auto& t, auto) { tx.for_each(t, [](const row&) {}); }},
        {"query",
         [](auto& tx, auto& t, auto) { EXPECT_TRUE(tx.query(t).aggregate(count()).run()); }}};
  }
  /// Calls f for each way of looking in each of the two tables, with a key of its own: the next
  /// hundred are free as well.
  void each_way(const std::function<void(const named_look&, table&, std::int64_t)>& f) {
    table& other = hashed();
    for (table* const t : {&items, &other}) {
      std::int64_t key = 100;
      for (const named_look& way : ways()) {
        if (way.orders && t == &other) continue;
        SCOPED_TRACE(way.name);
        f(way, *t, key);
        if (HasFatalFailure()) return;
        key += 100;
      }
    }
  }
  /// Looks in vain for a key, which another transaction then inserts after it has read what the
  /// first one changes: only one of the two commits.
  void expect_skew(transaction& first, table& t, std::int64_t key) {
    transaction second = serial();
    ASSERT_EQ(a_of(second, 1), 5);
    ASSERT_TRUE(insert(second, t, key));
    ASSERT_TRUE(second.commit());
    ASSERT_TRUE(first.update(items, {1}, {{"a", 11}}));
    EXPECT_EQ(first.commit(), outcome::conflict);
  }
  void expect_commit(transaction& tx) {
    ASSERT_TRUE(tx.update(items, {1}, {{"note", "seen"}}));
    EXPECT_TRUE(tx.commit());
  }
};
SPOLIA_OVER_STORAGES_AND_TABLES(absence);

TEST_P(absence, of_keys_whose_insertion_was_rolled_back) {
  each_way([&](const named_look& way, table& t, std::int64_t key) {
    if (way.locks) return;
    transaction first = serial();
    {
      transaction gone = base.begin();
      ASSERT_TRUE(insert(gone, t, key));
      ASSERT_TRUE(insert(gone, t, key + 1));
      way.f(first, t, key);
    }
    expect_skew(first, t, key);
    leave_gaps(t, key + 2, key + 4);
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.erase(t, {key}); }));
    base.collect();
  });
}

TEST_P(absence, of_keys_whose_rows_are_cleaned_away_meanwhile) {
  each_way([&](const named_look& way, table& t, std::int64_t key) {
    for (std::int64_t spare = 1; spare < 4; ++spare) {
      leave_gaps(t, key, key + spare);
      transaction first = serial();
      way.f(first, t, key);
      base.collect();
      expect_skew(first, t, key);
      ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.erase(t, {key}); }));
      base.collect();
      key += 10;
    }
  });
}

TEST_P(absence, that_comes_to_an_end_and_back_is_no_conflict) {
  each_way([&](const named_look& way, table& t, std::int64_t key) {
    transaction tx = serial();
    way.f(tx, t, key);
    leave_gaps(t, key, key + 2);
    base.collect();
    expect_commit(tx);
  });
}

TEST_P(absence, of_a_key_is_not_that_of_its_slot) {
  each_way([&](const named_look& way, table& t, std::int64_t key) {
    const bool all = std::string(way.name) == "for_each" || std::string(way.name) == "query";
    if (all) return;
    leave_gaps(t, key, key + 2);
    transaction tx = serial();
    way.f(tx, t, key);
    base.collect();
    // The slots go to rows of other keys.
    ASSERT_TRUE(base.transact([&](transaction& u) -> status {
      const status s = u.insert(t, {key + 7, 50, key * 10 + 70, nullptr});
      return s ? u.insert(t, {key + 8, 50, key * 10 + 80, nullptr}) : s;
    }));
    expect_commit(tx);
  });
}

TEST_P(absence, of_what_the_transaction_inserts_itself) {
  each_way([&](const named_look& way, table& t, std::int64_t key) {
    leave_gaps(t, key, key + 2);
    transaction tx = serial();
    way.f(tx, t, key);
    ASSERT_TRUE(insert(tx, t, key));
    ASSERT_TRUE(tx.commit());
    ASSERT_TRUE(base.transact([&](transaction& u) { return u.erase(t, {key}); }));
    base.collect();
  });
}

/// Entries of a row's former keys, which an old snapshot keeps.
TEST_P(absence, former_keys_of_rows_that_change_are_no_reason) {
  const reader old = base.snapshot();
  ASSERT_TRUE(set_a(2, 7));
  transaction tx = serial();
  tx.scan(items.index("by_a"), {6}, {6}, [](const row&) { FAIL() << "it is 7"; });
  ASSERT_TRUE(set_a(2, 8));
  ASSERT_TRUE(base.transact([&](transaction& u) { return u.update(items, {2}, {{"note", "x"}}); }));
  expect_commit(tx);

  transaction back = serial();
  back.scan(items.index("by_a"), {6}, {6}, [](const row&) { FAIL() << "it is 8"; });
  ASSERT_TRUE(set_a(2, 6));
  ASSERT_TRUE(back.update(items, {1}, {{"note", "x"}}));
  EXPECT_EQ(back.commit(), outcome::conflict) << "the row has come into the range";

  transaction away = serial();
  int rows = 0;
  away.scan(items.index("by_a"), {6}, {6}, [&](const row&) { ++rows; });
  EXPECT_EQ(rows, 1);
  ASSERT_TRUE(set_a(2, 9));
  ASSERT_TRUE(away.update(items, {1}, {{"note", "y"}}));
  EXPECT_EQ(away.commit(), outcome::conflict) << "the row has left the range";
  EXPECT_EQ(a_of(old, 2), 6);
}

TEST_P(absence, entries_of_insertions_that_were_rolled_back_are_no_reason) {
  const reader old = base.snapshot();
  {
    transaction gone = base.begin();
    ASSERT_TRUE(gone.insert(items, {50, 40, 500, nullptr}));
  }
  transaction tx = serial();
  tx.scan(items.index("by_a"), {40}, {40}, [](const row&) { FAIL(); });
  ASSERT_TRUE(put(60, 1));  // takes the slot
  expect_commit(tx);
}

/// Values of a unique index that a row had once, or that a row never came to have.
TEST_P(absence, former_values_are_free) {
  table& other = hashed();
  for (table* const t : {&items, &other}) {
    ASSERT_TRUE(
        base.transact([&](transaction& tx) { return tx.insert(*t, {10, 0, 77, nullptr}); }));
    const reader old = base.snapshot();
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.update(*t, {10}, {{"b", 78}}); }));
    {
      transaction gone = base.begin();
      ASSERT_TRUE(gone.insert(*t, {11, 0, 79, nullptr}));
    }
    transaction locks = base.begin();
    ASSERT_TRUE(locks.update(*t, {10}, {{"a", 1}}));
    ASSERT_TRUE(locks.insert(*t, {12, 0, 80, nullptr}));  // takes the slot
    transaction tx = serial();
    EXPECT_TRUE(tx.insert(*t, {13, 0, 77, nullptr})) << "what a row had that is locked";
    EXPECT_TRUE(tx.insert(*t, {14, 0, 79, nullptr})) << "what was rolled back";
    EXPECT_TRUE(tx.commit());
    EXPECT_TRUE(locks.commit());
    EXPECT_EQ(base.transact([&](transaction& u) { return u.update(*t, {10}, {{"b", 77}}); }),
              outcome::duplicate_key);
  }
}

TEST_P(absence, values_that_others_want_are_not_free) {
  table& other = hashed();
  for (table* const t : {&items, &other}) {
    ASSERT_TRUE(
        base.transact([&](transaction& tx) { return tx.insert(*t, {10, 0, 77, nullptr}); }));
    const reader old = base.snapshot();
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.update(*t, {10}, {{"b", 78}}); }));
    const auto wants = [&](transaction& tx) { return tx.insert(*t, {13, 0, 77, nullptr}); };
    transaction early = base.begin();
    {
      transaction back = base.begin();
      ASSERT_TRUE(back.update(*t, {10}, {{"b", 77}}));
      transaction meets = base.begin();
      EXPECT_EQ(wants(meets), outcome::conflict) << "it may get what it had";
      ASSERT_TRUE(back.update(*t, {10}, {{"b", 90}}));
      EXPECT_EQ(base.begin().update(*t, {10}, {{"a", 1}}), outcome::conflict);
    }
    {
      transaction after = base.begin();
      EXPECT_TRUE(wants(after)) << "it was rolled back";
    }
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.update(*t, {10}, {{"b", 77}}); }));
    EXPECT_EQ(wants(early), outcome::conflict) << "it was committed since";
    transaction late = base.begin();
    EXPECT_EQ(wants(late), outcome::duplicate_key);
    // And again, away from it: since `late` began.
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.update(*t, {10}, {{"b", 78}}); }));
    EXPECT_EQ(late.insert(*t, {14, 0, 77, nullptr}), outcome::duplicate_key) << "at its snapshot";
    late.rollback();  // it has asked for the value, too
    transaction now = base.begin();
    EXPECT_TRUE(wants(now));
  }
}

/// A range that was read by an index is read, whatever has become of the index: later changes have
/// no entries in one that was dropped.
TEST_P(absence, in_an_index_that_is_dropped) {
  for (const bool made_again : {false, true}) {
    for (const char* const name : {"by_a", "by_b"}) {
      table& t = base.create_table(
          {.name = std::string(name) + (made_again ? "_again" : ""),
           .columns = {{"id", int64, primary_key},
                       {"a", int64},
                       {"b", int64},
                       {"note", text(20), nullable}},
           .indexes = {{.name = "by_a", .columns = {"a"}},
                       {.name = "by_b", .columns = {"b"}, .kind = index_kind::hash}}});
      ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {100, 0, 0, "x"}); }));
      transaction first = serial();
      first.scan(t.index(name), {7}, {7}, [](const row&) { FAIL(); });
      ASSERT_TRUE(base.drop_index(t, name));
      if (made_again) {
        ASSERT_TRUE(base.create_index(t, {.name = name, .columns = {name + 3}}));
      }
      transaction second = serial();
      ASSERT_FALSE(second.find(t, {1}));
      ASSERT_TRUE(second.insert(t, {2, 7, 7, "second"}));
      ASSERT_TRUE(second.commit());
      ASSERT_TRUE(first.insert(t, {1, 8, 8, "first"}));
      EXPECT_EQ(first.commit(), outcome::conflict) << name << (made_again ? ", made again" : "");
    }
  }
}

/// What another row of the table does is no reason, though the index does not say so any more.
TEST_P(absence, in_an_index_that_is_dropped_beside_other_rows) {
  transaction first = serial();
  first.scan(items.index("by_a"), {7}, {7}, [](const row&) { FAIL(); });
  ASSERT_TRUE(base.drop_index(items, "by_a"));
  ASSERT_TRUE(put(50, 8));
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.update(items, {2}, {{"a", 9}}); }));
  expect_commit(first);
}

/// A scan by an index that was dropped would leave out what the transaction has changed since.
TEST_P(absence, of_own_changes_in_an_index_that_is_dropped) {
  transaction tx = base.begin();
  const secondary& by_a = items.index("by_a");
  std::size_t shown = 0;
  ASSERT_TRUE(base.drop_index(items, "by_a"));
  tx.scan(by_a, {5}, {5}, [&](const row&) { ++shown; });
  EXPECT_EQ(shown, 1U) << "it was there when the transaction began";
  ASSERT_TRUE(tx.insert(items, {3, 5, 30, "own"}));
  EXPECT_THROW(tx.scan(by_a, {5}, {5}, [](const row&) {}), no_result);
}

/// A transaction that waits for the first row that it asks for gets its snapshot after the wait. By
/// then the row's slot may be that of another key, which is there, or was there.
TEST_P(absence, of_a_key_whose_slot_goes_to_another_while_it_is_waited_for) {
  using op = std::function<status(transaction&, table&, std::int64_t)>;
  const op ops[] = {
      [](transaction& tx, table& t, std::int64_t k) { return tx.edit(t, {k}).code(); },
      [](transaction& tx, table& t, std::int64_t k) { return tx.erase(t, {k}); },
      [](transaction& tx, table& t, std::int64_t k) { return tx.insert(t, {k, 9, k, "new"}); }};
  table& other = hashed();
  std::int64_t key = 1000;
  for (table* const t : {&items, &other}) {
    for (const op& f : ops) {
      for (int round = 0; round < 8; ++round, key += 10) {
        const std::int64_t next = key + 1;
        std::unique_ptr<reader> old(new reader(base.snapshot()));  // keeps the slot
        leave_gaps(*t, key, key + 1);
        const std::chrono::seconds patience(60);
        transaction waits = base.begin({.longest_wait = patience});
        transaction holds = base.begin({.longest_wait = patience});
        ASSERT_TRUE(insert(holds, *t, key));
        status got;
        std::thread waiting([&] { got = f(waits, *t, key); });
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // its pauses grow
        old.reset();
        holds.rollback();
        base.collect();
        ASSERT_TRUE(base.transact([&](transaction& tx) { return insert(tx, *t, next); }));
        const bool stays = round % 2 == 0;
        if (!stays) {
          ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.erase(*t, {next}); }));
        }
        waiting.join();
        const bool inserts = &f == &ops[2];
        EXPECT_EQ(got, inserts ? outcome::ok : outcome::not_found);
        EXPECT_TRUE(waits.commit());
        const reader now = base.snapshot();
        EXPECT_EQ(bool(now.find(*t, {key})), inserts);
        EXPECT_EQ(bool(now.find(*t, {next})), stays);
      }
    }
  }
}

}  // namespace
