// SPDX-License-Identifier: Apache-2.0
// list_map.hpp: what the maps do alike whose pairs lie in sorted chains (list_chain.hpp): list.hpp,
// michael_hash.hpp and split_ordered_hash.hpp.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/fresh.hpp>
#include <spolia/map/detail/list_chain.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/detail/seen_value.hpp>
#include <spolia/map/detail/size_counter.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// Of a map that inherits this, `Table` says in which chain a key belongs:
///
///   way_to(key)         what it has to know of the key, once for each operation; has
///     rank()              the rank of a node of this key
///     sought(key)         what the chain searches for
///   head_to_read(way)   where the chain begins
///   head_to_put(guard, way)   the same; may throw std::bad_alloc
///   note_added(mine)    a pair was added, by a thread with these counters
template <class Table, class Key, class Value, class Domain, class Order>
class list_map {
  static_assert(
      std::is_nothrow_destructible_v<Key> && std::is_nothrow_destructible_v<Value>,
      "spolia: destructors of keys and values run where no caller can catch what they throw");

 protected:
  using chain = list_chain<Key, Value, Domain, Order>;
  using link = typename chain::link;
  using guard = typename Domain::guard;

 public:
  using key_type = Key;
  using mapped_type = Value;
  using domain_type = Domain;
  using seen = seen_value<Value>;

  list_map(const list_map&) = delete;
  list_map& operator=(const list_map&) = delete;

  Domain& home() const noexcept { return chain_.domain(); }

  template <bool Assign, class K, class V, class... Seen>
  bool put(K&& key, V&& value, const Seen&... was) {
    constexpr bool only_for_seen = sizeof...(Seen) != 0;
    auto& mine = size_.here();
    const auto way = table().way_to(key);
    auto fresh = chain_.no_node();
    guard g = home().enter();
    atomic<link>& head = table().head_to_put(g, way);
    for (;;) {
      const auto p = [&] {
        if constexpr (!only_for_seen) {
          // The one given was moved.
          if (fresh != nullptr) return chain_.search(g, head, way.sought(fresh->key));
        }
        return chain_.search(g, head, way.sought(key));
      }();
      if (p.found ? !Assign || !(p.pair().has(was) && ...) : only_for_seen) return false;
      if (fresh == nullptr) {
        with_key_there<only_for_seen>(
            p.found ? std::addressof(p.pair().key) : nullptr, std::forward<K>(key), [&](auto&& k) {
              chain_.make(fresh, way.rank(), std::forward<decltype(k)>(k), std::forward<V>(value),
                          next_stamp<Value>(mine.stamped));
            });
      }
      if (p.found) {
        if (chain_.replace(g, head, p, fresh)) return only_for_seen;
      } else if (!only_for_seen && chain_.publish(head, p, fresh)) {
        mine.added.add(1);
        table().note_added(mine);
        return true;
      }
    }
  }

  template <class K, class... Seen>
  bool erase(const K& key, const Seen&... was) {
    auto& mine = size_.here();
    const auto way = table().way_to(key);
    guard g = home().enter();
    atomic<link>& head = table().head_to_read(way);
    for (;;) {
      const auto p = chain_.search(g, head, way.sought(key));
      if (!p.found || !(p.pair().has(was) && ...)) return false;
      if (!chain_.erase(g, head, p)) continue;
      mine.removed.add(1);
      return true;
    }
  }

  template <class K>
  bool contains(const K& key) const {
    const auto way = table().way_to(key);
    guard g = home().enter();
    return chain_.locate(g, table().head_to_read(way), way.sought(key)) != nullptr;
  }

  template <class K, class F>
  bool visit(const K& key, F&& f) const {
    const auto way = table().way_to(key);
    guard g = home().enter();
    const auto* const n = chain_.locate(g, table().head_to_read(way), way.sought(key));
    if (n == nullptr) return false;
    std::forward<F>(f)(n->value);
    return true;
  }

  template <class K>
  bool look(const K& key, seen& to) const {
    const auto way = table().way_to(key);
    guard g = home().enter();
    const auto* const n = chain_.locate(g, table().head_to_read(way), way.sought(key));
    if (n != nullptr) to.look(n->value, n->which);
    return n != nullptr;
  }

  std::size_t size_approx() const noexcept { return size_.approx(); }

 protected:
  list_map(Domain& home, Order order) : chain_(home, std::move(order)) {}
  ~list_map() = default;

  using counters = size_counter::mine;

  const chain& chains() const noexcept { return chain_; }

  /// What scan_in_batches() asks for. `end`: the joint without a pair at which the chain was left.
  template <class Rest, class Batch>
  bool copy_some(atomic<link>& head, const Rest& rest, Batch& batch,
                 typename chain::joint** end = nullptr) const {
    guard g = home().enter();
    auto* const at = chain_.gather(g, head, rest, batch);
    if (end != nullptr) *end = at;
    return !batch.empty();
  }

 private:
  Table& table() noexcept { return static_cast<Table&>(*this); }
  const Table& table() const noexcept { return static_cast<const Table&>(*this); }

  size_counter size_;
  chain chain_;
};

/// Where only the key says where a pair belongs.
template <class Rank>
struct way_by_key {
  static constexpr Rank rank() noexcept { return {}; }
  template <class K>
  static const K& sought(const K& key) noexcept {
    return key;
  }
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
