// SPDX-License-Identifier: Apache-2.0
// abtree: what one thread sees. Small degrees make every kind of rebalancing frequent.
#include <spolia/map/abtree.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/map/concepts.hpp>
#include <spolia/reclaim.hpp>

#include "support/few_types.hpp"
#include "support/ledger.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using test::ledger;
using test::rng;
using test::tracked;

template <unsigned Degree>
using number_tree =
    abtree<std::uint64_t, std::uint64_t, domain<>, std::less<std::uint64_t>, Degree>;

static_assert(concurrent_map<abtree<int, int>>);
static_assert(concurrent_map<abtree<std::string, std::string, domain<neutralization, batch>>>);

/// Compares a tree with std::map through random operations. Phases of growing and shrinking.
template <class Tree, class Key, class Value>
class twin {
 public:
  twin(Tree& tree, std::function<Key(std::uint64_t)> key, std::function<Value(std::uint64_t)> value)
      : tree_(tree), key_(std::move(key)), value_(std::move(value)) {}

  void run(std::uint64_t operations, std::uint64_t keys) {
    rng random(test::seed_for(keys));
    for (std::uint64_t i = 0; i < operations; ++i) {
      const bool growing = i / (operations / 8 + 1) % 2 == 0;
      step(key_(random.below(keys)), value_(random()), random.below(10), growing ? 5 : 2, random);
      if (i % 997 == 0) compare();
      if (testing::Test::HasFailure()) return;
    }
    compare();
    while (!model_.empty()) {  // shrink to nothing
      ASSERT_TRUE(tree_.erase(model_.begin()->first));
      model_.erase(model_.begin());
    }
    compare();
  }

  void compare() {
    const auto found = tree_.audit();
    ASSERT_EQ(found.wrong, "");
    EXPECT_EQ(found.violations, 0U);
    EXPECT_EQ(found.pairs, model_.size());
    EXPECT_EQ(tree_.size_approx(), model_.size());
    EXPECT_EQ(tree_.empty_approx(), model_.empty());
    auto expected = model_.begin();
    tree_.for_each([&](const Key& key, const Value& value) {
      ASSERT_NE(expected, model_.end());
      EXPECT_EQ(key, expected->first);
      EXPECT_EQ(value, expected->second);
      ++expected;
    });
    EXPECT_EQ(expected, model_.end());
    auto back = model_.rbegin();
    tree_.for_each_down([&](const Key& key, const Value& value) {
      ASSERT_NE(back, model_.rend());
      EXPECT_EQ(key, back->first);
      EXPECT_EQ(value, back->second);
      ++back;
    });
    EXPECT_EQ(back, model_.rend());
  }

 private:
  void step(const Key& key, const Value& value, std::uint64_t what, std::uint64_t inserts,
            rng& random) {
    if (what < inserts) {
      EXPECT_EQ(tree_.insert(key, value), model_.emplace(key, value).second);
    } else if (what < 7) {
      EXPECT_EQ(tree_.erase(key), model_.erase(key) == 1);
    } else if (what == 7) {
      EXPECT_EQ(tree_.insert_or_assign(key, value), model_.insert_or_assign(key, value).second);
    } else if (what == 8) {
      const auto there = model_.find(key);
      const auto found = tree_.find(key);
      EXPECT_EQ(found.has_value(), there != model_.end());
      if (found && there != model_.end()) {
        EXPECT_EQ(*found, there->second);
      }
      EXPECT_EQ(tree_.contains(key), there != model_.end());
    } else {
      compare_range(key, key_(random.below(1000)));
    }
  }

  void compare_range_down(const Key& lo, const Key& hi) {
    std::vector<Key> seen;
    tree_.range_down(lo, hi, [&](const Key& key, const Value&) {
      seen.push_back(key);
      return seen.size() < 40;
    });
    std::vector<Key> expected;
    for (auto at = model_.lower_bound(hi); lo < hi && at != model_.begin();) {
      if ((--at)->first < lo || expected.size() == 40) break;
      expected.push_back(at->first);
    }
    EXPECT_EQ(seen, expected);
  }

  void compare_range(const Key& lo, const Key& hi) {
    std::vector<Key> seen;
    tree_.range(lo, hi, [&](const Key& key, const Value&) {
      seen.push_back(key);
      return seen.size() < 40;
    });
    std::vector<Key> expected;
    for (auto at = model_.lower_bound(lo); at != model_.end() && at->first < hi; ++at) {
      if (expected.size() == 40) break;
      expected.push_back(at->first);
    }
    EXPECT_EQ(seen, expected);
    compare_range_down(lo, hi);
    compare_runs(lo, hi);
  }

  /// Runs have the pairs of range(), and end when they are told to.
  void compare_runs(const Key& lo, const Key& hi) {
    using pairs = std::vector<std::pair<Key, Value>>;
    const auto in_runs = [&](bool down, std::size_t most) {
      pairs seen;
      std::size_t told = 0;
      const auto take = [&](std::span<const std::pair<Key, Value>> run) {
        EXPECT_FALSE(run.empty());
        EXPECT_LT(told++, most) << "it went on after it was told to stop";
        seen.insert(seen.end(), run.begin(), run.end());
        return told < most;
      };
      if (down) {
        tree_.runs_down(lo, hi, take);
      } else {
        tree_.runs(lo, hi, take);
      }
      return seen;
    };
    pairs expected;
    if (lo < hi) expected.assign(model_.lower_bound(lo), model_.lower_bound(hi));
    EXPECT_EQ(in_runs(false, 1000000), expected);
    const pairs begin = in_runs(false, 2);
    EXPECT_TRUE(begin.size() <= expected.size() &&
                std::equal(begin.begin(), begin.end(), expected.begin()));
    std::reverse(expected.begin(), expected.end());
    EXPECT_EQ(in_runs(true, 1000000), expected);
  }

  Tree& tree_;
  std::function<Key(std::uint64_t)> key_;
  std::function<Value(std::uint64_t)> value_;
  std::map<Key, Value> model_;
};

template <class Tree>
void run_numbers(Tree& tree, std::uint64_t operations, std::uint64_t keys) {
  const auto same = [](std::uint64_t n) { return n; };
  twin<Tree, std::uint64_t, std::uint64_t>(tree, same, same).run(operations, keys);
}

std::string long_text(std::uint64_t n) {
  return "a text that does not fit into a small string, number " + std::to_string(n);
}

template <class Tree>
class Numbers : public testing::Test {};
template <class Domain, class Compare = std::less<std::uint64_t>>
using over = abtree<std::uint64_t, std::uint64_t, Domain, Compare, 4>;
using trees = test::types_where_cheap<
    4, number_tree<3>, number_tree<64>, over<domain<robust_token>>, over<domain<hazard_pointers>>,
    number_tree<4>, number_tree<5>, number_tree<7>, number_tree<14>, over<domain<neutralization>>,
    over<domain<none>>, over<domain<token, batch>, std::less<>>, over<domain<debra, pooled>>,
    over<domain<qsbr, pooled>>, over<domain<reservations>>>;
TYPED_TEST_SUITE(Numbers, trees);

TYPED_TEST(Numbers, behave_as_std_map_in_few_keys) {
  TypeParam tree;
  run_numbers(tree, 30'000, 60);
}

TYPED_TEST(Numbers, behave_as_std_map_in_many_keys) {
  TypeParam tree;
  run_numbers(tree, 100'000 / test::fewer, 3000);
}

TEST(AbtreeKinds, strings_and_strings) {
  abtree<std::string, std::string, domain<>, std::less<std::string>, 4> tree;
  twin<decltype(tree), std::string, std::string>(tree, long_text, long_text)
      .run(20'000 / test::fewer, 300);
}

TEST(AbtreeKinds, numbers_and_strings) {
  abtree<int, std::string, domain<token, pooled>, std::less<int>, 4> tree;
  const auto number = [](std::uint64_t n) { return static_cast<int>(n); };
  twin<decltype(tree), int, std::string>(tree, number, long_text).run(20'000 / test::fewer, 300);
}

TEST(AbtreeKinds, strings_under_a_scheme_that_restarts_searches) {
  abtree<std::string, std::string, domain<neutralization>, std::less<std::string>, 14> tree;
  twin<decltype(tree), std::string, std::string>(tree, long_text, long_text)
      .run(20'000 / test::fewer, 300);
}

TEST(AbtreeKinds, texts_in_another_order) {
  struct backwards {
    bool operator()(std::uint64_t a, std::uint64_t b) const noexcept { return b < a; }
  };
  abtree<std::uint64_t, char, domain<>, backwards, 4> tree;
  for (std::uint64_t n = 0; n < 100; ++n) EXPECT_TRUE(tree.insert(n, 'a'));
  EXPECT_EQ(tree.audit().wrong, "");
  std::uint64_t expected = 100;
  tree.for_each([&](std::uint64_t key, char) { EXPECT_EQ(key, --expected); });
  EXPECT_EQ(expected, 0U);
}

TEST(AbtreeKinds, the_greatest_number_is_a_key_like_any_other) {
  // Counted searches fill unused places with it.
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  number_tree<4> tree;
  EXPECT_FALSE(tree.contains(most));
  EXPECT_FALSE(tree.erase(most));
  for (std::uint64_t n = most - 20; n != 0; ++n) {
    EXPECT_FALSE(tree.contains(n));
    EXPECT_TRUE(tree.insert(n, n));
    EXPECT_EQ(tree.find(n), n);
  }
  EXPECT_EQ(tree.audit().wrong, "");
  EXPECT_EQ(tree.audit().pairs, 21U);
  for (std::uint64_t n = most; n >= most - 20; --n) EXPECT_TRUE(tree.erase(n));
  EXPECT_FALSE(tree.contains(most));
  EXPECT_TRUE(tree.empty_approx());
}

TEST(AbtreeKinds, infinities_are_keys) {
  abtree<double, int, domain<>, std::less<double>, 4> tree;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(tree.contains(infinity));
  EXPECT_TRUE(tree.insert(infinity, 1));
  EXPECT_TRUE(tree.insert(-infinity, 2));
  EXPECT_TRUE(tree.insert(std::numeric_limits<double>::max(), 3));
  EXPECT_EQ(tree.find(infinity), 1);
  EXPECT_EQ(tree.find(std::numeric_limits<double>::max()), 3);
  EXPECT_EQ(tree.find(-infinity), 2);
}

TEST(AbtreeKinds, values_that_can_only_be_moved) {
  abtree<int, std::unique_ptr<int>, domain<>, std::less<int>, 4> tree;
  for (int n = 0; n < 100; ++n) EXPECT_TRUE(tree.insert(n, std::make_unique<int>(n)));
  auto kept = std::make_unique<int>(7);
  EXPECT_FALSE(tree.insert(50, std::move(kept)));
  ASSERT_NE(kept, nullptr) << "a value that is not used is not moved from";
  EXPECT_FALSE(tree.insert_or_assign(50, std::move(kept)));
  int seen = 0;
  EXPECT_TRUE(tree.visit(50, [&](const std::unique_ptr<int>& value) { seen = *value; }));
  EXPECT_EQ(seen, 7);
  EXPECT_TRUE(tree.erase(50));
  EXPECT_FALSE(tree.visit(50, [&](const std::unique_ptr<int>&) { FAIL(); }));
  EXPECT_EQ(tree.audit().pairs, 99U);
}

TEST(AbtreeMemory, keys_and_values_are_destroyed_once_each) {
  ledger book;
  {
    abtree<tracked, tracked, domain<>, std::less<tracked>, 4> tree;
    rng random(test::seed_for(0));
    for (int i = 0; i < 20'000; ++i) {
      const tracked key(book, random.below(200));
      if (random.chance(1, 3)) {
        tree.erase(key);
      } else if (random.chance(1, 2)) {
        tree.insert(key, tracked(book, random()));
      } else {
        tree.insert_or_assign(key, tracked(book, random()));
      }
    }
    tree.domain().drain();
    // A key in its pair, and at most one for each leaf but the first to lead there.
    const auto found = tree.audit();
    EXPECT_EQ(book.live(), static_cast<std::int64_t>(2 * found.pairs + found.leaves - 1));
  }
  book.expect_empty();
}

TEST(AbtreeMemory, an_erased_tree_keeps_one_leaf) {
  domain<> home;
  number_tree<14> tree;
  for (std::uint64_t n = 0; n < 5000; ++n) tree.insert(n, n);
  for (std::uint64_t n = 0; n < 5000; ++n) tree.erase(n);
  const auto found = tree.audit();
  EXPECT_EQ(found.leaves, 1U);
  EXPECT_EQ(found.internals, 0U);
}

TEST(AbtreeMemory, each_update_retires_what_is_documented) {
  domain<> home;
  abtree<std::uint64_t, std::string, domain<>, std::less<std::uint64_t>, 14> tree(home);
  for (std::uint64_t n = 0; n < 1000; ++n) tree.insert(n * 2, "text");
  const auto retired_by = [&](auto&& update) {
    const auto before = home.stats().retired;
    update();
    return home.stats().retired - before;
  };
  EXPECT_EQ(retired_by([&] { tree.insert(2, "text"); }), 0U);
  EXPECT_EQ(retired_by([&] { tree.erase(3); }), 0U);
  EXPECT_EQ(retired_by([&] { tree.insert(1, "text"); }), 1U);
  EXPECT_EQ(retired_by([&] { tree.insert_or_assign(1, "other"); }), 2U);
  EXPECT_EQ(retired_by([&] { tree.erase(1); }), 2U);
  const std::uint64_t height = tree.audit().height;
  for (std::uint64_t n = 0; n < 1000; ++n) {
    EXPECT_LE(retired_by([&] { tree.insert(n * 2 + 1, "text"); }), 1 + 2 * (height + 1));
  }
}

TEST(AbtreeDomain, trees_share_a_domain_that_outlives_them) {
  domain<token, batch> home;
  {
    abtree<int, int, domain<token, batch>> first(home);
    abtree<int, std::string, domain<token, batch>> second(home);
    EXPECT_EQ(&first.domain(), &home);
    for (int n = 0; n < 300; ++n) {
      first.insert(n, n);
      second.insert(n, "text");
    }
    for (int n = 0; n < 300; n += 2) {
      first.erase(n);
      second.erase(n);
    }
  }
  EXPECT_TRUE(home.drain());
  const auto figures = home.stats();
  EXPECT_EQ(figures.retired, figures.freed);
}

TEST(AbtreeRange, is_half_open_and_stops_when_told) {
  number_tree<4> tree;
  for (std::uint64_t n = 0; n < 100; n += 2) tree.insert(n, n + 1);
  std::vector<std::uint64_t> seen;
  const auto note = [&](std::uint64_t key, std::uint64_t value) {
    EXPECT_EQ(value, key + 1);
    seen.push_back(key);
  };
  tree.range(10, 16, note);
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{10, 12, 14}));
  seen.clear();
  tree.range(11, 15, note);
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{12, 14}));
  seen.clear();
  tree.range(16, 16, note);
  tree.range(17, 16, note);
  tree.range(99, 200, note);
  EXPECT_TRUE(seen.empty());
  tree.range(0, 1000, [&](std::uint64_t key, std::uint64_t) {
    seen.push_back(key);
    return key < 30;
  });
  EXPECT_EQ(seen.size(), 16U);
}

TEST(AbtreeRange, the_function_may_change_the_tree_and_holds_nothing_up) {
  domain<token, batch> home;
  abtree<std::uint64_t, std::uint64_t, domain<token, batch>, std::less<std::uint64_t>, 4> tree(
      home);
  for (std::uint64_t n = 0; n < 500; ++n) tree.insert(n, n);
  std::uint64_t seen = 0;
  tree.for_each([&](std::uint64_t key, std::uint64_t) {
    EXPECT_EQ(key, seen++);
    EXPECT_TRUE(tree.erase(key));
    if (key % 50 == 0) {
      EXPECT_TRUE(home.drain()) << "a guard is held";
    }
  });
  EXPECT_EQ(seen, 500U);
  EXPECT_TRUE(tree.empty_approx());
}

}  // namespace
