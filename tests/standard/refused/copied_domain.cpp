// SPDX-License-Identifier: Apache-2.0
// A domain cannot be copied.
#include <atomic>

#include <spolia/hazard_pointer.hpp>
#include <spolia/rcu.hpp>

struct node : spolia::hazard_pointer_obj_base<node> {};
struct item : spolia::rcu_obj_base<item> {};

void use([[maybe_unused]] spolia::hazard_pointer& h) {
#if defined(REFUSED)
  spolia::rcu_domain copy(spolia::rcu_default_domain());
#else
  spolia::rcu_domain& same(spolia::rcu_default_domain());
  same.lock();
  same.unlock();
#endif
}
