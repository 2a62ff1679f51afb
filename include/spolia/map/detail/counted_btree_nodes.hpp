// SPDX-License-Identifier: Apache-2.0
// counted_btree_nodes.hpp: the nodes of counted_btree. They are changed while they are made, and
// then only inner nodes' links are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/counted_writer.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

template <class Key, class Value>
struct counted_leaf {
#if defined(SPOLIA_MODEL)
  static constexpr std::size_t most = 2;
#else
  static constexpr std::size_t most = 32;
#endif

  template <class Compare>
  [[nodiscard]] std::size_t lower(const Key& key, const Compare& less) const {
    const auto at = std::lower_bound(pairs.begin(), pairs.end(), key,
                                     [&](const auto& p, const Key& k) { return less(p.first, k); });
    return static_cast<std::size_t>(at - pairs.begin());
  }
  /// For i = lower(key).
  template <class Compare>
  [[nodiscard]] bool has(std::size_t i, const Key& key, const Compare& less) const {
    return i < pairs.size() && !less(key, pairs[i].first);
  }

  /// The old one's pairs with one more at i, or one instead of that at i.
  void assign_with(const counted_leaf& old, std::size_t i, bool instead, const Key& key,
                   const Value& value) {
    pairs.reserve(old.pairs.size() + (instead ? 0 : 1));
    add(old, 0, i);
    pairs.emplace_back(key, value);
    add(old, i + (instead ? 1 : 0), old.pairs.size());
  }
  void assign_without(const counted_leaf& old, std::size_t i) {
    pairs.reserve(old.pairs.size() - 1);
    add(old, 0, i);
    add(old, i + 1, old.pairs.size());
  }
  void split_to(counted_leaf& upper) {
    const std::size_t half = pairs.size() / 2;
    upper.pairs.reserve(pairs.size() - half);
    upper.add(*this, half, pairs.size());
    while (pairs.size() > half) pairs.pop_back();
  }

  std::vector<std::pair<Key, Value>> pairs;  // ascending

 private:
  /// Pairs are copied, never assigned.
  void add(const counted_leaf& from, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) pairs.push_back(from.pairs[i]);
  }
};

/// An inner node while it is made: its children in order, and a key between each two of them.
template <class Key, class Pointer>
struct counted_row {
  std::vector<Key> keys;  // ascending; no key below keys[i] is in or behind child i + 1
  std::vector<Pointer> children;

  void replace_by_two(std::size_t i, Pointer low, const Key& first, Pointer high) {
    keys.insert(keys.begin() + static_cast<std::ptrdiff_t>(i), first);
    children[i] = std::move(high);
    children.insert(children.begin() + static_cast<std::ptrdiff_t>(i), std::move(low));
  }
  void take_out(std::size_t i) {
    keys.erase(keys.begin() + static_cast<std::ptrdiff_t>(i == 0 ? 0 : i - 1));
    children.erase(children.begin() + static_cast<std::ptrdiff_t>(i));
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

/// Children are all leaves, or all inner nodes: one of the arrays is there.
template <class Key, class Leaf, class Family>
struct counted_inner {
#if defined(SPOLIA_MODEL)
  static constexpr std::size_t most = 2;
#else
  static constexpr std::size_t most = 512;
#endif
  template <class T>
  using location = typename Family::template location<T>;
  template <class T>
  using row = counted_row<Key, typename Family::template pointer<T>>;

  explicit counted_inner(row<Leaf> r) : keys(std::move(r.keys)), leaves(array<Leaf>(r)) {}
  explicit counted_inner(row<counted_inner> r)
      : keys(std::move(r.keys)), inners(array<counted_inner>(r)) {}

  [[nodiscard]] std::size_t children() const noexcept { return keys.size() + 1; }

  /// Where the key is, if it is anywhere below.
  template <class Compare>
  [[nodiscard]] std::size_t child(const Key& key, const Compare& less) const {
    return static_cast<std::size_t>(std::upper_bound(keys.begin(), keys.end(), key, less) -
                                    keys.begin());
  }

  [[nodiscard]] row<Leaf> leaf_row() const { return row_of<Leaf>(leaves); }
  [[nodiscard]] row<counted_inner> inner_row() const { return row_of<counted_inner>(inners); }

  const std::vector<Key> keys;
  const std::unique_ptr<location<counted_inner>[]> inners;
  const std::unique_ptr<location<Leaf>[]> leaves;

 private:
  template <class T>
  static std::unique_ptr<location<T>[]> array(row<T>& r) {
    std::unique_ptr<location<T>[]> all(new location<T>[r.children.size()]);
    for (std::size_t i = 0; i < r.children.size(); ++i) {
      Family::template set<T>(all[i], std::move(r.children[i]));
    }
    return all;
  }
  template <class T>
  row<T> row_of(const std::unique_ptr<location<T>[]>& from) const {
    row<T> r{keys, {}};
    r.children.reserve(children() + 1);
    for (std::size_t i = 0; i < children(); ++i) {
      r.children.push_back(copy<Family, T>(from[i]));
    }
    return r;
  }
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
