// SPDX-License-Identifier: Apache-2.0
/// \file
/// Every scheme with every release policy, for typed tests:
///
///     TYPED_TEST_SUITE(contract, all_domains, domain_names);
///
/// and options that make schemes act at once instead of after thousands of operations.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <type_traits>

#include <spolia/reclaim.hpp>

#include "support/few_types.hpp"
#include "support/schemes.hpp"

namespace spolia::test {

/// Containers are written against ways of protecting (regions, pointers, regions of what is linked,
/// eras, regions that are left). Here is a scheme for each of them, for what one thread does. Of
/// each day's stages the address sanitizer's has the first two, and the release stage the others.
using domains_of_each_way = types<2, domain<token, amortized>, domain<hazard_pointers, pooled>,
                                  domain<robust_token, pooled>, domain<hazard_eras, amortized>,
                                  domain<neutralization_plus, batch>>;

/// The same for a hash table over lists, which protects what the list protects: each day the
/// address sanitizer has one of them, and the list two.
using domains_of_a_list_hash = types<1, domain<hazard_pointers, pooled>, domain<token, amortized>,
                                     domain<robust_token, pooled>, domain<hazard_eras, amortized>,
                                     domain<neutralization_plus, batch>>;

namespace listed {

template <class Scheme>
inline constexpr bool stands_for_a_way =
    std::is_same_v<Scheme, token> || std::is_same_v<Scheme, robust_token> ||
    std::is_same_v<Scheme, hazard_pointers> || std::is_same_v<Scheme, hazard_eras> ||
    std::is_same_v<Scheme, neutralization_plus>;
/// Do the scheme's threads have to keep running, or exit, for blocks to be freed?
template <class Scheme>
inline constexpr bool waits_for_every_thread =
    std::is_same_v<Scheme, token_naive> || std::is_same_v<Scheme, token_pass_first> ||
    std::is_same_v<Scheme, token_periodic>;

template <class Scheme>
using is_another = std::bool_constant<!stands_for_a_way<Scheme>>;
template <class Scheme>
using is_another_that_waits_for_guards =
    std::bool_constant<!stands_for_a_way<Scheme> && !waits_for_every_thread<Scheme>>;

/// Domains over one scheme for each way, and then over the others, each with one policy.
template <template <class> class Others>
using each_way_and = typename join_types<
    testing::Types<domain<token, amortized>, domain<robust_token, pooled>,
                   domain<hazard_pointers, pooled>, domain<hazard_eras, amortized>,
                   domain<neutralization_plus, batch>>,
    typename policies_for<typename only<Others, schemes_under_test>::type>::some>::type;

template <std::size_t Few, class Types>
struct choice;
template <std::size_t Few, class... T>
struct choice<Few, testing::Types<T...>> {
  using few = few_or_all<Few, T...>;
  using where_cheap = types_where_cheap<Few, T...>;
};

}  // namespace listed

#if defined(SPOLIA_TEST_EXTRA_SCHEMES_ONLY)
using some_domains = policies_for<schemes_under_test>::some;
using few_domains = some_domains;
using all_domains = some_domains;
using raced_domains = some_domains;
#else
/// Over how many schemes containers are seen where they are few: one for each way. Of each day's
/// stages, the address sanitizer's has the token, the default scheme and hazard pointers; it sees
/// the others' code in the suites over some_domains, the contract's among them.
#if SPOLIA_ASAN && SPOLIA_TEST_EVERY_DAY
inline constexpr std::size_t few_schemes = 3;
#else
inline constexpr std::size_t few_schemes = 5;
#endif

/// Every scheme once, every policy several times: where policies hardly meet what is tested, and
/// in builds that take long. Where types are few, the first ones.
template <std::size_t Few>
using first_domains = listed::choice<Few, listed::each_way_and<listed::is_another>>::few;

/// In some_domains the sanitizers look into each scheme's code; in few_domains they do not, where
/// what a scheme does there, it does in the suites over some_domains, too.
#if SPOLIA_ASAN || SPOLIA_TSAN
using some_domains = listed::each_way_and<listed::is_another>;
#else
using some_domains = first_domains<5>;
#endif
using few_domains = first_domains<few_schemes>;

#if defined(NDEBUG) && !SPOLIA_ASAN && !SPOLIA_TSAN && !SPOLIA_TEST_FEW_TYPES && \
    !SPOLIA_TEST_SOME_POLICIES && !defined(SPOLIA_TEST_EMULATED)
using all_domains = policies_for<schemes_under_test>::all;
#else
using all_domains = some_domains;
#endif

/// Where threads race in a container. The schemes' own code meets the sanitizers in the suites
/// about domains. All schemes meet every container: all but the token's first three forms, whose
/// guards are the token's.
using raced_domains =
    listed::choice<few_schemes,
                   listed::each_way_and<listed::is_another_that_waits_for_guards>>::where_cheap;
#endif

struct domain_names {
  template <class Domain>
  static std::string GetName(int) {
    return std::string(Domain::info().name) + "_" + std::string(Domain::release_type::name);
  }
};

template <class Domain>
inline constexpr bool needs_every_thread =
    listed::waits_for_every_thread<typename Domain::scheme_type>;

/// Options with which everything happens as early as it can.
template <class Domain>
typename Domain::options eager() {
  typename Domain::options o;
  if constexpr (requires { o.scheme.tick_every; }) o.scheme.tick_every = 1;
  if constexpr (requires { o.scheme.patience; }) o.scheme.patience = 0;
  if constexpr (requires { o.scheme.stall_after; }) o.scheme.stall_after = 1;
  // Never oversubscribed.
  if constexpr (requires { o.scheme.processors; }) o.scheme.processors = 1U << 20U;
  if constexpr (requires { o.scheme.scan_every; }) o.scheme.scan_every = 1;
  if constexpr (requires { o.scheme.min_looks; }) o.scheme.min_looks = 1;
  if constexpr (requires { o.scheme.scan_at; }) o.scheme.scan_at = 1;
  if constexpr (requires { o.scheme.advance_every; }) o.scheme.advance_every = 1;
  if constexpr (requires { o.scheme.attempts; }) o.scheme.attempts = 0;
  if constexpr (requires { o.scheme.low; }) o.scheme.low = 1;
  if constexpr (requires { o.scheme.high; }) o.scheme.high = 2;
  return o;
}

/// drain() until nothing waits. True at once for schemes that never free.
template <class Domain>
bool drain_all(Domain& d) {
  if constexpr (!Domain::info().reclaims) return true;
  return d.drain();
}

}  // namespace spolia::test
