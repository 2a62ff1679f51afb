// SPDX-License-Identifier: Apache-2.0
// snapshot_hash: many threads. Histories are linearizable, each snapshot is what two maps were at
// one instant, also while the tables grow and long after, and nothing is lost or left over.
#include <spolia/map/snapshot_hash.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <thread>
#include <utility>
#include <vector>

#include "support/ledger.hpp"
#include "support/linearizability.hpp"
#include "support/recorded_operation.hpp"
#include "support/stress.hpp"
#include "version/all_collectors.hpp"

namespace spolia::test {
namespace {

using spolia::test::tracked;

template <class Collector>
class snapshot_hash_stress : public testing::Test {
 protected:
  using numbers = snapshot_hash<std::uint64_t, std::uint64_t, Collector>;

  void SetUp() override {
    if (!usable<Collector>()) GTEST_SKIP() << hardware_clock::reason();
  }
  static typename numbers::options small() {
    return {.buckets = 1, .load = 1, .collector = eager_options<Collector>()};
  }
  typename Collector::timeline_type time;
};
TYPED_TEST_SUITE(snapshot_hash_stress, map_collectors, collector_names);

TYPED_TEST(snapshot_hash_stress, histories_are_linearizable) {
  constexpr unsigned threads = 4;
  constexpr std::uint64_t keys = 200;
  map_recorder record(threads, 20'000);
  typename TestFixture::numbers m(this->time, TestFixture::small());
  run_stress({.threads = threads, .share = 0.2}, [&](stress_thread& self) {
    auto& lane = record.of(self.index());
    std::uint64_t value = self.index();
    while (self.running() && !lane.full()) {
      const std::uint64_t key = self.random().below(keys);
      value += threads;
      if (!self.random().chance(1, 8)) {
        operate(m, lane, self.random(), key, value);
        continue;
      }
      lane.find(key, [&]() -> std::optional<std::uint64_t> {
        if (self.random().chance(1, 2)) {
          std::optional<std::uint64_t> seen;
          m.visit_all(std::array{key},
                      [&](const std::uint64_t* v) { seen = v ? std::optional(*v) : seen; });
          return seen;
        }
        const snapshot now(this->time);
        const std::uint64_t* const found = m.find(now, key);
        return found == nullptr ? std::nullopt : std::optional(*found);
      });
    }
  });
  const snapshot now(this->time);
  EXPECT_EQ(m.size(now), m.size_approx());
  EXPECT_TRUE(accepted(check_map(record.events())));
}

/// One thread changes the keys in their order, again and again: at each instant the earlier ones
/// are as new as those after them, or newer by one. The others are more than there are processors,
/// so some are sent away in the midst of a look.
TYPED_TEST(snapshot_hash_stress, several_keys_are_visited_at_one_instant) {
  typename TestFixture::numbers m(this->time, TestFixture::small());
  constexpr std::uint64_t keys = 16;
  for (std::uint64_t k = 0; k < keys; ++k) m.insert(k, 0);
  const auto look = [&](std::uint64_t& before) {
    std::vector<std::uint64_t> seen;
    m.visit_all(std::views::iota(std::uint64_t{0}, keys),
                [&](const std::uint64_t* value) { seen.push_back(*value); });
    ASSERT_EQ(seen.size(), keys);
    ASSERT_TRUE(std::ranges::is_sorted(seen, std::greater<>())) << seen.front();
    ASSERT_LE(seen.front(), seen.back() + 1);
    ASSERT_GE(seen.back(), before) << "time went backwards";
    before = seen.back();
  };
  run_stress({.threads = 2 + 2 * std::thread::hardware_concurrency(), .share = 0.2},
             [&](stress_thread& self) {
               std::uint64_t round = 0;
               while (self.running() && !this->HasFailure()) {
                 if (self.index() != 0) {
                   look(round);
                   continue;
                 }
                 ++round;
                 for (std::uint64_t k = 0; k < keys; ++k) m.insert_or_assign(k, round);
               }
             });
}

/// One change of one of two maps.
struct change {
  unsigned map;
  std::uint64_t key;
  std::optional<std::uint64_t> value;  // nothing: erased
};
using contents = std::map<std::pair<unsigned, std::uint64_t>, std::uint64_t>;

/// What a writer did, in order, and how far it was; its keys are its own.
struct diary {
  std::vector<change> changes;
  std::atomic<std::size_t> begun{0};
  std::atomic<std::size_t> done{0};
};

/// What a snapshot saw of one writer's keys, which had then done from `least` to `most` changes.
struct sight {
  unsigned writer;
  std::size_t least;
  std::size_t most;
  contents seen;
};

void apply(contents& to, const change& c) {
  if (c.value) {
    to[{c.map, c.key}] = *c.value;
  } else {
    to.erase({c.map, c.key});
  }
}

/// Each sight is what the maps were after some number of changes in its range.
void check_sights(const diary& of, std::vector<const sight*> sights) {
  std::ranges::sort(sights, {}, &sight::least);
  contents now;
  std::vector<const sight*> open;
  auto next = sights.begin();
  for (std::size_t n = 0;; ++n) {
    while (next != sights.end() && (*next)->least <= n) open.push_back(*next++);
    std::erase_if(open, [&](const sight* s) {
      if (s->seen == now) return true;
      EXPECT_LT(n, s->most) << "no instant from " << s->least << " to " << s->most
                            << " was like the snapshot";
      return n >= s->most;
    });
    if (n == of.changes.size()) break;
    apply(now, of.changes[n]);
  }
  EXPECT_TRUE(open.empty() && next == sights.end());
}

template <class One, class Two>
void write(One& one, Two& two, diary& of, stress_thread& self, unsigned writers) {
  constexpr std::size_t most = 3000;
  of.changes.reserve(most);
  while (self.running() && of.changes.size() < most) {
    const std::uint64_t n = of.changes.size();
    const std::uint64_t key = self.random().below(10 + n / 20) * writers + self.index();
    const auto map = static_cast<unsigned>(self.random().below(2));
    const bool erase = self.random().chance(1, 4);
    of.changes.push_back({map, key, erase ? std::nullopt : std::optional(n)});
    of.begun.store(n + 1, std::memory_order_release);
    const auto change = [&](auto& m) { erase ? m.erase(key) : m.insert_or_assign(key, n); };
    map == 0 ? change(one) : change(two);
    of.done.store(n + 1, std::memory_order_release);
  }
}

/// The checker of histories: what is seen is recorded a while after the snapshot was taken, by
/// look-ups and by iteration, and compared with the writers' diaries afterwards.
template <class One, class Two, class Take>
void expect_instants(One& one, Two& two, double share, Take&& take) {
  constexpr unsigned writers = 2;
  constexpr unsigned readers = 2;
  std::array<diary, writers> diaries;
  std::array<std::vector<sight>, readers> sights;
  run_stress({.threads = writers + readers, .share = share}, [&](stress_thread& self) {
    if (self.index() < writers) return write(one, two, diaries[self.index()], self, writers);
    auto& mine = sights[self.index() - writers];
    while (self.running() && mine.size() < 600) {
      std::array<sight, writers> seen;
      for (unsigned w = 0; w < writers; ++w) {
        seen[w].writer = w;
        seen[w].least = diaries[w].done.load(std::memory_order_acquire);
      }
      const snapshot then = take();
      for (unsigned w = 0; w < writers; ++w) {
        seen[w].most = diaries[w].begun.load(std::memory_order_acquire);
      }
      self.jitter();
      for (const auto& [k, v] : one.all(then)) seen[k % writers].seen[{0, k}] = v;
      for (const auto& [k, v] : two.all(then)) seen[k % writers].seen[{1, k}] = v;
      for (const sight& s : seen) {
        for (const auto& [where, v] : s.seen) {
          const auto* const found =
              where.first == 0 ? one.find(then, where.second) : two.find(then, where.second);
          ASSERT_TRUE(found != nullptr && *found == v) << "found and shown differ";
        }
        mine.push_back(s);
      }
    }
  });
  for (unsigned w = 0; w < writers; ++w) {
    std::vector<const sight*> of_writer;
    for (const auto& some : sights) {
      for (const sight& s : some) {
        if (s.writer == w) of_writer.push_back(&s);
      }
    }
    check_sights(diaries[w], of_writer);
  }
}

TYPED_TEST(snapshot_hash_stress, each_snapshot_is_two_maps_at_one_instant) {
  typename TestFixture::numbers one(this->time, TestFixture::small());
  typename TestFixture::numbers two(this->time, TestFixture::small());
  expect_instants(one, two, 0.4, [&] { return snapshot(this->time); });
}

/// The same of two maps whose clocks have nothing to do with each other.
template <class One, class Two>
void expect_instants_of_two_timelines() {
  if (!usable<One>() || !usable<Two>()) GTEST_SKIP() << hardware_clock::reason();
  typename One::timeline_type first;
  typename Two::timeline_type second;
  snapshot_hash<std::uint64_t, std::uint64_t, One> one(first, {.buckets = 1, .load = 1});
  snapshot_hash<std::uint64_t, std::uint64_t, Two> two(second, {.buckets = 1, .load = 1});
  expect_instants(one, two, 0.3, [&] { return snapshot({first, second}, "both"); });
}
using moved_by_snapshots = bbf<>;
using moved_by_updates = dl_rt<domain<debra>, on_update>;
using on_hardware = sl_rt<domain<qsbr>, by_hardware>;

TEST(snapshots_of_two_timelines, are_instants_if_snapshots_move_the_clocks) {
  expect_instants_of_two_timelines<moved_by_snapshots, moved_by_snapshots>();
}
TEST(snapshots_of_two_timelines, are_instants_if_updates_move_one) {
  expect_instants_of_two_timelines<moved_by_updates, moved_by_snapshots>();
}
TEST(snapshots_of_two_timelines, are_instants_beside_a_hardware_clock) {
  expect_instants_of_two_timelines<moved_by_snapshots, on_hardware>();
}
TEST(snapshots_of_two_timelines, are_instants_of_hardware_clocks) {
  expect_instants_of_two_timelines<on_hardware, on_hardware>();
}

/// Snapshots are held through growth, by threads that come and go; pairs end once.
TYPED_TEST(snapshot_hash_stress, pairs_end_once_whatever_happens) {
  ledger book;
  {
    using map = snapshot_hash<tracked, tracked, TypeParam>;
    const typename map::options small{
        .buckets = 1, .load = 1, .collector = eager_options<TypeParam>()};
    map m(this->time, small);
    const snapshot first(this->time);
    std::atomic<std::uint64_t> round{0};
    churn_threads({.threads = 4, .share = 0.2}, [&](stress_thread& self) {
      const std::uint64_t keys = 10 + round.fetch_add(1);
      const snapshot then(this->time);
      for (int n = 0; n < 50; ++n) {
        const std::uint64_t k = self.random().below(keys);
        switch (self.random().below(4)) {
          case 0:
          case 1:
            m.insert_or_assign(tracked(book, k), tracked(book, 100 + k));
            break;
          case 2:
            m.erase(tracked(book, k));
            break;
          default:
            if (const tracked* const v = m.find(then, tracked(book, k))) {
              ASSERT_EQ(v->read(), 100 + k);
            }
        }
      }
      for (const auto& [k, v] : m.all(then)) ASSERT_EQ(v.read(), 100 + k.read());
    });
    EXPECT_EQ(m.size(first), 0U);
    const snapshot last(this->time);
    EXPECT_EQ(m.size(last), m.size_approx());
  }
  book.expect_empty();
}

/// The bound of the header: with snapshots that come and go and one that is held.
TYPED_TEST(snapshot_hash_stress, versions_stay_within_the_bound) {
  if (!TypeParam::info.collects_between || !TypeParam::info.reaches_idle_lists) {
    GTEST_SKIP() << "the collector promises none";
  }
  constexpr unsigned threads = 3;
  constexpr std::uint64_t keys = 128;
  typename TestFixture::numbers m(
      this->time, {.buckets = 64, .load = 100, .collector = eager_options<TypeParam>()});
  for (std::uint64_t k = 0; k < keys; ++k) m.insert(k, 0);
  const snapshot held(this->time);
  std::atomic<std::uint64_t> most{0};
  run_stress({.threads = threads, .share = 0.2}, [&](stress_thread& self) {
    while (self.running()) {
      const snapshot passing(this->time);
      for (int n = 0; n < 8; ++n) m.insert_or_assign(self.random().below(keys), self.random()());
      const std::uint64_t now = m.stats().held();
      std::uint64_t before = most.load();
      while (before < now && !most.compare_exchange_weak(before, now)) {
      }
    }
  });
  // Snapshots: the one held, and each thread's; each needs one version of each bucket at most
  // besides the current ones. B is 8.
  EXPECT_LE(most.load(), may_hold<TypeParam>(64, 3U * 64 * (1 + threads) + 6 * (threads + 1) * 8));
  m.collect();
  EXPECT_LE(m.stats().held(), may_hold<TypeParam>(64, 64));
}

}  // namespace
}  // namespace spolia::test
