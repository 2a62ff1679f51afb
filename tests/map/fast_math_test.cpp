// SPDX-License-Identifier: Apache-2.0
// Maps in a program that is compiled with -ffast-math: its keys are finite, and none may be lost.
#include "map/float_keys.hpp"

namespace {

using namespace spolia::test;

template <class Made>
struct fast_math_of_double : testing::Test {};
// Each day a map of each way to keep keys, and keys of one width: what the flags do, they do to
// comparisons.
#if SPOLIA_TEST_EVERY_DAY
using maps_of_double = float_maps<double>::some;
#else
using maps_of_double = float_maps<double>::all;
#endif
TYPED_TEST_SUITE(fast_math_of_double, maps_of_double);
TYPED_TEST(fast_math_of_double, keeps_finite_keys) {
  auto keys = small_keys<double, std::uint64_t>();
  for (int i = -500; i < 500; ++i) keys.push_back(i / 2.0);
  expect_all_kept<TypeParam>(keys);
}

#if !SPOLIA_TEST_EVERY_DAY
template <class Made>
struct fast_math_of_float : testing::Test {};
TYPED_TEST_SUITE(fast_math_of_float, float_maps<float>::some);
TYPED_TEST(fast_math_of_float, keeps_finite_keys) {
  auto keys = small_keys<float, std::uint32_t>();
  for (int i = -500; i < 500; ++i) keys.push_back(static_cast<float>(i) / 2);
  expect_all_kept<TypeParam>(keys);
}
#endif

TEST(fast_math, is_what_this_is_compiled_with) {
#if !defined(__FAST_MATH__)
  ADD_FAILURE() << "-ffast-math is missing";
#endif
}

}  // namespace
