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
/// Tells it that much of this is not in use: else it would make huge pages of the rest.
SPOLIA_EXPORT void ask_for_small_pages(void* memory, std::size_t bytes) noexcept;

/// The size of a page of memory; a power of two.
SPOLIA_EXPORT std::size_t page_bytes() noexcept;
#if defined(__linux__)
inline constexpr bool gives_pages_back = true;
#else
inline constexpr bool gives_pages_back = false;  // the call may leave what was there
#endif
/// Gives what lies unused in the allocator back to the system, where that is glibc's, jemalloc,
/// gperftools' tcmalloc or mimalloc, in a library that is shared.
SPOLIA_EXPORT void give_free_memory_back() noexcept;

/// Gives the whole pages in there back to the system. Their addresses stay the caller's, and read
/// as zeros from then on, unless they are kept as they are: then it returns false.
#if defined(SPOLIA_MODEL)
inline bool give_pages_back(std::byte*, std::size_t) noexcept { return false; }
#else
SPOLIA_EXPORT bool give_pages_back(std::byte* memory, std::size_t bytes) noexcept;
#endif

/// So many bytes, which no thread has touched yet if they are many. Goes back by
/// memory::deallocate() with `align`. Throws std::bad_alloc.
inline void* large_memory(std::size_t bytes, std::size_t align) {
  void* const made = memory::allocate(bytes, align);
#if !defined(SPOLIA_MODEL)
  if (bytes >= huge_page) ask_for_huge_pages(made, bytes);
#endif
  return made;
}
inline void* large_memory(std::size_t bytes) { return large_memory(bytes, large_align(bytes)); }

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
