// SPDX-License-Identifier: Apache-2.0
// neutralization.hpp: readers announce nothing; a thread that wants to free makes the readers start
// over.
//
// Source:      Singh, Brown, Mashtizadeh: NBR: Neutralization Based Reclamation, PPoPP 2021, and
//              Simple, Fast and Widely Applicable Concurrent Memory Reclamation via Neutralization,
//              TPDS 2024: `neutralization` is NBR, `neutralization_plus` is NBR+.
// Idea:        an operation searches in a READ PHASE, guard.read(f), which may be abandoned at any
//              moment and started over from the root. Its last words reserve, with phase.keep(p),
//              the few blocks that the operation touches afterwards. A thread with enough
//              retired blocks sends a signal to every thread in a read phase, whose handler jumps
//              back to the phase's begin. When all have answered, whatever is not reserved can be
//              freed: that is a ROUND. NBR+: a thread first takes a bookmark, and asks for a round
//              of its own only if no other thread has begun and completed one since.
// Protects:    restartable. concepts.hpp and domain.hpp say what f may do: only read, no
//              allocation, no locks, no destructors, no exceptions (one that leaves f ends the
//              program).
// Cost:        a guard: nothing but the slots used. read(): sigsetjmp and two plain stores. retire:
//              a link; now and then a look at threads that have not answered; once for `low` blocks
//              a membarrier, a signal to each thread caught reading, a read of all slots, O(log
//              names) a block.
// Progress:    an operation is restarted at most once for each round of another thread. Retiring
//              waits only at `high`: until the threads caught reading `high - low` blocks ago have
//              been on a processor once. A thread that cannot be interrupted (signals.hpp) is
//              misuse: after a second it is reported, and retiring goes on, beyond the bound.
// Bound:       threads · (max(low, 2 · guard_slots · rows) + high - low), though threads stall
//              anywhere; rows is the number of guards that can be alive at one time. Stalled
//              threads keep their slots' blocks, and these are contained in it.
//              What a guard retires itself comes on top until it ends, and what deleters retire
//              until their thread's next guard ends: see domain::garbage_bound().
//
// Why it is sound. Let O be unlinked, then a round begin. Its owner has a heavy fence, then looks
// at each thread's phase, a number that is odd while the thread is in a read phase. The thread
// wrote it before the phase's first read, with a light fence in between.
//   * It looks even, or the thread began the phase after the heavy fence: no later phase finds O
//     from the root, since its reads see O unlinked. An earlier phase has ended, and what it
//     reserved was written before the number that we have read (release, acquire): the round's
//     owner sees it in the slots.
//   * It looks odd: then the round is not complete before that number has changed. It changes at
//     the end of the phase, with the reservations written before; or in the handler, after which
//     the thread starts anew. So the number itself is the acknowledgement, and a lost signal delays
//     but harms nothing.
// The owner does not have to trust that a signal arrives before the target's next instruction,
// which no system promises; so the end of a read phase needs no fence either.
//
// Departures from the papers:
//   D1  The acknowledgement above. The published code frees as soon as the signals are sent.
//   D2  Only threads found in a read phase are sent a signal, and no thread waits for them at once:
//       a round is looked at again at every `look_every`-th retirement, and waited for only at
//       `high`.
//   D3  NBR+ recognises a round of another thread by a ticket, and only a complete one
//       (rounds.hpp).
//   D4  Guards nest, each with slots of its own, outside of read phases. announce() reserves
//       outside of a read phase, by the rules of a hazard pointer.
//   D5  The blocks of a round are looked through when they are freed: all at once for `batch`, a
//       few hundred at a time for policies that free a few, so no operation goes over all of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/signals.hpp>
#include <spolia/base/source.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/base/trace.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/detail/read_phase.hpp>
#include <spolia/reclaim/detail/rounds.hpp>
#include <spolia/reclaim/detail/saturating.hpp>
#include <spolia/reclaim/detail/slot_owners.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/slots.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

struct neutralization_options {
  /// Blocks at which a thread begins a round, or takes its bookmark: enough that a round, which
  /// costs microseconds for each thread, is nanoseconds a block.
  std::uint32_t low = 8192;
  /// Blocks at which it waits for the round. The paper's bag. The distance to `low` is the time
  /// that threads have to answer without holding others up: milliseconds, the length of a time
  /// slice.
  std::uint32_t high = 32768;
  /// The signal; 0: SPOLIA_RESTART_SIGNAL, or any that is free. One for the whole process.
  int signal = 0;
};

namespace detail::reclaim {

/// NBR, and with `Plus` NBR+.
template <bool Plus>
class neutralizing {
 public:
  using options = neutralization_options;
  using stamp = nothing;

  struct hold {
    slot_row* row = nullptr;
    std::uint32_t used = 0;  // bit i: slot i has been written
  };

  struct local {
    read_phase phase;
    slot_rows rows;
    round_part round;       // with the blocks retired before the round or the bookmark
    limbo fresh;            // those retired since
    limbo settled;          // those whose round is complete: safe, but for what slots name
    std::int64_t room = 1;  // blocks that may still be retired before the next look
    scratch<const void*> names;
  };

  explicit neutralizing(const options& o) : options_(o) { restart_signals::claim(o.signal); }

  static const char* what_is_wrong(const options& o) noexcept {
    if (o.low == 0) return "neutralization: low must be at least 1";
    if (o.high <= o.low || o.high > 1U << 30U) {
      return "neutralization: high must be above low, and at most 2^30";
    }
    return nullptr;
  }

  template <class Peers>
  void join(local& me, std::uint32_t number, Peers) {
    restart_signals::answer(number);
    me.rows.join(rows_);
    make_room(me);
  }

  bool due(local& me) const noexcept { return me.room <= 0; }

  template <class Peers, class Sink>
  void tick(local& me, Peers peers, Sink sink) noexcept {
    if (due(me) || looks_often(me)) work(me, peers, sink);
  }

  void enter(local&) noexcept {}
  void leave(local&) noexcept {}

  hold open(local& me) {
    refuse_inside_read("a guard begins inside read()");
    return {&me.rows.take(rows_), 0};
  }
  void close(local&, hold& h) noexcept { slot_rows::give_back(*h.row, h.used); }
  static slot_owners& owners(hold& h) noexcept { return h.row->owners; }

  /// f, from its beginning as often as it takes.
  template <class F>
  std::invoke_result_t<F&> read(local& me, hold& h, F& f) noexcept {
    if (SPOLIA_CHECKS && restart_signals::here() != nullptr) {
      misuse::report("read() inside read()", threads::number());
      return f();
    }
    return me.phase.run(f, [&h, used = h.used]() noexcept { start_over(h, used); });
  }

  template <class Source>
  source_value<Source> protect(local& me, hold&, unsigned, const Source& source) noexcept {
    if (SPOLIA_CHECKS && !me.phase.active()) {
      misuse::report("neutralization: protect() outside of read()", threads::number());
    }
    return source_traits<Source>::load_acquire(source);
  }

  template <class T>
  void keep(local& me, hold& h, unsigned slot, T p) noexcept {
    if (SPOLIA_CHECKS && !me.phase.active()) {
      misuse::report("keep() outside of read()", threads::number());
    }
    if (SPOLIA_FAULT("nbr.keep_late")) me.phase.end();
    reserve(h, slot, bare_address(p));
  }

  template <class T>
  void announce(local&, hold& h, unsigned slot, T p) noexcept {
    refuse_inside_read("announce() inside read()");
    reserve(h, slot, bare_address(p));
    // light → the heavy fence in rounds::begin(): either the round's owner sees the reservation, or
    // the check that the caller makes now sees the block unlinked.
    if (!SPOLIA_FAULT("nbr.announce_no_light")) fence::light();
  }

  template <class Peers, class Sink>
  void retire(local& me, retired* block, Peers peers, Sink sink) noexcept {
    refuse_inside_read("retire() inside read()");
    me.fresh.push(block);
    // What is passed on next has left the caches. Two: it is passed on faster than is retired.
    me.settled.look_ahead();
    me.settled.look_ahead();
    if (--me.room <= 0) work(me, peers, sink);
  }

  template <class Peers, class Sink>
  void collect(local& me, Peers peers, Sink sink) noexcept {
    if (waiting(me) == 0) return;
    limbo safe;
    if (rounds_.begin(me.round, me.fresh, peers) && rounds_.wait(me.round)) settle(me);
    pass_on(me, peers, everything, safe);
    make_room(me);
    if (!safe.empty()) sink(safe);
  }

  void adopt(local& me, local& other) noexcept {
    other.round.cancel(me.fresh);
    me.fresh.append(other.fresh);
    me.settled.append(other.settled);
    make_room(me);  // not other's: `due` reads that outside of the gate. It looks early once.
  }

  /// After an adoption, so that lists that pass from hand to hand do not grow.
  template <class Peers, class Sink>
  void adopted(local& me, Peers peers, Sink sink) noexcept {
    if (due(me)) work(me, peers, sink);
  }

  void abandon(local& me, limbo& all) noexcept {
    all.append(me.round.marked);
    all.append(me.fresh);
    all.append(me.settled);
  }

  template <class Peers>
  void exited(local& me, Peers) noexcept {
    me.rows.leave(rows_);  // it reads no more, and its guards have cleared its slots
  }

  template <class Peers>
  void forked(local& lost, Peers) noexcept {
    lost.phase.forget();
    lost.rows.forget();
    lost.round.forget(lost.fresh);
    lost.names.forget();
    make_room(lost);
  }
  template <class F>
  static void lists(local& of, F&& f) {
    f(of.round.marked);
    f(of.fresh);
    f(of.settled);
  }

  std::size_t waiting(const local& me) const noexcept { return pending(me) + me.settled.count(); }

  std::uint64_t epochs() const noexcept { return rounds_.counted(); }

  std::optional<std::uint64_t> bound(std::size_t threads) const noexcept {
    // At `high` blocks a thread waits for its round, which covers `low` of them at least; half of
    // these at least are in no slot. Adopted lists are some thread's lists still, so the sum stays.
    return detail::reclaim::saturating_product(
        threads, high(std::max<std::uint64_t>(threads, rows_.made())));
  }

 private:
  /// Blocks that wait for a round.
  static std::size_t pending(const local& me) noexcept {
    return me.fresh.count() + me.round.marked.count();
  }

  static void refuse_inside_read(const char* what) noexcept {
    if (SPOLIA_CHECKS && restart_signals::here() != nullptr)
      misuse::report(what, threads::number());
  }

  /// After the jump: what the abandoned attempt has kept is kept no more. What it has noted in the
  /// guard cannot be relied on, since the compiler may have had it in a register.
  static void start_over(hold& h, std::uint32_t used_before) noexcept {
    slot_rows::clear(*h.row, ~used_before);
    h.used = used_before;
    const std::uint64_t now = trace::on() ? trace::ticks() : 0;
    trace::record(trace::event::neutralized, now, now, 1);
  }

  static void reserve(hold& h, unsigned slot, const void* address) noexcept {
    if (SPOLIA_CHECKS && slot >= guard_slots) {
      misuse::report("neutralization: a guard has slots 0 to 7 only", threads::number());
      slot %= guard_slots;
    }
    h.used |= 1U << slot;
    // release → the acquire in gather(): what we did with the block that the slot named before
    // happens before it is freed.
    if (SPOLIA_FAULT("nbr.keep_relaxed")) {
      h.row->at[slot].store_relaxed(address);
    } else {
      h.row->at[slot].store_release(address);
    }
  }

  /// One look at how the round for the marked blocks stands; begins one if enough wait.
  template <class Peers, class Sink>
  SPOLIA_NOINLINE void work(local& me, Peers peers, Sink sink) noexcept {
    round_part& round = me.round;
    if (round.stage != round_stage::none && rounds_.over(round)) settle(me);
    const std::uint64_t rows = rows_.in_use();
    const bool enough = pending(me) >= (Plus ? middle(rows) : low(rows));
    if (round.stage != round_stage::begun && enough) {
      if (rounds_.begin(round, me.fresh, peers) && rounds_.over(round)) settle(me);
    } else if (round.stage == round_stage::none && pending(me) >= low(rows)) {
      rounds_.bookmark(round, me.fresh);
    }
    limbo safe;
    pass_on(me, peers, waiting(me) >= high(rows) ? everything : sink.wants(), safe);
    bool deaf = false;
    while (waiting(me) >= high(rows) && !deaf) {
      const bool begun = round.stage == round_stage::begun || rounds_.begin(round, me.fresh, peers);
      deaf = !begun || !rounds_.wait(round);
      if (!deaf) settle(me);
      pass_on(me, peers, everything, safe);
    }
    make_room(me);
    if (deaf) me.room = static_cast<std::int64_t>(low(rows));  // the waiting has cost a second
    // Last: deleters may open guards, retire, and so come back here.
    if (!safe.empty()) sink(safe);
  }

  /// The round for the marked blocks is complete.
  void settle(local& me) noexcept {
    me.settled.append(me.round.marked);
    rounds_.count(me.round);
  }

  /// The oldest blocks whose round is over, about `most`, are safe unless a slot names them. Slots
  /// are read now, not when the round was complete: a thread that names one of these blocks has
  /// done so since before.
  template <class Peers>
  void pass_on(local& me, Peers peers, std::size_t most, limbo& safe) noexcept {
    if (most == 0 || me.settled.empty()) return;
    const std::uint64_t slot_count = rows_.in_use() * guard_slots;
    const auto room = room_for(slot_count, me.names);
    limbo some;
    me.settled.split(std::max<std::size_t>(most, slot_count),
                     some);  // a slot costs what a block does
    me.settled.look_from_first();
    if (!SPOLIA_FAULT("nbr.settled_unread")) separate(some, me.fresh, peers, room);
    safe.append(some);
  }

  // The three marks. A round has to free a constant fraction of what it marks, so the lowest one is
  // at least twice the number of slots; the others keep their distance.
  std::uint64_t low(std::uint64_t rows) const noexcept {
    return std::max<std::uint64_t>(options_.low,
                                   detail::reclaim::saturating_product(2 * guard_slots, rows));
  }
  std::uint64_t middle(std::uint64_t rows) const noexcept {
    return low(rows) + (options_.high - options_.low) / 2;
  }
  std::uint64_t high(std::uint64_t rows) const noexcept {
    return detail::reclaim::saturating_sum(low(rows), options_.high - options_.low);
  }

  static bool looks_often(const local& me) noexcept {
    return me.round.stage != round_stage::none || !me.settled.empty();
  }

  /// When to look again. At once, if a list was adopted that is too long.
  void make_room(local& me) const noexcept {
    const std::uint64_t rows = rows_.in_use();
    const round_stage at = me.round.stage;
    const std::uint64_t next = at == round_stage::none         ? low(rows)
                               : at == round_stage::bookmarked ? middle(rows)
                                                               : high(rows);
    me.room = static_cast<std::int64_t>(next) - static_cast<std::int64_t>(pending(me));
    if (!looks_often(me)) return;
    const auto left =
        static_cast<std::int64_t>(high(rows)) - static_cast<std::int64_t>(waiting(me));
    me.room = (std::min)({me.room, left, look_every});
  }

  /// Blocks retired between two looks at a round: seldom enough to cost nothing.
  static constexpr std::int64_t look_every = 64;

  options options_;
  rounds<Plus> rounds_;
  detail::reclaim::row_count rows_;
};

}  // namespace detail::reclaim

class neutralization : public detail::reclaim::neutralizing<false> {
 public:
  static constexpr scheme_info info{
      .name = "neutralization",
      .title = "neutralization (NBR)",
      .source = "Singh, Brown, Mashtizadeh, PPoPP 2021, with acknowledged signals",
      .protects = protection::restartable,
      .robust = true,
      .cost = "sigsetjmp and two plain stores a search; signals once for many blocks",
      .progress = "searches restart once a round at most; retiring waits at the high mark",
      .bound = "threads * (max(low, 2 * slots of all guards) + high - low)"};
  using neutralizing::neutralizing;
};

class neutralization_plus : public detail::reclaim::neutralizing<true> {
 public:
  static constexpr scheme_info info{
      .name = "neutralization_plus",
      .title = "neutralization with shared rounds (NBR+)",
      .source = "Singh, Brown, Mashtizadeh, TPDS 2024, with acknowledged signals",
      .protects = protection::restartable,
      .robust = true,
      .cost = "as neutralization; fewer signals, since threads use each other's rounds",
      .progress = "searches restart once a round at most; retiring waits at the high mark",
      .bound = "threads * (max(low, 2 * slots of all guards) + high - low)"};
  using neutralizing::neutralizing;
};

static_assert(scheme<neutralization> && protects_by_restart<neutralization> &&
              robust<neutralization>);
static_assert(scheme<neutralization_plus> && protects_by_restart<neutralization_plus> &&
              robust<neutralization_plus>);

}  // namespace spolia::inline SPOLIA_FLAVOUR
