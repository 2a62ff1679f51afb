// SPDX-License-Identifier: Apache-2.0
// collector.hpp: takes the segments of a log back: writes newest copies to their masters, unlinks
// copies that no section needs, and retires segments of which nothing is left.
//
// Source:      MV-RLU, sections 3.6 and 3.7 (write-back, concurrent autonomous collection).
// Protects:    a copy until no live section has a time in its interval; a master's content until no
//              section reads it. What is unlinked may still be walked through by a section older
//              than it: the domain's reclamation waits for those.
// Cost:        for each sweep a fast-path check of the other threads or one scan of the census (a
//              heavy fence), one tick of the clock and a full fence, and a guard for each segment;
//              for each copy a lookup of a time or two, and its object's lock. Most go without a
//              second look, by one question for all that lie before the first which has to stay.
// Progress:    never waits. A copy whose object is locked is looked at again in the next sweep.
//
// Why a master may be overwritten. Its content is for the sections whose time is in [s, t), where s
// is when it was written and t when the oldest copy above it began. A collector that holds the
// object's lock, sees no copy but the newest one, v, and knows that no section, live or to come,
// has a time in [s, v.since), overwrites what no section reads. What sections that have ended had
// read happens before, through the census.
// Why v may go then. Its chain is empty now; sections that begin after the fence and the tick that
// follow read the master (commit_word.hpp has the argument). So v's interval ends with that tick: a
// section that found v has a time below it. Such a section is looked for in the census in a later
// sweep.
//   - Without the tick v would go as if no section had found it.
//   - Without the lock two newest copies of one object could be written back the wrong way round.
//
// A section that sleeps keeps masters from being overwritten, so newest copies stay in the log, one
// for each object that has changed since. They would keep each its segment; so they move together
// once half of a segment is free. A copy u that has moved is a relocated copy: when v has followed
// it, and no section, live or to come, has a time in [u.since, v.since), then v's content goes
// there, as it would to a master, and u is the newest again. No section reads what is overwritten,
// for the same reason. A section that walks past u has a time below u.since, which only grows.
//   - Another collector may have found u over before that. So when it has the lock it takes u for
//     unlinked only if u is not in the chain.
// Segments that stay are looked through again only after half as many sweeps as there are such
// segments, so that a sweep costs what it frees. Tombstones and copies that were followed go with
// the sections that hold them and not before: a segment of such records alone that one instant
// holds is not looked through while a section sees that.
//
// Departures from the paper:
//   D1  No pairs of grace periods and no barrier between rounds: each copy has an interval, and a
//       collector asks the census whether it is over. Nothing is shared by collectors, so none can
//       mistake another's round for its own.
//   D2  A copy between two live sections goes, though the older section stays.
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

  /// `now` has looked since this thread became the log's collector.
  collector(Log& of, const grace_period& now, Blocks& blocks, std::uint32_t segment_bytes,
            std::size_t cap) noexcept
      : log_(of), now_(now), blocks_(blocks), segment_bytes_(segment_bytes), cap_(cap) {}

  /// Calls retire(segment) for each that is left empty. Unless it is about `everything`, segments
  /// that earlier sweeps had to leave get their turn only now and then.
  template <class Clock, class Retire>
  void pass(Clock& clock, bool everything, Retire&& retire) {
    log_.take_filled();  // first: what is shown afterwards is none of these
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
    // Where a copy is not known to be unlinked we go to its object: see object.hpp, "Life".
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
    // What is written to the open segment later may wait for others; and what is sparse may move.
    const bool as_it_is =
        held_by != grace_period::unknown && &s != open_ &&
        (log_.is_survivor_space(s) || seen.waiting_bytes > s.capacity / sparse_factor);
    s.held_by = as_it_is ? held_by : 0;
  }

  /// Up to `gone_to` all was found by sections that have ended, if it waited at all: what a second
  /// look at most records says, without a look at any of them.
  void skip_gone(piece& s) const noexcept {
    const std::uint32_t to =
        SPOLIA_FAULT("rlu.forgets_what_came_later") ? s.used.read() : s.gone_to;
    const bool early = SPOLIA_FAULT("rlu.gone_too_early");
    if (to > s.done_to && (early || over(s.last.gone_since, s.detached_at))) s.done_to = to;
  }

  /// So few bytes of the segment are needed that newest copies are to leave it.
  bool may_move(const piece& s, std::uint32_t needed) const noexcept {
    return needed <= s.capacity / sparse_factor && &s != open_ && !log_.is_survivor_space(s);
  }

  /// What a section that sleeps holds moves out at the first look, since it would at a later one:
  /// so the segment is gone at the next, and is not looked through again.
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

  /// What has moved is held by a section that sleeps, and gets its turn with what is old. When such
  /// a segment is full it is old at once.
  bool rests(piece& s) const noexcept {
    if (!log_.is_survivor_space(s)) return false;
    s.looks = (std::max)(s.looks, looks_when_young);
    return !old_too_;
  }

  /// Nothing in the segment can go or move while a certain section lives, and it does.
  bool stays(piece& s) noexcept {
    const bool live = s.held_by != 0 && now_.is_live(s.held_by);
    if (live) ++s.looks;
    return live;
  }

  /// Lets go of `r` if no section needs it any more.
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
    // A copy may get a successor, which would make it free to go.
    if (!overwrites && r.kind.read() == record_kind::tombstone) holder_ = reads_master;
    // Beside a section that sleeps most stay as they are: the object is not touched for that.
    if (!overwrites && !sparse_ && r.older.load_relaxed() == nullptr) return false;
    if (!take(o)) return false;
    // The next version may have come before we had the lock.
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

  /// The object ends with the segment; its lock stays as it is.
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

  /// The master is read by an old section, but below `r` lies a copy that was relocated before, and
  /// no section reads that.
  bool goes_to_relocated_copy(piece& s, record& r) noexcept {
    record* const below = r.older.load_relaxed();
    if (below == nullptr || !below->relocated || r.kind.read() == record_kind::tombstone)
      return false;
    const std::uint64_t since = r.since.load_relaxed();
    const bool early = SPOLIA_FAULT("rlu.overwrites_relocated_early");
    if (!early && !over(below->since.load_relaxed(), since)) return false;
    r.how->copy_body(*below, r);
    // relaxed: a section that comes by `newest` sees it; one that comes from `r` is older than
    // either time.
    below->since.store_relaxed(since);
    if (SPOLIA_FAULT("rlu.relocated_relaxed")) {
      r.of->newest.store_relaxed(below);
    } else {
      r.of->newest.store_release(below);  // → the acquires in the walk and in read: it is whole
    }
    below->ended.store_relaxed(r.ended.load_relaxed());  // last: after a fork both may be linked
    detach(s, r);
    ++written_back_;
    return true;
  }

  /// The newest copy keeps its segment, though little else does: an old section may read the
  /// master. So a twin takes its place elsewhere, and this one ends as if it was written back.
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

  /// No section finds `r` any more. The time at which that began to be true is drawn at the end of
  /// the sweep.
  void detach(piece& s, record& r) noexcept {
    r.ended.store_relaxed(SPOLIA_FAULT("rlu.no_second_grace") ? r.since.load_relaxed() : detached);
    r.state.store_relaxed(record_state::unlinked);
    s.detached = detached_ = true;
    holder_ = grace_period::unknown;
  }

  /// Those written back in this sweep are found by no section that begins from here on. For those
  /// of earlier sweeps the segment had an earlier time, and has a later one now, as long as any of
  /// them keeps it.
  template <class Clock>
  void end_detached(Clock& clock) noexcept {
    fence::full();  // between the emptied chains and the clock: see commit_word.hpp
    const std::uint64_t ended = clock.tick();
    for_each_piece([&](piece& s) {
      if (std::exchange(s.detached, false)) s.detached_at = ended;
    });
  }

  /// Under the lock: takes the copies below `r` that are over out of the chain. Their own
  /// collectors find them unlinked.
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

  /// Takes a copy that is over and is not the newest out of its chain, and with it all like it: a
  /// chain may be as long as a log, and must be walked once and not for each copy.
  SPOLIA_NOINLINE bool unlink(record& r) noexcept {
    object& o = *r.of;
    if (!take(o)) return false;
    record* const newest = o.newest.load_relaxed();
    if (newest != nullptr) prune_below(*newest);
    // It may have become the newest again, or have got another interval then. If it was not there,
    // a thread that a fork has lost has taken it out.
    const bool gone = !is_linked(r) || SPOLIA_FAULT("rlu.unlinks_by_an_old_look");
    let_go(o);
    return gone;
  }

  static void take_out(record& above, record& r) noexcept {
    // release → the acquire in the walk: what is further down was complete long ago, but reached
    // by this store.
    above.older.store_release(r.older.load_relaxed());
    r.state.store_release(record_state::unlinked);  // → the acquire in examine
  }

  [[nodiscard]] bool over(std::uint64_t since, std::uint64_t ended) const noexcept {
    return now_.over(since, ended);
  }

  /// A segment is left by its newest copies if so small a part of it is waiting.
#if defined(SPOLIA_MODEL)
  static constexpr std::uint32_t sparse_factor = 1;  // always, so that small scenarios come to it
#else
  static constexpr std::uint32_t sparse_factor = 2;
#endif

  /// How often a segment is looked through in every sweep: once to write copies back, once more to
  /// find them over, and once because a section was alive. What remains is needed longer.
  static constexpr std::uint32_t looks_when_young = 3;

  Log& log_;
  const grace_period& now_;
  Blocks& blocks_;
  const std::uint32_t segment_bytes_;
  const std::size_t cap_;
  piece* open_ = nullptr;
  std::uint64_t written_back_ = 0;
  // What holds the record that was examined last, if it could not go: an instant, or `unknown`.
  std::uint64_t holder_ = grace_period::unknown;
  bool old_too_ = false;   // looks at segments that are held for long
  bool detached_ = false;  // in this sweep
  bool sparse_ = false;    // the segment that is looked through is
};

}  // namespace rlu::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
