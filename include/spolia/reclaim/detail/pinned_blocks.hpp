// SPDX-License-Identifier: Apache-2.0
// pinned_blocks.hpp: blocks that only stalled readers hold up, on shelves by the time of their
// retirement; and how old what leaves the bags can be.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/reclaim/limbo.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// Moves to `safe` the blocks that were born after the horizon.
template <class Stamp>
void move_younger(limbo& held, std::uint64_t horizon, limbo& safe) noexcept {
  limbo all;
  all.append(held);
  while (retired* const r = all.pop()) {
    (static_cast<stamped<Stamp>*>(r)->stamp.birth <= horizon ? held : safe).push(r);
  }
}

/// The oldest birth in each of the bags of epoch_bags, so that a bag in which nothing is older than
/// a horizon is let go without a look at its blocks, which are out of the caches by then.
class oldest_births {
 public:
  /// Of no block at all.
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  /// A block was put in with `tag`, which never falls.
  SPOLIA_ALWAYS_INLINE void put(std::uint64_t birth, std::uint64_t tag) noexcept {
    if (bags_[0].tag != tag) [[unlikely]]
      begin(tag);
    if (birth < bags_[0].oldest) bags_[0].oldest = birth;
  }

  /// The bags took over another thread's, with `tag` for what was not overdue.
  void adopt(std::uint64_t tag) noexcept {
    put(0, tag);
    overdue_ = 0;
  }

  /// The bags give out what they give out in epoch `now`: nothing in that is older than this.
  std::uint64_t take(std::uint64_t now, std::uint64_t age) noexcept {
    std::uint64_t oldest = std::exchange(overdue_, none);
    for (bag& b : bags_) {
      if (b.tag + age <= now) oldest = (std::min)(oldest, std::exchange(b.oldest, none));
    }
    return oldest;
  }

 private:
  struct bag {
    std::uint64_t tag = 0;
    std::uint64_t oldest = none;
  };

  SPOLIA_NOINLINE void begin(std::uint64_t tag) noexcept {
    overdue_ = (std::min)(overdue_, bags_[2].oldest);  // three epochs old at least
    bags_[2] = bags_[1];
    bags_[1] = bags_[0];
    bags_[0] = {tag, none};
  }

  std::array<bag, 3> bags_;  // the last one first
  std::uint64_t overdue_ = none;
};

/// Blocks of one thread. A reader can hold only blocks that were made up to its horizon and retired
/// after it began; so each shelf knows when the last of its blocks was retired, and which horizon
/// they were compared with last. When no reader from before is left the whole shelf is free, and
/// none of its blocks has to be touched.
class pinned_blocks {
 public:
  /// What every block on a shelf has in common.
  struct shelf {
    limbo blocks;
    std::uint64_t tag = 0;      // none was retired after this round
    std::uint64_t horizon = 0;  // none was made after this round
  };

  bool empty() const noexcept { return used_ == 0; }

  std::size_t count() const noexcept {
    std::size_t sum = 0;
    for (const shelf& s : shelves_) sum += s.blocks.count();
    return sum;
  }

  void add(limbo& blocks, std::uint64_t tag, std::uint64_t horizon) noexcept {
    if (blocks.empty()) return;
    if (used_ == shelves_.size()) join_two();
    shelf& s = shelves_[used_++];
    s.blocks.append(blocks);
    s.tag = tag;
    s.horizon = horizon;
  }

  /// Looks at each shelf again. `horizon_for(tag)`: the farthest one of the readers that may hold
  /// what was retired up to `tag`, 0 if there are none. `split(blocks, horizon, safe)` moves what
  /// was made after the horizon.
  template <class HorizonFor, class Split>
  void reconsider(HorizonFor&& horizon_for, Split&& split, limbo& safe) noexcept {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < used_; ++i) {
      shelf& s = shelves_[i];
      const std::uint64_t horizon = horizon_for(s.tag);
      if (horizon == 0) {
        safe.append(s.blocks);
      } else if (horizon < s.horizon) {
        split(s.blocks, horizon, safe);
        s.horizon = horizon;
      }
      if (s.blocks.empty()) continue;
      if (kept != i) move(s, shelves_[kept]);
      ++kept;
    }
    used_ = kept;
  }

  void adopt(pinned_blocks& other) noexcept {
    for (std::size_t i = 0; i < other.used_; ++i) {
      shelf& s = other.shelves_[i];
      add(s.blocks, s.tag, s.horizon);
    }
    other.used_ = 0;
  }

  void abandon(limbo& all) noexcept {
    for (shelf& s : shelves_) all.append(s.blocks);
    used_ = 0;
  }

  void forget() noexcept {
    for (shelf& s : shelves_) s.blocks.forget();
    used_ = 0;
  }

 private:
  static void move(shelf& from, shelf& to) noexcept {
    to.blocks.append(from.blocks);
    to.tag = from.tag;
    to.horizon = from.horizon;
  }

  /// Puts two neighbours together, to make room: those that hold the least.
  void join_two() noexcept {
    std::size_t at = 0;
    for (std::size_t i = 1; i + 1 < used_; ++i) {
      if (together(i) < together(at)) at = i;
    }
    shelf& left = shelves_[at];
    shelf& right = shelves_[at + 1];
    left.blocks.append(right.blocks);
    left.tag = left.tag < right.tag ? right.tag : left.tag;
    left.horizon = left.horizon < right.horizon ? right.horizon : left.horizon;
    for (std::size_t i = at + 2; i < used_; ++i) move(shelves_[i], shelves_[i - 1]);
    --used_;
  }
  std::size_t together(std::size_t i) const noexcept {
    return shelves_[i].blocks.count() + shelves_[i + 1].blocks.count();
  }

  std::array<shelf, 8> shelves_;
  std::size_t used_ = 0;
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
