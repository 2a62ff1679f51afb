// SPDX-License-Identifier: Apache-2.0
// What a scheme that makes reads start over protects, it protects in a read phase.
// refused: reads under this scheme may start over: protect in guard.read()
#include <spolia/reclaim.hpp>

bool use(spolia::domain<spolia::neutralization_plus>& nodes, const spolia::atomic<int*>& source) {
  auto guard = nodes.enter();
#if defined(REFUSED)
  const auto found = guard.protect(source);
#else
  const auto found = guard.read([&](auto& phase) { return phase.keep(phase.protect(source)); });
#endif
  return found != nullptr;
}
