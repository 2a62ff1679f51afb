// SPDX-License-Identifier: Apache-2.0
// counted_pauses.hpp: how long a thread is held up while a large structure ends.
//
//   destroy   each thread gives up a tree of its own, and then goes on with small changes, each of
//             which is timed by the clock on the wall, and by the thread's time on a processor; the
//             tree is made anew, untimed, and so on
#pragma once

#include <spolia/base/atomic.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/fence.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "counted_trial.hpp"
#include "machine.hpp"

namespace bench {

/// Tells its thread when it ends.
template <class Family>
struct mortal {
  using pointer = typename Family::template pointer<mortal>;
  mortal(spolia::atomic<std::uint64_t>& e, pointer l, pointer r)
      : ended(e), left(std::move(l)), right(std::move(r)) {}
  mortal(const mortal&) = delete;
  mortal& operator=(const mortal&) = delete;
  ~mortal() { ended.fetch_add_relaxed(1); }

  spolia::atomic<std::uint64_t>& ended;
  typename Family::template location<mortal> left;
  typename Family::template location<mortal> right;
};

/// How many durations were shorter than each power of two, and not than the one before.
class magnitudes {
 public:
  void add(std::uint64_t duration) noexcept {
    ++shorter_[std::min(static_cast<std::size_t>(std::bit_width(duration)), shorter_.size() - 1)];
  }
  void add(const magnitudes& others) noexcept {
    for (std::size_t i = 0; i < shorter_.size(); ++i) shorter_[i] += others.shorter_[i];
  }
  /// Pairs of such an end, in ns, and how many, where there are any.
  [[nodiscard]] nlohmann::json below_ns(double ns_per_unit = 1) const {
    auto pairs = nlohmann::json::array();
    for (std::size_t i = 0; i < shorter_.size(); ++i) {
      if (shorter_[i] == 0) continue;
      pairs.push_back({std::ldexp(ns_per_unit, static_cast<int>(i)), shorter_[i]});
    }
    return pairs;
  }

 private:
  std::array<std::uint64_t, 48> shorter_{};
};

template <class Family>
class destroyer {
  using node = mortal<Family>;
  using pointer = typename node::pointer;

 public:
  explicit destroyer(std::uint64_t nodes) : nodes_(nodes) {}

  std::uint64_t round() {
    using steady = std::chrono::steady_clock;
    const std::uint64_t changes = nodes_ / 2 + 1;
    Family::template set<node>(root_, tree(nodes_));
    for (std::uint64_t i = 0; i < changes; ++i) {
      const std::uint64_t worked = processor_ns();
      const auto start = steady::now();
      i == 0 ? Family::template set<node>(root_, pointer())
             : Family::template set<node>(slot_, tree(1));
      const auto lasted =
          static_cast<std::uint64_t>(std::chrono::nanoseconds(steady::now() - start).count());
      pauses.record(lasted);
      shorter.add(lasted);
      // The two clocks are read one after the other, and theirs differ.
      work.record(std::min(lasted, processor_ns() - worked));
      if (i % 256 == 0) fences.record(time_of_fence());
      if (i % 64 == 0) {
        const std::uint64_t in_use = i == 0 && made_ == nodes_ ? 0 : 1;
        most_left = std::max(most_left, made_ - ended_.load_relaxed() - in_use);
      }
    }
    return changes;
  }

  /// At the end; what the collector still holds ends later, and before this.
  void give_up() { Family::template set<node>(slot_, pointer()); }

  magnitudes shorter;        // the pauses
  spolia::histogram pauses;  // by the clock on the wall, also when the system let others run
  spolia::histogram work;    // of these, what the thread did itself
  /// Heavy fences of the same thread, between its changes. The collector makes one an epoch, and
  /// the system then waits for all other processors: if the machine is a guest, also for one that
  /// its host lets rest.
  spolia::histogram fences;
  std::uint64_t most_left = 0;  // nodes that nothing leads to and that have not ended

 private:
  static std::uint64_t time_of_fence() {
    const std::uint64_t worked = processor_ns();
    spolia::fence::heavy();
    return processor_ns() - worked;
  }

  pointer tree(std::uint64_t nodes) {
    if (nodes == 0) return {};
    ++made_;
    const std::uint64_t below = nodes - 1;
    return Family::template make<node>(ended_, tree(below / 2), tree(below - below / 2));
  }

  const std::uint64_t nodes_;
  std::uint64_t made_ = 0;
  spolia::atomic<std::uint64_t> ended_{0};
  typename Family::template location<node> root_{};
  typename Family::template location<node> slot_{};
};

template <class Family>
counted_result destruction(const counted_options& o, std::uint32_t threads) {
  // They outlive what the collector still holds, which is drained after each trial.
  static std::vector<std::unique_ptr<destroyer<Family>>> each;
  each.clear();
  for (std::uint32_t t = 0; t < threads; ++t) {
    each.push_back(std::make_unique<destroyer<Family>>(o.keys));
  }
  counted_result r = run_threads(
      o, threads, [&](std::uint32_t t) { return [one = each[t].get()] { return one->round(); }; });
  spolia::histogram_snapshot pauses;
  spolia::histogram_snapshot work;
  spolia::histogram_snapshot fences;
  magnitudes shorter;
  std::uint64_t left = 0;
  for (const auto& one : each) {
    one->give_up();
    pauses.merge(one->pauses);
    work.merge(one->work);
    fences.merge(one->fences);
    left += one->most_left;
    shorter.add(one->shorter);
  }
  for (const auto& [name, share] :
       {std::pair{"p50_ns", 0.5}, {"p99_ns", 0.99}, {"p999_ns", 0.999}, {"p9999_ns", 0.9999}}) {
    r.figures[std::string("pause_") + name] = pauses.quantile(share);
    r.figures[std::string("work_") + name] = work.quantile(share);
  }
  r.figures["pauses_below_ns"] = shorter.below_ns();
  r.figures["pause_max_ns"] = pauses.max();
  r.figures["work_max_ns"] = work.max();
  r.figures["fence_p50_ns"] = fences.quantile(0.5);
  r.figures["fence_max_ns"] = fences.max();
  r.figures["unreclaimed_peak"] = left;
  return r;
}

}  // namespace bench
