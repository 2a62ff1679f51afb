// SPDX-License-Identifier: Apache-2.0
// A shared object with a domain of its own and a static copy of the library, to be loaded and
// unloaded.

#include <atomic>

#include <spolia/reclaim.hpp>

#include "reclaim/plugin.hpp"

namespace {

std::atomic<int>* live = nullptr;

struct block : spolia::domain<>::header {
  block() { ++*live; }
  ~block() { --*live; }
};

spolia::domain<>& nodes() {
  static spolia::domain<> it;  // ends when the plugin is unloaded
  return it;
}

}  // namespace

extern "C" {
[[gnu::visibility("default")]] void plugin_count_in(std::atomic<int>* counter) { live = counter; }

[[gnu::visibility("default")]] void plugin_work(int count) {
  for (int i = 0; i < count; ++i) {
    auto* const fresh = nodes().make<block>();
    auto guard = nodes().enter();
    guard.retire(fresh);
  }
}
}
