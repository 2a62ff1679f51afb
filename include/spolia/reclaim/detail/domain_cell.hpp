// SPDX-License-Identifier: Apache-2.0
// domain_cell.hpp: what a domain keeps for one thread, and the sums over all threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/biased_gate.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/reclaim/courtesy.hpp>
#include <spolia/reclaim/detail/pins.hpp>
#include <spolia/reclaim/detail/saturating.hpp>
#include <spolia/reclaim/statistics.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// How many guards of a thread are alive inside its outermost one, and whether a step of freeing is
/// due when that ends. One word, so that the end of a guard asks for both by one comparison.
class guard_depth {
 public:
  /// No guard is alive inside the outermost one.
  bool is_outermost() const noexcept { return word_ % freeing_due == 0; }
  /// The same, and no step of freeing is due.
  bool is_outermost_and_plain() const noexcept { return word_ == 0; }
  /// The same, and a step of freeing is due.
  bool is_outermost_and_freeing() const noexcept { return word_ == freeing_due; }
  bool freeing_is_due() const noexcept { return word_ >= freeing_due; }

  void begin_inner() noexcept { ++word_; }
  void end_inner() noexcept { --word_; }
  void set_freeing_due() noexcept { word_ |= freeing_due; }
  void begin_freeing() noexcept { word_ &= freeing_due - 1; }
  void reset() noexcept { word_ = 0; }

 private:
  static constexpr std::uint32_t freeing_due = std::uint32_t{1} << 31U;
  std::uint32_t word_ = 0;
};

/// What a domain keeps for one thread. `local` and `release` belong to the thread while it is
/// present at the gate, and to a visitor while it is not.
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

  guard_depth depth;  // the owner's
  /// To the next chores: ticks, or what is done outside of guards; the owner's.
  std::uint32_t countdown = chores_every;
  /// What is said when the next tick is due. The owner's; other threads only make it due.
  atomic<biased_gate::word> tick_at{0};
  biased_gate::word paced_at = 0;  // the same, but for what the time asks for; the owner's
  /// What is said at the next chores, where the scheme does not keep the pace; the owner's.
  biased_gate::word chores_at = ~biased_gate::word{0};
  /// How many blocks are retired when the next tick is due in any case; the owner's.
  std::uint64_t tick_when_retired = 0;
  std::uint64_t retired_at_look = 0;     // bytes, when this thread last looked at the budget
  std::uint64_t pressing = 0;            // bytes of heavy blocks retired since press(); the owner's
  std::uint64_t press_at = press_bytes;  // with more it is called; the owner's
  /// So many bytes a thread retires before it looks for what is safe by now, whatever the pace of
  /// its scheme.
  static constexpr std::uint64_t press_bytes = std::uint64_t{1} << 20U;
  static constexpr bool scheme_has_room =
      requires(const Scheme s, typename Scheme::local l) { s.room(l); };
  // For what has waited too long; all are the owner's. So many blocks it had freed when it looked
  // last:
  std::uint64_t freed_then = 0;
  std::size_t old_left = 0;    // of what it found then, safe blocks that are still here
  std::int64_t old_at = 0;     // when it looks again; 0: it has not looked yet
  std::int64_t looked_at = 0;  // when it has asked for the time last
  std::uint32_t stride = 1;    // operations until it asks again
  bool step_due = false;       // whatever the release policy says
  bool in_tick = false;        // a deleter that runs in a tick must not start another one
  bool telling = false;        // of a budget: the function that is told may go over it
  tally made;                  // blocks: by make(), and those retired that came from elsewhere
  tally unmade;                // by destroy()
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
  courtesy::turn turn;               // the owner's
  std::uint64_t inflow_at_join = 0;  // when this thread came; the owner's
  tally adopted_blocks;
  atomic<std::uint64_t> inflow_seen{0};                   // by the last visitor
  atomic<std::uint64_t> inflow_then{0};                   // at the last alarm
  atomic<std::uint64_t> inflow_emptied{0};                // when a visitor took everything
  biased_gate::word question = biased_gate::no_question;  // the barrier's, which stands here

  /// The scheme's next tick is due when so much is said; 0: before the next operation.
  void tick_when(biased_gate::word so_much) noexcept {
    paced_at = so_much;
    tick_at.store_relaxed(so_much);
  }
  /// By any thread: the owner looks at the time before its next operation. If it does so just now,
  /// this may be lost.
  void wake() noexcept { tick_at.store_relaxed(0); }

  /// Is a guard alive? To the owner, or when the owner is not there.
  bool inside() const noexcept { return (gate.own() & guard_alive) != 0; }
  /// The outermost guard that is alive, or was when its thread was present last; 0: not present.
  std::uint64_t guard_seen() const noexcept {
    const biased_gate::word said = gate.said();
    return said % one_guard == 0 ? 0 : said / one_guard;
  }
  /// By any thread: is a guard alive just now?
  bool has_guard() const noexcept { return (gate.said() & guard_alive) != 0; }
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
  std::uint64_t lost = 0;  // in a fork
  std::uint64_t lost_bytes = 0;

  std::uint64_t garbage() const noexcept { return rest_of(retired, freed + lost); }
  std::uint64_t garbage_bytes() const noexcept {
    return rest_of(retired_bytes, freed_bytes + lost_bytes);
  }
  std::uint64_t existing() const noexcept { return rest_of(made, ended + lost); }

  template <class Cell>
  void add(const Cell& c) noexcept {
    // freed before retired and made: a block counted as freed is then always counted there too.
    const std::uint64_t now_freed = c.release.meter.freed.value();
    freed += now_freed;
    freed_bytes += c.release.meter.freed_bytes.value();
    ended += now_freed + c.unmade.value();
    made += c.made.value();
    retired += c.retired_blocks.value();
    retired_bytes += c.retired_bytes.value();
  }
};

template <class Cells>
cell_sums sum_of(const Cells& cells) noexcept {
  cell_sums sum;
  cells.for_each([&](std::uint32_t, const auto& c) {
    sum.add(c);
    return true;
  });
  return sum;
}

template <class Cells>
domain_statistics statistics_of(const Cells& cells, const cell_sums& all, std::uint64_t epochs) {
  domain_statistics sum;
  sum.freed = all.freed;
  sum.freed_bytes = all.freed_bytes;
  sum.retired = all.retired;
  sum.retired_bytes = all.retired_bytes;
  sum.lost_in_fork = all.lost;
  sum.lost_in_fork_bytes = all.lost_bytes;
  cells.for_each([&](std::uint32_t, const auto& c) {
    sum.threads += c.used.load_relaxed() ? 1 : 0;
    sum.turns += c.turn.given.value();
    if (const histogram* const pauses = c.release.meter.pauses.get()) sum.pauses.merge(*pauses);
    return true;
  });
  sum.epochs = epochs;
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

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
