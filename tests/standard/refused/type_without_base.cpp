// SPDX-License-Identifier: Apache-2.0
// Only what has the base can be protected.
#include <atomic>

#include <spolia/hazard_pointer.hpp>
#include <spolia/rcu.hpp>

struct node : spolia::hazard_pointer_obj_base<node> {};
struct item : spolia::rcu_obj_base<item> {};
struct bare {};
void use([[maybe_unused]] spolia::hazard_pointer& h) {
#if defined(REFUSED)
  std::atomic<bare*> a;
  h.protect(a);
#else
  std::atomic<node*> a;
  h.protect(a);
#endif
}
