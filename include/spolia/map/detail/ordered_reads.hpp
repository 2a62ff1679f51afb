// SPDX-License-Identifier: Apache-2.0
// ordered_reads.hpp: what ordered maps show in order, said once.
//
// A map that inherits this has ordered(), the object in which it keeps its pairs, with
//
//   scan<Down>(interval, f)       shows f the pairs of the interval (scan.hpp), ascending, or if
//                                 Down descending
//   outermost<Down>(interval)     a copy of the first of them, or if Down of the last, or nothing
//
// Of a map that has to go over all smaller keys to find one, neither is asked for downwards, nor
// outermost but for the first pair of all.
#pragma once

#include <concepts>
#include <optional>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/other_keys.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/ends.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// Linear: the map has to go over all smaller keys to find one.
template <class Map, class Key, class Value, class Keys, bool Linear>
class ordered_reads {
  static constexpr bool copies = std::copy_constructible<Key> && std::copy_constructible<Value>;
  static constexpr bool finds = copies && !Linear;
  using pair = std::optional<std::pair<Key, Value>>;

 public:
  /// As for_each(), for the keys from `lo` on and before `hi`.
  template <std::invocable<const Key&, const Value&> F>
    requires copies
  void range(const Key& lo, const Key& hi, F&& f) const {
    in().template scan<false>(from_to(lo, hi), f);
  }
  /// The same with other ends: after(lo), upto(hi), no_limit (map/ends.hpp).
  template <class Lo, class Hi, std::invocable<const Key&, const Value&> F>
    requires copies && ends_of<Lo, Hi, Key, Keys>
  void range(const Lo& lo, const Hi& hi, F&& f) const {
    between<Key, Keys>(lo, hi, [&](const auto& within) { in().template scan<false>(within, f); });
  }

  /// As for_each() and range(), in descending order.
  template <std::invocable<const Key&, const Value&> F>
    requires finds
  void for_each_down(F&& f) const {
    in().template scan<true>(all_keys<Key>, f);
  }
  template <std::invocable<const Key&, const Value&> F>
    requires finds
  void range_down(const Key& lo, const Key& hi, F&& f) const {
    in().template scan<true>(from_to(lo, hi), f);
  }
  template <class Lo, class Hi, std::invocable<const Key&, const Value&> F>
    requires finds && ends_of<Lo, Hi, Key, Keys>
  void range_down(const Lo& lo, const Hi& hi, F&& f) const {
    between<Key, Keys>(lo, hi, [&](const auto& within) { in().template scan<true>(within, f); });
  }

  // A copy of one pair, or nothing if there is none. concepts.hpp says what that tells beside
  // updates. It takes as long as a find, and up to twice that where the pair lies in the next leaf
  // or on the next way; a list has first() alone, in constant time. Throws what copying throws, and
  // std::bad_alloc.

  /// The pair with the least key.
  [[nodiscard]] pair first() const
    requires copies
  {
    return in().template outermost<false>(all_keys<Key>);
  }
  /// The pair with the greatest key.
  [[nodiscard]] pair last() const
    requires finds
  {
    return in().template outermost<true>(all_keys<Key>);
  }
  /// The first pair at the key or after it.
  [[nodiscard]] pair lower_bound(const Key& key) const
    requires finds
  {
    return in().template outermost<false>(from_on(key));
  }
  /// The first pair after the key.
  [[nodiscard]] pair upper_bound(const Key& key) const
    requires finds
  {
    return in().template outermost<false>(after_it(key));
  }
  /// The last pair before the key.
  [[nodiscard]] pair last_before(const Key& key) const
    requires finds
  {
    return in().template outermost<true>(before_it(key));
  }
  /// The last pair before the key or at it.
  [[nodiscard]] pair last_upto(const Key& key) const
    requires finds
  {
    return in().template outermost<true>(up_to(key));
  }

  // The same with a key of another type, of which no key is made (map/keys.hpp).

  template <other_key<Key, Keys> K>
    requires finds
  [[nodiscard]] pair lower_bound(const K& key) const {
    return outermost<false, K>(from_on(key));
  }
  template <other_key<Key, Keys> K>
    requires finds
  [[nodiscard]] pair upper_bound(const K& key) const {
    return outermost<false, K>(after_it(key));
  }
  template <other_key<Key, Keys> K>
    requires finds
  [[nodiscard]] pair last_before(const K& key) const {
    return outermost<true, K>(before_it(key));
  }
  template <other_key<Key, Keys> K>
    requires finds
  [[nodiscard]] pair last_upto(const K& key) const {
    return outermost<true, K>(up_to(key));
  }

 protected:
  ordered_reads() = default;
  ~ordered_reads() = default;

 private:
  template <bool Down, class K, class Within>
  pair outermost(const Within& within) const {
    pair found;
    if constexpr (checked_key<Keys, K>()) found = in().template outermost<Down>(within);
    return found;
  }
  [[nodiscard]] const auto& in() const noexcept { return static_cast<const Map&>(*this).ordered(); }
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
