// SPDX-License-Identifier: Apache-2.0
// Version lists: what each operation leaves linked, and the bounds.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include <spolia/reclaim.hpp>
#include <spolia/version/list_pdl.hpp>
#include <spolia/version/list_ssl.hpp>
#include <spolia/version/list_tree.hpp>

#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using spolia::tracked;

template <class List>
struct built {
  using node = typename List::node;

  /// Versions stamped 1, 2, ..., n.
  explicit built(std::uint64_t n) : nodes(n) {
    std::uint64_t stamp = 0;
    for (node& x : nodes) x.since.store_relaxed(++stamp);
    list = std::make_unique<List>(&nodes[0]);
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      EXPECT_TRUE(list->try_append(&nodes[i - 1], &nodes[i]));
    }
  }
  node* at(std::uint64_t stamp) { return &nodes[stamp - 1]; }

  std::vector<std::uint64_t> linked() const {
    std::vector<std::uint64_t> stamps;
    list->for_each([&](const node* x) {
      stamps.push_back(x->since.load_relaxed());
      return true;
    });
    std::reverse(stamps.begin(), stamps.end());
    return stamps;
  }

  std::deque<node> nodes;
  std::unique_ptr<List> list;
};

using pdl = built<pdl_list<tracked>>;
using ssl = built<ssl_list<tracked>>;
using tree = built<tree_list<tracked>>;
using stamps = std::vector<std::uint64_t>;

template <class B>
class version_list : public testing::Test {};
using all_lists = testing::Types<pdl, ssl, tree>;
TYPED_TEST_SUITE(version_list, all_lists);

TYPED_TEST(version_list, finds_what_was_current) {
  TypeParam b(5);
  auto* const h = b.list->head();
  EXPECT_EQ(h, b.at(5));
  for (std::uint64_t t = 1; t <= 5; ++t) EXPECT_EQ(b.list->find(h, t), b.at(t));
  EXPECT_EQ(b.list->find(h, 99), b.at(5));
  EXPECT_EQ(b.list->find(h, 0), nullptr);
}

TYPED_TEST(version_list, appends_only_behind_the_head) {
  TypeParam b(2);
  typename TypeParam::node late;
  EXPECT_FALSE(b.list->try_append(b.at(1), &late));
  EXPECT_EQ(b.list->head(), b.at(2));
  EXPECT_EQ(b.list->length(), 2U);
}

TYPED_TEST(version_list, a_late_helper_of_an_append_changes_nothing) {
  TypeParam b(3);
  EXPECT_FALSE(b.list->try_append(b.at(2), b.at(3)));
  EXPECT_EQ(b.linked(), (stamps{1, 2, 3}));
}

TEST(version_list_pdl, removes_in_any_order) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    constexpr std::uint64_t n = 9;
    pdl b(n);
    std::vector<std::uint64_t> order(n - 1);
    std::iota(order.begin(), order.end(), 1);
    std::shuffle(order.begin(), order.end(), random);
    stamps left(n);
    std::iota(left.begin(), left.end(), 1);
    for (const std::uint64_t stamp : order) {
      b.list->remove(b.at(stamp));
      std::erase(left, stamp);
      ASSERT_EQ(b.linked(), left);  // L - R, exactly: nothing is under way
    }
  }
}

TEST(version_list_pdl, says_how_many_were_being_removed_here) {
  pdl b(6);
  EXPECT_EQ(b.list->remove(b.at(3)), 1U);
  b.at(2)->marked.store_relaxed(true);  // by others, which have not come further
  b.at(4)->marked.store_relaxed(true);
  EXPECT_EQ(b.list->remove(b.at(5)), 3U);
  EXPECT_EQ(b.linked(), (stamps{1, 6}));
}

TEST(version_list_pdl, appends_behind_removed_versions) {
  pdl b(3);
  b.list->remove(b.at(2));
  b.list->remove(b.at(1));
  pdl::node fourth;
  fourth.since.store_relaxed(4);
  ASSERT_TRUE(b.list->try_append(b.at(3), &fourth));
  b.list->remove(b.at(3));
  EXPECT_EQ(b.linked(), (stamps{4}));
}

TEST(version_list_tree, neighbours_are_never_equally_deep) {
  tree b(1);
  const auto depth = [&](std::uint64_t number) {
    b.at(1)->number.store_relaxed(number);
    return tree_list<tracked>::depth(b.at(1));
  };
  EXPECT_EQ(tree_list<tracked>::depth(nullptr), 0U);
  stamps first;
  for (std::uint64_t number = 2; number <= 9; ++number) first.push_back(depth(number));
  EXPECT_EQ(first, (stamps{1, 3, 2, 5, 4, 5, 3, 7}));
  // Between two that are equally deep lies one that is less deep.
  std::vector<std::uint64_t> open;  // depths on the way up from the newest
  for (std::uint64_t number = 2; number < 5000; ++number) {
    const std::uint64_t d = depth(number);
    while (!open.empty() && open.back() > d) open.pop_back();
    ASSERT_TRUE(open.empty() || open.back() < d) << number;
    open.push_back(d);
  }
}

/// After each removal: what was given away is not linked; what stays has two deeper neighbours.
void expect_settled(tree& b, const stamps& kept, const stamps& given) {
  const stamps linked = b.linked();
  ASSERT_LT(linked.size(), 2 * kept.size());
  ASSERT_TRUE(std::includes(linked.begin(), linked.end(), kept.begin(), kept.end()));
  const auto depth = [&](std::size_t i) {
    return i < linked.size() ? tree_list<tracked>::depth(b.at(linked[i])) : 0;
  };
  for (std::size_t i = 0; i < linked.size(); ++i) {
    ASSERT_EQ(std::ranges::count(given, linked[i]), 0);
    if (std::ranges::binary_search(kept, linked[i])) continue;
    ASSERT_TRUE(depth(i - 1) > depth(i) && depth(i + 1) > depth(i));
  }
}

TEST(version_list_tree, removes_in_any_order) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    constexpr std::uint64_t n = 20;
    tree b(n);
    stamps order(n - 1);
    std::iota(order.begin(), order.end(), 1);
    std::shuffle(order.begin(), order.end(), random);
    stamps kept(n);
    std::iota(kept.begin(), kept.end(), 1);
    stamps given;
    for (const std::uint64_t stamp : order) {
      tree_list<tracked>::remove(
          b.at(stamp), [&](const tree::node* x) { given.push_back(x->since.load_relaxed()); });
      std::erase(kept, stamp);
      ASSERT_NO_FATAL_FAILURE(expect_settled(b, kept, given));
    }
    std::ranges::sort(given);
    std::ranges::sort(order);
    EXPECT_EQ(given, order);  // each once
    EXPECT_EQ(b.linked(), (stamps{n}));
  }
}

TEST(version_list_tree, appends_behind_removed_versions) {
  tree b(3);
  const auto no_matter = [](tree::node*) {};
  b.list->remove(b.at(2), no_matter);
  b.list->remove(b.at(1), no_matter);
  tree::node fourth;
  fourth.since.store_relaxed(4);
  ASSERT_TRUE(b.list->try_append(b.at(3), &fourth));
  b.list->remove(b.at(3), no_matter);
  EXPECT_EQ(b.linked(), (stamps{4}));
}

/// Compacts and gives back what was cut off, sorted.
TEST(version_list_ssl, says_how_many_a_compaction_has_come_to) {
  ssl b(8);
  const auto passed = [&](std::uint64_t known) {
    return b.list->compact(b.at(8), {known, {}}, [](auto*) {});
  };
  EXPECT_EQ(passed(0), 9U);  // the end, too
  EXPECT_EQ(passed(8), 8U);
  EXPECT_EQ(passed(8), 1U);
}

stamps compact(ssl& b, std::uint64_t known, stamps times, std::uint64_t from) {
  stamps cut;
  b.list->compact(b.at(from), {known, std::move(times)},
                  [&](const ssl::node* x) { cut.push_back(x->since.load_relaxed()); });
  std::sort(cut.begin(), cut.end());
  return cut;
}

TEST(version_list_ssl, keeps_what_is_announced_and_what_is_newer) {
  ssl b(8);
  EXPECT_EQ(compact(b, 6, {2, 4}, 8), (stamps{1, 3, 5}));
  EXPECT_EQ(b.linked(), (stamps{2, 4, 6, 7, 8}));
  EXPECT_TRUE(b.list->is_unlinked(b.at(3)));
  EXPECT_FALSE(b.list->is_unlinked(b.at(4)));
  EXPECT_EQ(compact(b, 8, {}, 8), (stamps{2, 4, 6, 7}));
  EXPECT_EQ(b.linked(), (stamps{8}));
}

TEST(version_list_ssl, nothing_is_known_at_first) {
  ssl b(3);
  EXPECT_EQ(compact(b, 0, {}, 3), stamps{});
  EXPECT_EQ(b.list->length(), 3U);
}

TEST(version_list_ssl, of_versions_with_one_stamp_the_newest_is_needed) {
  ssl b(5);
  for (const std::uint64_t stamp : {3U, 4U}) b.at(stamp)->since.store_relaxed(3);
  EXPECT_EQ(compact(b, 5, {3}, 5).size(), 3U);
  EXPECT_EQ(b.list->find(b.at(5), 3), b.at(4));
}

/// Each subset of times, against the definition.
TEST(version_list_ssl, leaves_exactly_what_is_needed) {
  constexpr std::uint64_t n = 6;
  for (unsigned subset = 0; subset < 1U << n; ++subset) {
    for (std::uint64_t known = 0; known <= n; ++known) {
      ssl b(n);
      for (auto& x : b.nodes) x.since.store_relaxed(x.since.load_relaxed() * 2);  // 2, 4, ..., 12
      stamps times;
      for (std::uint64_t t = 0; t < n; ++t) {
        if ((subset >> t & 1U) != 0) times.push_back(t * 2 + 1);
      }
      std::erase_if(times, [&](std::uint64_t t) { return t >= known * 2; });
      stamps expected;
      for (std::uint64_t stamp = 2; stamp <= 2 * n; stamp += 2) {
        const std::uint64_t end = stamp + 2;
        const bool last = stamp == 2 * n;
        const bool seen = std::any_of(times.begin(), times.end(),
                                      [&](std::uint64_t t) { return stamp <= t && t < end; });
        if (last || end > known * 2 || seen) expected.push_back(stamp);
      }
      compact(b, known * 2, times, n);
      ASSERT_EQ(b.linked(), expected) << "known " << known * 2 << ", subset " << subset;
    }
  }
}

using nodes_domain = domain<token>;
struct header : nodes_domain::header, tracked {};

/// Removes x, and retires what has gone.
void remove(pdl_list<header>& from, pdl_node<header>* x, nodes_domain::guard& guard) {
  from.remove(x);
  guard.retire(x);
}
void remove(tree_list<header>& from, tree_node<header>* x, nodes_domain::guard& guard) {
  from.remove(x, [&](tree_node<header>* gone) { guard.retire(gone); });
}
constexpr unsigned stress_threads = 4;
/// What may be linked at most.
std::uint64_t bound(const pdl_list<header>&, std::uint64_t unremoved) {
  return unremoved + stress_threads;
}
std::uint64_t bound(const tree_list<header>&, std::uint64_t unremoved) {
  return 2 * unremoved + std::uint64_t{stress_threads} * 64;  // P log Lmax, with any Lmax
}

template <class List>
class version_list_stress : public testing::Test {};
using removing_lists = testing::Types<pdl_list<header>, tree_list<header>>;
TYPED_TEST_SUITE(version_list_stress, removing_lists);

/// Threads that append to one list and remove what they have overwritten. The bound holds at every
/// moment, and at the end exactly L - R are linked, since all have gone but one.
TYPED_TEST(version_list_stress, holds_its_bound_under_contention) {
  using list = TypeParam;
  struct counter {
    alignas(64) std::atomic<std::uint64_t> value{0};
  };

  nodes_domain nodes;
  auto* const first = nodes.make<typename list::node>();
  first->since.store_relaxed(0);
  list versions(first);
  counter appended, removed;
  appended.value = 1;
  std::vector<std::vector<typename list::node*>> left_over(stress_threads);
  const auto remove_one = [&](typename list::node* x) {
    auto guard = nodes.enter();
    remove(versions, x, guard);
    ++removed.value;  // after, so that R counts only removals that have returned
  };

  run_stress({.threads = stress_threads}, [&](stress_thread& self) {
    auto& mine = left_over[self.index()];
    while (self.running()) {
      {
        auto guard = nodes.enter();
        auto* const x = versions.head();
        auto* const y = nodes.make<typename list::node>();
        y->since.store_relaxed(x->since.load_relaxed() + 1);
        ++appended.value;  // before, so that a reader counts no version that is not in L
        if (versions.try_append(x, y)) {
          mine.push_back(x);
        } else {
          --appended.value;
          nodes.destroy(y);
        }
      }
      while (mine.size() > self.random().below(8)) {
        std::swap(mine[self.random().below(mine.size())], mine.back());
        remove_one(mine.back());
        mine.pop_back();
      }
      if (self.random().chance(1, 16)) {
        auto guard = nodes.enter();
        const std::uint64_t gone = removed.value;
        const std::uint64_t length = versions.length();
        // Versions counted in L before they are linked are no harm.
        ASSERT_LE(length, bound(versions, appended.value - gone));
      }
    }
  });
  for (const auto& some : left_over) {
    for (auto* const x : some) remove_one(x);
  }
  EXPECT_EQ(appended.value - removed.value, 1U);
  EXPECT_EQ(versions.length(), 1U);
  nodes.destroy(versions.release());
}

}  // namespace
