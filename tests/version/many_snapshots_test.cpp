// SPDX-License-Identifier: Apache-2.0
// What snapshots that stay cost those who update: one, and very many.

#include <gtest/gtest.h>

#include <algorithm>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <spolia/reclaim.hpp>
#include <spolia/snapshot.hpp>
#include <spolia/version/range_tracker.hpp>

#include "support/cost.hpp"
#include "support/sanitized.hpp"
#include "version/all_collectors.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

constexpr int objects_of_many = 100;

using version_in_list = spolia::tracked;

template <class Collector>
struct held_objects : versioned_objects<int, Collector> {
  explicit held_objects(typename Collector::options o) : versioned_objects<int, Collector>(o) {
    for (int i = 0; i < objects_of_many; ++i) this->make(i);
  }
  void store(int i) {
    auto s = this->enter();
    this->objects[static_cast<std::size_t>(i % objects_of_many)]->store(s, i);
  }
};

template <class Collector>
class one_snapshot : public testing::Test {};
using those_that_collect_between = testing::Types<bbf<>, dl_rt<>, sl_rt<>, steam<>>;
TYPED_TEST_SUITE(one_snapshot, those_that_collect_between, collector_names);

/// Each collector looks at the snapshots when 64 versions have ended, or at each change.
TYPED_TEST(one_snapshot, lets_go_of_what_is_younger_at_once) {
  typename TypeParam::options o;
  if constexpr (requires { o.scan_period; }) o.scan_period = {};
  held_objects<TypeParam> w(o);
  const snapshot held(w.time, "held");
  for (int i = 0; i < 20 * objects_of_many; ++i) w.store(i);
  for (int i = 0; i < 64; ++i) {
    w.store(i);
    ASSERT_LE(w.versions.stats().held(), may_hold<TypeParam>(objects_of_many, objects_of_many));
  }
}

TEST(many_snapshots, are_scanned_once_for_many_versions) {
  timeline time;
  range_tracker tracker({});
  constexpr int snapshots = 4000;
  constexpr int versions = 40'000;
  std::vector<snapshot> held;
  for (int i = 0; i < snapshots; ++i) held.emplace_back(time);
  int looks = 0;
  std::uint64_t most = 0;
  auto& me = tracker.mine();
  for (int i = 0; i < versions; ++i) {
    auto* const t = new version_in_list();
    t->since.store_relaxed(time.now());
    snapshot(time).withdraw();
    tracker.deprecate(me, t, time.now());
    const auto look = [&](scan_times& found) {
      ++looks;
      time.scan(found);
    };
    const auto expire = [](version_in_list* gone) {
      delete gone;
      return true;
    };
    tracker.work(me, look, expire);
    most = std::max(most, tracker.held());
  }
  const std::uint64_t batch = tracker.batch();
  EXPECT_GE(batch, std::uint64_t{snapshots} / 4);
  EXPECT_LE(batch, std::uint64_t{snapshots} / 3);
  // And once at the beginning, when none has told how many snapshots there are.
  EXPECT_LE(looks, 2 * versions / (snapshots / 4));
  EXPECT_LE(most, 5 * batch);
  held.clear();
  // What the last one has found is worth as much as is looked at again.
  tracker.collect(
      me, [&](scan_times& found) { time.scan(found); },
      [](version_in_list* gone) {
        delete gone;
        return true;
      });
  EXPECT_LE(tracker.batch(), std::uint64_t{snapshots} / 16) << "slots alone count for little";
}

template <class Collector>
class very_many_snapshots : public testing::Test {};
TYPED_TEST_SUITE(very_many_snapshots, those_that_collect_between, collector_names);

/// Each object has hundreds of versions that are needed, and short snapshots go between, so that
/// versions have to be looked at.
TYPED_TEST(very_many_snapshots, do_not_slow_updates_down) {
  if (sanitized) GTEST_SKIP() << "a sanitizer's work is another one";
  constexpr int updates = 60'000;
  constexpr int snapshots = 50'000;
  held_objects<TypeParam> without({});
  held_objects<TypeParam> w({});
  const auto cost_of_updates = [](held_objects<TypeParam>& of) {
    return cost_of([&] {
      for (int i = 0; i < updates; ++i) {
        of.store(i);
        if (i % 4 == 0) snapshot(of.time).withdraw();
      }
    });
  };
  cost_of_updates(without);
  cost_of_updates(w);
  std::vector<snapshot> held;
  for (int i = 0; i < snapshots; ++i) {
    held.emplace_back(w.time, "one of many");
    w.store(i);
  }
  cost_of_updates(w);
  EXPECT_LE(times_as_much(
                5, [&] { return cost_of_updates(w); }, [&] { return cost_of_updates(without); }),
            8);
}

}  // namespace
