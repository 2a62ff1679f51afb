// SPDX-License-Identifier: Apache-2.0
// bucket_table.hpp: a table of version lists that doubles without moving any of them, and remembers
// when it did.
//
// The lists sit in segments: the first 2^base lists, and then as many again as there are. A level l
// is open when the lists up to 2^l are there. Behind the lists of a segment lies a word or two for
// each 64 of them, which says whether one has pairs: bucket_group.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include <spolia/base/atomic.hpp>
#include <spolia/base/bits.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/map/detail/bucket_group.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class List>
class bucket_table {
 public:
  static constexpr std::uint32_t most_levels = 48;

  /// Throws std::bad_alloc.
  explicit bucket_table(std::uint32_t base) : base_(base), level_(base) { segment_for(base); }
  bucket_table(const bucket_table&) = delete;
  bucket_table& operator=(const bucket_table&) = delete;
  ~bucket_table() {
    for (std::uint32_t l = base_; l <= most_levels; ++l) {
      if (const std::uintptr_t s = start(l).load_relaxed()) end(lists_from(s, l), l);
    }
  }

  [[nodiscard]] std::uint32_t base() const noexcept { return base_; }
  /// The highest level that is open.
  [[nodiscard]] std::uint32_t level() const noexcept {
    // acquire ← the release in open_after(): the segments are there.
    return level_.load_acquire();
  }
  [[nodiscard]] std::uint64_t size() const noexcept { return std::uint64_t{1} << level(); }

  /// The highest level with lists that a version not above `t` can be in.
  [[nodiscard]] std::uint32_t level_at(std::uint64_t t) const noexcept {
    std::uint32_t l = level();
    // relaxed: set before the level was opened.
    while (l > base_ && opened_[l].load_relaxed() > t) --l;
    return l;
  }

  /// i is below 2^level().
  [[nodiscard]] List& operator[](std::uint64_t i) const noexcept {
    // relaxed: level() was asked before.
    const auto zeros = static_cast<std::size_t>(std::countl_zero(i));
    const std::uintptr_t all = starts_[zeros - (64 - most_levels)].load_relaxed();
    return *reinterpret_cast<List*>(all - there + i * sizeof(List));
  }

  /// What is known of list i and its neighbours; i is below 2^level().
  [[nodiscard]] bucket_group& group_of(std::uint64_t i) const noexcept {
    const std::uint32_t l = level_of(i);
    // relaxed: level() was asked before.
    List* const lists = lists_from(starts_[most_levels - l].load_relaxed(), l);
    return groups_of(lists, l)[(i - first_of(l)) / lists_a_group];
  }
  /// The first list that is not in its group.
  [[nodiscard]] std::uint64_t group_end(std::uint64_t i) const noexcept {
    const std::uint32_t l = level_of(i);
    const std::uint64_t first = first_of(l);
    const std::uint64_t after = ((i - first) / lists_a_group + 1) * lists_a_group;
    return first + (std::min)(after, std::uint64_t{lists_in(l)});
  }

  /// The lowest level at which list i is there.
  [[nodiscard]] std::uint32_t level_of(std::uint64_t i) const noexcept {
    const auto bits = bit_length(i);
    return bits > base_ ? bits : base_;
  }

  /// Opens the level after l, if no thread has; no version of the new lists will have a stamp below
  /// `now`. Throws std::bad_alloc.
  void open_after(std::uint32_t l, std::uint64_t now) {
    if (l == most_levels) return;
    segment_for(l + 1);
    std::uint64_t never = 0;
    // relaxed, of each the first: so it is not above the time when any thread opens the level.
    opened_[l + 1].cas_strong_relaxed(never, now);
    // release → level(): the segment and the time are there.
    level_.cas_strong_release(l, l + 1);
  }

 private:
  static constexpr std::uintptr_t there = 1;
  static constexpr std::size_t lists_a_group = 64;
  static_assert(alignof(bucket_group) <= alignof(List));

  /// Of the lists whose numbers have so many bits.
  [[nodiscard]] atomic<std::uintptr_t>& start(std::uint32_t bits) noexcept {
    return starts_[most_levels - bits];
  }

  [[nodiscard]] std::size_t lists_in(std::uint32_t l) const noexcept {
    return std::size_t{1} << (l == base_ ? l : l - 1);
  }

  [[nodiscard]] std::size_t groups_in(std::uint32_t l) const noexcept {
    return (lists_in(l) + lists_a_group - 1) / lists_a_group;
  }
  [[nodiscard]] bucket_group* groups_of(List* lists, std::uint32_t l) const noexcept {
    return reinterpret_cast<bucket_group*>(lists + lists_in(l));
  }
  [[nodiscard]] std::size_t bytes_of(std::uint32_t l) const noexcept {
    return lists_in(l) * sizeof(List) + groups_in(l) * sizeof(bucket_group);
  }

  /// Where list 0 would be if the lists of level l, which begin there, went down to it. Odd, so
  /// that it is not 0, which says that there are none.
  [[nodiscard]] std::uintptr_t start_of(const List* lists, std::uint32_t l) const noexcept {
    return reinterpret_cast<std::uintptr_t>(lists) - first_of(l) * sizeof(List) + there;
  }
  [[nodiscard]] List* lists_from(std::uintptr_t start, std::uint32_t l) const noexcept {
    return reinterpret_cast<List*>(start - there + first_of(l) * sizeof(List));
  }
  [[nodiscard]] std::uint64_t first_of(std::uint32_t l) const noexcept {
    return l == base_ ? 0 : std::uint64_t{1} << (l - 1);
  }

  void segment_for(std::uint32_t l) {
    // acquire, both ← the release below: a thread that goes on to open the level passes the lists
    // on.
    if (start(l).load_acquire() != 0) return;
    const std::size_t n = lists_in(l);
    auto* const made = static_cast<List*>(memory::allocate(bytes_of(l), alignof(List)));
    for (std::size_t i = 0; i < n; ++i) ::new (made + i) List();
    bucket_group* const groups = groups_of(made, l);
    for (std::size_t i = 0; i < groups_in(l); ++i) ::new (groups + i) bucket_group();
    std::uintptr_t none = 0;
    // release → the acquire above and level().
    if (!start(l).cas_strong_acq_rel(none, start_of(made, l))) return end(made, l);
    // The first lists are found by any of their bits. relaxed: no other thread is there yet.
    for (std::uint32_t bits = 0; l == base_ && bits < l; ++bits) {
      start(bits).store_relaxed(start_of(made, l));
    }
  }

  void end(List* s, std::uint32_t l) noexcept {
    std::destroy_n(groups_of(s, l), groups_in(l));
    std::destroy_n(s, lists_in(l));
    memory::deallocate(s, bytes_of(l), alignof(List));
  }

  const std::uint32_t base_;
  alignas(cache_line) atomic<std::uint32_t> level_;
  std::array<atomic<std::uintptr_t>, most_levels + 1> starts_{};  // the most bits first
  std::array<atomic<std::uint64_t>, most_levels + 1> opened_{};
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
