// SPDX-License-Identifier: Apache-2.0
// Commits, snapshots and version storages of db/ under the model checker.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>

#include <spolia/base/backoff.hpp>
#include <spolia/model/engine.hpp>

#include "db/versions/delta_consolidated.hpp"
#include "db/versions/delta_one_shot.hpp"
#include "db/versions/delta_steam.hpp"
#include "model/db_world.hpp"
#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

using one_shot = world<delta_one_shot>;
using steam = world<delta_steam>;
using consolidated = world<delta_consolidated>;

std::shared_ptr<one_shot> eager_one_shot(std::uint32_t transactions) {
  return std::make_shared<one_shot>(
      delta_one_shot::options{.transactions = transactions, .slack = 8, .most_partitions = 2});
}

/// A writer changes both rows; a reader looks at them.
void a_commit_against_a_snapshot(model::scenario& run) {
  auto w = eager_one_shot(100);
  run.thread([w] { w->look(true); });
  run.thread([w] { w->commit(7, 2); });
  run.finally([w] {
    const std::uint64_t now = w->board.clock.now();
    model::check(w->read(0, now) == 7 && w->read(1, now) == 7, "what is committed is seen");
  });
}

/// The same for one row, and two commits: to the chain, and back to the table.
void two_commits_against_a_snapshot(model::scenario& run) {
  auto w = eager_one_shot(100);
  run.thread([w] { w->look(false); });
  run.thread([w] {
    w->commit(7, 1);
    w->commit(8, 1);
  });
}

/// Each commit has a partition of its own, which is dropped as soon as it can be.
template <class World>
void drops_against_a_snapshot(const std::shared_ptr<World>& w, model::scenario& run) {
  run.thread([w] { w->look(false); });
  run.thread([w] {
    for (std::uint64_t v = 7; v < 10; ++v) w->commit(v, 1);
    w->old.collect();
  });
  run.finally([w] {
    w->old.collect();
    const delta_stats s = w->old.stats();
    model::check(s.versions_made == s.versions_dropped, "a version is left that no snapshot needs");
  });
}
void partitions_are_dropped(model::scenario& run) {
  drops_against_a_snapshot(eager_one_shot(1), run);
}
/// Two writers, each with a stripe of its own, whose turns are over after each version, and mostly
/// end without a look; partitions go from one to the other.
void stripes_against_a_snapshot(model::scenario& run) {
  auto w = std::make_shared<one_shot>(delta_one_shot::options{
      .transactions = 3, .cache_bytes = 1, .stripes = 2, .slack = 8, .most_partitions = 4});
  run.thread([w] { w->look(false); });
  for (const unsigned row : {0U, 1U}) {
    run.thread([w, row] {
      for (std::uint64_t v = 7; v < 9; ++v) w->commit_if(v, row, row + 1, always_holds);
    });
  }
  run.finally([w] {
    w->old.collect();
    const delta_stats s = w->old.stats();
    model::check(s.versions_made == s.versions_dropped, "a version is left that no snapshot needs");
    model::check(s.partitions >= 3, "there is one more than the first ones");
  });
}
void blocks_are_freed(model::scenario& run) {
  drops_against_a_snapshot(std::make_shared<steam>(delta_steam::options{.look_every = 1}), run);
}

/// With three partitions there are no lanes, and what leads out of a partition is always noted.
std::shared_ptr<consolidated> eager_consolidated(std::uint32_t transactions = 1,
                                                 std::uint32_t partitions = 3) {
  return std::make_shared<consolidated>(delta_one_shot::options{
      .transactions = transactions, .slack = 8, .most_partitions = partitions});
}
/// Turns go by, so that the snapshots that are there become held.
void let_turns_pass(consolidated& w) {
  for (int i = 0; i < 4; ++i) {
    w.board.clock.tick();
    w.cancel(1);
  }
}
void partitions_between_snapshots_are_dropped(model::scenario& run) {
  drops_against_a_snapshot(eager_consolidated(), run);
}

/// A snapshot of the beginning is held. Its thread reads while another one writes and drops what
/// lies between: the reader gets over the gap.
void a_reader_crosses_a_gap(model::scenario& run) {
  auto w = eager_consolidated();
  auto held = std::make_shared<census::ticket>(w->board.living.announce(w->board.clock));
  w->commit(7, 1);
  w->commit(8, 1);
  run.thread([w] { model::check(w->read(0, 1) == 0, "a snapshot has changed"); });
  run.thread([w] {
    w->commit(9, 1);
    w->commit(10, 1);
  });
  run.finally([w, held] {
    w->old.collect();
    model::check(w->read(0, 1) == 0, "a snapshot has changed");
    model::check(w->old.stats().versions_dropped >= 2, "what lies between goes");
    held->withdraw();
    w->old.collect();
    const delta_stats s = w->old.stats();
    model::check(s.versions_made == s.versions_dropped, "a version is left that no snapshot needs");
  });
}

/// The same with two rows, whose walks go on together.
void two_rows_over_a_gap(model::scenario& run) {
  auto w = eager_consolidated();
  auto held = std::make_shared<census::ticket>(w->board.living.announce(w->board.clock));
  w->commit(7, 2);
  w->commit(8, 2);
  run.thread([w] {
    w->fetch_together(1);
    const bool same = w->read_together(1) == std::array<std::uint64_t, 2>{};
    model::check(same, "a snapshot has changed");
  });
  run.thread([w] {
    w->commit(9, 2);
    w->commit(10, 2);
  });
  run.finally([w, held] {
    w->old.collect();
    const bool same = w->read_together(1) == std::array<std::uint64_t, 2>{};
    model::check(same, "a snapshot has changed");
    model::check(w->old.stats().versions_dropped >= 4, "what lies between goes");
  });
}

/// Two snapshots are held, and a gap is before what the younger one sees: it finds that, not what
/// the older one sees, which lies nearer to the start of the ring.
void two_readers_cross_a_gap(model::scenario& run) {
  auto w = eager_consolidated(1, 4);
  auto first = std::make_shared<census::ticket>(w->board.living.announce(w->board.clock));
  let_turns_pass(*w);
  w->commit(7, 1);
  auto second = std::make_shared<census::ticket>(w->board.living.announce(w->board.clock));
  for (std::uint64_t v = 8; v < 11; ++v) w->commit(v, 1);
  run.thread([w, second] {
    model::check(w->read(0, second->timestamp()) == 7, "the younger snapshot has changed");
  });
  run.thread([w] {
    for (std::uint64_t v = 11; v < 14; ++v) w->commit(v, 1);
    w->old.collect();
  });
  run.finally([w, first, second] {
    model::check(w->read(0, first->timestamp()) == 0, "the older snapshot has changed");
    model::check(w->read(0, second->timestamp()) == 7, "the younger snapshot has changed");
    model::check(w->old.stats().dropped_between >= 1, "what lies between goes");
  });
}

/// Readers of one snapshot go over gaps. What they have found out of the first row leads one of
/// them; the other one looks for the second row until all is put together anew.
void shortcuts_are_made_anew(model::scenario& run) {
  auto w = eager_consolidated();
  auto held = std::make_shared<census::ticket>(w->board.living.announce(w->board.clock));
  for (std::uint64_t v = 7; v < 11; ++v) w->commit(v, 1);
  w->old.collect();
  const auto look = [w](unsigned row) {
    for (int i = 0; i < 4; ++i) model::check(w->read(row, 1) == 0, "a snapshot has changed");
  };
  look(0);
  for (std::uint64_t v = 11; v < 15; ++v) w->commit_if(v, 1, 2, always_holds);
  w->old.collect();
  run.thread([w] { model::check(w->read(0, 1) == 0, "a snapshot has changed"); });
  run.thread([look] { look(1); });
  run.finally([w, held] {
    const bool same = w->read_together(1) == std::array<std::uint64_t, 2>{};
    model::check(same, "a snapshot has changed");
    held->withdraw();
    w->old.collect();
    const delta_stats s = w->old.stats();
    model::check(s.versions_made == s.versions_dropped, "a version is left that no snapshot needs");
  });
}

/// No snapshot was held when the second version went to a partition of its own, so that from there
/// it is not known where the first one lies; the ones before it are dropped, but it is not.
void a_gap_in_front_of_what_was_not_noted(model::scenario& run) {
  auto w = eager_consolidated(1, 4);
  auto held = std::make_shared<census::ticket>(w->board.living.announce(w->board.clock));
  w->commit(7, 1);
  w->commit(8, 1);
  w->commit(9, 1);
  run.thread([w] { model::check(w->read(0, 1) == 0, "a snapshot has changed"); });
  run.thread([w] {
    w->commit(10, 1);
    w->old.collect();
  });
  run.finally([w, held] {
    model::check(w->read(0, 1) == 0, "a snapshot has changed");
    model::check(w->old.stats().versions_dropped >= 1, "what lies between goes");
    held->withdraw();
    w->old.collect();
    const delta_stats s = w->old.stats();
    model::check(s.versions_made == s.versions_dropped, "a version is left that no snapshot needs");
  });
}

/// A snapshot of the beginning is held, and rows are changed one after the other: what it sees is
/// kept apart, so that everything else can go. Its thread reads meanwhile.
void what_a_snapshot_sees_is_kept_apart(model::scenario& run) {
  auto w = eager_consolidated(2, 4);
  auto held = std::make_shared<census::ticket>(w->board.living.announce(w->board.clock));
  const auto second = [w](std::uint64_t v) { w->commit_if(v, 1, 2, always_holds); };
  let_turns_pass(*w);
  for (std::uint64_t v = 1; v < 5; ++v) w->commit(v, 1);
  run.thread([w] {
    model::check(w->read(1, 1) == 0, "a snapshot has changed");
    model::check(w->read(0, 1) == 0, "a snapshot has changed");
  });
  run.thread([w, second] {
    second(10);
    w->commit(11, 1);
    second(12);
  });
  run.finally([w, held] {
    w->old.collect();
    model::check(w->read(0, 1) == 0 && w->read(1, 1) == 0, "a snapshot has changed");
    const delta_stats s = w->old.stats();
    // Of each row the first one, and one that came before the snapshot was known.
    model::check(s.versions_made - s.versions_dropped <= 3, "what no snapshot sees goes");
    held->withdraw();
    w->old.collect();
    const delta_stats end = w->old.stats();
    model::check(end.versions_made == end.versions_dropped,
                 "a version is left that no snapshot needs");
  });
}

/// Tags come round while a snapshot is held: a partition waits rather than give one out twice.
void tags_are_used_up(model::scenario& run) {
  auto w = eager_consolidated(1, 4);
  run.thread([w] {
    auto ticket = w->board.living.announce(w->board.clock);
    let_turns_pass(*w);
    const std::uint64_t before = w->old.stats().versions_dropped;
    for (std::uint64_t v = 1; v < 30; ++v) {
      w->commit(v, 1);
      model::check(w->read(0, ticket.timestamp()) == 0, "a snapshot has changed");
    }
    const std::uint64_t dropped = w->old.stats().versions_dropped - before;
    model::check(dropped > 3, "what lies between goes");
    model::check(dropped < 25, "but not while its tag may be known");
    ticket.withdraw();
    w->old.collect();
    const delta_stats s = w->old.stats();
    model::check(s.versions_made == s.versions_dropped, "a version is left that no snapshot needs");
  });
}

struct lone_chunks {
  delta_chunks memory;
};
struct lone_partition : lone_chunks, delta_partition {
  lone_partition() : delta_partition(0, memory) {}
};

/// A partition whose versions ended at time 1, and in which no thread is.
std::shared_ptr<delta_partition> used_partition() {
  auto p = std::make_shared<lone_partition>();
  model::check(p->admit() == admission::granted, "no thread has locked it");
  p->ended(1);
  model::check(p->dismiss() || SPOLIA_FAULT("one_shot.last_out_sees_0"), "the last one knows");
  return p;
}

/// A writer registers while another thread drops the partition: it is in before, and keeps it, or
/// after.
void registration_against_a_drop(model::scenario& run) {
  auto p = used_partition();
  run.thread([p] {
    while (p->admit() == admission::closed) spin_wait();
    const std::uint64_t life = p->generation();
    const auto part = p->take(1, 1);
    model::check(part.first + 1 == part.end, "there is room");
    p->ended(5);
    model::check(p->generation() == life, "dropped under a registered writer");
    p->dismiss();
  });
  run.thread([p] {
    if (!p->lock_if_idle()) return;
    if (p->last_commit() <= 1) {
      p->drop_and_unlock();
    } else {
      p->unlock();
    }
  });
  run.finally([p] {
    model::check(p->last_commit() == 5, "the time of the last commit is known");
    model::check(p->lock_if_idle(), "no thread is left inside");
    p->drop_and_unlock();
    model::check(p->empty(), "the count is exact");
  });
}

/// Two writers leave: one of them is the last, and the later time stays.
void two_writers_leave(model::scenario& run) {
  auto p = used_partition();
  auto last = std::make_shared<atomic<int>>(0);
  for (std::uint64_t time : {5, 6}) {
    run.thread([p, last, time] {
      model::check(p->admit() == admission::granted, "no thread locks it");
      p->ended(time);
      if (p->dismiss()) last->fetch_add_relaxed(1);
    });
  }
  run.finally([p, last] {
    model::check(last->load_relaxed() >= 1, "one writer was the last");
    model::check(p->last_commit() == 6, "the time of the last commit is known");
  });
}

TEST(db_model, commits_are_seen_whole) {
  // With weak memory and two preemptions, too: five million executions, the better part of a
  // minute.
  expect_clean(a_commit_against_a_snapshot, at_most(1));
  expect_clean(a_commit_against_a_snapshot, at_most_in_order(2));
  expect_clean(two_commits_against_a_snapshot, at_most(1));
  expect_clean(two_commits_against_a_snapshot, at_most_in_order(2));
}
TEST(db_model, versions_stay_while_they_are_needed) {
  expect_clean(partitions_are_dropped, at_most(1));
  expect_clean(stripes_against_a_snapshot, at_most_in_order(1));
  expect_clean(blocks_are_freed, at_most(1));
}
TEST(db_model, readers_cross_gaps) {
  expect_clean(partitions_between_snapshots_are_dropped, at_most_in_order(1));
  expect_clean(a_reader_crosses_a_gap, at_most_in_order(2));
  expect_clean(shortcuts_are_made_anew, at_most_in_order(1));
  expect_clean(two_readers_cross_a_gap, at_most_in_order(1));
  expect_clean(two_rows_over_a_gap, at_most_in_order(1));
  expect_clean(a_gap_in_front_of_what_was_not_noted, at_most_in_order(1));
  expect_clean(what_a_snapshot_sees_is_kept_apart, at_most_in_order(1));
  model::options alone = at_most_in_order(0);
  alone.max_steps = 100000;
  expect_clean(tags_are_used_up, alone);
}
TEST(db_model, registration_is_never_lost) {
  expect_clean(registration_against_a_drop, at_most(3));
  expect_clean(two_writers_leave, at_most(3));
}

TEST(db_model, faults_of_commits_are_found) {
  const char* const half = "half of a commit was seen";
  expect_found(a_commit_against_a_snapshot, "commit.time_before_ready", at_most(2), half);
  expect_found(a_commit_against_a_snapshot, "commit.no_help", at_most(2), half);
  expect_found(a_commit_against_a_snapshot, "row.no_second_look", at_most(2),
               "a snapshot has changed");
  expect_found(a_commit_against_a_snapshot, "row.relaxed_words", at_most(2),
               "a snapshot has changed");
  expect_found(a_commit_against_a_snapshot, "row.chain_after_mark", at_most(2), "there is a row");
}
TEST(db_model, faults_of_the_printed_figure_are_found) {
  expect_found(registration_against_a_drop, "one_shot.look_then_register", at_most(2),
               "dropped under a registered writer");
  expect_found(registration_against_a_drop, "one_shot.unlock_by_store", at_most(2), "deadlock");
  expect_found(two_writers_leave, "one_shot.last_out_sees_0", at_most(2),
               "one writer was the last");
  expect_found(two_writers_leave, "one_shot.plain_maximum", at_most(2), "the time of the last");
  expect_found(partitions_are_dropped, "one_shot.minimum_not_asked", at_most_in_order(2),
               "a version was dropped while a snapshot needed it");
  expect_found(partitions_are_dropped, "one_shot.time_forgotten", at_most_in_order(2),
               "a version was dropped while a snapshot needed it");
  expect_found(stripes_against_a_snapshot, "one_shot.minimum_not_asked", at_most_in_order(1),
               "a version was dropped while a snapshot needed it");
  expect_found(blocks_are_freed, "steam.minimum_not_asked", at_most(1), "use after free");
}
TEST(db_model, faults_of_consolidation_are_found) {
  expect_found(a_reader_crosses_a_gap, "consolidated.no_bridge", at_most(2), "there is a row");
  expect_found(two_rows_over_a_gap, "consolidated.no_bridge", at_most_in_order(1),
               "there is a row");
  expect_found(a_reader_crosses_a_gap, "consolidated.times_not_asked", at_most(2),
               "there is a row");
  expect_found(a_gap_in_front_of_what_was_not_noted, "consolidated.notes_not_asked",
               at_most_in_order(1), "there is a row");
  expect_found(a_gap_in_front_of_what_was_not_noted, "between.stays_in_the_piece",
               at_most_in_order(1), "there is a row");
  expect_found(two_readers_cross_a_gap, "consolidated.first_readable", at_most_in_order(1),
               "the younger snapshot has changed");
  expect_found(two_readers_cross_a_gap, "consolidated.shortcuts_of_any_time", at_most_in_order(1),
               "the younger snapshot has changed");
  expect_found(two_readers_cross_a_gap, "consolidated.shortcuts_of_any_end", at_most_in_order(1),
               "the younger snapshot has changed");
  expect_found(shortcuts_are_made_anew, "consolidated.shortcuts_go_at_once", at_most_in_order(1),
               "races with an access");
  // As the figure has it: `doGc = false` where no snapshot needs the partition.
  expect_found(a_reader_crosses_a_gap, "consolidated.printed_full_branch", at_most_in_order(1),
               "a version is left that no snapshot needs");
  expect_found(a_gap_in_front_of_what_was_not_noted, "consolidated.one_is_enough",
               at_most_in_order(1), "there is a row");
  expect_found(a_gap_in_front_of_what_was_not_noted, "consolidated.looks_at_what_began_only",
               at_most_in_order(1), "there is a row");
  expect_found(what_a_snapshot_sees_is_kept_apart, "lanes.all_in_one", at_most_in_order(1),
               "what no snapshot sees goes");
  expect_found(a_gap_in_front_of_what_was_not_noted, "consolidated.began_forgotten",
               at_most_in_order(1), "there is a row");
  expect_found(a_reader_crosses_a_gap, "between.tag_not_asked", at_most_in_order(2), "data race");
  expect_found(a_reader_crosses_a_gap, "between.tag_before_address", at_most_in_order(2),
               "data race");
}

}  // namespace
