// SPDX-License-Identifier: Apache-2.0
// regions.hpp: epochs with a phase number for each thread, for threads that wait until every region
// that is open now has been closed.
//
// Source:      McKenney, Slingwine: Read-Copy Update, PDCS 1998, for the waiting; DEBRA (debra.hpp)
//              for the blocks; the shape of the interface is that of C++26 [saferecl.rcu].
// Idea:        blocks are freed by epochs, and no thread waits for that. A thread that wants to
//              wait waits for nothing but the regions that were open when it asked: each thread's
//              phase number is odd inside of a region and never the same again, so one look at each
//              thread tells whether to wait for it, and one change of the number that the region is
//              over. An epoch would have to change twice, and for that every reader must come and
//              go meanwhile.
// Protects:    region.
// Cost:        debra's, and a plain store more at each end of a region. Waiting: one membarrier, a
//              look at each thread, and the longest of the regions that were open; for more than
//              `at_once` open regions, the sum over such groups.
// Progress:    regions are wait-free. A thread that waits, waits for the readers: one grace period
//              for each `at_once` open regions, and a millisecond (backoff.hpp). A barrier takes
//              two of them, see outside.hpp. The strangers of D1 count as one region, which ends
//              when none of them is inside.
// Bound:       none when a thread stalls inside a region.
//
// Departures from debra:
//   D1  lock() must not fail, also where there is no memory for a thread's first cell. Such
//       threads, the strangers, share one more announcement, under a lock.
//   D2  A thread advances the epoch only while blocks of its own wait: threads that only read pay
//       for no membarrier.
//
// Why waiting is right. The waiter's heavy fence comes before its looks, a region's light fence
// after the number it has announced. If the light one is first, the waiter sees the number odd, or
// the region's end. If the heavy one is first, the region sees all that happened before the fence,
// and need not be waited for. What the waiter reads was written by a release, so each access of the
// regions that it sees ended happens before its return.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/debra.hpp>
#include <spolia/reclaim/detail/strays.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {

/// How many regions the calling thread has open that count among the strangers', in all domains. In
/// the compiled library: a thread may open a region in one shared object and close it in another.
#if defined(SPOLIA_MODEL)
inline std::uint32_t& own_strange_regions() noexcept {
  static constinit thread_local std::uint32_t count = 0;
  return count;
}
#else
SPOLIA_EXPORT std::uint32_t& own_strange_regions() noexcept;
#endif

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

class regions : public debra {
 public:
  struct local : debra::local {
    atomic<std::uint64_t> phase{0};  // odd: inside of a region
  };

  using debra::debra;

  void enter(local& me) noexcept {
    // release → the acquires in wait_for(): a waiter that sees this number takes from it that the
    // region before is over.
    if (SPOLIA_FAULT("regions.enter_relaxed")) {
      me.phase.store_relaxed(me.phase.load_relaxed() + 1);
    } else {
      me.phase.store_release(me.phase.load_relaxed() + 1);
    }
    debra::enter(me);
  }

  void leave(local& me) noexcept {
    debra::leave(me);
    // release → the acquires in wait_for(): our accesses happen before the waiter's return.
    if (SPOLIA_FAULT("regions.leave_relaxed")) {
      me.phase.store_relaxed(me.phase.load_relaxed() + 1);
    } else {
      me.phase.store_release(me.phase.load_relaxed() + 1);
    }
  }

  /// A thread that has nothing to wait for leaves it to the others to advance the epoch (D2).
  template <class Peers, class Sink>
  void tick(local& me, Peers peers, Sink sink) noexcept {
    if (debra::waiting(me) == 0) me.operations = 0;
    debra::tick(me, with_strangers<Peers>{this, peers}, sink);
  }
  template <class Peers, class Sink>
  void collect(local& me, Peers peers, Sink sink) noexcept {
    debra::collect(me, with_strangers<Peers>{this, peers}, sink);
  }
  template <class Peers, class Sink>
  void adopted(local& me, Peers peers, Sink sink) noexcept {
    debra::adopted(me, with_strangers<Peers>{this, peers}, sink);
  }
  void abandon(local& me, limbo& all) noexcept {
    debra::abandon(me, all);
    astray.take(all);
    handed_over.take(all);
  }
  /// A barrier wants all that waits here, `safe` with it.
  void hand_over(local& me, limbo& safe) noexcept {
    debra::abandon(me, safe);
    handed_over.put(safe);
  }
  template <class Peers>
  void forked(local& lost, Peers peers) noexcept {
    debra::forked(lost, peers);
    lost.phase.store_relaxed(0);
  }
  template <class F>
  void lists_of_strangers(F&& f) {
    handed_over.lists(f);  // `astray` is counted when it is taken
  }
  /// In a fork's child: the strangers are gone, but for the thread that is left. Its regions in
  /// other domains may be taken for some of this one, and then others' stay.
  void forget_strangers() noexcept {
    astray.forked();
    handed_over.forked();
    door_.break_open();
    strangers_inside_ = (std::min)(strangers_inside_, core::own_strange_regions());
    if (strangers_inside_ == 0 && (strangers_.phase.load_relaxed() & 1U) != 0) leave(strangers_);
  }

  /// Returns when every region that was open when it was called is closed. Between two looks it
  /// asks `expired()`; false if that was true.
  template <class Peers, class Expired>
  bool wait_for_readers(Peers peers, Expired&& expired) noexcept {
    // heavy → the light fence after enter(): see above.
    if (!SPOLIA_FAULT("regions.no_heavy")) fence::heavy();
    with_strangers<Peers> all{this, peers};
    for (std::uint32_t next = 0; next < all.high_water();) {
      std::array<open_region, at_once> open;
      std::size_t found = 0;
      for (; next < all.high_water() && found < open.size(); ++next) {
        const local* const other = all.find(next);
        if (other == nullptr) continue;
        // acquire ← the releases in enter() and leave().
        const std::uint64_t seen = other->phase.load_acquire();
        if ((seen & 1U) != 0) open[found++] = {&other->phase, seen};
      }
      for (std::size_t i = 0; i < found; ++i) {
        if (!wait_for(open[i], expired)) return false;
      }
    }
    return true;
  }

  /// A region of a thread without a cell. They all count as one.
  void stranger_enters() noexcept {
    door_.lock();
    if (strangers_inside_++ == 0) {
      enter(strangers_);
      if (strangers_.parked.looks_set()) first_stranger();
    }
    ++core::own_strange_regions();
    door_.unlock();
    // light → the heavy fences in wait_for_readers() and debra::advance(), as for a region with a
    // cell. Also for threads that found another one inside: the announcement happens before their
    // lock.
    if (!SPOLIA_FAULT("regions.stranger_without_light")) fence::light();
  }

  /// False if there is none.
  bool stranger_leaves() noexcept {
    door_.lock();
    const bool inside = strangers_inside_ != 0;
    if (inside && --strangers_inside_ == 0) leave(strangers_);
    if (inside) --core::own_strange_regions();
    door_.unlock();
    return inside;
  }

  strays astray;
  strays handed_over;  // to the barrier that has asked for it, or to the next one

 private:
  static constexpr std::size_t at_once = 32;

  /// From now on epochs look at what strangers announce: as when a thread comes to its parked gate.
  SPOLIA_NOINLINE void first_stranger() noexcept {
    // light → the heavy fence in debra::advance(), as in biased_gate::come().
    fence::light();
    unpark(strangers_);
  }

  struct open_region {
    const atomic<std::uint64_t>* phase;
    std::uint64_t seen;
  };

  template <class Expired>
  static bool wait_for(const open_region& r, Expired&& expired) noexcept {
    // acquire ← the release in leave(), or in the next enter().
    for (backoff wait; r.phase->load_acquire() == r.seen; wait.pause()) {
      if (expired()) return false;
    }
    return true;
  }

  /// Number 0 are the strangers, which have no number of their own.
  template <class Peers>
  struct with_strangers {
    regions* of;
    Peers peers;
    local* find(std::uint32_t n) const noexcept {
      return n == 0 ? &of->strangers_ : peers.find(n - 1);
    }
    std::uint32_t high_water() const noexcept { return peers.high_water() + 1; }
  };

  rare_lock door_;
  std::uint32_t strangers_inside_ = 0;  // under door_
  local strangers_;
};

static_assert(scheme<regions>);

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
