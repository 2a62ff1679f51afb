// SPDX-License-Identifier: Apache-2.0
// snapshot_pairs.hpp: the pairs of a snapshot_hash at a snapshot, as a range. Between two steps it
// holds the snapshot, and so the versions that it stands on; a guard only while it looks for the
// next bucket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/life.hpp>
#include <spolia/map/detail/range_of_pairs.hpp>
#include <spolia/version/snapshot.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// Goes through the buckets that a snapshot sees.
template <class Core>
class buckets_at {
 public:
  buckets_at() = default;
  buckets_at(const Core& core, std::uint64_t then) noexcept
      : core_(&core), then_(then), end_(core.buckets_at(then)) {}

  /// The pairs of the next bucket that has some; none if there is no such bucket.
  typename Core::pairs next() {
    while (next_ != end_) {
      auto here = core_->collector().enter();
      // A guard's length: some microseconds.
      for (int looks = 0; looks < 32 && next_ != end_; ++looks) {
        if (next_ == group_end_) {
          group_end_ = core_->group_end(next_);
          if (core_->is_group_empty(then_, next_)) next_ = group_end_;
          continue;
        }
        if (const auto some = core_->pairs_at(here, then_, next_++); !some.empty()) return some;
      }
    }
    return {};
  }

 private:
  const Core* core_ = nullptr;
  std::uint64_t then_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t group_end_ = 0;  // of the group that next_ is in; or the next one begins here
  std::uint64_t end_ = 0;
};

template <class Core>
class snapshot_pairs : public range_of_pairs<snapshot_pairs<Core>> {
  using pair = typename Core::pair;

 public:
  class iterator {
   public:
    using value_type = std::pair<decltype(std::declval<const pair&>().key()),
                                 decltype(std::declval<const pair&>().value())>;
    using reference = value_type;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::forward_iterator_tag;
    using iterator_category = std::input_iterator_tag;

    iterator() = default;

    /// Of iterators that are used too late the checked build variant tells here and in steps.
    reference operator*() const noexcept {
      if (SPOLIA_CHECKS) static_cast<void>(is_in_time());
      return {at_->key(), at_->value()};
    }
    iterator& operator++() {
      if (SPOLIA_CHECKS && !is_in_time()) {
        at_ = nullptr;
        return *this;
      }
      if (++at_ == end_) look();
      return *this;
    }
    iterator operator++(int) {
      iterator before = *this;
      ++*this;
      return before;
    }
    /// Of iterators of one range.
    friend bool operator==(const iterator& a, const iterator& b) noexcept { return a.at_ == b.at_; }
    friend bool operator==(const iterator& a, std::default_sentinel_t) noexcept {
      return a.at_ == nullptr;
    }

   private:
    friend class snapshot_pairs;
    iterator(const buckets_at<Core>& all, const life::witness& map, const snapshot& then)
        : rest_(all), map_(map), then_(detail::version::witness_of(then)) {
      look();
    }

    [[nodiscard]] bool is_in_time() const noexcept {
      return map_.expects("an iterator over a snapshot is used whose map has ended") &&
             then_.expects("an iterator over a snapshot is used after the snapshot has ended");
    }

    void look() {
      const auto some = rest_.next();
      at_ = some.data();  // null if there is none
      end_ = at_ + some.size();
    }

    buckets_at<Core> rest_;
    const pair* at_ = nullptr;
    const pair* end_ = nullptr;
    [[no_unique_address]] life::witness map_;
    [[no_unique_address]] life::witness then_;
  };

  snapshot_pairs(const Core& core, snapshot then) noexcept
      : core_(&core), then_(std::move(then)), map_(core.alive()) {}

  /// An empty snapshot sees nothing. Iterators stay right while the snapshot, or a clone, lives.
  [[nodiscard]] iterator begin() const {
    if (!then_ || !map_.expects("a range of a snapshot is used whose map has ended")) return {};
    return iterator(buckets_at<Core>(*core_, then_.timestamp(core_->collector().time())), map_,
                    then_);
  }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  const Core* core_;
  snapshot then_;
  [[no_unique_address]] life::witness map_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
