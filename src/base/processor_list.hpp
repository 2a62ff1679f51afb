// SPDX-License-Identifier: Apache-2.0
// processor_list.hpp: lists of processors as the kernel writes them ("0-3,8").
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

#include <spolia/version.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {

/// Whether the text is such a list and has(number) is true of every number on it. Ends at the first
/// number of which it is not, so that nonsense takes no longer than has() allows. May be called in
/// a signal handler if has() may.
template <class Has>
bool every_listed(std::string_view list, Has has) noexcept {
  const char* at = list.data();
  const char* const end = at + list.size();
  const auto number = [&](std::uint32_t& n) {
    const auto read = std::from_chars(at, end, n);
    at = read.ptr;
    return read.ec == std::errc();
  };
  for (;;) {
    std::uint32_t first = 0;
    if (!number(first)) return false;
    std::uint32_t last = first;
    if (at != end && *at == '-' && (++at, !number(last))) return false;
    if (last < first) return false;
    for (std::uint64_t n = first; n <= last; ++n) {
      if (!has(static_cast<std::uint32_t>(n))) return false;
    }
    if (at == end || *at == '\n') return true;
    if (*at++ != ',') return false;
  }
}

}  // namespace spolia::core::inline SPOLIA_OF_VERSION
