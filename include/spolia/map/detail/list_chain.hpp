// SPDX-License-Identifier: Apache-2.0
// list_chain.hpp: the nodes of sorted linked lists and the atomic steps on them. list.hpp is the
// map of one such list; michael_hash.hpp has one for each bucket, and split_ordered_hash.hpp goes
// into one at many places.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/weight.hpp>
#include <spolia/map/detail/fresh.hpp>
#include <spolia/map/detail/marked_ptr.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/detail/stamped_pair.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/detail/numbered.hpp>
#include <spolia/reclaim/domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// What is linked. `Rank` is what its order goes by besides the key, if anything.
template <class Domain, class Rank>
struct list_joint : Domain::header, Rank {
  explicit list_joint(Rank r) noexcept : Rank(r) {}
  [[nodiscard]] const Rank& rank() const noexcept { return *this; }

  atomic<marked_ptr<list_joint>> next;  // before the pair: a walk looks at both
};

/// A joint with a pair: all are, unless the order says otherwise.
template <class Key, class Value, class Domain, class Rank>
struct list_node : list_joint<Domain, Rank>, stamped_pair<Key, Value> {
  using joint = list_joint<Domain, Rank>;

  template <class K, class V>
  list_node(Rank r, K&& k, V&& v, value_stamp<Value> s)
      : joint(r), stamped_pair<Key, Value>(std::forward<K>(k), std::forward<V>(v), s) {}

  static const list_node& of(const joint& j) noexcept { return static_cast<const list_node&>(j); }
  static list_node* of(joint* j) noexcept { return static_cast<list_node*>(j); }
};

/// The order by keys alone.
template <class Compare>
class by_key {
 public:
  struct rank {};

  explicit by_key(Compare less) : less_(std::move(less)) {}

  [[nodiscard]] const Compare& less() const noexcept { return less_; }

  template <class Node, class K>
  [[nodiscard]] bool is_before(const typename Node::joint& j, const K& key) const {
    return static_cast<bool>(less_(Node::of(j).key, key));
  }
  template <class Node, class K>
  [[nodiscard]] bool is_after(const typename Node::joint& j, const K& key) const {
    return static_cast<bool>(less_(key, Node::of(j).key));
  }
  static constexpr bool is_pair(rank) noexcept { return true; }
  /// Told without a comparison, which might throw: nothing is.
  static constexpr bool is_surely_after(rank, rank) noexcept { return false; }

 private:
  [[no_unique_address]] Compare less_;
};

/// Sorted chains of nodes. A mark in a node's own link says that the node is deleted; from then on
/// that link is frozen. Every step takes place inside a guard of the domain, and what a step
/// returns may be used until the same guard's next step.
///
/// A chain begins at a link, its head, which is never marked. That may lie in a joint of the same
/// chain that is never deleted: then this is what comes after it.
///
/// `Order` says where something belongs that is sought: is_before() and is_after() of a joint, and
/// less() of two keys, by which the pairs are sorted that no other joint stands between.
template <class Key, class Value, class Domain, class Order>
class list_chain {
  using scheme_type = typename Domain::scheme_type;
  using guard = typename Domain::guard;
  using numbered = reclaim::numbered;

 public:
  using rank = typename Order::rank;
  using node = list_node<Key, Value, Domain, rank>;
  using joint = list_joint<Domain, rank>;
  using link = marked_ptr<joint>;

  /// A node, or a joint without a pair, that no other thread knows yet.
  using fresh_node = fresh<node, Domain>;
  using fresh_joint = fresh<joint, Domain>;

  /// Where a walk stopped. `cur` was linked from `prev` (null: from the head), or is null at the
  /// end. If `next` is marked, `cur` is deleted and has to be unlinked before anything else. The
  /// head is not in it, since a caller has it at hand: steps take the one that the search began at.
  struct position {
    joint* prev;
    joint* cur;
    link next;
    bool found;  // by search(): cur is what was sought

    [[nodiscard]] const node& pair() const noexcept { return node::of(*cur); }
  };

  list_chain(Domain& domain, Order order) : domain_(domain), order_(std::move(order)) {}
  list_chain(const list_chain&) = delete;
  list_chain& operator=(const list_chain&) = delete;

  /// Ends what is linked there. No other thread may be there any more. Nodes that were retired
  /// before are the domain's.
  void end(const atomic<link>& head) const noexcept {
    joint* at = head.load_relaxed().get();
    while (at != nullptr) {
      joint* const after = at->next.load_relaxed().get();
      if (order_.is_pair(at->rank())) {
        domain_.destroy(node::of(at));
      } else {
        domain_.destroy(at);
      }
      at = after;
    }
  }

  Domain& domain() const noexcept { return domain_; }
  const Order& order() const noexcept { return order_; }

  fresh_node no_node() const noexcept { return no_fresh<node>(domain_); }
  template <class K, class V>
  void make(fresh_node& to, rank at, K&& key, V&& value, value_stamp<Value> stamp) const {
    to = make_fresh<node>(domain_, at, std::forward<K>(key), std::forward<V>(value), stamp);
  }

  /// The first node that is not before what is sought; unlinks deleted nodes on the way.
  template <class Sought>
  position search(guard& g, atomic<link>& head, const Sought& sought) const {
    for (;;) {
      position p = walk(
          g, head, [&](const joint& j) { return !order_.template is_before<node>(j, sought); });
      if (!p.next.marked()) {
        p.found = p.cur != nullptr && !order_.template is_after<node>(*p.cur, sought);
        return p;
      }
      unlink(g, head, p, p.next.get());
    }
  }

  /// The node of the key sought, or null, for reading.
  template <class Sought>
  const node* locate(guard& g, atomic<link>& head, const Sought& sought) const {
    if constexpr (protects_optimistic_search<scheme_type>) {
      return g.read([&]() -> const node* {
        joint* at = numbered::protect(g, head, 0).get();
        while (at != nullptr) {
          const link next = numbered::protect(g, at->next, 0);
          memory::note_access(at);
          if (!order_.template is_before<node>(*at, sought)) {
            if (order_.template is_after<node>(*at, sought)) return nullptr;
            // A deleted node of this key leads to its replacement, or past the key.
            if (!next.marked()) break;
          }
          at = next.follow();
        }
        numbered::keep(g, at, 0);
        return node::of(at);
      });
    } else {
      const position p = search(g, head, sought);
      return p.found ? node::of(p.cur) : nullptr;
    }
  }

  /// Links the fresh node or joint between p.prev and p.cur, if they are still neighbours and
  /// p.prev is not deleted. (That p.cur's address does not belong to another node by now is what
  /// the guard sees to.)
  template <class Fresh>
  bool publish(atomic<link>& head, const position& p, Fresh& fresh) const noexcept {
    fresh->next.store_relaxed(link(p.cur));
    link expected(p.cur);
    // release → the acquires in protect(): a thread that reads the link sees the node constructed.
    atomic<link>& place = link_behind(head, p);
    const bool linked = SPOLIA_FAULT("list.publish_relaxed")
                            ? place.cas_strong_relaxed(expected, link(fresh.get()))
                            : place.cas_strong_release(expected, link(fresh.get()));
    if (!linked) return false;
    fresh.release();
    return true;
  }

  /// Deletes p.cur. False if something changed at p.cur meanwhile.
  bool erase(guard& g, atomic<link>& head, const position& p) const noexcept {
    if (!mark(p, p.next)) return false;
    take_out(g, head, p, p.next.get());
    return true;
  }

  /// Deletes p.cur and links the fresh node in its place, in one step: p.cur's frozen link leads to
  /// the fresh node, so that every thread that meets p.cur goes on there.
  bool replace(guard& g, atomic<link>& head, const position& p, fresh_node& fresh) const noexcept {
    fresh->next.store_relaxed(p.next);
    if (!mark(p, link(fresh.get()))) return false;
    take_out(g, head, p, fresh.release());
    return true;
  }

  /// Copies the next pairs of the interval to `batch`, `batch_size` at most, until a joint comes
  /// that has none: that one, or null.
  template <class Rest, class Batch>
  joint* gather(guard& g, atomic<link>& head, Rest rest, Batch& batch) const {
    if constexpr (protects_by_restart<scheme_type>) {
      return gather_kept(g, head, rest, batch);
    } else {
      const auto& less = order_.less();
      for (;;) {
        const position p = walk(g, head, [&](const joint& j) {
          if (!order_.is_pair(j.rank())) return true;
          const node& n = node::of(j);
          if (rest.is_after(n.key, less)) return false;
          if (rest.is_over_at(n.key, less)) return true;
          batch.emplace_back(n.key, n.value);
          return batch.size() == room_of<Batch, batch_size>;
        });
        if (!p.next.marked()) return bare(p.cur);
        unlink(g, head, p, p.next.get());
        if (batch.empty()) continue;
        const auto others = rest.template beyond<false>(batch.back().first);
        if constexpr (std::is_same_v<Rest, std::remove_const_t<decltype(others)>>) {
          rest = others;
        } else {
          return gather(g, head, others, batch);
        }
      }
    }
  }

  static constexpr std::size_t batch_size =
      protects_by_restart<scheme_type> ? guard_slots : scan_batch;

 private:
  /// Goes on from the head until stop(node), or to the first deleted node, or to the end.
  ///
  /// Under a scheme that protects pointers: `next` is announced, then read again (by protect). If
  /// it is unmarked by then, `cur` was still linked, so `next` was too, and it stays. If it is
  /// marked, nothing follows for `next`, and it is not followed. The three slots change roles
  /// instead of contents.
  template <class Stop>
  position walk(guard& g, atomic<link>& head, Stop stop) const {
    return g.read([&] {
      unsigned prev_slot = 0;
      unsigned cur_slot = 1;
      unsigned next_slot = 2;
      position p{nullptr, numbered::protect(g, head, cur_slot).get(), link(), false};
      while (p.cur != nullptr) {
        p.next = numbered::protect(g, p.cur->next, next_slot);
        if (p.next.marked() && !SPOLIA_FAULT("list.no_validate")) break;
        memory::note_access(p.cur);
        if (stop(*p.cur)) break;
        p.prev = p.cur;
        p.cur = p.next.follow();
        p.next = link();
        const unsigned unused = std::exchange(prev_slot, cur_slot);
        cur_slot = std::exchange(next_slot, unused);
      }
      // `next` need not be kept: it is compared and stored, never followed.
      numbered::keep(g, p.prev, 0);
      numbered::keep(g, p.cur, 1);
      return p;
    });
  }

  /// Freezes p.cur's link, so that it leads to `successor`. This is where p.cur is deleted.
  bool mark(const position& p, link successor) const noexcept {
    link expected = p.next;
    if (SPOLIA_FAULT("list.no_mark")) return true;
    // release → the acquires in protect(): a thread that finds the key gone sees what we did
    // before, and one that goes on to a replacement sees it constructed.
    return p.cur->next.cas_strong_release(expected, successor.with_mark());
  }

  /// Takes the deleted node p.cur out. False if it is not linked from p.prev any more, or p.prev is
  /// deleted too: then p.cur is out already, or still waits to be taken out.
  bool unlink(guard& g, atomic<link>& head, const position& p, joint* successor) const noexcept {
    link expected(p.cur);
    if (SPOLIA_FAULT("list.retire_before_unlink")) g.retire(node::of(p.cur));
    // release → the acquires in protect(): a thread that reads the link sees the successor
    // constructed, as we did when we read the frozen link (or made the successor).
    if (!link_behind(head, p).cas_strong_release(expected, link(successor))) return false;
    if (!SPOLIA_FAULT("list.retire_before_unlink")) g.retire(node::of(p.cur));
    return true;
  }

  /// After marked.cur was. If it takes a walk, then as far as the node can be and without a
  /// comparison of keys: the update has taken effect, and nothing may throw any more.
  void take_out(guard& g, atomic<link>& head, const position& marked,
                joint* successor) const noexcept {
    const rank gone = marked.cur->rank();
    if (unlink(g, head, marked, successor)) return;
    for (;;) {
      const position p =
          walk(g, head, [&](const joint& j) { return order_.is_surely_after(j.rank(), gone); });
      if (!p.next.marked()) return;  // no deleted node is left there
      unlink(g, head, p, p.next.get());
    }
  }

  /// Under a restartable scheme nothing is copied while reading: as many nodes as there are slots
  /// are kept first. Deleted ones are stepped over, as in locate().
  template <class Rest, class Batch>
  joint* gather_kept(guard& g, atomic<link>& head, const Rest& rest, Batch& batch) const {
    struct handful {
      std::array<node*, guard_slots> at;
      unsigned count;
      joint* end;
    };
    const auto& less = order_.less();
    const handful kept = g.read([&] {
      handful h{};
      joint* at = numbered::protect(g, head, 0).get();
      while (at != nullptr && h.count < room_of<Batch, guard_slots>) {
        const link next = numbered::protect(g, at->next, 0);
        memory::note_access(at);
        if (!order_.is_pair(at->rank())) break;
        node* const n = node::of(at);
        if (rest.is_over_at(n->key, less)) break;
        if (!next.marked() && !rest.is_after(n->key, less)) h.at[h.count++] = n;
        at = next.get();
      }
      for (unsigned i = 0; i < h.count; ++i) numbered::keep(g, h.at[i], i);
      h.end = bare(at);
      return h;
    });
    for (unsigned i = 0; i < kept.count; ++i) {
      batch.emplace_back(kept.at[i]->key, kept.at[i]->value);
    }
    return kept.end;
  }

  /// The joint if it has no pair.
  joint* bare(joint* j) const noexcept {
    return j != nullptr && !order_.is_pair(j->rank()) ? j : nullptr;
  }

  static atomic<link>& link_behind(atomic<link>& head, const position& p) noexcept {
    return p.prev != nullptr ? p.prev->next : head;
  }

  Domain& domain_;
  [[no_unique_address]] Order order_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
