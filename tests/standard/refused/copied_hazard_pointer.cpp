// SPDX-License-Identifier: Apache-2.0
// A hazard_pointer can be moved, not copied.
#include <atomic>

#include <spolia/hazard_pointer.hpp>
#include <spolia/rcu.hpp>

struct node : spolia::hazard_pointer_obj_base<node> {};
struct item : spolia::rcu_obj_base<item> {};

void use([[maybe_unused]] spolia::hazard_pointer& h) {
#if defined(REFUSED)
  spolia::hazard_pointer copy(h);
#else
  spolia::hazard_pointer copy(std::move(h));
#endif
}
