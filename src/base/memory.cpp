// SPDX-License-Identifier: Apache-2.0
// memory.cpp: which allocator operator new calls.
#include <spolia/base/memory.hpp>

#include <dlfcn.h>

namespace spolia::core {

std::uint32_t frees_together() noexcept {
  // Found once: a search through all libraries takes microseconds.
  static const bool tcmalloc = dlsym(RTLD_DEFAULT, "tc_version") != nullptr;
  return tcmalloc ? 64 : 16;
}

}  // namespace spolia::core
