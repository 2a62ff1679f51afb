// SPDX-License-Identifier: Apache-2.0
// external_bst.hpp: an ordered map as a binary search tree without balancing, whose searches take
// no locks, under every reclamation scheme.
//
//     spolia::external_bst<std::uint64_t, std::string> names;      // with a domain of its own
//     names.insert(7, "seven");
//     if (auto name = names.find(7)) ...
//
// Source:      David, Guerraoui, Trigonakis: Asynchronized Concurrency: The Secret to Scaling
//              Concurrent Search Data Structures, ASPLOS 2015, section 5: BST-TK. Pairs lie in the
//              leaves. An insertion locks one link, the one that led to the leaf where the key
//              belongs, and puts a router there. An erasure locks the link to the leaf's router and
//              both links of the router, and lets the sibling move up. No thread waits for a lock:
//              one that does not get it at once, or finds the link changed, lets go and searches
//              again.
// Departures:  D1  The paper's locks count the changes of a link, in 16 bits, and a lock is taken
//                  only if the count is the one that the search has seen: 65536 changes in between
//                  go unnoticed. Here the link itself is compared once it is locked. The guard
//                  keeps what the link led to, so the same address is the same node. So a lock is
//                  one bit, and there is nothing to run over.
//              D2  No sentinel keys, of which strings have none: the entry has no key, and an empty
//                  tree no leaf.
//              D3  A removed router is marked before it is unlinked. Schemes that protect single
//                  pointers need that: a search that finds the mark looks whether the router is
//                  unlinked yet, and if so starts over.
//              D4  insert_or_assign puts a new leaf in the place of the old one; scans.
// Safety:      a router's mark is set after both its links are locked, so its links stay forever
//              as they were when it was removed. Each node that a search reaches was therefore in
//              the tree at some moment of that search: it was read from a linked router, or from
//              one that was removed since the search came there, and was in the tree then. By the
//              same induction the range of the leaf that a search ends at held the key at such a
//              moment, so what the leaf says was true then. That is where find, contains, visit,
//              and updates that change nothing take effect; the others take effect when they change
//              their one link.
// Domain:      any scheme: searches go step by step (protects_stepwise_search). The tree has a
//              domain of its own, or shares one.
// Threads:     everything but construction, destruction and audit() may run beside everything.
// Order:       insert, insert_or_assign, erase, find, contains, visit are linearizable.
// Cost:        as many nodes as the tree is high at the key: for keys in random order about one and
//              a half times the binary logarithm, at most about three times; for keys in ascending
//              order as many as there are. Nothing restores the balance. for_each and range search
//              once for each pair.
// Progress:    updates block each other: a thread that is stopped while it holds a lock makes those
//              fail that need the same link, for as long as it is stopped, and forever if it is
//              killed; they spin, then yield, outside of guards, so freeing goes on. All else goes
//              on too: locks are held for a few instructions, never across user code, allocation or
//              another lock's wait. Under region and restartable schemes find, contains and visit
//              are wait-free but for keys that come in below them. Under the others a search
//              starts over when a router that it stands on was unlinked meanwhile.
// Errors:      std::bad_alloc, and whatever the user's copies, moves and comparisons throw: then
//              the map is as it was before. Under a restartable scheme comparisons must neither
//              throw nor allocate nor lock, since they may be abandoned half-way.
// Memory:      a leaf and a router for each pair: 32 and 48 bytes for 8-byte keys and values
//              (8 more each under robust_token, and 16 under eras, which stamp each block).
// Retires:     two nodes for each erase (one for the last pair), one for each replacement.
// User code:   comparisons, visit's f, and the copies that find, insert, for_each and range make
//              run inside a guard and hold up freeing for as long as they take; f of for_each and
//              range does not. Destructors of keys and values run wherever the domain frees,
//              possibly after the map is gone if the domain is shared; they must not throw.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/attempts.hpp>
#include <spolia/map/detail/external_bst_audit.hpp>
#include <spolia/map/detail/external_bst_tree.hpp>
#include <spolia/map/detail/face.hpp>
#include <spolia/map/detail/fresh.hpp>
#include <spolia/map/detail/right_kinds.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/detail/size_counter.hpp>
#include <spolia/map/keys.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Key, class Value, class Domain, class Compare>
class external_bst_core {
  static_assert(
      protects_stepwise_search<typename Domain::scheme_type>,
      "external_bst: its searches go step by step, and this scheme does not protect that");
  static_assert(
      std::is_nothrow_destructible_v<Key> && std::is_nothrow_destructible_v<Value>,
      "external_bst: destructors of keys and values run where no caller can catch what they throw");

  using tree = external_bst_tree<Key, Value, Domain, Compare>;
  using guard = typename Domain::guard;
  using leaf = typename tree::leaf;

 public:
  using key_type = Key;
  using mapped_type = Value;
  using domain_type = Domain;
  using key_compare = Compare;
  using seen = seen_value<Value>;

  external_bst_core(Domain& home, Compare less) : tree_(home, std::move(less)) {}

  Domain& home() const noexcept { return tree_.home(); }

  template <bool Assign, class K, class V, class... Seen>
  bool put(const K& key, V&& value, const Seen&... was) {
    constexpr bool only_for_seen = sizeof...(Seen) != 0;
    auto& mine = size_.here();
    auto made = no_fresh<leaf>(home());
    bool found = false;
    until_done(home(), [&](guard& g) {
      const auto p = tree_.search(g, key);
      found = p.found && (p.low->has(was) && ...);
      if (found ? !Assign : only_for_seen) return outcome::done;
      if (made == nullptr) {
        const Key& stays =
            key_there_or<only_for_seen, Key>(found ? std::addressof(p.low->key) : nullptr, key);
        made = make_fresh<leaf>(home(), stays, std::forward<V>(value),
                                next_stamp<Value>(mine.stamped));
      }
      return only_for_seen || found ? tree_.replace(g, p, made) : tree_.add(p, made);
    });
    if (only_for_seen) return found;
    if (!found) mine.added.add(1);
    return !found;
  }

  template <class K, class... Seen>
  bool erase(const K& key, const Seen&... was) {
    auto& mine = size_.here();
    bool found = false;
    until_done(home(), [&](guard& g) {
      const auto p = tree_.search(g, key);
      found = p.found && (p.low->has(was) && ...);
      return found ? tree_.erase(g, p) : outcome::done;
    });
    if (found) mine.removed.add(1);
    return found;
  }

  template <class K>
  bool contains(const K& key) const {
    guard g = home().enter();
    return tree_.search(g, key).found;
  }

  template <class K, class F>
  bool visit(const K& key, F&& f) const {
    guard g = home().enter();
    const auto p = tree_.search(g, key);
    if (!p.found) return false;
    std::forward<F>(f)(std::as_const(p.low->value));
    return true;
  }

  template <class K>
  bool look(const K& key, seen& to) const {
    guard g = home().enter();
    const auto p = tree_.search(g, key);
    if (p.found) to.look(p.low->value, p.low->which);
    return p.found;
  }

  template <bool Down, class Within, class F>
  void scan(const Within& within, F& f) const {
    scan_in_batches<Down, Key, Value>(
        within, tree_.less(), scan_batch,
        [&](const auto& rest, auto& batch) {
          guard g = home().enter();
          gather_on<Down>(g, rest, batch);
          return !batch.empty();
        },
        f);
  }
  template <bool Down, class Within>
  auto outermost(const Within& within) const {
    one_pair<Key, Value> found;
    guard g = home().enter();
    gather_on<Down>(g, within, found);
    return found.taken();
  }

  std::size_t size_approx() const noexcept { return size_.approx(); }

  /// See external_bst::audit.
  external_bst_findings audit() const {
    return external_bst_auditor<tree>(tree_.less()).look_over(tree_.root());
  }

 private:
  template <bool Down, class Rest, class Batch>
  void gather_on(guard& g, Rest rest, Batch& batch) const {
    while (batch.size() < room_of<Batch>) {
      const leaf* const l = tree_.template first<Down>(g, rest);
      if (l == nullptr || rest.template is_left_at<Down>(l->key, tree_.less())) break;
      batch.emplace_back(l->key, l->value);
      const auto others = rest.template beyond<Down>(batch.back().first);
      if constexpr (std::is_same_v<Rest, std::remove_const_t<decltype(others)>>) {
        rest = others;
      } else {
        return gather_on<Down>(g, others, batch);
      }
    }
  }

  detail::map::size_counter size_;
  tree tree_;
};

}  // namespace detail::map

/// See the top of this file, and map/detail/face.hpp for what one can do with it.
template <class Key, class Value, class Domain = domain<>, class Compare = default_order<Key>>
class external_bst
    : private detail::map::kinds_by_order<Key, Domain, Compare>,
      public detail::map::map_face<detail::map::external_bst_core<Key, Value, Domain, Compare>> {
  using face = detail::map::map_face<detail::map::external_bst_core<Key, Value, Domain, Compare>>;

 public:
  using face::face;

  /// Looks the whole tree over, for tests. No thread may use the tree meanwhile.
  detail::map::external_bst_findings audit() const { return this->core().audit(); }
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
