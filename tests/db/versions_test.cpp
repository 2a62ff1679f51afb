// SPDX-License-Identifier: Apache-2.0
// What old versions cost while snapshots are held, and what is read of a row.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <spolia/base/misuse.hpp>

#include "db/storages.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using spolia::test::over_storages;

class figures : public over_storages {};
SPOLIA_OVER_STORAGES(figures);

/// How long the chains are that readers go over, and what goes from between two snapshots.
TEST_P(figures, tell_what_readers_look_at) {
  constexpr int versions = 5;
  ASSERT_TRUE(put(1, 0));
  {
    const reader then = base.snapshot();
    for (int i = 1; i <= versions; ++i) ASSERT_TRUE(set_a(1, i));
    EXPECT_EQ(base.stats().versions.versions_looked_at, 0U) << "the table has what they need";
    for (int i = 0; i < 3; ++i) EXPECT_EQ(a_of(then, 1), 0);
    const delta_stats s = base.stats().versions;
    const std::uint64_t reads = std::accumulate(s.reads.begin(), s.reads.end(), std::uint64_t{0});
    EXPECT_EQ(reads, 3U);
    if (GetParam() == version_storage::steam_eager) {
      EXPECT_LE(s.versions_looked_at, 3U * versions);
    } else {
      EXPECT_EQ(s.versions_looked_at, 3U * versions);
      EXPECT_EQ(s.reads[2], 3U) << "four to seven";
    }
    for (int i = 0; i < 3000; ++i) ASSERT_TRUE(set_a(1, i));
  }
  const delta_stats s = base.stats().versions;
  EXPECT_LE(s.dropped_between, s.versions_dropped);
  EXPECT_EQ(s.dropped_between > 1000, collects_between());
}

/// Rows of which a few are changed all the time, and the others once, one after the other: so in
/// every partition there is something that a held snapshot sees.
class cold_rows : public testing::TestWithParam<version_storage> {
 protected:
  static constexpr std::int64_t hot = 10;
  static constexpr std::int64_t period = 16;

  cold_rows() : cold_rows(256) {}
  explicit cold_rows(std::uint32_t partitions)
      : base(database::open({.versions = GetParam(),
                             .partition_transactions = period,
                             .most_partitions = partitions})),
        items(base.create_table(
            {.name = "items", .columns = {{"id", int64, primary_key}, {"a", int64}}})),
        a(items.column<std::int64_t>("a")) {}

  void fill(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(items, {i, 0}); }));
    }
  }
  void set(std::int64_t key, std::int64_t x) {
    ASSERT_TRUE(
        base.transact([&](transaction& tx) { return tx.update(items, {key}, {{"a", x}}); }));
  }
  /// How many versions there may be where snapshots see `needed` of them.
  static std::uint64_t bound(std::int64_t needed, std::int64_t periods) {
    // As delta_range.hpp says, for one thread; hot rows have a newest one each.
    if (GetParam() == version_storage::range) {
      return static_cast<std::uint64_t>(3 * needed + 6 * 512 + hot);
    }
    return static_cast<std::uint64_t>(needed + periods * period);
  }
  /// Changes hot rows, and now and then the next cold one.
  void work(std::int64_t rounds) {
    for (std::int64_t i = 0; i < rounds; ++i) {
      ++round;
      set(round % hot, round);
      if (i % 5 == 0) set(hot + cold++, round);
      const delta_stats v = base.stats().versions;
      most = std::max(most, v.versions_made - v.versions_dropped);
    }
  }
  /// So many allocation periods of partitions.
  void work_for(std::int64_t periods) { work(periods * period * 5 / 6); }
  [[nodiscard]] std::uint64_t alive() const {
    const delta_stats v = base.stats().versions;
    return v.versions_made - v.versions_dropped;
  }
  [[nodiscard]] std::int64_t value(const reader& at, std::int64_t key) const {
    const auto r = at.find(items, {key});
    return r ? r->get(a) : -1;
  }

  database base;
  table& items;
  column<std::int64_t> a;
  std::int64_t round = 0;
  std::int64_t cold = 0;
  std::uint64_t most = 0;
};

TEST_P(cold_rows, a_held_snapshot_costs_what_it_sees) {
  constexpr std::int64_t rounds = test::fewer > 1 ? 2000 : 10000;
  fill(hot + rounds);
  const reader then = base.snapshot();
  work(rounds);
  // Each row that was changed, once; and the partitions of a few allocation periods.
  EXPECT_LE(most, bound(hot + rounds / 5, 12));
  EXPECT_LE(base.stats().versions.partitions_used, 16U);
  for (std::int64_t i = 0; i < hot + rounds; ++i) ASSERT_EQ(value(then, i), 0) << i;
}

/// More of them than there are allocation streams. None but the last sees many versions that the
/// one before it does not see.
TEST_P(cold_rows, many_held_snapshots_cost_what_they_see) {
  constexpr std::int64_t rounds = test::fewer > 1 ? 300 : 1000;
  constexpr std::int64_t snapshots = 9;
  fill(hot + rounds * snapshots);
  std::vector<std::unique_ptr<reader>> held;
  std::vector<std::int64_t> hot_row;
  std::vector<std::int64_t> cold_rows_changed;
  for (std::int64_t i = 0; i < snapshots; ++i) {
    held.emplace_back(new reader(base.snapshot()));
    hot_row.push_back(value(*held.back(), 3));
    cold_rows_changed.push_back(cold);
    work(rounds);
  }
  // A hot row for each of them, a cold one once.
  EXPECT_LE(most, bound(snapshots * (hot + rounds / 5), snapshots * 12));
  const auto check = [&] {
    for (std::size_t i = 0; i < held.size(); ++i) {
      EXPECT_EQ(value(*held[i], 3), hot_row[i]);
      for (std::int64_t k = 0; k < cold; ++k) {
        ASSERT_EQ(value(*held[i], hot + k) != 0, k < cold_rows_changed[i]) << i << " " << k;
      }
    }
  };
  check();
  for (const std::size_t gone : {4U, 0U, 6U}) {
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(gone));
    hot_row.erase(hot_row.begin() + static_cast<std::ptrdiff_t>(gone));
    cold_rows_changed.erase(cold_rows_changed.begin() + static_cast<std::ptrdiff_t>(gone));
    base.collect();
    work(200);
    check();
  }
  held.clear();
  base.collect();
  base.collect();
  const delta_stats v = base.stats().versions;
  EXPECT_EQ(v.versions_made, v.versions_dropped);
}

/// Long readers follow each other while one is held forever: what they needed goes with them.
TEST_P(cold_rows, what_long_readers_needed_goes_with_them) {
  constexpr std::int64_t rounds = 200;
  constexpr int readers = test::fewer > 1 ? 15 : 60;
  fill(hot + rounds * readers);
  const reader forever = base.snapshot();
  for (int i = 0; i < readers; ++i) {
    const reader scan = base.snapshot();
    const std::int64_t seen = value(scan, 5);
    work(rounds);
    EXPECT_EQ(value(scan, 5), seen);
  }
  EXPECT_LE(most, bound(hot + cold, 40));
  EXPECT_EQ(value(forever, 5), 0);
}

/// Writers on several threads, a snapshot that reads all the time, and some that come and go.
TEST_P(cold_rows, snapshots_stay_right_beside_writers) {
  constexpr std::int64_t rows = 3000;
  fill(rows);
  const reader forever = base.snapshot();
  test::run_stress({.threads = 4, .share = 0.5}, [&](test::stress_thread& self) {
    if (self.index() == 0) {
      while (self.running()) {
        const auto key = static_cast<std::int64_t>(self.random().below(rows));
        EXPECT_EQ(value(forever, key), 0);
      }
      return;
    }
    while (self.running()) {
      const reader mine = base.snapshot();
      const auto key = static_cast<std::int64_t>(self.random().below(rows));
      const std::int64_t seen = value(mine, key);
      for (int i = 0; i < 60; ++i) {
        const auto other =
            static_cast<std::int64_t>(self.random().below(self.random().chance(1, 4) ? rows : hot));
        EXPECT_TRUE(base.transact([&](transaction& tx) -> status {
          auto e = tx.edit(items, {other});
          if (!e) return e.why();
          return e->set(a, e->get(a) + 1);
        }));
      }
      EXPECT_EQ(value(mine, key), seen);
    }
  });
  std::int64_t sum = 0;
  forever.for_each(items, [&](const row& r) { sum += r.get(a); });
  EXPECT_EQ(sum, 0);
}

/// Writers move amounts between rows that all of them change, and two snapshots at a time, of which
/// the older one goes: every one finds the same sum, and what lies between goes beside the writers.
TEST_P(cold_rows, sums_stay_beside_writers) {
  constexpr std::int64_t rows = 16;
  fill(rows);
  const reader forever = base.snapshot();
  const auto sum_at = [&](const reader& at) {
    std::int64_t sum = 0;
    at.for_each(items, [&](const row& r) { sum += r.get(a); });
    return sum;
  };
  std::atomic<std::uint64_t> most_alive{0};
  test::run_stress({.threads = 4, .share = 0.7}, [&](test::stress_thread& self) {
    if (self.index() == 0) {
      auto older = std::unique_ptr<reader>(new reader(base.snapshot()));
      while (self.running()) {
        auto younger = std::unique_ptr<reader>(new reader(base.snapshot()));
        EXPECT_EQ(sum_at(*younger), 0);
        EXPECT_EQ(sum_at(*older), 0);
        older = std::move(younger);
        if (self.random().chance(1, 8)) base.collect();
        const delta_stats v = base.stats().versions;
        most_alive = std::max<std::uint64_t>(most_alive, v.versions_made - v.versions_dropped);
      }
      return;
    }
    while (self.running()) {
      const auto from = static_cast<std::int64_t>(self.random().below(rows));
      const auto to = (from + 1 + static_cast<std::int64_t>(self.random().below(rows - 1))) % rows;
      EXPECT_TRUE(base.transact([&](transaction& tx) -> status {
        auto giver = tx.edit(items, {from});
        if (!giver) return giver.why();
        auto taker = tx.edit(items, {to});
        if (!taker) return taker.why();
        if (const status s = giver->set(a, giver->get(a) - 1); !s) return s;
        return taker->set(a, taker->get(a) + 1);
      }));
    }
  });
  EXPECT_EQ(sum_at(forever), 0);
  EXPECT_EQ(sum_at(base.snapshot()), 0);
  // Not what was written, by far: threads may be interrupted where they hold things up.
  const delta_stats v = base.stats().versions;
  EXPECT_LE(most_alive, std::max<std::uint64_t>(v.versions_made / 2, 50000));
}

INSTANTIATE_TEST_SUITE_P(each, cold_rows, test::storages_that_collect_between(),
                         [](const testing::TestParamInfo<version_storage>& of) {
                           return test::storage_name({{of.param}, of.index});
                         });

class row_by_row : public cold_rows {};
INSTANTIATE_TEST_SUITE_P(each, row_by_row,
                         testing::Values(version_storage::steam, version_storage::steam_eager),
                         [](const testing::TestParamInfo<version_storage>& of) {
                           return test::storage_name({{of.param}, of.index});
                         });

/// What a snapshot held goes in parts when it has ended: no commit pays for all of it.
TEST_P(row_by_row, commits_free_some_each) {
  constexpr std::int64_t rows = 10000;
  constexpr std::uint64_t at_once = 4096 + 8;
  fill(rows);
  {
    const reader then = base.snapshot();
    for (std::int64_t k = 0; k < rows; ++k) set(k, 1);
    EXPECT_EQ(value(then, rows / 2), 0);
  }
  // Takes what the other one stood in: so transactions go on in what theirs have left things in.
  const reader next = base.snapshot();
  std::uint64_t before = base.stats().versions.versions_dropped;
  for (int i = 0; i < 200; ++i) {
    set(i, 2);
    const std::uint64_t after = base.stats().versions.versions_dropped;
    EXPECT_LE(after - before, at_once) << i;
    before = after;
  }
  EXPECT_LE(alive(), 250U);
}

const auto consolidated_alone = testing::Values(version_storage::one_shot_consolidated);

class patience : public cold_rows {};
INSTANTIATE_TEST_SUITE_P(consolidated, patience, consolidated_alone);

/// Nothing is dropped between snapshots for one that is no older than others became which have
/// ended; for one that stays, it is. What was learned fades.
TEST_P(patience, is_twice_as_long_as_snapshots_lived) {
  constexpr std::int64_t lives = 40;
  constexpr std::int64_t stays = 300;
  fill(4500);
  const auto most_for = [](std::int64_t periods, std::int64_t waits) {
    return bound(hot + periods * period / 6, waits + 8);
  };
  {
    const reader first = base.snapshot();
    work_for(lives);
    EXPECT_LE(alive(), most_for(lives, 4));
  }
  {
    const reader second = base.snapshot();
    const std::int64_t seen = value(second, 5);
    work_for(lives);
    EXPECT_GE(alive(), static_cast<std::uint64_t>((lives - 1) * period));
    work_for(stays - lives);
    EXPECT_LE(alive(), most_for(stays, 2 * lives));
    EXPECT_EQ(value(second, 5), seen);
  }
  work_for(2 * lives * 16);
  const reader third = base.snapshot();
  work_for(lives);
  EXPECT_LE(alive(), most_for(lives, 4));
}

class little_room : public cold_rows {
 protected:
  static constexpr std::uint32_t partitions = 32;
  little_room() : cold_rows(partitions) {}
};
INSTANTIATE_TEST_SUITE_P(consolidated, little_room, consolidated_alone);

/// When half of the partitions are in use, the storage no longer waits for snapshots to end by
/// themselves.
TEST_P(little_room, ends_patience) {
  constexpr std::int64_t stays = 300;
  fill(1500);
  for (int i = 0; i < 3; ++i) {
    const reader lives = base.snapshot();
    work_for(40);
  }
  const reader held = base.snapshot();
  const std::int64_t seen = value(held, 5);
  for (std::int64_t periods = 0; periods < stays; periods += 5) {
    work_for(5);
    EXPECT_LE(base.stats().versions.partitions_used, partitions / 2 + 8);
  }
  EXPECT_LE(alive(), bound(hot + stays * period / 6, partitions / 2 + 8));
  EXPECT_EQ(value(held, 5), seen);
}

/// How much of the budget one commit's versions may have, whatever their length.
TEST(long_versions, fill_the_budget) {
  if (test::no_long_cases) GTEST_SKIP() << "SKIPPED it is long here";
  constexpr std::uint64_t budget = 16U << 20U;
  const std::vector<std::uint32_t> widths =
      test::quick_tests ? std::vector<std::uint32_t>{500, 1400, 2050}
                        : std::vector<std::uint32_t>{500,  1000, 1300, 1400, 1900, 1960,
                                                     2000, 2050, 2100, 3000, 4100};
  for (const version_storage versions :
       {version_storage::one_shot_evacuated, version_storage::one_shot_consolidated,
        version_storage::one_shot}) {
    for (const std::uint32_t width : widths) {
      SCOPED_TRACE(std::string(info_of(versions).name) + ", " + std::to_string(width));
      database base = database::open({.versions = versions, .version_budget = budget});
      table& rows = base.create_table(
          {.name = "rows",
           .columns = {{"k", int64, primary_key}, {"n", int64}, {"t", text(width)}}});
      const std::uint64_t length = width + 24 + 48;  // with what lies before it
      const auto count = static_cast<std::int64_t>(budget * 4 / 5 / length);
      ASSERT_TRUE(base.transact([&](transaction& tx) {
        status s;
        for (std::int64_t k = 0; k < count && s; ++k) s = tx.insert(rows, {k, 0, ""});
        return s;
      }));
      for (std::int64_t times = 1; times < 4; ++times) {
        base.collect();
        ASSERT_TRUE(base.transact([&](transaction& tx) {
          status s;
          for (std::int64_t k = 0; k < count && s; ++k) s = tx.update(rows, {k}, {{"n", times}});
          return s;
        }));
      }
    }
  }
}

class selections : public over_storages {};
SPOLIA_OVER_STORAGES(selections);

TEST_P(selections, columns_that_are_asked_for_are_read) {
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(put(i, i));
  const selection some = items.select({"id", "note"});
  const reader then = base.snapshot();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(base.transact([&](transaction& tx) {
      return tx.update(items, {i}, {{"note", "other"}, {"a", 100 + i}});
    }));
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.update(items, {i}, {{"b", -i}}); }));
  }
  EXPECT_EQ(then.find(items, {7}, some)->get(note), "new");
  EXPECT_EQ(then.find(items, {7})->get(b), 70);
  EXPECT_EQ(then.find(items, {7})->get(a), 7);
  EXPECT_EQ(base.snapshot().find(items, {7}, some)->get(note), "other");
  std::int64_t sum = 0;
  const auto add = [&](const row& r) { sum += r.get(id); };
  then.for_each(items, add, some);
  then.scan(items, {0}, {9}, add, some);
  then.scan_down(items, {0}, {9}, add, some);
  then.scan(items.index("by_a"), {0}, {9}, add, some);
  then.scan_down(items.index("by_a"), {0}, {9}, add, some);
  EXPECT_EQ(sum, 190 + 4 * 45);

  transaction tx = base.begin();
  ASSERT_TRUE(tx.update(items, {7}, {{"b", 5}}));
  EXPECT_EQ(tx.find(items, {7}, some)->get(note), "other") << "of its own, which was not changed";
  EXPECT_EQ(tx.find(items, {7})->get(b), 5);
  EXPECT_EQ(tx.find(items, {7})->get(a), 107);
  EXPECT_THROW(static_cast<void>(items.select({"z"})), std::invalid_argument);
  table& other = base.create_table({.name = "other", .columns = {{"k", int64, primary_key}}});
  EXPECT_THROW(static_cast<void>(tx.find(other, {1}, some)), std::invalid_argument);
}

/// Columns of all widths, changed in all combinations, with deletions in between: each snapshot
/// sees its rows.
TEST_P(selections, rows_are_put_together_from_changes) {
  table& wide = base.create_table({.name = "wide",
                                   .columns = {{"k", int64, primary_key},
                                               {"x", text(30), nullable},
                                               {"y", int64},
                                               {"z", text(100)},
                                               {"w", float64, nullable}}});
  const auto x = wide.column<std::string_view>("x");
  const auto y = wide.column<std::int64_t>("y");
  const auto z = wide.column<std::string_view>("z");
  const auto w = wide.column<double>("w");
  struct state {
    bool there = false;
    std::string x, z;
    bool x_null = false;
    std::int64_t y = 0;
    double w = 0;
    bool operator==(const state&) const = default;
  };
  const auto state_of = [&](const reader& at) {
    state s;
    const auto r = at.find(wide, {1});
    if (!r) return s;
    return state{true,     std::string(r->get(x)), std::string(r->get(z)), r->null(x), r->get(y),
                 r->get(w)};
  };
  test::rng random(11);
  std::vector<std::pair<std::unique_ptr<reader>, state>> held;
  state now;
  for (int i = 0; i < 1500; ++i) {
    const auto what = random.below(64);
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      if (!now.there) {
        now = {true,
               "x" + std::to_string(i),
               std::string(static_cast<std::size_t>(i % 90), 'z'),
               false,
               i,
               0.5 * i};
        return tx.insert(wide, {1, now.x, now.y, now.z, now.w});
      }
      if (what == 0) {
        now = {};
        return tx.erase(wide, {1});
      }
      auto e = tx.edit(wide, {1});
      if (!e) return e.why();
      status s;
      if ((what & 1U) != 0) {
        now.x_null = i % 7 == 0;
        now.x = now.x_null ? "" : std::to_string(i);
        s = now.x_null ? e->set(x, nullptr) : e->set(x, now.x);
      }
      if (s && (what & 2U) != 0) s = e->set(y, now.y = i);
      if (s && (what & 4U) != 0)
        s = e->set(z, now.z = std::string(static_cast<std::size_t>(i % 95), 'y'));
      if (s && (what & 8U) != 0) s = e->set(w, now.w = 0.25 * i);
      return s;
    }));
    if (i % 10 == 0) held.emplace_back(std::unique_ptr<reader>(new reader(base.snapshot())), now);
    if (held.size() > 12) held.erase(held.begin() + static_cast<std::ptrdiff_t>(random.below(12)));
    if (i % 25 != 0) continue;
    for (const auto& [at, was] : held) ASSERT_EQ(state_of(*at), was) << i;
  }
}

#if SPOLIA_CHECKS
std::string last_misuse;
void note_misuse(const char* what, std::uint32_t) { last_misuse = what; }

TEST(selections_misuse, is_reported) {
  const auto before = core::set_misuse_handler(&note_misuse);
  database base = database::open();
  table& t = base.create_table({.name = "t", .columns = {{"k", int64, primary_key}, {"v", int64}}});
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {1, 2}); }));
  const reader now = base.snapshot();
  const auto r = now.find(t, {1}, t.select({"k"}));
  EXPECT_EQ(r->get(t.column<std::int64_t>("k")), 1);
  EXPECT_EQ(last_misuse, "");
  (void)r->get(t.column<std::int64_t>("v"));
  EXPECT_EQ(last_misuse, "a column is looked at that was not selected");
  core::set_misuse_handler(before);
}
#endif

/// Their places may be others, and what lies there may be none of the row.
TEST(columns_of_other_tables, are_noticed) {
  database base = database::open();
  const table_spec narrow{.name = "n", .columns = {{"k", int64, primary_key}, {"v", int64}}};
  table& t = base.create_table(narrow);
  table& wide = base.create_table(
      {.name = "w",
       .columns = {{"k", int64, primary_key}, {"v", int64}, {"s", text(50)}, {"last", int64}}});
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {1, 2}); }));
  const auto last = wide.column<std::int64_t>("last");
  const auto alike = wide.column<std::int64_t>("v");
  EXPECT_TRUE(base.transact([&](transaction& tx) {
    auto e = tx.edit(t, {1});
    EXPECT_THROW(static_cast<void>(e->set(last, 7)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(e->set(alike, 7)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(e->set(wide.layout().column("s"), "x")), std::invalid_argument);
    EXPECT_TRUE(e->set(t.column<std::int64_t>("v"), 3));
  }));
  const reader now = base.snapshot();
  EXPECT_THROW(static_cast<void>(now.query(t).where(alike, equal, 3)), std::invalid_argument);
  database other = database::open();
  const auto same = other.create_table(narrow).column<std::int64_t>("v");
  EXPECT_EQ(now.find(t, {1})->get(same), 3) << "a table that is the same";
#if SPOLIA_CHECKS
  last_misuse = "";
  const auto before = core::set_misuse_handler(&note_misuse);
  const auto r = now.find(t, {1});
  const std::string looked = "a column of another table is looked at";
  EXPECT_EQ(r->get(alike), 0);
  EXPECT_EQ(std::exchange(last_misuse, ""), looked);
  EXPECT_TRUE(r->null(alike));
  EXPECT_EQ(std::exchange(last_misuse, ""), looked);
  transaction tx = base.begin();
  EXPECT_EQ(tx.edit(t, {1})->get(alike), 3);
  EXPECT_EQ(std::exchange(last_misuse, ""), looked);
  core::set_misuse_handler(before);
#endif
}

/// Collects nothing, and has no version for a snapshot for which the table is too new.
class forgetful final : public delta {
 public:
  explicit forgetful(std::uint64_t& asked) : asked_(asked) {}
  bool reserve(std::uint32_t, std::span<ask> asks, std::uint64_t) override {
    asked_ += asks.size();
    for (ask& a : asks) {
      made_.push_back(std::make_unique<std::byte[]>(version::bytes(a.words)));
      a.place = version::make(made_.back().get());
      a.handle = 1;
    }
    return true;
  }
  void published(std::uint32_t, std::uint64_t) noexcept override { made_.clear(); }
  void cancel(std::uint32_t) noexcept override { made_.clear(); }
  [[nodiscard]] const version* find(const atomic<std::uint64_t>&, std::uint64_t, std::uint64_t,
                                    const taking_back*) const override {
    throw no_result(outcome::conflict);
  }
  void collect() noexcept override {}

 private:
  [[nodiscard]] delta_stats figures() const noexcept override { return {.versions_made = asked_}; }

  std::uint64_t& asked_;
  std::vector<std::unique_ptr<std::byte[]>> made_;
};

TEST(own_versions, are_used_instead) {
  std::uint64_t asked = 0;
  database base = database::open(
      {.own_versions = [&](commit_board&) { return std::make_unique<forgetful>(asked); }});
  table& t = base.create_table({.name = "t", .columns = {{"k", int64, primary_key}, {"v", int64}}});
  const auto v = t.column<std::int64_t>("v");
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {1, 1}); }));
  const reader before = base.snapshot();
  EXPECT_EQ(before.find(t, {1})->get(v), 1);
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.update(t, {1}, {{"v", 2}}); }));
  EXPECT_EQ(asked, 1U) << "nothing was there before the first row";
  EXPECT_EQ(base.stats().versions.versions_made, 1U);
  try {
    static_cast<void>(before.find(t, {1}));
    ADD_FAILURE() << "the version is gone";
  } catch (const no_result& e) {
    EXPECT_EQ(e.code(), outcome::conflict);
  }
  EXPECT_EQ(base.snapshot().find(t, {1})->get(v), 2);
  const auto nothing = [](commit_board&) { return std::unique_ptr<delta>(); };
  EXPECT_THROW(static_cast<void>(database::open({.own_versions = nothing})), std::invalid_argument);
}

TEST(selections_of_options, consolidation_needs_rows) {
  EXPECT_THROW(static_cast<void>(database::open({.changes_only = true})), std::invalid_argument);
}

}  // namespace
