// SPDX-License-Identifier: Apache-2.0
// Versioned objects, their collectors and snapshots under the model checker.

#include <gtest/gtest.h>

#include <memory>
#include <type_traits>
#include <utility>

#include <spolia/reclaim/debra.hpp>
#include <spolia/snapshot.hpp>

#include "model/domain_scenarios.hpp"
#include "model/whole_value.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

using short_domain = domain<debra, batch>;

template <class Collector>
struct world {
  using object = versioned<whole_value, Collector>;

  world()
      : nodes({.scheme = {.scan_every = 1, .min_looks = 1}}),
        versions(nodes, time, options()),
        x(versions, 0) {}

  static typename Collector::options options() {
    typename Collector::options o;
    if constexpr (requires { o.batch; }) {
      o.batch = 1;
    } else {
      o.scan_period = {};
    }
    return o;
  }

  void store(int n) {
    auto here = versions.enter();
    x.store(here, whole_value(n));
  }
  int load() {
    auto here = versions.enter();
    return x.load(here).look();
  }
  const whole_value& at(const snapshot& s) {
    auto here = versions.enter();
    const whole_value* const found = x.at(here, s);
    model::check(found != nullptr, "there is a value that a later snapshot does not see");
    return *found;
  }
  void run_on(int operations) {
    for (int n = 0; n < operations; ++n) auto guard = nodes.enter();
  }
  /// In `finally`: what hears of threads that end must outlive that.
  void clear() {
    versions.close();
    x.clear(versions);
  }

  short_domain nodes;
  typename Collector::timeline_type time;
  Collector versions;
  object x;
};

using dl = world<dl_rt<short_domain>>;
using bb = world<bbf<short_domain>>;
using sl = world<sl_rt<short_domain>>;
using ebr = world<epoch_collector<short_domain>>;
using st = world<steam<short_domain>>;
using on_update = basic_timeline<logical_clock, stamping::on_update>;
using dl_on_update = world<dl_rt<short_domain, on_update>>;

/// What was read before a snapshot began is in it, and what it sees does not change.
template <class World>
void a_snapshot_meets_a_change(model::scenario& run) {
  auto w = std::make_shared<World>();
  run.thread([=] {
    const int before = w->load();
    const snapshot s(w->time);
    const int first = w->at(s).look();
    model::check(first >= before, "a value was read that a later snapshot does not see");
    model::check(w->at(s).look() == first, "a snapshot saw two instants");
  });
  run.thread([=] { w->store(1); });
  run.finally([=] { w->clear(); });
}

/// What a snapshot has found stays, without a guard, while versions come and go.
template <class World>
void what_is_found_stays(model::scenario& run) {
  auto w = std::make_shared<World>();
  run.thread([=] {
    const snapshot s(w->time);
    const whole_value& found = w->at(s);
    const int first = found.look();
    w->run_on(1);
    model::check(found.look() == first, "what was found stays");
  });
  run.thread([=] {
    w->store(1);
    snapshot(w->time).withdraw();
    w->store(2);
    w->versions.collect();
    w->run_on(12);
  });
  run.finally([=] { w->clear(); });
}

/// Two threads change the same object; what is obsolete is collected by both.
template <class World>
void two_change_one_object(model::scenario& run) {
  auto w = std::make_shared<World>();
  for (int i = 0; i < 2; ++i) {
    run.thread([=] {
      w->store(i * 2 + 1);
      w->store(i * 2 + 2);
    });
  }
  run.finally([=] {
    w->store(5);  // some look at nothing but what is changed
    w->versions.collect();
    model::check(w->versions.stats().held() == 0, "what is obsolete goes");
    w->clear();
  });
}

template <class World>
class versioned_model : public testing::Test {};
using worlds = testing::Types<bb, dl, sl, ebr, st, dl_on_update>;
TYPED_TEST_SUITE(versioned_model, worlds);

/// Shared scans make long executions.
template <class World>
model::options two_preemptions() {
  return std::is_same_v<World, sl> || std::is_same_v<World, st> ? at_most_in_order(2) : at_most(2);
}

TYPED_TEST(versioned_model, snapshots_are_instants) {
  expect_clean(a_snapshot_meets_a_change<TypeParam>, two_preemptions<TypeParam>());
}
TYPED_TEST(versioned_model, what_is_found_stays) {
  const int preemptions = std::is_same_v<TypeParam, dl> ? 2 : 1;  // for long executions
  expect_clean(what_is_found_stays<TypeParam>, at_most_in_order(preemptions));
}
TYPED_TEST(versioned_model, versions_end_once) {
  expect_clean(two_change_one_object<TypeParam>, at_most_in_order(2));
}
TYPED_TEST(versioned_model, readers_must_give_stamps) {
  expect_found(a_snapshot_meets_a_change<TypeParam>, "versioned.no_help",
               two_preemptions<TypeParam>(), "snapshot");
}

TEST(versioned_model_faults, snapshots_must_pass_the_clock) {
  expect_found(a_snapshot_meets_a_change<dl>, "timeline.no_pass", at_most(2),
               "a snapshot saw two instants");
}
TEST(versioned_model_faults, announcements_must_be_validated) {
  expect_found(what_is_found_stays<ebr>, "census.no_validation", at_most_in_order(1), "");
  expect_found(what_is_found_stays<dl>, "census.no_validation", at_most_in_order(1), "");
  expect_found(what_is_found_stays<sl>, "census.no_validation", at_most_in_order(1), "");
}
TEST(versioned_model_faults, versions_must_be_unlinked) {
  expect_found(what_is_found_stays<dl>, "dl_rt.not_unlinked", at_most_in_order(1), "");
}

}  // namespace
