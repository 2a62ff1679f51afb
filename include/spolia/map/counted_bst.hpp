// SPDX-License-Identifier: Apache-2.0
/// \file
/// counted_bst: a binary search tree over counted pointers, not balanced. Readers walk by views,
/// which for Spolia's own pointers count nothing; writers take turns.
///
/// Source:      Tripp, Hyde, Grossman-Ponemon, "FRC", ISMM 2018, section 4.4 (the binary search
///              tree: what is replaced is copied, and one link is swung).
/// Idea:        a node never changes but for its links. A pair is put in at a null link. To take
///              out a node with two children, the way down from its right child to the next key
///              is copied without that key, and one link swings to the copy.
/// Protects:    nothing itself; nodes stay as long as a thread views them.
/// Memory:      a node that was taken out leads on to what it led to. A thread that stalls at one
///              also holds up all that hung below it, though that is taken out later. Where keys
///              ascend and the lowest ones are erased, these are all nodes. counted_tree has a
///              bound. (Were a node's links cut when it is taken out, this would have one, too; but
///              a look-up that stands there could not tell that from a key that is absent, and
///              would begin again as often as writers take nodes out.)
/// Departures:
///   1. One lock for all writers, where the paper locks nodes: on few processors the tree is
///      measured for its pointers, and one lock makes each change one store.
/// Progress:    look-ups never wait; they are as lock-free as the family's views. Writers wait for
///              each other.
/// Linearizability: writers by their lock, at the setting of the link. A look-up that walks in
///              nodes that were taken out meanwhile sees what hung below them then, which is a
///              moment of the call; later changes are made to links that are in the tree.
/// Errors:      std::bad_alloc, and what copying keys and values throws: then nothing has changed.
/// Keys and values are copied and compared while the writer has its turn: what they do then must
/// not change the same map, nor must a key's destructor, which runs there where the value beside it
/// cannot be copied. A value's destructor may: over Spolia's own pointers it runs after the turn,
/// also where a later copy fails.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/weight.hpp>
#include <spolia/counted/families.hpp>
#include <spolia/map/detail/after_update.hpp>
#include <spolia/map/detail/counted_face.hpp>
#include <spolia/map/detail/counted_look.hpp>
#include <spolia/map/detail/counted_writer.hpp>
#include <spolia/map/detail/ordered_reads.hpp>
#include <spolia/map/detail/other_keys.hpp>
#include <spolia/map/detail/right_kinds.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/detail/seen_value.hpp>
#include <spolia/map/detail/stamped_pair.hpp>
#include <spolia/map/keys.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Key, class Value, class Family = thin_family, class Compare = default_order<Key>>
class counted_bst
    : private detail::map::kinds_counted_by_order<Key, Family, Compare>,
      public detail::map::counted_face<counted_bst<Key, Value, Family, Compare>, Key, Value>,
      public detail::map::counted_looks<counted_bst<Key, Value, Family, Compare>, Key, Value,
                                        Family, detail::map::by_order<Key, Compare>>,
      public detail::map::ordered_reads<counted_bst<Key, Value, Family, Compare>, Key, Value,
                                        detail::map::by_order<Key, Compare>, false> {
  friend detail::map::counted_face<counted_bst, Key, Value>;
  friend detail::map::counted_looks<counted_bst, Key, Value, Family,
                                    detail::map::by_order<Key, Compare>>;
  friend detail::map::ordered_reads<counted_bst, Key, Value, detail::map::by_order<Key, Compare>,
                                    false>;
  template <class F, class Map, class K>
  friend auto detail::map::seek_by_any(const Map&, detail::map::key_handed<K>);
  template <class Fam, class Map, class K, class F>
  friend bool detail::map::look_at(const Map&, const K&, F&&);
  struct node;
  using location = typename Family::template location<node>;
  using pointer = typename Family::template pointer<node>;

  struct node : detail::map::stamped_pair<Key, Value> {
    /// By reference: if a copy fails, the caller still has what would hang below.
    node(const Key& k, const Value& v, detail::map::value_stamp<Value> s, pointer&& l, pointer&& r)
        : node::stamped_pair(k, v, s), left(std::move(l)), right(std::move(r)) {}
    static constexpr bool is_weighed_late = !weightless<Key, Value>;
    location left;
    location right;
  };

 public:
  using key_compare = Compare;

  explicit counted_bst(Compare less = {}) : less_(std::move(less)) {}
  /// Not beside anything.
  ~counted_bst() = default;

  /// May lag behind changes under way.
  [[nodiscard]] std::size_t size_approx() const noexcept { return writers_.size(); }

 private:
  static constexpr auto publishes = detail::map::published::by_exchange;

  /// then(view) of the key's node, or of null.
  template <class K, class Views, class Then>
  SPOLIA_ALWAYS_INLINE auto seek(Views by, const K& key, const Then& then) const {
    auto at = by.template look<node>(root_);
    while (at) {
      if (less_(key, at->key)) {
        by.template step<node>(at, at->left);
      } else if (less_(at->key, key)) {
        by.template step<node>(at, at->right);
      } else {
        return then(at);
      }
    }
    return then(at);
  }

  struct place {
    location* link;  // leads to `found`, or is null
    const node* found;
  };

  /// For the writer: what is in the tree stays while it is that.
  template <class K>
  place search(const K& key) {
    location* link = &root_;
    while (node* const at = peek(*link)) {
      const auto left = static_cast<bool>(less_(key, at->key));
      if (!left && !less_(at->key, key)) return {link, at};
      link = left ? &at->left : &at->right;
    }
    return {link, nullptr};
  }

  [[nodiscard]] const counted_bst& ordered() const noexcept { return *this; }
  template <bool Down, class Within, class F>
  void scan(const Within& within, F& f) const {
    detail::map::scan_in_batches<Down, Key, Value>(
        within, less_, detail::map::scan_batch,
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
    std::vector<const node*> up;  // what comes after what was copied, the next one last
    const node* at = peek(root_);
    for (;;) {
      while (at != nullptr) {
        const bool before = rest.template begins_beyond<Down>(at->key, less_);
        if (!before) up.push_back(at);
        at = peek(before != Down ? at->right : at->left);
      }
      if (up.empty() || some.size() == detail::map::room_of<Some>) return !some.empty();
      at = up.back();
      up.pop_back();
      if (rest.template is_left_at<Down>(at->key, less_)) return !some.empty();
      some.emplace_back(at->key, at->value);
      at = peek(Down ? at->left : at->right);
    }
  }

  template <class K, class... Seen>
  bool remove(const K& key, const Seen&... was) {
    pointer rest{};  // before the turn: copies that were not needed end after it
    const detail::map::writing<Family> turn(writers_);
    const place where = search(key);
    if (where.found == nullptr || !(where.found->has(was) && ...)) return false;
    make_without(*where.found, rest);
    if (SPOLIA_FAULT("counted_bst.two_steps")) Family::template set<node>(*where.link, pointer());
    Family::template set<node>(*where.link, std::move(rest));
    writers_.shrank();
    return true;
  }

  template <class K, class... Seen>
  bool put(const K& key, const Value& value, bool assign, const Seen&... was) {
    constexpr bool only_for_seen = sizeof...(Seen) != 0;
    const detail::map::writing<Family> turn(writers_);
    const place where = search(key);
    if (where.found != nullptr ? !assign || !(where.found->has(was) && ...) : only_for_seen) {
      return false;
    }
    const auto stamp = detail::map::next_stamp<Value>(writers_.stamped());
    if constexpr (!only_for_seen) {
      if (where.found == nullptr) {
        writers_.grow_by([&] {
          Family::template set<node>(*where.link, made(key, value, stamp, pointer(), pointer()));
        });
        return true;
      }
    }
    Family::template set<node>(
        *where.link,
        made(where.found->key, value, stamp, child(where.found->left), child(where.found->right)));
    return only_for_seen;
  }

  /// What is left of n's subtree without n. If it throws, `rest` has what was copied until then.
  static void make_without(const node& n, pointer& rest) {
    if (peek(n.left) == nullptr || peek(n.right) == nullptr) {
      rest = child(peek(n.left) == nullptr ? n.right : n.left);
      return;
    }
    std::vector<const node*> way;  // from the right child down to the next key
    way.reserve(16);               // seldom more
    for (const node* at = peek(n.right); at != nullptr; at = peek(at->left)) way.push_back(at);
    const node& next = *way.back();
    rest = child(next.right);
    way.pop_back();
    for (; !way.empty(); way.pop_back()) {
      const node& n2 = *way.back();
      rest = made(n2.key, n2.value, n2.which, std::move(rest), child(n2.right));
    }
    rest = made(next.key, next.value, next.which, child(n.left), std::move(rest));
  }

  static pointer made(const Key& key, const Value& value, detail::map::value_stamp<Value> stamp,
                      pointer&& left, pointer&& right) {
    return Family::template make<node>(key, value, stamp, std::move(left), std::move(right));
  }
  static pointer child(const location& from) { return detail::map::copy<Family, node>(from); }
  static node* peek(const location& from) { return detail::map::peek<Family, node>(from); }

  [[no_unique_address]] Compare less_;
  mutable detail::map::writers writers_;  // scans take turns, too
  location root_{};
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
