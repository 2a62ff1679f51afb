// SPDX-License-Identifier: Apache-2.0
// robust_token.hpp: token epochs that a stalled reader does not stop: what `domain<>` is made of.
//
// Source:      token.hpp (Kim, Brown, Singh, PPoPP 2024), and for readers that stall the birth
//              stamps of interval-based reclamation (Wen, Izraelevitz, Cai, Beadle, Scott, PPoPP
//              2018, section 3). The joint between the two is this file's.
// Idea:        while all threads move, the token goes round as in token.hpp. A thread that stays
//              inside one operation while others pile up blocks is given an upper era bound: the
//              present round. It can hold only blocks made up to that round, since it finds the
//              bound before it follows another pointer. So the token may pass it; younger blocks
//              are freed as if the thread were not there, older ones are put aside until it leaves.
//              If it runs on it moves the bound on by itself, as readers under intervals do at each
//              step.
// Protects:    era: what was linked when it was reached stays. Each pointer must be read by protect
//              or step, and the structure must make sure that what holds the pointer was linked
//              then (a root, a link that is marked before its node goes, or step's look). A
//              structure that walks through removed nodes wants domain<token>.
// Cost:        as token; for each pointer read a check of a word of the thread's own; for each
//              block made 8 bytes and two loads of the round. A heavy fence when a reader stalls;
//              then a full one a round, and a compare for each block that leaves its bag together
//              with an old one.
// Progress:    wait-free for operations that were not stopped; lock-free for those that go on after
//              a stall: a repetition means that a round was completed meanwhile.
// Bound:       threads · (oversubscription · stall_after + 2 · patience), and what existed when a
//              stalled reader was given its era bound. What is made later is not held up, nor what
//              was retired before the stalled operation began. What a guard retires itself comes on
//              top until it ends, and what deleters retire until their thread's next guard ends:
//              see domain::garbage_bound(). That is for blocks made by the domain's make(). Others,
//              with the header or without, count as old as the world: a stalled reader holds all of
//              them up, however many. Oversubscription: how many threads share a processor, 8 at
//              most (oversubscription.hpp).
//
// Why a block made after a thread's era bound is not held by it. A bound is announced as pending;
// then the round h is read, by a read-modify-write that also releases. A block made later than h
// has read a later round, by an acquire, so the announcement happened before it was made. A reader
// that reaches the block by an acquire therefore finds the bound at its check after that. It
// announces one of its own that covers the block (look()), with a fence before it reads the source
// again. A thread that frees reads the bound after the fence with which the token has been moved
// past the reader since the unlinking. Either it sees the new bound; or the second read of the
// source and what follows it see the block unlinked, and the structure starts over.
//
// Why the token may pass it. A thread that moves the token past it found the era bound after a
// heavy fence. If that bound is of the operation under way, see above. If not, the stalled thread's
// next operation began after that fence and sees every unlinking that the mover knows of: it counts
// as visited. Once the bound stands, a full fence will do, and the token hops over the thread as if
// it were parked: see "Era bounds" below.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/source.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/detail/oversubscription.hpp>
#include <spolia/reclaim/detail/saturating.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/token.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

// Era bounds: up to which round a stalled reader holds blocks. (A round is this scheme's era.)
//
// Why the token may hop over a thread with a resolved bound after a mere full fence. Let block B,
// of round b, be unlinked before such a fence F. A thread that checks whether it may free B does so
// after F. Take a pointer to B that the stalled thread has read, and its check of its own bound
// after that.
//   It saw none. Then b is not above the bound that was resolved, since a thread that makes a later
//     block knows of that; and the operation that checked announced itself before a light fence,
//     and so before the giver's heavy one. A thread that sees the bound resolved, or moved by its
//     owner, sees that operation, or that it has ended.
//   It saw one. Then it moved it, with a full fence M after that, before it read the source again.
//     If M is before F, a thread that may free B finds the moved bound. If not, the second read
//     finds B unlinked.
//   It saw none because it had lifted its bound, with a full fence after that, while F's thread
//     still saw it: then its later reads of sources find B unlinked.
// A bound that is merely announced as pending has had no heavy fence yet and gives no leave to hop.
// And what the thread itself unlinks it tags after a full fence: a hop either knows of the
// unlinking, or the tag is at least the round of the hop.

/// One thread's. Given by others, moved and lifted by the owner. 0: none. Else the owner's
/// operation holds no block made after that round; or, until the giver has read the round,
/// anything.
class era_bound {
 public:
  std::uint64_t load_relaxed() const noexcept { return at_.load_relaxed(); }
  std::uint64_t load_acquire() const noexcept {
    // acquire ← the releases below: what was counted before is seen by all threads that learn of
    // the round which this completes; and if it is gone, so are that operation's accesses.
    return at_.load_acquire();
  }

  /// Is there one that its giver's heavy fence has preceded, or that its owner has moved?
  bool resolved() const noexcept {
    // acquire ← the releases in resolve() and move(): that happened before.
    const std::uint64_t at = at_.load_acquire();
    return at != 0 && at < pending(0);
  }

  /// Thread `giver` announces one. False: there is one.
  bool give(std::uint32_t giver) noexcept {
    std::uint64_t none = 0;
    // release → the acquires in load_acquire(), move() and lift().
    return at_.cas_strong_release(none, pending(giver));
  }
  /// It becomes `round`, unless its owner has moved it on, or has left.
  void resolve(std::uint32_t giver, std::uint64_t round) noexcept {
    std::uint64_t announced = pending(giver);
    // release → the acquire in load_acquire().
    at_.cas_strong_release(announced, round);
  }

  /// The owner goes on, and has been given a bound.
  void move(std::uint64_t round) noexcept {
    // release → the acquire in load_acquire(). acquire ← the release in give(), for lift().
    if (!SPOLIA_FAULT("robust.no_extension")) at_.exchange_acq_rel(round);
    // full ↔ the fence, heavy or full, after which the token was moved past us before bounds are
    // compared with blocks.
    if (SPOLIA_FAULT("robust.light_extension")) {
      fence::light();
    } else if (!SPOLIA_FAULT("robust.no_extension_fence")) {
      fence::full();
    }
  }
  /// The owner's operation is over.
  void lift() noexcept {
    // release → the acquire in load_acquire(): our accesses happen before the blocks are freed.
    // acquire ← the release in give(): what was counted there comes before the counting here.
    at_.exchange_acq_rel(0);
    // full ↔ the one after which the token hops over us: a thread that still saw the bound then
    // knows of nothing that our next operation could reach.
    if (!SPOLIA_FAULT("robust.no_full_lift")) fence::full();
  }

 private:
  /// Bigger than every round, and each giver's own, so that a giver that is late cannot take
  /// another's for its own.
  static constexpr std::uint64_t pending(std::uint32_t giver) noexcept {
    return std::uint64_t{1} << 63U | giver;
  }

  atomic<std::uint64_t> at_{0};
};

/// The latest bound of the operations under way that have one and may hold what was retired up to
/// round `tag`: they have announced tag + 1 at most (token.hpp), and have not been `passed` later.
/// 0: none. A thread found outside of operations, or without a bound, holds none of these blocks,
/// whatever it does next: the token has passed it since they were unlinked, between operations or
/// because of a bound that is gone. No fence: each round in which the token passed a thread with a
/// bound has had one, heavy or full, after the unlinking of these blocks and before this call.
template <class Local, class Peers>
std::uint64_t farthest_bound(Peers peers, std::uint64_t tag) noexcept {
  std::uint64_t farthest = 0;
  peers.for_each([&](std::uint32_t, const Local& other) {
    // acquire ← the release in give_bounds(), before the bound is looked at: if this is of an
    // operation that came later than the bound's, we see a bound that came later, too, and so the
    // end of the one before.
    const std::uint64_t passed = other.passed.load_acquire();
    // acquire ← the release in lift(): if it is gone, so are that operation's accesses.
    const std::uint64_t bound = other.bound.load_acquire();
    if (bound <= farthest) return true;
    // acquire ← the releases in enter() and leave(): the same.
    const std::uint64_t announced = other.announced.load_acquire();
    if ((announced & 1U) != 0 && (std::max)(announced >> 1U, passed) <= tag + 1) farthest = bound;
    return true;
  });
  return SPOLIA_FAULT("robust.ignore_bounds") ? 0 : farthest;
}

// Pinned blocks: blocks that only stalled readers hold up, on shelves by the time of their
// retirement; and how old what leaves the bags can be.

/// Moves to `safe` the blocks that were born after the bound.
template <class Stamp>
void move_younger(limbo& held, std::uint64_t bound, limbo& safe) noexcept {
  limbo all;
  all.append(held);
  while (retired* const r = all.pop()) {
    (static_cast<stamped<Stamp>*>(r)->stamp.birth <= bound ? held : safe).push(r);
  }
}

/// The oldest birth in each of the bags of epoch_bags, so that a bag in which nothing is as old as
/// a bound is freed without a look at its blocks, which are out of the caches by then.
class oldest_births {
 public:
  /// Of no block at all.
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  /// A block was put in with `tag`, which never falls.
  SPOLIA_ALWAYS_INLINE void put(std::uint64_t birth, std::uint64_t tag) noexcept {
    if (bags_[0].tag != tag) [[unlikely]]
      begin(tag);
    if (birth < bags_[0].oldest) bags_[0].oldest = birth;
  }

  /// The bags took over another thread's, with `tag` for what was not overdue.
  void adopt(std::uint64_t tag) noexcept {
    put(0, tag);
    overdue_ = 0;
  }

  /// The bags give out what they give out in epoch `now`: nothing in that is older than this.
  std::uint64_t take(std::uint64_t now, std::uint64_t age) noexcept {
    std::uint64_t oldest = std::exchange(overdue_, none);
    for (bag& b : bags_) {
      if (b.tag + age <= now) oldest = (std::min)(oldest, std::exchange(b.oldest, none));
    }
    return oldest;
  }

 private:
  struct bag {
    std::uint64_t tag = 0;
    std::uint64_t oldest = none;
  };

  SPOLIA_NOINLINE void begin(std::uint64_t tag) noexcept {
    overdue_ = (std::min)(overdue_, bags_[2].oldest);  // three epochs old at least
    bags_[2] = bags_[1];
    bags_[1] = bags_[0];
    bags_[0] = {tag, none};
  }

  std::array<bag, 3> bags_;  // the last one first
  std::uint64_t overdue_ = none;
};

/// Blocks of one thread. A reader can hold only blocks that were made up to its era bound and
/// retired after it began; so each shelf knows when the last of its blocks was retired, and which
/// bound they were compared with last. When no reader from before is left the whole shelf is free,
/// and none of its blocks has to be touched.
class pinned_blocks {
 public:
  /// What every block on a shelf has in common.
  struct shelf {
    limbo blocks;
    std::uint64_t tag = 0;    // none was retired after this round
    std::uint64_t bound = 0;  // none was made after this round
  };

  bool empty() const noexcept { return used_ == 0; }

  std::size_t count() const noexcept {
    std::size_t sum = 0;
    for (const shelf& s : shelves_) sum += s.blocks.count();
    return sum;
  }

  void add(limbo& blocks, std::uint64_t tag, std::uint64_t bound) noexcept {
    if (blocks.empty()) return;
    if (used_ == shelves_.size()) join_two();
    shelf& s = shelves_[used_++];
    s.blocks.append(blocks);
    s.tag = tag;
    s.bound = bound;
  }

  /// Looks at each shelf again. `bound_for(tag)`: the latest one of the readers that may hold what
  /// was retired up to `tag`, 0 if there are none. `split(blocks, bound, safe)` moves what was made
  /// after the bound.
  template <class BoundFor, class Split>
  void reconsider(BoundFor&& bound_for, Split&& split, limbo& safe) noexcept {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < used_; ++i) {
      shelf& s = shelves_[i];
      const std::uint64_t bound = bound_for(s.tag);
      if (bound == 0) {
        safe.append(s.blocks);
      } else if (bound < s.bound) {
        split(s.blocks, bound, safe);
        s.bound = bound;
      }
      if (s.blocks.empty()) continue;
      if (kept != i) move(s, shelves_[kept]);
      ++kept;
    }
    used_ = kept;
  }

  void adopt(pinned_blocks& other) noexcept {
    for (std::size_t i = 0; i < other.used_; ++i) {
      shelf& s = other.shelves_[i];
      add(s.blocks, s.tag, s.bound);
    }
    other.used_ = 0;
  }

  void abandon(limbo& all) noexcept {
    for (shelf& s : shelves_) all.append(s.blocks);
    used_ = 0;
  }

  /// f(list) for each list.
  template <class F>
  void lists(F&& f) {
    for (shelf& s : shelves_) f(s.blocks);
  }

 private:
  static void move(shelf& from, shelf& to) noexcept {
    to.blocks.append(from.blocks);
    to.tag = from.tag;
    to.bound = from.bound;
  }

  /// Puts two neighbours together, to make room: those that hold the least.
  void join_two() noexcept {
    std::size_t at = 0;
    for (std::size_t i = 1; i + 1 < used_; ++i) {
      if (together(i) < together(at)) at = i;
    }
    shelf& left = shelves_[at];
    shelf& right = shelves_[at + 1];
    left.blocks.append(right.blocks);
    left.tag = left.tag < right.tag ? right.tag : left.tag;
    left.bound = left.bound < right.bound ? right.bound : left.bound;
    for (std::size_t i = at + 2; i < used_; ++i) move(shelves_[i], shelves_[i - 1]);
    --used_;
  }
  std::size_t together(std::size_t i) const noexcept {
    return shelves_[i].blocks.count() + shelves_[i + 1].blocks.count();
  }

  std::array<shelf, 8> shelves_;
  std::size_t used_ = 0;
};

}  // namespace detail::reclaim

namespace detail::reclaim {

/// The most blocks that existed when one of the era bounds was given that may still hold some. It
/// falls when a bound is given while there is no other: what earlier readers have held, and is not
/// freed yet, exists then, too. No other thread may have noted anything since before it was seen
/// that there is no other bound; so each note changes the value. A figure: it orders nothing else.
class most_existing {
 public:
  using seen = std::uint64_t;

  seen look() const noexcept {
    // acquire ← the release in change(): a thread that sees what was noted for a bound sees that
    // bound counted. Without it that thread could take itself for the first that gives one.
    return at_.load_acquire();
  }
  std::uint64_t value() const noexcept { return look() & most; }

  void note(std::uint64_t blocks) noexcept {
    seen was = look();
    while (!change(was, (std::max)(was & most, blocks))) continue;
  }
  /// False: another thread has noted something since.
  bool fall(seen was, std::uint64_t blocks) noexcept { return change(was, blocks); }

 private:
  static constexpr std::uint64_t most = (std::uint64_t{1} << 40U) - 1;

  bool change(seen& was, std::uint64_t blocks) noexcept {
    const seen next = (was & ~most) + most + 1 + (std::min)(blocks, most);
    // release → the acquire in look(). acquire ← the same, when look() is repeated by this.
    return at_.cas_strong_acq_rel(was, next);
  }

  atomic<seen> at_{0};
};

}  // namespace detail::reclaim

class robust_token {
  using rounds = detail::reclaim::token_rounds;

 public:
  static constexpr scheme_info info{
      .name = "robust_token",
      .title = "token epochs with upper era bounds for stalled readers",
      .source = "Kim, Brown, Singh, PPoPP 2024, section 4, and Wen et al., PPoPP 2018, section 3",
      .protects = protection::era,
      .robust = true,
      .cost = "as token, and a look at a word of its own for each pointer followed",
      .progress = "operations wait-free unless they were stopped, then lock-free",
      .bound =
          "threads * (oversubscription * stall_after + 2 * patience), and what existed when a "
          "reader stalled, of blocks made by make(); oversubscription: threads for each processor, "
          "8 at most"};

  struct options : rounds::options {
    /// Blocks that a thread lets wait before it gives upper era bounds to the threads that hold up
    /// the token; times the threads that share a processor, 8 at most.
    std::uint32_t stall_after = 4096;
    std::uint32_t processors = 0;  ///< for that; 0: as many as the process may use
  };

  using hold = nothing;
  struct stamp {
    std::uint64_t birth = 0;  ///< the round in which the block was made; 0: not known
  };

  struct local : rounds::local {
    detail::reclaim::era_bound bound;
    /// The last round in which the token passed it before it was given a bound. What it announces
    /// is the round of its last tick, which may be long ago where it does little.
    atomic<std::uint64_t> passed{0};
    detail::reclaim::oldest_births births;  // in the bags
    detail::reclaim::pinned_blocks pinned;  // out of reach for all but threads with bounds
    std::uint64_t lifted_seen = 0;          // of lifted_, when `pinned` was looked through last
  };

  explicit robust_token(const options& o) noexcept
      : rounds_(o), limits_(o.stall_after, o.patience / 2, o.processors) {}
  static const char* what_is_wrong(const options& o) noexcept {
    if (o.stall_after == 0) return "robust_token: stall_after must be at least 1";
    return rounds::what_is_wrong(o);
  }

  static constexpr bool ticks_regularly = true;
  static constexpr bool courteous = true;

  std::uint32_t pace() const noexcept { return rounds_.pace(); }
  void enter(local& me) noexcept { rounds_.enter(me); }
  void leave(local& me) noexcept { rounds_.leave(me); }
  bool idle(const local& other) const noexcept { return rounds_.idle(other); }
  void park(local& other) noexcept { rounds_.park(other); }
  void unpark(local& me) noexcept { rounds_.unpark(me); }
  template <class Peers>
  void step_aside(local& me, Peers peers) noexcept {
    rounds_.step_aside(me, peers);
  }
  std::uint64_t epochs() const noexcept { return rounds_.epochs(); }

  template <class Peers>
  void join(local& me, std::uint32_t number, Peers peers) noexcept {
    rounds_.join(me, number);
    limits_.note(peers.high_water());
  }

  template <class Peers, class Sink>
  void tick(local& me, Peers peers, Sink sink) noexcept {
    const std::uint64_t at = rounds_.stands_at();
    if (me.bags.count() >= limits_.stalled() && rounds_.impatient(me, limits_.urge())) {
      force(me, at, peers);
    } else if (given_.load_relaxed() != 0) {
      hop_over_stalled(me, at, peers);
    } else if (at == me.number) {
      rounds_.pass(me, peers, rounds::no_excuses{});
    } else if (rounds_.impatient(me, rounds_.patience(peers))) {
      rounds_.walk(me, at, peers, era_bounds<Peers>{*this, me, peers});
    }
    catch_up(me, peers, sink);
    keep_to_limit(me, peers, sink);
  }

  /// So many more blocks may be retired before the next tick: operations may retire many each.
  std::uint64_t room(const local& me) const noexcept { return limits_.room(me.bags.count()); }

  std::uint64_t looks_back(const local& me) const noexcept { return me.bound.load_relaxed(); }
  void look_back(local& me) noexcept {
    if (looks_back(me) != 0) lift(me);
  }
  /// May each stalled reader hold this block, although it was made later?
  static bool unborn(const stamp& s) noexcept { return s.birth == 0; }
  static constexpr bool slotless = true;
  nothing open(local&) noexcept { return {}; }
  void close(local&, nothing) noexcept {}
  void born(local&, stamp& s) const noexcept {
    // acquire ← the releases of the round in end() and resolve_bounds(): see above.
    s.birth = rounds_.round().load_acquire();
  }

  template <class Source>
  source_value<Source> protect(local& me, nothing h, unsigned slot, const Source& source) noexcept {
    source_value<Source> seen{};
    step(me, h, slot, source, seen);
    return seen;
  }

  template <class Source>
  SPOLIA_ALWAYS_INLINE bool glance(local& me, nothing, const Source& source,
                                   source_value<Source>& to) const noexcept {
    // acquire ← the block's publication, and through it the releases of rounds and bounds: if it
    // was made after a bound that we have been given, we see that bound now.
    to = source_traits<Source>::load_acquire(source);
    return me.bound.load_relaxed() == 0;
  }

  template <class Source>
  bool step(local& me, nothing h, unsigned, const Source& source,
            source_value<Source>& to) noexcept {
    if (glance(me, h, source, to)) [[likely]]
      return true;
    to = look(me, source, to);
    return false;
  }

  template <class T>
  void announce(local& me, nothing, unsigned, T) noexcept {
    // After the acquire that has read the pointer, as in step().
    if (me.bound.load_relaxed() != 0) [[unlikely]]
      extend(me);
  }

  template <class Peers, class Sink>
  void retire(local& me, retired* block, Peers, Sink) noexcept {
    // light → the heavy fences of walks. An operation that the token has passed may last for many
    // rounds. A round that was ended after a walk before this fence is known to the load that
    // follows; at the end of any other one, one round after the tag at the latest, the block is
    // known to be unlinked (limbo.hpp).
    if (!SPOLIA_FAULT("robust.no_light_retire")) fence::light();
    // full ↔ the one in hop(), for the same. If we see no bound yet, then the heavy fence that goes
    // with it comes after the light one, and each hop after that.
    if (looks_back(me) != 0 && !SPOLIA_FAULT("robust.no_full_retire")) [[unlikely]]
      fence::full();
    const std::uint64_t tag = rounds_.retire(me, block);
    if (SPOLIA_FAULT("robust.birth_unnoticed")) return;
    me.births.put(static_cast<stamped<stamp>*>(block)->stamp.birth, tag);
  }

  template <class Peers, class Sink>
  void collect(local& me, Peers peers, Sink sink) noexcept {
    for (int round = 0; round < 4; ++round) {
      force(me, rounds_.stands_at(), peers);
      catch_up(me, peers, sink);
    }
    release_pinned(me, peers, sink);
  }

  void adopt(local& me, local& other) noexcept {
    me.births.adopt(rounds_.adopt(me, other));
    me.pinned.adopt(other.pinned);
    me.lifted_seen = never;  // what had been lifted when the other looked is not known
  }

  /// As in token.
  template <class Peers, class Sink>
  void adopted(local& me, Peers peers, Sink sink) noexcept {
    for (int round = 0; round < 4 && me.bags.count() >= rounds::many; ++round) {
      rounds_.walk(me, rounds_.stands_at(), peers, era_bounds<Peers>{*this, me, peers});
      catch_up(me, peers, sink);
    }
  }

  void abandon(local& me, limbo& all) noexcept {
    rounds_.abandon(me, all);
    me.pinned.abandon(all);
  }
  template <class Peers>
  void exited(local& me, Peers) noexcept {
    if (me.bound.load_relaxed() != 0) lift(me);
  }
  template <class Peers>
  void forked(local& lost, Peers) noexcept {
    rounds_.forked(lost);
    if (lost.bound.load_relaxed() != 0) lift(lost);
  }
  template <class F>
  static void lists(local& of, F&& f) {
    of.bags.lists(f);
    of.pinned.lists(f);
  }

  std::size_t waiting(const local& me) const noexcept {
    return me.bags.count() + me.pinned.count();
  }
  /// While `waiting` blocks wait now. Where no reader has an era bound, what readers had held is
  /// among these, and comes to no more.
  std::optional<std::uint64_t> bound(std::size_t threads,
                                     std::uint64_t waiting = ~std::uint64_t{0}) const noexcept {
    const std::uint64_t held = existed_.value();
    return detail::reclaim::saturating_sum(
        detail::reclaim::saturating_product(threads, limits_.limit(threads)),
        given_.load_relaxed() == 0 ? (std::min)(held, waiting) : held);
  }

 private:
  static constexpr int most_tries = 16;
  static constexpr std::uint64_t never = ~std::uint64_t{0};

  /// Lets a walk pass threads that have an era bound, and gives one to those that need it.
  template <class Peers>
  struct era_bounds {
    robust_token& of;
    local& me;
    Peers peers;
    bool giving = false;

    void approach(std::uint32_t from) const noexcept {
      if (giving) of.give_bounds(me, from, peers);
    }
    void arrive() const noexcept {
      if (giving) of.resolve_bounds(me, peers);
    }
    bool may_pass(std::uint32_t number) const noexcept {
      const local* const other = peers.find(number);
      // acquire ← the releases of bounds ("Era bounds").
      return other != nullptr && other->bound.load_acquire() != 0;
    }
    void hop() const noexcept {
      // full ↔ the ones in era_bound::move(), era_bound::lift() and retire().
      if (!SPOLIA_FAULT("robust.no_full_hop")) fence::full();
    }
    bool may_skip(const rounds::local* other) const noexcept {
      return other != nullptr && static_cast<const local*>(other)->bound.resolved();
    }
  };

  /// While bounds are given: the token hops over the threads that have one.
  template <class Peers>
  SPOLIA_NOINLINE void hop_over_stalled(local& me, std::uint64_t at, Peers peers) noexcept {
    const era_bounds<Peers> excuses{*this, me, peers};
    if (at == me.number) {
      rounds_.pass(me, peers, excuses);
    } else if ((at & rounds::being_moved) == 0 &&
               excuses.may_skip(peers.find(static_cast<std::uint32_t>(at)))) {
      rounds_.pass_on(me, static_cast<std::uint32_t>(at), peers, excuses);
    } else if (rounds_.impatient(me, rounds_.patience(peers))) {
      rounds_.walk(me, at, peers, excuses);
    }
  }

  /// Moves the token to the end of the round, past all threads, also out of a sleeping mover's
  /// hand.
  template <class Peers>
  void force(local& me, std::uint64_t at, Peers peers) noexcept {
    const bool in_hand = (at & rounds::being_moved) != 0;
    if (in_hand && me.bags.count() < limits_.stalled() + limits_.urge()) return;  // give it time
    // acquire ← the release in end(): if the other mover has ended the round, we see what it saw.
    const std::uint64_t round = rounds_.round().load_acquire();
    if (!rounds_.take(me, at, round)) return;
    // How far the other mover has come is not known.
    const std::uint32_t from = in_hand ? 0 : static_cast<std::uint32_t>(at);
    rounds_.walk_from(me, from, round, peers, era_bounds<Peers>{*this, me, peers, true});
  }

  template <class Peers>
  void give_bounds(local& me, std::uint32_t from, Peers peers) noexcept {
    const std::uint64_t round = rounds_.round().load_relaxed();
    bool given = false;
    bool alone = false;
    const auto before = existed_.look();  // first: see there
    peers.for_each([&](std::uint32_t number, local& other) {
      if (number < from || rounds_.visited(number, me, peers, round)) return true;
      // First: a thread that learns of the round that this bound completes finds the count.
      alone = given_.fetch_add_relaxed(1) == 0 || alone;
      if (other.bound.give(me.number)) {
        given = true;
        // release → the acquire in farthest_bound(). It had no bound, so its operation was not
        // under way when the token passed it in the round before this one, or before it lifted the
        // bound that let the token hop. A mover that is late says less than it might.
        other.passed.store_release(SPOLIA_FAULT("robust.passed_later") ? round + 1 : round - 1);
      } else {
        given_.fetch_sub_relaxed(1);
      }
      return true;
    });
    if (!given) return;
    const std::uint64_t existing = peers.existing();
    if (!alone || !existed_.fall(before, existing)) existed_.note(existing);
  }
  /// After the heavy fence: the bounds that this thread has given become rounds.
  template <class Peers>
  void resolve_bounds(local& me, Peers peers) noexcept {
    // release → the acquire in born(): a thread that sees a later round sees the bounds announced.
    // A mere load would not do: another mover might end the round without knowing of them.
    const std::uint64_t now = rounds_.round().fetch_add_release(0);
    const std::uint64_t round = SPOLIA_FAULT("robust.early_bound") ? now - 2 : now;
    peers.for_each([&](std::uint32_t, local& other) {
      other.bound.resolve(me.number, round);
      return true;
    });
  }

  /// The owner's next step after it has been given a bound.
  template <class Source>
  SPOLIA_NOINLINE source_value<Source> look(local& me, const Source& source,
                                            source_value<Source> seen) noexcept {
    for (;;) {
      const std::uint64_t covered = extend(me);
      if (!SPOLIA_FAULT("robust.no_second_look")) {
        seen = source_traits<Source>::load_acquire(source);
      }
      // What was made in this round says so or says less.
      if (rounds_.round().load_relaxed() == covered) return seen;
    }
  }

  /// Tries hard, where too much waits for rounds.
  template <class Peers, class Sink>
  void keep_to_limit(local& me, Peers peers, Sink sink) noexcept {
    for (int again = 0; again < most_tries && me.bags.count() >= limits_.limit(); ++again) {
      force(me, rounds_.stands_at(), peers);
      catch_up(me, peers, sink);
    }
  }

  std::uint64_t extend(local& me) noexcept {
    const std::uint64_t now = rounds_.round().load_relaxed();
    me.bound.move(now);
    return now;
  }

  SPOLIA_NOINLINE void lift(local& me) noexcept {
    me.bound.lift();
    lifted_.fetch_add_relaxed(1);
    // release → the acquire in catch_up(): our accesses happen before the blocks are freed.
    given_.fetch_sub_release(1);
  }

  template <class Peers, class Sink>
  void catch_up(local& me, Peers peers, Sink sink) noexcept {
    rounds_.catch_up(me, [&](limbo& safe) {
      const std::uint64_t oldest = me.births.take(me.bags.seen(), 3);
      // acquire ← the release in lift(): if all bounds are gone, so are all accesses.
      if (given_.load_acquire() != 0) put_aside(me, safe, oldest, peers);
      if (!safe.empty()) sink(safe);
    });
    if (!me.pinned.empty() && lifted_.load_relaxed() != me.lifted_seen) {
      release_pinned(me, peers, sink);
    }
  }

  /// Leaves in `safe` what no era bound covers. Nothing in it is older than `oldest`.
  template <class Peers>
  void put_aside(local& me, limbo& safe, std::uint64_t oldest, Peers peers) noexcept {
    const std::uint64_t tag = me.bags.seen() - 3;  // the youngest of the bags that are out now
    const std::uint64_t bound = detail::reclaim::farthest_bound<local>(peers, tag);
    if (bound == 0) return;
    // For the bound. Its round is over, so no more blocks can come that it covers.
    if (bound + 1 >= me.bags.seen()) existed_.note(peers.existing());
    if (bound < oldest) return;
    limbo held;
    held.append(safe);
    // No block is made in a later round than it is retired in: otherwise all are as old as that,
    // and need not be looked at.
    if (tag > bound) detail::reclaim::move_younger<stamp>(held, bound, safe);
    me.pinned.add(held, tag, bound);
  }

  template <class Peers, class Sink>
  SPOLIA_NOINLINE void release_pinned(local& me, Peers peers, Sink sink) noexcept {
    me.lifted_seen = lifted_.load_relaxed();
    limbo safe;
    me.pinned.reconsider(
        [&](std::uint64_t tag) { return detail::reclaim::farthest_bound<local>(peers, tag); },
        &detail::reclaim::move_younger<stamp>, safe);
    if (!safe.empty()) sink(safe);
  }

  rounds rounds_;
  detail::reclaim::stall_limits limits_;
  alignas(cache_line) atomic<std::uint64_t> given_{0};  // bounds given and not lifted
  atomic<std::uint64_t> lifted_{0};                     // bounds lifted so far
  detail::reclaim::most_existing existed_;              // when bounds were given, for bound()
};

static_assert(scheme<robust_token> && protects_eras<robust_token> && robust<robust_token>);

}  // namespace spolia::inline SPOLIA_FLAVOUR
