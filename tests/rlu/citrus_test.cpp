// SPDX-License-Identifier: Apache-2.0
// The Citrus tree that read-log-update is compared with: a set, and look-ups of a key that moves.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

#include <spolia/base/atomic.hpp>

#include "bench/citrus.hpp"
#include "bench/random.hpp"

namespace {

using key = std::uint64_t;

TEST(citrus, one_thread_has_a_set) {
  bench::citrus_tree tree(1);
  std::set<key> expected;
  bench::random_source random(7);
  for (int i = 0; i < 50000; ++i) {
    const key k = random.below(300);
    switch (random.below(3)) {
      case 0:
        ASSERT_EQ(tree.insert(k), expected.insert(k).second);
        break;
      case 1:
        ASSERT_EQ(tree.erase(k), expected.erase(k) == 1);
        break;
      default:
        ASSERT_EQ(tree.contains(k), expected.contains(k));
    }
  }
}

TEST(citrus, threads_leave_what_their_results_say) {
  constexpr key keys = 40;
  constexpr std::size_t threads = 4;
  bench::citrus_tree tree(1);
  std::array<std::array<int, keys>, threads> net{};
  std::vector<std::thread> all;
  for (std::size_t t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      bench::random_source random(t + 1);
      for (int i = 0; i < 30000; ++i) {
        const key k = random.below(keys);
        if (random.below(2) == 0) {
          net[t][k] += tree.insert(k) ? 1 : 0;
        } else {
          net[t][k] -= tree.erase(k) ? 1 : 0;
        }
      }
    });
  }
  for (std::thread& t : all) t.join();
  for (key k = 0; k < keys; ++k) {
    int sum = 0;
    for (const auto& of : net) sum += of[k];
    EXPECT_EQ(sum, tree.contains(k) ? 1 : 0) << k;
  }
}

/// The next key lies at the end of a long way, and moves up when the node above is erased. A
/// look-up that was on this way finds it there: it goes only after a grace period.
TEST(citrus, a_key_that_moves_up_is_found_all_the_time) {
  constexpr key deep = 1000;
  for (int round = 0; round < 60; ++round) {
    bench::citrus_tree tree(1);
    for (const key k : {100, 50}) tree.insert(k);
    for (key k = 100 + deep; k > 100; --k) tree.insert(k);
    spolia::atomic<bool> reads{false};
    spolia::atomic<bool> ends{false};
    std::uint64_t missed = 0;
    std::thread reader([&] {
      reads.store_relaxed(true);
      while (!ends.load_relaxed()) missed += tree.contains(101) ? 0 : 1;
    });
    while (!reads.load_relaxed()) std::this_thread::yield();
    for (int n = 0; n < round; ++n) EXPECT_FALSE(tree.contains(100 + deep + 1));  // not in step
    EXPECT_TRUE(tree.erase(100));
    ends.store_relaxed(true);
    reader.join();
    EXPECT_EQ(missed, 0U);
    if (missed != 0) return;
  }
}

}  // namespace
