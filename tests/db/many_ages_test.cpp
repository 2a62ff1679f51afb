// SPDX-License-Identifier: Apache-2.0
// What commits cost beside many held snapshots of different ages, and what goes when some of these
// end.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <spolia/base/census.hpp>
#include <spolia/db.hpp>

#include "db/snapshot_list.hpp"
#include "db/storages.hpp"
#include "support/cost.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;

/// Rows that are changed in turns, beside snapshots between which each is changed some times.
struct rows_of_many_ages {
  explicit rows_of_many_ages(version_storage versions, std::int64_t count)
      : rows(count), base(database::open({.versions = versions})) {
    for (std::int64_t k = 0; k < rows; ++k) {
      EXPECT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {k, k}); }));
    }
  }
  void change_all(int times) {
    for (std::int64_t i = 0; i < rows * times; ++i) {
      const std::int64_t k = i % rows;
      ASSERT_TRUE(
          base.transact([&](transaction& tx) { return tx.update(t, {k}, {{"v", ++last}}); }));
    }
  }
  void hold(std::size_t snapshots, int times) {
    for (std::size_t i = 0; i < snapshots; ++i) {
      held.push_back(base.snapshot());
      seen.push_back(last);
      ASSERT_NO_FATAL_FAILURE(change_all(times));
    }
  }
  void check() const {
    for (std::size_t i = 0; i < held.size(); ++i) {
      for (std::int64_t k = 0; k < rows; ++k) {
        const auto row = held[i].find(t, {k});
        ASSERT_TRUE(row);
        ASSERT_LE(row->get(v), seen[i]) << i;
        ASSERT_GT(row->get(v), seen[i] - rows) << i;
      }
    }
  }
  void end(std::size_t i) {
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
    seen.erase(seen.begin() + static_cast<std::ptrdiff_t>(i));
  }
  [[nodiscard]] std::uint64_t alive() const {
    const delta_stats s = base.stats().versions;
    return s.versions_made - s.versions_dropped;
  }

  const std::int64_t rows;
  database base;
  table& t = base.create_table({.name = "t", .columns = {{"k", int64, primary_key}, {"v", int64}}});
  const column<std::int64_t> v = t.column<std::int64_t>("v");
  std::vector<reader> held;
  std::vector<std::int64_t> seen;
  std::int64_t last = rows - 1;
};

/// Steam's eager pruning walks no further than it must: what a snapshot has seen that ended between
/// two others goes all the same, when its row is changed again after a look at the snapshots.
TEST(many_ages, of_snapshots_that_end_between_others_nothing_stays_under_steam_eager) {
  constexpr std::int64_t rows = 20;
  constexpr std::uint64_t slack = 3 * 64 + 2 * rows;  // since the last look, and the newest
  rows_of_many_ages s(version_storage::steam_eager, rows);
  ASSERT_NO_FATAL_FAILURE(s.hold(42, 3));
  for (std::size_t most = 42; most > 2; most = s.held.size()) {
    s.base.collect();
    ASSERT_NO_FATAL_FAILURE(s.change_all(2));
    EXPECT_LE(s.alive(), s.held.size() * rows + slack);
    ASSERT_NO_FATAL_FAILURE(s.check());
    for (std::size_t i = most - 2; i > 0; i -= std::min<std::size_t>(i, 3)) s.end(i);
  }
}

class beside_many_ages : public testing::TestWithParam<version_storage> {};
INSTANTIATE_TEST_SUITE_P(each, beside_many_ages, spolia::test::storages_that_collect_between(),
                         [](const auto& of) { return std::string(info_of(of.param).name); });

/// Commits beside 512 snapshots, each of which sees a version of each row of its own, cost little
/// more than beside one.
TEST_P(beside_many_ages, a_commit_costs_what_it_does_beside_one) {
  if (spolia::test::fewer > 1) GTEST_SKIP() << "SKIPPED nothing is optimised";
  constexpr std::int64_t rows = 50;
  constexpr double most = 4;  // times as long
  rows_of_many_ages one(GetParam(), rows);
  rows_of_many_ages many(GetParam(), rows);
  ASSERT_NO_FATAL_FAILURE(one.hold(1, 20));
  ASSERT_NO_FATAL_FAILURE(many.hold(512, 20));
  const auto change_all = [](rows_of_many_ages& of) {
    return spolia::test::cost_of([&] { ASSERT_NO_FATAL_FAILURE(of.change_all(100)); });
  };
  const auto [beside_one, beside_many] = spolia::test::least_in_turn(
      8, [&] { return change_all(one); }, [&] { return change_all(many); });
  EXPECT_LE(beside_many, most * beside_one);
  many.check();
}

/// What is needed by many snapshots is asked about a few times, in whatever order these end.
TEST(snapshot_lists, are_asked_a_logarithm_of_times) {
  for (const bool oldest_first : {true, false}) {
    db::commit_board board;
    std::vector<census::ticket> all;
    for (int n = 0; n < 1000; ++n) {
      all.push_back(board.living.announce(board.clock));
      board.clock.tick();
    }
    if (oldest_first) std::reverse(all.begin(), all.end());  // they end from the back
    int asked = 0;
    db::snapshot_list list;
    for (std::uint64_t at = 0;; all.pop_back()) {
      list.look(board);
      if (at != 0 && list.from_first().has(at)) continue;
      ++asked;
      const std::uint64_t* const by = list.needed_by(1, board.clock.now()).by;
      if (by == nullptr) break;
      at = *by;
    }
    EXPECT_TRUE(all.empty());
    EXPECT_LE(asked, 12);
  }
}

}  // namespace
