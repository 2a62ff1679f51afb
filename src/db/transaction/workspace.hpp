// SPDX-License-Identifier: Apache-2.0
// workspace.hpp: how much sessions keep from transaction to transaction. Internal.
#pragma once

#include <cstddef>
#include <vector>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Forgets what is in there. The memory stays for the next transaction, unless it is much.
template <class T>
void clear_and_shrink(std::vector<T>& v) noexcept {
  constexpr std::size_t most_bytes_kept = std::size_t{64} << 10U;
  if (v.capacity() * sizeof(T) > most_bytes_kept) {
    std::vector<T>().swap(v);
  } else {
    v.clear();
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
