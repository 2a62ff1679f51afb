// SPDX-License-Identifier: Apache-2.0
// Secondary hash indexes of db/ under the model checker.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>

#include <spolia/db/commit.hpp>
#include <spolia/model/engine.hpp>

#include "db/index/hash_secondary.hpp"
#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

using quick_domain = domain<token, batch>;

struct parts {
  quick_domain d{quick_domain::options{.scheme = {.tick_every = 1, .patience = 0}}};
  hash_secondary<quick_domain, hash_index, quick_domain> index{d, d, 1};

  /// How often a look-up of the key shows the slot.
  int shown(std::uint64_t key, std::uint64_t slot, std::uint64_t time = not_yet) {
    int times = 0;
    const auto look = [&](std::uint64_t s, const std::uint64_t*) {
      times += s == slot ? 1 : 0;
      return true;
    };
    index.scan({key}, {key}, time, slot_visitor(look));
    return times;
  }
};

/// A look-up while rows of the key come and go, and with them larger arrays.
void a_lookup_against_other_rows(model::scenario& run) {
  auto w = std::make_shared<parts>();
  w->index.add({7}, 1, {1, 0});
  run.thread([w] { model::check(w->shown(7, 1) == 1, "a row that stays comes once"); });
  run.thread([w] {
    w->index.add({7}, 2, {2, 0});
    w->index.add({7}, 3, {3, 0});
    model::check(w->index.remove({7}, 2, 2), "there is memory");
  });
  run.finally([w] {
    model::check(w->shown(7, 1) + w->shown(7, 3) == 2, "what was added is there");
    model::check(w->shown(7, 2) == 0, "what was taken out is not");
  });
}

/// A look-up of a row that is taken out and put again, to a place further on.
void a_lookup_against_its_row(model::scenario& run) {
  auto w = std::make_shared<parts>();
  w->index.add({7}, 2, {1, 0});
  w->index.add({7}, 1, {1, 0});
  run.thread([w] { model::check(w->shown(7, 2) <= 1, "a row comes once"); });
  run.thread([w] {
    w->index.remove({7}, 2, 1);
    w->index.add({7}, 3, {1, 0});
    w->index.remove({7}, 1, 1);
    w->index.add({7}, 2, {2, 0});
  });
  run.finally([w] { model::check(w->shown(7, 2) == 1, "what was added is there"); });
}

/// The last row of a key goes and takes the set with it, and another one comes.
void a_lookup_against_the_last_row(model::scenario& run) {
  auto w = std::make_shared<parts>();
  w->index.add({7}, 1, {1, 0});
  run.thread([w] { model::check(w->shown(7, 1) <= 1, "a row comes once"); });
  run.thread([w] {
    w->index.remove({7}, 1, 1);
    w->index.add({8}, 1, {2, 0});
    w->index.add({7}, 1, {3, 0});
  });
  run.finally(
      [w] { model::check(w->index.entry_of({7}, 1).claim == 3, "the claim is the last one"); });
}

/// Two rows get the same key, and each looks for the other: what unique indexes ask for.
void two_rows_of_one_key(model::scenario& run) {
  auto w = std::make_shared<parts>();
  auto seen = std::make_shared<std::array<int, 2>>();
  for (std::uint64_t me : {0U, 1U}) {
    run.thread([w, seen, me] {
      w->index.add({7}, me, {1, 0});
      (*seen)[me] = w->shown(7, 1 - me);
    });
  }
  run.finally([w, seen] {
    model::check((*seen)[0] + (*seen)[1] >= 1, "neither has seen the other");
    model::check(w->shown(7, 0) + w->shown(7, 1) == 2, "both are there");
  });
}

/// A row that an old snapshot sees leaves the index for its graveyard, and comes back.
void a_lookup_against_a_burial(model::scenario& run) {
  auto w = std::make_shared<parts>();
  w->index.add({7}, 1, {1, 0});
  run.thread([w] { model::check(w->shown(7, 1, 5) == 1, "an old snapshot finds its row once"); });
  run.thread([w] {
    model::check(w->index.bury({7}, 1, 1, 2, 9) == burial::done, "there is memory");
    w->index.add({7}, 1, {2, 10});
  });
  run.finally([w] {
    model::check(w->shown(7, 1, 5) == 1 && w->shown(7, 1) == 1, "each finds its row once");
    model::check(w->index.unbury({7}, 1, 1, 9) && w->shown(7, 1) == 1, "the new one stays");
  });
}

TEST(db_hash_secondary_model, lookups_beside_changes) {
  expect_clean(a_lookup_against_a_burial, at_most(1));
  expect_clean(a_lookup_against_a_burial, at_most_in_order(2));
  expect_clean(a_lookup_against_other_rows, at_most(1));
  expect_clean(a_lookup_against_other_rows, at_most_in_order(2));
  expect_clean(a_lookup_against_its_row, at_most_in_order(2));
  expect_clean(a_lookup_against_the_last_row, at_most(1));
  expect_clean(a_lookup_against_the_last_row, at_most_in_order(2));
  expect_clean(two_rows_of_one_key, at_most(1));
}
TEST(db_hash_secondary_model, faults_are_found) {
  for (const char* const fault : {"graveyard.removes_first", "hash_secondary.asks_too_early"}) {
    expect_found(a_lookup_against_a_burial, fault, at_most_in_order(2),
                 "an old snapshot finds its row once");
  }
  expect_found(a_lookup_against_other_rows, "hash_secondary.relaxed_places", at_most(2),
               "whose construction");
  expect_found(a_lookup_against_its_row, "hash_secondary.twice", at_most_in_order(2),
               "a row comes once");
  expect_found(a_lookup_against_the_last_row, "hash_secondary.free_at_once", at_most(2),
               "races with an access");
  expect_found(two_rows_of_one_key, "hash_secondary.unlocked", at_most(2), "both are there");
}

}  // namespace
