// SPDX-License-Identifier: Apache-2.0
// tree_pairs.hpp: the pairs of a snapshot_tree at a snapshot, or those of an interval, as a range
// that goes both ways. It holds the snapshot; a guard only while it looks for the next few pairs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/version/snapshot.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

/// Copies share what they hold. Iterators stay right while one of them lives.
template <class Tree, class Key, class Value>
class tree_pairs : public std::ranges::view_interface<tree_pairs<Tree, Key, Value>> {
  using limits = typename Tree::past::limits;
  using chunk = typename Tree::past::chunk;
  using pair = typename Tree::pair;

  struct shared {
    shared(const Tree& t, snapshot s) noexcept
        : tree(&t), then(std::move(s)), time(then ? then.timestamp(t.collector().time()) : 0) {}
    [[nodiscard]] limits all() const noexcept {
      return {.lo = lo ? &*lo : nullptr, .hi = hi ? &*hi : nullptr};
    }
    const Tree* tree;
    snapshot then;
    std::uint64_t time;
    std::optional<Key> lo;
    std::optional<Key> hi;
  };

 public:
  class iterator {
   public:
    using value_type = std::pair<const Key&, const Value&>;
    using reference = value_type;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::bidirectional_iterator_tag;
    using iterator_category = std::input_iterator_tag;

    iterator() = default;

    reference operator*() const noexcept { return {at_->key(), at_->value()}; }
    iterator& operator++() {
      if (++at_ == end_) next_leaf();
      return *this;
    }
    iterator& operator--() {
      if (at_ != nullptr && at_ != leaf().data()) {
        --at_;
      } else {
        last_leaf();
      }
      return *this;
    }
    iterator operator++(int) {
      iterator before = *this;
      ++*this;
      return before;
    }
    iterator operator--(int) {
      iterator before = *this;
      --*this;
      return before;
    }
    /// Of iterators of one range.
    friend bool operator==(const iterator& a, const iterator& b) noexcept { return a.at_ == b.at_; }

   private:
    friend class tree_pairs;
    explicit iterator(const shared* of) noexcept : of_(of) {}

    [[nodiscard]] const auto& leaf() const noexcept { return some_.of[in_]; }
    /// at_ is behind the end of its leaf.
    SPOLIA_NOINLINE void next_leaf() {
      if (in_ + 1 != some_.count) {
        ++in_;
        return to_front();
      }
      --at_;  // stays if comparing keys throws
      limits rest = of_->all();
      rest.lo = &at_->key();
      rest.open = true;
      fill(rest);
    }
    /// To the end of the leaf in front of this one.
    SPOLIA_NOINLINE void last_leaf() {
      if (at_ == nullptr || in_ == 0) {
        limits rest = of_->all();
        if (at_ != nullptr) rest.hi = &at_->key();
        auto here = of_->tree->collector().enter();
        chunk before;
        of_->tree->at_instants().last_at(here, of_->time, rest, before);
        some_ = before;
        in_ = before.count;
      }
      --in_;
      at_ = &leaf().back();
      end_ = at_ + 1;
    }
    void to_front() noexcept {
      at_ = leaf().data();
      end_ = at_ + leaf().size();
    }
    void fill(const limits& rest) {
      auto here = of_->tree->collector().enter();
      chunk behind;
      of_->tree->at_instants().first_at(here, of_->time, rest, behind);
      some_ = behind;
      in_ = 0;
      if (behind.count != 0) return to_front();
      at_ = nullptr;
    }

    const shared* of_ = nullptr;
    chunk some_;
    unsigned in_ = 0;            // the leaf among these
    const pair* at_ = nullptr;   // null at the end
    const pair* end_ = nullptr;  // of that leaf
  };

  /// Throws std::bad_alloc, or what copying a key throws. An empty snapshot sees nothing.
  tree_pairs(const Tree& tree, snapshot then)
      : shared_(std::make_shared<shared>(tree, std::move(then))) {}
  tree_pairs(const Tree& tree, snapshot then, const Key& lo, const Key& hi)
      : tree_pairs(tree, std::move(then)) {
    shared_->lo.emplace(lo);
    shared_->hi.emplace(hi);
  }

  /// Throws what comparing keys throws, as all steps; and std::bad_alloc if it is a thread's first.
  [[nodiscard]] iterator begin() const {
    iterator first(shared_.get());
    if (shared_->then && !backwards()) first.fill(shared_->all());
    return first;
  }
  [[nodiscard]] iterator end() const noexcept { return iterator(shared_.get()); }

 private:
  [[nodiscard]] bool backwards() const {
    return shared_->lo && !shared_->tree->less()(*shared_->lo, *shared_->hi);
  }

  std::shared_ptr<shared> shared_;
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
