// SPDX-License-Identifier: Apache-2.0
/// \file
/// Suites over types with few of them (SPOLIA_FEW_TYPES): where a build takes long and finds what
/// goes wrong whatever the type is. The release and the thread sanitizer's stage have all types.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>

namespace spolia::test {

#if SPOLIA_TEST_FEW_TYPES
namespace shortened {
template <std::size_t Left, class Done, class... Types>
struct first {
  using type = Done;
};
template <std::size_t Left, class... Done, class T, class... Rest>
  requires(Left > 0)
struct first<Left, testing::Types<Done...>, T, Rest...>
    : first<Left - 1, testing::Types<Done..., T>, Rest...> {};
}  // namespace shortened

template <std::size_t Few, class... All>
using types = typename shortened::first<Few, testing::Types<>, All...>::type;
#else
/// All of these types, or the first few, which stand for the others.
template <std::size_t Few, class... All>
using types = testing::Types<All...>;
#endif

}  // namespace spolia::test
