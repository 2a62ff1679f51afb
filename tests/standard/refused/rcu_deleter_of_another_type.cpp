// SPDX-License-Identifier: Apache-2.0
// A deleter must take the pointer.
#include <atomic>

#include <spolia/hazard_pointer.hpp>
#include <spolia/rcu.hpp>

struct node : spolia::hazard_pointer_obj_base<node> {};
struct item : spolia::rcu_obj_base<item> {};

void use([[maybe_unused]] spolia::hazard_pointer& h) {
#if defined(REFUSED)
  spolia::rcu_retire(new int, std::default_delete<item>());
#else
  spolia::rcu_retire(new int, std::default_delete<int>());
#endif
}
