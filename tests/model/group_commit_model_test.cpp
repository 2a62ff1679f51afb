// SPDX-License-Identifier: Apache-2.0
// The queue before the log of db/ under the model checker: what is acknowledged is durable, in the
// order of publication.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

#include <spolia/base/backoff.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/db/commit.hpp>
#include <spolia/db/table.hpp>
#include <spolia/model/engine.hpp>

#include "db/commit/commit_section.hpp"
#include "db/commit/group_commit.hpp"
#include "db/log/log_room.hpp"
#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

struct entry {
  entry* next = nullptr;
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 1;
  std::uint64_t since = 1;
  unsigned number = 0;
};

/// A disk: what was written to it, and how much of that is durable. Plain, so that two leaders at
/// once are a race.
struct disk {
  std::array<plain<std::uint64_t>, 4> written;  // numbers of entries, in the order of the log
  plain<std::uint64_t> length;
  plain<std::uint64_t> durable;
  unsigned fails_at = 99;  // the n-th write fails
  plain<std::uint64_t> writes;
  bool at_once_too = false;
  unsigned refused = 99;  // the n-th that is to be written at once
  plain<unsigned> asked;
  plain<entry*> failed_ones;  // what was to be written by the write that has failed

  [[nodiscard]] bool in_place() const noexcept { return at_once_too; }
  bool at_once(entry& e) noexcept {
    const unsigned nth = asked.read();
    asked.write(nth + 1);
    if (nth == refused) return false;
    const std::uint64_t n = length.read();
    model::check(e.sequence == n + 1, "written before what was queued");
    written[n].write(e.number);
    length.write(n + 1);
    durable.write(n + 1);
    return true;
  }
  bool write(entry* first, std::uint64_t) noexcept {
    std::uint64_t n = length.read();
    for (const entry* e = first; e != nullptr; e = e->next) {
      model::check(e->sequence == n + 1, "the log has a gap");
      written[n++].write(e->number);
    }
    const std::uint64_t nth = writes.read();
    writes.write(nth + 1);
    length.write(n);
    if (nth == fails_at) {
      failed_ones.write(first);
      return false;
    }
    durable.write(n);
    return true;
  }
  template <class Queued>
  static void collect(Queued&&) noexcept {}
  static void ended(std::uint64_t, std::uint64_t) noexcept {}
  template <class Ready>
  static void sleep(Ready&&, std::uint32_t) noexcept {
    spin_wait();
  }
  static void wake() noexcept {}
  static void give_way() noexcept { spin_wait(); }
};

struct parts {
  parts() { queue.restart(0); }
  disk files;
  group_commit<entry, disk> queue{files, 0};
  std::array<entry, 3> entries;
  std::array<atomic<bool>, 3> visible;

  std::uint64_t append(unsigned n) {
    group_commit<entry, disk>::place where;
    entries[n].number = n + 1;
    queue.append(entries[n], where, [&] {
      visible[n].store_release(true);
      return 0;
    });
    return where.sequence;
  }
  /// Where commit n stands among what is durable; 0: not there. Only if it was acknowledged: no
  /// thread writes to that part of the disk any more.
  std::uint64_t durable_place(unsigned n, std::uint64_t up_to) {
    for (std::uint64_t i = 0; i < up_to; ++i) {
      if (files.written[i].read() == n + 1) return i + 1;
    }
    return 0;
  }
  void commit(unsigned n) {
    const std::uint64_t sequence = append(n);
    if (queue.wait(sequence)) {
      model::check(durable_place(n, sequence) == sequence, "acknowledged before it is durable");
    }
  }
};

/// Two commits, the second of which depends on the first if it has seen it.
void two_commits(model::scenario& run) {
  auto w = std::make_shared<parts>();
  run.thread([w] { w->commit(0); });
  run.thread([w] {
    const bool seen = w->visible[0].load_acquire();
    const std::uint64_t mine = w->append(1);
    model::check(w->queue.wait(mine), "nothing fails");
    model::check(w->durable_place(1, mine) == mine, "acknowledged before it is durable");
    if (!seen) return;
    const std::uint64_t first = w->durable_place(0, mine);
    model::check(first != 0 && first < mine, "what was seen is not durable");
  });
  run.finally([w] {
    model::check(w->files.durable.read() == 2, "both are durable");
    model::check(w->queue.oldest() == 0, "nothing waits");
  });
}

/// Commits that are written at once, unless something is queued, as the n-th is.
scenario_setup in_place(unsigned refused) {
  return [refused](model::scenario& run) {
    auto w = std::make_shared<parts>();
    w->files.at_once_too = true;
    w->files.refused = refused;
    for (unsigned n = 0; n < 2; ++n) run.thread([w, n] { w->commit(n); });
    run.finally([w] {
      w->commit(2);
      model::check(w->files.durable.read() == 3, "all are durable");
      model::check(w->queue.oldest() == 0, "nothing waits");
    });
  };
}

/// A thread that waits for all that is there, and wrote none of it.
void a_sync_beside_one_in_place(model::scenario& run) {
  auto w = std::make_shared<parts>();
  w->files.at_once_too = true;
  run.thread([w] { w->append(0); });
  run.thread([w] {
    const std::uint64_t last = w->queue.last();
    model::check(w->queue.wait(last), "nothing fails");
    if (last != 0) model::check(w->durable_place(0, last) == 1, "what is waited for is there");
  });
}

/// The first write fails: nothing is acknowledged, and nothing written any more.
void a_failing_disk(model::scenario& run) {
  auto w = std::make_shared<parts>();
  w->files.fails_at = 0;
  for (unsigned n = 0; n < 2; ++n) {
    run.thread([w, n] {
      model::check(!w->queue.wait(w->append(n)), "acknowledged by a log that has failed");
      model::check(w->queue.failed(), "and it says so");
    });
  }
  run.finally([w] { model::check(w->files.writes.read() == 1, "it is not tried again"); });
}

/// The second write fails: what the first one has written is durable, at whatever time a thread
/// looks.
void a_failure_after_it(model::scenario& run) {
  auto w = std::make_shared<parts>();
  w->files.fails_at = 1;
  const auto commit = [w](unsigned n) {
    const std::uint64_t mine = w->append(n);
    if (w->queue.wait(mine)) return;
    model::check(w->queue.durable() < mine, "what is durable is said to be in doubt");
    model::check(w->queue.in_doubt(mine), "and by the other call, too");
  };
  run.thread([commit] { commit(0); });
  run.thread([commit] {
    commit(1);
    commit(2);
  });
}

/// The first write fails, and a thread begins again with a checkpoint of what it sees: what is
/// acknowledged is in that, or in the log behind it; what is not is told.
void begun_again(model::scenario& run) {
  struct shared : parts {
    std::array<plain<bool>, 3> covered;  // by the checkpoint
    std::array<plain<bool>, 3> told;
    std::array<bool, 3> good{};
    std::uint64_t position = 0;

    void commit_one(unsigned n) {
      const std::uint64_t mine = append(n);
      good[n] = queue.wait(mine);
      if (!good[n] || durable_place(n, mine) == mine) return;
      model::check(covered[n].read(), "acknowledged before it is durable");
    }
    void tell(const entry* first) {
      for (const entry* e = first; e != nullptr; e = e->next) told[e->number - 1].write(true);
    }
    void begin_again() {
      while (!queue.failed()) spin_wait();
      tell(files.failed_ones.read());
      tell(queue.part_here(position, [&] {
        for (unsigned n = 0; n < 3; ++n) covered[n].write(visible[n].load_relaxed());
        return std::uint64_t{1};
      }));
      const bool done = queue.begin_again(
          position, [&] { files.length.write(position); },
          [&](entry* first, std::uint64_t durable) {
            tell(first);
            return files.write(first, durable);
          },
          [] {});
      model::check(done, "the second write does not fail");
    }
  };
  auto w = std::make_shared<shared>();
  w->files.fails_at = 0;
  for (unsigned n = 0; n < 2; ++n) run.thread([w, n] { w->commit_one(n); });
  run.thread([w] { w->begin_again(); });
  run.finally([w] {
    for (unsigned n = 0; n < 2; ++n) {
      const bool behind = w->durable_place(n, w->files.length.read()) > w->position;
      model::check(w->covered[n].read() != behind, "durable twice, or not at all");
      model::check(w->good[n] || w->told[n].read(), "what was in doubt is not told");
    }
    model::check(!w->queue.failed() && w->queue.durable() == w->queue.last(), "all is well");
    w->commit_one(2);
    model::check(w->good[2], "and goes on");
  });
}

/// A commit whose time is drawn before it is decided, and what another thread has seen.
struct one_commit : parts {
  commit_board board;
  std::uint64_t committed = 0;
  std::uint64_t seen = 0;
  group_commit<entry, disk>::place commit;

  void write() {
    commit_board::record& mine = board.take();
    commit_board::begin(mine);
    const auto settle = [&](std::uint64_t drawn, auto& step) {
      return queue.append_if(entries[0], commit, drawn, step);
    };
    committed = board.publish_if(mine, [](std::uint64_t) { return verdict::holds; }, settle);
    board.give_back(mine);
  }
};

/// A serializable commit, which has its time before it is decided, beside a cut: the snapshot sees
/// it exactly if it is before the cut.
void a_commit_beside_a_cut(model::scenario& run) {
  struct shared : one_commit {
    group_commit<entry, disk>::place end;
  };
  auto w = std::make_shared<shared>();
  run.thread([w] { w->write(); });
  run.thread(
      [w] { w->queue.cut(w->entries[1], w->end, [&] { return w->seen = w->board.clock.now(); }); });
  run.finally([w] {
    model::check(w->committed != 0, "no other thread takes its time away as often");
    model::check((w->commit.sequence < w->end.sequence) == (w->committed <= w->seen),
                 "what the snapshot sees is not what comes before the cut");
  });
}

/// The same commit beside a snapshot for which no record is written.
void a_commit_beside_a_look(model::scenario& run) {
  struct shared : one_commit {
    std::uint64_t last = 0;
  };
  auto w = std::make_shared<shared>();
  run.thread([w] { w->write(); });
  run.thread([w] { w->last = w->queue.look_here([&] { return w->seen = w->board.clock.now(); }); });
  run.finally([w] {
    model::check(w->committed != 0, "no other thread takes its time away as often");
    model::check((w->commit.sequence <= w->last) == (w->committed <= w->seen),
                 "what the snapshot sees is not what comes up to the record");
  });
}

/// A thread that has only read, and waits for what it may have seen, though it wrote nothing.
void a_reader_beside_a_commit(model::scenario& run) {
  auto w = std::make_shared<parts>();
  run.thread([w] { w->append(0); });
  run.thread([w] {
    const bool seen = w->visible[0].load_acquire();
    const std::uint64_t up_to = w->queue.visible();
    model::check(w->queue.wait(up_to), "nothing fails");
    if (seen) model::check(w->durable_place(0, up_to) != 0, "what was seen is not durable");
  });
}

/// A table is dropped beside a commit that changes it: no rows after its end.
void a_commit_beside_an_end(model::scenario& run) {
  struct shared : parts {
    commit_section section;
    atomic<bool> closed{false};
    std::uint64_t commit = 0;
    std::uint64_t end = 0;
  };
  auto w = std::make_shared<shared>();
  run.thread([w] {
    w->section.enter();
    if (!w->closed.load_acquire()) w->commit = w->append(0);
    w->section.leave();
  });
  run.thread([w] {
    w->closed.store_release(true);
    commit_section::see_to_it();
    w->section.wait();
    w->end = w->append(1);
  });
  run.finally([w] { model::check(w->commit < w->end, "rows of a table behind its end"); });
}

/// A change of the catalogue beside a cut: the checkpoint has it exactly if the log after it has
/// not.
void a_change_beside_a_cut(model::scenario& run) {
  struct shared : parts {
    spolia::detail::short_lock catalog;
    plain<std::uint64_t> made{logged_span::never};
    bool in_checkpoint = false;
    group_commit<entry, disk>::place end;
  };
  auto w = std::make_shared<shared>();
  run.thread([w] {
    std::unique_lock hold(w->catalog);
    const std::uint64_t number = w->append(0);
    if (SPOLIA_FAULT("world.number_behind_the_lock")) hold.unlock();
    w->made.write(number);
  });
  run.thread([w] {
    w->queue.cut(w->entries[1], w->end, [] { return std::uint64_t{0}; });
    const std::lock_guard hold(w->catalog);
    w->in_checkpoint = logged_span{.made = w->made.read()}.covers(w->end.sequence);
  });
  run.finally([w] {
    model::check(w->in_checkpoint == (w->entries[0].sequence < w->end.sequence),
                 "a change is in a checkpoint and behind it, or in neither");
  });
}

TEST(group_commit_model, changes_of_the_catalogue_have_their_place) {
  expect_clean(a_commit_beside_an_end, at_most(3));
  expect_clean(a_change_beside_a_cut, at_most(3));
  const char* const late = "rows of a table behind its end";
  expect_found(a_commit_beside_an_end, "commit_section.no_heavy", at_most(2), late);
  expect_found(a_commit_beside_an_end, "commit_section.no_wait", at_most(2), late);
  expect_found(a_change_beside_a_cut, "world.number_behind_the_lock", at_most(2), "data race");
}

TEST(group_commit_model, a_cut_is_where_its_snapshot_is) {
  expect_clean(a_commit_beside_a_cut, at_most(3));
  expect_found(a_commit_beside_a_cut, "group_commit.behind_the_cut", at_most(2),
               "what the snapshot sees");
  expect_clean(a_commit_beside_a_look, at_most(3));
  expect_found(a_commit_beside_a_look, "group_commit.behind_the_cut", at_most(2),
               "what the snapshot sees");
}

TEST(group_commit_model, what_is_acknowledged_is_durable) {
  expect_clean(two_commits, at_most(2));
  expect_clean(a_failing_disk, at_most(2));
  expect_clean(a_failure_after_it, at_most(2));
  expect_found(a_failure_after_it, "group_commit.failure_last", at_most(2),
               "what is durable is said to be in doubt");
}

TEST(group_commit_model, what_has_failed_begins_again) {
  expect_clean(begun_again, at_most(2));
  expect_found(begun_again, "group_commit.part_unlocked", at_most(2),
               "durable twice, or not at all");
  expect_found(begun_again, "group_commit.again_too_early", at_most(2), "data race");
}

TEST(group_commit_model, what_is_written_at_once_is_in_its_place) {
  for (const unsigned refused : {0U, 1U, 2U}) expect_clean(in_place(refused), at_most(2));
  expect_clean(a_sync_beside_one_in_place, at_most(2));
  expect_found(in_place(0), "group_commit.two_leaders", at_most(2),
               "more than max_steps operations");
  expect_found(in_place(0), "group_commit.before_the_queue", at_most(2),
               "written before what was queued");
  expect_found(a_sync_beside_one_in_place, "group_commit.relaxed_last", at_most(2), "data race");
}

TEST(group_commit_model, what_was_only_read_is_durable) {
  expect_clean(a_reader_beside_a_commit, at_most(3));
  expect_found(a_reader_beside_a_commit, "group_commit.visible_unlocked", at_most(2),
               "what was seen is not durable");
}

/// Two threads that want room where there is enough for one, of which one gives its room back
/// unless it is the one that has it in the end, beside a thread that makes more: no byte is
/// promised twice, and none is lost.
void promises_of_room(model::scenario& run) {
  struct shared {
    log_room room{2, 0};
    plain<std::uint64_t> longer{0};  // what was made
    std::array<bool, 2> has{};
  };
  auto w = std::make_shared<shared>();
  w->room.begin(5);  // 3, and 2 that are kept
  run.thread([w] { w->has[0] = w->room.promise(3); });
  run.thread([w] {
    if (w->room.promise(2)) w->room.give_back(2);
    w->has[1] = w->room.promise(4);
    if (w->has[1]) model::check(w->longer.read() == 4, "there is no such room");
  });
  run.thread([w] {
    w->longer.write(4);
    w->room.made(4);
  });
  run.finally([w] {
    const std::size_t taken = (w->has[0] ? 3U : 0U) + (w->has[1] ? 4U : 0U);
    model::check(taken <= 7 && !w->room.promise(8 - taken), "a byte was promised twice");
    model::check(w->room.promise(7 - taken), "room was lost");
    model::check(w->room.promise_kept(2) && !w->room.promise_kept(1), "and what is kept is there");
    model::check(w->room.owed() == 2, "and is owed");
  });
}

TEST(group_commit_model, room_is_promised_once) {
  expect_clean(promises_of_room, at_most(2));
  expect_found(promises_of_room, "log_room.promised_twice", at_most(2), "data race");
}

TEST(group_commit_model, faults_are_found) {
  expect_found(two_commits, "group_commit.acknowledge_first", at_most(2), "data race");
  expect_found(two_commits, "group_commit.publish_before_queue", at_most(2),
               "what was seen is not durable");
  expect_found(two_commits, "group_commit.two_leaders", at_most(2),
               "more than max_steps operations");
  expect_found(two_commits, "group_commit.relaxed_durable", at_most(2), "data race");
  expect_found(a_failing_disk, "group_commit.failure_forgotten", at_most(2),
               "acknowledged by a log that has failed");
}

}  // namespace
