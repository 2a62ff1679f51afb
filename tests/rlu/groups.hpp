// SPDX-License-Identifier: Apache-2.0
/// \file
/// Groups of counters that every update keeps equal, in a domain of read-log-update: a section that
/// sees two that differ has seen two instants.
#pragma once

#include <gtest/gtest.h>

#include <spolia/rlu/pointers.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

#include "support/stress.hpp"

namespace spolia::test {

struct number {
  long value = 0;
};

template <class Domain>
struct groups {
  static constexpr std::size_t count = 8;
  static constexpr std::size_t size = 4;

  /// `how` is what the domain is made with.
  template <class... How>
  explicit groups(const How&... how) : d(how...) {
    for (auto& group : all) {
      for (auto& one : group) one = d.template make<number>({0});
    }
  }
  ~groups() {
    for (auto& group : all) {
      for (auto& one : group) d.discard(one);
    }
  }

  void add_one(std::size_t g) {
    d.update([&](auto& in) { return add_one(in, g); });
    added.fetch_add(1, std::memory_order_relaxed);
  }
  rlu::outcome try_to_add_one(std::size_t g) {
    return d.attempt([&](auto& in) { add_one(in, g); });
  }
  /// In a section. False: a lock could not be had.
  template <class In>
  bool add_one(In& in, std::size_t g) {
    for (const auto p : all[g]) {
      auto mine = in.try_lock(p);
      if (!mine) return false;
      mine->value += 1;
    }
    return true;
  }
  /// The group's common value; -1 if it has none.
  long look(std::size_t g) {
    return d.read([&](auto& in) {
      const long first = in.read(all[g][0])->value;
      for (const auto p : all[g]) {
        if (in.read(p)->value != first) return -1L;
      }
      return first;
    });
  }
  long sum() {
    long total = 0;
    for (std::size_t g = 0; g < count; ++g) total += look(g);
    return total;
  }

  Domain d;
  std::array<std::array<rlu::ptr<number>, size>, count> all;
  std::atomic<long> added{0};
};

/// Threads that add beside threads that look. Calls prepare(thread) on each first.
template <class Domain, class Prepare>
void nothing_is_torn_or_lost(groups<Domain>& w, Prepare prepare) {
  std::atomic<long> seen[groups<Domain>::count] = {};
  run_stress({.threads = 4, .share = 0.6}, [&](stress_thread& self) {
    prepare(self.index());
    while (self.running()) {
      const auto g = self.random().below(w.count);
      if (self.index() % 2 == 0) {
        const long before = w.look(g);
        w.add_one(g);
        EXPECT_GT(w.look(g), before) << "an own commit is not seen";
      } else {
        // What any of these saw before we began, we see.
        const long least = seen[g].load(std::memory_order_acquire);
        const long now = w.look(g);
        ASSERT_GE(now, 0) << "torn";
        EXPECT_GE(now, least) << "backwards";
        long known = least;
        while (known < now && !seen[g].compare_exchange_weak(known, now)) {
        }
      }
    }
  });
  EXPECT_EQ(w.sum(), w.added.load());
}

/// The same with threads that live for a moment.
template <class Domain>
void threads_come_and_go(groups<Domain>& w) {
  churn_threads({.threads = 4, .share = 0.6}, [&](stress_thread& self) {
    for (int i = 0; i < 20; ++i) {
      w.add_one(self.random().below(w.count));
      EXPECT_GE(w.look(self.random().below(w.count)), 0);
    }
  });
  EXPECT_EQ(w.sum(), w.added.load());
}

}  // namespace spolia::test
