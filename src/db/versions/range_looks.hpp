// SPDX-License-Identifier: Apache-2.0
// range_looks.hpp: whether a look at all that range tracking keeps may find something that can go,
// for commits that find no room for their versions.
//
// Idea:        a version that was looked at and stays can go only when the snapshot has ended that
//              it was counted at, or when a version came in front of it. So after a look at all it
//              is known, by the snapshots that are there now and by how much has ended since, how
//              many there may be at most. None: no look is worth it. Many: one goes on until there
//              is room. A few: a part is looked at, now and then.
// Cost:        of a commit that finds no room: a scan of the census, which is compared with what
//              was counted; a look at all only if one version in `worth` may go; else `at_once`
//              versions in `seldom` calls, and what has ended since the last one. To count: two
//              binary searches among the snapshots for each version that stays.
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

/// Versions that were looked at and stay, each counted at a snapshot that must end before it goes.
class waiting_versions {
 public:
  void forget() noexcept {
    places_.clear();
    others_ = 0;
    all_ = 0;
  }
  /// What is counted next was looked at with this scan. Throws std::bad_alloc.
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
  /// As of that scan. What a snapshot needs stays as long as the one in the middle of those that
  /// need it. What none needs is the first of its chain, or has columns for an older one: it stays
  /// as long as the last snapshot from before its end.
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
  /// How many may go, at most, since snapshots are there no more.
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
  own,   ///< at what threads have not given to others yet
  some,  ///< and at range_looks::at_once of the rest
  all    ///< until there is room
};

/// A round goes over all versions, in one call or in several.
class range_looks {
 public:
  static constexpr std::uint64_t at_once = 4096;

  /// How far to look, for room. `ended`: so many versions have, and can be found; `threads`: so
  /// many threads have left theirs to others. `lists()` tells how many lists a round goes over.
  template <class Lists>
  range_look next(const scan_times& now, std::uint64_t ended, std::uint64_t threads,
                  Lists&& lists) noexcept {
    const bool any_ended = std::exchange(last_ended_, ended) != ended;
    const range_look least = any_ended ? range_look::own : range_look::none;
    if (!under_way_) {
      // One that has ended, and the one that it has come in front of.
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
  /// Of the round, what is left: to be counted down.
  [[nodiscard]] std::uint64_t& lists() noexcept { return lists_; }
  void end_round() noexcept { under_way_ = false; }
  /// What the round has found.
  [[nodiscard]] waiting_versions& waits() noexcept { return waits_; }

 private:
  // So many are looked at where one may go; and where any may go, if there are no more.
  static constexpr std::uint64_t worth = 32;
  static constexpr std::uint64_t few = 16384;
  // A part of a round comes when so many have ended; and in so many calls once.
  static constexpr std::uint64_t many_ended = 64;
  static constexpr std::uint64_t seldom = 32;

  bool is_time(std::uint64_t ended) noexcept {
    return ended - ended_at_round_ >= many_ended || ++calls_ % seldom == 0;
  }

  waiting_versions waits_;
  bool under_way_ = false;
  bool to_room_ = false;  // it does not end before there is some
  std::uint64_t lists_ = 0;
  std::uint64_t ended_ = 0;  // when it began
  std::uint64_t threads_ = 0;
  std::uint64_t last_ended_ = 0;      // at the last call
  std::uint64_t ended_at_round_ = 0;  // at the last part of a round
  std::uint64_t calls_ = 0;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
