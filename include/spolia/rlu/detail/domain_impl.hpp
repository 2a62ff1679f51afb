// SPDX-License-Identifier: Apache-2.0
// domain_impl.hpp: how a read-log-update domain works. Part of domain.hpp, which includes it.
//
// In this order: the thread records; how sections begin and end; the sweeps that a thread makes
// after a section when they are due (tend), over its own log, a neighbour's, and those that ended
// threads have left; then how objects, threads and the domain end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/rlu/detail/collector.hpp>
#include <spolia/rlu/detail/commit_word.hpp>
#include <spolia/rlu/detail/log_after_fork.hpp>
#include <spolia/rlu/detail/scope.hpp>
#include <spolia/rlu/detail/session.hpp>
#include <spolia/rlu/object.hpp>
#include <spolia/rlu/options.hpp>
#include <spolia/rlu/section.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu {

namespace detail {

/// How many copies the object of `r` has, if `r` is its newest copy; else 0. The caller is inside a
/// guard, and is the collector of the log that `r` is in.
inline std::size_t copies_from(const record& r) noexcept {
  if (r.kind.read() == record_kind::lock_only || !is_unended(r.ended.load_relaxed())) return 0;
  std::size_t n = 0;
  // acquire ← the releases of commits, and of collectors that took out copies in between.
  for (const record* v = &r; v != nullptr; v = v->older.load_acquire()) ++n;
  return n;
}

}  // namespace detail

// The calling thread's record.

template <class Clock, class Blocks>
inline auto basic_domain<Clock, Blocks>::my_session() -> session& {
#if defined(SPOLIA_MODEL)
  return find_my_session();
#else
  if (core::here.domain == serial_) [[likely]]
    return *static_cast<session*>(core::here.cell);
  session& found = find_my_session();
  core::here.domain = serial_;
  core::here.cell = &found;
  return found;
#endif
}

template <class Clock, class Blocks>
auto basic_domain<Clock, Blocks>::find_my_session() -> session& {
  copy_.expect_own("a domain of read-log-update");
  session& mine = sessions_.of(threads::number());
  if (!mine.used.load_relaxed()) join(mine);
  return mine;
}

/// Sets up the record of a thread that is new to the domain. \throws std::bad_alloc
template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::join(session& mine) {
  {
    auto guard = blocks_.enter();
  }  // so that later guards cannot fail
  if (mine.slot) {
    sections_.take_over(mine.slot);
  } else {
    mine.slot = sections_.reserve();
  }
  // First, before the session is occupied: a thread that finds the session finds that it has to
  // ask. A thread that did not find it walked past before the session's first section.
  if (!sessions_.is_occupied(threads::number())) mine.here.call_to_ask();
  if (!SPOLIA_FAULT("rlu.not_occupied")) sessions_.occupy_made(threads::number());
  mine.segment_bytes = options_.segment_bytes;
  mine.cap = options_.log_cap;
  mine.pass_at = mine.written.written() + options_.low_watermark;
  mine.walk_step = options_.walk_watermark;
  mine.walks_at = mine.walks.value() + mine.walk_step;
  mine.written_before = mine.written.written();
  if (enough_is_left()) mine.until_look = 1;
  hurry(mine, true);
  threads::watch_this_thread(*this);
  mine.used.store_release(true);  // → the acquire in see_offline: the slot
}

// Sections.

/// Makes the pauses between the tries of one update.
template <class Clock, class Blocks>
struct basic_domain<Clock, Blocks>::retries {
  explicit retries(basic_domain& d) noexcept : of(d) {}
  void pause() {
    of.my_session().conflicts.add(1);
    if (last != outcome::log_full) return busy.pause();
    if (++full > of.options_.tries_when_full) throw log_full();
    of.collect();
    idle.pause();
  }
  basic_domain& of;
  outcome last = outcome::committed;
  std::uint32_t full = 0;
  backoff busy;
  backoff idle;
};

template <class Clock, class Blocks>
template <class F>
auto basic_domain<Clock, Blocks>::read_within(F&& f) {
  session& mine = my_session();
  const detail::part here(mine, false);
  reader in(*this, mine, mine.writes);
  return std::forward<F>(f)(in);
}

template <class Clock, class Blocks>
template <class F>
auto basic_domain<Clock, Blocks>::update_within(F& f) {
  session& mine = my_session();
  const detail::part here(mine, true);
  writer in(*this, mine, true);
  if constexpr (std::is_void_v<std::invoke_result_t<F&, writer&>>) {
    f(in);
    return !mine.doomed();
  } else {
    return f(in);
  }
}

template <class Clock, class Blocks>
inline void basic_domain<Clock, Blocks>::end(session& of, bool commits) noexcept {
  of.depth = 0;
  of.writes = false;  // first: at the commit's end destructors may begin sections
  if (commits) {
    of.commit(clock_);
  } else {
    of.abandon();
  }
  if (is_due(of) || of.written.written() >= of.fast_check_at) [[unlikely]]
    tend(of);
}

/// Comes online in a section whose time is announced already. Announces it once more, and again as
/// long as the thread finds that it was called meanwhile.
template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::come_online(session& mine, const char* label) noexcept {
  do {
    exclusive_.ask(mine);
    mine.slot.withdraw();
    mine.begin(clock_, label);
  } while (mine.is_to_ask());
}

// After sections: sweeps of the logs.

template <class Clock, class Blocks>
inline bool basic_domain<Clock, Blocks>::is_due(session& mine) noexcept {
  return --mine.until_look == 0 || mine.walks.value() >= mine.fast_check_walks_at;
}

/// Comes after a section. Sweeps the thread's log if much has been written, or many reads met
/// copies, and now and then another thread's log. A thread that is about to give its processor away
/// sweeps a little earlier: else the threads that run next would read its copies, and have them in
/// their caches, until it is back. It gives its processor away so that the thread of an interrupted
/// section, which holds copies, gets one sooner.
template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::tend(session& mine) noexcept {
  const bool looks = mine.until_look == 0;
  if (looks) mine.until_look = look_every;
  if (mine.collecting) return;  // a destructor that a sweep has called began this section
  if (looks && enough_is_left()) collect_what_is_left(mine);
  if (mine.presses()) press(mine);
  const bool gives = looks && courtesy_.is_due(mine.turn_taken);
  const std::uint64_t walks_soon = gives ? mine.walk_step - mine.walk_step / 8 : 0;
  const bool walks = mine.walks.value() + walks_soon >= mine.walks_at;
  const std::size_t soon = gives ? options_.low_watermark - options_.low_watermark / 32 : 0;
  const bool writes = mine.written.written() + soon >= mine.pass_at;
  if ((walks || writes) && !others_do(mine)) {
    tend_own(mine, walks, gives);
  } else if (mine.is_fast_check_due()) {
    fast_check_if_enough(mine);
  }
  const std::uint64_t held = mine.now.held();
  if (!gives && !courtesy_.is_due_early(mine.turn_taken, held)) return;
  mine.here.go_offline();
  blocks_.rest();
  courtesy_.give(mine.turn_taken, sessions_.occupied_end());
}

/// Sweeps the thread's log, and a neighbour's, whose owner may be asleep or gone. For the thread's
/// own log a fast-path check may be enough. If it fails it is tried again after the next section,
/// unless such checks have failed of late, or the thread is about to give its processor away
/// (`now`): then a scan of the census follows.
template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::tend_own(session& mine, bool walks, bool now) noexcept {
#if defined(SPOLIA_MODEL)
  constexpr std::uint32_t least_haste = most_haste;  // in small scenarios there may be no next one
#else
  constexpr std::uint32_t least_haste = 0;
#endif
  const std::uint64_t before = mine.written_back.value();
  const bool checked = pass_by_fast_check(mine);
  if (!checked && !now && mine.haste > least_haste) return hurry(mine, false);
  session* const other = neighbour_in_need(mine, walks);
  if (!checked || other != nullptr) pass(mine, checked ? nullptr : &mine, other, false);
  const std::uint64_t written_back = mine.written_back.value() - before;
  set_next_pass(mine, written_back, walks);
  hurry(mine, written_back != 0);
  become_exclusive_if_so(mine);
  end_pass(mine, walks);
}

/// Sweeps because of large freed objects. They may own much and be few bytes of the log, so the
/// log's bytes do not say when they are to go.
template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::press(session& mine) noexcept {
  constexpr std::size_t much = 4 * session::press_bytes;
  mine.pressing = 0;
  mine.written.close();
  const std::uint64_t before = mine.written_back.value();
  pass_twice(mine);
  const auto is_held_up = [&] {
    return mine.written.held_bytes() + mine.written.buried_bytes() >= much;
  };
  courtesy_.give_way_while(mine.turn_taken, is_held_up, [&] { pass_twice(mine); });
  set_next_pass(mine, mine.written_back.value() - before, false);
  hurry(mine, true);
  become_exclusive_if_so(mine);
  end_pass(mine, false);
}
/// Two sweeps, since one is not enough to free a copy: the first writes it back or unlinks it, and
/// the second finds that all sections have ended that may have found it before.
template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::pass_twice(session& mine) noexcept {
  for (int i = 0; i < 2; ++i) {
    if (!pass_by_fast_check(mine)) pass(mine, &mine, nullptr, false);
  }
  graves_.clear();
}

template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::end_pass(session& mine, bool walks) noexcept {
  // There are as many sections as processors, and this thread is in none: so some threads were
  // interrupted in a section.
  if (mine.now.instants() >= processors_) {
    // An estimate of how much is held up: the copies that reads met, or those that wait in all
    // logs. In a small structure every object has a copy before many wait.
    const std::uint64_t met = walks ? mine.walk_step : 0;
    const std::uint64_t wait = mine.written.waiting() * sessions_.occupied_end();
    courtesy_.watch(mine.turn_taken, mine.now.oldest(), (std::max)(met, wait));
  }
  drain_now_and_then(mine);
  graves_.clear();
}

/// Sweeps the thread's log without a heavy fence, if a fast-path check finds that all other threads
/// have gone on, or are offline. False: there was no sweep. So copies can be written back long
/// before a sweep with a scan is due.
template <class Clock, class Blocks>
bool basic_domain<Clock, Blocks>::pass_by_fast_check(session& mine) noexcept {
  if (!mine.written.has_work() || !mine.now.fast_check(sessions_, mine, clock_)) return false;
  if (!mine.written.try_collect()) return false;
  mine.collecting = true;
  fence::full();  // ↔ the one in wait_for_collectors, and the heavy one of a grant
  if (mine.is_to_ask()) exclusive_.ask(mine);
  collect(mine, mine, false);
  mine.collecting = false;
  return true;
}

/// Tries a sweep with a fast-path check, long before one is due that may scan the census and also
/// looks after a neighbour's log.
template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::fast_check_if_enough(session& mine) noexcept {
  const std::uint64_t before = mine.written_back.value();
  const bool checked = detectors_.load_relaxed() == 0 && pass_by_fast_check(mine);
  hurry(mine, mine.written_back.value() != before);
  if (checked) end_pass(mine, false);
}

/// Sets when the next fast-path check is due: soon after one that helped, and later after each one
/// that did not.
template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::hurry(session& mine, bool helps) noexcept {
  mine.haste = helps ? most_haste : mine.haste - (std::min)(mine.haste, 1U);
  mine.fast_check_at =
      (std::min)(mine.pass_at, mine.written.written() + (options_.low_watermark >> mine.haste));
  mine.fast_check_walks_at =
      (std::min)(mine.walks_at, mine.walks.value() + (options_.walk_watermark >> mine.haste));
}

template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::become_exclusive_if_so(session& mine) noexcept {
  if (!options_.in_place || !mine.now.is_as_before()) return;
  exclusive_.after_pass(mine, mine.now.latest(), sections_, sessions_);
}

/// True if a detector makes the sweep that is due: there is one, and it keeps up.
template <class Clock, class Blocks>
bool basic_domain<Clock, Blocks>::others_do(session& mine) noexcept {
  const bool leaves =
      detectors_.load_relaxed() != 0 && mine.written.bytes() < options_.high_watermark;
  if (leaves) set_next_pass(mine, 0, false);
  return leaves;
}

/// A detector's round: sweeps every log in which a sweep might find something to do. False: there
/// was none.
template <class Clock, class Blocks>
bool basic_domain<Clock, Blocks>::tend_all() {
  session& mine = my_session();
  bool any = false;
  sessions_.for_each_occupied([&](std::uint32_t, session& s) {
    if (s.written.has_work()) {
      pass(mine, &s, nullptr, false);
      any = true;
    }
    return true;
  });
  drain_now_and_then(mine);
  graves_.clear();
  return any;
}

/// A thread whose log needs a sweep, and has got none during some sweeps of ours; null if there is
/// none. An owner that is awake sweeps its log itself, and better: what it has written is in its
/// caches, and not in ours. And while we sweep it, the owner cannot.
template <class Clock, class Blocks>
auto basic_domain<Clock, Blocks>::neighbour_in_need(session& mine, bool walks) noexcept
    -> session* {
  const std::uint32_t next = mine.neighbour % sessions_.occupied_end();  // not 0: ours is occupied
  session* const other = sessions_.is_occupied(next) ? sessions_.find(next) : nullptr;
  const bool first = mine.neighbour_looks++ == 0;
  const bool stranger = other != nullptr && other != &mine;
  if (stranger && first) mine.neighbour_passes = other->written.passes();
  if (stranger && mine.neighbour_looks < looks_at_neighbour) return nullptr;
  ++mine.neighbour;
  mine.neighbour_looks = 0;
  if (!stranger || mine.neighbour_passes != other->written.passes()) return nullptr;
  const std::size_t bytes = other->written.bytes() + other->written.held_bytes();
  const bool needed = bytes >= options_.high_watermark || (walks && other->written.has_work());
  return needed ? other : nullptr;
}

/// Whether threads that have ended had written enough to make a sweep due, since their logs were
/// last swept. One count serves for the whole domain: a count for each thread number would be of no
/// use where the number's next thread does not use the domain.
template <class Clock, class Blocks>
bool basic_domain<Clock, Blocks>::enough_is_left() const noexcept {
  return left_behind_.value() - left_seen_.value() >= options_.low_watermark;
}

/// Sweeps logs of threads that have ended: a few at a time, and two for each scan of the census,
/// which is a heavy fence. The next call goes on where this one ends: else the first few logs, if a
/// section holds their copies up, would keep the others from being swept. Copies that were written
/// back go at the next sweep, and then the session is vacated: so another call is due
/// (`left_seen_`) as long as sweeps write something back.
template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::collect_what_is_left(session& mine) noexcept {
  const std::uint64_t before = left_seen_.value();
  left_seen_.set(left_behind_.value());  // first: one thread will do
  const std::uint64_t written_back = mine.written_back.value();
  const std::uint32_t from = left_from_.value();
  left_from_.set(0);
  int more = 16;
  bool again = false;
  std::uint32_t first = 0;
  session* one = nullptr;
  const auto pass_both = [&](std::uint32_t n, session* other) {
    pass(mine, one, other, false);
    leave_vacant(first, *std::exchange(one, nullptr));
    if (other != nullptr) leave_vacant(n, *other);
  };
  sessions_.for_each_occupied([&](std::uint32_t n, session& s) {
    if (n < from || s.used.load_relaxed()) return true;
    if (!s.written.has_left()) {
      leave_vacant(n, s);
      return true;
    }
    if (one == nullptr) {
      first = n;
      one = &s;
    } else {
      pass_both(n, &s);
    }
    if (--more != 0) return true;
    left_from_.set(n + 1);
    again = true;  // there may be others
    return false;
  });
  if (one != nullptr) pass_both(first, nullptr);
  if (again || mine.written_back.value() != written_back) left_seen_.set(before);
  drain_now_and_then(mine);
  graves_.clear();
}

/// Marks the session of an ended thread as vacant if its log is empty: walks over the sessions then
/// skip it, until the number's next thread comes.
template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::leave_vacant(std::uint32_t n, session& left) noexcept {
  if (!cells_are_occupied() || left.used.load_relaxed() || left.written.has_left()) return;
  sessions_.vacate_if_left(
      n, left, [](session& s) { return !s.used.load_relaxed() && s.written.is_left_empty(); });
}

/// Sets when the next sweep is due. It is later where sweeps leave most copies as they are,
/// or take long because a section sleeps.
template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::set_next_pass(session& mine, std::uint64_t written_back,
                                                bool walks) noexcept {
  mine.pass_at = mine.written.written() + options_.low_watermark;
  const std::uint64_t least =
      std::max<std::uint64_t>(options_.walk_watermark, walks_a_copy * mine.written.waiting());
  // A sweep that is due to walks is to remove copies, but the thread may have met other threads'
  // copies only. (A copy that was written back also waits, for one more sweep.)
  const bool futile = walks && (written_back == 0 || 2 * written_back < mine.written.waiting());
  const std::uint64_t most = (std::max)(least, most_walks);  // least may be anything
  mine.walk_step = futile ? std::clamp(2 * mine.walk_step, least, most) : least;
  mine.walks_at = mine.walks.value() + mine.walk_step;
}

/// Drains the reclamation domain by one round, when enough retired segments wait.
/// As long as the threads that retire segments, or walk, go on, no drain is needed: the epochs of
/// the sweeps' own guards free retired segments, a few dozen of one thread's at a time, and without
/// a fence. A round is for the segments of threads that do not go on. It comes when twice as many
/// segments wait as the last round had to leave. It takes over what idle threads have retired, and
/// frees all that no thread which is interrupted inside a guard holds up. It leaves to running
/// threads what these have retired: further rounds, as a full drain makes, would interrupt all
/// threads again and again for segments that are freed without that. So some dozens of segments
/// wait for each running thread, or twice as many as were held up at the last round.
/// How many wait is a sum over all threads that there ever were. So a thread asks for it only when
/// it has retired some dozens itself.
template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::drain_now_and_then(session& mine) noexcept {
  if (mine.retired < most_retired) return;
  mine.retired = 0;
  const std::uint64_t waiting = blocks_.garbage();
  if (waiting < most_retired * (std::min)(threads::high_water(), most_asked_for)) return;
  if (waiting < drain_at_.load_relaxed()) return;
  drain_at_.store_relaxed(2 * waiting);  // so that no other thread begins
  blocks_.drain(1);
  drain_at_.store_relaxed(2 * blocks_.garbage());
}

/// Sweeps two logs, or one, by one scan of the census. The scan comes after this thread has become
/// the logs' collector: log.hpp says why, see "Open".
template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::pass(session& mine, session* first, session* second,
                                       bool everything) noexcept {
  mine.collecting = true;
  if (first != nullptr && !first->written.try_collect()) first = nullptr;
  if (second != nullptr && !second->written.try_collect()) second = nullptr;
  if (first != nullptr || second != nullptr) {
    exclusive_.scan_and_call(mine, sessions_, [&] { mine.now.look(sections_, clock_); });
    if (mine.is_to_ask()) exclusive_.ask(mine);  // after the scan's fence
  }
  if (first != nullptr) collect(*first, mine, everything);
  if (second != nullptr) collect(*second, mine, everything);
  mine.collecting = false;
}

template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::collect(session& s, session& mine, bool everything) noexcept {
  detail::collector<log, Blocks> once(s.written, mine.now, blocks_, options_.segment_bytes,
                                      options_.log_cap);
  once.pass(clock_, everything, [&](typename log::piece& empty) {
    ++mine.retired;
    retire(empty);
  });
  mine.written_back.add(once.written_back());
  s.written.end_collect();
}

template <class Clock, class Blocks>
inline void basic_domain<Clock, Blocks>::retire(typename log::piece& empty) noexcept {
  struct ender {
    void operator()(typename log::piece* s) const noexcept { log::piece::release(s); }
  };
  empty.grave = &graves_;
  auto guard = blocks_.enter();
  if (empty.buried_bytes != 0) return guard.retire(&empty, ender{}, weight{empty.buried_bytes});
  guard.retire(&empty, ender{});
}

// Objects end.

/// Writes the newest version of an object over its master, so that the object has no copy any more.
/// No section can reach the object.
template <class Clock, class Blocks>
inline void basic_domain<Clock, Blocks>::write_back(detail::object& o) noexcept {
  for (backoff busy; !o.try_collect();) busy.pause();
  detail::record* const newest = o.newest.load_relaxed();
  if (newest != nullptr) newest->how->write_back(o, *newest);
  o.newest.store_relaxed(nullptr);
  for (detail::record* r = newest; r != nullptr;) {
    detail::record* const older = r->older.load_relaxed();
    if (detail::is_unended(r->ended.load_relaxed()))
      r->ended.store_relaxed(0);  // no section finds it
    // → the acquire in the collector's examine, which comes before its read of `ended`. From here
    // on a collector may retire the copy's segment.
    r->state.store_release(detail::record_state::unlinked);
    r = older;
  }
  o.end_collect();
}

template <class Clock, class Blocks>
inline void basic_domain<Clock, Blocks>::wait_for_collectors() const noexcept {
  fence::full();  // ↔ the heavy one at a sweep's beginning: see log::wait_for_collector
  sessions_.for_each_occupied([](std::uint32_t, const session& s) {
    s.written.wait_for_collector();
    return true;
  });
}

// How threads end, and the domain.

template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::thread_left(std::uint32_t n) noexcept {
  session* const s = sessions_.find(n);
  if (s == nullptr || !s->used.load_relaxed()) return;
  s->written.close();
  s->here.go_offline();
  s->used.store_release(false);  // → the acquire in see_offline: its sections
  leaves_log(*s);
  if (cells_are_occupied() && s->written.is_left_empty()) sessions_.vacate(n);
}

/// Leaves the log to `collect_what_is_left`. A log with little in it counts for a least amount, so
/// that some dozens of them make a sweep due: other threads look at each of them again and again.
template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::leaves_log(session& s) noexcept {
  const std::uint64_t pressing = std::exchange(s.pressing, 0);
  const std::uint64_t least = s.written.has_left() ? options_.low_watermark / 64 : 0;
  const std::uint64_t written = s.written.written() - s.written_before +
                                pressing / (session::press_bytes / options_.low_watermark + 1);
  left_behind_.add((std::max)(least, written));
}

template <class Clock, class Blocks>
void basic_domain<Clock, Blocks>::thread_lost(std::uint32_t n) noexcept {
  sessions_.for_each([](std::uint32_t number, session& other) {
    detail::log_after_fork(other.written)
        .set_right(threads::is_this(number) || other.written.is_whole());
    return true;
  });
  exclusive_.forget();
  session* const s = sessions_.find(n);
  if (s == nullptr) return;
  const bool used = s->used.load_relaxed();
  s->forget(clock_);
  detail::log_after_fork(s->written).leave();
  if (used) leaves_log(*s);
}

template <class Clock, class Blocks>
basic_domain<Clock, Blocks>::~basic_domain() {
  threads::unlisten(*this);
  sessions_.for_each([](std::uint32_t n, session& s) {
    if (s.depth != 0) misuse::report("rlu: a section outlives its domain", n);
    s.written.abandon([](typename log::piece& piece) {
      piece.for_each(0, [](detail::record& r) {
        const auto state = r.state.load_relaxed();
        // A tombstone that has moved is unlinked: its twin ends the object.
        const bool freed = state == detail::record_state::linked &&
                           r.kind.read() == detail::record_kind::tombstone;
        if (freed || state == detail::record_state::last) r.how->destroy(*r.of);
      });
      log::piece::end(&piece);
    });
    return true;
  });
}

// Figures.

template <class Clock, class Blocks>
statistics basic_domain<Clock, Blocks>::stats() const noexcept {
  statistics sum;
  sessions_.for_each([&](std::uint32_t, const session& s) {
    sum.commits += s.commits.value();
    sum.conflicts += s.conflicts.value();
    sum.walks += s.walks.value();
    sum.turns += s.turn_taken.given.value();
    sum.written_back += s.written_back.value();
    sum.waiting += s.written.waiting();
    sum.passes += s.written.passes() / 2;  // counts beginnings and ends
    sum.log_bytes += s.written.bytes();
    sum.retired_bytes += s.written.retired_bytes();
    sum.freed_bytes += s.written.held_bytes() + s.written.buried_bytes();
    return true;
  });
  sum.retired_segments = blocks_.garbage();
  return sum;
}

/// Becomes the collector of each log in turn, so that the log's segments stay. It gives that up
/// also when f throws.
template <class Clock, class Blocks>
template <class F>
void basic_domain<Clock, Blocks>::for_each_chain(F&& f) {
  struct looking {
    ~looking() { at.end_collect(); }
    log& at;
  };
  sessions_.for_each_occupied([&](std::uint32_t, session& s) {
    // As for a walk: the older copies may be in any log. First, since it may throw.
    auto guard = blocks_.enter();
    if (!s.written.try_collect()) return true;
    const looking here{s.written};
    fence::heavy();  // ↔ the light one in begin: see log.hpp, "Open"
    s.written.take_filled();
    if (SPOLIA_FAULT("rlu.counts_unguarded")) auto dropped = std::move(guard);
    s.written.for_each_held([&](detail::record& r) {
      if (const std::size_t length = detail::copies_from(r)) f(length);
    });
    return true;
  });
}

}  // namespace rlu
}  // namespace spolia::inline SPOLIA_FLAVOUR
