// SPDX-License-Identifier: Apache-2.0
// avl_audit.hpp: looks an avl tree over while no thread uses it, for tests.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// What was found. `wrong` is empty if the tree is sound; `violations` are nodes that are
/// unbalanced, have a wrong height, or could be unlinked: none in a tree at rest, unless a thread
/// was stopped for long while it held a lock.
struct avl_findings {
  std::string wrong{};
  std::size_t pairs = 0;
  std::size_t routers = 0;  ///< nodes without a value
  std::size_t violations = 0;
  int height = 0;
};

template <class Tree, class Balance>
class avl_auditor {
  using joint = typename Tree::joint;
  using node = typename Tree::node;
  using key_pointer = decltype(std::addressof(std::declval<const node&>().key));
  using compare = std::remove_cvref_t<decltype(std::declval<const Tree&>().less())>;

 public:
  explicit avl_auditor(const compare& less) : less_(less) {}

  avl_findings look_over(const joint& entry) {
    if (entry.child[1].load_relaxed() != nullptr) blame("the entry has a second child");
    found_.height = look_at(entry, entry.child[0].load_relaxed(), nullptr, nullptr);
    return found_;
  }

 private:
  /// Returns the real height.
  int look_at(const joint& parent, const node* n, key_pointer after, key_pointer before) {
    if (n == nullptr) return 0;
    (n->value.is_there() ? found_.pairs : found_.routers) += 1;
    if (n->parent.load_relaxed() != &parent) blame("a node has another parent");
    if (n->locked.load_relaxed()) blame("a node that can be reached is locked");
    if ((n->version.load_relaxed() & (joint::unlinked | joint::shrinking)) != 0) {
      blame("a node that can be reached is unlinked, or under change");
    }
    if (after != nullptr && !less_(*after, n->key)) blame("a key is in front of its range");
    if (before != nullptr && !less_(n->key, *before)) blame("a key is behind its range");
    if (Balance::judge(*n) != Balance::damage::none) ++found_.violations;
    const int left = look_at(*n, n->child[0].load_relaxed(), after, std::addressof(n->key));
    const int right = look_at(*n, n->child[1].load_relaxed(), std::addressof(n->key), before);
    return 1 + (left > right ? left : right);
  }

  void blame(const char* what) {
    if (found_.wrong.empty()) found_.wrong = what;
  }

  const compare& less_;
  avl_findings found_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
