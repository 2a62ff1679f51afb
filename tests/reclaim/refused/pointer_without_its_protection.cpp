// SPDX-License-Identifier: Apache-2.0
// A protection is no pointer, under the default scheme either: it would end unnoticed.
#include <spolia/reclaim.hpp>

struct guarded_node : spolia::domain<>::header {
  spolia::atomic<guarded_node*> next{nullptr};
};

bool use(spolia::domain<>& nodes, const spolia::atomic<guarded_node*>& head) {
  auto guard = nodes.enter();
#if defined(REFUSED)
  const guarded_node* const first = guard.protect(head);
#else
  const auto first = guard.protect(head);
#endif
  return first != nullptr && guard.protect(first->next) != nullptr;
}
