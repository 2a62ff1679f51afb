// SPDX-License-Identifier: Apache-2.0
// domain_cell.hpp: what a domain keeps for one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/reclaim/biased_gate.hpp>
#include <spolia/reclaim/courtesy.hpp>
#include <spolia/reclaim/pins.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

/// `local` and `release` belong to the thread while it is present at the gate, and to whoever
/// visits while it is not.
template <class Scheme, class Release>
struct alignas((std::max)(cache_line, alignof(typename Scheme::local))) domain_cell {
  /// Schemes that look around every few operations anyway also set the pace of the domain's chores.
  static constexpr bool scheme_keeps_pace = requires { requires Scheme::ticks_regularly; };
  static constexpr bool scheme_gains_by_courtesy = requires { requires Scheme::courteous; };
  static constexpr bool scheme_has_pace = requires(const Scheme s) { s.pace(); };
  static constexpr bool scheme_looks_back =
      requires(Scheme s, typename Scheme::local l) { s.look_back(l); };
  /// Ticks, or operations where the scheme does not tick regularly, between two looks at a
  /// neighbour.
  static constexpr std::uint32_t chores_every = scheme_keeps_pace ? 32 : 1024;

  /// What the thread says at its gate: presences alive, the outermost guards begun so far, which is
  /// never taken back, and whether one is alive. One word, since stores are what a guard costs.
  static constexpr biased_gate::word one_presence = 1;
  static constexpr biased_gate::word one_guard = biased_gate::word{1} << biased_gate::level_bits;
  static constexpr biased_gate::word guard_alive = one_guard / 2;

  /// Guards alive in the outermost one, and whether blocks are to be freed at its end. The owner's.
  std::uint32_t nested = 0;
  static constexpr std::uint32_t frees = std::uint32_t{1} << 31U;
  std::uint32_t countdown = chores_every;  // to the next chores; the owner's
  biased_gate::word tick_at = 0;           // what is said when the next tick is due; the owner's
  /// How many blocks are retired when the next tick is due in any case; the owner's.
  std::uint64_t tick_when_retired = 0;
  std::uint64_t retired_at_look = 0;  // bytes, when this thread last looked at the budget
  static constexpr bool scheme_has_room =
      requires(const Scheme s, typename Scheme::local l) { s.room(l); };
  bool in_tick = false;  // a deleter that runs in a tick must not start another one
  bool telling = false;  // of a budget: who is told may go over it
  tally made;            // blocks: by make(), and those retired that came from elsewhere
  tally unmade;          // by destroy()
  tally retired_blocks;
  tally retired_bytes;
  /// The scheme need not ask for threads whose gate is parked. A cell that no thread has used is.
  static constexpr bool scheme_parks = requires(Scheme s, typename Scheme::local l) { s.park(l); };
  /// In one cache line with the beginning of `local`, where schemes announce operations: stores to
  /// one line leave the processor in pairs.
  alignas(cache_line / 2) biased_gate gate{scheme_parks};
  typename Scheme::local local;
  typename Release::local release;
  atomic<bool> used{false};
  pin_watch watch;
  courtesy::turn turn;                // the owner's
  std::uint64_t retired_at_join = 0;  // blocks, when this thread came; the owner's
  tally adopted_blocks;
  atomic<std::uint64_t> inflow_seen{0};                   // by the last visitor
  atomic<std::uint64_t> inflow_emptied{0};                // when a visitor took everything
  biased_gate::word question = biased_gate::no_question;  // the barrier's, which stands here

  /// Is a guard alive? To the owner, or when the owner is not there.
  bool inside() const noexcept { return (gate.own() & guard_alive) != 0; }
  /// The outermost guard that is alive, or was when its thread was present last; 0: not present.
  std::uint64_t guard_seen() const noexcept {
    const biased_gate::word said = gate.said();
    return said % one_guard == 0 ? 0 : said / one_guard;
  }
  /// How many outermost guards have begun.
  std::uint64_t operations() const noexcept { return gate.own() / one_guard; }
  std::uint64_t inflow() const noexcept { return retired_blocks.value() + adopted_blocks.value(); }
};

/// Figures of all threads of a domain. While these work, sums are approximate.
struct cell_sums {
  std::uint64_t freed = 0;
  std::uint64_t freed_bytes = 0;
  std::uint64_t ended = 0;  // freed, or never shared
  std::uint64_t made = 0;
  std::uint64_t retired = 0;
  std::uint64_t retired_bytes = 0;

  std::uint64_t garbage() const noexcept { return retired > freed ? retired - freed : 0; }
  std::uint64_t garbage_bytes() const noexcept {
    return retired_bytes > freed_bytes ? retired_bytes - freed_bytes : 0;
  }
};

template <class Cells>
cell_sums sum_of(const Cells& cells) noexcept {
  cell_sums sum;
  cells.for_each([&](std::uint32_t, const auto& c) {
    // freed before retired and made: a block counted as freed is then always counted there too.
    const std::uint64_t freed = c.release.meter.freed.value();
    sum.freed += freed;
    sum.freed_bytes += c.release.meter.freed_bytes.value();
    sum.ended += freed + c.unmade.value();
    sum.made += c.made.value();
    sum.retired += c.retired_blocks.value();
    sum.retired_bytes += c.retired_bytes.value();
    return true;
  });
  return sum;
}

/// Makes the calling thread's cell its own for a while, inside of guards and outside.
template <class Cell>
struct presence {
  template <class Domain>
  SPOLIA_ALWAYS_INLINE presence(Domain& d, Cell& c) noexcept : of(c) {
    d.come(of, Cell::one_presence);
  }
  SPOLIA_ALWAYS_INLINE ~presence() { of.gate.go(Cell::one_presence); }
  presence(const presence&) = delete;
  presence& operator=(const presence&) = delete;

  Cell& of;
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
