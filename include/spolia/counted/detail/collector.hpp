// SPDX-License-Identifier: Apache-2.0
// collector.hpp: drops the units that atomic locations have given up, once no pin needs them.
//
// Source:      Tripp, Hyde, Grossman-Ponemon, "FRC", ISMM 2018, section 3.
// Idea:        increments are applied at once; a unit that an atomic location gives up is logged by
//              its thread. Time goes in epochs of two global phases, in which no thread is stopped:
//              in the scan the pins of all threads are read, in the sweep the logged units are
//              dropped but for those of pinned objects. The work is cut into small tasks; a thread
//              that logs does one now and then. There is no thread for it.
// Protects:    an object that a pin names, if the pin's source held a unit when it was confirmed.
// Cost:        a log entry for each overwritten location; an epoch costs one heavy fence, a look
//              at each pin, and a look-up for each entry. Headers of pinned objects are not
//              touched.
// Progress:    pins and locations never wait. A phase ends when each of its tasks is done, so a
//              thread that is kept from running in the middle of one holds up epochs; no task runs
//              code of the user, takes a lock or waits.
// Bound:       a thread logs at most `epoch_at` units (an object of n · `bytes_of_unit` is n + 1)
//              before it asks for an epoch, and so do all threads together that have ended: the
//              next one's first unit asks for it. From then on, a thread does a task of up to
//              `step` entries with its first unit, and then
//              for each `help_every` entries it logs, and more often beyond `hurry_from`, and while
//              objects are left over from the task before. If others hold the epoch up, it waits
//              from `wait_at` units in that epoch on, and then logs one for each half millisecond
//              that they are kept from running. What waits was logged in this epoch or in the one
//              before: so of each thread 2 · `wait_at` units at most, and those slow ones. Few
//              units of large objects are not left to tasks: the thread that has logged them drops
//              all before it goes on, if no other one that is at work holds that up for long. Not
//              counted are units that destructors log within a task, those that a thread logs while
//              it is quiet (see no_destructors), and one of each kind for each pinned object.
//              A reader that stalls with pins holds up the objects it names, two a pin at most, and
//              one that it has in its count cache, until the next epoch (count_cache.hpp).
// Time:        while units are logged there is an epoch each `epoch_every`, and with each unit of a
//              thread that logs seldom; where none has begun for `overdue_after`, loads and walks
//              do what changes do. All look at the clock at a thread's pace, at least once in
//              `help_every` changes or `look_every` reads. So what no pin names any more is dropped
//              and ended within twice `overdue_after`, a second, by whatever a thread does, but for
//              what is more than catch_up() does at once. Where nothing is done it waits.
// Departures:
//   1. Only locations defer. A plain shared_ptr drops its unit at once: a pin relies on the unit of
//      the location that it was taken from, and that unit never goes at once. So exchange and
//      swap give their callers a fresh unit and log the location's.
//   2. The scan notes names, the paper's counts the named objects up and logs a decrement each. So
//      a name may be unconfirmed, even stale, and no thread waits for a slot; private copies need
//      no care, and hot objects' counts stay where they are. Of the logged units of one pinned
//      object one of each kind is kept in each epoch, and the others are dropped.
//   3. Capture is the first step of an epoch, not the last of the one before; while nothing is
//      logged there are no epochs.
//   4. Objects end outside of the phases, after the task, a bounded number at a time; what is left
//      lies where the next helper finds it. So destructors may block, log, and use pointers.
//   5. A location that ends with its object logs nothing while a helper is at work: see below.
//   6. Out of memory in a scan ends the epoch without a sweep; in a sweep it ends the sweep.
//
// Why it is safe. Let a pin of R name x, confirmed at location a, and let u be a's unit of x then.
//   Overwriting: u was logged after a was overwritten, and dropped in the sweep of an epoch that
//   captured it and then made its heavy fence. If R's light fence (in put_name) comes first,
//   the scan finds the name, or a later one, and then R has let go of x. If the heavy fence comes
//   first, R's second look saw a after the overwriting: x was there again, and that is another
//   unit. The next epoch scans anew, and one unit that was kept is captured in it.
//   Ending: a ends, with the object it lies in or otherwise. All accesses to a happen before its
//   end; that is C++'s own rule, and it holds for those through pins and counts by their releases.
//   So the publication of R's pin happens before the end of a, and a look at all pins AFTER it
//   finds x named, or R has let go: no fence and no epoch is needed. resolve() does that for units
//   of locations that end while a helper destroys objects, some at a time. So a list of n nodes
//   needs n such looks and not n epochs.
//   Freeing: R lets go by a release, which the scan or resolve() acquires; through the barrier
//   between the phases it happens before the sweep.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/passed.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/counted/detail/destruction_queue.hpp>
#include <spolia/counted/detail/member.hpp>
#include <spolia/counted/detail/names.hpp>
#include <spolia/counted/one_word_router.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

/// The calling thread ends: what it has at hand must be looked up anew. For home.hpp.
void forget_this_thread() noexcept;

template <class Router = one_word_router, class Barrier = one_word_barrier>
class basic_collector final : core::listener, public destruction_queue {
 public:
  explicit basic_collector(const collector_options& o = {}) : options_(o) {
    threads::listen(*this);
  }
  basic_collector(const basic_collector&) = delete;
  basic_collector& operator=(const basic_collector&) = delete;
  ~basic_collector() { threads::unlisten(*this); }

  /// The calling thread's. Throws std::bad_alloc.
  member& here() {
    member& mine = members_.occupy(threads::number());
    mine.left.set(false);
    return mine;
  }

  /// A unit that was just taken out of a location. Room was reserved.
  SPOLIA_ALWAYS_INLINE static bool log(member& me, entry e, std::size_t bytes) noexcept {
    me.log.append(e);
    // So heavy ones end while they, and the memory that is used again after them, are in a near
    // cache.
    me.credit -= 1 + static_cast<std::int64_t>(bytes / bytes_of_unit);
    return me.credit < 0;  // then the caller calls help
  }

  /// A location ends with a unit in it. Never fails: without memory the unit is dropped at once if
  /// no pin names its block; else it is never dropped.
  void end_of_location(member* me, entry e, std::size_t bytes) noexcept {
    if (me != nullptr && me->helping && me->work.push(e)) {
      me->unlogged.add();
      return;
    }
    if (me != nullptr && me->log.try_reserve()) {
      if (log(*me, e, bytes)) help(*me);
      return;
    }
    // The end of a location is safe without an epoch: see the head of this file.
    if (!pinned(name_of_entry(e))) drop(nullptr, e);
  }

  /// One task, if there is one.
  SPOLIA_NOINLINE void help(member& me) noexcept {
    count_logged(me);
    const std::uint64_t backlog = me.log.backlog();
    me.interval = options_.help_every;
    if (backlog > options_.hurry_from) {
      me.interval >>= std::min<std::uint64_t>(6, 1 + (backlog - options_.hurry_from) / 2048);
    }
    // One unit may lead to any number of objects. While some are left over, we help more and more
    // often; they were given up faster than they end.
    me.haste = left_.empty() ? 0 : (std::min)(me.haste + 1, 6U);
    const std::uint64_t hasty = options_.help_every >> me.haste;
    me.interval = std::max<std::uint64_t>(1, (std::min)(me.interval, hasty));
    me.owes = me.quiet;
    // Its end asks what the time asks for: asked here, it would count as done.
    const bool helps = !me.helping && !me.quiet;
    const bool timely = helps && by_time(me);
    const bool much = me.since_epoch >= options_.wait_at;
    if (much) me.interval = 1;
    me.credit = static_cast<std::int64_t>(me.interval);
    if (!helps) return;
    const std::uint64_t waiting = (std::max)(me.since_epoch, by_ended_.load_relaxed());
    if (backlog != 0 && me.since_epoch >= (std::max)(options_.epoch_at, large_each * backlog))
      return drop_own(me);
    const bool did = step(me, waiting >= options_.epoch_at || timely, options_.step);
    if (timely) catch_up(me, false);  // `step` has begun the epoch
    if (!did && much) wait_for_others(me);
  }

  /// The calling thread reads, and did so `reading.each` times since the last call at most. It
  /// helps where no change has begun an epoch for half of the time allowed.
  SPOLIA_NOINLINE void look([[maybe_unused]] member& me) noexcept {
#if !defined(SPOLIA_MODEL)
    const std::int64_t now = now_ns();
    me.reads_seldom = me.reading.is_seldom(now, options_.seldom, options_.look_every);
    if (has_passed(now, begun_at_.load_relaxed(), options_.overdue_after)) {
      me.owes |= me.quiet;
      if (!me.helping && !me.quiet) catch_up_after_reads(me, now);
    }
    me.cache.looked();
    me.pins.walker().turns_left(me.reading.each);
#endif
  }

  /// The caller has loaded p's word again and again, and has a unit.
  void fill_count_cache(member& me, const cached_units& p) noexcept {
    if (!have_count_caches() || one_thread() || !spill(me)) return;
    threads::watch_this_thread(*this);
    me.cache.fill(p);
    if (me.cache.is_shut()) spill(me);
  }

  /// Drops and ends all that can be. True if nothing waits any more; false if pins, or another
  /// thread's work, hold something up, or if called by a destructor that a helper runs.
  bool drain(member& me) noexcept {
    if (me.helping) return false;
    backoff wait;
    for (unsigned idle = 0; idle < 8;) {
      const collector_counts before = counts();
      whole_epoch(me);
      while (step(me, false, options_.step)) {
      }
      const collector_counts after = counts();
      if (after.waiting() == 0) return true;
      if (after.dropped == before.dropped && after.ended == before.ended) {
        ++idle;
        wait.pause();
      }
    }
    return false;
  }

  void time_tasks(bool wanted) noexcept { timed_.set(wanted); }

  [[nodiscard]] collector_counts counts() const noexcept {
    collector_counts sum;
    // What was dropped before what was logged, so that the difference is rather too large.
    members_.for_each([&](std::uint32_t, const member& m) {
      m.count_done(sum);
      return true;
    });
    members_.for_each([&](std::uint32_t, const member& m) {
      m.count_begun(sum);
      return true;
    });
    sum.epochs = epochs_.load_relaxed();
    return sum;
  }

 private:
  /// Since the thread last came here.
  void count_logged(member& me) noexcept {
    const std::uint64_t epoch = epochs_.load_relaxed();
    if (me.epoch != epoch) {
      me.epoch = epoch;
      me.since_epoch = me.told_of = 0;
    }
    me.since_epoch +=
        static_cast<std::uint64_t>(static_cast<std::int64_t>(me.interval) - me.credit);
  }

  // ---- time

  /// Whether an epoch is due because time has passed. A thread that logs seldom does a task with
  /// each unit, and asks for an epoch each time: so what it gave up does not wait for the thousands
  /// that would follow.
  bool by_time([[maybe_unused]] member& me) noexcept {
#if defined(SPOLIA_MODEL)
    return false;  // the model checker knows no time
#else
    const std::int64_t now = now_ns();
    const bool seldom = me.changing.is_seldom(now, options_.seldom, options_.help_every);
    me.interval = (std::min<std::uint64_t>)(me.interval, me.changing.each);
    const std::int64_t last = begun_at_.load_relaxed();
    if (!has_passed(now, last, seldom ? options_.seldom : options_.epoch_every)) return false;
    begun_at_.store_relaxed(now);
    return true;
#endif
  }
  /// What the time asks for, as far as other threads have not taken it: some tasks, so that the
  /// caller is not held up for long. May begin an epoch once.
  void catch_up(member& me, bool may_begin) noexcept {
    constexpr unsigned tasks = 256;  // of scans, which are short
    constexpr std::uint64_t most = 1024;
    const std::uint64_t first = epochs_.load_relaxed();
    const std::uint64_t done = me.entries_done();
    for (unsigned i = 0; i < tasks && me.entries_done() - done < most; ++i) {
      if (!step(me, may_begin && epochs_.load_relaxed() == first, options_.step)) break;
    }
  }
  /// Does what is overdue. What is left then is overdue for the next read, too, of any thread.
  void catch_up_after_reads(member& me, std::int64_t now) noexcept {
    const std::uint64_t first = epochs_.load_relaxed();
    // An epoch that is on has captured before what we ask for.
    const bool asked = !busy_.load_relaxed();
    catch_up(me, true);
    const bool all = !busy_.load_relaxed() && left_.empty();
    if (all && (asked || epochs_.load_relaxed() != first)) {
      begun_at_.store_relaxed(now);
    } else {
      me.reading.each = 1;
    }
  }
#if !defined(SPOLIA_MODEL)
  static std::int64_t now_ns() noexcept {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }
#endif

  // ---- phases

  /// One task of a phase, or the beginning of an epoch, and then objects that are to end. True if
  /// there was anything to do.
  bool step(member& me, bool may_begin, std::int64_t budget) noexcept {
    me.helping = true;
    me.budget = budget;
    bool did = assist(me);
    if (!did && may_begin) did = begin(me);
    while (me.budget > 0 && (!me.work.empty() || me.work.take_from(left_))) {
      const stopwatch timer(me.end_ticks, timed_.value());
      did = true;
      work_off(me);
    }
    me.work.leave_to(left_);
    me.helping = false;
    return did && me.budget != no_memory;
  }

  /// What the thread has logged is few units, and much. So these are dropped before it goes on: by
  /// the epoch that is on, or the one after it. If others hold that up, it waits as below.
  SPOLIA_NOINLINE void drop_own(member& me) noexcept {
    const std::uint64_t first = epochs_.load_relaxed();
    const auto is_over = [&] {
      const std::uint64_t now = epochs_.load_relaxed();
      return me.log.backlog() == 0 || now > first + 1 || (now > first && !busy_.load_relaxed());
    };
    backoff wait;
    for (unsigned pauses = 0; pauses < most_pauses && !is_over();) {
      if (step(me, true, options_.step)) continue;
      wait.pause();
      ++pauses;
    }
  }

  /// Others have taken all that is left of the epoch, and some of them are kept from running. We
  /// let them, for half a millisecond at most: then one more unit may be logged.
  SPOLIA_NOINLINE void wait_for_others(member& me) noexcept {
    backoff wait;
    for (unsigned i = 0; i < most_pauses && busy_.load_relaxed(); ++i) {
      wait.pause();
      if (step(me, false, options_.step)) return;
    }
  }

  bool assist(member& me) noexcept {
    const unsigned hint = threads::number();
    if (const unsigned i = scans_.claim(hint); i != Router::none) {
      const stopwatch timer(me.scan_ticks, timed_.value());
      scan(me, i);
      if (unscanned_.arrive(i)) end_scan();
      return true;
    }
    if (const unsigned i = sweeps_.claim(hint); i != Router::none) {
      const stopwatch timer(me.sweep_ticks, timed_.value());
      if (sweep(me, i)) {
        sweeps_.give_back(i);
      } else if (unswept_.arrive(i)) {
        // release → the acquire in begin: all that the epoch did.
        busy_.store_release(false);
      }
      return true;
    }
    return false;
  }

  /// The capture, the fence, and the scan opens.
  bool begin(member& me) noexcept {
    const stopwatch timer(me.scan_ticks, timed_.value());
    bool idle = false;
    if (busy_.load_relaxed()) return false;
    // acquire ← the release at the end of the epoch before.
    if (!busy_.cas_strong_acquire(idle, true)) return false;
    if (SPOLIA_FAULT("counted.late_capture")) fence::heavy();
    // acquire ← the release in thread_left(): what is counted here is captured below.
    by_ended_.exchange_acquire(0);
    bool any = false;
    members_.for_each_occupied([&](std::uint32_t n, member& m) {
      const bool waits = m.log.capture() != 0 || (have_count_caches() && m.cache.holds());
      any |= waits;
      if (!waits && m.left.value()) leave_vacant(n, m);
      return true;
    });
    if (!any) {
      busy_.store_release(false);  // release → the acquire above
      return false;
    }
    epochs_.store_relaxed(epochs_.load_relaxed() + 1);
    const bool late = SPOLIA_FAULT("counted.cache_shut_late");
    if (!late) shut_count_caches();
    // heavy → the light fences in put_name and in count caches. Each captured unit left its
    // location before this, by the acquire in capture; all pins are read after it, by the release
    // in open.
    if (!SPOLIA_FAULT("counted.no_heavy") && !SPOLIA_FAULT("counted.late_capture")) fence::heavy();
    if (late) shut_count_caches();
    // A thread that joins later makes its light fences later.
    const std::uint32_t end = (std::max)(members_.occupied_end(), 1U);
    const std::uint64_t all = ~std::uint64_t{0} >> (64 - (std::min)(end, Router::inputs));
    scan_failed_.store_relaxed(false);
    unscanned_.open(all);
    scans_.open(all);
    return true;
  }

  /// No scan or sweep looks at a member that an ended thread has left with nothing in it, until the
  /// number's next thread comes. To be called where an epoch begins.
  void leave_vacant(std::uint32_t n, member& m) noexcept {
    members_.vacate_if_left(n, m, [](member& left) {
      // What is logged now belongs to the epoch: only another thread with the number could log it.
      if (!left.left.value() || left.log.capture() != 0 || !left.is_empty()) return false;
      left.log.give_up_memory();
      left.work.give_up_memory();
      return true;
    });
  }

  template <class F>
  void each_of(unsigned input, F f) noexcept {
    const std::uint32_t end = members_.occupied_end();
    for (std::uint32_t n = input; n < end; n += Router::inputs) {
      member* const m = members_.find(n);
      if (m != nullptr && members_.is_occupied(n)) f(*m);
    }
  }

  void scan(member& me, unsigned input) noexcept {
    each_of(input, [&](member& m) {
      take_away(me, m.cache);
      m.names.clear();
      m.pins.visit([&](word w) {
        if (!m.names.add(name_of(w))) scan_failed_.store_relaxed(true);
      });
    });
  }

  void end_scan() noexcept {
    std::size_t names = 0;
    std::uint64_t work = 0;
    members_.for_each_occupied([&](std::uint32_t n, const member& m) {
      names += m.names.size();
      if (m.log.waiting() > 0) work |= std::uint64_t{1} << n % Router::inputs;
      return true;
    });
    // An epoch may have begun for count caches alone.
    if (work == 0 || scan_failed_.load_relaxed() || !pinned_.start(names)) {
      busy_.store_release(false);  // release → the acquire in begin
      return;
    }
    members_.for_each_occupied([&](std::uint32_t, const member& m) {
      for (std::size_t i = 0; i < m.names.size(); ++i) pinned_.add(m.names[i]);
      return true;
    });
    unswept_.open(work);
    sweeps_.open(work);
  }

  /// Up to a step's entries of the input's threads. True if there is more.
  bool sweep(member& me, unsigned input) noexcept {
    std::uint32_t left = options_.step;
    bool more = false;
    alike_units alike;
    const auto drop_some = [&](entry e, std::uint32_t n) { drop(&me, e, n); };
    each_of(input, [&](member& m) {
      for (; m.log.waiting() > 0 && left > 0; --left) {
        // Room for what this entry may become, and those that still wait for others of their kind;
        // without it the epoch ends here.
        if (!me.log.try_reserve() || !me.work.has_room(alike_units::most + 1)) return;
        m.log.fetch_ahead();
        const entry e = m.log.take();
        if (!kept(me, e)) alike.add(e, drop_some);
      }
      more |= m.log.waiting() > 0 && left == 0;
    });
    alike.drop_all(drop_some);
    return more;
  }

  /// True if a pin may need the unit; then it is logged again.
  bool kept(member& me, entry e) noexcept {
    const std::size_t at = pinned_.find(name_of_entry(e));
    // A pin may rely on a strong unit or on a weak one: one of each is kept.
    const bool strong = task_of(e) == task::drop_strong;
    const std::uint32_t kind = strong || SPOLIA_FAULT("counted.keep_one_kind") ? 1 : 2;
    const bool keep = at != name_table::absent && pinned_.first(at, kind);
    if (!keep || SPOLIA_FAULT("counted.keep_none")) return false;
    keep_logged(me, e);
    return true;
  }

  /// An epoch that began after the call, if anything is logged.
  void whole_epoch(member& me) noexcept {
    backoff wait;
    const auto finish = [&] {
      // acquire ← the release at the end of an epoch: only so that we come after it.
      while (busy_.load_acquire()) {
        if (!step(me, false, options_.step)) wait.pause();
      }
    };
    finish();
    step(me, true, options_.step);
    finish();
  }

  // ---- threads

  void thread_left(std::uint32_t number) noexcept override {
    if (member* const m = members_.find(number)) {
      spill(*m);
      // What is counted with the number comes to nothing where its next thread uses no pointers.
      count_logged(*m);
      // release → the acquire in begin(): the log.
      by_ended_.fetch_add_release(m->since_epoch - m->told_of);
      m->told_of = m->since_epoch;
      m->interval = 0;
      m->credit = 0;  // the number's next thread helps with its first unit
      m->left.set(true);
    }
    forget_this_thread();
  }

  /// In a forked child. A thread that was at work on a phase may have been that thread: the phases
  /// start anew. Each log's position is one word, so it can be gone on with.
  void thread_lost(std::uint32_t number) noexcept override {
    for (auto* router : {&scans_, &sweeps_}) router->reset();
    for (auto* barrier : {&unscanned_, &unswept_}) barrier->reset();
    pinned_.forget();
    members_.for_each([](std::uint32_t, member& m) {
      m.log.recount();
      m.names.forget();
      return true;
    });
    if (member* const m = members_.find(number)) lose(*m);
    busy_.store_relaxed(false);
  }

  static constexpr unsigned most_pauses = 204;     // the last few are naps, of 0.3 ms together
  static constexpr std::uint64_t large_each = 16;  // units that an entry counts for, on average

  const collector_options options_;
  latest<bool> timed_{false};
  atomic<std::uint64_t> epochs_{0};
  atomic<std::int64_t> begun_at_{0};              // ns, when time last asked for an epoch
  atomic<std::uint64_t> by_ended_{0};             // units logged by threads that have ended since
  alignas(cache_line) atomic<bool> busy_{false};  // an epoch is on
  atomic<bool> scan_failed_{false};
  Router scans_;
  Barrier unscanned_;
  Router sweeps_;
  Barrier unswept_;
  name_table pinned_;
};

using collector = basic_collector<>;

}  // namespace counted::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
