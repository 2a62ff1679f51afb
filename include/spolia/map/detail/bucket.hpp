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

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

template <class Pair, class Collector>
class bucket : public pair_block<typename Collector::version, Pair> {
 public:
  const std::uint32_t depth;
  bucket* sibling = nullptr;  // set by its maker, before it is published

 protected:
  bucket(void* room, std::uint32_t d) noexcept
      : pair_block<typename Collector::version, Pair>(room), depth(d) {}
  ~bucket() = default;
};

template <class Pair, class Collector>
using bucket_maker =
    block_maker<bucket<Pair, Collector>, typename Collector::domain_type, Pair, 1, 2, 3, 4, 6>;

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
