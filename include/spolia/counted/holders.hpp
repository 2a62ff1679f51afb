// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which threads hold counted objects without counting: what the private pointers of all threads
/// name.
///
///     auto who = spolia::counted::holders();
///     ...                                            // some time later
///     who = spolia::counted::holders(who);           // ages count from the first look
///     for (const auto& h : who) log(h.thread_name, h.object, h.age);
///
/// Bound:       each pin of each thread is read once; pins do nothing for it.
/// Thread safety: any number of threads may call it at once, beside everything. A thread may just
///              have left an object that is named here, or may still be about to check whether it
///              may hold it. So what is named is an address, and there need not be an object any
///              more. What two calls name, some time apart, is held.
/// Errors:      std::bad_alloc.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {

/// An object, and a thread that holds it by a private pointer, a walk or a view of a map.
struct holder {
  std::uint32_t thread;     ///< its number (threads.hpp)
  long os_thread;           ///< the system's number of it; 0 if it is not known
  std::string thread_name;  ///< the system's name of it; empty if it is not known
  const void* object;  ///< if make_shared, allocate_shared or make_thin made it; else its counts
  std::chrono::nanoseconds age;                ///< for at least so long; 0: not in `before`
  std::chrono::steady_clock::time_point seen;  ///< first
};

#if !defined(SPOLIA_MODEL)
SPOLIA_EXPORT std::vector<holder> counted_holders(const std::vector<holder>& before);
#endif

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted {

using core::holder;

#if !defined(SPOLIA_MODEL)
/// What is held now, the longest first; `before` is what an earlier call has returned.
[[nodiscard]] inline std::vector<holder> holders(const std::vector<holder>& before = {}) {
  return core::counted_holders(before);
}
#endif

}  // namespace counted
}  // namespace spolia::inline SPOLIA_FLAVOUR
