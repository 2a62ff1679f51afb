// SPDX-License-Identifier: Apache-2.0
// tree_pairs.hpp: the pairs of a snapshot_tree at a snapshot, or those of an interval, as a range
// that goes both ways. It holds the snapshot; a guard only while it looks for the next few pairs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/life.hpp>
#include <spolia/map/detail/range_of_pairs.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/version/snapshot.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// Copies share what they hold. Iterators stay right while one of them lives.
template <class Tree, class Key, class Value>
class tree_pairs : public range_of_pairs<tree_pairs<Tree, Key, Value>> {
  using limits = typename Tree::past::limits;
  using chunk = typename Tree::past::chunk;
  using which = typename Tree::past::which;
  using pairs = typename Tree::past::pairs;
  using pair = typename Tree::pair;

  struct shared {
    shared(const Tree& t, snapshot s) noexcept
        : tree(&t), then(std::move(s)), time(then ? then.timestamp(t.collector().time()) : 0) {}
    [[nodiscard]] limits all() const noexcept {
      return {.lo = lo ? std::addressof(*lo) : nullptr,
              .hi = hi ? std::addressof(*hi) : nullptr,
              .open = open,
              .closed = closed};
    }
    const Tree* tree;
    snapshot then;
    std::uint64_t time;
    std::optional<Key> lo;
    std::optional<Key> hi;
    bool open = false;                   // not at lo
    bool closed = false;                 // also at hi
    atomic<const pair*> first{nullptr};  // that begin() found
    life::witness map{tree->alive()};
    [[no_unique_address]] life alive{};
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

    /// Of iterators that are used too late the checked build variant tells here and in steps.
    reference operator*() const noexcept {
      if (SPOLIA_CHECKS) static_cast<void>(is_in_time());
      return {at_->key(), at_->value()};
    }
    iterator& operator++() {
      if (SPOLIA_CHECKS && !is_in_time()) return finish_too_late();
      if (++at_ == end_) next_leaf();
      return *this;
    }
    iterator& operator--() {
      if (SPOLIA_CHECKS && !is_in_time()) return finish_too_late();
      if (at_ != first_) {
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
    explicit iterator(const shared* of) noexcept
        : of_(of), map_(of->map), range_(life::witness(of->alive)) {}

    [[nodiscard]] bool is_in_time() const noexcept {
      return map_.expects("an iterator over a snapshot is used whose map has ended") &&
             range_.expects("an iterator over a snapshot is used after its range has ended");
    }
    iterator& finish_too_late() noexcept {
      finish();
      return *this;
    }

    /// at_ is after the end of its leaf. It stays on the last pair if comparing keys throws.
    SPOLIA_NOINLINE void next_leaf() {
      --at_;
      limits rest = of_->all();
      rest.lo = std::addressof(at_->key());
      rest.open = true;
      if (to_first_of(some_, in_ + 1, rest)) return;
      if (some_.ends) return finish();
      const way on = asked<false>();
      if (!on.goes_on) return finish();
      fill(rest, which::all);
      way_ = on;
    }
    void finish() noexcept { at_ = first_ = nullptr; }
    /// To the end of the leaf before this one.
    SPOLIA_NOINLINE void last_leaf() {
      limits rest = of_->all();
      way on{.down = true};
      if (at_ != nullptr) {
        rest.hi = std::addressof(at_->key());
        rest.closed = false;
        if (to_last_of(some_, in_, rest)) return;
        on = asked<true>();
        if (!on.goes_on) return go_to_begin();
      }
      chunk before;
      {
        auto here = of_->tree->collector().enter();
        past().last_at(here, of_->time, rest, before, which::with_some);
      }
      if (!to_last_of(before, before.count, rest)) return go_to_begin();
      way_ = on;
    }
    struct way {
      progress<Key, const Key*> looked{};  // keys stay while the snapshot does
      bool down = false;                   // when it last went on to another chunk
      bool goes_on = true;
    };
    /// The way from here to another chunk. It is way_ once the step is done: what has thrown may
    /// be tried again from the same pair.
    template <bool Down>
    way asked() const {
      way on = way_.down == Down ? way_ : way{.down = Down};
      on.goes_on = on.looked.template goes_on<Down>(at_->key(), of_->tree->less());
      return on;
    }
    /// By a comparison that is no order a walk downwards might never meet the beginning.
    void go_to_begin() noexcept {
      // acquire ← the release in begin(): we see the pair, as the thread that found it did.
      at_ = first_ = of_->first.load_acquire();
      end_ = at_ + 1;
      some_.count = 0;
      some_.ends = false;
    }
    /// To the first pair that there is from leaf i on; false: there is none.
    bool to_first_of(const chunk& some, unsigned i, const limits& rest) {
      for (; i < some.count; ++i) {
        some.prefetch(i + Tree::past::fetched_ahead);
        const pairs here = past().pairs_of(*some.of[i], of_->time, rest);
        if (here.empty()) continue;
        stand(some, i, here);
        at_ = first_;
        return true;
      }
      return false;
    }
    /// To the last one before leaf i.
    bool to_last_of(const chunk& some, unsigned i, const limits& rest) {
      while (i-- != 0) {
        const pairs here = past().pairs_of(*some.of[i], of_->time, rest);
        if (here.empty()) continue;
        stand(some, i, here);
        at_ = end_ - 1;
        return true;
      }
      return false;
    }
    void stand(const chunk& some, unsigned i, pairs here) noexcept {
      if (&some != &some_) some_ = some;
      in_ = i;
      first_ = here.data();
      end_ = first_ + here.size();
    }
    /// To the first pair of all; the end, if there is none.
    void fill(const limits& rest, which w) {
      chunk behind;
      {
        auto here = of_->tree->collector().enter();
        past().first_at(here, of_->time, rest, behind, w);
      }
      if (to_first_of(behind, 0, rest)) return;
      // Of so many leaves none had any.
      if (behind.is_full() && w == which::all) return fill(rest, which::with_some);
      finish();
    }
    [[nodiscard]] const auto& past() const noexcept { return of_->tree->at_instants(); }

    const shared* of_ = nullptr;
    chunk some_;
    unsigned in_ = 0;              // the leaf among these
    const pair* at_ = nullptr;     // null at the end
    const pair* first_ = nullptr;  // of that leaf's pairs
    const pair* end_ = nullptr;
    way way_;
    [[no_unique_address]] life::witness map_;
    [[no_unique_address]] life::witness range_;
  };

  /// Throws std::bad_alloc, or what copying a key throws. An empty snapshot sees nothing.
  template <class Within>
  tree_pairs(const Tree& tree, snapshot then, const Within& within)
      : shared_(std::make_shared<shared>(tree, std::move(then))) {
    if (within.from != nullptr) shared_->lo.emplace(*within.from);
    if (within.to != nullptr) shared_->hi.emplace(*within.to);
    shared_->open = !within.with_from;
    shared_->closed = Within::has_to;
  }

  /// Throws what comparing keys throws, as all steps; and std::bad_alloc if it is a thread's first.
  [[nodiscard]] iterator begin() const {
    iterator first(shared_.get());
    const char* const wrong = "a range of a snapshot is used whose map has ended";
    if (shared_->then && shared_->map.expects(wrong) && !backwards())
      first.fill(shared_->all(), which::all);
    // release → the acquire in go_to_begin().
    shared_->first.store_release(first.at_);
    return first;
  }
  [[nodiscard]] iterator end() const noexcept { return iterator(shared_.get()); }

 private:
  [[nodiscard]] bool backwards() const {
    const std::optional<Key>& lo = shared_->lo;
    const std::optional<Key>& hi = shared_->hi;
    if (!lo || !hi) return false;
    const auto& less = shared_->tree->less();
    if (shared_->closed && !shared_->open) return static_cast<bool>(less(*hi, *lo));
    return !less(*lo, *hi);
  }

  std::shared_ptr<shared> shared_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
