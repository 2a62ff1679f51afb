// SPDX-License-Identifier: Apache-2.0
/// \file
/// How many descriptors a process may have.
#pragma once

#include <gtest/gtest.h>

#include <sys/resource.h>

namespace spolia::test {

/// This process may have so many descriptors, for as long as this lasts.
class descriptor_limit {
 public:
  explicit descriptor_limit(rlim_t most) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const struct rlimit now{.rlim_cur = most, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  ~descriptor_limit() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  descriptor_limit(const descriptor_limit&) = delete;
  descriptor_limit& operator=(const descriptor_limit&) = delete;

 private:
  struct rlimit before_{};
};

}  // namespace spolia::test
