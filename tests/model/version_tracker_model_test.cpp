// SPDX-License-Identifier: Apache-2.0
// The range tracker, snapshots and their clones under the model checker.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include <spolia/base/memory.hpp>
#include <spolia/model/engine.hpp>
#include <spolia/version/range_tracker.hpp>
#include <spolia/version/snapshot.hpp>
#include <spolia/version/timeline.hpp>

#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

struct range : tracked {
  plain<bool> whole{true};

  static range* make(std::uint64_t since) {
    auto* const r = new (memory::allocate(sizeof(range), alignof(range))) range();
    r->since.store_relaxed(since);
    return r;
  }
  static void end(tracked* t) {
    auto* const r = static_cast<range*>(t);
    r->whole.write(false);
    r->~range();
    memory::deallocate(r, sizeof(range), alignof(range));
  }
};

template <class Timeline>
struct world {
  auto look() {
    return [this](scan_times& found) { time.scan(found); };
  }
  static bool expire(tracked* t) {
    range::end(t);
    return true;
  }
  void end(range* r, std::uint64_t until) {
    auto& me = tracker.mine();
    tracker.deprecate(me, r, until);
    tracker.work(me, look(), &expire);
  }
  void go_on() { tracker.work(tracker.mine(), look(), &expire); }
  void collect() { tracker.collect(tracker.mine(), look(), &expire); }
  void clear() { tracker.abandon(&range::end); }

  Timeline time;
  range_tracker tracker{{.batch = 1, .least_batch = 1, .steps = 6}};
};

using logical = world<timeline>;
using hardware = world<basic_timeline<hardware_clock>>;

/// Lists of what a snapshot needs go round between two threads, which end; the last lists are found
/// all the same, and each version ends once.
void two_threads_share_a_queue(model::scenario& run) {
  struct shared : logical {
    std::optional<snapshot> held;
  };
  auto w = std::make_shared<shared>();
  w->held.emplace(w->time);
  for (int i = 0; i < 2; ++i) {
    run.thread([=] {
      w->end(range::make(1), 2);
      w->end(range::make(1), 2);
    });
  }
  run.finally([=] {
    model::check(w->tracker.held() == 4, "what a snapshot sees stays");
    w->held.reset();
    w->collect();
    model::check(w->tracker.held() == 0, "what is obsolete goes");
    w->clear();
  });
}

/// Threads that end before they have a batch leave their lists to each other, and to threads that
/// collect at the same time.
void threads_end_with_short_lists(model::scenario& run) {
  struct shared : logical {
    shared() : tracker_of_three{{.batch = 3, .least_batch = 1, .steps = 6}} {}
    void end_one() {
      auto& me = tracker_of_three.mine();
      tracker_of_three.deprecate(me, range::make(1), 1);
      tracker_of_three.work(me, look(), &expire);
    }
    range_tracker tracker_of_three;
  };
  auto w = std::make_shared<shared>();
  for (int i = 0; i < 2; ++i) {
    run.thread([=] {
      w->end_one();
      w->end_one();
    });
  }
  run.thread([=] {
    auto& mine = w->tracker_of_three.mine();
    w->tracker_of_three.collect(mine, w->look(), &w->expire);
  });
  run.finally([=] {
    for (int i = 0; i < 2; ++i) w->end_one();
    // Less than a batch lies aside, and less than one is this thread's own.
    model::check(w->tracker_of_three.held() <= 4, "what ended threads have left is looked at");
    w->tracker_of_three.collect(w->tracker_of_three.mine(), w->look(), &w->expire);
    model::check(w->tracker_of_three.held() == 0, "each version ends once, and none is lost");
    w->tracker_of_three.abandon(&range::end);
    w->clear();
  });
}

/// A thread's lists are taken while it works.
void one_collects_from_the_other(model::scenario& run) {
  auto w = std::make_shared<logical>();
  run.thread([=] {
    w->end(range::make(1), 1);
    w->end(range::make(1), 1);
  });
  run.thread([=] { w->collect(); });
  run.finally([=] {
    w->collect();
    model::check(w->tracker.held() == 0, "what is obsolete goes");
    w->clear();
  });
}

/// A snapshot that may have begun at time 1 looks at the version that ends at time 2.
template <class World>
void a_snapshot_against_the_end_of_a_version(model::scenario& run) {
  auto w = std::make_shared<World>();
  range* const first = range::make(1);
  run.thread([=] {
    const snapshot s(w->time);
    if (s.timestamp() == 1) model::check(first->whole.read(), "what a snapshot sees stays");
  });
  run.thread([=] {
    snapshot(w->time).withdraw();  // time goes on
    w->end(first, w->time.now());
    w->collect();
  });
  run.finally([=] { w->clear(); });
}

/// A version that a snapshot sees comes into the queue between another thread's look and its taking
/// the queue: the look knows neither.
template <class World>
void an_end_after_the_look(model::scenario& run) {
  auto w = std::make_shared<World>();
  range* const first = range::make(1);
  run.thread([=] { w->collect(); });
  run.thread([=] {
    const snapshot s(w->time);
    w->end(first, w->time.now());
    w->go_on();
    model::check(first->whole.read(), "what a snapshot sees stays");
  });
  run.finally([=] { w->clear(); });
}

/// Two clones on two threads, of which one ends the version when both are gone.
void clones_end_on_different_threads(model::scenario& run) {
  struct shared : logical {
    std::optional<snapshot> one;
    std::optional<snapshot> two;
  };
  auto w = std::make_shared<shared>();
  range* const first = range::make(1);
  w->one.emplace(w->time);
  w->two.emplace(w->one->clone());
  run.thread([=] {
    model::check(first->whole.read(), "what a snapshot sees stays");
    w->one.reset();
  });
  run.thread([=] {
    w->two.reset();
    w->end(first, w->time.now());
    w->collect();
  });
  run.finally([=] { w->clear(); });
}

TEST(version_tracker_model, lists_go_round) {
  expect_clean(two_threads_share_a_queue, at_most(2));
  expect_clean(one_collects_from_the_other, at_most(2));
  expect_clean(threads_end_with_short_lists, at_most(1));
}
TEST(version_tracker_model, looks_of_ended_threads_are_made_by_others) {
  expect_found(threads_end_with_short_lists, "tracker.uncounted_end", at_most(1), "looked at");
  expect_found(threads_end_with_short_lists, "tracker.no_look_for_others", at_most(1), "looked at");
}
TEST(version_tracker_model, the_queue_hands_lists_on) {
  expect_found(two_threads_share_a_queue, "short_lock.relaxed", at_most(2), "data race");
}
TEST(version_tracker_model, what_a_snapshot_sees_stays) {
  expect_clean(a_snapshot_against_the_end_of_a_version<logical>, at_most(2));
  expect_clean(a_snapshot_against_the_end_of_a_version<hardware>, at_most(2));
}
TEST(version_tracker_model, ends_that_the_scan_does_not_know_are_kept) {
  expect_clean(an_end_after_the_look<logical>, at_most(2));
  expect_clean(an_end_after_the_look<hardware>, at_most(2));
  expect_found(an_end_after_the_look<logical>, "tracker.ignores_known", at_most(2), "data race");
}
TEST(version_tracker_model, the_announcement_must_be_validated) {
  expect_found(a_snapshot_against_the_end_of_a_version<logical>, "census.no_validation", at_most(2),
               "use after free");
}
TEST(version_tracker_model, clones_share_one_end) {
  expect_clean(clones_end_on_different_threads, at_most(2));
  expect_found(clones_end_on_different_threads, "snapshot.relaxed_end", at_most(2), "races");
}

}  // namespace
