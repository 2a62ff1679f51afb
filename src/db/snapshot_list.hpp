// SPDX-License-Identifier: Apache-2.0
// snapshot_list.hpp: the snapshots that there are, and which of them need what has ended. Internal.
//
// Life:        of a row or an index entry: from its birth, before which no snapshot needs it, to
//              the time of the commit that ended it. The snapshots in it need it, and no others.
// Why nothing goes that a snapshot sees: the list vouches for what ended at or before `known_`. No
//   snapshot before that time is missing in its list, and none will begin there (census.hpp): one
//   that is not listed began after the end. That stays true however old the list is.
// Why nothing goes that a serializable commit looks for (the validation floor): a transaction draws
//   its time c and then looks whether what it has read holds at c. A key that it did not find may
//   have come before c, and go after c: its life has c in it, but no snapshot. So the transaction
//   announces in commit_board::validating, before it draws, and the list vouches for nothing that
//   ended after the oldest such announcement. One that look() misses is at or after the limit that
//   it has read, and c after that.
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
  /// Lists them. False: there was no memory; then none is listed, and the list vouches only for
  /// what ended before all of them.
  bool look(const commit_board& board) noexcept {
    // In this order: a commit that announces later draws its time after the limit that follows.
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

  /// As if there had been no memory.
  void list_none() noexcept {
    known_ = oldest_;
    times_.clear();
  }

  /// Whether it is known which snapshots need what ended then.
  [[nodiscard]] bool vouches_for(std::uint64_t until) const noexcept { return until <= known_; }
  struct need {
    const std::uint64_t* by = nullptr;  ///< the snapshot in the middle; null: there is none
    bool for_long = false;              ///< the oldest of them was there before the last look, too
  };
  /// For an end that it vouches for: which snapshots are in that life. What hangs at the middle
  /// one, until that has ended, is asked about O(log S) times, whether the S snapshots end the
  /// oldest first or the youngest first.
  [[nodiscard]] need needed_by(std::uint64_t since, std::uint64_t until) const noexcept {
    if (since >= until) return {};
    const auto first = std::lower_bound(times_.begin(), times_.end(), since);
    const auto end = std::lower_bound(first, times_.end(), until);
    if (first == end) return {};
    return {&*(first + (end - first) / 2), is_old(*first)};
  }
  /// Whether a listed snapshot was there before the look before this one.
  [[nodiscard]] bool is_old(std::uint64_t time) const noexcept { return time < before_; }
  /// Tells of ascending times which are listed. In steps, as many as the list and the times have.
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
