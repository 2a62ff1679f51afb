// SPDX-License-Identifier: Apache-2.0
/// \file
/// Allocations, copies and comparisons that fail leave a map as it was and lose nothing.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "map/subjects.hpp"
#include "map/touchy.hpp"
#include "support/all_domains.hpp"
#include "support/faults.hpp"

namespace spolia::test {

struct touchy_less {
  bool operator()(const touchy& a, const touchy& b) const {
    comparisons.pull();
    return a.value < b.value;
  }
};

template <class Map>
class changes_that_fail : public testing::Test {
 protected:
  using map = Map;
  using contents = std::vector<std::pair<int, int>>;

  static contents of(const map& m) {
    contents all;
    m.for_each([&](const touchy& k, const touchy& v) { all.emplace_back(k.value, v.value); });
    return all;
  }

  /// Runs `change` with the first copy or comparison failing, then the second, until none fails;
  /// each time the map must be as it was.
  template <class F>
  static int fails_everywhere(map& m, trigger& what, F change) {
    const contents before = of(m);
    for (int n = 0;; ++n) {
      what.left = n;
      try {
        change();
      } catch (const bad_day&) {
        what.left = -1;
        EXPECT_EQ(of(m), before);
        EXPECT_EQ(m.size_approx(), before.size());
        continue;
      }
      what.left = -1;
      return n;
    }
  }
};

template <class Subject>
class map_errors
    : public changes_that_fail<typename Subject::template of<touchy, touchy, touchy_less>> {
 protected:
  using domain_type = typename Subject::domain_type;
};
TYPED_TEST_SUITE_P(map_errors);

TYPED_TEST_P(map_errors, an_allocation_that_fails_changes_nothing) {
  alive = 0;
  {
    typename TestFixture::map m;
    m.insert(touchy(1), touchy(10));
    m.insert(touchy(3), touchy(30));
    const touchy two(2);
    const touchy value(20);
    const auto expect_two = [&](bool there) {
      EXPECT_EQ(m.contains(two), there);
      EXPECT_EQ(m.size_approx(), there ? 3U : 2U);
    };
    EXPECT_GE(for_each_allocation_failure([&] {
                try {
                  EXPECT_TRUE(m.insert(two, value));
                } catch (const std::bad_alloc&) {
                  expect_two(false);
                  throw;
                }
              }),
              1U);
    expect_two(true);
    EXPECT_GE(for_each_allocation_failure([&] {
                try {
                  EXPECT_FALSE(m.insert_or_assign(two, touchy(21)));
                } catch (const std::bad_alloc&) {
                  EXPECT_EQ(m.find(two)->value, 20);
                  throw;
                }
              }),
              1U);
    EXPECT_EQ(m.find(two)->value, 21);
    EXPECT_EQ(for_each_allocation_failure([&] { EXPECT_TRUE(m.erase(two)); }), 0U);
    expect_two(false);
    std::size_t seen = 0;
    for_each_allocation_failure([&] { m.for_each([&](const auto&, const auto&) { ++seen; }); });
    EXPECT_EQ(seen, 2U);
    m.domain().drain();
  }
  EXPECT_EQ(alive, 0);
}

TYPED_TEST_P(map_errors, a_map_that_cannot_be_made_leaves_nothing_behind) {
  const auto before = live_allocations();
  EXPECT_GE(for_each_allocation_failure([] { typename TestFixture::map m; }), 1U);
  EXPECT_LE(live_allocations(), before);
}

TYPED_TEST_P(map_errors, a_copy_that_throws_changes_nothing) {
  alive = 0;
  {
    typename TestFixture::map m;
    for (int i : {1, 3, 5}) m.insert(touchy(i), touchy(10 * i));
    const touchy key(4);
    const touchy value(40);
    EXPECT_GE(this->fails_everywhere(m, copies, [&] { m.insert(key, value); }), 2);
    EXPECT_EQ(m.find(key)->value, 40);
    EXPECT_GE(this->fails_everywhere(m, copies, [&] { m.insert_or_assign(key, value); }), 1);
    EXPECT_EQ(this->fails_everywhere(m, copies, [&] { (void)m.find(key); }), 1);
    EXPECT_GE(this->fails_everywhere(m, copies, [&] { m.for_each([](auto&, auto&) {}); }), 8);
    m.erase(key);
    m.domain().drain();
  }
  EXPECT_EQ(alive, 0);
}

TYPED_TEST_P(map_errors, a_comparison_that_throws_changes_nothing) {
  // Under a restartable scheme comparisons must not throw: the containers say so.
  if (protects_by_restart<typename TestFixture::domain_type::scheme_type>) return;
  alive = 0;
  {
    typename TestFixture::map m;
    for (int i : {1, 3, 5, 7}) m.insert(touchy(i), touchy(10 * i));
    const touchy key(6);
    const touchy value(60);
    EXPECT_GE(this->fails_everywhere(m, comparisons, [&] { m.insert(key, value); }), 4);
    EXPECT_TRUE(m.contains(key));
    EXPECT_GE(this->fails_everywhere(m, comparisons, [&] { m.insert_or_assign(key, value); }), 4);
    EXPECT_GE(this->fails_everywhere(m, comparisons, [&] { (void)m.contains(key); }), 4);
    if constexpr (is_ordered<typename TestFixture::map>) {
      EXPECT_GE(this->fails_everywhere(m, comparisons,
                                       [&] { m.range(touchy(2), key, [](auto&, auto&) {}); }),
                4);
    }
    EXPECT_GE(this->fails_everywhere(m, comparisons, [&] { m.erase(key); }), 4);
    EXPECT_FALSE(m.contains(key));
    m.domain().drain();
  }
  EXPECT_EQ(alive, 0);
}

TYPED_TEST_P(map_errors, what_visit_and_for_each_let_out_ends_the_guard) {
  typename TestFixture::map m;
  m.insert(touchy(1), touchy(10));
  EXPECT_THROW(m.visit(touchy(1), [](const touchy&) { throw bad_day(); }), bad_day);
  EXPECT_THROW(m.for_each([](const touchy&, const touchy&) { throw bad_day(); }), bad_day);
  EXPECT_TRUE(m.erase(touchy(1)));
  EXPECT_TRUE(drain_all(m.domain())) << "some guard was not ended";
}

REGISTER_TYPED_TEST_SUITE_P(map_errors, an_allocation_that_fails_changes_nothing,
                            a_map_that_cannot_be_made_leaves_nothing_behind,
                            a_copy_that_throws_changes_nothing,
                            a_comparison_that_throws_changes_nothing,
                            what_visit_and_for_each_let_out_ends_the_guard);

}  // namespace spolia::test
