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
#include <fcntl.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/processor_list.hpp"
#endif

namespace spolia::core::inline SPOLIA_OF_VERSION {

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

// All of what follows goes to the kernel directly: a thread may be in a signal handler, and the C
// library's open() ends a thread that is cancelled.

/// As many processors as any kernel is built for: it refuses to fill a smaller set.
using processor_set = std::array<unsigned long, 128>;
constexpr std::size_t word_bits = sizeof(unsigned long) * 8;

bool has(const processor_set& set, std::size_t n) noexcept {
  return n < set.size() * word_bits && (set[n / word_bits] >> n % word_bits & 1U) != 0;
}

/// Lets the calling thread run on these only, and those of them that there are.
bool run_on(const processor_set& set) noexcept {
  return syscall(SYS_sched_setaffinity, 0, sizeof set, set.data()) == 0;
}

/// Those that are in use and that the calling thread may run on; none: it cannot be told.
processor_set own_processors() noexcept {
  processor_set own{};
  if (syscall(SYS_sched_getaffinity, 0, sizeof own, own.data()) <= 0) own.fill(0);
  return own;
}

/// Whether these are all that are in use; a thread may run on one that the calling thread may not
/// (cpuset), if that is in another control group. False if the kernel does not tell.
bool all_in_use_are_among(const processor_set& set) noexcept {
  const long file =
      syscall(SYS_openat, AT_FDCWD, "/sys/devices/system/cpu/online", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  std::array<char, 4096> text;
  const long length = syscall(SYS_read, file, text.data(), text.size());
  syscall(SYS_close, file);
  if (length <= 0 || text[static_cast<std::size_t>(length) - 1] != '\n') return false;  // not all
  return every_listed({text.data(), static_cast<std::size_t>(length)},
                      [&](std::uint32_t n) { return has(set, n); });
}

/// Runs on each processor in turn. Where the kernel puts this thread in another one's place, that
/// one's earlier stores are seen by all afterwards, and its later loads come later: a switch of
/// threads is a full barrier on its processor. A thread that did not run meanwhile has had such a
/// switch before. A processor that is not in use runs no thread, and one that begins or ends to be
/// in use meanwhile switches those that it runs. False: no thread's stores have been waited for.
bool run_everywhere() noexcept {
  processor_set all;
  all.fill(~0UL);
  const processor_set before = own_processors();
  if (!run_on(all)) return false;
  const processor_set reachable = own_processors();
  bool everywhere = all_in_use_are_among(reachable);
  for (std::size_t n = 0; everywhere && n < reachable.size() * word_bits; ++n) {
    if (!has(reachable, n)) continue;
    processor_set one{};
    one[n / word_bits] = 1UL << n % word_bits;
    everywhere = run_on(one);  // false: it is not in use any more, or was taken from us
  }
  // A thread without a wish has it again: else it would not come to processors that are added.
  if (before == reachable || !run_on(before)) run_on(all);
  return everywhere;
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

}  // namespace spolia::core::inline SPOLIA_OF_VERSION
