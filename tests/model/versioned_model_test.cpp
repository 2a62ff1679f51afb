// SPDX-License-Identifier: Apache-2.0
// Versioned objects, their collectors and snapshots under the model checker.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
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
template <class... Collectors>
using worlds_of = testing::Types<world<Collectors>..., dl_on_update>;
using worlds = every_collector<worlds_of, short_domain>;
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
  expect_found(what_is_found_stays<ebr>, "census.no_validation", at_most_in_order(1),
               "use after free");
  expect_found(what_is_found_stays<dl>, "census.no_validation", at_most_in_order(1),
               "there is a value that a later snapshot does not see");
  expect_found(what_is_found_stays<sl>, "census.no_validation", at_most_in_order(1),
               "use after free");
}
/// What has ended before the only snapshot goes and stays linked. A version after that which the
/// snapshot does not see is to be cut off, when another thread lets go of the snapshot and scans:
/// so all that is left of the newest one may have gone.
void a_walk_ends_above_what_has_gone(model::scenario& run) {
  struct with_held : sl {
    std::optional<snapshot> held;
    spolia::atomic<bool> is_held{false};
  };
  auto w = std::make_shared<with_held>();
  run.thread([=] {
    snapshot(w->time).withdraw();
    w->store(1);
    w->versions.collect();
    w->run_on(12);
    model::check(w->versions.stats().held() == 0, "what no snapshot sees goes");
    w->held.emplace(w->time);
    w->store(2);
    snapshot(w->time).withdraw();
    w->store(3);
    w->is_held.store_release(true);  // → the acquire below: the snapshot is there
    w->versions.collect();
  });
  run.thread([=] {
    // acquire ← the release above.
    if (!w->is_held.load_acquire()) return;
    model::check(w->at(*w->held).look() == 1, "what a snapshot sees stays");
    w->held.reset();
    w->versions.collect();
  });
  run.finally([=] {
    w->held.reset();
    w->clear();
  });
}
TEST(versioned_model_faults, walks_must_end_above_what_has_gone) {
  expect_clean(a_walk_ends_above_what_has_gone, at_most_in_order(1));
  expect_found(a_walk_ends_above_what_has_gone, "ssl.walks_on", at_most_in_order(1),
               "use after free");
}
/// A version that no snapshot has seen is retired by the thread that has ended it, while another
/// one goes by it.
void what_is_unseen_goes_at_once(model::scenario& run) {
  auto w = std::make_shared<sl>();
  auto held = std::make_shared<std::optional<snapshot>>();
  run.thread([=] {
    held->emplace(w->time);
    w->store(1);
    w->versions.collect();  // so that the scan in force knows it
    w->store(2);
    w->run_on(12);
    model::check(w->at(**held).look() == 0, "what a snapshot sees stays");
  });
  run.thread([=] {
    const snapshot s(w->time);
    const int first = w->at(s).look();
    w->run_on(1);
    model::check(w->at(s).look() == first, "what a snapshot sees stays");
  });
  run.finally([=] {
    held->reset();
    w->clear();
  });
}
TEST(versioned_model_faults, what_is_unseen_goes_at_once) {
  expect_clean(what_is_unseen_goes_at_once, at_most_in_order(1));
  expect_found(what_is_unseen_goes_at_once, "sl_rt.stays_linked", at_most_in_order(1),
               "use after free");
}
TEST(versioned_model_faults, what_an_older_snapshot_sees_must_be_unlinked) {
  expect_found(what_is_found_stays<sl>, "sl_rt.forgets_times", at_most_in_order(1),
               "use after free");
}
TEST(versioned_model_faults, versions_must_be_unlinked) {
  expect_found(what_is_found_stays<dl>, "dl_rt.not_unlinked", at_most_in_order(1),
               "use after free");
}

/// A number with one change, as versioned.hpp makes it, without a collector.
struct bit {
  struct node : tracked {
    atomic<node*> left{nullptr};
  };
  template <class Timeline>
  explicit bit(Timeline& time) : head(&zero) {
    zero.since.store_relaxed(time.stamp());
    one.left.store_relaxed(&zero);
  }
  template <class Timeline>
  void set(Timeline& time) {
    head.store_seq_cst(&one);
    time.settle(one);
  }
  template <class Timeline>
  bool is_set(Timeline& time) {
    node* const n = head.load_seq_cst();
    time.settle(*n);
    return n == &one;
  }
  template <class Timeline>
  bool was_set(Timeline& time, const snapshot& then) {
    return is_set(time) && one.since.load_relaxed() <= then.timestamp(time);
  }
  node zero, one;
  atomic<node*> head;
};

/// Each bit on a timeline of its own.
template <class First, class Second>
struct two_times {
  First first;
  Second second;
  bit a{first};
  bit b{second};
  [[nodiscard]] snapshot now() { return snapshot({first, second}); }
};

/// What comes later in one timeline is not seen without what came earlier in the other, and what
/// was read before a snapshot is in it.
template <class World>
void two_timelines_in_order(model::scenario& run) {
  auto w = std::make_shared<World>();
  run.thread([=] {
    w->a.set(w->first);
    w->b.set(w->second);
  });
  run.thread([=] {
    const bool read = w->b.is_set(w->second);
    const snapshot s = w->now();
    const bool b = w->b.was_set(w->second, s);
    model::check(b || !read, "a value was read that a later snapshot does not see");
    model::check(w->a.was_set(w->first, s) || !b, "a cause is missing");
    model::check(w->b.was_set(w->second, s) == b, "a snapshot saw two instants");
  });
}

/// Two snapshots, each after a change of one of two timelines: whichever was later saw both.
template <class World>
void two_snapshots_of_two_timelines(model::scenario& run) {
  struct world : World {
    bool saw_b = false;
    bool saw_a = false;
  };
  auto w = std::make_shared<world>();
  run.thread([=] {
    w->a.set(w->first);
    const snapshot s = w->now();
    model::check(w->a.was_set(w->first, s), "a change is missing that was made before");
    w->saw_b = w->b.was_set(w->second, s);
  });
  run.thread([=] {
    w->b.set(w->second);
    const snapshot s = w->now();
    model::check(w->b.was_set(w->second, s), "a change is missing that was made before");
    w->saw_a = w->a.was_set(w->first, s);
  });
  run.finally([=] { model::check(w->saw_a || w->saw_b, "two snapshots, and none was later"); });
}

/// A scan vouches for no time of which it missed the announcement.
template <class World>
void a_meeting_against_scans(model::scenario& run) {
  struct world : World {
    snapshot taken = snapshot::none();
    scan_times found[2];
  };
  auto w = std::make_shared<world>();
  run.thread([=] { w->taken = w->now(); });
  run.thread([=] {
    w->a.set(w->first);
    w->first.scan(w->found[0]);
    w->b.set(w->second);
    w->second.scan(w->found[1]);
  });
  run.finally([=] {
    const std::uint64_t times[] = {w->taken.timestamp(w->first), w->taken.timestamp(w->second)};
    for (int i = 0; i < 2; ++i) {
      const auto& found = w->found[i];
      const bool listed = std::ranges::find(found.times, times[i]) != found.times.end();
      model::check(listed || times[i] >= found.known, "a scan missed a snapshot");
    }
    w->taken.withdraw();
  });
}

using by_hardware = basic_timeline<hardware_clock>;
using plain_ones = two_times<timeline, timeline>;
using one_on_update = two_times<on_update, timeline>;
using beside_hardware = two_times<by_hardware, timeline>;
using before_hardware = two_times<timeline, by_hardware>;
using by_hardware_on_update = basic_timeline<hardware_clock, stamping::on_update>;
using on_hardware = two_times<by_hardware_on_update, by_hardware_on_update>;

template <class World>
class snapshots_of_timelines : public testing::Test {};
using two_of_a_kind = testing::Types<plain_ones, one_on_update, beside_hardware, on_hardware>;
TYPED_TEST_SUITE(snapshots_of_timelines, two_of_a_kind);

TYPED_TEST(snapshots_of_timelines, are_one_instant) {
  expect_clean(two_timelines_in_order<TypeParam>, at_most(2));
  expect_clean(two_snapshots_of_two_timelines<TypeParam>, at_most_in_order(2));
}
TYPED_TEST(snapshots_of_timelines, are_missed_by_no_scan) {
  expect_clean(a_meeting_against_scans<TypeParam>, at_most(2));
}
TEST(snapshots_of_timelines_faults, updates_must_be_asked_for_ticks) {
  expect_found(two_timelines_in_order<plain_ones>, "meeting.not_expected", at_most(2),
               "a cause is missing");
}
TEST(snapshots_of_timelines_faults, a_second_look_must_find_the_clocks_unmoved) {
  expect_found(two_timelines_in_order<plain_ones>, "meeting.one_look", at_most(2),
               "a cause is missing");
  expect_found(two_timelines_in_order<before_hardware>, "meeting.one_look", at_most(2),
               "a cause is missing");
  expect_found(a_meeting_against_scans<plain_ones>, "meeting.one_look", at_most(2),
               "a scan missed a snapshot");
}
TEST(snapshots_of_timelines_faults, clocks_that_are_one_must_be_read_once) {
  expect_found(two_timelines_in_order<on_hardware>, "meeting.own_times", at_most(2),
               "a cause is missing");
}

}  // namespace
