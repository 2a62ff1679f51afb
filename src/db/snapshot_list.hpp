// SPDX-License-Identifier: Apache-2.0
// snapshot_list.hpp: a list of the live snapshots, and which of them need a row or an index entry
// that has ended. Internal.
//
// Life:        the life of a row or an index entry is from its birth, before which no snapshot
//              needs it, to the time of the commit that ended it. The snapshots in between need it,
//              and no others.
// Why nothing is removed that a snapshot sees: the list vouches for ends at or before `known_`. No
//   snapshot before that time is missing in its list, and none will begin there (census.hpp). So a
//   snapshot that is not listed began after such an end. That stays true however old the list is.
// Why nothing is removed that a serializable commit looks for (the validation floor): a transaction
//   draws its time c and then checks whether what it has read holds at c. A key that it did not
//   find may have come before c, and go after c: its life has c in it, but no snapshot. So the
//   transaction announces itself in commit_board::validating before it draws c, and the list
//   vouches for no end after the oldest such announcement. An announcement that look() misses is at
//   or after the limit that look() has read, and its c is after that.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/db/commit.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class snapshot_list {
 public:
  /// Lists the snapshots. False: there was no memory; then none is listed, and the list vouches
  /// only for ends before all of them.
  bool look(const commit_board& board) noexcept {
    // First: a commit that announces itself later draws its time after the limit of the scan below.
    const std::uint64_t floor =
        SPOLIA_FAULT("snapshot_list.no_floor") ? not_yet : board.validating.oldest(board.clock);
    before_ = known_;
    try {
      known_ = board.living.scan(board.clock, times_);
    } catch (const std::bad_alloc&) {
      known_ = oldest_ = std::min(floor, board.living.oldest(board.clock));
      times_.clear();
      return false;
    }
    known_ = std::min(known_, floor);
    oldest_ = times_.empty() ? known_ : std::min(known_, times_.front());
    return true;
  }

  /// Empties the list, as if there had been no memory.
  void list_none() noexcept {
    known_ = oldest_;
    times_.clear();
  }

  /// Whether it is known which snapshots need a row or entry that ended then.
  [[nodiscard]] bool vouches_for(std::uint64_t until) const noexcept { return until <= known_; }
  struct need {
    const std::uint64_t* by = nullptr;  ///< the middle one of these snapshots; null: there is none
    bool for_long = false;              ///< the oldest of them was there at the look before, too
  };
  /// Which snapshots are in that life. Precondition: the list vouches for its end. A record hangs
  /// at the middle one until that has ended: so it is examined O(log S) times, whether the S
  /// snapshots end oldest first or youngest first.
  [[nodiscard]] need needed_by(std::uint64_t since, std::uint64_t until) const noexcept {
    if (since >= until) return {};
    const auto first = std::lower_bound(times_.begin(), times_.end(), since);
    const auto end = std::lower_bound(first, times_.end(), until);
    if (first == end) return {};
    return {&*(first + (end - first) / 2), is_old(*first)};
  }
  /// Whether a listed snapshot was there at the look before this one, too.
  [[nodiscard]] bool is_old(std::uint64_t time) const noexcept { return time < before_; }
  /// Tells of ascending times whether they are listed. All calls together take as many steps as the
  /// list and the times have.
  class walk {
   public:
    [[nodiscard]] bool has(std::uint64_t time) noexcept {
      while (at_ != end_ && *at_ < time) ++at_;
      return at_ != end_ && *at_ == time;
    }

   private:
    friend class snapshot_list;
    explicit walk(const std::vector<std::uint64_t>& times) noexcept
        : at_(times.data()), end_(times.data() + times.size()) {}

    const std::uint64_t* at_;
    const std::uint64_t* end_;
  };
  [[nodiscard]] walk from_first() const noexcept { return walk(times_); }
  [[nodiscard]] std::size_t size() const noexcept { return times_.size(); }

 private:
  std::vector<std::uint64_t> times_;  // ascending
  std::uint64_t known_ = 0;
  std::uint64_t before_ = 0;  // what the look before this one vouched for
  std::uint64_t oldest_ = 0;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
