// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string_view>

#include "all.hpp"

namespace {

bool expect(bool good, const char* what) {
  std::printf("%-60s %s\n", what, good ? "yes" : "NO");
  return good;
}

bool retired_in_both_units() {
  int destroyed = 0;
  {
    spolia::domain<> nodes;
    auto guard = nodes.enter();
    guard.retire(new node(&destroyed));
    retire_in_second(nodes, new node(&destroyed));
  }
  return destroyed == 2;
}

struct protected_node : spolia::hazard_pointer_obj_base<protected_node> {};

/// Retires under a hazard pointer and a region of the other unit.
bool faces_in_both_units() {
  spolia::atomic<protected_node*> source(new protected_node);
  auto hazard = hazard_in_second();
  hazard.protect(source)->retire();
  const bool kept = !spolia::hazard_pointer_clean_up();
  hazard = spolia::hazard_pointer();
  region_in_second(true);
  spolia::rcu_retire(new int(1));
  region_in_second(false);
  spolia::rcu_barrier();
  return kept && spolia::hazard_pointer_clean_up() && spolia::rcu_garbage() == 0;
}

}  // namespace

int main() {
  const std::string_view headers = SPOLIA_VERSION_STRING;
  bool good = expect(headers == spolia::core::version(), "headers and library are one version");
  good &= expect(version_in_second() == spolia::core::version(), "both units use one library");
  good &= expect(thread_in_second() == spolia::threads::number(), "a thread has one number");
  good &= expect(retired_in_both_units(), "nodes retired in both units are destroyed");
  good &= expect(faces_in_both_units(), "both units use the same default domains");
  return good ? 0 : 1;
}
