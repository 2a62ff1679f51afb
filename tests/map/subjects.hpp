// SPDX-License-Identifier: Apache-2.0
/// \file
/// Containers over domains, for suites that every container has to pass:
///
///     INSTANTIATE_TYPED_TEST_SUITE_P(list, map_of_one_thread, (subjects<lists, raced_domains>),
///                                    subject_names);
///
/// A kind says how its maps are called, and which schemes can protect them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>

#include <spolia/map.hpp>
#include <spolia/reclaim.hpp>

#include "support/all_domains.hpp"

namespace spolia::test {

struct lists {
  template <class Key, class Value, class Domain, class Compare>
  using of = list<Key, Value, Domain, Compare>;
  template <class Scheme>
  static constexpr bool protectable = scheme<Scheme>;
};

/// Of a small degree, so that it is rebalanced often.
struct abtrees {
  template <class Key, class Value, class Domain, class Compare>
  using of = abtree<Key, Value, Domain, Compare, 4>;
  template <class Scheme>
  static constexpr bool protectable = protects_optimistic_search<Scheme>;
};

struct external_bsts {
  template <class Key, class Value, class Domain, class Compare>
  using of = external_bst<Key, Value, Domain, Compare>;
  template <class Scheme>
  static constexpr bool protectable = protects_stepwise_search<Scheme>;
};

struct avls {
  template <class Key, class Value, class Domain, class Compare>
  using of = avl<Key, Value, Domain, Compare>;
  template <class Scheme>
  static constexpr bool protectable = protects_regions<Scheme>;
};

/// One kind of container over one domain.
template <class Kind, class Domain>
struct subject {
  using domain_type = Domain;
  template <class Key, class Value, class Compare = std::less<Key>>
  using of = typename Kind::template of<Key, Value, Domain, Compare>;
};

namespace kept {
template <class Kind, class Done, class... Domains>
struct filter {
  using type = Done;
};
template <class Kind, class... Done, class Domain, class... Rest>
struct filter<Kind, testing::Types<Done...>, Domain, Rest...>
    : std::conditional_t<Kind::template protectable<typename Domain::scheme_type>,
                         filter<Kind, testing::Types<Done..., subject<Kind, Domain>>, Rest...>,
                         filter<Kind, testing::Types<Done...>, Rest...>> {};
template <class Kind, class Domains>
struct over;
template <class Kind, class... Domains>
struct over<Kind, testing::Types<Domains...>> : filter<Kind, testing::Types<>, Domains...> {};
}  // namespace kept

/// The kind over those of the domains that can protect it.
template <class Kind, class Domains>
using subjects = typename kept::over<Kind, Domains>::type;

struct subject_names {
  template <class Subject>
  static std::string GetName(int i) {
    return domain_names::GetName<typename Subject::domain_type>(i);
  }
};

/// To be called when no thread uses the map: if it can look itself over, it is sound.
template <class Map>
void expect_sound(const Map& m) {
  if constexpr (requires { m.audit(); }) {
    const auto found = m.audit();
    EXPECT_EQ(found.wrong, "");
    EXPECT_EQ(found.pairs, m.size_approx());
    if constexpr (requires { found.violations; }) {
      EXPECT_EQ(found.violations, 0U);
    }
  }
}

}  // namespace spolia::test
