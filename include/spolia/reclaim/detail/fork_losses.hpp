// SPDX-License-Identifier: Apache-2.0
// fork_losses.hpp: what waits in a domain, in a fork's child, where one thread is left.
//
// Which lists are whole. A thread changes its lists only while it is at its gate, and a visitor
// only while the gate says so. So where the gate of a thread that is gone says that it is absent,
// and that no thread visits, its lists are whole: the child has its memory as of one moment, with
// all that the thread had written up to some point, in order. (The system makes pages read-only
// one after the other, and stops each thread at its first write to one of these.) Such lists are
// left behind, as by a thread that has ended. All others are given up, and what stood in them is
// lost: everything that was retired, has not been freed, and waits in no list that is whole.
#pragma once

#include <cstdint>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/detail/domain_cell.hpp>
#include <spolia/reclaim/detail/saturating.hpp>
#include <spolia/reclaim/limbo.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// Written in the child, as long as it has one thread.
class fork_losses {
 public:
  /// Without what is lost these sums are not right.
  cell_sums taken_from(cell_sums sums) const noexcept {
    sums.lost = blocks_.value();
    sums.lost_bytes = bytes_.value();
    return sums;
  }
  std::uint64_t blocks() const noexcept { return blocks_.value(); }

  /// Thread `n` is gone. Calls ends(cell) for each cell whose thread is in no operation any more.
  template <class Scheme, class Cells, class Ends>
  void thread_lost(Cells& cells, std::uint32_t n, Ends&& ends) noexcept {
    if (auto* const c = cells.find(n)) {
      const bool visited = c->gate.evict();
      if (visited || !c->gate.looks_idle()) give_up<Scheme>(*c);
      leave(*c, ends);
      c->depth.reset();
      c->in_tick = false;
      c->release.freeing = nullptr;
      c->telling = false;
      c->gate.reset();
    }
    // It may have been moving the blocks of any cell, also of the one thread that is left.
    cells.for_each([&](std::uint32_t, auto& other) {
      if (!other.gate.evict()) return true;
      give_up<Scheme>(other);
      leave(other, ends);
      return true;
    });
  }

  /// No other thread is left: what is lost is known now. No figure is taken from a list that was
  /// given up, nor from the counters of one thread, which may have been caught between two steps.
  template <class Cells, class Scheme>
  void settle(Cells& cells, Scheme& scheme) noexcept {
    if (!std::exchange(some_, false)) return;
    std::uint64_t left = 0;
    std::uint64_t left_bytes = 0;
    const auto count = [&](const limbo& list) {
      list.for_each([&](const retired& block) {
        ++left;
        left_bytes += block.holds_bytes();
      });
    };
    cells.for_each([&](std::uint32_t, auto& c) {
      Scheme::lists(c.local, count);
      c.release.lists(count);
      return true;
    });
    if constexpr (requires { scheme.lists_of_strangers(count); }) scheme.lists_of_strangers(count);
    const cell_sums all = sum_of(cells);
    blocks_.set(rest_of(all.retired, all.freed + left));
    bytes_.set(rest_of(all.retired_bytes, all.freed_bytes + left_bytes));
  }

 private:
  /// The lists may be half-written.
  template <class Scheme, class Cell>
  void give_up(Cell& c) noexcept {
    some_ = true;
    Scheme::lists(c.local, [](limbo& list) { list.forget(); });
    c.release.safe.forget();
  }
  /// The thread, if there is one, joins anew.
  template <class Cell, class Ends>
  static void leave(Cell& c, Ends&& ends) noexcept {
    ends(c);
    c.watch.ended.set(false);
    c.used.store_relaxed(false);
  }

  bool some_ = false;  // lists were given up in this child
  latest<std::uint64_t> blocks_;
  latest<std::uint64_t> bytes_;
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
