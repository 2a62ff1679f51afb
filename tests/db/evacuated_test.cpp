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

#include "db/evacuated.hpp"
#include "db/storages.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using test::evacuated;
using test::nothing;

/// Snapshots come, and go one by one or many at once; some stay long.
TEST_F(evacuated, snapshots_show_what_there_was_and_leave_nothing) {
  if (spolia::test::no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
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

/// A row of which two versions were kept takes no more, when one of them has gone, than a row of
/// which one was kept.
TEST_F(evacuated, a_row_takes_no_more_for_versions_that_have_gone) {
  const auto change_each = [&] {
    for (std::size_t i = 0; i < now.size(); ++i) {
      ASSERT_TRUE(base.transact([&](transaction& tx) { return put(tx, i, 1 + last % 9); }));
      now[i] = 1 + last % 9;
    }
    ++last;
    base.collect();
    base.collect();
  };
  ASSERT_NO_FATAL_FAILURE(change_each());
  hold();
  ASSERT_NO_FATAL_FAILURE(change_each());
  const std::uint64_t one_each = figures().bytes;
  hold();
  ASSERT_NO_FATAL_FAILURE(change_each());
  EXPECT_GT(figures().bytes, one_each + now.size() * 72);
  ASSERT_NO_FATAL_FAILURE(check_all());
  all.pop_back();
  base.collect();
  base.collect();
  EXPECT_LE(figures().bytes, one_each + 4096);
  ASSERT_NO_FATAL_FAILURE(check_all());
}

/// Columns of several words, at either end of a row.
TEST_F(evacuated, queries_read_rows_of_any_width) {
  test::rng random(11);
  const auto check_by_queries = [&](const held& h) {
    for (std::size_t row = 0; row < now.size(); row += 3) {
      const std::int64_t v = h.was[row];
      if (v == nothing || widths[row / rows] == 0) continue;
      const auto found = h.at->query(*tables[row / rows])
                             .where("pad", equal, pad(v, widths[row / rows]))
                             .where("v", equal, v)
                             .aggregate(db::sum("k"))
                             .run({.threads = 1});
      ASSERT_TRUE(found);
      ASSERT_EQ(found->get<std::int64_t>(0, 0), static_cast<std::int64_t>(row % rows));
    }
  };
  for (int i = 0; i < 1200; ++i) {
    ASSERT_NO_FATAL_FAILURE(change(random));
    if (i % 300 == 200) hold();
    if (i % 100 == 50) base.collect();
  }
  for (const held& h : all) ASSERT_NO_FATAL_FAILURE(check_by_queries(h));
  base.collect();
  for (const held& h : all) ASSERT_NO_FATAL_FAILURE(check_by_queries(h));
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

/// What a row had for many snapshots takes no memory when most of them have ended.
TEST_F(evacuated, what_many_snapshots_saw_goes_with_them) {
  if (spolia::test::no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  constexpr std::int64_t many = 1000;
  constexpr std::int64_t snapshots = 100;
  table& t =
      base.create_table({.name = "many", .columns = {{"k", int64, primary_key}, {"v", int64}}});
  const auto change_all = [&](auto&& f) {
    ASSERT_TRUE(base.transact([&](transaction& tx) {
      status s;
      for (std::int64_t k = 0; s && k < many; ++k) s = f(tx, k);
      return s;
    }));
  };
  ASSERT_NO_FATAL_FAILURE(
      change_all([&](transaction& tx, std::int64_t k) { return tx.insert(t, {k, 0}); }));
  for (std::int64_t v = 1; v <= snapshots; ++v) {
    hold();
    ASSERT_NO_FATAL_FAILURE(
        change_all([&](transaction& tx, std::int64_t k) { return tx.update(t, {k}, {{"v", v}}); }));
  }
  base.collect();
  EXPECT_GE(figures().versions_made - figures().versions_dropped, 1U * many * snapshots);
  all.erase(all.begin() + 1, all.end());
  base.collect();
  base.collect();
  EXPECT_EQ(all[0].at->find(t, {7})->get(t.column<std::int64_t>("v")), 0);
  EXPECT_LE(figures().versions_made - figures().versions_dropped, 1U * many);
  EXPECT_LE(figures().bytes, 500U * many);
}

/// With a budget that is used up, partitions are in pieces for long: snapshots show the same, what
/// is refused is not there, and commits go on as soon as a snapshot ends that holds much.
TEST(evacuated_with_a_budget, nothing_is_lost_that_is_refused) {
  if (spolia::test::no_long_cases) GTEST_SKIP() << "SKIPPED it is long here";
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
  if (spolia::test::no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
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
