// SPDX-License-Identifier: Apache-2.0
/// \file
/// counted_btree: a B+ tree over counted pointers, with up to 512 children a node and 32 pairs a
/// leaf. Readers walk by views, which for Spolia's own pointers count nothing; writers take turns.
///
/// Source:      Tripp, Hyde, Grossman-Ponemon, "FRC", ISMM 2018, section 4.4 (the B tree and its
///              sizes). How it changes is not in the paper.
/// Idea:        a leaf takes a pair in, and gives one up, by one store to a word that says which of
///              its pairs count; each place for a pair is written once. When they are used up the
///              leaf is copied, by one link, or divided: then a new leaf joins the node above, and
///              a copy of the lower half takes the old one's place. Only when a node has no room
///              for more is it copied, too, and then perhaps divided. Leaves that are empty go
///              when there are some of them in one node, and nodes that would be empty with them.
///              Leaves with few pairs are not merged.
/// Protects:    nothing itself; nodes stay as long as a thread views them.
/// Progress:    look-ups never wait; they are as lock-free as the family's views. Writers wait for
///              each other.
/// Linearizability: writers by their lock, at the store to a leaf's word, or of a link, or of how
///              many leaves there are. Since these are plain stores, an update that has changed
///              something ends in a full fence (detail/after_update.hpp). A look-up that does not
///              find its key asks the node above whether leaves have joined it since it chose one,
///              and begins anew if so: the leaf may be a lower half. Else the leaf was the right
///              one, in the tree or, if it has been replaced meanwhile, as it was then, which is a
///              moment of the call.
/// Errors:      std::bad_alloc, and what copying keys and values throws: then nothing has changed.
/// Values that own memory (base/weight.hpp) are out of line: the copy of a leaf has them in common
/// with the leaf, and copies none. One that was replaced ends when the last thread that visits its
/// leaf has left and the pointers' collector has come by, as does every value whose destructor does
/// something; others stay where they are until their leaf ends.
/// Keys are copied, compared and destroyed while the writer has its turn, and values are copied:
/// what that does must not change the same map. A value's destructor may: over Spolia's own
/// pointers it runs after the turn, also where a later copy fails.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/unwind.hpp>
#include <spolia/counted/families.hpp>
#include <spolia/map/detail/after_update.hpp>
#include <spolia/map/detail/counted_btree_base.hpp>
#include <spolia/map/detail/counted_face.hpp>
#include <spolia/map/detail/counted_writer.hpp>
#include <spolia/map/detail/ordered_reads.hpp>
#include <spolia/map/detail/other_keys.hpp>
#include <spolia/map/detail/right_kinds.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/detail/seen_value.hpp>
#include <spolia/map/keys.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Key, class Value, class Family = thin_family, class Compare = default_order<Key>>
class counted_btree
    : private detail::map::kinds_counted_by_order<Key, Family, Compare>,
      public detail::map::counted_face<counted_btree<Key, Value, Family, Compare>, Key, Value>,
      public detail::map::counted_btree_base<Key, Value, Family, Compare, detail::map::no_turn>,
      public detail::map::ordered_reads<counted_btree<Key, Value, Family, Compare>, Key, Value,
                                        detail::map::by_order<Key, Compare>, false> {
  friend detail::map::counted_face<counted_btree, Key, Value>;
  friend detail::map::ordered_reads<counted_btree, Key, Value, detail::map::by_order<Key, Compare>,
                                    false>;
  using base = detail::map::counted_btree_base<Key, Value, Family, Compare, detail::map::no_turn>;
  using base::less_;
  using base::root_;
  using base::set_inner;
  using typename base::inner;
  using typename base::inner_location;
  using typename base::inner_row;
  using typename base::kept_leaves;
  using typename base::leaf;
  using typename base::leaf_pointer;
  using typename base::new_leaves;
  using typename base::stamp;

 public:
  explicit counted_btree(Compare less = {}) : base(std::move(less)) {}
  /// Of pairs, things with `first` and `second`, whose keys ascend, in linear time. Throws
  /// std::invalid_argument if a key is not after the one before it, std::bad_alloc, and what
  /// copying and comparing throw; then there is no map, and the range is as it was.
  template <std::forward_iterator Iterator>
  counted_btree(sorted_unique_t /*are*/, Iterator first, Iterator last, Compare less = {})
      : base(std::move(less)) {
    this->begin_with("counted_btree", first, last, writers_.stamped());
    writers_.begin_with(static_cast<std::size_t>(std::distance(first, last)));
  }
  /// Not beside anything.
  ~counted_btree() = default;

  /// May lag behind changes under way.
  [[nodiscard]] std::size_t size_approx() const noexcept { return writers_.size(); }

 private:
  /// One node on the writer's way down, and which child it goes on to.
  struct hop {
    inner* node;
    inner_location* link;  // leads to the node
    std::size_t child;
  };
  /// From the root down. Each level more takes some 250 times as many insertions.
  struct path {
    std::array<hop, 16> at;
    std::size_t size = 0;
    const hop& operator[](std::size_t level) const noexcept { return at[level]; }
    [[nodiscard]] const hop& back() const noexcept { return at[size - 1]; }
  };

  [[nodiscard]] const counted_btree& ordered() const noexcept { return *this; }
  template <bool Down, class Within, class F>
  void scan(const Within& within, F& f) const {
    detail::map::scan_in_batches<Down, Key, Value>(
        within, less_, 2 * leaf::most,
        [&](const auto& rest, auto& some) { return gather<Down>(rest, some); }, f);
  }
  template <bool Down, class Within>
  [[nodiscard]] auto outermost(const Within& within) const {
    detail::map::one_pair<Key, Value> found;
    gather<Down>(within, found);
    return found.taken();
  }
  template <bool Down, class Rest, class Some>
  bool gather(const Rest& rest, Some& some) const {
    const detail::map::writing<Family> turn(writers_);
    return gather_on<Down>(rest, some);
  }
  /// Of one leaf after the other until there are as many as in half a batch; or one pair.
  template <bool Down, class Rest, class Some>
  bool gather_on(Rest rest, Some& some) const {
    detail::map::progress<Key, const Key*> on;  // keys stay meanwhile
    while (some.size() <= leaf::most) {
      const path way = descend_to<Down>(rest);
      const leaf& in = leaf_below(way.back());
      auto order = in.in_order(bound_of(way.back()), less_);
      if constexpr (Down) order.reverse();
      const std::uint8_t* at = order.begin();
      const std::uint8_t* const end = order.end();
      while (at != end && rest.template begins_beyond<Down>(in.key(*at), less_)) ++at;
      for (; at != end; ++at) {
        const Key& key = in.key(*at);
        if (rest.template is_left_at<Down>(key, less_)) return !some.empty();
        some.emplace_back(key, in.value(*at));
        if constexpr (detail::map::room_of<Some> == 1) return true;
      }
      const Key* const next = Down ? begin_of(way) : end_of(way);
      if (next == nullptr || !on.template goes_on<Down>(*next, less_)) break;
      using others = decltype(rest.template beyond<Down>(*next));
      if constexpr (!std::is_same_v<Rest, others>) {
        others more = rest.template beyond<Down>(*next);
        if constexpr (!Down) more.with_from = true;
        return gather_on<Down>(more, some);
      } else if constexpr (Down) {
        rest.to = next;
      } else {
        rest.from = next;
        rest.with_from = true;
      }
    }
    return !some.empty();
  }
  /// Where what belongs to the leaf at the end of the way ends; null: nowhere.
  const Key* end_of(const path& way) const {
    for (std::size_t level = way.size; level-- != 0;) {
      const Key* const end =
          way[level].node->bound(way[level].child, way[level].node->late(), less_);
      if (end != nullptr) return end;
    }
    return nullptr;
  }
  /// Likewise where it begins.
  static const Key* begin_of(const path& way) {
    for (std::size_t level = way.size; level-- != 0;) {
      const Key* const begin = way[level].node->begin(way[level].child);
      if (begin != nullptr) return begin;
    }
    return nullptr;
  }

  /// For the writer: what is in the tree stays while it is that. Null: to the first leaf.
  template <class K>
  path descend(const K* key) const {
    return descend_by(
        [&](const inner& at) { return key == nullptr ? 0 : at.child(*key, at.late(), less_); });
  }
  /// To the leaf where the interval begins, or if Down ends.
  template <bool Down, class Within>
  path descend_to(Within within) const {
    if constexpr (Down) {
      const auto begins = [&](const Key& begin) { return !within.is_over_at(begin, less_); };
      return descend_by([&](const inner& at) { return at.last_child(begins, at.late(), less_); });
    } else {
      return descend(within.from);
    }
  }
  template <class ChildOf>
  path descend_by(const ChildOf& child_of) const {
    path way;
    inner_location* link = &root_;
    for (;;) {
      inner* const at = detail::map::peek<Family, inner>(*link);
      const std::size_t i = child_of(*at);
      way.at[way.size++] = {at, link, i};
      if (!at->over_inners()) return way;
      link = &at->inner(i);
    }
  }
  static leaf& leaf_below(const hop& h) {
    return *detail::map::peek<Family, leaf>(h.node->leaf(h.child));
  }
  static void set_leaf(const hop& h, leaf_pointer p) {
    Family::template set<leaf>(h.node->leaf(h.child), std::move(p));
  }
  /// Null where nothing of another leaf can stand in this one.
  const Key* bound_of(const hop& h) const {
    return writers_.lost_one() ? h.node->bound(h.child, h.node->late(), less_) : nullptr;
  }
  template <class K, class... Seen>
  bool remove(const K& key, const Seen&... was) {
    [[maybe_unused]] kept_leaves fresh;
    const detail::map::writing<Family> turn(writers_);
    const path way = descend(std::addressof(key));
    leaf& old = leaf_below(way.back());
    const std::size_t i = old.find(key, less_);
    if (i == leaf::absent || !(old.has(i, was) && ...)) return false;
    if constexpr (leaf::forgets) {
      old.take_out(i);
      writers_.shrank();
      if (old.size() == 0 && way.back().node->has_emptied()) tidy(way);
      return true;
    } else if (old.size() > 1 || alone(way)) {
      auto order = old.in_order(bound_of(way.back()), less_);
      order.erase(i);
      fresh.fill(old, order.begin(), order.end(), old.key(i), old.value(i), {});
      set_leaf(way.back(), std::move(fresh.low));
    } else {
      take_out(way, way.size - 1);
    }
    writers_.shrank();
    return true;
  }

  template <class K, class... Seen>
  bool put(const K& key, const Value& value, bool assign, const Seen&... was) {
    constexpr bool only_for_seen = sizeof...(Seen) != 0;
    kept_leaves fresh;
    const detail::map::writing<Family> turn(writers_);
    const path way = descend(std::addressof(key));
    const leaf& in = leaf_below(way.back());
    const std::size_t i = in.find(key, less_);
    const bool there = i != leaf::absent;
    if (there ? !assign || !(in.has(i, was) && ...) : only_for_seen) return false;
    if constexpr (only_for_seen) {
      put_at(way, fresh, i, in.key(i), value);
      return true;
    } else {
      const auto set = [&] { put_at(way, fresh, i, there ? in.key(i) : key, value); };
      there ? set() : writers_.grow_by(set);
      return !there;
    }
  }

  /// Into the leaf at the end of the way; `instead` of the pair in a slot, or of none.
  void put_at(const path& way, kept_leaves& kept, std::size_t instead, const Key& key,
              const Value& value) {
    leaf& old = leaf_below(way.back());
    const stamp s = detail::map::next_stamp<Value>(writers_.stamped());
    if (old.has_room() && (leaf::forgets || instead == leaf::absent)) {
      return old.add(key, value, s, instead);
    }
    base::with_leaves(kept,
                      [&](new_leaves& fresh) { put_anew(way, fresh, instead, key, value, s); });
  }
  SPOLIA_NOINLINE void put_anew(const path& way, new_leaves& fresh, std::size_t instead,
                                const Key& key, const Value& value, stamp s) {
    leaf& old = leaf_below(way.back());
    const auto order = old.in_order_with(key, instead, bound_of(way.back()), less_);
    if (order.size <= leaf::crowded) {
      fresh.fill(old, order.begin(), order.end(), key, value, s);
      return set_leaf(way.back(), std::move(fresh.low));
    }
    fresh.divide(old, order, key, value, s);
    inner& above = *way.back().node;
    if (!above.has_room()) return put_two(way, fresh);
    above.add_leaf(fresh.first(), std::move(fresh.high));
    set_leaf(way.back(), std::move(fresh.low));  // throws nothing: see writing
  }
  void put_two(const path& way, const new_leaves& two) {
    auto more = way.back().node->leaf_row(less_, [](std::size_t) { return true; });
    more.replace_by_two(two.low, two.first(), two.high, less_);
    replace(way, way.size - 1, std::move(more));
  }

  /// Sets the node at the level anew, and those above it if it has become too large.
  template <class Row>
  void replace(const path& way, std::size_t level, Row fresh) {
    if (fresh.children.size() <= inner::most) {
      set_inner(*way[level].link, Family::template make<inner>(std::move(fresh)));
      return;
    }
    typename base::template split<Row> two(std::move(fresh));
    if (level == 0) return set_inner(root_, two.as_root());
    inner_row more = way[level - 1].node->inner_row(less_, [](std::size_t) { return true; });
    more.replace_by_two(std::move(two.low), two.middle, std::move(two.high), less_);
    replace(way, level - 1, std::move(more));
  }

  /// Whether the leaf at the end of the way is the only one.
  static bool alone(const path& way) {
    return std::all_of(way.at.begin(), way.at.begin() + way.size,
                       [](const hop& h) { return h.node->children() == 1; });
  }

  /// Takes the child out, and leaves that are empty, and the nodes above that would be.
  void take_out(const path& way, std::size_t level) {
    const hop& at = way[level];
    const auto smaller = [&](auto row) {
      if (!row.children.empty()) {
        set_inner(*at.link, Family::template make<inner>(std::move(row)));
      } else if (level > 0) {
        take_out(way, level - 1);
      } else {
        set_inner(root_, base::first_root());
      }
    };
    if (at.node->over_inners()) {
      smaller(at.node->inner_row(less_, [&](std::size_t i) { return i != at.child; }));
    } else {
      smaller(at.node->leaf_row(less_, [&](std::size_t i) {
        return i != at.child && detail::map::peek<Family, leaf>(at.node->leaf(i))->size() != 0;
      }));
    }
  }
  /// Leaves stay, empty, if that takes memory, or a copy of a key, that cannot be had.
  /// (A thread that ends may unwind through here.)
  void tidy(const path& way) {
    try {
      take_out(way, way.size - 1);
    } catch (...) {
      let_unwinding_pass();
    }
  }

  // Scans take turns, too.
  mutable detail::map::writers writers_;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
