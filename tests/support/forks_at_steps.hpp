// SPDX-License-Identifier: Apache-2.0
/// \file
/// Forks that come while another thread stands after any of its instructions.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include <spolia/base/threads.hpp>

#include "support/elsewhere.hpp"
#include "support/sanitized.hpp"
#include "support/single_steps.hpp"
#include "support/stress.hpp"

namespace spolia::test {

/// Null where there can be such forks; else why not.
inline const char* no_forks_at_steps() {
  if (sanitized) return "a fork waits for locks of the sanitizer";
  return single_steps::possible ? nullptr : "no trap flag";
}

/// In a child: what it says goes out at once.
inline bool is(bool right, const char* what) {
  if (!right) std::fprintf(stderr, "in the child: %s\n", what);
  return right;
}

/// The stops of one run of `victim`, at each of which in_child() is called in a child.
inline int fork_at_stops(const std::function<void()>& victim, const std::function<void()>& before,
                         const std::function<bool()>& in_child, std::uint64_t first,
                         std::uint64_t every) {
  single_steps steps(first, every);
  std::thread stepping([&] {
    (void)threads::number();  // the list of threads is locked meanwhile
    before();
    steps.run(victim);
  });
  int stops = 0;
  for (; steps.stopped(); steps.go_on()) {
    ++stops;
    if (testing::Test::HasFailure()) continue;
    const int status = status_of_child([&] { EXPECT_TRUE(in_child()); }, 20);
    EXPECT_EQ(status, 0) << "stop " << stops;
  }
  stepping.join();
  return stops;
}

/// Calls in_child(), in a child, for each of many steps of `victim`, which comes after `before` on
/// a thread of its own. SPOLIA_STEPS: after each how many instructions. A victim that ends before
/// its first stop runs again, with an earlier one.
inline void fork_at_steps(const std::function<void()>& victim, const std::function<void()>& before,
                          const std::function<bool()>& in_child, std::uint64_t usually = 251) {
  const char* const asked = std::getenv("SPOLIA_STEPS");
  const std::uint64_t every = asked != nullptr ? std::strtoull(asked, nullptr, 10) : usually;
  rng random(seed_for(0));
  std::uint64_t first = random.below(every);
  while (fork_at_stops(victim, before, in_child, first, every) == 0) {
    ASSERT_GT(first, 0U) << "it has no instruction";
    first = random.below(first);
  }
}

}  // namespace spolia::test
