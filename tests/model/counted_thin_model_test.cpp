// SPDX-License-Identifier: Apache-2.0
// Thin pointers under the model checker: their own counts, and their words in pins and logs beside
// those of pointers with blocks.

#include <gtest/gtest.h>

#include <memory>

#include "model/counted_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

using thin_state = state_over<thin_family>;

struct mixed_state : thin_state {
  void end() {
    other = nullptr;
    thin_state::end();
  }
  atomic_shared_ptr<counted_node> other{make_shared<counted_node>(3)};
};

/// Units of thin objects and of others in one epoch, and in one log.
void beside_others(model::scenario& run, const std::shared_ptr<mixed_state>& s) {
  run.thread([s] {
    const thin_state::reader n(s->first);
    const private_ptr<counted_node> m(s->other);
    if (n) n->look();
    if (m) m->look();
  });
  run.thread([s] {
    s->other = nullptr;
    s->first = nullptr;
    s->epoch();
  });
}

/// By the pin of the thread's first walk, until the way ends; the second node is taken out.
void walked_to_the_end(model::scenario& run, const std::shared_ptr<thin_state>& s) {
  auto last = thin_state::make(3);
  thin_state::location& way = s->first.load()->next;
  way = std::move(last);
  run.thread([s] {
    thin_family::first_look by;
    model::check(by.find(), "no other thread walks");
    auto at = by.look(s->first);
    at->look();
    by.step(at, at->next);
    if (!at) return;
    at->look();
    by.step(at, at->next);
    model::check(!at, "nothing follows");
  });
  run.thread([s, &way] {
    way = nullptr;
    s->epoch();
  });
}

/// By the same pin; the object is taken out in which the next location lies. The second step is
/// from an object that only the pin's second slot names.
void walked_from_the_begin(model::scenario& run, const std::shared_ptr<thin_state>& s) {
  auto below = thin_state::make(3);
  below->next = thin_state::make(4);
  s->first.load()->next = std::move(below);
  run.thread([s] {
    thin_family::first_look by;
    model::check(by.find(), "no other thread walks");
    auto at = by.look(s->first);
    if (!at) return;
    by.step(at, at->next);
    if (at) by.step(at, at->next);
    if (at) at->look();
  });
  run.thread([s] {
    s->first = nullptr;
    s->epoch();
  });
}

scenario_setup over_thin(setup_with<thin_state> threads) { return over_state(threads); }

TEST(counted_thin_model, pinned_objects_stay) {
  expect_clean(over_thin(&overwritten), at_most(2));
  expect_clean(over_thin(&walked), at_most(2));
  expect_clean(over_thin(&walked_off), at_most(2));
  expect_clean(over_thin(&exchanged), at_most(2));
}
TEST(counted_thin_model, first_walks) {
  expect_clean(over_thin(&walked_to_the_end), at_most(2));
  expect_clean(over_thin(&walked_from_the_begin), at_most(2));
}
TEST(counted_thin_model, copies) {
  expect_clean(over_thin(&copied), at_most(1));
  expect_clean(over_thin(&shared_out), at_most(1));
}
TEST(counted_thin_model, beside_others) { expect_clean(over_state(&beside_others), at_most(1)); }
TEST(counted_thin_model, plain_pointers) { expect_clean(over_thin(&dropped_by_two), at_most(3)); }

TEST(counted_thin_model, every_planted_fault_is_found) {
  const auto found = [](setup_with<thin_state> threads, const char* fault) {
    model::options how = at_most(2);
    how.fault = fault;
    EXPECT_FALSE(model::explore(how, over_thin(threads)).ok) << fault;
  };
  found(&overwritten, "counted.no_light");
  found(&overwritten, "counted.keep_none");
  found(&overwritten, "counted.drop_at_once");
  found(&exchanged, "counted.exchange_moves");
  found(&walked, "counted.one_slot");
  found(&walked_from_the_begin, "counted.one_slot");
  found(&walked_from_the_begin, "counted.scan_first_only");
  found(&walked_from_the_begin, "counted.scan_second_first");
  found(&walked_off, "counted.null_is_free");
  found(&walked_to_the_end, "counted.no_light");
  found(&dropped_by_two, "thin.drop_relaxed");
}

}  // namespace
