// SPDX-License-Identifier: Apache-2.0
// Floating-point keys under the order, hash and equality that maps use unless told otherwise: NaN
// is one key and above all others, -0 is 0.
#include "map/float_keys.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <spolia/snapshot.hpp>

namespace {

using namespace spolia;
using namespace spolia::test;

template <class Key>
constexpr Key infinity = std::numeric_limits<Key>::infinity();

template <class Key>
std::vector<Key> nans() {
  const Key quiet = std::numeric_limits<Key>::quiet_NaN();
  std::vector<Key> all{quiet, std::copysign(quiet, Key{-1})};
  if constexpr (std::is_same_v<Key, double>) {
    all.push_back(std::bit_cast<double>(std::uint64_t{0x7FF8000000000123}));  // another payload
    all.push_back(std::bit_cast<double>(std::uint64_t{0xFFF0000000000001}));  // a signalling one
  }
  return all;
}

template <class Map>
void expect_infinities_and_nan(Map& m) {
  using key = typename Map::key_type;
  for (int i = -40; i < 40; ++i) m.insert(static_cast<key>(i), i);
  for (const key& nan : nans<key>()) {
    EXPECT_TRUE(m.insert(nan, 1000));
    for (const key& same : nans<key>()) {
      EXPECT_EQ(m.find(same), 1000);
      EXPECT_FALSE(m.insert(same, 1));
      EXPECT_FALSE(m.insert_or_assign(same, 1000));
    }
    EXPECT_TRUE(m.insert(infinity<key>, 999));
    EXPECT_TRUE(m.insert(-infinity<key>, -999));
    EXPECT_EQ(m.find(infinity<key>), 999);
    EXPECT_EQ(m.find(-infinity<key>), -999);
    EXPECT_EQ(m.find(key{-0.0}), 0);
    EXPECT_EQ(m.size_approx(), 83U);
    for (int i = -40; i < 40; ++i) EXPECT_EQ(m.find(static_cast<key>(i)), i);
    EXPECT_TRUE(m.erase(infinity<key>));
    EXPECT_TRUE(m.erase(-infinity<key>));
    EXPECT_TRUE(m.erase(nan));
    EXPECT_FALSE(m.erase(nan));
    EXPECT_EQ(m.size_approx(), 80U);
    EXPECT_TRUE(m.erase(key{-0.0}));
    EXPECT_TRUE(m.insert(key{-0.0}, 0));
    EXPECT_FALSE(m.insert(key{0}, 5));
  }
}

template <class Map>
void expect_order(Map& m) {
  using key = typename Map::key_type;
  auto keys = finite_keys<key>();
  keys.push_back(infinity<key>);
  keys.push_back(-infinity<key>);
  for (const key& k : keys) m.insert(k, 1);
  m.insert(nans<key>().front(), 2);
  std::vector<key> shown;
  m.for_each([&](const key& k, int) { shown.push_back(k); });
  std::sort(keys.begin(), keys.end());
  ASSERT_EQ(shown.size(), keys.size() + 1);
  EXPECT_TRUE(std::isnan(shown.back())) << "NaN is above all";
  shown.pop_back();
  EXPECT_EQ(shown, keys);
  // Ranges begin and end at NaN as at any key.
  std::size_t n = 0;
  m.range(infinity<key>, nans<key>().back(), [&](const key& k, int) {
    ++n;
    EXPECT_EQ(k, infinity<key>);
  });
  EXPECT_EQ(n, 1U);
  m.range(nans<key>().back(), nans<key>().front(), [&](const key&, int) { ADD_FAILURE(); });
  m.range(key{-0.0}, key{1}, [&](const key& k, int) {
    EXPECT_GE(k, key{0});
    ++n;
  });
  EXPECT_EQ(n, 1U + 22U);  // 0, 0.5 and twenty small ones
}

template <class Key, class Made>
void expect_all() {
  expect_all_kept<Made>(finite_keys<Key>());
  const auto m = Made::make();
  expect_infinities_and_nan(*m);
  if constexpr (is_ordered<typename Made::map>) {
    const auto other = Made::make();
    expect_order(*other);
  }
}

template <class Made>
struct keys_of_double : testing::Test {};
TYPED_TEST_SUITE(keys_of_double, float_maps<double>::all);
TYPED_TEST(keys_of_double, have_one_nan_above_all) { expect_all<double, TypeParam>(); }

template <class Made>
struct keys_of_float : testing::Test {};
TYPED_TEST_SUITE(keys_of_float, float_maps<float>::some);
TYPED_TEST(keys_of_float, have_one_nan_above_all) { expect_all<float, TypeParam>(); }

template <class Made>
struct keys_of_long_double : testing::Test {};
TYPED_TEST_SUITE(keys_of_long_double, float_maps<long double>::some);
TYPED_TEST(keys_of_long_double, have_one_nan_above_all) { expect_all<long double, TypeParam>(); }

TEST(float_keys, are_found_downwards_and_at_snapshots) {
  abtree<double, int> tree;
  snapshot_tree<double, int> past;
  snapshot_hash<double, int> table;
  for (const double k : {-infinity<double>, -1.0, -0.0, 1.0, infinity<double>}) {
    tree.insert(k, 1);
    past.insert(k, 1);
  }
  for (const double nan : nans<double>()) {
    tree.insert_or_assign(nan, 7);
    past.insert_or_assign(nan, 7);
    table.insert_or_assign(nan, 7);
  }
  std::vector<double> down;
  tree.for_each_down([&](double k, int) { down.push_back(k); });
  ASSERT_EQ(down.size(), 6U);
  EXPECT_TRUE(std::isnan(down.front()));
  EXPECT_TRUE(std::is_sorted(down.rbegin(), down.rend() - 1));
  std::vector<std::pair<double, int>> within;
  tree.runs(-1.0, infinity<double>, [&](auto run) {
    within.insert(within.end(), run.begin(), run.end());
    return true;
  });
  EXPECT_EQ(within, (std::vector<std::pair<double, int>>{{-1.0, 1}, {0.0, 1}, {1.0, 1}}));
  const snapshot now;
  past.erase(nans<double>().back());
  table.erase(nans<double>().back());
  for (const double nan : nans<double>()) {
    ASSERT_NE(past.find(now, nan), nullptr);
    ASSERT_NE(table.find(now, nan), nullptr);
    EXPECT_FALSE(past.contains(nan));
    EXPECT_FALSE(table.contains(nan));
  }
  EXPECT_EQ(past.size(now), 6U);
  EXPECT_EQ(table.size(now), 1U);
}

/// abtree keeps the ranks of keys, so it shows each key as one of those that are equal to it.
template <class Key>
void expect_one_zero_and_one_nan() {
  for (const Key zero : {Key{0}, -Key{0}}) {
    abtree<Key, int> tree;
    tree.insert(zero, 0);
    tree.insert(-std::numeric_limits<Key>::denorm_min(), 0);
    tree.insert(std::copysign(std::numeric_limits<Key>::quiet_NaN(), Key{-1}), 0);
    std::vector<Key> shown;
    tree.for_each([&](const Key& k, int) { shown.push_back(k); });
    ASSERT_EQ(shown.size(), 3U);
    EXPECT_EQ(shown[0], -std::numeric_limits<Key>::denorm_min());
    EXPECT_EQ(shown[1], Key{0});
    EXPECT_FALSE(std::signbit(shown[1]));
    EXPECT_TRUE(std::isnan(shown[2]));
    EXPECT_FALSE(std::signbit(shown[2]));
  }
}
TEST(float_keys, are_shown_without_the_sign_of_zero_and_nan) {
  expect_one_zero_and_one_nan<float>();
  expect_one_zero_and_one_nan<double>();
}

TEST(float_keys, only_they_are_ordered_otherwise) {
  EXPECT_TRUE((std::is_same_v<default_order<int>, std::less<int>>));
  EXPECT_TRUE((std::is_same_v<default_hash<void*>, std::hash<void*>>));
  EXPECT_TRUE((std::is_same_v<abtree<long, int>::key_compare, std::less<long>>));
  EXPECT_FALSE((std::is_same_v<abtree<float, int>::key_compare, std::less<float>>));
  // What a user names is taken as it is, also where there are infinities.
  abtree<double, int, domain<>, std::less<double>> named;
  for (const double k : {infinity<double>, -infinity<double>, 1.0}) EXPECT_TRUE(named.insert(k, 1));
  for (const double k : {infinity<double>, -infinity<double>, 1.0}) EXPECT_TRUE(named.contains(k));
  EXPECT_FALSE(named.insert(infinity<double>, 1));
}

}  // namespace
