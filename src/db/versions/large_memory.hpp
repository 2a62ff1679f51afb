// SPDX-License-Identifier: Apache-2.0
// large_memory.hpp: memory for what is large and met at random: rows, arrays of indexes; and what
// becomes of small blocks that are freed in great number.
//
// Idea:        a miss of the page tables costs as much as one of the cache. So what has a huge page
//              or more begins with one, and the system is asked for huge pages. If it has none,
//              nothing is lost.
#pragma once

#include <cstddef>
#include <cstdint>

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

/// Has glibc's allocator go over the small blocks that were freed in the calling thread's arena.
SPOLIA_EXPORT void go_over_freed_blocks() noexcept;

/// Gives the whole pages in there back to the system. Their addresses stay the caller's, and read
/// as zeros from then on, unless they are kept as they are: then it returns false.
#if defined(SPOLIA_MODEL)
inline bool give_pages_back(std::byte*, std::size_t) noexcept { return false; }
#else
SPOLIA_EXPORT bool give_pages_back(std::byte* memory, std::size_t bytes) noexcept;
#endif

/// What the calling thread frees of small blocks, and allocates again.
///
/// glibc's allocator only puts them aside. The next call that wants a kilobyte or more, of any
/// part of the program, goes over all of them, and joins each with its neighbours: for what 1024
/// commits have freed after a reader's end that took 13 ms. So a thread that has freed many has
/// that done, for a fraction of a millisecond at a time.
/// Only where they came from the thread's own arena: glibc has no call for those of others.
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
