// SPDX-License-Identifier: Apache-2.0
/// \file
/// counted_btree: a B+ tree over counted pointers, with up to 512 children a node and 32 pairs a
/// leaf. Readers walk by views, which for Spolia's own pointers count nothing; writers take turns.
///
/// Source:      Tripp, Hyde, Grossman-Ponemon, "FRC", ISMM 2018, section 4.4 (the B tree and its
///              sizes). How it changes is not in the paper.
/// Idea:        leaves never change, and inner nodes change by their links only. A change copies
///              one leaf and sets one link. A leaf that would be too full becomes two, and then
///              the node above is copied, too, and so on; one that would be empty goes, with the
///              nodes above that would be. Leaves with few pairs are not merged.
/// Protects:    nothing itself; nodes stay as long as somebody views them.
/// Progress:    look-ups never wait; they are as lock-free as the family's views. Writers wait for
///              each other.
/// Linearizability: writers by their lock, at the setting of the link. A look-up that walks in
///              nodes that were replaced meanwhile sees what hung below them then, which is a
///              moment of the call; later changes are made to links that are in the tree.
/// Errors:      std::bad_alloc, and what copying keys and values throws: then nothing has changed.
/// Keys and values are copied, compared and destroyed while the writer has its turn: what they do
/// then must not change the same map.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/counted/families.hpp>
#include <spolia/map/detail/counted_btree_nodes.hpp>
#include <spolia/map/detail/counted_face.hpp>
#include <spolia/map/detail/counted_writer.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Key, class Value, class Family = thin_family, class Compare = std::less<Key>>
class counted_btree
    : public detail::counted_face<counted_btree<Key, Value, Family, Compare>, Key, Value> {
  friend detail::counted_face<counted_btree, Key, Value>;
  using leaf = detail::counted_leaf<Key, Value>;
  using inner = detail::counted_inner<Key, leaf, Family>;
  using inner_row = typename inner::template row<inner>;
  using inner_location = typename inner::template location<inner>;
  using inner_pointer = typename Family::template pointer<inner>;
  using leaf_pointer = typename Family::template pointer<leaf>;

 public:
  explicit counted_btree(Compare less = {}) : less_(std::move(less)), root_(first_root()) {}
  /// Not beside anything.
  ~counted_btree() = default;

  /// f(const Value&); true if the key is there. The value stays while f runs.
  template <class F>
  bool visit(const Key& key, F&& f) const {
    auto at = Family::template look<inner>(root_);
    while (at->inners) {
      Family::template step<inner>(at, at->inners[at->child(key, less_)]);
    }
    const auto& below = at->leaves[at->child(key, less_)];
    const auto in = Family::template onward<leaf, inner>(std::move(at), below);
    const std::size_t i = in->lower(key, less_);
    if (!in->has(i, key, less_)) return false;
    std::forward<F>(f)(in->pairs[i].second);
    return true;
  }

  /// True if the key was there.
  bool erase(const Key& key) {
    const detail::writing<Family> turn(writers_);
    const std::vector<hop> way = descend(key);
    const leaf& old = leaf_below(way.back());
    const std::size_t i = old.lower(key, less_);
    if (!old.has(i, key, less_)) return false;
    if (old.pairs.size() > 1 || alone(way)) {
      auto less_one = Family::template make<leaf>();
      less_one->assign_without(old, i);
      set_leaf(way.back(), std::move(less_one));
    } else {
      take_out(way);
    }
    writers_.shrank();
    return true;
  }

  /// May lag behind changes under way.
  [[nodiscard]] std::size_t size_approx() const noexcept { return writers_.size(); }

 private:
  /// One node on the writer's way down, and which child it goes on to.
  struct hop {
    const inner* node;
    inner_location* link;  // leads to the node
    std::size_t child;
  };

  /// For the writer: what is in the tree stays while it is that.
  std::vector<hop> descend(const Key& key) {
    std::vector<hop> way;
    inner_location* link = &root_;
    for (;;) {
      const inner* const at = detail::peek<Family, inner>(*link);
      const std::size_t i = at->child(key, less_);
      way.push_back({at, link, i});
      if (!at->inners) return way;
      link = &at->inners[i];
    }
  }
  static const leaf& leaf_below(const hop& h) {
    return *detail::peek<Family, leaf>(h.node->leaves[h.child]);
  }
  static void set_leaf(const hop& h, leaf_pointer p) {
    Family::template set<leaf>(h.node->leaves[h.child], std::move(p));
  }
  static void set_inner(inner_location& to, inner_pointer p) {
    Family::template set<inner>(to, std::move(p));
  }

  bool put(const Key& key, const Value& value, bool assign) {
    const detail::writing<Family> turn(writers_);
    const std::vector<hop> way = descend(key);
    const leaf& old = leaf_below(way.back());
    const std::size_t i = old.lower(key, less_);
    const bool there = old.has(i, key, less_);
    if (there && !assign) return false;
    const auto set = [&] {
      auto fresh = Family::template make<leaf>();
      fresh->assign_with(old, i, there, key, value);
      put_leaf(way, std::move(fresh));
    };
    there ? set() : writers_.grow_by(set);
    return !there;
  }

  /// In the place of the one at the end of the way; or two, if it is too full.
  void put_leaf(const std::vector<hop>& way, leaf_pointer fresh) {
    if (fresh->pairs.size() <= leaf::most) return set_leaf(way.back(), std::move(fresh));
    auto upper = Family::template make<leaf>();
    fresh->split_to(*upper);
    const Key first = upper->pairs.front().first;
    auto more = way.back().node->leaf_row();
    more.replace_by_two(way.back().child, std::move(fresh), first, std::move(upper));
    replace(way, way.size() - 1, std::move(more));
  }

  /// Sets the node at the level anew, and those above it if it has become too large.
  template <class Row>
  void replace(const std::vector<hop>& way, std::size_t level, Row fresh) {
    if (fresh.children.size() <= inner::most) {
      set_inner(*way[level].link, Family::template make<inner>(std::move(fresh)));
      return;
    }
    Row upper;
    const Key middle = fresh.split_to(upper);
    inner_pointer low = Family::template make<inner>(std::move(fresh));
    inner_pointer high = Family::template make<inner>(std::move(upper));
    if (level == 0) {
      inner_row above{{middle}, {}};
      above.children.push_back(std::move(low));
      above.children.push_back(std::move(high));
      set_inner(root_, Family::template make<inner>(std::move(above)));
      return;
    }
    const hop& above = way[level - 1];
    inner_row more = above.node->inner_row();
    more.replace_by_two(above.child, std::move(low), middle, std::move(high));
    replace(way, level - 1, std::move(more));
  }

  /// Whether the leaf at the end of the way is the only one.
  static bool alone(const std::vector<hop>& way) {
    return std::all_of(way.begin(), way.end(),
                       [](const hop& h) { return h.node->children() == 1; });
  }

  /// Takes the leaf out, and the nodes above it that have no other child.
  void take_out(const std::vector<hop>& way) {
    std::size_t level = way.size() - 1;
    while (way[level].node->children() == 1) --level;
    const hop& at = way[level];
    const auto smaller = [&](auto row) {
      row.take_out(at.child);
      set_inner(*at.link, Family::template make<inner>(std::move(row)));
    };
    at.node->inners ? smaller(at.node->inner_row()) : smaller(at.node->leaf_row());
  }

  static inner_pointer first_root() {
    typename inner::template row<leaf> r;
    r.children.push_back(Family::template make<leaf>());
    return Family::template make<inner>(std::move(r));
  }

  [[no_unique_address]] Compare less_;
  detail::writers writers_;
  inner_location root_;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
