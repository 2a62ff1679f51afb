// SPDX-License-Identifier: Apache-2.0
// Timelines and the snapshots that they announce.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/version/snapshot.hpp>
#include <spolia/version/timeline.hpp>

namespace {

using namespace spolia;
using spolia::tracked;

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

template <class Timeline>
std::uint64_t stamped(Timeline& time) {
  line_node v;
  return time.settle(v);
}

TYPED_TEST(timelines, meet_in_one_snapshot) {
  if (!usable<TypeParam>() || !usable<by_hardware>()) GTEST_SKIP() << hardware_clock::reason();
  TypeParam time;
  on_snapshot second;
  on_update third;
  by_hardware fourth;
  by_hardware_on_update fifth;
  const on_snapshot stranger;
  const auto expect_announced = [&](int n) {
    EXPECT_EQ(announced(time), n);
    EXPECT_EQ(announced(second), n);
    EXPECT_EQ(announced(third), n);
    EXPECT_EQ(announced(fourth), n);
    EXPECT_EQ(announced(fifth), n);
  };
  const auto expect_between = [&](const snapshot& now, auto& each, std::uint64_t before) {
    EXPECT_TRUE(now.belongs_to(each));
    EXPECT_GE(now.timestamp(each), before);
    EXPECT_GT(stamped(each), now.timestamp(each));
    scan_times found;
    each.scan(found);
    EXPECT_EQ(found.times, std::vector{now.timestamp(each)});
    each.living().for_each([](const census::entry& e) { EXPECT_STREQ(e.label, "all"); });
  };
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t before[] = {stamped(time), stamped(second), stamped(third), stamped(fourth),
                                    stamped(fifth)};
    snapshot now({time, second, third, second, fourth, fifth, time}, "all");
    EXPECT_EQ(now.timestamp(), now.timestamp(time));
    EXPECT_FALSE(now.belongs_to(stranger));
    EXPECT_EQ(now.timestamp(fourth), now.timestamp(fifth)) << "they have one clock";
    snapshot held = now.clone();
    now.withdraw();
    expect_announced(1);
    expect_between(held, time, before[0]);
    expect_between(held, second, before[1]);
    expect_between(held, third, before[2]);
    expect_between(held, fourth, before[3]);
    expect_between(held, fifth, before[4]);
    std::thread([mine = std::move(held)] {}).join();
    expect_announced(0);
  }
}

TEST(snapshots, of_any_number_of_timelines) {
  on_snapshot time[5];
  std::vector<any_timeline> all;
  for (std::size_t n = 0; n <= std::size(time); ++n) {
    const snapshot now(all, "some");
    EXPECT_EQ(static_cast<bool>(now), n != 0);
    for (std::size_t i = 0; i < std::size(time); ++i) {
      EXPECT_EQ(announced(time[i]), i < n ? 1 : 0);
      EXPECT_EQ(now.belongs_to(time[i]), i < n);
    }
    if (n < std::size(time)) all.emplace_back(time[n]);
  }
}

/// No update moves the clock of such a timeline but while a snapshot of several is being made.
TEST(snapshots, of_several_ask_for_ticks_no_longer_than_they_are_made) {
  on_snapshot time;
  on_snapshot other;
  const snapshot now({time, other});
  const std::uint64_t t = time.now();
  EXPECT_EQ(stamped(time), t);
  EXPECT_EQ(time.now(), t);
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
