// SPDX-License-Identifier: Apache-2.0
// hazard_pointers.hpp: each thread names the few blocks that it looks at; what no thread names
// is free.
//
// Source:      Michael: Hazard Pointers: Safe Memory Reclamation for Lock-Free Objects, IEEE TPDS
//              15(6), 2004, with the asymmetric fence of later practice.
// Idea:        before it follows a pointer, a thread writes it into a slot of its own and looks
//              again whether the pointer still stands where it was read. A thread with enough
//              retired blocks reads all slots of all threads, and frees the blocks that it does not
//              find there.
// Protects:    pointer. The structure must make sure that "the pointer still stands there" means
//              "the block is not unlinked yet": a list marks the links of removed nodes, and never
//              follows a marked one. Pointers are compared without their marks (base/source.hpp),
//              with the object that is retired: one to a base or a member protects the whole, as
//              far as the type reaches by which it is retired. announce() names p without a look;
//              the caller makes the look afterwards. A block already protected may be handed to a
//              lower slot of its guard without one (slots.hpp). A slot whose protection has ended
//              names its block on, until it is used again or the guard ends.
// Cost:        protect: a store, a second load, a compiler barrier. A guard: clears the slots used.
//              retire: a link; and every `scan_at` blocks or more a membarrier, a read of all
//              slots, and O(log names) a block. Each scan frees at least half of what it looks at.
// Progress:    protect is lock-free: it repeats only if the source was changed meanwhile. A scan is
//              wait-free. A thread asleep inside a guard keeps at most its slots' blocks.
// Bound:       threads · max(scan_at, 2 · guard_slots · rows), where rows is the number of guards
//              that can be alive at one time: one a thread, and more where guards nest.
//              What a guard retires itself comes on top until it ends, and what deleters retire
//              until their thread's next guard ends: see domain::garbage_bound().
//
// Departures from the paper:
//   D1  The fence between naming and looking is light, the scanner pays for it with a heavy one.
//   D2  Slots are written with release even before the fence: a scanner that reads the NEXT name in
//       a slot takes from it that the accesses to the block named before are over. With a relaxed
//       store it would not (since C++20 a relaxed store continues no release sequence): a data race
//       with the free.
//   D3  No fixed number of threads or slots: nested guards get rows of their own, and the threshold
//       follows the number of rows, so that a scan always frees a constant fraction.
//   D4  The names are kept in a sorted array made before the scan; if there is no memory for it,
//       the scan goes over its blocks in several passes instead (slots.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/source.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/base/trace.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/detail/saturating.hpp>
#include <spolia/reclaim/detail/slot_owners.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/slots.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class hazard_pointers {
 public:
  static constexpr scheme_info info{
      .name = "hazard_pointers",
      .title = "hazard pointers",
      .source = "Michael, IEEE TPDS 15(6), 2004, with asymmetric fences",
      .protects = protection::pointer,
      .robust = true,
      .cost = "a store and a second load for each pointer followed; no fence",
      .progress = "protect lock-free, scans wait-free",
      .bound = "threads * max(scan_at, 2 * slots of all guards), whatever the threads do"};

  struct options {
    /// Blocks that a thread lets wait before it scans. 1024 makes the heavy fence (a few
    /// microseconds) and the read of all slots cost nanoseconds a block, and is 16 KiB of headers.
    std::uint32_t scan_at = 1024;
  };

  using stamp = nothing;

  struct hold {
    detail::reclaim::slot_row* row = nullptr;
    std::uint32_t used = 0;  // bit i: slot i has been written
  };

  struct local {
    detail::reclaim::slot_rows rows;
    limbo list;
    std::int64_t room = 1;  // blocks that may still be retired before a scan
    detail::reclaim::scratch<const void*> names;
  };

  explicit hazard_pointers(const options& o) noexcept : options_(o) {}

  static const char* what_is_wrong(const options& o) noexcept {
    if (o.scan_at == 0 || o.scan_at > 1U << 30U) {
      return "hazard_pointers: scan_at must be between 1 and 2^30";
    }
    return nullptr;
  }

  template <class Peers>
  void join(local& me, std::uint32_t, Peers) noexcept {
    me.rows.join(rows_);
    make_room(me);
  }

  bool due(local& me) const noexcept { return me.room <= 0; }

  /// Only what was adopted can be too much here.
  template <class Peers, class Sink>
  void tick(local& me, Peers peers, Sink sink) noexcept {
    if (due(me)) scan(me, peers, sink);
  }

  void enter(local&) noexcept {}
  void leave(local&) noexcept {}

  hold open(local& me) { return {&me.rows.take(rows_), 0}; }
  void close(local&, hold& h) noexcept { detail::reclaim::slot_rows::give_back(*h.row, h.used); }
  static detail::reclaim::slot_owners& owners(hold& h) noexcept { return h.row->owners; }

  template <class Source>
  source_value<Source> protect(local&, hold& h, unsigned slot, const Source& source) noexcept {
    using traits = source_traits<Source>;
    source_value<Source> seen = traits::load_relaxed(source);
    for (;;) {
      name(h, slot, bare_address(seen));
      if (SPOLIA_FAULT("hp.no_validate")) return seen;
      const source_value<Source> again = traits::load_acquire(source);
      if (bare_address(again) == bare_address(seen)) return again;
      seen = again;
    }
  }

  template <class Source>
  bool step(local& me, hold& h, unsigned slot, const Source& source,
            source_value<Source>& to) noexcept {
    to = protect(me, h, slot, source);
    return false;
  }

  template <class T>
  void announce(local&, hold& h, unsigned slot, T p) noexcept {
    name(h, slot, bare_address(p));
  }

  template <class Peers, class Sink>
  void retire(local& me, retired* block, Peers peers, Sink sink) noexcept {
    me.list.push(block);
    if (--me.room <= 0) scan(me, peers, sink);
  }

  template <class Peers, class Sink>
  void collect(local& me, Peers peers, Sink sink) noexcept {
    scan(me, peers, sink);
  }

  void adopt(local& me, local& other) noexcept {
    me.list.append(other.list);
    make_room(me);  // not other's: `due` reads that outside of the gate. It scans early once.
  }

  /// After an adoption, so that lists that pass from hand to hand do not grow.
  template <class Peers, class Sink>
  void adopted(local& me, Peers peers, Sink sink) noexcept {
    tick(me, peers, sink);
  }

  void abandon(local& me, limbo& all) noexcept { all.append(me.list); }

  template <class Peers>
  void exited(local& me, Peers) noexcept {
    me.rows.leave(rows_);  // its guards have cleared its slots
  }

  template <class Peers>
  void forked(local& lost, Peers) noexcept {
    lost.rows.forget();
    lost.names.forget();
    make_room(lost);
  }
  template <class F>
  static void lists(local& of, F&& f) {
    f(of.list);
  }

  std::size_t waiting(const local& me) const noexcept { return me.list.count(); }

  std::uint64_t epochs() const noexcept { return scans_.load_relaxed(); }

  std::optional<std::uint64_t> bound(std::size_t threads) const noexcept {
    // A list is scanned when it has `limit` blocks; a scan leaves at most one for each slot, and
    // that is half the limit at most. Adopted lists are some thread's lists still, so the sum
    // stays.
    return detail::reclaim::saturating_product(
        threads, limit(std::max<std::uint64_t>(threads, rows_.made())));
  }

 protected:
  /// Names a block in a slot, and orders that before whatever is read next.
  static void name(atomic<const void*>& place, const void* address) noexcept {
    // release → the acquire in gather(), for what was named here before (D2).
    if (SPOLIA_FAULT("hp.relaxed_publish")) {
      place.store_relaxed(address);
    } else {
      place.store_release(address);
    }
    // light → the heavy fence in scan(): either the scan finds the name, or the look at the source
    // that follows sees the block unlinked.
    if (!SPOLIA_FAULT("hp.no_light")) fence::light();
  }

  void make_room(local& me) const noexcept {
    me.room = static_cast<std::int64_t>(limit(rows_.in_use())) -
              static_cast<std::int64_t>(me.list.count());
  }

  alignas(cache_line) detail::reclaim::row_count rows_;

 private:
  static void name(hold& h, unsigned slot, const void* address) noexcept {
    if (SPOLIA_CHECKS && slot >= guard_slots) {
      misuse::report("hazard_pointers: a guard has slots 0 to 7 only", threads::number());
      slot %= guard_slots;
    }
    h.used |= 1U << slot;
    name(h.row->at[slot], address);
  }

  template <class Peers, class Sink>
  SPOLIA_NOINLINE void scan(local& me, Peers peers, Sink sink) noexcept {
    limbo bag;
    bag.append(me.list);
    const auto room = detail::reclaim::room_for(rows_.in_use() * guard_slots, me.names);
    // heavy → the light fence in name(). It orders the unlinking of every block in the bag (by us,
    // or known to us by the gate's acquire when it was adopted) before the reading of the slots.
    if (!SPOLIA_FAULT("hp.no_heavy")) fence::heavy();
    detail::reclaim::separate(bag, me.list, peers, room);
    make_room(me);
    scans_.fetch_add_relaxed(1);
    const std::uint64_t now = trace::on() ? trace::ticks() : 0;
    trace::record(trace::event::epoch_advanced, now, now, 1);
    // Last: deleters may open guards, retire, and so come back here.
    if (!bag.empty()) sink(bag);
  }

  /// A list this long is scanned. Twice the slots: see bound().
  std::uint64_t limit(std::uint64_t rows) const noexcept {
    return std::max<std::uint64_t>(options_.scan_at,
                                   detail::reclaim::saturating_product(2 * guard_slots, rows));
  }

  options options_;
  atomic<std::uint64_t> scans_{0};
};

static_assert(scheme<hazard_pointers> && protects_pointers<hazard_pointers> &&
              robust<hazard_pointers>);

}  // namespace spolia::inline SPOLIA_FLAVOUR
