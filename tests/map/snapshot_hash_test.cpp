// SPDX-License-Identifier: Apache-2.0
// snapshot_hash over every collector, by one thread.
#include <spolia/map/snapshot_hash.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/base/threads.hpp>
#include <spolia/map/changes.hpp>
#include <spolia/map/detail/bucket_table.hpp>
#include <spolia/map/detail/hash_tags.hpp>

#include "support/ledger.hpp"
#include "support/stress.hpp"
#include "version/all_collectors.hpp"

namespace spolia::test {
namespace {

using spolia::test::tracked;

template <class Collector>
class snapshot_hash_of : public testing::Test {
 protected:
  using numbers = snapshot_hash<std::uint64_t, std::uint64_t, Collector>;
  using contents = std::map<std::uint64_t, std::uint64_t>;

  void SetUp() override {
    if (!usable<Collector>()) GTEST_SKIP() << hardware_clock::reason();
  }
  /// From one bucket on, so that growth is everywhere.
  static typename numbers::options small() {
    return {.buckets = 1, .load = 2, .collector = eager_options<Collector>()};
  }
  static contents everything(const numbers& m, const snapshot& now) {
    contents all;
    for (const auto& [k, v] : m.all(now)) EXPECT_TRUE(all.emplace(k, v).second) << "twice: " << k;
    return all;
  }

  typename Collector::timeline_type time;
};
TYPED_TEST_SUITE(snapshot_hash_of, map_collectors, collector_names);

TYPED_TEST(snapshot_hash_of, answers_like_std_map) {
  typename TestFixture::numbers m(this->time, TestFixture::small());
  typename TestFixture::contents model;
  rng random(seed_for(0));
  for (int i = 0; i < 4000; ++i) {
    const std::uint64_t key = random.below(200);
    const std::uint64_t value = random();
    switch (random.below(5)) {
      case 0:
        ASSERT_EQ(m.insert(key, value), model.emplace(key, value).second);
        break;
      case 1:
        ASSERT_EQ(m.insert_or_assign(key, value), model.insert_or_assign(key, value).second);
        break;
      case 2:
        ASSERT_EQ(m.erase(key), model.erase(key) == 1);
        break;
      default: {
        const auto expected = model.find(key);
        ASSERT_EQ(m.contains(key), expected != model.end());
        const auto found = m.find(key);
        ASSERT_EQ(found.has_value(), expected != model.end());
        if (found.has_value()) {
          ASSERT_EQ(*found, expected->second);
        }
      }
    }
    ASSERT_EQ(m.size_approx(), model.size());
  }
  typename TestFixture::contents seen;
  m.for_each([&](std::uint64_t k, std::uint64_t v) { seen.emplace(k, v); });
  EXPECT_EQ(seen, model);
}

/// Snapshots taken at any time stay what they were, while the table grows under them.
TYPED_TEST(snapshot_hash_of, snapshots_outlast_growth) {
  typename TestFixture::numbers m(this->time, TestFixture::small());
  typename TestFixture::contents model;
  std::vector<std::pair<snapshot, typename TestFixture::contents>> instants;
  rng random(seed_for(1));
  for (int i = 0; i < 6000; ++i) {
    if (i % 250 == 0) instants.emplace_back(snapshot(this->time), model);
    const std::uint64_t key = random.below(1500);
    if (random.chance(1, 4)) {
      EXPECT_EQ(m.erase(key), model.erase(key) == 1);
    } else {
      EXPECT_EQ(m.insert_or_assign(key, static_cast<std::uint64_t>(i)),
                model.insert_or_assign(key, i).second);
    }
  }
  EXPECT_GE(m.buckets(), 256U);
  for (int round = 0; round < 2; ++round) {
    for (const auto& [then, expected_all] : instants) {
      EXPECT_EQ(this->everything(m, then), expected_all);
      EXPECT_EQ(m.size(then), expected_all.size());
      for (std::uint64_t key = 0; key < 1500; key += 7) {
        const auto expected = expected_all.find(key);
        const auto* const found = m.find(then, key);
        ASSERT_EQ(found != nullptr, expected != expected_all.end());
        if (found != nullptr) {
          ASSERT_EQ(*found, expected->second);
        }
      }
    }
    m.collect();
  }
}

TYPED_TEST(snapshot_hash_of, several_keys_are_visited_with_and_without_a_snapshot) {
  typename TestFixture::numbers m(this->time, TestFixture::small());
  for (std::uint64_t k = 0; k < 300; ++k) m.insert(k, k + 1);  // the table grows
  const auto expect_seen = [&](auto&& keys, std::size_t n) {
    std::size_t i = 0;
    m.visit_all(keys, [&](const std::uint64_t* value) {
      const std::uint64_t key = 3 * i++;
      ASSERT_EQ(value != nullptr, key < 300);
      if (value != nullptr) {
        ASSERT_EQ(*value, key + 1);
      }
    });
    EXPECT_EQ(i, n);
  };
  const auto asked = [](std::size_t n) {
    return std::views::iota(std::uint64_t{0}, n) |
           std::views::transform([](std::uint64_t i) { return 3 * i; });
  };
  for (int round = 0; round < 2; ++round) {  // what has changed wants a snapshot, in the first one
    for (const std::size_t n : {0U, 1U, 16U, 17U, 120U}) expect_seen(asked(n), n);
  }
  const std::vector<std::uint64_t> last{294, 297, 300};
  std::size_t found = 0;
  m.visit_all(last, [&](const std::uint64_t* value) { found += value != nullptr ? 1U : 0U; });
  EXPECT_EQ(found, 2U);
}

TYPED_TEST(snapshot_hash_of, several_keys_are_found_at_one_instant) {
  typename TestFixture::numbers m(this->time, TestFixture::small());
  for (std::uint64_t k = 0; k < 100; ++k) m.insert(k, k);
  const snapshot then(this->time);
  for (std::uint64_t k = 0; k < 100; ++k) m.insert_or_assign(k, k + 1000);
  const auto found = m.find_all(then, std::vector<std::uint64_t>{5, 500, 7});
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(*found[0], 5U);
  EXPECT_EQ(found[1], nullptr);
  EXPECT_EQ(*found[2], 7U);
  for (std::uint64_t k = 100; k < 400; ++k) m.insert(k, k);  // the table grows
  const auto expect_all = [&](auto&& keys) {
    const auto all = m.find_all(then, keys);
    ASSERT_EQ(all.size(), 120U);
    for (std::uint64_t k = 0; k < 120; ++k) {
      ASSERT_EQ(all[k] != nullptr, k < 100);
      if (k < 100) {
        ASSERT_EQ(*all[k], k);
      }
    }
  };
  const auto asked = std::views::iota(std::uint64_t{0}, std::uint64_t{120});
  expect_all(asked);
  std::vector<std::uint64_t> listed;
  for (const std::uint64_t k : asked) listed.push_back(k);
  expect_all(listed);
  expect_all(asked | std::views::filter([](std::uint64_t) { return true; }));
  EXPECT_EQ(m.count_if(then, [](std::uint64_t, std::uint64_t v) { return v < 10; }), 10U);
  EXPECT_TRUE(m.contains(then, 99));
}

/// What is found stays without a guard; the range may be left alone half-way.
TYPED_TEST(snapshot_hash_of, what_a_snapshot_finds_stays) {
  snapshot_hash<int, std::string, TypeParam> m(this->time);
  const std::string text(50, 'x');
  for (int i = 0; i < 300; ++i) m.insert(i, text + std::to_string(i));
  const snapshot then(this->time);
  const std::string* const seven = m.find(then, 7);
  auto all = m.all(then);
  auto at = all.begin();
  std::size_t seen = 0;
  for (; seen < 100; ++seen) ++at;
  for (int i = 0; i < 300; ++i) {
    m.erase(i);
    m.insert(1000 + i, text);
  }
  m.collect();
  m.domain().drain();
  for (; at != all.end(); ++at, ++seen) {
    EXPECT_EQ((*at).second, text + std::to_string((*at).first));
  }
  EXPECT_EQ(seen, 300U);
  EXPECT_EQ(*seven, text + "7");
  std::thread([&m, mine = then.clone()] { EXPECT_EQ(m.size(mine), 300U); }).join();
}

TYPED_TEST(snapshot_hash_of, is_empty_before_it_was_made) {
  const snapshot before(this->time);
  typename TestFixture::numbers m(this->time, TestFixture::small());
  for (std::uint64_t k = 0; k < 50; ++k) m.insert(k, k);
  EXPECT_EQ(m.find(before, 1), nullptr);
  EXPECT_EQ(m.size(before), 0U);
  EXPECT_TRUE(this->everything(m, before).empty());
}

/// The promise: a held snapshot costs what it can see.
TYPED_TEST(snapshot_hash_of, a_held_snapshot_costs_what_it_sees) {
  constexpr std::uint64_t keys = 100;
  typename TestFixture::numbers m(
      this->time, {.buckets = 64, .load = 8, .collector = eager_options<TypeParam>()});
  for (std::uint64_t k = 0; k < keys; ++k) m.insert(k, 0);
  const snapshot held(this->time);
  constexpr std::uint64_t updates = 5000;
  for (std::uint64_t i = 0; i < updates; ++i) {
    if (i % 3 == 0) snapshot(this->time).withdraw();
    m.insert_or_assign(i % keys, i);
  }
  m.collect();
  if (TypeParam::info.collects_between) {
    EXPECT_LE(m.stats().held(), may_hold<TypeParam>(64, 64U + 64U));
  } else {
    EXPECT_GE(m.stats().held(), updates);
  }
  EXPECT_EQ(*m.find(held, 5), 0U);
}

TYPED_TEST(snapshot_hash_of, accounts_for_what_snapshots_hold) {
  typename TestFixture::numbers m(
      this->time, {.buckets = 128, .load = 16, .collector = eager_options<TypeParam>(), .seed = 1});
  for (std::uint64_t k = 0; k < 1500; ++k) m.insert(k, 0);  // some in each bucket
  const auto changed = [&](std::uint64_t first, std::uint64_t end) {
    for (std::uint64_t k = first; k < end; ++k) m.insert_or_assign(k, k);
  };
  m.collect();
  holdings none = m.account();
  EXPECT_EQ(none.current, 128U);
  EXPECT_GE(none.current_bytes, 128U * 64);
  EXPECT_EQ(none.needed, 0U);
  EXPECT_TRUE(none.snapshots.empty());

  std::optional<snapshot> early(std::in_place, this->time, "early");
  const snapshot twin(this->time, "twin");  // nothing changes between the two
  changed(0, 50);
  const snapshot late(this->time, "late");
  changed(0, 100);
  changed(0, 100);
  holdings all = m.account();
  ASSERT_EQ(all.snapshots.size(), 3U);
  EXPECT_NE(all.snapshots[0].label, all.snapshots[1].label);  // may have the same time
  EXPECT_STREQ(all.snapshots[2].label, "late");
  EXPECT_GT(all.snapshots[0].age.count(), 0);
  EXPECT_EQ(all.snapshots[0].os_thread, threads::os_id());
  EXPECT_EQ(all.snapshots[0].thread_name, threads::os_name(threads::os_id()));
  EXPECT_EQ(all.snapshots[0].versions, all.snapshots[1].versions);
  EXPECT_EQ(all.snapshots[0].versions_alone, 0U);
  EXPECT_GT(all.snapshots[2].versions_alone, 0U);
  EXPECT_LE(all.snapshots[2].versions_alone, all.snapshots[2].versions);
  EXPECT_GT(all.snapshots[0].bytes, all.snapshots[0].versions * 64);
  EXPECT_LE(all.needed, all.snapshots[0].versions + all.snapshots[2].versions);
  EXPECT_GE(all.needed, all.snapshots[2].versions);
  early.reset();
  all = m.account();
  ASSERT_EQ(all.snapshots.size(), 2U);
  EXPECT_GT(all.snapshots[0].versions_alone, 0U);
  EXPECT_LE(all.needed, m.stats().held());
  if (TypeParam::info.collects_between) {
    EXPECT_LE(m.stats().held(), may_hold<TypeParam>(128, all.needed));
  }
}

TYPED_TEST(snapshot_hash_of, tells_of_snapshots_past_their_limits) {
  using namespace std::chrono_literals;
  std::vector<std::string> told;
  const auto tell = [&](const snapshot_holding& s) { told.emplace_back(s.label); };
  typename TestFixture::numbers::options by_age;
  by_age.limits = {.age = 1ns, .passed = tell, .every = 1ns};
  typename TestFixture::numbers::options by_bytes;
  by_bytes.limits = {.bytes = 1000, .passed = tell, .every = 0ns};
  typename TestFixture::numbers old(this->time, by_age);
  typename TestFixture::numbers large(this->time, by_bytes);
  for (std::uint64_t k = 0; k < 100; ++k) large.insert(k, k);
  old.insert(1, 1);
  EXPECT_TRUE(told.empty());
  const snapshot then(this->time, "held");
  old.insert(2, 2);
  EXPECT_EQ(told, (std::vector<std::string>{"held"}));
  EXPECT_EQ(large.check_snapshots(), 0U);
  for (std::uint64_t k = 0; k < 100; ++k) large.erase(k);
  EXPECT_EQ(told.size(), 1U);
  EXPECT_EQ(large.check_snapshots(), 1U);
  EXPECT_EQ(told, (std::vector<std::string>{"held", "held"}));
}

TYPED_TEST(snapshot_hash_of, pairs_end_once) {
  ledger book;
  {
    const typename snapshot_hash<tracked, tracked, TypeParam>::options small{
        .buckets = 1, .collector = eager_options<TypeParam>()};
    snapshot_hash<tracked, tracked, TypeParam> m(this->time, small);
    std::optional<snapshot> then;
    for (std::uint64_t i = 0; i < 2000; ++i) {
      if (i == 1000) then.emplace(this->time);
      const std::uint64_t k = i * 7 % 150;
      m.insert_or_assign(tracked(book, k), tracked(book, i));
      if (i % 3 == 0) m.erase(tracked(book, k));
    }
    for (const auto& [k, v] : m.all(*then)) EXPECT_EQ(v.read() * 7 % 150, k.read());
  }
  book.expect_empty();
}

/// All values of a bad hash lie in few buckets, and all of a worse one in one.
TEST(snapshot_hash, compares_tags_as_a_list_of_hashes_would) {
  rng random(seed_for(0));
  detail::map::hash_tags tags;
  std::vector<std::uint64_t> hashes;
  for (int i = 0; i < 20000; ++i) {
    // Few of them, and some that differ by one, or in what tags do not tell.
    const std::uint64_t hash = random.below(5) << 56U | random.below(2);
    const detail::map::hash_tags before = tags;
    if (hashes.size() < detail::map::hash_tags::most && random.below(2) == 0) {
      tags.put_first(before, hash);
      hashes.insert(hashes.begin(), hash);
    } else if (!hashes.empty()) {
      const std::size_t at = random.below(hashes.size());
      if (random.below(3) == 0) {
        tags.put(at, hashes[at] = hash);
      } else {
        tags.put_without(before, at);
        hashes.erase(hashes.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    std::vector<bool> found(hashes.size());
    for (auto like = tags.like(hash, hashes.size()); !like.empty(); like.drop_first()) {
      ASSERT_LT(like.first(), hashes.size());
      found[like.first()] = true;
    }
    const auto tag = [](std::uint64_t h) { return h >> 56U; };
    for (std::size_t n = 0; n < hashes.size(); ++n) {
      ASSERT_EQ(found[n], tag(hashes[n]) == tag(hash)) << n;
    }
  }
}

/// What comes and goes often is first in its bucket, also of one with more pairs than have tags.
TEST(snapshot_hash, puts_what_comes_in_front) {
  timeline time;
  snapshot_hash<int, int> m(time, {.buckets = 1, .load = 1000});
  std::vector<int> expected;
  for (int k = 0; k < 30; ++k) {
    m.insert(k, k);
    expected.insert(expected.begin(), k);
  }
  const auto expect = [&] {
    const snapshot now(time);
    std::vector<int> keys;
    for (const auto& [key, value] : m.all(now)) keys.push_back(key);
    EXPECT_EQ(keys, expected);
    for (const int k : expected) EXPECT_TRUE(m.contains(k)) << k;
  };
  expect();
  m.insert_or_assign(7, 70);  // stays where it is
  expect();
  for (const int k : {7, 29, 0, 15, 8}) {
    m.erase(k);
    std::erase(expected, k);
    EXPECT_FALSE(m.contains(k));
    expect();
  }
  m.insert(15, 15);
  expected.insert(expected.begin(), 15);
  expect();
}

TEST(snapshot_hash, finds_every_pair_of_a_crowded_bucket) {
  timeline time;
  snapshot_hash<std::uint64_t, std::uint64_t> m(time, {.buckets = 1, .load = 1000});
  std::map<std::uint64_t, std::uint64_t> model;
  rng random(seed_for(0));
  for (std::uint64_t i = 0; i < 3000; ++i) {
    const std::uint64_t key = random.below(30);
    // Crowded and empty in turn: past the number of pairs that have tags, and back.
    const bool remove = random.below(8) < (i / 100 % 2 == 0 ? 2U : 6U);
    if (i % 16 == 0) {
      changes both;
      both.insert_or_assign(m, key, i);
      both.erase(m, key + 1);
      both.commit();
      model[key] = i;
      model.erase(key + 1);
    } else if (remove) {
      ASSERT_EQ(m.erase(key), model.erase(key) == 1);
    } else {
      ASSERT_EQ(m.insert_or_assign(key, i), model.insert_or_assign(key, i).second);
    }
    for (std::uint64_t k = 0; k < 31; ++k) ASSERT_EQ(m.contains(k), model.count(k) == 1);
  }
}

struct bad_hash {
  std::size_t operator()(int) const noexcept { return 42; }
};

TEST(snapshot_hash, bears_a_bad_hash) {
  snapshot_hash<int, int, sl_rt<>, bad_hash> m({.buckets = 1});
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(m.insert(i, i));
  for (int i = 0; i < 200; i += 2) EXPECT_TRUE(m.erase(i));
  const snapshot now;
  EXPECT_EQ(m.size(now), 100U);
  EXPECT_EQ(m.find(now, 2), nullptr);
  EXPECT_EQ(*m.find(now, 3), 3);
}

TEST(snapshot_hash, takes_what_can_only_be_moved) {
  snapshot_hash<std::string, std::unique_ptr<int>> m;
  auto refused = std::make_unique<int>(2);
  EXPECT_TRUE(m.insert("one", std::make_unique<int>(1)));
  EXPECT_FALSE(m.insert("one", std::move(refused)));
  EXPECT_NE(refused, nullptr) << "taken though nothing was inserted";
  const snapshot now;
  EXPECT_FALSE(m.insert_or_assign("one", std::move(refused)));
  EXPECT_EQ(refused, nullptr);
  int seen = 0;
  EXPECT_TRUE(m.visit("one", [&](const std::unique_ptr<int>& p) { seen = *p; }));
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(**m.find(now, "one"), 1);
}

TEST(snapshot_hash, shares_instants_with_others) {
  snapshot_hash<int, int> accounts;
  snapshot_hash<std::string, int> names;
  accounts.insert(1, 10);
  const auto now = spolia::snapshot();
  names.insert("one", 1);
  accounts.erase(1);
  EXPECT_EQ(*accounts.find(now, 1), 10);
  EXPECT_EQ(names.find(now, "one"), nullptr);
  const spolia::snapshot later("later");
  EXPECT_EQ(accounts.find(later, 1), nullptr);
  EXPECT_EQ(*names.find(later, "one"), 1);
}

TEST(snapshot_hash, is_a_range_for_views) {
  snapshot_hash<int, int> m;
  for (int i = 0; i < 10; ++i) m.insert(i, i * i);
  const snapshot now;
  static_assert(std::ranges::forward_range<decltype(m.all(now))>);
  std::vector<int> even;
  for (const auto& [k, v] :
       m.all(now) | std::views::filter([](const auto& p) { return p.first % 2 == 0; })) {
    even.push_back(v);
  }
  std::ranges::sort(even);
  EXPECT_EQ(even, (std::vector{0, 4, 16, 36, 64}));
}

TEST(snapshot_hash, nests_reads_and_updates_in_a_loop) {
  snapshot_hash<int, int> m;
  for (int i = 0; i < 100; ++i) m.insert(i, i);
  int calls = 0;
  m.for_each([&](int k, int v) {
    EXPECT_EQ(k, v);
    m.insert_or_assign(k, -1);
    m.insert(k + 1000, 0);
    EXPECT_EQ(*m.find(k), -1);
    return ++calls < 60;
  });
  EXPECT_EQ(calls, 60);
  EXPECT_EQ(m.size_approx(), 160U);
}

TEST(snapshot_hash, refuses_options_that_make_no_sense) {
  using map = snapshot_hash<int, int>;
  EXPECT_THROW(map({.load = 0}), std::invalid_argument);
  EXPECT_THROW(map({.buckets = 0}), std::invalid_argument);
}

/// Of ten calls.
template <class F>
std::chrono::nanoseconds shortest(F&& f) {
  auto least = std::chrono::nanoseconds::max();
  for (int i = 0; i < 10; ++i) {
    const auto before = std::chrono::steady_clock::now();
    f();
    least = (std::min)(least, std::chrono::nanoseconds(std::chrono::steady_clock::now() - before));
  }
  return least;
}

/// A table as large as a map's that had half a million pairs: account() looks at each bucket.
TEST(snapshot_hash, passes_empty_buckets_together) {
  snapshot_hash<int, int> m;
  m.reserve(500000);
  m.insert(1, 1);
  m.insert(2, 2);
  int seen = 0;
  const auto look = [&] { m.for_each([&](int, int) { ++seen; }); };
  const auto one_by_one = shortest([&] { static_cast<void>(m.account()); });
  EXPECT_LT(8 * shortest(look), one_by_one);
  EXPECT_EQ(seen, 20);
  m.erase(1);
  m.erase(2);
  EXPECT_LT(8 * shortest(look), one_by_one);
  const auto at_a_lease = [&] {
    m.for_each(lease(m.time(), std::chrono::hours(1)), [&](int, int) { ++seen; });
  };
  EXPECT_LT(8 * shortest(at_a_lease), one_by_one);
  EXPECT_EQ(seen, 20);
}

/// By the account of its current versions, among which those that buckets share are not.
TEST(snapshot_hash, lets_go_of_buckets_that_are_empty) {
  constexpr int keys = 20000;
  snapshot_hash<int, int> m({.buckets = 4096, .load = 2});
  const auto fill = [&] {
    for (int k = 0; k < keys; ++k) m.insert(k, k);
  };
  const auto empty = [&] {
    for (int k = 0; k < keys; ++k) m.erase(k);
    EXPECT_EQ(m.size_approx(), 0U);
  };
  const auto versions = [&] { return m.account().current; };
  fill();
  EXPECT_GT(versions(), 6000U);
  empty();
  EXPECT_LT(versions(), 600U) << "by itself";
  const auto all_found = [&] {
    for (int k = 0; k < keys; ++k) {
      if (m.find(k) != k) return false;
    }
    return true;
  };
  fill();
  EXPECT_TRUE(all_found());
  {
    const snapshot held(m.time());
    empty();
    m.collect();
    EXPECT_EQ(m.size(held), std::size_t{keys});
    EXPECT_GT(versions(), 6000U) << "what a snapshot sees stays";
  }
  m.collect();
  EXPECT_EQ(versions(), 0U);
  EXPECT_EQ(m.size(snapshot(m.time())), 0U);
  fill();
  EXPECT_TRUE(all_found());
}

TEST(snapshot_hash, shares_a_domain) {
  region_domain nodes;
  timeline time;
  {
    snapshot_hash<int, int> one(nodes, time);
    snapshot_hash<int, int> other(nodes, time);
    for (int i = 0; i < 500; ++i) {
      one.insert(i, i);
      other.insert_or_assign(i % 7, i);
    }
  }
  EXPECT_TRUE(nodes.drain());
}

}  // namespace
}  // namespace spolia::test
