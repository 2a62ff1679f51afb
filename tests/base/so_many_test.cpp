// SPDX-License-Identifier: Apache-2.0
// Numbers of things in messages: one thing is no plural.

#include "base/so_many.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace {

using namespace spolia;

TEST(so_many, things) {
  EXPECT_EQ(so_many(0, "row"), "0 rows");
  EXPECT_EQ(so_many(1, "row"), "1 row");
  EXPECT_EQ(so_many(2, "more column"), "2 more columns");
  EXPECT_EQ(so_many(~std::uint64_t{0}, "byte"), "18446744073709551615 bytes");
}

}  // namespace
