// SPDX-License-Identifier: Apache-2.0
// What a reader costs that stops in the middle, under a scheme without a bound and under two with
// one; and which thread it is. The structure is the same code; only the domain's type differs.
#include <cstdint>
#include <cstdio>
#include <semaphore>
#include <thread>

#include <spolia/map/list.hpp>
#include <spolia/reclaim.hpp>

namespace {

/// Prints how much waits after a million replacements beside a reader that sleeps inside a guard.
template <class Scheme>
std::uint64_t garbage_beside_a_sleeper() {
  spolia::domain<Scheme> nodes;
  spolia::list<int, int, spolia::domain<Scheme>> map(nodes);
  std::binary_semaphore asleep{0};
  std::binary_semaphore awake{0};
  std::thread sleeper([&] {
    auto guard = nodes.enter("the sleeper");
    asleep.release();
    awake.acquire();
  });
  asleep.acquire();
  for (int i = 0; i < 1'000'000; ++i) map.insert_or_assign(0, i);
  const std::uint64_t waits = nodes.garbage();
  const auto pins = nodes.pins();
  awake.release();
  sleeper.join();
  std::printf("%-16s %7llu nodes wait", Scheme::info.name.data(),
              static_cast<unsigned long long>(waits));
  if (const auto bound = nodes.garbage_bound(2)) {
    std::printf("; at most %llu ever can\n", static_cast<unsigned long long>(*bound));
    return waits <= *bound ? waits : ~std::uint64_t{0};
  }
  if constexpr (!spolia::robust<Scheme>) {
    std::printf("; there is no bound");
    for (const auto& pin : pins) std::printf(", and %s holds them up", pin.label);
  }
  std::printf("\n");
  return waits;
}

}  // namespace

int main() {
  const std::uint64_t unbounded = garbage_beside_a_sleeper<spolia::token>();
  const std::uint64_t bounded = garbage_beside_a_sleeper<spolia::hazard_pointers>();
  const std::uint64_t robust = garbage_beside_a_sleeper<spolia::robust_token>();
  return bounded < unbounded && robust < unbounded ? 0 : 1;
}
