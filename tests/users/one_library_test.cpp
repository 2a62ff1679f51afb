// SPDX-License-Identifier: Apache-2.0
// A shared library, and plugins over it in the native and in the checked build variant, compiled
// with the compiler's own flags and with hidden symbols: what a process has one of is one for them
// and for the program.

#include <gtest/gtest.h>

#include <spolia/base/config.hpp>

#include "users/landlords.hpp"

namespace {

TEST(users_one_library, a_snapshot_of_the_program_sees_a_plugins_map) {
  native_landlord(SPOLIA_NATIVE_PLUGIN);
}
TEST(users_one_library, a_snapshot_of_the_program_sees_a_map_of_a_plugin_with_hidden_symbols) {
  native_landlord(SPOLIA_HIDDEN_PLUGIN);
}
/// So often as to use up the library's table of types, with 64 types each time.
TEST(users_one_library, a_plugin_with_types_of_its_own_is_loaded_again_and_again) {
  native_reloads(SPOLIA_HIDDEN_PLUGIN, 1025);
}
// The program has no copies of the library's variables, which such a plugin would not look for.
TEST(users_one_library, a_plugin_may_be_loaded_that_looks_for_names_in_its_own_libraries_first) {
#if SPOLIA_ASAN || SPOLIA_TSAN || !defined(RTLD_DEEPBIND)
  GTEST_SKIP() << "a sanitizer, which replaces functions, or the system does without";
#else
  native_landlord(SPOLIA_HIDDEN_PLUGIN, RTLD_DEEPBIND);
#endif
}
TEST(users_one_library, so_it_is_in_the_checked_flavour) {
  checked_landlord(SPOLIA_CHECKED_PLUGIN);
}

}  // namespace
