// SPDX-License-Identifier: Apache-2.0
// external_bst_audit.hpp: looks an external search tree over while no thread uses it, for tests.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// What was found. `wrong` is empty if the tree is sound.
struct external_bst_findings {
  std::string wrong{};
  std::size_t pairs = 0;
  std::size_t routers = 0;
};

template <class Tree>
class external_bst_auditor {
  using link = typename Tree::link;
  using compare = std::remove_cvref_t<decltype(std::declval<const Tree&>().less())>;

 public:
  explicit external_bst_auditor(const compare& less) : less_(less) {}

  external_bst_findings look_over(link root) {
    if (root.get() != nullptr)
      look_at<decltype(std::addressof(Tree::as_leaf(root)->key))>(root, nullptr, nullptr);
    return found_;
  }

 private:
  /// Whether the node's keys lie from `from` on and before `to`; null: no bound.
  template <class KeyPointer>
  void look_at(link to_node, KeyPointer from, KeyPointer to) {
    if (to_node.get() == nullptr) return blame("a link of a router leads nowhere");
    const auto in_range = [&](const auto& key) {
      if (from != nullptr && less_(key, *from)) blame("a key is in front of its range");
      if (to != nullptr && !less_(key, *to)) blame("a key is behind its range");
    };
    if (to_node.marked()) {
      ++found_.pairs;
      return in_range(Tree::as_leaf(to_node)->key);
    }
    const auto& r = *Tree::as_router(to_node);
    ++found_.routers;
    if (r.state.load_relaxed() != 0) blame("a router that can be reached is locked or removed");
    in_range(r.key);
    look_at<KeyPointer>(r.child[0].load_relaxed(), from, std::addressof(r.key));
    look_at<KeyPointer>(r.child[1].load_relaxed(), std::addressof(r.key), to);
  }

  void blame(const char* what) {
    if (found_.wrong.empty()) found_.wrong = what;
  }

  const compare& less_;
  external_bst_findings found_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
