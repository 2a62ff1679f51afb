// SPDX-License-Identifier: Apache-2.0
// The example of a scheme of one's own, in a fork that catches a thread in the midst of a step.
#include "quiet_moments.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace {

using scheme = quiet_moments;

/// Two threads' parts.
struct two_threads {
  std::array<scheme::local, 2> all;

  struct peers {
    std::array<scheme::local, 2>* all;
    template <class F>
    void for_each(F&& f) const {
      for (std::uint32_t n = 0; n < all->size(); ++n) {
        if (!f(n, (*all)[n])) return;
      }
    }
  };
};

/// Whether blocks are freed when the thread that goes on has no guard.
bool frees(scheme& s, scheme::local& me) {
  bool freed = false;
  s.collect(me, 0, [&](spolia::limbo&) { freed = true; });
  return freed;
}

TEST(quiet_moments, a_fork_catches_a_thread_between_its_flag_and_the_count) {
  for (const bool flag : {false, true}) {
    for (const bool counted : {false, true}) {
      for (const bool survivor_is_inside : {false, true}) {
        scheme s{{}};
        two_threads t;
        scheme::local& lost = t.all[0];
        scheme::local& me = t.all[1];
        if (counted) s.enter(lost);
        lost.inside = flag;
        if (survivor_is_inside) s.enter(me);
        s.forked(lost, two_threads::peers{&t.all});
        EXPECT_EQ(frees(s, me), !survivor_is_inside);
        if (survivor_is_inside) s.leave(me);
        EXPECT_TRUE(frees(s, me));
      }
    }
  }
}

}  // namespace
