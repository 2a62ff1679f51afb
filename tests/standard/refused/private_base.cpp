// SPDX-License-Identifier: Apache-2.0
// The base must be public.
#include <atomic>

#include <spolia/hazard_pointer.hpp>
#include <spolia/rcu.hpp>

struct node : spolia::hazard_pointer_obj_base<node> {};
struct item : spolia::rcu_obj_base<item> {};
struct hidden : private spolia::hazard_pointer_obj_base<hidden> {
  template <class = void>
  void go() {
    this->retire();
  }
};
void use([[maybe_unused]] spolia::hazard_pointer& h) {
#if defined(REFUSED)
  (new hidden)->go();
#else
  (new node)->retire();
#endif
}
