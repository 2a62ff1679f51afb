// SPDX-License-Identifier: Apache-2.0
// What the plugins of plugin_test.cpp and shared_test.cpp offer, and share with the program that
// loads them.
#pragma once

#include <atomic>

#include <spolia/hazard_pointer.hpp>
#include <spolia/rcu.hpp>

/// Counts itself where it was told to.
struct counted_node : spolia::hazard_pointer_obj_base<counted_node> {
  explicit counted_node(std::atomic<int>& counter) : live(&counter) { ++*live; }
  ~counted_node() { --*live; }
  std::atomic<int>* live;
};
struct counted_item : spolia::rcu_obj_base<counted_item> {
  explicit counted_item(std::atomic<int>& counter) : live(&counter) { ++*live; }
  ~counted_item() { --*live; }
  std::atomic<int>* live;
};

extern "C" {
/// Makes and retires `count` of each, on the calling thread.
void standard_plugin_work(std::atomic<int>* live, int count);
/// What a plugin has to do before it goes. Returns whether nothing of it waits any more.
bool standard_plugin_settle();
/// The address of the default domain of regions that the plugin sees.
const void* standard_plugin_domain();
/// Protects what stands there until the next call; a null source ends it.
void standard_plugin_protect(const std::atomic<counted_node*>* source);
}
