// SPDX-License-Identifier: Apache-2.0
// counted_btree_base.hpp: what the B+ trees over counted pointers have in common: their nodes, how
// look-ups come to a pair, how leaves are copied and divided, and how a tree is made of a range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/counted_btree_leaf.hpp>
#include <spolia/map/detail/counted_btree_nodes.hpp>
#include <spolia/map/detail/counted_look.hpp>
#include <spolia/map/detail/counted_writer.hpp>
#include <spolia/map/detail/even_groups.hpp>
#include <spolia/map/detail/other_keys.hpp>
#include <spolia/map/detail/seen_value.hpp>
#include <spolia/map/keys.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// Lock: what each node has one of; no_turn: writers take turns in the whole tree. Else inner nodes
/// lead nowhere any more when they were taken out.
template <class Key, class Value, class Family, class Compare, class Lock>
class counted_btree_base {
 public:
  using key_compare = Compare;
  using found_by = by_order<Key, Compare>;

  /// f(const Value&); true if the key is there. The value stays while f runs.
  template <class F>
  bool visit(const Key& key, F&& f) const {
    return seek(key, [&](const leaf& in, std::size_t i) { std::forward<F>(f)(in.value(i)); });
  }
  /// The same with a key of another type (map/keys.hpp).
  template <class F, other_key<Key, found_by> K>
  bool visit(const K& key, F&& f) const {
    if constexpr (checked_key<found_by, K>()) {
      return seek(key, [&](const leaf& in, std::size_t i) { std::forward<F>(f)(in.value(i)); });
    }
    return false;
  }

 protected:
  using leaf = counted_leaf<Key, Value, Lock>;
  using inner = counted_inner<Key, leaf, Family, Lock>;
  using inner_row = typename inner::template row<inner>;
  using inner_location = typename inner::template location<inner>;
  using inner_pointer = typename Family::template pointer<inner>;
  using leaf_pointer = typename Family::template pointer<leaf>;
  using stamp = value_stamp<Value>;

  static constexpr auto publishes = published::by_store;
  static constexpr bool cuts_off = !std::is_same_v<Lock, no_turn>;

  explicit counted_btree_base(Compare less) : less_(std::move(less)), root_(first_root()) {}
  ~counted_btree_base() = default;

  template <class K>
  bool look(const K& key, seen_value<Value>& to) const {
    return seek(key, [&](const leaf& in, std::size_t i) { in.look(i, to); });
  }

  /// Of a range whose keys ascend, while there are no other threads and no pairs. `stamped`: what
  /// the values' stamps are counted by.
  template <class Iterator, class Stamped>
  void begin_with(const char* name, Iterator first, Iterator last, Stamped& stamped) {
    set_inner(root_, root_of(name, first, last, stamped));
  }

  /// f(leaf, slot) of the key, if it is there.
  template <class K, class F>
  SPOLIA_ALWAYS_INLINE bool seek(const K& key, F&& f) const {
    for (;;) {
      auto at = Family::template look<inner>(root_);
      bool cut = false;
      while (!cut && at->over_inners()) {
        const auto& below = at->inner(at->child(key, 0, less_));
        if constexpr (cuts_off) {
          cut = !follow<inner>(Family(), at, below);
        } else {
          Family::template step<inner>(at, below);
        }
      }
      if (cut) continue;
      const inner& above = *at;  // stays while `in` is where it begins
      const std::uint32_t late = above.late();
      const auto& below = above.leaf(above.child(key, late, less_));
      const auto in = Family::template onward<leaf, inner>(std::move(at), below);
      if constexpr (cuts_off) {
        if (!in) continue;
      }
      if (const std::size_t i = in->find(key, less_); i != leaf::absent) {
        f(*in, i);
        return true;
      }
      if (above.has_still(late) || SPOLIA_FAULT("counted_btree.one_look")) return false;
    }
  }

  static void set_inner(inner_location& to, inner_pointer p) {
    Family::template set<inner>(to, std::move(p));
  }

  /// Leaves that a writer makes, until they are set. It has them before it has its turn, or locks.
  /// So values whose copies were not needed end after it has given these back, and may then change
  /// the map.
  struct new_leaves {
    leaf_pointer low{};   // or the only one
    leaf_pointer high{};  // where one becomes two

    void reset() noexcept {
      low = {};
      high = {};
    }
    /// Of the key that is the first in `high`; it stays as long as that does.
    [[nodiscard]] const Key& first() const noexcept { return high->key(0); }

    void fill(const leaf& from, const std::uint8_t* begin, const std::uint8_t* end, const Key& key,
              const Value& value, stamp s) {
      fill(low, from, begin, end, key, value, s);
    }
    template <class Order>
    void divide(const leaf& from, const Order& order, const Key& key, const Value& value, stamp s) {
      const std::uint8_t* const half = order.begin() + order.size / 2;
      fill(low, from, order.begin(), half, key, value, s);
      fill(high, from, half, order.end(), key, value, s);
    }

   private:
    static void fill(leaf_pointer& to, const leaf& from, const std::uint8_t* begin,
                     const std::uint8_t* end, const Key& key, const Value& value, stamp s) {
      to = Family::template make<leaf>();
      to->fill(from, begin, end, key, value, s);
    }
  };

  /// Two nodes in the place of one that has become too large.
  template <class Row>
  struct split {
    explicit split(Row all) : middle(all.split_to(upper)) {
      low = Family::template make<inner>(std::move(all));
      high = Family::template make<inner>(std::move(upper));
    }
    /// A root above them.
    inner_pointer as_root() {
      inner_row above{{middle}, {}};
      above.children.push_back(std::move(low));
      above.children.push_back(std::move(high));
      return Family::template make<inner>(std::move(above));
    }

   private:
    Row upper;

   public:
    Key middle;
    inner_pointer low{};
    inner_pointer high{};
  };

  /// What a writer has before its turn where values have something to do when they end.
  struct no_leaves {
    static void reset() noexcept {}
  };
  using kept_leaves = std::conditional_t<leaf::forgets, no_leaves, new_leaves>;
  /// then(new leaves), which are those that the writer has, or end with the call.
  template <class Then>
  SPOLIA_ALWAYS_INLINE static auto with_leaves([[maybe_unused]] kept_leaves& kept,
                                               const Then& then) {
    if constexpr (leaf::forgets) {
      new_leaves fresh;
      return then(fresh);
    } else {
      return then(kept);
    }
  }

  static inner_pointer first_root() {
    typename inner::template row<leaf> r;
    r.children.push_back(Family::template make<leaf>());
    return Family::template make<inner>(std::move(r));
  }

 private:
  /// Children of one level in order, and the least key of each.
  template <class T>
  struct level_of {
    std::vector<typename Family::template pointer<T>> nodes;
    std::vector<Key> firsts;
  };
  template <class Iterator, class Stamped>
  inner_pointer root_of(const char* name, Iterator at, const Iterator last,
                        Stamped& stamped) const {
    const auto n = static_cast<std::size_t>(std::distance(at, last));
    if (n == 0) return first_root();
    level_of<leaf> leaves;
    const even_groups groups(n, leaf::crowded);
    const Key* before = nullptr;
    for (std::size_t i = 0; i < groups.count(); ++i) {
      auto made = Family::template make<leaf>();
      for (std::size_t j = groups.begin_of(i); j < groups.begin_of(i + 1); ++j) {
        const auto& [key, value] = *at++;
        if (before != nullptr && !less_(*before, key)) {
          throw std::invalid_argument(name +
                                      std::string(": a key that is not after the one before it"));
        }
        made->append(key, value, next_stamp<Value>(stamped));
        before = std::addressof(made->key(made->size() - 1));
      }
      leaves.firsts.push_back(made->key(0));
      leaves.nodes.push_back(std::move(made));
    }
    return root_over(std::move(leaves));
  }
  /// With some room for what comes later.
  template <class T>
  static inner_pointer root_over(level_of<T> below) {
    constexpr std::size_t each = inner::most - inner::most / 4;
    const even_groups groups(below.nodes.size(), each);
    level_of<inner> all;
    for (std::size_t i = 0; i < groups.count(); ++i) {
      const std::size_t begin = groups.begin_of(i);
      typename inner::template row<T> row;
      for (std::size_t j = begin; j < groups.begin_of(i + 1); ++j) {
        if (j != begin) row.keys.push_back(below.firsts[j]);
        row.children.push_back(std::move(below.nodes[j]));
      }
      all.nodes.push_back(Family::template make<inner>(std::move(row)));
      all.firsts.push_back(below.firsts[begin]);
    }
    return groups.count() == 1 ? std::move(all.nodes.front()) : root_over(std::move(all));
  }

 protected:
  [[no_unique_address]] Compare less_;
  mutable inner_location root_;  // scans go the way that writers go
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
