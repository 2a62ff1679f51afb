// SPDX-License-Identifier: Apache-2.0
// after_update.hpp: what an update that has taken effect does last, so that it comes before all
// that its thread does next, for every thread.
//
// Why. A change is published by a release, which orders what comes before it, and not what comes
// after it: a processor may keep the change to itself while its thread already looks elsewhere. Two
// threads could each change one map and then look into the other's, and both find nothing ("store
// buffering"). No order of the four operations explains that, and linearizability is a promise of
// one.
#pragma once

#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// How a map publishes a change: by a read-modify-write operation, or by a plain store.
enum class published : bool { by_exchange, by_store };

/// Whether the processor orders it already, and only the compiler has to be told: an instruction
/// that reads and writes at once is a full fence on x86.
#if (defined(__x86_64__) || defined(__i386__)) && !defined(SPOLIA_MODEL)
template <published How>
inline constexpr bool ordered_by_processor = How == published::by_exchange;
#else
template <published How>
inline constexpr bool ordered_by_processor = false;
#endif

template <published How>
SPOLIA_ALWAYS_INLINE void after_update() noexcept {
  if (SPOLIA_FAULT("map.no_fence")) return;
  if constexpr (ordered_by_processor<How>) {
    asm volatile("" ::: "memory");
    return;
  }
  // seq_cst ↔ the same fence in another thread, after its update of another map, or the fence that
  // it has put between a store of its own and a look into our map: of the two, what follows the
  // later one sees what came before the earlier one. Without it neither need see anything.
  fence::full();
}

/// The same if the update has changed something. Where it costs nothing that is not asked, since a
/// branch would cost more.
template <published How>
SPOLIA_ALWAYS_INLINE void after_update_if(bool changed) noexcept {
  if (ordered_by_processor<How> || changed) after_update<How>();
}

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
