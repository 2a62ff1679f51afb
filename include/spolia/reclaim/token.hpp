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
//              read-modify-write anywhere. Moving past a thread that has stopped running
//              operations costs one membarrier, at most once per `patience` blocks retired by
//              the mover, until it is parked; then nothing.
// Progress:    wait-free for operations. A thread asleep inside a guard stops the ring.
// Bound:       none when a thread stalls inside a guard. Otherwise about three rounds of blocks: of
//              `tick_every` operations of each thread (see D4), or of `patience` blocks of one.
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
//       enough that the words shared between the threads stay in their caches. While no thread's
//       blocks wait, it is 16 times as long, and where 32 of a thread's own wait at most, up to
//       four times (calm_rounds.hpp); not if the domain has a budget.
//   D5  Threads that run no operations for `park_after` rounds are parked, and the token passes
//       them over. Their next operation finds the gate closed (biased_gate.hpp) and makes itself
//       known by a read-modify-write of the round. A thread is parked from the start, until it
//       comes.
//
// Why three rounds. Let O be unlinked by X, which then reads the round t; the round was at most t +
// 1 at the unlinking (limbo.hpp says why). A reader that may hold O began before that, so it
// announces at most t + 1. The token completes round t + 2 only after it found that reader, in that
// round, at its tick, between operations, or announcing t + 2; in each case the reader's operation
// was over. So when the round is t + 3, no reader holds O.
//
// Parked threads. A thread that comes back in round r read r by an acquiring read-modify-write, and
// every round is ended by one too. If r <= t + 1, then round t + 1 was ended after it, and round
// t + 2 is run by threads that know of that end: to them it is a thread like others. If r >= t + 2,
// it knows of the end of round t + 1, before which X was found to have ended the operation that
// unlinked O. So it cannot reach O.
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
#include <spolia/reclaim/detail/calm_rounds.hpp>
#include <spolia/reclaim/detail/parked_mark.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/region_reads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

namespace detail::reclaim {

/// The token's way round: the schemes `token` and `robust_token` hold one each. Where the token may
/// pass threads that are inside an operation, `Excuses` says so: `no_excuses` lists its hooks.
class token_rounds {
 public:
  struct options {
    std::uint32_t tick_every = 64;  ///< operations between two looks at the token
    /// Blocks that a thread lets wait before it moves a stuck token. Where there are many threads,
    /// more: so much again for every 32, so that the membarriers that each suffers stay few.
    std::uint32_t patience = 1024;
    std::uint32_t park_after = 8;  ///< rounds without an operation; 0: no thread is ever parked
  };

  struct local {
    /// round << 1 | inside an operation. Written by the owner only.
    atomic<std::uint64_t> announced{0};
    detail::reclaim::parked_mark parked;
    std::uint32_t number = 0;
    std::size_t pressed_at = 0;  // how much waited when this thread last moved the token
    epoch_bags bags;             // by the round seen at the last tick
  };

  explicit token_rounds(const options& o) noexcept : options_(o) {}
  static const char* what_is_wrong(const options& o) noexcept {
    const bool fits = o.tick_every != 0 && o.tick_every <= 1U << 20U;
    return fits ? nullptr : "token: tick_every must be between 1 and 1048576";
  }

  void join(local& me, std::uint32_t number) noexcept { me.number = number; }

  std::uint32_t pace() const noexcept { return options_.tick_every; }
  std::uint32_t pace_of(const local& me) noexcept {
    return pace() * calm_.stretch(me.bags.count(), round_.load_relaxed());
  }

  /// Where the token stands: a thread number, or the mover's with `being_moved`.
  std::uint64_t stands_at() const noexcept {
    // acquire ← the release in put_down(): if the token is here, so is all that its holders saw
    // (X's unlinking happens before our next operation: the paper's correctness sketch).
    return at_.load_acquire();
  }

  /// The word that rises when the token has gone all the way round.
  atomic<std::uint64_t>& round() noexcept { return round_; }
  const atomic<std::uint64_t>& round() const noexcept { return round_; }

  void enter(local& me) noexcept {
    // release → the acquire in visited(): a walker that sees this round announced sees our earlier
    // operations ended. Ordered before our first load by the domain's light fence, against the
    // heavy one in walk(): either the walker sees us inside, or we see all unlinkings it knows of.
    me.announced.store_release(me.bags.seen() << 1U | 1U);
  }

  void leave(local& me) noexcept {
    // release → the acquire in visited(): our accesses happen before blocks are handed out.
    // Without it a block could be freed while our last load of it is still under way.
    const std::uint64_t out = me.bags.seen() << 1U;
    if (SPOLIA_FAULT("token.leave_relaxed")) return me.announced.store_relaxed(out);
    me.announced.store_release(out);
  }

  /// Has this thread run no operation for so long that the gate should be closed? Only a hint.
  bool idle(const local& other) const noexcept {
    return !other.parked.looks_set() &&
           detail::reclaim::idle_for(options_.park_after, other.announced.load_relaxed(),
                                     round_.load_relaxed());
  }

  /// Its gate is closed: until it comes back, it is between two operations.
  void park(local& other) noexcept { other.parked.set(); }

  /// This thread is about to be away for a while, between two operations: not with the token.
  template <class Peers>
  void step_aside(local& me, Peers peers) noexcept {
    // acquire ← the release in settle(), as in tick().
    if (at_.load_acquire() == me.number) pass_on(me, me.number, peers, no_excuses{});
  }

  /// The thread is back, and has announced its operation, if it begins one.
  void unpark(local& me) noexcept { me.parked.come_back(round_); }

  /// The block's tag.
  std::uint64_t retire(local& me, retired* block) noexcept {
    // After the unlinking and the announcement of this operation: see limbo.hpp.
    const auto tag = SPOLIA_FAULT("token.stale_tag") ? me.bags.seen() : round_.load_relaxed();
    me.bags.put(block, tag);
    return tag;
  }

  /// The tag that the other's blocks have now.
  std::uint64_t adopt(local& me, local& other) noexcept {
    // After the domain has acquired the other's part, so not below the rounds of its unlinkings.
    const std::uint64_t tag = round_.load_relaxed();
    me.bags.adopt(other.bags, tag);
    other.pressed_at = 0;
    return tag;
  }

  void abandon(local& me, limbo& all) noexcept { me.bags.abandon(all); }

  void forked(local& lost) noexcept {
    lost.announced.store_relaxed(0);
    lost.parked.reset();
    std::uint64_t moving = lost.number | being_moved;
    at_.cas_strong_relaxed(moving, lost.number);  // it vanished with the token in hand
  }

  std::size_t waiting(const local& me) const noexcept { return me.bags.count(); }
  std::uint64_t epochs() const noexcept { return round_.load_relaxed(); }

  /// Threads that the token may be moved past although they are inside an operation. Here: none.
  struct no_excuses {
    void approach(std::uint32_t) const noexcept {}  // before the heavy fence, from this thread on
    void arrive() const noexcept {}                 // after it
    bool may_pass(std::uint32_t) const noexcept { return false; }
    void hop() const noexcept {}  // instead of a heavy fence; then:
    bool may_skip(const local*) const noexcept { return false; }
  };

  /// Do so many more blocks wait than at the last try to move the token in this round?
  bool impatient(local& me, std::size_t blocks) const noexcept {
    if (me.bags.count() <= me.pressed_at + blocks) return false;
    me.pressed_at = me.bags.count();
    return true;
  }

  template <class Peers>
  std::size_t patience(Peers peers) const noexcept {
    const std::uint32_t threads = (std::min)(peers.high_water(), most_counted);
    return std::size_t{options_.patience} * (1 + threads / 32);
  }

  /// Takes the blocks that have become safe to the sink.
  template <class Sink>
  void catch_up(local& me, Sink sink) noexcept {
    // acquire ← the release in end(): every reader's last access of the bags we hand out happens
    // before this load, through the token's way round. Without it: use after free.
    const std::uint64_t now = round_.load_acquire();
    if (now == me.bags.seen()) return;
    me.pressed_at = 0;
    me.bags.catch_up(now, SPOLIA_FAULT("token.two_bags") ? 2 : 3, sink);
  }

  /// The token is here and we are between two operations: send it to the next thread.
  template <class Peers, class Excuses>
  void pass(local& me, Peers peers, Excuses excuses) noexcept {
    const std::uint64_t round = round_.load_relaxed();
    std::uint32_t next = next_present(me.number + 1, peers, excuses);
    if (next >= peers.high_water()) next = next_present(0, peers, excuses);
    const bool alone = next == me.number;
    if (alone ? impatient(me, options_.patience / 8) : is_active(peers.find(next), round)) {
      pass_on(me, me.number, peers, excuses);
    } else if (!alone && impatient(me, patience(peers))) {
      // The neighbour may be idle for long; to move past it is worth a heavy fence by now.
      walk(me, me.number, peers, excuses);
    }
  }

  /// From thread `at`, which is this one, or one that may be skipped.
  template <class Peers, class Excuses>
  void pass_on(local& me, std::uint32_t at, Peers peers, Excuses excuses) noexcept {
    const std::uint64_t round = round_.load_relaxed();
    if (!take(me, at, round)) return;
    excuses.hop();
    // Whether a thread is parked is looked up anew: one that comes back in this round must be seen
    // in the next.
    settle(me, next_present(at == me.number ? at + 1 : at, peers, excuses), peers, round);
  }

  /// The first thread from `number` on that is neither parked nor skipped; or the 16th; or the end.
  template <class Peers, class Excuses>
  static std::uint32_t next_present(std::uint32_t number, Peers peers, Excuses excuses) noexcept {
    const std::uint32_t all = peers.high_water();
    for (int looks = 0; number < all; ++number) {
      const local* const other = peers.find(number);
      if ((!is_parked(other) && !excuses.may_skip(other)) || ++looks == most_looks) break;
    }
    return number;
  }

  /// A thread without a part is one that has not come yet.
  static bool is_parked(const local* other) noexcept {
    return other == nullptr || other->parked.is_set();
  }

  /// Does this thread run operations: is it in one, or was it in this round or the last?
  static bool is_active(const local* other, std::uint64_t round) noexcept {
    if (other == nullptr) return false;
    const std::uint64_t seen = other->announced.load_relaxed();
    return (seen & 1U) != 0 || (seen >> 1U) + 1 >= round;
  }

  /// Picks the token up where it was seen to stand in `round`. Fails if another thread has: a
  /// walker may take it from a thread that is just about to pass it. One that goes on without the
  /// token may end a round in which it has not looked at all threads. No fault is planted for that:
  /// two threads, which is what can be explored, only have one such round at a time, and three
  /// rounds leave room for it.
  bool take(const local& me, std::uint64_t at, std::uint64_t round) noexcept {
    // acquire ← the release in put_down(): all that the token's earlier holders know is known to
    // us, their unlinkings above all, and so ordered before our heavy fence or our next settle().
    std::uint64_t there = at;
    if (!at_.cas_strong_acquire(there, me.number | being_moved)) return false;
    if (round_.load_relaxed() == round) return true;
    // It has gone all the way round since we looked. (A token out of a hand may be anywhere.)
    put_down(me, (at & being_moved) != 0 ? 0 : at);
    return false;
  }

  /// Leaves the token with a thread, if it is still in our hand.
  void put_down(const local& me, std::uint64_t with) noexcept {
    std::uint64_t in_hand = me.number | being_moved;
    // release → the acquires of at_: the next holder sees what we saw, and the new round.
    at_.cas_strong_release(in_hand, with);
  }

  /// Moves the token from where it stands past every thread that has been between two operations in
  /// this round, or which `excuses` lets it pass, at most to the end of the round.
  template <class Peers, class Excuses>
  void walk(local& me, std::uint64_t at, Peers peers, Excuses excuses) noexcept {
    if ((at & being_moved) != 0) return;
    const auto first = static_cast<std::uint32_t>(at);
    const std::uint64_t round = round_.load_relaxed();
    if (!visited(first, me, peers, round) && !excuses.may_pass(first)) return;  // not worth it
    if (take(me, at, round)) walk_from(me, first, round, peers, excuses);
  }

  /// The same from thread `next` on, with the token in hand.
  template <class Peers, class Excuses>
  void walk_from(local& me, std::uint32_t next, std::uint64_t round, Peers peers,
                 Excuses excuses) noexcept {
    excuses.approach(next);
    // heavy → the domain's light fence in each operation (D2). Either we see below that a thread is
    // inside an operation, or that operation sees every unlinking known to us and cannot reach its
    // blocks.
    if (!SPOLIA_FAULT("token.no_heavy")) fence::heavy();
    excuses.arrive();
    const std::uint32_t all = peers.high_water();
    while (next < all && (visited(next, me, peers, round) || excuses.may_pass(next))) ++next;
    settle(me, next, peers, round);
  }

  /// Puts the token down at thread `next`, or at the first of the next round if that is after the
  /// last one; where it is still in our hand. What we know of `round` stays true if it is not: then
  /// the round may be over, but not twice.
  template <class Peers>
  void settle(const local& me, std::uint32_t next, Peers peers, std::uint64_t round) noexcept {
    if (next >= peers.high_water()) {
      end(round);
      // Only now: a thread that comes back before the end must be seen in the new round.
      next = next_present(0, peers, no_excuses{});
    }
    put_down(me, next);
  }

  void end(std::uint64_t round) noexcept {
    // release → the acquires in catch_up() and come_back(). acquire ← the release in come_back():
    // threads that work in the next round, after us, see that the thread is back.
    if (!round_.cas_strong_acq_rel(round, round + 1)) return;
    const std::uint64_t now = trace::on() ? trace::ticks() : 0;
    trace::record(trace::event::epoch_advanced, now, now, 1);
  }

  /// Has this thread been between two operations since `round`, the present one, began? While we
  /// hold the token.
  template <class Peers>
  bool visited(std::uint32_t number, const local& me, Peers peers,
               std::uint64_t round) const noexcept {
    if (number == me.number) return true;  // ticks happen between operations
    const local* const other = peers.find(number);
    if (is_parked(other)) return true;
    // acquire ← the releases in enter() and leave(): what it accessed before happens before us.
    const std::uint64_t seen = other->announced.load_acquire();
    return (seen & 1U) == 0 || seen >> 1U == round;
  }

  /// So many blocks waiting are too many to leave to rounds that no thread ends.
  static constexpr std::size_t many = 512;
  static constexpr int most_looks = 16;
  static constexpr std::uint32_t most_counted = 512;  // of a process that may have thousands
  static constexpr std::uint64_t being_moved = std::uint64_t{1} << 63U;

  options options_;
  /// Where the token stands: a thread number, or the mover's with `being_moved`. Beside what is
  /// read at ticks only as well.
  alignas(cache_line) atomic<std::uint64_t> at_{0};
  atomic<std::uint64_t> round_{3};
  detail::reclaim::calm_rounds calm_;
};

}  // namespace detail::reclaim

class token : public region_reads {
  using rounds = detail::reclaim::token_rounds;

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

  using options = rounds::options;
  using local = rounds::local;

  static constexpr bool ticks_regularly = true;
  static constexpr bool courteous = true;

  explicit token(const options& o) noexcept : rounds_(o) {}
  static const char* what_is_wrong(const options& o) noexcept { return rounds::what_is_wrong(o); }

  template <class Peers>
  void join(local& me, std::uint32_t number, Peers) noexcept {
    rounds_.join(me, number);
  }
  std::uint32_t pace() const noexcept { return rounds_.pace(); }
  std::uint32_t pace_of(const local& me) noexcept { return rounds_.pace_of(me); }

  template <class Peers, class Sink>
  void tick(local& me, Peers peers, Sink sink) noexcept {
    const std::uint64_t at = rounds_.stands_at();
    if (at == me.number) {
      rounds_.pass(me, peers, rounds::no_excuses{});
    } else if (rounds_.impatient(me, rounds_.patience(peers))) {
      rounds_.walk(me, at, peers, rounds::no_excuses{});
    }
    rounds_.catch_up(me, sink);
  }

  void enter(local& me) noexcept { rounds_.enter(me); }
  void leave(local& me) noexcept { rounds_.leave(me); }
  bool idle(const local& other) const noexcept { return rounds_.idle(other); }
  void park(local& other) noexcept { rounds_.park(other); }
  template <class Peers>
  void step_aside(local& me, Peers peers) noexcept {
    rounds_.step_aside(me, peers);
  }
  void unpark(local& me) noexcept { rounds_.unpark(me); }

  template <class Peers, class Sink>
  void retire(local& me, retired* block, Peers, Sink) noexcept {
    rounds_.retire(me, block);
  }

  template <class Peers, class Sink>
  void collect(local& me, Peers peers, Sink sink) noexcept {
    for (int round = 0; round < 4; ++round) {  // one to catch up, three for the bags
      rounds_.walk(me, rounds_.stands_at(), peers, rounds::no_excuses{});
      rounds_.catch_up(me, sink);
    }
  }

  void adopt(local& me, local& other) noexcept { rounds_.adopt(me, other); }

  /// Threads that live shortly end no rounds, and what was taken over waits for three:
  /// where that is much, these end at once.
  template <class Peers, class Sink>
  void adopted(local& me, Peers peers, Sink sink) noexcept {
    for (int round = 0; round < 4 && me.bags.count() >= rounds::many; ++round) {
      rounds_.walk(me, rounds_.stands_at(), peers, rounds::no_excuses{});
      rounds_.catch_up(me, sink);
    }
  }

  void abandon(local& me, limbo& all) noexcept { rounds_.abandon(me, all); }
  template <class Peers>
  void exited(local&, Peers) noexcept {}  // its announcement says that it is between operations
  template <class Peers>
  void forked(local& lost, Peers) noexcept {
    rounds_.forked(lost);
  }
  template <class F>
  static void lists(local& of, F&& f) {
    of.bags.lists(f);
  }

  std::size_t waiting(const local& me) const noexcept { return rounds_.waiting(me); }
  std::uint64_t epochs() const noexcept { return rounds_.epochs(); }
  std::optional<std::uint64_t> bound(std::size_t) const noexcept { return std::nullopt; }

 private:
  rounds rounds_;
};

static_assert(scheme<token>);

}  // namespace spolia::inline SPOLIA_FLAVOUR
