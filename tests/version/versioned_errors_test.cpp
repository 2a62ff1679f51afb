// SPDX-License-Identifier: Apache-2.0
// Versioned objects when allocations fail and user types throw: nothing has changed, nothing leaks.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <thread>

#include "support/faults.hpp"
#include "version/all_collectors.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

struct bad_day : std::runtime_error {
  bad_day() : runtime_error("not today") {}
};

/// Throws when copied, moved or compared, once `left` is used up.
struct touchy {
  static inline int left = -1;
  static inline int alive = 0;
  static void pull() {
    if (left >= 0 && left-- == 0) throw bad_day();
  }

  explicit touchy(int v) : value(v) { ++alive; }
  touchy(const touchy& o) : value(o.value) {
    pull();
    ++alive;
  }
  touchy& operator=(const touchy&) = delete;
  ~touchy() { --alive; }
  friend bool operator==(const touchy& a, const touchy& b) {
    pull();
    return a.value == b.value;
  }
  int value;
};

template <class Collector>
class versioned_errors : public testing::Test {};
using one_of_each = every_collector<testing::Types>;
TYPED_TEST_SUITE(versioned_errors, one_of_each, collector_names);

TYPED_TEST(versioned_errors, what_a_value_throws_changes_nothing) {
  {
    versioned_objects<touchy, TypeParam> w;
    auto& x = w.make(1);
    for (int n = 0;; ++n) {
      auto here = w.enter();
      const int before = x.load(here).value;
      touchy::left = n;
      try {
        const bool changed = x.compare_exchange(here, touchy(before), touchy(before + 1));
        touchy::left = -1;
        EXPECT_TRUE(changed);
        break;
      } catch (const bad_day&) {
        touchy::left = -1;
        EXPECT_EQ(x.load(here).value, before);
      }
      ASSERT_LT(n, 100);
    }
  }
  EXPECT_EQ(touchy::alive, 0);
}

TYPED_TEST(versioned_errors, memory_that_is_missing_changes_nothing) {
  {
    auto o = eager_options<TypeParam>();
    if constexpr (requires { o.scan_period; }) o.scan_period = std::chrono::hours(1);
    versioned_objects<touchy, TypeParam> w(o);
    auto& x = w.make(0);
    // Scans may fail unnoticed. The first one is made here, and not again for an hour; by another
    // thread, so that this one still has everything to allocate.
    std::thread([&] {
      auto here = w.enter();
      x.store(here, touchy(0));
    }).join();
    int value = 0;
    const std::uint64_t failures = for_each_allocation_failure([&] {
      auto here = w.enter();
      EXPECT_EQ(x.load(here).value, value);
      x.store(here, touchy(value + 1));
      ++value;
    });
    EXPECT_GE(failures, 1U);
    EXPECT_EQ(value, 1);  // no store has failed unnoticed
  }
  EXPECT_EQ(touchy::alive, 0);
}

/// Scans without memory, right through the tracker's work: versions wait, and are found later.
TYPED_TEST(versioned_errors, upkeep_without_memory_loses_nothing) {
  {
    versioned_objects<touchy, TypeParam> w;
    auto& x = w.make(0);
    for (int i = 0; i < 300; ++i) {
      const snapshot one(w.time);
      auto here = w.enter();
      x.store(here, touchy(i));
      fail_after fault(1, failing::from_then_on);
      {
        auto ends_without_memory = std::move(here);
      }
    }
    {
      auto here = w.enter();
      x.store(here, touchy(0));  // some look at nothing but what is changed
    }
    w.versions.collect();
    EXPECT_EQ(w.versions.stats().held(), 0U);
    EXPECT_TRUE(w.nodes.drain());
    EXPECT_EQ(touchy::alive, 1);
  }
  EXPECT_EQ(touchy::alive, 0);
}

TYPED_TEST(versioned_errors, a_snapshot_without_memory_is_none) {
  versioned_objects<int, TypeParam> w;
  for_each_allocation_failure([&] {
    try {
      const snapshot s(w.time);
    } catch (const std::bad_alloc&) {
      w.time.living().for_each([](const census::entry&) { ADD_FAILURE() << "announced"; });
      throw;
    }
  });
}

TEST(versioned_errors_of_several_timelines, a_snapshot_without_memory_is_none) {
  timeline one;
  basic_timeline<logical_clock, stamping::on_update> two;
  const auto none_is_announced = [](const census::entry&) { ADD_FAILURE() << "announced"; };
  const std::uint64_t failures = for_each_allocation_failure([&] {
    const std::uint64_t before = one.now();
    try {
      const snapshot s({one, two});
    } catch (const std::bad_alloc&) {
      one.living().for_each(none_is_announced);
      two.living().for_each(none_is_announced);
      EXPECT_EQ(one.stamp(), one.now()) << "updates are still asked for ticks";
      EXPECT_LE(one.now(), before + 1);
      throw;
    }
  });
  EXPECT_GE(failures, 3U);
}

TEST(versioned_options, that_make_no_sense_are_refused) {
  region_domain nodes;
  timeline time;
  EXPECT_THROW(dl_rt<>(nodes, time, {.steps = 1}), std::invalid_argument);
}

}  // namespace
