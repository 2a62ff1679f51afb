// SPDX-License-Identifier: Apache-2.0
// The number of a slot may be that of a protection.
// refused: a slot named by its number may be in use
#include <spolia/reclaim.hpp>

int use(spolia::domain<spolia::hazard_pointers>& nodes, const spolia::atomic<int*>& source) {
  auto guard = nodes.enter();
#if defined(REFUSED)
  return *guard.protect(source, 1);
#else
  return *guard.protect(source);
#endif
}
