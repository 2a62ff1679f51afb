// SPDX-License-Identifier: Apache-2.0
// When a reader has ended, no commit pays for all that it has held, and one collect() gives all of
// it back, whatever the version storage.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include <spolia/db.hpp>

#include "db/storages.hpp"
#include "support/resident.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// Of the calling thread: what others do does not count.
std::chrono::duration<double, std::milli> thread_time() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

/// A table without secondary indexes, for changes of whole tables in one transaction.
class pauses : public testing::TestWithParam<db::version_storage> {
 protected:
  /// What a commit may take, by the promise 5 ms beside its own changes: twice that.
  static constexpr double most_ms = 10;
  static constexpr std::uint64_t forty_mb = std::uint64_t{40} << (sanitized ? 16U : 20U);

  /// 0: no budget.
  explicit pauses(std::int64_t of, std::uint64_t budget = 0)
      : rows(sanitized ? of / 20 : of),
        base(db::database::open({.versions = GetParam(), .version_budget = budget})),
        table(base.create_table(
            {.name = "rows", .columns = {{"k", db::int64, db::primary_key}, {"a", db::int64}}})) {
    EXPECT_TRUE(
        each_row([&](db::transaction& tx, std::int64_t k) { return tx.insert(table, {k, 0}); }));
  }

  template <class F>
  db::status each_row(F&& f) {
    return base.transact([&](db::transaction& tx) {
      for (std::int64_t k = 0; k < rows; ++k) {
        if (const db::status s = f(tx, k); !s) return s;
      }
      return db::status();
    });
  }
  db::status set_all(std::int64_t to) {
    return each_row(
        [&](db::transaction& tx, std::int64_t k) { return tx.update(table, {k}, {{"a", to}}); });
  }
  db::status set(std::int64_t k, std::int64_t to) {
    return base.transact([&](db::transaction& tx) { return tx.update(table, {k}, {{"a", to}}); });
  }
  /// The longest of so many commits, in milliseconds.
  double longest_of(std::int64_t commits) {
    double longest = 0;
    for (std::int64_t k = 0; k < commits; ++k) {
      const auto before = thread_time();
      EXPECT_TRUE(set(k % rows, k));
      longest = std::max(longest, (thread_time() - before).count());
    }
    return longest;
  }
  std::uint64_t dropped() const { return base.stats().versions.versions_dropped; }
  /// Of some rounds the best: a pause that is the store's own is in each. What the machine adds to
  /// a commit's time, it may add in round after round for as long as it is busy.
  template <class F>
  static double best_of_rounds(F&& longest_in_round) {
    double best = longest_in_round();
    for (int more = 0; more < 20 && best > most_ms; ++more) {
      best = std::min(best, longest_in_round());
    }
    return best;
  }

  const std::int64_t rows;
  db::database base;
  db::table& table;
};

class pauses_without_budget : public pauses {
 protected:
  pauses_without_budget() : pauses(400'000) {}
};

INSTANTIATE_TEST_SUITE_P(each, pauses_without_budget, storages_that_collect(),
                         [](const auto& of) { return storage_name({{of.param}, of.index}); });

/// Three held versions of each row, and as many that none has seen.
TEST_P(pauses_without_budget, are_short_after_large_transactions) {
  const double longest = best_of_rounds([&] {
    double round = 0;
    std::vector<db::reader> held;
    for (std::int64_t a = 0; a < 4; ++a) {
      if (a % 2 == 0) held.push_back(base.snapshot());
      EXPECT_TRUE(set_all(a));
      round = std::max(round, longest_of(1200));
    }
    held.clear();
    return std::max(round, longest_of(5000));
  });
  if (!sanitized) {
    EXPECT_LE(longest, most_ms);
  }
}

/// What was retired over which no reader may be walking goes with the same call.
TEST_P(pauses_without_budget, are_not_needed_where_all_is_collected_once) {
  const std::uint64_t before = resident_when_trimmed();
  {
    std::vector<db::reader> held;
    for (std::int64_t a = 0; a < 5; ++a) {
      if (a < 3) held.push_back(base.snapshot());
      EXPECT_TRUE(set_all(a));
      longest_of(3000);
    }
  }
  base.collect();
  // A partition stays, and what indexes and sessions have come to use.
  if (!sanitized) {
    EXPECT_LE(resident_when_trimmed(), before + (std::uint64_t{12} << 20U));
  }
  EXPECT_LE(base.stats().versions.bytes, std::uint64_t{5} << 20U);
}

class pauses_with_budget : public pauses {
 protected:
  pauses_with_budget() : pauses(200'000, std::uint64_t{1} << (sanitized ? 18U : 22U)) {}
};

INSTANTIATE_TEST_SUITE_P(each, pauses_with_budget,
                         testing::Values(db::version_storage::steam,
                                         db::version_storage::steam_eager,
                                         db::version_storage::range),
                         [](const auto& of) { return storage_name({{of.param}, of.index}); });

/// The first commit that finds room again makes not much more of it than it takes.
TEST_P(pauses_with_budget, are_short_when_the_budget_was_used_up) {
  std::int64_t k = 0;
  {
    const db::reader held = base.snapshot();
    while (k < rows && set(k, 1)) ++k;
  }
  EXPECT_LT(k, rows) << "the budget was not used up";
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::uint64_t before = dropped();
    EXPECT_TRUE(set(i, 2));
    EXPECT_LE(dropped() - before, 10'000U) << i;
  }
}

/// Readers of several ages, and a version budget that is used up by what they see.
class pauses_of_refusals : public pauses {
 protected:
  pauses_of_refusals() : pauses(250'000, forty_mb) {
    constexpr std::int64_t readers = 4;
    for (std::int64_t r = 0; r < readers; ++r) {
      held.push_back(base.snapshot());
      for (std::int64_t k = 0; k < rows / readers; ++k) EXPECT_TRUE(set(k + r * 1000, r));
    }
  }
  std::uint64_t bytes() const { return base.stats().versions.bytes; }

  std::vector<db::reader> held;
};

INSTANTIATE_TEST_SUITE_P(each, pauses_of_refusals, storages_that_collect(),
                         [](const auto& of) { return storage_name({{of.param}, of.index}); });

/// What is kept is not gone over again and again, while none of it can go.
TEST_P(pauses_of_refusals, take_little_time) {
  // One that is refused may be the last of a partition that is full, where others are not.
  std::int64_t k = 0;
  for (int in_a_row = 0; in_a_row < 300; ++k) {
    ASSERT_LT(k, 10 * rows) << "the budget was not used up";
    in_a_row = set(k % rows, k) ? 0 : in_a_row + 1;
  }
  constexpr int refusals = 1000;
  int refused = 0;
  const auto before = thread_time();
  for (int i = 0; i < refusals; ++i) {
    refused += set((k + i) % rows, i).code() == db::outcome::limit ? 1 : 0;
  }
  const double each = (thread_time() - before).count() / refusals;
  EXPECT_GE(refused, refusals * 9 / 10);
  if (!sanitized) {
    EXPECT_LE(each, 0.5);
  }
  held.erase(held.begin(), held.begin() + 3);
  EXPECT_TRUE(set(0, 1)) << "what the oldest readers have held can go";
}

/// Where the budget has room for what readers see, and not for much more.
TEST_P(pauses_of_refusals, do_not_come_where_no_reader_sees_what_is_replaced) {
  if (!db::info_of(GetParam()).collects_between) GTEST_SKIP() << "it keeps all since the oldest";
  constexpr std::int64_t hot = 64;
  for (std::int64_t k = 0; k < rows && bytes() < forty_mb / 10 * 9; ++k) EXPECT_TRUE(set(k, k));
  const auto before = thread_time();
  for (std::int64_t i = 0; i < 3 * rows; ++i) ASSERT_TRUE(set(i % hot, i)) << i;
  const double each = (thread_time() - before).count() / static_cast<double>(3 * rows);
  if (!sanitized) {
    EXPECT_LE(each, 0.05);
  }
}

class pauses_of_the_default : public pauses {
 protected:
  explicit pauses_of_the_default(std::uint64_t budget = 0) : pauses(250'000, budget) {}
  /// In an order that has nothing to do with where they lie.
  std::int64_t mixed(std::int64_t i) const { return i * 7919 % rows; }
};

INSTANTIATE_TEST_SUITE_P(each, pauses_of_the_default,
                         testing::Values(db::version_storage::one_shot_evacuated),
                         [](const auto& of) { return storage_name({{of.param}, of.index}); });

/// What commits have freed of short values must not wait for the one that asks the allocator for
/// something larger: glibc's goes over all of it then.
TEST_P(pauses_of_the_default, are_short_when_short_values_are_freed) {
  int rounds = 0;
  const double longest = best_of_rounds([&] {
    // A table of its own, whose values lie where nothing was freed before.
    db::table& texts =
        base.create_table({.name = "texts" + std::to_string(++rounds),
                           .columns = {{"k", db::int64, db::primary_key}, {"t", db::text()}}});
    const std::string first(80, 'a');
    const std::string second(80, 'b');
    const auto put = [&](auto&& f) { EXPECT_TRUE(base.transact(f)); };
    for (std::int64_t k = 0; k < rows; ++k) {
      put([&](db::transaction& tx) { return tx.insert(texts, {k, first}); });
    }
    {
      const db::reader held = base.snapshot();
      for (std::int64_t i = 0; i < rows; ++i) {
        put([&](db::transaction& tx) { return tx.update(texts, {mixed(i)}, {{"t", second}}); });
      }
    }
    return longest_of(5000);
  });
  if (!sanitized) {
    EXPECT_LE(longest, most_ms);
  }
}

/// The commit that finds the budget used up has not to move what many before it have left.
class pauses_of_a_full_budget : public pauses_of_the_default {
 protected:
  pauses_of_a_full_budget() : pauses_of_the_default(forty_mb) {}

  static constexpr std::int64_t together = 100;
  /// Changes as many rows.
  template <class Set>
  db::status change(std::int64_t from, Set&& set_one) {
    return base.transact([&](db::transaction& tx) {
      for (std::int64_t i = from; i < from + together; ++i) {
        if (const db::status s = set_one(tx, mixed(i)); !s) return s;
      }
      return db::status();
    });
  }
  /// The longest of the commits beside a reader, up to the first ones that are refused.
  template <class Set>
  double longest_until_full(Set&& set_one) {
    double longest = 0;
    int refused = 0;
    {
      const db::reader first = base.snapshot();
      std::vector<db::reader> more;
      for (std::int64_t i = 0; i < 6 * rows && refused < 20; i += together) {
        if (i % rows < together) more.push_back(base.snapshot());
        const auto before = thread_time();
        if (!change(i % rows, set_one)) ++refused;
        longest = std::max(longest, (thread_time() - before).count());
      }
    }
    EXPECT_EQ(refused, 20) << "the budget was not used up";
    base.collect();
    return longest;
  }
};

INSTANTIATE_TEST_SUITE_P(each, pauses_of_a_full_budget,
                         testing::Values(db::version_storage::one_shot_evacuated),
                         [](const auto& of) { return storage_name({{of.param}, of.index}); });

TEST_P(pauses_of_a_full_budget, are_short) {
  const double longest = best_of_rounds([&] {
    return longest_until_full(
        [&](db::transaction& tx, std::int64_t k) { return tx.update(table, {k}, {{"a", k}}); });
  });
  if (!sanitized) {
    EXPECT_LE(longest, most_ms);
  }
}

/// Half of it is taken by values.
TEST_P(pauses_of_a_full_budget, are_short_with_values_apart) {
  db::table& texts = base.create_table(
      {.name = "texts", .columns = {{"k", db::int64, db::primary_key}, {"t", db::text()}}});
  const std::string value(80, 'a');
  for (std::int64_t k = 0; k < rows; ++k) {
    EXPECT_TRUE(base.transact([&](db::transaction& tx) { return tx.insert(texts, {k, value}); }));
  }
  const double longest = best_of_rounds([&] {
    return longest_until_full(
        [&](db::transaction& tx, std::int64_t k) { return tx.update(texts, {k}, {{"t", value}}); });
  });
  if (!sanitized) {
    EXPECT_LE(longest, most_ms);
  }
}

class pauses_of_consolidation : public pauses {
 protected:
  pauses_of_consolidation() : pauses(600'000) {}
};

INSTANTIATE_TEST_SUITE_P(each, pauses_of_consolidation,
                         testing::Values(db::version_storage::one_shot_consolidated),
                         [](const auto& of) { return storage_name({{of.param}, of.index}); });

/// What it drops in an allocation period is bounded: so is what is freed at its end.
TEST_P(pauses_of_consolidation, drop_partitions_in_several_periods) {
  const db::reader first = base.snapshot();
  longest_of(rows);
  {
    const db::reader second = base.snapshot();
    longest_of(5000);  // until both are held
    longest_of(rows);
    longest_of(5000);
  }
  const std::uint64_t begin = dropped();
  std::uint64_t most = 0;
  for (std::int64_t k = 0; k < 30'000; ++k) {
    const std::uint64_t before = dropped();
    EXPECT_TRUE(set(k % rows, k));
    most = std::max(most, dropped() - before);
  }
  // Of 40 bytes at least: 8 MB, and the partition with which that is reached.
  EXPECT_LE(most, std::uint64_t{12} * (std::uint64_t{1} << 20U) / 40);
  EXPECT_GE(dropped() - begin, static_cast<std::uint64_t>(rows) / 2);
}

}  // namespace
