// SPDX-License-Identifier: Apache-2.0
// stamp_clock.cpp: may the hardware counter be trusted across processors?
#include "support/stamp_clock.hpp"

#include <fstream>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace spolia::test {
namespace {

#if defined(__x86_64__)
bool invariant() noexcept {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned power_management_leaf = 0x80000007U;
  constexpr unsigned invariant_counter_bit = 1U << 8;
  return __get_cpuid(power_management_leaf, &a, &b, &c, &d) != 0 &&
         (d & invariant_counter_bit) != 0;
}

// The kernel compares the processors' counters at boot and drops the clock source if they differ.
bool trusted_by_kernel() noexcept {
  try {
    std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    std::string source;
    return static_cast<bool>(file >> source) && source == "tsc";
  } catch (...) {
    return false;
  }
}

bool ask() noexcept { return invariant() && trusted_by_kernel(); }
#elif defined(__aarch64__)
bool ask() noexcept { return true; }  // the architecture has one system counter for all processors
#else
bool ask() noexcept { return false; }
#endif

}  // namespace

bool hardware_counter_is_global() noexcept {
  static const bool answer = ask();
  return answer;
}

}  // namespace spolia::test
