// SPDX-License-Identifier: Apache-2.0
/// \file
/// The schemes that typed tests are instantiated with: those of reclaim/schemes.hpp, and those that
/// the build adds with SPOLIA_EXTRA_SCHEMES.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>
#include <utility>

#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/schemes.hpp>

#if defined(SPOLIA_EXTRA_SCHEMES_HEADER)
#include SPOLIA_EXTRA_SCHEMES_HEADER
#endif

namespace spolia::test {

/// Types, and the schemes that the build adds; or the latter alone.
#if defined(SPOLIA_TEST_EXTRA_SCHEMES_ONLY)
template <class...>
using with_extra_schemes = testing::Types<SPOLIA_EXTRA_SCHEMES_NAMES>;
#elif defined(SPOLIA_EXTRA_SCHEMES_HEADER)
template <class... Schemes>
using with_extra_schemes = testing::Types<Schemes..., SPOLIA_EXTRA_SCHEMES_NAMES>;
#else
template <class... Schemes>
using with_extra_schemes = testing::Types<Schemes...>;
#endif

/// testing::Types of every scheme.
using schemes_under_test = every_scheme<with_extra_schemes>;

template <class... Lists>
struct join_types;
template <class... A>
struct join_types<testing::Types<A...>> {
  using type = testing::Types<A...>;
};
template <class... A, class... B, class... Rest>
struct join_types<testing::Types<A...>, testing::Types<B...>, Rest...>
    : join_types<testing::Types<A..., B...>, Rest...> {};

template <class Types, class Indices>
struct domains_of;
template <class... Schemes, std::size_t... N>
struct domains_of<testing::Types<Schemes...>, std::index_sequence<N...>> {
  template <class Scheme>
  using with_every_policy =
      testing::Types<domain<Scheme, batch>, domain<Scheme, amortized>, domain<Scheme, pooled>>;
  template <class Scheme, std::size_t Place>
  using with_one_policy =
      domain<Scheme, std::conditional_t<Place % 3 == 1, amortized,
                                        std::conditional_t<Place % 3 == 2, pooled, batch>>>;
  using all = typename join_types<with_every_policy<Schemes>...>::type;
  using some = testing::Types<with_one_policy<Schemes, N>...>;
};
template <class Types>
struct policies_for;
template <class... T>
struct policies_for<testing::Types<T...>>
    : domains_of<testing::Types<T...>, std::make_index_sequence<sizeof...(T)>> {};

/// Those of the schemes for which Wanted<Scheme>::value.
template <template <class> class Wanted, class Types>
struct only;
template <template <class> class Wanted, class... T>
struct only<Wanted, testing::Types<T...>>
    : join_types<std::conditional_t<Wanted<T>::value, testing::Types<T>, testing::Types<>>...> {};

}  // namespace spolia::test
