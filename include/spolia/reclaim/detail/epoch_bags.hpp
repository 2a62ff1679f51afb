// SPDX-License-Identifier: Apache-2.0
// epoch_bags.hpp: the three limbo bags of an epoch scheme, one for each of the last three epochs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/reclaim/limbo.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// Blocks retired by one thread, kept by the epoch in which they were retired.
///
/// The scheme promises: what was put in with tag t is out of reach once the epoch is t + `age`, age
/// <= 3.
///
/// The tag must be read after the block was unlinked, inside the operation, and so behind its
/// announcement and light fence; the epoch that the thread saw when the operation began will not
/// do. A thread that was preempted between that look and its announcement holds nobody up: the
/// epoch may run ahead, and a block unlinked in epoch 9 would carry a tag of 4 and be freed at
/// once. Read behind the fence, the tag t is at least the last epoch e that ended while the thread
/// was taken for being between two operations, since whoever ended it issued a heavy fence and knew
/// e. The epoch e + 1 may begin then, but cannot end before the operation does; so the block was
/// unlinked at e + 1 <= t + 1 at the latest.
class epoch_bags {
 public:
  /// The epoch seen at the last tick: what the thread announces.
  std::uint64_t seen() const noexcept { return seen_; }

  void put(retired* block, std::uint64_t tag) noexcept { bag_for(tag).push(block); }

  /// The thread has seen epoch `now`, by an acquire load: hands what is safe by then to `sink`.
  template <class Sink>
  void catch_up(std::uint64_t now, std::uint64_t age, Sink&& sink) noexcept {
    seen_ = now;  // first: a deleter behind the sink may begin operations of its own
    limbo safe;
    safe.append(overdue_);
    for (std::size_t i = 0; i < bags_.size(); ++i) {
      if (tags_[i] + age <= now) safe.append(bags_[i]);
    }
    if (!safe.empty()) sink(safe);
  }

  /// Takes over another thread's blocks. `tag` is the epoch read after that thread's part was
  /// acquired.
  void adopt(epoch_bags& other, std::uint64_t tag) noexcept {
    overdue_.append(other.overdue_);
    limbo& bag = bag_for(tag);
    for (limbo& b : other.bags_) bag.append(b);
  }

  void abandon(limbo& all) noexcept {
    all.append(overdue_);
    for (limbo& bag : bags_) all.append(bag);
  }

  void forget() noexcept {
    overdue_.forget();
    for (limbo& bag : bags_) bag.forget();
  }

  std::size_t count() const noexcept {
    return overdue_.count() + bags_[0].count() + bags_[1].count() + bags_[2].count();
  }

 private:
  limbo& bag_for(std::uint64_t tag) noexcept {
    const std::size_t i = tag % bags_.size();
    if (tags_[i] != tag) {
      // What lies here is three epochs old at least, so it is safe: the next catch_up hands it out.
      overdue_.append(bags_[i]);
      tags_[i] = tag;
    }
    return bags_[i];
  }

  std::uint64_t seen_ = 0;
  std::array<limbo, 3> bags_;
  std::array<std::uint64_t, 3> tags_{};
  limbo overdue_;
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
