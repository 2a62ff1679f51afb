// SPDX-License-Identifier: Apache-2.0
// scx_model_test.cpp: LLX and SCX on two records, in every order and with weak memory: nothing that
// was reported as done is lost, and nothing is done twice.
#include <spolia/base/backoff.hpp>
#include <spolia/map/detail/scx.hpp>
#include <spolia/reclaim/none.hpp>
#include <spolia/model/engine.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace {

using namespace spolia;

/// What hangs in the structure: a number, or a record with two children.
struct thing {
  explicit thing(std::uint64_t n) : number(n) {}
  plain<std::uint64_t> number;
};
struct record : thing {
  using child_type = thing*;
  record(thing* a, thing* b) : thing(0) {
    children[0].store_relaxed(a);
    children[1].store_relaxed(b);
  }
  atomic<thing*>& child(unsigned i) noexcept { return children[i]; }
  atomic<bool> marked{false};
  atomic<std::uint64_t> info{detail::map::untouched_record};
  std::array<atomic<thing*>, 2> children;
};

/// Nothing is freed before the end.
struct no_guard {
  using scheme_type = none;
};

/// root has a number at 1, and at 0 `middle`, which has two numbers.
struct world {
  using operations = detail::map::scx<record>;
  using change = operations::change;
  using view = operations::view;

  template <class T, class... Arguments>
  T* make(Arguments... arguments) {
    auto made = std::make_shared<T>(arguments...);
    T* const bare = made.get();
    kept[model::current_thread()].push_back(std::move(made));
    return bare;
  }

  // One list for each thread: declared first, since the nodes go last.
  std::array<std::vector<std::shared_ptr<void>>, 3> kept;
  operations all;
  record* root = make<record>(make<record>(make<thing>(10U), make<thing>(20U)), make<thing>(30U));

  record* middle() { return static_cast<record*>(root->child(0).load_acquire()); }

  bool link(record* r, change& c) {
    const view seen = all.llx(*r);
    no_guard guard;
    if (seen.is == view::status::busy) all.help(guard, seen.info);
    if (seen.is == view::status::removed) spin_wait();
    c.v[c.count] = r;
    c.seen[c.count++] = seen.info;
    return static_cast<bool>(seen);
  }

  /// Adds one to the number at `index` of the record that `where` finds, again and again until it
  /// works.
  template <class Where>
  void add_one(Where where, unsigned index) {
    for (;;) {
      change c{};
      record* const r = where();
      if (!link(r, c)) continue;
      c.index = index;
      c.old = r->child(index).load_acquire();
      c.fresh = make<thing>(c.old->number.read() + 1);
      if (all.attempt(all.me(), c)) return;
    }
  }

  /// Puts a copy in the place of `middle`.
  void replace_middle() {
    for (;;) {
      change c{};
      if (!link(root, c)) continue;
      record* const r = middle();
      if (!link(r, c)) continue;
      c.index = 0;
      c.old = r;
      c.fresh = make<record>(r->child(0).load_acquire(), r->child(1).load_acquire());
      if (all.attempt(all.me(), c)) return;
    }
  }

  void expect(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    model::check(!middle()->marked.load_relaxed(), "a removed record can be reached");
    model::check(middle()->child(0).load_acquire()->number.read() == a, "middle's first number");
    model::check(middle()->child(1).load_acquire()->number.read() == b, "middle's second number");
    model::check(root->child(1).load_acquire()->number.read() == c, "the root's number");
  }
};

/// Two against one on a single number: descriptors are filled again while others copy them.
void counting(model::scenario& run) {
  auto w = std::make_shared<world>();
  const auto at_root = [w] { return w->root; };
  run.thread([=] {
    w->add_one(at_root, 1);
    w->add_one(at_root, 1);
  });
  run.thread([=] { w->add_one(at_root, 1); });
  run.finally([=] { w->expect(10, 20, 33); });
}

/// A record is replaced while its child is.
void replacing_against_counting(model::scenario& run) {
  auto w = std::make_shared<world>();
  run.thread([=] { w->replace_middle(); });
  run.thread([=] { w->add_one([w] { return w->middle(); }, 0); });
  run.finally([=] { w->expect(11, 20, 30); });
}

/// Both replace the same record, and one changes its parent besides.
void replacing_twice(model::scenario& run) {
  auto w = std::make_shared<world>();
  run.thread([=] { w->replace_middle(); });
  run.thread([=] {
    w->replace_middle();
    w->add_one([w] { return w->root; }, 1);
  });
  run.finally([=] { w->expect(10, 20, 31); });
}

/// Three threads: one is stopped in the middle, two finish its work at once.
void three(model::scenario& run) {
  auto w = std::make_shared<world>();
  run.thread([=] { w->replace_middle(); });
  run.thread([=] { w->add_one([w] { return w->middle(); }, 0); });
  run.thread([=] { w->add_one([w] { return w->root; }, 1); });
  run.finally([=] { w->expect(11, 20, 31); });
}

using scenario_of = void (*)(model::scenario&);

model::outcome look(scenario_of scenario, int preemptions, const char* fault = "") {
  model::options how;
  how.preemptions = preemptions;
  how.fault = fault;
  return model::explore(how, scenario);
}

model::outcome at_random(scenario_of scenario, const char* fault = "") {
  model::options how;
  how.how = model::options::mode::random;
  how.executions = 100'000;
  how.fault = fault;
  return model::explore(how, scenario);
}

TEST(ScxModel, counts_exactly) {
  const auto found = look(counting, 1);
  EXPECT_TRUE(found.ok) << found.why << "\n" << found.trace;
  EXPECT_TRUE(found.exhausted);
}

TEST(ScxModel, counts_exactly_at_random) {
  const auto found = at_random(counting);
  EXPECT_TRUE(found.ok) << found.why << "\n" << found.trace;
}

TEST(ScxModel, loses_no_update_of_a_record_that_is_replaced) {
  const auto found = look(replacing_against_counting, 3);
  EXPECT_TRUE(found.ok) << found.why << "\n" << found.trace;
  EXPECT_TRUE(found.exhausted);
}

TEST(ScxModel, replaces_a_record_twice) {
  const auto found = look(replacing_twice, 1);
  EXPECT_TRUE(found.ok) << found.why << "\n" << found.trace;
  EXPECT_TRUE(found.exhausted);
}

TEST(ScxModel, replaces_a_record_twice_at_random) {
  const auto found = at_random(replacing_twice);
  EXPECT_TRUE(found.ok) << found.why << "\n" << found.trace;
}

TEST(ScxModel, three_threads_at_random) {
  const auto found = at_random(three);
  EXPECT_TRUE(found.ok) << found.why << "\n" << found.trace;
}

TEST(ScxModel, finds_helpers_that_do_not_look_again) {
  // The helper is stopped twice at the right places; weak memory is not needed.
  model::options how;
  how.preemptions = 3;
  how.weak_memory = false;
  how.fault = "scx.no_revalidate";
  EXPECT_FALSE(model::explore(how, counting).ok);
  how.fault = "";
  EXPECT_TRUE(model::explore(how, counting).exhausted);
}

TEST(ScxModel, finds_descriptors_filled_without_order) {
  EXPECT_FALSE(at_random(counting, "scx.fill_relaxed").ok);
}

TEST(ScxModel, finds_removed_records_without_a_mark) {
  EXPECT_FALSE(look(replacing_against_counting, 3, "scx.no_mark").ok);
}

TEST(ScxModel, finds_operations_that_go_on_over_a_changed_record) {
  EXPECT_FALSE(look(replacing_against_counting, 3, "scx.ignore_frozen").ok);
}

}  // namespace
