// SPDX-License-Identifier: Apache-2.0
// Two bases of the kind are one too many.
#include <atomic>

#include <spolia/hazard_pointer.hpp>
#include <spolia/rcu.hpp>

struct node : spolia::hazard_pointer_obj_base<node> {};
struct item : spolia::rcu_obj_base<item> {};
struct twice : item, spolia::rcu_obj_base<twice> {};
void use([[maybe_unused]] spolia::hazard_pointer& h) {
#if defined(REFUSED)
  static_cast<spolia::rcu_obj_base<twice>*>(new twice)->retire();
#else
  (new item)->retire();
#endif
}
