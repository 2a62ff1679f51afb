// SPDX-License-Identifier: Apache-2.0
/// \file
/// Every collector, with every kind of timeline, for typed tests.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/reclaim.hpp>
#include <spolia/snapshot.hpp>

#include "support/few_types.hpp"
#include "support/schemes.hpp"

namespace spolia::test {

using on_update = basic_timeline<logical_clock, stamping::on_update>;
using by_hardware = basic_timeline<hardware_clock>;

/// What a suite is tested over, be it a collector or something that has one.
template <class T>
struct collector_in {
  using type = T;
};
template <class T>
  requires requires { typename T::collector; }
struct collector_in<T> {
  using type = typename T::collector;
};
template <class T>
  requires requires { typename T::collector_type; }
struct collector_in<T> {
  using type = typename T::collector_type;
};

namespace completed {
template <class Collector, class... Chosen>
inline constexpr bool among =
    ((collector_in<Chosen>::type::info.name == Collector::info.name) || ...);

/// Joined types, as an argument of Parted.
template <template <std::size_t, class...> class Parted, std::size_t Few, class Types>
struct parted;
template <template <std::size_t, class...> class Parted, std::size_t Few, class... T>
struct parted<Parted, Few, testing::Types<T...>> {
  using type = Parted<Few, T...>;
};

template <template <class> class Make, class... Chosen>
struct with_others {
  template <class... Every>
  using list = typename join_types<
      testing::Types<Chosen...>,
      std::conditional_t<among<Every, Chosen...>, testing::Types<>, Make<Every>>...>::type;
};
}  // namespace completed

/// Parted<Few, Chosen...>, such as types<2, ...>, and of each collector in version/collectors.hpp
/// that none of the chosen has, the types of Make<Collector>: so a new collector is tested where
/// the others are.
template <template <std::size_t, class...> class Parted, std::size_t Few,
          template <class> class Make, class... Chosen>
using with_every_collector = typename completed::parted<
    Parted, Few, every_collector<completed::with_others<Make, Chosen...>::template list>>::type;

template <class Collector>
using itself = testing::Types<Collector>;

/// Of the first ones each collector once, and each kind of timeline, too.
using all_collectors =
    with_every_collector<types_where_cheap, 6, itself, epoch_collector<>, bbf<>,
                         dl_rt<domain<debra>, on_update>, sl_rt<>, steam<domain<debra>>,
                         dl_rt<domain<qsbr>, by_hardware>, dl_rt<>, steam<>,
                         epoch_collector<domain<debra>, on_update>, bbf<domain<debra>, on_update>,
                         sl_rt<domain<debra>, on_update>, sl_rt<domain<qsbr>, by_hardware>>;

/// What containers with snapshots are tested over: each collector once, each kind of timeline, too;
/// under a sanitizer one collector for each kind of list, since all meet it in the suites on
/// versions.
using map_collectors =
    with_every_collector<types_where_cheap, 3, itself, bbf<>, dl_rt<domain<debra>, on_update>,
                         sl_rt<domain<qsbr>, by_hardware>, epoch_collector<>, sl_rt<>, steam<>>;

struct collector_names {
  template <class Collector>
  static std::string GetName(int i) {
    return std::string(Collector::info.name) + "_" + std::to_string(i);
  }
};

/// Whether this machine has the clock.
template <class Collector>
bool usable() {
  using clock = typename Collector::timeline_type::clock_type;
  return !std::is_same_v<clock, hardware_clock> || hardware_clock::trusted();
}

/// Options with which everything happens as early as it can.
template <class Collector>
typename Collector::options eager_options() {
  typename Collector::options o;
  if constexpr (requires { o.batch; }) {
    o.batch = 8;
    o.steps = 6;
  } else {
    o.scan_period = {};
    o.owners = {.batch = 8, .steps = 6};
  }
  return o;
}

template <class Map>
inline constexpr bool is_hash = requires(Map& m) { m.buckets(); };

/// Buckets that divide soon, and collectors that look at once.
template <class Map>
auto eager_map() {
  typename Map::options o;
  o.collector = eager_options<typename Map::collector_type>();
  if constexpr (is_hash<Map>) {
    o.buckets = 1;
    o.load = 2;
  }
  return o;
}

/// How many versions may be held besides the current ones, if so many are needed or tracked: where
/// removed ones wait for their neighbours (list_tree.hpp), as many again as there are of both.
template <class Collector>
constexpr std::uint64_t may_hold(std::uint64_t current, std::uint64_t others) {
  return Collector::info.name == "bbf" ? current + 2 * others : others;
}

/// Objects of one type, with all they need; taken down in order.
template <class T, class Collector>
struct versioned_objects {
  using object = versioned<T, Collector>;

  explicit versioned_objects(typename Collector::options o = eager_options<Collector>())
      : versions(nodes, time, o) {}
  ~versioned_objects() {
    versions.close();
    for (auto& o : objects) o->clear(versions);
  }

  template <class... Arguments>
  object& make(Arguments&&... arguments) {
    objects.push_back(std::make_unique<object>(versions, std::forward<Arguments>(arguments)...));
    return *objects.back();
  }
  auto enter() { return versions.enter(); }

  typename Collector::domain_type nodes;
  typename Collector::timeline_type time;
  Collector versions;
  std::vector<std::unique_ptr<object>> objects;
};

}  // namespace spolia::test
