// SPDX-License-Identifier: Apache-2.0
// A shared library, and plugins over it in the native and in the checked build variant, compiled
// with the compiler's own flags and with hidden symbols: what a process has one of is one for them
// and for the program.

#include <gtest/gtest.h>

#include "users/landlords.hpp"

namespace {

TEST(users_one_library, a_snapshot_of_the_program_sees_a_plugins_map) {
  native_landlord(SPOLIA_NATIVE_PLUGIN);
}
TEST(users_one_library, a_snapshot_of_the_program_sees_a_map_of_a_plugin_with_hidden_symbols) {
  native_landlord(SPOLIA_HIDDEN_PLUGIN);
}
TEST(users_one_library, so_it_is_in_the_checked_flavour) {
  checked_landlord(SPOLIA_CHECKED_PLUGIN);
}

}  // namespace
