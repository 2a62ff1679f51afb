// SPDX-License-Identifier: Apache-2.0
// debra.hpp: distributed epoch-based reclamation: the scan of the announcements is spread over
// operations, and a thread between two operations holds nobody up.
//
// Source:      Brown: Reclaiming Memory for Lock-Free Data Structures, PODC 2015, section 4
//              (DEBRA).
// Idea:        a global epoch; each thread announces the epoch it saw when its operation began, or
//              that it is quiescent. Every `scan_every` operations a thread looks at one other
//              announcement; the first that finds all at the current epoch advances it.
// Protects:    region.
// Cost:        enter: a load of a shared word that changes once an epoch, one store; leave: one
//              store; every `scan_every` operations one announcement read. One membarrier an epoch,
//              at most one in `scan_every` × `min_looks` operations of a thread.
// Progress:    wait-free for operations. A thread asleep inside a guard stops the epoch.
// Bound:       none when a thread stalls inside a guard. Otherwise about three epochs of blocks, an
//              epoch being `scan_every` operations of the fastest of N threads, N times or
//              `min_looks` times, whichever is more.
//
// Departures from the paper:
//   D1  The announcement is ordered before the operation's loads by a light fence, matched by one
//       heavy fence an epoch: the incremental scan is only a filter, and whoever has completed it
//       looks at all announcements once more behind the heavy fence. (The paper relies on
//       sequential consistency; its code has no fence, and an announcement may sit in a store
//       buffer while loads proceed.)
//   D2  A block's epoch is read when it is retired, not when the operation began: see
//       epoch_bags.hpp.
//   D3  Announcements of threads that were never seen are quiescent ones, so threads come and go.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/trace.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/epoch_bags.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/region_reads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class debra : public detail::region_reads {
 public:
  static constexpr scheme_info info{
      .name = "debra",
      .title = "DEBRA",
      .source = "Brown, PODC 2015, section 4",
      .protects = protection::region,
      .robust = false,
      .cost = "a shared load and two plain stores an operation; one membarrier an epoch",
      .progress = "operations wait-free; the epoch waits for threads inside a guard",
      .bound = "none if a thread stalls inside a guard"};

  struct options {
    std::uint32_t scan_every = 10;  ///< the paper's CHECK_THRESH
    /// How many looks at announcements an epoch takes at the least: with few threads it would end
    /// every few operations else, each time for a heavy fence and a shared word that all read. The
    /// paper's INCR_THRESH. 100 make the fence a small part of what operations cost.
    std::uint32_t min_looks = 100;
  };

  static constexpr bool ticks_regularly = true;

  struct local {
    /// epoch << 1 | inside an operation (the complement of the paper's quiescent bit).
    atomic<std::uint64_t> announced{0};
    std::uint32_t operations = 0;  // since another announcement was looked at
    std::uint32_t next = 0;        // whose announcement is looked at next
    std::uint32_t looks = 0;       // at announcements, found current in this epoch
    epoch_bags bags;
  };

  explicit debra(const options& o) noexcept : options_(o) {}

  static const char* check(const options& o) noexcept {
    if (o.scan_every == 0) return "debra: scan_every must be at least 1";
    return o.min_looks == 0 ? "debra: min_looks must be at least 1" : nullptr;
  }

  bool due(local& me) const noexcept {
    return ++me.operations >= options_.scan_every || epoch_.load_relaxed() != me.bags.seen();
  }

  template <class Peers, class Sink>
  void tick(local& me, Peers peers, Sink sink) noexcept {
    rotate(me, sink);
    if (me.operations < options_.scan_every) return;
    me.operations = 0;
    look_at_one(me, peers);
  }

  void enter(local& me) noexcept {
    // release → the acquire in current(): whoever sees this epoch announced sees our earlier
    // operations ended. Ordered before our loads by the domain's light fence, see advance().
    me.announced.store_release(me.bags.seen() << 1U | 1U);
  }

  void leave(local& me) noexcept {
    // release → the acquire in current(): our accesses happen before the epoch advances past us.
    // Without it a block could be freed while our last load of it is under way.
    me.announced.store_release(me.bags.seen() << 1U);
  }

  template <class Peers, class Sink>
  void retire(local& me, retired* block, Peers, Sink) noexcept {
    // Behind the unlinking and the announcement of this operation: see epoch_bags.hpp.
    me.bags.put(block, SPOLIA_FAULT("debra.stale_tag") ? me.bags.seen() : epoch_.load_relaxed());
  }

  template <class Peers, class Sink>
  void collect(local& me, Peers peers, Sink sink) noexcept {
    for (int i = 0; i < 4; ++i) {  // one epoch to catch up, three for the bags
      rotate(me, sink);
      advance(me, peers);
    }
    rotate(me, sink);
  }

  void adopt(local& me, local& other) noexcept {
    // After the domain has acquired the other's part, so not below the epochs of its unlinkings.
    me.bags.adopt(other.bags, epoch_.load_relaxed());
  }
  void abandon(local& me, limbo& all) noexcept { me.bags.abandon(all); }
  template <class Peers>
  void exited(local&, Peers) noexcept {}
  template <class Peers>
  void forked(local& lost, Peers) noexcept {
    lost.announced.store_relaxed(0);
    lost.bags.forget();
  }
  std::size_t waiting(const local& me) const noexcept { return me.bags.count(); }
  std::uint64_t epochs() const noexcept { return epoch_.load_relaxed(); }
  std::optional<std::uint64_t> bound(std::size_t) const noexcept { return std::nullopt; }

 private:
  template <class Sink>
  void rotate(local& me, Sink sink) noexcept {
    // acquire ← the release in advance(): the last accesses of the blocks that we hand out happen
    // before this load. Without it: use after free.
    const std::uint64_t now = epoch_.load_acquire();
    if (now == me.bags.seen()) return;
    start_over(me);
    // Before the announcement: a long release is then done while quiescent and holds nobody up.
    me.bags.catch_up(now, SPOLIA_FAULT("debra.two_bags") ? 2 : 3, sink);
  }

  /// One after the other, each until it is current; then from the first one on again, until there
  /// were enough looks.
  template <class Peers>
  void look_at_one(local& me, Peers peers) noexcept {
    const std::uint32_t all = peers.high_water();
    if (!current(me.next, me, peers)) return;
    me.next = me.next + 1 < all ? me.next + 1 : 0;
    if (++me.looks < std::max(all, options_.min_looks)) return;
    start_over(me);
    advance(me, peers);
  }

  static void start_over(local& me) noexcept {
    me.next = 0;
    me.looks = 0;
  }

  /// All were found current, each at some moment: look at all of them behind a heavy fence (D1).
  template <class Peers>
  void advance(local& me, Peers peers) noexcept {
    std::uint64_t now = me.bags.seen();
    // heavy → the domain's light fence in each operation. Either we see below that a thread is
    // inside an operation, or that operation sees every unlinking that happened before this fence.
    if (!SPOLIA_FAULT("debra.no_heavy")) fence::heavy();
    const std::uint32_t all = peers.high_water();
    for (std::uint32_t n = 0; n < all; ++n) {
      if (!current(n, me, peers)) return;
    }
    // release → the acquire in rotate(), passing on what current() acquired. acquire: so do the
    // advances before ours. Fails if another thread was faster, which is as good.
    if (!epoch_.cas_strong_acq_rel(now, now + 1)) return;
    const std::uint64_t at = trace::on() ? trace::ticks() : 0;
    trace::record(trace::event::epoch_advanced, at, at, 1);
  }

  template <class Peers>
  bool current(std::uint32_t n, const local& me, Peers peers) const noexcept {
    const local* const other = peers.find(n);
    if (other == nullptr || other == &me) return true;  // ticks happen between operations
    // acquire ← the releases in enter() and leave(): what it accessed before happens before us.
    const std::uint64_t seen = other->announced.load_acquire();
    return (seen & 1U) == 0 || seen >> 1U == me.bags.seen();
  }

  options options_;
  alignas(cache_line) atomic<std::uint64_t> epoch_{3};
};

static_assert(scheme<debra>);

}  // namespace spolia::inline SPOLIA_FLAVOUR
