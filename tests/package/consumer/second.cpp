// SPDX-License-Identifier: Apache-2.0
#include "all.hpp"

const char* version_in_second() { return spolia::core::version(); }

std::uint32_t thread_in_second() { return spolia::threads::number(); }

void retire_in_second(spolia::domain<>& nodes, node* unlinked) {
  auto guard = nodes.enter();
  guard.retire(unlinked);
}

spolia::hazard_pointer hazard_in_second() { return spolia::make_hazard_pointer(); }

void region_in_second(bool open) {
  spolia::rcu_domain& domain = spolia::rcu_default_domain();
  open ? domain.lock() : domain.unlock();
}
