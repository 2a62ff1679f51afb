// SPDX-License-Identifier: Apache-2.0
// processors.hpp: how many threads can run at once.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#include <unistd.h>
#endif

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

#if defined(__linux__)
/// How many processors the calling thread or the process's first one may run on; 0: unknown. The
/// first one, too, since a program may keep each of its threads on a processor of its own.
inline std::uint32_t allowed_processors() noexcept {
  using sets = std::array<cpu_set_t, 8>;  // of 1024 each: the system refuses what is too small
  constexpr std::size_t bytes = sizeof(sets);
  sets mine{};
  sets first{};
  if (sched_getaffinity(0, bytes, mine.data()) != 0) return 0;
  if (sched_getaffinity(getpid(), bytes, first.data()) == 0) {
    CPU_OR_S(bytes, mine.data(), mine.data(), first.data());
  }
  return static_cast<std::uint32_t>(CPU_COUNT_S(bytes, mine.data()));
}
#else
inline std::uint32_t allowed_processors() noexcept { return 0; }
#endif

}  // namespace detail

/// How many processors this process may run on just now (taskset, cpusets), at least 1; where the
/// system does not say, how many the machine has. Two system calls: domains ask when they are made.
/// Safe from any thread.
inline std::uint32_t processors() noexcept {
  if (const std::uint32_t allowed = detail::allowed_processors(); allowed != 0) return allowed;
  // Asked once: the C library reads a file of the kernel's for each answer. Once for each shared
  // object, it may be: they get the same answer.
  static const std::uint32_t there = (std::max)(std::thread::hardware_concurrency(), 1U);
  return there;
}

}  // namespace spolia::inline SPOLIA_FLAVOUR
