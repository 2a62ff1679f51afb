// SPDX-License-Identifier: Apache-2.0
// domain_upkeep.hpp: what a domain does between operations, when threads end, and of its own.
// Included by domain.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include <spolia/reclaim/domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// The first use of a thread, or the first since it used another domain.
template <class Scheme, class Release>
auto domain<Scheme, Release>::find_my_cell() -> cell& {
  const std::uint32_t number = threads::number();
  cell& found = cells_.of(number);
  if (!found.used.load_relaxed()) {
    presence here(*this, found);  // its last owner's blocks may be under adoption
    found.release.meter.time_one_in = time_pauses_one_in_;
    found.watch.os_thread.set(threads::os_id());
    if constexpr (requires { scheme_.join(found.local, number, peers{*this}); }) {
      scheme_.join(found.local, number, peers{*this});
    }
    threads::watch_this_thread(*this);
    found.tick_at = 0;  // at once
    // What the number's last thread has counted stays: else threads that run few operations each
    // would never come to their chores.
    found.countdown = enough_is_left() ? 1 : (std::min)(found.countdown, pace_of_chores());
    found.retired_at_join = found.retired_blocks.value();
    found.used.store_relaxed(true);
  }
#if !defined(SPOLIA_MODEL)
  core::here.domain = serial_;
  core::here.cell = &found;
#endif
  return found;
}

/// Between two operations: let the scheme do its work, and now and then look after the others.
template <class Scheme, class Release>
void domain<Scheme, Release>::tick(cell& me) noexcept {
  if constexpr (cell::scheme_keeps_pace) --me.countdown;
  const bool chores = me.countdown == 0;
  if (chores) me.countdown = pace_of_chores();
  if (me.in_tick) return;
  const biased_gate::word said = me.gate.own();
  if constexpr (cell::scheme_has_pace) me.tick_at = said + scheme_.pace() * cell::one_guard;
  if constexpr (cell::scheme_gains_by_courtesy) {
    if (courtesy_.is_due(me.turn)) step_aside(me);
  }
  presence here(*this, me);
  me.in_tick = true;
  // Others may take over what waits here while the thread is not present.
  if constexpr (cell::scheme_has_pace) me.tick_at = said + pace_of(me.local) * cell::one_guard;
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
  free_when_due(me);
  me.in_tick = false;
  // Last: who is told may use the domain as anybody does between two operations, and drain it.
  if (budget_bytes_ != 0 && !me.telling && (chores || retired_much(me))) {
    me.telling = true;
    me.retired_at_look = me.retired_bytes.value();
    watch_budget();
    me.telling = false;
  }
}

/// Where a budget is watched, schemes that do not tick regularly are made to, every few dozen
/// operations: large blocks would pass it long before the usual chores.
template <class Scheme, class Release>
std::uint32_t domain<Scheme, Release>::pace_of_chores() const noexcept {
  if constexpr (cell::scheme_keeps_pace) return cell::chores_every;
  return budget_bytes_ == 0 ? cell::chores_every : cell::chores_every / 16;
}

/// Has this thread alone retired a good part of the budget since it looked last? So a look at all
/// threads is paid for by that many bytes.
template <class Scheme, class Release>
bool domain<Scheme, Release>::retired_much(const cell& me) const noexcept {
  return me.retired_bytes.value() - me.retired_at_look >= budget_bytes_ / 8;
}

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
    if (sums().garbage() == 0) return true;
  }
  return sums().garbage() == 0;
}

/// Of a thread that is outside of guards.
template <class Scheme, class Release>
void domain<Scheme, Release>::rest([[maybe_unused]] cell& me) noexcept {
  if constexpr (cell::scheme_parks) me.gate.leave_parked([&] { scheme_.park(me.local); });
}

/// Gives the processor away, and is parked meanwhile, so that no round has to ask for this thread.
template <class Scheme, class Release>
void domain<Scheme, Release>::step_aside(cell& me) noexcept {
  if (me.gate.own() % cell::one_guard == 0) {
    scheme_.step_aside(me.local, peers{*this});
    rest(me);
  }
  courtesy_.give(me.turn, threads::high_water());
}

/// One look at one other cell: the blocks of a thread that is gone, or has retired nothing
/// between two looks, are taken over, so that nothing waits for a thread that does not come back.
template <class Scheme, class Release>
void domain<Scheme, Release>::visit_next_neighbour(cell& me) noexcept {
  const std::uint32_t all = threads::high_water();
  const std::uint32_t n = next_visit_.load_relaxed();
  next_visit_.store_relaxed(n + 1 < all ? n + 1 : 0);  // a lost update: a cell is visited twice
  cell* const other = cells_.find(n);
  if (other == nullptr || other == &me) return;
  other->watch.look(other->guard_seen(), detail::pin_watch::now_ns(),
                    detail::sum_of(cells_).retired_bytes);
  if constexpr (cell::scheme_parks) park_if_idle(*other);
  const std::uint64_t inflow = other->inflow();
  const bool unchanged = other->inflow_seen.load_relaxed() == inflow;
  other->inflow_seen.store_relaxed(inflow);
  if (!unchanged || other->inflow_emptied.load_relaxed() == inflow) return;
  if (take_over(me, *other)) after_taking_over(me);
}

/// Threads that have ended had retired many blocks since what such threads leave was looked for.
/// That is counted for the domain: what is counted for a number comes to nothing where the thread
/// that has the number next does not use the domain.
template <class Scheme, class Release>
bool domain<Scheme, Release>::enough_is_left() const noexcept {
  constexpr std::uint64_t enough = 1024;
  return retired_by_ended_.value() - looked_through_at_.value() >= enough;
}

/// Takes over the blocks of threads that have ended, of a few at a time: each is a heavy fence.
template <class Scheme, class Release>
void domain<Scheme, Release>::take_over_what_is_left(cell& me) noexcept {
  const std::uint64_t before = looked_through_at_.value();
  looked_through_at_.set(retired_by_ended_.value());  // first: one thread will do
  int more = 16;
  cells_.for_each([&](std::uint32_t, cell& other) {
    const bool left =
        !other.used.load_relaxed() && other.inflow_emptied.load_relaxed() != other.inflow();
    if (left && take_over(me, other)) --more;
    return more != 0;
  });
  if (more == 0) looked_through_at_.set(before);  // there may be others
  after_taking_over(me);
  // What this thread retires itself would free as many others only, and it may end soon, too.
  release_.hasten(me.release, scheme_.waiting(me.local) + release_.backlog(me.release));
}

/// If the other thread has ended or is between two operations. Returns whether it was.
template <class Scheme, class Release>
bool domain<Scheme, Release>::take_over(cell& me, cell& other) noexcept {
  if (!other.gate.looks_idle() || barred_.load_relaxed()) return false;
  return other.gate.visit([&] { adopt(me, other); });
}
template <class Scheme, class Release>
void domain<Scheme, Release>::after_taking_over(cell& me) noexcept {
  if constexpr (requires { scheme_.adopted(me.local, peers{*this}, sink{*this, me}); }) {
    scheme_.adopted(me.local, peers{*this}, sink{*this, me});
  }
}

template <class Scheme, class Release>
void domain<Scheme, Release>::park_if_idle(cell& other) noexcept {
  if (other.gate.looks_idle() && scheme_.idle(other.local) && !barred_.load_relaxed()) {
    other.gate.park([&] { scheme_.park(other.local); });
  }
}

template <class Scheme, class Release>
void domain<Scheme, Release>::adopt_from_others(cell& me) noexcept {
  cells_.for_each([&](std::uint32_t, cell& other) {
    if (&other != &me) other.gate.insist([&] { adopt(me, other); });
    return true;
  });
}

/// Takes over the blocks of a thread that has ended or is between two operations: inside its gate.
template <class Scheme, class Release>
void domain<Scheme, Release>::adopt(cell& me, cell& other) noexcept {
  const std::size_t found = scheme_.waiting(other.local) + release_.backlog(other.release);
  scheme_.adopt(me.local, other.local);
  release_.adopt(me.release, other.release);
  me.adopted_blocks.add(found);
  other.inflow_emptied.store_relaxed(other.inflow());
}

/// Answers a barrier, which waits for this thread's blocks (outside.hpp): as if it had taken them.
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

template <class Scheme, class Release>
void domain<Scheme, Release>::collect(cell& me) noexcept {
  if (me.in_tick) return;
  me.in_tick = true;
  scheme_.collect(me.local, peers{*this}, sink{*this, me});
  me.in_tick = false;
}

template <class Scheme, class Release>
void domain<Scheme, Release>::thread_left(std::uint32_t n) noexcept {
  cell* const c = cells_.find(n);
  if (c == nullptr || !c->used.load_relaxed()) return;
  if (c->inside()) {
    misuse::report("a thread ended inside a guard", n);
    return;  // its protection stays: whatever it could see must not be freed
  }
  scheme_.exited(c->local, peers{*this});
  c->used.store_relaxed(false);
  retired_by_ended_.add(c->retired_blocks.value() - c->retired_at_join +
                        release_.unpaid(c->release));
}

template <class Scheme, class Release>
void domain<Scheme, Release>::thread_lost(std::uint32_t n) noexcept {
  barred_.store_relaxed(false);
  barriers_over_.store_relaxed(barriers_begun_.load_relaxed());
  if (cell* const c = cells_.find(n)) {
    forget(*c);
    c->nested = 0;
    c->in_tick = false;
    c->release.freeing = false;
    c->telling = false;
    c->gate.reset();
  }
  // It may have been moving the blocks of any cell, also of the one thread that is left.
  cells_.for_each([this](std::uint32_t, cell& other) {
    if (other.gate.evict()) forget(other);
    return true;
  });
}

template <class Scheme, class Release>
void domain<Scheme, Release>::forked() noexcept {
  if constexpr (requires { scheme_.forget_strangers(); }) scheme_.forget_strangers();
}

/// In a fork's child: the lists may be half-written. The thread, if there is one, joins anew.
template <class Scheme, class Release>
void domain<Scheme, Release>::forget(cell& c) noexcept {
  scheme_.forked(c.local, peers{*this});
  c.release.safe.forget();
  c.used.store_relaxed(false);
}

/// For the destructor: nobody looks any more, so everything is safe. Deleters may retire more.
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
  const auto all = detail::sum_of(cells_);
  domain_statistics sum;
  sum.freed = all.freed;
  sum.freed_bytes = all.freed_bytes;
  sum.retired = all.retired;
  sum.retired_bytes = all.retired_bytes;
  cells_.for_each([&](std::uint32_t, const cell& c) {
    sum.threads += c.used.load_relaxed() ? 1 : 0;
    sum.turns += c.turn.given.value();
    sum.pauses.merge(c.release.meter.pauses);
    return true;
  });
  sum.epochs = scheme_.epochs();
  return sum;
}

template <class Scheme, class Release>
std::vector<pin> domain<Scheme, Release>::pins() {
  std::vector<pin> found;
  const std::int64_t now = detail::pin_watch::now_ns();
  const std::uint64_t retired = detail::sum_of(cells_).retired_bytes;
  cells_.for_each([&](std::uint32_t n, cell& c) {
    if (c.watch.look(c.guard_seen(), now, retired)) {
      found.push_back(c.watch.describe(n, now, retired));
    }
    return true;
  });
  detail::oldest_first(found);
  return found;
}

/// Tells the user, once, when too much waits. Updates call it: so it asks for sums and not for
/// stats(), whose histogram takes 4 KiB of the stack.
template <class Scheme, class Release>
void domain<Scheme, Release>::watch_budget() noexcept {
  const auto now = sums();
  if (now.garbage_bytes() <= budget_bytes_) {
    if (now.garbage_bytes() <= budget_bytes_ / 2) over_.store_relaxed(false);
    return;
  }
  if (over_.exchange_relaxed(true)) return;
  struct over_budget said{budget_bytes_, now.garbage_bytes(), now.garbage(), {}};
  try {
    said.pins = pins();
  } catch (const std::bad_alloc&) {  // then without
  }
  over_budget_(said);
  // It may have drained the domain: then the next time is another one.
  if (sums().garbage_bytes() <= budget_bytes_ / 2) over_.store_relaxed(false);
}

}  // namespace spolia::inline SPOLIA_FLAVOUR
