// SPDX-License-Identifier: Apache-2.0
/// \file
/// Threads that work at the same time for some time, reproducibly as far as that goes.
///
///     run_stress({.threads = 4}, [&](stress_thread& self) {
///       while (self.running()) {
///         map.insert(self.random().below(100), 1);
///         self.jitter();
///       }
///     });
///
/// Environment:
///   SPOLIA_SEED            the seed of all random numbers; a fresh one is chosen and printed if it
///                          is not set. Streams also depend on the name of the running test and not
///                          on which tests ran before it, so one failing test can be run alone.
///   SPOLIA_STRESS_SECONDS  how long a run of share 1 takes, e.g. 0.5
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

#include "support/digest.hpp"

namespace spolia::test {

/// The splitmix64 generator. One per thread.
class rng {
 public:
  using result_type = std::uint64_t;

  explicit rng(std::uint64_t seed) noexcept : state_(seed) {}
  static constexpr result_type min() noexcept { return 0; }
  static constexpr result_type max() noexcept { return std::numeric_limits<result_type>::max(); }
  result_type operator()() noexcept { return mix64(state_ += 0x9e3779b97f4a7c15U); }

  /// A number from 0 to `n` - 1; `n` is not 0.
  std::uint64_t below(std::uint64_t n) noexcept { return (*this)() % n; }
  /// True with a probability of `numerator` / `denominator`.
  bool chance(std::uint64_t numerator, std::uint64_t denominator) noexcept {
    return below(denominator) < numerator;
  }

 private:
  std::uint64_t state_;
};

/// SPOLIA_SEED, or a fresh seed that is printed at the first call. Thread-safe.
/// \throws std::invalid_argument if SPOLIA_SEED is not a number
[[nodiscard]] std::uint64_t base_seed();

/// A seed of this test's own for its `stream`-th random stream.
[[nodiscard]] std::uint64_t seed_for(std::uint64_t stream);

/// `share` of SPOLIA_STRESS_SECONDS, by default of half a second, and less under a sanitizer
/// and in `./dev test --quick`: see sanitized.hpp.
/// \throws std::invalid_argument if SPOLIA_STRESS_SECONDS is not a positive number
[[nodiscard]] std::chrono::nanoseconds stress_time(double share);

struct stress_options {
  unsigned threads = 2;
  double share = 1.0;        ///< of the stress time
  std::uint64_t stream = 0;  ///< tells apart the runs of one test
};

/// What a thread of a run sees. Belongs to that thread.
class stress_thread {
 public:
  stress_thread(unsigned index, unsigned count, std::uint64_t seed, const std::atomic<bool>& stop)
      : index_(index), count_(count), random_(seed), stop_(&stop) {}

  [[nodiscard]] unsigned index() const noexcept { return index_; }  ///< from 0
  [[nodiscard]] unsigned count() const noexcept { return count_; }
  [[nodiscard]] rng& random() noexcept { return random_; }

  /// Until the time is up or a thread has thrown; and always when first asked: a thread that loops
  /// while it runs does something, however late a busy machine lets it begin. Orders nothing, so it
  /// cannot hide a race.
  [[nodiscard]] bool running() noexcept {
    return std::exchange(fresh_, false) || !stop_->load(std::memory_order_relaxed);
  }

  /// The same place in the run, with random numbers of its own.
  [[nodiscard]] stress_thread offspring() { return {index_, count_, random_(), *stop_}; }

  /// Often nothing, sometimes a yield or a short spin, rarely a nap.
  void jitter();

 private:
  unsigned index_;
  unsigned count_;
  rng random_;
  const std::atomic<bool>* stop_;
  bool fresh_ = true;
};

using stress_body = std::function<void(stress_thread&)>;

/// Starts the threads, lets them all begin together, tells them to stop when the time is up, and
/// joins them. The body is called once in each thread and may return early.
/// \throws the first exception that a thread let out, after all were joined
void run_stress(const stress_options& options, const stress_body& body);

/// Threads that come and go: keeps `options.threads` threads alive, each of which calls the body
/// once and ends, until the time is up. Returns how many there were, which is at least
/// `options.threads`.
std::uint64_t churn_threads(const stress_options& options, const stress_body& body);

}  // namespace spolia::test
