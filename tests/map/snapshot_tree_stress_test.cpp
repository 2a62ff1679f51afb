// SPDX-License-Identifier: Apache-2.0
// snapshot_tree: many threads; and snapshots, each of which must be the map at some instant.
#include <spolia/map/snapshot_tree.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <ranges>

#include "map/snapshot_trees.hpp"
#include "map/stress_suite.hpp"

namespace spolia::test {
namespace {

using spolia::test::tracked;

using number = std::uint64_t;

INSTANTIATE_TYPED_TEST_SUITE_P(snapshot_tree, map_stress, main_tree_subjects, tree_names);

/// What a writer does in its step n, n = 1, 2, ...: a key of its own, and whether to erase it; else
/// the key gets the value n.
struct step {
  number key;
  bool erases;
};
constexpr number writers = 3;
step step_of(number writer, number n) {
  const number mixed = (n * 0x9E3779B97F4A7C15ULL) >> 40U;
  return {mixed % 40 * writers + writer, mixed % 7 < 3};
}

/// Replays a writer.
class replay {
 public:
  explicit replay(number writer) : writer_(writer) {}
  void next() {
    ++done_;
    const step s = step_of(writer_, done_);
    if (s.erases) {
      state_.erase(s.key);
    } else {
      state_[s.key] = done_;
    }
  }
  [[nodiscard]] number done() const { return done_; }
  [[nodiscard]] const std::map<number, number>& state() const { return state_; }

 private:
  number writer_;
  number done_ = 0;
  std::map<number, number> state_;
};

template <class Subject>
class snapshots_under_stress : public testing::Test {};
TYPED_TEST_SUITE(snapshots_under_stress, tree_subjects, tree_names);

/// Each writer writes its steps into two trees, first into the one, then into the other. A snapshot
/// must show, of each writer, the state after some step that was done before the snapshot was taken
/// or begun before it was there; in the other tree, the same step or the one before.
TYPED_TEST(snapshots_under_stress, are_instants_of_the_history) {
  using collector = typename TypeParam::template of<int, int>::collector_type;
  timeline time;
  typename collector::domain_type home;
  const typename snapshot_tree<number, number, collector>::options how{
      .collector = eager_options<collector>()};
  snapshot_tree<number, number, collector> first(home, time, how);
  snapshot_tree<number, number, collector> second(home, time, how);
  std::array<std::atomic<number>, writers> begun{};
  std::array<std::atomic<number>, writers> done{};

  const auto write = [&](number w, stress_thread& self) {
    const auto put = [](auto& tree, const step& s, number n) {
      if (s.erases) {
        tree.erase(s.key);
      } else {
        tree.insert_or_assign(s.key, n);
      }
    };
    for (number n = 1; self.running(); ++n) {
      const step s = step_of(w, n);
      begun[w].store(n, std::memory_order_release);
      put(first, s, n);
      put(second, s, n);
      done[w].store(n, std::memory_order_release);
    }
  };

  run_stress({.threads = writers + 1, .share = 0.5}, [&](stress_thread& self) {
    if (self.index() < writers) return write(self.index(), self);
    std::array<replay, writers> one{replay(0), replay(1), replay(2)};
    auto two = one;
    while (self.running()) {
      std::array<number, writers> before{};
      for (number w = 0; w < writers; ++w) before[w] = done[w].load(std::memory_order_acquire);
      const snapshot now(time);
      std::array<number, writers> after{};
      for (number w = 0; w < writers; ++w) after[w] = begun[w].load(std::memory_order_acquire);
      self.jitter();
      std::array<std::map<number, number>, writers> seen;
      for (const auto& [key, value] : first.all(now)) seen[key % writers].emplace(key, value);
      std::array<std::map<number, number>, writers> seen_second;
      for (const auto& [key, value] : second.all(now) | std::views::reverse) {
        seen_second[key % writers].emplace(key, value);
      }
      for (number w = 0; w < writers; ++w) {
        while (one[w].done() < before[w]) one[w].next();
        while (one[w].state() != seen[w] && one[w].done() < after[w]) one[w].next();
        ASSERT_EQ(one[w].state(), seen[w]) << "no instant of the first tree";
        while (two[w].done() + 1 < one[w].done()) two[w].next();
        if (two[w].state() != seen_second[w]) two[w].next();
        // Different steps may leave the same state.
        while (two[w].state() != seen_second[w] && two[w].done() < after[w]) two[w].next();
        ASSERT_EQ(two[w].state(), seen_second[w]) << "another instant of the second tree";
      }
    }
  });
  expect_sound(first);
  expect_sound(second);
}

/// Readers stand on a snapshot for long, and go through it step by step, while the tree changes
/// all over; what they see stays.
TYPED_TEST(snapshots_under_stress, are_walked_while_everything_changes) {
  constexpr number keys = 300;
  ledger book;
  {
    typename TypeParam::template of<number, tracked> m;
    run_stress({.threads = 4, .share = 0.3}, [&](stress_thread& self) {
      while (self.running()) {
        if (self.index() < 2) {
          for (int i = 0; i < 20; ++i) {
            const number key = self.random().below(keys);
            if (self.random().chance(1, 2)) {
              m.insert_or_assign(key, tracked(book, key));
            } else {
              m.erase(key);
            }
          }
          continue;
        }
        const auto some = m.range(snapshot(m.time()), 50, 250);
        number sum = 0;
        std::size_t count = 0;
        for (const auto& [key, value] : some) {
          ASSERT_EQ(value.read(), key);
          sum += key;
          ++count;
          if (self.random().chance(1, 64)) self.jitter();
        }
        for (const auto& [key, value] : some | std::views::reverse) {
          sum -= value.read();
          --count;
        }
        ASSERT_EQ(sum, 0U);
        ASSERT_EQ(count, 0U);
      }
    });
    expect_sound(m);
  }
  book.expect_empty();
}

TEST(snapshot_tree_threads, come_and_go) {
  timeline time;
  snapshot_tree<number, number> m(time, {.collector = {.batch = 8, .steps = 6}});
  std::atomic<std::int64_t> sum{0};
  churn_threads({.threads = 6, .share = 1}, [&](stress_thread& self) {
    const snapshot held(time);
    std::int64_t mine = 0;
    for (int i = 0; i < 100; ++i) {
      const number key = self.random().below(200);
      if (self.random().chance(1, 2)) {
        mine += m.insert(key, key) ? 1 : 0;
      } else {
        mine -= m.erase(key) ? 1 : 0;
      }
    }
    sum.fetch_add(mine, std::memory_order_relaxed);
  });
  expect_sound(m);
  EXPECT_EQ(m.size_approx(), static_cast<std::size_t>(sum.load()));
  snapshot(time).withdraw();
  m.collect();
  m.collect();
  EXPECT_EQ(m.stats().held(), 0U);
  EXPECT_TRUE(m.domain().drain());
}

}  // namespace
}  // namespace spolia::test
