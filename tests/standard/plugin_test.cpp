// SPDX-License-Identifier: Apache-2.0
// Shared objects that come and go while threads live that have used their hazard pointers and
// regions. Linked twice: with a static copy of the library in each plugin and in the program, and
// with one shared library for all (SPOLIA_TEST_ONE_LIBRARY).

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <spolia/hazard_pointer.hpp>
#include <spolia/rcu.hpp>

#include "standard/loaded.hpp"
#include "standard/plugin.hpp"
#include "support/parked_thread.hpp"

namespace {

using namespace spolia::test;

void use_own() {
  std::atomic<int> live{0};
  for (int i = 0; i < 20; ++i) {
    (new counted_node(live))->retire();
    const std::scoped_lock region(spolia::rcu_default_domain());
  }
  while (!spolia::hazard_pointer_clean_up()) continue;
  EXPECT_EQ(live.load(), 0);
}

TEST(standard_shared_objects, threads_outlive_the_plugins_that_they_have_used) {
  for (int round = 0; round < 3; ++round) {
    std::atomic<int> live{0};
    loaded first(SPOLIA_FIRST_PLUGIN);
    loaded second(SPOLIA_SECOND_PLUGIN);
    auto* const work = SPOLIA_TEST_PLUGIN_FUNCTION(first, standard_plugin_work);
    auto* const settle = SPOLIA_TEST_PLUGIN_FUNCTION(first, standard_plugin_settle);
    auto* const more_work = SPOLIA_TEST_PLUGIN_FUNCTION(second, standard_plugin_work);
    std::vector<std::unique_ptr<parked_thread>> users;
    for (int t = 0; t < 4; ++t) {
      users.push_back(std::make_unique<parked_thread>([&](parking_spot& spot) {
        work(&live, 100);
        more_work(&live, 100);
        spot.park();
        more_work(&live, 100);
      }));
    }
    EXPECT_GT(live.load(), 0) << "nothing waits: this test tests nothing";
    EXPECT_TRUE(settle()) << "the threads are idle";
    first.unload();
    users.clear();  // they end, with the first plugin gone
    EXPECT_TRUE(SPOLIA_TEST_PLUGIN_FUNCTION(second, standard_plugin_settle)());
    EXPECT_EQ(live.load(), 0);
    second.unload();
    use_own();
  }
}

#if defined(SPOLIA_TEST_ONE_LIBRARY)

TEST(standard_shared_objects, there_is_one_default_domain_in_a_process) {
  loaded first(SPOLIA_FIRST_PLUGIN);
  loaded second(SPOLIA_SECOND_PLUGIN);
  EXPECT_EQ(SPOLIA_TEST_PLUGIN_FUNCTION(first, standard_plugin_domain)(),
            &spolia::rcu_default_domain());
  EXPECT_EQ(SPOLIA_TEST_PLUGIN_FUNCTION(second, standard_plugin_domain)(),
            &spolia::rcu_default_domain());
}

TEST(standard_shared_objects, what_one_of_them_protects_the_others_do_not_free) {
  std::atomic<int> live{0};
  loaded first(SPOLIA_FIRST_PLUGIN);
  loaded second(SPOLIA_SECOND_PLUGIN);
  std::atomic<counted_node*> source(new counted_node(live));
  auto* const protect = SPOLIA_TEST_PLUGIN_FUNCTION(first, standard_plugin_protect);
  protect(&source);
  source.exchange(nullptr)->retire();
  EXPECT_FALSE(SPOLIA_TEST_PLUGIN_FUNCTION(second, standard_plugin_settle)());
  EXPECT_EQ(live.load(), 1);
  protect(nullptr);
  EXPECT_TRUE(SPOLIA_TEST_PLUGIN_FUNCTION(second, standard_plugin_settle)());
  EXPECT_EQ(live.load(), 0);
}

#endif

}  // namespace
