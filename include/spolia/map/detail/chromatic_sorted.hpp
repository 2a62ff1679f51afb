// SPDX-License-Identifier: Apache-2.0
// chromatic_sorted.hpp: the nodes of a chromatic tree made of pairs that come in the order of their
// keys, in linear time.
//
// Leaves are shared out in halves, as equal as may be. So at the last level of black nodes each has
// one leaf, or is to have two: there a red router is put above them, and all ways weigh the same.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include <spolia/base/bits.hpp>
#include <spolia/base/config.hpp>
#include <spolia/map/detail/even_groups.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// No other thread knows the nodes. What has been made ends with this, unless it is released.
template <class Nodes, class Collector, class Leaves, class Compare>
class chromatic_sorted {
  using leaf = typename Nodes::leaf;
  using internal = typename Nodes::internal;
  using link = typename Nodes::link;
  using pair = typename Nodes::pair;
  using key_type = typename Nodes::key_type;

 public:
  chromatic_sorted(Collector& c, const Leaves& leaves, const Compare& less) noexcept
      : collector_(c), make_(leaves), less_(less), born_(c.time().earliest()) {}
  chromatic_sorted(const chromatic_sorted&) = delete;
  chromatic_sorted& operator=(const chromatic_sorted&) = delete;
  ~chromatic_sorted() {
    for (internal* const i : routers_) collector_.nodes().destroy(i);
    for (leaf* const l : leaves_) l->destroy_in(collector_.nodes());
  }

  /// The link to a tree of n pairs, one at least; next(f) calls f(key, value) of the next one.
  /// Throws std::invalid_argument if they do not ascend, std::bad_alloc, and what copying and
  /// comparing throw.
  template <class Next>
  link tree(std::size_t n, const Next& next) {
    const even_groups groups(n, (std::max)(Nodes::capacity - Nodes::capacity / 4, std::size_t{1}));
    leaves_.reserve(groups.count());
    routers_.reserve(groups.count() - 1);
    some_.reserve(Nodes::capacity);
    for (std::size_t i = 0; i < groups.count(); ++i) {
      for (std::size_t j = groups.begin_of(i); j < groups.begin_of(i + 1); ++j) {
        next([&](const key_type& key, const auto& value) { add(key, value); });
      }
      leaves_.push_back(make_.made_of(some_).release());
      some_.clear();
    }
    return over(0, leaves_.size(), bit_length(leaves_.size()) - 1);
  }
  void release() noexcept {
    routers_.clear();
    leaves_.clear();
  }

 private:
  template <class V>
  void add(const key_type& key, const V& value) {
    const pair* const last = !some_.empty()     ? &some_.back()
                             : !leaves_.empty() ? &leaves_.back()->all().back()
                                                : nullptr;
    if (last != nullptr && !less_(last->key(), key)) {
      throw std::invalid_argument("snapshot_tree: a key that is not after the one before it");
    }
    some_.push_back(pair::make(0, key, value));
  }

  /// Over some leaves; `black`: how many levels of black routers are to come.
  link over(std::size_t from, std::size_t to, std::size_t black) {
    if (to - from == 1) return {leaves_[from], 1, true};
    const std::size_t middle = from + (to - from) / 2;
    const std::size_t below = black == 0 ? 0 : black - 1;
    const link low = over(from, middle, below);
    const link high = over(middle, to, below);
    routers_.push_back(collector_.nodes().template make<internal>(
        born_, leaves_[middle]->all().front().key(), low, high));
    return {routers_.back(), black == 0 ? 0U : 1U, false};
  }

  Collector& collector_;
  const Leaves& make_;
  const Compare& less_;
  const std::uint64_t born_;
  std::vector<pair> some_;  // of the next leaf
  std::vector<leaf*> leaves_;
  std::vector<internal*> routers_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
