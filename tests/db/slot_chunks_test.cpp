// SPDX-License-Identifier: Apache-2.0
// Which slots of a table are free: against sets, in random orders, and where there is no memory.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <random>
#include <set>

#include "db/catalog/slot_chunks.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;

TEST(number_set, finds_the_lowest) {
  std::mt19937_64 random(1);
  number_set found;
  std::set<std::uint32_t> wanted;
  std::uint32_t end = 1;
  found.make_room(end);
  for (int n = 0; n < 20'000; ++n) {
    if (random() % 16 == 0 && end < 20'000)
      found.make_room(end += static_cast<std::uint32_t>(random() % 64));
    const auto one = static_cast<std::uint32_t>(random() % end);
    if (random() % 3 == 0) {
      found.add(one);
      wanted.insert(one);
    } else {
      const std::uint32_t gone = random() % 2 == 0 || wanted.empty() ? one : *wanted.begin();
      found.remove(gone);
      wanted.erase(gone);
    }
    ASSERT_EQ(found.lowest(), wanted.empty() ? number_set::none : *wanted.begin());
    ASSERT_EQ(found.has(one), wanted.contains(one));
  }
}

constexpr std::uint32_t in_a_chunk = 128;
constexpr std::uint64_t at_once = 48;  // slots that get memory

class some_slots : public testing::Test {
 protected:
  std::uint64_t take() {
    const std::uint64_t slot = slots.take(
        [this](std::uint64_t from, std::uint64_t until) {
          if (!memory) throw std::bad_alloc();
          EXPECT_EQ(from, ready);
          return ready = std::min(until, from + at_once);
        },
        [this](std::uint32_t chunk) {
          if (!memory) throw std::bad_alloc();
          EXPECT_EQ(without.erase(chunk), 1U);
        });
    EXPECT_TRUE(taken.insert(slot).second) << "a slot is taken twice";
    EXPECT_LT(slot, ready);
    EXPECT_FALSE(without.contains(slots.number_of(slot)));
    return slot;
  }
  void give(std::uint64_t slot) {
    taken.erase(slot);
    const std::uint32_t empty = slots.give(slot, slot_chunks::what::no_row);
    if (empty == slot_chunks::none) return;
    EXPECT_FALSE(taken_in(empty)) << "a chunk with a slot that is taken";
    EXPECT_TRUE(without.insert(empty).second);
    slots.gave_back(empty);
  }
  [[nodiscard]] bool taken_in(std::uint32_t chunk) const {
    const auto first = taken.lower_bound(slots.first_of(chunk));
    return first != taken.end() && *first < slots.first_of(chunk + 1);
  }
  /// Chunks that are empty and have memory; the last one, which grows, does not count.
  [[nodiscard]] int empty_chunks() const {
    int count = 0;
    for (std::uint32_t n = 0; slots.first_of(n + 1) <= ready; ++n) {
      if (!without.contains(n) && !taken_in(n)) ++count;
    }
    return count;
  }

  atomic<std::uint64_t> end{0};
  slot_chunks slots{in_a_chunk, end};
  std::uint64_t ready = 0;
  bool memory = true;
  std::set<std::uint64_t> taken;
  std::set<std::uint32_t> without;
};

TEST_F(some_slots, are_taken_and_given_at_random) {
  std::mt19937_64 random(2);
  std::uint64_t most = 100;
  for (int n = 0; n < 20'000; ++n) {
    if (n % 1000 == 0) most = random() % 3000;
    if (taken.size() < most) {
      take();
    } else if (!taken.empty()) {
      auto one = taken.lower_bound(random() % ready);
      give(one == taken.end() ? *taken.begin() : *one);
    }
    if (n % 64 == 0) {
      ASSERT_LE(empty_chunks(), 1);
      ASSERT_EQ(slots.taken(), taken.size());
      // A scan meets each slot that is taken, and no chunk without one.
      for (std::uint64_t s = slots.next_shown(0, slots.end(), 1); s < slots.end();
           s = slots.step(s, slots.end(), 1)) {
        ASSERT_TRUE(taken_in(slots.number_of(s)));
      }
      std::uint64_t met = 0;
      for (std::uint64_t s = slots.next_shown(0, slots.end(), 1); s < slots.end();
           s = slots.step(s, slots.end(), 1)) {
        met += taken.contains(s) ? 1 : 0;
      }
      ASSERT_EQ(met, taken.size());
    }
  }
  while (!taken.empty()) give(*taken.begin());
  EXPECT_LE(empty_chunks(), 1);
  EXPECT_EQ(slots.taken(), 0U);
}

TEST_F(some_slots, come_from_the_lowest_chunk_that_has_memory) {
  for (std::uint64_t n = 0; n < 10 * in_a_chunk; ++n) EXPECT_EQ(take(), n);
  for (const std::uint64_t slot : {700U, 300U, 310U, 900U}) give(slot);
  EXPECT_EQ(slots.number_of(take()), 2U);
  EXPECT_EQ(slots.number_of(take()), 2U);
  EXPECT_EQ(take(), 700U);
  EXPECT_EQ(take(), 900U);
  for (std::uint64_t n = in_a_chunk; n < 4 * in_a_chunk; ++n) give(n);
  EXPECT_EQ(without, (std::set<std::uint32_t>{2, 3})) << "the lowest one is kept";
  give(900);
  for (std::uint64_t n = 0; n < in_a_chunk; ++n) EXPECT_EQ(slots.number_of(take()), 1U);
  EXPECT_EQ(take(), 900U) << "rather than a chunk that was given back";
  EXPECT_EQ(slots.number_of(take()), 2U);
}

TEST_F(some_slots, stay_as_they_were_without_memory) {
  for (std::uint64_t n = 0; n < 4 * in_a_chunk; ++n) take();
  for (std::uint64_t n = in_a_chunk; n < 4 * in_a_chunk; ++n) give(n);
  for (std::uint64_t n = 0; n < in_a_chunk; ++n) take();
  memory = false;
  for (int n = 0; n < 3; ++n) {
    EXPECT_THROW(take(), std::bad_alloc);
    EXPECT_EQ(slots.taken(), 2 * in_a_chunk);
  }
  give(5);
  EXPECT_EQ(take(), 5U);
  EXPECT_THROW(take(), std::bad_alloc);
  memory = true;
  for (std::uint64_t n = 0; n < 3 * in_a_chunk; ++n) take();
  EXPECT_EQ(slots.taken(), 5 * in_a_chunk);
}

/// As an opening does that fills a table.
TEST_F(some_slots, are_taken_in_runs) {
  const auto run = [&](std::uint64_t count) {
    const std::uint64_t wanted = count;
    const std::uint64_t first =
        slots.take_run(count, 8, [&](std::uint64_t from, std::uint64_t until) {
          EXPECT_EQ(from, ready);
          return ready = std::min(until, from / 1000 * 1000 + 1000);
        });
    EXPECT_LE(count, wanted);
    EXPECT_EQ(first % 8, 0U);
    for (std::uint64_t s = first; s < first + count; ++s) EXPECT_TRUE(taken.insert(s).second);
    return count;
  };
  EXPECT_EQ(run(64), 64U);
  EXPECT_EQ(run(400), 400U);
  EXPECT_EQ(run(800), 536U) << "to the end of a segment";
  EXPECT_EQ(slots.taken(), 1000U);
  EXPECT_EQ(slots.end(), 1000U);
  EXPECT_EQ(slots.take_if_open(77), 77U);
  give(500);
  EXPECT_EQ(slots.take_if_open(77), 500U);
  taken.insert(500);
  for (int n = 0; n < 20; ++n) take();
  EXPECT_EQ(run(80), 80U);
  while (!taken.empty()) give(*taken.begin());
  EXPECT_EQ(slots.taken(), 0U);
  for (int n = 0; n < 2000; ++n) take();
}

TEST(ended_rows, are_shown_to_snapshots_from_before_their_end) {
  atomic<std::uint64_t> end{0};
  slot_chunks slots(in_a_chunk, end);
  const auto take = [&] {
    return slots.take([](std::uint64_t, std::uint64_t until) { return until; },
                      [](std::uint32_t) {});
  };
  const auto shown = [&](std::uint64_t time) {
    return slots.next_shown(0, slots.end(), time) < slots.end();
  };
  EXPECT_FALSE(shown(10));
  const std::uint64_t one = take();
  const std::uint64_t other = take();
  EXPECT_TRUE(shown(10));
  slots.row_ended(one, 20);
  EXPECT_TRUE(shown(30)) << "the other one lives";
  slots.row_ended(other, 15);
  EXPECT_TRUE(shown(19));
  EXPECT_FALSE(shown(20));
  slots.revive(one);
  EXPECT_TRUE(shown(30));
  slots.revive_no_more(one);
  EXPECT_FALSE(shown(30));
  slots.give(one, slot_chunks::what::ended_row);
  EXPECT_TRUE(shown(19));
  slots.give(other, slot_chunks::what::ended_row);
  EXPECT_FALSE(shown(1));
}

}  // namespace
