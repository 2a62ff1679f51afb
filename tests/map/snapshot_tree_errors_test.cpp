// SPDX-License-Identifier: Apache-2.0
// snapshot_tree: allocations, copies and comparisons that fail change nothing and lose nothing.
#include <spolia/map/snapshot_tree.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <utility>
#include <vector>

#include "map/errors_suite.hpp"
#include "map/snapshot_trees.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace spolia::test {
namespace {

// The suite expects of an erase that it does not allocate; here are its types used.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(map_errors);

template <class Subject>
class snapshot_tree_errors
    : public changes_that_fail<typename Subject::template of<touchy, touchy, touchy_less>> {
 protected:
  using numbers =
      eager_tree<int, int, typename snapshot_tree_errors::map::collector_type, std::less<int>, 1>;
};
TYPED_TEST_SUITE(snapshot_tree_errors, tree_subjects, tree_names);

/// An update may have taken effect although an allocation failed: in balancing, or in collecting.
/// Then the next run finds it done.
TYPED_TEST(snapshot_tree_errors, an_allocation_that_fails_changes_nothing) {
  alive = 0;
  {
    typename TestFixture::map m;
    for (int i : {1, 3, 5, 7, 9, 11}) m.insert(touchy(i), touchy(10 * i));
    const snapshot then(m.time());
    const auto before = this->of(m);
    for (int round = 0; round < 12; ++round) {
      const touchy key(round * 2 % 12);
      bool there = false;
      const auto check = [&](auto&& change) {
        for_each_allocation_failure([&] {
          try {
            change();
          } catch (const std::bad_alloc&) {
            EXPECT_EQ(m.contains(key), there);
            throw;
          }
        });
      };
      check([&] {
        const bool inserted = m.insert(key, touchy(1));
        EXPECT_EQ(inserted, !std::exchange(there, true));
      });
      check([&] { EXPECT_FALSE(m.insert_or_assign(key, touchy(2))); });
      EXPECT_EQ(m.find(key)->value, 2);
      check([&] {
        const bool erased = m.erase(key);
        EXPECT_EQ(erased, std::exchange(there, false));
      });
      EXPECT_FALSE(m.contains(key));
      EXPECT_EQ(this->of(m), before);
    }
    std::size_t seen = 0;
    for_each_allocation_failure([&] {
      seen = 0;
      m.for_each([&](const auto&, const auto&) { ++seen; });
    });
    EXPECT_EQ(seen, 6U);
    EXPECT_EQ(m.size(then), 6U);
    EXPECT_EQ(m.audit().wrong, "");
  }
  EXPECT_EQ(alive, 0);
}

TYPED_TEST(snapshot_tree_errors, a_map_that_cannot_be_made_leaves_nothing_behind) {
  timeline time;
  using tree = snapshot_tree<int, int>;
  {
    const tree first(time);
  }
  const auto before = live_allocations();
  EXPECT_GE(for_each_allocation_failure([&] { const tree m(time); }), 1U);
  EXPECT_LE(live_allocations(), before);
}

TYPED_TEST(snapshot_tree_errors, a_copy_or_comparison_that_throws_changes_nothing) {
  alive = 0;
  {
    typename TestFixture::map m;
    for (int i : {1, 3, 5, 7}) m.insert(touchy(i), touchy(10 * i));
    const touchy key(6);
    const touchy value(60);
    EXPECT_GE(this->fails_everywhere(m, copies, [&] { m.insert(key, value); }), 2);
    EXPECT_EQ(m.find(key)->value, 60);
    EXPECT_GE(this->fails_everywhere(m, copies, [&] { m.insert_or_assign(key, value); }), 1);
    EXPECT_EQ(this->fails_everywhere(m, copies, [&] { (void)m.find(key); }), 1);
    EXPECT_EQ(this->fails_everywhere(m, copies, [&] { m.for_each([](auto&, auto&) {}); }), 0);
    m.erase(key);
    EXPECT_GE(this->fails_everywhere(m, comparisons, [&] { m.insert(key, value); }), 3);
    EXPECT_TRUE(m.contains(key));
    EXPECT_GE(this->fails_everywhere(m, comparisons, [&] { (void)m.contains(key); }), 3);
    EXPECT_GE(this->fails_everywhere(m, comparisons,
                                     [&] { m.range(touchy(2), key, [](auto&, auto&) {}); }),
              4);
    EXPECT_GE(this->fails_everywhere(m, comparisons, [&] { m.erase(key); }), 3);
    EXPECT_FALSE(m.contains(key));
    EXPECT_EQ(m.audit().wrong, "");
    m.domain().drain();
  }
  EXPECT_EQ(alive, 0);
}

/// The map is right though it cannot be balanced, and later updates balance it: also where many
/// violations have come together, which is when the rarest steps are needed.
TYPED_TEST(snapshot_tree_errors, balancing_without_memory_is_left_to_others) {
  rng random(seed_for(0));
  for (int round = 0; round < tries(20); ++round) {
    // One pair a leaf, so that there are many steps.
    typename TestFixture::numbers m;
    for (int key = 0; key < 600; key += 2) m.insert(key, key);
    for (int i = 0; i < 500; ++i) {
      const int key = static_cast<int>(random.below(600));
      const bool grow = random.chance(1, 2);
      // Two leaves, a router, a version; or one version; a step or two; and then nothing.
      fail_after fault((grow ? 5 : 2) + random.below(7), failing::from_then_on);
      if (grow) {
        m.insert(key, key);
      } else {
        m.erase(key);
      }
    }
    EXPECT_EQ(m.audit().wrong, "");
    EXPECT_EQ(m.audit().pairs, m.size_approx());
    for (int key = 0; key < 600; ++key) {
      if (!m.insert(key, key)) m.erase(key);
      if (key % 100 == 0) {
        ASSERT_EQ(m.audit().wrong, "");
      }
    }
    for (int key = -200; key < 800; ++key) m.insert(key, 0);
    for (int key = -200; key < 800; ++key) m.erase(key);
    EXPECT_EQ(m.audit().wrong, "");
    EXPECT_EQ(m.audit().violations, 0U);
  }
}

}  // namespace
}  // namespace spolia::test
