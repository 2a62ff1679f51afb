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
//              look. A guard: a look at the clock and a store; clears the slots used. A block: two
//              words more. make: a look at the clock. retire: a link; every `advance_every` blocks
//              a fetch_add and a look at each thread. While a thread is idle and not yet parked, or
//              long in an operation: a store to each block, and every `scan_at` blocks a
//              membarrier, a read of all slots, O(log eras) a block.
// Progress:    protect is lock-free: it repeats only if the clock has moved, so some thread has
//              retired. A scan is wait-free. A thread asleep inside a guard keeps the blocks that
//              lived in its slots' eras, and none born in later ones.
// Bound:       threads · (advance_every + max(scan_at, 2 · guard_slots · rows)), and on top of that
//              what was alive in the eras of the slots: of those in use, and of those given up
//              since the last full scan. No number alone bounds that, since a structure may be as
//              large as memory. A stalled thread keeps nothing that is born in later eras than the
//              one in which it stalled.
//              What a guard retires itself comes on top until it ends, and what deleters retire
//              until their thread's next guard ends: see domain::garbage_bound().
//
// Why it is sound: facts A, B and R of eras.hpp. protect() returns when the slot's era is on the
// clock after the source was read: then that era has taken effect (A), the block was born in it at
// the latest (B), and, not being unlinked before the announcement, retired in it at the earliest.
// era_slots.hpp says when step() asks for a look.
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
//   D7  What all threads have begun an operation since is freed by handfuls, without a scan: see
//       eras.hpp.
#pragma once

#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/source.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/detail/era_slots.hpp>
#include <spolia/reclaim/detail/eras.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/slots.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class hazard_eras : public detail::reclaim::era_slots<hazard_eras> {
 public:
  static constexpr scheme_info info{
      .name = "hazard_eras",
      .title = "hazard eras",
      .source = "Ramalhete, Correia, SPAA 2017, with asymmetric fences",
      .protects = protection::era,
      .robust = true,
      .cost =
          "two loads for each pointer followed; a store an operation, and for each slot used and "
          "each era",
      .progress = "protect lock-free, scans wait-free",
      .bound =
          "threads * (advance_every + max(scan_at, 2 * slots of all guards)), and what was "
          "alive in the eras of slots in use or just given up"};

  struct local {
    detail::reclaim::attendance attends;
    detail::reclaim::era_rows rows;
    detail::reclaim::era_bags bags;
    detail::reclaim::scratch<std::uint64_t> eras;
  };

  explicit hazard_eras(const options& o) noexcept : era_slots(o) {}

  void enter(local& me) noexcept { note_begin(me, clock_.now()); }
  void close(local&, hold& h) noexcept { give_back(h); }

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

  template <class Peers>
  void forked(local& lost, Peers) noexcept {
    lost.attends.parked.reset();
    lost.rows.forget();
    lost.eras.forget();
  }

 private:
  friend retiring_by_era;
  friend era_slots;
  template <class Peers, class Sink>
  void scan(local& me, bool all, Peers peers, Sink sink) noexcept {
    limbo bag = me.bags.for_scan(all);
    const auto room = detail::reclaim::room_for(slot_count(), me.eras);
    // heavy → the light fence in put(): orders the end of each block's last era before the reading
    // of the slots.
    if (!SPOLIA_FAULT("he.no_heavy")) fence::heavy();
    detail::reclaim::separate_living(bag, me.bags.pinned(), peers, room);
    // Last: deleters may open guards, retire, and so come back here.
    if (!bag.empty()) sink(bag);
  }
};

static_assert(scheme<hazard_eras> && protects_eras<hazard_eras> && robust<hazard_eras>);

}  // namespace spolia::inline SPOLIA_FLAVOUR
