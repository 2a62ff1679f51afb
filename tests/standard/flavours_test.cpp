// SPDX-License-Identifier: Apache-2.0
// Two build variants of the headers in one program: a release build of a library in a debug build
// of its user. Types do not mix, but the default domains are the same.

#include <gtest/gtest.h>

#include <thread>

#include "standard/flavours.hpp"

namespace {

TEST(standard_flavours, share_the_default_domains) {
  native_part::open_region();
  std::thread([] { EXPECT_FALSE(checked_part::readers_are_gone()); }).join();
  native_part::close_region();
  EXPECT_TRUE(checked_part::readers_are_gone());
  checked_part::open_region();
  std::thread([] { EXPECT_FALSE(native_part::readers_are_gone()); }).join();
  checked_part::close_region();

  native_part::retire_one();
  checked_part::retire_one();
  EXPECT_EQ(checked_part::waiting(), 2U);
  EXPECT_EQ(native_part::waiting(), 2U);
  EXPECT_TRUE(checked_part::clean_up());
  EXPECT_EQ(native_part::waiting(), 0U);
}

}  // namespace
