// SPDX-License-Identifier: Apache-2.0
// bucket_group.hpp: whether some neighbouring buckets of a snapshot_hash have pairs, so that a look
// at all pairs passes them together where they have none.
//
// A bucket has pairs from when a version with pairs follows one without, until one without follows
// one with pairs. The group counts its buckets that do: one more before the first is appended, one
// less after the last is, and before that the stamp from which on it has none.
//
// Why no snapshot misses a pair. It was taken at t, and finds the count 0. A version with pairs
//   that had come before was counted, and is not any more: so one without pairs came after it,
//   whose stamp is not above `empty_since_`, and that is not above t. What is counted later is
//   appended later, and its stamp is drawn after that: the snapshot has made the clock pass t
//   before, so the stamp is above t. The first half of a division has the stamp of both, and the
//   other half is counted before the first is appended.
// It may say that there are pairs where there are none: while an update is under way, or a version
// of a batch (map/changes.hpp) has had some before the batch, or a thread was lost in a fork.
#pragma once

#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

class bucket_group {
 public:
  /// A bucket may be about to have pairs.
  void enter() noexcept {
    // seq_cst ↔ is_empty_at(): before the clock gives the version its stamp. Otherwise a snapshot
    // could see a count of 0, and the stamp be one that it has passed.
    with_pairs_.fetch_add_seq_cst(1);
  }
  /// It is not, after all.
  void take_back() noexcept { with_pairs_.fetch_sub_release(1); }
  /// It has none from this time on. Says how often that was so here, or a little less.
  std::uint32_t leave(std::uint64_t since) noexcept {
    std::uint64_t seen = empty_since_.load_relaxed();
    while (seen < since && !empty_since_.cas_weak_relaxed(seen, since)) {
    }
    // release → is_empty_at(): the time is there. Otherwise a snapshot from before could see a
    // count of 0 with an earlier time.
    with_pairs_.fetch_sub_release(1);
    // relaxed, and in two steps: it is for a rate.
    const std::uint32_t left = left_.load_relaxed() + 1;
    left_.store_relaxed(left);
    return left;
  }

  /// Whether none of the buckets has a pair at a snapshot's time.
  [[nodiscard]] bool is_empty_at(std::uint64_t t) const noexcept {
    // seq_cst ↔ enter(); acquire ← leave().
    if (with_pairs_.load_seq_cst() != 0) return false;
    return empty_since_.load_relaxed() <= t;  // relaxed: we have all that count 0 tells
  }

 private:
  atomic<std::uint32_t> with_pairs_{0};
  atomic<std::uint32_t> left_{0};
  atomic<std::uint64_t> empty_since_{0};
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
