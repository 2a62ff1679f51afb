// SPDX-License-Identifier: Apache-2.0
// Maps that are made of ranges that are sorted.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <spolia/map/abtree.hpp>
#include <spolia/map/counted_btree.hpp>
#include <spolia/map/counted_btree_locked.hpp>
#include <spolia/map/snapshot_tree.hpp>

#include "support/faults.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

template <class Map>
void expect_sound(const Map& map) {
  if constexpr (requires { map.audit(); }) {
    const auto found = map.audit();
    EXPECT_EQ(found.wrong, "");
    EXPECT_EQ(found.violations, 0U);
    EXPECT_EQ(found.pairs, map.size_approx());
    if constexpr (requires { found.vacant; }) {
      EXPECT_EQ(found.vacant + found.unforeseen, 0U);
    }
  }
}

/// Of several sizes, so that all kinds of last nodes are there, and of three levels.
template <class Map>
void expect_a_map_like_any_other() {
  using key_of = typename Map::key_type;
  for (const int n : {0, 1, 11, 12, 28, 29, 57, 28 * 384, 28 * 384 + 1, 30'000}) {
    std::map<key_of, int> like;
    for (int i = 0; i < n; ++i) like.emplace_hint(like.end(), static_cast<key_of>(3 * i), i);
    Map map(sorted_unique, like.begin(), like.end());
    expect_sound(map);
    EXPECT_EQ(map.size_approx(), like.size());
    // Before, between, after, and instead of those that are there.
    for (int i = -1; i < 3 * n; i += 41) {
      const auto key = static_cast<key_of>(i);
      EXPECT_EQ(map.insert(key, i), like.emplace(key, i).second) << n;
    }
    for (int i = 0; i < 3 * n; i += 33) {
      const auto key = static_cast<key_of>(i);
      EXPECT_EQ(map.erase(key), like.erase(key) != 0) << n;
    }
    expect_sound(map);
    std::map<key_of, int> found;
    map.for_each([&](key_of key, int value) { found.emplace_hint(found.end(), key, value); });
    EXPECT_EQ(found, like) << n;
  }
}
TEST(sorted_ranges, become_a_map_like_any_other) {
  expect_a_map_like_any_other<counted_btree<int, int>>();
  expect_a_map_like_any_other<counted_btree_locked<int, int>>();
  expect_a_map_like_any_other<abtree<int, int>>();
  expect_a_map_like_any_other<abtree<double, int>>();
  expect_a_map_like_any_other<snapshot_tree<int, int>>();
}

using strings = std::vector<std::pair<std::string, int>>;
template <class Map>
void expect_refusal(strings pairs) {
  Map map(sorted_unique, pairs.begin(), pairs.end());
  expect_sound(map);
  EXPECT_EQ(map.find("key 499"), 499);
  const auto refused = [&] {
    EXPECT_THROW(Map(sorted_unique, pairs.begin(), pairs.end()), std::invalid_argument);
  };
  pairs[300].first = pairs[299].first;
  refused();
  pairs[300].first = "key 0";
  refused();
  pairs = {{"b", 1}, {"a", 2}};
  refused();
}

TEST(sorted_ranges, that_are_not_sorted_are_refused) {
  strings many;
  for (int i = 100; i < 500; ++i) many.emplace_back("key " + std::to_string(i), i);
  expect_refusal<counted_btree<std::string, int>>(many);
  expect_refusal<abtree<std::string, int>>(many);
  expect_refusal<snapshot_tree<std::string, int>>(many);

  const std::vector<std::pair<double, int>> two_of_none = {
      {std::numeric_limits<double>::quiet_NaN(), 1}, {std::numeric_limits<double>::quiet_NaN(), 2}};
  EXPECT_THROW((counted_btree<double, int>(sorted_unique, two_of_none.begin(), two_of_none.end())),
               std::invalid_argument);
}

/// What had been made ends with it: the leak checker sees to that.
template <class Map>
void expect_that_failures_leave_nothing(const strings& pairs) {
  bool made = false;
  for (std::uint64_t n = 1; !made; ++n) {
    const fail_after nth(n);
    try {
      const Map map(sorted_unique, pairs.begin(), pairs.end());
      made = true;
    } catch (const std::bad_alloc&) {
    }
  }
}
TEST(sorted_ranges, that_memory_is_wanting_for_leave_nothing) {
  strings some;
  for (int i = 100; i < 300; ++i) some.emplace_back("the key of number " + std::to_string(i), i);
  expect_that_failures_leave_nothing<counted_btree<std::string, int>>(some);
  expect_that_failures_leave_nothing<abtree<std::string, int>>(some);
  expect_that_failures_leave_nothing<snapshot_tree<std::string, int>>(some);
}

TEST(sorted_ranges, are_seen_by_later_snapshots_only) {
  std::map<int, int> like;
  for (int i = 0; i < 1000; ++i) like.emplace(i, -i);
  timeline time;
  const snapshot before(time);
  const snapshot_tree<int, int> map(sorted_unique, like.begin(), like.end(), time);
  const snapshot after(time);
  EXPECT_EQ(map.size(before), 0U);
  EXPECT_EQ(map.find(before, 500), nullptr);
  EXPECT_EQ(map.size(after), 1000U);
  ASSERT_NE(map.find(after, 500), nullptr);
  EXPECT_EQ(*map.find(after, 500), -500);
}

}  // namespace
