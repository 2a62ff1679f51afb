// SPDX-License-Identifier: Apache-2.0
// Threads that vanish in a fork: which are lost, and what becomes of their numbers.

#include <gtest/gtest.h>

#include <spolia/base/threads.hpp>

#include <cstdint>

#include "support/elsewhere.hpp"
#include "support/parked_thread.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

TEST(lost_threads, are_known_by_their_identity) {
  const std::uint64_t mine = threads::identity();
  std::uint64_t others = 0;
  const parked_thread lost([&](parking_spot& spot) {
    others = threads::identity();
    spot.park();
  });
  EXPECT_NE(mine, others);
  EXPECT_FALSE(threads::lost(mine));
  EXPECT_FALSE(threads::lost(others));
  const auto in_child = [&] {
    EXPECT_FALSE(threads::lost(mine));
    EXPECT_TRUE(threads::lost(others));
  };
  EXPECT_EQ(status_of_child([&] {
              in_child();
              EXPECT_EQ(status_of_child(in_child), 0) << "the second fork";
            }),
            0);
}

#if !SPOLIA_TSAN  // which forbids new threads in a forked child
TEST(lost_threads, leave_their_numbers_to_the_next) {
  std::uint64_t identity = 0;
  const parked_thread lost([&](parking_spot& spot) {
    identity = threads::identity();
    spot.park();
  });
  const std::uint32_t most = threads::high_water();
  EXPECT_EQ(status_of_child([&] {
              for (int i = 0; i < 3; ++i) {
                on_another_thread([&] {
                  EXPECT_LT(threads::number(), most);
                  EXPECT_NE(threads::identity(), identity);
                  EXPECT_FALSE(threads::lost(threads::identity()));
                });
              }
              EXPECT_EQ(threads::high_water(), most);
              EXPECT_TRUE(threads::lost(identity)) << "though its number is in use again";
            }),
            0);
}
#endif

}  // namespace
