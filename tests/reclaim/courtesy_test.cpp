// SPDX-License-Identifier: Apache-2.0
// When an epoch is held up, threads give their processor away between two operations.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include <spolia/reclaim.hpp>

#include "support/parked_thread.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using std::chrono::steady_clock;

template <class Domain>
class courtesy : public testing::Test {
 public:
  struct block : Domain::header {};

  static void churn(Domain& d, std::chrono::milliseconds time) {
    const auto end = steady_clock::now() + time;
    do {
      for (int i = 0; i < 5000; ++i) {
        auto guard = d.enter();
        guard.retire(d.template make<block>());
      }
    } while (steady_clock::now() < end);
  }

  /// The turns that a thread gives while another one sits inside a guard.
  static std::uint64_t turns_beside_a_reader(Domain& d, std::chrono::milliseconds time) {
    parked_thread reader([&](parking_spot& self) {
      auto guard = d.enter();
      self.park();
    });
    churn(d, time);
    reader.release();
    return d.stats().turns;
  }
};
using courteous = testing::Types<domain<token>, domain<>>;
TYPED_TEST_SUITE(courtesy, courteous);

TYPED_TEST(courtesy, is_shown_when_an_epoch_is_held_up) {
  typename TypeParam::options o;
  o.turn_us = 100;
  TypeParam d(o);
  const auto begin = steady_clock::now();
  std::uint64_t turns = 0;
  // A turn lasts until we run again: on a busy machine we may be away for most of the time.
  for (int readers = 0; readers < 50 && turns < 2; ++readers) {
    turns = this->turns_beside_a_reader(d, std::chrono::milliseconds(300));
  }
  EXPECT_GE(turns, 2U);
  const auto turn = std::chrono::microseconds(100);
  EXPECT_LE(turns, 1 + static_cast<std::uint64_t>((steady_clock::now() - begin) / turn));
}

TYPED_TEST(courtesy, is_not_shown_while_epochs_end) {
  TypeParam d;
  this->churn(d, std::chrono::milliseconds(100));
  EXPECT_EQ(d.stats().turns, 0U);
}

TYPED_TEST(courtesy, can_be_switched_off) {
  typename TypeParam::options o;
  o.turn_us = 0;
  TypeParam d(o);
  EXPECT_EQ(this->turns_beside_a_reader(d, std::chrono::milliseconds(100)), 0U);
}

TEST(courtesy_of_token, ends_although_a_reader_stalls_for_good) {
  domain<token> d;
  using suite = courtesy<domain<token>>;
  const auto turns_in = [&](int ms) {
    const std::uint64_t before = d.stats().turns;
    suite::churn(d, std::chrono::milliseconds(ms));
    return d.stats().turns - before;
  };
  std::optional<parked_thread> reader;
  std::uint64_t turns = 0;
  for (int readers = 0; readers < 20 && turns == 0; ++readers) {  // as above
    reader.emplace([&](parking_spot& self) {
      auto guard = d.enter();
      self.park();
    });
    turns = turns_in(1100);
  }
  EXPECT_GT(turns, 0U);
  // The second begins when we have seen that the epoch is held up, which may be late on such a
  // machine; but there is one only.
  if (turns_in(200) != 0) turns_in(1000);
  EXPECT_EQ(turns_in(200), 0U);
}

/// Two thousand blocks wait and the epoch stands: turns of a hundred microseconds.
class courtesy_by_itself : public testing::Test {
 public:
  using turns = detail::reclaim::courtesy;
  void ask() {
    ++epoch;
    for (int look = 0; look < 2; ++look) shared.watch(mine, epoch, 10'000);
  }
  void meet(int n, std::int64_t away_ns, std::uint32_t threads = 1) {
    for (int i = 0; i < n; ++i)
      shared.was_away(detail::reclaim::pin_watch::now_ns(), away_ns, threads);
  }

  turns shared{100};
  turns::turn mine;
  std::uint64_t epoch = 7;
};

TEST_F(courtesy_by_itself, goes_on_among_threads_that_give_back) {
  ask();
  EXPECT_TRUE(shared.is_due(mine));
  meet(100, 90'000);
  meet(5, 4'000'000);  // now and then another thread has to run
  meet(100, 90'000);
  EXPECT_TRUE(shared.is_due(mine));
}

TEST_F(courtesy_by_itself, goes_on_when_many_were_late_once_or_somewhat) {
  ask();
  for (int i = 0; i < 100; ++i) meet(1, 700'000, 16);
  EXPECT_TRUE(shared.is_due(mine)) << "some have run more than others at first";
  meet(16, 10'000'000, 16);
  EXPECT_TRUE(shared.is_due(mine)) << "one interruption makes all late";
  meet(48, 10'000'000, 16);
  EXPECT_FALSE(shared.is_due(mine));
}

TEST_F(courtesy_by_itself, ends_among_strangers) {
  ask();
  EXPECT_TRUE(shared.is_due(mine));
  meet(8, 4'000'000);
  EXPECT_FALSE(shared.is_due(mine));
  ask();
  EXPECT_FALSE(shared.is_due(mine)) << "nor does the next epoch that is held up call for it";
}

TEST_F(courtesy_by_itself, gives_way_to_strangers_as_long_as_it_was_told) {
  turns patient{100, 10'000};
  const auto are_patient = [&](std::int64_t away_ns) {
    for (int look = 0; look < 2; ++look) patient.watch(mine, epoch, 10'000);
    for (int i = 0; i < 100; ++i)
      patient.was_away(detail::reclaim::pin_watch::now_ns(), away_ns, 1);
    return patient.is_due(mine);
  };
  EXPECT_TRUE(are_patient(9'000'000));
  EXPECT_FALSE(are_patient(12'000'000));
}

TEST_F(courtesy_by_itself, ends_a_turn_at_once_for_each_epoch_that_is_held_up) {
  EXPECT_FALSE(shared.is_due_early(mine, 1)) << "no thread is courteous yet";
  ask();
  EXPECT_TRUE(shared.is_due_early(mine, 3));
  EXPECT_FALSE(shared.is_due_early(mine, 3)) << "who sleeps gains nothing by more";
  EXPECT_FALSE(shared.is_due_early(mine, 2));
  EXPECT_TRUE(shared.is_due_early(mine, 4));
  turns::turn another;
  EXPECT_TRUE(shared.is_due_early(another, 3)) << "each thread for itself";
  EXPECT_FALSE(shared.is_due_early(another, 0)) << "none is";
}

/// The rounds of a token between two threads that take turns of 64 operations. One of them retires
/// a block in so many of these.
std::uint64_t rounds_in(domain<token>& d, int turns, int retires) {
  struct block : domain<token>::header {};
  const std::uint64_t before = d.stats().epochs;
  std::atomic<int> turn{0};
  const auto take_turns = [&](int first) {
    for (int t = first; t < turns; t += 2) {
      for (int now = turn.load(); now != t; now = turn.load()) turn.wait(now);
      for (int i = 0; i < 64; ++i) {
        auto guard = d.enter();
        if (i < retires && first == 0) guard.retire(d.make<block>());
      }
      turn.store(t + 1);
      turn.notify_all();
    }
  };
  std::thread other(take_turns, 1);
  take_turns(0);
  other.join();
  return d.stats().epochs - before;
}

TEST(courtesy_of_token, goes_round_seldom_while_no_thread_waits_for_it) {
  domain<token> d;
  const std::uint64_t busy = rounds_in(d, 1000, 64);
  const std::uint64_t calm = rounds_in(d, 1000, 0);
  const std::uint64_t busy_again = rounds_in(d, 1000, 64);
  EXPECT_GE(busy, 200U);
  EXPECT_LT(calm * 4, busy);
  EXPECT_GT(busy_again * 2, busy);
  EXPECT_LE(d.garbage(), 64 * 16U);
}
TEST(courtesy_of_token, goes_round_less_often_where_few_blocks_wait) {
  domain<token> d;
  const std::uint64_t busy = rounds_in(d, 1000, 64);
  const std::uint64_t slow = rounds_in(d, 1000, 1);
  EXPECT_LT(slow * 2, busy);
  EXPECT_GT(slow * 8, busy);
  EXPECT_LE(d.garbage(), 32U);
}
TEST(courtesy_of_token, keeps_its_pace_for_a_budget) {
  domain<token>::options o;
  o.budget_bytes = 1;
  o.over_budget = [](const over_budget&) {};
  domain<token> d(o);
  const std::uint64_t busy = rounds_in(d, 1000, 64);
  const std::uint64_t few = rounds_in(d, 1000, 1);
  EXPECT_GT(few * 2, busy);
}

/// How often the paper's ring has passed its token on as each block of one batch is freed. The
/// thread is alone in it, so the token is back at once.
template <class Ring>
std::vector<std::uint64_t> passes_by_each_free(std::size_t blocks) {
  using home = domain<Ring, batch>;
  std::vector<std::uint64_t> passes;
  home d;
  std::uint64_t before = 0;
  struct block : home::header {
    explicit block(const std::function<void()>& f) : at_end(f) {}
    ~block() { at_end(); }
    const std::function<void()>& at_end;
  };
  const std::function<void()> count = [&] { passes.push_back(d.stats().epochs - before); };
  {
    auto guard = d.enter();
    for (std::size_t i = 0; i < blocks; ++i) guard.retire(d.template make<block>(count));
  }
  for (int i = 0; i < 3; ++i) {
    before = d.stats().epochs;
    auto guard = d.enter();
  }
  return passes;
}

TEST(token_rings, differ_in_when_the_token_goes_on) {
  constexpr std::size_t blocks = 350;
  using all = std::vector<std::uint64_t>;
  all looks;
  for (std::size_t i = 0; i < blocks; ++i) looks.push_back(1 + i / 100);
  EXPECT_EQ(passes_by_each_free<token_naive>(blocks), all(blocks, 0)) << "after the batch";
  EXPECT_EQ(passes_by_each_free<token_pass_first>(blocks), all(blocks, 1)) << "before it";
  EXPECT_EQ(passes_by_each_free<token_periodic>(blocks), looks) << "and each hundred frees";
}

template <class Domain>
class resting : public testing::Test {
 public:
  struct block : Domain::header {
    explicit block(std::atomic<int>& n) : ended(n) {}
    ~block() { ++ended; }
    std::atomic<int>& ended;
  };
};
using restful = testing::Types<domain<token>, domain<debra>, domain<>>;
TYPED_TEST_SUITE(resting, restful);

TYPED_TEST(resting, does_nothing_inside_a_guard) {
  std::atomic<int> ended{0};
  TypeParam d;
  auto* const seen = d.template make<typename TestFixture::block>(ended);
  parked_thread reader([&](parking_spot& self) {
    auto guard = d.enter();
    d.rest();
    self.park();
  });
  {
    auto guard = d.enter();
    guard.retire(seen);
  }
  EXPECT_FALSE(d.drain());
  EXPECT_EQ(ended, 0) << "the reader may look at it";
  reader.release();
  EXPECT_TRUE(d.drain());
  EXPECT_EQ(ended, 1);
}

/// A thread that rests comes back at any time, while others take over what it has left.
TYPED_TEST(resting, ends_with_the_next_guard) {
  std::atomic<int> ended{0};
  TypeParam d;
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) d.drain(1);
  });
  constexpr int blocks = 20000;
  for (int i = 0; i < blocks; ++i) {
    auto* const made = d.template make<typename TestFixture::block>(ended);
    {
      auto guard = d.enter();
      guard.retire(made);
    }
    if (i % 3 == 0) d.rest();
  }
  stop = true;
  other.join();
  EXPECT_TRUE(d.drain());
  EXPECT_EQ(ended, blocks);
}

}  // namespace
