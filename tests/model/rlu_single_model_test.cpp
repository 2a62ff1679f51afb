// SPDX-License-Identifier: Apache-2.0
// Read-log-update with one copy, the benchmark's rival, under the model checker: alone and
// deferring.

#include <gtest/gtest.h>

#include <memory>

#include "bench/rlu_single.hpp"
#include "model/domain_scenarios.hpp"
#include "model/watched_number.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

struct world {
  explicit world(std::uint32_t together) : d(together) {}
  /// In `finally`.
  void clear(int of_x, int of_y) {
    model::check(d.alone(x).value.read() == of_x, "an update was lost, or made twice");
    model::check(d.alone(y).value.read() == of_y, "an update was lost, or made twice");
    d.discard(x);
    d.discard(y);
  }
  template <class In>
  static bool add(In& in, rlu::ptr<number> p) {
    auto a = in.try_lock(p);
    if (a) a->value.write(a->value.read() + 1);
    return static_cast<bool>(a);
  }
  void add_to(rlu::ptr<number> p) {
    d.update([&](auto& in) { return add(in, p); });
  }
  void add_to_both(rlu::ptr<number> first, rlu::ptr<number> second) {
    d.update([&](auto& in) { return add(in, first) && add(in, second); });
  }
  void both_are_equal() {
    d.read([&](auto& in) {
      const int first = in.read(x)->value.read();
      model::check(in.read(y)->value.read() == first, "a section saw two instants: torn");
      model::check(in.read(x)->value.read() == first, "a section saw two instants");
      return true;
    });
  }

  bench::rlu_single d;
  rlu::ptr<number> x = d.make<number>(number(0));
  rlu::ptr<number> y = d.make<number>(number(0));
};

/// A commit is seen whole or not at all; with two together, both of them.
void a_reader_meets_commits(model::scenario& run, std::uint32_t together) {
  auto w = std::make_shared<world>(together);
  const int commits = static_cast<int>(together);
  run.thread([=] { w->both_are_equal(); });
  run.thread([=] {
    for (int i = 0; i < commits; ++i) w->add_to_both(w->x, w->y);
  });
  run.finally([=] { w->clear(commits, commits); });
}
void a_reader_meets_a_commit(model::scenario& run) { a_reader_meets_commits(run, 1); }
void a_reader_meets_two_together(model::scenario& run) { a_reader_meets_commits(run, 2); }

/// While one commits another does, with a time that lies between.
void two_commit_beside_a_reader(model::scenario& run) {
  auto w = std::make_shared<world>(1);
  const auto z = w->d.make<number>(number(0));
  run.thread([=] { w->both_are_equal(); });
  run.thread([=] { w->add_to_both(w->x, w->y); });
  run.thread([=] { w->add_to(z); });
  run.finally([=] {
    w->d.discard(z);
    w->clear(1, 1);
  });
}

/// One thread keeps what it has done, twice to the same object, until the other one asks.
void one_asks_for_what_is_deferred(model::scenario& run) {
  auto w = std::make_shared<world>(3);
  run.thread([=] {
    w->add_to(w->x);
    w->add_to(w->x);
  });
  run.thread([=] { w->add_to(w->x); });
  run.finally([=] { w->clear(3, 0); });
}

/// The one does nothing but read from then on.
void one_goes_on_reading(model::scenario& run) {
  struct with_flag : world {
    with_flag() : world(3) {}
    atomic<bool> done{false};
  };
  auto w = std::make_shared<with_flag>();
  run.thread([=] {
    w->add_to(w->x);
    while (!w->done.load_relaxed()) {
      w->d.read([](auto&) { return true; });
      spin_wait();
    }
  });
  run.thread([=] {
    w->add_to(w->x);
    w->done.store_relaxed(true);
  });
  run.finally([=] { w->clear(2, 0); });
}

/// A section goes on from what its thread has deferred, and is abandoned for another object.
void a_section_is_abandoned_over_a_deferred_copy(model::scenario& run) {
  auto w = std::make_shared<world>(3);
  run.thread([=] {
    w->add_to(w->x);
    w->add_to_both(w->x, w->y);
  });
  run.thread([=] { w->add_to(w->y); });
  run.finally([=] { w->clear(2, 2); });
}

TEST(rlu_single_model, sets_are_seen_whole) {
  expect_clean(a_reader_meets_a_commit, at_most(2));
  expect_clean(a_reader_meets_two_together, at_most(1));
}
TEST(rlu_single_model, a_commit_waits_for_older_sections) {
  expect_found(a_reader_meets_a_commit, "rlu_single.waits_for_nobody", at_most(1), "data race");
}
TEST(rlu_single_model, a_section_is_announced_before_it_begins) {
  expect_found(a_reader_meets_a_commit, "rlu_single.enters_unfenced", at_most(2), "data race");
}
TEST(rlu_single_model, a_time_is_not_drawn_before_it_shows) {
  expect_found(a_reader_meets_a_commit, "rlu_single.shows_late", at_most(2),
               "a section saw two instants: torn");
}
TEST(rlu_single_model, a_copy_is_of_what_was_written_back) {
  expect_found(one_asks_for_what_is_deferred, "rlu_single.copies_relaxed", at_most(1), "race");
}
TEST(rlu_single_model, older_sections_have_ended_when_a_later_one_is_seen) {
  for (const char* const fault : {"rlu_single.enters_relaxed", "rlu_single.looks_relaxed"}) {
    expect_found(a_section_is_abandoned_over_a_deferred_copy, fault, at_most(1), "race");
  }
}
TEST(rlu_single_model, two_commits_do_not_mix) {
  expect_clean(two_commit_beside_a_reader, at_most_in_order(1));
}
TEST(rlu_single_model, what_is_deferred_is_given_up) {
  expect_clean(one_asks_for_what_is_deferred, at_most(1));
  expect_found(one_asks_for_what_is_deferred, "rlu_single.writes_back_all", at_most(2),
               "data race");
  expect_clean(one_goes_on_reading, at_most(1));
  expect_found(one_goes_on_reading, "rlu_single.asks_nobody", at_most(1),
               "more than max_steps operations");
}
TEST(rlu_single_model, what_is_deferred_outlives_a_section_that_is_abandoned) {
  expect_clean(a_section_is_abandoned_over_a_deferred_copy, at_most(1));
  expect_found(a_section_is_abandoned_over_a_deferred_copy, "rlu_single.writes_in_place",
               at_most(1), "made twice");
}

}  // namespace
