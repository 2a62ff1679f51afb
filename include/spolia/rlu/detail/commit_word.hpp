// SPDX-License-Identifier: Apache-2.0
// commit_word.hpp: the one word by which all copies of a write set become visible at once.
//
// Each thread has one word. It says "set n is being linked", then "set n is whole, and has no
// timestamp yet", and then it is the timestamp. After that the thread fills the timestamp into the
// copies. So the word is needed only for a moment, and the thread uses it again for its next set.
//
//   commit:  linking(n);  link all copies;  committing(n);  fence;  t := clock.tick();
//            word: committing(n) → t, unless a reader has done it;  clock.pass(t)
//            fill t into the copies
//   reader with time s, at a copy without a timestamp:
//            linking(n)     skips it: the stamp will be drawn after this read, and be above s
//            committing(n)  draws a timestamp itself, which is above s, and sets it: skips it
//            t              if t <= s:  clock.pass(t);  takes it.  Else skips it
//
// Why a section sees all of a set or nothing. The section's time s is one number, and so is the
// set's timestamp t; the section takes exactly the copies with t <= s. It remains to show that it
// never misses a copy with t <= s. The section reads the clock, then the head of a chain; the
// committing thread sets the head, and then any thread draws t after a full fence. If the section
// did not see the head, its read comes before that fence in the order of seq_cst accesses. So its
// read of the clock does, too; and t, which is above all that was read from the clock before, is
// above s. The same holds for a copy that the section met while it was being linked. The fence may
// be left out where t is drawn by a step of the clock that this thread makes itself (tick_alone),
// and not by another thread's step: a section with s >= t has read that step or a later one of the
// same release sequence, so it synchronizes with the step, and sees the head.
//
// Why a thread that hears of a set sees it, although processors' counters may differ. A section on
// a processor whose counter is fast may have s >= t, while a section that begins later, on a
// processor whose counter is slow, has a time below t. So a section takes a copy only when a
// pass(t) has returned before: for copies that are filled in, and objects that are unlocked, the
// committing thread's, which happens before; else the section's own. After it the sections of all
// threads begin above t. (A master needs no such call: collectors write only versions there whose
// times all counters have passed, see grace_period::known.)
//   - Without the word's middle state a thread could draw t, sleep, and publish it in the past.
//   - Without the helping, readers would have to wait for a thread that sleeps in that state.
//   - Without the second look at `since`, the word might already speak of the thread's next set.
//
// Departure from the paper: a write set has no header in the log and no state of its own. (The
// published code draws the timestamp first and publishes it later, and shows copies that are not
// committed because its "infinite" timestamp wraps round.)
#pragma once

#include <cstdint>

#include <spolia/base/clock.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/rlu/object.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu::detail {

/// What `since_of` says of a copy that is not committed yet.
inline constexpr std::uint64_t not_yet = ~std::uint64_t{0};

// Timestamps stay below the flag (largest_timestamp).
inline constexpr std::uint64_t no_timestamp = std::uint64_t{1} << 63U;
inline constexpr std::uint64_t whole_flag = 1;
constexpr std::uint64_t linking(std::uint64_t set) noexcept { return no_timestamp | set << 1U; }
constexpr std::uint64_t committing(std::uint64_t set) noexcept { return linking(set) | whole_flag; }

/// Draws a timestamp for the set that `word` calls whole, unless another thread has; returns what
/// the word says then: the timestamp, or something about a later set.
template <class Clock>
std::uint64_t resolve(commit_word& word, std::uint64_t seen, Clock& clock) noexcept {
  std::uint64_t drawn = 0;
  if constexpr (requires { clock.tick_alone(); }) drawn = clock.tick_alone();
  if (drawn == 0) {
    // Between the linking, which we have done ourselves or know of from the word, and the clock:
    // see "Why a section sees all of a set or nothing".
    if (!SPOLIA_FAULT("rlu.no_fence")) fence::full();
    drawn = clock.tick();
  }
  // release → the acquires of `since_of`; acquire on failure ← the other thread's release.
  return word.cas_strong_acq_rel(seen, drawn) ? drawn : seen;
}

/// The timestamp of a copy that was found in a chain, or `not_yet`. If the timestamp is not above
/// `time`, all sections that begin from here on have a time above it. The caller is inside a guard,
/// or has the object's lock.
template <class Clock>
std::uint64_t since_of(const record& r, Clock& clock, std::uint64_t time) noexcept {
  for (;;) {
    // acquire ← the releases of the thread that fills it in: with the time comes the end of its set
    // (clock.pass has returned).
    const std::uint64_t filled = r.since.load_acquire();
    if (is_stamped(filled)) [[likely]]
      return filled;
    commit_word& owner = owner_of(filled);
    // seq_cst ↔ the fence in resolve: see there. It also acquires what the word's owner released,
    // so that if the word speaks of a later set, `since` is filled in.
    const std::uint64_t seen = owner.load_seq_cst();
    if (is_stamped(r.since.load_relaxed()) && !SPOLIA_FAULT("rlu.no_second_look")) continue;
    if ((seen & no_timestamp) == 0) {
      if (seen <= time && clock.bound() != 0 && !SPOLIA_FAULT("rlu.tells_too_early")) {
        clock.pass(seen);
      }
      return seen;
    }
    if (SPOLIA_FAULT("rlu.sees_uncommitted")) return 1;
    if ((seen & whole_flag) == 0) return not_yet;
    if (SPOLIA_FAULT("rlu.no_help")) return not_yet;
    resolve(owner, seen, clock);
  }
}

}  // namespace rlu::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
