// SPDX-License-Identifier: Apache-2.0
// Scans that pass over chunks of slots, beside insertions and deletions, and chunks whose memory is
// given back, beside threads that take slots and that read there, under the model checker.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "db/catalog/slot_chunks.hpp"
#include "db/snapshot_list.hpp"
#include "db/versions/block.hpp"
#include "db/versions/delta_steam.hpp"
#include "model/db_world.hpp"
#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

/// Two slots, each a chunk by itself, which had no rows yet.
struct two_slots : world<delta_steam> {
  two_slots() : world(delta_steam::options{.look_every = 1}) {
    for (unsigned i = 0; i < 2; ++i) clear(i);
  }

  std::uint64_t take() {
    return slots.take([](std::uint64_t, std::uint64_t end) { return end; }, [](std::uint32_t) {});
  }
  /// As a commit does that inserts a row.
  std::uint64_t insert(unsigned i, std::uint64_t value) {
    commit_board::record& mine = board.take();
    install(at(i), commit_board::begin(mine), 0, row_exists, &value, 1, one_word());
    return end(mine, i);
  }
  /// And as one that deletes it.
  std::uint64_t erase(unsigned i) {
    commit_board::record& mine = board.take();
    ask a = {.words = 1,
             .row = i,
             .since = heads[i].stamp.load_relaxed(),
             .older = heads[i].older.load_relaxed(),
             .chain = &heads[i].older};
    model::check(old.reserve(mine.number(), std::span(&a, 1), 0), "there is room");
    const std::uint64_t mark = commit_board::begin(mine);
    keep_image(*a.place, a, at(i), one_word());
    install(at(i), mark, a.handle, 0, nullptr, 0, one_word());
    const std::uint64_t time = end(mine, i);
    slots.row_ended(i, time);
    return time;
  }
  std::uint64_t end(commit_board::record& mine, unsigned i) {
    const std::uint64_t time = board.publish(mine);
    restamp(at(i), time);
    old.published(mine.number(), time);
    board.give_back(mine);
    return time;
  }
  /// As the cleaner does. False: a snapshot may see the row yet.
  bool clean(unsigned i) {
    snapshot_list all;
    all.look(board);
    const bool free = all.vouches_for(went) && all.needed_by(came, went).by == nullptr;
    if (!free && !SPOLIA_FAULT("world.takes_what_is_seen")) return false;
    slots.give(i, slot_chunks::what::ended_row);
    return true;
  }
  /// As a table does when it gives the memory back.
  void clear(unsigned i) {
    heads[i].stamp.store_relaxed(0);
    heads[i].older.store_relaxed(0);
    heads[i].shape.store_relaxed(0);
    words[i].store_relaxed(0);
  }
  bool sees(unsigned i, std::uint64_t time) {
    std::uint64_t value = 0;
    const bool there = read_row(board, old, at(i), time, one_word(), &value) != 0;
    model::check(!there || value == 7, "half of a row was seen");
    return there;
  }
  /// The same, as a query reads.
  bool sees_by_block(unsigned i, std::uint64_t time) {
    std::uint64_t value = 0;
    std::uint64_t shape = 0;
    const column_copy copy{{0, 1}, &value};
    const row_place place = at(i);
    if (read_block(place.head, place.block, time, {&copy, 1}, 0, &shape) != every_row)
      return sees(i, time);
    return (shape & row_exists) != 0;
  }
  /// Whether a scan passes over the chunk of slot 0.
  bool passes_over(std::uint64_t time) {
    const std::uint64_t end = slots.end();
    return slots.next_shown(0, end, time) >= end;
  }

  atomic<std::uint64_t> slots_end{0};
  slot_chunks slots{1, slots_end};
  std::uint64_t came = 0;
  std::uint64_t went = 0;
};

/// What a thread has seen at its snapshot.
struct one_look {
  std::uint64_t at = 0;
  bool passed = false;
  bool seen = false;
};

void scan(two_slots& w, one_look& l) {
  const auto ticket = w.board.living.announce(w.board.clock);
  l.at = ticket.timestamp();
  l.passed = w.passes_over(l.at);
}
void no_row_was_passed_over(const two_slots& w, const one_look& l) {
  const bool there = w.came != 0 && w.came <= l.at && (w.went == 0 || l.at < w.went);
  model::check(!l.passed || !there, "a scan has passed over a row");
}

void a_scan_beside_an_insertion(model::scenario& run) {
  auto w = std::make_shared<two_slots>();
  auto l = std::make_shared<one_look>();
  run.thread([w, l] { scan(*w, *l); });
  run.thread([w] {
    const bool late = SPOLIA_FAULT("world.slot_counted_late");
    if (!late) w->take();
    w->came = w->insert(0, 7);
    if (late) w->take();
  });
  run.finally([w, l] { no_row_was_passed_over(*w, *l); });
}

void a_scan_beside_a_deletion(model::scenario& run) {
  auto w = std::make_shared<two_slots>();
  auto l = std::make_shared<one_look>();
  w->take();
  w->came = w->insert(0, 7);
  run.thread([w, l] { scan(*w, *l); });
  run.thread([w] {
    w->went = w->erase(0);
    w->clean(0);
  });
  run.finally([w, l] { no_row_was_passed_over(*w, *l); });
}

/// The slot of a row that has come and gone is taken again, for another one.
void a_scan_beside_a_revival(model::scenario& run) {
  auto w = std::make_shared<two_slots>();
  auto l = std::make_shared<one_look>();
  w->take();
  w->insert(0, 7);
  w->erase(0);
  run.thread([w, l] { scan(*w, *l); });
  run.thread([w] {
    const bool late = SPOLIA_FAULT("world.slot_counted_late");
    if (!late) w->slots.revive(0);
    w->came = w->insert(0, 7);
    if (late) w->slots.revive(0);
  });
  run.finally([w, l] { no_row_was_passed_over(*w, *l); });
}

/// A reader that an old entry has led to the slot meets a row that comes and goes, and then zeros.
template <bool ByBlock>
void a_reader_of_cleared_slots(model::scenario& run) {
  auto w = std::make_shared<two_slots>();
  auto l = std::make_shared<one_look>();
  run.thread([w, l] {
    const auto ticket = w->board.living.announce(w->board.clock);
    l->at = ticket.timestamp();
    l->seen = ByBlock ? w->sees_by_block(0, l->at) : w->sees(0, l->at);
  });
  run.thread([w] {
    w->take();
    w->came = w->insert(0, 7);
    w->went = w->erase(0);
    if (w->clean(0)) w->clear(0);
  });
  run.finally([w, l] {
    const bool there = w->came <= l->at && l->at < w->went;
    model::check(l->seen == there, "a snapshot shows what it does not see");
  });
}

/// Two chunks become empty, and the upper one is given back, while another thread takes slots.
void a_chunk_is_given_back(model::scenario& run) {
  auto w = std::make_shared<two_slots>();
  auto put = std::make_shared<std::array<bool, 2>>();
  w->take();
  w->take();
  run.thread([w] {
    for (unsigned i = 0; i < 2; ++i) {
      const std::uint32_t empty = w->slots.give(i, slot_chunks::what::no_row);
      if (empty == slot_chunks::none) continue;
      w->clear(empty);
      w->slots.gave_back(empty);
    }
  });
  run.thread([w, put] {
    for (int n = 0; n < 2; ++n) {
      const std::uint64_t slot = w->take();
      if (slot >= 2) continue;  // one that was never taken
      model::check(!(*put)[slot], "a slot was taken twice");
      (*put)[slot] = true;
      w->insert(static_cast<unsigned>(slot), 7);
    }
  });
  run.finally([w, put] {
    for (unsigned i = 0; i < 2; ++i) {
      model::check(!(*put)[i] || w->sees(i, w->board.clock.now()), "a row was cleared");
    }
  });
}

TEST(db_slots_model, scans_pass_over_no_row) {
  expect_clean(a_scan_beside_an_insertion, at_most(2));
  expect_clean(a_scan_beside_a_deletion, at_most(1));
  expect_clean(a_scan_beside_a_deletion, at_most_in_order(2));
  expect_clean(a_scan_beside_a_revival, at_most(2));
}
TEST(db_slots_model, cleared_slots_have_no_rows) {
  expect_clean(a_reader_of_cleared_slots<false>, at_most(1));
  expect_clean(a_reader_of_cleared_slots<true>, at_most(1));
  expect_clean(a_chunk_is_given_back, at_most(2));
}
TEST(db_slots_model, faults_are_found) {
  const char* const passed = "a scan has passed over a row";
  const char* const half = "half of a row was seen";
  const char* const shown = "a snapshot shows what it does not see";
  expect_found(a_scan_beside_an_insertion, "world.slot_counted_late", at_most(1), passed);
  expect_found(a_scan_beside_a_revival, "world.slot_counted_late", at_most(1), passed);
  expect_found(a_scan_beside_a_deletion, "world.takes_what_is_seen", at_most(1), passed);
  expect_found(a_scan_beside_a_deletion, "slot_chunks.end_not_asked", at_most(1), passed);
  expect_found(a_scan_beside_a_deletion, "slot_chunks.end_noted_late", at_most(1), passed);
  expect_found(a_reader_of_cleared_slots<false>, "row.zero_is_a_time", at_most(2), half);
  expect_found(a_reader_of_cleared_slots<true>, "block.zero_is_a_time", at_most(2), shown);
  expect_found(a_chunk_is_given_back, "slot_chunks.left_open", at_most(2), half);
}

}  // namespace
