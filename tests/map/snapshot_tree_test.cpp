// SPDX-License-Identifier: Apache-2.0
// snapshot_tree: what one thread sees, over every collector.
#include <spolia/map/snapshot_tree.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include <spolia/map/concepts.hpp>

#include "map/one_thread_suite.hpp"
#include "map/snapshot_trees.hpp"
#include "support/ledger.hpp"

namespace spolia::test {
namespace {

using spolia::test::tracked;

using number = std::uint64_t;

static_assert(concurrent_map<snapshot_tree<int, int>>);
static_assert(concurrent_map<snapshot_tree<std::string, std::string, dl_rt<domain<debra>>>>);

using pairs_of = decltype(std::declval<const snapshot_tree<int, std::string>&>().all(
    std::declval<const snapshot&>()));
static_assert(std::ranges::bidirectional_range<pairs_of> && std::ranges::view<pairs_of>);
static_assert(std::ranges::common_range<pairs_of>);

INSTANTIATE_TYPED_TEST_SUITE_P(snapshot_tree, map_of_one_thread, main_tree_subjects, tree_names);

template <class Subject>
class snapshots_of_a_tree : public testing::Test {
 protected:
  using numbers = typename Subject::template of<number, number>;
  using texts = typename Subject::template of<std::string, std::string>;
  using counts = typename Subject::template of<number, tracked>;

  /// One random update of both.
  template <class Model>
  static void change(numbers& m, Model& model, rng& random, number keys) {
    const number key = random.below(keys);
    const number value = random();
    switch (random.below(3)) {
      case 0:
        ASSERT_EQ(m.insert(key, value), model.emplace(key, value).second);
        break;
      case 1:
        ASSERT_EQ(m.insert_or_assign(key, value), model.insert_or_assign(key, value).second);
        break;
      default:
        ASSERT_EQ(m.erase(key), model.erase(key) == 1);
    }
  }
};
TYPED_TEST_SUITE(snapshots_of_a_tree, tree_subjects, tree_names);

/// Everything that can be asked at a snapshot, against a std::map of that instant.
template <class Tree>
void expect_same(const Tree& m, const snapshot& then, const std::map<number, number>& model,
                 number keys) {
  auto expected = model.begin();
  for (const auto& [key, value] : m.all(then)) {
    ASSERT_NE(expected, model.end());
    ASSERT_EQ(key, expected->first);
    ASSERT_EQ(value, expected->second);
    ++expected;
  }
  ASSERT_EQ(expected, model.end());
  auto last = model.rbegin();
  for (const auto& [key, value] : m.all(then) | std::views::reverse) {
    ASSERT_EQ(key, last->first);
    ++last;
  }
  ASSERT_EQ(last, model.rend());
  ASSERT_EQ(m.size(then), model.size());
  std::vector<number> asked;
  for (number key = 0; key <= keys; key += 3) asked.push_back(key);
  const auto found = m.find_all(then, asked);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto it = model.find(asked[i]);
    ASSERT_EQ(found[i] != nullptr, it != model.end());
    ASSERT_EQ(m.contains(then, asked[i]), it != model.end());
    if (found[i] != nullptr) {
      ASSERT_EQ(*found[i], it->second);
    }
  }
  const number lo = keys / 3;
  const number hi = keys - lo;
  ASSERT_EQ(m.count(then, lo, hi),
            static_cast<std::size_t>(std::distance(model.lower_bound(lo), model.lower_bound(hi))));
  ASSERT_EQ(m.count(then, hi, lo), 0U);
}

TYPED_TEST(snapshots_of_a_tree, see_their_instant_through_every_change_of_structure) {
  typename TestFixture::numbers m;
  std::map<number, number> model;
  rng random(seed_for(0));
  std::vector<std::pair<snapshot, std::map<number, number>>> instants;
  for (int i = 0; i < 3000; ++i) {
    if (i % 250 == 0) instants.emplace_back(snapshot(m.time()), model);
    this->change(m, model, random, i < 1500 ? 200 : 40);
    if (i % 5 == 0) snapshot(m.time()).withdraw();
  }
  m.collect();
  m.domain().drain();
  for (const auto& [then, expected] : instants) expect_same(m, then, expected, 200);
  expect_sound(m);
}

TYPED_TEST(snapshots_of_a_tree, are_empty_before_the_tree_was_made) {
  timeline time;
  const snapshot before(time);
  snapshot_tree<int, int> m(time);
  m.insert(1, 10);
  EXPECT_EQ(m.size(before), 0U);
  EXPECT_EQ(m.find(before, 1), nullptr);
  EXPECT_EQ(m.size(snapshot(time)), 1U);
}

TYPED_TEST(snapshots_of_a_tree, are_walked_both_ways) {
  typename TestFixture::numbers m;
  for (number key = 0; key < 100; ++key) m.insert(key, key);
  const auto some = m.range(snapshot(m.time()), 20, 80);  // it holds the snapshot
  for (number key = 0; key < 100; ++key) m.erase(key);
  m.collect();
  auto it = some.begin();
  for (number key = 20; key < 60; ++key, ++it) EXPECT_EQ((*it).first, key);
  for (number key = 60; key > 30; --key, --it) EXPECT_EQ((*it).first, key);
  auto other = it++;
  EXPECT_EQ((*other).first, 30U);
  EXPECT_EQ((*it).first, 31U);
  EXPECT_NE(it, other);
  EXPECT_EQ(--it, other);
  it = some.end();
  EXPECT_EQ((*--it).first, 79U);
  EXPECT_EQ(++it, some.end());
}

TYPED_TEST(snapshots_of_a_tree, keep_what_they_find) {
  typename TestFixture::texts m;
  m.insert("key", "a long string that does not fit into the object itself");
  const snapshot then(m.time());
  const std::string* const found = m.find(then, "key");
  for (int i = 0; i < 300; ++i) {
    m.insert_or_assign("key", std::to_string(i));
    m.insert(std::to_string(i), "beside it");
  }
  m.erase("key");
  m.collect();
  m.domain().drain();
  EXPECT_EQ(found->substr(0, 6), "a long");
  EXPECT_EQ(m.find(then, "key"), found);
}

/// A snapshot is held over thousands of updates, and costs what it sees; EBR keeps everything.
TYPED_TEST(snapshots_of_a_tree, cost_what_they_see) {
  constexpr number keys = 64;
  typename TestFixture::numbers m;
  for (number key = 0; key < keys; ++key) m.insert(key, key);
  std::map<number, number> model;
  for (number key = 0; key < keys; ++key) model.emplace(key, key);
  const snapshot held(m.time());
  const auto then = model;
  rng random(seed_for(0));
  number most = 0;
  for (int i = 0; i < 6000; ++i) {
    if (i % 3 == 0) snapshot(m.time()).withdraw();
    this->change(m, model, random, keys);
    most = std::max(most, m.stats().held());
  }
  m.collect();
  m.collect();
  expect_same(m, held, then, keys);
  using collector = typename TypeParam::template of<int, int>::collector_type;
  if (!collector::info.collects_between) {
    EXPECT_GE(m.stats().held(), 6000U);
    return;
  }
  // What the snapshot sees: leaves, routers, and for each of these two links.
  constexpr number seen = keys + 3 * keys;
  EXPECT_LE(m.stats().held(), may_hold<collector>(2 * seen, 2 * seen));
  EXPECT_LE(most, may_hold<collector>(2 * seen, 3 * seen + number{6} * 8 + 64));
}

TYPED_TEST(snapshots_of_a_tree, leave_nothing_when_they_are_gone) {
  ledger book;
  {
    typename TestFixture::counts m;
    {
      const snapshot then(m.time());
      for (number i = 0; i < 2000; ++i) {
        if (i % 7 == 0) snapshot(m.time()).withdraw();
        m.insert_or_assign(i * 37 % 100, tracked(book, i));
        if (i % 3 == 0) m.erase(i * 11 % 100);
      }
    }
    for (number key = 0; key < 100; ++key) m.erase(key);
    m.insert(1, tracked(book, 1U));
    snapshot(m.time()).withdraw();
    m.collect();
    m.collect();
    EXPECT_TRUE(m.domain().drain());
    EXPECT_EQ(book.live(), 1);
    EXPECT_EQ(m.size_approx(), 1U);
  }
  book.expect_empty();
}

TYPED_TEST(snapshots_of_a_tree, end_with_the_tree_in_any_state) {
  ledger book;
  for (number updates = 0; updates < 60; ++updates) {
    typename TestFixture::counts m;
    const snapshot then(m.time());
    for (number i = 0; i < updates; ++i) {
      if (i % 4 == 0) snapshot(m.time()).withdraw();
      m.insert_or_assign(i % 9, tracked(book, i));
      if (i % 2 == 0) m.erase(i % 5);
    }
  }
  book.expect_empty();
}

TYPED_TEST(snapshots_of_a_tree, are_accounted_for) {
  typename TestFixture::numbers m;
  for (number key = 0; key < 32; ++key) m.insert(key, key);
  snapshot(m.time()).withdraw();
  m.collect();
  // Leaves, routers, and a link to each.
  const auto there = [&] { return 2 * (m.audit().leaves + m.audit().internals); };
  EXPECT_EQ(m.account().current, there());
  EXPECT_EQ(m.account().needed, 0U);
  {
    const snapshot then(m.time(), "then");
    for (number key = 0; key < 32; key += 2) m.erase(key);
    const auto all = m.account();
    ASSERT_EQ(all.snapshots.size(), 1U);
    EXPECT_STREQ(all.snapshots[0].label, "then");
    // At least a leaf and its link; steam counts no versions of nodes that were removed.
    EXPECT_GE(all.needed, 2U);
    EXPECT_EQ(all.snapshots[0].versions, all.needed);
    EXPECT_EQ(all.snapshots[0].bytes_alone, all.needed_bytes);
    EXPECT_GE(all.needed_bytes, 16U * 2 * sizeof(number));
    EXPECT_EQ(all.current, there());
  }
  snapshot(m.time()).withdraw();
  m.insert_or_assign(1, 1);
  m.collect();
  EXPECT_EQ(m.account().snapshots.size(), 0U);
  EXPECT_EQ(m.account().needed, 0U);
}

TEST(snapshot_tree, one_snapshot_is_one_instant_of_several) {
  timeline time;
  region_domain home;
  snapshot_tree<int, int> one(home, time);
  snapshot_tree<std::string, int, dl_rt<>> other(home, time);
  one.insert(1, 10);
  const snapshot then(time);
  other.insert("one", 1);
  one.erase(1);
  EXPECT_EQ(*one.find(then, 1), 10);
  EXPECT_FALSE(other.contains(then, "one"));
  EXPECT_TRUE(other.contains(snapshot(time), "one"));
}

TEST(snapshot_tree, is_balanced_whatever_the_order_of_keys) {
  const auto expect_low = [](const auto& m) {
    const auto found = m.audit();
    EXPECT_EQ(found.wrong, "");
    EXPECT_EQ(found.violations, 0U);
    EXPECT_EQ(found.unforeseen, 0U);
    EXPECT_LE(static_cast<double>(found.height),
              2 * std::log2(static_cast<double>(found.leaves) + 1));
  };
  timeline time;
  using tree = snapshot_tree<number, int, sl_rt<>, std::less<number>, 2>;
  tree up(time);
  tree zigzag(time);
  tree any(time);
  rng random(seed_for(0));
  for (number k = 0; k < 6000; ++k) {
    up.insert(k, 0);
    if (k >= 1000) up.erase(k - 1000);  // a window that moves up
    zigzag.insert(k % 2 == 0 ? k : 10'000 - k, 0);
    const number key = random.below(k < 3000 ? 3000 : 300);
    if (!any.insert(key, 0)) any.erase(key);
    if (k % 100 == 0) {
      expect_low(up);
      expect_low(zigzag);
      expect_low(any);
    }
  }
}

/// However pairs come and go, leaves are half full on average, or nearly.
TEST(snapshot_tree, keeps_its_leaves_filled) {
  constexpr number keys = 4000;
  timeline time;
  snapshot_tree<number, number> m(time);
  rng random(seed_for(0));
  const auto expect_filled = [&](double share) {
    const auto found = m.audit();
    EXPECT_EQ(found.wrong, "");
    EXPECT_EQ(found.pairs, m.size_approx());
    EXPECT_GE(static_cast<double>(found.pairs), share * 32 * static_cast<double>(found.leaves));
  };
  for (number i = 0; i < 4 * keys; ++i) m.insert(random.below(keys), i);
  expect_filled(0.5);
  for (number i = 0; i < 20 * keys; ++i) {
    const number key = random.below(keys);
    if (!m.insert(key, i)) m.erase(key);
  }
  expect_filled(0.5);
  for (number key = 0; key < keys; ++key) {
    if (key % 4 != 0) m.erase(key);
  }
  expect_filled(0.37);  // 500 pairs are few: of 200 seeds one gave 0.409, most 0.44 to 0.47
  for (number key = 0; key < keys; ++key) m.erase(key);
  EXPECT_EQ(m.audit().leaves, 1U);
}

}  // namespace
}  // namespace spolia::test
