// SPDX-License-Identifier: Apache-2.0
// key_groups.hpp: several keys at a time, for look-ups that fetch what they need for all of them
// before they look at it for the first: so they wait for memory once, not one after the other.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <memory>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// As many as a processor fetches lines for at once; looked up within one session.
inline constexpr std::size_t keys_together = 16;

/// Calls look(span of const Key*) for some keys after the others. One at a time if they are gone
/// when the next is asked for, and copying them may be dear.
template <class Key, class Keys, class Look>
void in_groups(Keys& keys, Look&& look) {
  using reference = std::ranges::range_reference_t<Keys>;
  constexpr bool stay = std::ranges::forward_range<Keys> && std::is_lvalue_reference_v<reference> &&
                        std::same_as<std::remove_cvref_t<reference>, Key>;
  constexpr bool copied = !stay && std::is_trivially_copyable_v<Key> &&
                          std::is_copy_assignable_v<Key> && std::default_initializable<Key>;
  constexpr std::size_t most = stay || copied ? keys_together : 1;
  std::array<const Key*, most> some;
  [[maybe_unused]] std::array<Key, copied ? most : 0> copies;
  std::size_t n = 0;
  for (auto&& one : keys) {
    const Key& key = one;
    some[n] = std::addressof(key);
    if constexpr (copied) some[n] = &(copies[n] = key);
    if (++n < most) continue;
    look(std::span<const Key* const>(some.data(), n));
    n = 0;
  }
  if (n != 0) look(std::span<const Key* const>(some.data(), n));
}

/// What find(keys, f) tells f for each key, in their order.
template <class Found, class Keys, class Find>
std::vector<Found> found_in_order(Keys& keys, Find&& find) {
  std::vector<Found> found;
  if constexpr (std::ranges::sized_range<Keys>) found.reserve(std::ranges::size(keys));
  find(keys, [&](const Found& one) { found.push_back(one); });
  return found;
}

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
