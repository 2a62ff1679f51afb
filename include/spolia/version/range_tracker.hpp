// SPDX-License-Identifier: Apache-2.0
// range_tracker.hpp: which ended versions no snapshot needs any more, in amortized constant time.
//
// Source:      RangeTracker of Ben-David et al.: Space and Time Bounded Multiversion Garbage
//              Collection, DISC 2021, as used by Wei et al., PPoPP 2023, sections 2 and 3.
// Idea:        each thread collects the versions that it has overwritten, with the times when they
//              began and ended. When it has B of them, it takes the two oldest lists out of a
//              shared queue, looks once which times are announced, and goes through all lists
//              together with the times: all are sorted. What is needed goes into the queue again.
//              After an update that has overwritten n B versions it goes on so, with n times two
//              lists in all.
// Cost:        amortized O(1) a version: for each one that an update ends, at most `steps` are
//              looked at, and once in B of them the census is scanned and sorted, in
//              O(P + C + S log S) with S announcements in C slots. B grows with both, so that for
//              each version this is O(log S); the update that makes the scan takes all of it, some
//              ten nanoseconds for each announcement. For each B versions that ended threads have
//              left, one update of a thread looks at up to 4 B at once. So does one whose list is
//              full while lists are under examination. A thread's end sorts what it leaves in among
//              that: O(log B) a version.
// Progress:    the queue has a lock, taken once in B updates and a few times at a thread's end, for
//              a few stores, outside of guards.
// Bound:       with H versions needed at most, at any time so far, and P threads at one time at
//              most: 3 H + 5 P B versions are held; and where threads have ended, (5 P + 3) B more,
//              however many have come and gone and however few updates each of them made; and three
//              times what an update has ended, if that is more than B. B is the largest of P log P,
//              of `least_batch`, and of S / 4 + C / 32 as the last scan has found them: S snapshots
//              alive, and slots for all that were alive at one time, C. So, while S <= P, it is
//              H + c P^2 log P in the paper's sense: c is 5, as much again for threads that have
//              ended, and the 3 is the price of the queue. The derivation is below;
//              its B is the largest so far.
// Memory:      nothing but the versions' own links (tracked.hpp), and for each thread the result of
//              a scan, eight bytes for each announcement; where they are many, only while lists are
//              under examination.
// Errors:      a thread's first call may throw std::bad_alloc; nothing else does. If a scan runs
//              out of memory, nothing is found obsolete until the next one.
// Threads:     come and go: a thread that ends leaves its lists to the others, see below. collect()
//              and collect_some() also take the lists of threads that are between two calls.
// Fork:        in the child, lists of lost threads are forgotten: those versions are never freed.
//
// Why the bound holds. Take the moments T0 when a list is put in and T1 when it comes out: what lay
// in the queue before it has been looked at in between. Let E0 versions be in the queue at T0. All
// lists there have B, so between T0 and T1 there were at most E0 / 2B looks, each of which put in
// at most B versions that had just ended: E0 / 2 in all. What was put back was needed when it was
// looked at. An ended version that is needed now was needed at T0, for new snapshots do not need
// it: so at most H were put back. At T1 there are at most H + E0 / 2, which tends to 2 H; and
// between T0 and T1 at most E0 + H. Besides, each thread has up to B in its own list, and under
// examination B that have just ended, two lists of B, and a rest of less. An update that ends n B
// versions at once comes on top, and counts as n looks.
//
// Ended threads. What a thread leaves is merged with what others have left, into lists of B for the
// queue; less than 2 B lie beside it. And no look is lost with the thread that would have made it:
// what it leaves unlooked at, 5 B at most, is counted for all threads (`unlooked_`), and each B of
// that are due for one more look. A thread's first update asks for that, and so does each of its
// following ones as long as such a look is due. So a life ends with less than B of that count
// unless others ended at the same time: P of them together leave 5 P B.
//
// Departures from the papers:
//   D1  What a thread has taken out is looked at in the course of its next updates, `steps` in
//       each, and not in the one update that filled its list.
//   D2  What is needed goes back in lists of B, and a rest is kept for the thread's next look; the
//       papers halve, and merge the rest into the local list, which takes B steps at once.
//   D3  The queue has a lock.
//   D4  Versions that ended after the scan began (`known`) are kept: lists may come into the queue
//       while collect() has its times already, and a hardware clock's are uncertain.
//   D5  A thread's list is looked at before it goes into the queue. Short snapshots need next to
//       nothing of what ended a moment ago, and another thread would have to fetch the rest.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/biased_gate.hpp>
#include <spolia/base/bits.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/version/detail/list_queue.hpp>
#include <spolia/version/tracked.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class range_tracker final : private threads::listener {
  struct no_matter {
    void operator()(const tracked*) const noexcept {}
  };

 public:
  struct options {
    std::uint32_t batch = 0;         ///< B, however many announcements there are; 0: see Bound
    std::uint32_t least_batch = 64;  ///< so that few threads do not scan all the time
    std::uint32_t steps = 8;         ///< looked at for each version that has ended; at least 6
  };

  /// What is wrong with the numbers, in one sentence; null if nothing.
  static const char* what_is_wrong(const options& o) noexcept {
    if (o.steps < 6) return "range_tracker: steps must be at least 6, or lists pile up";
    if (o.batch == 0 && o.least_batch == 0) return "range_tracker: a batch must be at least 1";
    return nullptr;
  }

  /// What the tracker keeps for one thread. Made by mine(), and used by that thread only.
  class cell;

  explicit range_tracker(const options& o) : options_(o) { threads::listen(*this); }
  /// Everything must have been abandoned.
  ~range_tracker() { stop_listening(); }
  range_tracker(const range_tracker&) = delete;
  range_tracker& operator=(const range_tracker&) = delete;

  /// The calling thread's part. A thread's first call may throw std::bad_alloc.
  cell& mine();

  /// Whether mine() gave that to the calling thread, or to an earlier one with its number.
  static bool in_use(const cell* part) noexcept;

  /// `t` ended at time `until`. It belongs to the tracker from now on.
  void deprecate(cell& me, tracked* t, std::uint64_t until) noexcept;

  /// Whether work() has anything to do.
  [[nodiscard]] static bool is_due(const cell& me) noexcept;

  /// The version that the owner deprecates next takes so many bytes: to be said of one in
  /// weighed_one_in of them. A list of versions that take `much` is looked at though it is short.
  static void weigh_now_and_then(cell& me, std::size_t bytes) noexcept;
  [[nodiscard]] static bool weighs_next(const cell& me) noexcept;
  /// To be called after an update, outside of guards. `look(scan_times&)` scans the census and may
  /// throw std::bad_alloc. `expire(tracked*)` is called for versions that no snapshot needs: they
  /// are no longer the tracker's, unless it returns false: then they are tried again later. It may
  /// call deprecate() and work().
  template <class Look, class Expire>
  void work(cell& me, Look&& look, Expire&& expire) noexcept;

  /// Checks everything that can be reached: all but what belongs to threads in the middle of a
  /// call. Outside of guards. Calls kept(tracked*) for each version that stays; it must not use the
  /// tracker.
  template <class Look, class Expire, class Kept = no_matter>
  void collect(cell& me, Look&& look, Expire&& expire, Kept&& kept = {}) noexcept;

  /// The same in parts: looks at what threads have in their own lists, and then at `lists` of the
  /// queue, the oldest first, of which that counts down. Ends early when enough(n) says so, which
  /// is told that n versions more were looked at. What stays may be told twice.
  template <class Look, class Expire, class Kept, class Enough>
  void collect_some(cell& me, std::uint64_t& lists, Look&& look, Expire&& expire, Kept&& kept,
                    Enough&& enough) noexcept;
  /// How many lists there are in the queue, for that.
  [[nodiscard]] std::uint64_t lists() noexcept { return queue_.count_all(); }
  /// Of how many threads the lists have come into the queue when they ended.
  [[nodiscard]] std::uint64_t ended_threads() const noexcept {
    // acquire ← the release in thread_left(): their lists are there.
    return ended_threads_.load_acquire();
  }

  /// No thread uses the tracker any more: gives up all versions, by f(tracked*). Threads that have
  /// used it may end at the same time.
  template <class F>
  void abandon(F&& f) noexcept;

  /// How many versions are held; while others work, as many as at one moment of the call, or less.
  [[nodiscard]] std::uint64_t held() const noexcept;

  /// B, with the threads and the announcements there are.
  [[nodiscard]] std::uint64_t batch() const noexcept {
    if (options_.batch != 0) return options_.batch;
    const std::uint64_t p = (std::max)(cells_.occupied_end(), 1U);
    const std::uint64_t scan = worth_.load_relaxed();
    return (std::max)({std::uint64_t{options_.least_batch}, p * bit_length(p), scan});
  }

 private:
  class presence;
  static constexpr std::size_t kept_times = 512;
  static constexpr std::uint64_t weighed_one_in = 4;
  static constexpr std::uint64_t much = std::uint64_t{1} << 20U;

  template <class Look>
  void flush(cell& me, Look& look, std::uint64_t b) noexcept;
  template <class Look>
  bool go_on(cell& me, Look& look) noexcept;
  template <class Look, class Expire>
  void step_on(cell& me, std::uint64_t most, Look& look, Expire& expire) noexcept;
  template <class Look>
  void look_around(cell& me, Look& look) noexcept;
  static void drop_many_times(cell& me) noexcept;
  template <class Expire, class Put>
  void step(cell& me, Expire& expire, Put&& put) noexcept;
  template <class Put>
  void keep(cell& me, tracked* t, Put& put) noexcept;
  static void end_job(cell& me) noexcept;
  /// Where lists of versions that are kept go.
  auto putter() noexcept {
    return [this](tracked* list) { queue_.push(list); };
  }
  static void give_up(cell& c, detail::version::list_queue& to) noexcept;
  void give_up_all(cell& me, detail::version::list_queue& to) noexcept;
  template <class Kept>
  static void tell(tracked* t, Kept& kept) noexcept {
    for (; t != nullptr; t = t->next.read()) kept(t);
  }
  std::uint64_t leave_behind(tracked* list) noexcept;
  bool take_a_look_that_is_due(std::uint64_t b) noexcept;
  void stop_listening() noexcept {
    if (std::exchange(listening_, false)) threads::unlisten(*this);
  }
  void thread_left(std::uint32_t n) noexcept override;
  void thread_lost(std::uint32_t n) noexcept override;

  const options options_;
  bool listening_ = true;
  detail::version::list_queue queue_;
  atomic<std::uint64_t> unlooked_{0};  // versions that ended threads left, less B for each look
  atomic<std::uint64_t> ended_threads_{0};
  atomic<std::uint64_t> worth_{0};  // of the last scan, in versions
  cells<cell> cells_;
};

class alignas(cache_line) range_tracker::cell {
 private:
  friend class range_tracker;

  /// One list more to examine, and what is left of the last job; null is allowed.
  void examine(tracked* list) noexcept {
    for (tracked* const one : {list, rest.read()}) {
      if (one != nullptr) inputs[sorts++].write(one);
    }
    rest.write(nullptr);
    job = true;
  }
  [[nodiscard]] bool has_work() const noexcept { return job || lists_due != 0; }
  /// The part of the inputs that ended first; null if nothing is left.
  tracked* take() noexcept {
    if (sorts == 0) return nullptr;
    plain<tracked*>* least = inputs.data();
    for (std::uint32_t i = 1; i < sorts; ++i) {
      if (inputs[i].read()->until.read() < least->read()->until.read()) least = &inputs[i];
    }
    tracked* const t = least->read();
    tracked* const after = t->next.read();
    least->write(after != nullptr ? after : inputs[--sorts].read());
    return t;
  }

  /// Whether a snapshot needs `t`. Versions come in the order in which they ended.
  bool needed(const tracked* t) noexcept {
    const std::uint64_t until = t->until.read();
    if (until > now.known && !SPOLIA_FAULT("tracker.ignores_known")) return true;
    while (passed < now.times.size() && now.times[passed] < until) ++passed;
    // relaxed: the stamp was set before the version ended, by or before the thread that deprecated
    // it.
    return passed != 0 && now.times[passed - 1] >= t->since.load_relaxed();
  }

  biased_gate gate;
  bool busy = false;              // expire() may come back to us
  std::uint64_t ended_since = 0;  // deprecated since work() last had anything to do; the owner's
  std::uint64_t next_work = 0;    // it has when there are so many; the owner's
  std::uint64_t ended_bytes = 0;  // since the last list was looked at, about; the owner's
  atomic<bool> used{false};
  tally entered;  // into the tracker, by this thread
  tally gone;     // out of it

  tracked_list fresh;                     // the paper's local list
  plain<tracked*> rest{nullptr};          // what the last job found needed, less than a list
  std::uint64_t lists_due = 0;            // to be taken from the queue yet, for what has ended
  bool job = false;                       // lists are under examination:
  std::array<plain<tracked*>, 4> inputs;  // the local one, two from the queue, and the rest
  std::uint32_t sorts = 0;                // so many of them, the first ones, are not empty
  tracked_list kept;                      // what of it is needed
  scan_times now;
  std::size_t passed = 0;  // of now.times
};

/// Makes a cell its thread's own for a while; others may take its lists at other times.
class range_tracker::presence {
 public:
  explicit presence(cell& c) noexcept : of_(c) { of_.gate.come(1); }
  ~presence() { of_.gate.go(1); }
  presence(const presence&) = delete;
  presence& operator=(const presence&) = delete;

 private:
  cell& of_;
};

inline range_tracker::cell& range_tracker::mine() {
  cell& found = cells_.of(threads::number());
  if (!found.used.load_relaxed()) [[unlikely]] {
    cells_.occupy_made(threads::number());
    threads::watch_this_thread(*this);
    found.used.store_relaxed(true);
  }
  return found;
}

inline bool range_tracker::in_use(const cell* part) noexcept {
  return part != nullptr && part->used.load_relaxed();
}

inline void range_tracker::deprecate(cell& me, tracked* t, std::uint64_t until) noexcept {
  const presence here(me);
  // A hardware clock may seem to step back a little; too late an end only keeps the version longer.
  t->until.write((std::max)(until, me.fresh.latest()));
  me.fresh.push(t);
  me.entered.add(1);
  ++me.ended_since;
}

inline bool range_tracker::weighs_next(const cell& me) noexcept {
  return me.ended_since % weighed_one_in == 0;
}
inline void range_tracker::weigh_now_and_then(cell& me, std::size_t bytes) noexcept {
  me.ended_bytes += weighed_one_in * bytes;
  if (me.ended_bytes >= much) me.next_work = 0;
}

inline bool range_tracker::is_due(const cell& me) noexcept {
  return me.ended_since >= me.next_work;  // what others have taken away, work() finds out
}

template <class Look, class Expire>
void range_tracker::work(cell& me, Look&& look, Expire&& expire) noexcept {
  if (!is_due(me)) return;
  const presence here(me);
  if (me.busy) return;
  me.busy = true;
  const std::uint64_t ended = std::max<std::uint64_t>(std::exchange(me.ended_since, 0U), 1);
  const std::uint64_t b = batch();
  const std::uint64_t there = me.fresh.count();
  const bool full = there >= b || (me.ended_bytes >= much && there != 0);
  step_on(me, options_.steps * ended, look, expire);
  // So much is left only if B has shrunk, if ended threads have left it, or of a large update: then
  // it may be more, and the list goes on to grow.
  if (full || unlooked_.load_relaxed() >= b) step_on(me, 4 * b, look, expire);
  if (!me.has_work()) {
    const bool for_others = !full && take_a_look_that_is_due(b);
    if (full || for_others) flush(me, look, b);
    if (full) me.ended_bytes = 0;
    // A large update looks at once at what it is to look at.
    const std::uint64_t beyond = there > b ? (std::min)(ended, there - b) : there % b;
    const std::uint64_t large = full ? beyond : 0;
    step_on(me, for_others ? 4 * b : options_.steps * large, look, expire);
  }
  if (!me.has_work()) drop_many_times(me);
  const bool again = me.has_work() || unlooked_.load_relaxed() >= b;
  me.next_work = again ? 0 : b - (std::min)(b - 1, me.fresh.count());
  me.busy = false;
}

/// So many steps at most.
template <class Look, class Expire>
void range_tracker::step_on(cell& me, std::uint64_t most, Look& look, Expire& expire) noexcept {
  for (; most != 0 && (me.job || go_on(me, look)); --most) step(me, expire, putter());
}

/// Whether ended threads have left so much, with B as it is, that one more look is due, which is
/// the caller's then.
inline bool range_tracker::take_a_look_that_is_due(std::uint64_t b) noexcept {
  std::uint64_t left = unlooked_.load_relaxed();
  // relaxed: a count. What it counts passes through the lock of the queue.
  while (left >= b && !SPOLIA_FAULT("tracker.no_look_for_others")) {
    if (unlooked_.cas_weak_relaxed(left, left - b)) return true;
  }
  return false;
}

template <class Look>
void range_tracker::flush(cell& me, Look& look, std::uint64_t b) noexcept {
  me.lists_due = 2 * std::max<std::uint64_t>(me.fresh.count() / b, 1);
  me.examine(me.fresh.release());
  if (!go_on(me, look)) look_around(me, look);
}

/// Takes two lists more out of the queue, for what has ended. False: no more are due, or are there.
template <class Look>
bool range_tracker::go_on(cell& me, Look& look) noexcept {
  if (me.lists_due == 0) return false;
  const detail::version::list_queue::lists oldest = queue_.take_two();
  me.lists_due = oldest[0] == nullptr ? 0 : me.lists_due - 2;
  if (oldest[0] == nullptr) return false;
  for (tracked* const list : oldest) me.examine(list);
  look_around(me, look);
  return true;
}

template <class Look>
void range_tracker::look_around(cell& me, Look& look) noexcept {
  me.passed = 0;
  try {
    look(me.now);
  } catch (const std::bad_alloc&) {
    me.now.known = 0;  // so that everything is needed
    me.now.times.clear();
  }
  // relaxed: a figure. Stored only if it is another one: all threads read it.
  const std::uint64_t worth = me.now.is_worth();
  if (worth != worth_.load_relaxed()) worth_.store_relaxed(worth);
}

/// Until the next look no list is under examination.
inline void range_tracker::drop_many_times(cell& me) noexcept {
  if (me.now.times.capacity() > kept_times) std::vector<std::uint64_t>().swap(me.now.times);
}

template <class Expire, class Put>
void range_tracker::step(cell& me, Expire& expire, Put&& put) noexcept {
  tracked* const t = me.take();
  if (t == nullptr) return end_job(me);
  if (me.needed(t)) return keep(me, t, put);
  me.gone.add(1);
  if (expire(t)) return;
  me.entered.add(1);
  keep(me, t, put);
}

template <class Put>
void range_tracker::keep(cell& me, tracked* t, Put& put) noexcept {
  me.kept.push(t);
  if (me.kept.count() >= batch()) put(me.kept.release());
}

inline void range_tracker::end_job(cell& me) noexcept {
  me.job = false;
  me.rest.write(me.kept.release());
}

/// All lists of a cell go there.
inline void range_tracker::give_up(cell& c, detail::version::list_queue& to) noexcept {
  to.push_all(c.fresh.release(), c.kept.release(), c.rest.read());
  c.rest.write(nullptr);
  while (c.sorts != 0) to.push(c.inputs[--c.sorts].read());
  c.job = false;
  c.lists_due = 0;
}

/// Of all cells that can be reached, the caller's first.
inline void range_tracker::give_up_all(cell& me, detail::version::list_queue& to) noexcept {
  give_up(me, to);
  cells_.for_each_occupied([&](std::uint32_t, cell& other) {
    if (&other != &me) other.gate.visit([&] { give_up(other, to); });
    return true;
  });
}

/// A list of an ended thread: with what others have left, into lists of B for the queue; what is
/// less is put aside. Only lists of about the same length are merged, so each version is merged
/// O(log B) times. Returns how many versions the list has.
inline std::uint64_t range_tracker::leave_behind(tracked* list) noexcept {
  const std::uint64_t b = batch();
  std::uint64_t of_the_list = 0;
  tracked* other = nullptr;
  for (bool first = true; list != nullptr; first = false) {
    tracked_list merged;
    while (list != nullptr || other != nullptr) {
      const bool from_list =
          other == nullptr || (list != nullptr && list->until.read() <= other->until.read());
      tracked*& from = from_list ? list : other;
      tracked* const t = from;
      from = t->next.read();
      merged.push(t);
      if (first) ++of_the_list;
      if (merged.count() >= b) queue_.push(merged.release());
    }
    if (merged.empty()) break;
    other = queue_.put_aside(merged.front(), merged.count());
    if (other == nullptr) break;
    list = merged.front();
  }
  return of_the_list;
}

template <class Look, class Expire, class Kept>
void range_tracker::collect(cell& me, Look&& look, Expire&& expire, Kept&& kept) noexcept {
  const presence here(me);
  if (me.busy) return;
  me.busy = true;
  give_up_all(me, queue_);
  look_around(me, look);
  const auto put = [&](tracked* some) {
    tell(some, kept);  // while they are ours
    queue_.push(some);
  };
  for (tracked* list = queue_.take_all(); list != nullptr;) {
    tracked* const later = list->next_list.read();  // before its versions may end
    me.examine(list);
    me.passed = 0;
    while (me.job) step(me, expire, put);
    list = later;
  }
  tell(me.rest.read(), kept);
  drop_many_times(me);
  me.busy = false;
}

template <class Look, class Expire, class Kept, class Enough>
void range_tracker::collect_some(cell& me, std::uint64_t& lists, Look&& look, Expire&& expire,
                                 Kept&& kept, Enough&& enough) noexcept {
  const presence here(me);
  if (me.busy) return;
  me.busy = true;
  detail::version::list_queue young;
  give_up_all(me, young);
  look_around(me, look);
  const auto put = [&](tracked* some) {
    tell(some, kept);
    queue_.push(some);
  };
  bool goes_on = true;
  // If it stops in the middle of a list, work() goes on with the rest, or this does.
  const auto look_at = [&](tracked* list) {
    constexpr unsigned steps_at_once = 256;
    me.examine(list);
    me.passed = 0;
    while (me.job && goes_on) {
      std::uint64_t n = 0;
      for (; n < steps_at_once && me.job; ++n) step(me, expire, put);
      goes_on = !enough(n);
    }
  };
  tracked* list = nullptr;
  while (goes_on && (list = young.take_one()) != nullptr) look_at(list);
  for (; goes_on && lists != 0; --lists) {
    list = queue_.take_one();
    if (list != nullptr) look_at(list);
  }
  while ((list = young.take_one()) != nullptr) queue_.push(list);
  tell(me.rest.read(), kept);
  if (me.job) me.next_work = 0;
  if (!me.job) drop_many_times(me);
  me.busy = false;
}

template <class F>
void range_tracker::abandon(F&& f) noexcept {
  stop_listening();  // so that no ending thread gives up its lists while we do
  cells_.for_each([&](std::uint32_t, cell& c) {
    give_up(c, queue_);
    return true;
  });
  for (tracked* list = queue_.take_all(); list != nullptr;) {
    tracked* t = list;
    list = list->next_list.read();
    while (t != nullptr) {
      tracked* const after = t->next.read();
      f(t);
      t = after;
    }
  }
}

inline std::uint64_t range_tracker::held() const noexcept {
  return held_at_once(
      cells_, [](const cell& c) { return c.entered.value(); },
      [](const cell& c) { return c.gone.value(); });
}

inline void range_tracker::thread_left(std::uint32_t n) noexcept {
  cell* const c = cells_.find(n);
  if (c == nullptr || !c->used.load_relaxed()) return;
  const presence here(*c);
  // What it has looked at, or was given after that, was needed a moment ago: no look is due for it.
  std::uint64_t unlooked = leave_behind(c->fresh.release());
  while (c->sorts != 0) unlooked += leave_behind(c->inputs[--c->sorts].read());
  leave_behind(c->kept.release());
  leave_behind(c->rest.read());
  c->rest.write(nullptr);
  c->job = false;
  unlooked += std::exchange(c->lists_due, 0U) / 2 * batch();
  c->ended_since = 0;
  c->next_work = 0;  // the next thread with this number asks at its first update
  unlooked_.fetch_add_relaxed(SPOLIA_FAULT("tracker.uncounted_end") ? 0 : unlooked);
  c->used.store_relaxed(false);
  cells_.vacate(n);
  ended_threads_.fetch_add_release(1);  // → the acquire in ended_threads()
}

inline void range_tracker::thread_lost(std::uint32_t n) noexcept {
  queue_.after_fork();
  const auto forget = [](cell& c) {
    c.fresh.forget();
    c.kept.forget();
    c.rest.write(nullptr);
    c.sorts = 0;
    c.job = false;
    c.lists_due = 0;
    c.busy = false;
  };
  if (cell* const c = cells_.find(n)) {
    forget(*c);
    c->gate.reset();
    c->used.store_relaxed(false);
  }
  // It may have been taking the lists of any thread, also of the one that is left.
  cells_.for_each([&](std::uint32_t, cell& other) {
    if (other.gate.evict()) forget(other);
    return true;
  });
}

}  // namespace spolia::inline SPOLIA_FLAVOUR
