// SPDX-License-Identifier: Apache-2.0
// domain_impl.hpp: how a domain and its guards work. Part of domain.hpp, which includes it.
//
// In the order of a block's life: the thread record; guards begin and end; a block is retired;
// between two operations the thread lets the scheme do its work (tick), which hands safe blocks to
// the release policy (sink); a step of freeing comes at the end of a guard. Then what a thread does
// for others: it takes over the blocks of idle and ended threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/biased_gate.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/passed.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/courtesy.hpp>
#include <spolia/reclaim/detail/domain_cell.hpp>
#include <spolia/reclaim/detail/pins.hpp>
#include <spolia/reclaim/detail/saturating.hpp>
#include <spolia/reclaim/detail/vacancy.hpp>
#include <spolia/reclaim/limbo.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
template <class Scheme, class Release>
struct domain<Scheme, Release>::peers {
  domain& of;
  template <class F>
  void for_each(F&& f) const {
    of.cells_.for_each_occupied([&](std::uint32_t n, cell& c) { return f(n, c.local); });
  }
  typename Scheme::local* find(std::uint32_t n) const noexcept {
    cell* const c = of.cells_.find(n);
    return c == nullptr ? nullptr : &c->local;
  }
  std::uint32_t high_water() const noexcept { return of.cells_.occupied_end(); }
  std::uint64_t existing() const noexcept { return of.sums().existing(); }
};

template <class Scheme, class Release>
struct domain<Scheme, Release>::sink {
  domain& of;
  cell& me;
  template <class Poll = decltype(detail::reclaim::no_poll)>
  void operator()(limbo& safe, Poll&& poll = Poll{}) const noexcept {
    of.release_.take(me.release, safe, std::forward<Poll>(poll));
    of.free_when_due(me);
  }
  /// How many more blocks the policy wants, if the scheme can choose.
  std::size_t wants() const noexcept { return of.release_.wants(me.release); }
};

// The calling thread's cell.

template <class Scheme, class Release>
inline auto domain<Scheme, Release>::my_cell() -> cell& {
#if !defined(SPOLIA_MODEL)
  if (core::here.domain == serial_) [[likely]]
    return *static_cast<cell*>(core::here.cell);
#endif
  return find_my_cell();
}

/// For a thread's first use of this domain, or its first since it used another one.
template <class Scheme, class Release>
auto domain<Scheme, Release>::find_my_cell() -> cell& {
  copy_.expect_own("a domain, or a map or a timeline that has one,");
  const std::uint32_t number = threads::number();
  cell& found = cells_.of(number);
  if (!found.used.load_relaxed()) {
    // First: when other threads learn of this thread, by its gate or by its first operation, they
    // also see that the cell is occupied.
    if (!SPOLIA_FAULT("domain.occupied_late")) cells_.occupy(number);
    presence here(*this, found);  // its last owner's blocks may be under adoption
    if (SPOLIA_FAULT("domain.occupied_late")) cells_.occupy(number);
    found.release.meter.time_one_in = time_pauses_one_in_;
    found.watch.os_thread.set(threads::os_id());
    if constexpr (requires { scheme_.join(found.local, number, peers{*this}); }) {
      scheme_.join(found.local, number, peers{*this});
    }
    threads::watch_this_thread(*this);
    found.tick_when(0);  // at once
    // The countdown of the number's last thread goes on: else threads that run few operations each
    // would never come to their chores.
    const std::uint32_t soon = enough_is_left() ? 1 : pace_of_chores();
    found.countdown = (std::min)(found.countdown, soon);
    found.chores_at =
        (std::min)(found.chores_at, (found.operations() + soon - 1) * cell::one_guard);
    found.inflow_at_join = found.inflow();
    if (watched_bytes_ != 0) found.press_at = (std::min)(found.press_at, watched_bytes_ / 8);
    found.used.store_relaxed(true);
  }
#if !defined(SPOLIA_MODEL)
  core::here.domain = serial_;
  core::here.cell = &found;
#endif
  return found;
}

// Blocks are made, and ended before any other thread has seen them.

template <class Scheme, class Release>
template <class T, class... Arguments>
inline T* domain<Scheme, Release>::make(Arguments&&... arguments) {
  static_assert(std::is_base_of_v<header, T>,
                "domain::make: T must derive from the domain's header");
  presence here(*this, my_cell());
  void* const place = release_.allocate(here.of.release, sizeof(T), alignof(T));
  try {
    T* const made = ::new (place) T(std::forward<Arguments>(arguments)...);
    // The header's stamp: T may have a member of that name.
    if constexpr (requires(header& h) { scheme_.born(here.of.local, h.stamp); }) {
      scheme_.born(here.of.local, static_cast<header&>(*made).stamp);
    }
    static_cast<header&>(*made).note_maker(serial_, sizeof(T));
    here.of.made.add(1);
    return made;
  } catch (...) {
    release_.deallocate(here.of.release, place, sizeof(T), alignof(T));
    throw;
  }
}

template <class Scheme, class Release>
template <class T>
inline void domain<Scheme, Release>::destroy(T* block) noexcept {
  if (block == nullptr) return;
  if (!expect_made<T>(*block)) return;
  if (SPOLIA_CHECKS && static_cast<const retired&>(*block).waiting()) {
    misuse::report("a block is destroyed that was retired: the domain ends it", threads::number());
    return;
  }
  static_cast<header&>(*block).ends();
  block->~T();
  cell* mine = nullptr;
  try {
    mine = &my_cell();
  } catch (const std::bad_alloc&) {  // a thread's first call: it goes on without a cell
  }
  if (mine == nullptr) return memory_.deallocate(block, sizeof(T), alignof(T));
  presence here(*this, *mine);
  mine->unmade.add(1);
  release_.deallocate(mine->release, block, sizeof(T), alignof(T));
}

// Guards begin and end.

template <class Scheme, class Release>
inline domain<Scheme, Release>::guard::guard(domain& d, cell& c) : domain_(&d), cell_(&c) {
  d.begin_guard(c);
  if constexpr (noexcept(d.scheme_.open(c.local))) {
    hold_ = d.scheme_.open(c.local);
  } else {
    try {
      hold_ = d.scheme_.open(c.local);
    } catch (...) {
      d.end_guard(c);
      throw;
    }
  }
}

template <class Scheme, class Release>
inline void domain<Scheme, Release>::guard::finish() noexcept {
  if (domain_ == nullptr) [[unlikely]]
    return;
  if (SPOLIA_CHECKS && &domain_->my_cell() != cell_) {
    misuse::report("a guard ends on another thread than it began on", threads::number());
    return;
  }
  domain_->scheme_.close(cell_->local, hold_);
  domain_->end_guard(*cell_);
}

template <class Scheme, class Release>
inline auto domain<Scheme, Release>::enter(const char* label) -> guard {
  cell& mine = my_cell();
  guard begun(*this, mine);
  if (mine.depth.is_outermost()) mine.watch.name(label, mine.guard_seen());
  return begun;
}

template <class Scheme, class Release>
inline void domain<Scheme, Release>::begin_guard(cell& c) noexcept {
  if (!c.inside()) [[likely]] {
    begin(c);
  } else {
    c.depth.begin_inner();
  }
}
template <class Scheme, class Release>
inline void domain<Scheme, Release>::end_guard(cell& c) noexcept {
  if (c.depth.is_outermost_and_plain()) [[likely]] {
    end(c);
  } else if (SPOLIA_FAULT("domain.inner_guard_frees") ? c.depth.freeing_is_due()
                                                      : c.depth.is_outermost_and_freeing()) {
    end_and_free(c);
  } else {
    c.depth.end_inner();
  }
}

/// The beginning of an outermost guard.
template <class Scheme, class Release>
inline void domain<Scheme, Release>::begin(cell& c) noexcept {
  if (wants_tick(c)) [[unlikely]]
    tick(c);
  scheme_.enter(c.local);
  // Its light fence also orders the scheme's announcement.
  come(c, cell::one_guard + cell::guard_alive);
}

template <class Scheme, class Release>
inline void domain<Scheme, Release>::come(cell& c, biased_gate::word more) noexcept {
  const biased_gate::arrival found = c.gate.come(more);
  if (found != biased_gate::arrival::plain) [[unlikely]]
    arrive(c, found);
}
/// For a thread that has found its gate changed. It has no guard, and does not count as online yet.
template <class Scheme, class Release>
void domain<Scheme, Release>::arrive(cell& c, biased_gate::arrival found) noexcept {
  if (found == biased_gate::arrival::asked) return hand_over(c);
  if constexpr (cell::scheme_parks) scheme_.unpark(c.local);
}

/// The end of an outermost guard.
template <class Scheme, class Release>
inline void domain<Scheme, Release>::end(cell& c) noexcept {
  scheme_.leave(c.local);
  if constexpr (cell::scheme_looks_back) {
    if (scheme_.looks_back(c.local) != 0) [[unlikely]]
      look_back(c);
  }
  c.gate.go(cell::guard_alive);
}
template <class Scheme, class Release>
void domain<Scheme, Release>::look_back([[maybe_unused]] cell& c) noexcept {
  if constexpr (cell::scheme_looks_back) scheme_.look_back(c.local);
}
/// The same where a step of freeing is due. That comes after the announcement was withdrawn, and
/// keeps the gate shut, also when a deleter begins and ends a guard of its own.
template <class Scheme, class Release>
void domain<Scheme, Release>::end_and_free(cell& c) noexcept {
  scheme_.leave(c.local);
  look_back(c);
  // Another reason to be present, since a deleter's guard is an outermost one.
  const bool absent = SPOLIA_FAULT("domain.absent_while_freeing");
  c.gate.go(cell::guard_alive - (absent ? 0 : cell::one_presence));
  free_some(c);
  c.gate.go(absent ? 0 : cell::one_presence);
}
/// A step of freeing, by a thread that is present.
template <class Scheme, class Release>
inline void domain<Scheme, Release>::free_some(cell& c) noexcept {
  c.depth.begin_freeing();
  if (c.pressing > c.press_at) press(c);
  if (release_.is_due(c.release) || std::exchange(c.step_due, false)) release_.step(c.release);
  free_when_due(c);
}
template <class Scheme, class Release>
inline void domain<Scheme, Release>::free_when_due(cell& c) noexcept {
  if ((release_.is_due(c.release) || c.pressing > c.press_at || c.step_due) &&
      !SPOLIA_FAULT("domain.free_bit_lost")) {
    c.depth.set_freeing_due();
  }
}

// Blocks are retired.

template <class Scheme, class Release>
template <class T>
struct domain<Scheme, Release>::guard::disposers {
  // By references: a cast of a pointer would check it for null.
  static T* object(retired* r) noexcept {
    return std::addressof(static_cast<T&>(static_cast<header&>(*r)));
  }
  static const void* address(const retired* r) noexcept {
    return static_cast<const T*>(static_cast<const header*>(r));
  }
  static void* destroy(retired* r) noexcept {
    T* const t = object(r);
    static_cast<header&>(*r).ends();
    t->~T();
    return t;
  }
  template <class Deleter>
  static void dispose_with(retired* r) noexcept {
    Deleter{}(object(r));
  }
  SPOLIA_OWN_COPY static constexpr disposer made{nullptr, &address, &destroy, sizeof(T),
                                                 alignof(T)};
  template <class Deleter>
  struct deleted_by {
    SPOLIA_OWN_COPY static constexpr disposer how{&dispose_with<Deleter>, &address, nullptr,
                                                  sizeof(T), alignof(T)};
  };
};

template <class Scheme, class Release>
template <class T, class Deleter>
struct domain<Scheme, Release>::guard::boxed : header {
  boxed(T* o, Deleter d) : object(o), deleter(std::move(d)) {}

  static void* destroy(retired* r) noexcept {
    boxed& self = static_cast<boxed&>(static_cast<header&>(*r));
    self.deleter(self.object);
    self.~boxed();
    return &self;
  }
  static const void* address(const retired* r) noexcept {
    return static_cast<const boxed*>(static_cast<const header*>(r))->object;
  }
  SPOLIA_OWN_COPY static constexpr disposer how{nullptr,       &address,       &destroy,
                                                sizeof(boxed), alignof(boxed), sizeof(T)};

  T* object;
  [[no_unique_address]] Deleter deleter;
};

/// Notes for the garbage bound whether the block was made by make().
template <class Scheme, class Release>
inline void domain<Scheme, Release>::note_origin([[maybe_unused]] const header& block) noexcept {
  if constexpr (requires { Scheme::unborn(block.stamp); }) {
    if (Scheme::unborn(block.stamp) && !unborn_.value()) unborn_.set(true);
  }
}

template <class Scheme, class Release>
inline void domain<Scheme, Release>::retire(cell& me, retired* block) noexcept {
  if (SPOLIA_CHECKS && block->waiting()) {
    misuse::report("a block was retired twice", threads::number());
    return;
  }
  if (release_.owe(me.release)) me.depth.set_freeing_due();
  me.retired_blocks.add(1);
  me.retired_bytes.add(block->plain_bytes());
  // light → the heavy fence in be_silent(): either that thread finds the block counted, or we find
  // the alarm silent.
  if constexpr (detail::reclaim::keeps_time) {
    fence::light();
    if (alarm_.load_relaxed() == silent) [[unlikely]]
      set_alarm(me);
  }
  if (block->weighed()) [[unlikely]]
    retire_weighed(me, *block);
  scheme_.retire(me.local, block, peers{*this}, sink{*this, me});
  if constexpr (cell::scheme_has_room) {
    if (me.retired_blocks.value() >= me.tick_when_retired) [[unlikely]]
      me.tick_when(0);  // at once, when the operation is over
  }
}

// Bytes and time make a domain look for safe blocks, too. Schemes count blocks and operations, but
// few blocks may have much memory, and few operations may take long.

/// Counts what the block owns. Twice as much is to be freed, so that garbage soon becomes less.
template <class Scheme, class Release>
void domain<Scheme, Release>::retire_weighed(cell& me, const retired& block) noexcept {
  me.retired_bytes.add(block.bytes_said());
  if (!block.heavy()) return;
  me.pressing += block.holds_bytes();
  release_.owe_further(me.release, 2 * block.further_blocks());
  free_when_due(me);
}

/// Finds the blocks that are safe by now. Between operations, by a thread that is present.
template <class Scheme, class Release>
void domain<Scheme, Release>::press(cell& me) noexcept {
  if (me.in_tick || me.release.freeing || me.inside()) return;
  me.pressing = 0;
  collect(me);
  courtesy_.give_way_while(me.turn, [&] { return is_held_up(me); }, [&] { collect(me); });
  me.press_at = press_after(me);
  release_.step(me.release);
  look_at_budget(me);
}
template <class Scheme, class Release>
std::uint64_t domain<Scheme, Release>::press_after(const cell& me) const noexcept {
  std::uint64_t few = cell::press_bytes;
  if (watched_bytes_ != 0) few = (std::min)(few, watched_bytes_ / 8);
  // Schemes may look at each block that waits: so the next call comes after so many bytes for each.
  constexpr std::uint64_t bytes_a_look = 64;
  return (std::max)(few, bytes_a_look * scheme_.waiting(me.local));
}

// Time. While any block waits, ticks read the clock: every operation of a slow thread, and every
// 256th of a fast one. When half of the time allowed has passed, each thread looks for its own
// blocks that have waited so long, and one thread for those that others have left. While no block
// waits, no thread reads the clock. The first block after that sets the alarm, and makes all
// threads tick once.

template <class Scheme, class Release>
void domain<Scheme, Release>::set_alarm(cell& me) noexcept {
  std::int64_t none = silent;
  const std::int64_t alarm = detail::reclaim::pin_watch::now_ns() + within_ / 4;
  if (!alarm_.cas_strong_relaxed(none, alarm)) return;
  me.old_at = alarm;  // only this one block waits here
  cells_.for_each_occupied([](std::uint32_t, cell& each) {
    each.wake();
    return true;
  });
}

template <class Scheme, class Release>
void domain<Scheme, Release>::look_at_time(cell& me) noexcept {
  constexpr std::uint32_t most = 256;
  std::int64_t alarm = alarm_.load_relaxed();
  if (alarm == silent || alarm == never) return;
  const std::int64_t now = detail::reclaim::pin_watch::now_ns();
  me.stride = now - me.looked_at > within_ / 16 ? 1 : (std::min)(me.stride * 2, most);
  me.looked_at = now;
  if (is_over(now, alarm, within_) && alarm_.cas_strong_relaxed(alarm, now + within_ / 4)) {
    free_left(me);
    be_silent(now + within_ / 4);
  }
  if (me.old_at == 0) me.old_at = now + within_ / 4;  // nothing can have waited here before
  if (is_over(now, me.old_at, within_)) free_old(me, now);
  const biased_gate::word soon = me.gate.own() + me.stride * cell::one_guard;
  if (soon < me.tick_at.load_relaxed()) me.tick_at.store_relaxed(soon);
  if constexpr (!cell::scheme_keeps_pace) me.countdown = (std::min)(me.countdown, me.stride);
}

/// Makes the blocks that wait here go, also those of other threads, unless as many were freed since
/// the last look: lists are freed nearly by age. One operation frees only a thousand blocks, or a
/// heavy one, so the next ones look again until all that was found is gone.
template <class Scheme, class Release>
void domain<Scheme, Release>::free_old(cell& me, std::int64_t now) noexcept {
  constexpr std::size_t at_once = 1024;
  const std::uint64_t freed = me.release.meter.freed.value() - me.freed_then;
  const auto safe = [&] { return release_.backlog(me.release); };
  const bool goes_on = me.old_left != 0;
  const bool old = goes_on || scheme_.waiting(me.local) + safe() > freed;
  if (old && !goes_on && scheme_.waiting(me.local) != 0) collect(me);
  const std::uint64_t found = goes_on ? me.old_left - (std::min<std::uint64_t>)(me.old_left, freed)
                              : old   ? safe()
                                      : 0;
  me.old_left = (std::min<std::size_t>)(found, safe());
  release_.owe_further(me.release, (std::min)(me.old_left, at_once));
  me.step_due = me.step_due || me.old_left != 0;
  me.freed_then = me.release.meter.freed.value();
  if (me.old_left != 0) me.stride = 1;
  // If threads are inside guards, not all epochs end at once: so look again soon.
  const bool again = old && scheme_.waiting(me.local) != 0;
  me.old_at = now + (me.old_left != 0 ? 0 : again ? within_ / 16 : within_ / 4);
}

/// Takes over the blocks of threads that have ended, or have retired nothing since the last alarm.
template <class Scheme, class Release>
void domain<Scheme, Release>::free_left(cell& me) noexcept {
  bool taken = false;
  cells_.for_each_occupied([&](std::uint32_t n, cell& other) {
    if (&other == &me) return true;
    const std::uint64_t inflow = other.inflow();
    const bool unchanged = other.inflow_then.load_relaxed() == inflow;
    other.inflow_then.store_relaxed(inflow);
    if (unchanged && other.inflow_emptied.load_relaxed() != inflow && take_over(me, n, other)) {
      taken = true;
    }
    other.wake();
    return true;
  });
  if (!taken) return;
  me.in_tick = true;  // deleters may run, as in collect()
  hasten_what_was_taken_over(me);
  me.in_tick = false;
  me.freed_then = me.release.meter.freed.value();
  me.old_at = 1;  // long ago
}

/// Silences the alarm if no block waits any more: then no thread has to read the clock.
template <class Scheme, class Release>
void domain<Scheme, Release>::be_silent(std::int64_t alarm) noexcept {
  if (sums().garbage() != 0) return;
  std::int64_t there = alarm;
  if (!alarm_.cas_strong_relaxed(there, silent)) return;
  // heavy → the light fence in retire(): either we find a block counted, or its thread finds the
  // alarm silent.
  fence::heavy();
  if (sums().garbage() == 0) return;
  there = silent;
  alarm_.cas_strong_relaxed(there, alarm);
}

// Between operations.

template <class Scheme, class Release>
inline bool domain<Scheme, Release>::wants_tick(cell& c) noexcept {
  const bool due = c.gate.own() >= c.tick_at.load_relaxed();
  if constexpr (cell::scheme_has_pace) {
    return due;
  } else {
    return scheme_.due(c.local) || due;
  }
}

/// Lets the scheme do its work, and now and then looks after other threads.
template <class Scheme, class Release>
void domain<Scheme, Release>::tick(cell& me) noexcept {
  const biased_gate::word said = me.gate.own();
  if constexpr (cell::scheme_has_pace) {
    if (said < me.paced_at) return tick_for_time(me);
  }
  if constexpr (cell::scheme_keeps_pace) --me.countdown;
  bool chores = me.countdown == 0;
  if constexpr (!cell::scheme_keeps_pace) chores = chores || said >= me.chores_at;
  if (chores) {
    me.countdown = pace_of_chores();
    me.chores_at = said + me.countdown * cell::one_guard;
  }
  if (me.in_tick) return;
  me.tick_when(next_tick(me, said));
  if constexpr (cell::scheme_gains_by_courtesy) {
    if (courtesy_.is_due(me.turn)) step_aside(me);
  }
  presence here(*this, me);
  me.in_tick = true;
  // Others may take over what waits here while the thread is not present.
  if constexpr (cell::scheme_has_pace) {
    me.tick_when(said + pace_of(me.local) * cell::one_guard);
  }
  scheme_.tick(me.local, peers{*this}, sink{*this, me});
  if (chores) {
    visit_next_neighbour(me);
    if (enough_is_left()) take_over_what_is_left(me);
    if constexpr (cell::scheme_gains_by_courtesy) {
      courtesy_.watch(me.turn, scheme_.epochs(), scheme_.waiting(me.local));
    }
  }
  if constexpr (cell::scheme_has_room) {
    me.tick_when_retired = me.retired_blocks.value() + scheme_.room(me.local);
  }
  release_.remind(me.release, me.operations());
  me.in_tick = false;
  look_at_time(me);
  free_when_due(me);
  // Last: the user's function may use the domain, as between any two operations, and drain it.
  if (watched_bytes_ != 0 && (chores || retired_much(me))) look_at_budget(me);
}
/// A tick that is due only to read the clock. The scheme's own ticks keep its pace: otherwise
/// tokens, say, would go round as often while few blocks wait as while many do.
template <class Scheme, class Release>
void domain<Scheme, Release>::tick_for_time(cell& me) noexcept {
  if (me.in_tick) return;
  me.tick_at.store_relaxed(me.paced_at);
  presence here(*this, me);
  look_at_time(me);
  free_when_due(me);
}

template <class Scheme, class Release>
void domain<Scheme, Release>::look_at_budget(cell& me) noexcept {
  if (watched_bytes_ == 0 || me.telling) return;
  me.telling = true;
  me.retired_at_look = me.retired_bytes.value();
  watch_budget();
  me.telling = false;
}

/// The word at the gate with which the next tick is due, as far as is known at a tick's beginning.
template <class Scheme, class Release>
inline biased_gate::word domain<Scheme, Release>::next_tick(const cell& me,
                                                            biased_gate::word said) const noexcept {
  if constexpr (cell::scheme_has_pace) {
    return said + scheme_.pace() * cell::one_guard;
  } else if constexpr (cell::scheme_keeps_pace) {
    return ~biased_gate::word{0};  // the scheme says when it is due
  } else {
    return me.chores_at;
  }
}

template <class Scheme, class Release>
inline std::uint32_t domain<Scheme, Release>::pace_of(const typename Scheme::local& me) noexcept {
  // With a budget, which ticks check, not less often: few blocks may be large.
  if constexpr (requires { scheme_.pace_of(me); }) {
    if (watched_bytes_ == 0) return scheme_.pace_of(me);
  }
  return scheme_.pace();
}

/// Whether this thread alone has retired an eighth of the budget since its last check: so many
/// bytes are worth a sum over all threads.
template <class Scheme, class Release>
bool domain<Scheme, Release>::retired_much(const cell& me) const noexcept {
  return me.retired_bytes.value() - me.retired_at_look >= watched_bytes_ / 8;
}

template <class Scheme, class Release>
void domain<Scheme, Release>::collect(cell& me) noexcept {
  if (me.in_tick) return;
  me.in_tick = true;
  scheme_.collect(me.local, peers{*this}, sink{*this, me});
  me.in_tick = false;
}

template <class Scheme, class Release>
inline void domain<Scheme, Release>::rest() {
  cell& me = my_cell();
  if (me.gate.own() % cell::one_guard == 0) rest(me);
}
/// For a thread that is outside of guards.
template <class Scheme, class Release>
void domain<Scheme, Release>::rest([[maybe_unused]] cell& me) noexcept {
  if constexpr (cell::scheme_parks) me.gate.leave_parked([&] { scheme_.park(me.local); });
}

/// Gives the processor away. The thread is parked meanwhile, so that no round waits for it.
template <class Scheme, class Release>
void domain<Scheme, Release>::step_aside(cell& me) noexcept {
  if (me.gate.own() % cell::one_guard == 0) {
    scheme_.step_aside(me.local, peers{*this});
    rest(me);
  }
  courtesy_.give(me.turn, cells_.occupied_end());
}

/// Calls the user's function, once, when too much waits. It uses sums() and not stats(), since
/// updates call it, and the histogram of stats() takes 4 KiB of the stack.
template <class Scheme, class Release>
void domain<Scheme, Release>::watch_budget() noexcept {
  const auto now = sums();
  if (shared_ != nullptr) shared_->look(*this, now.garbage_bytes());
  if (budget_bytes_ == 0) return;
  if (now.garbage_bytes() <= budget_bytes_) {
    if (now.garbage_bytes() <= budget_bytes_ / 2) over_.store_relaxed(false);
    return;
  }
  if (over_.exchange_relaxed(true)) return;
  struct over_budget said{budget_bytes_, now.garbage_bytes(), now.garbage(), {}};
  try {
    said.pins = detail::reclaim::pins_of(cells_, true);
  } catch (const std::bad_alloc&) {  // without pins, then
  }
  over_budget_(said);
  // The function may have drained the domain: then it is to be called again the next time.
  if (sums().garbage_bytes() <= budget_bytes_ / 2) over_.store_relaxed(false);
}

// Blocks of other threads.

template <class Scheme, class Release>
bool domain<Scheme, Release>::drain(int rounds) {
  cell& me = my_cell();
  if (me.inside()) {
    misuse::report("drain inside a guard", threads::number());
    return false;
  }
  presence here(*this, me);
  for (int round = 0; round < rounds; ++round) {
    adopt_from_others(me);
    collect(me);
    release_.drain(me.release);
    if (sums().garbage() == 0) break;
  }
  const auto left = sums();
  if (shared_ != nullptr) shared_->say(*this, left.garbage_bytes());
  return left.garbage() == 0;
}

/// Looks at one other cell. Takes over the blocks of its thread if that has ended, or has retired
/// nothing between two looks: so no block waits for a thread that does not come back.
template <class Scheme, class Release>
void domain<Scheme, Release>::visit_next_neighbour(cell& me) noexcept {
  const std::uint32_t all = cells_.occupied_end();
  const std::uint32_t n = next_visit_.load_relaxed();
  next_visit_.store_relaxed(n + 1 < all ? n + 1 : 0);  // a lost update: a cell is visited twice
  cell* const other = cells_.find(n);
  if (other == nullptr || other == &me || !cells_.is_occupied(n)) return;
  detail::reclaim::watch_guard(cells_, *other);
  if constexpr (cell::scheme_parks) park_if_idle(*other);
  const std::uint64_t inflow = other->inflow();
  const bool unchanged = other->inflow_seen.load_relaxed() == inflow;
  other->inflow_seen.store_relaxed(inflow);
  if (other->inflow_emptied.load_relaxed() == inflow) return leave_vacant(n, *other);
  if (unchanged && take_over(me, n, *other)) hasten_what_was_taken_over(me);
}

/// Takes over the blocks of threads that have ended, a few at a time: each may cost a heavy fence.
template <class Scheme, class Release>
void domain<Scheme, Release>::take_over_what_is_left(cell& me) noexcept {
  const std::uint64_t before = looked_through_at_.value();
  looked_through_at_.set(taken_in_by_ended_.value());  // first: one thread will do
  int more = 16;
  cells_.for_each_occupied([&](std::uint32_t n, cell& other) {
    const bool left =
        !other.used.load_relaxed() && other.inflow_emptied.load_relaxed() != other.inflow();
    if (left && take_over(me, n, other)) --more;
    return more != 0;
  });
  if (more == 0) looked_through_at_.set(before);  // there may be others
  hasten_what_was_taken_over(me);
}
/// The scheme looks for what is safe of it, and the next operations free that, some at a time: what
/// this thread retires itself would free as many others only, and it may retire nothing, and may
/// end soon, too.
template <class Scheme, class Release>
void domain<Scheme, Release>::hasten_what_was_taken_over(cell& me) noexcept {
  if constexpr (requires { scheme_.adopted(me.local, peers{*this}, sink{*this, me}); }) {
    scheme_.adopted(me.local, peers{*this}, sink{*this, me});
  }
  release_.hasten(me.release, scheme_.waiting(me.local) + release_.backlog(me.release));
}

/// Takes over the other thread's blocks if it has ended or is between two operations. True: it was.
template <class Scheme, class Release>
bool domain<Scheme, Release>::take_over(cell& me, std::uint32_t n, cell& other) noexcept {
  if (!other.gate.looks_idle() || barred_.load_relaxed()) return false;
  if (!other.gate.visit([&] { adopt(me, other); })) return false;
  leave_vacant(n, other);
  return true;
}
template <class Scheme, class Release>
void domain<Scheme, Release>::park_if_idle(cell& other) noexcept {
  if (other.gate.looks_idle() && scheme_.idle(other.local) && !barred_.load_relaxed()) {
    other.gate.park([&] { scheme_.park(other.local); });
  }
}

template <class Scheme, class Release>
void domain<Scheme, Release>::adopt_from_others(cell& me) noexcept {
  cells_.for_each_occupied([&](std::uint32_t n, cell& other) {
    if (&other != &me && other.gate.insist([&] { adopt(me, other); })) leave_vacant(n, other);
    return true;
  });
}

template <class Scheme, class Release>
inline void domain<Scheme, Release>::leave_vacant(std::uint32_t n, cell& other) noexcept {
  detail::reclaim::leave_vacant(cells_, n, other, scheme_, barred_.load_relaxed());
}

/// The same, while the caller visits the other thread's gate.
template <class Scheme, class Release>
void domain<Scheme, Release>::adopt(cell& me, cell& other) noexcept {
  const std::size_t found = scheme_.waiting(other.local) + release_.backlog(other.release);
  scheme_.adopt(me.local, other.local);
  release_.adopt(me.release, other.release);
  me.adopted_blocks.add(found);
  me.pressing += std::exchange(other.pressing, 0);
  other.inflow_emptied.store_relaxed(other.inflow());
}

/// Answers a barrier (src/reclaim/outside.hpp) that waits for this thread's blocks, as if the
/// barrier had taken them over.
template <class Scheme, class Release>
void domain<Scheme, Release>::hand_over([[maybe_unused]] cell& me) noexcept {
  if constexpr (requires { scheme_.hand_over(me.local, me.release.safe); }) {
    if (!SPOLIA_FAULT("outside.nothing_handed_over")) {
      scheme_.hand_over(me.local, me.release.safe);
    }
    me.inflow_emptied.store_relaxed(me.inflow());
  }
  me.gate.answered();
}

// How threads end, and the domain.

template <class Scheme, class Release>
void domain<Scheme, Release>::thread_left(std::uint32_t n) noexcept {
  cell* const c = cells_.find(n);
  if (c == nullptr || !c->used.load_relaxed()) return;
  if (c->inside()) {
    c->watch.thread_ends();
    c->watch.report_left("a thread ended inside a guard", c->guard_seen(), n);
    return;  // its protection stays: whatever it could see must not be freed
  }
  scheme_.exited(c->local, peers{*this});
  c->used.store_relaxed(false);
  taken_in_by_ended_.add(c->inflow() - c->inflow_at_join + release_.unpaid(c->release));
  // If its last guard has ended on another thread, only a visitor of its gate knows when.
  if (cells_are_occupied() && threads::is_this(n)) {
    detail::reclaim::leave_own_vacant(cells_, n, *c, scheme_, release_);
  }
}

/// Whether the cell stays with an ended thread because a guard of it is still alive. Guards of the
/// number's next thread would be inner ones there, and blocks would wait for the outermost to end.
template <class Scheme, class Release>
bool domain<Scheme, Release>::keeps(std::uint32_t n) noexcept {
  cell* const c = cells_.find(n);
  if (c == nullptr || !c->watch.ended.value()) return false;
  if (c->inside()) return true;
  c->watch.ended.set(false);  // the guard has ended after its thread, on another one
  thread_left(n);
  return false;
}

template <class Scheme, class Release>
void domain<Scheme, Release>::thread_lost(std::uint32_t n) noexcept {
  barred_.store_relaxed(false);
  barriers_over_.store_relaxed(barriers_begun_.load_relaxed());
  lost_.thread_lost<Scheme>(cells_, n, [this](cell& c) {
    scheme_.forked(c.local, peers{*this});
    if (c.used.load_relaxed()) {
      taken_in_by_ended_.add(c.inflow() - c.inflow_at_join);
    }
  });
}

/// In a fork's child, after thread_lost() of all lost threads: begins to watch anew.
template <class Scheme, class Release>
void domain<Scheme, Release>::losses_told() noexcept {
  lost_.settle(cells_, scheme_);
  over_.store_relaxed(false);
  // A lost thread may have been about to set the alarm, or to silence it.
  if (alarm_.load_relaxed() != never) {
    alarm_.store_relaxed(detail::reclaim::pin_watch::now_ns() + within_ / 4);
  }
  cells_.for_each([](std::uint32_t n, cell& c) {
    if (threads::is_this(n)) c.watch.os_thread.set(threads::os_id());
    c.wake();
    return true;
  });
}

template <class Scheme, class Release>
inline domain<Scheme, Release>::~domain() {
  threads::unlisten(*this);
  if (shared_ != nullptr) shared_->leave(*this);
  cells_.for_each([](std::uint32_t n, cell& c) {
    if (c.inside()) c.watch.report_left("a guard outlives its domain", c.guard_seen(), n);
    return true;
  });
  release_everything();
}

/// For the destructor: no thread reads any more, so everything is safe. Deleters may retire more.
template <class Scheme, class Release>
void domain<Scheme, Release>::release_everything() {
  for (bool more = true; more;) {
    more = false;
    cells_.for_each([&](std::uint32_t, cell& c) {
      limbo all;
      scheme_.abandon(c.local, all);
      c.release.safe.append(all);
      more = more || !c.release.safe.empty();
      release_.drain(c.release);
      return true;
    });
  }
}

template <class Scheme, class Release>
domain_statistics domain<Scheme, Release>::stats() const {
  return detail::reclaim::statistics_of(cells_, sums(), scheme_.epochs());
}

template <class Scheme, class Release>
inline detail::reclaim::cell_sums domain<Scheme, Release>::sums() const noexcept {
  return lost_.taken_from(detail::reclaim::sum_of(cells_));
}
template <class Scheme, class Release>
inline std::uint64_t domain<Scheme, Release>::garbage() const noexcept {
  const std::uint64_t held = held_at_once(
      cells_, [](const cell& c) { return c.retired_blocks.value(); },
      [](const cell& c) { return c.release.meter.freed.value(); });
  return detail::reclaim::rest_of(held, lost_.blocks());
}

template <class Scheme, class Release>
inline std::optional<std::uint64_t> domain<Scheme, Release>::garbage_bound(
    std::size_t threads) const {
  std::optional<std::uint64_t> waiting;
  if constexpr (requires { scheme_.bound(threads, garbage()); }) {
    waiting = scheme_.bound(threads, garbage());
  } else {
    waiting = scheme_.bound(threads);
  }
  if (!waiting || unborn_.value()) return std::nullopt;
  return detail::reclaim::saturating_sum(
      *waiting, detail::reclaim::saturating_product(threads, release_.holds_back()));
}

template <class Scheme, class Release>
std::vector<pin> domain<Scheme, Release>::pins() {
  return detail::reclaim::pins_of(cells_, false);
}

}  // namespace spolia::inline SPOLIA_FLAVOUR
