// SPDX-License-Identifier: Apache-2.0
// Schemes, policies and collectors are called what their types are called: a name out of a record,
// a report or a guide can be written into a program.

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <type_traits>

#include <spolia/deprecated.hpp>
#include <spolia/reclaim/schemes.hpp>
#include <spolia/snapshot.hpp>

namespace {

using namespace spolia;

/// The last part of a type's name, without template arguments.
template <class T>
std::string identifier() {
  std::string_view name = __PRETTY_FUNCTION__;
  name.remove_prefix(name.find("T = ") + 4);
  name = name.substr(0, name.find_first_of("<;]"));
  return std::string(name.substr(name.rfind(':') + 1));
}

/// The rings are one template, and have aliases.
template <class T>
void compare_name() {
  if (identifier<T>() == "token_ring") return;
  EXPECT_EQ(identifier<T>(), T::info.name);
}

template <class... Types>
struct names_of {
  static void compare() { (compare_name<Types>(), ...); }
};

TEST(names, of_schemes_are_those_of_their_types) {
  EXPECT_EQ(identifier<robust_token>(), "robust_token");
  every_scheme<names_of>::compare();
  EXPECT_EQ(token_naive::info.name, "token_naive");
  EXPECT_EQ(token_pass_first::info.name, "token_pass_first");
  EXPECT_EQ(token_periodic::info.name, "token_periodic");
}

TEST(names, of_collectors_are_those_of_their_types) { every_collector<names_of>::compare(); }

TEST(names, of_policies_are_those_of_their_types) {
  EXPECT_EQ(identifier<batch>(), batch::name);
  EXPECT_EQ(identifier<amortized>(), amortized::name);
  EXPECT_EQ(identifier<pooled>(), pooled::name);
}

TEST(names, that_have_changed_still_compile) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  EXPECT_TRUE((std::is_same_v<quiescent, qsbr>));
#pragma GCC diagnostic pop
}

}  // namespace
