// SPDX-License-Identifier: Apache-2.0
// Out-of-line values of rows under the model checker: a block lives as long as a
// snapshot can come to it.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include <spolia/db/commit.hpp>
#include <spolia/db/row.hpp>
#include <spolia/model/engine.hpp>

#include "db/versions/delta_one_shot.hpp"
#include "db/versions/delta_steam.hpp"
#include "db/versions/value_blocks.hpp"
#include "model/domain_scenarios.hpp"
#include "model/two_column_row.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

/// A row of a number and the address of a block, which says what the number was when the block
/// came.
template <class Storage>
struct world : two_column_row<Storage> {
  using row = two_column_row<Storage>;
  using row::at, row::board, row::head, row::old, row::whole, row::words;

  template <class... Options>
  explicit world(Options... o) : row(o...) {
    words[1].store_relaxed(block_for(0)->address());
  }
  ~world() { values.free(value_block::of(words[1].load_relaxed())); }

  value_block* block_for(std::uint64_t number) {
    const plain<std::uint64_t> content(number);
    value_block* const b =
        values.make(std::string_view(reinterpret_cast<const char*>(&content), sizeof(content)), 0);
    ::new (b->bytes()) plain<std::uint64_t>(number);
    return b;
  }
  static std::uint64_t said_by(std::uint64_t address) {
    return reinterpret_cast<plain<std::uint64_t>*>(value_block::of(address)->bytes())->read();
  }

  /// Commits a number, and with it a block that says so, or none: the row keeps the one it has.
  void commit(std::uint64_t number, bool with_block) {
    commit_board::record& mine = board.take();
    value_block* const fresh = with_block ? block_for(number) : nullptr;
    value_list replaced;
    if (with_block) replaced.add(value_block::of(words[1].load_relaxed()));
    ask a{.words = 2, .since = head.stamp.load_relaxed(), .older = head.older.load_relaxed()};
    model::check(old.reserve(mine.number(), std::span(&a, 1), 0), "there is room");
    const std::uint64_t mark = commit_board::begin(mine);
    keep_image(*a.place, a, at(), whole());
    two image{number, with_block ? fresh->address() : words[1].load_relaxed()};
    install(at(), mark, a.handle, row_exists, image.data(), every_column, whole());
    const std::uint64_t time = board.publish(mine);
    if (with_block) fresh->since.write(time);
    if (SPOLIA_FAULT("world.block_is_as_old_as_its_row") && with_block) {
      replaced.first->since.write(a.since);
    }
    restamp(at(), time);
    old.published(mine.number(), time);
    values.retire(replaced, time);
    values.after_commit();
    board.give_back(mine);
  }
  void look() {
    const auto ticket = board.living.announce(board.clock);
    const two first = this->read(ticket.timestamp());
    const std::uint64_t number = first[0];
    // Commits of uneven numbers have no block.
    const auto right = [&](const two& r) { return said_by(r[1]) == number - number % 2; };
    model::check(right(first), "a number beside the value of another version");
    const two second = this->read(ticket.timestamp());
    model::check(second == first && right(second), "a snapshot has changed");
  }

  row_budget budget;
  value_blocks values{board, budget};
};

using one_shot = world<delta_one_shot>;
using steam = world<delta_steam>;

/// The row changes without its value, and loses it then.
template <class World>
void values_against_a_snapshot(const std::shared_ptr<World>& w, model::scenario& run) {
  run.thread([w] { w->look(); });
  run.thread([w] {
    w->commit(2, true);
    w->commit(3, false);
    w->commit(4, true);
  });
  run.finally([w] {
    w->look();
    w->values.collect();
    model::check(w->values.waiting_bytes() == 0, "a value is left that no snapshot needs");
  });
}
void over_one_shot(model::scenario& run) {
  values_against_a_snapshot(std::make_shared<one_shot>(delta_one_shot::options{
                                .transactions = 1, .slack = 8, .most_partitions = 2}),
                            run);
}
void over_steam(model::scenario& run) {
  values_against_a_snapshot(std::make_shared<steam>(delta_steam::options{.look_every = 1}), run);
}

/// A third thread collects what the writer has replaced, while the reader begins.
void collected_by_another(model::scenario& run) {
  auto w = std::make_shared<steam>(delta_steam::options{.look_every = 1});
  run.thread([w] { w->look(); });
  run.thread([w] {
    w->commit(2, true);
    w->commit(4, true);
  });
  run.thread([w] { w->values.collect(); });
}

TEST(db_apart_model, a_value_lives_as_long_as_its_snapshots) {
  expect_clean(over_one_shot, at_most_in_order(2));
  expect_clean(over_steam, at_most(1));
  expect_clean(collected_by_another, at_most_in_order(2));
}
TEST(db_apart_model, faults_are_found) {
  expect_found(over_steam, "values.nobody_asked", at_most_in_order(2), "races with an access");
  expect_found(over_steam, "values.first_moment_lost", at_most_in_order(2), "races with an access");
  expect_found(collected_by_another, "values.known_not_asked", at_most_in_order(3),
               "races with an access");
  expect_found(over_steam, "world.block_is_as_old_as_its_row", at_most_in_order(2),
               "races with an access");
  expect_found(over_steam, "row.no_second_look", at_most_in_order(2), "a snapshot has changed");
}

}  // namespace
