// SPDX-License-Identifier: Apache-2.0
// outside.hpp: what the standard faces do with a domain, where there is no guard to ask.
//
// Their users retire anywhere, open and close regions in different functions, and must not fail
// where the standard says noexcept. So everything here is noexcept, and takes the calling thread's
// cell, which is null if there was no memory for one. What such threads retire goes to the scheme's
// `astray` (strays.hpp).
//
// The barrier. When it returns, every block retired before the call has ended. Where may these
// blocks be? In a cell, whose owner is outside or will leave; or in the hands of its owner, who is
// present at the gate while it frees. So a visit to every other cell, which waits for the owner to
// be absent once, collects them all, if only no third thread carries blocks from a cell not yet
// visited to one that was. That is what `barred_` forbids. A third thread looks at it when it has
// announced its presence and issued a light fence; we set it before the heavy fence of each visit.
// Either we find that thread present, and come again when it has carried its blocks home; or it
// sees the bar.
#pragma once

#include <new>

#include <spolia/base/config.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/patience.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/place.hpp>

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

  /// The block that a retired object becomes.
  static retired* block_in(core::place& where) noexcept {
    retired* const block = ::new (where.links) detail::placed::block;
    block->how_.write(&detail::placed::how);
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
    if (of_.wants_tick(c)) of_.tick(c);
    presence here(of_, c);
    take_strays(c);
    of_.retire(c, block);
    of_.free_some(c);
  }

  /// Takes in what threads without a cell have retired.
  void adopt_strays(thread& c) noexcept {
    presence here(of_, c);
    take_strays(c);
  }

  /// See above. `grace()` returns when nobody can look at what was unlinked before it was called.
  /// False if the caller is inside a region or in a deleter: it would wait for itself.
  template <class Grace>
  bool barrier(thread& c, Grace&& grace) noexcept {
    if (c.inside() || c.release.freeing) return false;
    // acquire ← the release below: one barrier after the other.
    for (patience wait; of_.barred_.exchange_acquire(true);) wait.pause();
    if (SPOLIA_FAULT("outside.unbarred")) of_.barred_.store_relaxed(false);
    {
      presence here(of_, c);
      of_.cells_.for_each([&](std::uint32_t, cell& other) {
        patience wait;
        const auto take = [&] { of_.adopt(c, other); };
        while (&other != &c && !other.gate.insist(take)) wait.pause();
        return true;
      });
      take_strays(c);
      limbo all;
      of_.scheme_.abandon(c.local, all);
      grace();
      of_.release_.take(c.release, all, detail::no_poll);
      of_.release_.drain(c.release);
    }
    // release → the acquire above.
    of_.barred_.store_release(false);
    return true;
  }

 private:
  /// Blocks that threads without a cell have retired, if there are any.
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

  domain& of_;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
