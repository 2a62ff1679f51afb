// SPDX-License-Identifier: Apache-2.0
// one_shot_evacuated: what held snapshots see is moved, found where it went, and freed.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "db/storages.hpp"
#include "support/faults.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;

constexpr std::int64_t nothing = -1;

/// Tables whose rows have other widths: some fill a writer's part of a partition to the last word,
/// some are wider than one. Each column of a row is made of one number, or the row is not there.
class evacuated : public testing::Test {
 protected:
  static constexpr std::array<std::uint32_t, 8> widths = {0, 7, 16, 40, 100, 360, 1500, 5000};
  static constexpr std::int64_t rows = 60;  // of each table
  using state = std::vector<std::int64_t>;  // of all rows

  /// A snapshot, and what it has to show.
  struct held {
    std::unique_ptr<reader> at;
    state was;
  };

  evacuated() {
    for (const std::uint32_t width : widths) {
      std::vector<column_spec> columns = {{"k", int64, primary_key}, {"v", int64}};
      if (width != 0) columns.push_back({"pad", text(width)});
      tables.push_back(
          &base.create_table({.name = "t" + std::to_string(width), .columns = columns}));
      keys.push_back(tables.back()->column<std::int64_t>("k"));
      values.push_back(tables.back()->column<std::int64_t>("v"));
      pads.push_back(width == 0 ? column<std::string_view>()
                                : tables.back()->column<std::string_view>("pad"));
    }
    now.assign(widths.size() * rows, nothing);
  }

  static std::string pad(std::int64_t v, std::uint32_t width) {
    return std::string(static_cast<std::size_t>(v) * 7 % (width + 1),
                       static_cast<char>('a' + v % 26));
  }
  status put(transaction& tx, std::size_t row, std::int64_t v) {
    table& t = *tables[row / rows];
    const std::uint32_t width = widths[row / rows];
    const auto key = static_cast<std::int64_t>(row % rows);
    if (v == nothing) return tx.erase(t, {key});
    if (now[row] == nothing) {
      return width == 0 ? tx.insert(t, {key, v}) : tx.insert(t, {key, v, pad(v, width)});
    }
    if (width == 0) return tx.update(t, {key}, {{"v", v}});
    return tx.update(t, {key}, {{"v", v}, {"pad", pad(v, width)}});
  }
  /// Changes some rows in one transaction, which may be taken back.
  void change(test::rng& random) {
    transaction tx = base.begin();
    const state before = now;
    for (std::uint64_t i = 1 + random.below(4); i > 0; --i) {
      const auto row =
          static_cast<std::size_t>(random.below(random.chance(1, 2) ? 24 : now.size()));
      const std::int64_t v = now[row] != nothing && random.chance(1, 12) ? nothing : ++last;
      ASSERT_TRUE(put(tx, row, v));
      now[row] = v;
    }
    if (random.chance(1, 10)) {
      tx.rollback();
      now = before;
    } else {
      ASSERT_TRUE(tx.commit());
    }
  }
  void hold() { all.push_back({std::unique_ptr<reader>(new reader(base.snapshot())), now}); }

  [[nodiscard]] std::int64_t value_in(const row& r, std::size_t t) const {
    const std::int64_t v = r.get(values[t]);
    return widths[t] == 0 || r.get(pads[t]) == pad(v, widths[t]) ? v : -2;
  }
  [[nodiscard]] std::int64_t find(const reader& at, std::size_t row) const {
    const auto found = at.find(*tables[row / rows], {static_cast<std::int64_t>(row % rows)});
    return found ? value_in(*found, row / rows) : nothing;
  }
  /// By scans, which are another way than find() goes.
  [[nodiscard]] state scan(const reader& at) const {
    state found(now.size(), nothing);
    for (std::size_t t = 0; t < tables.size(); ++t) {
      at.for_each(*tables[t], [&](const row& r) {
        found[t * rows + static_cast<std::size_t>(r.get(keys[t]))] = value_in(r, t);
      });
    }
    return found;
  }
  void check_all() const {
    for (const held& h : all) {
      ASSERT_EQ(scan(*h.at), h.was);
      for (std::size_t i = 0; i < now.size(); i += 7) ASSERT_EQ(find(*h.at, i), h.was[i]) << i;
    }
  }
  [[nodiscard]] delta_stats figures() const { return base.stats().versions; }

  database base = database::open(
      {.versions = version_storage::one_shot_evacuated, .partition_transactions = 8});
  std::vector<table*> tables;
  std::vector<column<std::int64_t>> keys;
  std::vector<column<std::int64_t>> values;
  std::vector<column<std::string_view>> pads;  // nothing where there is none
  state now;
  std::vector<held> all;
  std::int64_t last = 0;
};

/// Snapshots come, and go one by one or many at once; some stay long.
TEST_F(evacuated, snapshots_show_what_there_was_and_leave_nothing) {
  test::rng random(3);
  std::uint64_t bytes = 0;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 1500; ++i) {
      ASSERT_NO_FATAL_FAILURE(change(random));
      if (i % 12 == 0) hold();
      if (all.size() > 30) {
        for (int gone = random.chance(1, 4) ? 20 : 1; gone > 0; --gone) {
          all.erase(all.begin() + static_cast<std::ptrdiff_t>(random.below(all.size())));
        }
      }
      if (!all.empty() && i % 5 == 0) {
        const held& h = all[random.below(all.size())];
        const auto row = static_cast<std::size_t>(random.below(now.size()));
        ASSERT_EQ(find(*h.at, row), h.was[row]);
      }
      if (i % 300 == 299) {
        ASSERT_NO_FATAL_FAILURE(check_all());
      }
    }
    base.collect();
    ASSERT_NO_FATAL_FAILURE(check_all());
    all.clear();
    base.collect();
    base.collect();
    const delta_stats s = figures();
    EXPECT_EQ(s.versions_made, s.versions_dropped) << round;
    EXPECT_GT(s.dropped_between, 300U);
    if (round == 1) bytes = s.bytes;
    if (round > 1) {
      EXPECT_LE(s.bytes, bytes + 4096) << "memory is left of what is gone";
    }
  }
}

/// Without a call of collect(): the turns of commits do it.
TEST_F(evacuated, what_a_snapshot_saw_goes_with_later_commits) {
  test::rng random(5);
  for (std::size_t i = 0; i < now.size(); ++i) {
    ASSERT_TRUE(base.transact([&](transaction& tx) { return put(tx, i, 1); }));
    now[i] = 1;
  }
  for (int round = 0; round < 3; ++round) {
    hold();
    for (std::size_t i = 0; i < now.size(); ++i) {
      ASSERT_TRUE(base.transact([&](transaction& tx) { return put(tx, i, ++last); }));
      now[i] = last;
    }
    const auto few = [&] {
      for (int i = 0; i < 200; ++i) {
        ASSERT_TRUE(base.transact([&](transaction& tx) { return put(tx, 0, ++last); }));
      }
      now[0] = last;
    };
    ASSERT_NO_FATAL_FAILURE(few());
    EXPECT_GE(figures().versions_made - figures().versions_dropped, now.size());
    EXPECT_EQ(scan(*all.back().at), all.back().was);
    all.clear();
    ASSERT_NO_FATAL_FAILURE(few());
    EXPECT_LE(figures().versions_made - figures().versions_dropped, 100U);
  }
}

/// A version that was moved is found by one look.
TEST_F(evacuated, what_was_moved_is_found_at_once) {
  for (std::size_t i = 0; i < now.size(); ++i) {
    ASSERT_TRUE(base.transact([&](transaction& tx) { return put(tx, i, 1); }));
    now[i] = 1;
  }
  hold();
  for (int round = 0; round < 6; ++round) {
    for (std::size_t i = 0; i < now.size(); ++i) {
      ASSERT_TRUE(base.transact([&](transaction& tx) { return put(tx, i, ++last); }));
    }
    base.collect();
  }
  const delta_stats before = figures();
  EXPECT_LE(before.versions_made - before.versions_dropped, now.size() + 100);
  EXPECT_EQ(scan(*all.back().at), all.back().was);
  const delta_stats after = figures();
  EXPECT_EQ(after.reads[0] - before.reads[0], now.size());
  EXPECT_EQ(after.versions_looked_at - before.versions_looked_at, now.size());
}

/// Snapshots that are younger than two turns do not count as held: nothing is moved for them. There
/// is always one.
TEST_F(evacuated, nothing_is_moved_for_short_snapshots) {
  ASSERT_TRUE(base.transact([&](transaction& tx) { return put(tx, 0, 1); }));
  now[0] = 1;
  for (int i = 0; i < 20000; ++i) {
    if (i % 6 == 0) hold();
    ASSERT_TRUE(base.transact([&](transaction& tx) { return put(tx, 0, ++last); }));
    now[0] = last;
    if (all.size() < 2) continue;
    ASSERT_EQ(find(*all.front().at, 0), all.front().was[0]);
    all.erase(all.begin());
  }
  EXPECT_EQ(figures().dropped_between, 0U);
  EXPECT_GT(figures().drops, 10U);
}

/// Of a row that is changed several times between two snapshots they see one version each.
TEST_F(evacuated, only_what_is_seen_is_kept) {
  constexpr int snapshots = 100;
  for (int i = 0; i < 3 * snapshots; ++i) {
    ASSERT_TRUE(base.transact([&](transaction& tx) { return put(tx, 0, ++last); }));
    now[0] = last;
    if (i % 3 == 2) hold();
  }
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(base.transact([&](transaction& tx) { return put(tx, 0, ++last); }));
    base.collect();
  }
  EXPECT_LE(figures().versions_made - figures().versions_dropped, snapshots + 20U);
  for (const held& h : all) EXPECT_EQ(find(*h.at, 0), h.was[0]);
  // Each as soon as its snapshot ends.
  for (std::uint64_t left = snapshots; left > 1; --left) {
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(left * 7 % all.size()));
    base.collect();
    EXPECT_LE(figures().versions_made - figures().versions_dropped, left - 1 + 20U);
    EXPECT_EQ(find(*all.front().at, 0), all.front().was[0]);
    EXPECT_EQ(find(*all.back().at, 0), all.back().was[0]);
  }
}

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

/// With a budget that is used up, partitions are in pieces for long: snapshots show the same, what
/// is refused is not there, and commits go on as soon as a snapshot ends that holds much.
TEST(evacuated_with_a_budget, nothing_is_lost_that_is_refused) {
  constexpr std::int64_t rows = 2000;
  constexpr std::int64_t at_once = 40;
  const auto text_of = [](std::int64_t v) {
    return std::string(1000, static_cast<char>('a' + v % 26)) + std::to_string(v);
  };
  database base = database::open({.versions = version_storage::one_shot_evacuated,
                                  .version_budget = std::uint64_t{4} << 20U,
                                  .partition_transactions = 20});
  table& t = base.create_table(
      {.name = "t", .columns = {{"k", int64, primary_key}, {"v", int64}, {"pad", text(1010)}}});
  const auto value = t.column<std::int64_t>("v");
  const auto pad = t.column<std::string_view>("pad");
  std::vector<std::int64_t> now(rows, 0);
  for (std::int64_t k = 0; k < rows; ++k) {
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {k, 0, text_of(0)}); }));
  }
  std::vector<std::pair<std::unique_ptr<reader>, std::vector<std::int64_t>>> held;
  const auto check = [&] {
    for (const auto& [at, was] : held) {
      std::vector<std::int64_t> shown;
      at->for_each(t, [&](const row& r) {
        const std::int64_t v = r.get(value);
        shown.push_back(r.get(pad) == text_of(v) ? v : -1);
      });
      ASSERT_EQ(shown, was);
    }
  };
  test::rng random(7);
  std::int64_t last = 0;
  const auto change = [&](std::int64_t from) {
    const std::vector<std::int64_t> before = now;
    const status s = base.transact([&](transaction& tx) {
      status each;
      for (std::int64_t k = from; each && k < from + at_once; ++k) {
        each = tx.update(t, {k % rows}, {{"v", ++last}, {"pad", text_of(last)}});
        now[static_cast<std::size_t>(k % rows)] = last;
      }
      return each;
    });
    if (!s) now = before;
    return s;
  };
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    if (i % 25 == 0) held.emplace_back(std::unique_ptr<reader>(new reader(base.snapshot())), now);
    const auto from = static_cast<std::int64_t>(random.below(random.chance(1, 2) ? 100 : rows));
    if (!change(from)) {
      ++refused;
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(random.below(held.size())));
    }
    if (i % 50 == 49) {
      ASSERT_NO_FATAL_FAILURE(check());
    }
  }
  EXPECT_GT(refused, 20);
  EXPECT_GT(base.stats().versions.dropped_between, 500U);
  held.clear();
  EXPECT_TRUE(change(0));
  base.collect();
  base.collect();
  const delta_stats s = base.stats().versions;
  EXPECT_EQ(s.versions_made, s.versions_dropped);
  EXPECT_LE(s.bytes, std::uint64_t{1} << 20U);
}

/// Old rows of more than one batch, between rows that are not old.
class old_rows : public test::over_storages {};
SPOLIA_OVER_STORAGES(old_rows);

TEST_P(old_rows, are_found_by_scans_and_queries) {
  constexpr std::int64_t rows = 1500;
  std::vector<std::int64_t> now(rows);
  for (std::int64_t k = 0; k < rows; ++k) ASSERT_TRUE(put(k, k));
  std::iota(now.begin(), now.end(), 0);
  std::vector<std::pair<std::unique_ptr<reader>, std::vector<std::int64_t>>> held;
  const auto hold = [&] {
    held.emplace_back(std::unique_ptr<reader>(new reader(base.snapshot())), now);
  };
  const auto change = [&](std::int64_t from, std::int64_t end, std::int64_t step, std::int64_t by) {
    for (std::int64_t k = from; k < end; k += step) {
      ASSERT_TRUE(set_a(k, now[static_cast<std::size_t>(k)] += by));
    }
  };
  // By each index, in both directions.
  const auto by_index = [&](const reader& at) {
    std::vector<std::int64_t> up;
    std::vector<std::int64_t> down(rows, -1);
    at.scan(items, {}, {}, [&](const row& r) { up.push_back(r.get(a)); });
    at.scan_down(items.index("by_a"), {}, {},
                 [&](const row& r) { down[static_cast<std::size_t>(r.get(id))] = r.get(a); });
    EXPECT_EQ(up, down);
    return up;
  };
  const auto check = [&] {
    for (const auto& [at, was] : held) {
      std::vector<std::int64_t> shown;
      at->for_each(items, [&](const row& r) { shown.push_back(r.get(a)); });
      ASSERT_EQ(shown, was);
      ASSERT_EQ(by_index(*at), was);
      const query_options alone{.threads = 1};
      const std::int64_t sum = std::accumulate(was.begin(), was.end(), std::int64_t{0});
      auto all = at->query(items).aggregate(db::sum("a")).aggregate(db::count()).run(alone);
      EXPECT_EQ(all.value().get<std::int64_t>(0, 0), sum);
      EXPECT_EQ(all.value().get<std::int64_t>(0, 1), rows);
      const auto one = at->query(items).where("a", equal, was[1234]).where("id", equal, 1234);
      EXPECT_EQ(query(one).aggregate(db::count()).run(alone).value().get<std::int64_t>(0, 0), 1);
    }
  };
  hold();
  ASSERT_NO_FATAL_FAILURE(change(0, rows, 3, 10000));
  hold();
  for (int round = 0; round < 4; ++round) ASSERT_NO_FATAL_FAILURE(change(700, rows, 1, 20000));
  base.collect();
  hold();
  ASSERT_NO_FATAL_FAILURE(change(1, rows, 7, 30000));
  check();

  // And by a transaction that has changes of its own.
  transaction tx = base.begin();
  const std::vector<std::int64_t> was = now;
  ASSERT_NO_FATAL_FAILURE(change(0, 1000, 2, 5));
  ASSERT_TRUE(tx.update(items, {1001}, {{"a", 0}}));
  ASSERT_TRUE(tx.erase(items, {1003}));
  const std::int64_t sum =
      std::accumulate(was.begin(), was.end(), std::int64_t{0}) - was[1001] - was[1003];
  auto all = tx.query(items).aggregate(db::sum("a")).aggregate(db::count()).run();
  EXPECT_EQ(all.value().get<std::int64_t>(0, 0), sum);
  EXPECT_EQ(all.value().get<std::int64_t>(0, 1), rows - 1);
  check();
}

}  // namespace
