// SPDX-License-Identifier: Apache-2.0
/// \file
/// Every scheme with every release policy, for typed tests:
///
///     TYPED_TEST_SUITE(contract, all_domains, domain_names);
///
/// and options that make schemes act at once instead of after thousands of operations.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include <spolia/reclaim.hpp>

#include "support/schemes.hpp"

namespace spolia::test {

/// Containers are written against ways of protecting (regions, regions of what is linked, pointers,
/// eras, regions that are left). Here is a scheme for each of them: for what one thread does, and
/// where a sanitizer makes everything slow. The schemes' own code meets the sanitizers in the
/// suites about domains, and all schemes meet every container where threads race, in a release
/// build: all but the token's first three forms, whose guards are the token's.
using domains_of_each_way =
    testing::Types<domain<token, amortized>, domain<robust_token, pooled>,
                   domain<hazard_pointers, pooled>, domain<hazard_eras, amortized>,
                   domain<neutralization_plus, batch>>;

/// Every scheme once, every policy several times: where policies hardly meet what is tested, and
/// in builds that take long.
#if defined(SPOLIA_TEST_EXTRA_SCHEMES_ONLY)
using some_domains = policies_for<schemes_under_test>::some;
#elif SPOLIA_TEST_FEW_TYPES && !SPOLIA_ASAN  // which sees into each scheme's code
using some_domains = domains_of_each_way;
#else
using some_domains = policies_for<schemes_under_test>::some;
#endif

#if defined(NDEBUG) && !SPOLIA_ASAN && !SPOLIA_TSAN && !SPOLIA_TEST_FEW_TYPES && \
    !SPOLIA_TEST_SOME_POLICIES && !defined(SPOLIA_TEST_EMULATED)
using all_domains = policies_for<schemes_under_test>::all;
#else
using all_domains = some_domains;
#endif

/// Do the scheme's threads have to keep running, or exit, for blocks to be freed?
template <class Scheme>
using waits_for_every_thread = std::bool_constant<std::is_same_v<Scheme, token_naive> ||
                                                  std::is_same_v<Scheme, token_pass_first> ||
                                                  std::is_same_v<Scheme, token_periodic>>;
template <class Scheme>
using waits_for_guards_only = std::bool_constant<!waits_for_every_thread<Scheme>::value>;

#if defined(SPOLIA_TEST_EXTRA_SCHEMES_ONLY)
using raced_domains = some_domains;
#elif SPOLIA_ASAN || SPOLIA_TSAN || SPOLIA_TEST_FEW_TYPES
using raced_domains = domains_of_each_way;
#else
using raced_domains = policies_for<only<waits_for_guards_only, schemes_under_test>::type>::some;
#endif

struct domain_names {
  template <class Domain>
  static std::string GetName(int) {
    return std::string(Domain::info().name) + "_" + std::string(Domain::release_type::name);
  }
};

template <class Domain>
inline constexpr bool needs_everybody = waits_for_every_thread<typename Domain::scheme_type>::value;

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
