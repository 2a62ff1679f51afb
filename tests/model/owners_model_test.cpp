// SPDX-License-Identifier: Apache-2.0
// Nodes with versioned fields that die before their collector, under the model checker.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include <spolia/reclaim/debra.hpp>
#include <spolia/snapshot.hpp>

#include "model/domain_scenarios.hpp"
#include "model/whole_value.hpp"
#include "version/boxes.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

using short_domain = domain<debra, batch>;

template <class Collector>
struct world {
  world() : nodes({.scheme = {.scan_every = 1, .min_looks = 1}}), versions(nodes, time, options()) {
    structure.emplace(versions, whole_value(0));
  }

  static typename Collector::options options() {
    typename Collector::options o;
    if constexpr (requires { o.batch; }) {
      o.batch = 1;
    } else {
      o.scan_period = {};
      o.owners.batch = 1;
    }
    return o;
  }
  void run_on(int operations) {
    for (int n = 0; n < operations; ++n) auto guard = nodes.enter();
  }
  /// In `finally`: what hears of threads that end must outlive that.
  void clear() {
    structure->move();  // some look at nothing but what is changed
    snapshot(time).withdraw();
    structure->move();
    versions.collect();
    versions.collect();
    model::check(versions.stats().held() == 0, "what is obsolete goes");
    versions.close();
    structure.reset();
  }

  short_domain nodes;
  typename Collector::timeline_type time;
  Collector versions;
  std::optional<boxes<whole_value, Collector>> structure;
};

using dl = world<dl_rt<short_domain>>;
using sl = world<sl_rt<short_domain>>;
using ebr = world<epoch_collector<short_domain>>;
using st = world<steam<short_domain>>;

/// A box with an ended version dies while another thread changes it.
template <class World>
void a_box_dies_under_a_change(model::scenario& run) {
  auto w = std::make_shared<World>();
  snapshot(w->time).withdraw();
  run.thread([=] { w->structure->set(whole_value(1)); });
  run.thread([=] {
    w->structure->move();
    snapshot(w->time).withdraw();
    w->versions.collect();
    w->run_on(6);
  });
  run.finally([=] { w->clear(); });
}

/// A snapshot comes to a box that has died, by the older version of the root.
template <class World>
void a_snapshot_reads_a_dead_box(model::scenario& run) {
  auto w = std::make_shared<World>();
  w->structure->close();  // so that no ended version of the box is needed, only the box
  run.thread([=] {
    const snapshot s(w->time);
    const whole_value& found = w->structure->at(s);
    const int first = found.look();
    w->run_on(1);
    model::check(w->structure->at(s).look() == first, "a snapshot saw two instants");
    model::check(found.look() == first, "what was found stays");
  });
  run.thread([=] {
    w->structure->set(whole_value(1));
    w->versions.collect();
    w->run_on(12);
  });
  run.finally([=] { w->clear(); });
}

/// What was read before a snapshot began is in it.
template <class World>
void a_snapshot_meets_a_change(model::scenario& run) {
  auto w = std::make_shared<World>();
  run.thread([=] {
    const int before = w->structure->read([](const whole_value& v) { return v.look(); });
    const snapshot s(w->time);
    model::check(w->structure->at(s).look() >= before,
                 "a value was read that a later snapshot does not see");
  });
  run.thread([=] { w->structure->set(whole_value(1)); });
  run.finally([=] { w->clear(); });
}

/// Two threads unlink versions of a dead box at once; the later one gives the rest of its list up.
template <class World>
void a_dead_box_loses_its_holds(model::scenario& run) {
  auto w = std::make_shared<World>();
  run.thread([=] { w->structure->set(whole_value(1)); });
  run.thread([=] { w->structure->set(whole_value(2)); });
  run.thread([=] { w->structure->move(); });
  run.finally([=] { w->clear(); });
}

template <class World>
class owners_model : public testing::Test {};
template <class... Collectors>
using worlds_of = testing::Types<world<Collectors>...>;
using worlds = every_collector<worlds_of, short_domain>;
TYPED_TEST_SUITE(owners_model, worlds);

TYPED_TEST(owners_model, a_change_holds_its_box) {
  expect_clean(a_box_dies_under_a_change<TypeParam>, at_most_in_order(2));
}
TYPED_TEST(owners_model, snapshots_reach_dead_boxes) {
  expect_clean(a_snapshot_reads_a_dead_box<TypeParam>, at_most_in_order(1));
}
TYPED_TEST(owners_model, the_last_hold_gives_the_lists_up) {
  expect_clean(a_dead_box_loses_its_holds<TypeParam>, at_most_in_order(1));
}

TEST(owners_model_faults, readers_must_give_stamps) {
  expect_clean(a_snapshot_meets_a_change<dl>, at_most_in_order(2));
  expect_found(a_snapshot_meets_a_change<dl>, "owned_field.no_help", at_most_in_order(2),
               "does not see");
}
TEST(owners_model_faults, changes_must_be_counted) {
  expect_found(a_box_dies_under_a_change<dl>, "owner.uncounted", at_most_in_order(2),
               "use after free");
  expect_found(a_box_dies_under_a_change<sl>, "owner.uncounted", at_most_in_order(2),
               "use after free");
}
TEST(owners_model_faults, what_is_retired_is_not_held_again) {
  expect_found(a_box_dies_under_a_change<dl>, "owner.held_again", at_most_in_order(2), "data race");
}
TEST(owners_model_faults, snapshots_keep_dead_boxes) {
  expect_found(a_snapshot_reads_a_dead_box<dl>, "owner.no_range", at_most_in_order(1), "data race");
  expect_found(a_snapshot_reads_a_dead_box<sl>, "owner.no_range", at_most_in_order(1), "data race");
  expect_found(a_snapshot_reads_a_dead_box<ebr>, "owner.no_range", at_most_in_order(1),
               "data race");
  expect_found(a_snapshot_reads_a_dead_box<st>, "owner.no_range", at_most_in_order(1), "data race");
}
TEST(owners_model_faults, the_last_must_see_what_the_others_have_unlinked) {
  expect_found(a_dead_box_loses_its_holds<dl>, "owner.relaxed_drop", at_most(1), "data race");
}

}  // namespace
