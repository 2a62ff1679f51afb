// SPDX-License-Identifier: Apache-2.0
/// \file
/// Suites over many types are what takes longest to compile. Of each day's stages, those with a
/// sanitizer have the first few of the types (SPOLIA_FEW_TYPES), and the release stage has the
/// others (SPOLIA_OTHER_TYPES) with the first one: each type is in one of them, but where types are
/// very many. `./dev test --all` has all types in its stage clang.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "support/sanitized.hpp"

namespace spolia::test {

namespace shortened {
/// One in `./dev test --quick`.
constexpr std::size_t most(std::size_t few) {
#if SPOLIA_TEST_ONE_TYPE
  return (std::min)(few, std::size_t{1});
#else
  return few;
#endif
}

template <std::size_t Left, class Done, class... Types>
struct first {
  using type = Done;
};
template <std::size_t Left, class... Done, class T, class... Rest>
  requires(Left > 0)
struct first<Left, testing::Types<Done...>, T, Rest...>
    : first<Left - 1, testing::Types<Done..., T>, Rest...> {};

template <class Done, class... Rest>
struct every_second {
  using type = Done;
};
template <class... Done, class T>
struct every_second<testing::Types<Done...>, T> {
  using type = testing::Types<Done..., T>;
};
template <class... Done, class T, class LeftOut, class... Rest>
struct every_second<testing::Types<Done...>, T, LeftOut, Rest...>
    : every_second<testing::Types<Done..., T>, Rest...> {};

template <std::size_t Left, class... Types>
struct others;
template <class First, class... Rest>
struct others<1, First, Rest...> {
  using type = testing::Types<First, Rest...>;
  using half = typename every_second<testing::Types<First>, Rest...>::type;
};
template <std::size_t Left, class First, class Second, class... Rest>
  requires(Left > 1)
struct others<Left, First, Second, Rest...> : others<Left - 1, First, Rest...> {};
}  // namespace shortened

/// All of these types; or the first few; or the first one and those after the first few.
#if SPOLIA_TEST_FEW_TYPES
template <std::size_t Few, class... All>
using types = typename shortened::first<shortened::most(Few), testing::Types<>, All...>::type;
#elif SPOLIA_TEST_OTHER_TYPES
template <std::size_t Few, class... All>
using types = typename shortened::others<Few, All...>::type;
#else
template <std::size_t Few, class... All>
using types = testing::Types<All...>;
#endif

/// All, or the first few: where the release stage sees what no sanitizer's can, such as how much a
/// type keeps in memory.
#if SPOLIA_TEST_FEW_TYPES
template <std::size_t Few, class... All>
using few_or_all = types<Few, All...>;
#else
template <std::size_t Few, class... All>
using few_or_all = testing::Types<All...>;
#endif

/// The first few, or the others without the first one, or all.
#if SPOLIA_TEST_FEW_TYPES || !SPOLIA_TEST_OTHER_TYPES
template <std::size_t Few, class... All>
using parted = types<Few, All...>;
#else
template <std::size_t Few, class First, class... All>
using parted = types<Few, All...>;
#endif

/// As `types`, but the first few under each sanitizer, also where there is time: of all types, one
/// program would take more memory to compile than small machines have. Of the others, every second
/// one.
#if SPOLIA_TEST_OTHER_TYPES
template <std::size_t Few, class... All>
using types_where_cheap = typename shortened::others<Few, All...>::half;
#else
template <std::size_t Few, class... All>
using types_where_cheap =
    typename std::conditional_t<sanitized, shortened::first<Few, testing::Types<>, All...>,
                                std::type_identity<types<Few, All...>>>::type;
#endif

}  // namespace spolia::test
