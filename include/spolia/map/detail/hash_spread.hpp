// SPDX-License-Identifier: Apache-2.0
// hash_spread.hpp: from a hash of the user's, which may be the key itself, and a map's seed to a
// place in a table.
//
// A hash is multiplied by a number that the seed decides. The halves of the product are brought
// together, and then the upper half of that and the lower one.
//   The multiplier is what is secret. Where a seed is only mixed in before a multiplication by a
//     known number, keys that meet under one seed meet under all: their differences stay.
//   A multiplier alone is a bad one for some pattern of keys (multiples of a power of two,
//     addresses, bits of floating-point numbers) in one map of a hundred, whose buckets are then up
//     to a hundred times as long. With the second step they are up to four times as long, in one of
//     a thousand.
#pragma once

#include <cstddef>
#include <cstdint>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// Of Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014: the
/// number after `state` in a sequence that looks as if drawn.
constexpr std::uint64_t split_mix(std::uint64_t state) noexcept {
  std::uint64_t x = state + 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

class hash_spread {
 public:
  constexpr explicit hash_spread(std::uint64_t seed) noexcept : drawn_(split_mix(seed) | 1U) {}

  /// Each bit depends on nearly all bits of the hash: tables go by the lower ones, tags and
  /// partitions by the upper ones.
  [[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t hash) const noexcept {
    const two_words product = two_words{hash} * drawn_;
    const auto both =
        static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
    return both ^ (both >> 32U);
  }

  /// One of any number of buckets. Hashes in a row lie in buckets in a row, as remainders do, so
  /// numbers that follow each other fill all buckets equally. Where each such row begins depends on
  /// the row and the seed.
  [[nodiscard]] constexpr std::size_t bucket_of(std::uint64_t hash,
                                                std::size_t buckets) const noexcept {
    const std::uint64_t row = hash / buckets;
    const auto begin = static_cast<std::size_t>((two_words{mixed(row)} * buckets) >> 64U);
    const std::size_t at = begin + hash % buckets;
    return at < buckets ? at : at - buckets;
  }

 private:
  __extension__ using two_words = unsigned __int128;

  std::uint64_t drawn_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
