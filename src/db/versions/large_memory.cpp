// SPDX-License-Identifier: Apache-2.0
// large_memory.cpp: what the system is told of memory.
#include "db/versions/large_memory.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

/// The function of that name in whatever the program was linked or started with; null: there is
/// none.
template <class F>
F* function_of_allocator(const char* name) noexcept {
  return reinterpret_cast<F*>(::dlsym(RTLD_DEFAULT, name));
}

}  // namespace

void ask_for_huge_pages([[maybe_unused]] void* memory,
                        [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(__linux__)
  ::madvise(memory, bytes, MADV_HUGEPAGE);
#endif
}

void ask_for_small_pages([[maybe_unused]] void* memory,
                         [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(__linux__)
  ::madvise(memory, bytes, MADV_NOHUGEPAGE);
#endif
}

void give_free_memory_back() noexcept {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
  // Those that may stand before the system's have functions of their own for it. They are looked
  // for once, as a search through all libraries takes microseconds. By themselves they give little
  // back, or only in threads that go on allocating.
  using control = int(const char*, void*, std::size_t*, void*, std::size_t);
  static control* const jemalloc = function_of_allocator<control>("mallctl");
  if (jemalloc != nullptr) {
    jemalloc("thread.tcache.flush", nullptr, nullptr, nullptr, 0);
    jemalloc("arena.4096.purge", nullptr, nullptr, nullptr, 0);  // MALLCTL_ARENAS_ALL: of all
  }
  static auto* const tcmalloc = function_of_allocator<void()>("MallocExtension_ReleaseFreeMemory");
  if (tcmalloc != nullptr) tcmalloc();
  static auto* const mimalloc = function_of_allocator<void(bool)>("mi_collect");
  if (mimalloc != nullptr) mimalloc(true);
}

void go_over_freed_blocks() noexcept {
#if defined(__GLIBC__)
  // Too large for the cache of a thread. The compiler must not see that it is not used.
  constexpr std::size_t large = 3072;
  void* volatile block = std::malloc(large);
  std::free(block);
#endif
}

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

bool give_pages_back([[maybe_unused]] std::byte* memory,
                     [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(__linux__)
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t page = page_bytes();
  const std::uintptr_t from = (at + page - 1) / page * page;
  const std::uintptr_t end = (at + bytes) / page * page;
  // The system refuses it for memory that is locked.
  return from < end && ::madvise(memory + (from - at), end - from, MADV_DONTNEED) == 0;
#else
  return false;
#endif
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
