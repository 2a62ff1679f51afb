// SPDX-License-Identifier: Apache-2.0
// shown_to.hpp: what a function returns that is shown one row or pair after the other: nothing, or
// false to stop. Any other type does not compile: a number or a pointer would look like an answer.
#pragma once

#include <concepts>
#include <type_traits>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

/// Shows it to f; false if f has said so.
template <class F, class... Args>
bool shown_to(F& f, const Args&... what) {
  using returned = std::remove_cvref_t<std::invoke_result_t<F&, const Args&...>>;
  static_assert(std::is_void_v<returned> || std::same_as<returned, bool>,
                "spolia: a function of a scan returns neither nothing nor bool: return false to "
                "stop, true to go on, or nothing");
  if constexpr (std::is_void_v<returned>) {
    f(what...);
    return true;
  } else {
    return f(what...);
  }
}

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
