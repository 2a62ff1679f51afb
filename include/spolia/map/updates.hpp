// SPDX-License-Identifier: Apache-2.0
/// \file
/// Updates that go by the value that a key has: every map of this folder has them.
///
///     spolia::abtree<std::uint64_t, long> counts;
///     counts.upsert(word, [](long& n) { ++n; }, 1);           // by any number of threads
///     counts.erase_if(word, [](const long& n) { return n == 0; });
///     if (auto last = counts.extract(word)) use(*last);
///
///   update(key, f)             f changes the value of the key
///   upsert(key, f, make)       the same; where the key is absent, it gets what make gives
///   get_or_insert(key, make)   the key's value, which is what make gives if the key was absent
///   compare_exchange(key, expected, value)   the key gets `value` if its value == expected
///   erase_if(key, pred)        the key goes if pred(value) says so
///   extract(key)               the key goes; a copy of its value
///   clear()                    all keys go, one after the other
///
/// How:         an update copies the value, asks the functions, and puts the result in the place of
///              that value if the key still has it; else it begins anew. So nothing is lost that
///              another thread does in between. Whether it is the same value is not asked by ==
///              (detail/seen_value.hpp); that is only for compare_exchange, and for its `expected`.
/// Functions:   get a copy of their own, and run outside of guards and locks: they hold up nothing,
///              may take long, and may wait. They may run several times in one call, and must not
///              touch the map. What they throw passes through, and nothing has changed.
///                f(Value&)         changes the copy; returns nothing, or false: the value stays
///                f(const Value&)   returns the new value, if it returns neither nothing nor bool
///                make              a function that returns a value, or a value, of which copies
///                                  are made
/// Order:       all but clear are linearizable. One that changes something takes effect when the
///              new value is put in place, or the key goes; one that changes nothing when it copied
///              the value.
/// Cost:        a find and an insert_or_assign, once more for each time that another thread has
///              changed the same key in between. (In a snapshot_hash or snapshot_tree a value in a
///              counted block is held, and not copied, if f returns the new one.)
/// Progress:    as insert_or_assign of the map: an update begins anew only if another has changed
///              the key.
/// Keys:        update, compare_exchange, and upsert of a key that is there, make none of the key
///              that they are given. Where the map replaces what has the key, it copies the key
///              that is there: the hash maps, list, external_bst, counted_bst, counted_tree and the
///              maps over read-log-update that one alone; those with several pairs in a leaf, which
///              are abtree, snapshot_tree, counted_btree and counted_btree_locked, perhaps all of a
///              leaf that they make anew. avl copies none.
/// Errors:      as insert_or_assign of the map, and what copying the value throws: then nothing has
///              changed. (A value that has copies and no moves may be copied once more as
///              get_or_insert returns; if that throws, the key is there.)
/// Values:      can be copied and moved. In the snapshot maps those that can only be moved, too, by
///              the functions that need no copy.
/// Sections:    in a section of read-log-update an update is a part of it, and f runs inside.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/other_keys.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// What an update found and did; true if it has changed something.
class update_result {
 public:
  enum outcome : std::uint8_t {
    absent,     ///< the key is not there, and nothing has changed
    unchanged,  ///< it is there, and its value is to stay, or not the one expected
    updated,    ///< its value was replaced
    inserted,   ///< it was absent, and is there now
    erased,     ///< it was there, and is no more
  };

  constexpr update_result() noexcept = default;
  constexpr update_result(outcome is) noexcept : is_(is) {}

  [[nodiscard]] constexpr explicit operator bool() const noexcept { return is_ >= updated; }
  /// For a switch.
  [[nodiscard]] constexpr outcome is() const noexcept { return is_; }
  friend constexpr bool operator==(const update_result& a, const update_result& b) = default;

 private:
  outcome is_ = absent;
};

/// A copy of a key's value, and whether the call has put it there.
template <class Value>
struct value_or_inserted {
  Value value;
  bool inserted;
};

namespace detail::map {

/// What a map inherits that has
///
///   nothing_seen()              an object to look with; below: of one that has looked
///   look_at(key, seen)          false: the key is absent
///   put_if_absent(key, value)   true if it was
///   put_for(key, value, seen)   true if the key still had the value seen, and has this one now.
///                               The key may be of another type: what needs one that stays copies
///                               the key that is there
///   erase_seen(key, seen)       true if the key still had the value seen, and is gone
///   for_each(f), erase(key)
template <class Map, class Key, class Value>
class value_updates {
 public:
  /// absent, unchanged or updated.
  template <class F>
  update_result update(const Key& key, F&& f) {
    return update_named(named(key), f);
  }

  /// unchanged, updated or inserted.
  template <class F, class Make>
  update_result upsert(const Key& key, F&& f, Make&& make) {
    return upsert_named(named(key), f, make);
  }

  template <class Make>
  value_or_inserted<Value> get_or_insert(const Key& key, Make&& make) {
    return get_or_insert_named(named(key), make);
  }

  /// absent, unchanged (it has another value) or updated.
  [[nodiscard]] update_result compare_exchange(const Key& key, const Value& expected,
                                               const Value& value) {
    return compare_exchange_named(named(key), expected, value);
  }

  /// absent, unchanged or erased.
  template <class Pred>
  update_result erase_if(const Key& key, Pred&& pred) {
    return erase_if_named(named(key), pred);
  }

  /// A copy of the value that the key had; nothing if it was absent.
  std::optional<Value> extract(const Key& key) { return extract_named(named(key)); }

  // The same with a key of another type (map/keys.hpp). Of it a key is made by upsert and
  // get_or_insert where the key is absent. Else none is: where the map needs a copy of the key to
  // put a value in, it copies the one that is there.

  template <class K, class F>
    requires other_key_in<K, Key, Map>
  update_result update(const K& key, F&& f) {
    update_result done = update_result::absent;
    if constexpr (takes<K, false>()) done = update_named(other(key), f);
    return done;
  }
  template <class K, class F, class Make>
    requires other_key_in<K, Key, Map>
  update_result upsert(const K& key, F&& f, Make&& make) {
    update_result done = update_result::absent;
    if constexpr (takes<K>()) done = upsert_named(other(key), f, make);
    return done;
  }
  template <class K, class Make>
    requires other_key_in<K, Key, Map>
  value_or_inserted<Value> get_or_insert(const K& key, Make&& make) {
    static_cast<void>(takes<K>());
    return get_or_insert_named(other(key), make);
  }
  template <class K>
    requires other_key_in<K, Key, Map>
  [[nodiscard]] update_result compare_exchange(const K& key, const Value& expected,
                                               const Value& value) {
    update_result done = update_result::absent;
    if constexpr (takes<K, false>()) done = compare_exchange_named(other(key), expected, value);
    return done;
  }
  template <class K, class Pred>
    requires other_key_in<K, Key, Map>
  update_result erase_if(const K& key, Pred&& pred) {
    update_result done = update_result::absent;
    if constexpr (takes<K, false>()) done = erase_if_named(other(key), pred);
    return done;
  }
  template <class K>
    requires other_key_in<K, Key, Map>
  std::optional<Value> extract(const K& key) {
    std::optional<Value> last;
    if constexpr (takes<K, false>()) last = extract_named(other(key));
    return last;
  }

  /// Erases one key after the other, and says how many. Not at one instant: keys that come
  /// meanwhile may stay, and others see some of the keys gone and others not.
  std::size_t clear() {
    std::size_t gone = 0;
    self().for_each([&](const Key& key, const Value&) { gone += self().erase(key) ? 1U : 0U; });
    return gone;
  }

 protected:
  value_updates() = default;
  ~value_updates() = default;

 private:
  static named_key<Key> named(const Key& key) noexcept { return named_key<Key>(key); }
  template <class K>
  static named_key<Key, K> other(const K& key) noexcept {
    return named_key<Key, K>(key);
  }
  template <class K, bool Made = true>
  static constexpr bool takes() {
    static_assert(!Made || std::constructible_from<Key, const K&>,
                  "spolia: upsert and get_or_insert make a key to put a value in where it is "
                  "absent, and of this type none can be made");
    return checked_key<typename found_by_in<Map>::type, K>();
  }
  template <class Named, class Seen>
  bool looks_at(const Named& key, Seen& seen) const {
    seen.forget();
    return key.told_to([&](const auto& k) { return self().look_at(k, seen); });
  }
  template <class Named, class Seen>
  bool puts(const Named& key, Value&& value, const Seen& seen) {
    return key.told_to([&](const auto& k) { return self().put_for(k, std::move(value), seen); });
  }
  template <class Named, class Seen>
  bool erases(const Named& key, const Seen& seen) {
    return key.told_to([&](const auto& k) { return self().erase_seen(k, seen); });
  }

  template <class Named, class F>
  update_result update_named(Named key, F& f) {
    changed_by<F>();
    auto seen = self().nothing_seen();
    while (looks_at(key, seen)) {
      if (const auto done = change(key, seen, f)) return *done;
    }
    return update_result::absent;
  }
  template <class Named, class F, class Make>
  update_result upsert_named(Named key, F& f, Make& make) {
    changed_by<F>();
    made_by<Make>();
    auto seen = self().nothing_seen();
    for (;;) {
      if (!looks_at(key, seen)) {
        if (self().put_if_absent(key.key(), made(make))) return update_result::inserted;
      } else if (const auto done = change(key, seen, f)) {
        return *done;
      }
    }
  }
  template <class Named, class Make>
  value_or_inserted<Value> get_or_insert_named(Named key, Make& make) {
    static_assert(std::copy_constructible<Value>, "get_or_insert: it gives a copy of the value");
    made_by<Make>();
    auto seen = self().nothing_seen();
    for (;;) {
      using answer = value_or_inserted<Value>;
      // The one that is returned, so that nothing is copied once the key is there.
      answer result = looks_at(key, seen) ? answer{seen.taken(), false}  //
                                          : answer{made(make), true};
      if (!result.inserted || self().put_if_absent(key.key(), Value(result.value))) return result;
    }
  }
  template <class Named>
  update_result compare_exchange_named(Named key, const Value& expected, const Value& value) {
    static_assert(std::copy_constructible<Value>,
                  "compare_exchange: it makes copies of the new value");
    static_assert(std::equality_comparable<Value>, "compare_exchange: values are compared by ==");
    auto seen = self().nothing_seen();
    while (looks_at(key, seen)) {
      if (!(seen.value() == expected)) return update_result::unchanged;
      if (puts(key, Value(value), seen)) return update_result::updated;
    }
    return update_result::absent;
  }
  template <class Named, class Pred>
  update_result erase_if_named(Named key, Pred& pred) {
    static_assert(std::predicate<Pred&, const Value&>, "erase_if: pred(const Value&) says whether");
    auto seen = self().nothing_seen();
    while (looks_at(key, seen)) {
      if (!pred(std::as_const(seen).value())) return update_result::unchanged;
      if (erases(key, seen)) return update_result::erased;
    }
    return update_result::absent;
  }
  template <class Named>
  std::optional<Value> extract_named(Named key) {
    static_assert(std::copy_constructible<Value>, "extract: it gives a copy of the value");
    std::optional<Value> last;
    auto seen = self().nothing_seen();
    while (looks_at(key, seen)) {
      last.emplace(seen.taken());  // first: it may throw
      if (erases(key, seen)) return last;
      last.reset();
    }
    return last;
  }

  /// Whether f changes the copy that it is given; else it returns the new value.
  template <class F>
  static constexpr bool in_place = [] {
    if constexpr (std::invocable<F&, Value&>) {
      using result = std::invoke_result_t<F&, Value&>;
      return std::is_void_v<result> || std::is_same_v<std::remove_cvref_t<result>, bool>;
    }
    return false;
  }();
  template <class F>
  static constexpr void changed_by() {
    if constexpr (in_place<F>) {
      static_assert(std::copy_constructible<Value>,
                    "update, upsert: f(Value&) changes a copy of the value, and this type has no "
                    "copies; f(const Value&) may return the new one");
    } else {
      static_assert(
          std::invocable<F&, const Value&> && requires(F& f, const Value& v) { Value(f(v)); },
          "update, upsert: f is called as f(Value&), to change a copy of the value, or as "
          "f(const Value&), to return the new one");
    }
  }
  template <class Make>
  static constexpr void made_by() {
    static_assert(std::invocable<Make&> || std::constructible_from<Value, const Make&>,
                  "upsert, get_or_insert: make is a function that returns a value, or a value of "
                  "which copies can be made");
  }
  template <class Make>
  static Value made(Make& make) {
    if constexpr (std::invocable<Make&>) {
      return Value(make());
    } else {
      return Value(std::as_const(make));
    }
  }

  /// Nothing: the key has another value by now.
  template <class Named, class Seen, class F>
  std::optional<update_result> change(Named& key, Seen& seen, F& f) {
    if constexpr (in_place<F>) {
      Value next = seen.taken();
      if constexpr (std::is_void_v<std::invoke_result_t<F&, Value&>>) {
        f(next);
      } else {
        if (!f(next)) return update_result::unchanged;
      }
      if (!puts(key, std::move(next), seen)) return std::nullopt;
    } else {
      if (!puts(key, Value(f(std::as_const(seen).value())), seen)) return std::nullopt;
    }
    return update_result::updated;
  }

  Map& self() noexcept { return static_cast<Map&>(*this); }
  const Map& self() const noexcept { return static_cast<const Map&>(*this); }
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
