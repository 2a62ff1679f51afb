// SPDX-License-Identifier: Apache-2.0
// Which snapshots have ended between others, as scans have found it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <spolia/version/tracked.hpp>

#include "support/stress.hpp"

namespace spolia::test {
namespace {

constexpr std::uint64_t none = ~std::uint64_t{0};

TEST(ended_times, are_none_at_first_and_of_what_was_asked_later) {
  ended_times e;
  EXPECT_EQ(e.oldest_since(0), none);
  e.note(100, 50);
  EXPECT_EQ(e.oldest_since(0), 50U);
  EXPECT_EQ(e.oldest_since(100), 50U) << "a scan with this `known` may have been before it";
  EXPECT_EQ(e.oldest_since(101), none);
  e.note(110, 90);
  EXPECT_EQ(e.oldest_since(100), 50U);
  EXPECT_EQ(e.oldest_since(101), 90U);
  e.note(120, 10);
  EXPECT_EQ(e.oldest_since(115), 10U);
  EXPECT_EQ(e.oldest_since(121), none);
}

/// Whatever has ended: never too young, for that would leave something forever.
TEST(ended_times, are_never_younger_than_what_has_ended) {
  rng random(seed_for(1));
  for (int round = 0; round < 200; ++round) {
    ended_times e;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
    std::uint64_t known = 1;
    for (int i = 0; i < 300; ++i) {
      known += random.below(100);
      const std::uint64_t time = random.chance(1, 5) ? random.below(known) : known - 1;
      e.note(known, time);
      all.emplace_back(known, time);
      const std::uint64_t since = random.below(known + 2);
      std::uint64_t oldest = none;
      for (const auto& [k, t] : all) oldest = k >= since ? std::min(oldest, t) : oldest;
      ASSERT_LE(e.oldest_since(since), oldest) << i;
    }
  }
}

/// Where transactions end one after the other, who has last asked n commits ago looks back over
/// little more than twice as many.
TEST(ended_times, look_back_in_proportion) {
  constexpr std::uint64_t now = 1'000'000;
  ended_times e;
  for (std::uint64_t known = 64; known <= now; known += 64) e.note(known, known - 10);
  for (const std::uint64_t ago : {100U, 1000U, 10'000U, 100'000U, 400'000U}) {
    EXPECT_LE(now - e.oldest_since(now - ago), 2 * ago + 64) << ago;
  }
}

}  // namespace
}  // namespace spolia::test
