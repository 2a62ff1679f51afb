// SPDX-License-Identifier: Apache-2.0
// sets.hpp: the workload of the field: threads insert, erase and look up uniform random keys in one
// structure that holds half of its key range. (Kim, Brown, Singh, PPoPP 2024, section 3)
#pragma once

#include <spolia/base/atomic.hpp>
#include <spolia/base/trace.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/release.hpp>

#include <chrono>
#include <memory>
#include <memory_resource>
#include <thread>
#include <utility>
#include <vector>

#include "counting.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "random.hpp"
#include "registry.hpp"

namespace bench {

template <class Scheme>
inline constexpr bool protects_abtree = spolia::protects_stepwise_search<Scheme>;
template <class Scheme>
inline constexpr bool protects_avl = spolia::protects_regions<Scheme>;
template <class Scheme>
inline constexpr bool protects_external_bst = spolia::protects_stepwise_search<Scheme>;
template <class Scheme>
inline constexpr bool protects_list = spolia::scheme<Scheme>;

using steady = std::chrono::steady_clock;

/// One trial over one structure, scheme and release policy.
template <class Structure, class Scheme, class Release>
class set_trial {
 public:
  using domain = spolia::domain<Scheme, Release>;
  using map = typename Structure::template of<domain>;

  set_trial(const set_options& o, std::uint32_t trial)
      : options_(o),
        seed_(o.seed * 1000003 + trial),
        counting_(o.count ? std::make_unique<counting_resource>() : nullptr),
        domain_(domain_options(o, counting_.get())) {}

  trial_result run() {
    reset_peak_rss();
    // On a thread of its own, and the structure is made there, too: one that has used the domain
    // and goes on existing without operations would stop a ring of the paper's kind for good.
    std::thread([this] {
      map_ = std::make_unique<map>(domain_);
      prefill();
    }).join();
    std::vector<std::thread> workers;
    std::vector<std::uint64_t> operations(options_.threads, 0);
    for (std::uint32_t i = 0; i < options_.threads; ++i) {
      workers.emplace_back([this, i, &operations] { operations[i] = work(i); });
    }
    if (options_.stall) workers.emplace_back([this] { stall(); });
    while (ready_.load_acquire() < workers.size()) std::this_thread::yield();

    const auto before = domain_.stats();
    if (counting_) result_.allocator = allocator_counts_now();
    // As the paper: 100 000 events a thread. Single frees below a microsecond are not worth a box.
    if (!options_.trace.empty()) {
      spolia::trace::start({.capacity_per_thread = 100000, .min_ns = counting_ ? traced_ns : 1000});
    }
    const auto start = steady::now();
    if (counting_) counting_->count(true);
    go_.store_release(true);
    watch(start, before.epochs);
    stop_.store_release(true);
    const double elapsed = std::chrono::duration<double>(steady::now() - start).count();
    if (!options_.trace.empty()) spolia::trace::stop();
    const auto after = domain_.stats();  // before the threads end and leave their blocks behind
    if (counting_) counting_->count(false);
    for (std::thread& w : workers) w.join();
    if (counting_) note_counts();

    result_.elapsed_s = elapsed;
    for (const std::uint64_t n : operations) result_.operations += n;
    result_.retired = after.retired - before.retired;
    result_.freed = after.freed - before.freed;
    result_.epochs = after.epochs - before.epochs;
    result_.pauses = after.pauses.count();
    result_.free_ns_p50 = after.pauses.quantile(0.5);
    result_.free_ns_p999 = after.pauses.quantile(0.999);
    result_.free_ns_max = after.pauses.max();
    // The main thread fills and watches, and the stalled reader is one more.
    result_.garbage_bound = domain_.garbage_bound(workers.size() + 1);
    result_.peak_rss_bytes = peak_rss_bytes();
    result_.size_end = map_->size_approx();
    return std::move(result_);
  }

 private:
  static typename domain::options domain_options(const set_options& o,
                                                 std::pmr::memory_resource* counting) {
    typename domain::options d;
    d.memory = counting;
    d.time_pauses_one_in = o.time_frees;
    if (o.batch == 0) return d;
    if constexpr (requires { d.scheme.batch = o.batch; }) d.scheme.batch = o.batch;
    if constexpr (requires { d.release.at_least = o.batch; }) {
      if constexpr (!requires { d.scheme.batch; }) d.release.at_least = o.batch;
    }
    return d;
  }

  /// Half of the keys, in an order that gives a structure no chance to profit from it.
  void prefill() {
    random_source random(seed_);
    for (std::uint64_t in = 0; in < options_.keys / 2;) {
      const std::uint64_t key = random.below(options_.keys);
      in += map_->insert(key, key) ? 1 : 0;
    }
  }

  std::uint64_t work(std::uint32_t number) {
    random_source random(seed_ ^ (0xA24BAED4963EE407ULL * (number + 1)));
    const std::uint64_t updates = (std::uint64_t{options_.update} << 32U) / 100;
    std::uint64_t done = 0;
    std::uint64_t seen = 0;
    ready_.fetch_add_release(1);
    while (!go_.load_acquire()) std::this_thread::yield();
    while (!stop_.load_relaxed()) {
      const std::uint64_t key = random.below(options_.keys);
      const std::uint64_t dice = random.next();
      if ((dice & 0xFFFFFFFFU) >= updates) {
        seen += map_->contains(key) ? 1 : 0;
      } else if ((dice >> 63U) != 0) {
        map_->insert(key, key);
      } else {
        map_->erase(key);
      }
      ++done;
    }
    sink_.fetch_add_relaxed(seen);  // keeps the look-ups from being optimised away
    return done;
  }

  /// One thread that is parked inside a guard for the whole run: while it looks at a pair, or,
  /// where a search can be made to start over, while it searches.
  void stall() {
    if constexpr (spolia::protects_by_restart<Scheme>) {
      auto guard = domain_.enter("stalled");
      guard.read([this] { return park(); });
    } else {
      for (std::uint64_t key = 0; !map_->visit(key, [this](const auto&) { park(); }); ++key) {
      }
    }
  }

  bool park() {
    ready_.fetch_add_release(stalled_.exchange_relaxed(true) ? 0 : 1);  // a search may start over
    while (!stop_.load_relaxed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return true;
  }

  /// Looks at the garbage every 5 ms; every millisecond where epochs are looked at, too.
  void watch(steady::time_point start, std::uint64_t first_epoch) {
    const auto end = start + std::chrono::duration<double>(options_.seconds);
    const unsigned often = counting_ || !options_.trace.empty() ? 5 : 1;
    const auto period = std::chrono::microseconds(5000 / often);
    for (auto [next, look] = std::pair(start + period, 1U);; next += period, ++look) {
      std::this_thread::sleep_until(
          std::min<steady::time_point>(next, std::chrono::time_point_cast<steady::duration>(end)));
      const std::uint64_t garbage = domain_.garbage();
      result_.garbage_peak = std::max(result_.garbage_peak, garbage);
      note_epoch(domain_.stats().epochs - first_epoch, garbage);
      const auto now = steady::now();
      const bool last = now >= end;
      if (last || look % often == 0) {
        result_.garbage_over_time.emplace_back(
            std::chrono::duration<double, std::milli>(now - start).count(), garbage);
      }
      if (last) return;
    }
  }

  /// The garbage at the first look after an epoch began. Epochs shorter than the time between two
  /// looks are passed over.
  void note_epoch(std::uint64_t epoch, std::uint64_t garbage) {
    auto& seen = result_.garbage_per_epoch;
    if (seen.empty() || seen.back().first != epoch) seen.emplace_back(epoch, garbage);
  }

  void note_counts() {
    result_.counted = counting_->counts();
    const auto after = allocator_counts_now();
    if (after && result_.allocator) result_.allocator = after->since(*result_.allocator);
  }

  const set_options& options_;
  const std::uint64_t seed_;
  const std::unique_ptr<counting_resource> counting_;  // null: the domain asks operator new itself
  domain domain_;
  std::unique_ptr<map> map_;
  trial_result result_;
  alignas(spolia::cache_line) spolia::atomic<std::size_t> ready_{0};
  spolia::atomic<bool> stalled_{false};
  spolia::atomic<std::uint64_t> sink_{0};
  alignas(spolia::cache_line) spolia::atomic<bool> go_{false};
  spolia::atomic<bool> stop_{false};
};

template <class Structure, class Scheme, class Release>
void add_cell() {
  cell c{Structure::name, std::string(Scheme::info.name),          std::string(Release::name),
         &Scheme::info,   Structure::template protectable<Scheme>, nullptr};
  if constexpr (Structure::template protectable<Scheme>) {
    c.run = [](const set_options& o, std::uint32_t trial) {
      return std::make_unique<set_trial<Structure, Scheme, Release>>(o, trial)->run();
    };
  }
  cells().push_back(c);
}

/// Called before main by each generated source.
template <class Structure, class Scheme>
bool add_cells() {
  add_cell<Structure, Scheme, spolia::batch>();
  add_cell<Structure, Scheme, spolia::amortized>();
  add_cell<Structure, Scheme, spolia::pooled>();
  return true;
}

}  // namespace bench
