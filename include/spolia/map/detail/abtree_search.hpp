// SPDX-License-Identifier: Apache-2.0
// abtree_search.hpp: the searching halves of an abtree's operations. Each is one read(): it starts
// at the root, only reads, and hands out what it found, linked (llx) and kept.
//
// Slots: a search goes down from slot to slot, so that the last three nodes of its way, or two and
// one that it wants to remember, stay protected. help() announces in the slots from scx::first_slot
// on.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/map/detail/abtree_nodes.hpp>
#include <spolia/map/detail/scx.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/detail/numbered.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Key, class Nodes, class Domain, class Compare, unsigned Degree>
class abtree_search {
  using steps = abtree_steps<Nodes, Domain, Degree>;
  using node = typename Nodes::node;
  using leaf = typename Nodes::leaf;
  using internal = typename Nodes::internal;
  using guard = typename Domain::guard;
  using numbered = reclaim::numbered;
  using stepper = reclaim::stepper<typename Domain::scheme_type>;
  using records = scx<internal>;
  using violation = typename steps::violation;
  using kind = typename violation::kind;

 public:
  using status = typename records::view::status;

  /// Where a key is, or would be.
  struct spot {
    internal* parent;
    leaf* low;
    std::uint64_t info;  // free: for the change; busy: the operation to be helped
    status is;           // of the parent; removed: search again
    bool found;
    std::uint8_t index;  // of low in parent
    std::uint8_t at;     // in low
  };
  enum class wanted : std::uint8_t { absent, present, either };

  struct hit {
    bool found = false;
    typename Nodes::payload content{};
  };

  /// Pairs of one leaf; of those that do not lie in leaves, where they lie.
  struct chunk {
    using part = std::conditional_t<Nodes::value_in_leaf, std::pair<Key, typename Nodes::payload>,
                                    typename Nodes::item>;
    unsigned count = 0;
    bool more = false;           // the leaf has more in the range than were taken
    const Key* limit = nullptr;  // where the leaf's range ends; null: it is the last leaf
    std::array<part, Degree> items;
  };
  /// A restartable scheme keeps one block in a slot; the last slot is for the limit.
  static constexpr unsigned chunk_size =
      protects_by_restart<typename Domain::scheme_type> && !Nodes::value_in_leaf
          ? (std::min)(Degree, guard_slots - 1)
          : Degree;

  abtree_search(internal& entry, records& all, Compare less)
      : entry_(entry), records_(all), less_(std::move(less)) {}

  const Compare& less() const noexcept { return less_; }

  template <class K>
  bool contains(guard& g, const K& key) const {
    return g.read([&]() -> bool {
      const leaf* const l = steps::as_leaf(descend(g, key).low);
      return is_at(*l, l->position(key, less_), key);
    });
  }

  template <class K>
  hit look_up(guard& g, const K& key) const {
    return g.read([&]() -> hit {
      const leaf* const l = steps::as_leaf(descend(g, key).low);
      const unsigned at = l->position(key, less_);
      if (!is_at(*l, at, key)) return {};
      if constexpr (!Nodes::value_in_leaf) numbered::keep(g, l->contents[at], 0);
      return {true, l->contents[at]};
    });
  }

  /// Copies the value of `key`. False: it is absent.
  template <class K, class Seen>
  bool look(guard& g, const K& key, Seen& to) const {
    if constexpr (Nodes::value_in_leaf) {
      return g.read([&]() -> bool {
        const leaf* const l = steps::as_leaf(descend(g, key).low);
        const unsigned at = l->position(key, less_);
        const bool found = is_at(*l, at, key);
        if (found) to.look(l->contents[at]);
        return found;
      });
    } else {
      const hit h = look_up(g, key);
      if (h.found) to.look(h.content->value, h.content->which);
      return h.found;
    }
  }

  /// Finds the key's leaf, and links to its parent if the key is there, or not, as wanted.
  /// All inlined: an update is half search, and a `spot` by way of memory costs it a twentieth.
  template <class K>
  SPOLIA_ALWAYS_INLINE spot locate(guard& g, const K& key, wanted what) const {
    return g.read([&]() __attribute__((always_inline)) -> spot {
      const place w = descend(g, key);
      leaf* const l = steps::as_leaf(w.low);
      const unsigned at = l->position(key, less_);
      spot s{w.parent,
             l,
             0,
             status::removed,
             is_at(*l, at, key),
             static_cast<std::uint8_t>(w.index),
             static_cast<std::uint8_t>(at)};
      if (what != wanted::either && s.found != (what == wanted::present)) return s;
      const auto seen = records_.llx(*w.parent);
      s.info = seen.info;
      s.is = seen.is;
      // relaxed: l is known; whatever else is there makes us search again.
      if (seen && w.parent->child(w.index).load_relaxed() != l) s.is = status::removed;
      numbered::keep(g, w.parent, 0);
      numbered::keep(g, l, 1);
      if constexpr (!Nodes::value_in_leaf) {
        if (s.found) numbered::keep(g, l->contents[at], 2);
      }
      if constexpr (!Nodes::key_in_leaf) {
        if (!s.found && l->size == Degree) keep_split_key(g, *l, at);
      }
      return s;
    });
  }

  /// The topmost violation on the way to `key`, with all that its repair needs linked and kept.
  template <class K>
  violation first_violation(guard& g, const K& key) const {
    return g.read([&]() -> violation {
      violation v;
      for (backoff wait; !descend_to_violation(g, key, v);) wait.pause();
      if (v.low == nullptr) return v;
      v.is = link(g, v);
      numbered::keep(g, v.top, 0);
      numbered::keep(g, v.middle, 1);
      numbered::keep(g, v.low, 2);
      if (v.right != nullptr) numbered::keep(g, v.right, 3);
      if constexpr (!Nodes::key_in_leaf) {
        if (v.right != nullptr && v.low->is_leaf) keep_merge_key(g, v);
      }
      return v;
    });
  }

  /// The first pairs of the interval, `most` of them, in the leaf in which it begins; if Down the
  /// last ones, the last one first, in the leaf in which it ends. c.limit: where the leaf's range
  /// ends, or begins.
  template <bool Down, class Rest>
  void next_chunk(guard& g, const Rest& rest, unsigned most, chunk& c) const {
    g.read([&] {
      c.count = 0;
      bounded b;
      for (backoff wait; !descend_with_bound<Down>(g, rest, b);) wait.pause();
      c.limit = b.limit;
      const leaf& l = *b.low;
      unsigned at = rest.from == nullptr ? 0 : l.position(*rest.from, less_);
      if (!rest.with_from && is_at(l, at, *rest.from)) ++at;
      unsigned end = rest.to == nullptr ? l.size : l.position(*rest.to, less_);
      if constexpr (Rest::has_to) {
        if (rest.to != nullptr && is_at(l, end, *rest.to)) ++end;
      }
      if constexpr (Down) {
        for (; at < end && c.count < most; --end, ++c.count) take(g, l, end - 1, c);
      } else {
        for (; at < end && c.count < most; ++at, ++c.count) take(g, l, at, c);
      }
      c.more = at < end;
      if (b.bounded_by != nullptr) numbered::keep(g, b.bounded_by, guard_slots - 1);
      return true;
    });
  }

 private:
  /// A step of a descent: the last three nodes, and the slot of the lowest.
  struct place {
    internal* top = nullptr;
    internal* parent = nullptr;
    node* low = nullptr;
    unsigned top_index = 0;  // of parent in top
    unsigned index = 0;      // of low in parent
    unsigned slot = 0;

    static constexpr unsigned slot_count = 3;
  };

  SPOLIA_ALWAYS_INLINE static void take([[maybe_unused]] guard& g, const leaf& l, unsigned at,
                                        chunk& c) {
    auto& to = c.items[c.count];
    if constexpr (Nodes::value_in_leaf) {
      to.first = l.keys[at];
      to.second = l.contents[at];
    } else {
      to = l.at(at);
      numbered::keep(g, l.contents[at], c.count);
    }
  }

  /// What a chunk is cut from. The three slots change roles instead of contents.
  struct bounded {
    const leaf* low;
    const Key* limit;
    const internal* bounded_by;
  };
  static constexpr unsigned sibling_slot = place::slot_count;
  static constexpr unsigned key_slot = sibling_slot + 1;

  /// Reads a child, so that it may be looked at while the slot is not used again. False: the parent
  /// was removed, and the scheme cannot vouch for what it leads to; then start at the root.
  template <bool Glancing = false>
  bool follow(guard& g, stepper step, const internal& parent, unsigned index, node*& to,
              unsigned slot) const {
    node* next = nullptr;
    if constexpr (Glancing) {
      if (!step.glance(parent.child(index), next)) return false;
    } else {
      // A node is marked before it is unlinked, and a removed node's children are unlinked later
      // than itself: without the mark, the child was still linked when the slot already protected
      // it. relaxed: of a thread that issues a heavy fence after the unlinking of the child, and so
      // after the mark, we see the mark; or it sees our announcement, which a light fence separates
      // from this load.
      const bool linked =
          step(parent.child(index), next, slot, [&] { return !parent.marked.load_relaxed(); });
      if (!linked && !SPOLIA_FAULT("abtree.step_from_removed")) return finish_removal(g, parent);
    }
    to = next;
    memory::note_access(to);
    Nodes::fetch(to);
    return true;
  }

  /// The parent's removal may be under way by a thread that sleeps.
  SPOLIA_NOINLINE bool finish_removal(guard& g, const internal& parent) const {
    // acquire ← the release of tags in scx: help() finds the descriptor filled.
    records_.help(g, parent.info.load_acquire());
    return false;
  }

  template <bool Glancing = false>
  bool enter_root(guard& g, stepper step, place& w) const {
    w = place{};
    w.parent = &entry_;
    return follow<Glancing>(g, step, entry_, 0, w.low, 0);
  }

  template <bool Glancing = false, class K>
  bool step_down(guard& g, stepper step, const K& key, place& w) const {
    w.top = w.parent;
    w.top_index = w.index;
    w.parent = steps::as_internal(w.low);
    w.index = w.parent->route(key, less_);
    if constexpr (!Glancing) w.slot = (w.slot + 1) % place::slot_count;
    return follow<Glancing>(g, step, *w.parent, w.index, w.low, w.slot);
  }

  /// Down to the leaf where `key` belongs.
  template <class K>
  place descend(guard& g, const K& key) const {
    place w;
    if (stepper::glances && go_down<stepper::glances>(g, key, w)) return w;
    return descend_by_steps(g, key);
  }
  template <class K>
  SPOLIA_NOINLINE place descend_by_steps(guard& g, const K& key) const {
    place w;
    for (backoff wait; !go_down<false>(g, key, w);) wait.pause();
    return w;
  }
  /// False: the scheme cannot vouch for the way; it has to be gone again, from the root.
  template <bool Glancing, class K>
  bool go_down(guard& g, const K& key, place& w) const {
    const stepper step = numbered::steps(g);
    bool linked = enter_root<Glancing>(g, step, w);
    while (linked && !w.low->is_leaf) linked = step_down<Glancing>(g, step, key, w);
    // g++ must not see that the keys of a leaf lie where those of an inner node lie: otherwise it
    // loads them all before it looks which it is, and spills them at each step.
    asm("" : "+r"(w.low));
    return linked;
  }

  /// Down to the first violating node, if there is one, which then is v.low. False: start over.
  template <class K>
  bool descend_to_violation(guard& g, const K& key, violation& v) const {
    const stepper step = numbered::steps(g);
    place w;
    if (!enter_root(g, step, w)) return false;
    v = violation{};
    while (w.parent == &entry_ || (w.low->weight != 0 && w.low->size >= steps::least)) {
      if (w.low->is_leaf) return true;
      if (!step_down(g, step, key, w)) return false;
    }
    v.top = w.top;
    v.top_index = static_cast<std::uint8_t>(w.top_index);
    v.middle = w.parent;
    v.low = w.low;
    v.low_index = static_cast<std::uint8_t>(w.index);
    return true;
  }

  /// The child in which the interval ends.
  template <class Rest>
  unsigned route_below(const internal& i, const Rest& rest) const {
    const unsigned index = i.route(*rest.to, less_);
    if (Rest::has_to || SPOLIA_FAULT("abtree.below_goes_right")) return index;
    return index != 0 && !less_(i.keys[index - 1], *rest.to) ? index - 1 : index;
  }

  /// Down to the leaf in which the interval begins, with the key that bounds it. If Down, to the
  /// leaf in which it ends, with the key at which that leaf begins. False: start over.
  template <bool Down, class Rest>
  bool descend_with_bound(guard& g, const Rest& rest, bounded& b) const {
    const stepper step = numbered::steps(g);
    unsigned slot = 0;
    unsigned spare = 1;
    unsigned bound_slot = 2;
    node* n = nullptr;
    b = bounded{};
    if (!follow(g, step, entry_, 0, n, slot)) return false;
    while (!not_null(n)->is_leaf) {
      const internal* const i = steps::as_internal(n);
      unsigned index = 0;
      if constexpr (Down) {
        index = rest.to != nullptr ? route_below(*i, rest) : i->size - 1U;
      } else {
        if (rest.from != nullptr) index = i->route(*rest.from, less_);
      }
      if (!follow(g, step, *i, index, n, spare)) return false;
      if (Down ? index != 0 : index + 1U < i->size) {
        b.limit = std::addressof(i->keys[Down ? index - 1 : index]);
        b.bounded_by = i;
        std::swap(slot, bound_slot);
      }
      std::swap(slot, spare);
    }
    b.low = steps::as_leaf(n);
    return true;
  }

  template <class K>
  bool is_at(const leaf& l, unsigned at, const K& key) const {
    return at < l.size && !less_(key, l.key(at));
  }

  // A step that makes two leaves copies the key before the right one. If keys do not lie in leaves,
  // the entry that holds it may be retired while the step is under way: so it is kept, too. (Under
  // eras it is protected with its leaf, and region schemes protect it anyway.)
  static void keep_split_key(guard& g, const leaf& l, unsigned at) noexcept {
    if (at == steps::split_half) return;  // it is the new one
    numbered::keep(g, l.contents[steps::split_half - (at < steps::split_half ? 1U : 0U)], key_slot);
  }
  static void keep_merge_key(guard& g, const violation& v) noexcept {
    const leaf& low = *steps::as_leaf(v.low);
    const leaf& right = *steps::as_leaf(v.right);
    const unsigned half = steps::merge_half(low.size + right.size);
    if (half == low.size + right.size) return;
    numbered::keep(g, half < low.size ? low.contents[half] : right.contents[half - low.size],
                   key_slot);
  }

  /// Links to what the repair of `v.low` changes, in the order in which it will be frozen. Children
  /// are read after the llx that vouches for them.
  kind link(guard& g, violation& v) const {
    kind hindered = kind::changed;
    const auto linked = [&](const internal& x, std::uint64_t& info) {
      const auto seen = records_.llx(x);
      info = seen.info;
      if (seen.is == status::busy) {
        v.busy_info = seen.info;
        hindered = kind::busy;
      }
      return static_cast<bool>(seen);
    };
    // A node changes its parent only if that is removed: no search need ask whether `middle` is
    // still where it was found. But leaves are replaced without a mark.
    if (!linked(*v.top, v.top_info) || !linked(*v.middle, v.middle_info)) return hindered;
    if (v.middle->child(v.low_index).load_relaxed() != v.low) return kind::changed;
    if (v.low->weight != 0 && !pair_with_sibling(g, v)) return kind::changed;
    if (!v.low->is_leaf) {
      if (!linked(*steps::as_internal(v.low), v.low_info)) return hindered;
      if (v.right != nullptr && !linked(*steps::as_internal(v.right), v.right_info)) {
        return hindered;
      }
    }
    return v.right == nullptr ? kind::weight : kind::size;
  }

  /// `v.low` is too small: a sibling helps. If that one is too high it is the violation to start
  /// with. Otherwise both are leaves or both are not, since the weights on the way from a node down
  /// to any leaf have the same sum.
  bool pair_with_sibling(guard& g, violation& v) const {
    const unsigned beside = v.low_index == 0 ? 1 : v.low_index - 1U;
    node* sibling = nullptr;
    if (!follow(g, numbered::steps(g), *v.middle, beside, sibling, sibling_slot)) return false;
    if (v.low_index == 0 && sibling->weight != 0) {
      v.right = sibling;
      return true;
    }
    if (sibling->weight != 0) v.right = v.low;
    v.low = sibling;
    v.low_index = static_cast<std::uint8_t>(beside);
    return true;
  }

  internal& entry_;
  records& records_;
  [[no_unique_address]] Compare less_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
