// SPDX-License-Identifier: Apache-2.0
// debra.hpp: distributed epoch-based reclamation: the scan of the announcements is spread over
// operations, and a thread between two operations holds no other thread up.
//
// Source:      Brown: Reclaiming Memory for Lock-Free Data Structures, PODC 2015, section 4
//              (DEBRA).
// Idea:        a global epoch; each thread announces the epoch it saw when its operation began, or
//              that it is quiescent. Every `scan_every` operations a thread looks at one other
//              announcement; the first that finds all at the current epoch advances it.
// Protects:    region.
// Cost:        enter: a load of a shared word that changes once an epoch, one store; leave: one
//              store; every `scan_every` operations one announcement read. While all threads run,
//              no fence and one read-modify-write an epoch. While one has stopped running
//              operations, a membarrier an epoch, at most one in `scan_every` × `min_looks`
//              operations of a thread, until it is parked, `park_after` epochs later; then nothing.
// Progress:    wait-free for operations. A thread asleep inside a guard stops the epoch.
// Bound:       none when a thread stalls inside a guard. Otherwise about three epochs of blocks, an
//              epoch being `scan_every` operations of the fastest of N threads, N times or
//              `min_looks` times, whichever is more.
//
// Departures from the paper:
//   D1  A thread that is taken for quiescent, because it has announced so in an earlier epoch, is
//       so after a heavy fence, matched by a light one between each announcement and the loads of
//       the operation: a thread that has completed the incremental scan looks at all announcements
//       once more after it. (The paper relies on sequential consistency; its code has no fence, and
//       an announcement may sit in a store buffer while loads proceed.) A thread that has announced
//       the current epoch needs no fence: it has read it, and so sees what was unlinked before.
//   D2  A block's epoch is read when it is retired, not when the operation began: see
//       limbo.hpp.
//   D3  Threads come and go: those that run no operations for `park_after` epochs are parked, and
//       no thread asks for them. Their next operation finds the gate closed (biased_gate.hpp) and
//       makes itself known by a read-modify-write of the epoch. A thread is parked from the start,
//       until it comes.
//   D4  The paper ends an epoch after one look at each thread, or after INCR_THRESH (100) looks.
//       Here it is `hasty_looks` where no fence is needed and blocks wait, else `min_looks`. Blocks
//       become safe an epoch at a time, and more at once than an allocator's thread cache takes go
//       through its locks: with two threads, epochs of 1000 operations cost an update of a tree of
//       small nodes a sixth more than such of 100. Shorter ones only move the epoch's cache line.
//
// Why three epochs. Let O be unlinked by X, which then reads the epoch t. Each time an epoch k is
// ended X is found parked; or quiescent, after the heavy fence; or to have announced k. Where that
// tells of a time before the operation that unlinks O, X reads k or later in it: after the light
// fence in the second case; by the read-modify-write with which it came back, in the first, unless
// that was of an epoch before k, which then is ended by a thread that sees X back; in the third it
// had read k before. So k <= t, and the thread that ends t + 1 found X's operation over. That
// end happens before a reader's announcement of t + 2, before the heavy fence of the thread that
// ends t + 2, or before a reader comes back in t + 2 or later: it cannot reach O. And a reader that
// had O before was found to be done with it by the thread that ended t + 2. So when the epoch is
// t + 3, no reader holds O.
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
#include <spolia/reclaim/detail/parked_mark.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/region_reads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class debra : public region_reads {
 public:
  static constexpr scheme_info info{
      .name = "debra",
      .title = "DEBRA",
      .source = "Brown, PODC 2015, section 4",
      .protects = protection::region,
      .robust = false,
      .cost =
          "a shared load and two plain stores an operation; while a thread is idle and not yet "
          "parked, one membarrier an epoch",
      .progress = "operations wait-free; the epoch waits for threads inside a guard",
      .bound = "none if a thread stalls inside a guard"};

  struct options {
    std::uint32_t scan_every = 10;  ///< the paper's CHECK_THRESH
    /// How many looks at announcements an epoch takes at the least: with few threads it would end
    /// every few operations else, each time for a heavy fence or a shared word that all read. The
    /// paper's INCR_THRESH. 100 make the fence a small part of what operations cost.
    std::uint32_t min_looks = 100;
    /// How many it takes, but not more than that, where no fence is needed to end it, and the
    /// thread has blocks that wait for it.
    std::uint32_t hasty_looks = 10;
    std::uint32_t hasty_from = 32;  ///< so many blocks are worth an epoch as short as that
    std::uint32_t park_after = 8;   ///< epochs without an operation; 0: no thread is ever parked
  };

  static constexpr bool ticks_regularly = true;

  struct local {
    /// epoch << 1 | inside an operation (the complement of the paper's quiescent bit).
    atomic<std::uint64_t> announced{0};
    detail::reclaim::parked_mark parked;
    std::uint32_t operations = 0;  // since another announcement was looked at
    std::uint32_t next = 0;        // whose announcement is looked at next
    std::uint32_t looks = 0;       // at announcements, found current in this epoch
    std::uint32_t certain = 0;     // the last so many of them without need of a fence
    std::uint32_t all = 0;         // so many threads there were at the last look
    detail::reclaim::epoch_bags bags;
  };

  explicit debra(const options& o) noexcept : options_(o) {}

  static const char* what_is_wrong(const options& o) noexcept {
    if (o.scan_every == 0) return "debra: scan_every must be at least 1";
    if (o.hasty_looks == 0) return "debra: hasty_looks must be at least 1";
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
    // release → the acquire in current(): a thread that sees this epoch announced sees our
    // earlier operations ended. Ordered before our loads by the domain's light fence, see
    // advance().
    me.announced.store_release(me.bags.seen() << 1U | 1U);
  }

  void leave(local& me) noexcept {
    // release → the acquire in current(): our accesses happen before the epoch advances past us.
    // Without it a block could be freed while our last load of it is under way.
    me.announced.store_release(me.bags.seen() << 1U);
  }

  /// Has this thread run no operation for so long that the gate should be closed? Only a hint.
  bool idle(const local& other) const noexcept {
    return !other.parked.looks_set() &&
           detail::reclaim::idle_for(options_.park_after, other.announced.load_relaxed(),
                                     epoch_.load_relaxed());
  }

  /// Its gate is closed: until it comes back, it is between two operations.
  void park(local& other) noexcept { other.parked.set(); }

  /// The thread is back, and has announced its operation, if it begins one.
  void unpark(local& me) noexcept { me.parked.come_back(epoch_); }

  template <class Peers, class Sink>
  void retire(local& me, retired* block, Peers, Sink) noexcept {
    // After the unlinking and the announcement of this operation: see limbo.hpp.
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
  /// Threads that live shortly never take enough looks to end an epoch, and what was taken over
  /// waits for three more: where that is much, these end at once.
  template <class Peers, class Sink>
  void adopted(local& me, Peers peers, Sink sink) noexcept {
    for (int i = 0; i < 4 && me.bags.count() >= many; ++i) {
      rotate(me, sink);
      start_over(me);
      advance(me, peers);
    }
    rotate(me, sink);
  }
  void abandon(local& me, limbo& all) noexcept { me.bags.abandon(all); }
  template <class Peers>
  void exited(local&, Peers) noexcept {}
  template <class Peers>
  void forked(local& lost, Peers) noexcept {
    lost.announced.store_relaxed(0);
    lost.parked.reset();
  }
  template <class F>
  static void lists(local& of, F&& f) {
    of.bags.lists(f);
  }
  std::size_t waiting(const local& me) const noexcept { return me.bags.count(); }
  std::uint64_t epochs() const noexcept { return epoch_.load_relaxed(); }
  std::optional<std::uint64_t> bound(std::size_t) const noexcept { return std::nullopt; }

 private:
  static constexpr std::size_t many = 512;

  template <class Sink>
  void rotate(local& me, Sink sink) noexcept {
    // acquire ← the release in advance(): the last accesses of the blocks that we hand out happen
    // before this load. Without it: use after free.
    const std::uint64_t now = epoch_.load_acquire();
    if (now == me.bags.seen()) return;
    start_over(me);
    // Before the announcement: a long release is then done while quiescent, and holds no thread up.
    me.bags.catch_up(now, SPOLIA_FAULT("debra.two_bags") ? 2 : 3, sink);
  }

  /// What a look at another thread says of the epoch that we are in.
  enum class finding : std::uint8_t {
    behind,   // it may be in an operation that began in an earlier one
    quiet,    // between two operations, if that was seen after a heavy fence
    current,  // it has announced this epoch, or is parked
  };

  /// One after the other, each until it is current; then from the first one on again, until there
  /// were enough looks.
  template <class Peers>
  void look_at_one(local& me, Peers peers) noexcept {
    const std::uint32_t all = peers.high_water();
    // Else those that were found current last might be threads that are gone, and not all.
    if (all < me.all) start_over(me);
    me.all = all;
    const finding found = look(me.next, me, peers);
    if (found == finding::behind) return;
    me.certain = found == finding::current ? me.certain + 1 : 0;
    me.next = me.next + 1 < all ? me.next + 1 : 0;
    ++me.looks;
    if (me.certain >= all) {
      // What was found current is for as long as the epoch lasts. (A parked thread may come back,
      // and new threads may come, but then know of this epoch.)
      if (me.looks >= looks_wanted(me)) end(me);
    } else if (me.looks >= (std::max)(all, options_.min_looks)) {
      start_over(me);
      advance(me, peers);
    }
  }

  std::uint32_t looks_wanted(const local& me) const noexcept {
    const bool hasty = me.bags.count() >= options_.hasty_from;
    return hasty ? (std::min)(options_.hasty_looks, options_.min_looks) : options_.min_looks;
  }

  static void start_over(local& me) noexcept {
    me.next = 0;
    me.looks = 0;
    me.certain = 0;
  }

  /// No thread was found in an older epoch, each at some moment: look at all of them after a heavy
  /// fence (D1).
  template <class Peers>
  void advance(local& me, Peers peers) noexcept {
    // heavy → the domain's light fence in each operation. Either we see below that a thread is
    // inside an operation, or that operation sees every unlinking that happened before this fence.
    if (!SPOLIA_FAULT("debra.no_heavy")) fence::heavy();
    const std::uint32_t all = peers.high_water();
    for (std::uint32_t n = 0; n < all; ++n) {
      if (look(n, me, peers) == finding::behind) return;
    }
    end(me);
  }

  void end(local& me) noexcept {
    std::uint64_t now = me.bags.seen();
    // release → the acquires in rotate() and come_back(), passing on what look() acquired. acquire:
    // so do the ends before ours, and ← the release in come_back(): threads that work in the next
    // epoch see that the thread is back. Fails if another thread was faster, which is as good.
    if (!epoch_.cas_strong_acq_rel(now, now + 1)) return;
    const std::uint64_t at = trace::on() ? trace::ticks() : 0;
    trace::record(trace::event::epoch_advanced, at, at, 1);
  }

  template <class Peers>
  finding look(std::uint32_t n, const local& me, Peers peers) const noexcept {
    const local* const other = peers.find(n);
    // Ticks happen between operations. A thread without a part is one that has not come yet.
    if (other == nullptr || other == &me) return finding::current;
    if (other->parked.is_set()) return finding::current;
    // acquire ← the releases in enter() and leave(): what it accessed before happens before us.
    const std::uint64_t seen = other->announced.load_acquire();
    if (seen >> 1U == me.bags.seen()) return finding::current;
    return (seen & 1U) == 0 ? finding::quiet : finding::behind;
  }

  options options_;
  alignas(cache_line) atomic<std::uint64_t> epoch_{3};
};

static_assert(scheme<debra>);

}  // namespace spolia::inline SPOLIA_FLAVOUR
