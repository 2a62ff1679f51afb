// SPDX-License-Identifier: Apache-2.0
// size_counter.hpp: how many elements a container holds, counted without a shared counter.
#pragma once

#include <cstddef>
#include <cstdint>

#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/threads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// Each thread counts what it added and removed; a reader sums up. Exact once all updates that the
/// reader could not have missed have happened before; otherwise off by at most the updates under
/// way.
///
/// Memory: one pair of cache lines for each thread number that ever updated, eight at a time.
class size_counter {
 public:
  struct alignas(cache_line) mine {
    tally added;
    tally removed;
    tally stamped;  // for next_stamp
  };

  /// The calling thread's counters. Throws std::bad_alloc on a thread's first call only: ask for
  /// them before the update takes effect.
  mine& here() { return cells_.of(threads::number()); }

  std::size_t approx() const noexcept {
    std::uint64_t removed = 0;
    std::uint64_t added = 0;
    cells_.for_each([&](std::uint32_t, const mine& m) {
      removed += m.removed.value();
      added += m.added.value();
      return true;
    });
    return added > removed ? added - removed : 0;
  }

 private:
  cells<mine> cells_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
