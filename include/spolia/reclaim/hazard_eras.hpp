// SPDX-License-Identifier: Apache-2.0
// hazard_eras.hpp: each thread names the few eras in which the blocks live that it looks at; a
// block that lived in none of these eras is free.
//
// Source:      Ramalhete, Correia: Brief Announcement: Hazard Eras - Non-Blocking Memory
//              Reclamation, SPAA 2017.
// Idea:        hazard pointers, with an era in each slot instead of a pointer. While the clock
//              stands still, all that a thread reads lives in the era that it has announced before:
//              no store, no second look. A thread with enough retired blocks reads all slots of all
//              threads, and frees the blocks of which no slot names an era between birth and
//              retirement.
// Protects:    era. As with hazard pointers, the structure must make sure that a pointer read after
//              the announcement leads to a block that was not unlinked before it. Every slot stands
//              for itself: a block stays while the slot through which it was read does. announce(p,
//              slot) puts the current era into a slot, for a p that came by an acquire load; p
//              stays if a look made afterwards shows that it had not been retired. A block cannot
//              be handed from one slot to another without such a look.
// Cost:        protect: the source, the clock, a compare. The first use of a slot by a guard, and
//              the first after the clock has moved, also a store, a compiler barrier and a second
//              look. A guard: clears the slots used. A block: two words more. make: a look at the
//              clock. retire: a link; every `advance_every` blocks a fetch_add and a store to each;
//              every `scan_at` blocks a membarrier, a read of all slots, O(log eras) a block.
// Progress:    protect is lock-free: it repeats only if the clock has moved, so somebody has
//              retired. A scan is wait-free. A thread asleep inside a guard keeps the blocks that
//              lived in its slots' eras, and none born in later ones.
// Bound:       threads · (advance_every + max(scan_at, 2 · guard_slots · rows)), and besides what
//              was alive in the eras of the slots: of those in use, and of those given up since
//              the last scan that looked at everything. No number alone bounds it, since a
//              structure may be as large as memory. What is born in eras
//              after a thread has stalled is not its to keep.
//
// Why it is sound: facts A, B and R of eras.hpp. protect() returns when the slot's era is on the
// clock after the source was read: then that era has taken effect (A), the block was born in it at
// the latest (B), and, not being unlinked before the announcement, retired in it at the earliest.
//
// step() asks for no look when the whole guard has announced one era only and the clock still
// stands there: whatever this guard holds was linked at some time since, so whatever is reached
// from it was, too. Once the guard has announced a second era, every step asks for a look: a block
// found in the first era may have been unlinked in it, and its frozen link may lead to one that was
// free before the second was announced. (A mere look at the step that moved to the second era would
// do for a search along one path, not for one that goes back to where it stood before.) The same
// after announce(), whose block may have been unlinked already. A slot that comes into use in the
// same era has to take effect itself, by A, since the others may be given up before it; then it
// does not matter in which order a scan reads the slots.
//
// Departures from the paper:
//   D1  Blocks are dated by handfuls, see R. The paper dates each by a load, and relies on
//       sequential consistency.
//   D2  The clock moves at every `advance_every`-th retirement of a thread; the paper's moves at
//       each.
//   D3  The fence between announcing and looking is light, the scanner pays with a heavy one.
//   D4  The eras are kept in a sorted array made before the scan; without memory for it the scan
//       goes over its blocks in several passes (slots.hpp).
//   D5  Slots are written with release even before the fence: a scanner that reads the next era in
//       a slot takes from it that the accesses made under the one before are over.
//   D6  No fixed number of threads or slots: nested guards get rows of their own. And blocks found
//       pinned are not looked at by each scan (era_bags::for_scan).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/source.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/eras.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/slots.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class hazard_eras : public detail::retiring_by_era<hazard_eras> {
  using row = detail::basic_slot_row<std::uint64_t>;
  using rows = detail::basic_slot_rows<std::uint64_t>;

 public:
  static constexpr scheme_info info{
      .name = "hazard_eras",
      .title = "hazard eras",
      .source = "Ramalhete, Correia, SPAA 2017, with asymmetric fences",
      .protects = protection::era,
      .robust = true,
      .cost = "two loads for each pointer followed; a store for each slot used and each era",
      .progress = "protect lock-free, scans wait-free",
      .bound =
          "threads * (advance_every + max(scan_at, 2 * slots of all guards)), and what was "
          "alive in the eras of slots in use or just given up"};

  struct hold {
    hazard_eras::row* row = nullptr;
    std::uint32_t used = 0;              // bit i: slot i has been written
    std::uint64_t era = detail::no_era;  // all that this guard has announced; or `several`
  };

  struct local {
    hazard_eras::rows rows;
    detail::era_bags bags;
    detail::scratch<std::uint64_t> eras;
  };

  explicit hazard_eras(const options& o) noexcept : retiring_by_era(o) {}

  template <class Peers>
  void join(local& me, std::uint32_t, Peers) noexcept {
    me.rows.join(rows_);
  }

  void enter(local&) noexcept {}
  void leave(local&) noexcept {}

  hold open(local& me) { return {&me.rows.take(rows_), 0, detail::no_era}; }
  void close(local&, hold& h) noexcept { rows::give_back(*h.row, h.used); }

  template <class Source>
  source_value<Source> protect(local&, hold& h, unsigned slot, const Source& source) noexcept {
    slot = checked(slot);
    for (std::uint64_t announced = h.row->at[slot].load_relaxed();;) {
      source_value<Source> seen;
      const std::uint64_t now = clock_.now_after(source, seen);
      if (now == announced) return seen;
      put(h, slot, now);
      if (SPOLIA_FAULT("he.no_second_look")) return seen;
      announced = now;
    }
  }

  template <class Source>
  bool step(local& me, hold& h, unsigned slot, const Source& source,
            source_value<Source>& to) noexcept {
    slot = checked(slot);
    const std::uint64_t now = clock_.now_after(source, to);
    if (now == h.era) {
      if (h.row->at[slot].load_relaxed() == now) return true;
      put(h, slot, now);
      if (clock_.now() == now || SPOLIA_FAULT("he.slot_without_effect")) return true;
    }
    to = protect(me, h, slot, source);
    return SPOLIA_FAULT("he.no_look_in_a_second_era");
  }

  template <class T>
  void announce(local&, hold& h, unsigned slot, T) noexcept {
    put(h, checked(slot), clock_.now());
    h.era = several;
  }

  template <class Peers>
  void forked(local& lost, Peers) noexcept {
    lost.rows.forget();
    lost.bags.forget();
    lost.eras.forget();
  }

 private:
  friend retiring_by_era;
  static constexpr std::uint64_t several = ~std::uint64_t{0};

  static unsigned checked(unsigned slot) noexcept {
    if (!SPOLIA_CHECKS || slot < guard_slots) return slot;
    misuse::report("hazard_eras: a guard has slots 0 to 7 only", threads::number());
    return slot % guard_slots;
  }

  /// Announces an era in a slot, and orders that before whatever is read next.
  static void put(hold& h, unsigned slot, std::uint64_t era) noexcept {
    h.used |= 1U << slot;
    h.era = h.era == detail::no_era || h.era == era ? era : several;
    atomic<std::uint64_t>& place = h.row->at[slot];
    // release → the acquire in gather(), for the accesses under the slot's last era (D5).
    SPOLIA_FAULT("he.relaxed_publish") ? place.store_relaxed(era) : place.store_release(era);
    // light → the heavy fence in scan(): either the scan finds the era, or we find the clock moved.
    if (!SPOLIA_FAULT("he.no_light")) fence::light();
  }

  template <class Peers, class Sink>
  void scan(local& me, bool all, Peers peers, Sink sink) noexcept {
    limbo bag = me.bags.for_scan(all);
    const auto room = detail::room_for(rows_.load_relaxed() * guard_slots, me.eras);
    // heavy → the light fence in put(): orders the end of each block's last era before the reading
    // of the slots.
    if (!SPOLIA_FAULT("he.no_heavy")) fence::heavy();
    detail::separate_living(bag, me.bags.pinned(), peers, room);
    // Last: deleters may open guards, retire, and so come back here.
    if (!bag.empty()) sink(bag);
  }

  /// So many dated blocks are scanned. Twice the slots, so that reading these does not cost more
  /// than freeing.
  template <class Peers>
  std::uint64_t limit(Peers) const noexcept {
    return std::max<std::uint64_t>(options_.scan_at, 2 * guard_slots * rows_.load_relaxed());
  }

  alignas(cache_line) atomic<std::uint64_t> rows_{0};  // made so far, by any thread
};

static_assert(scheme<hazard_eras> && protects_eras<hazard_eras> && robust<hazard_eras>);

}  // namespace spolia::inline SPOLIA_FLAVOUR
