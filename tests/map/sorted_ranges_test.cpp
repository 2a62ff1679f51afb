// SPDX-License-Identifier: Apache-2.0
// Maps that are made of ranges that are sorted.
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <spolia/map/counted_btree.hpp>

namespace {

using namespace spolia;

/// Of several sizes, so that all kinds of last nodes are there, and of three levels.
TEST(sorted_ranges, become_a_map_like_any_other) {
  for (const int n : {0, 1, 28, 29, 57, 28 * 384, 28 * 384 + 1, 30'000}) {
    std::map<int, int> like;
    for (int i = 0; i < n; ++i) like.emplace_hint(like.end(), 3 * i, i);
    counted_btree<int, int> map(sorted_unique, like.begin(), like.end());
    EXPECT_EQ(map.size_approx(), like.size());
    // Before, between, after, and instead of those that are there.
    for (int key = -1; key < 3 * n; key += 41) {
      EXPECT_EQ(map.insert(key, -key), like.emplace(key, -key).second) << n;
    }
    for (int key = 0; key < 3 * n; key += 33) EXPECT_EQ(map.erase(key), like.erase(key) != 0) << n;
    std::map<int, int> found;
    map.for_each([&](int key, int value) { found.emplace_hint(found.end(), key, value); });
    EXPECT_EQ(found, like) << n;
  }
}

TEST(sorted_ranges, that_are_not_sorted_are_refused) {
  using strings = std::vector<std::pair<std::string, int>>;
  const auto refused = [](const strings& pairs) {
    EXPECT_THROW((counted_btree<std::string, int>(sorted_unique, pairs.begin(), pairs.end())),
                 std::invalid_argument);
  };
  strings many;
  for (int i = 100; i < 500; ++i) many.emplace_back("key " + std::to_string(i), i);
  counted_btree<std::string, int> map(sorted_unique, many.begin(), many.end());
  EXPECT_EQ(map.find("key 499"), 499);
  many[300].first = many[299].first;
  refused(many);
  many[300].first = "key 0";
  refused(many);
  refused({{"b", 1}, {"a", 2}});

  const std::vector<std::pair<double, int>> two_of_none = {
      {std::numeric_limits<double>::quiet_NaN(), 1}, {std::numeric_limits<double>::quiet_NaN(), 2}};
  EXPECT_THROW((counted_btree<double, int>(sorted_unique, two_of_none.begin(), two_of_none.end())),
               std::invalid_argument);
}

}  // namespace
