// SPDX-License-Identifier: Apache-2.0
// range_looks.hpp: for a commit that finds no room for its versions: how many of the versions that
// range tracking keeps it is to look at, by how many may go at most.
//
// Idea:        each version that was looked at and has to stay is counted at a snapshot. It can go
//              only when that snapshot has ended, or when its row has got a newer version. So after
//              a look at all versions, an upper bound of how many can go is known, by the snapshots
//              that are live now and by how many versions have ended since. If it is 0, no look is
//              worthwhile. If it is high, the commit looks until there is room. If it is low, it
//              looks at a part, now and then.
// Cost:        for a commit that finds no room: a scan of the census, which is compared with the
//              counts; a look at all versions only if one in `worth` may go; else a look at
//              `at_once` versions in `seldom` calls, and at those that have ended since the last
//              call. To count: two binary searches among the snapshots for each version that stays.
// Threads:     one at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/version/tracked.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Counts the versions that were looked at and stay, each at a snapshot that must end before the
/// version can go.
class waiting_versions {
 public:
  void forget() noexcept {
    places_.clear();
    others_ = 0;
    all_ = 0;
  }
  /// Sets the scan by which the versions that are counted next were looked at. Throws
  /// std::bad_alloc.
  void looks_with(const scan_times& scan) {
    std::vector<place> both;
    both.reserve(places_.size() + scan.times.size());
    auto was = places_.cbegin();
    for (const std::uint64_t t : scan.times) {
      for (; was != places_.cend() && was->time < t; ++was) {
        if (was->count != 0) both.push_back(*was);
      }
      const bool there = was != places_.cend() && was->time == t;
      both.push_back({t, there ? was->count : 0});
      if (there) ++was;
    }
    std::copy_if(was, places_.cend(), std::back_inserter(both),
                 [](const place& p) { return p.count != 0; });
    places_.swap(both);
    scan_ = scan;
  }
  /// Counts a version that stays, as of that scan. If snapshots need it, at the middle one of them.
  /// If none needs it, it is the first of its chain, or has columns for an older version: then at
  /// the last snapshot from before its end.
  void add(const tracked& t) noexcept {
    ++all_;
    const std::uint64_t until = t.until.read();
    const auto& times = scan_.times;
    const auto end = std::lower_bound(times.begin(), times.end(), until);
    if (until > scan_.known || end == times.begin()) {
      ++others_;
      return;
    }
    // relaxed: it was set before the version ended.
    const auto first = std::lower_bound(times.begin(), end, t.since.load_relaxed());
    const std::uint64_t at = first == end ? *(end - 1) : *(first + (end - first) / 2);
    ++std::lower_bound(places_.begin(), places_.end(), at, [](const place& p, std::uint64_t time) {
        return p.time < time;
      })->count;
  }
  [[nodiscard]] std::uint64_t all() const noexcept { return all_; }
  /// How many may go at most because their snapshots have ended.
  [[nodiscard]] std::uint64_t may_go(const scan_times& now) const noexcept {
    std::uint64_t sum = others_;
    auto listed = now.times.begin();
    for (const place& p : places_) {
      while (listed != now.times.end() && *listed < p.time) ++listed;
      if (listed == now.times.end() || *listed != p.time) sum += p.count;
    }
    return sum;
  }

 private:
  struct place {
    std::uint64_t time;
    std::uint64_t count;
  };
  std::vector<place> places_;  // by time
  std::uint64_t others_ = 0;
  std::uint64_t all_ = 0;
  scan_times scan_;
};

/// How far a call is to look.
enum class range_look : std::uint8_t {
  none,
  own,   ///< at the lists that threads still have to themselves
  some,  ///< and at range_looks::at_once of the others
  all    ///< at all, until there is room
};

/// Decides how far calls look for room. A round of looks goes over all versions, in one call or in
/// several.
class range_looks {
 public:
  static constexpr std::uint64_t at_once = 4096;

  /// How far to look for room. `ended`: how many versions have ended and can be found; `threads`:
  /// how many threads have ended and left versions. `lists()`: how many lists a round goes over.
  template <class Lists>
  range_look next(const scan_times& now, std::uint64_t ended, std::uint64_t threads,
                  Lists&& lists) noexcept {
    const bool any_ended = std::exchange(last_ended_, ended) != ended;
    const range_look least = any_ended ? range_look::own : range_look::none;
    if (!under_way_) {
      // Each version that has ended may go, and so may the one after it in its chain.
      const std::uint64_t may_go = waits_.may_go(now) + 2 * (ended - ended_);
      if (may_go == 0 && threads == threads_) return range_look::none;
      to_room_ = waits_.all() <= few + worth * may_go;
      if (!to_room_ && !is_time(ended)) return least;
      waits_.forget();
      ended_ = ended;
      threads_ = threads;
      lists_ = lists();
      under_way_ = true;
    } else if (!to_room_ && !is_time(ended)) {
      return least;
    }
    if (to_room_) return range_look::all;
    ended_at_round_ = ended;
    return range_look::some;
  }
  [[nodiscard]] bool under_way() const noexcept { return under_way_; }
  /// How many lists of the round are left: to be counted down.
  [[nodiscard]] std::uint64_t& lists() noexcept { return lists_; }
  void end_round() noexcept { under_way_ = false; }
  /// The versions that the round has found and that stay.
  [[nodiscard]] waiting_versions& waits() noexcept { return waits_; }

 private:
  // All are looked at if one in `worth` may go; or if any may go, and there are at most `few`.
  static constexpr std::uint64_t worth = 32;
  static constexpr std::uint64_t few = 16384;
  // A part of a round comes when `many_ended` versions have ended; and once in `seldom` calls.
  static constexpr std::uint64_t many_ended = 64;
  static constexpr std::uint64_t seldom = 32;

  bool is_time(std::uint64_t ended) noexcept {
    return ended - ended_at_round_ >= many_ended || ++calls_ % seldom == 0;
  }

  waiting_versions waits_;
  bool under_way_ = false;
  bool to_room_ = false;  // the round goes on until there is room
  std::uint64_t lists_ = 0;
  std::uint64_t ended_ = 0;  // `ended` and `threads` when the round began
  std::uint64_t threads_ = 0;
  std::uint64_t last_ended_ = 0;      // `ended` at the last call
  std::uint64_t ended_at_round_ = 0;  // `ended` at the last part of a round
  std::uint64_t calls_ = 0;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
