// SPDX-License-Identifier: Apache-2.0
// What is said of the oldest block that leaves the bags of an epoch scheme, beside the blocks.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/robust_token.hpp>

namespace {

using namespace spolia;
using namespace spolia::detail::reclaim;

struct birth {
  std::uint64_t round = 0;
};
using block = stamped<birth>;

/// One thread's blocks, and what it knows of their age.
struct thread_part {
  epoch_bags bags;
  oldest_births births;
  std::uint64_t tag = 0;  // the last one
};

class oldest_births_test : public testing::Test {
 protected:
  void retire(thread_part& me, std::uint64_t born, std::uint64_t tag) {
    me.tag = tag;
    made_.push_back(std::make_unique<block>());
    made_.back()->stamp.round = born;
    me.bags.put(made_.back().get(), tag);
    me.births.put(born, tag);
  }

  void adopt(thread_part& me, thread_part& other, std::uint64_t tag) {
    me.bags.adopt(other.bags, tag);
    me.births.adopt(tag);
    me.tag = tag;
  }

  void catch_up(thread_part& me, std::uint64_t now) {
    me.bags.catch_up(now, 3, [&](limbo& safe) {
      const std::uint64_t said = me.births.take(now, 3);
      std::uint64_t oldest = oldest_births::none;
      while (retired* const r = safe.pop()) {
        oldest = std::min(oldest, static_cast<block*>(r)->stamp.round);
        ++seen_;
      }
      EXPECT_LE(said, oldest);
      exact_ += said == oldest ? 1 : 0;
    });
  }

  std::vector<std::unique_ptr<block>> made_;
  std::size_t seen_ = 0;
  std::size_t exact_ = 0;
};

TEST_F(oldest_births_test, is_that_of_the_bags_that_come_out) {
  thread_part me;
  retire(me, 7, 10);
  retire(me, 9, 11);
  retire(me, 5, 12);
  catch_up(me, 13);
  EXPECT_EQ(exact_, 1U);
  catch_up(me, 14);
  EXPECT_EQ(exact_, 2U);
  catch_up(me, 15);
  EXPECT_EQ(exact_, 3U);
  EXPECT_EQ(seen_, 3U);
}

TEST_F(oldest_births_test, knows_what_is_overdue) {
  thread_part me;
  retire(me, 2, 10);
  retire(me, 12, 13);  // in the same bag: the first comes out at once, whatever round it is
  catch_up(me, 14);
  EXPECT_EQ(exact_, 1U);
  EXPECT_EQ(seen_, 1U);
}

TEST_F(oldest_births_test, takes_what_was_adopted_for_old) {
  thread_part me;
  thread_part gone;
  retire(gone, 2, 10);
  retire(gone, 12, 13);
  adopt(me, gone, 13);
  catch_up(me, 14);  // what was overdue
  catch_up(me, 16);
  EXPECT_EQ(seen_, 2U);
}

TEST_F(oldest_births_test, never_says_that_blocks_are_younger_than_they_are) {
  std::mt19937 random(1);
  thread_part parts[2];
  std::uint64_t round = 3;
  for (int i = 0; i < 20000; ++i) {
    thread_part& me = parts[random() % 2];
    const unsigned dice = random() % 16;
    if (dice < 10) {
      retire(me, round - std::min<std::uint64_t>(round, random() % 8),
             std::max(me.tag, round - random() % 2));
    } else if (dice < 13) {
      catch_up(me, round);
    } else if (dice < 15) {
      ++round;
    } else if (i % 64 == 0) {
      adopt(me, parts[&me == &parts[0] ? 1 : 0], round);
    }
  }
  EXPECT_GT(seen_, 10000U);
  EXPECT_GT(exact_, 1000U);
}

}  // namespace
