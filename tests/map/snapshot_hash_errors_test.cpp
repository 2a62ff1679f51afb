// SPDX-License-Identifier: Apache-2.0
// snapshot_hash: allocations, copies, hashes and comparisons that fail leave it as it was.
#include <spolia/map/snapshot_hash.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <new>

#include "map/touchy.hpp"
#include "support/faults.hpp"
#include "version/all_collectors.hpp"

namespace spolia::test {
namespace {

struct touchy_equal {
  bool operator()(const touchy& a, const touchy& b) const {
    comparisons.pull();
    return a.value == b.value;
  }
};
/// Throws as a comparison does; and many keys have the same.
struct touchy_hash {
  std::size_t operator()(const touchy& t) const {
    comparisons.pull();
    return static_cast<std::size_t>(t.value % 300);
  }
};
/// Lies in the versions, whose divisions then ask for its hash.
struct touchy_number_hash {
  std::size_t operator()(int key) const {
    comparisons.pull();
    return static_cast<std::size_t>(key);
  }
};

template <class Collector>
class snapshot_hash_errors : public testing::Test {
 protected:
  using map = snapshot_hash<touchy, touchy, Collector, touchy_hash, touchy_equal>;
  using contents = std::map<int, int>;

  static contents of(const map& m, const snapshot& now) {
    contents all;
    for (const auto& [k, v] : m.all(now)) all.emplace(k.value, v.value);
    return all;
  }
  typename Collector::timeline_type time;
};
using two_of_them = testing::Types<epoch_collector<>, sl_rt<>>;
TYPED_TEST_SUITE(snapshot_hash_errors, two_of_them, collector_names);

/// Through growth and divisions: before each update a snapshot, and the same after each failure.
/// Growth fails without a word, so an update may have come through all the same; it comes later,
/// since every other update has all the memory it wants.
TYPED_TEST(snapshot_hash_errors, an_allocation_that_fails_changes_nothing) {
  alive = 0;
  {
    typename TestFixture::map m(this->time, {.buckets = 1, .load = 1});
    std::uint64_t failures = 0;
    for (int i = 0; i < 400; ++i) {
      const auto before = this->of(m, snapshot(this->time));
      bool done = false;
      const auto update = [&] {
        if (i % 5 == 4) {
          EXPECT_TRUE(m.erase(touchy(i - 1)));
        } else {
          EXPECT_TRUE(m.insert(touchy(i), touchy(-i)));
        }
        done = true;
      };
      if (i % 2 == 0) update();
      failures += for_each_allocation_failure([&] {
        try {
          if (!done) update();
        } catch (const std::bad_alloc&) {
          EXPECT_EQ(this->of(m, snapshot(this->time)), before);
          throw;
        }
      });
    }
    EXPECT_GE(failures, 400U);
    EXPECT_GT(m.buckets(), 100U);
    EXPECT_EQ(this->of(m, snapshot(this->time)).size(), 240U);
    EXPECT_EQ(m.size_approx(), 240U);
  }
  EXPECT_EQ(alive, 0);
}

TYPED_TEST(snapshot_hash_errors, a_map_that_cannot_be_made_leaves_nothing_behind) {
  const auto before = live_allocations();
  EXPECT_GE(for_each_allocation_failure([&] { typename TestFixture::map m(this->time); }), 1U);
  EXPECT_LE(live_allocations(), before);
}

TYPED_TEST(snapshot_hash_errors, what_the_users_types_throw_changes_nothing) {
  alive = 0;
  {
    typename TestFixture::map m(this->time, {.buckets = 1, .load = 1});
    for (int i = 0; i < 100; ++i) {
      const auto before = this->of(m, snapshot(this->time));
      for (int n = 0;; ++n) {
        (i % 2 == 0 ? copies : comparisons).left = n;
        try {
          const touchy key(i % 40);
          m.insert_or_assign(key, touchy(i));
          comparisons.left = copies.left = -1;
          break;
        } catch (const bad_day&) {
          comparisons.left = copies.left = -1;
          EXPECT_EQ(this->of(m, snapshot(this->time)), before);
        }
        ASSERT_LT(n, 1000);
      }
      EXPECT_EQ(m.find(touchy(i % 40))->value, i);
    }
    EXPECT_EQ(m.size_approx(), 40U);
  }
  EXPECT_EQ(alive, 0);
}

TYPED_TEST(snapshot_hash_errors, hashes_that_throw_while_a_bucket_is_divided) {
  snapshot_hash<int, int, TypeParam, touchy_number_hash> m(this->time, {.buckets = 1, .load = 1});
  std::uint64_t thrown = 0;
  for (int i = 0; i < 200; ++i) {
    for (int n = 0;; ++n) {
      comparisons.left = n;
      try {
        m.insert(i, i);
        comparisons.left = -1;
        break;
      } catch (const bad_day&) {
        comparisons.left = -1;
        ++thrown;
        ASSERT_FALSE(m.contains(i));
      }
    }
  }
  EXPECT_GT(thrown, 200U);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(m.find(i), i);
}

/// Growth that has no memory does not harm, and comes later.
TEST(snapshot_hash_growth, waits_for_memory) {
  snapshot_hash<int, int> m({.buckets = 1, .load = 1});
  int inserted = 0;
  for (int i = 0; i < 2000; ++i) {
    fail_after fault(3, failing::from_then_on);
    try {
      m.insert(i, i);
      ++inserted;
    } catch (const std::bad_alloc&) {
    }
  }
  EXPECT_GT(inserted, 0);
  for (int i = 0; i < 2000; ++i) m.insert(i, i);
  for (int i = 2000; i < 4000; ++i) m.insert(i, i);
  EXPECT_GE(m.buckets(), 1024U);
  const snapshot now;
  EXPECT_EQ(m.size(now), 4000U);
}

}  // namespace
}  // namespace spolia::test
