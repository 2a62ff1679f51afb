// SPDX-License-Identifier: Apache-2.0
// reset_protection takes protectable objects only.
#include <atomic>

#include <spolia/hazard_pointer.hpp>
#include <spolia/rcu.hpp>

struct node : spolia::hazard_pointer_obj_base<node> {};
struct item : spolia::rcu_obj_base<item> {};

void use([[maybe_unused]] spolia::hazard_pointer& h) {
#if defined(REFUSED)
  int i = 0;
  h.reset_protection(&i);
#else
  h.reset_protection(static_cast<node*>(nullptr));
#endif
}
