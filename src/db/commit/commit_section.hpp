// SPDX-License-Identifier: Apache-2.0
// commit_section.hpp: when a table's indexes change, until every commit knows it.
//
// Idea:        a commit announces that it is inside, and then checks whether the indexes are still
//              those that its changes went to; if not, it does not happen. A thread that changes
//              the indexes stores the new ones, and then waits for the commits that are inside.
//              With a light and a heavy fence in between one of the two sees the other. So after
//              the wait, no commit follows that has not seen the new indexes, and a snapshot that
//              is begun then sees all commits that have not.
// Cost:        a commit: two stores and a light fence. A change: one heavy fence, and the longest
//              commit, without the disk.
// Progress:    a commit waits for no thread.
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
    phase_.store_relaxed(phase_.load_relaxed() + 1);
    fence::light();  // ↔ the heavy one in see_to_it(): the store before the check of the indexes
  }
  /// Of use only after enter().
  void leave() noexcept {
    const std::uint64_t phase = phase_.load_relaxed();
    // release → the acquires in wait(): the commit is published.
    if (phase % 2 != 0) phase_.store_release(phase + 1);
  }

  /// Makes sure that a commit which enters from now on sees what the caller has stored before.
  static void see_to_it() noexcept {
    // ↔ the light one in enter().
    if (!SPOLIA_FAULT("commit_section.no_heavy")) fence::heavy();
  }
  /// Waits until the commit that is inside now has left. To be called after see_to_it().
  void wait() const noexcept {
    if (SPOLIA_FAULT("commit_section.no_wait")) return;
    // acquire, both ← the release in leave().
    const std::uint64_t phase = phase_.load_acquire();
    if (phase % 2 == 0) return;
    backoff waiting;
    while (phase_.load_acquire() == phase) waiting.pause();
  }

 private:
  atomic<std::uint64_t> phase_{0};  // odd: inside
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
