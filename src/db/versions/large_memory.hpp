// SPDX-License-Identifier: Apache-2.0
// large_memory.hpp: memory for what is large and met at random: rows, arrays of indexes.
//
// Idea:        a miss of the page tables costs as much as one of the cache. So what has a huge page
//              or more begins with one, and the system is asked for huge pages. If it has none,
//              nothing is lost.
#pragma once

#include <cstddef>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/memory.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

inline constexpr std::size_t huge_page = std::size_t{2} << 20U;

/// What large_memory() is aligned to.
constexpr std::size_t large_align(std::size_t bytes) noexcept {
  return bytes >= huge_page ? huge_page : std::size_t{64};
}

/// Tells the system that this will be met at random.
SPOLIA_EXPORT void ask_for_huge_pages(void* memory, std::size_t bytes) noexcept;

/// So many bytes, which nobody has touched yet if they are many. Goes back by memory::deallocate()
/// with large_align(). Throws std::bad_alloc.
inline void* large_memory(std::size_t bytes) {
  void* const made = memory::allocate(bytes, large_align(bytes));
#if !defined(SPOLIA_MODEL)
  if (bytes >= huge_page) ask_for_huge_pages(made, bytes);
#endif
  return made;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
