// SPDX-License-Identifier: Apache-2.0
// DEBRA in a whole domain under the model checker.

#include <gtest/gtest.h>

#include <memory>

#include <spolia/reclaim/debra.hpp>
#include <spolia/reclaim/domain.hpp>

#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

using debra_domain = domain<debra, batch>;
using debra_blocks = shared_blocks<debra_domain>;

std::shared_ptr<debra_blocks> eager_debra() {
  return std::make_shared<debra_blocks>(
      debra_domain::options{.scheme = {.scan_every = 1, .min_looks = 1}});
}

/// A reader comes while a writer takes the block away and moves the epoch on: two looks for each.
/// The reader is the thread of the set-up, so it has been here before, and is quiescent.
void a_reader_comes_late(model::scenario& run) {
  auto s = eager_debra();
  run.name(s->source, "source");
  run.thread([=] { s->look(); });
  run.thread([=] {
    s->take_away();
    s->run_on(7);
  });
  run.finally([=] { s->clear(); });
}

/// The same with a reader that was not here before, and so is parked when it comes: the writer ends
/// epochs without a fence.
void a_parked_reader_comes_back(model::scenario& run) {
  auto s = eager_debra();
  run.name(s->source, "source");
  run.thread([=] {
    s->take_away();
    s->run_on(7);
  });
  run.thread([=] { s->look(); });
  run.finally([=] { s->clear(); });
}

/// Both run operations all the time: a reader is found to have announced the epoch.
void both_run_on(model::scenario& run) {
  auto s = eager_debra();
  run.name(s->source, "source");
  run.thread([=] {
    for (int i = 0; i < 4; ++i) s->look();
  });
  run.thread([=] {
    s->take_away();
    s->run_on(7);
  });
  run.finally([=] { s->clear(); });
}

/// The reader moves the epoch on while the writer is in an operation: the writer retires under an
/// epoch that is over, and the reader has announced the next one.
void the_epoch_moves_on_before_the_unlinking(model::scenario& run) {
  auto s = eager_debra();
  run.name(s->source, "source");
  run.thread([=] {
    s->run_on(2);
    s->look();
  });
  run.thread([=] {
    s->take_away();
    s->run_on(4);
  });
  run.finally([=] { s->clear(); });
}

/// The epochs run ahead of a writer that has looked at its epoch and not announced it yet.
void epochs_run_ahead_of_an_operation(model::scenario& run) {
  auto s = eager_debra();
  run.name(s->source, "source");
  run.thread([=] {
    s->run_on(6);
    s->look();
  });
  run.thread([=] {
    s->take_away();
    s->run_on(1);
  });
  run.finally([=] { s->clear(); });
}

TEST(debra_model, readers_are_safe) {
  expect_clean(a_reader_comes_late, at_most(2));
  expect_clean(the_epoch_moves_on_before_the_unlinking, at_most(2));
}
TEST(debra_model, readers_are_safe_though_epochs_run_ahead) {
  expect_clean(epochs_run_ahead_of_an_operation, at_most_in_order(2));
}
TEST(debra_model, a_block_has_the_epoch_of_its_retirement) {
  expect_found(epochs_run_ahead_of_an_operation, "debra.stale_tag", at_most_in_order(2),
               "data race");
}
TEST(debra_model, advancing_needs_the_heavy_fence) {
  expect_found(a_reader_comes_late, "debra.no_heavy", at_most(2), "data race");
}
TEST(debra_model, who_comes_back_is_safe) { expect_clean(a_parked_reader_comes_back, at_most(2)); }
TEST(debra_model, who_comes_back_says_so) {
  expect_found(a_parked_reader_comes_back, "parked.stays", at_most(2), "block");
}
TEST(debra_model, a_load_of_the_epoch_does_not_say_it) {
  expect_found(a_parked_reader_comes_back, "parked.back_by_a_load", at_most(2), "block");
}
TEST(debra_model, those_who_run_need_no_fence) {
  expect_clean(both_run_on, at_most(1));
  expect_clean(both_run_on, at_most_in_order(2));
}
TEST(debra_model, three_epochs_are_needed) {
  expect_found(the_epoch_moves_on_before_the_unlinking, "debra.two_bags", at_most(2), "data race");
}

}  // namespace
