// SPDX-License-Identifier: Apache-2.0
// What is stored in an object names an object: a copy turns into its object's pointer, its address
// does not.
#include <spolia/rlu.hpp>

struct node {
  long key;
  spolia::rlu::ptr<node> next;
};

void use(spolia::rlu::domain& nodes, spolia::rlu::ptr<node> a, spolia::rlu::ptr<node> b) {
  nodes.update([&](auto& in) {
    auto first = in.try_lock(a);
    auto second = in.try_lock(b);
    if (!first || !second) return;
#if defined(REFUSED)
    first->next = &*second;
#else
    first->next = second;
#endif
  });
}
