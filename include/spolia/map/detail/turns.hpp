// SPDX-License-Identifier: Apache-2.0
// turns.hpp: the last sides that a search in a binary tree has taken.
#pragma once

#include <cstdint>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// One number for all of them: of sides that stand apart a compiler keeps up to date, at every step
/// of the way down, whatever the update at its end will want of them.
class turns {
 public:
  SPOLIA_ALWAYS_INLINE void left() noexcept { sides_ += sides_; }
  SPOLIA_ALWAYS_INLINE void right() noexcept { sides_ += sides_ + 1; }

  /// 0 is left, also where there was none yet.
  std::uint8_t last() const noexcept { return sides_ & 1U; }
  std::uint8_t last_but_one() const noexcept { return sides_ >> 1U & 1U; }

 private:
  std::uint64_t sides_ = 0;  // the last one in its lowest bit; the first ones fall out
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
