// SPDX-License-Identifier: Apache-2.0
/// \file
/// Statistics that cost their thread next to nothing: one thread writes, any thread reads, and one
/// that wants a sum adds up the threads' counters on demand.
///
///     tally freed;            freed.add(3);           freed.value() == 3
///     high_mark most;         most.raise(17);         most.value() == 17
///     histogram pauses;       pauses.record(1500);    // nanoseconds, or any other magnitude
///     histogram_snapshot all; all.merge(pauses);      all.quantile(0.99); all.max(); all.count();
///
/// Thread safety: add, raise and record belong to one thread at a time (the owner; passing
/// ownership on needs a happens-before edge). Everything else may be called by any thread at any
/// time. A reader sees a recent value, and nothing else: counters order nothing but a reader's own
/// looks at them, and are never changed by a read-modify-write. Errors: none. Progress: wait-free.
/// Memory: fixed, in the object; only histogram_on_demand allocates, once.
///
/// In the model build variant they are invisible to the model checker: statistics must not multiply
/// the executions that it has to look at.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <new>

#include <spolia/base/bits.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// A figure for people to look at: the last one that was set, by any thread. Orders nothing.
template <class T>
class latest {
 public:
  constexpr explicit latest(T first = T{}) noexcept : value_(first) {}
  latest(const latest&) = delete;
  latest& operator=(const latest&) = delete;

  SPOLIA_ALWAYS_INLINE void set(T v) noexcept { value_.store(v, std::memory_order_relaxed); }
  [[nodiscard]] T value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<T> value_;
};

/// A sum. Cost of add: a load, an addition and a store.
class tally {
 public:
  tally() = default;
  tally(const tally&) = delete;
  tally& operator=(const tally&) = delete;

  SPOLIA_ALWAYS_INLINE void add(std::uint64_t n = 1) noexcept {
    sum_.store(sum_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  /// Counters that are read one after another are read in that order: see held_at_once().
  [[nodiscard]] std::uint64_t value() const noexcept {
    return sum_.load(std::memory_order_acquire);
  }

 private:
  std::atomic<std::uint64_t> sum_{0};
};

/// A sum that any thread adds to, for what happens seldom. Cost of add: a read-modify-write.
class shared_tally {
 public:
  shared_tally() = default;
  shared_tally(const shared_tally&) = delete;
  shared_tally& operator=(const shared_tally&) = delete;

  void add(std::uint64_t n = 1) noexcept { sum_.fetch_add(n, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t value() const noexcept {
    return sum_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> sum_{0};
};

/// The largest value so far; 0 before the first.
class high_mark {
 public:
  high_mark() = default;
  high_mark(const high_mark&) = delete;
  high_mark& operator=(const high_mark&) = delete;

  void raise(std::uint64_t v) noexcept {
    if (v > top_.load(std::memory_order_relaxed)) top_.store(v, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t value() const noexcept {
    return top_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> top_{0};
};

/// What has come in and has not gone out, by counters that stand in many cells while their owners
/// go on counting: as much as there was at one moment of the call, or less, never more. (Cell by
/// cell it could be far too much: a thread that is interrupted between two counters misses all that
/// goes out meanwhile, and counts what comes in.) `cells` has for_each(f(number, cell)); `in` and
/// `out` read a cell's counters.
template <class Cells, class In, class Out>
[[nodiscard]] std::uint64_t held_at_once(const Cells& cells, In&& in, Out&& out) {
  const auto sum_of = [&](auto& count) {
    std::uint64_t sum = 0;
    cells.for_each([&](std::uint32_t, const auto& cell) {
      sum += count(cell);
      return true;
    });
    return sum;
  };
  const std::uint64_t came = sum_of(in);
  const std::uint64_t went = sum_of(out);  // the moment is before this
  return came > went ? came - went : 0;
}

namespace detail {

/// Buckets in the manner of HdrHistogram: each power of two is cut into eight equal parts, values
/// below eight have a bucket each. So a bucket's width is at most an eighth of its lower edge.
struct log_linear {
  static constexpr unsigned split_bits = 3;
  static constexpr unsigned split = 1U << split_bits;
  static constexpr std::size_t buckets = (64 - split_bits + 1) * split;

  static constexpr std::size_t bucket_of(std::uint64_t v) noexcept {
    if (v < split) return v;
    const unsigned shift = bit_length(v) - 1 - split_bits;
    return shift * split + (v >> shift);
  }
  static constexpr std::uint64_t first_of(std::size_t bucket) noexcept {
    if (bucket < split) return bucket;
    const std::size_t shift = bucket / split - 1;
    return (bucket - shift * split) << shift;
  }
  static constexpr std::uint64_t last_of(std::size_t bucket) noexcept {
    return bucket + 1 == buckets ? ~std::uint64_t{0} : first_of(bucket + 1) - 1;
  }
};

}  // namespace detail

/// How often each magnitude was seen, to within an eighth; the maximum is exact. 4 KiB.
/// Cost of record: a handful of instructions and two stores at most on two cache lines.
class histogram {
 public:
  histogram() = default;
  histogram(const histogram&) = delete;
  histogram& operator=(const histogram&) = delete;

  void record(std::uint64_t v) noexcept {
    top_.raise(v);
    count_[detail::log_linear::bucket_of(v)].add(1);
  }

 private:
  friend class histogram_snapshot;

  high_mark top_;
  std::array<tally, detail::log_linear::buckets> count_;
};

/// A histogram that is made when its first value is recorded: until then it takes a word. If there
/// is no memory for it, the value is not recorded.
class histogram_on_demand {
 public:
  histogram_on_demand() = default;
  ~histogram_on_demand() { delete made_.load(std::memory_order_relaxed); }
  histogram_on_demand(const histogram_on_demand&) = delete;
  histogram_on_demand& operator=(const histogram_on_demand&) = delete;

  void record(std::uint64_t v) noexcept {
    histogram* all = made_.load(std::memory_order_relaxed);
    if (all == nullptr) {
      all = new (std::nothrow) histogram;
      if (all == nullptr) return;
      // release → the acquire in get(): a thread that finds it finds its counters at zero.
      made_.store(all, std::memory_order_release);
    }
    all->record(v);
  }
  /// Null: nothing was recorded.
  [[nodiscard]] const histogram* get() const noexcept {
    return made_.load(std::memory_order_acquire);  // ← the release in record()
  }

 private:
  std::atomic<histogram*> made_{nullptr};
};

/// The sum of any number of histograms, as they were while merge() ran. An ordinary value:
/// copyable, and not to be shared between threads without a lock. 4 KiB.
///
/// While owners are still recording, values recorded during the merge may be in or out, and max()
/// may already know a value that count() does not. All is exact once the owners are quiet.
class histogram_snapshot {
 public:
  void merge(const histogram& other) noexcept {
    for (std::size_t b = 0; b < count_.size(); ++b) add(b, other.count_[b].value());
    top_ = (std::max)(top_, other.top_.value());
  }
  void merge(const histogram_snapshot& other) noexcept {
    for (std::size_t b = 0; b < count_.size(); ++b) add(b, other.count_[b]);
    top_ = (std::max)(top_, other.top_);
  }

  [[nodiscard]] std::uint64_t count() const noexcept { return total_; }

  /// The largest value seen; 0 if there is none.
  [[nodiscard]] std::uint64_t(max)() const noexcept { return total_ == 0 ? 0 : top_; }

  /// A value v such that at least the share `q` (clamped to 0..1) of all values is <= v; never less
  /// than the exact quantile, at most an eighth above it, and never above max(). 0 if there is no
  /// value.
  [[nodiscard]] std::uint64_t quantile(double q) const noexcept {
    if (total_ == 0) return 0;
    const double wanted = std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(total_));
    std::uint64_t seen = 0;
    for (std::size_t b = 0; b < count_.size(); ++b) {
      seen += count_[b];
      if (seen != 0 && static_cast<double>(seen) >= wanted) {
        return (std::min)(detail::log_linear::last_of(b), top_);
      }
    }
    return top_;
  }

 private:
  void add(std::size_t bucket, std::uint64_t n) noexcept {
    if (n == 0) return;
    count_[bucket] += n;
    total_ += n;
    // A reader can see a bucket's new count before the new maximum: the bucket's lower edge keeps
    // quantile() from falling below the values that it counts.
    top_ = (std::max)(top_, detail::log_linear::first_of(bucket));
  }

  std::array<std::uint64_t, detail::log_linear::buckets> count_{};
  std::uint64_t total_ = 0;
  std::uint64_t top_ = 0;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
