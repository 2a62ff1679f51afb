// SPDX-License-Identifier: Apache-2.0
// Counted pointers under the model checker: pins against overwriting, scanning and sweeping.

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "model/counted_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

using state = std::shared_ptr<counted_state>;
using reader = private_ptr<counted_node>;

void look_at(const atomic_shared_ptr<counted_node>& from) { counted_state::look_at(from); }

/// One thread gives the object up, another one does the epoch's work: as after a thread's exit.
void left_behind(model::scenario& run, const state& s) {
  run.thread([s] { look_at(s->first); });
  run.thread([s] { s->first = nullptr; });
  run.thread([s] { s->epoch(); });
}

/// Two threads share the work of the phases.
void helped(model::scenario& run, const state& s) {
  run.thread([s] {
    s->second = nullptr;
    s->epoch();
    look_at(s->first);
  });
  run.thread([s] {
    s->first = nullptr;
    s->epoch();
  });
}

/// The pin names one object after the other.
void twice(model::scenario& run, const state& s) {
  run.thread([s] {
    reader n(s->first);
    if (n) n->look();
    n = s->second;
    if (n) n->look();
  });
  run.thread([s] {
    s->second = nullptr;
    s->epoch();
  });
}

/// What hangs below the object is unlinked from it.
void unlinked_below(model::scenario& run, const state& s) {
  s->first.load()->next = make_shared<counted_node>(3);
  run.thread([s] {
    reader n(s->first);
    const reader parent = n;
    n = n->next;
    parent->look();
    if (n) n->look();
  });
  run.thread([s] {
    s->first.load()->next = nullptr;
    s->epoch();
  });
}

/// Plain pointers come and go beside the pin.
void counted_beside(model::scenario& run, const state& s) {
  run.thread([s] { look_at(s->first); });
  run.thread([s] {
    node_ptr kept = s->first.load();
    s->first = s->second.load();
    if (kept) kept->look();
    kept.reset();
  });
}

/// Both locations hold one object: of its two units only one may be dropped.
void held_twice(model::scenario& run, const state& s) {
  s->second = s->first.load();
  run.thread([s] { look_at(s->second); });
  run.thread([s] {
    s->first = nullptr;
    s->second = nullptr;
    s->epoch();
    s->epoch();
  });
}

void compared(model::scenario& run, const state& s) {
  const auto replace = [s] {
    node_ptr seen = s->first.load();
    while (!s->first.compare_exchange_weak(seen, s->second.load())) {
    }
    if (seen) seen->look();
  };
  run.thread(replace);
  run.thread([s] {
    node_ptr seen;
    s->first.compare_exchange_strong(seen, node_ptr());
    if (seen) seen->look();
    s->first = nullptr;
    s->epoch();
  });
}

/// The reader itself gives the object up.
void given_up_by_the_reader(model::scenario& run, const state& s) {
  run.thread([s] {
    const reader n(s->first);
    s->first = nullptr;
    if (n) n->look();
  });
  run.thread([s] { s->epoch(); });
}

/// The object ends, and what hangs below it is pinned by another pin.
void kept_below(model::scenario& run, const state& s) {
  s->first.load()->next = make_shared<counted_node>(3);
  run.thread([s] {
    reader parent(s->first);
    if (!parent) return;
    const reader child(parent->next);
    parent = nullptr;
    child->look();
  });
  run.thread([s] {
    s->first = nullptr;
    s->epoch();
  });
}

/// As many private pointers as find a pin at once, and one more.
void held_together(model::scenario& run, const state& s) {
  counted::detail::most_found = counted::detail::found_at_once;
  run.thread([s] {
    const reader one(s->second);
    const reader two(s->first);
    const reader three(s->first);
    const reader four(s->second);
    if (two) two->look();
    if (three) three->look();
  });
  run.thread([s] {
    s->first = nullptr;
    s->epoch();
  });
}
/// The same; only the second, or only the third, holds what is given up.
void held_by_the_second(model::scenario& run, const state& s) {
  counted::detail::most_found = counted::detail::found_at_once;
  run.thread([s] {
    const reader one(s->second);
    const reader two(s->first);
    const reader three(s->second);
    if (two) two->look();
  });
  run.thread([s] {
    s->first = nullptr;
    s->epoch();
  });
}
void held_by_the_third(model::scenario& run, const state& s) {
  counted::detail::most_found = counted::detail::found_at_once;
  run.thread([s] {
    const reader one(s->second);
    const reader two(s->second);
    const reader three(s->first);
    const reader four(s->second);
    if (three) three->look();
  });
  run.thread([s] {
    s->first = nullptr;
    s->epoch();
  });
}

/// One thread begins an epoch, another one does some of its tasks.
void assisted(model::scenario& run, const state& s) {
  run.thread([s] {
    s->first = nullptr;
    s->epoch();
  });
  run.thread([] {
    counted::detail::help(counted::detail::here());
    counted::detail::help(counted::detail::here());
  });
}
void assisted_beside_a_reader(model::scenario& run, const state& s) {
  assisted(run, s);
  run.thread([s] { look_at(s->first); });
}

void clean(counted_setup threads, const model::options& how) {
  expect_clean(over_counted(threads), how);
}

TEST(counted_model, a_pinned_object_stays) {
  clean(&overwritten, at_most(2));
  clean(&twice, at_most(2));
  clean(&given_up_by_the_reader, at_most(2));
}
TEST(counted_model, several_pointers) {
  clean(&held_together, at_most(2));
  clean(&held_by_the_second, at_most(2));
  clean(&held_by_the_third, at_most(2));
}
TEST(counted_model, what_an_ended_thread_left) { clean(&left_behind, at_most(1)); }
TEST(counted_model, helpers_share_the_work) {
  clean(&helped, at_most_in_order(2));
  clean(&assisted, at_most_in_order(2));
}
TEST(counted_model, walks) {
  clean(&walked, at_most(2));
  clean(&walked_on, at_most(1));
  clean(&walked_off, at_most(2));
  clean(&kept_below, at_most(2));
}
TEST(counted_model, plain_pointers) { clean(&dropped_by_two, at_most(3)); }
TEST(counted_model, unlinking_below) { clean(&unlinked_below, at_most(2)); }
TEST(counted_model, private_copies) { clean(&copied, at_most(2)); }
TEST(counted_model, sharing_out) { clean(&shared_out, at_most(2)); }
TEST(counted_model, exchange) { clean(&exchanged, at_most(2)); }
TEST(counted_model, counted_beside) { clean(&counted_beside, at_most(2)); }
TEST(counted_model, two_units_of_one_object) { clean(&held_twice, at_most(1)); }
TEST(counted_model, compare_exchange) { clean(&compared, at_most(1)); }

/// For what takes three threads: most orders are tried by chance.
model::options at_random() {
  model::options how;
  how.how = model::options::mode::pct;
  how.pct_depth = 4;
  how.executions = 200000;
  return how;
}

void found(counted_setup threads, const char* fault, model::options how = at_most(2)) {
  how.fault = fault;
  const auto got = model::explore(how, over_counted(threads));
  EXPECT_FALSE(got.ok) << fault << " was not found in " << got.executions << " executions";
}

TEST(counted_model, every_planted_fault_is_found) {
  found(&overwritten, "counted.no_light");
  found(&overwritten, "counted.no_heavy");
  found(&overwritten, "counted.no_validate");
  found(&left_behind, "counted.late_capture", at_random());
  found(&overwritten, "counted.keep_none");
  found(&overwritten, "counted.clear_relaxed");
  found(&overwritten, "counted.scan_relaxed");
  found(&overwritten, "counted.drop_at_once");
  found(&exchanged, "counted.exchange_moves");
  found(&left_behind, "counted.append_relaxed");
  found(&assisted, "counted.claim_relaxed", at_most_in_order(3));
  found(&assisted_beside_a_reader, "counted.arrive_relaxed", at_most_in_order(2));
  found(&walked, "counted.one_slot");
  found(&walked_off, "counted.null_is_free");
  found(&kept_below, "counted.children_at_once");
  found(&kept_below, "counted.slots_share");
  found(&held_by_the_second, "counted.second_is_shared", at_most(1));
  found(&held_by_the_third, "counted.third_is_shared", at_most(1));
  found(&held_by_the_third, "counted.scan_misses_last", at_most(1));
  found(&overwritten, "counted.null_leaves_name");
  found(&walked_on, "counted.publish_relaxed");
  found(&dropped_by_two, "counted.drop_relaxed");
}

}  // namespace
