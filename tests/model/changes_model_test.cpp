// SPDX-License-Identifier: Apache-2.0
// Batches under the model checker: over two maps, beside snapshots, reads, updates, other batches.
#include <spolia/map/changes.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>

#include <spolia/reclaim/debra.hpp>
#include <spolia/version/dl_rt.hpp>
#include <spolia/version/sl_rt.hpp>

#include "model/domain_scenarios.hpp"

/// Maps have limits by time, which these do not ask for; the clock's rate is not in this build
/// variant.
double spolia::core::ns_per_tick() noexcept { return 1; }

namespace {

using namespace spolia;
using namespace spolia::test;

using short_domain = domain<debra, batch>;

/// All keys in one bucket.
struct one_hash {
  std::size_t operator()(int) const noexcept { return 0; }
};

template <class Collector>
auto options_for(std::type_identity<snapshot_hash<int, int, Collector, one_hash>>) {
  typename snapshot_hash<int, int, Collector, one_hash>::options o;
  o.buckets = 1;
  o.load = 100;
  return o;
}
template <class Collector, std::size_t LeafPairs>
auto options_for(
    std::type_identity<snapshot_tree<int, int, Collector, std::less<int>, LeafPairs>>) {
  return typename snapshot_tree<int, int, Collector, std::less<int>, LeafPairs>::options();
}

/// Two maps, each with key 0, which maps to 1.
template <class Map>
struct world {
  using map = Map;

  world() : nodes(typename short_domain::options{.scheme = {.scan_every = 1, .min_looks = 1}}) {
    auto o = options_for(std::type_identity<Map>());
    o.collector.batch = 1;
    for (auto& m : maps) {
      m.emplace(nodes, time, o);
      m->insert(0, 1);
    }
  }
  map& operator[](std::size_t i) { return *maps[i]; }
  int at(const snapshot& then, std::size_t i, int key = 0) {
    const int* const found = maps[i]->find(then, key);
    return found == nullptr ? -1 : *found;
  }
  void write_both(int value) {
    changes both;
    both.insert_or_assign(*maps[0], 0, value);
    both.insert_or_assign(*maps[1], 0, value);
    both.commit();
  }
  void judge(int first, int second) {
    {
      const snapshot now(time);
      model::check(at(now, 0) == first && at(now, 1) == second, "a change is lost");
    }
    model::check(maps[0]->find(0).value_or(-1) == first, "a change is lost");
    model::check(maps[1]->find(0).value_or(-1) == second, "a change is lost");
    end();
  }
  void end() {
    for (auto& m : maps) {
      if constexpr (requires { m->audit(); }) {
        const auto found = m->audit();
        model::check(found.wrong.empty() && found.violations == 0, "the tree is not sound");
        model::check(found.vacant == 0, "a leaf without a pair is left that no thread removes");
        model::check(found.pairs == m->size_approx(), "the count is right");
      }
      m.reset();
    }
  }

  short_domain nodes;
  typename Map::timeline_type time;
  std::array<std::optional<map>, 2> maps;
};
using dl = world<snapshot_hash<int, int, dl_rt<short_domain>, one_hash>>;
using sl = world<snapshot_hash<int, int, sl_rt<short_domain>, one_hash>>;
using dl_tree = world<snapshot_tree<int, int, dl_rt<short_domain>>>;
/// With several pairs in a leaf.
using dl_tree_of_four = world<snapshot_tree<int, int, dl_rt<short_domain>, std::less<int>, 4>>;
using by_hardware =
    world<snapshot_hash<int, int, dl_rt<short_domain, basic_timeline<hardware_clock>>, one_hash>>;

template <class World>
void a_snapshot_meets_a_batch(model::scenario& run) {
  auto w = std::make_shared<World>();
  run.thread([=] { w->write_both(2); });
  run.thread([=] {
    const snapshot now(w->time);
    const int first = w->at(now, 0);
    model::check(first == w->at(now, 1), "a snapshot saw half of a batch");
    model::check(first == w->at(now, 0), "a snapshot saw two instants");
  });
  run.finally([=] { w->judge(2, 2); });
}

/// What follows a read that has seen a change sees the others; and so does a snapshot.
template <class World>
void reads_meet_a_batch(model::scenario& run) {
  auto w = std::make_shared<World>();
  run.thread([=] { w->write_both(2); });
  run.thread([=] {
    if ((*w)[1].find(0) != 2) return;
    model::check((*w)[0].find(0) == 2, "a read saw half of a batch");
    model::check(w->at(snapshot(w->time), 0) == 2, "a read saw what a later snapshot does not");
  });
  run.finally([=] { w->judge(2, 2); });
}

/// An update of another key in one of the buckets comes between.
template <class World>
void an_update_meets_a_batch(model::scenario& run) {
  auto w = std::make_shared<World>();
  run.thread([=] { w->write_both(2); });
  run.thread([=] { (*w)[0].insert(7, 7); });
  run.finally([=] {
    model::check((*w)[0].find(7) == 7, "a change is lost");
    model::check((*w)[0].size_approx() == 2, "the count is right");
    w->judge(2, 2);
  });
}

/// An update of a key that the batch changes comes before or after it.
template <class World>
void an_update_of_the_same_key(model::scenario& run) {
  auto w = std::make_shared<World>();
  auto behind = std::make_shared<bool>();
  run.thread([=] { w->write_both(2); });
  run.thread([=] {
    (*w)[0].insert_or_assign(0, 7);
    const snapshot now(w->time);
    const int first = w->at(now, 0);
    const int second = w->at(now, 1);
    model::check(first == 7 || (first == 2 && second == 2), "a change is lost");
    *behind = first == 7 && second == 2;
  });
  run.finally([=] { w->judge(*behind ? 7 : 2, 2); });
}

/// A leaf that is about to go into its sibling finds a batch there.
template <class World>
void a_fold_meets_a_batch(model::scenario& run) {
  auto w = std::make_shared<World>();
  for (const int key : {1, 2, 3, 4}) (*w)[0].insert(key, key);
  (*w)[0].erase(4);
  run.thread([=] { w->write_both(2); });
  run.thread([=] { (*w)[0].erase(3); });
  run.finally([=] {
    model::check((*w)[0].find(2) == 2 && (*w)[0].size_approx() == 3, "a change is lost");
    w->judge(2, 2);
  });
}

/// A pair goes from one map into the other; the first one's place vanishes.
template <class World>
void a_snapshot_meets_a_move(model::scenario& run) {
  auto w = std::make_shared<World>();
  run.thread([=] {
    changes move;
    move.erase((*w)[0], 0);
    move.insert((*w)[1], 1, 5);
    move.commit();
  });
  run.thread([=] {
    const snapshot now(w->time);
    const bool gone = w->at(now, 0) == -1;
    model::check(gone == (w->at(now, 1, 1) == 5), "a snapshot saw half of a batch");
    model::check(gone == (w->at(now, 0) == -1), "a snapshot saw two instants");
  });
  run.finally([=] { w->judge(-1, 1); });
}

/// Two batches, each over both maps in another order: one is before the other.
template <class World>
void two_batches_meet(model::scenario& run) {
  auto w = std::make_shared<World>();
  run.thread([=] { w->write_both(2); });
  run.thread([=] {
    changes both;
    both.erase((*w)[1], 0);
    both.erase((*w)[0], 0);
    both.commit();
  });
  run.finally([=] {
    const bool there = (*w)[0].contains(0);
    model::check((*w)[0].size_approx() == (there ? 1 : 0), "the count is right");
    if (there) return w->judge(2, 2);
    model::check(!(*w)[1].contains(0), "half of a batch is lost");
    w->end();
  });
}

/// Each takes a key out of a map where it is not, and puts it into the other one.
template <class World>
void two_moves_meet(model::scenario& run) {
  auto w = std::make_shared<World>();
  for (const std::size_t from : {0U, 1U}) {
    run.thread([=] {
      changes move;
      move.erase((*w)[from], 7);
      move.insert_or_assign((*w)[1 - from], 7, 7);
      move.commit();
    });
  }
  run.finally([=] {
    model::check((*w)[0].contains(7) != (*w)[1].contains(7), "two batches came between each other");
    w->end();
  });
}

/// A batch changes one place several times: the key 0 and, in the same place, the key 5. A read
/// sees what was there before it or what it leaves, and nothing of its midst.
template <class World>
void reads_meet_two_changes_of_one_place(model::scenario& run) {
  auto w = std::make_shared<World>();
  run.thread([=] {
    changes twice;
    twice.insert_or_assign((*w)[0], 0, 7);
    twice.insert((*w)[0], 5, 7);
    twice.insert_or_assign((*w)[0], 0, 2);
    twice.erase((*w)[0], 5);
    twice.commit();
  });
  run.thread([=] {
    const std::optional<int> seen = (*w)[0].find(0);
    model::check(seen == 1 || seen == 2, "a read saw the midst of a batch");
    model::check(!(*w)[0].contains(5), "a read saw the midst of a batch");
  });
  run.finally([=] { w->judge(2, 1); });
}
/// A key goes and comes back in one batch.
template <class World>
void an_update_meets_two_changes_of_one_place(model::scenario& run) {
  auto w = std::make_shared<World>();
  auto was_there = std::make_shared<bool>();
  run.thread([=] {
    changes twice;
    twice.erase((*w)[0], 0);
    twice.insert((*w)[0], 0, 2);
    twice.commit();
  });
  run.thread([=] { *was_there = (*w)[0].erase(0); });
  run.finally([=] {
    model::check(*was_there, "an update saw the midst of a batch");
    w->end();
  });
}

// Batches that rely on what they have found. What each does is right only if it is still so.

/// Each puts a 2 into one map if the other one has a 1: so one of them does not.
template <class World>
void two_conditions_cross(model::scenario& run) {
  auto w = std::make_shared<World>();
  auto done = std::make_shared<std::array<bool, 2>>();
  for (const std::size_t mine : {0U, 1U}) {
    run.thread([=] {
      changes one;
      one.expect((*w)[1 - mine], 0, 1);
      one.insert_or_assign((*w)[mine], 0, 2);
      (*done)[mine] = static_cast<bool>(one.commit());
    });
  }
  run.finally([=] {
    model::check((*done)[0] != (*done)[1], "both came first, or none");
    w->judge((*done)[0] ? 2 : 1, (*done)[1] ? 2 : 1);
  });
}

/// A batch puts a 2 into one map if `named(batch)` holds in the other. The other thread changes
/// that, and looks: a batch that it does not see comes later, and so never.
template <class World, class Named, class Breaks>
void a_condition_meets(model::scenario& run, Named named, Breaks breaks) {
  auto w = std::make_shared<World>();
  auto done = std::make_shared<bool>();
  auto late = std::make_shared<bool>();
  run.thread([=] {
    changes one;
    named(one, (*w)[0]);
    one.insert_or_assign((*w)[1], 0, 2);
    *done = static_cast<bool>(one.commit());
  });
  run.thread([=] {
    breaks((*w)[0]);
    const snapshot now(w->time);
    *late = w->at(now, 1) != 2;
  });
  run.finally([=] {
    model::check(!*done || !*late, "a condition held no more");
    model::check((*w)[1].find(0) == (*done ? 2 : 1), "a batch was done by half");
    w->end();
  });
}
template <class World>
void a_value_meets_an_update(model::scenario& run) {
  a_condition_meets<World>(
      run, [](changes& one, auto& map) { one.expect(map, 0, 1); },
      [](auto& map) { map.insert_or_assign(0, 7); });
}
template <class World>
void an_absence_meets_an_insertion(model::scenario& run) {
  a_condition_meets<World>(
      run, [](changes& one, auto& map) { one.expect_absent(map, 5); },
      [](auto& map) { map.insert(5, 5); });
}
/// In a place that the batch changes, too.
template <class World>
void a_value_beside_a_change_meets_an_erasure(model::scenario& run) {
  a_condition_meets<World>(
      run,
      [](changes& one, auto& map) {
        one.expect_there(map, 0);
        one.insert_or_assign(map, 7, 7);
      },
      [](auto& map) { map.erase(0); });
}
template <class World>
void a_range_meets_an_insertion(model::scenario& run) {
  a_condition_meets<World>(
      run,
      [](changes& one, auto& map) {
        std::size_t found = 0;
        for ([[maybe_unused]] const auto& pair : one.range(map, 0, 9)) ++found;
        if (found != 1) one.expect_absent(map, 0);  // the other thread came first
      },
      [](auto& map) { map.insert(5, 5); });
}
/// Another batch relies on the place in between, and is no longer under way.
template <class World>
void a_value_meets_another_condition_and_an_update(model::scenario& run) {
  a_condition_meets<World>(
      run, [](changes& one, auto& map) { one.expect(map, 0, 1); },
      [](auto& map) {
        changes other;
        other.expect(map, 0, 1);
        other.commit();
        map.insert_or_assign(0, 7);
      });
}

TEST(changes_model, is_seen_wholly_or_not_at_all) {
  expect_clean(a_snapshot_meets_a_batch<dl>, at_most(1));
  expect_clean(a_snapshot_meets_a_batch<dl>, at_most_in_order(2));
  expect_clean(a_snapshot_meets_a_batch<sl>, at_most_in_order(1));
  expect_clean(reads_meet_a_batch<dl>, at_most_in_order(2));
}
TEST(changes_model, is_seen_wholly_where_it_changes_a_place_twice) {
  expect_clean(reads_meet_two_changes_of_one_place<dl>, at_most_in_order(2));
  expect_clean(reads_meet_two_changes_of_one_place<dl>, at_most(1));
  expect_clean(reads_meet_two_changes_of_one_place<dl_tree_of_four>, at_most_in_order(2));
  expect_clean(an_update_meets_two_changes_of_one_place<dl>, at_most_in_order(2));
  expect_clean(an_update_meets_two_changes_of_one_place<dl_tree_of_four>, at_most_in_order(2));
}
TEST(changes_model, a_place_that_is_changed_again_does_not_count) {
  expect_found(reads_meet_two_changes_of_one_place<dl>, "batch.shows_its_midst",
               at_most_in_order(2), "a read saw the midst of a batch");
  expect_found(reads_meet_two_changes_of_one_place<dl_tree_of_four>, "batch.shows_its_midst",
               at_most_in_order(2), "a read saw the midst of a batch");
  expect_found(an_update_meets_two_changes_of_one_place<dl_tree_of_four>, "batch.shows_its_midst",
               at_most_in_order(2), "an update saw the midst of a batch");
}
TEST(changes_model, loses_nothing) {
  expect_clean(an_update_meets_a_batch<dl>, at_most_in_order(2));
  expect_clean(two_batches_meet<dl>, at_most_in_order(1));
  expect_clean(two_moves_meet<dl>, at_most_in_order(1));
}
TEST(changes_model, is_the_same_in_trees) {
  expect_clean(a_snapshot_meets_a_batch<dl_tree>, at_most_in_order(2));
  expect_clean(a_snapshot_meets_a_move<dl_tree>, at_most_in_order(1));
  expect_clean(an_update_of_the_same_key<dl_tree>, at_most_in_order(2));
  expect_clean(two_batches_meet<dl_tree>, at_most_in_order(1));
}
TEST(changes_model, is_the_same_in_leaves_of_several_pairs) {
  expect_clean(an_update_meets_a_batch<dl_tree_of_four>, at_most_in_order(2));
  expect_clean(a_fold_meets_a_batch<dl_tree_of_four>, at_most_in_order(2));
}
TEST(changes_model, a_leaf_is_not_folded_into_a_batch) {
  expect_found(a_fold_meets_a_batch<dl_tree_of_four>, "chromatic.folds_into_a_batch",
               at_most_in_order(2), "a change is lost");
}
TEST(changes_model, relies_on_what_it_finds_to_be_so_already) {
  expect_clean(two_moves_meet<dl_tree_of_four>, at_most_in_order(1));
  expect_found(two_moves_meet<dl_tree_of_four>, "chromatic.claims_only_changes",
               at_most_in_order(1), "two batches came between each other");
}
TEST(changes_model, is_the_same_with_a_hardware_clock) {
  expect_clean(a_snapshot_meets_a_batch<by_hardware>, at_most_in_order(2));
  expect_clean(an_update_meets_a_batch<by_hardware>, at_most_in_order(1));
}
TEST(changes_model, the_stamp_is_drawn_when_all_are_in_place) {
  expect_found(a_snapshot_meets_a_batch<dl>, "batch.early_stamp", at_most_in_order(2),
               "a snapshot saw");
}
TEST(changes_model, snapshots_must_see_to_the_stamp) {
  expect_found(a_snapshot_meets_a_batch<dl>, "batch.no_help", at_most_in_order(2),
               "a snapshot saw");
}
TEST(changes_model, updates_must_decide_first) {
  expect_found(an_update_meets_a_batch<dl>, "batch.not_undone", at_most_in_order(2),
               "a change is lost");
  expect_found(an_update_of_the_same_key<dl_tree>, "batch.not_undone", at_most_in_order(2),
               "a change is lost");
}

TEST(changes_model, is_done_only_if_what_it_relies_on_is_so) {
  expect_clean(two_conditions_cross<dl>, at_most_in_order(1));
  expect_clean(two_conditions_cross<dl_tree>, at_most_in_order(1));
  expect_clean(a_value_meets_an_update<dl>, at_most_in_order(1));
  expect_clean(a_value_meets_an_update<dl>, at_most(1));
  expect_clean(a_value_meets_an_update<by_hardware>, at_most_in_order(1));
  expect_clean(an_absence_meets_an_insertion<dl>, at_most_in_order(1));
  expect_clean(an_absence_meets_an_insertion<dl_tree>, at_most_in_order(1));
  expect_clean(a_value_beside_a_change_meets_an_erasure<dl>, at_most_in_order(1));
  expect_clean(a_value_beside_a_change_meets_an_erasure<dl_tree_of_four>, at_most_in_order(1));
}
TEST(changes_model, sees_what_comes_into_a_range) {
  expect_clean(a_range_meets_an_insertion<dl_tree>, at_most_in_order(1));
  expect_clean(a_range_meets_an_insertion<dl_tree_of_four>, at_most_in_order(1));
  expect_found(a_range_meets_an_insertion<dl_tree>, "batch.only_looks", at_most_in_order(2),
               "a condition held no more");
}
TEST(changes_model, goes_by_what_it_finds_when_it_is_done) {
  expect_found(two_conditions_cross<dl>, "batch.no_validation", at_most_in_order(2),
               "both came first, or none");
  expect_found(a_value_meets_an_update<dl>, "batch.only_looks", at_most_in_order(2),
               "a condition held no more");
  expect_found(an_absence_meets_an_insertion<dl_tree>, "batch.only_looks", at_most_in_order(2),
               "a condition held no more");
}
TEST(changes_model, several_rely_on_one_place) {
  expect_clean(a_value_meets_another_condition_and_an_update<dl>, at_most_in_order(1));
  expect_clean(a_value_meets_another_condition_and_an_update<dl_tree>, at_most_in_order(1));
  expect_found(a_value_meets_another_condition_and_an_update<dl>, "batch.forgets_others",
               at_most_in_order(2), "a condition held no more");
  expect_found(a_value_meets_another_condition_and_an_update<dl>, "batch.leaves_out_the_ready",
               at_most_in_order(2), "a condition held no more");
}

}  // namespace
