// SPDX-License-Identifier: Apache-2.0
// domain_pace.hpp: what makes a domain look for what is safe besides the pace of its scheme: how
// many bytes were retired, and how long they have waited. Part of domain.hpp, which includes it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/biased_gate.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/reclaim/detail/domain_cell.hpp>
#include <spolia/reclaim/detail/pins.hpp>
#include <spolia/reclaim/limbo.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

// Bytes and time make a domain look for what is safe, too. The schemes go by blocks and operations:
// few blocks may be much memory, and few operations may take long.

/// What the block owns counts, too. Twice as much is freed as is retired: so what a thread that was
/// interrupted has held up is soon gone when it goes on.
template <class Scheme, class Release>
void domain<Scheme, Release>::retire_weighed(cell& me, const retired& block) noexcept {
  me.retired_bytes.add(block.bytes_said());
  if (!block.heavy()) return;
  me.pressing += block.holds_bytes();
  release_.owe_further(me.release, 2 * block.further_blocks());
  free_when_due(me);
}

/// Between operations: finds what is safe by now. Of a thread that is present and outside of
/// guards.
template <class Scheme, class Release>
void domain<Scheme, Release>::press(cell& me) noexcept {
  if (me.in_tick || me.release.freeing || me.inside()) return;
  me.pressing = 0;
  collect(me);
  give_way_to_holders(me);
  me.press_at = press_after(me);
  release_.step(me.release);
  look_at_budget(me);
}

/// Much waits that no epoch makes safe: mostly since a thread was interrupted inside of a guard, or
/// while it ended an epoch, and waits for a processor. So this one gives its own away. A thread
/// that sleeps inside of a guard is not helped by that: the less often it is tried.
template <class Scheme, class Release>
void domain<Scheme, Release>::give_way_to_holders(cell& me) noexcept {
  constexpr std::uint32_t most_turns = 8;
  std::uint32_t turns = most_turns >> me.futile;
  for (; turns != 0 && is_held_up(me); --turns) {
    if (!courtesy_.give_way()) return;
    collect(me);
  }
  me.futile = is_held_up(me) ? (std::min)(me.futile + 1, 4U) : 0;
}
template <class Scheme, class Release>
bool domain<Scheme, Release>::is_held_up(const cell& me) const noexcept {
  constexpr std::uint64_t much = 4 * cell::press_bytes;
  return scheme_.waiting(me.local) != 0 && sums().garbage_bytes() >= much;
}
template <class Scheme, class Release>
std::uint64_t domain<Scheme, Release>::press_after(const cell& me) const noexcept {
  std::uint64_t few = cell::press_bytes;
  if (budget_bytes_ != 0) few = (std::min)(few, budget_bytes_ / 8);
  // Schemes may look at each block that waits: so much is retired for each such look.
  constexpr std::uint64_t bytes_a_look = 64;
  return (std::max)(few, bytes_a_look * scheme_.waiting(me.local));
}

// Time passes. Ticks ask for the time while anything waits: every operation of a slow thread, and
// every 256th of a fast one. What has waited for half of the time allowed is then looked for: by
// each thread with what is its own, and by one of them with what the others have left. The first
// block after a while in which nothing waited sets the alarm and makes all threads tick once, for a
// thread that finds nothing waiting does not ask for the time.

template <class Scheme, class Release>
void domain<Scheme, Release>::set_alarm(cell& me) noexcept {
  std::int64_t none = silent;
  const std::int64_t alarm = detail::reclaim::pin_watch::now_ns() + within_ / 4;
  if (!alarm_.cas_strong_relaxed(none, alarm)) return;
  me.old_at = alarm;  // what waits here is this one block
  me.wake();
  cells_.for_each([](std::uint32_t, cell& other) {
    other.wake();
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
  if (now >= alarm && alarm_.cas_strong_relaxed(alarm, now + within_ / 4)) {
    free_left(me);
    be_silent(now + within_ / 4);
  }
  if (me.old_at == 0) me.old_at = now + within_ / 4;  // nothing can have waited here before
  if (now >= me.old_at) free_old(me, now);
  const biased_gate::word soon = me.gate.own() + me.stride * cell::one_guard;
  if (soon < me.tick_at.load_relaxed()) me.tick_at.store_relaxed(soon);
  if constexpr (!cell::scheme_keeps_pace) me.countdown = (std::min)(me.countdown, me.stride);
}

/// What waits here (also what other threads have passed on) is to go, unless as much has gone since
/// the last look: lists go by age, nearly. No operation frees much, a thousand blocks or a heavy
/// one: so the next ones look again until all that was found is gone.
template <class Scheme, class Release>
void domain<Scheme, Release>::free_old(cell& me, std::int64_t now) noexcept {
  constexpr std::size_t at_once = 1024;
  const std::uint64_t freed = me.release.meter.freed.value() - me.freed_then;
  const auto safe = [&] { return release_.backlog(me.release); };
  const bool goes_on = me.old_left != 0;
  const bool old = goes_on || scheme_.waiting(me.local) + safe() > freed;
  if (goes_on) {
    me.old_left = (std::min)(me.old_left - (std::min<std::size_t>)(me.old_left, freed), safe());
  } else if (old) {
    if (scheme_.waiting(me.local) != 0) collect(me);
    me.old_left = safe();
  }
  release_.owe_further(me.release, (std::min)(me.old_left, at_once));
  me.step_due = me.step_due || me.old_left != 0;
  me.freed_then = me.release.meter.freed.value();
  if (me.old_left != 0) me.stride = 1;
  // Not all epochs end at once, if threads are inside of them.
  const bool again = old && scheme_.waiting(me.local) != 0;
  me.old_at = now + (me.old_left != 0 ? 0 : again ? within_ / 16 : within_ / 4);
}

/// What threads have left that have ended, or have retired nothing since the last alarm.
template <class Scheme, class Release>
void domain<Scheme, Release>::free_left(cell& me) noexcept {
  bool taken = false;
  cells_.for_each([&](std::uint32_t, cell& other) {
    if (&other == &me) return true;
    const std::uint64_t inflow = other.inflow();
    const bool unchanged = other.inflow_then.load_relaxed() == inflow;
    other.inflow_then.store_relaxed(inflow);
    if (unchanged && other.inflow_emptied.load_relaxed() != inflow && take_over(me, other)) {
      taken = true;
    }
    other.wake();
    return true;
  });
  if (!taken) return;
  me.in_tick = true;  // deleters may run, as in collect()
  hasten_what_was_left(me);
  me.in_tick = false;
  me.freed_then = me.release.meter.freed.value();
  me.old_at = 1;  // long ago
}

/// If nothing waits any more, no thread has to ask for the time.
template <class Scheme, class Release>
void domain<Scheme, Release>::be_silent(std::int64_t alarm) noexcept {
  if (sums().garbage() != 0) return;
  std::int64_t there = alarm;
  if (!alarm_.cas_strong_relaxed(there, silent)) return;
  // heavy → the light fence in retire(): a block that is counted too late finds silence.
  fence::heavy();
  if (sums().garbage() == 0) return;
  there = silent;
  alarm_.cas_strong_relaxed(there, alarm);
}

}  // namespace spolia::inline SPOLIA_FLAVOUR
