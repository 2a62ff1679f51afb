// SPDX-License-Identifier: Apache-2.0
// horizon.hpp: up to which round a stalled reader holds blocks. See robust_token.hpp.
//
// Why the token may hop over a thread with a settled horizon behind a mere full fence. Let block B,
// of round b, be unlinked before such a fence F. Who looks whether it may free B does so behind F.
// Take a pointer to B that the thread has read, and its look at its own horizon after that.
//   It saw none. Then b is not above the horizon that was settled, since whoever makes a later
//     block knows of that; and the look's operation announced itself in front of a light fence, and
//     so in front of the giver's heavy one. Whoever sees the horizon settled, or moved by the
//     thread itself, sees that operation, or that it has ended.
//   It saw one. Then it moved it, with a full fence M behind that, before it looked at the source
//     again. If M is before F, whoever may free B finds the moved horizon. If not, the second look
//     finds B unlinked.
//   It saw none because it had lifted its horizon, with a full fence behind that, while F's thread
//     still saw it: then the thread's later looks at sources find B unlinked.
// What is merely announced as pending has no heavy fence behind it and gives no leave to hop. And
// what the thread itself unlinks it tags behind a full fence: a hop either knows of the unlinking,
// or the tag is at least the round of the hop.
#pragma once

#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

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

  /// Is there one that its giver's heavy fence has preceded, or that its owner has moved?
  bool settled() const noexcept {
    // acquire ← the releases in settle() and move(): that happened before.
    const std::uint64_t at = at_.load_acquire();
    return at != 0 && at < pending(0);
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
    // full ↔ the fence, heavy or full, behind which the token was moved past us before horizons are
    // compared with blocks.
    if (SPOLIA_FAULT("robust.light_extension")) {
      fence::light();
    } else if (!SPOLIA_FAULT("robust.no_extension_fence")) {
      fence::full();
    }
  }
  /// The owner's operation is over.
  void lift() noexcept {
    // release → the acquire in load_acquire(): our accesses happen before the blocks are freed.
    // acquire ← the release in give(): what was counted there comes before the counting here.
    at_.exchange_acq_rel(0);
    // full ↔ the one behind which the token hops over us: who still saw the horizon then knows of
    // nothing that our next operation could reach.
    if (!SPOLIA_FAULT("robust.no_full_lift")) fence::full();
  }

 private:
  /// Bigger than every round, and each giver's own, so that one that is late cannot take another's
  /// for its own.
  static constexpr std::uint64_t pending(std::uint32_t giver) noexcept {
    return std::uint64_t{1} << 63U | giver;
  }

  atomic<std::uint64_t> at_{0};
};

/// Of the operations under way that have one and may hold what was retired up to round `tag`:
/// they have announced tag + 1 at most (token.hpp). 0: none. A thread found outside of
/// operations, or without a horizon, holds none of these blocks, whatever it does next: the token
/// has passed it since they were unlinked, between operations or because of a horizon that is
/// gone. No fence: each round in which the token passed a horizon has had one, heavy or full,
/// behind the unlinking of these blocks and in front of us.
template <class Local, class Peers>
std::uint64_t farthest_horizon(Peers peers, std::uint64_t tag) noexcept {
  std::uint64_t farthest = 0;
  peers.for_each([&](std::uint32_t, const Local& other) {
    // acquire ← the release in lift(): if it is gone, so are that operation's accesses.
    const std::uint64_t horizon = other.horizon.load_acquire();
    if (horizon <= farthest) return true;
    // acquire ← the releases in enter() and leave(): the same.
    const std::uint64_t announced = other.announced.load_acquire();
    if ((announced & 1U) != 0 && announced >> 1U <= tag + 1) farthest = horizon;
    return true;
  });
  return SPOLIA_FAULT("robust.ignore_horizons") ? 0 : farthest;
}

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
