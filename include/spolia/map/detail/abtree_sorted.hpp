// SPDX-License-Identifier: Apache-2.0
// abtree_sorted.hpp: an abtree made of pairs that come in the order of their keys, in linear time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/map/detail/even_groups.hpp>
#include <spolia/map/detail/seen_value.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// No other thread sees the tree meanwhile. What has been made ends with this, until it is taken.
template <class Core>
class abtree_sorted {
  using nodes = typename Core::nodes;
  using node = typename nodes::node;
  using leaf = typename nodes::leaf;
  using internal = typename nodes::internal;
  using entry = typename nodes::entry;
  using item = typename nodes::item;
  using key_type = typename Core::key_type;
  using value_type = typename Core::mapped_type;

 public:
  abtree_sorted(Core& core, unsigned degree) : core_(core), each_(degree - degree / 4) {}
  abtree_sorted(const abtree_sorted&) = delete;
  abtree_sorted& operator=(const abtree_sorted&) = delete;
  ~abtree_sorted() {
    if constexpr (!nodes::value_in_leaf) {
      for (std::size_t i = 0; i < pending_; ++i) core_.home().destroy(items_[i].content);
    }
    for (node* n : level_) {
      if (n != nullptr) core_.fell(n);
    }
    for (node* n : above_) core_.fell(n);
  }

  /// Of n pairs, one at least; next(f) calls f(key, value) of the next one.
  template <class Next>
  node* root(std::size_t n, const Next& next, tally& stamps) {
    const even_groups groups(n, each_);
    level_.reserve(groups.count());
    firsts_.reserve(groups.count());
    for (std::size_t i = 0; i < groups.count(); ++i) {
      for (std::size_t j = groups.begin_of(i); j < groups.begin_of(i + 1); ++j) {
        next([&](const key_type& key, const value_type& value) { add(key, value, stamps); });
      }
      auto* const made =
          core_.home().template make<leaf>(items_.data(), static_cast<unsigned>(pending_));
      pending_ = 0;
      level_.push_back(made);
      firsts_.push_back(std::addressof(made->key(0)));
      last_ = std::addressof(made->key(made->size - 1U));
    }
    leaves_ = groups.count();
    while (level_.size() > 1) go_up();
    node* const top = level_.front();
    level_.clear();
    return top;
  }
  [[nodiscard]] std::size_t leaves() const noexcept { return leaves_; }
  [[nodiscard]] std::size_t internals() const noexcept { return internals_; }

 private:
  void add(const key_type& key, const value_type& value, [[maybe_unused]] tally& stamps) {
    if (last_ != nullptr && !core_.less()(*last_, key)) {
      throw std::invalid_argument("abtree: a key that is not after the one before it");
    }
    item& to = items_[pending_];
    if constexpr (nodes::value_in_leaf) {
      to.content = value;
    } else {
      to.content = core_.home().template make<entry>(key, value, next_stamp<value_type>(stamps));
    }
    ++pending_;
    if constexpr (nodes::key_in_leaf) {
      to.key = key;
      last_ = std::addressof(to.key);
    } else {
      last_ = std::addressof(to.content->key);
    }
  }

  void go_up() {
    const even_groups groups(level_.size(), each_);
    above_.reserve(groups.count());
    for (std::size_t i = 0; i < groups.count(); ++i) {
      const std::size_t begin = groups.begin_of(i);
      const std::size_t end = groups.begin_of(i + 1);
      typename nodes::gathered all;
      for (std::size_t j = begin; j < end; ++j) all.add(firsts_[j], level_[j]);
      above_.push_back(core_.home().template make<internal>(1U, all, 0U, all.count));
      std::fill_n(level_.data() + begin, end - begin, nullptr);
      firsts_[i] = firsts_[begin];
    }
    internals_ += groups.count();
    level_.swap(above_);
    above_.clear();
  }

  Core& core_;
  const std::size_t each_;
  std::array<item, Core::most_in_node> items_{};
  std::size_t pending_ = 0;  // of these, without a leaf
  const key_type* last_ = nullptr;
  std::vector<node*> level_;  // null: it has one above it
  std::vector<node*> above_;
  std::vector<const key_type*> firsts_;  // of what each node of the level leads to
  std::size_t leaves_ = 0;
  std::size_t internals_ = 0;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
