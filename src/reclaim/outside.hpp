// SPDX-License-Identifier: Apache-2.0
// outside.hpp: what the standard faces do with a domain, where there is no guard to ask.
//
// Their users retire anywhere, open and close regions in different functions, and must not fail
// where the standard says noexcept. So everything here is noexcept, and takes the calling thread's
// cell, which is null if there was no memory for one. What such threads retire goes to the scheme's
// `astray` (strays.hpp).
//
// The barrier. When it returns, every block retired before the call has ended. Where may these
// blocks be? In the list of strays; in a cell, whose owner is outside or will leave; or in the
// hands of its owner, which is at its gate while it frees. The strays are taken first: a thread
// that took some before that was at its gate, and has them in its cell when it leaves. Then a
// question is left standing at the gate of every other cell (biased_gate.hpp), so that each is
// visited while its owner is absent, or the owner hands its blocks over between two stays. That
// collects them all, if only no third thread carries blocks from a cell not yet resolved to one
// that was. That is what `barred_` forbids. A third thread reads it after it has announced itself
// at its gate and issued a light fence; we set it before the heavy fence that follows the
// questions. Either we find that thread at its gate, and its question is resolved when it has
// carried its blocks to its cell; or it sees the bar.
//
// Bound:       a barrier takes two grace periods, and what the deleters take: the questions, which
//              stand all at once, are resolved when the regions and the steps of freeing that were
//              under way then are over; and then the regions that are open are waited for. Barriers
//              take turns. One that has to wait begins after the one under way, or returns when
//              another one is over that began after its call: so it takes four grace periods at
//              most, and the deleters of two barriers.
//              All of these are late by a millisecond or two, since the waiting thread sleeps
//              (backoff.hpp). A grace period: as long as it takes until every region, and every
//              step of freeing between two regions, that was under way has ended; the waiting
//              thread's own time slice comes on top. A region that never ends is waited for
//              forever, and so is a deleter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include <spolia/base/backoff.hpp>
#include <spolia/base/biased_gate.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/detail/place.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/limbo.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Scheme, class Release>
class domain<Scheme, Release>::outside {
 public:
  using thread = cell;

  explicit outside(domain& d) noexcept : of_(d) {}

  Scheme& scheme() noexcept { return of_.scheme_; }
  peers others() noexcept { return peers{of_}; }

  SPOLIA_ALWAYS_INLINE thread* me() noexcept {
    try {
      return &of_.my_cell();
    } catch (const std::bad_alloc&) {  // a thread's first call
      return nullptr;
    }
  }

  /// The block that a retired object becomes, which takes so much.
  static retired* block_in(core::place& where, std::size_t bytes) noexcept {
    retired* const block = ::new (where.links) detail::reclaim::placed::block;
    block->ends_by(detail::reclaim::placed::how, bytes);
    return block;
  }

  static bool inside(const thread* c) noexcept { return c != nullptr && c->inside(); }

  /// Opens a region, which may lie in others.
  SPOLIA_ALWAYS_INLINE void enter(thread& c) noexcept { of_.begin_guard(c); }
  /// Closes it. At the end of the outermost one, a few blocks may be freed.
  SPOLIA_ALWAYS_INLINE void leave(thread& c) noexcept { of_.end_guard(c); }

  /// Inside of a region of this thread.
  void retire_inside(thread& c, retired* block) noexcept {
    take_strays(c);
    of_.retire(c, block);
  }

  /// For schemes of pointer protection, which know no regions.
  void retire_anywhere(thread& c, retired* block) noexcept {
    tick_now_and_then(c);
    presence here(of_, c);
    take_strays(c);
    of_.retire(c, block);
    of_.free_some(c);
  }

  /// Frees what can be freed of the thread's own blocks, and of those that their deleters retire,
  /// until a round's deleters have retired none: so a chain goes whose objects retire the next one.
  void follow_deleters(thread& c) noexcept {
    presence here(of_, c);
    std::uint64_t before = 0;
    do {
      before = c.retired_blocks.value();
      of_.collect(c);
      of_.release_.drain(c.release);
    } while (c.retired_blocks.value() != before);
  }

  /// For schemes that know no regions: what is due by time or otherwise.
  void look_around(thread& c) noexcept {
    if (--c.countdown != 0 && c.tick_at.load_relaxed() != 0) [[likely]]
      return;
    of_.tick(c);
    presence here(of_, c);
    if (c.depth.freeing_is_due()) of_.free_some(c);
  }

  /// Takes in what threads without a cell have retired.
  void adopt_strays(thread& c) noexcept {
    presence here(of_, c);
    take_strays(c);
  }
  /// The same for a thread that is present.
  void take_strays(thread& c) noexcept {
    if (!of_.scheme_.astray.some()) [[likely]]
      return;
    limbo lost;
    of_.scheme_.astray.take(lost);
    while (retired* const block = lost.pop()) {
      block->next_.write(block);
      of_.retire(c, block);
    }
  }

  /// See above. `grace()` returns when no thread can look at what was unlinked before it was
  /// called. False if the caller is inside a region or in a deleter: it would wait for itself.
  template <class Grace>
  bool barrier(thread& c, Grace&& grace) noexcept {
    if (c.inside() || c.release.freeing) return false;
    // release → the acquire in begin_barrier(): what was retired before this is found by barriers
    // that count themselves later.
    const std::uint64_t begun = of_.barriers_begun_.fetch_add_acq_rel(0);
    for (backoff wait; !begin_barrier(); wait.pause()) {
      // acquire ← the release below: what that barrier has ended happens before we return.
      const std::uint64_t over = of_.barriers_over_.load_acquire();
      if (over > begun - (SPOLIA_FAULT("outside.counts_on_the_one_under_way") ? 1 : 0)) {
        return true;
      }
    }
    const std::uint64_t mine = of_.barriers_begun_.load_relaxed();
    {
      presence here(of_, c);
      limbo all;
      take_all(c, all);
      grace();
      of_.release_.take(c.release, all, detail::reclaim::no_poll);
      of_.release_.drain(c.release);
    }
    // release → the acquire above.
    of_.barriers_over_.store_release(mine);
    // release → the acquire in begin_barrier().
    of_.barred_.store_release(false);
    return true;
  }

 private:
  /// False: another barrier is under way.
  bool begin_barrier() noexcept {
    // acquire ← the release at the end of the last barrier.
    if (of_.barred_.exchange_acquire(true)) return false;
    if (SPOLIA_FAULT("outside.unbarred")) of_.barred_.store_relaxed(false);
    // acquire ← the release in barrier(), of those that count on us. Release: for their later
    // looks.
    of_.barriers_begun_.fetch_add_acq_rel(1);
    return true;
  }

  /// Collects what waits anywhere.
  void take_all(thread& c, limbo& all) noexcept {
    if (!SPOLIA_FAULT("outside.strays_last")) take_strays(c);
    each_other(c, [](cell& other) { other.question = other.gate.leave_question(); });
    // heavy → the light fence in biased_gate::come(), for all questions, and for `barred_`.
    if (!SPOLIA_FAULT("outside.no_heavy")) fence::heavy();
    each_other(c, [&](cell& other) {
      for (backoff wait; !resolve(c, other);) wait.pause();
    });
    of_.scheme_.abandon(c.local, all);  // and what was handed over
  }
  template <class F>
  void each_other(thread& c, F&& f) noexcept {
    of_.cells_.for_each([&](std::uint32_t, cell& other) {
      if (&other != &c) f(other);
      return true;
    });
  }

  /// Whether the other cell's blocks are here or handed over.
  bool resolve(thread& c, cell& other) noexcept {
    const auto take = [&] { of_.adopt(c, other); };
    if (other.question == biased_gate::no_question) {
      // It was parked, or another visitor was there; or it is new.
      if (other.gate.visit(take)) return true;
      other.question = other.gate.leave_question();
      if (other.question == biased_gate::no_question) return false;
      // heavy → the light fence in biased_gate::come().
      fence::heavy();
    }
    if (!other.gate.resolve(other.question, take)) return false;
    other.question = biased_gate::no_question;
    return true;
  }

  /// Each call counts as an operation.
  SPOLIA_ALWAYS_INLINE void tick_now_and_then(thread& c) noexcept {
    if (--c.countdown == 0 || of_.wants_tick(c)) [[unlikely]]
      of_.tick(c);
  }

  domain& of_;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
