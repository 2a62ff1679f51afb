// SPDX-License-Identifier: Apache-2.0
// abtree_nodes.hpp: what an abtree is made of. Everything in a node is constant once it is
// published, but an internal node's children, tag and mark.
//
// Small trivially copyable keys and pairs lie in the leaves. Other values, and other keys with
// their values, lie in entries of their own, which many versions of a leaf share: copying a leaf
// copies pointers.
#pragma once

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
#include <spolia/map/detail/scx.hpp>

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

/// How many of the `n` keys key_at(0), key_at(1), ... are in front of `key`; or, with Equal, not
/// behind it.
template <bool Equal, class Key, class Compare, class At>
SPOLIA_ALWAYS_INLINE unsigned rank(unsigned n, At&& key_at, const Key& key, const Compare& less) {
  unsigned from = 0;
  while (n != 0) {
    const unsigned half = n / 2;
    const Key& there = key_at(from + half);
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
  return before < n ? before : n;  // what lies behind the last key may count as not behind `key`
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

  /// How many of the first `n` are not behind `key`: the index of the child where it belongs.
  unsigned route(unsigned n, const Key& key, [[maybe_unused]] const Compare& less) const {
    if constexpr (counted<Key, Compare>) {
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

  unsigned route(unsigned n, const Key& key, const Compare& less) const {
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
    entry(const Key& k, V&& v) : key(k), value(std::forward<V>(v)) {}
    [[no_unique_address]] const std::conditional_t<key_in_leaf, absent, Key> key;
    const Value value;
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
    /// How many keys are in front of `k`: where it is, or would be.
    unsigned position(const Key& k, const Compare& less) const {
      if constexpr (counted<Key, Compare>) {
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
    unsigned route(const Key& k, const Compare& less) const {
      return keys.route(this->size - 1U, k, less);
    }

    atomic<bool> marked{false};
    atomic<std::uint64_t> info{untouched_record};
    separators<Key, Compare, Degree - 1> keys;
    std::array<atomic<node*>, Degree> children;
  };
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
