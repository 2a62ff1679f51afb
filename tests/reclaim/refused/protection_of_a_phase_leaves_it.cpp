// SPDX-License-Identifier: Apache-2.0
// What was read in a phase is not protected after it, but for what is kept.
// refused: protections leave it by `return phase.keep(...)`
#include <spolia/reclaim.hpp>

bool use(spolia::domain<spolia::neutralization_plus>& nodes, const spolia::atomic<int*>& source) {
  auto guard = nodes.enter();
  const auto found = guard.read([&](auto& phase) {
#if defined(REFUSED)
    return phase.protect(source);
#else
    return phase.keep(phase.protect(source));
#endif
  });
  return found != nullptr;
}
