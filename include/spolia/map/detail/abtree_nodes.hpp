// SPDX-License-Identifier: Apache-2.0
// abtree_nodes.hpp: what an abtree is made of, and how it changes. A node is constant once it is
// published, but for an internal node's children, tag and mark.
//
// Small trivially copyable keys and pairs lie in the leaves. Other values, and other keys with
// their values, lie in entries of their own, which many versions of a leaf share: copying a leaf
// copies pointers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/weight.hpp>
#include <spolia/map/detail/scx.hpp>
#include <spolia/map/detail/seen_value.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// May lie in nodes: copying cannot fail and costs next to nothing.
template <class T>
inline constexpr bool lies_in_nodes =
    std::is_trivially_copyable_v<T> && std::is_copy_constructible_v<T> &&
    std::is_copy_assignable_v<T> && std::is_nothrow_default_constructible_v<T> && sizeof(T) <= 16;

/// Keys that are counted rather than searched: integers in their own order. The places after a
/// node's last key hold the greatest integer there is, so that the loop has a fixed length and no
/// branch. (Floating-point keys lie in nodes as integers: abtree_floats.hpp.)
template <class Key, class Compare>
inline constexpr bool counted =
    std::is_integral_v<Key> && sizeof(Key) <= 8 &&
    (std::is_same_v<Compare, std::less<Key>> || std::is_same_v<Compare, std::less<>>);

/// After a node's last key.
template <class Key, class Compare>
constexpr Key after_keys() noexcept {
  if constexpr (counted<Key, Compare>) {
    return (std::numeric_limits<Key>::max)();
  } else {
    return Key{};
  }
}

/// How many of the `n` keys key_at(0), key_at(1), ... are before `key`; or, with Equal, not after
/// it.
template <bool Equal, class K, class Compare, class At>
SPOLIA_ALWAYS_INLINE unsigned rank(unsigned n, At&& key_at, const K& key, const Compare& less) {
  unsigned from = 0;
  while (n != 0) {
    const unsigned half = n / 2;
    const auto& there = key_at(from + half);
    if (Equal ? !less(key, there) : static_cast<bool>(less(there, key))) {
      from += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return from;
}

/// The same for counted keys.
template <bool Equal, class Key, std::size_t Places>
SPOLIA_ALWAYS_INLINE unsigned rank(const std::array<Key, Places>& keys, unsigned n, Key key) {
  unsigned before = 0;
#pragma GCC unroll 16
  for (const Key there : keys) before += (Equal ? there <= key : there < key) ? 1U : 0U;
  return before < n ? before : n;  // what lies after the last key may count as not after `key`
}

/// Keys of an internal node.
template <class Key, class Compare, unsigned Places, bool InNode = lies_in_nodes<Key>>
class separators {
 public:
  void append(const Key& key, unsigned at) noexcept { keys_[at] = key; }
  void finish([[maybe_unused]] unsigned n) noexcept {
    if constexpr (counted<Key, Compare>) {
      for (unsigned i = n; i < Places; ++i) keys_[i] = after_keys<Key, Compare>();
    }
  }
  const Key& operator[](unsigned i) const noexcept { return keys_[i]; }

  /// How many of the first `n` are not after `key`: the index of the child where it belongs.
  template <class K>
  unsigned route(unsigned n, const K& key, [[maybe_unused]] const Compare& less) const {
    if constexpr (counted<Key, Compare> && std::is_same_v<K, Key>) {
      return rank<true>(keys_, n, key);
    } else {
      return rank<true>(n, *this, key, less);
    }
  }
  const Key& operator()(unsigned i) const noexcept { return keys_[i]; }

 private:
  std::array<Key, Places> keys_;
};

/// Keys whose copying may fail: as many are destroyed as were made.
template <class Key, class Compare, unsigned Places>
class separators<Key, Compare, Places, false> {
 public:
  separators() = default;
  separators(const separators&) = delete;
  separators& operator=(const separators&) = delete;
  ~separators() {
    while (made_ != 0) std::destroy_at(place(--made_));
  }

  void append(const Key& key, unsigned at) {
    std::construct_at(place(at), key);
    made_ = at + 1;
  }
  void finish(unsigned) noexcept {}
  const Key& operator[](unsigned i) const noexcept { return *place(i); }
  const Key& operator()(unsigned i) const noexcept { return *place(i); }

  template <class K>
  unsigned route(unsigned n, const K& key, const Compare& less) const {
    return rank<true>(n, *this, key, less);
  }

 private:
  Key* place(unsigned i) noexcept { return reinterpret_cast<Key*>(raw_) + i; }
  const Key* place(unsigned i) const noexcept {
    return std::launder(reinterpret_cast<const Key*>(raw_)) + i;
  }
  alignas(Key) std::byte raw_[sizeof(Key) * Places];
  unsigned made_ = 0;
};

template <class Key, class Value, class Domain, class Compare, unsigned Degree>
struct abtree_nodes {
  static constexpr bool key_in_leaf = lies_in_nodes<Key>;
  static constexpr bool value_in_leaf = key_in_leaf && lies_in_nodes<Value>;

  struct absent {
    absent() = default;
    explicit absent(const Key&) noexcept {}
  };

  /// A value, or a pair, that does not lie in leaves.
  struct entry : Domain::header {
    template <class V>
    entry(const Key& k, V&& v, value_stamp<Value> s)
        : key(k), value(std::forward<V>(v)), which(s) {}

    /// For weight_of.
    std::size_t owned_bytes() const noexcept
      requires(!weightless<std::conditional_t<key_in_leaf, absent, Key>, Value>)
    {
      return weigh(key, value);
    }
    [[no_unique_address]] const std::conditional_t<key_in_leaf, absent, Key> key;
    const Value value;
    [[no_unique_address]] const value_stamp<Value> which;
  };
  using payload = std::conditional_t<value_in_leaf, Value, entry*>;

  struct node : Domain::header {
    node(unsigned n, unsigned w, bool l) noexcept
        : size(static_cast<std::uint8_t>(n)), weight(static_cast<std::uint8_t>(w)), is_leaf(l) {}
    const std::uint8_t size;    ///< children, or pairs
    const std::uint8_t weight;  ///< 0: the subtree is one level too high
    const bool is_leaf;
  };

  /// A node is a few cache lines, and most of them will be needed: fetch them side by side.
  SPOLIA_ALWAYS_INLINE static void fetch(const node* n) noexcept {
    const char* const lines = reinterpret_cast<const char*>(n);
    for (std::size_t at = 64; at < sizeof(leaf); at += 64) __builtin_prefetch(lines + at);
  }

  /// A pair on its way from leaf to leaf.
  struct item {
    [[no_unique_address]] std::conditional_t<key_in_leaf, Key, absent> key;
    payload content;
  };
  struct with {  ///< one pair more, at `at`
    unsigned at;
    item what;
  };
  struct without {  ///< one pair less
    unsigned at;
  };
  struct instead {  ///< another content at `at`
    unsigned at;
    payload content;
  };

  struct leaf : node {
    leaf(const item* items, unsigned n) noexcept : node(n, 1, true), contents{} {
      if constexpr (key_in_leaf) {
        for (unsigned i = 0; i < n; ++i) keys[i] = items[i].key;
        for (unsigned i = n; i < Degree; ++i) keys[i] = after_keys<Key, Compare>();
      }
      for (unsigned i = 0; i < n; ++i) contents[i] = items[i].content;
    }
    // The loops below have a fixed length and no branches: cheaper than to copy what is needed.
    leaf(const leaf& from, const with& more) noexcept : node(from.size + 1U, 1, true) {
#pragma GCC unroll 16
      for (unsigned i = 0; i < Degree; ++i) take(i, from, i - (i > more.at ? 1U : 0U));
      if constexpr (key_in_leaf) keys[more.at] = more.what.key;
      contents[more.at] = more.what.content;
    }
    leaf(const leaf& from, const without& less) noexcept : node(from.size - 1U, 1, true) {
#pragma GCC unroll 16
      for (unsigned i = 0; i + 1 < Degree; ++i) take(i, from, i + (i >= less.at ? 1U : 0U));
      if constexpr (key_in_leaf) keys[Degree - 1] = after_keys<Key, Compare>();
      contents[Degree - 1] = payload{};
    }
    leaf(const leaf& from, const instead& other) noexcept : node(from.size, 1, true) {
#pragma GCC unroll 16
      for (unsigned i = 0; i < Degree; ++i) take(i, from, i);
      contents[other.at] = other.content;
    }

    const Key& key(unsigned i) const noexcept {
      if constexpr (key_in_leaf) {
        return keys[i];
      } else {
        memory::note_access(contents[i]);
        return contents[i]->key;
      }
    }
    item at(unsigned i) const noexcept {
      if constexpr (key_in_leaf) {
        return {keys[i], contents[i]};
      } else {
        return {{}, contents[i]};
      }
    }
    bool has(unsigned i, const seen_value<Value>& seen) const noexcept {
      if constexpr (value_in_leaf) {
        return seen.is(contents[i]);
      } else {
        return seen.is(contents[i]->value, contents[i]->which);
      }
    }
    /// How many keys are before `k`: where it is, or would be.
    template <class K>
    unsigned position(const K& k, const Compare& less) const {
      if constexpr (counted<Key, Compare> && std::is_same_v<K, Key>) {
        return rank<false>(keys, this->size, k);
      } else {
        return rank<false>(
            this->size, [this](unsigned i) -> const Key& { return key(i); }, k, less);
      }
    }

    [[no_unique_address]] std::conditional_t<key_in_leaf, std::array<Key, Degree>, absent> keys;
    std::array<payload, Degree> contents;

   private:
    SPOLIA_ALWAYS_INLINE void take(unsigned to, const leaf& other, unsigned from) noexcept {
      if constexpr (key_in_leaf) keys[to] = other.keys[from];
      contents[to] = other.contents[from];
    }
  };

  /// Children and the keys between them, gathered for a new node from those that it replaces.
  struct gathered {
    unsigned count = 0;  // of children
    std::array<const Key*, std::size_t{2} * Degree>
        keys;  // keys[i] is between children i and i + 1
    std::array<node*, std::size_t{2} * Degree> children;

    void add(const Key* in_front, node* child) noexcept {
      if (count != 0) keys[count - 1] = in_front;
      children[count++] = child;
    }
  };

  struct internal : node {
    using child_type = node*;

    /// Children [from, to) of `all`. Throws what copying a key throws.
    internal(unsigned w, const gathered& all, unsigned from, unsigned to)
        : node(to - from, w, false) {
      if (to - from > Degree) __builtin_unreachable();  // else g++ -O3 warns of what cannot be
      for (unsigned i = from; i < to; ++i) children[i - from].store_relaxed(all.children[i]);
      for (unsigned i = from; i + 1 < to; ++i) keys.append(*all.keys[i], i - from);
      keys.finish(to - from - 1);
    }
    internal() noexcept : node(1, 1, false) { keys.finish(0); }

    atomic<node*>& child(unsigned i) noexcept { return children[i]; }
    const atomic<node*>& child(unsigned i) const noexcept { return children[i]; }
    template <class K>
    unsigned route(const K& k, const Compare& less) const {
      return keys.route(this->size - 1U, k, less);
    }

    atomic<bool> marked{false};
    atomic<std::uint64_t> info{untouched_record};
    separators<Key, Compare, Degree - 1> keys;
    std::array<atomic<node*>, Degree> children;
  };
};

// --- the changes ---------------------------------------------------------------------------------
//
// Each builds all new nodes, then publishes them at one stroke, then retires what they replace; if
// anything throws, or the stroke fails, nothing has happened.
//
// A violation is a node that is too small, or of weight 0: the top of a subtree one level too high.
// Every step moves its violation up, or to a place on the same search path, or removes it.

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
    grew(me, 1, 1);
    return true;
  }

  /// Repairs `v` or moves it up. False: another thread has changed something.
  bool repair(guard& g, typename nodes_scx::owner me, const violation& v) {
    if (v.is == violation::kind::weight) return lower(g, me, v);
    return v.low->is_leaf ? merge_leaves(g, me, v) : merge_internals(g, me, v);
  }

  static leaf* as_leaf(node* n) noexcept { return static_cast<leaf*>(n); }
  static internal* as_internal(node* n) noexcept { return static_cast<internal*>(n); }

 private:
  /// There are so many more leaves and internal nodes.
  static void grew(typename nodes_scx::owner me, int leaves, int internals) noexcept {
    me.mine->leaves.add(static_cast<std::uint64_t>(std::int64_t{leaves}));
    me.mine->internals.add(static_cast<std::uint64_t>(std::int64_t{internals}));
  }

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

  /// Adds the children [from, to) of `n`; `in_front` is the key before the first.
  template <class Key>
  static void add_children(gathered& all, const internal& n, unsigned from, unsigned to,
                           const Key* in_front) {
    for (unsigned i = from; i < to; ++i) {
      // acquire ← the release in scx: a thread that follows the pointer from the new node sees its
      // target.
      all.add(i == from ? in_front : std::addressof(n.keys[i - 1]), n.child(i).load_acquire());
    }
  }
  /// Null before the first child, and after the last one, where there is no key.
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
      grew(me, 0, -1);
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
      grew(me, 0, 1);
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
      grew(me, internals ? 0 : -1, (internals ? -1 : 0) - (root_goes(v) ? 1 : 0));
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
