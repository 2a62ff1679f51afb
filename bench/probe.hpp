// SPDX-License-Identifier: Apache-2.0
// probe.hpp: one small operation, measured in a loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bench {

/// Keeps the compiler from moving memory accesses over this place, and from dropping what leads
/// here.
inline void touch() { asm volatile("" ::: "memory"); }
template <class T>
inline void use(const T& value) {
  asm volatile("" : : "r"(value) : "memory");
}

/// Nanoseconds that one call takes, of many.
template <class F>
double ns_each(F&& f) {
  constexpr std::uint32_t repeats = 1U << 20U;
  const auto start = std::chrono::steady_clock::now();
  for (std::uint32_t i = 0; i < repeats; ++i) f();
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double, std::nano>(end - start).count() / repeats;
}

struct probe {
  std::string scheme;
  std::string operation;
  std::function<double()> measure;
  std::vector<double> ns;
};

/// What adds the probes of other libraries. They put themselves here before main.
std::vector<void (*)(std::vector<probe>&)>& rival_probes();

}  // namespace bench
