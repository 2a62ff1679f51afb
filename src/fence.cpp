// SPDX-License-Identifier: Apache-2.0
// The process-wide half of the asymmetric fence: registration with the kernel, and the barrier.

#include <spolia/base/fence.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace spolia::core {

constinit std::atomic<bool> light_fence_is_free{false};

namespace {

// True once the process is registered. It is set BEFORE light fences become free, with a barrier in
// all threads in between, so that at every moment a free light fence meets heavy fences that call
// the kernel, even if some static constructor started threads before this file's ran.
constinit std::atomic<bool> registered{false};

#if defined(__linux__)

long membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0); }

void barrier_in_all_threads() noexcept {
  const int saved = errno;
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0) {
    // Cannot happen after registration; and going on without a barrier would free live memory.
    std::fputs("spolia: membarrier failed after registration\n", stderr);
    std::abort();
  }
  errno = saved;
}

bool register_process() noexcept {
  const char* wish = std::getenv("SPOLIA_MEMBARRIER");
  if (wish != nullptr && std::strcmp(wish, "off") == 0) return false;
  const long offered = membarrier(MEMBARRIER_CMD_QUERY);
  if (offered < 0 || (offered & MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return false;
  return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
}

#else

void barrier_in_all_threads() noexcept {}
bool register_process() noexcept { return false; }

#endif

// 101 is the first priority that is not reserved for the implementation: before the constructors of
// ordinary globals, which may already use fences.
[[gnu::constructor(101)]] void choose_fences() noexcept {
  if (!register_process()) return;
  registered.store(true, std::memory_order_relaxed);
  fence::full();
  barrier_in_all_threads();
  light_fence_is_free.store(true, std::memory_order_relaxed);
}

}  // namespace

void heavy_fence() noexcept {
  // The fence comes first: a heavy fence that still reads `registered` as false is then ordered
  // before the barrier in choose_fences(), hence before every free light fence.
  fence::full();
  if (registered.load(std::memory_order_relaxed)) barrier_in_all_threads();
}

}  // namespace spolia::core
