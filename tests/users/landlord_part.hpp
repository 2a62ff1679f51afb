// SPDX-License-Identifier: Apache-2.0
// A program that looks into a plugin's map; a source that includes this says in which build variant
// (SPOLIA_CHECKS), and what the function is called (SPOLIA_TEST_LANDLORD).
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include <spolia/memory.hpp>

#include "users/landlords.hpp"
#include "users/tenant.hpp"

void SPOLIA_TEST_LANDLORD(const char* path, int how) {
  using namespace spolia::test;
  void* const plugin = dlopen(path, RTLD_NOW | how);
  ASSERT_NE(plugin, nullptr) << dlerror();
  const auto* const does = static_cast<const tenant*>(dlsym(plugin, "tenant_functions"));
  ASSERT_NE(does, nullptr) << dlerror();
  EXPECT_EQ(does->timeline(), &spolia::default_timeline());

  // One round is one value of all prices, so a snapshot that is right counts them all, and sees the
  // same values for as long as it lives: here, by code of the program, and there.
  prices* const map = does->make();
  does->change(*map, 0);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int round = 1; !stop.load(); ++round) does->change(*map, round);
  });
  for (int i = 0; i < 100; ++i) {
    const spolia::snapshot now("landlord");
    const std::string* const before = map->find(now, 5);
    if (before == nullptr) {
      ADD_FAILURE() << "the program's snapshot does not see the plugin's pairs";
      break;  // the writer has to be joined
    }
    const std::string copy = *before;
    std::this_thread::yield();
    EXPECT_EQ(map->size(now), static_cast<std::size_t>(price_count));
    const std::string* const after = map->find(now, 5);
    EXPECT_TRUE(after != nullptr && *after == copy);
    const long counted = does->count(*map, now);
    // Prices change one after the other: a snapshot may fall between two of them.
    EXPECT_TRUE(counted == price_count || counted == -1) << counted;
  }
  stop = true;
  writer.join();
  does->end(map);
  EXPECT_STREQ(does->work(0, 1, 20), nullptr);
  does->leave();
  while (!spolia::counted::drain()) continue;
  EXPECT_EQ(dlclose(plugin), 0);
}
