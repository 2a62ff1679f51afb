// SPDX-License-Identifier: Apache-2.0
// session.hpp: what one thread keeps in a domain, and its section's way from the first lock to the
// commit.
//
// Source:      MV-RLU, sections 3.3 to 3.5 (try_lock, commit, abort).
// Lost updates cannot happen: a lock is given only if the newest version is one that the section
// sees, and nobody else can put a newer one there while it is held. If the chain is empty the
// master is newest, and it is as old as every live section, or it would not have been overwritten.
//
// Departures from the paper:
//   D1  A failed lock dooms its section, which then can only be abandoned: no caller can forget it.
//   D2  The section is announced until its commit is complete.
//   D3  Locking again what one has locked gives the same copy, and reading it too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/census.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/rlu/commit_word.hpp>
#include <spolia/rlu/log.hpp>
#include <spolia/rlu/object.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu {

/// How a section stands, or has ended.
enum class outcome : std::uint8_t {
  committed,  ///< or on the way there
  conflict,   ///< another section was faster, or the user asked for another try
  cancelled,  ///< by the user
  log_full    ///< the thread's log has reached its cap
};

namespace detail {

/// A clock that is never behind what this thread has committed, so that its next section sees it
/// also where the processors' counters are apart.
template <class Clock>
struct floored_clock {
  static constexpr bool advances_alone = Clock::advances_alone;
  Clock& of;
  std::uint64_t floor;

  [[nodiscard]] std::uint64_t now() const noexcept {
    return SPOLIA_FAULT("rlu.forgets_commit") ? of.now() : std::max(of.now(), floor);
  }
  std::uint64_t tick() noexcept { return of.tick(); }
  void pass(std::uint64_t t) noexcept { of.pass(t); }
  [[nodiscard]] std::uint64_t bound() const noexcept { return of.bound(); }
  [[nodiscard]] bool after(std::uint64_t x, std::uint64_t y) const noexcept {
    return of.after(x, y);
  }
  [[nodiscard]] time_order compare(std::uint64_t x, std::uint64_t y) const noexcept {
    return of.compare(x, y);
  }
};

/// An object that the section has made.
struct fresh_object {
  object* made;
  bool dropped;  // freed again
};

/// What is added to a counter if the section commits.
struct count_on_commit {
  tally* to;
  std::uint64_t n;
};

template <class Header>
struct alignas(cache_line) session {
  // Others read the word; the rest is the owner's.
  commit_word word{0};
  std::uint64_t sets = 0;        // begun to commit
  std::uint32_t next_pass = 0;   // how many filled segments bring it on
  std::uint32_t neighbour = 0;   // whose log is looked at next
  std::uint32_t walked = 0;      // reads that met copies, since this thread has collected
  std::uint32_t next_walks = 0;  // how many of them bring a pass on

  census::ticket ticket;
  std::uint64_t time = 0;         // of the section
  std::uint64_t last_commit = 0;  // its timestamp
  std::uint64_t turn = 0;         // counts sections: views know theirs
  std::uint32_t depth = 0;
  bool writes = false;        // the section may
  bool special = false;       // reads must look for own copies, or be remembered
  bool serializable = false;  // it asked for it
  outcome state = outcome::committed;
  std::vector<fresh_object> fresh;
  std::vector<object*> read;  // by a serializable section
  std::vector<count_on_commit> counts;

  std::uint32_t segment_bytes = 0;
  std::size_t cap = 0;
  alignas(cache_line) log<Header> written;
  atomic<bool> used{false};

  tally commits;
  tally conflicts;
  tally walks;
  tally written_back;

  template <class Clock>
  void begin(census& sections, Clock& clock, const char* label, bool writing) {
    if constexpr (Clock::advances_alone) {
      ticket = sections.announce(floored_clock<Clock>{clock, last_commit}, label);
    } else {
      ticket = sections.announce(clock, label);
    }
    time = ticket.timestamp();
    writes = writing;
    serializable = false;
    special = false;
    state = outcome::committed;
    if (writing) written.begin();
  }

  [[nodiscard]] bool doomed() const noexcept { return state != outcome::committed; }
  void doom(outcome why) noexcept {
    if (!doomed()) state = why;
  }

  /// The section's own copy of `o`, or null.
  record* own(const object& o) noexcept {
    const std::uintptr_t lock = o.pending.load_relaxed();
    return lock == unlocked ? nullptr : written.mine(lock);
  }
  [[nodiscard]] bool is_fresh(const object& o) const noexcept {
    return o.pending.load_relaxed() == fresh_of(word);
  }

  /// The lock of `o`, with a record of `body` more bytes to write to; null: the section is doomed.
  /// \throws std::bad_alloc
  record* lock(object& o, record_kind kind, std::uint32_t body) {
    record* const r = append(o, kind, body);
    if (r == nullptr) return nullptr;
    if (!take(o, *r) || !is_fresh_enough(o)) {
      doom(outcome::conflict);
      return nullptr;
    }
    return r;
  }

  /// Takes over the lock that `old` holds, for a record of another kind.
  /// \throws std::bad_alloc
  record* exchange_lock(const record& old, record_kind kind, std::uint32_t body) {
    record* const r = append(*old.of, kind, body);
    if (r != nullptr) {
      old.of->pending.store_relaxed(reinterpret_cast<std::uintptr_t>(r));  // ours all the time
    }
    return r;
  }

  /// Ends a section that is not doomed: what it wrote is visible to all sections that begin later.
  template <class Clock>
  void commit(Clock& clock) noexcept {
    for (const fresh_object& f : fresh) {
      if (!f.dropped) f.made->pending.store_relaxed(unlocked);
    }
    if (written.wrote()) {
      link_all();
      fill_in(stamp(clock));
      if (clock.bound() != 0) clock.pass(last_commit);  // nobody begins before it any more
      written.end();
      commits.add(1);
    }
    for (const count_on_commit& c : counts) c.to->add(c.n);
    std::erase_if(fresh, [](const fresh_object& f) { return !f.dropped; });
    leave();
  }

  /// Ends a section as if it had not been.
  void abandon() noexcept {
    if (writes) {
      written.for_each_written([](record& r) { unlock(r); });
      written.roll_back();
    }
    leave();
  }

  /// New objects that nobody is to have end last: their destructors may begin sections.
  void leave() noexcept {
    read.clear();
    counts.clear();
    ++turn;
    ticket.withdraw();
    if (fresh.empty()) return;
    std::vector<fresh_object> gone;
    gone.swap(fresh);
    for (const fresh_object& f : gone) f.made->let_go();
  }

 private:
  record* append(object& o, record_kind kind, std::uint32_t body) {
    if (doomed()) return nullptr;
    special = true;
    const auto size = static_cast<std::uint32_t>(sizeof(record)) + (body + 15U) / 16U * 16U;
    void* const place = written.append(size, segment_bytes, cap);
    if (place == nullptr) doom(outcome::log_full);
    return place == nullptr ? nullptr : ::new (place) record(o, word, kind, size);
  }

  bool take(object& o, record& r) noexcept {
    const auto locked = reinterpret_cast<std::uintptr_t>(&r);
    for (std::uint32_t spins = 0;; ++spins) {
      std::uintptr_t seen = unlocked;
      // acquire ← the releases of who had the lock: we see the chain as they left it.
      if (o.pending.cas_strong_acquire(seen, locked)) return true;
      // A collector has it for a few instructions; anybody else for a section.
      if (seen != collecting || spins == most_spins) return false;
      spin_wait();
    }
  }

  /// The newest version is one that this section sees.
  bool is_fresh_enough(const object& o) const noexcept {
    const record* const newest = o.newest.load_relaxed();
    return newest == nullptr || newest->since.load_relaxed() <= time ||
           SPOLIA_FAULT("rlu.locks_stale");
  }

  void link_all() noexcept {
    ++sets;
    // release → the acquire in since_of: who sees our set in the word sees the one before filled
    // in.
    word.store_release(linking(sets));
    written.for_each_written([](record& r) {
      object& o = *r.of;
      if (r.kind.read() == record_kind::lock_only || !holds(r)) return;
      o.holders.fetch_add_relaxed(1);
      r.older.store_relaxed(o.newest.load_relaxed());
      if (SPOLIA_FAULT("rlu.links_relaxed")) {
        o.newest.store_relaxed(&r);
      } else {
        o.newest.store_release(&r);  // → the acquire in the walk: the copy is whole
      }
    });
  }

  template <class Clock>
  std::uint64_t stamp(Clock& clock) noexcept {
    // release → the acquire in since_of: who sees it whole sees every copy linked.
    word.store_release(committing(sets));
    last_commit = settle(word, committing(sets), clock);
    return last_commit;
  }

  void fill_in(std::uint64_t t) noexcept {
    written.for_each_written([t](record& r) {
      if (r.kind.read() != record_kind::lock_only && holds(r)) {
        // release, both → the acquires in since_of and in the collector's examine.
        r.since.store_release(t);
        if (record* const older = r.older.load_relaxed()) older->ended.store_release(t);
      }
      unlock(r);
    });
  }

  static bool holds(const record& r) noexcept {
    return r.of->pending.load_relaxed() == reinterpret_cast<std::uintptr_t>(&r);
  }
  static void unlock(record& r) noexcept {
    if (!holds(r)) return;
    if (SPOLIA_FAULT("rlu.unlocks_relaxed")) {
      r.of->pending.store_relaxed(unlocked);
    } else {
      r.of->pending.store_release(unlocked);  // → the acquires of who takes the lock next
    }
  }

  static constexpr std::uint32_t most_spins = 64;
};

}  // namespace detail
}  // namespace rlu
}  // namespace spolia::inline SPOLIA_FLAVOUR
