// SPDX-License-Identifier: Apache-2.0
// DEBRA: how long its epochs are, whatever the number of threads. That it is safe is shown under
// the model checker.
#include <spolia/reclaim/debra.hpp>

#include <gtest/gtest.h>

#include <cstdint>

#include <spolia/reclaim/domain.hpp>

#include "support/parked_thread.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

using home = domain<debra, batch>;

void run_on(home& d, int operations) {
  for (int i = 0; i < operations; ++i) auto guard = d.enter();
}

std::uint64_t epochs_of(home& d, int operations) {
  const std::uint64_t before = d.stats().epochs;
  run_on(d, operations);
  return d.stats().epochs - before;
}

TEST(debra, an_epoch_of_one_thread_takes_min_looks) {
  home d({.scheme = {.scan_every = 10, .min_looks = 20}});
  run_on(d, 1000);
  EXPECT_EQ(epochs_of(d, 20 * 10 * 50), 50U);
}

TEST(debra, an_idle_thread_takes_looks_but_no_longer) {
  home d({.scheme = {.scan_every = 10, .min_looks = 20}});
  parked_thread idle([&](parking_spot& spot) {
    run_on(d, 1);
    spot.park();
  });
  run_on(d, 1000);
  EXPECT_EQ(epochs_of(d, 20 * 10 * 50), 50U);
  idle.release();
}

std::uint64_t epochs_of_retiring(home& d, int operations) {
  struct node : home::header {};
  const std::uint64_t before = d.stats().epochs;
  for (int i = 0; i < operations; ++i) {
    auto guard = d.enter();
    guard.retire(d.make<node>());
  }
  return d.stats().epochs - before;
}

TEST(debra, epochs_are_short_while_blocks_wait) {
  home d({.scheme = {.scan_every = 10, .min_looks = 100, .hasty_looks = 10}});
  epochs_of_retiring(d, 1000);
  EXPECT_EQ(epochs_of_retiring(d, 10 * 10 * 50), 50U);
  run_on(d, 10'000);
  EXPECT_EQ(epochs_of(d, 100 * 10 * 50), 50U) << "nothing waits";
}

TEST(debra, a_thread_that_idles_makes_epochs_long_until_it_is_parked) {
  home d({.scheme = {.scan_every = 10, .min_looks = 100, .hasty_looks = 10}});
  home never({.scheme = {.scan_every = 10, .min_looks = 100, .hasty_looks = 10, .park_after = 0}});
  parked_thread idle([&](parking_spot& spot) {
    run_on(d, 1);
    run_on(never, 1);
    spot.park();
  });
  EXPECT_LE(epochs_of_retiring(d, 5000), 6U) << "a fence each";
  epochs_of_retiring(d, 20'000);
  EXPECT_GE(epochs_of_retiring(d, 10 * 10 * 50), 49U);
  epochs_of_retiring(never, 20'000);
  EXPECT_LE(epochs_of_retiring(never, 10 * 10 * 50), 6U);
  idle.release();
}

TEST(debra, each_thread_is_looked_at_where_there_are_more_than_min_looks) {
  home d({.scheme = {.scan_every = 1, .min_looks = 1}});
  parked_thread first([&](parking_spot& spot) {
    run_on(d, 1);
    spot.park();
  });
  parked_thread second([&](parking_spot& spot) {
    run_on(d, 1);
    spot.park();
  });
  run_on(d, 1000);
  EXPECT_LE(epochs_of(d, 3 * 50), 50U);
  EXPECT_GT(epochs_of(d, 3 * 50), 10U);
  first.release();
  second.release();
}

TEST(debra, a_thread_inside_a_guard_holds_the_epoch) {
  home d;
  parked_thread inside([&](parking_spot& spot) {
    auto guard = d.enter();
    spot.park();
  });
  EXPECT_LE(epochs_of(d, 100'000), 1U);
  inside.release();
  EXPECT_GE(epochs_of(d, 100'000), 50U);
}

}  // namespace
