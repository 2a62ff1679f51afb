// SPDX-License-Identifier: Apache-2.0
// token.hpp: epochs passed around as a token, made fit for threads that come, go, idle and sleep.
//
// Source:      Kim, Brown, Singh: Are Your Epochs Too Epic? PPoPP 2024, section 4 (Token-EBR). The
//              paper's own ring, in which every thread must keep running, stands in token_ring.hpp.
// Idea:        one token travels over the threads in the order of their numbers. Where it stands,
//              that thread has to come to a boundary between two operations; then the token moves
//              on. When it has gone all the way round, the round number rises: every thread has
//              been between two operations meanwhile. What was unlinked three rounds ago is out of
//              reach.
// Protects:    region. Any structure; nothing is asked of its reads.
// Cost:        enter: one plain store, leave: one plain store; every `tick_every` operations a look
//              at two shared words that change once a hop. While all threads run, no fence and no
//              read-modify-write anywhere. Moving past a thread that is not running operations
//              costs one membarrier, at most once per `patience` blocks retired by the mover.
// Progress:    wait-free for operations. A thread asleep inside a guard stops the ring.
// Bound:       none when a thread stalls inside a guard. Otherwise about three rounds of blocks, a
//              round being `tick_every` operations of each thread, or `patience` blocks of one.
//
// Departures from the paper, all because the paper's N threads are fixed and always running:
//   D1  Each thread announces whether it is inside an operation, and the last round it has seen. So
//       the holder's next neighbour can be known to be between operations, and the token moves past
//       it (`walk`), also when the neighbour is idle, parked, has exited, or holds the token and
//       sleeps.
//   D2  The walk needs the announcement to be ordered before the thread's first load: a light fence
//       in each operation (free) against a heavy one in the walk (rare).
//   D3  A thread that has begun an operation in the current round counts as visited. So that
//       thread's own visit does not mark its boundary exactly any more, and two bags become three.
//   D4  The token is looked at every `tick_every` operations, not at each: the round is then long
//       enough that the words shared between the threads stay in their caches.
//
// Why three rounds. Let O be unlinked by X, which then reads the round t; the round was at most t +
// 1 at the unlinking (epoch_bags.hpp says why). A reader that may hold O began before that, so it
// announces at most t + 1. The token completes round t + 2 only after it found that reader, in that
// round, at its tick, between operations, or announcing t + 2; in each case the reader's operation
// was over. So when the round is t + 3, nobody holds O.
#pragma once

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

class token : public detail::region_reads {
 public:
  static constexpr scheme_info info{
      .name = "token",
      .title = "token epochs",
      .source = "Kim, Brown, Singh, PPoPP 2024, section 4, with departures for real life",
      .protects = protection::region,
      .robust = false,
      .cost = "two plain stores an operation; no fence while all threads run",
      .progress = "operations wait-free; the ring waits for threads inside a guard",
      .bound = "none if a thread stalls inside a guard"};

  struct options {
    std::uint32_t tick_every = 32;  ///< operations between two looks at the token
    std::uint32_t patience = 256;   ///< blocks a thread lets wait before it moves a stuck token
  };

  static constexpr bool ticks_regularly = true;

  struct local {
    /// round << 1 | inside an operation. Written by the owner only.
    atomic<std::uint64_t> announced{0};
    std::int32_t countdown = 1;  // operations until the next tick; 0 or less: overdue
    std::uint32_t number = 0;
    std::size_t pressed_at = 0;  // how much waited when this thread last moved the token
    epoch_bags bags;             // by the round seen at the last tick
  };

  explicit token(const options& o) noexcept : options_(o) {}

  static const char* check(const options& o) noexcept {
    if (o.tick_every == 0 || o.tick_every > 1U << 20U) {
      return "token: tick_every must be between 1 and 1048576";
    }
    if (o.patience == 0) return "token: patience must be at least 1";
    return nullptr;
  }

  template <class Peers>
  void join(local& me, std::uint32_t number, Peers) noexcept {
    me.number = number;
    me.countdown = 1;
  }

  bool due(local& me) const noexcept { return --me.countdown <= 0; }

  template <class Peers, class Sink>
  void tick(local& me, Peers peers, Sink sink) noexcept {
    me.countdown = static_cast<std::int32_t>(options_.tick_every);
    // acquire ← the release in settle(): if the token is here, so is all that its earlier holders
    // saw (X's unlinking happens before our next operation: the paper's correctness sketch).
    const std::uint64_t at = at_.load_acquire();
    if (at == me.number) {
      pass(me, peers);
    } else if (impatient(me)) {
      walk(me, at, peers, nobody{});
    }
    catch_up(me, sink);
  }

  void enter(local& me) noexcept {
    // release → the acquire in visited(): a walker that sees this round announced sees our earlier
    // operations ended. Ordered before our first load by the domain's light fence, against the
    // heavy one in walk(): either the walker sees us inside, or we see all unlinkings it knows of.
    me.announced.store_release(me.bags.seen() << 1U | 1U);
  }

  void leave(local& me) noexcept {
    // release → the acquire in visited(): our accesses happen before blocks are handed out.
    // Without it a block could be freed while our last load of it is still under way.
    if (SPOLIA_FAULT("token.leave_relaxed")) {
      me.announced.store_relaxed(me.bags.seen() << 1U);
    } else {
      me.announced.store_release(me.bags.seen() << 1U);
    }
  }

  template <class Peers, class Sink>
  void retire(local& me, retired* block, Peers, Sink) noexcept {
    // Behind the unlinking and the announcement of this operation: see epoch_bags.hpp.
    me.bags.put(block, SPOLIA_FAULT("token.stale_tag") ? me.bags.seen() : round_.load_relaxed());
  }

  template <class Peers, class Sink>
  void collect(local& me, Peers peers, Sink sink) noexcept {
    for (int round = 0; round < 4; ++round) {  // one to catch up, three for the bags
      // acquire ← the release in settle(), as in tick().
      walk(me, at_.load_acquire(), peers, nobody{});
      catch_up(me, sink);
    }
  }

  void adopt(local& me, local& other) noexcept {
    // After the domain has acquired the other's part, so not below the rounds of its unlinkings.
    me.bags.adopt(other.bags, round_.load_relaxed());
    other.pressed_at = 0;
  }

  void abandon(local& me, limbo& all) noexcept { me.bags.abandon(all); }

  template <class Peers>
  void exited(local&, Peers) noexcept {}  // its announcement says that it is between operations

  template <class Peers>
  void forked(local& lost, Peers) noexcept {
    lost.announced.store_relaxed(0);
    lost.bags.forget();
    std::uint64_t moving = lost.number | being_moved;
    at_.cas_strong_relaxed(moving, lost.number);  // it vanished with the token in hand
  }

  std::size_t waiting(const local& me) const noexcept { return me.bags.count(); }

  std::uint64_t epochs() const noexcept { return round_.load_relaxed(); }

  std::optional<std::uint64_t> bound(std::size_t) const noexcept { return std::nullopt; }

 protected:
  /// Whom a walk may pass although it is inside an operation. Here: no one.
  struct nobody {
    void approach(std::uint32_t) const noexcept {}  // before the heavy fence, from this thread on
    void arrive() const noexcept {}                 // behind it
    bool may_pass(std::uint32_t) const noexcept { return false; }
  };

  /// Does enough wait for another try to move the token? Then this counts as one.
  bool impatient(local& me) const noexcept {
    if (me.bags.count() < me.pressed_at + options_.patience) return false;
    me.pressed_at = me.bags.count();
    return true;
  }

  /// Takes the blocks that have become safe to the sink.
  template <class Sink>
  void catch_up(local& me, Sink sink) noexcept {
    // acquire ← the release in settle(): every reader's last access of the bags we hand out happens
    // before this load, through the token's way round. Without it: use after free.
    const std::uint64_t now = round_.load_acquire();
    if (now == me.bags.seen()) return;
    me.pressed_at = 0;
    me.bags.catch_up(now, SPOLIA_FAULT("token.two_bags") ? 2 : 3, sink);
  }

  /// The token is here and we are between two operations: send it to the next thread.
  template <class Peers>
  void pass(local& me, Peers peers) noexcept {
    const std::uint32_t all = peers.high_water();
    const std::uint32_t next = me.number + 1 < all ? me.number + 1 : 0;
    const local* const there = peers.find(next);
    const bool running = there != nullptr && (there->announced.load_relaxed() & 1U) != 0;
    if (running && next != me.number) {
      const std::uint64_t round = round_.load_relaxed();
      if (take(me, me.number)) settle(me, next, next == 0, round);
    } else if (impatient(me)) {
      // The neighbour may be idle for long; to move past it is worth a heavy fence by now.
      walk(me, me.number, peers, nobody{});
    }
  }

  /// Picks the token up where it stands. Fails if somebody else has: a walker may take it from a
  /// thread that is just about to pass it. Who goes on without the token may end a round in which
  /// it has not looked at everybody. No fault is planted for that: two threads, which is what can
  /// be explored, only have one such round at a time, and three rounds leave room for it.
  bool take(const local& me, std::uint64_t at) noexcept {
    // acquire ← the release in settle(): all that the token's earlier holders know is known to us,
    // their unlinkings above all, and so ordered before our heavy fence or our next settle().
    return at_.cas_strong_acquire(at, me.number | being_moved);
  }

  /// Moves the token from where it stands past every thread that has been between two operations in
  /// this round, or whom `excuses` lets it pass, at most to the end of the round.
  template <class Peers, class Excuses>
  void walk(local& me, std::uint64_t at, Peers peers, Excuses excuses) noexcept {
    if ((at & being_moved) != 0) return;
    const auto first = static_cast<std::uint32_t>(at);
    if (!visited(first, me, peers, round_.load_relaxed()) && !excuses.may_pass(first)) {
      return;  // not worth a fence
    }
    if (take(me, at)) walk_from(me, first, peers, excuses);
  }

  /// The same from thread `next` on, with the token in hand.
  template <class Peers, class Excuses>
  void walk_from(local& me, std::uint32_t next, Peers peers, Excuses excuses) noexcept {
    const std::uint64_t round = round_.load_relaxed();
    excuses.approach(next);
    // heavy → the domain's light fence in each operation (D2). Either we see below that a thread is
    // inside an operation, or that operation sees every unlinking known to us and cannot reach its
    // blocks.
    if (!SPOLIA_FAULT("token.no_heavy")) fence::heavy();
    excuses.arrive();
    const std::uint32_t all = peers.high_water();
    while (next < all && (visited(next, me, peers, round) || excuses.may_pass(next))) ++next;
    settle(me, next >= all ? 0 : next, next >= all, round);
  }

  /// Puts the token down at a thread, where it is still in our hand. What we know of `round` stays
  /// true if it is not: then the round may be over, but not twice.
  void settle(const local& me, std::uint32_t next, bool round_over, std::uint64_t round) noexcept {
    // release → the acquire in catch_up().
    if (round_over && round_.cas_strong_release(round, round + 1)) {
      const std::uint64_t now = trace::on() ? trace::ticks() : 0;
      trace::record(trace::event::epoch_advanced, now, now, 1);
    }
    std::uint64_t in_hand = me.number | being_moved;
    // release → the acquires of at_: the next holder sees what we saw (and the new round).
    at_.cas_strong_release(in_hand, next);
  }

  /// Has this thread been between two operations since `round`, the present one, began? While we
  /// hold the token.
  template <class Peers>
  bool visited(std::uint32_t number, const local& me, Peers peers,
               std::uint64_t round) const noexcept {
    if (number == me.number) return true;  // ticks happen between operations
    const local* const other = peers.find(number);
    if (other == nullptr) return true;
    // acquire ← the releases in enter() and leave(): what it accessed before happens before us.
    const std::uint64_t seen = other->announced.load_acquire();
    return (seen & 1U) == 0 || seen >> 1U == round;
  }

  static constexpr std::uint64_t being_moved = std::uint64_t{1} << 63U;

  options options_;
  /// Where the token stands: a thread number, or the mover's with `being_moved`. Beside the round,
  /// since both are read at ticks only and change together.
  alignas(cache_line) atomic<std::uint64_t> at_{0};
  atomic<std::uint64_t> round_{3};
};

static_assert(scheme<token>);

}  // namespace spolia::inline SPOLIA_FLAVOUR
