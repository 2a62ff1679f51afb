// SPDX-License-Identifier: Apache-2.0
/// \file
/// Whether a time is over, by a clock that may be set: a monotonic clock is not, but one that
/// others have put in its place is, as in tests that choose the date. Nothing may wait then for as
/// long as it was set back by. All in one unit, such as nanoseconds.
///
/// Thread safety: these are functions of their arguments. Errors: none. Memory: none.
#pragma once

#include <cstdint>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// `span` has passed since `then`, which is not ahead of `now` but for what another thread has
/// just noted; or the clock was set back.
[[nodiscard]] constexpr bool has_passed(std::int64_t now, std::int64_t then,
                                        std::int64_t span) noexcept {
  const std::int64_t since = now - then;
  return since >= span || since < -span;
}

/// It is `until`, which was at most `longest` away when it was chosen; or the clock was set back.
[[nodiscard]] constexpr bool is_over(std::int64_t now, std::int64_t until,
                                     std::int64_t longest) noexcept {
  return now >= until || until - now > longest;
}

}  // namespace spolia::inline SPOLIA_FLAVOUR
