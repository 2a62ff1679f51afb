// SPDX-License-Identifier: Apache-2.0
// The store where the monotonic clock stands: nothing waits for it. This program has a clock of its
// own, which all that asks the C library gets.

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include <spolia/base/clock.hpp>
#include <spolia/db.hpp>
#include <spolia/rlu.hpp>

#include "db/own_clock.hpp"
#include "support/elsewhere.hpp"

constinit std::atomic<std::int64_t> spolia::test::monotonic_ahead{0};

#if !SPOLIA_TSAN && !SPOLIA_ASAN
constinit std::atomic<bool> stands{false};
constinit std::atomic<int> races{0};  // so many milliseconds have passed, fifty at each look

extern "C" int clock_gettime(clockid_t which, struct timespec* now) noexcept {
  if (which == CLOCK_MONOTONIC && stands.load(std::memory_order_relaxed)) {
    *now = {1000, 0};
    return 0;
  }
  if (which == CLOCK_MONOTONIC && races.load(std::memory_order_relaxed) != 0) {
    const int ms = races.fetch_add(50, std::memory_order_relaxed);
    *now = {1000 + ms / 1000, ms % 1000 * 1'000'000L};
    return 0;
  }
  const auto failed = static_cast<int>(syscall(SYS_clock_gettime, which, now));
  if (which == CLOCK_MONOTONIC) {
    now->tv_sec += spolia::test::monotonic_ahead.load(std::memory_order_relaxed);
  }
  return failed;
}

/// The system's waits go by the same clock.
extern "C" int pthread_cond_clockwait(pthread_cond_t* bell, pthread_mutex_t* with, clockid_t which,
                                      const struct timespec* until) noexcept(false) {
  using function = decltype(&pthread_cond_clockwait);
  static const auto wait = reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_cond_clockwait"));
  struct timespec at = *until;
  if (which == CLOCK_MONOTONIC) {
    at.tv_sec -= spolia::test::monotonic_ahead.load(std::memory_order_relaxed);
  }
  return wait(bell, with, which, &at);
}
#endif

namespace {

using namespace spolia;
using namespace std::chrono_literals;
using spolia::test::has_own_clock;
using spolia::test::on_another_thread;
using spolia::test::status_of_child;

/// In a child, which its alarm ends if it hangs. Where processors are busy, two threads that wait
/// for each other's messages may take half a minute.
template <class Body>
void ends_where_the_clock_stands([[maybe_unused]] Body body) {
  if (!has_own_clock) GTEST_SKIP() << "the sanitizer's own clock";
#if !SPOLIA_TSAN && !SPOLIA_ASAN
  EXPECT_EQ(status_of_child(
                [&] {
                  stands = true;
                  ASSERT_EQ(std::chrono::steady_clock::now(), std::chrono::steady_clock::now());
                  body();
                },
                120),
            0);
#endif
}

TEST(frozen_clock, a_tick_is_taken_for_a_nanosecond) {
  ends_where_the_clock_stands([] { EXPECT_EQ(core::ns_per_tick(), 1); });
}

TEST(frozen_clock, counters_are_compared_in_the_end) {
  ends_where_the_clock_stands([] { static_cast<void>(core::counters_compared()); });
}

/// No exchange is good enough where a tick is taken for a microsecond or more.
TEST(frozen_clock, counters_are_compared_in_the_end_if_no_exchange_is_good) {
  if (std::thread::hardware_concurrency() > 16) GTEST_SKIP() << "each processor takes a second";
  ends_where_the_clock_stands([] {
#if !SPOLIA_TSAN && !SPOLIA_ASAN
    stands = false;
    races.store(1, std::memory_order_relaxed);
    EXPECT_GT(core::ns_per_tick(), 1000);
    races.store(0, std::memory_order_relaxed);
    stands = true;
    static_cast<void>(core::counters_compared());
#endif
  });
}

TEST(frozen_clock, a_detector_looks_after_threads_that_do_nothing) {
  ends_where_the_clock_stands([] {
    struct number {
      int value = 0;
    };
    rlu::domain d;
    const auto one = d.make<number>({0});
    {
      const rlu::detector upkeep(d);
      on_another_thread([&] {
        d.update([&](auto& in) {
          if (auto mine = in.try_lock(one)) mine->value = 1;
        });
      });
      while (d.stats().log_bytes != 0) std::this_thread::sleep_for(1ms);
    }
    d.discard(one);
  });
}

db::table& make_items(db::database& base) {
  return base.create_table(
      {.name = "items", .columns = {{"id", db::int64, db::primary_key}, {"a", db::int64}}});
}

TEST(frozen_clock, who_waits_for_a_row_gives_up) {
  ends_where_the_clock_stands([] {
    db::database base = db::database::open();
    db::table& items = make_items(base);
    ASSERT_TRUE(base.transact([&](db::transaction& tx) { return tx.insert(items, {1, 1}); }));
    db::transaction older = base.begin({.longest_wait = 50ms});
    db::transaction holder = base.begin({.longest_wait = 50ms});
    ASSERT_TRUE(holder.update(items, {1}, {{"a", 2}}));
    EXPECT_FALSE(older.update(items, {1}, {{"a", 3}}));
  });
}

TEST(frozen_clock, a_durable_store_opens_commits_and_closes) {
  std::string name = testing::TempDir() + "spolia-frozen-XXXXXX";
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  for (const auto level : {db::durability_level::sync, db::durability_level::async}) {
    ends_where_the_clock_stands([&] {
      const auto where = std::filesystem::path(name) / std::to_string(static_cast<int>(level));
      db::database base = db::database::open(where, {.durability = level, .publish_status = true});
      db::table& items = make_items(base);
      const auto write = [&](std::int64_t from) {
        for (std::int64_t n = from; n < from + 100; ++n) {
          EXPECT_TRUE(base.transact([&](db::transaction& tx) { return tx.insert(items, {n, n}); }));
        }
      };
      std::thread other([&] { write(1000); });
      write(0);
      other.join();
      EXPECT_TRUE(base.sync());
      base.checkpoint();
      static_cast<void>(base.readers());
    });
  }
  std::filesystem::remove_all(name);
}

}  // namespace
