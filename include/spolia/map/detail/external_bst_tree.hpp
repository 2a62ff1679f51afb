// SPDX-License-Identifier: Apache-2.0
// external_bst_tree.hpp: the nodes, searches and atomic steps of the map in external_bst.hpp.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/weight.hpp>
#include <spolia/map/detail/attempts.hpp>
#include <spolia/map/detail/fresh.hpp>
#include <spolia/map/detail/marked_ptr.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/detail/stamped_pair.hpp>
#include <spolia/map/detail/turns.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/detail/numbered.hpp>
#include <spolia/reclaim/domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// Leaves hold the pairs and never change. A router has two children always: keys before its own on
/// side 0, the others on side 1. The entry, which is never removed, has no key and at most one
/// child, on side 0. Every step takes place inside a guard, and what a search returns may be used
/// until the same guard's next search.
template <class Key, class Value, class Domain, class Compare>
class external_bst_tree {
  using guard = typename Domain::guard;
  using numbered = reclaim::numbered;
  using stepper = reclaim::stepper<typename Domain::scheme_type>;

 public:
  struct node : Domain::header {};
  /// The mark: it leads to a leaf. So a pointer alone tells what it leads to.
  using link = marked_ptr<node>;

  struct leaf : node, stamped_pair<Key, Value> {
    using leaf::stamped_pair::stamped_pair;
  };

  /// A place where the tree forks. Bit `side` of the state: the link on that side is locked, and
  /// only the holder changes it. `removed` is set before the router is unlinked, and
  /// forever; both links are locked by then, and stay as they are.
  struct fork : node {
    static constexpr std::uint32_t both = 3;
    static constexpr std::uint32_t removed = 4;

    bool is_linked() const noexcept {
      // acquire ← the release in remove().
      return (state.load_acquire() & removed) == 0;
    }

    std::array<atomic<link>, 2> child;
    atomic<std::uint32_t> state{0};
  };

  struct router : fork {
    explicit router(const Key& k) : key(k) {}

    /// For weight_of.
    std::size_t owned_bytes() const noexcept
      requires(!weightless<Key>)
    {
      return weigh(key);
    }
    const Key key;
  };

  using fresh_leaf = fresh<leaf, Domain>;

  /// Where a search ended: at `low`, child of `parent`, child of `grand`. `low` is null in an empty
  /// tree; `grand` is null where the parent is the entry.
  struct place {
    fork* grand;
    fork* parent;
    leaf* low;
    std::uint8_t grand_side;
    std::uint8_t side;
    bool found = false;         // low has the key
    bool low_is_after = false;  // low has a greater key
  };

  external_bst_tree(Domain& home, Compare less) : home_(home), less_(std::move(less)) {}
  external_bst_tree(const external_bst_tree&) = delete;
  external_bst_tree& operator=(const external_bst_tree&) = delete;

  /// No other thread may be there any more. Turns the tree into a list as it goes, so that one of
  /// any height ends in constant space.
  ~external_bst_tree() {
    link top = entry_.child[0].load_relaxed();
    while (top.get() != nullptr && !top.marked()) {
      router* const r = as_router(top);
      const link left = r->child[0].load_relaxed();
      if (left.marked()) {
        top = r->child[1].load_relaxed();
        home_.destroy(as_leaf(left));
        home_.destroy(r);
      } else {
        r->child[0].store_relaxed(as_router(left)->child[1].load_relaxed());
        as_router(left)->child[1].store_relaxed(top);
        top = left;
      }
    }
    home_.destroy(as_leaf(top));
  }

  Domain& home() const noexcept { return home_; }
  const Compare& less() const noexcept { return less_; }
  link root() const noexcept { return entry_.child[0].load_relaxed(); }

  static router* as_router(link to) noexcept { return static_cast<router*>(to.get()); }
  static leaf* as_leaf(link to) noexcept { return static_cast<leaf*>(to.get()); }

  /// Where the key is, or would be.
  template <class K>
  place search(guard& g, const K& key) const {
    return g.read([&] {
      place p;
      while (!descend(g, key, p)) continue;
      numbered::keep(g, p.grand, 0);
      numbered::keep(g, p.parent, 1);
      numbered::keep(g, p.low, 2);
      return p;
    });
  }

  /// The first leaf of the interval, or if Down the last one; its other end is not looked at. Null:
  /// there is none.
  template <bool Down, class Rest>
  const leaf* first(guard& g, const Rest& rest) const {
    return g.read([&] {
      const leaf* found = nullptr;
      while (!find_first<Down>(g, rest, found)) continue;
      numbered::keep(g, found, 0);
      return found;
    });
  }

  /// Puts `made` beside p.low, under a new router.
  outcome add(const place& p, fresh_leaf& made) {
    if (p.low == nullptr) {
      const outcome o = lead(p, link(), link(made.get()).with_mark());
      if (o == outcome::done) made.release();
      return o;
    }
    auto top = make_fresh<router>(home_, p.low_is_after ? p.low->key : made->key);
    // relaxed: no other thread sees the router before it is published.
    top->child[p.low_is_after ? 1 : 0].store_relaxed(link(p.low).with_mark());
    top->child[p.low_is_after ? 0 : 1].store_relaxed(link(made.get()).with_mark());
    const outcome o = lead(p, link(p.low).with_mark(), link(top.get()));
    if (o == outcome::done) {
      top.release();
      made.release();
    }
    return o;
  }

  /// Puts `made` in p.low's place.
  outcome replace(guard& g, const place& p, fresh_leaf& made) noexcept {
    const outcome o = lead(p, link(p.low).with_mark(), link(made.get()).with_mark());
    if (o != outcome::done) return o;
    made.release();
    g.retire(p.low);
    return o;
  }

  /// Takes p.low out, and its router with it: the sibling moves up.
  outcome erase(guard& g, const place& p) noexcept {
    const link low = link(p.low).with_mark();
    if (p.grand == nullptr) {
      const outcome o = lead(p, low, link());
      if (o == outcome::done) g.retire(p.low);
      return o;
    }
    // First a look without a lock: two threads that want the same two locks, and find the second
    // one held by a third, would disturb each other for as long as it is.
    if (p.parent->state.load_relaxed() != 0) return outcome::busy;
    const outcome above = lock(*p.grand, p.grand_side, link(p.parent));
    if (above != outcome::done) return above;
    const outcome here = remove(*p.parent, p.side, low);
    if (here == outcome::done) {
      // relaxed: the lock is ours, so we see what was set last.
      put(*p.grand, p.grand_side, p.parent->child[1 - p.side].load_relaxed());
    }
    unlock(*p.grand, flag_of(p.grand_side));
    if (here == outcome::done) {
      g.retire(p.low);
      g.retire(static_cast<router*>(p.parent));
    }
    return here;
  }

 private:
  static constexpr std::uint32_t flag_of(unsigned side) noexcept { return 1U << side; }

  /// A router that a search stands on: `above` led to it, on side `above_side`.
  struct footing {
    const router* at;
    const fork* above;
    unsigned above_side;
    unsigned slot;  // where `at` is announced
    unsigned above_slot;

    /// Marked is not yet unlinked: the remover, which may be stopped in between, holds the link
    /// from above, which is why `above` cannot be marked before `at` is unlinked.
    bool is_linked() const noexcept {
      if (at->is_linked() || SPOLIA_FAULT("external_bst.no_mark")) return true;
      // acquire ← the release in put(): the mark is looked at after the link.
      return above->child[above_side].load_acquire().get() == at && above->is_linked();
    }
  };

  /// Under a scheme that protects pointers: the link was read from `on` after the child was
  /// announced, and `on` was still linked after that. So the child was linked at that moment, and
  /// is retired later than it was announced.
  static bool step(guard& g, const footing& on, unsigned side, link& next, unsigned slot) {
    return numbered::step(g, on.at->child[side], next, slot, [&on] { return on.is_linked(); });
  }

  template <class K>
  bool descend(guard& g, const K& key, place& p) const {
    if constexpr (stepper::glances) {
      if (glance_down(numbered::steps(g), key, p)) return true;
    }
    return descend_by_steps(g, key, p);
  }

  /// One way down to the key's leaf, where the scheme has nothing to do at a step. False: it has.
  template <class K>
  bool glance_down(stepper step, const K& key, place& p) const {
    fork* grand = nullptr;
    fork* parent = &entry_;
    turns way;
    link next;
    if (!step.glance(entry_.child[0], next)) return false;
    // Only the entry's link may lead nowhere.
    for (bool more = is_router(next); more; more = !next.marked()) {
      router* const at = static_cast<router*>(next.unmarked());
      memory::note_access(at);
      grand = std::exchange(parent, at);
      // A branch for each side: the processor guesses one and fetches the child before it has
      // compared the keys. To compute the side costs a tenth to a fifth of an update.
      if (less_(key, at->key)) {
        way.left();
        if (!step.glance(at->child[0], next)) return false;
      } else {
        way.right();
        if (!step.glance(at->child[1], next)) return false;
      }
    }
    p = {grand, parent, as_leaf(next), way.last_but_one(), way.last()};
    compare(key, p);
    return true;
  }

  /// The same by steps. False: start over; another thread has unlinked what we stood on.
  /// Three slots in turn: for the child, the router whose link is read, and the one above.
  template <class K>
  SPOLIA_NOINLINE bool descend_by_steps(guard& g, const K& key, place& p) const {
    fork* grand = nullptr;
    fork* parent = &entry_;
    turns way;
    unsigned slot = 0;
    link next = numbered::protect(g, entry_.child[0], slot);
    while (is_router(next)) {
      router* const at = as_router(next);
      const footing on{at, parent, way.last(), slot, 0};
      memory::note_access(at);
      grand = std::exchange(parent, at);
      slot = slot == 2 ? 0 : slot + 1;
      if (less_(key, at->key)) {
        way.left();
        if (!step(g, on, 0, next, slot)) return false;
      } else {
        way.right();
        if (!step(g, on, 1, next, slot)) return false;
      }
    }
    p = {grand, parent, as_leaf(next), way.last_but_one(), way.last()};
    compare(key, p);
    return true;
  }

  template <class K>
  void compare(const K& key, place& p) const {
    if (p.low == nullptr) return;
    memory::note_access(p.low);
    p.low_is_after = static_cast<bool>(less_(key, p.low->key));
    p.found = !p.low_is_after && !less_(p.low->key, key);
  }

  /// The leaf where `rest.from` belongs, or if that is before the interval, the first on the other
  /// side of the last router where the way went left. If Down, all the same with sides exchanged.
  /// False: start over.
  template <bool Down, class Rest>
  bool find_first(guard& g, const Rest& rest, const leaf*& found) const {
    constexpr unsigned towards = Down ? 1 : 0;
    found = nullptr;
    footing on{nullptr, &entry_, 0, 0, 0};
    link next = numbered::protect(g, entry_.child[0], on.slot);
    footing turn = on;
    bool looking = Down ? rest.to != nullptr : rest.from != nullptr;  // for the place of that key
    for (;;) {
      while (is_router(next)) {
        on.at = as_router(next);
        memory::note_access(on.at);
        const bool away = looking && lies_away<Down>(rest, on.at->key);
        const unsigned side = away ? 1 - towards : towards;
        if (!away && looking) turn = on;
        const unsigned slot = free_slot(on, turn);
        if (!step(g, on, side, next, slot)) return false;
        on = {nullptr, on.at, side, slot, on.slot};
      }
      const leaf* const l = as_leaf(next);
      if (l == nullptr) return true;
      memory::note_access(l);
      if (!rest.template begins_beyond<Down>(l->key, less_)) {
        found = l;
        return true;
      }
      // What lies on that other side comes after, unless it was given more room. It was not before
      // the turn was removed, which we see with the leaf that came later. If the turn is not
      // removed the comparison is no order, and what comes next is not known.
      if (!looking) return turn.at->is_linked();
      if (turn.at == nullptr) return true;
      looking = false;
      const unsigned slot = free_slot(turn, turn);
      if (!step(g, turn, 1 - towards, next, slot)) return false;
      on = {nullptr, turn.at, 1 - towards, slot, turn.slot};
    }
  }
  /// Whether the place from which the interval begins is on the side of the router on which a walk
  /// to the first leaf of all (Down: the last) does not go.
  template <bool Down, class Rest>
  bool lies_away(const Rest& rest, const Key& fork_key) const {
    if constexpr (Down) {
      return rest.is_over_at(fork_key, less_);
    } else {
      return !less_(*rest.from, fork_key);
    }
  }

  static bool is_router(link to) noexcept { return to.get() != nullptr && !to.marked(); }

  static unsigned free_slot(const footing& a, const footing& b) noexcept {
    return static_cast<unsigned>(std::countr_one(flag_of(a.slot) | flag_of(a.above_slot) |
                                                 flag_of(b.slot) | flag_of(b.above_slot)));
  }

  /// Lets the link of p.parent lead to `to` instead of `from`.
  outcome lead(const place& p, link from, link to) noexcept {
    const outcome o = lock(*p.parent, p.side, from);
    if (o != outcome::done) return o;
    put(*p.parent, p.side, to);
    unlock(*p.parent, flag_of(p.side));
    return o;
  }

  /// Locks one link, if it is still as it was found. What `expected` leads to is kept by the guard,
  /// so its address cannot be another node's.
  outcome lock(fork& f, unsigned side, link expected) noexcept {
    const outcome o = hold(f, flag_of(side));
    if (o != outcome::done || is_as_found(f, side, expected)) return o;
    unlock(f, flag_of(side));
    return outcome::changed;
  }

  /// Locks both links of a router and removes it, if the link on `side` is still as it was found.
  outcome remove(fork& f, unsigned side, link expected) noexcept {
    const bool one = SPOLIA_FAULT("external_bst.lock_one_side");
    const outcome o = hold(f, one ? flag_of(side) : fork::both);
    if (o != outcome::done) return o;
    if (!is_as_found(f, side, expected)) {
      unlock(f, fork::both);
      return outcome::changed;
    }
    // release → the acquire in is_linked(). A thread that sees the router unmarked, after it has
    // announced a child, is in time: the router's unlinking, and the retirement of it and of its
    // children, come after this store.
    f.state.store_release(fork::both | fork::removed);
    return outcome::done;
  }

  static bool is_as_found(const fork& f, unsigned side, link expected) noexcept {
    // relaxed: the lock is ours, so we see what was set last.
    return f.child[side].load_relaxed() == expected || SPOLIA_FAULT("external_bst.no_validate");
  }

  static outcome hold(fork& f, std::uint32_t links) noexcept {
    std::uint32_t seen = f.state.load_relaxed();
    do {
      // That it is removed does not mean that it is unlinked yet.
      if ((seen & (links | fork::removed)) != 0) return outcome::busy;
      // acquire ← the release in unlock(): we see the links as the last holder left them.
    } while (!f.state.cas_weak_acquire(seen, seen | links));
    return outcome::done;
  }

  static void unlock(fork& f, std::uint32_t links) noexcept {
    // release → the acquire in hold(): the next holder sees the link.
    if (SPOLIA_FAULT("external_bst.unlock_relaxed")) {
      f.state.fetch_and_relaxed(~links);
    } else {
      f.state.fetch_and_release(~links);
    }
  }

  static void put(fork& f, unsigned side, link to) noexcept {
    // release → the acquires in protect() and step(): a thread that reads the link sees what it
    // leads to constructed.
    if (SPOLIA_FAULT("external_bst.publish_relaxed")) return f.child[side].store_relaxed(to);
    f.child[side].store_release(to);
  }

  Domain& home_;
  [[no_unique_address]] Compare less_;
  alignas(cache_line) mutable fork entry_;  // a search hands it out like any other fork
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
