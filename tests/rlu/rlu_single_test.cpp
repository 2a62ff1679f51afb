// SPDX-License-Identifier: Apache-2.0
// Read-log-update with one copy, which the benchmark compares ours with: each section by itself,
// and deferring. A rival that is wrong is no rival.

#include <gtest/gtest.h>

#include <spolia/map/rlu_bst.hpp>
#include <spolia/map/rlu_hash.hpp>
#include <spolia/map/rlu_list.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <thread>
#include <type_traits>

#include "bench/rlu_single.hpp"
#include "rlu/groups.hpp"
#include "support/linearizability.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using bench::rlu_single;
using key = std::uint64_t;
using list = rlu_list<key, key, rlu_single>;
using hash = rlu_hash<key, key, rlu_single>;
using tree = rlu_bst<key, key, rlu_single>;

/// How many sections are written back together.
class rlu_single_together : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(each, rlu_single_together, testing::Values(1U, 3U, 1000U));

TEST_P(rlu_single_together, nothing_is_torn_or_lost) {
  groups<rlu_single> w(GetParam());
  nothing_is_torn_or_lost(w, [](unsigned) {});
}
TEST_P(rlu_single_together, threads_come_and_go) {
  groups<rlu_single> w(GetParam());
  threads_come_and_go(w);
}

TEST(rlu_single_deferring, shows_what_was_done_at_the_limit) {
  rlu_single d(3);
  const auto p = d.make<number>({0});
  const auto add = [&](auto& in) {
    auto mine = in.try_lock(p);
    if (mine) mine->value += 1;
    return static_cast<bool>(mine);
  };
  const auto look = [&] { return d.read([&](auto& in) { return in.read(p)->value; }); };
  const auto look_from_elsewhere = [&] {
    long seen = 0;
    std::thread([&] { seen = look(); }).join();
    return seen;
  };
  for (long i = 1; i <= 7; ++i) {
    EXPECT_TRUE(d.update(add));
    EXPECT_EQ(look(), i) << "a thread sees what it has done";
    EXPECT_EQ(look_from_elsewhere(), i / 3 * 3) << "others see it three at a time";
  }
  EXPECT_EQ(d.stats().passes, 2U);
  EXPECT_EQ(d.stats().written_back, 2U) << "of three copies of one object the last one";
  EXPECT_EQ(d.alone(p).value, 7);
  d.discard(p);
}

TEST(rlu_single_deferring, gives_up_what_another_thread_asks_for) {
  rlu_single d(1000000);
  const auto p = d.make<number>({0});
  const auto add = [&](auto& in) {
    auto mine = in.try_lock(p);
    if (mine) mine->value += 1;
    return static_cast<bool>(mine);
  };
  d.update(add);
  std::atomic<bool> there{false};
  std::thread other([&] {
    d.update(add);
    there.store(true);
  });
  while (!there.load()) d.read([&](auto& in) { return in.read(p)->value; });
  other.join();
  EXPECT_EQ(d.read([&](auto& in) { return in.read(p)->value; }), 2);
  EXPECT_GT(d.stats().conflicts, 0U);
  d.discard(p);
}

/// A section that is abandoned leaves the copy of a deferred one as it was.
TEST(rlu_single_deferring, a_deferred_copy_outlives_an_abandoned_section) {
  rlu_single d(1000);
  const auto p = d.make<number>({0});
  const auto q = d.make<number>({0});
  d.update([&](auto& in) {
    in.try_lock(p)->value = 1;
    return true;
  });
  std::atomic<int> step{0};
  std::thread other([&] {
    d.update([&](auto& in) {
      in.try_lock(q)->value = 5;
      step.store(1);
      while (step.load() < 2) std::this_thread::yield();
      return true;
    });
  });
  while (step.load() < 1) std::this_thread::yield();
  int tries = 0;
  d.update([&](auto& in) {
    ++tries;
    EXPECT_EQ(in.read(p)->value, 1);
    in.try_lock(p)->value += 10;
    const auto mine = in.try_lock(q);
    step.store(2);
    if (mine) mine->value += 10;
    return true;
  });
  other.join();
  EXPECT_GT(tries, 1);
  EXPECT_EQ(d.alone(p).value, 11);
  EXPECT_EQ(d.alone(q).value, 15);
  d.discard(p);
  d.discard(q);
}

template <class Map>
Map over(rlu_single& home) {
  if constexpr (std::is_same_v<Map, hash>) {
    return Map(home, 4);
  } else {
    return Map(home);
  }
}

template <class Map>
class rlu_single_maps : public testing::Test {};
using all_maps = testing::Types<list, hash, tree>;
TYPED_TEST_SUITE(rlu_single_maps, all_maps);

TYPED_TEST(rlu_single_maps, do_what_std_map_does) {
  for (const std::uint32_t together : {1U, 4U}) {
    rlu_single home(together);
    TypeParam map = over<TypeParam>(home);
    std::map<key, key> model;
    rng random(seed_for(0));
    for (key i = 0; i < 5000; ++i) {
      const key k = random.below(40);
      switch (random.below(4)) {
        case 0:
          EXPECT_EQ(map.insert(k, i), model.emplace(k, i).second);
          break;
        case 1:
          EXPECT_EQ(map.insert_or_assign(k, i), model.insert_or_assign(k, i).second);
          break;
        case 2:
          EXPECT_EQ(map.erase(k), model.erase(k) == 1);
          break;
        default: {
          const auto expected = model.find(k);
          const auto found = map.find(k);
          ASSERT_EQ(found.has_value(), expected != model.end());
          if (found) {
            EXPECT_EQ(*found, expected->second);
          }
        }
      }
    }
    std::map<key, key> all;
    map.for_each([&](key k, key v) { all.emplace(k, v); });
    EXPECT_EQ(all, model);
  }
}

TYPED_TEST(rlu_single_maps, histories_are_linearizable) {
  rlu_single home;
  TypeParam map = over<TypeParam>(home);
  map_recorder record(4, 20'000, 0);
  run_stress({.threads = 4, .share = 0.2}, [&](stress_thread& self) {
    auto& lane = record.of(self.index());
    while (self.running() && !lane.full()) {
      const key k = self.random().below(8);
      switch (self.random().below(3)) {
        case 0:
          lane.insert(k, k, [&] { return map.insert(k, k); });
          break;
        case 1:
          lane.erase(k, [&] { return map.erase(k); });
          break;
        default:
          lane.find(k, [&] { return map.find(k); });
      }
    }
  });
  EXPECT_TRUE(accepted(check_map(record.events())));
}

/// What deferring sections say they have done adds up.
TYPED_TEST(rlu_single_maps, no_deferred_update_is_lost) {
  rlu_single home(10);
  TypeParam map = over<TypeParam>(home);
  std::atomic<long> size{0};
  run_stress({.threads = 4, .share = 0.2}, [&](stress_thread& self) {
    while (self.running()) {
      const key k = self.random().below(32);
      if (self.random().chance(1, 2)) {
        if (map.insert(k, k)) size.fetch_add(1);
      } else if (map.erase(k)) {
        size.fetch_sub(1);
      }
      map.visit(k, [&](key v) { EXPECT_EQ(v, k); });
    }
  });
  long left = 0;
  map.for_each([&](key, key) { ++left; });
  EXPECT_EQ(left, size.load());
  EXPECT_EQ(map.size_approx(), static_cast<std::size_t>(left));
}

}  // namespace
