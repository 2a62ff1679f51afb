// SPDX-License-Identifier: Apache-2.0
// epoch_bags.hpp: the three limbo bags of an epoch scheme, one for each of the last three epochs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/reclaim/limbo.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// Blocks retired by one thread, kept by the epoch that the thread had seen when it retired them.
///
/// The scheme promises that what was put in while the thread had seen epoch e is out of reach once the
/// epoch is e + `age`. Three bags are then enough for `age` = 3: when the slot of epoch e + 3 is needed,
/// what lies there can go.
class epoch_bags {
 public:
  std::uint64_t seen() const noexcept { return seen_; }

  void put(retired* block) noexcept {
    tags_[slot()] = seen_;
    bags_[slot()].push(block);
  }

  /// The thread has seen epoch `now`: hands every bag that is safe by then to `sink`.
  template <class Sink>
  void catch_up(std::uint64_t now, std::uint64_t age, Sink&& sink) noexcept {
    seen_ = now;  // first: a deleter behind the sink may retire blocks of its own
    for (std::size_t i = 0; i < bags_.size(); ++i) {
      if (bags_[i].empty() || tags_[i] + age > now) continue;
      limbo safe;
      safe.append(bags_[i]);
      sink(safe);
    }
  }

  /// Another thread's blocks go into the current bag: they count as retired now, which is later than
  /// they were, and so is safe.
  void adopt(epoch_bags& other) noexcept {
    tags_[slot()] = seen_;
    for (limbo& bag : other.bags_) bags_[slot()].append(bag);
  }

  void abandon(limbo& all) noexcept {
    for (limbo& bag : bags_) all.append(bag);
  }

  void forget() noexcept {
    for (limbo& bag : bags_) bag.forget();
  }

  std::size_t count() const noexcept {
    return bags_[0].count() + bags_[1].count() + bags_[2].count();
  }

 private:
  std::size_t slot() const noexcept { return seen_ % bags_.size(); }

  std::uint64_t seen_ = 0;
  std::array<limbo, 3> bags_;
  std::array<std::uint64_t, 3> tags_{};
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
