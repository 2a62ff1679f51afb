// SPDX-License-Identifier: Apache-2.0
// Evacuation of partitions under the model checker: readers beside copies, drops and sweeps.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

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

/// The same with two rows that are fetched and looked for together.
void two_rows_beside_an_evacuation(model::scenario& run) {
  auto w = eager();
  auto held = hold(*w);
  w->commit(7, 2);
  run.thread([w] {
    w->fetch_together(1);
    const bool same = w->read_together(1) == std::array<std::uint64_t, 2>{};
    model::check(same, "a snapshot has changed");
  });
  run.thread([w] {
    for (std::uint64_t v = 8; v < 11; ++v) w->commit(v, 2);
  });
  run.finally([w, held] {
    w->old.collect();
    const bool same = w->read_together(1) == std::array<std::uint64_t, 2>{};
    model::check(same, "a snapshot has changed");
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

/// Two writers put versions into parts of one partition, each of which is led to by the one before.
void two_writers_in_a_partition(model::scenario& run) {
  auto w = eager(8, 3);
  auto held = hold(*w);
  for (unsigned row = 0; row < 2; ++row) {
    run.thread([w, row] {
      for (std::uint64_t v = 7; v < 9; ++v) w->commit_if(v, row, row + 1, always_holds);
    });
  }
  run.finally([w, held] {
    for (std::uint64_t v = 9; v < 13; ++v) w->commit(v, 2);
    w->old.collect();
    for (unsigned row = 0; row < 2; ++row) {
      model::check(w->read(row, held->timestamp()) == 0, "a snapshot has changed");
    }
    held->withdraw();
    nothing_is_left(*w);
  });
}

std::shared_ptr<evacuated> with_pieces() {
  return std::make_shared<evacuated>(
      delta_one_shot::options{.transactions = 8, .slack = 512, .most_partitions = 3});
}
std::uint64_t chunk_of(const evacuated& w, unsigned row) {
  return tagged::position_of(w.heads[row].older.load_relaxed()) / delta_partition::chunk_units;
}
/// The rows' newest versions come to lie in two partitions.
void leave_the_partition(evacuated& w) {
  const auto partition = [&](unsigned row) {
    return tagged::partition_of(w.heads[row].older.load_relaxed());
  };
  while (partition(0) == partition(1)) w.commit(9, 1);
}
/// A partition is to go in two pieces. The first has a version that leads to one of the second,
/// which is needed: its writer has filled its part of the first piece when others were at the
/// second.
std::shared_ptr<evacuated> with_two_pieces(holder& held) {
  auto w = with_pieces();
  held = hold(*w);
  w->commit(7, 1);
  commit_board::record& slow = w->board.take();  // that which has committed
  for (std::uint64_t v = 8; chunk_of(*w, 0) == 0; ++v) w->commit(v, 1);
  w->commit_if(7, 1, 2, always_holds);
  model::check(chunk_of(*w, 1) == 1, "the needed version lies in the second piece");
  w->board.give_back(slow);
  w->commit_if(8, 1, 2, always_holds);
  model::check(chunk_of(*w, 1) == 0, "the one in front of it lies in the first piece");
  leave_the_partition(*w);
  return w;
}
/// While a thread looks for the version of the second row that a held snapshot needs.
void goes_in_pieces(const std::shared_ptr<evacuated>& w, const holder& held, model::scenario& run) {
  run.thread([w] { model::check(w->read(1, 1) == 0, "a snapshot has changed"); });
  run.thread([w] { w->old.collect(); });
  run.finally([w, held] {
    w->old.collect();
    model::check(w->old.stats().dropped_between >= 3, "what lies between goes");
    for (unsigned row = 0; row < 2; ++row) {
      model::check(w->read(row, held->timestamp()) == 0, "a snapshot has changed");
    }
    held->withdraw();
    nothing_is_left(*w);
  });
}
void a_partition_goes_in_pieces(model::scenario& run) {
  holder held;
  auto w = with_two_pieces(held);
  goes_in_pieces(w, held, run);
}
/// The needed version lies in the first piece.
void a_first_piece_goes(model::scenario& run) {
  auto w = with_pieces();
  auto held = hold(*w);
  w->commit_if(7, 1, 2, always_holds);
  for (std::uint64_t v = 8; chunk_of(*w, 0) == 0; ++v) w->commit(v, 1);
  leave_the_partition(*w);
  goes_in_pieces(w, held, run);
}

/// Two threads drop it: the one that has found it in pieces comes to it when the other has dropped
/// it, and it may be used again.
void two_threads_drop_pieces(model::scenario& run) {
  holder held;
  auto w = with_two_pieces(held);
  for (int n = 0; n < 2; ++n) run.thread([w] { w->old.collect(); });
  run.finally([w, held] {
    w->old.collect();
    model::check(w->read(1, held->timestamp()) == 0, "a snapshot has changed");
    held->withdraw();
    nothing_is_left(*w);
  });
}

/// Two threads drop and sweep at once, versions of the same rows. What the oldest snapshot alone
/// saw goes.
void two_threads_collect(model::scenario& run) {
  auto w = eager(1, 4);
  auto first = hold(*w);
  w->commit(7, 2);
  auto second = hold(*w);
  w->commit(8, 2);
  run.thread([w, first] {
    first->withdraw();
    w->old.collect();
  });
  run.thread([w, second] {
    w->commit(9, 2);
    w->old.collect();
    model::check(w->read(0, second->timestamp()) == 7, "the younger snapshot has changed");
  });
  run.finally([w, second] {
    model::check(w->read(0, second->timestamp()) == 7, "the younger snapshot has changed");
    model::check(w->read(1, second->timestamp()) == 7, "the younger snapshot has changed");
    second->withdraw();
    nothing_is_left(*w);
  });
}

/// A snapshot begins after a writer's look at the census, and before that writer drops a partition.
void a_snapshot_begins_beside_a_drop(model::scenario& run) {
  struct begun {
    holder at;
    std::uint64_t seen = 0;
  };
  auto w = eager();
  auto b = std::make_shared<begun>();
  run.thread([w] {
    for (std::uint64_t v = 7; v < 9; ++v) w->commit(v, 1);
  });
  run.thread([w, b] {
    b->at = hold(*w);
    b->seen = w->read(0, b->at->timestamp());
  });
  run.finally([w, b] {
    model::check(w->read(0, b->at->timestamp()) == b->seen, "a snapshot has changed");
    b->at->withdraw();
    nothing_is_left(*w);
  });
}

/// Two versions that are needed lie in two partitions in which transactions are registered, and the
/// one in front of them is dropped.
void two_needed_versions_behind_a_dropped_one(model::scenario& run) {
  auto w = eager(2, 4);
  run.thread([w] {
    const auto enter = [&] {
      commit_board::record& slow = w->board.take();
      ask a{.words = 1, .row = 1, .since = 1, .chain = &w->heads[1].older};
      model::check(w->old.reserve(slow.number(), std::span(&a, 1), 0), "there is room");
      return slow.number();
    };
    auto first = hold(*w);
    const std::uint32_t slow = enter();
    w->commit(7, 1);
    auto second = hold(*w);
    const std::uint32_t slower = enter();
    w->commit(8, 1);
    for (std::uint64_t v = 9; v < 14; ++v) w->commit(v, 1);
    w->old.collect();
    const auto check = [&] {
      model::check(w->read(0, first->timestamp()) == 0, "the older snapshot has changed");
      model::check(w->read(0, second->timestamp()) == 7, "the younger snapshot has changed");
    };
    check();
    w->old.cancel(slow);
    w->old.cancel(slower);
    w->old.collect();
    check();
    first->withdraw();
    second->withdraw();
    nothing_is_left(*w);
  });
}

/// Two threads drop at once partitions with versions of one row, all of which are needed.
void two_threads_evacuate(model::scenario& run) {
  auto w = eager(1, 4);
  auto held = std::make_shared<std::vector<holder>>();
  for (std::uint64_t v = 7; v < 10; ++v) {
    held->push_back(hold(*w));
    w->commit(v, 1);
  }
  held->push_back(hold(*w));
  run.thread([w] { w->commit(10, 1); });
  run.thread([w] { w->old.collect(); });
  run.finally([w, held] {
    w->old.collect();
    const std::array<std::uint64_t, 4> seen = {0, 7, 8, 9};
    for (std::size_t i = 0; i < seen.size(); ++i) {
      model::check(w->read(0, (*held)[i]->timestamp()) == seen[i], "a snapshot has changed");
    }
    held->clear();
    nothing_is_left(*w);
  });
}

/// What is kept alone: one thread keeps and sweeps, another looks.
struct kept_world {
  struct look_at {
    std::uint64_t row;
    std::uint64_t time;
    std::uint64_t since;  // of what there is; 0: nothing
  };
  kept_world() : nodes(soon()), kept(nodes, memory) {}

  static region_domain::options soon() {
    region_domain::options o;
    o.scheme.patience = 1;
    return o;
  }
  void keep(std::uint64_t row, std::uint64_t since, std::uint64_t until) {
    alignas(version) std::array<std::byte, version::bytes(1)> place;
    version* const v = version::make(place.data());
    v->since.write(since);
    v->put(0, since);
    kept.keep(row, *v, 1, until, {since});
  }
  void sweep(const std::vector<std::uint64_t>& living) {
    kept.sweep(living, 100);
    give_up();
  }
  void give_up() {
    kept.give_up();
    nodes.drain();
  }
  void look(look_at at) {
    auto guard = nodes.enter();
    const version* const v = kept.find(at.row, at.time);
    if (at.since == 0) return model::check(v == nullptr, "a version is there that was not kept");
    model::check(v != nullptr, "a version is missing");
    model::check(v->words()[0].read() == at.since, "a version of another time was found");
  }
  void look(std::initializer_list<look_at> all) {
    for (const look_at& at : all) look(at);
  }
  /// The version of the row that began then may be there, or not yet.
  void may_find(std::uint64_t row, std::uint64_t since) {
    auto guard = nodes.enter();
    const version* const v = kept.find(row, since);
    if (v == nullptr) return;
    model::check(v->words()[0].read() == since, "a version of another time was found");
  }

  region_domain nodes;
  delta_chunks memory;
  kept_versions kept;
};

void a_list_grows(model::scenario& run) {
  auto w = std::make_shared<kept_world>();
  w->keep(0, 1, 3);
  run.thread([w] {
    w->look({{0, 2, 1}});
    w->may_find(0, 3);
    w->may_find(0, 9);
    w->look({{0, 1, 1}, {0, 20, 0}});
  });
  run.thread([w] {
    for (std::uint64_t since = 3; since < 11; since += 2) w->keep(0, since, since + 2);
    w->give_up();
  });
  run.finally(
      [w] { w->look({{0, 1, 1}, {0, 3, 3}, {0, 6, 5}, {0, 7, 7}, {0, 10, 9}, {0, 11, 0}}); });
}

/// What ended earlier is kept later.
void a_list_is_put_in_order(model::scenario& run) {
  auto w = std::make_shared<kept_world>();
  w->keep(0, 7, 9);
  run.thread([w] {
    w->look({{0, 8, 7}});
    w->may_find(0, 1);
    w->may_find(0, 3);
    w->look({{0, 7, 7}, {0, 6, 0}});
  });
  run.thread([w] {
    w->keep(0, 3, 5);
    w->keep(0, 1, 3);
    w->give_up();
  });
  run.finally([w] { w->look({{0, 1, 1}, {0, 3, 3}, {0, 5, 0}, {0, 8, 7}, {0, 9, 0}}); });
}

void the_table_grows(model::scenario& run) {
  auto w = std::make_shared<kept_world>();
  w->keep(0, 1, 3);
  run.thread([w] {
    w->look({{0, 2, 1}});
    w->may_find(1, 1);
    w->may_find(2, 1);
    w->look({{0, 1, 1}});
  });
  run.thread([w] {
    w->keep(1, 1, 3);
    w->keep(2, 1, 3);
    w->give_up();
  });
  run.finally([w] { w->look({{0, 2, 1}, {1, 2, 1}, {2, 2, 1}, {3, 2, 0}}); });
}

/// Readers come upon versions that they do not see while these are taken out.
void versions_go(model::scenario& run) {
  auto w = std::make_shared<kept_world>();
  w->keep(0, 5, 7);
  for (std::uint64_t since = 5; since < 15; since += 2) w->keep(1, since, since + 2);
  run.thread([w] { w->look({{0, 2, 0}, {1, 2, 0}, {1, 13, 13}}); });
  run.thread([w] {
    w->sweep({9, 11, 13});
    w->sweep({13});
  });
  run.finally([w] { w->look({{0, 5, 0}, {1, 5, 0}, {1, 11, 0}, {1, 14, 13}}); });
}

/// Blocks of rows of which nothing is kept any more go, and the table becomes smaller.
void blocks_go(model::scenario& run) {
  auto w = std::make_shared<kept_world>();
  w->keep(0, 1, 3);
  for (std::uint64_t row = 1; row < 5; ++row) w->keep(row, 5, 7);
  w->give_up();
  run.thread([w] { w->look({{0, 2, 1}, {4, 2, 0}, {0, 1, 1}}); });
  run.thread([w] { w->sweep({1}); });
  run.finally([w] { w->look({{0, 1, 1}, {1, 5, 0}, {4, 5, 0}}); });
}

/// A row that a held snapshot does not see was changed once, and that version has gone. Its link is
/// dead as long as the snapshot is there, however often its partition is used again, and though a
/// version that the snapshot sees, another row's, comes to lie where it led.
scenario_setup dead_links_stay_dead(std::uint64_t lives) {
  return [lives](model::scenario& run) {
    run.thread([lives] {
      auto w = eager(1, 4);
      auto held = hold(*w);
      row_head& late = w->heads[1];
      commit_board::record& other = w->board.take();
      commit_board::begin(other);
      late.stamp.store_relaxed(w->board.publish(other));
      w->board.give_back(other);
      w->commit_if(8, 1, 2, always_holds);
      for (std::uint64_t i = 0; i < lives; ++i) w->cancel(0);
      w->commit(9, 1);
      std::uint64_t value = 0;
      model::check(read_row(w->board, w->old, w->at(1), held->timestamp(), evacuated::one_word(),
                            &value) == 0,
                   "a row is seen that was not there");
      held->withdraw();
    });
  };
}

TEST(db_evacuated_model, snapshots_find_their_versions) {
  expect_clean(drops_against_a_snapshot, at_most_in_order(1));
  expect_clean(a_reader_beside_an_evacuation, at_most_in_order(2));
  expect_clean(two_rows_beside_an_evacuation, at_most_in_order(1));
  expect_clean(a_sweep_beside_a_reader, at_most_in_order(1));
  expect_clean(one_version_moved_and_one_not, at_most_in_order(1));
  expect_clean(a_needed_version_behind_a_dropped_one, at_most_in_order(1));
  expect_clean(a_snapshot_begins_beside_a_drop, at_most_in_order(1));
  expect_clean(two_needed_versions_behind_a_dropped_one, at_most_in_order(0));
  expect_clean(two_writers_in_a_partition, at_most_in_order(1));
  expect_clean(a_partition_goes_in_pieces, at_most_in_order(2));
  expect_clean(two_threads_drop_pieces, at_most_in_order(1));
  expect_clean(a_first_piece_goes, at_most_in_order(1));
  expect_clean(two_threads_evacuate, at_most_in_order(1));
  expect_clean(two_threads_collect, at_most_in_order(1));
  model::options alone = at_most_in_order(0);
  alone.max_steps = 100000;
  expect_clean(tags_are_used_up, alone);
  for (std::uint64_t lives = 0; lives < 4 * tagged::tags; ++lives) {
    expect_clean(dead_links_stay_dead(lives), alone);
  }
}

TEST(db_evacuated_model, kept_versions_are_found) {
  for (const auto& scenario :
       {a_list_grows, a_list_is_put_in_order, the_table_grows, versions_go, blocks_go}) {
    expect_clean(scenario, at_most_in_order(2));
  }
}

TEST(db_evacuated_model, faults_of_evacuation_are_found) {
  expect_found(a_reader_beside_an_evacuation, "evacuated.nothing_moved", at_most_in_order(1),
               "there is a row");
  expect_found(a_reader_beside_an_evacuation, "evacuated.no_second_look", at_most_in_order(2),
               "there is a row");
  expect_found(two_rows_beside_an_evacuation, "evacuated.no_second_look", at_most_in_order(1),
               "there is a row");
  expect_found(a_needed_version_behind_a_dropped_one, "evacuated.links_not_followed",
               at_most_in_order(1), "there is a row");
  expect_found(a_partition_goes_in_pieces, "evacuated.links_within_not_followed",
               at_most_in_order(2), "there is a row");
  expect_found(two_threads_drop_pieces, "evacuated.rest_not_looked_at", at_most_in_order(2),
               "a partition was dropped that was not locked");
  expect_found(a_first_piece_goes, "evacuated.pieces_before_copies", at_most_in_order(2),
               "there is a row");
  expect_found(a_sweep_beside_a_reader, "kept.living_not_asked", at_most_in_order(1),
               "there is a row");
  expect_found(one_version_moved_and_one_not, "kept.end_not_asked", at_most_in_order(1),
               "the younger snapshot has changed");
  expect_found(a_reader_beside_an_evacuation, "between.tag_not_asked", at_most_in_order(2),
               "data race");
}

}  // namespace
