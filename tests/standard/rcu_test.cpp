// SPDX-License-Identifier: Apache-2.0
// RCU, clause by clause of [saferecl.rcu], on the default domain and on domains of one's own.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <spolia/rcu.hpp>

#include "support/ledger.hpp"
#include "support/parked_thread.hpp"
#include "support/soon.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia::test;
using namespace std::chrono_literals;
using spolia::rcu_domain;

struct item : spolia::rcu_obj_base<item> {
  explicit item(ledger& book, std::uint64_t v = 0) : value(book, v) {}
  tracked value;
};

/// Each test runs on the default domain and on one of its own.
class rcu_test : public testing::TestWithParam<bool> {
 protected:
  rcu_domain& domain() { return GetParam() ? own_ : spolia::rcu_default_domain(); }
  void retire(item* i) {
    i->value.note_retired();
    i->retire({}, domain());
  }
  ~rcu_test() override {
    spolia::rcu_barrier(domain());
    book_.expect_empty();
  }

  ledger book_;

 private:
  rcu_domain own_;
};
INSTANTIATE_TEST_SUITE_P(domains, rcu_test, testing::Bool(),
                         [](const auto& p) { return p.param ? "own" : "process"; });

TEST_P(rcu_test, a_region_keeps_what_was_retired_after_its_beginning) {
  std::atomic<item*> source(new item(book_, 4));
  parked_thread reader([&](parking_spot& spot) {
    const std::scoped_lock region(domain());
    const item* const seen = source.load();
    spot.park();
    EXPECT_EQ(seen->value.read(), 4U);
  });
  retire(source.exchange(nullptr));
  for (int i = 0; i < 1000; ++i) retire(new item(book_));
  EXPECT_GT(book_.limbo(), 0);
  EXPECT_FALSE(spolia::rcu_synchronize_for(10ms, domain()));
  reader.release();
  EXPECT_TRUE(spolia::rcu_synchronize_for(10s, domain()));
}

TEST_P(rcu_test, regions_nest) {
  rcu_domain& d = domain();
  std::atomic<item*> source(new item(book_, 4));
  parked_thread reader([&](parking_spot& spot) {
    d.lock();
    EXPECT_TRUE(d.try_lock());
    d.lock();
    const item* const seen = source.load();
    d.unlock();
    d.unlock();
    spot.park();
    EXPECT_EQ(seen->value.read(), 4U);
    d.unlock();
  });
  retire(source.exchange(nullptr));
  EXPECT_FALSE(spolia::rcu_synchronize_for(10ms, d));
}

TEST_P(rcu_test, synchronize_waits_for_open_regions_and_no_others) {
  std::atomic<bool> over{false};
  parked_thread reader([&](parking_spot& spot) {
    {
      const std::scoped_lock region(domain());
      spot.park();
      std::this_thread::sleep_for(20ms);
      over = true;
    }
  });
  std::thread waiter([&] {
    spolia::rcu_synchronize(domain());
    EXPECT_TRUE(over.load());
  });
  reader.release();
  waiter.join();
  spolia::rcu_synchronize(domain());
  EXPECT_TRUE(spolia::rcu_synchronize_for(std::chrono::hours::max(), domain()));
  EXPECT_TRUE(spolia::rcu_synchronize_for(-1s, domain())) << "there is no reader to wait for";
}

TEST_P(rcu_test, a_time_that_no_clock_can_count_is_over_at_once_or_never) {
  const auto closed = [&](auto most) { return spolia::rcu_synchronize_for(most, domain()); };
  constexpr double no_number = std::numeric_limits<double>::quiet_NaN();
  parked_thread reader([&](parking_spot& spot) {
    const std::scoped_lock region(domain());
    spot.park();
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(closed(-std::chrono::hours::max()));
  EXPECT_FALSE(closed(std::chrono::hours::min()));
  EXPECT_FALSE(closed(std::chrono::nanoseconds::min()));
  EXPECT_FALSE(closed(std::chrono::duration<double>(-1e300)));
  EXPECT_FALSE(closed(std::chrono::duration<double>(no_number)));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 60s);
  std::thread waiter([&] {
    EXPECT_TRUE(closed(std::chrono::hours::max()));
    EXPECT_TRUE(closed(std::chrono::nanoseconds::max()));
    EXPECT_TRUE(closed(std::chrono::duration<double>(1e300)));
  });
  std::this_thread::sleep_for(5ms);
  reader.release();
  waiter.join();
}

TEST_P(rcu_test, a_region_that_begins_later_holds_no_other_up) {
  // Each reader closes its region only when the next one has opened its own: there is always one.
  std::atomic<bool> stop{false};
  std::array<std::atomic<std::uint64_t>, 2> opened{};
  std::vector<std::thread> readers;
  for (std::size_t me : {0U, 1U}) {
    readers.emplace_back([&, me] {
      while (!stop) {
        const std::scoped_lock region(domain());
        const auto mine = ++opened[me];
        while (!stop && opened[1 - me] < mine + (me == 0 ? 0 : 1)) std::this_thread::yield();
      }
    });
  }
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(spolia::rcu_synchronize_for(120s, domain()));
  stop = true;
  for (auto& r : readers) r.join();
}

TEST_P(rcu_test, barrier_runs_what_any_thread_has_retired_before) {
  std::vector<std::unique_ptr<parked_thread>> idle;
  for (int t = 0; t < 3; ++t) {
    idle.push_back(std::make_unique<parked_thread>([&](parking_spot& spot) {
      for (int i = 0; i < 30; ++i) retire(new item(book_));
      spot.park();
    }));
  }
  std::thread([&] {
    for (int i = 0; i < 30; ++i) retire(new item(book_));
  }).join();
  for (int i = 0; i < 30; ++i) retire(new item(book_));
  spolia::rcu_barrier(domain());
  EXPECT_EQ(book_.retired(), 150);
  EXPECT_EQ(book_.live(), 0);
  EXPECT_EQ(spolia::rcu_garbage(domain()), 0U);
}

TEST_P(rcu_test, barriers_at_once_each_see_their_own) {
  run_stress({.threads = 4, .share = 0.1}, [&](stress_thread& self) {
    while (self.running()) {
      ledger mine;
      for (int i = 0; i < 20; ++i) retire(new item(mine));
      {
        const std::scoped_lock region(domain());
        self.jitter();
      }
      spolia::rcu_barrier(domain());
      ASSERT_EQ(mine.live(), 0);
    }
  });
}

TEST_P(rcu_test, neither_waiting_function_implies_the_other) {
  retire(new item(book_));
  spolia::rcu_synchronize(domain());  // may leave it waiting; must not run it
  EXPECT_EQ(book_.live(), 1);
  spolia::rcu_barrier(domain());
  EXPECT_EQ(book_.live(), 0);
}

TEST_P(rcu_test, lock_runs_no_deleters) {
  // The deleters need a lock that the reader holds when it opens its region.
  std::mutex held;
  for (int i = 0; i < 300; ++i) {
    auto* const value = new int(i);
    spolia::rcu_retire(
        value,
        [&](int* p) {
          const std::scoped_lock mine(held);
          delete p;
        },
        domain());
    for (int j = 0; j < 10; ++j) {
      domain().lock();
      domain().unlock();
    }
    for (int j = 0; j < 10; ++j) {
      held.lock();
      domain().lock();
      held.unlock();
      domain().unlock();
    }
  }
  spolia::rcu_barrier(domain());
}

TEST_P(rcu_test, lock_runs_no_deleters_when_it_is_time_for_them) {
  bool opening = false;
  int ended = 0;
  const auto end = [&](int* p) {
    EXPECT_FALSE(opening);
    ++ended;
    delete p;
  };
  for (int i = 0; i < 5; ++i) spolia::rcu_retire(new int(i), end, domain());
  EXPECT_TRUE(soon([&] {
    opening = true;
    domain().lock();
    opening = false;
    domain().unlock();
    std::this_thread::sleep_for(10ms);
    return ended == 5;
  }));
}

TEST_P(rcu_test, retire_inside_a_region) {
  {
    const std::scoped_lock region(domain());
    auto* const i = new item(book_, 2);
    retire(i);
    for (int n = 0; n < 500; ++n) retire(new item(book_));
    EXPECT_EQ(i->value.read(), 2U) << "our own region keeps it, too";
  }
}

/// Retires its child when it ends.
struct parent : spolia::rcu_obj_base<parent> {
  parent(ledger& b, rcu_domain& d, int generations)
      : book(b), dom(d), left(generations), value(b) {}
  ~parent() {
    if (left > 0) (new parent(book, dom, left - 1))->retire({}, dom);
    const std::scoped_lock region(dom);
  }
  ledger& book;
  rcu_domain& dom;
  int left;
  tracked value;
};

TEST_P(rcu_test, deleters_may_retire_and_open_regions) {
  for (int i = 0; i < 500; ++i) (new parent(book_, domain(), 4))->retire({}, domain());
  for (int i = 0; i < 5; ++i) spolia::rcu_barrier(domain());
  EXPECT_EQ(book_.live(), 0) << "one generation for each barrier";
  EXPECT_EQ(book_.made(), 500 * 5);
}

TEST_P(rcu_test, any_object_and_any_deleter) {
  int ended = 0;
  auto* const t = new tracked(book_);
  spolia::rcu_retire(
      t,
      [&ended](tracked* p) {
        ++ended;
        delete p;
      },
      domain());
  spolia::rcu_retire(static_cast<tracked*>(nullptr), [&ended](tracked*) { ++ended; }, domain());
  spolia::rcu_barrier(domain());
  EXPECT_EQ(ended, 2);
}

TEST_P(rcu_test, a_pointer_may_say_that_its_object_changes_by_itself) {
  volatile int* const changes = new int(3);
  const int* const stays = new int(4);
  spolia::rcu_retire(changes, {}, domain());
  spolia::rcu_retire(stays, {}, domain());
  spolia::rcu_barrier(domain());
}

TEST_P(rcu_test, a_retired_object_may_be_copied_and_the_copy_retired) {
  auto* const original = new item(book_, 1);
  domain().lock();
  retire(original);
  auto* const copy = new item(*original);
  retire(copy);
  domain().unlock();
}

TEST_P(rcu_test, synchronize_against_readers_and_writers) {
  std::array<std::atomic<item*>, 2> source;
  for (auto& s : source) s = new item(book_, 1);
  run_stress({.threads = 6, .share = 0.1}, [&](stress_thread& self) {
    for (std::uint64_t i = 0; self.running(); ++i) {
      auto& s = source[i % 2];
      if (self.index() == 0) {
        item* const old = s.exchange(new item(book_, i + 1));
        spolia::rcu_synchronize(domain());
        delete old;
      } else if (self.index() == 1) {
        retire(s.exchange(new item(book_, i + 1)));
      } else {
        const std::scoped_lock region(domain());
        EXPECT_GT(s.load(std::memory_order_acquire)->value.read(), 0U);
        self.jitter();
      }
    }
  });
  for (auto& s : source) retire(s.exchange(nullptr));
}

TEST(rcu_own_domain, domains_are_independent) {
  rcu_domain mine;
  const std::scoped_lock region(spolia::rcu_default_domain());
  spolia::rcu_synchronize(mine);
  ledger book;
  (new item(book))->retire({}, mine);
  spolia::rcu_barrier(mine);
  book.expect_empty();
}

TEST(rcu_own_domain, its_end_is_the_end_of_everything_in_it) {
  ledger book;
  {
    rcu_domain mine;
    for (int i = 0; i < 100; ++i) (new parent(book, mine, 3))->retire({}, mine);
  }
  book.expect_empty();
}

}  // namespace
