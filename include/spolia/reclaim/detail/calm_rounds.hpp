// SPDX-License-Identifier: Apache-2.0
// calm_rounds.hpp: whether any thread waits for the rounds of a token. If none does, because
// all threads only read, they look at the token less often: the words that it changes go from one
// processor's cache to the other's each time. And so they do, though not as seldom, where they
// seldom retire anything. A hint: what is safe does not depend on it.
#pragma once

#include <cstddef>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

class calm_rounds {
 public:
  /// How many times as long as usual a thread may take to its next tick. `waiting`: how many blocks
  /// of its own wait in this round.
  std::uint32_t stretch([[maybe_unused]] std::size_t waiting,
                        [[maybe_unused]] std::uint64_t round) noexcept {
#if defined(SPOLIA_MODEL)
    return 1;  // the checker has few rounds
#else
    const std::uint64_t wanted = wanted_.load_relaxed();
    if (waiting != 0) {
      if (wanted != round) wanted_.store_relaxed(round);
      return waiting <= few ? slower : 1;
    }
    return wanted + calm_after < round ? most : 1;
#endif
  }

  static constexpr std::uint32_t most = 16;
  /// Where so few wait, a thread may take so many times as long: a hop takes several cache lines
  /// from other processors, which a handful of blocks is not worth. Not more of them, for memory
  /// that waits leaves the caches before it is used again.
  static constexpr std::size_t few = 32;
  static constexpr std::uint32_t slower = 4;
  /// More than blocks stay: so a thread that retires now and then keeps the pace for all.
  static constexpr std::uint64_t calm_after = 16;

 private:
  atomic<std::uint64_t> wanted_{0};  // the last round in which blocks of any thread waited
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
