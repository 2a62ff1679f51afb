// SPDX-License-Identifier: Apache-2.0
// What the store's cleaner takes away, beside snapshots and serializable commits, under the model
// checker.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "db/snapshot_list.hpp"
#include "db/versions/delta_steam.hpp"
#include "model/db_world.hpp"
#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

/// Row 0 has the key 7 while its value is that, and an entry that leads to it.
struct one_key : world<delta_steam> {
  one_key() : world(delta_steam::options{.look_every = 1}) {}

  void come() {
    const auto mine = board.living.announce(board.clock);
    birth = SPOLIA_FAULT("world.late_birth") ? not_yet : mine.timestamp() + 1;
    entry.store_release(true);
    came = commit(7, 1);
    if (birth == not_yet) birth = came + 1;
  }
  void go() { went = commit(0, 1); }
  /// As the cleaner does.
  void clean() {
    snapshot_list all;
    all.look(board);
    const bool seen = all.vouches_for(went) && all.needed_by(birth, went).by == nullptr;
    if (seen || SPOLIA_FAULT("world.takes_what_is_seen")) entry.store_release(false);
  }
  bool finds(std::uint64_t time) { return entry.load_acquire() && read(0, time) == 7; }

  atomic<bool> entry{false};
  std::uint64_t birth = 0;
  std::uint64_t came = 0;
  std::uint64_t went = 0;
};

/// A transaction does not find the key, which comes before the transaction draws its time and goes
/// after that, with its entry.
void a_key_has_come_and_gone(model::scenario& run) {
  auto w = std::make_shared<one_key>();
  struct times {
    std::uint64_t snapshot = 0;
    std::uint64_t committed = 0;
  };
  auto t = std::make_shared<times>();
  run.thread([w, t] {
    const auto ticket = w->board.living.announce(w->board.clock);
    t->snapshot = ticket.timestamp();
    if (w->finds(t->snapshot)) return;
    const auto floor = w->board.validating.announce(w->board.clock);
    t->committed = w->commit_if(1, 1, 2, [&](std::uint64_t) {
      return w->entry.load_acquire() ? w->unchanged(0, t->snapshot) : verdict::holds;
    });
  });
  run.thread([w] {
    w->come();
    w->go();
    w->clean();
  });
  run.finally([w, t] {
    const bool within = w->came < t->committed && t->committed < w->went;
    model::check(t->snapshot > w->came || !within, "a key that was not found was there");
  });
}

/// A snapshot that sees the key finds it, however late.
void a_snapshot_beside_the_cleaner(model::scenario& run) {
  auto w = std::make_shared<one_key>();
  run.thread([w] {
    const auto ticket = w->board.living.announce(w->board.clock);
    const bool there = w->read(0, ticket.timestamp()) == 7;
    model::check(!there || w->finds(ticket.timestamp()), "a snapshot has lost its key");
  });
  run.thread([w] {
    w->come();
    w->go();
    w->clean();
  });
}

TEST(db_upkeep_model, nothing_goes_that_is_needed) {
  expect_clean(a_key_has_come_and_gone, at_most(1));
  expect_clean(a_key_has_come_and_gone, at_most_in_order(2));
  expect_clean(a_snapshot_beside_the_cleaner, at_most(1));
  expect_clean(a_snapshot_beside_the_cleaner, at_most_in_order(2));
}
TEST(db_upkeep_model, faults_are_found) {
  const char* const lost = "a snapshot has lost its key";
  expect_found(a_key_has_come_and_gone, "snapshot_list.no_floor", at_most_in_order(2),
               "a key that was not found was there");
  expect_found(a_snapshot_beside_the_cleaner, "world.takes_what_is_seen", at_most_in_order(2),
               lost);
  expect_found(a_snapshot_beside_the_cleaner, "world.late_birth", at_most_in_order(2), lost);
}

}  // namespace
