// SPDX-License-Identifier: Apache-2.0
// session.hpp: what one thread keeps in a domain, and its section's way from the first lock to the
// commit.
//
// Source:      MV-RLU, sections 3.3 to 3.5 (try_lock, commit, abort).
// Lost updates cannot happen: a lock is given only if the newest version is one that the section
// sees (the object's word says so), and no other thread can put a newer one there while it is held.
//
// Departures from the paper:
//   D1  A failed lock dooms its section, which then can only be abandoned: no caller can forget it.
//   D2  The section is announced until its commit is complete.
//   D3  Locking again what one has locked gives the same copy, and reading it too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/census.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/reclaim/courtesy.hpp>
#include <spolia/rlu/detail/commit_word.hpp>
#include <spolia/rlu/detail/exclusive_mode.hpp>
#include <spolia/rlu/detail/grace_period.hpp>
#include <spolia/rlu/detail/log.hpp>
#include <spolia/rlu/detail/online_state.hpp>
#include <spolia/rlu/detail/write_set.hpp>
#include <spolia/rlu/object.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu {

namespace detail {

template <class Header>
struct alignas(cache_line) session {
  // Others read the word; the rest is the owner's.
  commit_word committed{0};
  std::uint64_t sets = 0;  // begun to commit

  online_state here;
  exclusive_part exclusive;
  census::reserved_slot slot;
  std::uint64_t time = 0;  // of the section
  std::uint64_t turn = 0;  // counts sections: views know theirs
  std::uint32_t depth = 0;
  bool writes = false;   // the section may
  bool special = false;  // it did or asked for more than to read, or is to remember what it reads
  bool serializable = false;  // it asked for it
  outcome state = outcome::committed;
  std::vector<fresh_object> fresh;
  std::vector<std::pair<object*, const object_kind*>> read;  // by a serializable section
  std::vector<fresh_object> ended;                           // by commits in place
  std::size_t frees_bytes = 0;  // of objects that the section frees, with what they own
  count_on_commit first_count{};
  std::vector<count_on_commit> counts;  // the others

  std::uint32_t segment_bytes = 0;
  std::size_t cap = 0;
  alignas(cache_line) log<Header> written;
  atomic<bool> used{false};
  std::uint64_t written_before = 0;  // bytes, when this thread came; the owner's

  tally commits;
  tally conflicts;
  tally walks;
  tally written_back;

  // When a look through the logs is due, see domain_impl.hpp:
  std::uint64_t pass_at = 0;        // bytes that will have been written then
  std::uint64_t walks_at = 0;       // reads that will have met copies
  std::uint64_t walk_step = 0;      // since the last sweep
  std::uint64_t fast_check_at = 0;  // and when a sweep is due that needs only a fast-path check
  std::uint64_t fast_check_walks_at = 0;
  std::uint32_t haste = 0;     // these come so much sooner: a power of two
  std::uint64_t pressing = 0;  // bytes of what was freed since the last sweeps for their sake
  static constexpr std::uint64_t press_bytes = std::uint64_t{1} << 20U;  // that make them due
  std::uint32_t neighbour = 0;  // whose log is looked at next
  std::uint32_t neighbour_looks = 0;
  std::uint64_t neighbour_passes = 0;  // of its log, as of the first look
  std::uint64_t retired = 0;           // segments, since it last asked how many wait
  bool collecting = false;
  std::uint32_t until_look = 1;  // sections, until the thread asks whether its time slice is over
  spolia::detail::reclaim::courtesy::turn turn_taken;
  grace_period now;  // of the sweeps that this thread makes

  template <class Clock>
  SPOLIA_ALWAYS_INLINE void begin(Clock& clock, const char* label) noexcept {
    time = slot.announce(clock, label);
  }
  template <class Clock>
  SPOLIA_ALWAYS_INLINE void begin_writing(Clock& clock) noexcept {
    begin(clock, nullptr);
    writes = true;
    state = outcome::committed;
  }

  /// Whether it has to end another thread's exclusive mode before its first read. (After the fence
  /// in announce.)
  [[nodiscard]] bool is_to_ask() const noexcept {
    return here.is_called() && !SPOLIA_FAULT("rlu.begins_unasked");
  }

  [[nodiscard]] bool is_fast_check_due() const noexcept {
    return walks.value() >= fast_check_walks_at || written.written() >= fast_check_at;
  }

  /// So much was freed, with what it owns, that it is to go whatever the log's bytes are.
  [[nodiscard]] bool presses() const noexcept { return pressing >= press_bytes; }

  /// The end of what begin began.
  SPOLIA_ALWAYS_INLINE void leave() noexcept {
    ++turn;
    slot.withdraw();
  }

  /// In the child of a fork, of a thread that was lost anywhere in here. Its section ends, and its
  /// log is left as by a thread that has ended; but for one in which the fork has caught a change
  /// of the lists: that is given up. Vectors may be half-written, and are left alone.
  template <class Clock>
  void forget(Clock& clock) noexcept {
    if (written.is_whole()) {
      end_lost(clock);
      written.close();
    } else {  // it had no lock yet, or none any more
      written.forget();
    }
    exclusive.in_place.store_relaxed(overwriting::no);
    exclusive.granted.store_relaxed(false);
    std::construct_at(&exclusive.times);
    std::construct_at(&ended);
    frees_bytes = 0;
    if (used.load_relaxed()) slot.withdraw();  // perhaps it had begun a section
    here.go_offline();
    used.store_relaxed(false);
    until_look = 1;
    depth = 0;
    writes = special = serializable = collecting = false;
    std::construct_at(&fresh);
    std::construct_at(&read);
    first_count = {};
    std::construct_at(&counts);
    std::construct_at(&now);
  }

  [[nodiscard]] bool doomed() const noexcept { return state != outcome::committed; }
  void doom(outcome why) noexcept {
    if (!doomed()) state = why;
  }

  /// The section's own copy of `o`, or null.
  record* own(const object& o) noexcept {
    const std::uintptr_t seen = o.lock.load_relaxed();
    const bool copy = (seen & word::flags) == word::locked;
    return copy ? written.mine(seen - word::locked) : nullptr;
  }
  [[nodiscard]] bool is_fresh(const object& o) const noexcept {
    return o.lock.load_relaxed() == word::fresh(committed);
  }

  /// The lock of `o`, with a record of `size` bytes to write to; null: the section is doomed.
  /// \throws std::bad_alloc
  record* lock(object& o, const object_kind& how, record_kind kind, std::uint32_t size) {
    record* const r = append(o, how, kind, size);
    if (r == nullptr || take(o, *r)) return r;
    doom(outcome::conflict);
    return nullptr;
  }

  /// Takes over the lock that `old` holds, for a record of another kind.
  /// \throws std::bad_alloc
  record* exchange_lock(const record& old, record_kind kind, std::uint32_t size) {
    record* const r = append(*old.of, *old.how, kind, size);
    if (r == nullptr) return nullptr;
    r->ended.store_relaxed(old.ended.load_relaxed());
    fence::for_forks();                        // see end_lost
    old.of->lock.store_relaxed(word::of(*r));  // ours all the time
    return r;
  }

  /// Ends a section that is not doomed: what it wrote is visible to all sections that begin later.
  template <class Clock>
  void commit(Clock& clock) noexcept {
    if (!special) return leave();
    bool dropped = false;
    const std::uint64_t born = birth();
    for (const fresh_object& f : fresh) {
      if (!f.dropped) f.made->lock.store_relaxed(word::since(born));
      dropped |= f.dropped;
    }
    if (written.wrote()) {
      if (!exclusive.granted.load_relaxed() || !commit_in_place()) commit_copies(clock);
      commits.add(1);
    }
    if (first_count.to != nullptr) {
      first_count.to->add(first_count.n);
      for (const count_on_commit& c : counts) c.to->add(c.n);
    }
    if (dropped) {
      std::erase_if(fresh, [](const fresh_object& f) { return !f.dropped; });
    } else {
      fresh.clear();
    }
    leave_after_writing();
  }

  /// Ends a section as if it had not been.
  void abandon() noexcept {
    if (!special) return leave();
    written.for_each_written([](record& r) { unlock(r); });
    written.roll_back();
    leave_after_writing();
  }

 private:
  template <class Clock>
  void commit_copies(Clock& clock) noexcept {
    link_all();
    const std::uint64_t t = stamp(clock);
    // No section begins before it any more, nor one of this thread: see commit_word.hpp.
    if (clock.bound() != 0 && !SPOLIA_FAULT("rlu.ends_too_early")) clock.pass(t);
    fill_in(t);
    if (frees_bytes != 0) [[unlikely]]
      note_freed();
  }
  /// What the section has freed waits in the log: a sweep may be due for it.
  SPOLIA_NOINLINE void note_freed() noexcept {
    written.holds_more(frees_bytes);
    pressing += frees_bytes;
    if (presses()) fast_check_at = 0;
  }

  /// Not above the time of any section that will find what this one has made. After a commit in
  /// place, which passes no clock, that time may be below ours; but what leads the section there
  /// passed `from`.
  [[nodiscard]] std::uint64_t birth() const noexcept {
    return exclusive.granted.load_relaxed() ? (std::min)(time, exclusive.from) : time;
  }

  /// The same without copies, if no section can tell: see exclusive_mode.hpp. False: it has done
  /// nothing.
  SPOLIA_NOINLINE bool commit_in_place() noexcept {
    std::size_t ends = 0;
    bool may = true;
    written.for_each_written([&](const record& r) {
      if (r.kind.read() == record_kind::lock_only) return;
      may &= r.base() >= exclusive.from;
      if (r.kind.read() != record_kind::tombstone) return;
      ++ends;
      may &= r.of->newest.load_relaxed() == nullptr;
    });
    if (!may || !has_room_to_end(ends)) return false;
    exclusive.in_place.store_relaxed(overwriting::asked);
    if (!SPOLIA_FAULT("rlu.overwrites_unfenced")) fence::light();  // ↔ the heavy one in ask
    const bool alone = exclusive.granted.load_relaxed();
    if (alone) {
      exclusive.in_place.store_relaxed(overwriting::begun);  // for a fork
      overwrite_all([this](const record& r) { ended.push_back({r.of, r.how, true}); });
    }
    exclusive.in_place.store_release(overwriting::no);  // → the acquires of threads that ask
    if (alone) {                                        // there is nothing to collect
      const std::uint64_t taken_back = written.take_back();
      pass_at += taken_back;
      fast_check_at += taken_back;
    }
    return alone;
  }

  bool has_room_to_end(std::size_t more) noexcept {
    if (ended.capacity() - ended.size() >= more) return true;
    try {
      ended.reserve(2 * (ended.size() + more));
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }

  template <class F>
  void overwrite_all(F&& end) noexcept {
    written.for_each_written([&](record& r) {
      if (r.kind.read() == record_kind::lock_only) return unlock(r);
      if (r.kind.read() == record_kind::tombstone) return end(r);
      object& o = *r.of;
      if (record* const newest = o.newest.load_relaxed()) {
        r.how->copy_body(*newest, r);
      } else {
        r.how->write_back(o, r);
      }
      give_up(o, word::since(r.base()));
    });
  }

  /// One at a time, since their destructors may begin sections that end others.
  SPOLIA_NOINLINE void end_objects() noexcept {
    while (!ended.empty()) {
      const fresh_object last = ended.back();
      ended.pop_back();
      last.how->destroy(*last.made);
    }
  }

  /// New objects that never became visible end last: their destructors may begin sections.
  void leave_after_writing() noexcept {
    special = serializable = false;
    read.clear();
    first_count = {};
    counts.clear();
    frees_bytes = 0;
    written.end();
    leave();
    if (!ended.empty()) end_objects();
    if (fresh.empty()) return;
    std::vector<fresh_object> gone;
    gone.swap(fresh);
    for (const fresh_object& f : gone) f.how->destroy(*f.made);
  }

  record* append(object& o, const object_kind& how, record_kind kind, std::uint32_t size) {
    if (doomed()) return nullptr;
    special = true;
    void* const place = written.room(size, segment_bytes, cap);
    if (place == nullptr) {
      doom(outcome::log_full);
      return nullptr;
    }
    record* const made = ::new (place) record(o, how, committed, kind, size);
    written.append(*made);
    return made;
  }

  /// Takes the lock, if the newest version is one that this section sees.
  bool take(object& o, record& r) noexcept {
    std::uintptr_t seen = o.lock.load_relaxed();
    for (std::uint32_t spins = 0;;) {
      if ((seen & word::flags) == word::collecting) {
        // A collector has it for a few instructions; a section has it until it ends.
        if (spins++ == most_spins) return false;
        spin_wait();
        seen = o.lock.load_relaxed();
        continue;
      }
      if (!word::allows(seen, time) && !SPOLIA_FAULT("rlu.locks_stale")) return false;
      if (word::is_locked(seen)) return false;
      r.ended.store_relaxed(unended(word::time(seen)));
      fence::for_forks();  // see end_lost
      // acquire ← the releases of threads that had the lock: we see the chain as they left it.
      if (o.lock.cas_strong_acquire(seen, word::of(r))) return true;
    }
  }

  void link_all() noexcept {
    ++sets;
    // release → the acquire in since_of: a thread that sees our set in the word sees the one before
    // filled in.
    committed.store_release(linking(sets));
    written.for_each_written([](record& r) {
      object& o = *r.of;
      if (r.kind.read() == record_kind::lock_only) return;
      record* const older = o.newest.load_relaxed();
      r.older.store_relaxed(older);
      if (older != nullptr) r.ended.store_relaxed(older->ended.load_relaxed());
      if (SPOLIA_FAULT("rlu.links_relaxed")) {
        o.newest.store_relaxed(&r);
      } else {
        // → the acquires in the walk and in read: the copy is whole, and the word is a lock.
        o.newest.store_release(&r);
      }
    });
  }

  template <class Clock>
  std::uint64_t stamp(Clock& clock) noexcept {
    // release → the acquire in since_of: a thread that sees the set whole sees every copy linked.
    committed.store_release(committing(sets));
    return resolve(committed, committing(sets), clock);
  }

  void fill_in(std::uint64_t t) noexcept {
    written.for_each_written([t](record& r) {
      if (r.kind.read() == record_kind::lock_only) return unlock(r);
      fill_in(r, t);
    });
  }
  static void fill_in(record& r, std::uint64_t t) noexcept {
    // release, both → the acquires in since_of and in the collector's examine.
    r.since.store_release(t);
    if (record* const older = r.older.load_relaxed()) older->ended.store_release(t);
    give_up(*r.of, word::since(t));
  }

  /// Of one that may have failed to take the lock, or has handed it on: a lock_only does that, and
  /// no other.
  static void unlock(const record& r) noexcept {
    if (r.of->lock.load_relaxed() == word::of(r)) give_up(*r.of, word::since(r.base()));
  }
  static void give_up(object& o, std::uintptr_t then) noexcept {
    if (SPOLIA_FAULT("rlu.unlocks_relaxed")) {
      o.lock.store_relaxed(then);
    } else {
      o.lock.store_release(then);  // → the acquire of the thread that takes the lock next
    }
  }

  /// In the child of a fork: a lost section that has a timestamp, or lacks nothing but that, is
  /// committed; another has not been. It has held back what the objects that it wrote to need, so
  /// all of them are there.
  template <class Clock>
  void end_lost(Clock& clock) noexcept {
    bool is_committed = false;
    // acquire: for form; there is no other thread.
    if (exclusive.in_place.load_acquire() == overwriting::begun) {
      overwrite_all([](record&) {});
    } else {
      written.for_each_written([&](record& r) { is_committed |= end_lost(r, clock); });
    }
    if (!is_committed) written.roll_back();
    written.end();
  }

  /// True if it is committed. A lock that the section has is given up, and the chain is then as if
  /// the section had done that, or had never linked the record.
  template <class Clock>
  static bool end_lost(record& r, Clock& clock) noexcept {
    object& o = *r.of;
    if (o.lock.load_relaxed() != word::of(r)) return is_stamped(r.since.load_relaxed());
    if (o.newest.load_relaxed() == &r) {
      const std::uint64_t t = since_of(r, clock, not_yet);
      if (t != not_yet) {
        fill_in(r, t);
        return true;
      }
      o.newest.store_relaxed(r.older.load_relaxed());
    }
    const record* const newest = o.newest.load_relaxed();
    give_up(o, word::since(newest == nullptr ? r.base() : newest->since.load_relaxed()));
    return false;
  }

  static constexpr std::uint32_t most_spins = 64;
};

}  // namespace detail
}  // namespace rlu
}  // namespace spolia::inline SPOLIA_FLAVOUR
