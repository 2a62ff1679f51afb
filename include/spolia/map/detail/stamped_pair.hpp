// SPDX-License-Identifier: Apache-2.0
// stamped_pair.hpp: a key and its value as a node of their own holds them, for updates that go by
// the value seen (seen_value.hpp).
#pragma once

#include <cstddef>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/weight.hpp>
#include <spolia/map/detail/seen_value.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Key, class Value>
struct stamped_pair {
  template <class K, class V>
  stamped_pair(K&& k, V&& v, value_stamp<Value> s)
      : key(std::forward<K>(k)), value(static_cast<Value>(std::forward<V>(v))), which(s) {}
  [[nodiscard]] bool has(const seen_value<Value>& seen) const noexcept {
    return seen.is(value, which);
  }

  /// For weight_of.
  [[nodiscard]] std::size_t owned_bytes() const noexcept
    requires(!weightless<Key, Value>)
  {
    return weigh(key, value);
  }

  const Key key;
  const Value value;
  [[no_unique_address]] const value_stamp<Value> which;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
