// SPDX-License-Identifier: Apache-2.0
// What is said of a mistake when the program has no handler of its own: which thread it is about.
#include <spolia/base/misuse.hpp>

#include <gtest/gtest.h>

#include <pthread.h>

#include <cstdint>

#include <spolia/base/threads.hpp>

#include "support/elsewhere.hpp"
#include "support/parked_thread.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

TEST(misuse_reports, know_the_systems_number_of_each_thread) {
  EXPECT_EQ(threads::os_id_of(threads::number()), threads::os_id());
  std::uint32_t number = 0;
  long os_thread = 0;
  const parked_thread other([&](parking_spot& spot) {
    number = threads::number();
    os_thread = threads::os_id();
    spot.park();
  });
  EXPECT_EQ(threads::os_id_of(number), os_thread);
  EXPECT_NE(os_thread, threads::os_id());
  EXPECT_EQ(threads::os_id_of(~std::uint32_t{0}), 0) << "no thread has it";
  EXPECT_EQ(
      status_of_child([] { EXPECT_EQ(threads::os_id_of(threads::number()), threads::os_id()); }), 0)
      << "the system has given it another one";
}

/// Of the other thread, which lives: not of the one that finds the mistake.
TEST(misuse_reports, name_the_thread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        std::uint32_t number = 0;
        const parked_thread other([&](parking_spot& spot) {
          number = threads::number();
          pthread_setname_np(pthread_self(), "night shift");
          spot.park();
        });
        core::report_misuse("a mistake", number);
      },
      "misuse: a mistake .thread number [0-9]+, the system's [0-9]+, named night shift.");
}

}  // namespace
