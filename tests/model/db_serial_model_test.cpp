// SPDX-License-Identifier: Apache-2.0
// Commits of serializable transactions, and locks that are waited for, under the model checker.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>

#include <spolia/base/backoff.hpp>
#include <spolia/db/row_lock.hpp>

#include "db/commit/gate.hpp"
#include "db/versions/delta_steam.hpp"
#include "model/db_world.hpp"
#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

using steam = world<delta_steam>;

std::shared_ptr<steam> two_rows() {
  return std::make_shared<steam>(delta_steam::options{.look_every = 1});
}

/// Each reads both rows, and changes one if both are 0.
void write_skew(model::scenario& run) {
  auto w = two_rows();
  for (unsigned mine : {0U, 1U}) {
    run.thread([w, mine] {
      const auto ticket = w->board.living.announce(w->board.clock);
      const std::uint64_t time = ticket.timestamp();
      if (w->read(0, time) + w->read(1, time) != 0) return;
      w->commit_if(1, mine, mine + 1, [&](std::uint64_t) { return w->unchanged(1 - mine, time); });
    });
  }
  run.finally([w] {
    const std::uint64_t now = w->board.clock.now();
    model::check(w->read(0, now) + w->read(1, now) < 2, "both have changed what the other read");
  });
}

/// One changes row 1; another, which found row 1 as it was, changes row 0; a snapshot that sees the
/// first and not the second has seen what no order explains.
void read_only_anomaly(model::scenario& run) {
  auto w = two_rows();
  auto seen = std::make_shared<std::array<std::uint64_t, 2>>();
  auto late = std::make_shared<bool>(false);
  run.thread([w] { w->commit_if(20, 1, 2, always_holds); });
  run.thread([w, late] {
    const auto ticket = w->board.living.announce(w->board.clock);
    const std::uint64_t time = ticket.timestamp();
    if (w->read(1, time) != 0) return;
    *late = w->commit_if(11, 0, 1, [&](std::uint64_t) { return w->unchanged(1, time); }) != 0;
  });
  run.thread([w, seen] {
    const auto ticket = w->board.living.announce(w->board.clock);
    for (unsigned i : {0U, 1U}) (*seen)[i] = w->read(i, ticket.timestamp());
  });
  run.finally([seen, late] {
    const bool between = (*seen)[0] == 0 && (*seen)[1] == 20;
    model::check(!*late || !between, "a snapshot in an order that was not");
  });
}

/// An undecided commit of two rows, and a snapshot of both.
void an_undecided_commit_against_a_snapshot(model::scenario& run) {
  auto w = two_rows();
  run.thread([w] { w->look(true); });
  run.thread([w] { w->commit_if(7, 0, 2, always_holds); });
}

/// A commit that is undone: no transaction ever sees it.
void a_withdrawal_against_a_snapshot(model::scenario& run) {
  auto w = two_rows();
  run.thread([w] {
    const auto ticket = w->board.living.announce(w->board.clock);
    model::check(w->read(0, ticket.timestamp()) == 0, "what was undone was seen");
  });
  run.thread([w] { w->commit_if(7, 0, 1, never_holds); });
  run.finally([w] {
    model::check(w->read(0, w->board.clock.now()) == 0, "what was undone is still there");
    w->old.collect();
    const delta_stats s = w->old.stats();
    model::check(s.versions_made == s.versions_dropped, "a version is left that no snapshot needs");
  });
}

/// One looks for rows with the key 7, and commits. Another transaction gives row 0 the key 7 and
/// then takes it away, or the other way round: the first one must not commit in between, if that is
/// not what it saw.
void a_key_that_comes_and_goes(model::scenario& run, std::uint64_t first) {
  auto w = two_rows();
  w->words[0].store_relaxed(first);
  struct times {
    std::uint64_t mine = 0;
    std::uint64_t snapshot = 0;
    std::array<std::uint64_t, 2> changes{};
  };
  auto t = std::make_shared<times>();
  run.thread([w, t] {
    const auto ticket = w->board.living.announce(w->board.clock);
    t->snapshot = ticket.timestamp();
    census::ticket now;
    t->mine = w->commit_if(1, 1, 2, [&](std::uint64_t drawn) {
      if (unchanged_since(w->board, w->heads[0], t->snapshot)) return verdict::holds;
      std::uint64_t key = 0;
      const auto later = [&] {
        now = w->board.living.announce(w->board.clock);
        return now.timestamp();
      };
      return look_at_changed(w->board, w->old, w->at(0), t->snapshot, drawn, steam::one_word(),
                             &key, later, [&] { return key == 7; });
    });
  });
  run.thread([w, t, first] {
    t->changes[0] = w->commit_if(7 - first, 0, 1, always_holds);
    t->changes[1] = w->commit_if(first, 0, 1, always_holds);
  });
  run.finally([t, first] {
    const auto [to, back] = t->changes;
    if (t->mine == 0 || to == 0 || t->snapshot >= to) return;
    const bool other = to < t->mine && (back == 0 || t->mine < back);
    model::check(!other, "it commits where the range was another one");
    // What was read is a row then, which has been changed.
    model::check(first != 7 || t->mine < to, "it commits after a row that it has read was changed");
  });
}
void a_key_that_comes(model::scenario& run) { a_key_that_comes_and_goes(run, 0); }
void a_key_that_goes(model::scenario& run) { a_key_that_comes_and_goes(run, 7); }

/// A key whose entry leads to slot 0, where an insertion is rolled back; then the key is inserted
/// again, in slot 1. A transaction that has not found it before must not commit after that.
void a_slot_that_changes_hands(model::scenario& run) {
  struct parts : steam {
    parts() : steam(delta_steam::options{.look_every = 1}) {
      for (row_head& h : heads) {
        h.stamp.store_relaxed(0);
        h.shape.store_relaxed(0);
      }
      heads[0].lock.store_relaxed(lock_word_of(5, 0));
    }
    atomic<std::uint64_t> entry{1};  // one more than the slot
    std::uint64_t inserted = 0;
    std::uint64_t looked = 0;
    std::uint64_t committed = 0;
  };
  auto w = std::make_shared<parts>();
  run.thread([w] {
    const auto ticket = w->board.living.announce(w->board.clock);
    w->looked = ticket.timestamp();
    const std::uint64_t met = w->entry.load_acquire();
    std::uint64_t none = 0;
    if (met != 0 && read_row(w->board, w->old, w->at(static_cast<unsigned>(met - 1)), w->looked, {},
                             &none) != 0) {
      return;
    }
    w->committed = w->commit_if(0, 0, 0, [&](std::uint64_t) {
      if (SPOLIA_FAULT("world.key_not_noted")) return verdict::holds;
      const std::uint64_t slot = SPOLIA_FAULT("world.slot_noted") ? met : w->entry.load_acquire();
      return slot == 0 ? verdict::holds : w->unchanged(static_cast<unsigned>(slot - 1), w->looked);
    });
  });
  run.thread([w] {
    w->entry.store_release(0);
    w->heads[0].lock.store_release(free_slot);
    w->entry.store_release(2);
    w->inserted = w->commit_if(7, 1, 2, always_holds);
  });
  run.finally([w] {
    const bool between = w->looked < w->inserted && w->inserted < w->committed;
    model::check(!between, "a key that was not found was there");
  });
}

/// Two transactions that may wait lock two rows in opposite orders.
void locks_in_opposite_orders(model::scenario& run) {
  struct parts {
    std::array<atomic<std::uint64_t>, 2> locks{atomic<std::uint64_t>{born_before_all},
                                               atomic<std::uint64_t>{born_before_all}};
    std::array<atomic<std::uint64_t>, 2> ages{};
    atomic<int> both{0};
  };
  auto w = std::make_shared<parts>();
  for (std::uint32_t me : {0U, 1U}) {
    run.thread([w, me] {
      w->ages[me].store_release(me + 1);
      const auto age_of = [&](std::uint32_t record) { return w->ages[record].load_acquire(); };
      const auto pause = [] {
        spin_wait();
        return true;
      };
      std::array<std::uint64_t, 2> births{};
      const auto take = [&](unsigned i) {
        return take_lock(w->locks[i], lock_word_of(me, 0), me + 1, age_of, pause, births[i]);
      };
      if (!take(me)) return;
      if (take(1 - me)) {
        w->both.fetch_add_relaxed(1);
        w->locks[1 - me].store_release(births[1 - me]);
      }
      w->locks[me].store_release(births[me]);
    });
  }
  run.finally([w] { model::check(w->both.load_relaxed() >= 1, "the older one gets both"); });
}

/// A reader is ended while it reads, and what it could still see is freed.
void a_reader_is_ended(model::scenario& run) {
  auto w = two_rows();
  struct parts {
    owned_label label;
    gate way;
    gate_board all;
    census::ticket mine;
  };
  auto p = std::make_shared<parts>();
  p->mine = w->board.living.announce(w->board.clock);
  p->all.put(p->way, p->mine, p->label, 1);
  run.thread([w, p] {
    for (int i = 0; i < 2 && p->way.enter(); ++i) {
      model::check(w->read(0, p->mine.timestamp()) == 0, "a snapshot has changed");
      p->way.leave();
    }
    p->all.take(p->way);
    p->mine.withdraw();
  });
  run.thread([w, p] {
    w->commit(7, 1);
    p->all.end_overdue(nullptr, 1);
    w->old.collect();
  });
}

TEST(db_serial_model, no_reader_is_ended_in_a_step) {
  expect_clean(a_reader_is_ended, at_most(2));
  expect_found(a_reader_is_ended, "gate.not_asked", at_most(2), "use after free");
  expect_found(a_reader_is_ended, "gate.no_heavy", at_most(2), "races with an access");
}
TEST(db_serial_model, who_waits_is_not_waited_for) {
  expect_clean(locks_in_opposite_orders, at_most(3));
  expect_found(locks_in_opposite_orders, "row_lock.waits_for_all", at_most(2), "deadlock");
}
TEST(db_serial_model, commits_are_serial) {
  expect_clean(write_skew, at_most(1));
  expect_clean(write_skew, at_most_in_order(2));
  expect_clean(read_only_anomaly, at_most_in_order(2));
}
TEST(db_serial_model, ranges_are_as_they_were_at_the_time_of_the_commit) {
  expect_clean(a_key_that_comes, at_most(1));
  expect_clean(a_key_that_goes, at_most(1));
  expect_clean(a_key_that_comes, at_most_in_order(2));
  expect_found(a_key_that_comes, "row.present_key_not_looked_at", at_most_in_order(2),
               "the range was another one");
  expect_found(a_key_that_comes, "row.now_for_then", at_most_in_order(3),
               "the range was another one");
  expect_found(a_key_that_goes, "row.snapshots_key_not_looked_at", at_most_in_order(2),
               "it commits");
}
TEST(db_serial_model, absence_is_of_keys) {
  expect_clean(a_slot_that_changes_hands, at_most(1));
  expect_clean(a_slot_that_changes_hands, at_most_in_order(2));
  expect_found(a_slot_that_changes_hands, "world.key_not_noted", at_most_in_order(2), "was there");
  expect_found(a_slot_that_changes_hands, "world.slot_noted", at_most_in_order(2), "was there");
}
TEST(db_serial_model, undecided_commits_hold_up_no_thread) {
  expect_clean(an_undecided_commit_against_a_snapshot, at_most(1));
  expect_clean(an_undecided_commit_against_a_snapshot, at_most_in_order(3));
  expect_clean(a_withdrawal_against_a_snapshot, at_most(2));
}
TEST(db_serial_model, faults_are_found) {
  expect_found(write_skew, "world.reads_not_looked_at", at_most(1), "both have changed");
  expect_found(read_only_anomaly, "commit.valid_before_draw", at_most_in_order(3),
               "an order that was not");
  expect_found(an_undecided_commit_against_a_snapshot, "commit.no_push", at_most(2),
               "half of a commit was seen");
  expect_found(a_withdrawal_against_a_snapshot, "world.old_stamp_comes_back", at_most(2),
               "what was undone was seen");
}

}  // namespace
