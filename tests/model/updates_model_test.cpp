// SPDX-License-Identifier: Apache-2.0
// Updates that go by the value that a key has, in every map under the model checker: none is lost,
// and none goes by a value that the key does not have any more.

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <spolia/map/abtree.hpp>
#include <spolia/map/avl.hpp>
#include <spolia/map/counted_bst.hpp>
#include <spolia/map/counted_btree.hpp>
#include <spolia/map/counted_btree_locked.hpp>
#include <spolia/map/counted_hash.hpp>
#include <spolia/map/counted_tree.hpp>
#include <spolia/map/external_bst.hpp>
#include <spolia/map/list.hpp>
#include <spolia/map/rlu_bst.hpp>
#include <spolia/map/rlu_list.hpp>
#include <spolia/map/snapshot_hash.hpp>
#include <spolia/map/snapshot_tree.hpp>
#include <spolia/reclaim/debra.hpp>
#include <spolia/reclaim/none.hpp>
#include <spolia/version/dl_rt.hpp>

#include "model/counted_scenarios.hpp"
#include "model/domain_scenarios.hpp"

// Maps have limits by time, which these do not ask for; the rate of the clock is not in this build
// variant.
double spolia::core::ns_per_tick() noexcept { return 1; }

namespace {

using namespace spolia;
using namespace spolia::test;
using enum update_result::outcome;

/// Not copied byte by byte: a stamp tells it from others, or the block that it lies in.
struct stamped_number {
  explicit(false) stamped_number(int n) : number(n) {}
  stamped_number(const stamped_number& other) : number(other.number) {}
  stamped_number& operator=(const stamped_number&) = delete;
  ~stamped_number() { number = 0; }
  stamped_number& operator+=(int n) { return number += n, *this; }
  friend bool operator==(const stamped_number& a, int b) { return a.number == b; }
  int number;
};

template <template <class...> class Map, class Value>
struct in_a_domain {
  Map<int, Value, domain<none>>& map() { return *m; }
  void end() { m.reset(); }
  domain<none> home{};
  std::optional<Map<int, Value, domain<none>>> m{std::in_place, home};
};
template <class Key, class Value, class Domain>
using small_abtree = abtree<Key, Value, Domain, std::less<Key>, 3>;

using short_domain = domain<debra, batch>;
template <template <class...> class Map, class Value>
struct on_a_timeline {
  using type = Map<int, Value, dl_rt<short_domain>>;
  type& map() { return *m; }
  void end() { m.reset(); }
  short_domain home{typename short_domain::options{.scheme = {.scan_every = 1, .min_looks = 1}}};
  typename type::timeline_type time{};
  std::optional<type> m{std::in_place, home, time};
};
template <class Key, class Value, class Collector>
using hash_of_snapshots = snapshot_hash<Key, Value, Collector>;
template <class Key, class Value, class Collector>
using tree_of_snapshots = snapshot_tree<Key, Value, Collector>;

template <template <class...> class Map, class Value>
struct in_an_rlu_domain {
  Map<int, Value>& map() { return *m; }
  void end() { m.reset(); }
  rlu::domain home{};
  std::optional<Map<int, Value>> m{std::in_place, home};
};

template <template <class...> class Map, class Value>
struct over_counted_pointers : counted_state {
  Map<int, Value>& map() { return *m; }
  void end() {
    m.reset();
    counted_state::end();
  }
  std::optional<Map<int, Value>> m{std::in_place};
};

constexpr auto one_more = [](auto& n) { n += 1; };

template <class World>
std::shared_ptr<World> with_key_1() {
  auto w = std::make_shared<World>();
  w->map().insert(1, 10);
  return w;
}
template <class World>
bool is(World& w, int key, std::optional<int> expected) {
  const auto there = w.map().find(key);
  return there.has_value() == expected.has_value() && (!there || *there == *expected);
}

/// Both count.
template <class World>
void two_count(model::scenario& run) {
  auto w = with_key_1<World>();
  for (int t = 0; t < 2; ++t) {
    run.thread([=] { model::check(w->map().update(1, one_more) == updated, "1 was there"); });
  }
  run.finally([=] {
    model::check(is(*w, 1, 12), "an update is lost");
    w->end();
  });
}

/// Both count, and one of them has to put the key in.
template <class World>
void two_begin(model::scenario& run) {
  auto w = with_key_1<World>();
  auto did = std::make_shared<std::array<update_result, 2>>();
  for (auto& mine : *did) {
    run.thread([=, &mine] { mine = w->map().upsert(2, one_more, 1); });
  }
  run.finally([=] {
    model::check((*did)[0] != (*did)[1], "one of them has put it in");
    model::check(is(*w, 2, 2), "an update is lost");
    w->end();
  });
}

/// The value is counted up while the key goes, and comes back with another.
template <class World>
void counted_while_it_comes_and_goes(model::scenario& run) {
  auto w = with_key_1<World>();
  auto did = std::make_shared<update_result>();
  run.thread([=] { *did = w->map().update(1, one_more); });
  run.thread([=] {
    model::check(w->map().extract(1).has_value(), "1 was there");
    model::check(w->map().insert(1, 20), "1 was gone");
  });
  run.finally([=] {
    const bool late = *did == updated && is(*w, 1, 21);
    model::check(late || is(*w, 1, 20), "an update goes by a value that has gone");
    w->end();
  });
}

/// The key goes if its value is 10, and is counted up.
template <class World>
void erased_if_not_counted(model::scenario& run) {
  auto w = with_key_1<World>();
  auto did = std::make_shared<std::array<update_result, 2>>();
  run.thread([=] { (*did)[0] = w->map().erase_if(1, [](const auto& n) { return n == 10; }); });
  run.thread([=] { (*did)[1] = w->map().update(1, one_more); });
  run.finally([=] {
    const bool first = (*did)[0] == erased && (*did)[1] == absent && is(*w, 1, {});
    const bool second = (*did)[0] == unchanged && (*did)[1] == updated && is(*w, 1, 11);
    model::check(first || second, "an update goes by a value that has gone");
    w->end();
  });
}

template <class World>
void expect_right(const model::options& how) {
  for (const auto scenario :
       {two_count<World>, two_begin<World>, counted_while_it_comes_and_goes<World>,
        erased_if_not_counted<World>}) {
    expect_clean(scenario, how);
  }
  const char* const fault = "map.any_value_will_do";
  expect_found(two_count<World>, fault, how, "an update is lost");
  expect_found(counted_while_it_comes_and_goes<World>, fault, how, "a value that has gone");
  expect_found(erased_if_not_counted<World>, fault, how, "a value that has gone");
}

TEST(updates_model, of_a_list) {
  expect_right<in_a_domain<list, int>>(at_most(1));
  expect_right<in_a_domain<list, stamped_number>>(at_most_in_order(2));
}
TEST(updates_model, of_an_external_bst) {
  expect_right<in_a_domain<external_bst, int>>(at_most(1));
  expect_right<in_a_domain<external_bst, stamped_number>>(at_most_in_order(2));
}
TEST(updates_model, of_an_avl) {
  expect_right<in_a_domain<avl, int>>(at_most(1));
  expect_right<in_a_domain<avl, stamped_number>>(at_most_in_order(2));
}
TEST(updates_model, of_an_abtree) {
  expect_right<in_a_domain<small_abtree, int>>(at_most(1));
  expect_right<in_a_domain<small_abtree, stamped_number>>(at_most_in_order(2));
}
TEST(updates_model, of_a_snapshot_hash) {
  expect_right<on_a_timeline<hash_of_snapshots, int>>(at_most_in_order(1));
  expect_right<on_a_timeline<hash_of_snapshots, stamped_number>>(at_most_in_order(1));
}
TEST(updates_model, of_a_snapshot_tree) {
  expect_right<on_a_timeline<tree_of_snapshots, int>>(at_most_in_order(1));
  expect_right<on_a_timeline<tree_of_snapshots, stamped_number>>(at_most_in_order(1));
}
TEST(updates_model, of_maps_over_read_log_update) {
  expect_right<in_an_rlu_domain<rlu_list, int>>(at_most_in_order(1));
  expect_right<in_an_rlu_domain<rlu_bst, stamped_number>>(at_most_in_order(1));
}
TEST(updates_model, of_maps_over_counted_pointers) {
  expect_right<over_counted_pointers<counted_hash, int>>(at_most_in_order(1));
  expect_right<over_counted_pointers<counted_hash, stamped_number>>(at_most_in_order(1));
  expect_right<over_counted_pointers<counted_bst, stamped_number>>(at_most_in_order(1));
  expect_right<over_counted_pointers<counted_tree, stamped_number>>(at_most_in_order(1));
  expect_right<over_counted_pointers<counted_btree, int>>(at_most_in_order(1));
  expect_right<over_counted_pointers<counted_btree, stamped_number>>(at_most_in_order(1));
  expect_right<over_counted_pointers<counted_btree_locked, stamped_number>>(at_most_in_order(1));
}

}  // namespace
