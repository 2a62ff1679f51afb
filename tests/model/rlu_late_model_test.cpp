// SPDX-License-Identifier: Apache-2.0
// Read-log-update under the model checker, where a thread is late: a commit that passes overtake, a
// pass that knows of the sections of long ago, and a section that follows a commit at once.

#include <gtest/gtest.h>

#include <memory>

#include <spolia/rlu.hpp>

#include "model/domain_scenarios.hpp"
#include "model/rlu_world.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// The object has a copy, and a thread may be anywhere in the commit of the next one while another
/// one collects twice. What is below stays until the next one shows.
void passes_overtake_a_commit(model::scenario& run) {
  auto w = std::make_shared<world>();
  w->add_to(w->x);
  run.thread([=] { w->add_to(w->x); });
  run.thread([=] {
    w->d.collect();
    w->d.collect();
    w->d.read([&](auto& in) {
      const int first = w->look(in, w->x);
      model::check(first >= 1, "the version below a commit was lost");
      model::check(w->look(in, w->x) == first, "a section saw two instants");
    });
  });
  run.finally([=] { w->clear(); });
}

/// After a pass has looked for sections another one begins, and then a copy is committed that the
/// pass finds.
void a_pass_has_an_old_look(model::scenario& run) {
  auto w = std::make_shared<world>();
  run.thread([=] { w->d.collect(); });
  run.thread([=] { w->add_to(w->x); });
  run.thread([=] { w->look_twice(); });
  run.finally([=] { w->clear(); });
}

/// A thread alone: each of its sections sees what the one before has committed, and may change it.
void sections_follow_at_once(model::scenario& run) {
  auto w = std::make_shared<world>();
  run.thread([=] {
    for (int i = 1; i <= 3; ++i) {
      model::check(w->add_to(w->x), "an own commit is in the way");
      w->d.read([&](auto& in) { model::check(w->look(in, w->x) == i, "an own commit is unseen"); });
    }
  });
  run.finally([=] { w->clear(); });
}

TEST(rlu_late_model, commits_may_be_overtaken_by_passes) {
  expect_clean(passes_overtake_a_commit, at_most_in_order(2));
  expect_found(passes_overtake_a_commit, "rlu.collects_unlocked", at_most_in_order(2),
               "use after free");
}
TEST(rlu_late_model, old_looks_leave_what_is_newer) {
  // Three threads, each of which is interrupted: too many orders to try them all.
  model::options some = in_random_orders(20000);
  some.pct_depth = 5;
  expect_clean(a_pass_has_an_old_look, some);
  expect_found(a_pass_has_an_old_look, "rlu.trusts_an_old_look", some, "data race");
}
TEST(rlu_late_model, own_commits_are_seen_at_once) {
  expect_clean(sections_follow_at_once, at_most(0));
  expect_found(sections_follow_at_once, "rlu.sees_what_is_long_past", at_most(0),
               "an own commit is in the way");
}

}  // namespace
