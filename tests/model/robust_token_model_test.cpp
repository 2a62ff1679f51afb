// SPDX-License-Identifier: Apache-2.0
// Readers that stall, and the upper era bounds that they are given, in a whole domain under the
// model checker.

#include <gtest/gtest.h>

#include <memory>

#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/robust_token.hpp>

#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

using robust_domain = domain<robust_token, batch>;

struct robust_blocks : shared_blocks<robust_domain> {
  explicit robust_blocks(std::uint32_t stall_after) : shared_blocks(eager(stall_after)) {}

  static robust_domain::options eager(std::uint32_t stall_after) {
    robust_domain::options o;
    o.scheme.tick_every = 1;
    o.scheme.patience = 0;
    o.scheme.stall_after = stall_after;
    o.scheme.processors = 1U << 20U;  // never oversubscribed
    return o;
  }

  void take_out(std::size_t i) { d.destroy(source[i].exchange_relaxed(nullptr)); }

  /// A new block where there is none.
  void put(std::size_t i) {
    // release → the acquire in protect(): the block arrives constructed.
    source[i].store_release(d.make<block>());
  }

  /// One operation that looks at the first block, stalls until it is woken, and goes on to the
  /// second.
  void stall_between() {
    auto guard = d.enter();
    look_at(guard.protect(source[0]).get());
    stall();
    go_on_to_the_second(guard);
  }
  void stall_on_the_second() {
    auto guard = d.enter();
    go_on_to_the_second(guard);
  }
  void go_on_to_the_second(robust_domain::guard& guard) {
    const auto b = guard.protect(source[1]);
    arrived.store_relaxed(true);
    while (dwells && !gone.load_relaxed()) spin_wait();
    look_at(b.get());
  }

  // That threads wait for each other here orders nothing, and saves preemptions.
  void stall() {
    stalled.store_relaxed(true);
    while (!woken.load_relaxed()) spin_wait();
  }
  void await_stall() {
    while (!stalled.load_relaxed()) spin_wait();
  }
  void wake() { woken.store_relaxed(true); }
  void await_arrival() {
    while (!arrived.load_relaxed()) spin_wait();
  }

  // The writer's part.
  void run_past_the_stalled() {
    await_stall();
    take_away(0);
    run_on(2);
  }
  /// The stalled reader is given an era bound; from then on one block alone is no reason for a
  /// heavy fence, and the token hops over the reader.
  void give_a_bound() {
    await_stall();
    take_away(0);
    take_away(1);
    run_on(4);
  }
  void hop_over_the_stalled() {
    give_a_bound();
    offer_a_second();
    take_away(1);
    run_on(4);
    await_arrival();  // the end of a thread takes heavy fences
  }
  void offer_a_second() {
    put(1);
    wake();
  }
  void end_the_second() {
    take_away(1);
    run_on(4);
    gone.store_relaxed(true);
  }

  atomic<bool> stalled{false};
  atomic<bool> ready{false};
  atomic<bool> gone{false};
  bool dwells = false;  // on the second block, until the writer has taken it away
  atomic<bool> woken{false};
  atomic<bool> arrived{false};

 private:
  static void look_at(block* b) {
    if (b != nullptr) model::check(b->whole.read(), "the block was looked at after its end");
  }
};

std::shared_ptr<robust_blocks> start(model::scenario& run, std::uint32_t stall_after = 1) {
  auto s = std::make_shared<robust_blocks>(stall_after);
  run.name(s->source, "source");
  return s;
}

/// A reader stays in its operation while the block that it looks at is taken away, and the token is
/// moved past it.
void a_reader_stalls_on_a_block(model::scenario& run) {
  auto s = start(run);
  run.thread([=] { s->look(); });
  run.thread([=] {
    s->take_away();
    s->run_on(5);
  });
  run.finally([=] { s->clear(); });
}

/// The reader goes on to a block that was made after it had stalled, and that is taken away too.
void a_stalled_reader_goes_on(model::scenario& run) {
  auto s = start(run);
  s->take_out(1);
  run.thread([=] { s->stall_between(); });
  run.thread([=] {
    s->run_past_the_stalled();
    s->offer_a_second();
    s->take_away(1);
    s->run_on(4);
  });
  run.finally([=] { s->clear(); });
}

/// The same, and the block is taken away only when the reader has it.
void a_stalled_reader_gets_on(model::scenario& run) {
  auto s = start(run);
  s->take_out(1);
  s->dwells = true;
  run.thread([=] { s->stall_between(); });
  run.thread([=] {
    s->run_past_the_stalled();
    s->offer_a_second();
    s->await_arrival();
    s->end_the_second();
  });
  run.finally([=] { s->clear(); });
}

/// The block that the reader goes on to is made by a third thread, which knows of the bound only by
/// the round.
void others_make_a_block(model::scenario& run) {
  auto s = start(run);
  s->take_out(1);
  s->dwells = true;
  run.thread([=] { s->stall_between(); });
  run.thread([=] {
    s->run_past_the_stalled();
    s->ready.store_relaxed(true);
  });
  run.thread([=] {
    while (!s->ready.load_relaxed()) spin_wait();
    s->offer_a_second();
    s->await_arrival();
    s->end_the_second();
  });
  run.finally([=] { s->clear(); });
}

/// A stalled reader goes on to retire a block that a later reader looks at.
void a_stalled_reader_retires(model::scenario& run) {
  auto s = start(run);
  run.thread([=] {
    {
      auto guard = s->d.enter();
      s->stall();
      if (auto* const b = s->source[1].exchange_acq_rel(nullptr)) guard.retire(b);
    }
    s->run_on(1);
  });
  run.thread([=] {
    s->await_stall();
    s->take_away(0);
    s->run_on(5);
    s->wake();
    s->look(1);
  });
  run.finally([=] { s->clear(); });
}

/// What a stalled reader had held up is freed when it has gone.
void a_reader_stalls_and_leaves(model::scenario& run) {
  auto s = start(run);
  run.thread([=] { s->stall_between(); });
  run.thread([=] {
    s->await_stall();
    s->take_away(0);
    s->run_on(5);
    s->wake();
  });
  run.finally([=] {
    s->clear();
    model::check(s->d.drain(), "a block waits though no thread is there");
  });
}

/// The reader stalls once more in its next operation, and is given another bound.
void a_reader_stalls_twice(model::scenario& run) {
  auto s = start(run);
  s->dwells = true;
  run.thread([=] {
    {
      auto guard = s->d.enter();
      s->stall();
    }
    s->stall_on_the_second();
  });
  run.thread([=] {
    s->run_past_the_stalled();
    s->wake();
    s->await_arrival();
    s->end_the_second();
  });
  run.finally([=] { s->clear(); });
}

constexpr std::uint32_t two_blocks = 2;

/// The token hops over the reader, which goes on to a block that is taken away.
void a_reader_hopped_over_goes_on(model::scenario& run) {
  auto s = start(run, two_blocks);
  run.thread([=] { s->hop_over_the_stalled(); });
  run.thread([=] { s->stall_between(); });
  run.finally([=] { s->clear(); });
}

/// The reader ends its operation meanwhile, and finds the block in its next one.
void a_reader_hopped_over_comes_again(model::scenario& run) {
  auto s = start(run, two_blocks);
  run.thread([=] { s->hop_over_the_stalled(); });
  run.thread([=] {
    {
      auto guard = s->d.enter();
      s->stall();
    }
    s->look(1);
    s->arrived.store_relaxed(true);
  });
  run.finally([=] { s->clear(); });
}

/// The reader goes on to retire a block that a later reader looks at.
void a_reader_hopped_over_retires(model::scenario& run) {
  auto s = start(run, two_blocks);
  run.thread([=] {
    s->give_a_bound();
    s->put(1);
    s->put(0);
    s->take_away(0);
    s->run_on(4);
    s->wake();
    s->look(1);
  });
  run.thread([=] {
    {
      auto guard = s->d.enter();
      s->stall();
      if (auto* const b = s->source[1].exchange_acq_rel(nullptr)) guard.retire(b);
    }
    s->run_on(1);
  });
  run.finally([=] { s->clear(); });
}

model::options random_ones() {
  model::options how;
  how.how = model::options::mode::random;
  how.executions = 20'000;
  for (int i = 0; i < deeper(); ++i) how.executions *= 10;
  return how;
}

void expect_clean_at_random(const scenario_setup& setup) {
  const auto got = model::explore(random_ones(), setup);
  EXPECT_TRUE(got.ok) << got.why << "\n" << got.trace;
}

TEST(robust_token_model, a_stalled_reader_keeps_its_block) {
  expect_clean(a_reader_stalls_on_a_block, at_most_in_order(2));
  expect_clean(a_reader_stalls_on_a_block, at_most(1));
}
TEST(robust_token_model, a_stalled_reader_may_go_on) {
  expect_clean(a_stalled_reader_goes_on, at_most_in_order(1));
  expect_clean(a_stalled_reader_goes_on, at_most(0));
  expect_clean_at_random(others_make_a_block);
}
TEST(robust_token_model, a_stalled_reader_may_get_on) {
  expect_clean(a_stalled_reader_gets_on, at_most_in_order(1));
  expect_clean_at_random(a_stalled_reader_gets_on);
}
TEST(robust_token_model, a_stalled_reader_may_retire) {
  expect_clean(a_stalled_reader_retires, at_most_in_order(1));
  expect_clean(a_stalled_reader_retires, at_most(0));
  expect_clean_at_random(a_stalled_reader_retires);
}
TEST(robust_token_model, a_reader_may_stall_again) {
  expect_clean_at_random(a_reader_stalls_twice);
}
TEST(robust_token_model, nothing_waits_for_a_reader_that_has_left) {
  expect_clean(a_reader_stalls_and_leaves, at_most_in_order(1));
}

TEST(robust_token_model, a_reader_hopped_over_may_go_on) {
  expect_clean(a_reader_hopped_over_goes_on, at_most_in_order(1));
  expect_clean_at_random(a_reader_hopped_over_goes_on);
}
TEST(robust_token_model, a_reader_hopped_over_may_come_again) {
  expect_clean(a_reader_hopped_over_comes_again, at_most_in_order(1));
  expect_clean_at_random(a_reader_hopped_over_comes_again);
}
TEST(robust_token_model, a_reader_hopped_over_may_retire) {
  expect_clean(a_reader_hopped_over_retires, at_most_in_order(1));
  expect_clean(a_reader_hopped_over_retires, at_most(0));
  expect_clean_at_random(a_reader_hopped_over_retires);
}

TEST(robust_token_model, era_bounds_hold_up_what_was_there) {
  expect_found(a_reader_stalls_on_a_block, "robust.ignore_bounds", at_most(2), "block");
}
TEST(robust_token_model, a_bag_with_an_old_block_is_looked_through) {
  expect_found(a_reader_stalls_on_a_block, "robust.birth_unnoticed", at_most(2), "block");
}
TEST(robust_token_model, an_era_bound_is_the_round_that_is) {
  expect_found(a_reader_stalls_on_a_block, "robust.early_bound", at_most(2), "block");
}
TEST(robust_token_model, a_reader_was_passed_in_the_round_before_its_bound) {
  expect_found(a_reader_stalls_on_a_block, "robust.passed_later", at_most(2), "block");
}
TEST(robust_token_model, a_reader_that_goes_on_moves_its_bound) {
  expect_found(a_stalled_reader_goes_on, "robust.no_extension", at_most_in_order(2), "block");
}
TEST(robust_token_model, and_looks_again_afterwards) {
  expect_found(a_stalled_reader_goes_on, "robust.no_second_look", at_most_in_order(2), "block");
}
TEST(robust_token_model, moving_the_bound_needs_a_fence) {
  expect_found(a_stalled_reader_goes_on, "robust.no_extension_fence", at_most(1), "block");
}
TEST(robust_token_model, retiring_after_a_stall_needs_the_light_fence) {
  expect_found(a_stalled_reader_retires, "robust.no_light_retire", at_most(1), "block");
}
TEST(robust_token_model, the_token_hops_after_a_full_fence) {
  expect_found(a_reader_hopped_over_goes_on, "robust.no_full_hop", at_most(0), "block");
}
TEST(robust_token_model, moving_the_bound_of_one_hopped_over_needs_a_full_fence) {
  expect_found(a_reader_hopped_over_goes_on, "robust.light_extension", at_most(0), "block");
}
TEST(robust_token_model, leaving_after_a_bound_needs_a_full_fence) {
  expect_found(a_reader_hopped_over_comes_again, "robust.no_full_lift", at_most(0), "block");
}
TEST(robust_token_model, retiring_after_a_bound_needs_a_full_fence) {
  expect_found(a_reader_hopped_over_retires, "robust.no_full_retire", at_most(0), "block");
}

}  // namespace
