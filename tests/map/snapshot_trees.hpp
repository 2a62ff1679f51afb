// SPDX-License-Identifier: Apache-2.0
/// \file
/// Snapshot trees for the suites of all containers: each has a timeline of its own, and collects
/// as early as it can.
#pragma once

#include <cstddef>
#include <string>

#include <spolia/map/snapshot_tree.hpp>
#include <spolia/snapshot.hpp>

#include "map/subjects.hpp"
#include "support/few_types.hpp"
#include "version/all_collectors.hpp"

namespace spolia::test {

template <class Timeline>
struct owns_time {
  Timeline own_time;
};

template <class Key, class Value, class Collector, class Compare, std::size_t LeafPairs>
class eager_tree : private owns_time<typename Collector::timeline_type>,
                   public snapshot_tree<Key, Value, Collector, Compare, LeafPairs> {
  using tree = snapshot_tree<Key, Value, Collector, Compare, LeafPairs>;

 public:
  eager_tree() : tree(this->own_time, {.collector = eager_options<Collector>()}) {}
  explicit eager_tree(typename Collector::domain_type& d)
      : tree(d, this->own_time, {.collector = eager_options<Collector>()}) {}
};

/// Small leaves, so that few keys make a tree; 0: as large as one gets without asking.
template <template <class, class> class Collector, std::size_t LeafPairs>
struct trees_with {
  template <class Key, class Value, class Domain, class Compare>
  using of = eager_tree<Key, Value, Collector<Domain, timeline>, Compare, LeafPairs>;
};

template <template <class, class> class Collector, std::size_t LeafPairs, class Domain>
struct collector_in<subject<trees_with<Collector, LeafPairs>, Domain>> {
  using type = Collector<Domain, timeline>;
};

template <class Collector>
struct small_tree_with;
template <template <class, class> class Collector, class Domain, class Timeline>
struct small_tree_with<Collector<Domain, Timeline>> {
  using type = testing::Types<subject<trees_with<Collector, 2>, domain<token>>>;
};
template <class Collector>
using small_tree = typename small_tree_with<Collector>::type;

/// As map_collectors.
using tree_subjects = with_every_collector<types_where_cheap, 3, small_tree,
                                           subject<trees_with<sl_rt, 1>, domain<token>>,
                                           subject<trees_with<dl_rt, 0>, domain<debra, pooled>>,
                                           subject<trees_with<bbf, 3>, domain<token, pooled>>,
                                           subject<trees_with<epoch_collector, 0>, domain<token>>,
                                           subject<trees_with<steam, 4>, domain<debra>>>;
/// For the large suites, which take long to compile: one of each kind of list.
using main_tree_subjects = few_or_all<2, subject<trees_with<sl_rt, 4>, domain<token>>,
                                      subject<trees_with<dl_rt, 0>, domain<debra, pooled>>>;

struct tree_names {
  template <class Subject>
  static std::string GetName(int) {
    using tree = typename Subject::template of<int, int>;
    return std::string(tree::collector_type::info.name);
  }
};

}  // namespace spolia::test
