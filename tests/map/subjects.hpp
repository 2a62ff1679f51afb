// SPDX-License-Identifier: Apache-2.0
/// \file
/// Containers over domains, for suites that every container has to pass:
///
///     INSTANTIATE_TYPED_TEST_SUITE_P(list, map_stress, (raced_subjects<lists>),
///                                    subject_names);
///
/// A kind says how its maps are called, and which schemes can protect them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include <spolia/map.hpp>
#include <spolia/reclaim.hpp>

#include "support/all_domains.hpp"

namespace spolia::test {

/// `third` and `over_lists`: see raced_subjects.
struct lists {
  template <class Key, class Value, class Domain, class Compare>
  using of = list<Key, Value, Domain, Compare>;
  template <class Scheme>
  static constexpr bool protectable = scheme<Scheme>;
};

/// Of a small degree, so that it is rebalanced often.
struct abtrees {
  static constexpr std::size_t third = 0;
  template <class Key, class Value, class Domain, class Compare>
  using of = abtree<Key, Value, Domain, Compare, 4>;
  template <class Scheme>
  static constexpr bool protectable = protects_optimistic_search<Scheme>;
};

struct external_bsts {
  static constexpr std::size_t third = 1;
  template <class Key, class Value, class Domain, class Compare>
  using of = external_bst<Key, Value, Domain, Compare>;
  template <class Scheme>
  static constexpr bool protectable = protects_stepwise_search<Scheme>;
};

struct avls {
  static constexpr std::size_t third = 2;
  template <class Key, class Value, class Domain, class Compare>
  using of = avl<Key, Value, Domain, Compare>;
  template <class Scheme>
  static constexpr bool protectable = protects_regions<Scheme>;
};

/// A hash of all keys that suites have. Those that count comparisons meet in one place.
struct any_hash {
  template <class K>
  std::size_t operator()(const K& key) const {
    if constexpr (requires { std::hash<K>()(key); }) {
      return std::hash<K>()(key);
    } else if constexpr (requires { key.read(); }) {
      return static_cast<std::size_t>(key.read());
    } else {
      return 7;
    }
  }
};

/// With few buckets, so that some keys meet.
struct michael_hashes {
  static constexpr std::size_t third = 1;
  static constexpr bool over_lists = true;
  template <class Key, class Value, class Domain, class Compare>
  struct of : michael_hash<Key, Value, Domain, any_hash, Compare> {
    using base = michael_hash<Key, Value, Domain, any_hash, Compare>;
    of() : base(8) {}
    explicit of(Domain& shared) : base(shared, 8) {}
  };
  template <class Scheme>
  static constexpr bool protectable = scheme<Scheme>;
};

/// They grow early.
struct split_ordered_hashes {
  static constexpr std::size_t third = 2;
  static constexpr bool over_lists = true;
  template <class Key, class Value, class Domain, class Compare>
  struct of : split_ordered_hash<Key, Value, Domain, any_hash, Compare> {
    using base = split_ordered_hash<Key, Value, Domain, any_hash, Compare>;
    of() : base({.buckets = 1, .load = 1}) {}
    explicit of(Domain& shared) : base(shared, {.buckets = 1, .load = 1}) {}
  };
  template <class Scheme>
  static constexpr bool protectable = scheme<Scheme>;
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

namespace kept {
/// The first of the domains, and of the others every third, or all for a kind without a `third`.
template <class Kind, class Domains, class Places>
struct shared_out;
template <class Kind, class First, class... Domains, std::size_t... Place>
struct shared_out<Kind, testing::Types<First, Domains...>, std::index_sequence<Place...>> {
  static constexpr bool has(std::size_t place) {
    if constexpr (requires { Kind::third; }) return place % 3 == Kind::third;
    return true;
  }
  using type = typename join_types<
      testing::Types<First>,
      std::conditional_t<has(Place), testing::Types<Domains>, testing::Types<>>...>::type;
};
template <class Kind, class Domains>
struct each_day;
template <class Kind, class First, class... Domains>
struct each_day<Kind, testing::Types<First, Domains...>>
    : shared_out<Kind, testing::Types<First, Domains...>,
                 std::make_index_sequence<sizeof...(Domains)>> {};

#if SPOLIA_TEST_OTHER_TYPES
template <class Kind>
inline constexpr bool is_shared_out = true;
#else
template <class Kind>
inline constexpr bool is_shared_out = requires { Kind::over_lists; };
#endif
template <class Kind, class Domains>
using kept_each_day =
    std::conditional_t<is_shared_out<Kind>, each_day<Kind, Domains>, std::type_identity<Domains>>;
}  // namespace kept

/// Where threads race. Each day's release stage has the schemes that the sanitizers' do not have,
/// and optimises each pair of a scheme and a container: there every scheme meets the list, and the
/// trees share them out. Under each sanitizer the
/// hash tables over lists do: their nodes are protected as the list's are, which meets all of them.
#if SPOLIA_TEST_EVERY_DAY
template <class Kind>
using raced_subjects = subjects<Kind, typename kept::kept_each_day<Kind, raced_domains>::type>;
#else
template <class Kind>
using raced_subjects = subjects<Kind, raced_domains>;
#endif

struct subject_names {
  template <class Subject>
  static std::string GetName(int i) {
    return domain_names::GetName<typename Subject::domain_type>(i);
  }
};

/// Whether keys come in order.
template <class Map>
inline constexpr bool is_ordered = requires(const Map& m, const typename Map::key_type& key) {
  m.range(key, key, [](const auto&, const auto&) {});
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
