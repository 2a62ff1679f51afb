// SPDX-License-Identifier: Apache-2.0
// Updates of several columns at once: all of them, or none; and rows that are put in or replaced.

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "db/storages.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using spolia::test::over_storages;

class updates : public over_storages {};
SPOLIA_OVER_STORAGES(updates);

/// A change of several columns is one call: if it fails, nothing of it was done.
TEST_P(updates, an_update_is_done_whole_or_not_at_all) {
  ASSERT_TRUE(put(1, 5));
  ASSERT_TRUE(put(2, 6));
  transaction tx = base.begin();
  EXPECT_EQ(tx.update(items, {1}, {{"a", 7}, {"b", 20}}), outcome::duplicate_key);
  EXPECT_EQ(a_of(tx, 1), 5);
  EXPECT_THROW(static_cast<void>(tx.update(items, {1}, {{"a", 7}, {"b", nullptr}})),
               std::invalid_argument);
  EXPECT_EQ(tx.update(items, {1}, {{"a", 7}, {"note", std::string(21, 'x')}}), outcome::too_long);
  EXPECT_THROW(static_cast<void>(tx.update(items, {1}, {{"a", 7}, {"id", 3}})),
               std::invalid_argument);
  EXPECT_EQ(a_of(tx, 1), 5);
  EXPECT_TRUE(tx.commit());
  EXPECT_EQ(a_now(1), 5);
}

/// By programs that learn columns and keys while they run.
TEST_P(updates, what_is_set_may_be_kept_somewhere) {
  ASSERT_TRUE(put(1, 5));
  const std::vector<value> key = {1};
  const std::vector<assignment> changes = {{"a", 7}, {"note", std::string(20, 'y')}};
  transaction tx = base.begin();
  EXPECT_TRUE(tx.update(items, key, changes));
  EXPECT_EQ(a_of(tx, 1), 7);
  EXPECT_TRUE(tx.update(items, {1}, std::span(changes).subspan(1)));
  EXPECT_EQ(tx.update(items, std::vector<value>{2}, {{"a", 8}}), outcome::not_found);
  EXPECT_TRUE(tx.update(items, key, {{"a", 8}}));
  EXPECT_TRUE(tx.update(items, key, {}));
  EXPECT_TRUE(tx.update(items, {1}, {}));
  EXPECT_TRUE(tx.commit());
  EXPECT_EQ(a_now(1), 8);
  EXPECT_EQ(base.snapshot().find(items, key)->get(note), std::string(20, 'y'));
}

/// Of a key over several columns only what the call ends with counts.
TEST_P(updates, an_update_is_no_row_of_steps_to_a_unique_index) {
  table& t =
      base.create_table({.name = "t",
                         .columns = {{"k", int64, primary_key}, {"x", int64}, {"y", int64}},
                         .indexes = {{.name = "by_xy", .columns = {"x", "y"}, .unique = true}}});
  ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
    if (const status s = tx.insert(t, {1, 1, 1}); !s) return s;
    return tx.insert(t, {2, 2, 1});
  }));
  EXPECT_TRUE(base.transact([&](transaction& tx) {
    return tx.update(t, {1}, {{"x", 2}, {"y", 2}});  // (2, 1) is taken
  }));
  int n = 0;
  base.snapshot().scan(t.index("by_xy"), {2, 2}, {2, 2}, [&](const row&) { ++n; });
  EXPECT_EQ(n, 1);
}

/// Nor is what an editor sets by one call. Column by column it passes through what is taken.
TEST_P(updates, an_editor_sets_several_columns_as_one_change) {
  table& t =
      base.create_table({.name = "t",
                         .columns = {{"k", int64, primary_key}, {"x", int64}, {"y", int64}},
                         .indexes = {{.name = "by_xy", .columns = {"x", "y"}, .unique = true}}});
  ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
    if (const status s = tx.insert(t, {1, 1, 1}); !s) return s;
    return tx.insert(t, {2, 2, 1});
  }));
  const auto x = t.column<std::int64_t>("x");
  const auto y = t.column<std::int64_t>("y");
  const auto keys_of = [&](const reader& at, std::int64_t of_x, std::int64_t of_y) {
    std::vector<std::int64_t> all;
    at.scan(t.index("by_xy"), {of_x, of_y}, {of_x, of_y},
            [&](const row& r) { all.push_back(r.get(t.column<std::int64_t>("k"))); });
    return all;
  };
  using keys = std::vector<std::int64_t>;
  transaction tx = base.begin();
  auto one = tx.edit(t, {1});
  ASSERT_TRUE(one);
  EXPECT_EQ(one->set(x, 2), outcome::duplicate_key) << "(2, 1) is taken";
  EXPECT_TRUE(one->set({{"x", 2}, {"y", 2}}));
  EXPECT_EQ(one->get(x), 2);
  EXPECT_EQ(one->get(y), 2);
  EXPECT_EQ(keys_of(tx, 2, 2), keys({1}));
  EXPECT_EQ(keys_of(tx, 1, 1), keys());
  const status taken = one->set({{"y", 1}, {"x", 2}});
  EXPECT_EQ(taken, outcome::duplicate_key);
  EXPECT_NE(taken.reason().find("by_xy"), std::string_view::npos) << taken.reason();
  EXPECT_EQ(one->get(y), 2) << "nothing has changed";
  EXPECT_EQ(keys_of(tx, 2, 1), keys({2}));
  EXPECT_TRUE(one->set({}));
  EXPECT_THROW(static_cast<void>(one->set({{"x", 5}, {"k", 9}})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(one->set({{"x", 5}, {"z", 9}})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(one->set({{"x", 5}, {"y", 6}, {"x", 7}})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(tx.update(t, {1}, {{"x", 5}, {"x", 5}})), std::invalid_argument);
  EXPECT_EQ(one->get(x), 2);
  // Two rows change places by a third value, as with update().
  auto two = tx.edit(t, {2});
  ASSERT_TRUE(two);
  EXPECT_EQ(two->set({{"x", 2}, {"y", 2}}), outcome::duplicate_key);
  EXPECT_TRUE(two->set({{"x", 0}, {"y", 0}}));
  EXPECT_TRUE(one->set({{"x", 2}, {"y", 1}}));
  EXPECT_TRUE(two->set({{"x", 2}, {"y", 2}}));
  ASSERT_TRUE(tx.erase(t, {1}));
  EXPECT_EQ(one->set({{"x", 7}}), outcome::not_found);
  EXPECT_TRUE(tx.commit());
  EXPECT_EQ(two->set({{"x", 8}}), outcome::ended);
  EXPECT_EQ(keys_of(base.snapshot(), 2, 2), keys({2}));
  EXPECT_EQ(keys_of(base.snapshot(), 2, 1), keys());
}

// ---- put

TEST_P(updates, put_inserts_a_row_or_sets_all_of_the_one_that_is_there) {
  transaction tx = base.begin();
  const put_status made = tx.put(items, {1, 5, 10, "one"});
  EXPECT_TRUE(made && made.inserted());
  const put_status replaced = tx.put(items, {1, 6, 11, nullptr});
  EXPECT_TRUE(replaced && !replaced.inserted());
  EXPECT_EQ(tx.insert(items, {1, 7, 12, nullptr}), outcome::duplicate_key);
  EXPECT_TRUE(tx.commit());
  const auto first = base.snapshot().find(items, {1});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->get(a), 6);
  EXPECT_EQ(first->get(b), 11);
  EXPECT_TRUE(first->null(note));

  const std::vector<value> kept = {1, 8, 13, "kept"};
  EXPECT_TRUE(base.transact([&](transaction& then) -> status {
    if (const status s = then.erase(items, {1}); !s) return s;
    if (const status s = then.put(items, kept); !s) return s;
    return then.put(items, {2, 9, 14, nullptr});
  }));
  EXPECT_TRUE(base.transact([&](transaction& then) { return then.put(items, kept); }))
      << "the unique value is its own";
  EXPECT_EQ(a_now(1), 8);
  EXPECT_EQ(a_now(2), 9);
  int of_former = 0;
  base.snapshot().scan(items.index("by_a"), {5}, {7}, [&](const row&) { ++of_former; });
  EXPECT_EQ(of_former, 0) << "the index follows";
}

TEST_P(updates, put_that_is_refused_changes_nothing) {
  ASSERT_TRUE(put(1, 5));
  ASSERT_TRUE(put(2, 6));
  transaction tx = base.begin();
  for (const std::int64_t key : {1, 3}) {  // a row, and none
    const put_status taken = tx.put(items, {key, 7, 20, nullptr});
    EXPECT_EQ(taken, outcome::duplicate_key);
    EXPECT_FALSE(taken.inserted());
    EXPECT_NE(taken.reason().find("by_b"), std::string_view::npos) << taken.reason();
    EXPECT_EQ(tx.put(items, {key, 7, 30, std::string(21, 'x')}), outcome::too_long);
    EXPECT_THROW(static_cast<void>(tx.put(items, {key, nullptr, 30, "x"})), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(tx.put(items, {key, 7, 30})), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(tx.put(items, {key, "seven", 30, "x"})), std::invalid_argument);
  }
  EXPECT_EQ(a_of(tx, 1), 5);
  EXPECT_EQ(a_of(tx, 3), -1);
  const auto before = tx.savepoint();
  EXPECT_TRUE(tx.put(items, {1, 8, 40, nullptr}));
  EXPECT_TRUE(tx.put(items, {3, 8, 41, nullptr}));
  EXPECT_TRUE(tx.rollback_to(before));
  EXPECT_TRUE(tx.commit());
  EXPECT_EQ(a_now(1), 5);
  EXPECT_EQ(a_now(3), -1);
}

/// Neither a row that another transaction has put in since, nor the end of one, is passed over.
TEST_P(updates, put_after_another_transactions_change_is_a_conflict) {
  ASSERT_TRUE(put(1, 5));
  for (const std::int64_t key : {1, 2}) {
    transaction late = base.begin();
    ASSERT_TRUE(base.transact([&](transaction& tx) {
      return key == 1 ? tx.erase(items, {key}) : tx.put(items, {key, 6, key, nullptr});
    }));
    EXPECT_EQ(late.put(items, {key, 7, key, nullptr}), outcome::conflict);
  }
  EXPECT_EQ(a_now(1), -1);
  EXPECT_EQ(a_now(2), 6);
}

/// Keys that are not the first columns, values apart, and tables of keys alone.
TEST_P(updates, put_finds_the_key_wherever_its_columns_are) {
  table& t = base.create_table({.name = "t",
                                .columns = {{"long", text()},
                                            {"second", text(8), primary_key},
                                            {"n", int64, nullable},
                                            {"first", int64, primary_key}}});
  table& keys = base.create_table({.name = "keys", .columns = {{"k", int64, primary_key}}});
  for (const char* const text : {"one", "two"}) {
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      if (const status s = tx.put(keys, {1}); !s) return s;
      return tx.put(t, {std::string(900, *text), "x", nullptr, 4});
    }));
  }
  const reader now = base.snapshot();
  const auto found = now.find(t, {"x", 4});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->get(t.column<std::string_view>("long")), std::string(900, 't'));
  int rows = 0;
  now.for_each(t, [&](const row&) { ++rows; });
  now.for_each(keys, [&](const row&) { ++rows; });
  EXPECT_EQ(rows, 2);
}

// ---- scans whose ends are left out

/// Against scans with both ends, over an index of two columns: keys, and what begins as keys do.
TEST(scans, leave_an_end_out) {
  database base = database::open();
  table& t = base.create_table(
      {.name = "t",
       .columns = {{"x", int64, primary_key}, {"y", int64, primary_key}},
       .primary = index_kind::ordered,
       .indexes = {{"by_yx", {"y", "x"}},
                   {.name = "hashed", .columns = {"x"}, .kind = index_kind::hash}}});
  constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::int64_t> all = {lowest, -1, 0, 7, highest};
  ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
    for (const std::int64_t i : all) {
      for (const std::int64_t j : all) {
        if (status s = tx.insert(t, {i, j}); !s) return s;
      }
    }
    return {};
  }));
  const reader now = base.snapshot();
  const auto rows = [&](const auto& in, const key_bound& from, const key_bound& to, bool down) {
    int n = 0;
    const auto count = [&](const row&) { ++n; };
    down ? now.scan_down(in, from, to, count) : now.scan(in, from, to, count);
    return n;
  };
  const auto compare = [&](const auto& in) {
    for (const bool down : {false, true}) {
      const int whole = rows(in, {}, {}, down);
      EXPECT_EQ(rows(in, key_after(values()), key_before(values()), down), whole) << "no limits";
      for (const std::int64_t i : all) {
        const int up_to = rows(in, {}, {i}, down);
        EXPECT_EQ(rows(in, key_after({i}), {}, down), whole - up_to) << i;
        EXPECT_EQ(rows(in, key_after(i), {}, down), whole - up_to) << i;
        EXPECT_EQ(rows(in, {}, key_before({i}), down), whole - rows(in, {i}, {}, down)) << i;
        EXPECT_EQ(rows(in, key_after({i}), key_before({i}), down), 0) << i;
        for (const std::int64_t j : all) {
          const std::vector<value> key = {i, j};
          EXPECT_EQ(rows(in, key_after(key), {}, down), whole - rows(in, {}, key, down));
          EXPECT_EQ(rows(in, {}, key_before({i, j}), down), whole - rows(in, {i, j}, {}, down));
        }
      }
    }
  };
  compare(t);
  compare(t.index("by_yx"));
  const auto nothing = [](const row&) {};
  EXPECT_THROW(now.scan(t, key_before({1}), {}, nothing), std::invalid_argument);
  EXPECT_THROW(now.scan(t, {}, key_after({1}), nothing), std::invalid_argument);
  EXPECT_THROW(now.scan(t.index("hashed"), key_after({7}), {7}, nothing), std::invalid_argument);
  EXPECT_THROW(now.scan(t.index("hashed"), {7}, key_before({7}), nothing), std::invalid_argument);
}

/// What a serializable transaction has left out it has not read.
TEST(scans, that_leave_an_end_out_have_not_read_it) {
  database base = database::open();
  table& t = base.create_table(
      {.name = "t", .columns = {{"k", int64, primary_key}}, .primary = index_kind::ordered});
  for (const bool ends : {false, true}) {
    transaction tx = base.begin({.isolation = isolation::serializable});
    const auto nothing = [](const row&) {};
    ends ? tx.scan(t, {1}, {9}, nothing) : tx.scan(t, key_after({1}), key_before({9}), nothing);
    ASSERT_TRUE(base.transact([&](transaction& other) -> status {
      if (auto s = other.put(t, {1}); !s) return s;
      return other.put(t, {9});
    }));
    ASSERT_TRUE(tx.insert(t, {ends ? 20 : 30}));
    EXPECT_EQ(tx.commit(), ends ? outcome::conflict : outcome::ok);
    ASSERT_TRUE(base.transact([&](transaction& other) -> status {
      if (auto s = other.erase(t, {1}); !s) return s;
      return other.erase(t, {9});
    }));
  }
}

}  // namespace
