// SPDX-License-Identifier: Apache-2.0
// A shared object with a domain of its own and a static copy of the library, to be loaded and
// unloaded.

#include <atomic>

#include <spolia/map/abtree.hpp>
#include <spolia/reclaim.hpp>

#include "users/plugin.hpp"

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

struct counted {
  counted() { ++*live; }
  counted(const counted&) { ++*live; }
  counted& operator=(const counted&) = default;
  ~counted() { --*live; }
};

spolia::abtree<int, counted>& pairs() {
  static spolia::abtree<int, counted> it;
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

[[gnu::visibility("default")]] void plugin_use_map(int count) {
  for (int i = 0; i < count; ++i) {
    pairs().insert(i, counted());
    if (i % 2 == 0) pairs().erase(i);
  }
}
}
