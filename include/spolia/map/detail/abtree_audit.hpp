// SPDX-License-Identifier: Apache-2.0
// abtree_audit.hpp: whether an abtree at rest is as it should be.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// What was found. `wrong` is empty if the tree is sound; `violations` are places where it is not
/// balanced, of which a tree at rest has none unless memory ran out.
struct abtree_findings {
  std::string wrong{};
  std::size_t pairs = 0;
  std::size_t leaves = 0;
  std::size_t internals = 0;
  std::size_t violations = 0;
  std::size_t height = 0;  ///< of weights above the leaves, all leaves at rest being at one
};

template <class Nodes, class Compare, unsigned Degree, unsigned Least>
class abtree_auditor {
  using node = typename Nodes::node;
  using leaf = typename Nodes::leaf;
  using internal = typename Nodes::internal;
  using key_pointer = const std::remove_cvref_t<decltype(std::declval<const leaf&>().key(0))>*;

 public:
  explicit abtree_auditor(const Compare& less) : less_(less) {}

  abtree_findings look_over(const internal& entry) {
    const node* const root = entry.child(0).load_relaxed();
    if (entry.marked.load_relaxed()) blame("the entry is marked");
    if (root->weight == 0) blame("the root has weight 0");
    if (!root->is_leaf && root->size < 2) blame("the root has one child");
    look_at_any(*root, 0, nullptr, nullptr, true);
    return found_;
  }

 private:
  void check_bounds(const auto& key, key_pointer from, key_pointer to) {
    if (from != nullptr && less_(key, *from)) blame("a key is in front of its node's range");
    if (to != nullptr && !less_(key, *to)) blame("a key is behind its node's range");
  }
  void look_at_any(const node& n, std::size_t level, key_pointer from, key_pointer to, bool root) {
    if (n.weight == 0 || (n.size < Least && !root)) ++found_.violations;
    if (n.size > Degree) blame("a node is overfull");
    if (n.is_leaf) {
      look_at(static_cast<const leaf&>(n), level, from, to);
    } else {
      look_at(static_cast<const internal&>(n), level, from, to);
    }
  }

  void look_at(const leaf& l, std::size_t level, key_pointer from, key_pointer to) {
    ++found_.leaves;
    found_.pairs += l.size;
    if (found_.leaves == 1) found_.height = level;
    if (level != found_.height) blame("two leaves have different weights above them");
    for (unsigned i = 0; i < l.size; ++i) {
      check_bounds(l.key(i), from, to);
      if (i != 0 && !less_(l.key(i - 1), l.key(i))) blame("keys of a leaf do not ascend");
    }
  }

  void look_at(const internal& n, std::size_t level, key_pointer from, key_pointer to) {
    ++found_.internals;
    if (n.marked.load_relaxed()) blame("a marked node can be reached");
    if (n.size == 0) blame("a node has no children");
    for (unsigned i = 0; i < n.size; ++i) {
      const key_pointer low = i == 0 ? from : std::addressof(n.keys[i - 1]);
      const key_pointer high = i + 1U == n.size ? to : std::addressof(n.keys[i]);
      if (low != nullptr && high != nullptr && !less_(*low, *high)) blame("keys do not ascend");
      look_at_any(*n.child(i).load_relaxed(), level + n.weight, low, high, false);
    }
  }

  void blame(const char* what) {
    if (found_.wrong.empty()) found_.wrong = what;
  }

  const Compare& less_;
  abtree_findings found_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
