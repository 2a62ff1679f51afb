// SPDX-License-Identifier: Apache-2.0
// delta_one_shot_tuning.hpp: the tuning of the one-shot storage: how long a partition's allocation
// period is (delta_turns), into which partition a version goes (delta_lanes), and from when on a
// snapshot counts as held (delta_patience). The storage itself: delta_one_shot.hpp.
//
// Correctness does not depend on this file: whether a partition is dropped depends on the versions
// in it, and a version may be in any partition. So all values here may be out of date.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class delta_partition;

/// The allocation streams, which the code calls lanes: into which partition a version goes.
/// Versions that held snapshots need go to other partitions than those that no snapshot will need
/// soon.
///
/// Idea:    a partition can be dropped while a snapshot T is held if it has no version that T sees.
///          Where many rows are changed now and then, T's version of one of them is in nearly every
///          partition, and none could be dropped. But when a version ends it is known whether T
///          sees it: it does if the version began at or before T. So such versions go to a
///          partition of another stream, that of T, which stays as long as T does, and the others
///          are dropped. Stream 0 takes the versions that only young snapshots need, or none; most
///          of these snapshots end soon. With several held snapshots, a version goes to the stream
///          of the oldest that sees it. So that snapshot needs all versions of its stream; they are
///          dropped when no snapshot is left that sees any of them. With more snapshots than
///          streams, the youngest share one.
/// Stripes: writers that share a partition write to the same cache lines when they register, and
///          get memory that another processor wrote last. So stream 0 has several current
///          partitions, one for each stripe, and each writer has a stripe. A partition comes back
///          to the same stripe.
/// Threads: lane_of(), current() and has() by any thread; the rest by the one that has begun a
///          change of periods (delta_turns::begin()).
class delta_lanes {
 public:
#if defined(SPOLIA_MODEL)
  static constexpr unsigned most = 2;
#else
  static constexpr unsigned most = 5;
#endif

  static constexpr unsigned most_stripes = 8;

  /// `count`: of streams, from 1 to `most`. `stripes`: of stream 0, from 1 to `most_stripes`.
  delta_lanes(unsigned count, unsigned stripes) noexcept : count_(count), stripes_(stripes) {}

  [[nodiscard]] unsigned count() const noexcept { return count_; }
  // acquire ← the release in turn(): the partition is constructed.
  [[nodiscard]] delta_partition* current(unsigned lane, unsigned stripe) const noexcept {
    return (lane == 0 ? young_[stripe] : lanes_[lane].now).load_acquire();
  }
  /// The stripe whose current partition it is in stream 0; `most_stripes`: there is none.
  [[nodiscard]] unsigned stripe_of(const delta_partition& p) const noexcept {
    for (unsigned s = 0; s < stripes_; ++s) {
      if (young_[s].load_relaxed() == &p) return s;
    }
    return most_stripes;
  }
  /// Whether it is any stream's current partition.
  [[nodiscard]] bool has(const delta_partition& p) const noexcept {
    for (unsigned l = 1; l < count_; ++l) {
      if (lanes_[l].now.load_relaxed() == &p) return true;
    }
    return stripe_of(p) != most_stripes;
  }
  /// The stream for a version that began then, and ends now.
  [[nodiscard]] unsigned lane_of(std::uint64_t since) const noexcept {
    if (since > youngest_.load_relaxed() || SPOLIA_FAULT("lanes.all_in_one")) return 0;
    unsigned found = 0;
    std::uint64_t least = ~std::uint64_t{0};
    for (unsigned l = 1; l < count_; ++l) {
      const std::uint64_t of = lanes_[l].of.load_relaxed();
      if (since <= of && of <= least) {
        found = l;
        least = of;
      }
    }
    return found;
  }

  /// Makes this the stream's current partition; null: the stream has none any more.
  void turn(unsigned lane, delta_partition* p, unsigned stripe = 0) noexcept {
    // release → the acquire in current().
    (lane == 0 ? young_[stripe] : lanes_[lane].now).store_release(p);
  }
  /// How many bytes the stream has put into its partitions before this one: to be added to.
  std::uint64_t& filled(unsigned lane) noexcept { return lanes_[lane].filled; }

  /// Closes the streams of snapshots that have ended.
  void close_all_but(const std::vector<std::uint64_t>& held) noexcept {
    for (unsigned l = 1; l < count_; ++l) {
      const std::uint64_t of = lanes_[l].of.load_relaxed();
      if (of == 0 || std::binary_search(held.begin(), held.end(), of)) continue;
      lanes_[l].of.store_relaxed(0);
      turn(l, nullptr);
    }
    find_youngest();
  }
  /// Gives the held snapshot a stream. open() makes its partition; null: there is none.
  template <class Open>
  void give_lane(std::uint64_t held, Open&& open) noexcept {
    unsigned free = 0;
    unsigned last = 0;
    for (unsigned l = 1; l < count_; ++l) {
      const std::uint64_t of = lanes_[l].of.load_relaxed();
      if (of == held) return;
      if (of == 0) free = l;
      if (of > lanes_[last].of.load_relaxed()) last = l;
    }
    if (free != 0) {
      delta_partition* const p = open();
      if (p == nullptr) return;
      lanes_[free].filled = 0;
      turn(free, p);
      lanes_[free].of.store_relaxed(held);
    } else if (last != 0 && lanes_[last].of.load_relaxed() < held) {
      lanes_[last].of.store_relaxed(held);
    }
    find_youngest();
  }

 private:
  struct one {
    atomic<delta_partition*> now{nullptr};
    atomic<std::uint64_t> of{0};  // the snapshot; 0: none
    std::uint64_t filled = 0;
  };

  void find_youngest() noexcept {
    std::uint64_t last = 0;
    for (unsigned l = 1; l < count_; ++l) last = (std::max)(last, lanes_[l].of.load_relaxed());
    youngest_.store_relaxed(last);
  }

  const unsigned count_;
  const unsigned stripes_;
  atomic<std::uint64_t> youngest_{0};
  std::array<one, most> lanes_{};  // lane 0 is in young_
  std::array<atomic<delta_partition*>, most_stripes> young_{};
};

/// How long an allocation period is, and which thread ends it. The period of a partition is the
/// time in which new transactions register with it. The code calls it a turn.
///
/// Idea:    memory that is written again soon is still in the processor's second cache. So periods
///          are short while few partitions are in use: then the same ones come round again and
///          again, and together have about `cache_bytes`. Where a snapshot keeps many partitions,
///          no cache would be large enough. Then periods are long, so that there are no more
///          partitions than necessary. A scan of the census interrupts other processors. So a short
///          period ends without one if there is a free partition to go on with.
///          The age of a snapshot is counted in long periods: so many transactions, or bytes, in
///          whatever number of periods.
/// Threads: begin() by any thread; the rest by the one for which it returned true.
class delta_turns {
 public:
  /// How much a period may have.
  struct length {
    std::uint64_t transactions;
    std::uint64_t bytes;
  };

  /// As delta_one_shot::options; `stripes` partitions are current at the same time.
  delta_turns(std::uint64_t transactions, std::uint64_t bytes, std::uint64_t cache_bytes,
              std::uint32_t partitions, unsigned stripes) noexcept
      : transactions_(transactions),
        bytes_(bytes),
        short_bytes_(std::clamp<std::uint64_t>(cache_bytes / in_cache, 1, bytes)),
        few_((std::min)(partitions / 2, 2 * in_cache * stripes)),
        free_(in_cache * stripes) {}

  /// Begins a change of periods. False: another thread is making one.
  bool begin() noexcept {
    // acquire ← the release in end(): one thread at a time.
    return !busy_.load_relaxed() && !busy_.exchange_acquire(true);
  }
  // release → the acquire in begin().
  void end() noexcept { busy_.store_release(false); }

  /// To be called when a period of stream 0 is over, in which so many transactions and bytes came.
  /// True: so much has come that all snapshots are a long period older.
  bool over(std::uint64_t admitted, std::uint64_t bytes) noexcept {
    came_ += admitted;
    filled_ += bytes;
    if (came_ < transactions_ && filled_ < bytes_) return false;
    came_ = 0;
    filled_ = 0;
    return true;
  }
  /// Whether the stripe may go on without a scan of the census.
  bool on(unsigned stripe) noexcept { return ++since_look_[stripe] < in_cache - 1; }
  void looked() noexcept { since_look_.fill(0); }
  /// The length of the next period, if so many partitions are in use.
  [[nodiscard]] length next(std::uint32_t used) const noexcept {
    return {transactions_, used <= few_ ? short_bytes_ : bytes_};
  }
  /// How many partitions may be made before it is checked which others can be dropped.
  [[nodiscard]] std::uint32_t most_at_hand() const noexcept { return few_; }
  /// How many bytes the n-th free partition keeps of its memory: the first two keep all, some more
  /// keep what a short period takes, and the others nothing.
  [[nodiscard]] std::uint64_t bytes_of_free(std::uint32_t n) const noexcept {
    if (n <= 2) return ~std::uint64_t{0};
    return n <= free_ ? short_bytes_ : 0;
  }

 private:
  static constexpr std::uint32_t in_cache = 10;  // partitions of a stripe; mostly two are needed

  const std::uint64_t transactions_;
  const std::uint64_t bytes_;
  const std::uint64_t short_bytes_;
  const std::uint32_t few_;
  const std::uint32_t free_;
  std::uint64_t came_ = 0;
  std::uint64_t filled_ = 0;
  std::array<std::uint32_t, delta_lanes::most_stripes> since_look_{};
  alignas(cache_line) atomic<bool> busy_{false};
};

/// When a snapshot counts as held, so that it is worth the cost to drop the partitions between it
/// and the others. For consolidation (delta_consolidated.hpp).
///
/// Idea:    consolidation costs commits something as long as it goes on, and the versions of
///          snapshots that end soon are dropped without it. It is not known which snapshots will
///          end soon: with more threads than processors, a thread that was interrupted may not run
///          for dozens of periods. So a snapshot counts as held when it is `least` periods old, and
///          twice as old as snapshots became that have ended lately, but at `most` periods in any
///          case. In a hurry, when much memory is in use, `least` will do. When it has half that
///          age, the storage prepares for it.
/// How it learns: it watches one snapshot at a time, the oldest that is not `most` periods old,
///          until that has ended or is too old. What it has learned fades by one period in `fades`.
/// Periods: long ones: so many transactions or bytes, in however many periods of partitions. The
///          code calls them turns.
/// Threads: one at a time: as delta_turns.
class delta_patience {
 public:
#if defined(SPOLIA_MODEL)
  static constexpr unsigned least = 0;
  static constexpr unsigned most = 0;
#else
  static constexpr unsigned least = 4;
  static constexpr unsigned most = 128;
#endif
  static constexpr unsigned fades = 16;

  struct moments {
    std::uint64_t held;       ///< a snapshot that began before this counts as held
    std::uint64_t half_held;  ///< and one that began before this is half as old
  };
  /// A period begins at time `now`; the snapshots are ascending.
  moments turn(std::uint64_t now, const std::vector<std::uint64_t>& snapshots,
               bool hurry) noexcept {
    ++turn_;
    if (turn_ % fades == 0 && turns_ > least) --turns_;
    learn(snapshots);
    const unsigned after = hurry ? least : turns_;
    const moments before{began(after + 1), began(after / 2 + 1)};
    began_[turn_ % began_.size()] = now;
    return before;
  }
  [[nodiscard]] unsigned turns() const noexcept { return turns_; }

 private:
  /// When the period began that was so many periods ago; 0: there was none.
  [[nodiscard]] std::uint64_t began(unsigned ago) const noexcept {
    return began_[(turn_ - ago) % began_.size()];
  }
  void learn(const std::vector<std::uint64_t>& snapshots) noexcept {
    if (watched_ != 0 && !std::binary_search(snapshots.begin(), snapshots.end(), watched_)) {
      unsigned lived = 0;
      while (lived < most && began(lived + 1) > watched_) ++lived;
      turns_ = (std::max)(turns_, (std::min)(2 * lived, most));
      watched_ = 0;
    }
    if (watched_ != 0 && watched_ >= began(most)) return;
    const auto next = std::lower_bound(snapshots.begin(), snapshots.end(), began(most));
    watched_ = next == snapshots.end() ? 0 : *next;
  }

  // By the number of the period. The first one has the number `most`, and none before it.
  std::array<std::uint64_t, most + 1> began_{};
  std::uint64_t turn_ = most;
  unsigned turns_ = least;
  std::uint64_t watched_ = 0;  // 0: none
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
