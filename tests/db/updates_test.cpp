// SPDX-License-Identifier: Apache-2.0
// Updates of several columns at once: all of them, or none.

#include <gtest/gtest.h>

#include <cstdint>
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

}  // namespace
