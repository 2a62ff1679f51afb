// SPDX-License-Identifier: Apache-2.0
/// \file
/// Keeps the calling thread, and those that it starts, on the first of the processors that it may
/// run on, until the end of the block.
#pragma once

#include <gtest/gtest.h>

#include <sched.h>

#include <cstddef>

namespace spolia::test {

class one_processor {
 public:
  one_processor() {
    EXPECT_EQ(sched_getaffinity(0, sizeof before_, &before_), 0);
    std::size_t first = 0;
    while (first < CPU_SETSIZE - 1 && !CPU_ISSET(first, &before_)) ++first;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    EXPECT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
  }
  one_processor(const one_processor&) = delete;
  one_processor& operator=(const one_processor&) = delete;
  ~one_processor() { EXPECT_EQ(sched_setaffinity(0, sizeof before_, &before_), 0); }

 private:
  cpu_set_t before_{};
};

}  // namespace spolia::test
