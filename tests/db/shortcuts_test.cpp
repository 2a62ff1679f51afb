// SPDX-License-Identifier: Apache-2.0
// one_shot_consolidated: what readers of a held snapshot have found out about dead links is kept
// for the next ones, stays right, and goes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <spolia/db.hpp>

#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;

struct shortcuts_store {
  static constexpr std::int64_t usual = 4000;         // rows
  static constexpr std::uint64_t of_all = 9 * usual;  // bytes of one snapshot's shortcuts
  using state = std::vector<std::int64_t>;

  explicit shortcuts_store(std::int64_t count = usual, std::uint64_t budget = 0)
      : rows(count),
        base(database::open({.versions = version_storage::one_shot_consolidated,
                             .version_budget = budget,
                             .partition_transactions = 16})) {
    for (std::int64_t k = 0; k < rows; k += 100) {
      const status s = base.transact([&](transaction& tx) {
        status each;
        for (std::int64_t i = k; each && i < k + 100; ++i) each = tx.insert(t, {i, i});
        return each;
      });
      EXPECT_TRUE(s);
    }
    std::iota(now.begin(), now.end(), 0);
  }
  /// Each row once, in no order, and some of them are not there for a while.
  void change_all() { change_of_first(rows); }
  /// Of so many.
  void change_of_first(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t k = i * 1597 % count;
      std::int64_t& was = now[static_cast<std::size_t>(k)];
      const std::int64_t next = random.chance(1, 20) ? -1 : ++last;
      if (was == -1 && next == -1) continue;
      ASSERT_TRUE(base.transact([&](transaction& tx) {
        if (was == -1) return tx.insert(t, {k, next});
        return next == -1 ? tx.erase(t, {k}) : tx.update(t, {k}, {{"v", next}});
      }));
      was = next;
    }
  }
  void hold() { held.emplace_back(std::unique_ptr<reader>(new reader(base.snapshot())), now); }

  [[nodiscard]] std::uint64_t bytes() const { return base.stats().versions.bytes; }
  [[nodiscard]] state found_by_rows(const reader& at) const {
    state found(now.size(), -1);
    at.for_each(t, [&](const row& r) { found[static_cast<std::size_t>(r.get(key))] = r.get(v); });
    return found;
  }
  void check(std::size_t snapshot) {
    const auto& [at, was] = held[snapshot];
    std::int64_t sum = 0;
    std::int64_t count = 0;
    for (const std::int64_t n : was) {
      sum += n == -1 ? 0 : n;
      count += n == -1 ? 0 : 1;
    }
    const auto all = at->query(t).aggregate(db::sum("v"), db::count()).run({.threads = 1});
    ASSERT_TRUE(all);
    ASSERT_EQ(all->get<std::int64_t>(0, 0), sum);
    ASSERT_EQ(all->get<std::int64_t>(0, 1), count);
    ASSERT_EQ(found_by_rows(*at), was);
    for (int i = 0; i < 200; ++i) {
      const auto k = static_cast<std::int64_t>(checked.below(now.size()));
      const auto found = at->find(t, {k});
      ASSERT_EQ(found ? found->get(v) : -1, was[static_cast<std::size_t>(k)]) << k;
    }
  }

  const std::int64_t rows;
  database base;
  table& t = base.create_table({.name = "t", .columns = {{"k", int64, primary_key}, {"v", int64}}});
  const column<std::int64_t> key = t.column<std::int64_t>("k");
  const column<std::int64_t> v = t.column<std::int64_t>("v");
  state now = state(static_cast<std::size_t>(rows));
  std::vector<std::pair<std::unique_ptr<reader>, state>> held;
  test::rng random{17};
  test::rng checked{18};
  std::int64_t last = rows;
};

/// Nine bytes a row for each snapshot that has been read. The same is done in a store where
/// nothing is read.
TEST(shortcuts, take_little) {
  shortcuts_store read;
  shortcuts_store other;
  for (shortcuts_store* const s : {&read, &other}) {
    for (int snapshots = 0; snapshots < 2; ++snapshots) {
      s->hold();
      for (int i = 0; i < 4; ++i) ASSERT_NO_FATAL_FAILURE(s->change_all());
    }
    s->base.collect();
  }
  constexpr std::uint64_t most = shortcuts_store::of_all + 4096;
  ASSERT_EQ(read.bytes(), other.bytes());
  ASSERT_NO_FATAL_FAILURE(read.check(0));
  EXPECT_GT(read.bytes(), other.bytes() + most / 4) << "there are none";
  EXPECT_LE(read.bytes(), other.bytes() + most);
  ASSERT_NO_FATAL_FAILURE(read.check(1));
  EXPECT_GT(read.bytes(), other.bytes() + most) << "there are none";
  EXPECT_LE(read.bytes(), other.bytes() + 2 * most);
  for (std::size_t i = 0; i < 4; ++i) ASSERT_NO_FATAL_FAILURE(read.check(i % 2));
  EXPECT_LE(read.bytes(), other.bytes() + 2 * most);
}

/// Where many snapshots were read, one after the other, no more is left than where few were.
TEST(shortcuts, go_with_their_snapshots) {
  shortcuts_store s;
  std::uint64_t after_two = 0;
  for (int round = 0; round < 10; ++round) {
    s.hold();
    for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(s.change_all());
    ASSERT_NO_FATAL_FAILURE(s.check(0));
    s.held.clear();
    for (int i = 0; i < 3; ++i) s.base.collect();
    if (round == 1) after_two = s.bytes();
  }
  EXPECT_LE(s.bytes(), after_two + 2 * shortcuts_store::of_all);
  const delta_stats all = s.base.stats().versions;
  EXPECT_EQ(all.versions_made, all.versions_dropped);
}

/// So many came and went that all of them would be beyond the bound: the next ones are made. There
/// is a younger snapshot each time when one ends, which does not need what that one had.
TEST(shortcuts, come_where_many_have_gone) {
  if (spolia::test::no_long_cases) GTEST_SKIP() << "SKIPPED it is long here";
  shortcuts_store s;
  constexpr std::uint64_t each = shortcuts_store::of_all;
  s.hold();
  for (std::uint64_t all = 0; all < (std::uint64_t{5} << 18U); all += each) {
    s.hold();
    s.held.erase(s.held.begin());
    for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(s.change_all());
    s.hold();
    s.base.collect();
    const std::uint64_t before = s.bytes();
    EXPECT_EQ(s.found_by_rows(*s.held[0].first), s.held[0].second);
    EXPECT_GT(s.bytes(), before + each / 2) << all;
    s.held.erase(s.held.begin());
    s.base.collect();
  }
}

/// By readers that ask for row after row, too.
TEST(shortcuts, are_made_by_looks_at_single_rows) {
  shortcuts_store s;
  s.hold();
  for (int i = 0; i < 4; ++i) ASSERT_NO_FATAL_FAILURE(s.change_all());
  s.base.collect();
  const std::uint64_t before = s.bytes();
  const auto& [at, was] = s.held[0];
  for (std::int64_t k = 0; k < s.rows; ++k) {
    const auto found = at->find(s.t, {k});
    ASSERT_EQ(found ? found->get(s.v) : -1, was[static_cast<std::size_t>(k)]) << k;
  }
  EXPECT_GT(s.bytes(), before + shortcuts_store::of_all / 2);
}

/// A page for 64 rows that are numbered one after the other is half a kilobyte, though only each
/// fiftieth row was changed.
TEST(shortcuts, of_rows_far_apart_are_right_and_a_quarter_at_most) {
  if (spolia::test::no_long_cases) GTEST_SKIP() << "SKIPPED it is long here";
  constexpr std::int64_t apart = 50;
  constexpr std::uint64_t megabyte = std::uint64_t{1} << 20U;
  for (const std::int64_t rows : {50'000, 200'000}) {
    SCOPED_TRACE(rows);
    shortcuts_store s(rows);
    s.hold();
    for (int i = 0; i < 4; ++i) {
      for (std::int64_t k = 0; k < rows; k += apart) {
        ASSERT_TRUE(
            s.base.transact([&](transaction& tx) { return tx.update(s.t, {k}, {{"v", -k}}); }));
      }
    }
    s.base.collect();
    const std::uint64_t before = s.bytes();
    for (int i = 0; i < 3; ++i) ASSERT_EQ(s.found_by_rows(*s.held[0].first), s.held[0].second);
    const auto pages = static_cast<std::uint64_t>(rows / 64);
    EXPECT_LE(s.bytes(), before + std::max(megabyte, before / 4) + 4096);
    EXPECT_EQ(s.bytes() > before + 512 * pages, 512 * pages < megabyte) << "they are not as large";
  }
}

/// Many snapshots see the same old versions: then shortcuts are much beside these.
TEST(shortcuts, of_all_snapshots_take_a_megabyte_beside_few_versions) {
  if (spolia::test::no_long_cases) GTEST_SKIP() << "SKIPPED it is long here";
  shortcuts_store read(12000);
  shortcuts_store other(12000);
  for (shortcuts_store* const s : {&read, &other}) {
    for (int n = 0; n < 40; ++n) {
      s->hold();
      ASSERT_NO_FATAL_FAILURE(s->change_of_first(1));
    }
    for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(s->change_all());
    s->base.collect();
  }
  for (const auto& [at, was] : read.held) ASSERT_EQ(read.found_by_rows(*at), was);
  constexpr std::uint64_t megabyte = std::uint64_t{1} << 20U;
  EXPECT_GT(read.bytes(), other.bytes() + megabyte / 2) << "there are few";
  EXPECT_LE(read.bytes(), other.bytes() + megabyte + 4096);
}

/// With a budget, those are made for which half of it has room.
TEST(shortcuts, leave_half_of_the_budget) {
  if (spolia::test::no_long_cases) GTEST_SKIP() << "SKIPPED it is long here";
  constexpr std::uint64_t half = std::uint64_t{12} << 20U;
  constexpr std::uint64_t each = shortcuts_store::of_all;
  shortcuts_store s(shortcuts_store::usual, 2 * half);
  std::uint64_t made = 0;
  for (std::size_t i = 0; s.bytes() + 4 * each < half; ++i) {
    s.hold();
    for (int n = 0; n < 4; ++n) ASSERT_NO_FATAL_FAILURE(s.change_all());
    s.base.collect();
    const std::uint64_t before = s.bytes();
    ASSERT_NO_FATAL_FAILURE(s.check(i));
    if (before + 4 * each > half) {
      EXPECT_LE(s.bytes(), before + 4096) << "it was used up";
    }
    made += std::max(s.bytes(), before) - before;
  }
  EXPECT_GT(made, 2 * each) << "there are few";
}

/// Each of many snapshots sees another version of each of some rows, and none of these has gone: so
/// no link is dead, and the way down a chain would be as long as there are snapshots.
TEST(shortcuts, ways_are_short_beside_many_snapshots) {
  if (spolia::test::no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  constexpr std::int64_t some = 199;
  constexpr std::size_t snapshots = 128;
  constexpr std::uint64_t most = 8 * 7 + 8;  // for log2(snapshots)
  shortcuts_store s;
  for (std::size_t i = 0; i < snapshots; ++i) {
    s.hold();
    ASSERT_NO_FATAL_FAILURE(s.change_of_first(some));
  }
  const auto looked_at = [&] { return s.base.stats().versions.versions_looked_at; };
  for (const std::size_t i : {std::size_t{0}, snapshots / 4, snapshots / 2}) {
    const auto& [at, was] = s.held[i];
    const std::uint64_t before = looked_at();
    for (std::int64_t k = 0; k < some; ++k) {
      const auto found = at->find(s.t, {k});
      ASSERT_EQ(found ? found->get(s.v) : -1, was[static_cast<std::size_t>(k)]) << k;
    }
    const std::uint64_t by_key = looked_at();
    EXPECT_LE(by_key - before, some * most) << i;
    ASSERT_EQ(s.found_by_rows(*at), was);
    EXPECT_LE(looked_at() - by_key, some * most) << i;
  }
  for (std::size_t i = 0; i < snapshots; i += 9) ASSERT_NO_FATAL_FAILURE(s.check(i));
}

/// Rows go on to be changed, deleted and made anew, snapshots come and go.
TEST(shortcuts, stay_right_while_rows_are_changed) {
  shortcuts_store s;
  test::rng random(19);
  for (int round = 0; round < 12; ++round) {
    s.hold();
    ASSERT_NO_FATAL_FAILURE(s.change_all());
    for (std::size_t i = 0; i < s.held.size(); ++i) ASSERT_NO_FATAL_FAILURE(s.check(i)) << round;
    if (s.held.size() == 4) {
      s.held.erase(s.held.begin() + static_cast<std::ptrdiff_t>(random.below(s.held.size())));
    }
  }
}

}  // namespace
