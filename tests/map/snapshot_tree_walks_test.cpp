// SPDX-License-Identifier: Apache-2.0
// snapshot_tree: iterators at a snapshot, which learn of leaves some time before they look into
// them.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <vector>

#include <spolia/map/changes.hpp>
#include <spolia/map/snapshot_tree.hpp>
#include <spolia/snapshot.hpp>
#include <spolia/version/lease.hpp>

#include "support/stress.hpp"

namespace spolia::test {
namespace {

using number = std::int64_t;

/// Calls a function at comparisons with some key, or throws at the n-th comparison from now on.
struct watched_order {
  static inline std::function<void()> at_comparison;
  static inline std::optional<number> of;
  static inline int throws_in = 0;  // 0: never
  bool operator()(number a, number b) const {
    if (throws_in != 0 && --throws_in == 0) throw std::runtime_error("comparing");
    if (of && (a == *of || b == *of)) {
      of.reset();
      at_comparison();
    }
    return a < b;
  }
};
using tree = snapshot_tree<number, number, sl_rt<>, watched_order, 4>;

std::vector<number> keys_of(auto&& all) {
  std::vector<number> keys;
  for (const auto& [key, value] : all) keys.push_back(key);
  return keys;
}

/// While a batch is under way there are leaves in which a snapshot sees nothing: here many that
/// follow each other.
TEST(walks_of_a_tree, go_over_any_number_of_leaves_that_show_nothing) {
  timeline time;
  tree m(time);
  std::vector<number> before;
  for (number key = 0; key < 10; ++key) before.push_back(key);
  for (number key = 5000; key < 5010; ++key) before.push_back(key);
  for (const number key : before) m.insert(key, key);
  changes batch;
  for (number key = 1000; key < 3000; ++key) batch.insert(m, key, key);
  std::optional<snapshot> then;
  watched_order::at_comparison = [&] { then.emplace(time); };
  watched_order::of = 2990;
  batch.commit();
  ASSERT_TRUE(then);
  ASSERT_GT(m.audit().leaves, 300U);
  EXPECT_EQ(keys_of(m.all(*then)), before);
  std::vector<number> backwards = keys_of(m.all(*then) | std::views::reverse);
  std::ranges::reverse(backwards);
  EXPECT_EQ(backwards, before);
  EXPECT_TRUE(keys_of(m.range(*then, 1000, 3000)).empty());
  EXPECT_EQ(keys_of(m.range(*then, 9, 5001)), (std::vector<number>{9, 5000}));
  EXPECT_EQ(m.size(snapshot(time)), 2020U);
}

/// Steps at random in both directions, while the tree changes, and its shortcuts are out of date.
TEST(walks_of_a_tree, are_those_of_a_map_whatever_their_steps) {
  constexpr number keys = 6000;
  timeline time;
  snapshot_tree<number, number, sl_rt<>, std::less<number>, 4> m(time);
  std::map<number, number> model;
  rng random(seed_for(0));
  const auto some_key = [&] { return static_cast<number>(random.below(keys)); };
  const auto change = [&] {
    const number from = some_key();
    for (number key = from; key < from + 100; ++key) {
      ASSERT_EQ(m.erase(key), model.erase(key) == 1);
    }
    for (int i = 0; i < 100; ++i) {
      const number key = some_key();
      ASSERT_EQ(m.insert(key, from), model.emplace(key, from).second);
    }
  };
  for (int i = 0; i < 100; ++i) change();
  for (int round = 0; round < 60; ++round) {
    const snapshot then(time);
    const std::map<number, number> past = model;
    const number lo = some_key();
    const number hi = lo + static_cast<number>(random.below(3000));
    const auto some = m.range(then, lo, hi);
    const auto first = past.lower_bound(lo);
    const auto end = past.lower_bound(hi);
    auto shown = first;
    m.for_each(lease(time, std::chrono::hours(1)), [&](number key, number) {
      if (key < lo || key >= hi) return;
      ASSERT_NE(shown, end);
      ASSERT_EQ(key, (shown++)->first);
    });
    ASSERT_TRUE(shown == end || hi < lo);
    auto expected = first;
    auto at = some.begin();
    number step = 1;
    for (int i = 0; i < 3000; ++i) {
      if (random.below(40) == 0) step = -step;
      if (i % 300 == 0) change();
      if (step > 0 ? expected == end : expected == first) step = -step;
      if (first == end) break;
      std::advance(expected, step);
      std::ranges::advance(at, step);
      ASSERT_EQ(at == some.end(), expected == end);
      if (expected == end) continue;
      ASSERT_EQ((*at).first, expected->first);
      ASSERT_EQ((*at).second, expected->second);
    }
  }
}

/// A step that throws leaves the iterator where it is.
TEST(walks_of_a_tree, stay_where_a_comparison_has_thrown) {
  timeline time;
  tree m(time);
  for (number key = 0; key < 300; ++key) m.insert(key, key);
  const snapshot then(time);
  for (int n = 1; n < 12; ++n) {
    const auto all = m.range(then, 10, 290);
    auto at = all.begin();
    int thrown = 0;
    const auto go = [&](auto step) {
      for (int tries = 0;; ++tries) {
        const number here = (*at).first;
        watched_order::throws_in = n + tries;
        try {
          step();
          watched_order::throws_in = 0;
          return;
        } catch (const std::runtime_error&) {
          watched_order::throws_in = 0;
          ++thrown;
          ASSERT_EQ((*at).first, here);
        }
      }
    };
    for (number key = 11; key < 290; ++key) {
      go([&] { ++at; });
      ASSERT_EQ((*at).first, key);
    }
    for (number key = 288; key >= 10; --key) {
      go([&] { --at; });
      ASSERT_EQ((*at).first, key);
    }
    EXPECT_GT(thrown, 0);
  }
}

}  // namespace
}  // namespace spolia::test
