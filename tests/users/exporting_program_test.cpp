// SPDX-License-Identifier: Apache-2.0
// A program that exports the symbols of its static copy of the library, and a plugin that uses
// them.

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <thread>

#include <spolia/reclaim.hpp>

#include "support/sanitized.hpp"

namespace {

using namespace spolia;

/// Nothing of the plugin may stay in the program's lists.
TEST(exporting_program, goes_on_when_a_plugin_has_been_unloaded) {
#if SPOLIA_ASAN
  GTEST_SKIP() << "the address sanitizer ends a program in which two copies define one name";
#endif
  struct block : domain<>::header {};
  domain<> before;
  for (int round = 0; round < 3; ++round) {
    void* const plugin = dlopen(SPOLIA_EXPORTING_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(plugin, nullptr) << dlerror();
    using function = void (*)(domain<>&);
    const auto use = reinterpret_cast<function>(dlsym(plugin, "use_domain"));
    ASSERT_NE(use, nullptr) << dlerror();
    use(before);
    ASSERT_EQ(dlclose(plugin), 0);
    ASSERT_EQ(dlopen(SPOLIA_EXPORTING_PLUGIN, RTLD_NOW | RTLD_NOLOAD), nullptr)
        << "the test needs it to be gone";
    domain<> after;
    std::thread([&] {  // its end is told to all that listen
      auto guard = after.enter();
      guard.retire(after.make<block>());
    })
        .join();
    EXPECT_TRUE(after.drain());
  }
}

}  // namespace
