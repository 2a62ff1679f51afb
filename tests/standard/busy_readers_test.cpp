// SPDX-License-Identifier: Apache-2.0
// Waiting beside readers that are never outside of regions for long: in grace periods.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <spolia/rcu.hpp>

#include "support/ledger.hpp"
#include "support/sanitized.hpp"
#include "support/soon.hpp"

namespace {

using namespace spolia::test;
using namespace std::chrono_literals;
using spolia::rcu_domain;
using clock_type = std::chrono::steady_clock;
using duration = clock_type::duration;

struct item : spolia::rcu_obj_base<item> {
  explicit item(ledger& book) : value(book) {}
  tracked value;
};

void retire(ledger& book, rcu_domain& domain) {
  auto* const i = new item(book);
  i->value.note_retired();
  i->retire({}, domain);
}

/// Threads that open one region after the other, and retire something in each of the first ones, so
/// that something waits in their cells.
class busy_readers {
 public:
  busy_readers(rcu_domain& domain, ledger& book, unsigned count, duration region)
      : regions_(count) {
    for (unsigned t = 0; t < count; ++t) {
      threads_.emplace_back([&, t, region] { run(domain, book, regions_[t], region); });
    }
    EXPECT_TRUE(soon([&] {
      return std::ranges::all_of(regions_, [](const auto& n) { return n.load() > few; });
    }));
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
    const std::vector<std::uint64_t> before(regions_.begin(), regions_.end());
    f();
    std::uint64_t least = ~std::uint64_t{0};
    for (std::size_t t = 0; t < before.size(); ++t) {
      least = std::min(least, regions_[t].load() - before[t]);
    }
    return least;
  }

 private:
  static constexpr std::uint64_t few = 3;

  void run(rcu_domain& domain, ledger& book, std::atomic<std::uint64_t>& regions, duration region) {
    while (!over_.load(std::memory_order_relaxed)) {
      domain.lock();
      if (regions.load(std::memory_order_relaxed) <= few) retire(book, domain);
      regions.fetch_add(1, std::memory_order_relaxed);
      const auto end = clock_type::now() + region;
      while (clock_type::now() < end) continue;
      domain.unlock();
    }
  }

  std::vector<std::atomic<std::uint64_t>> regions_;
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

template <class F>
duration time_of(F&& f) {
  const auto begin = clock_type::now();
  f();
  return clock_type::now() - begin;
}

using load = std::tuple<unsigned, std::chrono::microseconds>;

/// How many readers there are.
const std::vector<unsigned> crowds =
    quick_tests ? std::vector<unsigned>{2, 16} : std::vector<unsigned>{1, 2, 4, 8, 16};

class busy_readers_test : public testing::TestWithParam<load> {};
INSTANTIATE_TEST_SUITE_P(loads, busy_readers_test,
                         testing::Combine(testing::ValuesIn(crowds),
                                          testing::Values(2000us, 100us, 5us)),
                         [](const auto& p) {
                           return std::to_string(std::get<0>(p.param)) + "_readers_of_" +
                                  std::to_string(std::get<1>(p.param).count()) + "_us";
                         });

/// A barrier takes two grace periods; twice as many are granted, and 10 ms for sleeps that end
/// late. All of a round together, so that a few lucky ones do not hide the others. A machine that
/// has other things to do may need some more rounds.
TEST_P(busy_readers_test, a_barrier_takes_a_few_grace_periods) {
  const auto [count, region] = GetParam();
  ledger book;
  rcu_domain domain;
  {
    const busy_readers readers(domain, book, count, region);
    bool quick = false;
    constexpr int each = 5;
    duration waits{};
    duration barriers{};
    for (int round = 0; round < 20 && !quick; ++round) {
      waits = barriers = {};
      for (int i = 0; i < each; ++i) {
        waits += time_of([&] { spolia::rcu_synchronize(domain); });
        retire(book, domain);
        barriers += time_of([&] { spolia::rcu_barrier(domain); });
      }
      quick = barriers <= 4 * waits + each * 10ms;
    }
    EXPECT_TRUE(quick) << "synchronize: " << waits / each / 1us
                       << " us, barrier: " << barriers / each / 1us << " us";
    EXPECT_EQ(book.live(), 0) << "the readers' own are ended, too";
  }
  spolia::rcu_barrier(domain);
  book.expect_empty();
}

/// Barriers of several threads take turns, and none is kept waiting by all the others. Time is
/// counted in regions: while the machine stands still, or this process, none ends.
TEST(busy_readers_at_once, barriers_wait_for_two_of_them_at_most) {
  constexpr unsigned count = 4;
  constexpr auto region = 100us;
  ledger book;
  rcu_domain domain;
  {
    const busy_readers readers(domain, book, count, region);
    const std::uint64_t alone = readers.regions_of([&] {
      for (int i = 0; i < 3; ++i) spolia::rcu_barrier(domain);
    });
    std::array<std::thread, 3> callers;
    constexpr std::uint64_t more = 1000;  // in 200 ms of two processors
    std::atomic<int> slow{0};
    for (std::thread& t : callers) {
      t = std::thread([&] {
        for (int i = 0; i < 10; ++i) {
          ledger mine;
          retire(mine, domain);
          const std::uint64_t took = readers.regions_of([&] { spolia::rcu_barrier(domain); });
          EXPECT_EQ(mine.live(), 0);
          if (took > 10 * alone + more) ++slow;
        }
      });
    }
    for (std::thread& t : callers) t.join();
    EXPECT_LE(slow, 3) << "of 30";
  }
}

/// Readers that end, or stay outside, while a question stands at their gates.
TEST(busy_readers_end, a_barrier_is_not_kept_by_threads_that_go) {
  ledger book;
  rcu_domain domain;
  for (int round = 0; round < 50; ++round) {
    std::atomic<bool> inside{false};
    std::atomic<bool> leave{false};
    std::thread reader([&] {
      domain.lock();
      retire(book, domain);
      inside = true;
      while (!leave) std::this_thread::yield();
      domain.unlock();
      if (round % 2 == 0) std::this_thread::sleep_for(2ms);
    });
    while (!inside) std::this_thread::yield();
    std::thread caller([&] { spolia::rcu_barrier(domain); });
    if (round % 3 == 0) std::this_thread::sleep_for(1ms);
    leave = true;
    caller.join();
    reader.join();
    EXPECT_EQ(book.live(), 0);
  }
  book.expect_empty();
}

/// A wait that gives up leaves nothing, and a barrier waits as long as the region lasts.
TEST(busy_readers_end, a_barrier_waits_for_a_region_that_stays_open) {
  ledger book;
  rcu_domain domain;
  std::atomic<bool> inside{false};
  std::atomic<bool> leave{false};
  std::thread reader([&] {
    domain.lock();
    inside = true;
    while (!leave) std::this_thread::sleep_for(1ms);
    domain.unlock();
  });
  while (!inside) std::this_thread::yield();
  retire(book, domain);
  std::atomic<bool> over{false};
  std::thread caller([&] {
    spolia::rcu_barrier(domain);
    over = true;
  });
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(spolia::rcu_synchronize_for(5ms, domain));
  EXPECT_FALSE(over);
  EXPECT_EQ(book.live(), 1);
  leave = true;
  caller.join();
  EXPECT_EQ(book.live(), 0);
  reader.join();
}

}  // namespace
