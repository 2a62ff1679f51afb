// SPDX-License-Identifier: Apache-2.0
// fresh.hpp: a block from Domain::make that no other thread knows yet.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Domain>
struct give_back {
  Domain* to;
  template <class T>
  void operator()(T* block) const noexcept {
    to->destroy(block);
  }
};

/// Ends the block unless it is released, which is what publishing it takes.
template <class T, class Domain>
using fresh = std::unique_ptr<T, give_back<Domain>>;

template <class T, class Domain, class... Arguments>
fresh<T, Domain> make_fresh(Domain& home, Arguments&&... arguments) {
  return {home.template make<T>(std::forward<Arguments>(arguments)...), give_back<Domain>{&home}};
}
template <class T, class Domain>
fresh<T, Domain> no_fresh(Domain& home) noexcept {
  return {nullptr, give_back<Domain>{&home}};
}

/// make(key) with the key for what takes the place of a pair of that key, or of none: the key that
/// is there stays, if it can be copied; else the one given comes. `there` is null if there is none,
/// which cannot be if IsThere; then the key that is given may be of another type.
template <bool IsThere, class Key, class K, class Make>
SPOLIA_ALWAYS_INLINE decltype(auto) with_key_there(const Key* there, K&& given, Make&& make) {
  if constexpr (IsThere && std::is_copy_constructible_v<Key>) {
    return make(*there);
  } else {
    if constexpr (std::is_copy_constructible_v<Key>) {
      if (there != nullptr) return make(*there);
    }
    return make(std::forward<K>(given));
  }
}
/// The same where all that is wanted is a reference, and keys can be copied.
template <bool IsThere, class Key, class K>
SPOLIA_ALWAYS_INLINE const Key& key_there_or(const Key* there, const K& given) noexcept {
  if constexpr (IsThere) {
    return *there;
  } else {
    return there != nullptr ? *there : given;
  }
}

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
