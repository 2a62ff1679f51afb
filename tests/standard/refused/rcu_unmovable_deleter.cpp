// SPDX-License-Identifier: Apache-2.0
// A deleter must be movable.
#include <atomic>

#include <spolia/hazard_pointer.hpp>
#include <spolia/rcu.hpp>

struct node : spolia::hazard_pointer_obj_base<node> {};
struct item : spolia::rcu_obj_base<item> {};
struct fixed {
  fixed() = default;
  fixed(fixed&&) = delete;
  void operator()(int* p) { delete p; }
};
void use([[maybe_unused]] spolia::hazard_pointer& h) {
#if defined(REFUSED)
  spolia::rcu_retire<int, fixed>(new int);
#else
  spolia::rcu_retire<int>(new int);
#endif
}
