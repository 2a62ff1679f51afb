// SPDX-License-Identifier: Apache-2.0
// Token epochs, and the paper's ring, in a whole domain under the model checker.

#include <gtest/gtest.h>

#include <memory>

#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/token.hpp>
#include <spolia/reclaim/token_ring.hpp>

#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

using token_domain = domain<token, batch>;
using token_blocks = shared_blocks<token_domain>;

std::shared_ptr<token_blocks> eager_token(std::uint32_t turn_us = 0) {
  token_domain::options o;
  o.scheme = {.tick_every = 1, .patience = 0};
  o.turn_us = turn_us;
  return std::make_shared<token_blocks>(o);
}

/// A reader comes while a writer takes the block away and passes the token round and round.
void a_reader_comes_late(model::scenario& run) {
  auto s = eager_token();
  run.name(s->source, "source");
  run.thread([=] { s->look(); });
  run.thread([=] {
    s->take_away();
    s->run_on(4);
  });
  run.finally([=] { s->clear(); });
}

/// The reader moves the round on while the writer is in an operation: the writer retires under a
/// round that is over, and the reader has announced the next one.
void the_round_moves_on_before_the_unlinking(model::scenario& run) {
  auto s = eager_token();
  run.name(s->source, "source");
  run.thread([=] {
    s->take_away(1);
    s->look();
  });
  run.thread([=] {
    s->take_away();
    s->run_on(2);
  });
  run.finally([=] { s->clear(); });
}

/// The reader's thread has moved the token as far as it goes, before or while the writer is in its
/// operation, when it looks.
void rounds_run_ahead_of_an_operation(model::scenario& run) {
  auto s = eager_token();
  run.name(s->source, "source");
  run.thread([=] {
    s->take_away(1);
    s->run_on(2);
    s->look();
  });
  run.thread([=] {
    s->take_away();
    s->run_on(3);
  });
  run.finally([=] { s->clear(); });
}

TEST(token_model, readers_are_safe) {
  expect_clean(a_reader_comes_late, at_most(2));
  expect_clean(the_round_moves_on_before_the_unlinking, at_most(1));
  expect_clean(the_round_moves_on_before_the_unlinking, at_most_in_order(2));
}
/// The writer has the token to itself, and needs no fence, when the reader comes.
void a_reader_comes_to_a_lone_writer(model::scenario& run) {
  auto s = eager_token();
  run.name(s->source, "source");
  run.thread([=] {
    s->take_away();
    s->run_on(4);
  });
  run.thread([=] { s->look(); });
  run.finally([=] { s->clear(); });
}
/// The reader's cell is the last one: it is occupied while the token goes round, and vacated when
/// its thread ends.
TEST(token_model, a_reader_whose_cell_is_occupied_late_is_safe) {
  const cells_one_by_one here;
  expect_clean(a_reader_comes_to_a_lone_writer, at_most_in_order(2));
  expect_clean(a_reader_comes_to_a_lone_writer, in_random_orders(2000));
}
TEST(token_model, a_cell_is_occupied_before_its_gate_is_opened) {
  const cells_one_by_one here;
  expect_found(a_reader_comes_to_a_lone_writer, "domain.occupied_late", at_most(1), "data race");
}
TEST(token_model, a_vacated_cell_tells_that_its_thread_has_ended) {
  const cells_one_by_one here;
  expect_found(a_reader_comes_to_a_lone_writer, "cells.vacated_relaxed", at_most_in_order(1),
               "data race");
}
TEST(token_model, readers_are_safe_though_rounds_run_ahead) {
  expect_clean(rounds_run_ahead_of_an_operation, at_most_in_order(2));
}
TEST(token_model, a_block_has_the_round_of_its_retirement) {
  expect_found(rounds_run_ahead_of_an_operation, "token.stale_tag", at_most_in_order(2),
               "data race");
}
TEST(token_model, moving_past_a_thread_needs_the_heavy_fence) {
  expect_found(a_reader_comes_late, "token.no_heavy", at_most(2), "data race");
}
TEST(token_model, leaving_needs_release) {
  expect_found(a_reader_comes_late, "token.leave_relaxed", at_most(2), "data race");
}
TEST(token_model, three_rounds_are_needed) {
  expect_found(the_round_moves_on_before_the_unlinking, "token.two_bags", at_most(2), "data race");
}

// A thread is parked until its first operation. (Not the first thread here: the set-up's operations
// count as its own.)

TEST(token_model, who_comes_back_is_safe) {
  expect_clean(a_reader_comes_to_a_lone_writer, at_most(2));
}
/// Both give their processor away before each operation, and are parked meanwhile.
void those_who_step_aside(model::scenario& run) {
  auto s = eager_token(1);
  run.name(s->source, "source");
  run.thread([=] {
    s->look();
    s->look();
  });
  run.thread([=] {
    s->take_away();
    s->run_on(4);
  });
  run.finally([=] { s->clear(); });
}

TEST(token_model, who_steps_aside_is_safe) {
  expect_clean(those_who_step_aside, at_most(1));
  expect_clean(those_who_step_aside, at_most_in_order(2));
}
TEST(token_model, who_steps_aside_closes_the_gate) {
  expect_found(those_who_step_aside, "gate.left_open", at_most(1), "block");
}
TEST(token_model, who_comes_back_says_so) {
  expect_found(a_reader_comes_late, "parked.stays", at_most(2), "block");
}
TEST(token_model, a_load_of_the_round_does_not_say_it) {
  expect_found(a_reader_comes_to_a_lone_writer, "parked.back_by_a_load", at_most(2), "block");
}
using ring_domain = domain<token_naive, batch>;
using ring_blocks = shared_blocks<ring_domain>;

struct ring_of_two : ring_blocks {
  ring_of_two() : ring_blocks(ring_domain::options{}) {}
  atomic<bool> passed_on{false};
};

/// Both threads pass the token; the reader has to pass it once for the writer to free. That the
/// writer waits for it orders nothing, and saves a preemption.
void two_in_a_ring(model::scenario& run) {
  auto s = std::make_shared<ring_of_two>();
  run.name(s->source, "source");
  run.thread([=] {
    s->look();
    s->run_on(1);
    s->passed_on.store_relaxed(true);
  });
  run.thread([=] {
    s->take_away();
    s->run_on(1);
    while (!s->passed_on.load_relaxed()) spin_wait();
    s->run_on(2);
  });
  run.finally([=] { s->clear(); });
}

TEST(token_ring_model, readers_are_safe) { expect_clean(two_in_a_ring, at_most(2)); }
TEST(token_ring_model, the_token_brings_its_history_along) {
  expect_found(two_in_a_ring, "ring.relaxed_pass", at_most(2), "data race");
}
TEST(token_ring_model, who_is_passed_over_has_ended_its_reads) {
  expect_found(two_in_a_ring, "ring.exit_relaxed", at_most(2), "data race");
}

}  // namespace
