// SPDX-License-Identifier: Apache-2.0
// one_shot_evacuated where memory is refused now and then, and how often it asks for some.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <new>

#include "db/evacuated.hpp"
#include "support/faults.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using test::evacuated;

/// Commits that find no memory: snapshots show the same, and figures are right in the end.
TEST_F(evacuated, without_memory_nothing_is_lost) {
  test::rng random(11);
  for (std::size_t i = 0; i < now.size(); ++i) {
    ASSERT_TRUE(base.transact([&](transaction& tx) { return put(tx, i, 1); }));
    now[i] = 1;
  }
  std::uint64_t met = 0;
  for (int i = 0; i < 3000; ++i) {
    if (i % 40 == 0) hold();
    if (all.size() > 12) {
      const test::fail_after fault(1 + random.below(24), random.chance(1, 2)
                                                             ? test::failing::once
                                                             : test::failing::from_then_on);
      for (int gone = random.chance(1, 4) ? 8 : 1; gone > 0; --gone) {
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(random.below(all.size())));
      }
      if (random.chance(3, 4)) base.collect();
      met += fault.fired() ? 1U : 0U;
    }
    const auto row = static_cast<std::size_t>(random.below(now.size()));
    try {
      const test::fail_after fault(1 + random.below(40), random.chance(1, 2)
                                                             ? test::failing::once
                                                             : test::failing::from_then_on);
      status done = base.transact([&](transaction& tx) { return put(tx, row, last + 1); });
      met += fault.fired() ? 1U : 0U;
      if (done) now[row] = last + 1;
    } catch (const std::bad_alloc&) {
      ++met;
    }
    ++last;
    if (i % 200 == 199) {
      ASSERT_NO_FATAL_FAILURE(check_all());
    }
  }
  EXPECT_GT(met, 200U);
  all.clear();
  base.collect();
  base.collect();
  const delta_stats s = figures();
  EXPECT_EQ(s.versions_made, s.versions_dropped);
}

/// A sweep takes memory for its list of what goes a logarithm of times, not once for each version.
TEST_F(evacuated, many_versions_go_at_once) {
  constexpr std::int64_t many = 20000;
  table& t =
      base.create_table({.name = "many", .columns = {{"k", int64, primary_key}, {"v", int64}}});
  const auto change_all = [&](auto&& f) {
    for (std::int64_t k = 0; k < many; k += 100) {
      ASSERT_TRUE(base.transact([&](transaction& tx) {
        status s;
        for (std::int64_t i = k; s && i < k + 100; ++i) s = f(tx, i);
        return s;
      }));
    }
  };
  ASSERT_NO_FATAL_FAILURE(
      change_all([&](transaction& tx, std::int64_t k) { return tx.insert(t, {k, 0}); }));
  const std::int64_t before = test::live_allocations();
  hold();
  for (std::int64_t v = 1; v < 3; ++v) {
    ASSERT_NO_FATAL_FAILURE(
        change_all([&](transaction& tx, std::int64_t k) { return tx.update(t, {k}, {{"v", v}}); }));
    base.collect();
  }
  EXPECT_GE(figures().versions_made - figures().versions_dropped, std::uint64_t{many});
  all.clear();
  const std::uint64_t allocations = test::thread_allocations();
  base.collect();
  EXPECT_LE(test::thread_allocations() - allocations, 1000U);
  base.collect();
  EXPECT_EQ(figures().versions_made, figures().versions_dropped);
  EXPECT_LE(test::live_allocations() - before, 200);
  EXPECT_LE(figures().bytes, std::uint64_t{1} << 18U);
}

}  // namespace
