// SPDX-License-Identifier: Apache-2.0
// The promises of docs/durability.md about what commits wait for, over a disk that takes its time.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <thread>

#include "db/durable.hpp"
#include "db/slow_disk.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

/// Commits on a thread of its own until end().
class writer {
 public:
  writer(database& base, table& ledger)
      : thread_([&] {
          for (std::int64_t n = 1; !stop_.load(); ++n) {
            EXPECT_TRUE(write_down(base, ledger, n));
            done_.store(n);
          }
        }) {}
  ~writer() { end(); }
  std::int64_t end() {
    stop_.store(true);
    if (thread_.joinable()) thread_.join();
    return done_.load();
  }
  std::int64_t done() const { return done_.load(); }
  /// How many there are when no more come. -1: they come and come.
  std::int64_t when_stalled() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    std::int64_t before = -1;
    while (before != done()) {
      if (std::chrono::steady_clock::now() > deadline) return -1;
      before = done();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return before;
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<std::int64_t> done_{0};
  std::thread thread_;
};

/// How many commits were acknowledged while the disk stood still.
std::int64_t acknowledged_within(std::chrono::milliseconds window) {
  slow_disk slow;
  options o = over(slow.files);
  o.durability = durability_level::async;
  o.loss_window = window;
  std::int64_t acknowledged = 0;
  std::int64_t last = 0;
  {
    database base = database::open(place, o);
    table& ledger = make_ledger(base);
    slow.stop();
    writer work(base, ledger);
    acknowledged = work.when_stalled();
    EXPECT_GE(acknowledged, 0) << "no commit waits";
    if (acknowledged > 0) {
      EXPECT_LT(base.stats().log.durable, base.stats().log.sequence);
    }
    slow.go_on();
    while (work.done() < acknowledged + 10) std::this_thread::yield();
    last = work.end();
  }
  EXPECT_EQ(reopened(slow.files), last);
  return acknowledged;
}

/// Within the window no commit waits, and after it all do. On a busy machine one commit may take
/// longer than a short window, and then waits.
TEST(slow_disk_promises, commits_wait_while_the_disk_takes_longer_than_the_loss_window) {
  std::int64_t acknowledged = 0;
  for (int ms = 20; ms < 10'000 && acknowledged == 0; ms *= 4) {
    acknowledged = acknowledged_within(std::chrono::milliseconds(ms));
  }
  EXPECT_GT(acknowledged, 0);
}

TEST(slow_disk_promises, what_waits_for_the_disk_is_bounded) {
  slow_disk slow;
  options o = over(slow.files);
  o.durability = durability_level::async;
  o.loss_window = std::chrono::hours(1);
  database base = database::open(place, o);
  table& t = base.create_table(
      {.name = "big", .columns = {{"k", int64, primary_key}, {"text", text(60000)}}});
  const std::string much(60000, 'x');
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {0, much}); }));
  slow.stop();
  // What the log's thread has taken may be as much as what waits after it: 32 MiB of 60 kB each.
  constexpr int most = 2 * 560;
  std::atomic<int> done{0};
  std::atomic<bool> stop{false};
  std::thread work([&] {
    while (!stop.load() && done.load() <= most) {
      EXPECT_TRUE(
          base.transact([&](transaction& tx) { return tx.update(t, {0}, {{"text", much}}); }));
      ++done;
    }
  });
  slow.meet();
  int accepted = -1;
  while (accepted < 500 || accepted != done.load()) {
    accepted = done.load();
    if (accepted > most) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_LE(accepted, most);
  stop.store(true);
  slow.go_on();
  work.join();
}

TEST(slow_disk_promises, what_is_seen_may_be_lost_until_sync_returns) {
  slow_disk slow;
  std::mt19937_64 random(1);
  database base = database::open(place, over(slow.files));
  table& ledger = make_ledger(base);
  slow.stop();
  std::thread first([&] { EXPECT_TRUE(write_down(base, ledger, 1)); });
  slow.meet();
  EXPECT_EQ(commits_in(base), 1) << "it is visible, and not acknowledged";
  EXPECT_LT(base.stats().log.durable, base.stats().log.sequence);
  std::atomic<bool> synced{false};
  std::thread reader([&] {
    EXPECT_TRUE(base.sync());
    synced.store(true);
  });
  std::thread second([&] { EXPECT_TRUE(write_down(base, ledger, 2)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(synced.load());
  EXPECT_LT(reopened(slow.files->copy()), 3);
  slow.go_on();
  first.join();
  reader.join();
  second.join();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(reopened(slow.files->after_power_loss(random)), 2);
}

/// What the calling thread has used and done.
struct own_use {
  std::chrono::nanoseconds worked{};
  long waits = 0;  // it gave the processor away
  static own_use now() {
    ::rusage u{};
    EXPECT_EQ(::getrusage(RUSAGE_THREAD, &u), 0);
    ::timespec t{};
    EXPECT_EQ(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return {std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec), u.ru_nvcsw};
  }
};

/// Whether it is so in one of some tries. The system may take the processor away from a thread that
/// waits for nothing; or for as long as a wait would be, and then there is none.
template <class F>
bool sometimes(F&& so) {
  for (int tries = 0; tries < 20; ++tries) {
    if (so()) return true;
  }
  return false;
}

TEST(slow_disk, a_checkpoint_gives_way_to_commits_and_to_nothing_else) {
  const disk files = new_disk();
  options o = over(files);
  o.durability = durability_level::none;
  o.checkpoint_share = 5;
  database base = database::open(place, o);
  table& t = base.create_table({.name = "t", .columns = {{"k", int64, primary_key}, {"v", int64}}});
  constexpr long blocks = 8;
  constexpr std::int64_t rows = (blocks << 18) / 24;
  for (std::int64_t k = 0; k < rows;) {
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      for (const std::int64_t end = std::min(k + 1000, rows); k < end; ++k) {
        if (const status s = tx.insert(t, {k, k}); !s) return s;
      }
      return outcome::ok;
    }));
  }
  bool commits = false;
  files->before_write = [&] {
    if (!commits) return;
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.update(t, {1}, {{"v", 2}}); }));
  };
  own_use used;
  const auto take = [&](checkpoint_pace how) {
    const own_use before = own_use::now();
    const checkpoint_report r = base.checkpoint(how);
    const own_use after = own_use::now();
    used = {after.worked - before.worked, after.waits - before.waits};
    EXPECT_EQ(r.rows, static_cast<std::uint64_t>(rows));
    return r.took;
  };
  const auto hurries = [&](checkpoint_pace how) {
    take(how);
    return used.waits < blocks / 2;
  };
  EXPECT_TRUE(sometimes([&] { return hurries(checkpoint_pace::shared); }))
      << "no transaction commits";
  commits = true;
  EXPECT_TRUE(sometimes([&] {
    EXPECT_GT(take(checkpoint_pace::shared), 5 * used.worked) << "a twentieth is its share";
    return used.waits >= blocks / 2;
  }));
  EXPECT_TRUE(sometimes([&] { return hurries(checkpoint_pace::full); }));
}

/// It holds versions: to give way for longer would be no help to commits that need room.
TEST(slow_disk, a_checkpoint_hurries_when_versions_take_half_of_their_budget) {
  options o = over(new_disk());
  o.durability = durability_level::none;
  o.checkpoint_share = 1;
  o.version_budget = 1U << 20U;
  database base = database::open(place, o);
  table& t = base.create_table({.name = "t", .columns = {{"k", int64, primary_key}, {"v", int64}}});
  const auto change = [&](std::int64_t k) {
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.update(t, {k}, {{"v", 2}}); }));
  };
  constexpr std::int64_t rows = 30000;
  ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
    for (std::int64_t k = 0; k < rows; ++k) {
      if (const status s = tx.insert(t, {k, k}); !s) return s;
    }
    return outcome::ok;
  }));
  const reader old = base.snapshot();
  std::int64_t next = 0;
  while (base.stats().versions.bytes <= o.version_budget / 2) change(next++);
  EXPECT_TRUE(sometimes([&] {
    std::uint64_t blocks = 0;
    const own_use before = own_use::now();
    base.backup([&](std::span<const std::byte>) {
      change(next++ % rows);
      ++blocks;
    });
    EXPECT_GT(blocks, 3U);
    return own_use::now().waits - before.waits < 2;
  }));
}

// What a transaction is told that only reads, while what it reads is not on the disk yet.

/// A commit of a thread of its own: is it over?
class ending {
 public:
  explicit ending(transaction& tx)
      : thread_([this, &tx] {
          said_ = tx.commit();
          over_.store(true);
        }) {}
  ~ending() {
    if (thread_.joinable()) thread_.join();
  }
  /// After a time that is long beside what a commit takes, or before.
  bool over_soon(std::chrono::milliseconds longest) const {
    const auto end = std::chrono::steady_clock::now() + longest;
    while (!over_.load() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return over_.load();
  }
  status said() {
    thread_.join();
    return said_;
  }

 private:
  std::atomic<bool> over_{false};
  status said_;
  std::thread thread_;
};

/// A database on a slow disk, with one commit, which is durable.
struct begun {
  explicit begun(durability_level level, bool durable_reads = false)
      : base(database::open(place, how(slow, level, durable_reads))), ledger(make_ledger(base)) {
    EXPECT_TRUE(write_down(base, ledger, 1));
    EXPECT_TRUE(base.sync());
  }
  static options how(const slow_disk& slow, durability_level level, bool durable_reads) {
    options o = over(slow.files);
    o.durability = level;
    o.loss_window = std::chrono::hours(1);
    o.durable_reads = durable_reads;
    return o;
  }

  slow_disk slow;
  database base;
  table& ledger;
};

class durable_reads : public testing::TestWithParam<durability_level> {
 protected:
  /// Commits the n-th on a thread of its own, until others see it.
  static std::thread begin_commit(database& base, table& ledger, std::int64_t n) {
    std::thread work([&base, &ledger, n] { EXPECT_TRUE(write_down(base, ledger, n)); });
    while (!base.snapshot().find(ledger, {n})) std::this_thread::yield();
    return work;
  }
};
INSTANTIATE_TEST_SUITE_P(each, durable_reads,
                         testing::Values(durability_level::sync, durability_level::async),
                         [](const auto& i) {
                           return std::string(i.param == durability_level::sync ? "sync" : "async");
                         });

TEST_P(durable_reads, without_the_option_a_crash_takes_back_what_was_read) {
  begun b(GetParam());
  auto& [slow, base, ledger] = b;
  slow.stop();
  std::thread work = begin_commit(base, ledger, 2);
  {
    transaction tx = base.begin();
    ASSERT_TRUE(tx.find(ledger, {2}));
    EXPECT_TRUE(tx.commit()) << "it waits for nothing";
  }
  EXPECT_EQ(reopened(slow.files->synced()), 1) << "and may be wrong";
  slow.go_on();
  work.join();
}

TEST_P(durable_reads, with_the_option_a_commit_waits_for_what_was_seen) {
  for (const bool of_database : {false, true}) {
    begun b(GetParam(), of_database);
    auto& [slow, base, ledger] = b;
    slow.stop();
    std::thread work = begin_commit(base, ledger, 2);
    transaction tx = base.begin({.durable_reads = !of_database});
    ASSERT_TRUE(tx.find(ledger, {2}));
    ending end(tx);
    EXPECT_FALSE(end.over_soon(std::chrono::milliseconds(100)));
    slow.go_on();
    EXPECT_TRUE(end.said());
    EXPECT_EQ(reopened(slow.files->synced()), 2);
    work.join();
  }
}

TEST_P(durable_reads, changes_that_come_to_nothing_wait_as_well) {
  begun b(GetParam());
  auto& [slow, base, ledger] = b;
  slow.stop();
  std::thread work = begin_commit(base, ledger, 2);
  transaction tx = base.begin({.durable_reads = true});
  ASSERT_TRUE(tx.insert(ledger, {1000, 1, nullptr, true, nullptr}));
  ASSERT_TRUE(tx.erase(ledger, {1000}));
  ending end(tx);
  EXPECT_FALSE(end.over_soon(std::chrono::milliseconds(100)));
  slow.go_on();
  EXPECT_TRUE(end.said());
  EXPECT_EQ(reopened(slow.files->synced()), 2);
  work.join();
}

/// Not for what came after its snapshot, which may never come to an end.
TEST_P(durable_reads, nothing_later_is_waited_for) {
  begun b(GetParam());
  auto& [slow, base, ledger] = b;
  transaction tx = base.begin({.durable_reads = true});
  slow.stop();
  std::thread work = begin_commit(base, ledger, 2);
  ASSERT_TRUE(tx.find(ledger, {1}));
  ending end(tx);
  EXPECT_TRUE(end.over_soon(std::chrono::seconds(60)));
  EXPECT_EQ(reopened(slow.files->synced()), 1);
  slow.go_on();
  EXPECT_TRUE(end.said());
  work.join();
}

/// One that waited for its first lock has a later snapshot, and sees more.
TEST_P(durable_reads, a_snapshot_after_a_wait_counts) {
  begun b(GetParam());
  auto& [slow, base, ledger] = b;
  transaction tx = base.begin({.longest_wait = std::chrono::seconds(60), .durable_reads = true});
  slow.stop();
  std::thread work = begin_commit(base, ledger, 2);
  const auto counter = tx.lock(ledger, {0});
  ASSERT_TRUE(counter);
  ASSERT_EQ(counter->get(ledger.column<std::int64_t>("n")), 2) << "it began late";
  ending end(tx);
  EXPECT_FALSE(end.over_soon(std::chrono::milliseconds(100)));
  slow.go_on();
  EXPECT_TRUE(end.said());
  EXPECT_EQ(reopened(slow.files->synced()), 2);
  work.join();
}

TEST_P(durable_reads, a_log_that_fails_says_so) {
  begun b(GetParam());
  auto& [slow, base, ledger] = b;
  transaction before = base.begin({.durable_reads = true});
  slow.stop();
  std::thread work([&] { static_cast<void>(write_down(base, ledger, 2)); });
  while (!base.snapshot().find(ledger, {2})) std::this_thread::yield();
  transaction after = base.begin({.durable_reads = true});
  transaction without = base.begin();
  ASSERT_TRUE(after.find(ledger, {2}));
  slow.files->sync_fails_at = slow.files->syncs + 1;
  slow.go_on();
  work.join();
  EXPECT_EQ(after.commit(), outcome::storage_failed);
  EXPECT_TRUE(before.commit()) << "what it has seen is durable";
  EXPECT_TRUE(without.commit());
}

}  // namespace
