// SPDX-License-Identifier: Apache-2.0
// Timelines and the snapshots that they announce.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include <spolia/version/snapshot.hpp>
#include <spolia/version/timeline.hpp>

namespace {

using namespace spolia;

/// How many announcements stand.
template <class Timeline>
int announced(const Timeline& time) {
  int n = 0;
  time.living().for_each([&](const census::entry&) { ++n; });
  return n;
}

struct line_node : tracked {
  atomic<line_node*> left{nullptr};
};

using on_snapshot = timeline;
using on_update = basic_timeline<logical_clock, stamping::on_update>;
using by_hardware = basic_timeline<hardware_clock>;
using by_hardware_on_update = basic_timeline<hardware_clock, stamping::on_update>;
struct selected : basic_timeline<selected_clock> {
  selected() : basic_timeline(clock_kind::hardware) {}
};

template <class Timeline>
class timelines : public testing::Test {};
using all_timelines =
    testing::Types<on_snapshot, on_update, by_hardware, by_hardware_on_update, selected>;
TYPED_TEST_SUITE(timelines, all_timelines);

/// Whether this machine keeps the timeline's promises.
template <class Timeline>
bool usable() {
  return !std::is_same_v<typename Timeline::clock_type, hardware_clock> ||
         hardware_clock::trusted();
}

TYPED_TEST(timelines, what_is_stamped_after_a_snapshot_is_not_in_it) {
  if (!usable<TypeParam>()) GTEST_SKIP() << hardware_clock::reason();
  TypeParam time;
  line_node older;
  const std::uint64_t first = time.settle(older);
  for (int i = 0; i < 100; ++i) {
    const snapshot now(time);
    line_node later;
    later.left.store_relaxed(&older);
    EXPECT_GT(time.settle(later), now.timestamp());
    EXPECT_GE(now.timestamp(), first);
  }
}

TYPED_TEST(timelines, stamps_do_not_fall_and_are_set_once) {
  if (!usable<TypeParam>()) GTEST_SKIP() << hardware_clock::reason();
  TypeParam time;
  std::uint64_t last = 0;
  for (int i = 0; i < 1000; ++i) {
    line_node v;
    const std::uint64_t stamp = time.settle(v);
    EXPECT_EQ(time.settle(v), stamp);
    EXPECT_GE(stamp, last);
    if (TypeParam::advances == stamping::on_update) {
      EXPECT_GT(stamp, last);
    }
    last = stamp;
  }
}

TYPED_TEST(timelines, scans_know_the_snapshots) {
  if (!usable<TypeParam>()) GTEST_SKIP() << hardware_clock::reason();
  TypeParam time;
  snapshot first(time);
  const snapshot second(time);
  scan_times found;
  time.scan(found);
  EXPECT_GE(found.times.size(), 1U);
  EXPECT_EQ(found.times.front(), first.timestamp());
  EXPECT_EQ(found.times.back(), second.timestamp());
  time.watermark(found);
  EXPECT_LE(found.known, first.timestamp());
  EXPECT_TRUE(found.times.empty());
}

TEST(snapshots, are_one_announcement_however_often_cloned) {
  timeline time;
  {
    snapshot a(time, "first");
    const snapshot b = a.clone();
    snapshot c = b.clone();
    EXPECT_EQ(announced(time), 1);
    EXPECT_EQ(c.timestamp(), a.timestamp());
    time.living().for_each([](const census::entry& e) { EXPECT_STREQ(e.label, "first"); });
    a.withdraw();
    EXPECT_FALSE(a);
    EXPECT_EQ(announced(time), 1);
    std::thread([mine = std::move(c)] { EXPECT_TRUE(mine); }).join();
    EXPECT_EQ(announced(time), 1);
  }
  EXPECT_EQ(announced(time), 0);
}

TEST(snapshots, move_and_nest) {
  timeline time;
  timeline other;
  snapshot outer(time);
  snapshot inner(time);
  EXPECT_GT(inner.timestamp(), outer.timestamp());
  EXPECT_TRUE(inner.belongs_to(time));
  EXPECT_FALSE(inner.belongs_to(other));
  outer = std::move(inner);
  EXPECT_EQ(announced(time), 1);
  EXPECT_FALSE(inner);  // NOLINT(bugprone-use-after-move): a moved-from snapshot is an empty one
  EXPECT_FALSE(inner.clone());
}

}  // namespace
