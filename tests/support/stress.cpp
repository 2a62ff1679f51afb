// SPDX-License-Identifier: Apache-2.0
// stress.cpp: seeds, durations, and the life of a run's threads.
#include "support/stress.hpp"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/sanitized.hpp"

namespace spolia::test {
namespace {

std::uint64_t choose_seed() {
  if (const char* text = std::getenv("SPOLIA_SEED"); text != nullptr && *text != '\0') {
    char* end = nullptr;
    const std::uint64_t seed = std::strtoull(text, &end, 0);
    if (*end != '\0') throw std::invalid_argument("SPOLIA_SEED is not a number");
    return seed;
  }
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

std::uint64_t digest_of_text(std::string_view text) noexcept {
  std::uint64_t h = text.size();
  for (const char c : text) h = mix64(h ^ static_cast<unsigned char>(c));
  return h;
}

/// The threads of one run and what they tell each other.
class crew {
 public:
  explicit crew(const stress_options& options)
      : options_(options), time_(stress_time(options.share)) {}

  void run(const stress_body& body) {
    std::vector<std::thread> threads;
    threads.reserve(options_.threads);
    try {
      for (unsigned i = 0; i < options_.threads; ++i) {
        threads.emplace_back([this, i, &body] { work(i, body); });
      }
    } catch (...) {
      note_failure(std::current_exception());
    }
    direct();
    for (std::thread& t : threads) t.join();
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  void work(unsigned index, const stress_body& body) {
    bool begins = false;
    {
      std::unique_lock lock(mutex_);
      ++waiting_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return started_; });
      begins = failure_ == nullptr;
    }
    try {
      const std::uint64_t seed = seed_for(mix64(options_.stream) + index);
      stress_thread self(index, options_.threads, seed, stop_);
      if (begins) body(self);
    } catch (...) {
      note_failure(std::current_exception());
    }
    const std::lock_guard lock(mutex_);
    ++finished_;
    changed_.notify_all();
  }

  void direct() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ == options_.threads || failure_ != nullptr; });
    started_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, time_,
                      [&] { return finished_ == options_.threads || failure_ != nullptr; });
    stop_.store(true, std::memory_order_relaxed);
  }

  void note_failure(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (failure_ == nullptr) failure_ = std::move(failure);
    stop_.store(true, std::memory_order_relaxed);
    changed_.notify_all();
  }

  const stress_options options_;
  const std::chrono::nanoseconds time_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned waiting_ = 0;
  unsigned finished_ = 0;
  bool started_ = false;
  std::exception_ptr failure_;
};

void run_short_lived(const stress_body& body, stress_thread& child) {
  std::exception_ptr failure;
  std::thread([&] {
    try {
      body(child);
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace

std::uint64_t base_seed() {
  static const std::uint64_t seed = [] {
    const std::uint64_t chosen = choose_seed();
    std::printf("[   SEED   ] SPOLIA_SEED=%llu\n", static_cast<unsigned long long>(chosen));
    std::fflush(stdout);
    return chosen;
  }();
  return seed;
}

std::uint64_t seed_for(std::uint64_t stream) {
  std::uint64_t seed = mix64(base_seed()) ^ mix64(~stream);
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  if (test != nullptr) {
    seed += digest_of_text(test->test_suite_name()) ^ mix64(digest_of_text(test->name()));
  }
  return mix64(seed);
}

std::chrono::nanoseconds stress_time(double share) {
  double seconds = stress_seconds;
  if (const char* text = std::getenv("SPOLIA_STRESS_SECONDS"); text != nullptr && *text != '\0') {
    char* end = nullptr;
    seconds = std::strtod(text, &end);
    if (*end != '\0' || !(seconds > 0.0)) {
      throw std::invalid_argument("SPOLIA_STRESS_SECONDS is not a positive number");
    }
  }
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds * share));
}

void stress_thread::jitter() {
  const std::uint64_t roll = random_.below(1024);
  if (roll == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  } else if (roll < 64) {
    std::this_thread::yield();
  } else if (roll < 128) {
    for (std::uint64_t i = random_.below(200); i > 0; --i) asm volatile("" : : : "memory");
  }
}

void run_stress(const stress_options& options, const stress_body& body) { crew(options).run(body); }

std::uint64_t churn_threads(const stress_options& options, const stress_body& body) {
  std::atomic<std::uint64_t> started{0};
  run_stress(options, [&](stress_thread& keeper) {
    while (keeper.running()) {
      stress_thread child = keeper.offspring();
      started.fetch_add(1, std::memory_order_relaxed);
      run_short_lived(body, child);
    }
  });
  return started.load(std::memory_order_relaxed);
}

}  // namespace spolia::test
