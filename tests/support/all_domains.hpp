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

namespace spolia::test {

template <class... Schemes>
struct every_policy {
  template <class... Lists>
  struct join;
  template <class... A>
  struct join<testing::Types<A...>> {
    using type = testing::Types<A...>;
  };
  template <class... A, class... B, class... Rest>
  struct join<testing::Types<A...>, testing::Types<B...>, Rest...>
      : join<testing::Types<A..., B...>, Rest...> {};

  template <class Scheme>
  using policies =
      testing::Types<domain<Scheme, batch>, domain<Scheme, amortized>, domain<Scheme, pooled>>;
  using type = typename join<policies<Schemes>...>::type;
};

/// Containers are written against ways of protecting (regions, pointers, regions of what is linked,
/// eras, regions that are left). Here is a scheme for each of them, for what one thread does. Of
/// each day's stages the address sanitizer's has the first two, and the release stage the others.
using domains_of_each_way = types<2, domain<token, amortized>, domain<hazard_pointers, pooled>,
                                  domain<robust_token, pooled>, domain<hazard_eras, amortized>,
                                  domain<neutralization_plus, batch>>;

/// Every scheme once, every policy several times: where policies hardly meet what is tested, and
/// in builds that take long. Where types are few, the first ones.
template <std::size_t Few>
using first_domains =
    few_or_all<Few, domain<token, amortized>, domain<robust_token, pooled>,
               domain<hazard_pointers, pooled>, domain<hazard_eras, amortized>,
               domain<neutralization_plus, batch>, domain<debra, batch>,
               domain<quiescent, amortized>, domain<reservations, pooled>, domain<intervals, batch>,
               domain<wait_free_eras, pooled>, domain<neutralization, amortized>,
               domain<none, pooled>, domain<token_naive, batch>, domain<token_pass_first, pooled>,
               domain<token_periodic, amortized>>;

/// In some_domains the sanitizers look into each scheme's code; in few_domains they do not, where
/// what a scheme does there, it does in the suites over some_domains, too.
#if SPOLIA_ASAN || SPOLIA_TSAN
using some_domains = first_domains<15>;
#else
using some_domains = first_domains<5>;
#endif
using few_domains = first_domains<5>;

#if defined(NDEBUG) && !SPOLIA_ASAN && !SPOLIA_TSAN && !SPOLIA_TEST_FEW_TYPES && \
    !SPOLIA_TEST_SOME_POLICIES && !defined(SPOLIA_TEST_EMULATED)
using all_domains =
    every_policy<token, robust_token, debra, quiescent, reservations, hazard_pointers, hazard_eras,
                 intervals, wait_free_eras, neutralization, neutralization_plus, none, token_naive,
                 token_pass_first, token_periodic>::type;
#else
using all_domains = some_domains;
#endif

/// Where threads race in a container. The schemes' own code meets the sanitizers in the suites
/// about domains. All schemes meet every container: all but the token's first three forms, whose
/// guards are the token's.
using raced_domains = types_where_cheap<
    5, domain<token, amortized>, domain<robust_token, pooled>, domain<hazard_pointers, pooled>,
    domain<hazard_eras, amortized>, domain<neutralization_plus, batch>, domain<debra, batch>,
    domain<quiescent, amortized>, domain<reservations, pooled>, domain<intervals, batch>,
    domain<wait_free_eras, pooled>, domain<neutralization, amortized>, domain<none, pooled>>;

struct domain_names {
  template <class Domain>
  static std::string GetName(int) {
    return std::string(Domain::info().name) + "_" + std::string(Domain::release_type::name);
  }
};

/// Do the scheme's threads have to keep running, or exit, for blocks to be freed?
template <class Domain>
inline constexpr bool needs_everybody =
    std::is_same_v<typename Domain::scheme_type, token_naive> ||
    std::is_same_v<typename Domain::scheme_type, token_pass_first> ||
    std::is_same_v<typename Domain::scheme_type, token_periodic>;

/// Options with which everything happens as early as it can.
template <class Domain>
typename Domain::options eager() {
  typename Domain::options o;
  if constexpr (requires { o.scheme.tick_every; }) o.scheme.tick_every = 1;
  if constexpr (requires { o.scheme.patience; }) o.scheme.patience = 0;
  if constexpr (requires { o.scheme.stall_after; }) o.scheme.stall_after = 1;
  if constexpr (requires { o.scheme.processors; }) o.scheme.processors = 1U << 20U;  // no crowd
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
