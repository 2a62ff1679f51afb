// SPDX-License-Identifier: Apache-2.0
// list.hpp: an ordered map as one sorted linked list, lock-free, under every reclamation scheme.
//
// Source:      Michael: High performance dynamic lock-free hash tables and list-based sets, SPAA
//              2002, after Harris, DISC 2001. A mark in a node's own `next` says that the node is
//              deleted: from then on the link is frozen. Deleted nodes are unlinked one at a time
//              and never stepped over, which is what makes the list safe for schemes that protect
//              single pointers.
//
//     spolia::list<std::uint64_t, std::string> names;      // with a domain of its own
//     names.insert(7, "seven");
//     if (auto name = names.find(7)) ...
//
// Operations:  see concepts.hpp, which also says which may run beside which: all of them. What a
//              thread did before an update happens before what another does after having seen the
//              update.
// Cost:        linear in the number of smaller keys. For short lists, or as the buckets of a table.
//              A step of for_each or range walks from the head, and copies up to 64 pairs (8 under
//              a restartable scheme).
// Progress:    lock-free. Under schemes that protect what is unlinked (protects_optimistic_search)
//              find, contains and visit only read, and are wait-free but for keys inserted ahead of
//              them.
// Retires:     one node for each erase and each replacement, by whichever thread unlinks it. At
//              most one deleted node per update under way stays linked.
// Errors:      std::bad_alloc, and whatever the user's copies, moves and comparisons throw: then
//              the map is as it was before. Under a restartable scheme comparisons must neither
//              throw nor allocate nor lock, since they may be abandoned half-way.
// User code:   comparisons, visit's f, and the copies that find, insert, for_each and range make
//              run inside a guard and hold up freeing for as long as they take; f of for_each and
//              range does not. Destructors of keys and values run wherever the domain frees,
//              possibly after the map is gone if the domain is shared; they must not throw.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/map/detail/face.hpp>
#include <spolia/map/detail/list_chain.hpp>
#include <spolia/map/detail/list_map.hpp>
#include <spolia/map/detail/right_kinds.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/keys.hpp>
#include <spolia/reclaim/domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Key, class Value, class Domain, class Compare>
class list_core
    : public list_map<list_core<Key, Value, Domain, Compare>, Key, Value, Domain, by_key<Compare>> {
  using all = list_map<list_core, Key, Value, Domain, by_key<Compare>>;
  using typename all::chain;
  using typename all::counters;
  using typename all::guard;
  using typename all::link;

 public:
  using key_compare = Compare;

  list_core(Domain& home, Compare less) : all(home, by_key<Compare>(std::move(less))) {}
  ~list_core() { this->chains().end(head_); }

  template <bool, class Within, class F>
  void scan(const Within& within, F& f) const {
    scan_in_batches<false, Key, Value>(
        within, this->chains().order().less(), chain::batch_size,
        [&](const auto& rest, auto& batch) { return this->copy_some(head_, rest, batch); }, f);
  }
  static constexpr bool is_linear = true;
  /// Of all, the first.
  template <bool>
  auto outermost(const interval<Key>& whole) const {
    one_pair<Key, Value> found;
    this->copy_some(head_, whole, found);
    return found.taken();
  }

 private:
  friend all;
  using way = way_by_key<typename chain::rank>;

  template <class K>
  static way way_to(const K&) noexcept {
    return {};
  }
  atomic<link>& head_to_read(way) const noexcept { return head_; }
  atomic<link>& head_to_put(guard&, way) const noexcept { return head_; }
  static void note_added(const counters&) noexcept {}

  // Lookups take deleted nodes out too, under some schemes.
  alignas(cache_line) mutable atomic<link> head_;
};

}  // namespace detail::map

/// See the top of this file, and map/detail/face.hpp for what one can do with it.
template <class Key, class Value, class Domain = domain<>, class Compare = default_order<Key>>
class list : private detail::map::kinds_by_order<Key, Domain, Compare>,
             public detail::map::map_face<detail::map::list_core<Key, Value, Domain, Compare>> {
  using face = detail::map::map_face<detail::map::list_core<Key, Value, Domain, Compare>>;

 public:
  using face::face;

  using face::insert;
  using face::insert_or_assign;

  /// The same with a key to move from, which happens only if a node is made of it.
  template <class V = Value>
    requires std::constructible_from<Value, V>
  bool insert(Key&& key, V&& value) {
    return face::told(this->core().template put<false>(std::move(key), std::forward<V>(value)));
  }
  template <class V = Value>
    requires std::constructible_from<Value, V>
  bool insert_or_assign(Key&& key, V&& value) {
    return face::template told<true>(
        this->core().template put<true>(std::move(key), std::forward<V>(value)));
  }
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
