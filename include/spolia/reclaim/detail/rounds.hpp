// SPDX-License-Identifier: Apache-2.0
// rounds.hpp: rounds of neutralization: after one, no thread reads on from before it.
//
// A thread marks its waiting blocks and begins a round: a heavy fence, a look at each thread's
// phase, a signal to those that read. The round is complete once each of these phases is over.
// Threads that share rounds order them by tickets of one counter: a bookmark is a ticket, too, and
// what was marked with it is out of reach when any round with a higher ticket is complete. (The
// published test, two steps of a thread's timestamp, also takes the end of one round and the mere
// beginning of the next for a whole one.)
//
// Waiting: at the high mark, and in collect(), a thread waits until each reader that it has found
// has been on a processor once, to handle its signal or to end its phase. How long a phase would
// have gone on does not matter.
//
// Why a foreign round counts. Taking a ticket is a read-modify-write of one counter, so what
// happens before our ticket happens before every higher one, and before the heavy fence that
// follows it. To the readers that is as if the round's owner had unlinked our blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/signals.hpp>
#include <spolia/base/trace.hpp>
#include <spolia/reclaim/detail/read_phase.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/slots.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

enum class round_stage : std::uint8_t {
  none,        // nothing is marked
  bookmarked,  // the marked blocks wait for a round of another thread
  begun        // they wait for a round of this one
};

/// One thread's part.
struct round_part {
  limbo marked;
  round_stage stage = round_stage::none;
  std::uint64_t ticket = 0;
  scratch<reader> readers;
  std::span<reader> asked;  // of `readers`: those that may not have answered yet

  /// Unmarks everything.
  void cancel(limbo& to) noexcept {
    to.append(marked);
    stage = round_stage::none;
  }

  /// The thread has vanished in a fork.
  void forget(limbo& to) noexcept {
    cancel(to);
    readers.forget();
  }
};

/// All threads' rounds; `Shared`: they use each other's.
template <bool Shared>
class rounds {
 public:
  /// Marks what is fresh, in addition to what is marked; a round that counts for it begins after
  /// this.
  void bookmark(round_part& me, limbo& fresh) noexcept {
    me.marked.append(fresh);
    // acq_rel → itself: our unlinkings happen before every higher ticket.
    if constexpr (Shared) {
      me.ticket = 1 + (SPOLIA_FAULT("nbr.plus_ticket_relaxed") ? tickets_.fetch_add_relaxed(1)
                                                               : tickets_.fetch_add_acq_rel(1));
    }
    me.stage = round_stage::bookmarked;
  }

  /// Begins a round for everything. False, and nothing is marked, if there was neither memory to
  /// remember the threads that read nor an answer from them. Each peer has a `phase` and a `round`.
  template <class Peers>
  bool begin(round_part& me, limbo& fresh, Peers peers) noexcept {
    bookmark(me, fresh);
    const std::span<reader> room = me.readers.reserve(peers.high_water());
    // heavy → the light fences of read phases and of announcements. It orders the unlinking of the
    // marked blocks before the looks at phases here, and at slots when the round is complete.
    if (!SPOLIA_FAULT("nbr.no_heavy")) fence::heavy();
    std::size_t found = 0;
    bool done = true;
    peers.for_each([&](std::uint32_t thread, const auto& other) {
      const reader one{&other.phase, other.phase.number(), thread};
      if (&other.round == &me || (one.seen & 1U) == 0) return true;
      restart_signals::send(thread);
      if (found < room.size()) {
        room[found++] = one;
      } else {
        done = done && one.wait();
      }
      return true;
    });
    me.asked = room.first(found);
    me.stage = round_stage::begun;
    if (!done) me.cancel(fresh);
    return done;
  }

  /// Is the round for the marked blocks complete?
  bool over(round_part& me) noexcept {
    if constexpr (Shared) {
      // acquire ← the release in publish(): what happens before the end of that round does so for
      // us.
      const std::uint64_t complete = SPOLIA_FAULT("nbr.plus_incomplete_round")
                                         ? tickets_.load_acquire()
                                         : complete_.load_acquire();
      if (complete > me.ticket) return true;
      if (me.stage == round_stage::bookmarked) return false;
    }
    while (!me.asked.empty() && me.asked.back().has_answered()) {
      me.asked = me.asked.first(me.asked.size() - 1);
    }
    if (!me.asked.empty()) return false;
    if constexpr (Shared) publish(me.ticket);
    return true;
  }

  /// Waits until it is. False if a thread cannot be interrupted.
  bool wait(round_part& me) noexcept {
    while (!over(me)) {
      if (!me.asked.back().wait()) return false;
    }
    return true;
  }

  /// What was marked is no longer.
  void count(round_part& me) noexcept {
    me.stage = round_stage::none;
    counted_.fetch_add_relaxed(1);
    const std::uint64_t now = trace::on() ? trace::ticks() : 0;
    trace::record(trace::event::epoch_advanced, now, now, 1);
  }

  std::uint64_t counted() const noexcept { return counted_.load_relaxed(); }

 private:
  void publish(std::uint64_t ticket) noexcept {
    std::uint64_t seen = complete_.load_relaxed();
    // release → the acquire in over().
    while (seen < ticket && !complete_.cas_weak_release(seen, ticket)) {
    }
  }

  alignas(cache_line) atomic<std::uint64_t> tickets_{0};   // the last one taken
  alignas(cache_line) atomic<std::uint64_t> complete_{0};  // the highest one of a complete round
  atomic<std::uint64_t> counted_{0};
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
