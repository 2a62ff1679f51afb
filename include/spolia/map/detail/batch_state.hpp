// SPDX-License-Identifier: Apache-2.0
// batch_state.hpp: how a batch of changes stands (map/changes.hpp): one word that all the versions
// belonging to it name, so that they count from one moment on, or never.
//
//   active     versions are being put in place; none of them counts
//   ready      all are in place; the stamp is about to be drawn, by whoever looks first
//   a stamp    they count for snapshots from then on
//   undone     they never will: an update came first, or something was thrown
//
// Why a snapshot never sees a part. A snapshot at time t has made the clock pass t, and then reads
//   the word. If it finds the batch active, then the batch gets ready later, the clock is read
//   after that, and the stamp is above t: the versions do not count for it, here or in any other
//   place where it looks later. If it finds the batch ready, it sees to the stamp before it goes
//   on. All four are seq_cst, clock and word, as in timeline.hpp. And the stamp is not below the
//   stamp of any of the versions: they had theirs when the batch got ready.
#pragma once

#include <cstdint>
#include <new>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

class batch_state {
  static constexpr std::uint64_t active = ~std::uint64_t{0};
  static constexpr std::uint64_t ready = active - 1;
  static constexpr std::uint64_t undone = active - 2;

 public:
  /// Above every stamp: for who reads what is current.
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

  /// All versions are in place: now they count. False: the batch was undone before.
  template <class Timeline>
  bool commit(Timeline& time) noexcept {
    if (SPOLIA_FAULT("batch.early_stamp")) {
      std::uint64_t seen = active;
      const std::uint64_t stamp = time.stamp();  // planted: seq_cst, but before the batch is ready
      return word_.cas_strong_seq_cst(seen, stamp);
    }
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
    // relaxed: undone versions show what was there before, which came with them.
    if (word_.cas_strong_relaxed(seen, undone)) return;
    if (seen == ready) draw(time);
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
    const std::uint64_t stamp = time.stamp();
    std::uint64_t seen = ready;
    // seq_cst, so that whoever sees the stamp has the clock at or past it, as timeline.hpp wants
    // it.
    return word_.cas_strong_seq_cst(seen, stamp) ? stamp : seen;
  }

  atomic<std::uint64_t> word_{active};
  atomic<std::uint64_t> holders_{1};
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
