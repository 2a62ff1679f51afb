// SPDX-License-Identifier: Apache-2.0
// Read-log-update under the model checker, beside a section that sleeps: newest copies move out of
// their segments, and what has moved is overwritten.

#include <gtest/gtest.h>

#include <memory>

#include <spolia/rlu.hpp>

#include "model/domain_scenarios.hpp"
#include "model/rlu_world.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

struct with_sleeper : world {
  atomic<int> steps{0};
  void wait_for(int n) {
    while (steps.load_relaxed() < n) spin_wait();
  }
  /// A section that sees x as it was until the n-th step.
  void sleep_until(int n) {
    d.read([&](auto& in) {
      steps.store_relaxed(1);
      wait_for(n);
      model::check(look(in, x) == 0, "what a section sleeps over has changed");
    });
  }
  /// The object gets a copy, which moves.
  void relocate_copy() {
    wait_for(1);
    model::check(add_to(x), "no other section is in the way");
    d.collect();
  }
};

/// A copy moves out of its segment, which another section has found.
void a_copy_moves(model::scenario& run) {
  auto w = std::make_shared<with_sleeper>();
  run.thread([=] { w->sleep_until(3); });
  run.thread([=] {
    w->wait_for(1);
    w->add_to(w->x);
    w->steps.store_relaxed(2);
    w->d.collect();
    w->d.collect();
    w->steps.store_relaxed(3);
  });
  run.thread([=] {
    w->wait_for(2);
    w->look_twice();
  });
  run.finally([=] { w->clear(); });
}

/// A second copy goes where the first one is, which another section has found.
void a_copy_is_overwritten(model::scenario& run) {
  auto w = std::make_shared<with_sleeper>();
  run.thread([=] { w->sleep_until(4); });
  run.thread([=] {
    w->relocate_copy();
    w->steps.store_relaxed(2);
    w->wait_for(3);
    w->add_to(w->x);
    for (int i = 0; i < 2; ++i) w->d.collect();
    w->steps.store_relaxed(4);
  });
  run.thread([=] {
    w->wait_for(2);
    w->d.read([&](auto& in) {
      const auto seen = in.read(w->x);
      model::check(seen->value.read() == 1, "a commit is not seen");
      w->steps.store_relaxed(3);
      model::check(w->look(in, w->x) == 1, "a section saw two instants");
      model::check(seen->value.read() == 1, "a view has changed");
    });
    w->look_twice();
  });
  run.finally([=] { w->clear(); });
}

/// The same, and the other section may begin at any moment.
void a_copy_is_overwritten_before_a_look(model::scenario& run) {
  auto w = std::make_shared<with_sleeper>();
  run.thread([=] { w->sleep_until(3); });
  run.thread([=] {
    w->relocate_copy();
    w->steps.store_relaxed(2);
    w->add_to(w->x);
    for (int i = 0; i < 2; ++i) w->d.collect();
    w->steps.store_relaxed(3);
  });
  run.thread([=] {
    w->wait_for(2);
    w->look_twice();
  });
  run.finally([=] { w->clear(); });
}

/// The first again, beside a sweep of the log that the first copy is in.
void a_copy_is_overwritten_beside_a_pass(model::scenario& run) {
  auto w = std::make_shared<with_sleeper>();
  run.thread([=] { w->sleep_until(5); });
  run.thread([=] {
    w->relocate_copy();
    w->steps.store_relaxed(2);
    w->wait_for(3);
    w->d.collect();
    w->steps.fetch_add_relaxed(1);
  });
  run.thread([=] {
    w->wait_for(2);
    w->add_to(w->x);
    w->steps.store_relaxed(3);
    w->d.collect();
    w->d.read([&](auto& in) { model::check(w->look(in, w->x) == 2, "an update was lost"); });
    w->steps.fetch_add_relaxed(1);
  });
  run.finally([=] { w->clear(); });
}

// Three threads that wait for each other have too many orders to try them all.
model::options some() { return in_random_orders(20000); }

TEST(rlu_sleeper_model, copies_may_move) {
  expect_clean(a_copy_moves, some());
  expect_found(a_copy_moves, "rlu.twin_relaxed", some(), "race");
  expect_found(a_copy_moves, "rlu.no_second_grace", some(), "block");
}
TEST(rlu_sleeper_model, what_has_moved_is_overwritten_when_no_section_reads_it) {
  expect_clean(a_copy_is_overwritten, at_most_in_order(1));
  expect_found(a_copy_is_overwritten, "rlu.overwrites_relocated_early", at_most_in_order(1),
               "a section saw two instants");
  expect_clean(a_copy_is_overwritten_before_a_look, some());
  expect_found(a_copy_is_overwritten_before_a_look, "rlu.relocated_relaxed", some(), "race");
}
TEST(rlu_sleeper_model, what_was_overwritten_is_not_over) {
  expect_clean(a_copy_is_overwritten_beside_a_pass, at_most_in_order(1));
  expect_found(a_copy_is_overwritten_beside_a_pass, "rlu.unlinks_by_an_old_look",
               at_most_in_order(1), "use after free");
}

}  // namespace
