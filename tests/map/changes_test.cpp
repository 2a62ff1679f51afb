// SPDX-License-Identifier: Apache-2.0
// Batches of changes: all at one instant or none, in several maps.
#include <spolia/map/changes.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <spolia/snapshot.hpp>

#include "support/faults.hpp"
#include "support/ledger.hpp"
#include "support/stress.hpp"
#include "version/all_collectors.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using counted = spolia::test::tracked;

template <class Collector>
class batches : public testing::Test {
 protected:
  using words = snapshot_hash<std::string, std::string, Collector>;
  using numbers = snapshot_hash<std::uint64_t, std::int64_t, Collector>;
  static auto small() { return eager_options<Collector>(); }
  typename Collector::timeline_type time;
};
using collectors = testing::Types<sl_rt<>, bbf<domain<token>, on_update>, steam<>>;
TYPED_TEST_SUITE(batches, collectors, collector_names);

TYPED_TEST(batches, happen_at_one_instant) {
  typename TestFixture::words names(this->time, {.collector = this->small()});
  typename TestFixture::numbers counts(this->time, {.collector = this->small()});
  names.insert("a", "old");
  counts.insert(1, 10);
  const snapshot before(this->time);
  changes all;
  all.insert_or_assign(names, "a", "new");
  all.insert(names, "b", "new");
  all.erase(counts, 1U);
  all.insert(counts, 2U, 20);
  EXPECT_EQ(names.find("a"), "old");
  all.commit();
  EXPECT_EQ(all.size(), 0U);
  EXPECT_EQ(names.find("a"), "new");
  EXPECT_EQ(names.find("b"), "new");
  EXPECT_FALSE(counts.contains(1));
  EXPECT_EQ(counts.find(2), 20);
  EXPECT_EQ(names.size_approx(), 2U);
  EXPECT_EQ(counts.size_approx(), 1U);
  EXPECT_EQ(*names.find(before, "a"), "old");
  EXPECT_EQ(names.find(before, "b"), nullptr);
  EXPECT_EQ(*counts.find(before, 1), 10);
  EXPECT_EQ(counts.size(before), 1U);
  const snapshot after(this->time);
  EXPECT_EQ(names.size(after), 2U);
  EXPECT_EQ(counts.size(after), 1U);
  for (const auto& [key, value] : counts.all(after)) EXPECT_EQ(key, 2U);
}

TYPED_TEST(batches, take_effect_in_order) {
  typename TestFixture::numbers m(this->time,
                                  {.buckets = 1, .load = 100, .collector = this->small()});
  m.insert(1, 1);
  changes all;
  all.insert(m, 1U, 5);  // it is there
  all.insert_or_assign(m, 2U, 2);
  all.erase(m, 1U);
  all.insert(m, 1U, 7);
  all.erase(m, 2U);
  all.erase(m, 2U);
  all.insert_or_assign(m, 3U, 3);
  all.insert_or_assign(m, 3U, 4);
  all.commit();
  EXPECT_EQ(m.find(1), 7);
  EXPECT_FALSE(m.contains(2));
  EXPECT_EQ(m.find(3), 4);
  EXPECT_EQ(m.size_approx(), 2U);
  all.commit();  // nothing
  m.insert_or_assign(3, 9);
  m.erase(1);
  EXPECT_EQ(m.find(3), 9);
  EXPECT_EQ(m.size_approx(), 1U);
}

TYPED_TEST(batches, outlast_growth) {
  typename TestFixture::numbers m(this->time,
                                  {.buckets = 1, .load = 1, .collector = this->small()});
  std::vector<snapshot> then;
  for (std::uint64_t round = 0; round < 40; ++round) {
    changes all;
    for (std::uint64_t k = 0; k < 10; ++k) {
      all.insert_or_assign(m, round * 5 + k, static_cast<std::int64_t>(round));
    }
    all.commit();
    then.emplace_back(this->time);
  }
  EXPECT_GE(m.buckets(), 64U);
  EXPECT_EQ(m.size_approx(), 205U);
  for (std::uint64_t round = 0; round < 40; ++round) {
    EXPECT_EQ(m.size(then[round]), round * 5 + 10);
    EXPECT_EQ(*m.find(then[round], round * 5 + 9), static_cast<std::int64_t>(round));
  }
}

TYPED_TEST(batches, end_what_they_held_once) {
  ledger book;
  {
    snapshot_hash<std::uint64_t, counted, TypeParam> m(this->time, {.collector = this->small()});
    for (std::uint64_t i = 0; i < 300; ++i) {
      changes all;
      for (std::uint64_t k = 0; k < 3; ++k) {
        all.insert_or_assign(m, (i + k) % 20, counted(book, i));
      }
      all.erase(m, (i + 7) % 20);
      if (i % 5 != 0) all.commit();
    }
  }
  book.expect_empty();
}

/// Sums of two maps stay what they are, for snapshots, while amounts go to and fro; and other
/// updates of the same buckets come between.
TYPED_TEST(batches, keep_sums) {
  using map = typename TestFixture::numbers;
  constexpr std::uint64_t keys = 16;
  constexpr std::int64_t each = 1000;
  std::array<map, 2> maps{map(this->time, {.buckets = 4, .load = 4, .collector = this->small()}),
                          map(this->time, {.buckets = 4, .load = 4, .collector = this->small()})};
  for (auto& m : maps) {
    for (std::uint64_t k = 0; k < keys; ++k) m.insert(k, each);
  }
  run_stress({.threads = 4, .share = 0.3}, [&](stress_thread& self) {
    const std::uint64_t first = self.index() * keys / 4;  // each thread's own keys, in any bucket
    while (self.running()) {
      const std::uint64_t from = first + self.random().below(keys / 4);
      const std::uint64_t to = first + self.random().below(keys / 4);
      changes move;
      move.insert_or_assign(maps[0], from, *maps[0].find(from) - 1);
      move.insert_or_assign(maps[1], to, *maps[1].find(to) + 1);
      move.commit();
      if (self.random().chance(1, 4)) maps[0].insert(100 + self.index(), 0);
      if (self.random().chance(1, 4)) maps[0].erase(100 + self.index());
      const snapshot now(this->time);
      std::int64_t sum = 0;
      for (const auto& m : maps) {
        for (const auto& [k, v] : m.all(now)) sum += v;
      }
      ASSERT_EQ(sum, static_cast<std::int64_t>(2 * keys) * each);
      sum = 0;
      for (const auto& m : maps) {
        for (std::uint64_t k = 0; k < keys; ++k) sum += *m.find(now, k);
      }
      ASSERT_EQ(sum, static_cast<std::int64_t>(2 * keys) * each);
    }
  });
}

TEST(batches_errors, leave_nothing_behind) {
  timeline time;
  snapshot_hash<std::string, std::string> one(time);
  snapshot_hash<int, int> two(time);
  one.insert("a", "old");
  const std::uint64_t failures = for_each_allocation_failure([&] {
    changes all;
    try {
      all.insert_or_assign(one, "a", "a value that is too long to lie in the string itself");
      all.insert(two, 1, 1);
      all.erase(one, "b");
      all.commit();
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(one.find("a"), "old");
      EXPECT_FALSE(two.contains(1));
      const snapshot now(time);
      EXPECT_EQ(one.size(now), 1U);
      EXPECT_EQ(two.size(now), 0U);
      throw;
    }
  });
  EXPECT_GE(failures, 6U);
  EXPECT_EQ(two.find(1), 1);
}

TEST(batches_errors, maps_of_two_timelines_are_refused) {
  timeline time;
  timeline other;
  snapshot_hash<int, int> one(time);
  snapshot_hash<int, int> two(other);
  changes all;
  all.insert(one, 1, 1);
  EXPECT_THROW(all.insert(two, 1, 1), std::invalid_argument);
  EXPECT_THROW(all.erase(two, 1), std::invalid_argument);
  EXPECT_EQ(all.size(), 1U);
  all.clear();
  all.insert(two, 1, 1);
  all.commit();
  EXPECT_TRUE(two.contains(1));
  EXPECT_FALSE(one.contains(1));
}

}  // namespace
