// SPDX-License-Identifier: Apache-2.0
// One protection of a block is moved on. A second one is a second look, or announced.
#include <utility>

#include <spolia/reclaim.hpp>

int use(spolia::domain<>& nodes, const spolia::atomic<int*>& source) {
  auto guard = nodes.enter();
  auto first = guard.protect(source);
#if defined(REFUSED)
  const auto second = first;
#else
  const auto second = std::move(first);
#endif
  return *second;
}
