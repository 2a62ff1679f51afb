// SPDX-License-Identifier: Apache-2.0
// Indexes that are built beside writers, and dropped beside those that use them, under the model
// checker.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include <spolia/base/atomic.hpp>
#include <spolia/db/table.hpp>

#include "db/commit/commit_section.hpp"
#include "db/index/hash_secondary.hpp"
#include "db/versions/delta_steam.hpp"

#include "model/db_world.hpp"
#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

using quick_domain = domain<token, batch>;

struct parts {
  quick_domain d{quick_domain::options{.scheme = {.tick_every = 1, .patience = 0}}};
  world<delta_steam> rows{delta_steam::options{.look_every = 1}};
  hash_secondary<quick_domain, hash_index, quick_domain> index{d, d, 1};
  atomic<bool> shown{false};
  commit_section section;
};

/// Row 0 changes from 0 to 7 while an index over its value is built.
void a_build_against_a_commit(model::scenario& run) {
  auto w = std::make_shared<parts>();
  run.thread([w] {
    // What the changes went to, and a commit if that is all there is; else it is tried again.
    for (;;) {
      const bool knows = w->shown.load_acquire();
      if (knows) w->index.add({7}, 0, {1, 0});
      w->section.enter();
      if (w->shown.load_acquire() == knows) break;
      w->section.leave();
    }
    w->rows.commit(7, 1);
    w->section.leave();
  });
  run.thread([w] {
    w->shown.store_release(true);
    commit_section::see_to_it();
    w->section.wait();
    const auto ticket = w->rows.board.living.announce(w->rows.board.clock);
    w->index.add({w->rows.read(0, ticket.timestamp())}, 0, {2, 0});
  });
  run.finally([w] {
    model::check(w->rows.read(0, w->rows.board.clock.now()) == 7, "the commit has happened");
    model::check(w->index.entry_of({7}, 0).claim != 0, "a row has no entry");
  });
}

/// A writer asks for the entry of what it replaces; the builder adds that, and looks at the lock.
void an_entry_against_its_end(model::scenario& run) {
  struct one_row : parts {
    atomic<std::uint64_t> lock{0};
    bool builder_knows = false;
    std::uint64_t writer_knows = 0;
  };
  auto w = std::make_shared<one_row>();
  run.thread([w] {
    w->lock.exchange_acquire(1);
    w->writer_knows = w->index.entry_of({0}, 0).claim;
    w->rows.commit(7, 1);
    w->lock.store_release(0);
  });
  run.thread([w] {
    w->index.add({0}, 0, {2, 0});
    const bool quiet = w->lock.load_acquire() == 0;
    w->builder_knows = !quiet || w->rows.heads[0].stamp.load_relaxed() > 1;
  });
  run.finally([w] {
    model::check(w->builder_knows || w->writer_knows == 2, "an entry that no thread takes out");
  });
}

/// A thread looks at what describes a table while another one frees that, since it was dropped.
void a_look_against_the_end(model::scenario& run) {
  struct described {
    visits looks;
    plain<std::uint64_t> what{7};
    atomic<std::uint64_t> seen{0};
  };
  auto w = std::make_shared<described>();
  const auto look = [w] {
    if (!w->looks.enter()) return;
    model::check(w->what.read() == 7, "what is looked at is there");
    w->looks.leave();
    w->seen.fetch_add_relaxed(1);
  };
  run.thread([look] {
    look();
    look();
  });
  run.thread([w] {
    if (w->looks.enter_alone()) w->what.write(0);
  });
  run.finally([w] {
    model::check(w->looks.closed() == (w->what.read() == 0), "it has gone, or can be looked at");
    model::check(w->looks.closed() || w->seen.load_relaxed() == 2, "while it is there it is seen");
  });
}

/// Transactions that are older than an index come to its table while that is dropped, and freed.
void elders_against_a_drop(model::scenario& run) {
  struct one_index {
    visits elders;
    atomic<bool> shown{true};
    plain<std::uint64_t> entries{7};
    bool freed = false;
  };
  auto w = std::make_shared<one_index>();
  run.thread([w] {
    for (int n = 0; n < 2; ++n) {
      model::check(w->elders.enter(), "no thread is alone there");
      if (w->shown.load_acquire()) model::check(w->entries.read() == 7, "what is used is there");
      w->elders.leave();
    }
  });
  run.thread([w] {
    w->shown.store_release(false);
    for (int n = 0; n < 2 && !w->freed; ++n) {
      w->freed = w->elders.empty();
      if (w->freed) w->entries.write(0);
    }
  });
  run.finally(
      [w] { model::check(w->freed || w->elders.empty(), "when all have left it can be freed"); });
}

TEST(db_catalog_model, builds_miss_nothing) {
  expect_clean(a_build_against_a_commit, at_most(1));
  expect_clean(a_build_against_a_commit, at_most_in_order(2));
  expect_clean(an_entry_against_its_end, at_most(2));
}
TEST(db_catalog_model, what_is_looked_at_stays) {
  expect_clean(a_look_against_the_end, at_most(2));
}
TEST(db_catalog_model, what_elders_use_stays) { expect_clean(elders_against_a_drop, at_most(3)); }
TEST(db_catalog_model, faults_are_found) {
  const char* const missed = "a row has no entry";
  expect_found(a_build_against_a_commit, "commit_section.no_heavy", at_most(2), missed);
  expect_found(a_build_against_a_commit, "commit_section.no_wait", at_most(2), missed);
  expect_found(an_entry_against_its_end, "hash_secondary.unlocked", at_most(2),
               "an entry that no thread takes out");
  expect_found(a_look_against_the_end, "visits.not_alone", at_most(2), "data race");
  expect_found(elders_against_a_drop, "visits.looked_at", at_most(2), "data race");
}

}  // namespace
