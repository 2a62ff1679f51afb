// SPDX-License-Identifier: Apache-2.0
// The two routers under the model checker: each task is claimed once, the last thread knows that it
// is the last and sees what the others did.

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include <spolia/counted/one_word_router.hpp>
#include <spolia/counted/tree_router.hpp>

#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

template <class Router, class Barrier>
struct phase {
  phase() {
    undone.open(0b1011);
    tasks.open(0b1011);
  }

  /// Task 1 needs two turns.
  void work() {
    for (;;) {
      const unsigned i = tasks.claim(model::current_thread());
      if (i == Router::none) return;
      done[i].write(done[i].read() + 1);
      if (i == 1 && done[i].read() == 1) {
        tasks.give_back(i);
      } else if (undone.arrive(i)) {
        model::check(!over.read(), "only one is the last");
        over.write(true);
        for (const unsigned j : {0U, 3U}) model::check(done[j].read() == 1, "each task is done");
        model::check(done[1].read() == 2, "and what was given back");
      }
    }
  }

  Router tasks;
  Barrier undone;
  std::array<plain<int>, 4> done{};
  plain<bool> over{false};
};

template <class Router, class Barrier>
void two_helpers(model::scenario& run) {
  auto p = std::make_shared<phase<Router, Barrier>>();
  run.thread([p] { p->work(); });
  run.thread([p] { p->work(); });
  run.finally([p] { model::check(p->over.read(), "the phase is over"); });
}

using counted::one_word_barrier;
using counted::one_word_router;
using counted::tree_router;

TEST(counted_router_model, one_word) {
  expect_clean(&two_helpers<one_word_router, one_word_barrier>, at_most(3));
}
TEST(counted_router_model, tree) {
  expect_clean(&two_helpers<tree_router, tree_router>, at_most_in_order(3));
  model::options weak;  // too many executions to try them all
  weak.how = model::options::mode::random;
  weak.executions = 20000;
  const auto got = model::explore(weak, &two_helpers<tree_router, tree_router>);
  EXPECT_TRUE(got.ok) << got.why << "\n" << got.trace;
}
TEST(counted_router_model, every_planted_fault_is_found) {
  expect_found(&two_helpers<one_word_router, one_word_barrier>, "counted.claim_relaxed", at_most(2),
               "race");
  expect_found(&two_helpers<one_word_router, one_word_barrier>, "counted.arrive_relaxed",
               at_most(2), "race");
  expect_found(&two_helpers<tree_router, tree_router>, "counted.tree_relaxed", at_most_in_order(2),
               "race");
}

}  // namespace
