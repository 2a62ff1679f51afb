// SPDX-License-Identifier: Apache-2.0
// other_keys.hpp: which keys of types that are not its own a map takes as they are, without making
// a key of them; see map/keys.hpp.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <type_traits>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class How>
inline constexpr bool is_transparent = requires { typename How::is_transparent; };

/// How a map that goes by a comparison finds its keys.
template <class Key, class Compare>
struct by_order {
  template <class K>
  static constexpr bool takes =
      is_transparent<Compare> && std::is_invocable_v<const Compare&, const K&, const Key&> &&
      std::is_invocable_v<const Compare&, const Key&, const K&>;
  /// Numbers that are compared as the map's own anyway: these are searched for faster.
  template <class K>
  static constexpr bool makes_a_key = [] {
    if constexpr (std::is_arithmetic_v<Key> && std::is_arithmetic_v<K> &&
                  (std::same_as<Compare, std::less<>> || std::same_as<Compare, std::greater<>>)) {
      return std::same_as<std::common_type_t<Key, K>, Key>;
    }
    return false;
  }();
};
/// And one that goes by a hash and an equality.
template <class Key, class Hash, class Equal>
struct by_hash {
  template <class K>
  static constexpr bool takes =
      is_transparent<Hash> && is_transparent<Equal> && std::is_invocable_v<const Hash&, const K&> &&
      std::is_invocable_v<const Equal&, const Key&, const K&>;
  template <class K>
  static constexpr bool makes_a_key = false;
};

/// And one that goes by a hash and a comparison.
template <class Key, class Hash, class Compare>
struct by_hash_and_order {
  template <class K>
  static constexpr bool takes = by_order<Key, Compare>::template takes<K> && is_transparent<Hash> &&
                                std::is_invocable_v<const Hash&, const K&>;
  template <class K>
  static constexpr bool makes_a_key = false;
};

template <class K, class Key>
concept one_of_its_keys = std::same_as<K, Key> || std::derived_from<K, Key>;

/// A type that is not made into a key: one that the map takes, or one that it cannot take at all.
template <class K, class Key, class How>
concept other_key =
    !one_of_its_keys<K, Key> &&
    (How::template takes<K> ? !How::template makes_a_key<K> : !std::convertible_to<const K&, Key>);
/// The first of these.
template <class K, class Key, class How>
concept taken_key = other_key<K, Key, How> && How::template takes<K>;

/// How a map finds its keys.
template <class Map>
struct found_by_in {
  using type = typename Map::found_by;
};
/// For the functions of a base of the map.
template <class K, class Key, class Map>
concept other_key_in = other_key<K, Key, typename found_by_in<Map>::type>;

/// A key that was given, or of another type that the map takes, of which a key is made when it is
/// wanted, and from then on goes by that.
template <class Key, class K = Key>
class named_key {
 public:
  explicit named_key(const K& given) noexcept : given_(given) {}
  /// Throws what making a key throws.
  const Key& key() {
    if (!made_) made_.emplace(given_);
    return *made_;
  }
  template <class F>
  bool told_to(F&& f) const {
    return made_ ? f(*made_) : f(given_);
  }

 private:
  const K& given_;
  std::optional<Key> made_{};
};
template <class Key>
class named_key<Key, Key> {
 public:
  explicit named_key(const Key& given) noexcept : given_(given) {}
  const Key& key() const noexcept { return given_; }
  template <class F>
  bool told_to(F&& f) const {
    return f(given_);
  }

 private:
  const Key& given_;
};

/// True, or the program does not compile.
template <class How, class K>
constexpr bool checked_key() {
  static_assert(
      How::template takes<K>,
      "spolia: this map finds keys of its own type only: make a key, or name a "
      "comparison (of a hash map the hash and the equality) that is_transparent and takes "
      "the other type, such as std::less<>");
  return How::template takes<K>;
}

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
