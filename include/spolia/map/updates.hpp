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

namespace spolia::inline SPOLIA_FLAVOUR {

/// What an update found and did.
enum class update_result : std::uint8_t {
  absent,     ///< the key is not there, and nothing has changed
  unchanged,  ///< it is there, and its value is to stay, or not the one expected
  updated,    ///< its value was replaced
  inserted,   ///< it was absent, and is there now
  erased,     ///< it was there, and is no more
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
///   put_for(key, value, seen)   true if the key still had the value seen, and has this one now
///   erase_seen(key, seen)       true if the key still had the value seen, and is gone
///   for_each(f), erase(key)
template <class Map, class Key, class Value>
class value_updates {
 public:
  /// absent, unchanged or updated.
  template <class F>
  update_result update(const Key& key, F&& f) {
    changed_by<F>();
    auto seen = self().nothing_seen();
    while (self().look_at(key, seen)) {
      if (const auto done = change(key, seen, f)) return *done;
    }
    return update_result::absent;
  }

  /// unchanged, updated or inserted.
  template <class F, class Make>
  update_result upsert(const Key& key, F&& f, Make&& make) {
    changed_by<F>();
    made_by<Make>();
    auto seen = self().nothing_seen();
    for (;;) {
      if (!self().look_at(key, seen)) {
        if (self().put_if_absent(key, made(make))) return update_result::inserted;
      } else if (const auto done = change(key, seen, f)) {
        return *done;
      }
    }
  }

  template <class Make>
  value_or_inserted<Value> get_or_insert(const Key& key, Make&& make) {
    static_assert(std::copy_constructible<Value>, "get_or_insert: it gives a copy of the value");
    made_by<Make>();
    auto seen = self().nothing_seen();
    for (;;) {
      using answer = value_or_inserted<Value>;
      // The one that is returned, so that nothing is copied once the key is there.
      answer result = self().look_at(key, seen) ? answer{seen.taken(), false}  //
                                                : answer{made(make), true};
      if (!result.inserted || self().put_if_absent(key, Value(result.value))) return result;
    }
  }

  /// absent, unchanged (it has another value) or updated.
  update_result compare_exchange(const Key& key, const Value& expected, const Value& value) {
    static_assert(std::copy_constructible<Value>,
                  "compare_exchange: it makes copies of the new value");
    static_assert(std::equality_comparable<Value>, "compare_exchange: values are compared by ==");
    auto seen = self().nothing_seen();
    while (self().look_at(key, seen)) {
      if (!(seen.value() == expected)) return update_result::unchanged;
      if (self().put_for(key, Value(value), seen)) return update_result::updated;
    }
    return update_result::absent;
  }

  /// absent, unchanged or erased.
  template <class Pred>
  update_result erase_if(const Key& key, Pred&& pred) {
    static_assert(std::predicate<Pred&, const Value&>, "erase_if: pred(const Value&) says whether");
    auto seen = self().nothing_seen();
    while (self().look_at(key, seen)) {
      if (!pred(std::as_const(seen).value())) return update_result::unchanged;
      if (self().erase_seen(key, seen)) return update_result::erased;
    }
    return update_result::absent;
  }

  /// A copy of the value that the key had; nothing if it was absent.
  std::optional<Value> extract(const Key& key) {
    static_assert(std::copy_constructible<Value>, "extract: it gives a copy of the value");
    std::optional<Value> last;
    auto seen = self().nothing_seen();
    while (self().look_at(key, seen)) {
      last.emplace(seen.taken());  // first: it may throw
      if (self().erase_seen(key, seen)) return last;
      last.reset();
    }
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
  template <class Seen, class F>
  std::optional<update_result> change(const Key& key, Seen& seen, F& f) {
    if constexpr (in_place<F>) {
      Value next = seen.taken();
      if constexpr (std::is_void_v<std::invoke_result_t<F&, Value&>>) {
        f(next);
      } else {
        if (!f(next)) return update_result::unchanged;
      }
      if (!self().put_for(key, std::move(next), seen)) return std::nullopt;
    } else {
      if (!self().put_for(key, Value(f(std::as_const(seen).value())), seen)) return std::nullopt;
    }
    return update_result::updated;
  }

  Map& self() noexcept { return static_cast<Map&>(*this); }
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
