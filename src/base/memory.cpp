// SPDX-License-Identifier: Apache-2.0
// memory.cpp: which allocator operator new calls, and pages that go to the system.
#include <spolia/base/memory.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace spolia::core::inline SPOLIA_OF_VERSION {
namespace {

std::span<std::uint64_t> pages_within(void* at, std::size_t bytes) noexcept {
  const std::size_t page = page_bytes();
  const std::size_t before = (page - reinterpret_cast<std::uintptr_t>(at) % page) % page;
  if (bytes < before + page) return {};
  auto* const first = reinterpret_cast<std::uint64_t*>(static_cast<unsigned char*>(at) + before);
  return {first, (bytes - before) / page * page / sizeof(std::uint64_t)};
}
void forget(std::span<std::uint64_t> pages) noexcept {
#if defined(__linux__)  // elsewhere what is read then may be neither
  if (!pages.empty()) (void)madvise(pages.data(), pages.size_bytes(), MADV_DONTNEED);
#endif
}

}  // namespace

std::uint32_t frees_together() noexcept {
  // Found once: a search through all libraries takes microseconds.
  static const bool tcmalloc = dlsym(RTLD_DEFAULT, "tc_version") != nullptr;
  return tcmalloc ? 64 : 16;
}

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(std::max(::sysconf(_SC_PAGESIZE), 4096L));
  return bytes;
}
void forget_pages(void* at, std::size_t bytes) noexcept { forget(pages_within(at, bytes)); }
void forget_zero_pages(void* at, std::size_t bytes) noexcept {
  const auto all = pages_within(at, bytes);
  if (std::ranges::all_of(all, [](std::uint64_t w) { return w == 0; })) forget(all);
}

}  // namespace spolia::core::inline SPOLIA_OF_VERSION
