// SPDX-License-Identifier: Apache-2.0
// A shared object that uses the standard faces, to be loaded and unloaded.

#include "standard/plugin.hpp"

#include <atomic>
#include <mutex>

extern "C" {
[[gnu::visibility("default")]] void standard_plugin_work(std::atomic<int>* live, int count) {
  for (int i = 0; i < count; ++i) {
    spolia::hazard_pointer h = spolia::make_hazard_pointer();
    std::atomic<counted_node*> source(new counted_node(*live));
    h.protect(source)->retire();
    const std::scoped_lock region(spolia::rcu_default_domain());
    (new counted_item(*live))->retire();
  }
}

[[gnu::visibility("default")]] bool standard_plugin_settle() {
  spolia::rcu_barrier();
  return spolia::hazard_pointer_clean_up();
}

[[gnu::visibility("default")]] const void* standard_plugin_domain() {
  return &spolia::rcu_default_domain();
}

[[gnu::visibility("default")]] void standard_plugin_protect(
    const std::atomic<counted_node*>* source) {
  static spolia::hazard_pointer kept;
  kept = spolia::hazard_pointer();
  if (source == nullptr) return;
  kept = spolia::make_hazard_pointer();
  kept.protect(*source);
}
}
