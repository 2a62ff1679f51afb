// SPDX-License-Identifier: Apache-2.0
// Read-log-update under the model checker, where a thread has a domain to itself and changes
// objects in place, until others come.

#include <gtest/gtest.h>

#include <memory>

#include <spolia/rlu.hpp>

#include "model/domain_scenarios.hpp"
#include "model/rlu_world.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

struct lone_world : world {
  lone_world() : world(1000000, 1024, true) {}
  /// A pass, after which this thread is alone if no section is alive.
  void look_round() { d.collect(); }
};

/// Sections begin before a thread is alone, and while it is.
void others_come(model::scenario& run) {
  auto w = std::make_shared<lone_world>();
  run.thread([=] {
    for (int i = 0; i < 2; ++i) w->both_are_equal();
  });
  run.thread([=] {
    w->add_to_both();
    w->look_round();
    w->add_to_both();
  });
  run.finally([=] { w->clear(); });
}

/// One that has nothing to do with what was committed before.
void another_comes(model::scenario& run) {
  auto w = std::make_shared<lone_world>();
  run.thread([=] {
    w->d.read([&](auto& in) {
      const int first = w->look(in, w->x);
      model::check(w->look(in, w->x) == first, "a section saw two instants");
    });
  });
  run.thread([=] {
    w->look_round();
    w->add_to(w->x);
  });
  run.finally([=] { w->clear(); });
}

/// Orders of single loads and stores: too many to try them all.
model::options some() { return in_random_orders(30000); }

/// Both want to be alone, and count.
void two_are_alone(model::scenario& run) {
  struct counted : lone_world {
    plain<int> added[2];
  };
  auto w = std::make_shared<counted>();
  for (int i = 0; i < 2; ++i) {
    run.thread([=] {
      w->look_round();
      w->added[i].write(w->add_to(w->x));
    });
  }
  run.finally([=] {
    w->d.read([&](auto& in) {
      model::check(w->look(in, w->x) == w->added[0].read() + w->added[1].read(),
                   "an update was lost");
    });
    w->clear();
  });
}

/// An object is freed in place, while another thread looks for it and through the logs.
template <class Other>
void an_object_ends(model::scenario& run, int rounds, Other other) {
  struct place {
    rlu::ptr<number> to;
  };
  struct with_place : lone_world {
    rlu::ptr<place> root = d.make<place>({x});
  };
  auto w = std::make_shared<with_place>();
  run.thread([=] { other(*w); });
  run.thread([=] {
    if (rounds > 1) w->add_to(w->x);  // so that there is a copy to be written back
    for (int i = 0; i < rounds; ++i) w->look_round();
    w->d.attempt([&](auto& in) {
      auto root = in.try_lock(w->root);
      if (root && in.free(root->to)) root->to = nullptr;
    });
  });
  run.finally([=] {
    w->d.discard(w->d.alone(w->root).to);
    w->d.discard(w->root);
    w->d.discard(w->y);
    w->d.discard(w->z);
  });
}
void an_object_ends_beside_readers(model::scenario& run) {
  an_object_ends(run, 1, [](auto& w) {
    for (int i = 0; i < 2; ++i) {
      w.d.read([&](auto& in) {
        if (const auto found = in.read(in.read(w.root)->to)) (void)found->value.read();
      });
    }
  });
}
void an_object_ends_beside_a_collector(model::scenario& run) {
  an_object_ends(run, 2, [](auto& w) { w.d.collect(); });
}

TEST(rlu_alone_model, others_see_whole_sets) {
  expect_clean(others_come, at_most_in_order(2));
  expect_clean(another_comes, at_most(1));
}
TEST(rlu_alone_model, sections_ask_before_they_read) {
  expect_found(others_come, "rlu.begins_unasked", at_most_in_order(2), "data race");
}
TEST(rlu_alone_model, who_was_called_before_asks_as_well) {
  expect_found(others_come, "rlu.comes_and_does_not_ask", at_most_in_order(2), "data race");
}
TEST(rlu_alone_model, who_asks_waits) {
  expect_found(others_come, "rlu.asks_and_goes_on", at_most_in_order(2), "data race");
}
TEST(rlu_alone_model, what_sections_see_stays) {
  expect_found(others_come, "rlu.alone_beside_sections", at_most_in_order(2), "data race");
}
TEST(rlu_alone_model, a_commit_looks_behind_a_fence) {
  expect_found(another_comes, "rlu.overwrites_unfenced", some(), "data race");
}
TEST(rlu_alone_model, a_grant_looks_behind_a_fence) {
  expect_found(another_comes, "census.no_heavy", some(), "data race");
}
TEST(rlu_alone_model, one_at_a_time_is_alone) {
  expect_clean(two_are_alone, at_most_in_order(1));
  expect_found(two_are_alone, "rlu.takes_over_early", at_most_in_order(2), "data race");
}
TEST(rlu_alone_model, objects_end_when_no_section_can_see_them) {
  expect_clean(an_object_ends_beside_readers, at_most_in_order(1));
  expect_clean(an_object_ends_beside_a_collector, at_most_in_order(1));
  expect_found(an_object_ends_beside_readers, "rlu.begins_unasked", at_most_in_order(2), "block");
}

}  // namespace
