// SPDX-License-Identifier: Apache-2.0
// Weak pointers under the model checker: upgrades against the last strong unit, and locations that
// hold weak units against the end of the block.

#include <gtest/gtest.h>

#include <memory>

#include "model/counted_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

using state = std::shared_ptr<counted_state>;

/// lock() against the last strong unit, dropped at once.
void upgraded(model::scenario& run, const state&) {
  const auto p = std::make_shared<node_ptr>(make_shared<counted_node>(4));
  const weak_ptr<counted_node> w = *p;
  run.thread([p] { p->reset(); });
  run.thread([w] {
    if (const node_ptr q = w.lock()) q->look();
  });
}

/// The same against a deferred unit.
void upgraded_against_a_sweep(model::scenario& run, const state& s) {
  s->weak = weak_ptr<counted_node>(s->first.load());
  run.thread([s] {
    const weak_ptr<counted_node> w = s->weak.load();
    if (const node_ptr p = w.lock()) p->look();
  });
  run.thread([s] {
    s->first = nullptr;
    s->epoch();
  });
}

/// A location gives up the last weak unit of a block while another thread takes one from it.
void weak_overwritten(model::scenario& run, const state& s) {
  s->weak = weak_ptr<counted_node>(s->first.load());
  run.thread([s] {
    const weak_ptr<counted_node> w = s->weak.load();
    if (const node_ptr p = w.lock()) p->look();
  });
  run.thread([s] {
    s->first = nullptr;
    s->weak = weak_ptr<counted_node>();
    s->epoch();
    s->epoch();
  });
}

/// An alias, in a location for weak pointers and in one for strong ones.
void aliased(model::scenario& run, const state& s) {
  struct outer {
    plain<int> filler;
    counted_node inner{5};
  };
  const auto o = make_shared<outer>();
  const node_ptr inner(o, &o->inner);
  s->first = inner;
  s->weak = weak_ptr<counted_node>(inner);
  run.thread([s] {
    const private_ptr<counted_node> n(s->first);
    if (n) n->look();
    if (const node_ptr p = s->weak.load().lock()) p->look();
  });
  run.thread([s] {
    s->first = nullptr;
    s->epoch();
  });
}

/// Locations of both kinds give up their units of one block: the reader relies on the strong one.
void given_up_twice(model::scenario& run, const state& s) {
  s->weak = weak_ptr<counted_node>(s->first.load());
  run.thread([s] {
    const private_ptr<counted_node> n(s->first);
    if (n) n->look();
  });
  run.thread([s] {
    counted::detail::help(
        counted::detail::here());  // the first change would help at once, and part the two units
    s->weak = weak_ptr<counted_node>();
    s->first = nullptr;
    s->epoch();
  });
}

TEST(counted_weak_model, upgrades) {
  expect_clean(over_counted(&upgraded), at_most(3));
  expect_clean(over_counted(&upgraded_against_a_sweep), at_most(2));
}
TEST(counted_weak_model, locations) {
  expect_clean(over_counted(&weak_overwritten), at_most(1));
  expect_clean(over_counted(&aliased), at_most(1));
  expect_clean(over_counted(&given_up_twice), at_most(2));
}

TEST(counted_weak_model, every_planted_fault_is_found) {
  const auto found = [](counted_setup threads, const char* fault) {
    model::options how = at_most(2);
    how.fault = fault;
    EXPECT_FALSE(model::explore(how, over_counted(threads)).ok) << fault;
  };
  found(&upgraded, "counted.lock_blind");
  found(&given_up_twice, "counted.keep_one_kind");
  found(&weak_overwritten, "counted.no_light");
  found(&weak_overwritten, "counted.keep_none");
}

}  // namespace
