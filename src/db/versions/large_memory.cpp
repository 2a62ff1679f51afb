// SPDX-License-Identifier: Apache-2.0
// large_memory.cpp: asking for huge pages.
#include "db/versions/large_memory.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

void ask_for_huge_pages([[maybe_unused]] void* memory,
                        [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(__linux__)
  ::madvise(memory, bytes, MADV_HUGEPAGE);
#endif
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
