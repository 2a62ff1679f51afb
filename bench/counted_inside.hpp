// SPDX-License-Identifier: Apache-2.0
// counted_inside.hpp: what the collector does meanwhile. (Tripp, Hyde, Grossman-Ponemon, ISMM 2018,
// sections 4.5 and 4.6)
//
//   parts    the threads together fill a search tree, look each key up and empty it; what takes
//            their time is told apart, and how many times a pointer held its thread up for how long
//   stream   each thread gives up one object after another; how many end in each epoch
//   burst    the threads take a tenth of the keys out of a search tree, which is then given up as a
//            whole, beside small changes; how many nodes end in each epoch
#pragma once

#include <spolia/base/atomic.hpp>
#include <spolia/base/ticks.hpp>
#include <spolia/map/counted_bst.hpp>
#include <spolia/memory.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "counted_maps.hpp"
#include "counted_pauses.hpp"

namespace bench {

inline std::uint64_t waiting_units() { return spolia::counted::statistics().waiting(); }

/// Where pointers count.
enum class counts : std::uint8_t { up, made, set };
inline constexpr std::size_t kinds_of_counts = 3;

/// What these took, in ticks, how many there were, and how long each was.
struct spent {
  std::uint64_t ticks = 0;
  std::uint64_t times = 0;
  magnitudes shorter;

  void add(std::uint64_t took) noexcept {
    ticks += took;
    ++times;
    shorter.add(took);
  }
  void add(const spent& others) noexcept {
    ticks += others.ticks;
    times += others.times;
    shorter.add(others.shorter);
  }
};

/// Of one thread; at its end that goes to the sum.
class spent_here {
 public:
  using kinds = std::array<spent, kinds_of_counts>;

  spent_here() = default;
  spent_here(const spent_here&) = delete;
  spent_here& operator=(const spent_here&) = delete;
  ~spent_here() {
    const std::scoped_lock held(adding);
    for (std::size_t i = 0; i < kinds_of_counts; ++i) sum[i].add(each[i]);
  }

  /// Of all threads that have ended since the last call.
  static kinds take_sum() {
    const std::scoped_lock held(adding);
    return std::exchange(sum, {});
  }

  kinds each;
  static thread_local spent_here own;

 private:
  static inline std::mutex adding;
  static inline kinds sum;
};
inline thread_local spent_here spent_here::own;

/// While it lives, its thread spends time.
class span {
 public:
  explicit span(counts kind) noexcept
      : to_(spent_here::own.each[static_cast<std::size_t>(kind)]), start_(spolia::ticks::read()) {}
  span(const span&) = delete;
  span& operator=(const span&) = delete;
  ~span() { to_.add(spolia::ticks::read() - start_); }

  /// What one takes that has nothing in it: the median of many.
  static std::uint64_t ticks_of_none() {
    std::array<std::uint64_t, 1001> each{};
    for (std::uint64_t& ticks : each) {
      const std::uint64_t start = spolia::ticks::read();
      touch();
      ticks = spolia::ticks::read() - start;
    }
    std::nth_element(each.begin(), each.begin() + each.size() / 2, each.end());
    return each[each.size() / 2];
  }

 private:
  spent& to_;
  const std::uint64_t start_;
};

/// A family whose pointers are timed where they count.
template <class Family>
struct timed_family : Family {
  template <class T>
  static auto copy(const typename Family::template location<T>& from) {
    const span timer(counts::up);
    return Family::template copy<T>(from);
  }
  template <class T, class... Args>
  static auto make(Args&&... args) {
    const span timer(counts::made);
    return Family::template make<T>(std::forward<Args>(args)...);
  }
  template <class T>
  static void set(typename Family::template location<T>& to,
                  typename Family::template pointer<T> p) {
    const span timer(counts::set);
    Family::template set<T>(to, std::move(p));
  }
};

template <class Family>
counted_result time_by_parts(const counted_options& o, std::uint32_t threads) {
  using map_type = spolia::counted_bst<std::uint64_t, std::uint64_t, timed_family<Family>>;
  const std::vector<std::uint64_t> keys = shuffled(o.keys);
  const std::uint64_t none = span::ticks_of_none();
  spent_here::take_sum();
  spolia::counted::time_tasks(true);
  const spolia::counted::collector_counts before = spolia::counted::statistics();
  counted_result sum;
  while (sum.elapsed_s < o.seconds) {
    map_type map;
    const auto pass = [&](auto operation) {
      const counted_result r = one_pass(keys, threads, operation);
      sum.operations += r.operations;
      sum.elapsed_s += r.elapsed_s;
      sum.thread_ns += r.thread_ns;
    };
    pass([&](std::uint64_t key) { map.insert(key, key); });
    pass([&](std::uint64_t key) { map.visit(key, [](auto& v) { use(v); }); });
    pass([&](std::uint64_t key) { map.erase(key); });
  }
  const spolia::counted::collector_counts after = spolia::counted::statistics();
  spolia::counted::time_tasks(false);
  const double ns = spolia::core::ns_per_tick();
  double rest = sum.thread_ns;
  const auto part = [&](const char* name, std::uint64_t ticks, std::uint64_t times = 0) {
    const std::uint64_t timing = std::min(ticks, times * none);
    sum.figures[name] = static_cast<double>(ticks - timing) * ns;
    rest -= static_cast<double>(ticks + times * none) * ns;
  };
  const spent_here::kinds each = spent_here::take_sum();
  part("count_ns", each[0].ticks, each[0].times);
  part("make_ns", each[1].ticks, each[1].times);
  part("set_ns", each[2].ticks, each[2].times);
  part("scan_ns", after.scan_ticks - before.scan_ticks);
  part("sweep_ns", after.sweep_ticks - before.sweep_ticks);
  part("end_ns", after.end_ticks - before.end_ticks);
  sum.figures["rest_ns"] = std::max(0.0, rest);
  magnitudes all;
  for (const spent& one : each) all.add(one.shorter);
  sum.figures["pauses_below_ns"] = all.below_ns(ns);
  return sum;
}

/// How many objects ended in each epoch of the collector, from the first look on.
class ended_by_epoch {
 public:
  static constexpr std::size_t most = 4096;  // what ends in later ones is put to the last

  void one() noexcept {
    const std::uint64_t epoch = spolia::counted::statistics().epochs - first_;
    each_[std::min<std::uint64_t>(epoch, most - 1)].fetch_add_relaxed(1);
  }
  [[nodiscard]] std::vector<std::uint64_t> each() const {
    std::vector<std::uint64_t> all;
    for (const auto& n : each_) all.push_back(n.load_relaxed());
    while (!all.empty() && all.back() == 0) all.pop_back();
    return all;
  }

 private:
  const std::uint64_t first_ = spolia::counted::statistics().epochs;
  std::array<spolia::atomic<std::uint64_t>, most> each_{};
};

/// Copies of it tell where they end, and so does one that was made with `tells`.
class teller {
 public:
  explicit teller(ended_by_epoch& book, bool tells = false) noexcept : book_(book), tells_(tells) {}
  teller(const teller& o) noexcept : book_(o.book_), tells_(true) {}
  teller& operator=(const teller&) = delete;
  ~teller() {
    if (tells_) book_.one();
  }

 private:
  ended_by_epoch& book_;
  const bool tells_;
};

template <class Family>
counted_result small_stream(const counted_options& o, std::uint32_t threads) {
  ended_by_epoch book;
  spolia::atomic<std::uint64_t> left{0};
  counted_result r = run_threads(o, threads, [&](std::uint32_t t) {
    auto slot = std::make_shared<typename Family::template location<teller>>();
    return [&, slot, t] {
      for (int i = 0; i < 64; ++i) {
        Family::template set<teller>(*slot, Family::template make<teller>(book, true));
      }
      if (t == 0) left.store_relaxed(std::max(left.load_relaxed(), waiting_units()));
      return std::uint64_t{64};
    };
  });
  spolia::counted::drain();
  r.figures = {{"ended_per_epoch", book.each()}, {"waiting_peak", left.load_relaxed()}};
  return r;
}

template <class Family>
counted_result sudden_burst(const counted_options& o, std::uint32_t threads) {
  using map_type = spolia::counted_bst<std::uint64_t, teller, Family>;
  ended_by_epoch book;
  const std::vector<std::uint64_t> keys = shuffled(o.keys);
  const std::vector<std::uint64_t> some(keys.begin(), keys.begin() + (keys.size() + 9) / 10);
  auto map = std::make_unique<map_type>();
  for (const std::uint64_t key : keys) map->insert(key, teller(book));
  counted_result r = one_pass(some, threads, [&](std::uint64_t key) { map->erase(key); });
  const std::size_t before = book.each().size();
  map.reset();
  typename Family::template location<long> slot{};
  std::uint64_t left = 0;
  for (std::uint64_t i = 0; i < o.keys && waiting_units() > 0; ++i) {
    Family::template set<long>(slot, Family::template make<long>(1L));
    left = std::max(left, waiting_units());
  }
  spolia::counted::drain();
  r.figures = {{"ended_per_epoch", book.each()}, {"epochs_before", before}, {"waiting_peak", left}};
  return r;
}

}  // namespace bench
