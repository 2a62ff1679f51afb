// SPDX-License-Identifier: Apache-2.0
// Evacuation of partitions under the model checker: readers beside copies, drops and sweeps.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>

#include <spolia/model/engine.hpp>

#include "db/versions/delta_evacuated.hpp"
#include "model/db_world.hpp"
#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

using evacuated = world<delta_evacuated>;

/// A snapshot that is held.
using holder = std::shared_ptr<census::ticket>;

std::shared_ptr<evacuated> eager(std::uint32_t transactions = 1, std::uint32_t partitions = 3) {
  return std::make_shared<evacuated>(delta_one_shot::options{
      .transactions = transactions, .slack = 8, .most_partitions = partitions});
}
holder hold(evacuated& w) {
  return std::make_shared<census::ticket>(w.board.living.announce(w.board.clock));
}
void nothing_is_left(evacuated& w) {
  w.old.collect();
  const delta_stats s = w.old.stats();
  model::check(s.versions_made == s.versions_dropped, "a version is left that no snapshot needs");
}

/// Each commit has a partition of its own, which is dropped as soon as it can be.
void drops_against_a_snapshot(model::scenario& run) {
  auto w = eager();
  run.thread([w] { w->look(false); });
  run.thread([w] {
    for (std::uint64_t v = 7; v < 10; ++v) w->commit(v, 1);
    w->old.collect();
  });
  run.finally([w] { nothing_is_left(*w); });
}

/// What a held snapshot sees is moved while its thread looks for it.
void a_reader_beside_an_evacuation(model::scenario& run) {
  auto w = eager();
  auto held = hold(*w);
  w->commit(7, 1);
  run.thread([w] { model::check(w->read(0, 1) == 0, "a snapshot has changed"); });
  run.thread([w] {
    for (std::uint64_t v = 8; v < 11; ++v) w->commit(v, 1);
  });
  run.finally([w, held] {
    w->old.collect();
    model::check(w->read(0, 1) == 0, "a snapshot has changed");
    model::check(w->old.stats().dropped_between >= 1, "what lies between goes");
    held->withdraw();
    nothing_is_left(*w);
  });
}

/// Two snapshots: of one row they see the same version, which hangs at the younger one; of the
/// other each its own. What the younger one alone sees goes while the older one reads.
void a_sweep_beside_a_reader(model::scenario& run) {
  auto w = eager(1, 4);
  auto first = hold(*w);
  w->commit(7, 1);
  auto second = hold(*w);
  for (std::uint64_t v = 8; v < 11; ++v) w->commit(v, 2);
  w->old.collect();
  run.thread([w, first] {
    const std::uint64_t time = first->timestamp();
    model::check(w->read(0, time) == 0, "the older snapshot has changed");
    model::check(w->read(1, time) == 0, "the older snapshot has changed");
  });
  run.thread([w, second] {
    model::check(w->read(0, second->timestamp()) == 7, "the younger snapshot has changed");
    second->withdraw();
    w->commit(11, 1);
    w->old.collect();
  });
  run.finally([w, first] {
    model::check(w->read(0, first->timestamp()) == 0, "the older snapshot has changed");
    model::check(w->read(1, first->timestamp()) == 0, "the older snapshot has changed");
    first->withdraw();
    nothing_is_left(*w);
  });
}

/// The older snapshot's version was moved, the younger one's is still in its partition.
void one_version_moved_and_one_not(model::scenario& run) {
  auto w = eager(1, 4);
  run.thread([w] {
    auto first = hold(*w);
    w->commit(7, 1);
    w->old.collect();
    auto second = hold(*w);
    w->commit(8, 1);
    model::check(w->read(0, second->timestamp()) == 7, "the younger snapshot has changed");
    model::check(w->read(0, first->timestamp()) == 0, "the older snapshot has changed");
    second->withdraw();
    first->withdraw();
    nothing_is_left(*w);
  });
}

/// The version that is needed lies in a partition in which a transaction is still registered, and
/// the one in front of it is dropped.
void a_needed_version_behind_a_dropped_one(model::scenario& run) {
  auto w = eager(2, 4);
  auto held = hold(*w);
  commit_board::record& slow = w->board.take();
  ask a{.words = 1, .row = 1, .since = 1, .chain = &w->heads[1].older};
  model::check(w->old.reserve(slow.number(), std::span(&a, 1), 0), "there is room");
  for (std::uint64_t v = 7; v < 12; ++v) w->commit(v, 1);
  run.thread([w] { model::check(w->read(0, 1) == 0, "a snapshot has changed"); });
  run.thread([w] {
    w->commit(12, 1);
    w->old.collect();
  });
  run.finally([w, held, &slow] {
    model::check(w->read(0, 1) == 0, "a snapshot has changed");
    w->old.cancel(slow.number());
    w->board.give_back(slow);
    w->old.collect();
    model::check(w->read(0, 1) == 0, "a snapshot has changed");
    held->withdraw();
    nothing_is_left(*w);
  });
}

/// Tags come round while a snapshot is held: a partition waits rather than give one out twice.
void tags_are_used_up(model::scenario& run) {
  auto w = eager(1, 4);
  run.thread([w] {
    auto held = w->board.living.announce(w->board.clock);
    for (std::uint64_t v = 7; v < 7 + 4 * tagged::tags; ++v) w->commit(v, 1);
    model::check(w->read(0, 1) == 0, "a snapshot has changed");
    held.withdraw();
    nothing_is_left(*w);
  });
}

TEST(db_evacuated_model, snapshots_find_their_versions) {
  expect_clean(drops_against_a_snapshot, at_most_in_order(1));
  expect_clean(a_reader_beside_an_evacuation, at_most_in_order(2));
  expect_clean(a_sweep_beside_a_reader, at_most_in_order(1));
  expect_clean(one_version_moved_and_one_not, at_most_in_order(1));
  expect_clean(a_needed_version_behind_a_dropped_one, at_most_in_order(1));
  model::options alone = at_most_in_order(0);
  alone.max_steps = 100000;
  expect_clean(tags_are_used_up, alone);
}

TEST(db_evacuated_model, faults_of_evacuation_are_found) {
  expect_found(a_reader_beside_an_evacuation, "evacuated.nothing_moved", at_most_in_order(1),
               "there is a row");
  expect_found(a_reader_beside_an_evacuation, "evacuated.no_second_look", at_most_in_order(2),
               "there is a row");
  expect_found(a_needed_version_behind_a_dropped_one, "evacuated.links_not_followed",
               at_most_in_order(1), "there is a row");
  expect_found(a_sweep_beside_a_reader, "kept.living_not_asked", at_most_in_order(1),
               "there is a row");
  expect_found(one_version_moved_and_one_not, "kept.end_not_asked", at_most_in_order(1),
               "the younger snapshot has changed");
  expect_found(a_reader_beside_an_evacuation, "between.tag_not_asked", at_most_in_order(2),
               "data race");
}

}  // namespace
