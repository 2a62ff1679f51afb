// SPDX-License-Identifier: Apache-2.0
// batch_state.hpp: how a batch of changes stands (map/changes.hpp): one word that all the versions
// belonging to it name, so that they count from one moment on, or never.
//
//   active     versions are being put in place; none of them counts
//   ready      all are in place; the stamp is about to be drawn, by the thread that looks first
//   a stamp    they count for snapshots from then on
//   undone     they never will: an update came first, or something was thrown
//
// Why a snapshot never sees a part. A snapshot at time t has made the clock pass t, and then reads
//   the word. If it finds the batch active, then the batch gets ready later, the clock is read
//   after that, and the stamp is above t: the versions do not count for it, here or in any other
//   place where it looks later. If it finds the batch ready, it sees to the stamp before it goes
//   on. All four are seq_cst, clock and word, as in timeline.hpp; a hardware clock is read after a
//   full fence, as there. And stamps are in order. That of the batch is not below those of its
//   versions: they had theirs when the batch got ready. Those of versions that are appended after
//   them are not below that of the batch: it was decided before. With a hardware clock, where two
//   processors may disagree, both wait until all processors' clocks are past the earlier stamp.
//   (Without the second wait, an update of one of the places could get a stamp below the batch's,
//   and a snapshot between the two would see the batch there and not in the other places.)
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/memory.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

class batch_state {
  static constexpr std::uint64_t active = ~std::uint64_t{0};
  static constexpr std::uint64_t ready = active - 1;
  static constexpr std::uint64_t undone = active - 2;

 public:
  /// Above every stamp: for a thread that reads what is current.
  static constexpr std::uint64_t latest = active - 3;

  /// Held by the caller. Throws std::bad_alloc.
  static batch_state* make() {
    return ::new (memory::allocate(sizeof(batch_state), alignof(batch_state))) batch_state();
  }
  /// relaxed: the caller has a hold, or a version that has one.
  void hold() noexcept { holders_.fetch_add_relaxed(1); }
  void drop() noexcept {
    // acq_rel: what others have read of it happens before its end.
    if (holders_.fetch_sub_acq_rel(1) != 1) return;
    this->~batch_state();
    memory::deallocate(this, sizeof(batch_state), alignof(batch_state));
  }

  [[nodiscard]] bool is_undone() const noexcept { return word_.load_relaxed() == undone; }
  /// Whether it stands for good, or will when its stamp is there.
  [[nodiscard]] bool is_decided() const noexcept { return word_.load_relaxed() != active; }

  /// One of its versions is in place, and has this stamp. Only by the thread that makes the batch.
  void placed(std::uint64_t since) noexcept { latest_placed_ = (std::max)(latest_placed_, since); }

  /// All versions are in place: now they count. False: the batch was undone before.
  template <class Timeline>
  bool commit(Timeline& time) noexcept {
    if (SPOLIA_FAULT("batch.early_stamp")) {
      std::uint64_t seen = active;
      const std::uint64_t stamp = time.stamp();  // planted: seq_cst, but before the batch is ready
      return word_.cas_strong_seq_cst(seen, stamp);
    }
    time.leave_behind(latest_placed_);
    std::uint64_t seen = active;
    // seq_cst ↔ the look in counts_at(): see above.
    if (!word_.cas_strong_seq_cst(seen, ready)) return false;
    draw(time);
    return true;
  }

  /// Undoes the batch unless it is ready: then sees to its stamp. In either case it stands for
  /// good.
  template <class Timeline>
  void decide(Timeline& time) noexcept {
    std::uint64_t seen = active;
    // acquire ← commit() and draw(), if we find the batch ready or stamped: our look at the clock,
    // for the batch or for what we append after it, comes afterwards. Made before, it could give a
    // stamp that a snapshot has passed which has seen the batch active. (What is undone shows what
    // was there before, which came with it.)
    if (word_.cas_strong_acquire(seen, undone) || seen == undone) return;
    time.leave_behind(seen == ready ? draw(time) : seen);
  }

  /// Gives up what never got ready.
  void undo() noexcept { word_.store_relaxed(undone); }

  /// Whether its versions count at time t.
  template <class Timeline>
  bool counts_at(std::uint64_t t, Timeline& time) noexcept {
    // seq_cst ↔ commit(): see above.
    std::uint64_t seen = word_.load_seq_cst();
    if (seen == ready && !SPOLIA_FAULT("batch.no_help")) seen = draw(time);
    return seen <= t;
  }

 private:
  /// The stamp, from the clock as it is after the batch got ready.
  template <class Timeline>
  std::uint64_t draw(Timeline& time) noexcept {
    if constexpr (Timeline::clock_type::advances_alone) fence::full();
    const std::uint64_t stamp = time.stamp();
    std::uint64_t seen = ready;
    // seq_cst, so that a thread that sees the stamp has the clock at or past it, as timeline.hpp
    // wants it.
    return word_.cas_strong_seq_cst(seen, stamp) ? stamp : seen;
  }

  atomic<std::uint64_t> word_{active};
  std::uint64_t latest_placed_ = 0;
  atomic<std::uint64_t> holders_{1};
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
