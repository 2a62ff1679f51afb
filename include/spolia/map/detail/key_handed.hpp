// SPDX-License-Identifier: Apache-2.0
// key_handed.hpp: a key as a search takes it.
#pragma once

#include <type_traits>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// A copy where that is as good: the key at an address is read anew after each atomic load.
template <class Key>
using key_handed = std::conditional_t<std::is_trivially_copyable_v<Key> && !std::is_array_v<Key> &&
                                          sizeof(Key) <= 2 * sizeof(void*),
                                      const Key, const Key&>;

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
