// SPDX-License-Identifier: Apache-2.0
// Updates that go by the value that a key has, in every map, by many threads.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "map/every_map.hpp"
#include "support/linearizability.hpp"
#include "support/recorded_operation.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

template <class Subject>
class updates_by_threads : public testing::Test {
 public:
  using numbers = typename Subject::template of<std::uint64_t, std::uint64_t>;
  using texts = typename Subject::template of<std::uint64_t, std::string>;
};
TYPED_TEST_SUITE(updates_by_threads, updated_maps, every_map_name);

TYPED_TEST(updates_by_threads, counts_by_many_threads_are_exact) {
  constexpr unsigned threads = 4;
  constexpr std::uint64_t keys = 5;
  constexpr std::uint64_t each = 3000;
  typename TestFixture::numbers counts;
  typename TestFixture::texts tallies;
  std::vector<std::thread> writers;
  for (unsigned t = 0; t < threads; ++t) {
    writers.emplace_back([&] {
      for (std::uint64_t i = 0; i < each; ++i) {
        counts.upsert(i % keys, [](std::uint64_t& n) { ++n; }, 1);
        if (i < 200) tallies.upsert(i % keys, [](std::string& s) { s += 'x'; }, "x");
      }
    });
  }
  for (auto& w : writers) w.join();
  for (std::uint64_t k = 0; k < keys; ++k) {
    EXPECT_EQ(counts.find(k), threads * each / keys);
    EXPECT_EQ(tallies.find(k)->size(), threads * 200 / keys);
  }
}

TYPED_TEST(updates_by_threads, what_is_taken_out_is_taken_once) {
  constexpr unsigned threads = 4;
  typename TestFixture::numbers m;
  for (std::uint64_t k = 0; k < 500; ++k) m.insert(k, k);
  std::array<std::uint64_t, threads> sums{};
  std::vector<std::thread> takers;
  for (unsigned t = 0; t < threads; ++t) {
    takers.emplace_back([&, t] {
      for (std::uint64_t k = 0; k < 500; ++k) sums[t] += m.extract(k).value_or(0);
    });
  }
  for (auto& t : takers) t.join();
  EXPECT_EQ(sums[0] + sums[1] + sums[2] + sums[3], 500U * 499U / 2U);
  EXPECT_TRUE(m.empty_approx());
}

TYPED_TEST(updates_by_threads, histories_are_linearizable) {
  constexpr unsigned threads = 3;
  constexpr std::uint64_t keys = 3;
  map_recorder record(threads, 20'000);
  typename TestFixture::numbers m;
  run_stress({.threads = threads, .share = 0.1}, [&](stress_thread& self) {
    auto& lane = record.of(self.index());
    std::uint64_t value = self.index();
    while (self.running() && !lane.full()) {
      const std::uint64_t key = self.random().below(keys);
      if (self.random().chance(1, 3)) {
        operate(m, lane, self.random(), key, value += threads);
      } else {
        operate_by_value(m, lane, self.random(), key, value += threads);
      }
    }
  });
  EXPECT_TRUE(accepted(check_map(record.events())));
}

}  // namespace
