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
/// In regions of the readers, with what a busy machine adds: a wait that hopes for the moments
/// between two regions takes thousands. While the machine stands still, or this process, no region
/// ends either.
constexpr std::uint64_t a_few_grace_periods = 650;

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
  /// How many regions each of them goes through, or more, while `f()` runs.
  template <class F>
  std::uint64_t regions_of(F&& f) const {
    const std::array<std::uint64_t, 2> before{guards_[0], guards_[1]};
    f();
    return std::min(guards_[0] - before[0], guards_[1] - before[1]);
  }

 private:
  std::atomic<bool> over_{false};
  std::array<std::atomic<std::uint64_t>, 2> guards_{};
  std::array<std::thread, 2> threads_;
};

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
      EXPECT_LT(readers.regions_of([&] { retire_fresh(d, book, 20); }), a_few_grace_periods)
          << "retire";
      EXPECT_LT(readers.regions_of([&] { d.drain(); }), a_few_grace_periods) << "drain";
      EXPECT_LT(readers.regions_of([&] { std::thread([&] { retire_fresh(d, book, 20); }).join(); }),
                a_few_grace_periods)
          << "a thread's end";
    }
    // The thread that retires runs on, as rings of threads ask for.
    EXPECT_LT(readers.regions_of([&] {
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

/// In one of a few tries: the machine may have this one wait for longer.
TYPED_TEST(beside_busy_readers, a_domain_ends_as_soon_as_its_readers_have) {
  using domain_type = TypeParam;
  constexpr auto soon_enough = 300ms + 1s;
  auto shortest = clock_type::duration::max();
  for (int tries = 0; tries < 5 && shortest >= soon_enough; ++tries) {
    ledger book;
    auto d = std::make_unique<domain_type>();
    {
      const busy_readers<domain_type> readers(*d);
      retire_fresh(*d, book, 100);
    }
    const auto begin = clock_type::now();
    d.reset();
    shortest = std::min(shortest, clock_type::now() - begin);
    book.expect_empty();
  }
  EXPECT_LT(shortest, soon_enough);
}

}  // namespace
