// SPDX-License-Identifier: Apache-2.0
// list_chain.hpp: the nodes of one sorted linked list and the atomic steps on them. list.hpp is the
// map.
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

/// A sorted chain of nodes. A mark in a node's own link says that the node is deleted; from then on
/// that link is frozen. Every step takes place inside a guard of the domain, and what a step
/// returns may be used until the same guard's next step.
template <class Key, class Value, class Domain, class Compare>
class list_chain {
  using scheme_type = typename Domain::scheme_type;
  using guard = typename Domain::guard;
  using numbered = reclaim::numbered;

 public:
  struct node;
  using link = marked_ptr<node>;

  struct joint : Domain::header {
    atomic<link> next;  // before the pair: a walk looks at both, and values may be large
  };
  struct node : joint, stamped_pair<Key, Value> {
    using node::stamped_pair::stamped_pair;
  };

  /// A node that no other thread knows yet.
  using fresh_node = fresh<node, Domain>;

  /// Where a walk stopped. `cur` was linked from `prev` (null: from the head), or is null at the
  /// end. If `next` is marked, `cur` is deleted and has to be unlinked before anything else.
  struct position {
    node* prev;
    node* cur;
    link next;
    bool found;  // by search(): cur has the key
  };

  list_chain(Domain& domain, Compare less) : domain_(domain), less_(std::move(less)) {}
  list_chain(const list_chain&) = delete;
  list_chain& operator=(const list_chain&) = delete;

  /// No other thread may be there any more. Nodes that were retired before are the domain's.
  ~list_chain() {
    node* at = head_.load_relaxed().get();
    while (at != nullptr) {
      node* const after = at->next.load_relaxed().get();
      domain_.destroy(at);
      at = after;
    }
  }

  Domain& domain() const noexcept { return domain_; }
  const Compare& less() const noexcept { return less_; }

  fresh_node no_node() const noexcept { return no_fresh<node>(domain_); }
  template <class K, class V>
  void make(fresh_node& to, K&& key, V&& value, value_stamp<Value> stamp) const {
    to = make_fresh<node>(domain_, std::forward<K>(key), std::forward<V>(value), stamp);
  }

  /// The first node that is not before `key`; unlinks deleted nodes on the way.
  template <class K>
  position search(guard& g, const K& key) const {
    for (;;) {
      position p = walk(g, [&](const node& n) { return !less_(n.key, key); });
      if (!p.next.marked()) {
        p.found = p.cur != nullptr && !less_(key, p.cur->key);
        return p;
      }
      unlink(g, p, p.next.get());
    }
  }

  /// The node of `key`, or null, for reading.
  template <class K>
  const node* locate(guard& g, const K& key) const {
    if constexpr (protects_optimistic_search<scheme_type>) {
      return g.read([&]() -> const node* {
        node* at = numbered::protect(g, head_, 0).get();
        while (at != nullptr) {
          const link next = numbered::protect(g, at->next, 0);
          memory::note_access(at);
          if (!less_(at->key, key)) {
            if (less_(key, at->key)) return nullptr;
            // A deleted node of this key leads to its replacement, or past the key.
            if (!next.marked()) break;
          }
          at = next.follow();
        }
        numbered::keep(g, at, 0);
        return at;
      });
    } else {
      const position p = search(g, key);
      return p.found ? p.cur : nullptr;
    }
  }

  /// Links the fresh node between p.prev and p.cur, if they are still neighbours and p.prev is not
  /// deleted. (That p.cur's address does not belong to another node by now is what the guard sees
  /// to.)
  bool publish(const position& p, fresh_node& fresh) const noexcept {
    fresh->next.store_relaxed(link(p.cur));
    link expected(p.cur);
    // release → the acquires in protect(): a thread that reads the link sees the node constructed.
    atomic<link>& place = link_behind(p.prev);
    const bool linked = SPOLIA_FAULT("list.publish_relaxed")
                            ? place.cas_strong_relaxed(expected, link(fresh.get()))
                            : place.cas_strong_release(expected, link(fresh.get()));
    if (!linked) return false;
    fresh.release();
    return true;
  }

  /// Deletes p.cur. False if something changed at p.cur meanwhile.
  bool erase(guard& g, const position& p) const noexcept {
    if (!mark(p, p.next)) return false;
    take_out(g, p, p.next.get());
    return true;
  }

  /// Deletes p.cur and links the fresh node in its place, in one step: p.cur's frozen link leads to
  /// the fresh node, so that every thread that meets p.cur goes on there.
  bool replace(guard& g, const position& p, fresh_node& fresh) const noexcept {
    fresh->next.store_relaxed(p.next);
    if (!mark(p, link(fresh.get()))) return false;
    take_out(g, p, fresh.release());
    return true;
  }

  /// Copies the next pairs of the interval to `batch`, `batch_size` at most. False if there are
  /// none.
  template <class Rest, class Batch>
  bool gather(guard& g, Rest rest, Batch& batch) const {
    if constexpr (protects_by_restart<scheme_type>) {
      gather_kept(g, rest, batch);
      return !batch.empty();
    } else {
      for (;;) {
        const position p = walk(g, [&](const node& n) {
          if (rest.is_after(n.key, less_)) return false;
          if (rest.is_over_at(n.key, less_)) return true;
          batch.emplace_back(n.key, n.value);
          return batch.size() == room_of<Batch, batch_size>;
        });
        if (!p.next.marked()) return !batch.empty();
        unlink(g, p, p.next.get());
        if (batch.empty()) continue;
        const auto others = rest.template beyond<false>(batch.back().first);
        if constexpr (std::is_same_v<Rest, std::remove_const_t<decltype(others)>>) {
          rest = others;
        } else {
          return gather(g, others, batch);
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
  position walk(guard& g, Stop stop) const {
    return g.read([&] {
      unsigned prev_slot = 0;
      unsigned cur_slot = 1;
      unsigned next_slot = 2;
      position p{nullptr, numbered::protect(g, head_, cur_slot).get(), link(), false};
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
  bool unlink(guard& g, const position& p, node* successor) const noexcept {
    link expected(p.cur);
    if (SPOLIA_FAULT("list.retire_before_unlink")) g.retire(p.cur);
    // release → the acquires in protect(): a thread that reads the link sees the successor
    // constructed, as we did when we read the frozen link (or made the successor).
    if (!link_behind(p.prev).cas_strong_release(expected, link(successor))) return false;
    if (!SPOLIA_FAULT("list.retire_before_unlink")) g.retire(p.cur);
    return true;
  }

  /// After p.cur was marked. If it takes a walk, then through the whole list and without a
  /// comparison: the update has taken effect, and nothing may throw any more.
  void take_out(guard& g, const position& marked, node* successor) const noexcept {
    if (unlink(g, marked, successor)) return;
    for (;;) {
      const position p = walk(g, [](const node&) { return false; });
      if (p.cur == nullptr) return;  // no deleted node is left
      unlink(g, p, p.next.get());
    }
  }

  /// Under a restartable scheme nothing is copied while reading: as many nodes as there are slots
  /// are kept first. Deleted ones are stepped over, as in locate().
  template <class Rest, class Batch>
  void gather_kept(guard& g, const Rest& rest, Batch& batch) const {
    struct handful {
      std::array<node*, guard_slots> at;
      unsigned count;
    };
    const handful kept = g.read([&] {
      handful h{};
      node* at = numbered::protect(g, head_, 0).get();
      while (at != nullptr && h.count < room_of<Batch, guard_slots>) {
        const link next = numbered::protect(g, at->next, 0);
        memory::note_access(at);
        if (rest.is_over_at(at->key, less_)) break;
        if (!next.marked() && !rest.is_after(at->key, less_)) h.at[h.count++] = at;
        at = next.get();
      }
      for (unsigned i = 0; i < h.count; ++i) numbered::keep(g, h.at[i], i);
      return h;
    });
    for (unsigned i = 0; i < kept.count; ++i) {
      batch.emplace_back(kept.at[i]->key, kept.at[i]->value);
    }
  }

  atomic<link>& link_behind(node* prev) const noexcept {
    return prev != nullptr ? prev->next : head_;
  }

  Domain& domain_;
  [[no_unique_address]] Compare less_;
  // Lookups take deleted nodes out too, under some schemes.
  alignas(cache_line) mutable atomic<link> head_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
