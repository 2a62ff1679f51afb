// SPDX-License-Identifier: Apache-2.0
// What a query does beside writers: it copies whole blocks, and shares the gate of one reader among
// several threads.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>

#include "db/commit/gate.hpp"
#include "db/versions/block.hpp"
#include "db/versions/delta_steam.hpp"
#include "db/versions/shared_steps.hpp"

#include "model/db_world.hpp"
#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

using steam = world<delta_steam>;

/// As a query reads: what read_block() is not sure of goes to read_row().
std::uint64_t read_by_block(steam& w, unsigned row, std::uint64_t time) {
  std::uint64_t word = 0;
  std::uint64_t shape = 0;
  const column_copy copy{{0, 1}, &word};
  const row_place place = w.at(row);
  const block_rows good = read_block(place.head, place.block, time, {&copy, 1}, 0, &shape);
  return good == every_row ? word : w.read(row, time);
}

/// A commit over two rows: a snapshot sees all of it or nothing, however often it looks.
void blocks_beside_writers(model::scenario& run) {
  auto w = std::make_shared<steam>(delta_steam::options{.look_every = 1});
  run.thread([w] { w->commit(1, 2); });
  run.thread([w] {
    const auto ticket = w->board.living.announce(w->board.clock);
    const std::uint64_t first = read_by_block(*w, 0, ticket.timestamp());
    const std::uint64_t second = read_by_block(*w, 1, ticket.timestamp());
    model::check(first == second, "half of a commit was seen");
    model::check(read_by_block(*w, 0, ticket.timestamp()) == first, "a snapshot has changed");
  });
}

/// Two threads read for one reader, which is ended meanwhile; what it needed goes.
void a_shared_reader_is_ended(model::scenario& run) {
  auto w = std::make_shared<steam>(delta_steam::options{.look_every = 1});
  struct parts {
    owned_label label;
    gate way;
    gate_board all;
    census::ticket mine;
    shared_steps steps{&way};
  };
  auto p = std::make_shared<parts>();
  p->mine = w->board.living.announce(w->board.clock);
  p->all.put(p->way, p->mine, p->label, 1);
  for (int i = 0; i < 2; ++i) {
    run.thread([w, p] {
      if (!p->steps.enter()) return;
      model::check(w->read(0, p->mine.timestamp()) == 0, "a snapshot has changed");
      p->steps.leave();
    });
  }
  run.thread([w, p] {
    w->commit(7, 1);
    p->all.end_overdue(nullptr, 1);
    w->old.collect();
  });
  run.finally([p] {
    p->all.take(p->way);
    p->mine.withdraw();
  });
}

TEST(db_query_model, blocks_are_of_one_moment) {
  expect_clean(blocks_beside_writers, at_most(1));
  expect_clean(blocks_beside_writers, at_most_in_order(2));
  expect_found(blocks_beside_writers, "block.no_second_look", at_most(1),
               "half of a commit was seen");
}
TEST(db_query_model, the_last_one_leaves_the_gate) {
  expect_clean(a_shared_reader_is_ended, at_most_in_order(2));
  expect_found(a_shared_reader_is_ended, "shared_steps.first_leaves_for_all", at_most(2),
               "use after free");
}

}  // namespace
