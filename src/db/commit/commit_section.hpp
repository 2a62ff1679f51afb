// SPDX-License-Identifier: Apache-2.0
// commit_section.hpp: when a table's indexes change, until every commit knows it.
//
// Idea:        a commit says `inside`, and then looks whether the indexes are still those that its
//              changes went to; if not, it does not happen. Who changes them puts the new ones in
//              place, and then waits for the commits that are inside. With a light and a heavy
//              fence in between one of the two sees the other: after the wait, no commit follows
//              that has not looked at the new ones, and a snapshot that is begun then sees all that
//              have not.
// Cost:        a commit: two stores and a light fence. A change: one heavy fence, and the longest
//              commit, without the disk.
// Progress:    commits wait for nobody.
#pragma once

#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// One for each transaction that is open.
class commit_section {
 public:
  void enter() noexcept {
    turn_.store_relaxed(turn_.load_relaxed() + 1);
    fence::light();  // ↔ the heavy one in see_to_it(): the store before the look at the indexes
  }
  /// Of use only after enter().
  void leave() noexcept {
    const std::uint64_t turn = turn_.load_relaxed();
    // release → the acquires in wait(): the commit is published.
    if (turn % 2 != 0) turn_.store_release(turn + 1);
  }

  /// Makes sure that who enters from now on sees what the caller has stored before.
  static void see_to_it() noexcept {
    // ↔ the light one in enter().
    if (!SPOLIA_FAULT("commit_section.no_heavy")) fence::heavy();
  }
  /// Waits until who is inside now has left. After see_to_it().
  void wait() const noexcept {
    if (SPOLIA_FAULT("commit_section.no_wait")) return;
    // acquire, both ← the release in leave().
    const std::uint64_t turn = turn_.load_acquire();
    if (turn % 2 == 0) return;
    backoff waiting;
    while (turn_.load_acquire() == turn) waiting.pause();
  }

 private:
  atomic<std::uint64_t> turn_{0};  // odd: inside
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
