// SPDX-License-Identifier: Apache-2.0
// Thin pointers under the model checker: their own counts, and their words in pins and logs beside
// those of pointers with blocks.

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "model/counted_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

struct thin_node {
  explicit thin_node(int v) : value(v) {}
  ~thin_node() { value.write(0); }
  void look() const { model::check(value.read() != 0, "the object was looked at after its end"); }

  plain<int> value;
  atomic_thin_ptr<thin_node> next;
};
using thin_node_ptr = thin_ptr<thin_node>;
using reader = private_thin_ptr<thin_node>;

struct thin_state : counted_state {
  thin_state() { thin = make_thin<thin_node>(3); }
  atomic_thin_ptr<thin_node> thin;
};
using state = std::shared_ptr<thin_state>;
using setup = void (*)(model::scenario&, const state&);

scenario_setup over_thin(setup threads) {
  return [threads](model::scenario& run) {
    const auto s = std::make_shared<thin_state>();
    run.name(s->thin, "thin");
    threads(run, s);
    run.finally([s] {
      s->thin = nullptr;
      s->end();
    });
  };
}

void look_at(const atomic_thin_ptr<thin_node>& from) {
  const reader n(from);
  if (n) n->look();
}

/// A pin against overwriting and a whole epoch.
void overwritten(model::scenario& run, const state& s) {
  run.thread([s] { look_at(s->thin); });
  run.thread([s] {
    s->thin = nullptr;
    s->epoch();
  });
}

/// The reader goes on to what hangs below the object, which ends under its feet.
void walked(model::scenario& run, const state& s) {
  s->thin.load()->next = make_thin<thin_node>(4);
  run.thread([s] {
    reader n(s->thin);
    if (!n) return;
    n = n->next;
    if (n) n->look();
  });
  run.thread([s] {
    s->thin = nullptr;
    s->epoch();
  });
}

/// A private copy outlives what it was copied from; and a counted one.
void copied(model::scenario& run, const state& s) {
  run.thread([s] {
    thin_node_ptr kept;
    {
      reader n(s->thin);
      const reader copy = n;
      n = s->thin;
      if (copy) copy->look();
      kept = copy.share_out();
    }
    if (kept) kept->look();
  });
  run.thread([s] {
    s->thin = nullptr;
    s->epoch();
  });
}

void exchanged(model::scenario& run, const state& s) {
  run.thread([s] { look_at(s->thin); });
  run.thread([s] {
    thin_node_ptr old = s->thin.exchange(nullptr);
    old->look();
    old.reset();
    s->epoch();
  });
}

/// Units of thin objects and of others in one epoch, and in one log.
void beside_others(model::scenario& run, const state& s) {
  run.thread([s] {
    const reader n(s->thin);
    const private_ptr<counted_node> m(s->first);
    if (n) n->look();
    if (m) m->look();
  });
  run.thread([s] {
    s->first = nullptr;
    s->thin = nullptr;
    s->epoch();
  });
}

/// The last of two plain pointers.
void dropped_by_two(model::scenario& run, const state&) {
  const thin_node_ptr p = make_thin<thin_node>(4);
  auto both = std::make_shared<std::pair<thin_node_ptr, thin_node_ptr>>(p, p);
  run.thread([both] {
    both->first->look();
    both->first.reset();
  });
  run.thread([both] {
    both->second->look();
    both->second.reset();
  });
}

TEST(counted_thin_model, pinned_objects_stay) {
  expect_clean(over_thin(&overwritten), at_most(2));
  expect_clean(over_thin(&walked), at_most(2));
  expect_clean(over_thin(&exchanged), at_most(2));
}
TEST(counted_thin_model, copies) { expect_clean(over_thin(&copied), at_most(1)); }
TEST(counted_thin_model, beside_others) { expect_clean(over_thin(&beside_others), at_most(1)); }
TEST(counted_thin_model, plain_pointers) { expect_clean(over_thin(&dropped_by_two), at_most(3)); }

TEST(counted_thin_model, every_planted_fault_is_found) {
  const auto found = [](setup threads, const char* fault) {
    model::options how = at_most(2);
    how.fault = fault;
    EXPECT_FALSE(model::explore(how, over_thin(threads)).ok) << fault;
  };
  found(&overwritten, "counted.no_light");
  found(&overwritten, "counted.keep_none");
  found(&overwritten, "counted.drop_at_once");
  found(&exchanged, "counted.exchange_moves");
  found(&walked, "counted.no_before");
  found(&dropped_by_two, "thin.drop_relaxed");
}

}  // namespace
