// SPDX-License-Identifier: Apache-2.0
// One thread holds thousands of snapshots: to begin another one takes as long as ever, and what
// they stand in is used again.

#include <gtest/gtest.h>

#include <cstdint>
#include <ctime>
#include <thread>
#include <vector>

#include <spolia/db.hpp>

#include "support/sanitized.hpp"

namespace {

using namespace spolia::db;

constexpr std::uint32_t many = spolia::test::sanitized ? 4000 : 40000;

double cpu_of(auto&& f) {
  const std::clock_t before = std::clock();
  f();
  return static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
}

TEST(many_snapshots, begin_in_constant_time) {
  database base = database::open();
  std::vector<reader> held;
  const auto begin = [&] {
    for (std::uint32_t i = 0; i < many / 4; ++i) held.push_back(base.snapshot());
  };
  const double first = cpu_of(begin);
  begin();
  begin();
  EXPECT_LE(cpu_of(begin), 4 * first + 0.02);
  EXPECT_EQ(base.readers().size(), held.size());
  // One goes and another one comes, wherever it stands.
  const double changes = cpu_of([&] {
    for (std::uint32_t i = 0; i < many / 4; ++i) {
      held[i * 7919U % held.size()] = base.snapshot();
    }
  });
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
