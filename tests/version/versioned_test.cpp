// SPDX-License-Identifier: Apache-2.0
// Versioned objects over every collector.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/ledger.hpp"
#include "support/stress.hpp"
#include "version/all_collectors.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using counted = test::tracked;  // not the hook of versions

template <class Collector>
class versioned_object : public testing::Test {
 protected:
  void SetUp() override {
    if (!usable<Collector>()) GTEST_SKIP() << hardware_clock::reason();
  }
};
TYPED_TEST_SUITE(versioned_object, all_collectors, collector_names);

/// For collectors that look at nothing but what is changed.
template <class Objects>
void change_once_more(Objects& w, ledger& book) {
  if (decltype(w.versions)::info.reaches_idle_lists) return;
  for (auto& x : w.objects) {
    auto here = w.enter();
    x->store(here, counted(book, 0U));
  }
}

TYPED_TEST(versioned_object, changes_if_it_is_what_was_expected) {
  versioned_objects<int, TypeParam> w;
  auto& x = w.make(1);
  auto here = w.enter();
  EXPECT_TRUE(x.compare_exchange(here, 1, 2));
  EXPECT_FALSE(x.compare_exchange(here, 1, 3));
  EXPECT_TRUE(x.compare_exchange(here, 2, 2));
  EXPECT_EQ(x.load(here), 2);
  x.store(here, 5);
  EXPECT_EQ(x.load(here), 5);
}

TYPED_TEST(versioned_object, snapshots_see_their_instant) {
  versioned_objects<int, TypeParam> w;
  auto& x = w.make(0);
  auto& y = w.make(0);
  std::vector<snapshot> instants;
  for (int i = 1; i <= 50; ++i) {
    instants.emplace_back(w.time);
    auto here = w.enter();
    for (int k = 0; k < 3; ++k) x.store(here, i * 10 + k);  // several with one stamp
    y.store(here, i);
  }
  w.versions.collect();
  for (std::size_t i = 0; i < instants.size(); ++i) {
    auto here = w.enter();
    EXPECT_EQ(*x.at(here, instants[i]), i == 0 ? 0 : static_cast<int>(i) * 10 + 2);
    EXPECT_EQ(*y.at(here, instants[i]), static_cast<int>(i));
  }
}

TYPED_TEST(versioned_object, is_not_there_before_it_was_made) {
  versioned_objects<int, TypeParam> w;
  const snapshot before(w.time);
  auto& x = w.make(1);
  const snapshot after(w.time);
  auto here = w.enter();
  x.store(here, 2);
  EXPECT_EQ(x.at(here, before), nullptr);
  EXPECT_EQ(*x.at(here, after), 1);
}

TYPED_TEST(versioned_object, what_a_snapshot_finds_stays_without_a_session) {
  versioned_objects<std::string, TypeParam> w;
  auto& x = w.make("a long string that does not fit into the object itself");
  const snapshot then(w.time);
  const std::string* found = nullptr;
  {
    auto here = w.enter();
    found = x.at(here, then);
  }
  for (int i = 0; i < 200; ++i) {
    auto here = w.enter();
    x.store(here, std::to_string(i));
  }
  w.versions.collect();
  w.nodes.drain();
  EXPECT_EQ(found->substr(0, 6), "a long");
}

/// Between two snapshots, everything that neither sees goes; EBR keeps it, by its nature.
TYPED_TEST(versioned_object, a_held_snapshot_costs_what_it_sees) {
  versioned_objects<int, TypeParam> w;
  for (int i = 0; i < 10; ++i) w.make(0);
  const snapshot held(w.time);
  std::uint64_t most = 0;
  constexpr int updates = 5000;
  for (int i = 0; i < updates; ++i) {
    if (i % 3 == 0) snapshot(w.time).withdraw();
    auto here = w.enter();
    w.objects[static_cast<std::size_t>(i) % 10]->store(here, i);
    most = std::max(most, w.versions.stats().held());
  }
  if (TypeParam::info.collects_between) {
    EXPECT_LE(most, 3U * 10 + 6 * 8 + 1);
    w.versions.collect();
    EXPECT_EQ(w.versions.stats().held(), 10U);
  } else {
    EXPECT_GE(most, static_cast<unsigned>(updates));
  }
  auto here = w.enter();
  for (auto& x : w.objects) EXPECT_EQ(*x->at(here, held), 0);
}

TYPED_TEST(versioned_object, nothing_is_left_when_all_snapshots_are_gone) {
  ledger book;
  {
    versioned_objects<counted, TypeParam> w;
    auto& x = w.make(book, 1U);
    {
      const snapshot then(w.time);
      for (unsigned i = 0; i < 300; ++i) {
        if (i % 5 == 0) snapshot(w.time).withdraw();
        auto here = w.enter();
        x.store(here, counted(book, i));
      }
    }
    change_once_more(w, book);
    w.versions.collect();
    EXPECT_EQ(w.versions.stats().held(), 0U);
    EXPECT_TRUE(w.nodes.drain());
    EXPECT_EQ(book.live(), 1);
  }
  book.expect_empty();
}

/// Objects end with versions in every state: tracked, unlinked, retired, needed.
TYPED_TEST(versioned_object, ends_in_the_midst_of_things) {
  ledger book;
  for (int updates = 0; updates < 60; ++updates) {
    versioned_objects<counted, TypeParam> w;
    auto& x = w.make(book, 1U);
    const snapshot then(w.time);
    for (int i = 0; i < updates; ++i) {
      if (i % 4 == 0) snapshot(w.time).withdraw();
      auto here = w.enter();
      x.store(here, counted(book, 2U));
    }
  }
  book.expect_empty();
}

TYPED_TEST(versioned_object, sessions_nest) {
  versioned_objects<int, TypeParam> w;
  auto& x = w.make(0);
  auto outer = w.enter();
  const int& seen = x.load(outer);
  for (int i = 1; i <= 100; ++i) {
    auto inner = w.enter();
    x.store(inner, i);
  }
  EXPECT_EQ(seen, 0);
  EXPECT_EQ(x.load(outer), 100);
}

/// A thread that has done its work ends while everything is taken down.
TYPED_TEST(versioned_object, goes_while_threads_end) {
  for (int i = 0; i < 50; ++i) {
    std::atomic<bool> done{false};
    std::thread worker;
    {
      versioned_objects<int, TypeParam> w;
      auto& x = w.make(0);
      worker = std::thread([&] {
        for (int n = 0; n < 5; ++n) {
          auto here = w.enter();
          x.store(here, n);
        }
        done.store(true, std::memory_order_release);
      });
      while (!done.load(std::memory_order_acquire)) std::this_thread::yield();
    }
    worker.join();
  }
}

/// One writer sets x0, x1, ... to 1, then all to 2, and so on. A snapshot sees a round and the
/// beginning of the next. Other writers make noise, snapshots are handed about, threads end.
TYPED_TEST(versioned_object, snapshots_are_whole_under_contention) {
  ledger book;
  {
    constexpr std::size_t objects = 6;
    versioned_objects<counted, TypeParam> w;
    for (std::size_t i = 0; i < objects; ++i) w.make(book, 0U);
    auto& noise = w.make(book, 0U);

    const auto look = [&](stress_thread& self) {
      snapshot mine(w.time);
      if (self.random().chance(1, 4)) mine = mine.clone();
      std::vector<std::uint64_t> seen;
      std::vector<const counted*> found;
      for (std::size_t i = 0; i < objects; ++i) {
        auto here = w.enter();
        found.push_back(w.objects[i]->at(here, mine));
        seen.push_back(found.back()->read());
      }
      self.jitter();
      for (std::size_t i = 0; i < objects; ++i) {
        ASSERT_EQ(found[i]->read(), seen[i]);
        ASSERT_TRUE(seen[i] == seen[0] || seen[i] + 1 == seen[0]);
        if (i != 0) {
          ASSERT_LE(seen[i], seen[i - 1]);
        }
      }
    };
    const auto write = [&](stress_thread& self) {
      for (std::uint64_t round = 1; self.running(); ++round) {
        for (std::size_t i = 0; i < objects; ++i) {
          auto here = w.enter();
          w.objects[i]->store(here, counted(book, round));
        }
      }
    };
    run_stress({.threads = 4}, [&](stress_thread& self) {
      if (self.index() == 0) return write(self);
      while (self.running()) {
        look(self);
        auto here = w.enter();
        noise.store(here, counted(book, self.random()()));
      }
    });
    change_once_more(w, book);
    w.versions.collect();
    EXPECT_EQ(w.versions.stats().held(), 0U);
    w.nodes.drain();
    EXPECT_EQ(book.live(), static_cast<std::int64_t>(objects) + 1);
  }
  book.expect_empty();
}

/// Increments by compare-and-swap: none is lost.
TYPED_TEST(versioned_object, counts) {
  versioned_objects<std::uint64_t, TypeParam> w;
  auto& x = w.make(0U);
  std::atomic<std::uint64_t> done{0};
  run_stress({.threads = 3, .share = 0.5}, [&](stress_thread& self) {
    while (self.running()) {
      auto here = w.enter();
      const std::uint64_t now = x.load(here);
      if (x.compare_exchange(here, now, now + 1)) ++done;
    }
  });
  auto here = w.enter();
  EXPECT_EQ(x.load(here), done);
}

}  // namespace
