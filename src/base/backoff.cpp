// SPDX-License-Identifier: Apache-2.0
// backoff.cpp: how a thread that waits long gives the processor away.
#include <spolia/base/backoff.hpp>

#include <algorithm>
#include <array>
#include <thread>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#endif

namespace spolia::core::inline SPOLIA_OF_VERSION {
namespace {

using std::chrono::nanoseconds;

constexpr std::uint32_t yields = 192;
constexpr nanoseconds longest_nap{1000000};
// The naps that come before the longest.
constexpr std::array<nanoseconds, 6> growing{nanoseconds{20000},  nanoseconds{40000},
                                             nanoseconds{80000},  nanoseconds{160000},
                                             nanoseconds{320000}, nanoseconds{640000}};

}  // namespace

#if defined(__linux__)

/// By the kernel itself: the C library's call is a cancellation point, and callers are noexcept.
void nap(nanoseconds length) noexcept {
  const int saved = errno;
  struct timespec left{0, static_cast<long>(length.count())};
  while (syscall(SYS_nanosleep, &left, &left) != 0 && errno == EINTR) {
  }
  errno = saved;
}

#else

void nap(nanoseconds length) noexcept { std::this_thread::sleep_for(length); }

#endif

void give_way(std::uint32_t round) noexcept {
  if (round < yields) return std::this_thread::yield();
  const std::uint32_t naps = round - yields;
  nap(naps < growing.size() ? growing[naps] : longest_nap);
}

nanoseconds slept_in(std::uint32_t round) noexcept {
  nanoseconds::rep naps = round < yields ? 0 : round - yields;
  nanoseconds sum{0};
  for (const nanoseconds one : growing) {
    if (naps == 0) return sum;
    --naps;
    sum += one;
  }
  return sum + naps * longest_nap;
}

}  // namespace spolia::core::inline SPOLIA_OF_VERSION
