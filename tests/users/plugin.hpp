// SPDX-License-Identifier: Apache-2.0
// What the plugin of shared_objects_test.cpp offers, under these names.
#pragma once

#include <atomic>

extern "C" {
/// The plugin counts the blocks here that it has made and not yet freed. To be called first.
void plugin_count_in(std::atomic<int>* counter);
/// Makes and retires `count` blocks in the plugin's own domain, on the calling thread.
void plugin_work(int count);
/// Puts `count` pairs into the plugin's own map, and takes every other one out again.
void plugin_use_map(int count);
}
