// SPDX-License-Identifier: Apache-2.0
// As for protect.
// refused: reads under this scheme may start over: step in guard.read()
#include <utility>

#include <spolia/reclaim.hpp>

bool use(spolia::domain<spolia::neutralization>& nodes, const spolia::atomic<int*>& source) {
  auto guard = nodes.enter();
  const auto linked = [] { return true; };
#if defined(REFUSED)
  spolia::domain<spolia::neutralization>::protected_ptr<int*> found;
  return guard.step(source, found, linked);
#else
  const auto found = guard.read([&](auto& phase) {
    auto here = phase.protect(source);
    static_cast<void>(phase.step(source, here, linked));
    return phase.keep(std::move(here));
  });
  return found != nullptr;
#endif
}
