// SPDX-License-Identifier: Apache-2.0
// concepts.hpp: what the ordered concurrent maps of this folder have in common.
//
//   insert(key, value)            true if the key was absent and now maps to value; false: nothing
//                                 has changed
//   insert_or_assign(key, value)  true if the key was absent; false: its value was replaced
//   erase(key)                    true if the key was present
//   find(key)                     a copy of the value, or nothing
//   contains(key)
//   visit(key, f)                 f(const Value&) under a guard; true if the key was present
//   for_each(f)                   f(key, value) in ascending order of keys; f returns nothing, or
//                                 false to stop. No guard is held while f runs
//   range(lo, hi, f)              the same for the keys from lo on and before hi; or with other
//                                 ends, after(lo), upto(hi), no_limit: ends.hpp
//   for_each_down, range_down     the same in descending order
//   first(), last()               a copy of the pair with the least key, and with the greatest
//   lower_bound(key), upper_bound(key), last_before(key), last_upto(key)   of the first pair at the
//                                 key or after it, the first after it, the last before it, the last
//                                 before it or at it; of all these nothing if there is none
//   size_approx(), empty_approx() counts that may lag behind updates under way
//   domain()                      the reclamation domain that the map's blocks go through
//
// Every operation may run beside every other, on any number of threads; construction and
// destruction must not run beside anything. All but for_each, range, those in descending order, and
// what finds a pair by its place in the order are linearizable; and an update that has changed
// something comes before all that its thread does next, for every thread that looks into another
// map after an update of its own, or after a seq_cst fence (on x86-64 also after a seq_cst store):
// detail/after_update.hpp.
//
// A comparison that is no strict weak order, or a hash or equality that gives other answers each
// time: each operation ends, lets go of its guard or lock, and touches nothing that is not there.
// Which keys it finds, changes or shows is not promised, nor is size_approx(). Floating-point keys
// have an order unless one is named: keys.hpp.
//
// Keys that are equivalent by the comparison, or equality, but differ: the key that is there stays
// when its value is replaced, in every map of this folder. (Of a type that has no copies the new
// one comes. If others insert or erase the key during the call, it may be the new one, or any that
// was there.)
//
// By an order, for_each and range guarantee: keys come in ascending order, each at most once; a key
// that is present during the whole call comes, and one that is absent during the whole call does
// not; a value shown was the key's value at some moment during the call.
//
// What first, last, lower_bound and the others like it find is what such a scan would show first:
// the pair was there at some moment during the call, and no key that is present during the whole
// call lies between it and where the search began. In snapshot_tree, which takes a snapshot for
// it, in counted_bst and counted_btree, where it waits for writers, and in the rlu_ maps it is of
// one moment, and they are linearizable.
//
// In lists, where a search for a key goes over all smaller ones, there is first(), range and
// for_each, and none of the others: they would all be linear.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

namespace detail::map {
/// Stand-ins for user functions with which the concept is checked.
template <class Value>
struct any_visitor {
  void operator()(const Value&) const noexcept;
};
template <class Key, class Value>
struct any_receiver {
  bool operator()(const Key&, const Value&) const noexcept;
};
}  // namespace detail::map

/// An ordered map for any number of threads whose keys and values can be copied.
template <class M>
concept concurrent_map =
    requires(M m, const M& c, const typename M::key_type& key, typename M::mapped_type value,
             detail::map::any_visitor<typename M::mapped_type> visitor,
             detail::map::any_receiver<typename M::key_type, typename M::mapped_type> receiver) {
      typename M::domain_type;
      { m.insert(key, value) } -> std::same_as<bool>;
      { m.insert_or_assign(key, value) } -> std::same_as<bool>;
      { m.erase(key) } -> std::same_as<bool>;
      { c.find(key) } -> std::same_as<std::optional<typename M::mapped_type>>;
      { c.contains(key) } -> std::same_as<bool>;
      { c.visit(key, visitor) } -> std::same_as<bool>;
      c.for_each(receiver);
      c.range(key, key, receiver);
      { c.size_approx() } -> std::same_as<std::size_t>;
      { c.empty_approx() } -> std::same_as<bool>;
      { c.domain() } -> std::same_as<typename M::domain_type&>;
    };

}  // namespace spolia::inline SPOLIA_FLAVOUR
