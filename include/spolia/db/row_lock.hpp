// SPDX-License-Identifier: Apache-2.0
// row_lock.hpp: how a transaction takes a row's lock: at once or not at all; or, if it is asked to,
// by waiting for younger transactions (wait-die). An unlocked word is the row's birth.
//
// Source:      Rosenkrantz, Stearns, Lewis: System Level Concurrency Control for Distributed
//              Database Systems, TODS 1978.
// Idea:        each transaction that may wait has an age, a number that no other has; the smaller,
//              the older. A transaction that meets a lock of a younger one waits; one that meets a
//              lock of an older one gives up. Every transaction waits for one that never waits.
// Why there is no deadlock: a transaction waits for a younger one, or for one that does not wait.
//   There is no circle of such. A wrong age, that of the transaction after, can be seen when a lock
//   has just changed hands; it is looked at again in each round.
// Fairness:    locks are not handed on: any waiting transaction may be next, also one that comes
//              later. But transact() keeps a transaction's age over its tries. The oldest one gives
//              up waiting for a lock only when its longest wait is over. It may still find then
//              that the row was committed after its snapshot.
// Progress:    a wait takes as long as the holder does, and at most the waiter's longest wait.
#pragma once

#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// What is in a row's lock. An unlocked word is the row's birth: no snapshot before that time sees
/// the row, nor the one that had its key before it in the same slot. A locked word has `held_flag`
/// set, and says what has the lock: a transaction, the cleaner, or nothing, where the row is
/// buried. 0 is neither: the slot has no row, and cannot be locked. So memory that was given back
/// to the system, and reads as zeros, is made of free slots.
inline constexpr std::uint64_t held_flag = std::uint64_t{1} << 63U;
inline constexpr std::uint64_t free_slot = 0;
inline constexpr std::uint64_t being_cleaned = ~std::uint64_t{0};
/// A deleted row whose key has left the primary index: only snapshots of long ago see it.
inline constexpr std::uint64_t buried_row = being_cleaned - 1;
/// The birth of a row that was there before all snapshots: the clock begins with that time.
inline constexpr std::uint64_t born_before_all = 1;

constexpr bool is_unlocked(std::uint64_t lock) noexcept {
  return static_cast<std::int64_t>(lock) > 0;
}
/// Whether a transaction has the lock.
constexpr bool is_held(std::uint64_t lock) noexcept {
  return (lock & held_flag) != 0 && lock < buried_row;
}

/// A transaction's word: the number of its record, and of the write among its writes.
constexpr std::uint64_t lock_word_of(std::uint32_t record, std::size_t write) noexcept {
  return held_flag | (std::uint64_t{record} + 1) << 32U | write;
}
constexpr std::uint32_t holder_of(std::uint64_t lock) noexcept {
  return static_cast<std::uint32_t>((lock & ~held_flag) >> 32U) - 1;
}

/// The age of transactions that do not wait.
inline constexpr std::uint64_t never_waits = 0;

/// Puts `mine` into the lock, and the birth that stood there into `birth`. False: give up.
/// `age_of(record)` is the age of the transaction with that record; `pause()` waits a little, or
/// returns false if it was long enough.
template <class AgeOf, class Pause>
bool take_lock(atomic<std::uint64_t>& lock, std::uint64_t mine, std::uint64_t age, AgeOf&& age_of,
               Pause&& pause, std::uint64_t& birth) {
  backoff cleaning;
  for (;;) {
    // acquire, here and when the exchange fails ← the release of the transaction that put its word
    // there: its age.
    std::uint64_t was = lock.load_acquire();
    while (is_unlocked(was)) {
      // acquire ← the release of the last holder: the row as it left it. release → the acquires
      // here: a transaction that meets our word sees our age.
      if (lock.cas_strong_acq_rel(was, mine)) {
        birth = was;
        return true;
      }
    }
    if (was == being_cleaned) {
      cleaning.pause();  // it takes out an index entry, and needs no row's lock for that
      continue;
    }
    if (age == never_waits || was == free_slot || was == buried_row) return false;
    if (!SPOLIA_FAULT("row_lock.waits_for_all")) {
      const std::uint64_t holder = age_of(holder_of(was));
      if (holder != never_waits && holder < age) return false;
    }
    if (!pause()) return false;
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
