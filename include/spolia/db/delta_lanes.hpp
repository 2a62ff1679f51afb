// SPDX-License-Identifier: Apache-2.0
// delta_lanes.hpp: into which partition a version goes: what held snapshots need is kept apart from
// what nobody will need soon.
//
// Idea:        a partition can be dropped while a snapshot T is held if it has no version that T
//              sees. Where many rows are changed now and then, T's version of one of them is in
//              nearly every partition, and nothing could be dropped. But when a version ends it is
//              known whether T sees it: if it began at or before T. So such versions go to another
//              partition, the lane of T, which stays as long as T does, and the others are dropped.
//              Lane 0 takes what nobody needs but snapshots that are young, and most go soon.
//              With several held snapshots, a version goes to the lane of the oldest that sees it:
//              then all that is in a lane is needed by that one, and goes when nobody is left who
//              sees any of it. With more snapshots than lanes, the youngest share one.
// Stripes:     writers that share a partition write to the same lines when they register, and get
//              memory that another processor wrote last. So lane 0 has several current partitions,
//              and each writer his own of these; they come back to the same stripe.
// Right or wrong: a version may be in any partition; what is dropped is decided by what is in it.
//              So all here may be out of date.
// Threads:     lane_of(), current() and has() by anybody; the rest by one at a time, who passes on.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/db/delta_partition.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class delta_lanes {
 public:
#if defined(SPOLIA_MODEL)
  static constexpr unsigned most = 2;
#else
  static constexpr unsigned most = 5;
#endif

  static constexpr unsigned most_stripes = 8;

  /// Lanes from 1 to `most`, and stripes of the first from 1 to `most_stripes`.
  delta_lanes(unsigned count, unsigned stripes) noexcept : count_(count), stripes_(stripes) {}

  [[nodiscard]] unsigned count() const noexcept { return count_; }
  // acquire ← the release in turn(): the partition is constructed.
  [[nodiscard]] delta_partition* current(unsigned lane, unsigned stripe) const noexcept {
    return (lane == 0 ? young_[stripe] : lanes_[lane].now).load_acquire();
  }
  /// Whose current one it is in lane 0; `most_stripes`: nobody's.
  [[nodiscard]] unsigned stripe_of(const delta_partition& p) const noexcept {
    for (unsigned s = 0; s < stripes_; ++s) {
      if (young_[s].load_relaxed() == &p) return s;
    }
    return most_stripes;
  }
  /// Whether it is any lane's current one.
  [[nodiscard]] bool has(const delta_partition& p) const noexcept {
    for (unsigned l = 1; l < count_; ++l) {
      if (lanes_[l].now.load_relaxed() == &p) return true;
    }
    return stripe_of(p) != most_stripes;
  }
  /// For a version that began then, and ends now.
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

  /// The lane goes on in this partition; null: it has none any more.
  void turn(unsigned lane, delta_partition* p, unsigned stripe = 0) noexcept {
    // release → the acquire in current().
    (lane == 0 ? young_[stripe] : lanes_[lane].now).store_release(p);
  }
  /// How much the lane has put into its partitions before this one: to be added to.
  std::uint64_t& filled(unsigned lane) noexcept { return lanes_[lane].filled; }

  /// Closes the lanes of snapshots that are gone.
  void close_all_but(const std::vector<std::uint64_t>& held) noexcept {
    for (unsigned l = 1; l < count_; ++l) {
      const std::uint64_t of = lanes_[l].of.load_relaxed();
      if (of == 0 || std::binary_search(held.begin(), held.end(), of)) continue;
      lanes_[l].of.store_relaxed(0);
      turn(l, nullptr);
    }
    find_youngest();
  }
  /// Gives the held snapshot a lane, whose partition open() makes; null: there is none.
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

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
