// SPDX-License-Identifier: Apache-2.0
// trial.hpp: the workload of the field, over any set of keys: threads insert, erase and look up
// uniform random keys in one structure that holds half of its key range. (Kim, Brown, Singh, PPoPP
// 2024, section 3)
//
// Our structures and the rivals' run under this one driver; they differ in the subject alone:
//
//     Subject subject(options)      made and destroyed on the main thread
//     subject.prepare()             on the thread that fills it, before anything else; left out
//                                   where the constructor does it all
//     Subject::worker w(subject)    on each thread that works, made and destroyed there
//     w.insert(key), w.erase(key)   true if they changed something
//     w.contains(key)
//     subject.stall(park)           calls park once, or more often, where it holds up freeing;
//                                   left out where no other thread could go on then
//     subject.count(on), counts()   for --count; left out where calls of free are not counted
//     subject.counted()             sums since the beginning; garbage() blocks not yet freed
//     subject.look()                figures to be seen over time, for --over-time; may be left out
//     subject.describe(result, n)   what a subject says of itself after a run, with n threads
#pragma once

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/trace.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "counting.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "random.hpp"
#include "registry.hpp"
#include "zipf.hpp"

namespace bench {

using steady = std::chrono::steady_clock;

/// Sums since a subject was made; nothing where it does not count.
struct sums {
  std::optional<std::uint64_t> retired;
  std::optional<std::uint64_t> freed;
  std::optional<std::uint64_t> epochs;
  // Of sections or transactions: those that wrote, and tries that were begun anew.
  std::optional<std::uint64_t> commits = std::nullopt;
  std::optional<std::uint64_t> conflicts = std::nullopt;
};

inline std::optional<std::uint64_t> growth(const std::optional<std::uint64_t>& from,
                                           const std::optional<std::uint64_t>& to) {
  if (!from || !to) return std::nullopt;
  return *to - *from;
}

/// One trial over one subject.
template <class Subject>
class set_trial {
 public:
  set_trial(const set_options& o, std::uint32_t trial)
      : options_(o), seed_(o.seed * 1000003 + trial), ranks_(o.keys, o.theta), subject_(o) {}

  trial_result run() {
    reset_peak_rss();
    // On a thread of its own, and the structure is made there, too: one that has used the domain
    // and goes on existing without operations would stop a ring of the paper's kind for good.
    std::thread([this] {
      if constexpr (requires(Subject& s) { s.prepare(); }) subject_.prepare();
      if (options_.check) check();
      prefill();
    }).join();
    if (!right_) throw std::runtime_error(options_.structure + " does not answer as a set does");
    std::vector<std::thread> workers;
    std::vector<progress> made(options_.threads);
    for (std::uint32_t i = 0; i < options_.threads; ++i) {
      workers.emplace_back([this, i, &made] { made[i] = work(i); });
    }
    if (options_.stall) workers.emplace_back([this] { stall(); });
    while (ready_.load_acquire() < workers.size()) std::this_thread::yield();
    go_.store_release(true);
    if (options_.warm_up > 0) {
      std::this_thread::sleep_for(std::chrono::duration<double>(options_.warm_up));
    }

    const sums before = subject_.counted();
    const std::uint64_t faults = page_faults();
    if (options_.count) result_.allocator = allocator_counts_now();
    // As the paper: 100 000 events a thread. Single frees below a microsecond are not worth a box.
    if (!options_.trace.empty()) {
      spolia::trace::start(
          {.capacity_per_thread = 100000, .min_ns = options_.count ? traced_ns : 1000});
    }
    const auto start = steady::now();
    count(true);
    warm_.store_relaxed(true);
    watch(start, before.epochs);
    stop_.store_release(true);
    const double elapsed = std::chrono::duration<double>(steady::now() - start).count();
    result_.page_faults = page_faults() - faults;
    if (!options_.trace.empty()) spolia::trace::stop();
    // Before the threads end and leave their blocks to others.
    const sums after = subject_.counted();
    subject_.describe(result_, workers.size());
    count(false);
    for (std::thread& w : workers) w.join();
    note_counts();

    result_.elapsed_s = elapsed;
    result_.size_end = filled_;
    for (const progress& p : made) {
      result_.operations += p.operations;
      result_.size_end += p.grown;  // modulo 2^64: it may have shrunk
    }
    result_.retired = growth(before.retired, after.retired);
    result_.freed = growth(before.freed, after.freed);
    result_.epochs = growth(before.epochs, after.epochs);
    result_.commits = growth(before.commits, after.commits);
    result_.conflicts = growth(before.conflicts, after.conflicts);
    result_.peak_rss_bytes = peak_rss_bytes();
    return std::move(result_);
  }

 private:
  using worker = typename Subject::worker;

  struct progress {
    std::uint64_t operations = 0;
    std::uint64_t grown = 0;
  };

  /// Compares every answer with those of std::set, on one thread, and leaves nothing behind.
  void check() {
    worker set(subject_);
    std::set<std::uint64_t> model;
    random_source random(seed_);
    for (std::uint32_t i = 0; i < 20000; ++i) {
      const std::uint64_t key = random.below(std::min<std::uint64_t>(options_.keys, 512));
      const std::uint64_t dice = random.below(3);
      if (dice == 0) right_ &= set.insert(key) == model.insert(key).second;
      if (dice == 1) right_ &= set.erase(key) == (model.erase(key) != 0);
      if (dice == 2) right_ &= set.contains(key) == model.contains(key);
    }
    for (const std::uint64_t key : model) right_ &= set.erase(key);
  }

  /// Half of the keys, in an order that gives a structure no chance to profit from it.
  void prefill() {
    worker set(subject_);
    random_source random(seed_);
    while (filled_ < options_.keys / 2) filled_ += set.insert(random.below(options_.keys)) ? 1 : 0;
  }

  progress work(std::uint32_t number) {
    worker set(subject_);
    random_source random(seed_ ^ (0xA24BAED4963EE407ULL * (number + 1)));
    const std::uint64_t updates = (std::uint64_t{options_.update} << 32U) / 100;
    progress done;
    std::uint64_t seen = 0;
    ready_.fetch_add_release(1);
    while (!go_.load_acquire()) std::this_thread::yield();
    bool warming = true;
    while (!stop_.load_relaxed()) {
      if (warming && warm_.load_relaxed()) [[unlikely]] {
        warming = false;
        done.operations = 0;
      }
      const std::uint64_t key = ranks_.draw_spread(random);
      const std::uint64_t dice = random.next();
      if ((dice & 0xFFFFFFFFU) >= updates) {
        seen += set.contains(key) ? 1 : 0;
      } else if ((dice >> 63U) != 0) {
        done.grown += set.insert(key) ? 1 : 0;
      } else {
        done.grown -= set.erase(key) ? 1 : 0;
      }
      ++done.operations;
    }
    if (warming) done.operations = 0;  // it had no processor in the measured time
    sink_.fetch_add_relaxed(seen);     // keeps the look-ups from being optimised away
    return done;
  }

  /// One thread that is parked inside a guard for the whole run.
  void stall() {
    if constexpr (requires(Subject& s, bool (*park)()) { s.stall(park); }) {
      subject_.stall([this] { return park(); });
    }
  }

  bool park() {
    ready_.fetch_add_release(stalled_.exchange_relaxed(true) ? 0 : 1);  // a search may start over
    while (!stop_.load_relaxed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return true;
  }

  /// Records the garbage every 5 ms. With --count or a trace, reads it every millisecond, to find
  /// the first reading after each epoch's beginning.
  void watch(steady::time_point start, const std::optional<std::uint64_t>& first_epoch) {
    const auto end = start + std::chrono::duration<double>(options_.seconds);
    const unsigned often = options_.count || !options_.trace.empty() ? 5 : 1;
    const auto period = std::chrono::microseconds(5000 / often);
    for (auto [next, look] = std::pair(start + period, 1U);; next += period, ++look) {
      std::this_thread::sleep_until(
          std::min<steady::time_point>(next, std::chrono::time_point_cast<steady::duration>(end)));
      const std::optional<std::uint64_t> garbage = subject_.garbage();
      const auto epoch = growth(first_epoch, subject_.counted().epochs);
      const auto now = steady::now();
      const bool last = now >= end;
      if (garbage) {
        result_.garbage_peak = std::max(result_.garbage_peak.value_or(0), *garbage);
        if (epoch) note_epoch(*epoch, *garbage);
        if (last || look % often == 0) {
          result_.garbage_over_time.emplace_back(
              std::chrono::duration<double, std::milli>(now - start).count(), *garbage);
        }
      }
      if (last || look % often == 0) note_looks(now - start);
      if (last) return;
    }
  }

  void note_looks(std::chrono::duration<double, std::milli> at) {
    if constexpr (requires { subject_.look(); }) {
      if (!options_.over_time) return;
      std::vector<double> seen = subject_.look();
      seen.insert(seen.begin(), at.count());
      result_.looks.push_back(std::move(seen));
    }
  }

  /// The garbage when it was first read after an epoch began. Epochs shorter than the time between
  /// two readings are left out.
  void note_epoch(std::uint64_t epoch, std::uint64_t garbage) {
    auto& seen = result_.garbage_per_epoch;
    if (seen.empty() || seen.back().first != epoch) seen.emplace_back(epoch, garbage);
  }

  void count(bool on) {
    if constexpr (requires(Subject& s) { s.count(on); }) {
      if (options_.count) subject_.count(on);
    }
  }

  void note_counts() {
    if constexpr (requires(Subject& s) { s.counts(); }) {
      if (!options_.count) return;
      result_.counted = subject_.counts();
      const auto after = allocator_counts_now();
      if (after && result_.allocator) result_.allocator = after->since(*result_.allocator);
    }
  }

  const set_options& options_;
  const std::uint64_t seed_;
  const zipf ranks_;
  Subject subject_;
  trial_result result_;
  bool right_ = true;
  std::uint64_t filled_ = 0;
  alignas(spolia::cache_line) spolia::atomic<std::size_t> ready_{0};
  spolia::atomic<bool> stalled_{false};
  spolia::atomic<std::uint64_t> sink_{0};
  alignas(spolia::cache_line) spolia::atomic<bool> go_{false};
  spolia::atomic<bool> warm_{false};
  spolia::atomic<bool> stop_{false};
};

template <class Subject>
trial_result run_trial(const set_options& o, std::uint32_t trial) {
  return std::make_unique<set_trial<Subject>>(o, trial)->run();
}

}  // namespace bench
