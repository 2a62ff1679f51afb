// SPDX-License-Identifier: Apache-2.0
// homes.hpp: what the standard faces rest on: a domain each, without guards.
//
// The process's own are made in src/; programs may have further region homes (rcu_domain).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <optional>

#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/detail/handed_hazards.hpp>
#include <spolia/reclaim/detail/place.hpp>
#include <spolia/reclaim/domain.hpp>

#include "reclaim/outside.hpp"
#include "reclaim/regions.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// Of hazard pointers.
class hazard_home {
  using home = domain<handed_hazards>;

 public:
  using slot = handed_hazards::slot;

  explicit hazard_home(home::options o = {}) : of_(o), at_(of_) {}

  /// Throws std::bad_alloc.
  slot& take() {
    auto* const me = at_.me();
    if (me == nullptr) throw std::bad_alloc();
    at_.look_around(*me);
    return at_.scheme().take(me->local);
  }

  void give_back(slot& s) noexcept {
    if (auto* const me = at_.me()) {
      at_.scheme().give_back(me->local, s);
    } else {
      at_.scheme().give_back(s);
    }
  }

  void retire(core::place& where, std::size_t bytes) noexcept {
    retired* const block = home::outside::block_in(where, bytes);
    if (auto* const me = at_.me()) {
      at_.retire_anywhere(*me, block);
    } else {
      at_.scheme().astray.put(block);
    }
  }

  /// Frees what no slot names, as far as other threads do not have it in hand; and what the
  /// deleters that run here retire, as long as that goes on. True if nothing waits any more.
  bool clean_up() noexcept {
    auto* const me = at_.me();
    if (me == nullptr) return false;
    at_.adopt_strays(*me);
    bool all = of_.drain();
    if (!all) {
      at_.follow_deleters(*me);
      all = of_.drain();
    }
    return all && !at_.scheme().astray.some();
  }

  std::uint64_t garbage() const noexcept { return of_.garbage(); }
  std::uint64_t garbage_bytes() const noexcept { return of_.sums().garbage_bytes(); }
  std::optional<std::uint64_t> garbage_bound(std::size_t threads) const {
    return of_.garbage_bound(threads);
  }

 private:
  home of_;
  home::outside at_;
};

/// Of regions.
class region_home {
  using home = domain<regions>;

 public:
  /// Nothing is ever freed at the beginning of a region, also if very much waits, or very few
  /// blocks do.
  region_home()
      : of_({.scheme = {.scan_every = 64},  // a membarrier for so many retirements
             .release = {.cap = (std::numeric_limits<std::size_t>::max)(), .few_at_once = false}}),
        at_(of_) {}

  void lock() noexcept {
    if (auto* const me = at_.me()) [[likely]] {
      at_.enter(*me);
    } else {
      at_.scheme().stranger_enters();
    }
  }

  void unlock() noexcept {
    auto* const me = at_.me();
    if (home::outside::inside(me)) [[likely]]
      return at_.leave(*me);
    // The region was opened when this thread had no cell.
    if (!at_.scheme().stranger_leaves()) {
      misuse::report("rcu_domain: unlock without a region", me != nullptr ? threads::number() : 0);
    }
  }

  bool inside() noexcept { return home::outside::inside(at_.me()); }

  void retire(core::place& where, std::size_t bytes) noexcept {
    retired* const block = home::outside::block_in(where, bytes);
    if (auto* const me = at_.me()) {
      at_.enter(*me);
      at_.retire_inside(*me, block);
      at_.leave(*me);
    } else {
      at_.scheme().astray.put(block);
    }
  }

  /// Waits until the regions that are open now are closed; false if expired() came true before.
  template <class Expired>
  bool synchronize(Expired&& expired) noexcept {
    return at_.scheme().wait_for_readers(at_.others(), expired);
  }

  /// Waits until everything that was retired before has ended; and, on a thread's first call, for
  /// the memory of its cell. False if the caller would wait for itself.
  bool barrier() noexcept {
    auto* me = at_.me();
    for (backoff wait; me == nullptr; me = at_.me()) wait.pause();
    return at_.barrier(*me, [this] { synchronize([] { return false; }); });
  }

  std::uint64_t garbage() const noexcept { return of_.garbage(); }
  std::uint64_t garbage_bytes() const noexcept { return of_.sums().garbage_bytes(); }

 private:
  home of_;
  home::outside at_;
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
