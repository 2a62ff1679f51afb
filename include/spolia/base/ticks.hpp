// SPDX-License-Identifier: Apache-2.0
/// \file
/// The processor's cycle or system counter, and how long one of its ticks is.
///
/// Thread safety: everything may be called by any thread. Errors: none. Memory: none.
/// Counters of different processors may be apart: hardware_clock in clock.hpp measures by how much.
#pragma once

#include <chrono>
#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {

/// Nanoseconds per tick, measured against std::chrono::steady_clock by the first call, which takes
/// two milliseconds; later calls are one load and a test.
SPOLIA_EXPORT double ns_per_tick() noexcept;

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {
namespace ticks {

/// Reads the counter, about 10 ns. The processor may read it a few instructions early or late.
SPOLIA_ALWAYS_INLINE std::uint64_t read() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t now;
  asm volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now;
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// Reads the counter after every earlier load of this thread has its value and before any later
/// instruction starts. Earlier stores may still be on their way to other processors: a caller that
/// needs them there first puts a fence between.
SPOLIA_ALWAYS_INLINE std::uint64_t read_in_order() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_lfence();
  const std::uint64_t now = __builtin_ia32_rdtsc();
  __builtin_ia32_lfence();
  return now;
#elif defined(__aarch64__)
  std::uint64_t now;
  asm volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(now) : : "memory");
  return now;
#else
  return read();
#endif
}

}  // namespace ticks
}  // namespace spolia::inline SPOLIA_FLAVOUR
