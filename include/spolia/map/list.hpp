// SPDX-License-Identifier: Apache-2.0
// list.hpp: an ordered map as one sorted linked list, lock-free, under every reclamation scheme.
//
// Source:      Michael: High performance dynamic lock-free hash tables and list-based sets, SPAA
// 2002,
//              after Harris, DISC 2001. A mark in a node's own `next` says that the node is
//              deleted: from then on the link is frozen. Deleted nodes are unlinked one at a time
//              and never stepped over, which is what makes the list safe for schemes that protect
//              single pointers.
//
//     spolia::list<std::uint64_t, std::string> names;      // with a domain of its own
//     names.insert(7, "seven");
//     if (auto name = names.find(7)) ...
//
// Operations:  see concepts.hpp, which also says which may run beside which: all of them. What a
// thread
//              did before an update happens before what another does after having seen the update.
// Cost:        linear in the number of smaller keys. For short lists, or as the buckets of a table.
// A
//              step of for_each or range walks from the head, and copies up to 64 pairs (8 under a
//              restartable scheme).
// Progress:    lock-free. Under schemes that protect what is unlinked (protects_optimistic_search)
// find,
//              contains and visit only read, and are wait-free but for keys inserted ahead of them.
// Retires:     one node for each erase and each replacement, by whichever thread unlinks it. At
// most one
//              deleted node per update under way stays linked.
// Errors:      std::bad_alloc, and whatever the user's copies, moves and comparisons throw: then
// the map
//              is as it was before. Under a restartable scheme comparisons must neither throw nor
//              allocate nor lock, since they may be abandoned half-way.
// User code:   comparisons, visit's f, and the copies that find, insert, for_each and range make
// run
//              inside a guard and hold up freeing for as long as they take; f of for_each and range
//              does not. Destructors of keys and values run wherever the domain frees, possibly
//              after the map is gone if the domain is shared; they must not throw.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/list_chain.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/size_counter.hpp>
#include <spolia/reclaim/domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Key, class Value, class Domain = domain<>, class Compare = std::less<Key>>
class list {
  static_assert(std::is_nothrow_destructible_v<Key> && std::is_nothrow_destructible_v<Value>,
                "list: destructors of keys and values run where nobody can catch what they throw");

  using chain = detail::list_chain<Key, Value, Domain, Compare>;
  using guard = typename Domain::guard;

 public:
  using key_type = Key;
  using mapped_type = Value;
  using domain_type = Domain;
  using key_compare = Compare;

  /// An empty map with a domain of its own. May throw std::bad_alloc.
  explicit list(Compare less = Compare())
      : own_(std::make_unique<Domain>()), chain_(*own_, std::move(less)) {}

  /// An empty map whose nodes go through `shared`, which must outlive it.
  explicit list(Domain& shared, Compare less = Compare()) : chain_(shared, std::move(less)) {}

  list(const list&) = delete;
  list& operator=(const list&) = delete;
  ~list() = default;

  /// True if `key` was absent and now maps to `value`. The arguments are moved from only if a node
  /// was made of them, which happens after the key was found absent.
  template <std::convertible_to<Value> V = Value>
  bool insert(const Key& key, V&& value) {
    return add(key, std::forward<V>(value));
  }
  template <std::convertible_to<Value> V = Value>
  bool insert(Key&& key, V&& value) {
    return add(std::move(key), std::forward<V>(value));
  }

  /// True if `key` was absent; false if its value was replaced. Either way it now maps to `value`.
  template <std::convertible_to<Value> V = Value>
  bool insert_or_assign(const Key& key, V&& value) {
    return put(key, std::forward<V>(value));
  }
  template <std::convertible_to<Value> V = Value>
  bool insert_or_assign(Key&& key, V&& value) {
    return put(std::move(key), std::forward<V>(value));
  }

  /// True if `key` was present.
  bool erase(const Key& key) {
    auto& mine = size_.here();
    guard g = domain().enter();
    for (;;) {
      const auto p = chain_.search(g, key);
      if (!p.found) return false;
      if (!chain_.erase(g, p)) continue;
      mine.removed.add(1);
      return true;
    }
  }

  /// A copy of the value that `key` maps to.
  std::optional<Value> find(const Key& key) const
    requires std::copy_constructible<Value>
  {
    guard g = domain().enter();
    const auto* const n = chain_.locate(g, key);
    if (n == nullptr) return std::nullopt;
    return std::optional<Value>(std::in_place, n->value);
  }

  bool contains(const Key& key) const {
    guard g = domain().enter();
    return chain_.locate(g, key) != nullptr;
  }

  /// Calls f(const Value&) if `key` is present, inside a guard: f should be short. Returns whether.
  template <std::invocable<const Value&> F>
  bool visit(const Key& key, F&& f) const {
    guard g = domain().enter();
    const auto* const n = chain_.locate(g, key);
    if (n == nullptr) return false;
    std::forward<F>(f)(n->value);
    return true;
  }

  /// Calls f(key, value) for every element; concepts.hpp says what it may miss. Copies in batches,
  /// since f runs outside of guards: it may take long, wait, and use this map.
  template <std::invocable<const Key&, const Value&> F>
    requires std::copy_constructible<Key> && std::copy_constructible<Value>
  void for_each(F&& f) const {
    scan(nullptr, nullptr, f);
  }

  /// The same for the keys from `lo` on and in front of `hi`.
  template <std::invocable<const Key&, const Value&> F>
    requires std::copy_constructible<Key> && std::copy_constructible<Value>
  void range(const Key& lo, const Key& hi, F&& f) const {
    scan(&lo, &hi, f);
  }

  std::size_t size_approx() const noexcept { return size_.approx(); }
  bool empty_approx() const noexcept { return size_approx() == 0; }

  Domain& domain() const noexcept { return chain_.domain(); }

 private:
  template <class K, class V>
  bool add(K&& key, V&& value) {
    auto& mine = size_.here();
    auto fresh = chain_.no_node();
    guard g = domain().enter();
    for (;;) {
      const auto p = chain_.search(g, fresh != nullptr ? fresh->key : key);
      if (p.found) return false;
      if (fresh == nullptr) chain_.make(fresh, std::forward<K>(key), std::forward<V>(value));
      if (!chain_.publish(p, fresh)) continue;
      mine.added.add(1);
      return true;
    }
  }

  template <class K, class V>
  bool put(K&& key, V&& value) {
    auto& mine = size_.here();
    auto fresh = chain_.no_node();
    chain_.make(fresh, std::forward<K>(key), std::forward<V>(value));
    guard g = domain().enter();
    for (;;) {
      const auto p = chain_.search(g, fresh->key);
      if (p.found) {
        if (chain_.replace(g, p, fresh)) return false;
      } else if (chain_.publish(p, fresh)) {
        mine.added.add(1);
        return true;
      }
    }
  }

  template <class F>
  void scan(const Key* lo, const Key* hi, F& f) const {
    detail::scan_in_batches<Key, Value>(
        lo, hi, chain::batch_size,
        [&](const auto& rest, auto& batch) { return copy_some(rest, batch); }, f);
  }

  bool copy_some(const typename chain::interval& rest, typename chain::pairs& batch) const {
    guard g = domain().enter();
    return chain_.gather(g, rest, batch);
  }

  std::unique_ptr<Domain> own_;
  size_counter size_;
  chain chain_;  // goes first: it gives its nodes back to the domain
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
