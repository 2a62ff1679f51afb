// SPDX-License-Identifier: Apache-2.0
// chromatic_ways.hpp: a sorted array of the first keys of some routers of a chromatic tree, for
// chromatic_shortcuts.hpp, and how the one for a key is found in it.
//
// Idea:   where keys are integers and compared as such, their leading bits say nearly where: a
//         second array gives for each value of these the part of the first one that is to be
//         searched. With keys spread evenly that is an entry or two; however they lie, it is never
//         more than a search of the whole.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/bits.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Key, class Router, class Compare>
class chromatic_ways {
 public:
  /// The first one's key means nothing: it stands for all keys before the second one's.
  struct entry {
    Key from;
    Router* at;  // null: it was retired
  };

  chromatic_ways() = default;
  /// Of entries in ascending order. Throws std::bad_alloc.
  explicit chromatic_ways(std::vector<entry> all) : all_(std::move(all)) {
    if constexpr (by_bits) note_parts();
  }

  [[nodiscard]] std::size_t count() const noexcept { return all_.size(); }
  [[nodiscard]] const entry& operator[](std::size_t i) const noexcept { return all_[i]; }
  [[nodiscard]] entry& operator[](std::size_t i) noexcept { return all_[i]; }

  /// The last entry with a first key that is not after this one. There must be one.
  template <class K>
  [[nodiscard]] std::size_t place_of(const K& key, const Compare& less) const {
    if constexpr (by_bits && std::is_same_v<K, Key>) {
      if (parts_.empty() || less(key, all_[1].from)) return 0;
      if (!less(key, all_.back().from)) return all_.size() - 1;
      const auto part = static_cast<std::size_t>(behind_first(key) >> shift_);
      return search(key, less, parts_[part], parts_[part + 1]);
    } else {
      return search(key, less, 0, all_.size() - 1);
    }
  }

 private:
  static constexpr bool by_bits =
      std::is_integral_v<Key> &&
      (std::same_as<Compare, std::less<Key>> || std::same_as<Compare, std::less<>>);

  /// The same, which is one of these.
  template <class K>
  std::size_t search(const K& key, const Compare& less, std::size_t at, std::size_t last) const {
    for (std::size_t left = last - at; left != 0;) {
      const std::size_t half = (left + 1) / 2;
      // Computed, not branched on: it cannot be predicted.
      at += less(key, all_[at + half].from) ? 0 : half;
      left -= half;
    }
    return at;
  }

  /// How far a key lies after the first that means something.
  [[nodiscard]] std::uint64_t behind_first(const Key& key) const noexcept {
    return static_cast<std::uint64_t>(key) - static_cast<std::uint64_t>(all_[1].from);
  }

  void note_parts() {
    if (all_.size() < 2) return;
    const auto most = bit_length(all_.size() - 1);
    const auto bits = bit_length(behind_first(all_.back().from));
    shift_ = bits > most ? bits - most : 0;
    parts_.reserve((behind_first(all_.back().from) >> shift_) + 2);
    // parts_[p]: the last entry whose first key has leading bits below p.
    for (std::size_t i = 1; i < all_.size(); ++i) {
      const std::uint64_t part = behind_first(all_[i].from) >> shift_;
      while (parts_.size() <= part) parts_.push_back(static_cast<std::uint16_t>(i - 1));
    }
    parts_.push_back(static_cast<std::uint16_t>(all_.size() - 1));
  }

  std::vector<entry> all_;
  std::vector<std::uint16_t> parts_;
  unsigned shift_ = 0;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
