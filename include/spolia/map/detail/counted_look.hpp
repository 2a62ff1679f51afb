// SPDX-License-Identifier: Apache-2.0
// counted_look.hpp: look-ups in containers over counted pointers, by the family's first_look if it
// has one that can be used now: that is without calls. Else by its views; then what was found, and
// not how, goes through a function of its own, so that the other way's variables stay in registers.
#pragma once

#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/key_handed.hpp>
#include <spolia/map/detail/other_keys.hpp>
#include <spolia/map/detail/seen_value.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Family, class Map, class Key>
[[gnu::cold]] SPOLIA_NOINLINE auto seek_by_any(const Map& map, key_handed<Key> key) {
  return map.seek(Family(), key, [](auto& at) { return std::move(at); });
}

/// As the family's follow (families.hpp), by the family or its first_look.
template <class T, class Views, class View, class Location>
SPOLIA_ALWAYS_INLINE bool follow(Views by, View& at, const Location& to) {
  if constexpr (requires { by.template follow<T>(at, to); }) {
    return by.template follow<T>(at, to);
  } else {
    auto next = by.template look<T>(to);
    if (!next) return false;
    at = std::move(next);
    return true;
  }
}

/// Always inlined, as visit and all else between the caller's function and it: else what f refers
/// to stays in memory. f(*found) of what map.seek(views, key, then) has found; true if that is not
/// null.
template <class Family, class Map, class Key, class F>
SPOLIA_ALWAYS_INLINE bool look_at(const Map& map, const Key& key, F&& f) {
  const auto tell = [&](const auto& at) __attribute__((always_inline)) {
    if (at) std::forward<F>(f)(*at);
    return static_cast<bool>(at);
  };
  if constexpr (requires { typename Family::first_look; }) {
    if (typename Family::first_look by; by.find()) [[likely]]
      return map.seek(by, key, tell);
    return tell(seek_by_any<Family, Map, Key>(map, key));
  } else {
    return map.seek(Family(), key, tell);
  }
}

/// The same with f(value).
template <class Family, class Map, class Key, class F>
SPOLIA_ALWAYS_INLINE bool look_up(const Map& map, const Key& key, F&& f) {
  return look_at<Family>(map, key, [&](const auto& at) __attribute__((always_inline)) {
    std::forward<F>(f)(at.value);
  });
}

/// Look-ups of a container whose seek() ends at nodes with `value` and `which`.
template <class Map, class Key, class Value, class Family, class FoundBy>
class counted_looks {
 public:
  using found_by = FoundBy;

  /// f(const Value&); true if the key is there. The value stays while f runs.
  template <class F>
  SPOLIA_ALWAYS_INLINE bool visit(const Key& key, F&& f) const {
    return look_up<Family>(static_cast<const Map&>(*this), key, std::forward<F>(f));
  }
  /// The same with a key of another type (map/keys.hpp).
  template <class F, other_key<Key, FoundBy> K>
  bool visit(const K& key, F&& f) const {
    if constexpr (checked_key<FoundBy, K>()) {
      return look_up<Family>(static_cast<const Map&>(*this), key, std::forward<F>(f));
    }
    return false;
  }

 protected:
  counted_looks() = default;
  ~counted_looks() = default;

  /// For counted_face.
  template <class K>
  bool look(const K& key, seen_value<Value>& to) const {
    return look_at<Family>(static_cast<const Map&>(*this), key,
                           [&](const auto& at) { to.look(at.value, at.which); });
  }
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
