// SPDX-License-Identifier: Apache-2.0
// Beside readers that are never outside of guards for long: nothing that a domain does for one
// thread takes longer than a few grace periods, and what is retired goes in a few of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include <spolia/reclaim.hpp>

#include "reclaim/contract.hpp"
#include "support/soon.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

constexpr auto region = 2ms;
/// 150 regions, with what a busy machine adds: a wait that hopes for the moments between two
/// regions takes seconds.
constexpr auto a_few_grace_periods = 300ms + 1s;

/// Threads that begin one guard after the other.
template <class Domain>
class busy_readers {
 public:
  explicit busy_readers(Domain& d) {
    for (std::size_t t = 0; t < threads_.size(); ++t) {
      threads_[t] = std::thread([this, &d, t] {
        while (!over_.load(std::memory_order_relaxed)) {
          guards_[t].fetch_add(1, std::memory_order_relaxed);
          auto guard = d.enter();
          const auto end = clock_type::now() + region;
          guard.read([&] {
            while (clock_type::now() < end) continue;
            return 0;
          });
        }
      });
    }
    EXPECT_TRUE(soon(
        [&] { return std::ranges::all_of(guards_, [](const auto& n) { return n.load() > 3; }); }));
  }
  busy_readers(const busy_readers&) = delete;
  busy_readers& operator=(const busy_readers&) = delete;
  ~busy_readers() {
    over_ = true;
    for (std::thread& t : threads_) t.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::array<std::atomic<std::uint64_t>, 2> guards_{};
  std::array<std::thread, 2> threads_;
};

template <class F>
clock_type::duration time_of(F&& f) {
  const auto begin = clock_type::now();
  f();
  return clock_type::now() - begin;
}

template <class Domain>
class beside_busy_readers : public testing::Test {};
TYPED_TEST_SUITE(beside_busy_readers, few_domains, domain_names);

TYPED_TEST(beside_busy_readers, nothing_takes_longer_than_a_few_grace_periods) {
  using domain_type = TypeParam;
  if (!domain_type::info().reclaims) GTEST_SKIP() << "never frees";
  ledger book;
  {
    domain_type d(eager<domain_type>());
    const busy_readers<domain_type> readers(d);
    for (int round = 0; round < 3; ++round) {
      EXPECT_LT(time_of([&] { retire_fresh(d, book, 20); }), a_few_grace_periods) << "retire";
      EXPECT_LT(time_of([&] { d.drain(); }), a_few_grace_periods) << "drain";
      EXPECT_LT(time_of([&] { std::thread([&] { retire_fresh(d, book, 20); }).join(); }),
                a_few_grace_periods)
          << "a thread's end";
    }
    // The thread that retires runs on, as rings of threads ask for.
    EXPECT_LT(time_of([&] {
                EXPECT_TRUE(soon([&] {
                  {
                    auto guard = d.enter();
                  }
                  return d.drain() && book.live() == 0;
                }));
              }),
              10 * a_few_grace_periods)
        << "until all is freed";
  }
  book.expect_empty();
}

TYPED_TEST(beside_busy_readers, a_domain_ends_as_soon_as_its_readers_have) {
  using domain_type = TypeParam;
  ledger book;
  auto d = std::make_unique<domain_type>();
  {
    const busy_readers<domain_type> readers(*d);
    retire_fresh(*d, book, 100);
  }
  EXPECT_LT(time_of([&] { d.reset(); }), a_few_grace_periods);
  book.expect_empty();
}

}  // namespace
