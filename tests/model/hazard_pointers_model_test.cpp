// SPDX-License-Identifier: Apache-2.0
// Hazard pointers under the model checker: names against unlinking and scanning.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include <spolia/reclaim/hazard_pointers.hpp>

#include "model/bare_scheme.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

using domain_type = bare_domain<hazard_pointers>;
using guard = bare_guard<domain_type>;

struct state {
  state() : d({.scan_at = 1}) {
    for (int i = 0; i < 2; ++i) {
      source[static_cast<std::size_t>(i)].store_relaxed(bare_node::make(i + 1));
    }
  }

  /// Takes what is linked there, and puts `fresh` in its place; every retirement makes a scan.
  void replace(std::size_t i, bare_node* fresh) {
    bare_node* const old = source[i].exchange_acq_rel(fresh);
    if (old != nullptr) d.retire(old);
  }

  void end() {
    for (auto& s : source) {
      if (bare_node* const n = s.load_relaxed()) bare_node::end(n);
    }
    d.end();
  }

  domain_type d;
  std::array<atomic<bare_node*>, 2> source;
};

using setup = void (*)(model::scenario&, const std::shared_ptr<state>&);

model::outcome explore(setup threads, const char* fault, int preemptions) {
  model::options how;
  how.preemptions = preemptions;
  how.fault = fault;
  return model::explore(how, [=](model::scenario& run) {
    auto s = std::make_shared<state>();
    run.name(s->source, "source");
    threads(run, s);
    run.finally([s] { s->end(); });
  });
}

void expect_clean(setup threads, int preemptions) {
  const auto got = explore(threads, "", preemptions);
  EXPECT_TRUE(got.ok) << got.why << "\n" << got.trace;
  EXPECT_TRUE(got.exhausted);
  testing::Test::RecordProperty("executions", std::to_string(got.executions));
}

void expect_found(setup threads, const char* fault) {
  const auto got = explore(threads, fault, 3);
  EXPECT_FALSE(got.ok) << fault;
}

void look_once(model::scenario& run, const std::shared_ptr<state>& s) {
  run.thread([s] {
    guard g(s->d);
    if (bare_node* const n = g.protect(s->source[0])) n->look();
  });
}

void one_reader(model::scenario& run, const std::shared_ptr<state>& s) {
  look_once(run, s);
  run.thread([s] { s->replace(0, nullptr); });
}

void two_readers(model::scenario& run, const std::shared_ptr<state>& s) {
  look_once(run, s);
  one_reader(run, s);
}

/// The slot names one block after the other: the scan may see the second name only.
void one_slot_twice(model::scenario& run, const std::shared_ptr<state>& s) {
  run.thread([s] {
    guard g(s->d);
    if (bare_node* const n = g.protect(s->source[0])) n->look();
    if (bare_node* const n = g.protect(s->source[1])) n->look();
  });
  run.thread([s] { s->replace(0, nullptr); });
}

void replaced_under_the_reader(model::scenario& run, const std::shared_ptr<state>& s) {
  run.thread([s] {
    guard g(s->d);
    g.protect(s->source[0])->look();
  });
  run.thread([s] { s->replace(0, bare_node::make(7)); });
}

void nested(model::scenario& run, const std::shared_ptr<state>& s) {
  run.thread([s] {
    guard outer(s->d);
    bare_node* const first = outer.protect(s->source[0]);
    {
      guard inner(s->d);
      if (bare_node* const n = inner.protect(s->source[1])) n->look();
    }
    if (first != nullptr) first->look();
  });
  run.thread([s] {
    s->replace(0, nullptr);
    s->replace(1, nullptr);
  });
}

/// A protected block is handed to a lower slot, and its old slot names another one.
void handed_down(model::scenario& run, const std::shared_ptr<state>& s) {
  run.thread([s] {
    guard g(s->d);
    bare_node* const first = g.protect(s->source[0], 1);
    g.announce(first, 0);
    if (bare_node* const n = g.protect(s->source[1], 1)) n->look();
    if (first != nullptr) first->look();
  });
  run.thread([s] { s->replace(0, nullptr); });
}

void announced(model::scenario& run, const std::shared_ptr<state>& s) {
  run.thread([s] {
    guard g(s->d);
    bare_node* const n = s->source[0].load_relaxed();
    g.announce(n, 0);
    if (n != nullptr && s->source[0].load_acquire() == n) n->look();
  });
  run.thread([s] { s->replace(0, nullptr); });
}

TEST(hazard_pointers_model, a_named_block_is_not_freed) {
  expect_clean(&one_reader, 4);
  expect_clean(&announced, 4);
  expect_clean(&replaced_under_the_reader, 3);
  expect_clean(&one_slot_twice, 3);
}
TEST(hazard_pointers_model, two_readers) { expect_clean(&two_readers, 2); }
TEST(hazard_pointers_model, nested_guards) { expect_clean(&nested, 2); }
TEST(hazard_pointers_model, handing_a_name_down) { expect_clean(&handed_down, 3); }

TEST(hazard_pointers_model, every_planted_fault_is_found) {
  expect_found(&one_reader, "hp.no_light");
  expect_found(&announced, "hp.no_light");
  expect_found(&one_reader, "hp.no_heavy");
  expect_found(&one_reader, "hp.no_validate");
  expect_found(&one_slot_twice, "hp.relaxed_publish");
  expect_found(&one_reader, "slots.read_relaxed");
  expect_found(&handed_down, "slots.upwards");
}

}  // namespace
