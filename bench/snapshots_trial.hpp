// SPDX-License-Identifier: Apache-2.0
// snapshots_trial.hpp: one trial of `spolia-bench snapshots`, over any subject:
//
//     Subject s                    made and destroyed on the main thread
//     s.insert(key), s.erase(key)  true if they changed something
//     s.contains(key)
//     s.change_together(n, keys)   n changes at one instant, of keys() each; optional
//     Subject::instant             a snapshot: s.snapshot(label), s.at(instant, key)
//     s.stats()                    the collector's; cheap
//     s.bytes()                    of blocks that are allocated; cheap
//     s.look(result)               counts what is needed while all stand still; optional
//     s.finish(result)             looks at everything, when all work is done
#pragma once

#include <spolia/base/atomic.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/version/concepts.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "machine.hpp"
#include "random.hpp"
#include "snapshots.hpp"
#include "stills.hpp"
#include "zipf.hpp"

namespace bench {

struct snapshot_result {
  double elapsed_s = 0;
  std::uint64_t operations = 0;
  std::uint64_t updates = 0;  ///< that changed something
  std::uint64_t lookups = 0;
  std::uint64_t rtxs = 0;
  std::uint64_t rtx_keys = 0;
  std::uint64_t small_rtx_keys = 0;  ///< by small readers
  std::uint64_t size_end = 0;
  std::uint64_t versions_current = 0;
  std::uint64_t versions_live = 0;
  std::uint64_t versions_needed = 0;
  std::uint64_t versions_peak = 0;
  std::uint64_t versions_held_peak = 0;
  std::uint64_t stills = 0;                ///< moments at which was counted what is needed
  std::uint64_t versions_needed_peak = 0;  ///< the most in these
  std::uint64_t versions_excess_peak = 0;  ///< and of those that were not needed
  std::uint64_t cuts = 0;                  ///< of lists, since the work began
  std::uint64_t passed = 0;                ///< versions that these have come to
  std::uint64_t bytes = 0;                 ///< of all blocks, when the work ended
  std::uint64_t bytes_peak = 0;            ///< during the run
  std::uint64_t bytes_needed = 0;          ///< of the current and the needed versions
  std::uint64_t bytes_waiting = 0;         ///< retired and not freed, when the work ended
  std::uint64_t peak_rss_bytes = 0;
  std::vector<std::pair<double, std::uint64_t>> bytes_over_time;  ///< ms, bytes
};

/// Counts the bytes of the blocks that are out.
class weighing_resource final : public std::pmr::memory_resource {
 public:
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    threads_.for_each([&](std::uint32_t, const of_thread& t) {
      sum += t.given.value() - t.taken.value();  // modulo 2^64
      return true;
    });
    return static_cast<std::int64_t>(sum) < 0 ? 0 : sum;
  }

 private:
  struct alignas(spolia::cache_line) of_thread {
    spolia::tally given;
    spolia::tally taken;
  };
  void* do_allocate(std::size_t bytes, std::size_t align) override {
    void* const block = spolia::memory::allocate(bytes, align);
    threads_.of(spolia::threads::number()).given.add(bytes);
    return block;
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t align) override {
    threads_.of(spolia::threads::number()).taken.add(bytes);
    spolia::memory::deallocate(block, bytes, align);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  spolia::cells<of_thread> threads_;
};

template <class Subject>
class snapshot_trial {
  using steady = std::chrono::steady_clock;

 public:
  snapshot_trial(const snapshot_options& o, std::uint32_t trial)
      : options_(o),
        seed_(o.seed * 1000003 + trial),
        keys_(o.keys, o.theta),
        subject_(o.keys),
        stills_(o.threads + o.readers + o.small_readers) {}

  snapshot_result run() {
    reset_peak_rss();
    std::thread([this] { prefill(); }).join();
    std::vector<std::thread> workers;
    const std::uint32_t first_small = options_.threads + options_.readers;
    std::vector<snapshot_result> made(first_small + options_.small_readers);
    for (std::uint32_t i = 0; i < made.size(); ++i) {
      workers.emplace_back([this, i, first_small, &made] {
        random_source random(seed_ ^ (0xA24BAED4963EE407ULL * (i + 1)));
        finish(i < options_.threads ? work(random) : read(random, i >= first_small), made[i]);
      });
    }
    std::optional<typename Subject::instant> held;
    if (options_.hold) held.emplace(subject_.snapshot("held"));
    while (ready_.load_acquire() < workers.size()) std::this_thread::yield();
    go_.store_release(true);
    if (warm_up() > 0) std::this_thread::sleep_for(std::chrono::duration<double>(warm_up()));
    const spolia::collector_stats before = subject_.stats();
    const auto start = steady::now();
    warm_.store_relaxed(true);
    watch(start);
    stop_.store_release(true);
    while (done_.load_acquire() < workers.size()) std::this_thread::yield();
    result_.elapsed_s = std::chrono::duration<double>(steady::now() - start - stood_).count();
    result_.bytes = subject_.bytes();
    const spolia::collector_stats after = subject_.stats();
    const std::uint64_t left = after.held();
    result_.cuts = after.cuts - before.cuts;
    result_.passed = after.passed - before.passed;
    subject_.finish(result_);
    leave_.store_release(true);  // threads that end leave what they track to others
    for (std::thread& w : workers) w.join();
    for (const snapshot_result& p : made) {
      result_.operations += p.operations;
      result_.updates += p.updates;
      result_.lookups += p.lookups;
      result_.rtxs += p.rtxs;
      result_.rtx_keys += p.rtx_keys;
      result_.small_rtx_keys += p.small_rtx_keys;
      result_.size_end += p.size_end;
    }
    result_.versions_live = result_.versions_current + left;
    result_.versions_peak = result_.versions_current + std::max(result_.versions_held_peak, left);
    result_.bytes_peak = std::max(result_.bytes_peak, result_.bytes);
    result_.peak_rss_bytes = peak_rss_bytes();
    return std::move(result_);
  }

 private:
  [[nodiscard]] double warm_up() const { return options_.warm_up.value_or(0); }

  /// What a thread did before the measured time, but for the keys that it has added, is forgotten.
  static void forget(snapshot_result& done) {
    const std::uint64_t grown = done.size_end;
    done = {};
    done.size_end = grown;
  }

  void prefill() {
    random_source random(seed_);
    while (result_.size_end < options_.keys / 2) {
      result_.size_end += subject_.insert(random.below(options_.keys)) ? 1 : 0;
    }
  }

  void begin() {
    ready_.fetch_add_release(1);
    while (!go_.load_acquire()) std::this_thread::yield();
  }
  void finish(snapshot_result done, snapshot_result& mine) {
    mine = std::move(done);
    stills_.leave();
    done_.fetch_add_release(1);
    while (!leave_.load_acquire()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  /// One read transaction; gives how many keys it has looked up.
  std::uint64_t transact(random_source& random, bool small, std::uint64_t& seen) {
    std::uint64_t size = small ? 16 : options_.rtx;
    if (!small && options_.rtx_most != 0) size += random.below(options_.rtx_most - size + 1);
    const auto now = subject_.snapshot("read transaction");
    for (std::uint64_t n = 0; n < size; ++n) {
      seen += subject_.at(now, keys_.draw_spread(random)) ? 1 : 0;
      stills_.step();
    }
    return size;
  }

  /// One batch; gives how many changes it has made.
  std::uint64_t batch(random_source& random) {
    if constexpr (requires { subject_.change_together(1U, [] { return std::uint64_t{0}; }); }) {
      subject_.change_together(options_.batch, [&] { return keys_.draw_spread(random); });
    }
    return options_.batch;
  }

  snapshot_result work(random_source& random) {
    snapshot_result done;
    const auto share = [](double per_cent) {
      return static_cast<std::uint64_t>(per_cent / 100 * 4294967296.0);
    };
    const std::uint64_t updates = share(options_.update);
    const std::uint64_t transactions = updates + share(options_.rtx_share);
    const std::uint64_t enough = options_.updates / options_.threads;
    std::uint64_t seen = 0;
    begin();
    bool cold = warm_up() > 0;
    while (!stop_.load_relaxed() && (enough == 0 || done.updates < enough)) {
      if (cold && warm_.load_relaxed()) [[unlikely]] {
        cold = false;
        forget(done);
      }
      stills_.step();
      const std::uint64_t dice = random.next();
      ++done.operations;
      if ((dice & 0xFFFFFFFFU) < updates) {
        if (options_.batch != 0) {
          done.updates += batch(random);
          continue;
        }
        const std::uint64_t key = keys_.draw_spread(random);
        const bool erase = (dice >> 63U) != 0;
        const bool changed = erase ? subject_.erase(key) : subject_.insert(key);
        done.updates += changed ? 1 : 0;
        if (changed) erase ? --done.size_end : ++done.size_end;  // modulo 2^64
      } else if ((dice & 0xFFFFFFFFU) < transactions) {
        done.rtx_keys += transact(random, false, seen);
        ++done.rtxs;
      } else {
        seen += subject_.contains(keys_.draw_spread(random)) ? 1 : 0;
        ++done.lookups;
      }
    }
    if (cold) forget(done);         // it had no processor in the measured time
    sink_.fetch_add_relaxed(seen);  // keeps the look-ups from being optimised away
    working_.fetch_sub_relaxed(1);
    return done;
  }

  /// Read transactions only.
  snapshot_result read(random_source& random, bool small) {
    snapshot_result done;
    std::uint64_t seen = 0;
    begin();
    bool cold = warm_up() > 0;
    while (!stop_.load_relaxed()) {
      if (cold && warm_.load_relaxed()) [[unlikely]] {
        cold = false;
        forget(done);
      }
      (small ? done.small_rtx_keys : done.rtx_keys) += transact(random, small, seen);
      ++done.rtxs;
      ++done.operations;
    }
    if (cold) forget(done);
    sink_.fetch_add_relaxed(seen);
    return done;
  }

  /// Looks every 5 ms until the time is up, or the updates are made.
  void watch(steady::time_point start) {
    const auto end =
        start + std::chrono::duration<double>(options_.updates == 0 ? options_.seconds : 3600.0);
    const auto every = std::chrono::milliseconds(options_.still_every);
    auto next_still = start + every;
    for (auto next = start;; next += std::chrono::milliseconds(5)) {
      std::this_thread::sleep_until(next);
      const auto now = steady::now();
      const std::uint64_t bytes = subject_.bytes();
      result_.bytes_peak = std::max(result_.bytes_peak, bytes);
      result_.versions_held_peak = std::max(result_.versions_held_peak, subject_.stats().held());
      result_.bytes_over_time.emplace_back(
          std::chrono::duration<double, std::milli>(now - start).count(), bytes);
      if (now - stood_ >= end || working_.load_relaxed() == 0) return;
      if (every.count() == 0 || now < next_still) continue;
      stand_still();
      next_still = next = steady::now();
      next_still += every;
    }
  }

  void stand_still() {
    stills_.take([&] {
      const auto start = steady::now();
      if constexpr (requires { subject_.look(result_); }) subject_.look(result_);
      stood_ += steady::now() - start;
    });
  }

  const snapshot_options& options_;
  const std::uint64_t seed_;
  const zipf keys_;
  Subject subject_;
  stills stills_;
  steady::duration stood_{0};  // in stills
  snapshot_result result_;
  alignas(spolia::cache_line) spolia::atomic<std::size_t> ready_{0};
  spolia::atomic<std::size_t> done_{0};
  spolia::atomic<std::uint64_t> sink_{0};
  spolia::atomic<std::uint64_t> working_{options_.threads};
  alignas(spolia::cache_line) spolia::atomic<bool> go_{false};
  spolia::atomic<bool> warm_{false};
  spolia::atomic<bool> stop_{false};
  spolia::atomic<bool> leave_{false};
};

template <class Subject>
snapshot_result run_snapshot_trial(const snapshot_options& o, std::uint32_t trial) {
  return std::make_unique<snapshot_trial<Subject>>(o, trial)->run();
}

}  // namespace bench
