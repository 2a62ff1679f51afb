// SPDX-License-Identifier: Apache-2.0
// counted_face.hpp: what the containers over counted pointers show alike, said once over what each
// of them has:
//
//   visit(key, f)              calls f(const Value&) if the key is there, and says whether it was
//   put(key, value, assign)    true if the key was absent; if it was not, replaces its value where
//                              `assign`, and else changes nothing
//   remove(key)                true if the key was there, and is no more
//   look(key, seen)            copies the value of the key, if it is there: seen_value.hpp
//   put(key, value, true, seen), remove(key, seen)   true if the key still had the value seen, and
//                              has this one now, or none; else nothing has changed. The key may be
//                              of another type
//   size_approx()
//   scan<Down>(interval, f)    shows f copies of the pairs, outside of the writers' turns: if there
//                              is an order as ordered_reads.hpp says, and else all
//   publishes                  see after_update.hpp
#pragma once

#include <concepts>
#include <optional>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/after_update.hpp>
#include <spolia/map/detail/other_keys.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/detail/seen_value.hpp>
#include <spolia/map/detail/tried_in_vain.hpp>
#include <spolia/map/updates.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Map, class Key, class Value>
class counted_face;
template <class Map, class Key, class Value>
struct found_by_in<counted_face<Map, Key, Value>> : found_by_in<Map> {};

template <class Map, class Key, class Value>
class counted_face : public value_updates<counted_face<Map, Key, Value>, Key, Value>,
                     public tried_in_vain {
 public:
  using key_type = Key;
  using mapped_type = Value;

  counted_face(const counted_face&) = delete;
  counted_face& operator=(const counted_face&) = delete;

  [[nodiscard]] std::optional<Value> find(const Key& key) const {
    std::optional<Value> found;
    self().visit(key, [&](const Value& v) { found.emplace(v); });
    return found;
  }
  [[nodiscard]] bool contains(const Key& key) const {
    return self().visit(key, [](const Value&) {});
  }

  // The same with a key of another type (map/keys.hpp).
  template <class K, class M = Map>
    requires other_key<K, Key, typename M::found_by>
  [[nodiscard]] std::optional<Value> find(const K& key) const {
    std::optional<Value> found;
    self().visit(key, [&](const Value& v) { found.emplace(v); });
    return found;
  }
  template <class K, class M = Map>
    requires other_key<K, Key, typename M::found_by>
  [[nodiscard]] bool contains(const K& key) const {
    return self().visit(key, [](const Value&) {});
  }
  template <class K, class M = Map>
    requires other_key<K, Key, typename M::found_by>
  bool erase(const K& key) {
    bool gone = false;
    if constexpr (checked_key<typename M::found_by, K>()) gone = told(self().remove(key));
    return gone;
  }

  /// True if the key was absent, and is there now.
  bool insert(const Key& key, const Value& value) {
    if constexpr (copies()) return told(self().put(key, value, false));
    return false;
  }
  /// The same; false: its value was replaced.
  bool insert_or_assign(const Key& key, const Value& value) {
    if constexpr (copies()) return told<true>(self().put(key, value, true));
    return false;
  }
  /// True if the key was there.
  bool erase(const Key& key) { return told(self().remove(key)); }

  /// Calls f(key, value) for every pair, with copies; f returns nothing, or false to stop. In
  /// ascending order where there is an order. What it may miss: map/concepts.hpp. To copy some
  /// pairs it takes the writers' turn, if there is one for all, and f runs without it: it may take
  /// long, and change the map.
  template <std::invocable<const Key&, const Value&> F>
  void for_each(F&& f) const {
    self().template scan<false>(all_keys<Key>, f);
  }

  [[nodiscard]] bool empty_approx() const noexcept { return self().size_approx() == 0; }

 protected:
  counted_face() = default;
  ~counted_face() = default;

 private:
  friend class value_updates<counted_face, Key, Value>;
  using seen = seen_value<Value>;

  static seen nothing_seen() { return {}; }
  template <class K>
  bool look_at(const K& key, seen& to) const {
    return self().look(key, to);
  }
  bool put_if_absent(const Key& key, const Value& value) { return insert(key, value); }
  template <class K>
  bool put_for(const K& key, const Value& value, const seen& was) {
    return told(self().put(key, value, true, was));
  }
  template <class K>
  bool erase_seen(const K& key, const seen& was) {
    return told(self().remove(key, was));
  }

  /// Asked in functions, where the types are complete.
  static consteval bool copies() {
    constexpr bool both = std::copy_constructible<Key> && std::copy_constructible<Value>;
    static_assert(
        both,
        "spolia: counted maps copy keys and values: take another map for what can only be "
        "moved, or keep a std::shared_ptr to it");
    return both;
  }
  /// The answer of an update that has changed something if it is `true`, or Anyhow.
  template <bool Anyhow = false>
  SPOLIA_ALWAYS_INLINE static bool told(bool answer) noexcept {
    after_update_if<Map::publishes>(Anyhow || answer);
    return answer;
  }
  [[nodiscard]] const Map& self() const noexcept { return static_cast<const Map&>(*this); }
  Map& self() noexcept { return static_cast<Map&>(*this); }
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
