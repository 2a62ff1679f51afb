// SPDX-License-Identifier: Apache-2.0
// avl.hpp: an ordered map as a balanced binary search tree whose reads take no locks.
//
//     spolia::avl<std::uint64_t, std::uint64_t> ages;
//     ages.insert(7, 42);                          // false if 7 was there
//     if (auto age = ages.find(7)) use(*age);
//
// Source:      Bronson, Casper, Chafi, Olukotun: A Practical Concurrent Binary Search Tree, PPoPP
//              2010. Partially external: a key with two children is erased by taking its value
//              away, and its node stays to route. Searches are optimistic, hand over hand: each
//              node has a version that tells whether the range of keys under it has become smaller.
//              Heights are repaired, and nodes rotated, after the update, by the thread that made
//              the damage.
// Departures:  D1  A version counts shrinks only, in 62 bits. The paper's growing bits and counter
//                  are never read; its counters are short enough to run over.
//              D2  A search that finds a changed version starts over at the root, instead of going
//                  back one node: no recursion, and changes near the root are rare.
//              D3  No thread waits for a lock or for the end of a rotation inside a guard, but in
//                  repairs, where the wait is bounded. After that, the damage is left to later
//                  updates: the tree is right, and higher than need be.
//              D4  A node is judged under its lock, after a height below it has changed, and under
//                  the lock it is made sure that it is the parent still. The paper's judgement
//                  without a lock needs sequential consistency: else two threads that lower both
//                  children at the same time may each miss the other's change. After a rotation all
//                  nodes that took part are judged, not only the lowest that is damaged: the
//                  published code can forget the parent's height.
//              D5  A node is retired after it was unlinked and its lock let go. The published port
//                  retires it before that.
//              D6  Values of 1, 2, 4 or 8 bytes that can be copied byte by byte lie in the node;
//                  others in blocks of their own. A node without a value that comes to have less
//                  than two children is unlinked by the thread that notices.
// Safety:      why a search ends at the right place is said at detail::map::avl_tree. What it finds
//              in a node was true at a moment of the search: the node was in the tree at some
//              moment of it, and is the key's only node until it is unlinked; it loses its value
//              before that, and never gets one again. An update that changes the tree does so under
//              the lock with a second look at the version, or the mark of an unlinked node. Locks
//              are taken from parent to child only.
// Domain:      any scheme of region protection: parents are followed upwards, and locks taken, on
//              nodes that may have been unlinked. The tree has a domain of its own, or shares one.
// Threads:     everything but construction, destruction and audit() may run beside everything.
// Order:       insert, insert_or_assign, erase, find, contains, visit are linearizable. Changes are
//              published by plain stores, so an update that has changed something ends in a full
//              fence (detail/after_update.hpp).
// Cost:        logarithmic, but for damage under repair. for_each and range search once for each
//              pair and each routing node.
// Progress:    updates block each other, and a rotation blocks the searches that come through the
//              nodes rotated: a thread that is stopped in between holds them up as long as it is
//              stopped, forever if it is killed. They spin, then yield, outside of guards, so
//              freeing goes on. Locks are held for a few instructions, never across user code or
//              allocation. A search starts over when a node that it stands on was rotated down or
//              unlinked meanwhile.
// Errors:      std::bad_alloc, and whatever the user's copies, moves and comparisons throw: then
//              the map is as it was before. Repairs need no memory and throw nothing.
// Memory:      a node of 80 bytes for 8-byte keys and values; at most as many routing nodes as
//              pairs.
// Retires:     an erase retires no node, or one, or two if a routing node above is not needed any
//              more; a value that lies in a block of its own is retired when it is erased or
//              replaced.
// User code:   comparisons, visit's f, and the copies that find, insert, for_each and range make
//              run inside a guard and hold up freeing for as long as they take; f of for_each and
//              range does not. Keys and values end wherever the domain frees, possibly after the
//              map is gone if the domain is shared; their destructors must not throw.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/after_update.hpp>
#include <spolia/map/detail/attempts.hpp>
#include <spolia/map/detail/avl_audit.hpp>
#include <spolia/map/detail/avl_balance.hpp>
#include <spolia/map/detail/avl_nodes.hpp>
#include <spolia/map/detail/avl_tree.hpp>
#include <spolia/map/detail/face.hpp>
#include <spolia/map/detail/right_kinds.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/detail/size_counter.hpp>
#include <spolia/map/keys.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/region_domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Key, class Value, class Domain, class Compare>
class avl_core {
  static_assert(
      protects_regions<typename Domain::scheme_type>,
      "avl: it follows and locks nodes that others may have removed, and this scheme does "
      "not protect those: region_domain does");
  static_assert(
      std::is_nothrow_destructible_v<Key> && std::is_nothrow_destructible_v<Value>,
      "avl: destructors of keys and values run where no caller can catch what they throw");

  using tree = avl_tree<Key, Value, Domain, Compare>;
  using guard = typename Domain::guard;
  using content = typename tree::content;
  using place = typename tree::place;
  using node = typename tree::node;

 public:
  using key_type = Key;
  using mapped_type = Value;
  using domain_type = Domain;
  using key_compare = Compare;
  using seen = seen_value<Value>;
  static constexpr published publishes = published::by_store;

  avl_core(Domain& home, Compare less) : tree_(home, std::move(less)) {}

  Domain& home() const noexcept { return tree_.home(); }

  template <bool Assign, class K, class V, class... Seen>
  bool put(const K& key, V&& value, const Seen&... was) {
    constexpr bool only_for_seen = sizeof...(Seen) != 0;
    auto& mine = size_.here();
    auto ready = content::nothing_yet(home());
    bool had = false;
    until_done(home(), [&](guard& g) {
      place p;
      const outcome o = tree_.search(key, p);
      if (o != outcome::done) return o;
      had = p.hit != nullptr && p.hit->value.is_there();
      if (had ? !Assign : only_for_seen) return outcome::done;
      content::prepare(home(), ready, std::forward<V>(value), mine.stamped);
      if (p.hit != nullptr) return tree_.assign(g, *p.hit, ready, !Assign, had, was...);
      if constexpr (only_for_seen) {
        return outcome::done;  // not reached: it is there
      } else {
        return tree_.add(g, p, key, ready);
      }
    });
    if (only_for_seen) return had;
    if (!had) mine.added.add(1);
    return !had;
  }

  template <class K, class... Seen>
  bool erase(const K& key, const Seen&... was) {
    auto& mine = size_.here();
    bool erased = false;
    until_done(home(), [&](guard& g) {
      place p;
      const outcome o = tree_.search(key, p);
      if (o != outcome::done || p.hit == nullptr || !p.hit->value.is_there()) return o;
      return tree_.erase(g, *p.hit, erased, was...);
    });
    if (erased) mine.removed.add(1);
    return erased;
  }

  template <class K>
  bool contains(const K& key) const {
    return look_up(key, [](const content& value) { return value.is_there(); });
  }

  template <class K, class F>
  bool visit(const K& key, F&& f) const {
    return look_up(key, [&](const content& value) { return value.read(f); });
  }

  template <class K>
  bool look(const K& key, seen& to) const {
    return look_up(key, [&](const content& value) { return value.look(to); });
  }

  template <bool Down, class Within, class F>
  void scan(const Within& within, F& f) const {
    scan_in_batches<Down, Key, Value>(
        within, tree_.less(), scan_batch,
        [&](const auto& rest, auto& batch) { return gather<Down>(rest, batch); }, f);
  }
  template <bool Down, class Within>
  auto outermost(const Within& within) const {
    one_pair<Key, Value> found;
    gather<Down>(within, found);
    return found.taken();
  }

  std::size_t size_approx() const noexcept { return size_.approx(); }

  /// See avl::audit.
  avl_findings audit() const {
    using balance = avl_balance<avl_nodes<Key, Value, Domain>, Domain>;
    return avl_auditor<tree, balance>(tree_.less()).look_over(tree_.entry());
  }

 private:
  template <class K, class F>
  bool look_up(const K& key, F f) const {
    bool found = false;
    until_done(home(), [&](guard&) {
      place p;
      const outcome o = tree_.search(key, p);
      if (o == outcome::done) found = p.hit != nullptr && f(p.hit->value);
      return o;
    });
    return found;
  }

  template <bool Down, class Within, class Batch>
  bool gather(const Within& all, Batch& batch) const {
    until_done(home(), [&](guard&) { return gather_on<Down>(all, batch); });
    return !batch.empty();
  }
  /// Goes on after what is in the batch.
  template <bool Down, class Rest, class Batch>
  outcome gather_on(Rest rest, Batch& batch) const {
    using others = decltype(rest.template beyond<Down>(std::declval<const Key&>()));
    constexpr bool goes_on_as_it_began = std::is_same_v<Rest, others>;
    if (!batch.empty()) {
      const others more = rest.template beyond<Down>(batch.back().first);
      if constexpr (!goes_on_as_it_began) return gather_on<Down>(more, batch);
      if constexpr (goes_on_as_it_began) rest = more;
    }
    progress<Key, const Key*> past_routers;
    while (batch.size() < room_of<Batch>) {
      const node* n = nullptr;
      const outcome o = tree_.template first<Down>(rest, n);
      if (o != outcome::done) return o;
      if (n == nullptr || rest.template is_left_at<Down>(n->key, tree_.less())) break;
      const bool shown =
          n->value.read([&](const Value& value) { batch.emplace_back(n->key, value); });
      if (!shown && !past_routers.template goes_on<Down>(n->key, tree_.less())) break;
      const others more = rest.template beyond<Down>(n->key);
      if constexpr (!goes_on_as_it_began) return gather_on<Down>(more, batch);
      if constexpr (goes_on_as_it_began) rest = more;
    }
    return outcome::done;
  }

  detail::map::size_counter size_;
  tree tree_;
};

}  // namespace detail::map

/// See the top of this file, and map/detail/face.hpp for what one can do with it.
template <class Key, class Value, class Domain = region_domain, class Compare = default_order<Key>>
class avl : private detail::map::kinds_by_order<Key, Domain, Compare>,
            public detail::map::map_face<detail::map::avl_core<Key, Value, Domain, Compare>> {
  using face = detail::map::map_face<detail::map::avl_core<Key, Value, Domain, Compare>>;

 public:
  using face::face;

  /// Looks the whole tree over, for tests. No thread may use the tree meanwhile.
  detail::map::avl_findings audit() const { return this->core().audit(); }
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
