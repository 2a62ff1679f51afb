// SPDX-License-Identifier: Apache-2.0
// domain_cell.hpp: the thread record of a domain, and the sums over all threads.
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

/// A domain's record of one thread. `local` and `release` belong to the thread while it is present
/// at the gate, and otherwise to a visitor.
template <class Scheme, class Release>
struct alignas((std::max)(cache_line, alignof(typename Scheme::local))) domain_cell {
  /// Schemes that look at other threads every few operations also set the pace of the domain's
  /// chores.
  static constexpr bool scheme_keeps_pace = requires { requires Scheme::ticks_regularly; };
  static constexpr bool scheme_gains_by_courtesy = requires { requires Scheme::courteous; };
  static constexpr bool scheme_has_pace = requires(const Scheme s) { s.pace(); };
  static constexpr bool scheme_looks_back =
      requires(Scheme s, typename Scheme::local l) { s.look_back(l); };
  /// Ticks, or operations where the scheme does not tick regularly, between two looks at a
  /// neighbour.
  static constexpr std::uint32_t chores_every = scheme_keeps_pace ? 32 : 1024;

  /// The word that the thread announces at its gate: how many presences are alive, how many
  /// outermost guards have begun, which never decreases, and whether one is alive. It is one word,
  /// since a guard's cost is its stores.
  static constexpr biased_gate::word one_presence = 1;
  static constexpr biased_gate::word one_guard = biased_gate::word{1} << biased_gate::level_bits;
  static constexpr biased_gate::word guard_alive = one_guard / 2;

  guard_depth depth;  // the owner's
  /// How many ticks, or operations outside of guards, until the next chores; the owner's.
  std::uint32_t countdown = chores_every;
  /// The word at the gate with which the next tick is due. The owner's; other threads only make it
  /// due.
  atomic<biased_gate::word> tick_at{0};
  biased_gate::word paced_at = 0;  // the same, without ticks that only read the clock; the owner's
  /// The word with which the next chores are due, if the scheme does not keep the pace; the
  /// owner's.
  biased_gate::word chores_at = ~biased_gate::word{0};
  /// The number of retired blocks with which a tick is due in any case; the owner's.
  std::uint64_t tick_when_retired = 0;
  std::uint64_t retired_at_look = 0;     // bytes, when this thread last looked at the budget
  std::uint64_t pressing = 0;            // bytes of heavy blocks retired since press(); the owner's
  std::uint64_t press_at = press_bytes;  // with more bytes, press() is called; the owner's
  /// After so many retired bytes a thread looks for safe blocks, whatever its scheme's pace is.
  static constexpr std::uint64_t press_bytes = std::uint64_t{1} << 20U;
  static constexpr bool scheme_has_room =
      requires(const Scheme s, typename Scheme::local l) { s.room(l); };
  // For blocks that have waited too long; all are the owner's:
  std::uint64_t freed_then = 0;  // how many blocks it had freed when it last looked for such blocks
  std::size_t old_left = 0;      // how many safe blocks that it found then are still here
  std::int64_t old_at = 0;       // when it looks again; 0: it has not looked yet
  std::int64_t looked_at = 0;    // when it has last read the clock
  std::uint32_t stride = 1;      // how many operations until it reads it again
  bool step_due = false;         // a step of freeing is due, whatever the release policy says
  bool in_tick = false;          // a deleter that runs in a tick must not start another one
  bool telling = false;          // the function for a budget runs: it may exceed the budget itself
  tally made;                    // blocks made by make(), and retired ones that came from elsewhere
  tally unmade;                  // blocks ended by destroy()
  tally retired_blocks;
  tally retired_bytes;
  /// Whether the scheme can ignore threads whose gate is parked. That of an unused cell is.
  static constexpr bool scheme_parks = requires(Scheme s, typename Scheme::local l) { s.park(l); };
  /// In one cache line with the beginning of `local`, where schemes announce operations: stores to
  /// one line leave the processor in pairs.
  alignas(cache_line / 2) biased_gate gate{scheme_parks};
  typename Scheme::local local;
  typename Release::local release;
  atomic<bool> used{false};
  pin_watch watch;
  courtesy::turn turn;               // the owner's
  std::uint64_t inflow_at_join = 0;  // inflow() when this thread came; the owner's
  tally adopted_blocks;
  atomic<std::uint64_t> inflow_seen{0};                   // inflow() at the last visit
  atomic<std::uint64_t> inflow_then{0};                   // at the last alarm
  atomic<std::uint64_t> inflow_emptied{0};                // when a visitor last took everything
  biased_gate::word question = biased_gate::no_question;  // a barrier's, which waits at this gate

  /// Makes the scheme's next tick due with this word at the gate; 0: before the next operation.
  void tick_when(biased_gate::word so_much) noexcept {
    paced_at = so_much;
    tick_at.store_relaxed(so_much);
  }
  /// Makes the owner read the clock before its next operation. For any thread. If the owner does so
  /// just now, the call may have no effect.
  void wake() noexcept { tick_at.store_relaxed(0); }

  /// Whether a guard is alive. For the owner, or while the owner is not present.
  bool inside() const noexcept { return (gate.own() & guard_alive) != 0; }
  /// The number of the outermost guard that is alive, or was the last one; 0: the thread is not
  /// present.
  std::uint64_t guard_seen() const noexcept {
    const biased_gate::word said = gate.said();
    return said % one_guard == 0 ? 0 : said / one_guard;
  }
  /// Whether a guard is alive just now. For any thread.
  bool has_guard() const noexcept { return (gate.said() & guard_alive) != 0; }
  /// How many outermost guards have begun.
  std::uint64_t operations() const noexcept { return gate.own() / one_guard; }
  std::uint64_t inflow() const noexcept { return retired_blocks.value() + adopted_blocks.value(); }
};

/// Sums over all threads of a domain. They are approximate while the threads work.
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
    // `freed` before `retired` and `made`: so a block counted as freed is always counted there,
    // too.
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

/// While such an object lives, the calling thread is present at its gate, inside guards or outside.
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
