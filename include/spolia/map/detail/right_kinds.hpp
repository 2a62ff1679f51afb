// SPDX-License-Identifier: Apache-2.0
// right_kinds.hpp: whether the template arguments of a map stand where they belong. Each map has
// one of these as its first base, so that the sentence is the first thing that a compiler says.
#pragma once

#include <concepts>
#include <functional>
#include <type_traits>

#include <spolia/base/config.hpp>
#include <spolia/map/keys.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class D>
concept is_a_domain = requires {
  typename D::scheme_type;
  typename D::guard;
};
template <class D>
concept is_a_domain_of_logs = requires {
  typename D::reader;
  typename D::writer;
};
template <class F>
concept is_a_family = requires {
  typename F::template pointer<int>;
  typename F::template location<int>;
};

/// The standard's own functions of two keys, which a compiler cannot tell from each other by how
/// they are called.
template <class F>
inline constexpr bool is_known_equality = false;
template <class T>
inline constexpr bool is_known_equality<std::equal_to<T>> = true;
template <class T>
inline constexpr bool is_known_equality<std::not_equal_to<T>> = true;
template <class T>
inline constexpr bool is_known_equality<float_equal<T>> = true;
template <class F>
inline constexpr bool is_known_order = false;
template <class T>
inline constexpr bool is_known_order<std::less<T>> = true;
template <class T>
inline constexpr bool is_known_order<std::greater<T>> = true;
template <class T>
inline constexpr bool is_known_order<float_order<T>> = true;

/// What it returns need only be bool in a condition.
template <class F, class Key>
concept is_asked_of_two = requires(F& f, const Key& a, const Key& b) { f(a, b) ? 0 : 1; };
template <class F, class Key>
concept is_an_order = is_asked_of_two<F, Key> && !is_known_equality<F>;
template <class F, class Key>
concept is_an_equality = is_asked_of_two<F, Key> && !is_known_order<F>;
template <class F, class Key>
concept is_a_hash = std::is_invocable_v<F&, const Key&>;

// ---------------------------------------------------------------------- of the third argument

template <class Domain>
struct third_is_a_domain {
  static_assert(is_a_domain<Domain>,
                "the third argument of this map is its domain, such as spolia::domain<>; a hash or "
                "a comparison comes after it");
};
template <class Domain>
struct third_is_a_domain_of_logs {
  static_assert(is_a_domain_of_logs<Domain>,
                "the third argument of this map is its domain, such as spolia::rlu::domain; a hash "
                "or a comparison comes after it");
};
template <bool IsOne>
struct third_is_a_collector {
  static_assert(IsOne,
                "the third argument of a map with snapshots is its collector, such as "
                "spolia::sl_rt<>; a hash or a comparison comes after it");
};
template <class Family>
struct third_is_a_family {
  static_assert(is_a_family<Family>,
                "the third argument of a counted map is its family of pointers, such as "
                "spolia::thin_family; a hash or a comparison comes after it");
};

// ----------------------------------------------------------------- of those that are about keys

template <class Key, class Compare>
struct fourth_is_an_order {
  static_assert(is_an_order<Compare, Key>,
                "the fourth argument of this map is an order of its keys, such as std::less<Key>");
};
template <class Key, class Hash>
struct fourth_is_a_hash {
  static_assert(is_a_hash<Hash, Key>,
                "the fourth argument of this map is a hash of its keys, such as std::hash<Key>; a "
                "type of your own needs one of your own");
};
template <class Key, class Compare>
struct fifth_is_an_order {
  static_assert(is_an_order<Compare, Key>,
                "the fifth argument of this map is an order of its keys, such as std::less<Key>: "
                "its buckets are sorted");
};
template <class Key, class Equal>
struct fifth_is_an_equality {
  static_assert(is_an_equality<Equal, Key>,
                "the fifth argument of this map is an equality of its keys, such as "
                "std::equal_to<Key>");
};

// ---------------------------------------------------------------------------- the bases of maps

template <class Key, class Domain, class Compare>
struct kinds_by_order : third_is_a_domain<Domain>, fourth_is_an_order<Key, Compare> {};
template <class Key, class Domain, class Hash, class Compare>
struct kinds_by_hash : third_is_a_domain<Domain>,
                       fourth_is_a_hash<Key, Hash>,
                       fifth_is_an_order<Key, Compare> {};
template <class Key, class Domain, class Compare>
struct kinds_of_logs_by_order : third_is_a_domain_of_logs<Domain>,
                                fourth_is_an_order<Key, Compare> {};
template <class Key, class Domain, class Hash, class Compare>
struct kinds_of_logs_by_hash : third_is_a_domain_of_logs<Domain>,
                               fourth_is_a_hash<Key, Hash>,
                               fifth_is_an_order<Key, Compare> {};
template <class Key, class Family, class Compare>
struct kinds_counted_by_order : third_is_a_family<Family>, fourth_is_an_order<Key, Compare> {};
template <class Key, class Family, class Hash>
struct kinds_counted_by_hash : third_is_a_family<Family>, fourth_is_a_hash<Key, Hash> {};
template <class Key, bool IsCollector, class Compare>
struct kinds_with_snapshots_by_order : third_is_a_collector<IsCollector>,
                                       fourth_is_an_order<Key, Compare> {};
template <class Key, bool IsCollector, class Hash, class Equal>
struct kinds_with_snapshots_by_hash : third_is_a_collector<IsCollector>,
                                      fourth_is_a_hash<Key, Hash>,
                                      fifth_is_an_equality<Key, Equal> {};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
