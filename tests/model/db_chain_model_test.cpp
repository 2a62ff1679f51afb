// SPDX-License-Identifier: Apache-2.0
// Version storages that take versions out of the middle of a row's chain, under the model checker.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>

#include <spolia/model/engine.hpp>

#include "db/versions/delta_range.hpp"
#include "db/versions/delta_steam_eager.hpp"
#include "model/db_world.hpp"
#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

using eager = world<delta_steam_eager>;
using range = world<delta_range>;

/// What is retired goes as soon as it may.
region_domain::options at_once() { return {.scheme = {.tick_every = 1, .patience = 0}}; }

std::shared_ptr<eager> eager_world() {
  return std::make_shared<eager>(delta_steam_eager::options{.look_every = 1, .reclaim = at_once()});
}
std::shared_ptr<range> range_world() {
  return std::make_shared<range>(
      delta_range::options{.tracker = {.batch = 1}, .reclaim = at_once()});
}

template <class World>
void nothing_is_left(const std::shared_ptr<World>& w) {
  w->old.collect();
  const delta_stats s = w->old.stats();
  model::check(s.versions_made == s.versions_dropped, "a version is left that no snapshot needs");
  w->old.close();  // the domain hears of the end of this thread
}

/// A snapshot comes and goes beside commits to one row.
template <class World>
void commits_beside_a_snapshot(const std::shared_ptr<World>& w, model::scenario& run) {
  run.thread([w] { w->look(false); });
  run.thread([w] {
    for (std::uint64_t v = 7; v < 10; ++v) w->commit(v, 1);
    w->old.collect();
  });
  run.finally([w] { nothing_is_left(w); });
}
void over_eager(model::scenario& run) { commits_beside_a_snapshot(eager_world(), run); }
void over_range(model::scenario& run) { commits_beside_a_snapshot(range_world(), run); }

/// A snapshot of the beginning is held, and its thread walks down the chain while another one
/// commits, and cuts out what lies between.
template <class World>
void a_reader_over_what_is_cut(const std::shared_ptr<World>& w, model::scenario& run) {
  auto held = std::make_shared<census::ticket>(w->board.living.announce(w->board.clock));
  w->commit(7, 1);
  w->commit(8, 1);
  run.thread([w] { model::check(w->read(0, 1) == 0, "a snapshot has changed"); });
  run.thread([w] {
    for (std::uint64_t v = 9; v < 12; ++v) w->commit(v, 1);
    w->old.collect();
  });
  run.finally([w, held] {
    model::check(w->read(0, 1) == 0, "a snapshot has changed");
    const delta_stats s = w->old.stats();
    model::check(s.versions_made - s.versions_dropped <= 3, "what lies between goes");
    held->withdraw();
    nothing_is_left(w);
  });
}
void over_eager_cuts(model::scenario& run) { a_reader_over_what_is_cut(eager_world(), run); }
void over_range_cuts(model::scenario& run) { a_reader_over_what_is_cut(range_world(), run); }

/// The same for two rows that are fetched and looked for together.
template <class World>
void two_rows_over_what_is_cut(const std::shared_ptr<World>& w, bool fetches,
                               model::scenario& run) {
  auto held = std::make_shared<census::ticket>(w->board.living.announce(w->board.clock));
  w->commit(7, 2);
  w->commit(8, 2);
  run.thread([w, fetches] {
    if (fetches) return w->fetch_together(1);
    const bool same = w->read_together(1) == std::array<std::uint64_t, 2>{};
    model::check(same, "a snapshot has changed");
  });
  run.thread([w] {
    for (std::uint64_t v = 9; v < 12; ++v) w->commit(v, 2);
    w->old.collect();
  });
  run.finally([w, held] {
    held->withdraw();
    nothing_is_left(w);
  });
}
void eager_visits(model::scenario& run) { two_rows_over_what_is_cut(eager_world(), false, run); }
void range_visits(model::scenario& run) { two_rows_over_what_is_cut(range_world(), false, run); }
void eager_fetches(model::scenario& run) { two_rows_over_what_is_cut(eager_world(), true, run); }
void range_fetches(model::scenario& run) { two_rows_over_what_is_cut(range_world(), true, run); }

/// Two snapshots, of which one goes while a writer cuts: what it alone needed is freed by its time
/// or cut out, but not both.
template <class World>
void the_oldest_goes(const std::shared_ptr<World>& w, model::scenario& run) {
  auto first = std::make_shared<census::ticket>(w->board.living.announce(w->board.clock));
  w->commit(7, 1);
  auto second = std::make_shared<census::ticket>(w->board.living.announce(w->board.clock));
  w->commit(8, 1);
  w->commit(9, 1);
  run.thread([w, first] {
    first->withdraw();
    w->old.collect();
  });
  run.thread([w] { w->commit(10, 1); });
  run.finally([w, second] {
    model::check(w->read(0, second->timestamp()) == 7, "a snapshot has changed");
    second->withdraw();
    nothing_is_left(w);
  });
}
void the_oldest_goes_eager(model::scenario& run) { the_oldest_goes(eager_world(), run); }
void the_oldest_goes_range(model::scenario& run) { the_oldest_goes(range_world(), run); }

/// A snapshot of the beginning is held. One thread cuts; another one commits, which cuts, too.
void two_cut(model::scenario& run) {
  auto w = range_world();
  auto held = std::make_shared<census::ticket>(w->board.living.announce(w->board.clock));
  auto between = std::make_shared<census::ticket>();
  w->commit(7, 1);
  *between = w->board.living.announce(w->board.clock);
  for (std::uint64_t v = 8; v < 11; ++v) w->commit(v, 1);
  run.thread([w, between] {
    between->withdraw();
    w->old.collect();
  });
  run.thread([w] {
    w->commit(11, 1);
    w->old.collect();
  });
  run.finally([w, held] {
    model::check(w->read(0, 1) == 0, "a snapshot has changed");
    held->withdraw();
    nothing_is_left(w);
  });
}

/// A serializable commit that comes to nothing has pruned the chain all the same.
void a_withdrawal(model::scenario& run) {
  auto w = eager_world();
  auto held = std::make_shared<census::ticket>(w->board.living.announce(w->board.clock));
  w->commit(7, 1);
  w->commit(8, 1);
  run.thread([w] { model::check(w->read(0, 1) == 0, "a snapshot has changed"); });
  run.thread([w] {
    w->commit_if(9, 0, 1, never_holds);
    w->commit(10, 1);
  });
  run.finally([w, held] {
    model::check(w->read(0, w->board.clock.now()) == 10, "what is committed is seen");
    held->withdraw();
    nothing_is_left(w);
  });
}

/// One snapshot after the other, with commits in between: what the former ones needed is freed, and
/// the chain still leads there.
template <class World>
void snapshots_in_turn(const std::shared_ptr<World>& w, model::scenario& run) {
  run.thread([w] {
    for (std::uint64_t turn = 0; turn < 3; ++turn) {
      auto held = w->board.living.announce(w->board.clock);
      for (std::uint64_t v = 1; v < 5; ++v) {
        w->commit(10 * turn + v, 1);
        // To the other row, so that there is time to free something.
        for (int i = 0; i < 3; ++i) w->commit_if(v, 1, 2, always_holds);
      }
      model::check(w->read(0, held.timestamp()) == (turn == 0 ? 0 : 10 * turn - 6),
                   "a snapshot has changed");
      held.withdraw();
    }
  });
  run.finally([w] { nothing_is_left(w); });
}
void eager_in_turn(model::scenario& run) { snapshots_in_turn(eager_world(), run); }
void range_in_turn(model::scenario& run) { snapshots_in_turn(range_world(), run); }

/// A commit that found its places, but did not happen.
template <class World>
void a_commit_is_cancelled(const std::shared_ptr<World>& w, model::scenario& run) {
  auto held = std::make_shared<census::ticket>(w->board.living.announce(w->board.clock));
  w->commit(7, 1);
  w->commit(8, 1);
  run.thread([w, held] {
    w->cancel(0);
    // More than once, so that what was retired is freed.
    for (int i = 0; i < 4; ++i) model::check(w->read(0, 1) == 0, "a snapshot has changed");
    w->commit(9, 1);
    model::check(w->read(0, 1) == 0, "a snapshot has changed");
    held->withdraw();
  });
  run.finally([w] { nothing_is_left(w); });
}
void eager_is_cancelled(model::scenario& run) { a_commit_is_cancelled(eager_world(), run); }
void range_is_cancelled(model::scenario& run) { a_commit_is_cancelled(range_world(), run); }

/// How many executions are tried each day of what is right: all planted faults below but one are
/// found in a hundredth of them.
constexpr std::uint64_t tries = 2'000;

/// For scenarios of one thread.
model::options alone() {
  model::options how = at_most_in_order(0);
  how.max_steps = 100000;
  return how;
}

TEST(db_chain_model, snapshots_stay_as_they_are) {
  expect_clean(over_eager, at_most_in_order(1), tries);
  expect_clean(over_range, at_most_in_order(1), tries);
  expect_clean(over_eager_cuts, at_most_in_order(2), tries);
  expect_clean(over_range_cuts, at_most_in_order(2), tries);
  expect_clean(a_withdrawal, at_most_in_order(1), tries);
  for (const auto& over : {eager_visits, range_visits, eager_fetches, range_fetches}) {
    expect_clean(over, at_most_in_order(1), tries);
  }
}
TEST(db_chain_model, each_version_goes_once) {
  expect_clean(the_oldest_goes_eager, at_most_in_order(1), tries);
  expect_clean(the_oldest_goes_range, at_most_in_order(1), tries);
  expect_clean(two_cut, at_most_in_order(1), tries);
  for (const auto& one : {eager_in_turn, range_in_turn, eager_is_cancelled, range_is_cancelled}) {
    expect_clean(one, alone());
  }
}
TEST(db_chain_model, loads_may_be_late) {
  expect_clean(over_eager_cuts, at_most(0), tries);
  expect_clean(over_range_cuts, at_most(0), tries);
}
TEST(db_chain_model, faults_of_walks_are_found) {
  for (const auto& over : {over_eager_cuts, over_range_cuts}) {
    expect_found(over, "chain.times_not_asked", at_most_in_order(1), "there is a row");
  }
  for (const auto& over : {eager_visits, range_visits}) {
    expect_found(over, "chain.visits_without_guard", at_most_in_order(1), "free");
  }
  for (const auto& over : {eager_fetches, range_fetches}) {
    expect_found(over, "chain.fetches_without_guard", at_most_in_order(1), "free");
  }
  expect_found(eager_in_turn, "chain.walks_on", alone(), "freed");
  // Range tracking walks down to a version that has not ended before all snapshots: what is freed
  // by its time is further down.
}
TEST(db_chain_model, faults_of_eager_pruning_are_found) {
  expect_found(over_eager_cuts, "eager.head_before_guard", at_most_in_order(1), "freed");
  expect_found(over_eager_cuts, "eager.frees_at_once", at_most_in_order(1), "free");
  expect_found(eager_is_cancelled, "eager.passed_go_early", alone(), "freed");
}
TEST(db_chain_model, faults_of_range_tracking_are_found) {
  expect_found(over_range_cuts, "range.head_before_guard", at_most_in_order(1), "freed");
  expect_found(over_range_cuts, "range.frees_at_once", at_most_in_order(1), "free");
  expect_found(range_in_turn, "range.first_goes_too", alone(), "freed");
  // In order, tens of thousands of executions come before it.
  model::options random = in_random_orders(20'000);
  random.weak_memory = false;
  random.pct_depth = 4;
  expect_found(two_cut, "range.two_at_a_time", random, "data race");
}

}  // namespace
