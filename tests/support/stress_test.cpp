// SPDX-License-Identifier: Apache-2.0
// stress_test.cpp: runs begin together, end in time, are reproducible, and hide no failure.
#include "support/stress.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/parked_thread.hpp"

namespace spolia::test {
namespace {

using clock = std::chrono::steady_clock;

/// Sets a variable of the environment for a scope. No other thread may read it meanwhile.
class environment {
 public:
  environment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  environment(const environment&) = delete;
  environment& operator=(const environment&) = delete;
  ~environment() {
    if (before_) {
      setenv(name_.c_str(), before_->c_str(), 1);
    } else {
      unsetenv(name_.c_str());
    }
  }

 private:
  std::string name_;
  std::optional<std::string> before_;
};

TEST(rng, repeats_itself_from_a_seed_and_only_then) {
  rng a(1);
  rng b(1);
  rng c(2);
  int same = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t x = a();
    EXPECT_EQ(x, b());
    same += x == c() ? 1 : 0;
  }
  EXPECT_EQ(same, 0);
}

TEST(rng, spreads_evenly_below_a_bound) {
  rng random(7);
  std::array<int, 10> count{};
  for (int i = 0; i < 100'000; ++i) ++count.at(random.below(10));
  for (const int n : count) EXPECT_NEAR(n, 10'000, 500);
  int hits = 0;
  for (int i = 0; i < 100'000; ++i) hits += random.chance(1, 4) ? 1 : 0;
  EXPECT_NEAR(hits, 25'000, 1000);
}

TEST(seed, differs_by_stream_and_repeats) {
  EXPECT_EQ(base_seed(), base_seed());
  EXPECT_EQ(seed_for(1), seed_for(1));
  std::set<std::uint64_t> seeds;
  for (std::uint64_t s = 0; s < 100; ++s) seeds.insert(seed_for(s));
  EXPECT_EQ(seeds.size(), 100U);
}

// The seed is chosen once in a process, so each case runs in a process of its own.
TEST(seed, comes_from_the_environment_and_is_printed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const environment seed("SPOLIA_SEED", "0x2a");
  EXPECT_EXIT(
      {
        dup2(2, 1);  // only the standard error is compared
        std::exit(base_seed() == 42 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "SPOLIA_SEED=42");
}

TEST(seed, refuses_what_is_not_a_number) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const environment seed("SPOLIA_SEED", "12x");
  EXPECT_EXIT(
      {
        try {
          (void)base_seed();
        } catch (const std::invalid_argument&) {
          std::exit(3);
        }
        std::exit(0);
      },
      testing::ExitedWithCode(3), "");
}

TEST(stress_time, follows_the_environment) {
  const environment seconds("SPOLIA_STRESS_SECONDS", "2.5");
  EXPECT_EQ(stress_time(1.0), std::chrono::milliseconds(2500));
  EXPECT_EQ(stress_time(0.1), std::chrono::milliseconds(250));
  for (const char* bad : {"x", "1s", "-1", "0", "nan"}) {
    const environment worse("SPOLIA_STRESS_SECONDS", bad);
    EXPECT_THROW((void)stress_time(1.0), std::invalid_argument) << bad;
    EXPECT_THROW(run_stress({}, [](stress_thread&) {}), std::invalid_argument) << bad;
  }
}

TEST(run_stress, runs_each_thread_once_and_all_at_the_same_time) {
  const environment seconds("SPOLIA_STRESS_SECONDS", "60");
  std::mutex mutex;
  std::set<unsigned> seen;
  std::atomic<unsigned> inside{0};
  run_stress({.threads = 5}, [&](stress_thread& self) {
    EXPECT_EQ(self.count(), 5U);
    // No thread gets on before all have come, which only ends if all run at once.
    inside.fetch_add(1);
    while (inside.load() < 5) std::this_thread::yield();
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(seen.insert(self.index()).second);
  });
  EXPECT_EQ(seen, (std::set<unsigned>{0, 1, 2, 3, 4}));
}

TEST(run_stress, ends_when_the_time_is_up) {
  const environment seconds("SPOLIA_STRESS_SECONDS", "0.1");
  const auto begin = clock::now();
  run_stress({.threads = 3, .share = 0.5}, [](stress_thread& self) {
    while (self.running()) self.jitter();
  });
  EXPECT_GE(clock::now() - begin, std::chrono::milliseconds(50));
}

/// The time is up before any thread has begun.
TEST(run_stress, lets_each_thread_do_something_on_a_busy_machine) {
  const environment seconds("SPOLIA_STRESS_SECONDS", "1e-9");
  for (int round = 0; round < 20; ++round) {
    std::array<std::atomic<int>, 4> done{};
    run_stress({.threads = 4}, [&](stress_thread& self) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      while (self.running()) {
        done[self.index()].fetch_add(1, std::memory_order_relaxed);
      }
    });
    for (const auto& times : done) EXPECT_GE(times.load(std::memory_order_relaxed), 1);
  }
}

TEST(run_stress, ends_when_all_threads_have_ended) {
  const environment seconds("SPOLIA_STRESS_SECONDS", "1000");
  const auto begin = clock::now();
  run_stress({.threads = 3}, [](stress_thread&) {});
  EXPECT_LT(clock::now() - begin, std::chrono::seconds(100));
}

TEST(run_stress, passes_on_an_exception_and_stops_the_others) {
  const environment seconds("SPOLIA_STRESS_SECONDS", "1000");
  unsigned stopped = 0;
  std::mutex mutex;
  const auto run = [&] {
    run_stress({.threads = 4}, [&](stress_thread& self) {
      if (self.index() == 2) throw std::runtime_error("thread 2 is unhappy");
      while (self.running()) std::this_thread::yield();
      const std::lock_guard lock(mutex);
      ++stopped;
    });
  };
  try {
    run();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "thread 2 is unhappy");
  }
  EXPECT_LE(stopped, 3U);
}

TEST(run_stress, gives_each_thread_of_each_stream_its_own_repeatable_numbers) {
  const auto numbers = [](std::uint64_t stream) {
    std::vector<std::uint64_t> first(4);
    run_stress({.threads = 4, .stream = stream},
               [&](stress_thread& self) { first[self.index()] = self.random()(); });
    return first;
  };
  const auto a = numbers(1);
  EXPECT_EQ(a, numbers(1));
  const auto b = numbers(2);
  std::set<std::uint64_t> all(a.begin(), a.end());
  all.insert(b.begin(), b.end());
  EXPECT_EQ(all.size(), 8U);
}

TEST(churn_threads, runs_each_body_in_a_new_thread_until_the_time_is_up) {
  const environment seconds("SPOLIA_STRESS_SECONDS", "0.1");
  std::atomic<std::uint64_t> bodies{0};
  std::atomic<std::uint64_t> used_threads{0};
  std::atomic<unsigned> now{0};
  std::atomic<bool> too_many{false};
  const std::uint64_t threads = churn_threads({.threads = 3}, [&](stress_thread& self) {
    static thread_local bool used = false;
    if (used) used_threads.fetch_add(1);
    used = true;
    if (now.fetch_add(1) >= 3) too_many = true;
    bodies.fetch_add(1);
    self.jitter();
    now.fetch_sub(1);
  });
  EXPECT_EQ(threads, bodies.load());
  EXPECT_GE(threads, 3U);
  EXPECT_EQ(used_threads.load(), 0U);
  EXPECT_FALSE(too_many.load());
}

TEST(churn_threads, tells_its_threads_when_the_time_is_up) {
  const environment seconds("SPOLIA_STRESS_SECONDS", "0.05");
  const std::uint64_t threads = churn_threads({.threads = 2}, [](stress_thread& self) {
    while (self.running()) self.jitter();
  });
  EXPECT_EQ(threads, 2U);
}

TEST(churn_threads, passes_on_an_exception) {
  const environment seconds("SPOLIA_STRESS_SECONDS", "1000");
  EXPECT_THROW(churn_threads({.threads = 2},
                             [](stress_thread& self) {
                               if (self.random().chance(1, 3)) throw std::runtime_error("x");
                             }),
               std::runtime_error);
}

// The plain variables below are the point: parking and releasing must order them, or the race
// detector reports it.
TEST(parked_thread, stands_still_between_park_and_release) {
  int step = 0;
  parked_thread reader([&](parking_spot& spot) {
    step = 1;
    spot.park();
    step = step == 10 ? 11 : -1;
  });
  EXPECT_EQ(step, 1);
  step = 10;
  reader.release();
  EXPECT_EQ(step, 11);
}

TEST(parked_thread, is_released_and_joined_by_its_destructor) {
  bool over = false;
  {
    const parked_thread reader([&](parking_spot& spot) {
      spot.park();
      over = true;
    });
    EXPECT_FALSE(over);
  }
  EXPECT_TRUE(over);
}

TEST(parked_thread, parks_only_once) {
  parked_thread reader([](parking_spot& spot) {
    spot.park();
    spot.park();
  });
  reader.release();
  EXPECT_NO_THROW(reader.release());
}

TEST(parked_thread, passes_on_what_the_body_throws) {
  EXPECT_THROW(parked_thread([](parking_spot&) { throw std::runtime_error("early"); }),
               std::runtime_error);
  parked_thread late([](parking_spot& spot) {
    spot.park();
    throw std::runtime_error("late");
  });
  EXPECT_THROW(late.release(), std::runtime_error);
  EXPECT_NO_THROW(late.release());
}

TEST(parked_thread, refuses_a_body_that_does_not_park) {
  EXPECT_THROW(parked_thread([](parking_spot&) {}), std::logic_error);
}

}  // namespace
}  // namespace spolia::test
