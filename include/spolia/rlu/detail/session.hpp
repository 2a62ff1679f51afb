// SPDX-License-Identifier: Apache-2.0
// session.hpp: the thread record of a domain, and how a section goes from its first lock to the
// commit.
//
// Source:      MV-RLU, sections 3.3 to 3.5 (try_lock, commit, abort).
// Lost updates cannot happen. A section gets an object's lock only if it sees the newest version
// (the object's word says when that began), and no other thread can link a newer one while the lock
// is held.
//
// Departures from the paper:
//   D1  A failed lock dooms its section, which then can only be abandoned. So a caller that
//       overlooks the failure does no harm.
//   D2  The section is announced until its commit is complete.
//   D3  A section that locks or reads an object which it has locked before gets the same copy.
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
  // Other threads read the word; the rest is the owner's.
  commit_word committed{0};
  std::uint64_t sets = 0;  // write sets whose commit has begun

  online_state here;
  exclusive_part exclusive;
  census::reserved_slot slot;
  std::uint64_t time = 0;  // the section's
  std::uint64_t turn = 0;  // counts sections: each view knows the one that it is of
  std::uint32_t depth = 0;
  bool writes = false;        // the section may write
  bool special = false;       // it did or asked for more than reading, or remembers its reads
  bool serializable = false;  // it has asked to be that
  outcome state = outcome::committed;
  std::vector<fresh_object> fresh;
  std::vector<std::pair<object*, const object_kind*>> read;  // what a serializable section has read
  std::vector<fresh_object> ended;                           // objects that commits in place freed
  std::size_t frees_bytes = 0;  // of the objects that the section frees, with what they own
  count_on_commit first_count{};
  std::vector<count_on_commit> counts;  // the others

  std::uint32_t segment_bytes = 0;
  std::size_t cap = 0;
  alignas(cache_line) log<Header> written;
  atomic<bool> used{false};
  std::uint64_t written_before = 0;  // bytes written before this thread came; the owner's

  tally commits;
  tally conflicts;
  tally walks;
  tally written_back;

  // When the next sweep is due, see domain_impl.hpp:
  std::uint64_t pass_at = 0;        // once `written` has had so many bytes in all
  std::uint64_t walks_at = 0;       // or once `walks` is so high
  std::uint64_t walk_step = 0;      // by how much `walks` has to rise from one sweep to the next
  std::uint64_t fast_check_at = 0;  // the same for a sweep that makes do with a fast-path check
  std::uint64_t fast_check_walks_at = 0;
  std::uint32_t haste = 0;     // that sweep comes sooner by this power of two
  std::uint64_t pressing = 0;  // bytes freed since the last sweeps that freed bytes brought on
  static constexpr std::uint64_t press_bytes = std::uint64_t{1} << 20U;  // so many bring some on
  std::uint32_t neighbour = 0;  // the thread whose log is to be looked at next
  std::uint32_t neighbour_looks = 0;
  std::uint64_t neighbour_passes = 0;  // over its log, as of the first look
  std::uint64_t retired = 0;           // segments, since the thread last asked how many wait
  bool collecting = false;
  std::uint32_t until_look = 1;  // sections, until the thread asks whether its time slice is over
  spolia::detail::reclaim::courtesy::turn turn_taken;
  grace_period now;  // what the last scan or fast-path check of this thread has found

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

  /// Whether the section has to come online before its first read, and perhaps to end another
  /// thread's exclusive mode. To be asked after the fence in announce.
  [[nodiscard]] bool is_to_ask() const noexcept {
    return here.is_called() && !SPOLIA_FAULT("rlu.begins_unasked");
  }

  [[nodiscard]] bool is_fast_check_due() const noexcept {
    return walks.value() >= fast_check_walks_at || written.written() >= fast_check_at;
  }

  /// Whether the freed objects, with what they own, are so large that a sweep is due for their
  /// sake, however few bytes the log has.
  [[nodiscard]] bool presses() const noexcept { return pressing >= press_bytes; }

  /// Ends what `begin` began.
  SPOLIA_ALWAYS_INLINE void leave() noexcept {
    ++turn;
    slot.withdraw();
  }

  /// In the child of a fork, for a thread that was lost at any point of this class's code. Its
  /// section ends, and its log is left as a thread that has ended leaves it. A log whose lists were
  /// just being changed is given up. Vectors may be half-written: they are made anew, and their old
  /// memory is left alone.
  template <class Clock>
  void forget(Clock& clock) noexcept {
    if (written.is_whole()) {
      end_lost(clock);
      written.close();
    } else {  // the section had no lock yet, or none any more
      written.forget();
    }
    exclusive.in_place.store_relaxed(overwriting::no);
    exclusive.granted.store_relaxed(false);
    std::construct_at(&exclusive.times);
    std::construct_at(&ended);
    frees_bytes = 0;
    if (used.load_relaxed()) slot.withdraw();  // the thread may have been in a section
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

  /// Takes the lock of `o`, with a record of `size` bytes to write to; null: the section is doomed.
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
    old.of->lock.store_relaxed(word::of(*r));  // relaxed: the lock stays ours all the time
    return r;
  }

  /// Ends a section that is not doomed. All sections that begin later see what it wrote.
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

  /// Ends a section of which no change takes effect.
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
    // From here on no section, of any thread, begins with a time below t: see commit_word.hpp.
    if (clock.bound() != 0 && !SPOLIA_FAULT("rlu.ends_too_early")) clock.pass(t);
    fill_in(t);
    if (frees_bytes != 0) [[unlikely]]
      note_freed();
  }
  /// Counts the objects that the section has freed, which wait in the log: a sweep may be due for
  /// their sake.
  SPOLIA_NOINLINE void note_freed() noexcept {
    written.holds_more(frees_bytes);
    pressing += frees_bytes;
    if (presses()) fast_check_at = 0;
  }

  /// When the objects that this section has made begin. That must not be above the time of any
  /// section that will find one of them. After a commit in place, which calls no `pass` of the
  /// clock, such a section's time may be below ours, but not below `from`: what leads it there
  /// began at or after that.
  [[nodiscard]] std::uint64_t birth() const noexcept {
    return exclusive.granted.load_relaxed() ? (std::min)(time, exclusive.from) : time;
  }

  /// Commits without copies, if no section can see the difference: see exclusive_mode.hpp. False:
  /// nothing was done.
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

  /// Ends the objects one by one: their destructors may begin sections that end others.
  SPOLIA_NOINLINE void end_objects() noexcept {
    while (!ended.empty()) {
      const fresh_object last = ended.back();
      ended.pop_back();
      last.how->destroy(*last.made);
    }
  }

  /// Ends a section that did more than read. New objects that never became visible end last: their
  /// destructors may begin sections.
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

  /// Takes the lock, if this section sees the newest version.
  bool take(object& o, record& r) noexcept {
    std::uintptr_t seen = o.lock.load_relaxed();
    for (std::uint32_t spins = 0;;) {
      if ((seen & word::flags) == word::collecting) {
        // A collector has the lock for a few instructions, so we wait; a section would have it
        // until it ends.
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
    // release → the acquire in since_of: a thread that sees this set in the word also sees that the
    // copies of the set before it are filled in.
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
    // release → the acquire in since_of: a thread that sees the word call the set whole also sees
    // every copy of it linked.
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

  /// Gives up the object's lock, unless `r` failed to take it, or has handed it on to another
  /// record (exchange_lock; only a lock_only does that).
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

  /// In the child of a fork: ends the section of a lost thread. It is committed if it has a
  /// timestamp, or lacks nothing but that; otherwise it has no effect. All objects that it wrote to
  /// are there, since it is still announced.
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

  /// True if the section of `r` is committed. If `r` has its object's lock, that is given up. The
  /// chain is then as if the section had committed, or as if it had never linked `r`.
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
