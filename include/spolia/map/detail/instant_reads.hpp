// SPDX-License-Identifier: Apache-2.0
// instant_reads.hpp: what snapshot maps show of a key at a snapshot and at a lease, said once.
//
// A map that inherits this has instants(), an object with
//
//   find_at(snapshot, key)       the value that the key mapped to, null if none
//   visit_at(lease, key, f)      calls f(value) under a guard, and says whether the key was present
#pragma once

#include <concepts>
#include <optional>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/other_keys.hpp>
#include <spolia/version/lease.hpp>
#include <spolia/version/snapshot.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class T>
concept an_instant = std::derived_from<T, snapshot> || std::derived_from<T, lease>;

template <class Map, class Key, class Value, class Keys>
class instant_reads {
 public:
  /// The value that `key` mapped to, null if none. It stays while the snapshot and the map live.
  const Value* find(const snapshot& then, const Key& key) const { return in().find_at(then, key); }
  bool contains(const snapshot& then, const Key& key) const { return find(then, key) != nullptr; }

  // At a lease each throws snapshot_expired when it was ended, and gives nothing that outlives it.

  /// A copy of the value that `key` mapped to.
  std::optional<Value> find(const lease& then, const Key& key) const
    requires std::copy_constructible<Value>
  {
    return copied(then, key);
  }
  bool contains(const lease& then, const Key& key) const {
    return visit(then, key, [](const Value&) {});
  }
  /// Calls f(const Value&) under a guard if `key` was present, and says whether it was.
  template <std::invocable<const Value&> F>
  bool visit(const lease& then, const Key& key, F&& f) const {
    return in().visit_at(then, key, std::forward<F>(f));
  }

  // The same with a key of another type, of which no key is made (map/keys.hpp).

  template <other_key<Key, Keys> K>
  const Value* find(const snapshot& then, const K& key) const {
    const Value* found = nullptr;
    if constexpr (checked_key<Keys, K>()) found = in().find_at(then, key);
    return found;
  }
  template <other_key<Key, Keys> K>
  bool contains(const snapshot& then, const K& key) const {
    return find(then, key) != nullptr;
  }
  template <other_key<Key, Keys> K>
    requires std::copy_constructible<Value>
  std::optional<Value> find(const lease& then, const K& key) const {
    return copied(then, key);
  }
  template <other_key<Key, Keys> K>
  bool contains(const lease& then, const K& key) const {
    return visit(then, key, [](const Value&) {});
  }
  template <other_key<Key, Keys> K, std::invocable<const Value&> F>
  bool visit(const lease& then, const K& key, F&& f) const {
    bool found = false;
    if constexpr (checked_key<Keys, K>()) found = in().visit_at(then, key, std::forward<F>(f));
    return found;
  }

 protected:
  instant_reads() = default;
  ~instant_reads() = default;

 private:
  template <class K>
  std::optional<Value> copied(const lease& then, const K& key) const {
    std::optional<Value> found;
    visit(then, key, [&](const Value& value) { found.emplace(value); });
    return found;
  }
  [[nodiscard]] const auto& in() const noexcept {
    return static_cast<const Map&>(*this).instants();
  }
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
