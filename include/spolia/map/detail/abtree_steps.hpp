// SPDX-License-Identifier: Apache-2.0
// abtree_steps.hpp: the changes of an abtree. Each builds all new nodes, then publishes them at one
// stroke, then retires what they replace; if anything throws, or the stroke fails, nothing has
// happened.
//
// A violation is a node that is too small, or of weight 0: the top of a subtree one level too high.
// Every step moves its violation up, or to a place on the same search path, or removes it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <type_traits>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/abtree_nodes.hpp>
#include <spolia/map/detail/scx.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// A block that no other thread has seen: destroyed, unless released.
template <class Domain, class T>
class unpublished {
 public:
  unpublished(Domain& home, T* block) noexcept : home_(&home), block_(block) {}
  unpublished(const unpublished&) = delete;
  unpublished& operator=(const unpublished&) = delete;
  ~unpublished() { home_->destroy(block_); }

  T* get() const noexcept { return block_; }
  void hold(T* block) noexcept { block_ = block; }  ///< it held nothing before
  void release() noexcept { block_ = nullptr; }

 private:
  Domain* home_;
  T* block_;
};

template <class Nodes, class Domain, unsigned Degree>
class abtree_steps {
 public:
  using node = typename Nodes::node;
  using leaf = typename Nodes::leaf;
  using internal = typename Nodes::internal;
  using item = typename Nodes::item;
  using gathered = typename Nodes::gathered;
  using nodes_scx = scx<internal>;
  using guard = typename Domain::guard;
  using change = typename nodes_scx::change;
  using view = typename nodes_scx::view;

  /// Nodes smaller than this are to be merged, or filled up from a sibling.
  static constexpr unsigned least = (std::max)(Degree / 4, 2U);
  static_assert(Degree >= 2 * least - 1 && Degree >= 3 && Degree <= 255,
                "abtree: the degree must be between 3 and 255");

  /// A violation, as read() found it: `low` is the violating node (weight), or the left one of two
  /// siblings of which one is too small (size). Everything named here is kept.
  struct violation {
    enum class kind : std::uint8_t { none, weight, size, changed, busy } is = kind::none;
    std::uint8_t top_index = 0;  // of `middle` in `top`
    std::uint8_t low_index = 0;  // of `low` in `middle`
    internal* top = nullptr;
    internal* middle = nullptr;
    node* low = nullptr;
    node* right = nullptr;
    std::uint64_t top_info = 0;
    std::uint64_t middle_info = 0;
    std::uint64_t low_info = 0;
    std::uint64_t right_info = 0;
    std::uint64_t busy_info = 0;  // of kind busy: the operation to be helped
  };

  abtree_steps(Domain& home, internal& entry) : home_(home), entry_(entry) {}

  Domain& home() const noexcept { return home_; }
  nodes_scx& records() noexcept { return scx_; }
  const nodes_scx& records() const noexcept { return scx_; }

  /// Of the pairs of a full leaf and one more, so many go to the left.
  static constexpr unsigned split_half = (Degree + 1) / 2;
  /// Of the pairs of two siblings, all if they fit into one leaf.
  static constexpr unsigned merge_half(unsigned count) noexcept {
    return count < 2 * least ? count : count / 2;
  }

  /// p's child `index`: `old` becomes `fresh`.
  bool replace(typename nodes_scx::owner me, internal* p, std::uint64_t seen, unsigned index,
               leaf* old, node* with) noexcept {
    change c;
    c.count = 1;
    c.v[0] = p;
    c.seen[0] = seen;
    c.index = index;
    c.old = old;
    c.fresh = with;
    return scx_.attempt(me, c);
  }

  /// A full leaf and one pair more become two leaves under a new node.
  bool split_leaf(typename nodes_scx::owner me, internal* p, std::uint64_t seen, unsigned index,
                  leaf* old, unsigned at, const item& more) {
    std::array<item, Degree + 1> all;
    for (unsigned i = 0; i < at; ++i) all[i] = old->at(i);
    all[at] = more;
    for (unsigned i = at; i < Degree; ++i) all[i + 1] = old->at(i);
    fresh<leaf> left(home_, home_.template make<leaf>(all.data(), split_half));
    fresh<leaf> right(home_,
                      home_.template make<leaf>(all.data() + split_half, Degree + 1 - split_half));
    fresh<internal> top(home_, pair_up(p == &entry_, left.get(), right->key(0), right.get()));
    if (!replace(me, p, seen, index, old, top.get())) return false;
    left.release();
    right.release();
    top.release();
    return true;
  }

  /// Repairs `v` or moves it up. False: somebody else has changed something.
  bool repair(guard& g, typename nodes_scx::owner me, const violation& v) {
    if (v.is == violation::kind::weight) return lower(g, me, v);
    return v.low->is_leaf ? merge_leaves(g, me, v) : merge_internals(g, me, v);
  }

  static leaf* as_leaf(node* n) noexcept { return static_cast<leaf*>(n); }
  static internal* as_internal(node* n) noexcept { return static_cast<internal*>(n); }

 private:
  template <class T>
  struct fresh : unpublished<Domain, T> {
    using unpublished<Domain, T>::unpublished;
    T* operator->() const noexcept { return this->get(); }
  };

  /// Two nodes under a new one, which is too high by one level unless it is the root.
  template <class Key>
  internal* pair_up(bool root, node* left, const Key& between, node* right) {
    gathered two;
    two.add(nullptr, left);
    two.add(std::addressof(between), right);
    return home_.template make<internal>(root ? 1U : 0U, two, 0U, 2U);
  }

  /// The stroke: top's child `middle` becomes `made`; middle and the given nodes are removed.
  bool publish(typename nodes_scx::owner me, const violation& v, node* made, bool low, bool right) {
    change c;
    c.count = 2;
    c.v[0] = v.top;
    c.seen[0] = v.top_info;
    c.v[1] = v.middle;
    c.seen[1] = v.middle_info;
    if (low) {
      c.v[c.count] = as_internal(v.low);
      c.seen[c.count++] = v.low_info;
    }
    if (right) {
      c.v[c.count] = as_internal(v.right);
      c.seen[c.count++] = v.right_info;
    }
    c.index = v.top_index;
    c.old = v.middle;
    c.fresh = made;
    return scx_.attempt(me, c);
  }

  /// Adds the children [from, to) of `n`; `in_front` is the key in front of the first.
  template <class Key>
  static void add_children(gathered& all, const internal& n, unsigned from, unsigned to,
                           const Key* in_front) {
    for (unsigned i = from; i < to; ++i) {
      // acquire ← the release in scx: a thread that follows the pointer from the new node sees its
      // target.
      all.add(i == from ? in_front : std::addressof(n.keys[i - 1]), n.child(i).load_acquire());
    }
  }
  /// Null before the first child, and behind the last one, where there is no key.
  static auto key_in_front(const internal& n, unsigned child) {
    return child == 0 || child >= n.size ? nullptr : std::addressof(n.keys[child - 1]);
  }

  /// The paper's Absorb and Split: `low`, of weight 0, gives its children to `middle`; if they are
  /// too many, the two share them, under a new node of weight 0 one level up.
  bool lower(guard& g, typename nodes_scx::owner me, const violation& v) {
    internal* const low = as_internal(v.low);
    const unsigned at = v.low_index;
    gathered all;
    add_children(all, *v.middle, 0, at, key_in_front(*v.middle, 0));
    add_children(all, *low, 0, low->size, key_in_front(*v.middle, at));
    add_children(all, *v.middle, at + 1, v.middle->size, key_in_front(*v.middle, at + 1));
    if (all.count <= Degree) {
      fresh<internal> made(home_, home_.template make<internal>(1U, all, 0U, all.count));
      if (!publish(me, v, made.get(), true, false)) return false;
      made.release();
    } else {
      const unsigned half = all.count / 2;
      fresh<internal> left(home_, home_.template make<internal>(1U, all, 0U, half));
      fresh<internal> right(home_, home_.template make<internal>(1U, all, half, all.count));
      fresh<internal> made(home_,
                           pair_up(v.top == &entry_, left.get(), *all.keys[half - 1], right.get()));
      if (!publish(me, v, made.get(), true, false)) return false;
      left.release();
      right.release();
      made.release();
    }
    g.retire(v.middle);
    g.retire(low);
    return true;
  }

  /// middle with one child `merged` instead of low and right.
  internal* without_one(const violation& v, node* merged) {
    gathered all;
    add_children(all, *v.middle, 0, v.low_index, key_in_front(*v.middle, 0));
    all.add(key_in_front(*v.middle, v.low_index), merged);
    const unsigned next = v.low_index + 2U;
    add_children(all, *v.middle, next, v.middle->size, key_in_front(*v.middle, next));
    return home_.template make<internal>(1U, all, 0U, all.count);
  }

  /// middle with other children and another key instead of low and right and the key between them.
  template <class Key>
  internal* with_others(const violation& v, node* left, const Key& between, node* right) {
    gathered all;
    add_children(all, *v.middle, 0, v.low_index, key_in_front(*v.middle, 0));
    all.add(key_in_front(*v.middle, v.low_index), left);
    all.add(std::addressof(between), right);
    const unsigned next = v.low_index + 2U;
    add_children(all, *v.middle, next, v.middle->size, key_in_front(*v.middle, next));
    return home_.template make<internal>(1U, all, 0U, all.count);
  }

  /// The root goes when its only two children become one.
  bool root_goes(const violation& v) const noexcept {
    return v.top == &entry_ && v.middle->size == 2;
  }

  /// The paper's AbsorbSibling (RootAbsorb) and Distribute, for leaves.
  bool merge_leaves(guard& g, typename nodes_scx::owner me, const violation& v) {
    leaf* const low = as_leaf(v.low);
    leaf* const next = as_leaf(v.right);
    std::array<item, std::size_t{2} * Degree> all;
    unsigned count = 0;
    for (unsigned i = 0; i < low->size; ++i) all[count++] = low->at(i);
    for (unsigned i = 0; i < next->size; ++i) all[count++] = next->at(i);
    const auto make = [&](unsigned from, unsigned end) {
      return home_.template make<leaf>(all.data() + from, end - from);
    };
    return merge_as<leaf>(g, me, v, count, make, [](const leaf& right, unsigned) -> decltype(auto) {
      return right.key(0);
    });
  }

  /// The same for internal nodes, which are removed with their parent.
  bool merge_internals(guard& g, typename nodes_scx::owner me, const violation& v) {
    internal* const low = as_internal(v.low);
    internal* const next = as_internal(v.right);
    gathered all;
    add_children(all, *low, 0, low->size, key_in_front(*low, 0));
    add_children(all, *next, 0, next->size, std::addressof(v.middle->keys[v.low_index]));
    const auto make = [&](unsigned from, unsigned end) {
      return home_.template make<internal>(1U, all, from, end);
    };
    return merge_as<internal>(
        g, me, v, all.count, make,
        [&](const internal&, unsigned half) -> decltype(auto) { return *all.keys[half - 1]; });
  }

  /// Puts one node with all `count`, or two with half each, in the place of low and right.
  /// `make(from, end)` makes one, `between(the right one, where it begins)` tells the key between.
  template <class Node, class Make, class Between>
  bool merge_as(guard& g, typename nodes_scx::owner me, const violation& v, unsigned count,
                const Make& make, const Between& between) {
    constexpr bool internals = std::is_same_v<Node, internal>;
    const unsigned half = merge_half(count);
    fresh<Node> left(home_, make(0U, half));
    if (half == count) {
      if (!merge(me, v, left.get(), internals)) return false;
    } else {
      fresh<Node> right(home_, make(half, count));
      fresh<internal> made(home_,
                           with_others(v, left.get(), between(*right.get(), half), right.get()));
      if (!publish(me, v, made.get(), internals, internals)) return false;
      right.release();
      made.release();
    }
    left.release();
    g.retire(v.middle);
    g.retire(static_cast<Node*>(v.low));
    g.retire(static_cast<Node*>(v.right));
    return true;
  }

  /// Puts `merged` in the place of low and right.
  bool merge(typename nodes_scx::owner me, const violation& v, node* merged, bool internals) {
    if (root_goes(v)) return publish(me, v, merged, internals, internals);
    fresh<internal> made(home_, without_one(v, merged));
    if (!publish(me, v, made.get(), internals, internals)) return false;
    made.release();
    return true;
  }

  Domain& home_;
  internal& entry_;
  nodes_scx scx_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
