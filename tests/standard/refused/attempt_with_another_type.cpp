// SPDX-License-Identifier: Apache-2.0
// try_protect takes a pointer of the source's type.
#include <atomic>

#include <spolia/hazard_pointer.hpp>
#include <spolia/rcu.hpp>

struct node : spolia::hazard_pointer_obj_base<node> {};
struct item : spolia::rcu_obj_base<item> {};

void use([[maybe_unused]] spolia::hazard_pointer& h) {
#if defined(REFUSED)
  std::atomic<node*> a;
  item* p = nullptr;
  h.try_protect(p, a);
#else
  std::atomic<node*> a;
  node* p = nullptr;
  h.try_protect(p, a);
#endif
}
