// SPDX-License-Identifier: Apache-2.0
// All parts where the monotonic clock is set, ahead and back, as by a library that is loaded to
// choose the time: nothing goes before its time that is in use, and nothing waits for as long as
// the clock was set back by.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <spolia/db.hpp>
#include <spolia/map/snapshot_hash.hpp>
#include <spolia/memory.hpp>
#include <spolia/reclaim.hpp>
#include <spolia/rlu.hpp>
#include <spolia/snapshot.hpp>

#include "db/durable.hpp"
#include "db/own_clock.hpp"
#include "support/elsewhere.hpp"
#include "support/parked_thread.hpp"
#include "support/restless.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using namespace std::chrono_literals;

constexpr std::int64_t day = 86400;

void set_clock(std::int64_t seconds_ahead) {
  monotonic_ahead.store(seconds_ahead, std::memory_order_relaxed);
}
void set_to_and_fro(std::size_t i) {
  constexpr std::int64_t where[] = {day, 0, 2 * day, 1};
  set_clock(where[i % std::size(where)]);
}

class set_clock_of_intervals : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_own_clock) GTEST_SKIP() << "the sanitizer's own clock";
    const auto before = std::chrono::steady_clock::now();
    set_clock(day);
    ASSERT_GT(std::chrono::steady_clock::now() - before, 23h) << "the clock is not ours";
  }
  ~set_clock_of_intervals() override { set_clock(0); }

  /// In a child, which its alarm ends if it hangs.
  template <class Body>
  static void ends_in_time(Body body) {
    EXPECT_EQ(status_of_child(body, 60), 0);
  }
};

std::atomic<int> alive{0};

template <class Base>
struct counted_block : Base {
  counted_block() { ++alive; }
  ~counted_block() { --alive; }
};
struct nothing {};
using object = counted_block<nothing>;
using block = counted_block<domain<>::header>;

struct watched : domain<>::header {
  explicit watched(std::atomic<bool>& told) : gone(told) {}
  ~watched() { gone = true; }
  std::atomic<bool>& gone;
};

domain<>::options hasty() {
  domain<>::options o;
  o.free_within_ms = 20;
  return o;
}

void retire_one(domain<>& d) {
  auto* const fresh = d.make<block>();
  auto g = d.enter();
  g.retire(fresh);
}

TEST_F(set_clock_of_intervals, frees_nothing_that_is_read) {
  ends_in_time([] {
    domain<> d(hasty());
    atomic_shared_ptr<object> counted(make_shared<object>());
    snapshot_hash<int, std::string, steam<>> m;
    m.insert(1, "old");
    const snapshot then;
    const shared_ptr<object> held = counted.load();
    std::atomic<bool> gone{false};
    atomic<watched*> shown(d.make<watched>(gone));
    parked_thread reader([&](parking_spot& here) {
      auto g = d.enter();
      const auto p = g.protect(shown);
      here.park();
      EXPECT_FALSE(p->gone);
    });
    {
      auto g = d.enter();
      // release → protect(), acquire: the block is whole.
      g.retire(shown.exchange_acq_rel(nullptr));
    }
    const restless all_the_time(set_to_and_fro);
    const auto in_use = weak_ptr<object>(held);
    for (int i = 0; i < 20000; ++i) {
      retire_one(d);
      counted.store(make_shared<object>());
      m.insert_or_assign(1, "new");
      const std::string* const seen = m.find(then, 1);
      ASSERT_TRUE(seen != nullptr && *seen == "old") << i;
      ASSERT_FALSE(gone || in_use.expired());
    }
    reader.release();
  });
}

/// Whether what waits is gone within ten seconds, by operations that come now and then.
template <class Operation>
bool gone_soon(Operation&& operation, int left) {
  for (int tries = 0; tries < 5000 && alive > left; ++tries) {
    operation();
    std::this_thread::sleep_for(2ms);
  }
  return alive <= left;
}

TEST_F(set_clock_of_intervals, back_holds_up_no_block) {
  ends_in_time([] {
    domain<> d(hasty());
    // One before, so the clock is set back under a time that was chosen, and one after.
    retire_one(d);
    set_clock(0);
    retire_one(d);
    EXPECT_TRUE(gone_soon([&] { static_cast<void>(d.enter()); }, 0));
  });
}

TEST_F(set_clock_of_intervals, back_holds_up_no_counted_object) {
  ends_in_time([] {
    atomic_shared_ptr<object> at(make_shared<object>());
    for (int i = 0; i < 10; ++i) at.store(make_shared<object>());
    set_clock(0);
    for (int i = 0; i < 10; ++i) at.store(make_shared<object>());
    EXPECT_TRUE(gone_soon([&] { static_cast<void>(at.load()); }, 1));
  });
}

TEST_F(set_clock_of_intervals, back_holds_up_no_version) {
  ends_in_time([] {
    constexpr int keys = 1000;
    snapshot_hash<int, int, steam<>> m;
    for (int i = 0; i < keys; ++i) m.insert(i, i);
    set_clock(0);
    for (int round = 0; round < 100; ++round) {
      const snapshot now;  // so that there is something to find out
      for (int i = 0; i < keys; ++i) m.insert_or_assign(i, round);
      std::this_thread::sleep_for(2ms);
    }
    for (int i = 0; i < keys; ++i) m.insert_or_assign(i, -1);
    EXPECT_LT(m.stats().held(), 10 * keys);
  });
}

/// A checkpoint that leaves others their share sleeps by what it has had of a processor.
TEST_F(set_clock_of_intervals, holds_up_no_checkpoint) {
  ends_in_time([] {
    db::options o = over(new_disk());
    o.checkpoint_share = 50;
    db::database base = db::database::open(place, o);
    db::table& ledger = make_ledger(base);
    std::atomic<bool> stop{false};
    std::thread writer([&] {
      for (std::int64_t n = 1; !stop.load(); ++n) EXPECT_TRUE(write_down(base, ledger, n));
    });
    const restless all_the_time(set_to_and_fro);
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(50ms);
      base.checkpoint(db::checkpoint_pace::shared);
    }
    stop = true;
    writer.join();
  });
}

TEST_F(set_clock_of_intervals, lets_no_transaction_wait_forever_for_a_row) {
  ends_in_time([] {
    db::database base = db::database::open();
    db::table& ledger = make_ledger(base);
    ASSERT_TRUE(write_down(base, ledger, 1));
    const auto gives_up = [&](auto change) {
      db::transaction older = base.begin({.longest_wait = 50ms});
      db::transaction holder = base.begin();
      ASSERT_TRUE(holder.update(ledger, {1}, {{"n", 2}}));
      change();
      EXPECT_FALSE(older.update(ledger, {1}, {{"n", 3}}));
    };
    gives_up([] { set_clock(0); });
    const restless all_the_time(set_to_and_fro);
    for (int i = 0; i < 5; ++i) gives_up([] {});
  });
}

}  // namespace
