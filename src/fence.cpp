// SPDX-License-Identifier: Apache-2.0
// The process-wide half of the asymmetric fence: registration with the kernel, and the barrier.

#include <spolia/base/fence.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <spolia/base/backoff.hpp>
#include <spolia/base/ticks.hpp>

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

bool barrier_by_the_kernel() noexcept {
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return true;
  // A process that was saved and restored has lost its registration.
  return errno == EPERM && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 &&
         membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

/// The kernel's own size of a set of processors, by its own call: any thread may be in a handler.
using processor_set = std::array<unsigned long, 128>;
constexpr std::size_t bits = sizeof(unsigned long) * 8;

/// Runs on each processor in turn. Where the kernel puts this thread in another one's place, that
/// one's earlier stores are seen by all afterwards, and its later loads come later: a switch of
/// threads is a full barrier on its processor. A thread that did not run meanwhile has had such a
/// switch before. False: there are processors that this thread may not run on.
bool run_everywhere() noexcept {
  processor_set before{};
  const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof before, before.data());
  if (bytes <= 0) return false;
  bool all = true;
  for (std::size_t n = 0; n < static_cast<std::size_t>(bytes) * 8; ++n) {
    processor_set one{};
    one[n / bits] = 1UL << n % bits;
    all &= syscall(SYS_sched_setaffinity, 0, bytes, one.data()) == 0;
  }
  syscall(SYS_sched_setaffinity, 0, bytes, before.data());
  return all;
}

/// Waits until the stores are seen by all that any processor has made before. No architecture says
/// how long one may keep a store to itself; what has been built takes microseconds.
void let_stores_arrive() noexcept {
  constexpr std::chrono::milliseconds ample{2};
  const std::uint64_t start = ticks::read();
  nap(ample);
  // If sleeping is not allowed either. Counted, too, where the counter stands.
  constexpr std::uint64_t least_ticks = 1'000'000;
  for (int i = 0; i < 1'000'000 && ticks::read() - start < least_ticks; ++i) cpu_relax();
}

/// See "Sandboxes" in fence.hpp.
void barrier_in_all_threads() noexcept {
  const int saved = errno;
  if (!barrier_by_the_kernel() && !run_everywhere()) let_stores_arrive();
  fence::full();
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
