// SPDX-License-Identifier: Apache-2.0
// abtree_search.hpp: the searching halves of an abtree's operations. Each is one read(): it starts
// at the root, only reads, and hands out what it found, linked (llx) and kept.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/map/detail/abtree_nodes.hpp>
#include <spolia/map/detail/abtree_steps.hpp>
#include <spolia/map/detail/scx.hpp>
#include <spolia/reclaim/concepts.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

template <class Key, class Nodes, class Domain, class Compare, unsigned Degree>
class abtree_search {
  using steps = abtree_steps<Nodes, Domain, Degree>;
  using node = typename Nodes::node;
  using leaf = typename Nodes::leaf;
  using internal = typename Nodes::internal;
  using guard = typename Domain::guard;
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

  /// Pairs of one leaf.
  struct chunk {
    unsigned count = 0;
    bool more = false;           // the leaf has more in the range than were taken
    const Key* limit = nullptr;  // where the leaf's range ends; null: it is the last leaf
    std::array<typename Nodes::item, Degree> items;
  };
  /// A restartable scheme keeps one block in a slot; the last slot is for the limit.
  static constexpr unsigned chunk_size =
      protects_by_restart<typename Domain::scheme_type> && !Nodes::value_in_leaf
          ? std::min(Degree, guard_slots - 1)
          : Degree;

  abtree_search(internal& entry, const records& all, Compare less)
      : entry_(entry), records_(all), less_(std::move(less)) {}

  const Compare& less() const noexcept { return less_; }

  bool contains(guard& g, const Key& key) const {
    return g.read([&]() -> bool {
      const leaf* const l = descend(key);
      return is_at(*l, l->position(key, less_), key);
    });
  }

  hit look_up(guard& g, const Key& key) const {
    return g.read([&]() -> hit {
      const leaf* const l = descend(key);
      const unsigned at = l->position(key, less_);
      if (!is_at(*l, at, key)) return {};
      if constexpr (!Nodes::value_in_leaf) g.keep(l->contents[at], 0);
      return {true, l->contents[at]};
    });
  }

  /// Finds the key's leaf, and links to its parent if the key is there, or not, as wanted.
  spot locate(guard& g, const Key& key, wanted what) const {
    return g.read([&]() -> spot {
      internal* p = &entry_;
      unsigned index = 0;
      node* n = follow(*p, 0);
      while (!n->is_leaf) {
        p = steps::as_internal(n);
        index = p->route(key, less_);
        n = follow(*p, index);
      }
      leaf* const l = steps::as_leaf(n);
      const unsigned at = l->position(key, less_);
      spot s{p,
             l,
             0,
             status::removed,
             is_at(*l, at, key),
             static_cast<std::uint8_t>(index),
             static_cast<std::uint8_t>(at)};
      if (what != wanted::either && s.found != (what == wanted::present)) return s;
      const auto seen = records_.llx(*p);
      s.info = seen.info;
      s.is = seen.is;
      // relaxed: l is known; whatever else is there makes us search again.
      if (seen && p->child(index).load_relaxed() != l) s.is = status::removed;
      g.keep(p, 0);
      g.keep(l, 1);
      if constexpr (!Nodes::value_in_leaf) {
        if (s.found) g.keep(l->contents[at], 2);
      }
      return s;
    });
  }

  /// The topmost violation on the way to `key`, with all that its repair needs linked and kept.
  violation first_violation(guard& g, const Key& key) const {
    return g.read([&]() -> violation {
      violation v;
      internal* p = &entry_;
      unsigned index = 0;
      node* n = follow(*p, 0);
      while (p == &entry_ || (n->weight != 0 && n->size >= steps::least)) {
        if (n->is_leaf) return v;
        v.top = p;
        v.top_index = static_cast<std::uint8_t>(index);
        p = steps::as_internal(n);
        index = p->route(key, less_);
        n = follow(*p, index);
      }
      v.middle = p;
      v.low = n;
      v.low_index = static_cast<std::uint8_t>(index);
      v.is = link(v);
      g.keep(v.top, 0);
      g.keep(v.middle, 1);
      g.keep(v.low, 2);
      if (v.right != nullptr) g.keep(v.right, 3);
      return v;
    });
  }

  /// The pairs in front of `to` and behind `from`, or at it unless `behind`, in the leaf where
  /// `from` belongs. Null: no bound.
  chunk next_chunk(guard& g, const Key* from, bool behind, const Key* to) const {
    return g.read([&]() -> chunk {
      chunk c;
      const internal* bounded_by = nullptr;
      node* n = follow(entry_, 0);
      while (!n->is_leaf) {
        const internal* const i = steps::as_internal(n);
        const unsigned index = from == nullptr ? 0 : i->route(*from, less_);
        if (index + 1U < i->size) {
          c.limit = &i->keys[index];
          bounded_by = i;
        }
        n = follow(*i, index);
      }
      const leaf& l = *steps::as_leaf(n);
      unsigned at = from == nullptr ? 0 : l.position(*from, less_);
      if (behind && is_at(l, at, *from)) ++at;
      const unsigned end = to == nullptr ? l.size : l.position(*to, less_);
      for (; at < end && c.count < chunk_size; ++at, ++c.count) {
        c.items[c.count] = l.at(at);
        if constexpr (!Nodes::value_in_leaf) g.keep(l.contents[at], c.count);
      }
      c.more = at < end;
      if (bounded_by != nullptr) g.keep(bounded_by, guard_slots - 1);
      return c;
    });
  }

 private:
  static node* follow(const internal& parent, unsigned index) noexcept {
    // acquire ← the release in scx: we see the node constructed.
    node* const n = parent.child(index).load_acquire();
    memory::note_access(n);
    // A node is a few cache lines, and most of them will be needed: fetch them side by side.
    const char* const lines = reinterpret_cast<const char*>(n);
    for (std::size_t at = 64; at < sizeof(leaf); at += 64) __builtin_prefetch(lines + at);
    return n;
  }

  bool is_at(const leaf& l, unsigned at, const Key& key) const {
    return at < l.size && !less_(key, l.key(at));
  }

  leaf* descend(const Key& key) const {
    node* n = follow(entry_, 0);
    while (!n->is_leaf) {
      const internal* const i = steps::as_internal(n);
      n = follow(*i, i->route(key, less_));
    }
    return steps::as_leaf(n);
  }

  /// Links to what the repair of `v.low` changes, in the order in which it will be frozen. Children
  /// are read after the llx that vouches for them.
  kind link(violation& v) const {
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
    // A node changes its parent only if that is removed: nobody need ask whether `middle` is still
    // where it was found. But leaves are replaced without a mark.
    if (!linked(*v.top, v.top_info) || !linked(*v.middle, v.middle_info)) return hindered;
    if (v.middle->child(v.low_index).load_relaxed() != v.low) return kind::changed;
    if (v.low->weight != 0) pair_with_sibling(v);
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
  void pair_with_sibling(violation& v) const {
    const unsigned beside = v.low_index == 0 ? 1 : v.low_index - 1U;
    node* const sibling = follow(*v.middle, beside);
    if (v.low_index == 0 && sibling->weight != 0) {
      v.right = sibling;
      return;
    }
    if (sibling->weight != 0) v.right = v.low;
    v.low = sibling;
    v.low_index = static_cast<std::uint8_t>(beside);
  }

  internal& entry_;
  const records& records_;
  [[no_unique_address]] Compare less_;
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
