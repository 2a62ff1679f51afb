// SPDX-License-Identifier: Apache-2.0
// collector.hpp: sweeps a log. A sweep writes newest copies back to their masters, unlinks copies
// that no section needs, and retires segments in which no record is needed any more.
//
// Source:      MV-RLU, sections 3.6 and 3.7 (write-back, concurrent autonomous collection).
// Protects:    a copy, until no live section has a time in its interval; a master's content, until
//              no section reads it. A walk that began before a copy was unlinked may still go
//              through that copy: the domain's reclamation waits for such walks.
// Cost:        for each sweep, a fast-path check of the other threads or one scan of the census (a
//              heavy fence), and a full fence and a tick of the clock if it detaches copies. For
//              each segment, a guard. For each copy, a lookup of a time or two, and its object's
//              lock. Most detached copies are not examined a second time: one lookup answers for
//              all that precede the first record which has to stay.
// Progress:    never waits. A copy whose object is locked is examined again in the next sweep.
//
// Why a master may be overwritten. Its content is for the sections whose time is in [s, t), where s
// is when it was written and t is when the oldest copy in the chain began. A collector overwrites
// it only under three conditions: it holds the object's lock; the newest copy, v, is the only one
// in the chain; and no section, live or to come, has a time in [s, v.since). Then no section reads
// what is overwritten. The reads of sections that have ended happen before the overwriting, through
// the census.
// Why v may go then. Its chain is empty now; sections that begin after the fence and the tick that
// follow read the master (commit_word.hpp has the argument). So v's interval ends with that tick,
// and a section that found v has a time below it. A later sweep looks in the census for such a
// section.
//   - Without the tick v would go as if no section had found it.
//   - Without the lock two newest copies of one object could be written back in the wrong order.
//
// Relocated copies. A section that sleeps keeps masters from being overwritten. So newest copies
// stay in the log, one for each object that has changed since that section began, and each would
// keep its segment. Therefore the newest copies leave a segment for a survivor space once no more
// than half of the segment is needed. Such a relocated copy, u, is overwritten by a newer version,
// as a master is: when v is the next version after u, and no section, live or to come, has a time
// in [u.since, v.since), then v's content is written over u, and u is the newest copy again. No
// section reads what is overwritten, for the same reason. A section that walks past u has a time
// below u.since, which only grows.
//   - Another collector may have found, before that, that u is over. So, once it has the lock, it
//     takes u for unlinked only if u is not in the chain.
//
// Old segments. A segment that several sweeps had to keep is old. The old segments are swept
// together: after twice as many sweeps as there are old segments, or earlier if segments have
// become old in the meantime (log::is_turn_of_old). So the cost of sweeps stays in proportion to
// what they free. A tombstone, or a copy that has a successor, can go only when the sections that
// hold it have ended. So a segment in which one instant holds all records, and all are of these
// two kinds, is not examined while a section sees that instant.
//
// Departures from the paper:
//   D1  No pairs of grace periods and no barrier between rounds: each copy has an interval, and a
//       collector asks the census whether it is over. Collectors share nothing, so none can mistake
//       another's round for its own.
//   D2  A copy whose interval lies between the times of two live sections goes, although the older
//       section is still alive.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/rlu/detail/grace_period.hpp>
#include <spolia/rlu/detail/log.hpp>
#include <spolia/rlu/object.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu::detail {

/// One sweep over one log, by the thread that is the log's collector.
template <class Log, class Blocks>
class collector {
 public:
  using piece = typename Log::piece;

  /// `now`: a scan that came after this thread had become the log's collector; for the thread's own
  /// log, also a fast-path check that came before.
  collector(Log& of, const grace_period& now, Blocks& blocks, std::uint32_t segment_bytes,
            std::size_t cap) noexcept
      : log_(of), now_(now), blocks_(blocks), segment_bytes_(segment_bytes), cap_(cap) {}

  /// Sweeps the log. Calls retire(segment) for each segment that is left empty. Old segments are
  /// swept only now and then, unless `everything` is set.
  template <class Clock, class Retire>
  void pass(Clock& clock, bool everything, Retire&& retire) {
    log_.take_filled();  // first: a segment that is shown afterwards is none of these
    open_ = log_.shown();
    old_too_ = everything || log_.is_turn_of_old();
    for_each_piece([this](piece& s) { look_through(s); });
    if (detached_) end_detached(clock);
    if (old_too_) sweep(log_.old(), retire);
    sweep(log_.held(), retire);
    if (old_too_) log_.end_turn_of_old();
    log_.set_waiting(open_ == nullptr ? 0 : open_->last.waiting);
  }

  [[nodiscard]] std::uint64_t written_back() const noexcept { return written_back_; }

 private:
  template <class F>
  void for_each_piece(F&& f) {
    if (open_ != nullptr) f(*open_);
    for (piece* s = log_.held(); s != nullptr; s = s->next) f(*s);
    if (!old_too_) return;
    for (piece* s = log_.old(); s != nullptr; s = s->next) f(*s);
  }

  template <class Retire>
  void sweep(piece*& list, Retire&& retire) {
    piece** link = &list;
    while (piece* const s = *link) {
      const bool ages =
          &list == &log_.held() && s->looks >= looks_when_young && !log_.is_survivor_space(*s);
      if (s->last.waiting != 0 && !ages) {
        link = &s->next;
        continue;
      }
      *link = s->next;
      if (s->last.waiting != 0) {
        log_.grows_old(*s);
      } else {
        log_.left(*s);
        retire(*s);
      }
    }
  }

  void look_through(piece& s) noexcept {
    detached_ |= s.detached;  // after a fork
    if (stays(s) || rests(s)) return;
    skip_gone(s);
    if (s.done_to == s.used.read()) {
      s.last = {};
      return;
    }
    // The guard keeps the objects of copies that are not known to be unlinked: see object.hpp,
    // "Life".
    auto guard = blocks_.enter();
    if (SPOLIA_FAULT("rlu.collects_unguarded")) auto dropped = std::move(guard);
    const std::uint32_t needed = s.looks++ == 0 ? s.used.read() : s.last.waiting_bytes;
    sparse_ = may_move(s, needed);
    findings seen;
    s.gone_to = s.done_to;
    std::uint64_t held_by = grace_period::no_instant;
    s.for_each(s.done_to, [&](record& r) SPOLIA_INLINE_LAMBDA {
      if (r.state.load_relaxed() >= record_state::done || finish(s, r)) {
        if (seen.waiting == 0) s.done_to += r.bytes;
      } else {
        held_by = seen.waiting == 0 || held_by == holder_ ? holder_ : grace_period::unknown;
        seen.note(r);
      }
      if (seen.waiting == seen.gone) s.gone_to += r.bytes;
    });
    const std::uint32_t kept = seen.waiting_bytes - seen.gone_bytes;
    if (kept != 0 && !sparse_ && now_.has_sleeper() && may_move(s, kept)) {
      move_rest(s, seen);
      if (seen.waiting == seen.gone) s.gone_to = s.used.read();
      held_by = grace_period::unknown;
    }
    s.last = seen;
    // Not of the open segment: records that are written to it later may wait for other sections.
    // Nor of a sparse one, whose copies may move.
    const bool as_it_is =
        held_by != grace_period::unknown && &s != open_ &&
        (log_.is_survivor_space(s) || seen.waiting_bytes > s.capacity / sparse_factor);
    s.held_by = as_it_is ? held_by : 0;
  }

  /// Skips the records up to `gone_to` if all sections that may have found one of them have ended.
  /// A second look at these records would find the same; one lookup answers for all of them.
  void skip_gone(piece& s) const noexcept {
    const std::uint32_t to =
        SPOLIA_FAULT("rlu.forgets_what_came_later") ? s.used.read() : s.gone_to;
    const bool early = SPOLIA_FAULT("rlu.gone_too_early");
    if (to > s.done_to && (early || over(s.last.gone_since, s.detached_at))) s.done_to = to;
  }

  /// Whether so few bytes of the segment are needed that its newest copies are to leave it.
  bool may_move(const piece& s, std::uint32_t needed) const noexcept {
    return needed <= s.capacity / sparse_factor && &s != open_ && !log_.is_survivor_space(s);
  }

  /// Moves the newest copies that a sleeping section holds out of the segment. They would move at a
  /// later look anyway; moved now, they leave a segment that goes at the next look, and is not
  /// examined once more.
  SPOLIA_NOINLINE void move_rest(piece& s, findings& seen) noexcept {
    sparse_ = true;
    s.for_each(s.done_to, [&](record& r) {
      // acquire ← the release in fill_in, as in examine.
      const std::uint64_t ended = r.ended.load_acquire();
      if (r.kind.read() == record_kind::lock_only || !is_unended(ended)) return;
      examine_newest(s, r, r.since.load_relaxed(), base_of(ended));
      seen.note_if_gone(r);
    });
  }

  /// Whether this sweep leaves the segment out because it is a survivor space, whose records a
  /// sleeping section holds: it is swept only with the old segments. When it is full it is old at
  /// once.
  bool rests(piece& s) const noexcept {
    if (!log_.is_survivor_space(s)) return false;
    s.looks = (std::max)(s.looks, looks_when_young);
    return !old_too_;
  }

  /// Whether no record of the segment can go or move because a section still sees a certain instant
  /// (segment::held_by).
  bool stays(piece& s) noexcept {
    const bool live = s.held_by != 0 && now_.is_live(s.held_by);
    if (live) ++s.looks;
    return live;
  }

  /// Marks `r` as done if no section needs it any more. True if it is done.
  bool finish(piece& s, record& r) noexcept {
    if (!examine(s, r)) return false;
    if (r.state.load_relaxed() != record_state::last) r.state.store_relaxed(record_state::done);
    return true;
  }

  /// True if no section needs `r` any more and it is in no chain.
  bool examine(piece& s, record& r) noexcept {
    if (r.kind.read() == record_kind::lock_only) return true;
    // acquire, both ← the releases of the thread that unlinked it, or committed the next version.
    const bool unlinked = r.state.load_acquire() == record_state::unlinked;
    std::uint64_t ended = r.ended.load_acquire();
    const std::uint64_t since = r.since.load_relaxed();
    if (is_unended(ended)) return examine_newest(s, r, since, base_of(ended));
    if (ended == detached) ended = s.detached_at;
    holder_ = now_.holder(since, ended);
    if (holder_ != grace_period::no_instant) return false;
    holder_ = grace_period::unknown;
    return unlinked || SPOLIA_FAULT("rlu.not_unlinked") || unlink(r);
  }

  SPOLIA_ALWAYS_INLINE bool examine_newest(piece& s, record& r, std::uint64_t since,
                                           std::uint64_t base) noexcept {
    object& o = *r.of;
    holder_ = grace_period::unknown;
    if (since > now_.known() && !SPOLIA_FAULT("rlu.trusts_an_old_look")) return false;
    const std::uint64_t reads_master = now_.holder(base, since);
    const bool overwrites =
        reads_master == grace_period::no_instant || SPOLIA_FAULT("rlu.overwrites_early");
    // Of a tombstone only: a copy may get a successor, and then go before the instant does.
    if (!overwrites && r.kind.read() == record_kind::tombstone) holder_ = reads_master;
    // Nothing can be done with it. So are most copies while a section sleeps: we do not touch their
    // objects.
    if (!overwrites && !sparse_ && r.older.load_relaxed() == nullptr) return false;
    if (!take(o)) return false;
    // Again, under the lock: the next version may have come before we had it.
    if (is_unended(r.ended.load_relaxed()) || SPOLIA_FAULT("rlu.collects_unlocked")) {
      if (overwrites || !goes_to_relocated_copy(s, r)) {
        if (r.older.load_relaxed() != nullptr) prune_below(r);
        const bool alone = r.older.load_relaxed() == nullptr;
        if (alone && overwrites) {
          if (r.kind.read() == record_kind::tombstone) return bury(s, r);
          write_back(s, r);
        } else if (sparse_) {
          move_out(s, r);
        }
      }
    }
    let_go(o);
    return false;
  }

  /// The object ends with the segment. Its lock stays taken.
  bool bury(piece& s, record& r) noexcept {
    r.state.store_relaxed(record_state::last);
    s.buries = true;
    s.buried_bytes += r.freed_bytes();
    log_.at(nullptr);
    return true;
  }

  bool take(object& o) noexcept {
    log_.at(&o);
    if (o.try_collect()) return true;
    log_.at(nullptr);
    return false;
  }
  void let_go(object& o) noexcept {
    o.end_collect();
    log_.at(nullptr);
  }

  void write_back(piece& s, record& r) noexcept {
    object& o = *r.of;
    r.how->write_back(o, r);
    // release → the acquire of a section that finds no chain: it sees what we have written to the
    // master.
    o.newest.store_release(nullptr);
    detach(s, r);
    ++written_back_;
  }

  /// Writes `r` over the next older copy if that is a relocated one which no section reads. (`r`
  /// cannot be written over the master, which an old section may still read.) False: nothing was
  /// done.
  bool goes_to_relocated_copy(piece& s, record& r) noexcept {
    record* const below = r.older.load_relaxed();
    if (below == nullptr || !below->relocated || r.kind.read() == record_kind::tombstone)
      return false;
    const std::uint64_t since = r.since.load_relaxed();
    const bool early = SPOLIA_FAULT("rlu.overwrites_relocated_early");
    if (!early && !over(below->since.load_relaxed(), since)) return false;
    r.how->copy_body(*below, r);
    // relaxed: a section that finds the copy by `newest` sees the new time, by the release below; a
    // section that comes from `r` has a time below both the old and the new one.
    below->since.store_relaxed(since);
    if (SPOLIA_FAULT("rlu.relocated_relaxed")) {
      r.of->newest.store_relaxed(below);
    } else {
      r.of->newest.store_release(below);  // → the acquires in the walk and in read: it is whole
    }
    below->ended.store_relaxed(r.ended.load_relaxed());  // last: a fork may leave both linked
    detach(s, r);
    ++written_back_;
    return true;
  }

  /// Moves `r`, the newest copy of its object, to a survivor space: an old section may read the
  /// master, so `r` cannot be written back, and would keep a segment of which little else is
  /// needed. A twin takes its place in the chain, and `r` ends as if it had been written back.
  SPOLIA_NOINLINE void move_out(piece& s, record& r) noexcept {
    object& o = *r.of;
    void* const place = log_.survivor_space(r.kind.read(), r.bytes, segment_bytes_, cap_);
    if (place == nullptr) return;
    record& twin = *::new (place) record(r);
    if (r.kind.read() == record_kind::copy) {
      r.how->copy_body(twin, r);
    } else if (r.how->weighed) {
      twin.frees(r.freed_bytes());
    }
    if (SPOLIA_FAULT("rlu.twin_relaxed")) {
      o.newest.store_relaxed(&twin);
    } else {
      o.newest.store_release(&twin);  // → the acquire in the walk: the twin is whole
    }
    detach(s, r);
  }

  /// `r` has left its chain. The time from which on no section finds it is drawn at the end of the
  /// sweep.
  void detach(piece& s, record& r) noexcept {
    r.ended.store_relaxed(SPOLIA_FAULT("rlu.no_second_grace") ? r.since.load_relaxed() : detached);
    r.state.store_relaxed(record_state::unlinked);
    s.detached = detached_ = true;
    holder_ = grace_period::unknown;
  }

  /// No section that begins from here on finds a copy that this sweep has detached. A segment has
  /// one such time for all its detached copies: those of earlier sweeps get the later time, too.
  template <class Clock>
  void end_detached(Clock& clock) noexcept {
    fence::full();  // between the emptied chains and the clock: see commit_word.hpp
    const std::uint64_t ended = clock.tick();
    for_each_piece([&](piece& s) {
      if (std::exchange(s.detached, false)) s.detached_at = ended;
    });
  }

  /// Takes the copies below `r` whose intervals are over out of the chain. The collectors of their
  /// logs find them unlinked. The caller has the object's lock.
  SPOLIA_NOINLINE void prune_below(record& r) noexcept {
    record* above = &r;
    while (record* const v = above->older.load_relaxed()) {
      if (over(v->since.load_relaxed(), v->ended.load_relaxed())) {
        take_out(*above, *v);
      } else {
        above = v;
      }
    }
  }

  /// Takes `r`, which is over and not the newest copy, out of its chain, together with all others
  /// that are over: a chain may be as long as a log, and must be walked once and not once for each
  /// copy. False: `r` has to stay.
  SPOLIA_NOINLINE bool unlink(record& r) noexcept {
    object& o = *r.of;
    if (!take(o)) return false;
    record* const newest = o.newest.load_relaxed();
    if (newest != nullptr) prune_below(*newest);
    // `r` may still be there: before we had the lock it may have become the newest copy again, and
    // have got another interval. If it was not there before either, a thread that a fork has lost
    // had taken it out.
    const bool gone = !is_linked(r) || SPOLIA_FAULT("rlu.unlinks_by_an_old_look");
    let_go(o);
    return gone;
  }

  static void take_out(record& above, record& r) noexcept {
    // release → the acquire in the walk: the older copies were complete long ago, but a section
    // reaches them by this store.
    above.older.store_release(r.older.load_relaxed());
    r.state.store_release(record_state::unlinked);  // → the acquire in examine
  }

  [[nodiscard]] bool over(std::uint64_t since, std::uint64_t ended) const noexcept {
    return now_.over(since, ended);
  }

  /// The newest copies leave a segment once at most 1 / sparse_factor of its bytes are needed.
#if defined(SPOLIA_MODEL)
  static constexpr std::uint32_t sparse_factor = 1;  // always, so that small scenarios reach it
#else
  static constexpr std::uint32_t sparse_factor = 2;
#endif

  /// How many sweeps in a row examine a segment before it is old: one to write copies back, one to
  /// find that they are over, and one more because a section was alive. What remains after these is
  /// needed longer.
  static constexpr std::uint32_t looks_when_young = 3;

  Log& log_;
  const grace_period& now_;
  Blocks& blocks_;
  const std::uint32_t segment_bytes_;
  const std::size_t cap_;
  piece* open_ = nullptr;
  std::uint64_t written_back_ = 0;
  // The instant that holds the record which was examined last, if that could not go; or `unknown`.
  std::uint64_t holder_ = grace_period::unknown;
  bool old_too_ = false;   // this sweep examines the old segments, too
  bool detached_ = false;  // this sweep has detached a copy
  bool sparse_ = false;    // newest copies are to leave the segment that is examined
};

}  // namespace rlu::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
