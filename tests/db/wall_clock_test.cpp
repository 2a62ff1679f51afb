// SPDX-License-Identifier: Apache-2.0
// The store where the system's clock is set, back or ahead, while it runs and between two openings:
// it is shown in the status and nowhere else. Nothing waits by it, no age goes by it, and no file
// has it. This program has a clock of its own, which all that asks the C library for the time gets.

#include <gtest/gtest.h>

#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <spolia/db.hpp>
#include <spolia/db/store_status.hpp>

#include "db/durable.hpp"
#include "db/own_place.hpp"
#include "support/elsewhere.hpp"
#include "support/restless.hpp"

#if SPOLIA_TSAN || SPOLIA_ASAN
constexpr bool possible = false;  // the sanitizer has a clock of its own in this one's place
static std::atomic<std::int64_t> ahead{0};
#else
constexpr bool possible = true;
constinit std::atomic<std::int64_t> ahead{0};  // seconds

extern "C" int clock_gettime(clockid_t which, struct timespec* now) noexcept {
  const auto failed = static_cast<int>(syscall(SYS_clock_gettime, which, now));
  if (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE) {
    now->tv_sec += ahead.load(std::memory_order_relaxed);
  }
  return failed;
}
extern "C" int gettimeofday(struct timeval* now, void* /*zone*/) noexcept {
  struct timespec all{};
  const int failed = clock_gettime(CLOCK_REALTIME, &all);
  *now = {all.tv_sec, all.tv_nsec / 1000};
  return failed;
}
extern "C" time_t time(time_t* to) noexcept {
  struct timespec all{};
  clock_gettime(CLOCK_REALTIME, &all);
  if (to != nullptr) *to = all.tv_sec;
  return all.tv_sec;
}
#endif

namespace {

using namespace spolia;
using namespace spolia::test;
using namespace std::chrono_literals;

constexpr std::int64_t day = 86400;
constexpr std::int64_t long_ago = -60 * 365 * day;  // before 1970

void set_clock(std::int64_t seconds_ahead) {
  ahead.store(seconds_ahead, std::memory_order_relaxed);
}

void set_to_and_fro(std::size_t i) {
  constexpr std::int64_t where[] = {day, 0, -day, long_ago, 10000 * day};
  set_clock(where[i % std::size(where)]);
}

class wall_clock : public own_place {
 protected:
  void SetUp() override {
    if (!possible) GTEST_SKIP() << "the sanitizer's own clock";
    const auto before = std::chrono::system_clock::now();
    set_clock(day);
    ASSERT_GT(std::chrono::system_clock::now() - before, 23h) << "the clock is not ours";
    set_clock(0);
  }
  ~wall_clock() override { set_clock(0); }

  /// In a child, which its alarm ends if it hangs: what waits for the system's clock may do so for
  /// a day.
  template <class Body>
  static void ends_in_time(Body body) {
    EXPECT_EQ(status_of_child(body, 120), 0);
  }
};

TEST_F(wall_clock, changes_no_age_and_no_deadline) {
  int asked = 0;
  db::options o;
  o.slow_after = 1h;
  o.on_slow_reader = [&](const db::slow_reader&) {
    ++asked;
    return db::slow_reader_action::end;
  };
  db::database base = db::database::open(o);
  db::table& ledger = make_ledger(base);
  ASSERT_TRUE(write_down(base, ledger, 1));
  const db::reader plain = base.snapshot("plain");
  const db::reader patient = base.snapshot({.label = "patient", .deadline = 1h});
  std::int64_t n = 1;
  for (const std::int64_t to : {day, -day, long_ago, 10000 * day, std::int64_t{0}}) {
    SCOPED_TRACE(to);
    set_clock(to);
    ASSERT_TRUE(write_down(base, ledger, ++n));
    base.collect();
    for (const db::reader_info& r : base.readers()) {
      EXPECT_GE(r.age, 0ns);
      EXPECT_LT(r.age, 30min);
    }
    EXPECT_FALSE(plain.ended());
    EXPECT_FALSE(patient.ended());
  }
  EXPECT_EQ(asked, 0);
  set_clock(day);
  const db::reader hasty = base.snapshot({.label = "hasty", .deadline = 1ms});
  set_clock(-day);
  std::this_thread::sleep_for(5ms);
  base.collect();
  EXPECT_TRUE(hasty.ended()) << "its time is over, whatever the clock says";
}

TEST_F(wall_clock, lets_no_transaction_wait_longer_for_a_row) {
  ends_in_time([] {
    db::database base = db::database::open();
    db::table& ledger = make_ledger(base);
    ASSERT_TRUE(write_down(base, ledger, 1));
    const auto gives_up = [&] {
      db::transaction older = base.begin({.longest_wait = 50ms});
      db::transaction holder = base.begin();
      ASSERT_TRUE(holder.update(ledger, {1}, {{"n", 2}}));
      const auto start = std::chrono::steady_clock::now();
      EXPECT_FALSE(older.update(ledger, {1}, {{"n", 3}}));
      EXPECT_GE(std::chrono::steady_clock::now() - start, 50ms) << "it has not waited";
    };
    for (const std::int64_t to : {day, -day}) {
      set_clock(to);
      gives_up();
    }
    const restless all_the_time(set_to_and_fro);
    for (int i = 0; i < 5; ++i) gives_up();
  });
}

/// Ahead of what the system goes by: a wait until a time of this clock takes a day.
TEST_F(wall_clock, leaves_the_loss_window_as_it_is) {
  ends_in_time([] {
    for (const std::int64_t to : {day, -day, std::int64_t{0}}) {
      SCOPED_TRACE(to);
      set_clock(to);
      db::options o = over(nullptr);
      o.durability = db::durability_level::async;
      o.loss_window = 5ms;
      o.files = new_disk();
      db::database base = db::database::open(place, o);
      db::table& ledger = make_ledger(base);
      for (std::int64_t n = 1; n <= 3; ++n) {
        ASSERT_TRUE(write_down(base, ledger, n));
        while (base.stats().log.durable < base.stats().log.sequence) {
          std::this_thread::sleep_for(1ms);
        }
        if (n == 1) set_clock(to == 0 ? -day : 0);
      }
    }
  });
}

/// All that has a pace or a pause, with the clock set all the time.
TEST_F(wall_clock, may_be_set_while_all_goes_on) {
  for (const auto level : {db::durability_level::sync, db::durability_level::async}) {
    const fs::path where = "base" + std::to_string(static_cast<int>(level));
    ends_in_time([&] {
      const restless all_the_time(set_to_and_fro);
      db::options o = small_segments();
      o.durability = level;
      o.publish_status = true;
      o.checkpoint_log_bytes = 64U << 10U;
      db::database base = db::database::open(where, o);
      commit(base, 1, 1);
      std::thread other([&] { commit(base, 2, 400); });
      base.checkpoint();
      base.backup(where.string() + "-copy");
      other.join();
      EXPECT_TRUE(base.sync());
      for (const db::reader_info& r : base.readers()) EXPECT_LT(r.age, 30min);
      base.publish_status();
      EXPECT_EQ(commits_in(base), 400);
    });
    EXPECT_EQ(commits_at(where), 400);
  }
}

TEST_F(wall_clock, is_in_no_file_and_no_name) {
  std::vector<std::map<std::string, std::size_t>> files;
  for (const std::int64_t to : {std::int64_t{0}, day, long_ago}) {
    const fs::path where = "at" + std::to_string(to);
    for (std::int64_t i = 0; i < 3; ++i) {
      set_clock(to * (i == 1 ? -1 : 1));
      db::database base = db::database::open(where, small_segments());
      EXPECT_EQ(commits_in(base), i * 20);
      EXPECT_TRUE(base.recovered().notes.empty());
      commit(base, i * 20 + 1, i * 20 + 20);
      if (i == 1) base.checkpoint();
      base.backup(where.string() + "-copy");
    }
    EXPECT_EQ(commits_at(where), 60);
    EXPECT_EQ(commits_at(where.string() + "-copy"), 60);
    files.emplace_back();
    for (const auto& [name, content] : content_of(where)) files.back()[name] = content.size();
  }
  EXPECT_EQ(files[1], files[0]);
  EXPECT_EQ(files[2], files[0]);
}

/// The status has both: when it was, and how long that is ago.
TEST_F(wall_clock, is_in_the_status_beside_a_clock_that_is_never_set) {
  db::database base = db::database::open(place, {.publish_status = true});
  commit(base, 1, 1);
  const auto since_opened = [&] {
    base.publish_status();
    const auto s = db::read_status(place);
    EXPECT_TRUE(s);
    const auto now = std::chrono::steady_clock::now().time_since_epoch() / 1ns;
    EXPECT_LE(s->opened_steady, s->written_steady);
    EXPECT_LE(s->written_steady, static_cast<std::uint64_t>(now));
    for (std::size_t i = 0; i < s->readers; ++i) {
      EXPECT_LT(s->oldest[i].age_ns, std::uint64_t{1'000'000'000} * day / 2);
    }
    return static_cast<std::int64_t>(s->written_steady - s->opened_steady) / 1'000'000'000;
  };
  const db::reader held = base.snapshot("held");
  for (const std::int64_t to : {day, -day, 10000 * day}) {
    set_clock(to);
    EXPECT_LT(since_opened(), day / 2);
  }
  const auto s = db::read_status(place);
  EXPECT_GT(s->written - s->opened, std::uint64_t{9000} * 86400 * 1'000'000'000);
}

}  // namespace
