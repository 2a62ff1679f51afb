// SPDX-License-Identifier: Apache-2.0
// handed_hazards.hpp: hazard pointers as objects of their own, which belong to no guard and to no
// thread.
//
// Source:      Michael, IEEE TPDS 15(6), 2004, as in hazard_pointers.hpp, whose naming and scanning
//              this is; the shape of the interface is that of C++26 [saferecl.hp].
// Idea:        a hazard pointer is one slot, taken from a store of slots for all threads
//              (handed_slots.hpp) and given back by the thread that has it last. A scan reads every
//              slot of the store.
// Protects:    pointer: what a slot names since before it was retired; and what was read from a
//              source that still held it after it was named.
// Cost:        try_protect: a store, a load, a compiler barrier. Retiring: as hazard_pointers.
// Progress:    try_protect is wait-free, a scan too.
// Bound:       threads · max(scan_at, 16 · rows), where rows is a quarter of the most hazard
//              pointers that were in use, or kept by threads, at one time; and what is retired
//              while there is no memory for a thread's first cell. What deleters retire comes on
//              top until their thread's next retirement is over.
//
// Departures from hazard_pointers:
//   D1  A slot's owner changes. What the one owner read happens before the other one's first name
//       (handed_slots.hpp), so that a scan that sees only the latter may free what the former
//       named.
//   D2  A block that one slot names is NOT safely handed on by naming it in another slot, when it
//       was retired before: slots have no order here, and a scan may read the second slot before
//       and the first one after. Hand on the slot itself.
//   D3  A fork keeps the names of the threads that vanished: the slot may have been taken by one of
//       them, and be in use by the one that is left.
#pragma once

#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/source.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/detail/handed_slots.hpp>
#include <spolia/reclaim/detail/strays.hpp>
#include <spolia/reclaim/hazard_pointers.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

class handed_hazards : public hazard_pointers {
 public:
  using slot = handed_slots::slot;

  struct local : hazard_pointers::local {
    handed_slots::handful free;
  };

  explicit handed_hazards(const options& o) noexcept : hazard_pointers(o) {
    rows_.make();  // the first row, which no thread uses yet
    rows_.leave(1);
  }

  /// Throws std::bad_alloc.
  SPOLIA_ALWAYS_INLINE slot& take(local& me) { return slots_.take(me.free, rows_); }
  SPOLIA_ALWAYS_INLINE void give_back(local& me, slot& s) noexcept {
    slots_.give_back(me.free, s, rows_);
  }
  /// The same by a thread without a cell.
  void give_back(slot& s) noexcept { handed_slots::give_back(s, rows_); }

  /// One attempt to protect `p`, which was read from `source` before. False: `p` is what stands
  /// there now, and the slot names nothing.
  template <class Source>
  SPOLIA_ALWAYS_INLINE static bool try_protect(slot& s, source_value<Source>& p,
                                               const Source& source) noexcept {
    const source_value<Source> wanted = p;
    associate(s, wanted);
    if (SPOLIA_FAULT("handed.no_validate")) return true;
    p = source_traits<Source>::load_acquire(source);
    if (p == wanted) [[likely]]
      return true;
    handed_slots::clear(s);
    return false;
  }

  /// Names what the caller knows not to be retired yet.
  SPOLIA_ALWAYS_INLINE static void associate(slot& s, const void* address) noexcept {
    if (address == nullptr) return handed_slots::clear(s);
    name(s, address);
  }

  template <class Peers>
  void join(local& me, std::uint32_t, Peers) noexcept {
    make_room(me);
  }
  template <class Peers, class Sink>
  void tick(local& me, Peers, Sink sink) noexcept {
    hazard_pointers::tick(me, everybody{this}, sink);
  }
  template <class Peers, class Sink>
  void retire(local& me, retired* block, Peers, Sink sink) noexcept {
    hazard_pointers::retire(me, block, everybody{this}, sink);
  }
  template <class Peers, class Sink>
  void collect(local& me, Peers, Sink sink) noexcept {
    hazard_pointers::collect(me, everybody{this}, sink);
  }
  template <class Peers, class Sink>
  void adopted(local& me, Peers, Sink sink) noexcept {
    hazard_pointers::adopted(me, everybody{this}, sink);
  }
  void abandon(local& me, limbo& all) noexcept {
    hazard_pointers::abandon(me, all);
    astray.take(all);
  }
  template <class Peers>
  void exited(local& me, Peers) noexcept {
    handed_slots::give_back_down_to(me.free, 0, rows_);
  }
  template <class Peers>
  void forked(local& lost, Peers peers) noexcept {
    hazard_pointers::forked(lost, peers);
    lost.free.count = 0;
  }
  /// In a fork's child: threads that were here without a cell are gone.
  void forget_strangers() noexcept { astray.forked(); }

  strays astray;

 private:
  /// All slots, as those of one thread.
  struct everybody {
    handed_hazards* of;
    template <class F>
    void for_each(F&& f) const {
      f(0, of->slots_);
    }
  };

  handed_slots slots_;
};

static_assert(scheme<handed_hazards>);

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
