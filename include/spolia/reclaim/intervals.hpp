// SPDX-License-Identifier: Apache-2.0
// intervals.hpp: each thread announces the interval of eras that its operation has seen; a block
// that lived outside of all intervals is free.
//
// Source:      Wen, Izraelevitz, Cai, Beadle, Scott: Interval-Based Memory Reclamation, PPoPP 2018:
//              2GEIBR, the variant with two global eras for each thread.
// Idea:        an operation announces the era in which it begins, as both ends of an interval.
//              While the clock stands still, all that it reads lives in that era. When the clock
//              has moved the upper end follows, and what was read before stays, since the lower end
//              does not. A thread with enough retired blocks reads all intervals, and frees the
//              blocks whose life meets none.
// Protects:    era. Slots mean nothing: whatever a guard has read stays until the outermost guard
//              of the thread goes. When the upper end has followed the clock, the structure must
//              make sure, as with hazard eras, that a pointer read afterwards leads to a block that
//              was not unlinked before. announce(p, slot) makes the upper end follow, for a p that
//              came by an acquire load; p stays if a look made afterwards shows that it had not
//              been retired.
// Cost:        protect: the source, the clock, a compare; when the clock has moved also a store, a
//              compiler barrier and a second look. A guard: four stores and a look at the clock. A
//              block: two words more. make and retire: as hazard_eras; a scan reads two words of
//              each thread.
// Progress:    protect is lock-free: it repeats only if the clock has moved, so some thread has
//              retired. A scan is wait-free. A thread asleep inside a guard keeps the blocks that
//              lived in its interval, and none born in later ones.
// Bound:       threads · (advance_every + max(scan_at, 2 · threads)), and on top of that what was
//              alive in the intervals: of guards alive, and of those that went since the last full
//              scan. No number alone bounds that, since a structure may be as large as memory. A
//              stalled thread keeps nothing that is born in later eras than the one in which it
//              stalled.
//              What a guard retires itself comes on top until it ends, and what deleters retire
//              until their thread's next guard ends: see domain::garbage_bound().
//
// Why it is sound: facts A, B and R of eras.hpp, with the upper end as the announcement. protect()
// returns when the upper end is on the clock after the source was read: then the block lives in
// that era, as under hazard eras, and the era stays inside the interval.
//
// The published scheme asks for no look when the upper end has followed the clock, and that is not
// enough: let a guard stand on a block that was unlinked since, and whose frozen link leads to one
// that was born after the upper end, retired, and freed before the upper end followed. So step()
// asks the caller for a look unless the clock still stands where the guard began: then whatever the
// guard holds was linked at some time since, and so was whatever is reached from it. Once the clock
// has moved, it asks at each step, because the guard may hold more than one place from which it
// goes on. The same after announce(), whose block may have been unlinked already.
//
// Departures from the paper:
//   D1  The look that step() asks for, see above.
//   D2  Blocks are dated by handfuls, see R in eras.hpp. The paper dates each by a load.
//   D3  The clock moves with retirements, not with allocations.
//   D4  The fences after announcing are light, the scanner pays with a heavy one.
//   D5  No lower end means no interval. It is written with release also when an operation begins: a
//       scanner that reads it takes from it that the accesses of the operation before are over.
//   D6  The intervals are sorted by their lower ends before the scan; without memory for them it
//       goes over its blocks in several passes (slots.hpp). Blocks found pinned are not looked at
//       by each scan (era_bags::for_scan).
//   D7  What all threads have begun an operation since is freed by handfuls, without a scan: see
//       eras.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/source.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/detail/eras.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/slots.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class intervals : public detail::reclaim::retiring_by_era<intervals> {
  using interval = detail::reclaim::era_interval;

 public:
  static constexpr scheme_info info{
      .name = "intervals",
      .title = "interval-based reclamation with two eras a thread",
      .source = "Wen, Izraelevitz, Cai, Beadle, Scott, PPoPP 2018, with asymmetric fences",
      .protects = protection::era,
      .robust = true,
      .cost = "two loads for each pointer followed; four stores an operation",
      .progress = "protect lock-free, scans wait-free",
      .bound =
          "threads * (advance_every + max(scan_at, 2 * threads)), and what was alive in the "
          "intervals of guards alive or just gone"};

  struct hold {
    std::uint64_t era;  // of the clock when the guard began; or no_era
  };

  struct local {
    atomic<std::uint64_t> lower{detail::reclaim::no_era};
    atomic<std::uint64_t> upper{detail::reclaim::no_era};
    detail::reclaim::attendance attends;
    detail::reclaim::era_bags bags;
    detail::reclaim::scratch<interval> intervals;
  };

  explicit intervals(const options& o) noexcept : retiring_by_era(o) {}

  void enter(local& me) noexcept {
    const std::uint64_t now = clock_.now();
    note_begin(me, now);
    me.upper.store_relaxed(now);
    // release → the acquire in gather(), for the accesses of the operation before (D5). The
    // domain's light fence → the heavy fence in scan(): either the scan finds the interval, or we
    // find the clock moved.
    SPOLIA_FAULT("ibr.enter_relaxed") ? me.lower.store_relaxed(now) : me.lower.store_release(now);
  }

  void leave(local& me) noexcept {
    // release → the acquire in gather(): our accesses to a block happen before it is freed.
    SPOLIA_FAULT("ibr.leave_relaxed") ? me.lower.store_relaxed(detail::reclaim::no_era)
                                      : me.lower.store_release(detail::reclaim::no_era);
  }

  static constexpr bool slotless = true;
  hold open(local& me) noexcept { return {me.upper.load_relaxed()}; }
  void close(local&, hold&) noexcept {}

  template <class Source>
  source_value<Source> protect(local& me, hold&, unsigned, const Source& source) noexcept {
    for (std::uint64_t announced = me.upper.load_relaxed();;) {
      source_value<Source> seen;
      const std::uint64_t now = clock_.now_after(source, seen);
      if (now == announced) return seen;
      follow(me, now);
      if (SPOLIA_FAULT("ibr.no_second_look")) return seen;
      announced = now;
    }
  }

  template <class Source>
  SPOLIA_ALWAYS_INLINE bool glance(local&, const hold& h, const Source& source,
                                   source_value<Source>& to) const noexcept {
    return clock_.now_after(source, to) == h.era;
  }

  template <class Source>
  bool step(local& me, hold& h, unsigned slot, const Source& source,
            source_value<Source>& to) noexcept {
    if (glance(me, h, source, to)) return true;
    to = protect(me, h, slot, source);
    return SPOLIA_FAULT("ibr.no_look_in_a_second_era");
  }

  template <class T>
  void announce(local& me, hold& h, unsigned, T) noexcept {
    follow(me, clock_.now());
    h.era = detail::reclaim::no_era;
  }

  template <class Peers>
  void forked(local& lost, Peers) noexcept {
    lost.lower.store_relaxed(detail::reclaim::no_era);
    lost.attends.parked.reset();
    lost.intervals.forget();
  }

 private:
  friend retiring_by_era;

  /// The upper end follows the clock, and that is ordered before whatever is read next.
  static void follow(local& me, std::uint64_t now) noexcept {
    me.upper.store_relaxed(now);
    if (SPOLIA_FAULT("ibr.lower_follows")) me.lower.store_relaxed(now);
    // light → the heavy fence in scan(): either the scan finds the upper end, or we find the clock
    // moved.
    if (!SPOLIA_FAULT("ibr.no_light")) fence::light();
  }

  template <class Peers>
  void scan(local& me, bool all, Peers peers, auto sink) noexcept {
    limbo bag = me.bags.for_scan(all);
    const auto room = detail::reclaim::room_for(peers.high_water(), me.intervals);
    // heavy → the light fences after enter() and in follow(): orders the end of each block's last
    // era before the reading of the intervals.
    if (!SPOLIA_FAULT("ibr.no_heavy")) fence::heavy();
    std::uint32_t from = 0;
    const auto some = [&](std::span<interval> found) { return gather(peers, from, found); };
    detail::reclaim::separate(bag, me.bags.pinned(), room, some, &detail::reclaim::meets);
    // Last: deleters may open guards, retire, and so come back here.
    if (!bag.empty()) sink(bag);
  }

  /// Reads the intervals of the threads from `from` on, as many as find room, and sorts them.
  template <class Peers>
  static std::size_t gather(Peers peers, std::uint32_t& from, std::span<interval> found) noexcept {
    std::size_t count = 0;
    peers.for_each([&](std::uint32_t number, const local& other) {
      if (number < from) return true;
      if (count == found.size()) return false;
      from = number + 1;
      // acquire ← the releases in enter() and leave(): what the thread did in operations before
      // this one happens before we free. It comes first: the upper end is then this operation's, or
      // higher.
      const std::uint64_t lower = SPOLIA_FAULT("ibr.read_relaxed") ? other.lower.load_relaxed()
                                                                   : other.lower.load_acquire();
      if (lower != detail::reclaim::no_era) found[count++] = {lower, other.upper.load_relaxed()};
      return true;
    });
    detail::reclaim::sort_intervals(found.first(count));
    return count;
  }

  /// So many dated blocks are scanned. Twice the intervals, so that reading these does not cost
  /// more than freeing.
  template <class Peers>
  std::uint64_t limit(Peers peers) const noexcept {
    return std::max<std::uint64_t>(options_.scan_at, 2 * std::uint64_t{peers.high_water()});
  }
};

static_assert(scheme<intervals> && protects_eras<intervals> && robust<intervals>);

}  // namespace spolia::inline SPOLIA_FLAVOUR
