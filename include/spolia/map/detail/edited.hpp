// SPDX-License-Identifier: Apache-2.0
// edited.hpp: pairs in order, with one of them put in, taken out or replaced: what is to become of
// a leaf, before anything is copied.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <span>
#include <type_traits>

#include <spolia/base/config.hpp>
#include <spolia/map/keys.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Pair>
struct edited {
  using pairs = std::span<const Pair>;

  pairs from{};
  std::size_t at = 0;        // where
  bool out = false;          // the pair that is there goes
  const Pair* in = nullptr;  // and this one comes, unless null

  [[nodiscard]] std::size_t size() const noexcept {
    return from.size() + (in != nullptr ? 1U : 0U) - (out ? 1U : 0U);
  }
  [[nodiscard]] const Pair& operator[](std::size_t i) const noexcept {
    if (i < at) return from[i];
    if (i == at && in != nullptr) return *in;
    return from[i + from.size() - size()];
  }

  /// Copies a part of them, the first and the one after the last given, to the end of a block.
  template <class Block>
  void copy(Block& to, std::size_t first, std::size_t end) const noexcept {
    const std::size_t front = (std::min)(at, end);
    if (first < front) to.push(from.subspan(first, front - first));
    if (in != nullptr && first <= at && at < end) to.push(*in);
    const std::size_t rest = (std::max)(first, at + (in != nullptr ? 1U : 0U));
    if (rest < end) to.push(from.subspan(rest + from.size() - size(), end - rest));
  }
};

/// The first pair whose key is not before `key`: its place in `some`, a span or edited.
template <class Pairs, class Key, class Compare>
std::size_t place_of_key(const Pairs& some, const Key& key, const Compare& less) {
  std::size_t first = 0;
  if constexpr (std::is_arithmetic_v<Key> && (std::same_as<Compare, std::less<Key>> ||
                                              std::same_as<Compare, default_order<Key>>)) {
    // All at once: no look waits for the one before it.
    for (std::size_t i = 0; i < some.size(); ++i) first += less(some[i].key(), key) ? 1 : 0;
    return first;
  }
  for (std::size_t left = some.size(); left > 1;) {
    const std::size_t half = left / 2;
    // Computed, not branched on: it cannot be predicted.
    first += less(some[first + half - 1].key(), key) ? half : 0;
    left -= half;
  }
  return first + (first < some.size() && less(some[first].key(), key) ? 1U : 0U);
}

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
