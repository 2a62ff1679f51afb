// SPDX-License-Identifier: Apache-2.0
// counted_btree_nodes.hpp: the inner nodes of B+ trees over counted pointers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/map/detail/counted_btree_leaf.hpp>
#include <spolia/map/detail/counted_writer.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// An inner node while it is made: its children in order, and a key between each two of them.
template <class Key, class Pointer>
struct counted_row {
  std::vector<Key> keys;  // ascending; no key below keys[i] is in or after child i + 1
  std::vector<Pointer> children;

  /// Two in the place of the child that `first`, the least key of the second, belongs to.
  template <class Compare>
  void replace_by_two(Pointer low, const Key& first, Pointer high, const Compare& less) {
    const auto i = std::upper_bound(keys.begin(), keys.end(), first, less) - keys.begin();
    keys.insert(keys.begin() + i, first);
    children[static_cast<std::size_t>(i)] = std::move(high);
    children.insert(children.begin() + i, std::move(low));
  }
  /// The upper half goes; returns the key between the two.
  Key split_to(counted_row& upper) {
    const auto half = static_cast<std::ptrdiff_t>(children.size() / 2);
    Key middle = keys[static_cast<std::size_t>(half - 1)];
    upper.keys.assign(keys.begin() + half, keys.end());
    upper.children.assign(children.begin() + half, children.end());
    keys.resize(static_cast<std::size_t>(half - 1), middle);
    children.resize(static_cast<std::size_t>(half));
    return middle;
  }
};

/// Children are all leaves, or all inner nodes. Those that a node was made with ascend; after them,
/// in any order, stand leaves that came later. The keys of child i are not below key i - 1.
template <class Key, class Leaf, class Family, class Lock>
class counted_inner {
 public:
#if defined(SPOLIA_MODEL)
  static constexpr std::size_t most = 2;
  static constexpr std::size_t most_late = 1;
#else
  static constexpr std::size_t most = 512;
  static constexpr std::size_t most_late = 16;  // look-ups go through all of them
#endif
  template <class T>
  using location = typename Family::template location<T>;
  template <class T>
  using row = counted_row<Key, typename Family::template pointer<T>>;

  explicit counted_inner(row<Leaf> r)
      : ascending_(r.children.size()),
        keys_(ascending_ - 1 + most_late),
        leaves_(ascending_ + most_late),
        inners_(0) {
    take(r, leaves_);
  }
  explicit counted_inner(row<counted_inner> r)
      : ascending_(r.children.size()), keys_(ascending_ - 1), leaves_(0), inners_(ascending_) {
    take(r, inners_);
  }

  [[nodiscard]] bool over_inners() const noexcept { return static_cast<bool>(inners_); }
  [[nodiscard]] location<counted_inner>& inner(std::size_t i) const noexcept { return inners_[i]; }
  [[nodiscard]] location<Leaf>& leaf(std::size_t i) const noexcept { return leaves_[i]; }

  /// Which children there are, for child().
  [[nodiscard]] std::uint32_t late() const noexcept {
    // acquire ← the release in add_leaf: the child that came, and its key.
    return late_.load_acquire();
  }
  /// For a search that has not found a key in the leaf that child() named: whether that was the
  /// right one.
  [[nodiscard]] bool has_still(std::uint32_t late) const noexcept {
    // relaxed: a leaf that has lost keys to another one hangs here since that one joined, so a
    // thread that has found it by an acquire has heard of the other.
    return late_.load_relaxed() == late;
  }
  /// Where the key is, if it is anywhere below.
  template <class K, class Compare>
  [[nodiscard]] std::size_t child(const K& key, std::uint32_t late, const Compare& less) const {
    const Key* const keys = keys_.begin();
    auto best =
        static_cast<std::size_t>(std::upper_bound(keys, keys + (ascending_ - 1), key, less) - keys);
    const std::size_t end = ascending_ + late;
    for (std::size_t i = ascending_; i < end; ++i) {
      if (!less(key, keys[i - 1]) && (best == 0 || less(keys[best - 1], keys[i - 1]))) best = i;
    }
    return best;
  }

  /// The last child whose keys begin where begins(key) says yes, as it does up to some point.
  template <class Begins, class Compare>
  [[nodiscard]] std::size_t last_child(const Begins& begins, std::uint32_t late,
                                       const Compare& less) const {
    const Key* const keys = keys_.begin();
    auto best = static_cast<std::size_t>(
        std::partition_point(keys, keys + (ascending_ - 1), begins) - keys);
    for (std::size_t i = ascending_; i < ascending_ + late; ++i) {
      if (begins(keys[i - 1]) && (best == 0 || less(keys[best - 1], keys[i - 1]))) best = i;
    }
    return best;
  }
  /// The key that none of child i is below; null: there is none.
  [[nodiscard]] const Key* begin(std::size_t i) const noexcept {
    return i == 0 ? nullptr : keys_.begin() + (i - 1);
  }
  /// The least key that does not belong to child i, or null. What stands in a leaf from there on is
  /// the new half's, while the leaf is being divided: so also in the child of a fork in which the
  /// writer was lost that did so.
  template <class Compare>
  [[nodiscard]] const Key* bound(std::size_t i, std::uint32_t late, const Compare& less) const {
    const Key* const keys = keys_.begin();
    const Key* const end = keys + (ascending_ - 1);
    const Key* least = i < ascending_ ? keys + i : std::upper_bound(keys, end, keys[i - 1], less);
    if (least == end) least = nullptr;
    for (std::size_t j = ascending_; j < ascending_ + late; ++j) {
      const Key& begin = keys[j - 1];
      const bool behind = i == 0 || less(keys[i - 1], begin);
      if (behind && (least == nullptr || less(begin, *least))) least = std::addressof(begin);
    }
    return least;
  }

  // What follows is for the writer.

  [[no_unique_address]] Lock lock;

  [[nodiscard]] std::size_t children() const noexcept { return ascending_ + late_.load_relaxed(); }
  [[nodiscard]] bool has_room() const noexcept {
    return late_.load_relaxed() < most_late && children() < most;
  }
  /// If copying the key throws, the caller still has the leaf.
  void add_leaf(const Key& first, typename Family::template pointer<Leaf>&& p) {
    // A writer that was lost in a fork may have left something here.
    keys_.cut(children() - 1);
    leaves_.cut(children());
    keys_.add(first);
    leaves_.add(std::move(p));
    // release → the acquire in late.
    late_.store_release(late_.load_relaxed() + 1);
  }
  /// A leaf is empty. True: so many are that the node should be made anew without them.
  /// Also for writers of different leaves at once.
  [[nodiscard]] bool has_emptied() noexcept {
    return emptied_.fetch_add_relaxed(1) + 1 > children() / 4;
  }

  /// Of a node that was taken out: it leads nowhere any more. Throws what setting a link throws.
  void cut_off() {
    for (std::size_t i = 0; i < children(); ++i) {
      if (over_inners()) {
        Family::template set<counted_inner>(inners_[i], {});
      } else {
        Family::template set<Leaf>(leaves_[i], {});
      }
    }
  }

  /// Those of the children that keep(i) says yes to.
  template <class Compare, class Keep>
  [[nodiscard]] row<Leaf> leaf_row(const Compare& less, const Keep& keep) const {
    return row_of<Leaf>(leaves_, less, keep);
  }
  template <class Compare, class Keep>
  [[nodiscard]] row<counted_inner> inner_row(const Compare& less, const Keep& keep) const {
    return row_of<counted_inner>(inners_, less, keep);
  }

 private:
  template <class T>
  void take(row<T>& r, room<location<T>>& to) {
    for (const Key& key : r.keys) keys_.add(key);
    for (auto& p : r.children) to.add(std::move(p));
  }
  template <class T, class Compare, class Keep>
  row<T> row_of(const room<location<T>>& from, const Compare& less, const Keep& keep) const {
    std::vector<std::size_t> order(ascending_);
    for (std::size_t i = 0; i < ascending_; ++i) order[i] = i;
    for (std::size_t i = ascending_; i < children(); ++i) {
      // Child 0 has no key, and is always the first.
      order.insert(std::upper_bound(order.begin() + 1, order.end(), keys_[i - 1],
                                    [&](const Key& key, std::size_t other) {
                                      return less(key, keys_[other - 1]);
                                    }),
                   i);
    }
    row<T> r;
    r.keys.reserve(order.size());
    r.children.reserve(order.size() + 1);
    for (std::size_t at = 0; at < order.size(); ++at) {
      const std::size_t i = order[at];
      if constexpr (requires { Family::template peek<T>(from[i]); }) {
        // A count in each child is going to change.
        const std::size_t soon = order[(std::min)(at + 8, order.size() - 1)];
        __builtin_prefetch(Family::template peek<T>(from[soon]), 1);
      }
      if (!keep(i)) continue;
      if (!r.children.empty()) r.keys.push_back(keys_[i - 1]);
      r.children.push_back(copy<Family, T>(from[i]));
    }
    return r;
  }

  atomic<std::uint32_t> late_{0};  // how many came later
  atomic<std::size_t> emptied_{0};
  const std::size_t ascending_;
  room<Key> keys_;
  room<location<Leaf>> leaves_;
  room<location<counted_inner>> inners_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
