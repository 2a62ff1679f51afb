// SPDX-License-Identifier: Apache-2.0
// statistics.hpp: the figures that a domain gives of itself.
#pragma once

#include <cstddef>
#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/reclaim/detail/saturating.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// The figures of a domain at one moment. While other threads work, sums are approximate.
struct domain_statistics {
  std::uint64_t retired = 0;  ///< blocks handed to the domain so far
  std::uint64_t freed = 0;    ///< of these, blocks destroyed
  std::uint64_t retired_bytes = 0;
  std::uint64_t freed_bytes = 0;
  /// In a fork's child: of the blocks retired, those whose lists the fork caught half written in
  /// the hands of threads that are gone. They are never freed, and wait no more.
  std::uint64_t lost_in_fork = 0;
  std::uint64_t lost_in_fork_bytes = 0;
  std::uint64_t epochs = 0;   ///< epochs, rounds or scans of the scheme so far
  std::uint64_t turns = 0;    ///< times that threads gave their processor away (options::turn_us)
  std::size_t threads = 0;    ///< that use it: have not ended, or have left a guard behind
  histogram_snapshot pauses;  ///< ns spent freeing, per pause, if options ask for it

  std::uint64_t garbage() const noexcept {
    return detail::reclaim::rest_of(retired, freed + lost_in_fork);
  }
  std::uint64_t garbage_bytes() const noexcept {
    return detail::reclaim::rest_of(retired_bytes, freed_bytes + lost_in_fork_bytes);
  }
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
