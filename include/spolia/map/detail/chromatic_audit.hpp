// SPDX-License-Identifier: Apache-2.0
// chromatic_audit.hpp: whether a chromatic tree at rest is as it should be.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// What was found. `wrong` is empty if the tree is sound; `violations` are places where it is not
/// balanced, of which a tree at rest has none unless memory ran out.
struct chromatic_findings {
  std::string wrong{};
  std::size_t pairs = 0;
  std::size_t internals = 0;
  std::size_t violations = 0;
  std::size_t leaves = 0;
  std::size_t vacant = 0;      ///< leaves without a pair below others: none, unless memory ran out
  std::size_t unforeseen = 0;  ///< which their link does not expect: none, unless two threads met
  std::size_t height = 0;      ///< links from the root to the deepest leaf
  std::size_t weight = 0;      ///< of each way from the root to a leaf
};

template <class Nodes, class Compare>
class chromatic_auditor {
  using link = typename Nodes::link;
  using internal = typename Nodes::internal;
  using key_pointer = const decltype(internal::key)*;

 public:
  explicit chromatic_auditor(const Compare& less) : less_(less) {}

  /// `child(internal, side)` is the link there, `pairs_of(leaf)` what is in it.
  template <class Child, class Pairs>
  chromatic_findings look_over(link top, Child&& child, Pairs&& pairs_of) {
    if (top.weight != 1) blame("the root does not weigh 1");
    look(top, false, 0, 0, nullptr, nullptr, child, pairs_of);
    return found_;
  }

 private:
  void blame(const char* what) {
    if (found_.wrong.empty()) found_.wrong = what;
  }

  /// Keys below `n` are not before *lo, and before *hi.
  template <class Child, class Pairs>
  void look(link n, bool below_red, std::size_t depth, std::size_t weight, key_pointer lo,
            key_pointer hi, Child& child, Pairs& pairs_of) {
    weight += n.weight;
    if (n.weight > 1) found_.violations += n.weight - 1;
    if (n.weight == 0 && below_red) ++found_.violations;
    if (n.to->is_leaf()) {
      look_at_leaf(n, depth, weight);
      return look_at_pairs(pairs_of(n.to), depth, lo, hi);
    }
    ++found_.internals;
    const internal& i = *Nodes::as_internal(n.to);
    if (i.marked.load_relaxed()) blame("a removed node is in the tree");
    if ((lo != nullptr && less_(i.key, *lo)) || (hi != nullptr && !less_(i.key, *hi))) {
      blame("a router is out of order");
    }
    for (unsigned side = 0; side < 2; ++side) {
      const link to = child(i, side);
      if (to.to_leaf && !i.child(side).expects(to.to)) ++found_.unforeseen;
      look(to, n.weight == 0, depth + 1, weight, side == 0 ? lo : std::addressof(i.key),
           side == 0 ? std::addressof(i.key) : hi, child, pairs_of);
    }
  }

  void look_at_leaf(link n, std::size_t depth, std::size_t weight) {
    ++found_.leaves;
    found_.height = (std::max)(found_.height, depth);
    if (n.weight == 0) blame("a leaf is red");
    if (found_.weight != 0 && found_.weight != weight) blame("two ways differ in weight");
    found_.weight = weight;
  }

  template <class Some>
  void look_at_pairs(const Some& some, std::size_t depth, key_pointer lo, key_pointer hi) {
    found_.pairs += some.size();
    if (some.empty() && depth != 0) ++found_.vacant;
    if (some.size() > Nodes::capacity) blame("a leaf has too many pairs");
    bool first = true;
    for (const auto& p : some) {
      const bool behind =
          lo == nullptr || (first ? !less_(p.key(), *lo) : static_cast<bool>(less_(*lo, p.key())));
      if (!behind || (hi != nullptr && !less_(p.key(), *hi))) blame("a key is out of order");
      first = false;
      lo = std::addressof(p.key());
    }
  }

  const Compare& less_;
  chromatic_findings found_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
