// SPDX-License-Identifier: Apache-2.0
// avl: what one thread sees, under a scheme of each kind that protects it.
#include <spolia/map/avl.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <spolia/map/concepts.hpp>

#include "map/one_thread_suite.hpp"

namespace spolia::test {
namespace {

static_assert(concurrent_map<avl<int, int>>);
static_assert(concurrent_map<avl<std::string, std::string, domain<debra, pooled>>>);
static_assert(concurrent_map<avl<int, int, domain<none>, std::greater<int>>>);

using avl_subjects = subjects<avls, domains_of_each_way>;
INSTANTIATE_TYPED_TEST_SUITE_P(avl, map_of_one_thread, avl_subjects, subject_names);

TEST(avl, is_balanced_whatever_the_order_of_keys) {
  const auto expect_low = [](const auto& m) {
    const auto found = m.audit();
    EXPECT_EQ(found.wrong, "");
    EXPECT_EQ(found.violations, 0U);
    const auto nodes = static_cast<double>(found.pairs + found.routers);
    EXPECT_LE(found.height, 1.4405 * std::log2(nodes + 2)) << nodes << " nodes";
  };
  avl<std::uint64_t, int> up;
  avl<std::uint64_t, int> zigzag;
  avl<std::uint64_t, int> any;
  rng random(seed_for(0));
  for (std::uint64_t k = 0; k < 5000; ++k) {
    up.insert(k, 0);
    zigzag.insert(k % 2 == 0 ? k : 10'000 - k, 0);
    const std::uint64_t key = random.below(3000);
    if (!any.insert(key, 0)) any.erase(key);
    if (k % 100 == 0) expect_low(any);
  }
  expect_low(up);
  expect_low(zigzag);
}

TEST(avl, a_node_goes_when_it_is_not_needed_to_route) {
  region_domain d;
  avl<int, int> m(d);
  for (const int k : {20, 10, 30}) m.insert(k, k);
  EXPECT_TRUE(m.erase(20));  // has two children
  EXPECT_EQ(d.stats().retired, 0U);
  EXPECT_EQ(m.audit().routers, 1U);
  EXPECT_FALSE(m.contains(20));
  EXPECT_TRUE(m.insert(20, 21));
  EXPECT_EQ(m.audit().routers, 0U);
  EXPECT_EQ(m.find(20), 21);
  EXPECT_TRUE(m.erase(20));
  EXPECT_TRUE(m.erase(10));  // and 20 with it
  EXPECT_EQ(d.stats().retired, 2U);
  EXPECT_EQ(m.audit().routers, 0U);
  EXPECT_TRUE(m.erase(30));
  EXPECT_EQ(d.stats().retired, 3U);
}

TEST(avl, a_value_in_a_block_is_retired_with_the_pair_or_replaced) {
  region_domain d;
  avl<int, std::string> m(d);
  for (const int k : {20, 10, 30}) m.insert(k, "text");
  EXPECT_FALSE(m.insert_or_assign(20, "other"));
  EXPECT_EQ(d.stats().retired, 1U);
  EXPECT_TRUE(m.erase(20));
  EXPECT_EQ(d.stats().retired, 2U);
  EXPECT_TRUE(m.erase(10));
  EXPECT_EQ(d.stats().retired, 5U);
}

template <class Value>
void expect_values_kept(const Value& one, const Value& other) {
  avl<int, Value> m;
  EXPECT_TRUE(m.insert(1, one));
  EXPECT_EQ(*m.find(1), one);
  EXPECT_FALSE(m.insert_or_assign(1, other));
  EXPECT_EQ(*m.find(1), other);
  EXPECT_TRUE(m.erase(1));
  EXPECT_FALSE(m.find(1).has_value());
}

TEST(avl, values_of_all_sizes) {
  expect_values_kept<char>('a', 'b');
  expect_values_kept<bool>(false, true);
  expect_values_kept<double>(0.5, -1e300);
  expect_values_kept<std::array<char, 3>>({'a', 'b', 'c'}, {'x', 'y', 'z'});
  expect_values_kept<std::array<std::uint64_t, 4>>({1, 2, 3, 4}, {4, 3, 2, 1});
}

}  // namespace
}  // namespace spolia::test
