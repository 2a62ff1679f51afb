// SPDX-License-Identifier: Apache-2.0
// horizon.hpp: up to which round a stalled reader holds blocks. See robust_token.hpp.
#pragma once

#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

/// One thread's. Given by others, moved and taken back by the owner. 0: none. Else its operation
/// holds no block made after that round; or, until whoever gives it has read the round, anything.
class horizon {
 public:
  std::uint64_t load_relaxed() const noexcept { return at_.load_relaxed(); }
  std::uint64_t load_acquire() const noexcept {
    // acquire ← the releases below: what was counted before is seen by all who learn of the round
    // that this completes; and if it is gone, so are that operation's accesses.
    return at_.load_acquire();
  }

  /// Thread `giver` announces one. False: there is one.
  bool give(std::uint32_t giver) noexcept {
    std::uint64_t none = 0;
    // release → the acquires in load_acquire(), move() and lift().
    return at_.cas_strong_release(none, pending(giver));
  }
  /// It becomes `round`, unless its owner has moved it on, or has left.
  void settle(std::uint32_t giver, std::uint64_t round) noexcept {
    std::uint64_t announced = pending(giver);
    // release → the acquire in load_acquire().
    at_.cas_strong_release(announced, round);
  }

  /// The owner goes on, and has been given one.
  void move(std::uint64_t round) noexcept {
    // release → the acquire in load_acquire(). acquire ← the release in give(), for lift().
    if (!SPOLIA_FAULT("robust.no_extension")) at_.exchange_acq_rel(round);
    // light → the heavy fences of walks, behind which horizons are compared with blocks.
    if (!SPOLIA_FAULT("robust.no_light_extension")) fence::light();
  }
  /// The owner's operation is over.
  void lift() noexcept {
    // release → the acquire in load_acquire(): our accesses happen before the blocks are freed.
    // acquire ← the release in give(): what was counted there comes before the counting here.
    at_.exchange_acq_rel(0);
  }

 private:
  /// Bigger than every round, and each giver's own, so that one that is late cannot take another's
  /// for its own.
  static constexpr std::uint64_t pending(std::uint32_t giver) noexcept {
    return std::uint64_t{1} << 63U | giver;
  }

  atomic<std::uint64_t> at_{0};
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
