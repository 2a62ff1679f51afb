// SPDX-License-Identifier: Apache-2.0
// The base must not be virtual.
#include <atomic>

#include <spolia/hazard_pointer.hpp>
#include <spolia/rcu.hpp>

struct node : spolia::hazard_pointer_obj_base<node> {};
struct item : spolia::rcu_obj_base<item> {};
struct shared : virtual spolia::rcu_obj_base<shared> {};
void use([[maybe_unused]] spolia::hazard_pointer& h) {
#if defined(REFUSED)
  (new shared)->retire();
#else
  (new item)->retire();
#endif
}
