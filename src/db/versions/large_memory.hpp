// SPDX-License-Identifier: Apache-2.0
// large_memory.hpp: memory for large objects with random access, such as rows and arrays of
// indexes; and what is done about small blocks that are freed in great number.
//
// Idea:        a TLB miss costs as much as a cache miss. So memory of a huge page or more is
//              aligned to one, and the system is asked for huge pages. If it has none, nothing is
//              lost.
#pragma once

#include <cstddef>
#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/memory.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

inline constexpr std::size_t huge_page = std::size_t{2} << 20U;

/// The alignment of large_memory().
constexpr std::size_t large_align(std::size_t bytes) noexcept {
  return bytes >= huge_page ? huge_page : std::size_t{64};
}

/// Asks the system for huge pages, since the memory will be accessed at random.
SPOLIA_EXPORT void ask_for_huge_pages(void* memory, std::size_t bytes) noexcept;
/// Asks the system for no huge pages, since much of the memory is not in use: those would take up
/// the unused parts, too.
SPOLIA_EXPORT void ask_for_small_pages(void* memory, std::size_t bytes) noexcept;

/// The size of a page of memory; a power of two.
SPOLIA_EXPORT std::size_t page_bytes() noexcept;
#if defined(__linux__)
inline constexpr bool gives_pages_back = true;
#else
inline constexpr bool gives_pages_back = false;  // the call may leave the old contents
#endif
/// Makes the allocator give unused memory back to the system, if it is glibc's, jemalloc,
/// gperftools' tcmalloc or mimalloc, in a shared library.
SPOLIA_EXPORT void give_free_memory_back() noexcept;

/// Makes glibc's allocator join the small blocks that were freed in the calling thread's arena.
SPOLIA_EXPORT void go_over_freed_blocks() noexcept;

/// Gives the whole pages in this memory back to the system. Their addresses stay the caller's, and
/// read as zeros from then on. False: the pages are unchanged.
#if defined(SPOLIA_MODEL)
inline bool give_pages_back(std::byte*, std::size_t) noexcept { return false; }
#else
SPOLIA_EXPORT bool give_pages_back(std::byte* memory, std::size_t bytes) noexcept;
#endif

/// Counts the small blocks that the calling thread frees, less those that it allocates again.
///
/// glibc's allocator only puts freed small blocks aside. The next request for a kilobyte or more,
/// by any part of the program, goes over all of them, and joins each with its neighbours. For the
/// blocks that 1024 commits had freed after a reader's end, that took 13 ms. So a thread that has
/// freed many makes the allocator do it, for a fraction of a millisecond at a time. This helps only
/// for blocks of the thread's own arena: glibc has no call for those of others.
class small_blocks {
 public:
  static void taken() noexcept {
#if !defined(SPOLIA_MODEL)
    aside_ -= aside_ != 0 ? 1U : 0U;
#endif
  }
  static void freed() noexcept {
#if !defined(SPOLIA_MODEL)
    if (++aside_ >= most_aside) [[unlikely]]
      have_them_joined();
#endif
  }

 private:
  static constexpr std::uint32_t most_aside = 1024;
  static void have_them_joined() noexcept {
    aside_ = 0;
    go_over_freed_blocks();
  }
  static inline constinit thread_local std::uint32_t aside_ = 0;
};

/// Allocates so many bytes; if they are many, no page of them was touched yet. To be freed by
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
