// SPDX-License-Identifier: Apache-2.0
// One thread holds thousands of snapshots: to begin another one takes as long as ever, and what
// they stand in is used again.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include <spolia/db.hpp>

#include "support/cost.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia::db;
using spolia::test::cost_of;

constexpr std::uint32_t many = spolia::test::sanitized ? 4000 : 40000;

/// Beside as many as there are in the end, and in a database that has no others, in turn: of each
/// the least counts, which a machine that is slow for a while changes in neither.
TEST(many_snapshots, begin_in_constant_time) {
  database base = database::open();
  database other = database::open();
  std::vector<reader> held;
  std::vector<reader> first_ones;
  const auto begin = [](database& in, std::vector<reader>& all) {
    for (std::uint32_t i = 0; i < many / 4; ++i) all.push_back(in.snapshot());
  };
  for (int n = 0; n < 3; ++n) begin(base, held);
  double first = 1e9;
  double last = 1e9;
  double changes = 1e9;
  for (int round = 0; round < 5; ++round) {
    first_ones.clear();
    while (held.size() > many / 4 * 3) held.pop_back();
    first = std::min(first, cost_of([&] { begin(other, first_ones); }));
    last = std::min(last, cost_of([&] { begin(base, held); }));
    EXPECT_EQ(base.readers().size(), held.size());
    // One goes and another one comes, wherever it stands.
    changes = std::min(changes, cost_of([&] {
                         for (std::uint32_t i = 0; i < many / 4; ++i) {
                           held[i * 7919U % held.size()] = base.snapshot();
                         }
                       }));
  }
  EXPECT_LE(last, 4 * first + 0.02);
  EXPECT_LE(changes, 4 * first + 0.02);
}

TEST(many_snapshots, use_what_is_free) {
  commit_board board;
  constexpr std::uint32_t at_once = 500;
  std::vector<commit_board::record*> taken;
  const auto take = [&] {
    for (std::uint32_t i = 0; i < at_once; ++i) taken.push_back(&board.take());
  };
  const auto give_back = [&](bool last_first) {
    for (std::uint32_t i = 0; i < at_once; ++i) {
      board.give_back(*taken[last_first ? at_once - 1 - i : i]);
    }
    taken.clear();
  };
  for (int round = 0; round < 20; ++round) {
    take();
    give_back(round % 2 == 0);
  }
  for (int round = 0; round < 20; ++round) {
    take();
    std::thread([&] { give_back(round % 2 == 0); }).join();
  }
  for (int round = 0; round < 20; ++round) {
    std::thread(take).join();
    give_back(round % 2 == 0);
  }
  EXPECT_LE(board.high_water(), 2 * at_once + 8);
}

}  // namespace
