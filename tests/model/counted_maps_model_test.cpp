// SPDX-License-Identifier: Apache-2.0
// Containers over counted pointers under the model checker: look-ups beside a writer whose changes
// replace what they walk in, and two writers.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <spolia/map/counted_bst.hpp>
#include <spolia/map/counted_btree.hpp>
#include <spolia/map/counted_btree_locked.hpp>
#include <spolia/map/counted_hash.hpp>
#include <spolia/map/counted_tree.hpp>

#include "model/counted_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

template <class Map>
struct map_state : counted_state {
  std::optional<Map> map{std::in_place};
  int lowest = 3;   // in the end all keys from this one
  int highest = 4;  // to this one are there
};

/// What reads look at is watched: it must be alive.
struct watched {
  explicit watched(int v) : value(v) {}
  watched(const watched& r) : value(r.value.read()) {}
  watched& operator=(const watched&) = delete;
  ~watched() { value.write(0); }
  plain<int> value;
};
using tree = counted_bst<int, watched>;
using locked_tree = counted_tree<int, watched>;
using pages = counted_btree<int, watched>;
using plain_pages = counted_btree<int, int>;
using locked_pages = counted_btree_locked<int, watched>;
using plain_locked_pages = counted_btree_locked<int, int>;
/// With this seed each of four keys has a chain of its own, so the cell that a look-up within a
/// look-up sees erased leads to no other, and goes in the epoch of its erasure.
struct table : counted_hash<int, watched> {
  table() : counted_hash({}, chains_apart) {}
  static constexpr std::uint64_t chains_apart = 1;
};

int number_of(const watched& v) { return v.value.read(); }
int number_of(int v) { return v; }

template <class Map>
using threads_of = void (*)(model::scenario&, const std::shared_ptr<map_state<Map>>&);

/// A key that is there all the time is found, and its value alive.
template <class Map>
void expect_there(const Map& map, int key) {
  const bool found =
      map.visit(key, [&](const auto& v) { model::check(number_of(v) == key, "its value"); });
  model::check(found, "it was there all the time");
}

template <class Map>
scenario_setup over(threads_of<Map> threads, const std::vector<int>& keys = {2, 1, 4, 3}) {
  return [threads, keys](model::scenario& run) {
    const auto s = std::make_shared<map_state<Map>>();
    for (int key : keys) s->map->insert(key, typename Map::mapped_type(key));
    threads(run, s);
    run.finally([s] {
      for (int key = s->lowest; key <= s->highest; ++key) expect_there(*s->map, key);
      s->map.reset();
      s->end();
    });
  };
}

/// In the tree: a node with two children goes, and what lies below is copied.
template <class Map>
void looked_up_beside_erase(model::scenario& run, const std::shared_ptr<map_state<Map>>& s) {
  run.thread([s] { expect_there(*s->map, 3); });
  run.thread([s] {
    model::check(s->map->erase(2), "it was there");
    s->epoch();
  });
}

/// A look-up within a look-up, whose value stays.
template <class Map>
void looked_up_within(model::scenario& run, const std::shared_ptr<map_state<Map>>& s) {
  s->highest = 3;
  run.thread([s] {
    s->map->visit(4, [&](const watched& v) {
      expect_there(*s->map, 3);
      model::check(v.value.read() == 4, "its value");
    });
  });
  run.thread([s] {
    model::check(s->map->erase(4), "it was there");
    s->epoch();
  });
}

/// The leaf, or the table, is full.
template <class Map>
void looked_up_beside_growth(model::scenario& run, const std::shared_ptr<map_state<Map>>& s) {
  run.thread([s] { expect_there(*s->map, 3); });
  run.thread([s] {
    model::check(s->map->insert(5, watched(5)), "it was not there");
    s->epoch();
  });
}

/// The table grows, and gets back to the one that it was.
void looked_up_beside_return(model::scenario& run, const std::shared_ptr<map_state<table>>& s) {
  s->highest = 3;
  run.thread([s] { expect_there(*s->map, 3); });
  run.thread([s] {
    s->map->insert(5, watched(5));
    s->map->erase(5);
    model::check(s->map->erase(1), "it was there");
    s->epoch();
  });
}

/// A leaf of a B+ tree is divided, and the key that is looked up goes to the new one; or the key
/// comes into a leaf that is there.
template <class Map>
void looked_up_beside_division(model::scenario& run, const std::shared_ptr<map_state<Map>>& s) {
  s->lowest = 1;
  s->highest = 3;
  run.thread([s] { expect_there(*s->map, 2); });
  run.thread([s] {
    using value = typename Map::mapped_type;
    model::check(s->map->insert(3, value(3)), "it was not there");
    s->epoch();
  });
}
template <class Map>
void looked_up_while_it_comes(model::scenario& run, const std::shared_ptr<map_state<Map>>& s) {
  s->lowest = 2;
  s->highest = 2;
  run.thread([s] {
    s->map->visit(2, [](const auto& v) { model::check(number_of(v) == 2, "its value"); });
  });
  run.thread([s] {
    using value = typename Map::mapped_type;
    model::check(s->map->insert(2, value(2)), "it was not there");
  });
}
/// Its leaf is empty then, and goes.
template <class Map>
void looked_up_beside_last_of_leaf(model::scenario& run, const std::shared_ptr<map_state<Map>>& s) {
  s->lowest = 2;
  s->highest = 3;
  run.thread([s] { expect_there(*s->map, 3); });
  run.thread([s] {
    model::check(s->map->erase(1), "it was there");
    s->epoch();
  });
}

template <class Map>
void two_writers(model::scenario& run, const std::shared_ptr<map_state<Map>>& s) {
  s->highest = 6;
  for (int key : {5, 6}) {
    run.thread([s, key] { model::check(s->map->insert(key, watched(key)), "it was absent"); });
  }
}

/// The node goes that leads to the key that is looked up, by the key or by its place in the order.
void looked_up_below_erased(model::scenario& run, const std::shared_ptr<map_state<locked_tree>>& s,
                            bool in_order) {
  s->highest = 3;
  run.thread([s, in_order] {
    if (!in_order) return expect_there(*s->map, 3);
    const auto next = s->map->upper_bound(2);
    model::check(next && next->first == 3, "it was there all the time");
  });
  run.thread([s] {
    model::check(s->map->erase(2), "it was there");
    s->epoch();
  });
}
void looked_up_below(model::scenario& run, const std::shared_ptr<map_state<locked_tree>>& s) {
  looked_up_below_erased(run, s, false);
}
void next_looked_up_below(model::scenario& run, const std::shared_ptr<map_state<locked_tree>>& s) {
  looked_up_below_erased(run, s, true);
}
/// A key comes in below a node that another thread takes out, or copies.
void inserted_beside_erase(model::scenario& run, const std::shared_ptr<map_state<locked_tree>>& s,
                           int erased) {
  s->lowest = 5;
  s->highest = 5;
  run.thread([s] { model::check(s->map->insert(5, watched(5)), "it was absent"); });
  run.thread([s, erased] { model::check(s->map->erase(erased), "it was there"); });
}
void inserted_below_erased(model::scenario& run, const std::shared_ptr<map_state<locked_tree>>& s) {
  inserted_beside_erase(run, s, 4);
}
void inserted_below_copied(model::scenario& run, const std::shared_ptr<map_state<locked_tree>>& s) {
  inserted_beside_erase(run, s, 2);
}
/// Two keys come, into one leaf, which has room for one; into one that has to be copied for it; or
/// into one that has to be divided.
template <int First>
void both_inserted(model::scenario& run, const std::shared_ptr<map_state<plain_locked_pages>>& s) {
  s->lowest = 1;
  s->highest = First + 1;
  for (int key : {First, First + 1})
    run.thread([s, key] { model::check(s->map->insert(key, key), "it was absent"); });
}
/// A key comes into a leaf that another thread finds empty, and takes out.
void inserted_beside_last_of_leaf(model::scenario& run,
                                  const std::shared_ptr<map_state<plain_locked_pages>>& s) {
  s->lowest = 0;
  s->highest = 0;
  run.thread([s] { model::check(s->map->insert(0, 0), "it was absent"); });
  run.thread([s] { model::check(s->map->erase(1), "it was there"); });
}
/// A leaf is taken out while others have objects ended.
void erased_beside_epoch(model::scenario& run,
                         const std::shared_ptr<map_state<plain_locked_pages>>& s) {
  s->lowest = 2;
  s->highest = 3;
  run.thread([s] { model::check(s->map->erase(1), "it was there"); });
  run.thread([s] {
    s->epoch();
    s->epoch();
  });
}
/// Its leaf is being divided: what is found by the order, and by a thread that has taken it out of
/// the new leaf.
void next_looked_up_beside_division(model::scenario& run,
                                    const std::shared_ptr<map_state<plain_locked_pages>>& s) {
  s->lowest = 1;
  s->highest = 3;
  run.thread([s] {
    const auto next = s->map->upper_bound(1);
    model::check(next && next->first == 2, "it was there all the time");
  });
  run.thread([s] { model::check(s->map->insert(3, 3), "it was not there"); });
}
void next_looked_up_after_erase(model::scenario& run,
                                const std::shared_ptr<map_state<plain_locked_pages>>& s) {
  s->highest = 3;
  run.thread([s] {
    model::check(s->map->erase(2), "it was there");
    const auto next = s->map->upper_bound(1);
    model::check(!next || next->first == 3, "it is no more");
  });
  run.thread([s] { model::check(s->map->insert(3, 3), "it was not there"); });
}
/// In the child of a fork in which a writer was lost, each of two writers wants its turn.
struct lost_turn {
  detail::map::writers turn;
  plain<int> changes{0};
};
void two_take_over(model::scenario& run) {
  threads::scenario_forks = 0;
  const auto s = std::make_shared<lost_turn>();
  s->turn.enter();
  threads::scenario_forks = 1;
  for (int i = 0; i < 2; ++i) {
    run.thread([s] {
      s->turn.enter();
      s->changes.write(s->changes.read() + 1);
      s->turn.leave();
    });
  }
  run.finally([s] { model::check(s->changes.read() == 2, "both have had it"); });
}

TEST(counted_maps_model, look_ups_beside_a_writer) {
  expect_clean(over<tree>(&looked_up_beside_erase<tree>), at_most(1));
  expect_clean(over<pages>(&looked_up_beside_erase<pages>), at_most_in_order(1));
  expect_clean(over<table>(&looked_up_beside_erase<table>), at_most_in_order(1));
  expect_clean(over<pages>(&looked_up_beside_growth<pages>), at_most_in_order(1));
  expect_clean(over<table>(&looked_up_beside_growth<table>), at_most_in_order(1));
  expect_clean(over<table>(&looked_up_beside_return, {3, 1}), at_most_in_order(1));
}
TEST(counted_maps_model, leaves_that_change) {
  expect_clean(over<pages>(&looked_up_beside_division<pages>, {2, 1}), at_most(2));
  expect_clean(over<plain_pages>(&looked_up_beside_division<plain_pages>, {2, 1}), at_most(2));
  expect_clean(over<pages>(&looked_up_while_it_comes<pages>, {}), at_most(2));
  expect_clean(over<plain_pages>(&looked_up_beside_last_of_leaf<plain_pages>, {2, 1, 3}),
               at_most(1));
}
TEST(counted_maps_model, look_ups_within_look_ups) {
  expect_clean(over<table>(&looked_up_within<table>), at_most_in_order(1));
  expect_clean(over<tree>(&looked_up_within<tree>), at_most_in_order(1));
}
TEST(counted_maps_model, two_writers) { expect_clean(over<tree>(&two_writers<tree>), at_most(1)); }

TEST(counted_maps_model, a_tree_with_node_locks) {
  expect_clean(over<locked_tree>(&looked_up_beside_erase<locked_tree>), at_most(1));
  expect_clean(over<locked_tree>(&looked_up_below, {1, 2, 3}), at_most(2));
  expect_clean(over<locked_tree>(&next_looked_up_below, {1, 2, 3}), at_most_in_order(1));
  expect_clean(over<locked_tree>(&two_writers<locked_tree>), at_most(1));
  expect_clean(over<locked_tree>(&inserted_below_erased, {3, 4}), at_most(2));
  expect_clean(over<locked_tree>(&inserted_below_copied), at_most(1));
}

TEST(counted_maps_model, a_btree_with_node_locks) {
  expect_clean(over<locked_pages>(&looked_up_beside_erase<locked_pages>), at_most_in_order(1));
  expect_clean(over<locked_pages>(&looked_up_beside_growth<locked_pages>), at_most_in_order(1));
  expect_clean(over<plain_locked_pages>(&looked_up_beside_division<plain_locked_pages>, {2, 1}),
               at_most(1));
  expect_clean(
      over<plain_locked_pages>(&looked_up_beside_last_of_leaf<plain_locked_pages>, {2, 1, 3}),
      at_most_in_order(1));
  expect_clean(over<locked_pages>(&two_writers<locked_pages>), at_most_in_order(1));
  expect_clean(over<plain_locked_pages>(&both_inserted<1>, {}), at_most(2));
  expect_clean(over<plain_locked_pages>(&both_inserted<2>, {1}), at_most(1));
  expect_clean(over<plain_locked_pages>(&both_inserted<3>, {2, 1}), at_most(1));
  expect_clean(over<plain_locked_pages>(&inserted_beside_last_of_leaf, {2, 1, 3}), at_most(1));
  expect_clean(over<plain_locked_pages>(&erased_beside_epoch, {2, 1, 3}), at_most(1));
  expect_clean(over<plain_locked_pages>(&next_looked_up_beside_division, {2, 1}), at_most(1));
  expect_clean(over<plain_locked_pages>(&next_looked_up_after_erase, {2, 1}), at_most(1));
}

TEST(counted_maps_model, a_lost_writers_turn) { expect_clean(two_take_over, at_most(3)); }

TEST(counted_maps_model, every_planted_fault_is_found) {
  const auto found = [](const scenario_setup& setup, const char* fault) {
    model::options how = at_most(2);
    how.fault = fault;
    EXPECT_FALSE(model::explore(how, setup).ok) << fault;
  };
  found(over<tree>(&two_writers<tree>), "counted_map.leave_relaxed");
  found(two_take_over, "counted_map.takes_without_asking");
  found(two_take_over, "counted_map.leave_relaxed");
  found(over<tree>(&looked_up_beside_erase<tree>), "counted_bst.two_steps");
  found(over<locked_tree>(&two_writers<locked_tree>), "counted_map.leave_relaxed");
  found(over<locked_tree>(&two_writers<locked_tree>), "counted_tree.not_certified");
  found(over<locked_tree>(&looked_up_beside_erase<locked_tree>), "counted_tree.two_steps");
  found(over<locked_tree>(&looked_up_below, {1, 2, 3}), "counted_tree.cut_while_current");
  found(over<locked_tree>(&looked_up_below, {1, 2, 3}), "counted_tree.one_look");
  found(over<locked_tree>(&next_looked_up_below, {1, 2, 3}), "counted_tree.one_look");
  found(over<locked_tree>(&inserted_below_erased, {3, 4}), "counted_tree.stays_current");
  found(over<locked_tree>(&inserted_below_copied), "counted_tree.way_not_locked");
  found(over<tree>(&looked_up_beside_erase<tree>), "counted.no_light");
  found(over<table>(&looked_up_within<table>), "counted.no_light");
  found(over<table>(&looked_up_within<table>), "counted.walks_share");
  found(over<tree>(&looked_up_within<tree>), "counted.walks_share");
  found(over<pages>(&looked_up_beside_division<pages>, {2, 1}), "counted_btree.one_look");
  found(over<pages>(&looked_up_while_it_comes<pages>, {}), "counted_btree.publish_relaxed");
  found(over<plain_locked_pages>(&both_inserted<1>, {}), "counted_map.leave_relaxed");
  found(over<plain_locked_pages>(&both_inserted<2>, {1}), "counted_tree.stays_current");
  found(over<plain_locked_pages>(&both_inserted<3>, {2, 1}), "counted_btree_locked.not_certified");
  found(over<plain_locked_pages>(&erased_beside_epoch, {2, 1, 3}),
        "counted_btree_locked.empties_not_held");
  found(over<plain_locked_pages>(&inserted_beside_last_of_leaf, {2, 1, 3}),
        "counted_btree_locked.empties_not_locked");
  found(over<plain_locked_pages>(&looked_up_beside_division<plain_locked_pages>, {2, 1}),
        "counted_btree.one_look");
  found(over<plain_locked_pages>(&next_looked_up_beside_division, {2, 1}),
        "counted_btree_locked.one_look");
  found(over<plain_locked_pages>(&next_looked_up_after_erase, {2, 1}),
        "counted_btree_locked.no_bound");
  found(over<table>(&looked_up_beside_growth<table>), "counted_hash.one_look");
  found(over<table>(&looked_up_beside_growth<table>), "counted_hash.empties_first");
  found(over<table>(&looked_up_beside_return, {3, 1}), "counted_hash.numbers_by_size");
}

}  // namespace
