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

#include <spolia/base/config.hpp>
#include <spolia/map/detail/face.hpp>
#include <spolia/map/detail/fresh.hpp>
#include <spolia/map/detail/list_chain.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/detail/size_counter.hpp>
#include <spolia/map/keys.hpp>
#include <spolia/reclaim/domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Key, class Value, class Domain, class Compare>
class list_core {
  static_assert(
      std::is_nothrow_destructible_v<Key> && std::is_nothrow_destructible_v<Value>,
      "list: destructors of keys and values run where no caller can catch what they throw");

  using chain = list_chain<Key, Value, Domain, Compare>;
  using guard = typename Domain::guard;

 public:
  using key_type = Key;
  using mapped_type = Value;
  using domain_type = Domain;
  using key_compare = Compare;
  using seen = seen_value<Value>;

  list_core(Domain& home, Compare less) : chain_(home, std::move(less)) {}

  Domain& home() const noexcept { return chain_.domain(); }

  template <bool Assign, class K, class V, class... Seen>
  bool put(K&& key, V&& value, const Seen&... was) {
    constexpr bool only_for_seen = sizeof...(Seen) != 0;
    auto& mine = size_.here();
    auto fresh = chain_.no_node();
    guard g = home().enter();
    for (;;) {
      const auto p = [&] {
        if constexpr (!only_for_seen) {
          if (fresh != nullptr) return chain_.search(g, fresh->key);  // the one given was moved
        }
        return chain_.search(g, key);
      }();
      if (p.found ? !Assign || !(p.cur->has(was) && ...) : only_for_seen) return false;
      if (fresh == nullptr) {
        with_key_there<only_for_seen>(
            p.found ? std::addressof(p.cur->key) : nullptr, std::forward<K>(key), [&](auto&& k) {
              chain_.make(fresh, std::forward<decltype(k)>(k), std::forward<V>(value),
                          next_stamp<Value>(mine.stamped));
            });
      }
      if (p.found) {
        if (chain_.replace(g, p, fresh)) return only_for_seen;
      } else if (!only_for_seen && chain_.publish(p, fresh)) {
        mine.added.add(1);
        return true;
      }
    }
  }

  template <class K, class... Seen>
  bool erase(const K& key, const Seen&... was) {
    auto& mine = size_.here();
    guard g = home().enter();
    for (;;) {
      const auto p = chain_.search(g, key);
      if (!p.found || !(p.cur->has(was) && ...)) return false;
      if (!chain_.erase(g, p)) continue;
      mine.removed.add(1);
      return true;
    }
  }

  template <class K>
  bool contains(const K& key) const {
    guard g = home().enter();
    return chain_.locate(g, key) != nullptr;
  }

  template <class K, class F>
  bool visit(const K& key, F&& f) const {
    guard g = home().enter();
    const auto* const n = chain_.locate(g, key);
    if (n == nullptr) return false;
    std::forward<F>(f)(n->value);
    return true;
  }

  template <class K>
  bool look(const K& key, seen& to) const {
    guard g = home().enter();
    const auto* const n = chain_.locate(g, key);
    if (n != nullptr) to.look(n->value, n->which);
    return n != nullptr;
  }

  template <bool, class Within, class F>
  void scan(const Within& within, F& f) const {
    scan_in_batches<false, Key, Value>(
        within, chain_.less(), chain::batch_size,
        [&](const auto& rest, auto& batch) { return copy_some(rest, batch); }, f);
  }
  static constexpr bool is_linear = true;
  /// Of all, the first.
  template <bool>
  auto outermost(const interval<Key>& all) const {
    one_pair<Key, Value> found;
    copy_some(all, found);
    return found.taken();
  }

  std::size_t size_approx() const noexcept { return size_.approx(); }

 private:
  template <class Rest, class Batch>
  bool copy_some(const Rest& rest, Batch& batch) const {
    guard g = home().enter();
    return chain_.gather(g, rest, batch);
  }

  detail::map::size_counter size_;
  chain chain_;
};

}  // namespace detail::map

/// See the top of this file, and map/detail/face.hpp for what one can do with it.
template <class Key, class Value, class Domain = domain<>, class Compare = default_order<Key>>
class list : public detail::map::map_face<detail::map::list_core<Key, Value, Domain, Compare>> {
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
