// SPDX-License-Identifier: Apache-2.0
/// \file
/// Seeds of hash maps: a number of its own that each map mixes into the hashes of its keys.
///
///     spolia::snapshot_hash<std::uint64_t, int> a;                // draws a seed
///     spolia::snapshot_hash<std::uint64_t, int> b({.seed = 1});   // has this one
///     spolia::fix_hash_seeds(1);                                  // all maps from now on have it
///
/// Reason:      if it is known how a map spreads keys, it can be sent such as all meet in one
///              bucket, and then each operation looks at all of them. With a seed that is not
///              known outside, integers and pointers that were chosen beforehand meet as seldom as
///              others.
///              A hash of the user's own whose results are equal for chosen keys is not helped: its
///              results are all that the map has.
/// Fixed seeds: the order in which a hash map is looped over depends on its seed. Tests and
///              benchmarks that have to do the same in each run fix them.
/// All of these may be called by any thread at any time, and never fail.
#pragma once

#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {
/// A seed for one more map.
SPOLIA_EXPORT std::uint64_t next_hash_seed() noexcept;
SPOLIA_EXPORT void fix_hash_seeds(std::uint64_t seed) noexcept;
SPOLIA_EXPORT void draw_hash_seeds() noexcept;
}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {

/// Gives this seed to each hash map of the process that is made from now on and is not given
/// another one. Maps that are there keep theirs.
inline void fix_hash_seeds(std::uint64_t seed) noexcept { core::fix_hash_seeds(seed); }

/// Ends that: each map draws its own again.
inline void draw_hash_seeds() noexcept { core::draw_hash_seeds(); }

namespace detail::map {

/// The model checker needs each execution to be as the one before.
[[nodiscard]] inline std::uint64_t next_hash_seed() noexcept {
#if defined(SPOLIA_MODEL)
  return 0;
#else
  return core::next_hash_seed();
#endif
}

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
