// SPDX-License-Identifier: Apache-2.0
// The range tracker while each of a thread's allocations fails in turn, once or from then on until
// the thread has ended: what was ended is held or has expired, once; nothing expires that a
// snapshot sees; and afterwards all that no snapshot needs goes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include <spolia/base/threads.hpp>
#include <spolia/version/range_tracker.hpp>
#include <spolia/version/snapshot.hpp>
#include <spolia/version/timeline.hpp>

#include "support/elsewhere.hpp"
#include "support/faults.hpp"
#include "support/ledger.hpp"
#include "support/parked_thread.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// A version that stands for itself: there is no list.
struct range : spolia::tracked {
  range(ledger& book, std::size_t n) : body(book, n) {}
  spolia::test::tracked body;
};

/// Some objects that change in turn, each change a tick of the clock; and what became of the
/// versions that it ended. One thread at a time.
class world {
  struct fate {
    std::uint64_t since;
    std::uint64_t until;
    bool alive;
  };

  static std::size_t number_of(const spolia::tracked* t) {
    return static_cast<const range*>(t)->body.read();
  }
  bool is_seen(const fate& f) const {
    return std::ranges::any_of(held_, [&](const snapshot& s) {
      return f.since <= s.timestamp() && s.timestamp() < f.until;
    });
  }
  template <class F>
  std::uint64_t count(F&& f) const {
    return static_cast<std::uint64_t>(std::ranges::count_if(ended_, f));
  }
  std::uint64_t alive() const {
    return count([](const fate& f) { return f.alive; });
  }
  void expire(spolia::tracked* t) {
    fate& f = ended_[number_of(t)];
    EXPECT_TRUE(f.alive);
    f.alive = false;
    delete static_cast<range*>(t);
  }
  auto look() {
    return [this](scan_times& found) { time_.scan(found); };
  }
  auto expirer() {
    return [this](spolia::tracked* t) {
      EXPECT_FALSE(is_seen(ended_[number_of(t)])) << "a snapshot sees it";
      expire(t);
      return true;
    };
  }

 public:
  explicit world(ledger& book) : book_(book) {
    since_.fill(time_.now());
    ended_.reserve(1000);
    held_.reserve(100);
  }
  ~world() {
    tracker_.abandon([this](spolia::tracked* t) { expire(t); });
    EXPECT_EQ(alive(), 0U);
  }

  /// Twice if memory was missing; false if it was missing again.
  template <class F>
  bool tried_twice(F&& f) {
    return try_twice(f, [this] { expect_accounted(); });
  }

  void change() {
    auto old = std::make_unique<range>(book_, ended_.size());
    auto& me = tracker_.mine();
    const std::uint64_t until = time_.stamp();
    std::uint64_t& since = since_[ended_.size() % since_.size()];
    old->since.store_relaxed(since);
    ended_.push_back({since, until, true});
    since = until;
    tracker_.deprecate(me, old.release(), until);
    tracker_.work(me, look(), expirer());
  }
  void hold() { held_.emplace_back(time_, "held"); }
  void let_go(std::size_t n) {
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(n));
  }
  /// Changes, and snapshots that come and go. Memory may be missing.
  void live(unsigned changes) {
    for (unsigned i = 0; i < changes; ++i) {
      tried_twice([&] { change(); });
      if (i % 5 == 1) tried_twice([&] { hold(); });
      if (i % 15 == 14 && !held_.empty()) let_go(1);
      expect_accounted();
    }
  }
  void collect() {
    std::uint64_t kept = 0;
    auto& me = tracker_.mine();
    tracker_.collect(me, look(), expirer(), [&](const spolia::tracked* t) {
      EXPECT_TRUE(ended_[number_of(t)].alive);
      ++kept;
    });
    EXPECT_EQ(kept, tracker_.held());
    expect_accounted();
  }

  void expect_accounted() const { EXPECT_EQ(tracker_.held(), alive()); }
  /// Memory is there: it works, and holds what is needed and nothing else.
  void expect_works() {
    on_another_thread([this] {
      expect_accounted();
      live(20);
      collect();
      EXPECT_EQ(alive(), count([this](const fate& f) { return is_seen(f); }));
      let_go(held_.size());
      live(1);
      collect();
      EXPECT_EQ(alive(), 0U);
      EXPECT_EQ(book_.live(), 0);
    });
  }

 private:
  ledger& book_;
  basic_timeline<logical_clock, stamping::on_update> time_;
  range_tracker tracker_{{.batch = 4, .least_batch = 1, .steps = 6}};
  std::array<std::uint64_t, 3> since_{};
  std::vector<fate> ended_;
  std::vector<snapshot> held_;
};

class range_tracker_errors : public testing::TestWithParam<failing> {
 protected:
  ~range_tracker_errors() override { book.expect_empty(); }

  /// In a world of its own for each allocation of f: before(world), then f(world) on a new thread,
  /// where that allocation fails. Nothing is freed of the thread's plan until it has ended, so it
  /// ends without memory, too, if that is missing from then on. Returns how many failed.
  template <class Before, class F>
  std::uint64_t failures_of(Before&& before, F&& f) {
    for (std::uint64_t n = 1;; ++n) {
      world w(book);
      before(w);
      std::optional<fail_after> fault;
      bool fired = false;
      on_another_thread([&] {
        fault.emplace(n, GetParam());
        f(w);
        fired = fault->fired();
      });
      w.expect_works();
      if (!fired || testing::Test::HasFailure()) return n - 1;
    }
  }

  ledger book;
};
INSTANTIATE_TEST_SUITE_P(memory, range_tracker_errors,
                         testing::Values(failing::once, failing::from_then_on),
                         [](const auto& how) {
                           return how.param == failing::once ? "missing_once"
                                                             : "missing_from_then_on";
                         });

constexpr auto nothing = [](world&) {};

/// Lists that are put in, merged with others, and split again.
TEST_P(range_tracker_errors, updates) {
  EXPECT_GE(failures_of(nothing, [](world& w) { w.live(100); }), 100U);
}

/// With its local list filled so far or so, some lists under examination, and a rest.
TEST_P(range_tracker_errors, threads_that_end) {
  for (unsigned changes = 1; changes <= 24; ++changes) {
    EXPECT_GE(failures_of(nothing, [&](world& w) { w.live(changes); }), changes);
  }
}

/// The lists of threads that have ended.
TEST_P(range_tracker_errors, first_looks_at_what_others_have_left) {
  const auto others = [](world& w) {
    for (unsigned changes = 1; changes < 12; ++changes) {
      on_another_thread([&] { w.live(changes); });
    }
  };
  EXPECT_GE(failures_of(others, [](world& w) { w.live(30); }), 30U);
}

/// By a thread that is new to the tracker, over lists of ended threads.
TEST_P(range_tracker_errors, collections) {
  std::optional<parked_thread> has_their_number;
  const auto others = [&](world& w) {
    has_their_number.reset();
    on_another_thread([&] { w.live(50); });
    on_another_thread([&] { w.live(7); });
    has_their_number.emplace([](parking_spot& spot) {
      static_cast<void>(threads::number());
      spot.park();
    });
  };
  const auto collect = [](world& w) {
    w.tried_twice([&] { w.collect(); });
    w.expect_accounted();
  };
  EXPECT_GE(failures_of(others, collect), 3U);
}

/// Over the lists of a thread that is between two calls, which goes on afterwards.
TEST_P(range_tracker_errors, collections_from_idle_threads) {
  for (std::uint64_t n = 1; n <= 8; ++n) {
    world w(book);
    parked_thread idle([&](parking_spot& spot) {
      w.live(30);
      spot.park();
      w.live(30);
    });
    on_another_thread([&] {
      const fail_after fault(n, GetParam());
      w.tried_twice([&] { w.collect(); });
    });
    idle.release();
    w.expect_works();
  }
}

}  // namespace
