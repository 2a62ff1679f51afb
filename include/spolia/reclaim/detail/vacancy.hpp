// SPDX-License-Identifier: Apache-2.0
// vacancy.hpp: cells of a domain in which ended threads have left nothing.
//
// They are vacated (base/cells.hpp), so that what is done for all threads costs as much after a
// burst of them as before it. Where the scheme parks threads the cell is parked: for the others
// that is the same as not to be there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/reclaim/detail/domain_cell.hpp>
#include <spolia/reclaim/detail/pins.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// After a visitor has taken over all that was in it. `barred`: no cell may be visited now.
template <class Cell, class Scheme>
void leave_vacant(cells<Cell>& all, std::uint32_t n, Cell& left, Scheme& scheme,
                  bool barred) noexcept {
  if (left.used.load_relaxed()) return;
  if constexpr (Cell::scheme_parks) {
    const auto park = [&] { scheme.park(left.local); };
    if (!left.gate.is_parked() && (barred || !left.gate.park(park))) return;
  }
  all.vacate_if_left(n, left, [](Cell& still) {
    const bool parked = !Cell::scheme_parks || still.gate.is_parked();
    const bool empty = still.inflow_emptied.load_relaxed() == still.inflow();
    return parked && empty && !still.used.load_relaxed() && !still.watch.ended.value();
  });
}

/// The thread that ends does it itself, and without a fence, if it leaves nothing; else its gate
/// stays parked, so that visitors need none. It looks while it is inside the gate: visitors change
/// what is there.
template <class Cell, class Scheme, class Release>
void leave_own_vacant(cells<Cell>& all, std::uint32_t n, Cell& mine, Scheme& scheme,
                      const Release& release) noexcept {
  bool empty = false;
  const bool parked = mine.gate.leave_parked([&] {
    if constexpr (Cell::scheme_parks) scheme.park(mine.local);
    empty = scheme.waiting(mine.local) + release.backlog(mine.release) == 0;
  });
  if (parked && empty) all.vacate(n);
}

/// For pins(). What all threads have retired is asked for only where a guard is seen that was not
/// there at the last look: it is a look at every cell that there ever was.
template <class Cell>
void watch_guard(const cells<Cell>& all, Cell& other) noexcept {
  const std::uint64_t seen = other.guard_seen();
  if (seen == other.watch.seen.value()) return;
  const bool alive = seen != 0;
  other.watch.look(seen, alive ? pin_watch::now_ns() : 0, alive ? sum_of(all).retired_bytes : 0);
}

/// domain::pins(); `at_once`: if there are none, the guards that are alive.
template <class Cells>
std::vector<pin> pins_of(const Cells& cells, bool at_once) {
  std::vector<pin> found;
  std::vector<pin> young;
  const std::int64_t now = pin_watch::now_ns();
  const std::uint64_t retired = sum_of(cells).retired_bytes;
  cells.for_each_occupied([&](std::uint32_t n, auto& c) {
    if (c.watch.look(c.guard_seen(), now, retired)) {
      found.push_back(c.watch.describe(n, now, retired));
    } else if (at_once && c.has_guard()) {
      young.push_back(c.watch.describe(n, now, retired));
    }
    return true;
  });
  if (found.empty()) return young;
  std::sort(found.begin(), found.end(), [](const pin& a, const pin& b) { return a.age > b.age; });
  return found;
}

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
