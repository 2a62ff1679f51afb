// SPDX-License-Identifier: Apache-2.0
// delta_patience.hpp: from when on a snapshot counts as held, so that what lies between it and the
// others is worth dropping.
//
// Idea:        consolidation costs commits something as long as it goes on, and transactions that
//              end soon make room by themselves. Which will, nobody knows: with more threads than
//              processors, one that was interrupted stands for dozens of turns. So a snapshot is
//              held when it is `least` turns old, and twice as old as those became that have ended
//              lately, though not more than `most`. In a hurry, when much is in use, `least` will
//              do. When it is half as old, one prepares for that.
// How it learns: it watches one snapshot at a time, the oldest that is not `most` turns old, until
//              that is gone or too old. What is learned fades by a turn each `fades` turns.
// Turns:       long ones: so many transactions or bytes, in however many turns of partitions
//              (delta_turns.hpp).
// Threads:     one at a time, who passes on.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

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

  /// Who began before is...
  struct moments {
    std::uint64_t held;
    std::uint64_t half_held;
  };
  /// A turn begins at time `now`; the snapshots are ascending.
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
  /// When the turn began that was so many turns ago; 0: there was none.
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

  // By the number of the turn, which begins with no turn before it.
  std::array<std::uint64_t, most + 1> began_{};
  std::uint64_t turn_ = most;
  unsigned turns_ = least;
  std::uint64_t watched_ = 0;  // 0: none
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
