// SPDX-License-Identifier: Apache-2.0
// counters_test.cpp: single-writer counters against exact answers, alone and under concurrent
// readers.
#include <spolia/base/counters.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace {

using spolia::held_at_once;
using spolia::high_mark;
using spolia::histogram;
using spolia::histogram_snapshot;
using spolia::tally;
using buckets = spolia::detail::log_linear;

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

TEST(Tally, AddsUp) {
  tally t;
  EXPECT_EQ(t.value(), 0U);
  t.add();
  t.add(41);
  EXPECT_EQ(t.value(), 42U);
}

TEST(HighMark, KeepsTheLargest) {
  high_mark m;
  EXPECT_EQ(m.value(), 0U);
  m.raise(7);
  m.raise(3);
  EXPECT_EQ(m.value(), 7U);
  m.raise(8);
  EXPECT_EQ(m.value(), 8U);
}

TEST(Histogram, BucketsTileAllValues) {
  EXPECT_EQ(buckets::first_of(0), 0U);
  for (std::size_t b = 0; b + 1 < buckets::buckets; ++b) {
    ASSERT_EQ(buckets::last_of(b) + 1, buckets::first_of(b + 1));
    ASSERT_EQ(buckets::bucket_of(buckets::first_of(b)), b);
    ASSERT_EQ(buckets::bucket_of(buckets::last_of(b)), b);
    ASSERT_LE((buckets::last_of(b) - buckets::first_of(b)) * 8, buckets::first_of(b)) << b;
  }
  EXPECT_EQ(buckets::bucket_of(largest), buckets::buckets - 1);
  EXPECT_EQ(buckets::last_of(buckets::buckets - 1), largest);
}

TEST(Histogram, EmptyHasNothing) {
  const histogram h;
  histogram_snapshot s;
  s.merge(h);
  EXPECT_EQ(s.count(), 0U);
  EXPECT_EQ(s.max(), 0U);
  EXPECT_EQ(s.quantile(0.5), 0U);
}

TEST(Histogram, ExtremesAreExact) {
  histogram h;
  h.record(0);
  h.record(largest);
  histogram_snapshot s;
  s.merge(h);
  EXPECT_EQ(s.count(), 2U);
  EXPECT_EQ(s.max(), largest);
  EXPECT_EQ(s.quantile(0), 0U);
  EXPECT_EQ(s.quantile(0.5), 0U);
  EXPECT_EQ(s.quantile(1), largest);
}

TEST(Histogram, QuantilesAreWithinAnEighthOfTheSortedList) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> pause(8, 3);
  histogram h;
  std::vector<std::uint64_t> all;
  for (int i = 0; i < 20011; ++i) {
    all.push_back(static_cast<std::uint64_t>(pause(random)));
    h.record(all.back());
  }
  std::sort(all.begin(), all.end());
  histogram_snapshot s;
  s.merge(h);
  ASSERT_EQ(s.count(), all.size());
  EXPECT_EQ(s.max(), all.back());
  for (const double q : {0.0, 0.001, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(all.size())));
    const std::uint64_t exact = all[rank == 0 ? 0 : rank - 1];
    EXPECT_GE(s.quantile(q), exact) << q;
    EXPECT_LE(s.quantile(q), exact + exact / 8) << q;
  }
  EXPECT_EQ(s.quantile(-3), s.quantile(0));
  EXPECT_EQ(s.quantile(3), s.max());
}

TEST(Histogram, MergingEqualsRecordingInOne) {
  histogram a;
  histogram b;
  histogram both;
  for (std::uint64_t i = 1; i < 5000; ++i) {
    (i % 3 == 0 ? a : b).record(i * i);
    both.record(i * i);
  }
  histogram_snapshot parts;
  parts.merge(a);
  histogram_snapshot second;
  second.merge(b);
  parts.merge(second);
  histogram_snapshot whole;
  whole.merge(both);
  EXPECT_EQ(parts.count(), whole.count());
  EXPECT_EQ(parts.max(), whole.max());
  for (double q = 0; q <= 1; q += 0.01) EXPECT_EQ(parts.quantile(q), whole.quantile(q));
}

TEST(Counters, AnyoneMayReadWhileTheOwnerWrites) {
  constexpr std::uint64_t rounds = 100000;
  tally t;
  high_mark m;
  const auto h = std::make_unique<histogram>();
  std::atomic<bool> done{false};
  std::thread reader([&] {
    std::uint64_t sum = 0;
    std::uint64_t top = 0;
    std::uint64_t counted = 0;
    while (!done.load(std::memory_order_acquire)) {
      EXPECT_GE(t.value(), sum);
      EXPECT_GE(m.value(), top);
      sum = t.value();
      top = m.value();
      histogram_snapshot s;
      s.merge(*h);
      EXPECT_GE(s.count(), counted);
      EXPECT_LE(s.quantile(0.5), s.max());
      EXPECT_LE(s.quantile(1), s.max());
      counted = s.count();
    }
  });
  for (std::uint64_t i = 1; i <= rounds; ++i) {
    t.add(2);
    m.raise(i);
    h->record(i);
  }
  done.store(true, std::memory_order_release);
  reader.join();
  histogram_snapshot s;
  s.merge(*h);
  EXPECT_EQ(t.value(), 2 * rounds);
  EXPECT_EQ(m.value(), rounds);
  EXPECT_EQ(s.count(), rounds);
  EXPECT_EQ(s.max(), rounds);
}

/// Cells whose reader is interrupted, by what the counts do.
struct few_cells {
  struct cell {
    tally in;
    tally out;
  };
  template <class F>
  void for_each(F&& f) const {
    for (std::uint32_t n = 0; n < 2; ++n) {
      if (!f(n, at[n])) return;
    }
  }
  cell at[2];
};

TEST(HeldAtOnce, IsExactWhileNoThreadCounts) {
  few_cells cells;
  cells.at[0].in.add(7);
  cells.at[1].in.add(5);
  cells.at[1].out.add(9);
  const auto in = [](const few_cells::cell& c) { return c.in.value(); };
  const auto out = [](const few_cells::cell& c) { return c.out.value(); };
  EXPECT_EQ(held_at_once(cells, in, out), 3U);
}

/// A hundred come in and go out while the reader stands between two counters: there were never more
/// than three.
TEST(HeldAtOnce, IsNeverMoreThanThereWas) {
  for (int interrupted_at = 0; interrupted_at < 4; ++interrupted_at) {
    few_cells cells;
    cells.at[0].in.add(3);
    int step = 0;
    const auto pass_by = [&] {
      if (step++ != interrupted_at) return;
      cells.at[1].in.add(100);
      cells.at[0].out.add(100);
    };
    const std::uint64_t held = held_at_once(
        cells, [&](const few_cells::cell& c) { return pass_by(), c.in.value(); },
        [&](const few_cells::cell& c) { return pass_by(), c.out.value(); });
    EXPECT_LE(held, 3U) << "interrupted at step " << interrupted_at;
  }
}

}  // namespace
