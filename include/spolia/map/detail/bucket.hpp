// SPDX-License-Identifier: Apache-2.0
// bucket.hpp: the immutable versions of a bucket of snapshot_hash.
//
// A version of bucket b with depth d holds all pairs whose hash agrees with b in the lower d bits.
// If it came about by a division, `sibling` is the first version of the other half, which belongs
// into bucket b + 2^(d-1): see snapshot_hash.hpp.
#pragma once

#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/pair_block.hpp>
#include <spolia/version/detail/told_stamp.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

template <class Pair, class Collector>
class bucket : public pair_block<typename Collector::version, Pair> {
 public:
  const std::uint32_t depth;
  told_stamp stamp;
  bucket* sibling = nullptr;  // set by its maker, before it is published

  /// Fetches what lies behind the cache line that one looks at first.
  void prefetch_pairs() const noexcept {
    const auto* const at = reinterpret_cast<const char*>(this);
    __builtin_prefetch(at + 128);
    __builtin_prefetch(at + 192);
  }

 protected:
  bucket(void* room, std::uint32_t d) noexcept
      : pair_block<typename Collector::version, Pair>(room), depth(d) {}
  ~bucket() = default;
};

/// With pairs of two words, the common allocators' sizes.
template <class Pair, class Collector>
using bucket_maker =
    block_maker<bucket<Pair, Collector>, typename Collector::domain_type, Pair, 2, 4, 6, 8, 12, 16>;

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
