// SPDX-License-Identifier: Apache-2.0
// abtree: an update that fails has changed nothing and leaks nothing, wherever it fails.
#include <spolia/map/abtree.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <string>

#include <spolia/reclaim.hpp>

#include "support/faults.hpp"

namespace {

using namespace spolia;
using test::fail_after;
using test::failing;
using test::live_allocations;

/// Throws at the n-th copy or conversion from now.
struct bomb {
  explicit bomb(int n) : value(n) { tick(); }
  bomb(const bomb& other) : value(other.value) { tick(); }
  bomb& operator=(const bomb&) = delete;
  ~bomb() { --alive; }
  friend bool operator<(const bomb& a, const bomb& b) noexcept { return a.value < b.value; }

  struct gone_off {};
  static void tick() {
    if (fuse != 0 && --fuse == 0) throw gone_off();
    ++alive;
  }

  int value;
  static inline std::uint64_t fuse = 0;
  static inline std::int64_t alive = 0;
};

/// A tree of degree 4 in which the keys 0, 10, 20, ... lie.
template <class Tree>
void fill(Tree& tree, int keys) {
  for (int n = 0; n < keys; ++n) ASSERT_TRUE(tree.insert(typename Tree::key_type(n * 10), n));
}

/// What is in a tree.
template <class Tree>
std::map<int, int> contents(const Tree& tree) {
  std::map<int, int> all;
  tree.for_each([&](const auto& key, const auto& value) {
    if constexpr (requires { key.value; }) {
      all.emplace(key.value, value.value);
    } else {
      all.emplace(key, value);
    }
  });
  return all;
}

/// Runs `update` with its n-th failure for all n, on a tree of each size. What is in the tree
/// afterwards is what was in it before, or, if the update returned, what it should be. `fail(n, f)`
/// runs f with the n-th failure and says whether it happened, and whether f threw.
struct result {
  bool failed;
  bool threw;
};
template <class Tree, class Update, class Change, class Fail>
void expect_all_or_nothing(Update update, Change change, Fail fail) {
  std::uint64_t failures = 0;
  std::uint64_t swallowed = 0;
  for (int size = 0; size < 40; ++size) {
    for (std::uint64_t n = 1;; ++n) {
      Tree tree;
      fill(tree, size);
      auto expected = contents(tree);
      const result r = fail(n, [&] { update(tree, size); });
      if (!r.threw) change(expected, size);
      ASSERT_EQ(contents(tree), expected) << "size " << size << ", failure " << n;
      const auto found = tree.audit();
      ASSERT_EQ(found.wrong, "") << "size " << size << ", failure " << n;
      EXPECT_EQ(found.pairs, expected.size());
      EXPECT_EQ(tree.size_approx(), expected.size());
      if (!r.failed) {
        EXPECT_EQ(found.violations, 0U);
        break;
      }
      ++failures;
      if (!r.threw) ++swallowed;
      // What was left undone does not stop any thread.
      for (int key = 0; key < size * 10; ++key) tree.erase(typename Tree::key_type(key));
      EXPECT_EQ(tree.audit().wrong, "");
      EXPECT_TRUE(tree.empty_approx());
    }
  }
  EXPECT_GT(failures, 40U);
  EXPECT_GT(swallowed, 0U) << "no failure fell into a rebalancing step";
}

const auto failing_memory = [](std::uint64_t n, auto&& f) -> result {
  fail_after fault(n, failing::once);
  try {
    f();
  } catch (const std::bad_alloc&) {
    return {fault.fired(), true};
  }
  return {fault.fired(), false};
};

const auto failing_copies = [](std::uint64_t n, auto&& f) -> result {
  bomb::fuse = n;
  bool threw = false;
  try {
    f();
  } catch (const bomb::gone_off&) {
    threw = true;
  }
  const bool failed = bomb::fuse == 0;
  bomb::fuse = 0;
  return {failed, threw};
};

using numbers = abtree<int, int, domain<token, batch>, std::less<int>, 4>;
using bombs = abtree<bomb, bomb, domain<token, batch>, std::less<bomb>, 4>;

/// A key in the middle of the tree: `size` / 2 lies at a leaf that may be full, or nearly empty.
int middle(int size) { return size / 2 * 10; }

TEST(AbtreeErrors, insert_without_memory) {
  expect_all_or_nothing<numbers>(
      [](auto& tree, int size) { EXPECT_TRUE(tree.insert(middle(size) + 1, 7)); },
      [](auto& expected, int size) { expected.emplace(middle(size) + 1, 7); }, failing_memory);
}

TEST(AbtreeErrors, insert_or_assign_and_erase_without_memory) {
  expect_all_or_nothing<numbers>(
      [](auto& tree, int size) {
        if (size == 0) return;
        tree.erase(middle(size));
      },
      [](auto& expected, int size) { expected.erase(middle(size)); }, failing_memory);
  numbers tree;
  fill(tree, 20);
  test::for_each_allocation_failure([&] {
    try {
      tree.insert_or_assign(50, 8);
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(tree.find(50), 5);
      throw;
    }
  });
  EXPECT_EQ(tree.find(50), 8);
}

TEST(AbtreeErrors, insert_while_copies_throw) {
  {
    expect_all_or_nothing<bombs>(
        [](auto& tree, int size) { tree.insert(bomb(middle(size) + 1), 7); },
        [](auto& expected, int size) { expected.emplace(middle(size) + 1, 7); }, failing_copies);
  }
  EXPECT_EQ(bomb::alive, 0);
}

TEST(AbtreeErrors, erase_while_copies_throw) {
  {
    expect_all_or_nothing<bombs>([](auto& tree, int size) { tree.erase(bomb(middle(size))); },
                                 [](auto& expected, int size) { expected.erase(middle(size)); },
                                 failing_copies);
  }
  EXPECT_EQ(bomb::alive, 0);
}

TEST(AbtreeErrors, nothing_leaks_when_memory_runs_out) {
  threads::number();  // joins this thread, once for the process: not to be counted below
  const auto before = live_allocations();
  {
    abtree<std::string, std::string, domain<token, batch>, std::less<std::string>, 4> tree;
    for (int i = 0; i < 3000; ++i) {
      const std::string key =
          "a key too long to lie in the string itself " + std::to_string(i % 150);
      const fail_after fault(1 + static_cast<std::uint64_t>(i % 13), failing::from_then_on);
      try {
        i % 4 == 3 ? tree.erase(key) : tree.insert_or_assign(key, key);
      } catch (const std::bad_alloc&) {
      }
    }
    EXPECT_EQ(tree.audit().wrong, "");
    EXPECT_EQ(tree.audit().pairs, tree.size_approx());
    tree.domain().drain();
  }
  EXPECT_EQ(live_allocations(), before);
}

TEST(AbtreeErrors, what_was_left_unbalanced_is_repaired_by_later_updates) {
  numbers tree;
  for (int i = 0; i < 2000; ++i) {
    // The first allocation, the update's own, succeeds; the repairs' do not.
    const fail_after fault(4, failing::from_then_on);
    try {
      tree.insert(i, i);
    } catch (const std::bad_alloc&) {
    }
  }
  ASSERT_EQ(tree.audit().wrong, "");
  const auto left = tree.audit().violations;
  EXPECT_GT(left, 0U);
  for (int i = 0; i < 2000; ++i) tree.erase(i);
  for (int i = 0; i < 2000; ++i) tree.insert(i, i);
  EXPECT_EQ(tree.audit().wrong, "");
  EXPECT_LT(tree.audit().violations, left);
}

TEST(AbtreeErrors, a_tree_that_cannot_be_made_leaks_nothing) {
  threads::number();  // joins this thread, once for the process: not to be counted below
  const auto before = live_allocations();
  const auto failures = test::for_each_allocation_failure([] { numbers tree; });
  EXPECT_GE(failures, 2U);
  EXPECT_EQ(live_allocations(), before);
}

}  // namespace
