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

#include <spolia/reclaim/debra.hpp>
#include <spolia/version/dl_rt.hpp>
#include <spolia/version/sl_rt.hpp>

#include "model/domain_scenarios.hpp"

/// Maps have limits by time, which these do not ask for; the clock's rate is not in this flavour.
double spolia::core::ns_per_tick() noexcept { return 1; }

namespace {

using namespace spolia;
using namespace spolia::test;

using short_domain = domain<debra, batch>;

/// All keys in one bucket.
struct one_hash {
  std::size_t operator()(int) const noexcept { return 0; }
};

/// Two maps, each with key 0, which maps to 1.
template <class Collector>
struct world {
  using map = snapshot_hash<int, int, Collector, one_hash>;

  world() : nodes(typename short_domain::options{.scheme = {.scan_every = 1, .min_looks = 1}}) {
    for (auto& m : maps) {
      m.emplace(nodes, time,
                typename map::options{.buckets = 1, .load = 100, .collector = {.batch = 1}});
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
    const snapshot now(time);
    model::check(at(now, 0) == first && at(now, 1) == second, "a change is lost");
    model::check(maps[0]->find(0) == first && maps[1]->find(0) == second, "a change is lost");
    end();
  }
  void end() {
    for (auto& m : maps) m.reset();
  }

  short_domain nodes;
  timeline time;
  std::array<std::optional<map>, 2> maps;
};
using dl = world<dl_rt<short_domain>>;
using sl = world<sl_rt<short_domain>>;

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

TEST(changes_model, is_seen_wholly_or_not_at_all) {
  expect_clean(a_snapshot_meets_a_batch<dl>, at_most(1));
  expect_clean(a_snapshot_meets_a_batch<dl>, at_most_in_order(2));
  expect_clean(a_snapshot_meets_a_batch<sl>, at_most_in_order(1));
  expect_clean(reads_meet_a_batch<dl>, at_most_in_order(2));
}
TEST(changes_model, loses_nothing) {
  expect_clean(an_update_meets_a_batch<dl>, at_most_in_order(2));
  expect_clean(two_batches_meet<dl>, at_most_in_order(1));
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
}

}  // namespace
