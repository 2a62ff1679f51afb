// SPDX-License-Identifier: Apache-2.0
// delta_turns.hpp: how long the turn of a one-shot partition is, and who ends it.
//
// Idea:        what is written again soon is still in the processor's second cache. So a turn is
//              short while few partitions are in use: then the same ones come round again and
//              again, and together have about `cache_bytes`. Where a snapshot keeps many of them,
//              no cache would do, and turns are long, so that there are not more partitions than
//              need be.
//              A look at the census interrupts other processors. So a short turn ends without one,
//              where there is a partition to go on with that was dropped already.
//              What is counted in turns elsewhere, how old a snapshot is, are long ones: so many
//              transactions, or bytes, in whatever number of turns.
// Threads:     begin() by anybody; the rest by who has begun, one at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/db/delta_lanes.hpp>
#include <spolia/db/delta_partition.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class delta_turns {
 public:
  /// As delta_one_shot::options; `stripes` partitions have their turn at the same time.
  delta_turns(std::uint64_t transactions, std::uint64_t bytes, std::uint64_t cache_bytes,
              std::uint32_t partitions, unsigned stripes) noexcept
      : transactions_(transactions),
        bytes_(bytes),
        short_bytes_(std::clamp<std::uint64_t>(cache_bytes / in_cache, 1, bytes)),
        few_((std::min)(partitions / 2, 2 * in_cache * stripes)),
        free_(in_cache * stripes) {}

  /// False: somebody else is at it.
  bool begin() noexcept {
    // acquire ← the release in end(): one at a time.
    return !busy_.load_relaxed() && !busy_.exchange_acquire(true);
  }
  // release → the acquire in begin().
  void end() noexcept { busy_.store_release(false); }

  /// The turn of `p`, where young versions go, is over. True: so much has come that all snapshots
  /// are a long turn older.
  bool over(const delta_partition& p) noexcept {
    came_ += p.admitted();
    filled_ += p.used_bytes();
    if (came_ < transactions_ && filled_ < bytes_) return false;
    came_ = 0;
    filled_ = 0;
    return true;
  }
  /// Whether the stripe may go on without a look at the census.
  bool on(unsigned stripe) noexcept { return ++since_look_[stripe] < in_cache - 1; }
  void looked() noexcept { since_look_.fill(0); }
  /// The next one's turn begins, while so many partitions are in use.
  void next(delta_partition& p, std::uint32_t used) const noexcept {
    p.begin_turn(transactions_, used <= few_ ? short_bytes_ : bytes_);
  }
  /// So many partitions may be made before others are looked for.
  [[nodiscard]] std::uint32_t most_at_hand() const noexcept { return few_; }
  /// What the n-th free partition keeps of its memory: two all of it, some what a short turn takes.
  [[nodiscard]] std::uint64_t chunks_of_free(std::uint32_t n) const noexcept {
    if (n <= 2) return delta_partition::most_chunks;
    return n <= free_ ? delta_partition::chunks_for(short_bytes_) : 0;
  }

 private:
  static constexpr std::uint32_t in_cache = 10;  // partitions of a stripe: two cannot go, mostly

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

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
