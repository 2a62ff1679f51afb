// SPDX-License-Identifier: Apache-2.0
// Versions that have the changed columns only, under the model checker.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>

#include <spolia/db/commit.hpp>
#include <spolia/db/row.hpp>
#include <spolia/model/engine.hpp>

#include "db/versions/delta_one_shot.hpp"
#include "db/versions/delta_range.hpp"
#include "db/versions/delta_steam.hpp"
#include "db/versions/delta_steam_eager.hpp"
#include "model/domain_scenarios.hpp"
#include "model/two_column_row.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

template <class Storage>
struct columns : two_column_row<Storage> {
  using row = two_column_row<Storage>;
  using row::at, row::board, row::head, row::old, row::whole;

  template <class... Options>
  explicit columns(Options... o) : row(o...) {
    old.keep_changes_only();
  }

  /// Commits `value` to a column, if it is `valid`.
  void commit(unsigned column, std::uint64_t value, bool valid = true) {
    commit_board::record& mine = board.take();
    ask a{.words = 1,
          .since = head.stamp.load_relaxed(),
          .older = head.older.load_relaxed(),
          .chain = &head.older,
          .columns = std::uint64_t{1} << column};
    model::check(old.reserve(mine.number(), std::span(&a, 1), 0), "there is room");
    const std::uint64_t mark = commit_board::begin(mine);
    keep_image(*a.place, a, at(), whole());
    two image{value, value};
    install(at(), mark, a.handle, row_exists, image.data(), a.columns, whole());
    if (!valid) take_back(at(), mark, a.place, a.handle, image.data(), whole());
    const std::uint64_t time = board.publish(mine);
    restamp(at(), time);
    old.published(mine.number(), time);
    board.give_back(mine);
  }
  /// What a snapshot sees does not change, and is what the row once was.
  template <class Was>
  void look(Was&& was) {
    const auto ticket = board.living.announce(board.clock);
    const two first = this->read(ticket.timestamp());
    model::check(was(first), "a row that never was");
    model::check(this->read(ticket.timestamp()) == first, "a snapshot has changed");
  }
};

using one_shot = columns<delta_one_shot>;
using steam = columns<delta_steam>;

/// One column after the other is changed; a reader puts the row together from both.
template <class World>
void changes_against_a_snapshot(const std::shared_ptr<World>& w, model::scenario& run) {
  run.thread([w] {
    w->look([](const two& r) { return r == two{0, 0} || r == two{7, 0} || r == two{7, 8}; });
  });
  run.thread([w] {
    w->commit(0, 7);
    w->commit(1, 8);
  });
  run.finally([w] {
    model::check(w->read(w->board.clock.now()) == two{7, 8}, "what is committed is seen");
    w->old.collect();
    const delta_stats s = w->old.stats();
    model::check(s.versions_made == s.versions_dropped, "a version is left that no snapshot needs");
  });
}
void over_one_shot(model::scenario& run) {
  changes_against_a_snapshot(std::make_shared<one_shot>(delta_one_shot::options{
                                 .transactions = 1, .slack = 8, .most_partitions = 2}),
                             run);
}
void over_steam(model::scenario& run) {
  changes_against_a_snapshot(std::make_shared<steam>(delta_steam::options{.look_every = 1}), run);
}

/// A serializable commit comes to nothing, between two that do not.
void taken_back_against_a_snapshot(model::scenario& run) {
  auto w = std::make_shared<steam>(delta_steam::options{.look_every = 1});
  w->commit(1, 8);
  run.thread([w] { w->look([](const two& r) { return r == two{0, 8} || r == two{5, 8}; }); });
  run.thread([w] {
    w->commit(0, 7, false);
    w->commit(0, 5);
  });
}

/// A snapshot of the beginning is held, and its thread puts the row together while another one
/// changes one column after the other, and cuts out what lies between: but for the only version
/// that has the other column.
template <class World>
void between_two_snapshots(const std::shared_ptr<World>& w, model::scenario& run) {
  auto held = std::make_shared<census::ticket>(w->board.living.announce(w->board.clock));
  w->commit(0, 7);
  w->commit(1, 8);
  run.thread([w] { model::check(w->read(1) == two{0, 0}, "a snapshot has changed"); });
  run.thread([w] {
    for (std::uint64_t v = 9; v < 12; ++v) w->commit(static_cast<unsigned>(v % 2), v);
    w->old.collect();
  });
  run.finally([w, held] {
    model::check(w->read(1) == two{0, 0}, "a snapshot has changed");
    model::check(w->read(w->board.clock.now()) == two{10, 11}, "what is committed is seen");
    delta_stats s = w->old.stats();
    model::check(s.versions_made - s.versions_dropped <= 3, "what lies between goes");
    held->withdraw();
    w->old.collect();
    s = w->old.stats();
    model::check(s.versions_made == s.versions_dropped, "a version is left that no snapshot needs");
    w->old.close();  // the domain hears of the end of this thread
  });
}
/// What is retired goes as soon as it may.
region_domain::options at_once() { return {.scheme = {.tick_every = 1, .patience = 0}}; }
void eager_between(model::scenario& run) {
  between_two_snapshots(std::make_shared<columns<delta_steam_eager>>(
                            delta_steam_eager::options{.look_every = 1, .reclaim = at_once()}),
                        run);
}
void range_between(model::scenario& run) {
  between_two_snapshots(std::make_shared<columns<delta_range>>(
                            delta_range::options{.tracker = {.batch = 1}, .reclaim = at_once()}),
                        run);
}

TEST(db_columns_model, what_lies_between_snapshots_goes) {
  expect_clean(eager_between, at_most_in_order(2));
  expect_clean(range_between, at_most_in_order(2));
  for (const auto& over : {eager_between, range_between}) {
    expect_found(over, "chain.columns_not_asked", at_most_in_order(0), "a snapshot has changed");
  }
}
TEST(db_columns_model, rows_are_put_together) {
  expect_clean(over_one_shot, at_most_in_order(2));
  expect_clean(over_steam, at_most(1));
  expect_clean(taken_back_against_a_snapshot, at_most_in_order(2));
}
TEST(db_columns_model, faults_are_found) {
  expect_found(over_steam, "row.chain_before_words", at_most_in_order(2), "a snapshot has changed");
  expect_found(over_steam, "row.relaxed_words", at_most(2), "a snapshot has changed");
  expect_found(over_one_shot, "one_shot.minimum_not_asked", at_most_in_order(2),
               "a version was dropped while a snapshot needed it");
}

}  // namespace
