// SPDX-License-Identifier: Apache-2.0
// A database whose log has failed begins again: what was in doubt becomes durable before anything
// is acknowledged, whatever fails on the way, and nothing is tried again with a file that has
// failed.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/db.hpp>

#include "db/durable.hpp"
#include "db/faulty_files.hpp"
#include "db/memory_files.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia::db;
using namespace spolia::test;

using step_kind = file_step::kind;

/// Fails the n-th step that counts, and maybe all after it; and notes each step that changes a file
/// which has failed before.
class failing {
 public:
  static bool changes_content(const file_step& s) {
    return s.what == step_kind::write || s.what == step_kind::sync ||
           s.what == step_kind::reserve || s.what == step_kind::truncate;
  }
  /// `nth` from now, from 1; 0: none. Of the steps of files that `counts` picks.
  void from_now(std::uint64_t nth, bool once = true, int why = EIO,
                std::function<bool(const file_step&)> counts = {}) {
    const std::lock_guard hold(lock_);
    nth_ = nth;
    once_ = once;
    why_ = why;
    seen_ = 0;
    counts_ = std::move(counts);
  }
  std::uint64_t seen() {
    const std::lock_guard hold(lock_);
    return seen_;
  }
  std::string tried_again() {
    const std::lock_guard hold(lock_);
    return tried_again_;
  }
  int operator()(const file_step& s) {
    const std::lock_guard hold(lock_);
    if (s.what == step_kind::read || s.what == step_kind::list) return 0;
    if (changes_content(s) && failed_.contains(s.name)) tried_again_ = s.name;
    const int why = fate_of(s);
    if (s.what == step_kind::remove && why == 0) failed_.erase(s.name);
    if (s.what != step_kind::write && s.what != step_kind::sync) return why;
    if (why != 0) failed_.insert(s.name);
    written_.insert(s.name);
    return why;
  }
  /// Written or synced, in part at least.
  std::set<std::string> written() {
    const std::lock_guard hold(lock_);
    return written_;
  }

 private:
  int fate_of(const file_step& s) {
    if (nth_ == 0 || (counts_ && !counts_(s))) return 0;
    ++seen_;
    return (once_ ? seen_ == nth_ : seen_ >= nth_) ? why_ : 0;
  }

  std::mutex lock_;
  std::uint64_t nth_ = 0;
  bool once_ = true;
  int why_ = EIO;
  std::uint64_t seen_ = 0;
  std::function<bool(const file_step&)> counts_;
  std::set<std::string> failed_;
  std::set<std::string> written_;
  std::string tried_again_;
};

struct world {
  explicit world(disk of = new_disk()) : files(std::move(of)) {}
  options with(options o = {}) const {
    o.recovery_threads = 1;
    o.checkpoint_log_bytes = 0;
    o.files =
        std::make_shared<faulty_files>(files, [f = fails](const file_step& s) { return (*f)(s); });
    return o;
  }
  disk files;
  std::shared_ptr<failing> fails = std::make_shared<failing>();
};

bool is_log_write(const file_step& s) { return s.what == step_kind::write && s.is_segment(); }
bool is_log_sync(const file_step& s) { return s.what == step_kind::sync && s.is_segment(); }

/// All that can be found after a loss of power now, as numbers of commits, lies between these.
void expect_between(const disk& files, std::int64_t least, std::int64_t most, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto look = [&](const disk& found) {
    const std::int64_t n = reopened(found);
    EXPECT_GE(n, least);
    EXPECT_LE(n, most);
    // What was opened once is a database like any other.
    database base = database::open(place, over(found));
    EXPECT_TRUE(write_down(base, base.find_table("ledger"), n + 1));
  };
  look(files->synced());
  look(files->copy());
  for (int i = 0; i < 3; ++i) look(files->after_power_loss(random));
}

/// Row `key` of a table with a key alone.
status put(database& base, table& t, std::int64_t key) {
  return base.transact([&](transaction& tx) { return tx.insert(t, {key}); });
}

TEST(resume, what_was_in_doubt_is_durable_and_commits_go_on) {
  for (const auto& step : {is_log_write, is_log_sync}) {
    world w;
    database base = database::open(place, w.with());
    table& ledger = make_ledger(base);
    for (std::int64_t i = 1; i <= 3; ++i) ASSERT_TRUE(write_down(base, ledger, i));
    EXPECT_EQ(base.resume().checkpoint.sequence, 0U) << "nothing has failed";
    const std::uint64_t epoch = base.stats().log.epoch;
    w.fails->from_now(1, true, EIO, step);
    const status s = write_down(base, ledger, 4);
    EXPECT_EQ(s, outcome::storage_failed);
    EXPECT_EQ(write_down(base, ledger, 5), outcome::storage_failed);
    EXPECT_NE(write_down(base, ledger, 5).reason().find("resume()"), std::string::npos);
    const resume_report report = base.resume();
    ASSERT_EQ(report.durable.size(), 1U);
    EXPECT_NE(s.reason().find("time " + std::to_string(report.durable[0]) + " "), s.reason().npos)
        << s.reason();
    EXPECT_EQ(report.undone, 0U);
    EXPECT_NE(report.checkpoint.rows, 0U);
    EXPECT_NE(report.checkpoint.removed_files, 0U);
    EXPECT_EQ(reopened(w.files->synced()), 4);
    EXPECT_EQ(base.storage_failure(), "");
    const log_stats now = base.stats().log;
    EXPECT_FALSE(now.failed);
    EXPECT_EQ(now.sequence, now.durable);
    EXPECT_EQ(now.epoch, epoch + 1);
    EXPECT_EQ(now.since_checkpoint, 0U);
    EXPECT_TRUE(base.sync());
    for (std::int64_t i = 5; i <= 7; ++i) {
      ASSERT_TRUE(write_down(base, ledger, i));
      EXPECT_EQ(reopened(w.files->synced()), i);
    }
    EXPECT_TRUE(base.resume().durable.empty());
    EXPECT_EQ(w.fails->tried_again(), "");
  }
}

TEST(resume, a_commit_says_its_time) {
  world w;
  database base = database::open(place, w.with());
  table& ledger = make_ledger(base);
  ASSERT_TRUE(write_down(base, ledger, 1));
  for (const isolation how : {isolation::snapshot, isolation::serializable}) {
    transaction good = base.begin({.isolation = how});
    EXPECT_EQ(good.commit_time(), 0U);
    ASSERT_TRUE(good.update(ledger, {0}, {{"n", 7}}));
    ASSERT_TRUE(good.commit());
    EXPECT_EQ(good.commit_time(), base.snapshot().timestamp());
    transaction reads = base.begin({.isolation = how});
    EXPECT_TRUE(reads.find(ledger, {0}));
    EXPECT_TRUE(reads.commit());
    EXPECT_EQ(reads.commit_time(), 0U) << "it has changed nothing";
    w.fails->from_now(1, true, EIO, is_log_sync);
    transaction bad = base.begin({.isolation = how});
    ASSERT_TRUE(bad.update(ledger, {0}, {{"n", 8}}));
    EXPECT_EQ(bad.commit(), outcome::storage_failed);
    EXPECT_EQ(bad.commit_time(), base.snapshot().timestamp());
    transaction late = base.begin({.isolation = how});
    ASSERT_TRUE(late.update(ledger, {0}, {{"n", 9}}));
    EXPECT_EQ(late.commit(), outcome::storage_failed);
    EXPECT_EQ(late.commit_time(), 0U) << "it has not happened";
    EXPECT_EQ(base.resume().durable, std::vector<std::uint64_t>{bad.commit_time()});
  }
}

constexpr std::uint64_t apart = no_long_cases ? 3 : 1;  // the steps that fail

/// Resuming fails at each of its steps in turn, once or from there on, as when the disk is gone;
/// power is lost then; and it is called again.
void fail_each_step(bool with_write, bool once, int why) {
  std::uint64_t nth = 1;
  for (bool met = true; met; nth += apart) {
    SCOPED_TRACE("step " + std::to_string(nth));
    world w;
    options o = w.with();
    o.segment_bytes = 4096;
    database base = database::open(place, o);
    table& ledger = make_ledger(base);
    std::int64_t done = 0;
    while (done < 12) ASSERT_TRUE(write_down(base, ledger, ++done));
    w.fails->from_now(1, true, EIO, with_write ? is_log_write : is_log_sync);
    ASSERT_EQ(write_down(base, ledger, 13), outcome::storage_failed);
    const std::uint64_t failed_at = base.stats().log.durable;
    w.fails->from_now(nth, once, why);
    bool resumed = true;
    try {
      EXPECT_EQ(base.resume().durable.size(), 1U);
    } catch (const storage_error&) {
      resumed = false;
    }
    met = w.fails->seen() >= nth;
    EXPECT_TRUE(met || resumed);
    w.fails->from_now(0);
    EXPECT_EQ(base.stats().log.failed, !resumed);
    expect_between(w.files, resumed ? 13 : 12, 13, nth);
    if (!resumed) {
      EXPECT_EQ(base.stats().log.durable, failed_at) << "acknowledged too early";
      EXPECT_NE(base.storage_failure(), "");
      EXPECT_EQ(write_down(base, ledger, 14), outcome::storage_failed);
      EXPECT_EQ(base.sync(), outcome::storage_failed);
      EXPECT_EQ(base.resume().durable.size(), 1U);
    }
    expect_between(w.files, 13, 13, nth);
    for (done = 14; done < 40; ++done) ASSERT_TRUE(write_down(base, ledger, done));
    expect_between(w.files, 39, 39, nth);
    base.checkpoint();
    expect_between(w.files, 39, 39, nth);
    EXPECT_EQ(w.fails->tried_again(), "");
  }
  EXPECT_GT(nth, 10U) << "and it has steps";
}

TEST(resume, each_step_may_fail_and_be_the_last) {
  fail_each_step(false, false, EIO);
  fail_each_step(false, true, EIO);
  fail_each_step(true, true, ENOSPC);
  fail_each_step(true, false, EMFILE);
}

/// Steps of the commits before fail in turn, the first one that ends the log of which is resumed
/// from: torn records, and names of segments that may be there or not.
TEST(resume, whatever_has_failed_before) {
  std::uint64_t resumed = 0;
  for (std::uint64_t nth = 1; nth < 60; nth += apart) {
    SCOPED_TRACE("step " + std::to_string(nth));
    for (const bool once : {true, false}) {
      const disk files = new_disk();
      options o = over(files);
      o.segment_bytes = 4096;
      database base = database::open(place, o);
      table& ledger = make_ledger(base);
      files->fails_at = files->changes + nth;
      files->fails_once = once;
      std::int64_t done = 0;
      while (done < 30 && write_down(base, ledger, done + 1)) ++done;
      files->fails_at = 0;
      const std::int64_t shown = commits_in(base).value_or(-1);
      if (base.stats().log.failed) {
        ++resumed;
        expect_between(files, done, shown, nth);
        EXPECT_EQ(base.resume().durable.size(), static_cast<std::size_t>(shown - done));
      }
      done = shown;
      expect_between(files, done, done, nth);
      while (done < 40) ASSERT_TRUE(write_down(base, ledger, ++done));
      expect_between(files, done, done, nth);
    }
  }
  EXPECT_GT(resumed, 20 / apart);
}

TEST(resume, a_second_failure_after_it) {
  world w;
  database base = database::open(place, w.with());
  table& ledger = make_ledger(base);
  std::int64_t done = 0;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(write_down(base, ledger, ++done));
    w.fails->from_now(1, true, EIO, round % 2 == 0 ? is_log_sync : is_log_write);
    ASSERT_EQ(write_down(base, ledger, ++done), outcome::storage_failed);
    expect_between(w.files, done - 1, done, 1);
    EXPECT_EQ(base.resume().durable.size(), 1U);
    expect_between(w.files, done, done, 1);
  }
  EXPECT_EQ(w.fails->tried_again(), "");
}

TEST(resume, a_history_of_its_own) {
  world w;
  database base = database::open(place, w.with());
  table& ledger = make_ledger(base);
  ASSERT_TRUE(write_down(base, ledger, 1));
  w.fails->from_now(1, true, EIO, is_log_sync);
  ASSERT_EQ(write_down(base, ledger, 2), outcome::storage_failed);
  // The header of a file has its epoch and its chain at 40 and 44.
  const auto ends = [&](const std::string& name) {
    std::array<std::uint32_t, 2> two{};
    std::memcpy(two.data(), w.files->content(name).data() + 40, sizeof(two));
    return two;
  };
  std::set<std::uint32_t> chains;
  for (int i = 0; i < 3; ++i) {  // twice in vain, in the new segment
    w.fails->from_now(i < 2 ? 1 : 0, true, EIO, [](const file_step& s) {
      return s.what == step_kind::rename && !s.name.starts_with("checkpoint");
    });
    if (i < 2) {
      EXPECT_THROW(base.resume(), storage_error);
    } else {
      base.resume();
    }
    std::string newest;
    for (const std::string& name : w.files->names()) {
      if (name.find("checkpoint-") != name.npos) newest = std::max(newest, name);
    }
    ASSERT_NE(newest, "");
    const auto [epoch, chain] = ends(newest);
    EXPECT_EQ(epoch, 2U + static_cast<unsigned>(i));
    chains.insert(chain);
  }
  EXPECT_EQ(chains.size(), 3U);
  EXPECT_EQ(base.stats().log.epoch, 4U);
  const auto before = base.stats().log.sequence;
  ASSERT_TRUE(write_down(base, ledger, 3));
  EXPECT_EQ(base.stats().log.sequence, before + 1);
}

/// Power is lost between the checkpoint and the segment: an opening leaves the segment alone that
/// has failed.
TEST(resume, an_opening_that_finds_the_checkpoint_alone) {
  world w;
  database base = database::open(place, w.with());
  table& ledger = make_ledger(base);
  ASSERT_TRUE(write_down(base, ledger, 1));
  w.fails->from_now(1, true, EIO, is_log_sync);
  ASSERT_EQ(write_down(base, ledger, 2), outcome::storage_failed);
  w.fails->from_now(1, true, EIO, [](const file_step& s) {
    return s.what == step_kind::rename && s.name.starts_with("log-");
  });
  EXPECT_THROW(base.resume(), storage_error);
  world later(w.files->synced());
  std::set<std::string> before;
  for (const std::string& name : later.files->names()) {
    if (name.find("log-") != name.npos) before.insert(name.substr(name.find("log-")));
  }
  EXPECT_FALSE(before.empty());
  {
    database again = database::open(place, later.with());
    EXPECT_EQ(again.recovered().log_records, 0U);
    EXPECT_TRUE(write_down(again, again.find_table("ledger"), 3));
  }
  for (const std::string& name : before) {
    EXPECT_FALSE(later.fails->written().contains(name)) << name;
    EXPECT_FALSE(later.files->has(std::string(place) + "/" + name)) << name << " is of no use";
  }
  EXPECT_EQ(reopened(later.files), 3);
}

struct catalog_change {
  const char* name;
  std::function<void(database&)> make;
};

void must_be(const status& s) {
  if (!s) throw storage_error("log", 0, "failed");
}

const std::vector<catalog_change>& catalog_changes() {
  static const std::vector<catalog_change> all = {
      {"create_table",
       [](database& b) { b.create_table({.name = "t", .columns = {{"k", int64, primary_key}}}); }},
      {"create_index",
       [](database& b) { must_be(b.create_index(b.find_table("ledger"), {"also", {"even"}})); }},
      {"drop_index", [](database& b) { must_be(b.drop_index(b.find_table("ledger"), "by_n")); }},
      {"drop_table", [](database& b) { must_be(b.drop_table(b.find_table("other"))); }}};
  return all;
}

/// Tables with their indexes, and how many rows each has.
std::string shape(database& b) {
  std::string words;
  const reader now = b.snapshot();
  for (const table* const t : b.tables()) {
    words += t->name() + ":";
    for (const auto& i : t->spec().indexes) words += " " + i.name;
    std::uint64_t rows = 0;
    now.for_each(*t, [&](const row&) { ++rows; });
    words += " " + std::to_string(rows) + ";";
  }
  return words;
}

void expect_same_shape(database& base, const disk& files, const char* when) {
  database found = database::open(place, over(files));
  EXPECT_EQ(shape(found), shape(base)) << when;
}

TEST(resume, changes_of_the_catalogue_in_doubt_are_undone) {
  for (const catalog_change& c : catalog_changes()) {
    for (const auto& step : {is_log_write, is_log_sync}) {
      SCOPED_TRACE(c.name);
      world w;
      database base = database::open(place, w.with());
      table& ledger = make_ledger(base);
      table& other = base.create_table({.name = "other", .columns = {{"k", int64, primary_key}}});
      ASSERT_TRUE(write_down(base, ledger, 1));
      ASSERT_TRUE(put(base, other, 1));
      const std::string before = shape(base);
      w.fails->from_now(1, true, EIO, step);
      EXPECT_THROW(c.make(base), storage_error);
      EXPECT_EQ(shape(base), before);
      const resume_report report = base.resume();
      EXPECT_EQ(report.undone, 1U);
      EXPECT_TRUE(report.durable.empty());
      expect_same_shape(base, w.files->synced(), "when it was undone");
      ASSERT_TRUE(write_down(base, ledger, 2));
      ASSERT_TRUE(put(base, other, 2));
      table& more = base.create_table({.name = "more", .columns = {{"k", int64, primary_key}}});
      ASSERT_TRUE(put(base, more, 1));
      expect_same_shape(base, w.files->synced(), "after later changes");
      c.make(base);
      ASSERT_TRUE(put(base, more, 2));
      expect_same_shape(base, w.files->synced(), "when it was made again");
      base.checkpoint();
      ASSERT_TRUE(put(base, more, 3));
      expect_same_shape(base, w.files->synced(), "after a checkpoint");
    }
  }
}

TEST(resume, copies_go_on) {
  for (const bool removed : {true, false}) {
    world w;
    database base = database::open(place, w.with());
    table& ledger = make_ledger(base);
    std::int64_t done = 0;
    while (done < 5) ASSERT_TRUE(write_down(base, ledger, ++done));
    base.backup("copy");
    ASSERT_TRUE(write_down(base, ledger, ++done));
    w.fails->from_now(1, true, EIO, is_log_sync);
    ASSERT_EQ(write_down(base, ledger, ++done), outcome::storage_failed);
    EXPECT_THROW(base.backup("copy"), storage_error);
    EXPECT_TRUE(base.backup([](auto) {}).apart);
    EXPECT_THROW(base.checkpoint(), storage_error);
    w.fails->from_now(removed ? 0 : 1, false, EIO,
                      [](const file_step& s) { return s.what == step_kind::remove; });
    EXPECT_EQ(base.resume().checkpoint.removed_files != 0, removed);
    w.fails->from_now(0);
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(write_down(base, ledger, ++done));
      EXPECT_EQ(base.backup("copy").incremental, i == 1);
      options o = over(w.files->copy());
      o.read_only = true;
      database copy = database::open("copy", o);
      EXPECT_EQ(commits_in(copy), done);
    }
    // The same by a process that finds the files.
    const disk later = w.files->copy();
    database again = database::open(place, over(later));
    ASSERT_TRUE(write_down(again, again.find_table("ledger"), ++done));
    again.backup("copy");
    database copy = database::open("copy", over(later));
    EXPECT_EQ(commits_in(copy), done);
  }
}

TEST(resume, where_it_cannot_be) {
  EXPECT_THROW(database::open().resume(), std::invalid_argument);
  const disk files = new_disk();
  options o = over(files);
  {
    database base = database::open(place, o);
    EXPECT_THROW(base.backup([&](auto) { base.resume(); }), std::invalid_argument);
    EXPECT_NO_THROW(base.resume());
  }
  o.durability = durability_level::none;
  EXPECT_THROW(database::open(place, o).resume(), std::invalid_argument);
  o.read_only = true;
  EXPECT_THROW(database::open(place, o).resume(), std::invalid_argument);
}

TEST(resume, a_disk_without_room) {
  const disk files = new_disk();
  database base = database::open(place, over(files));
  table& ledger = make_ledger(base);
  std::int64_t done = 0;
  while (done < 5) ASSERT_TRUE(write_down(base, ledger, ++done));
  files->sync_fails_at = files->syncs + 1;
  ASSERT_EQ(write_down(base, ledger, ++done), outcome::storage_failed);
  files->set_capacity(files->room_taken());
  EXPECT_THROW(base.resume(), storage_error);
  EXPECT_THROW(base.resume(), storage_error);
  for (const std::string& name : files->names()) EXPECT_FALSE(name.ends_with(".tmp")) << name;
  files->set_capacity(~std::uint64_t{0});
  EXPECT_EQ(base.resume().durable.size(), 1U);
  EXPECT_EQ(reopened(files->synced()), 6);
}

/// Commits that are past their check when the log fails: room is promised to them, in a segment
/// that is not written any more. They wait in on_slow_reader for go_on().
struct on_their_way {
  explicit on_their_way(int count) : all(static_cast<std::size_t>(count)) {
    options o = over(files);
    o.slow_after = std::chrono::nanoseconds(1);
    o.on_slow_reader = [](const slow_reader&) {
      if (mine != nullptr && !mine->parked.exchange(true)) {
        while (!mine->goes_on.load()) std::this_thread::yield();
      }
      return slow_reader_action::leave;
    };
    base.emplace(database::open(place, o));
    ledger = &make_ledger(*base);
    long_ones = &base->create_table(
        {.name = "long", .columns = {{"k", int64, primary_key}, {"v", text()}}});
    EXPECT_TRUE(write_down(*base, *ledger, 1));
    old.reset(new reader(base->snapshot({.label = "old", .deadline = std::chrono::hours(1)})));
    for (one& c : all) {
      c.runs = std::thread([this, &c] {
        mine = &c;
        transaction tx = base->begin();
        EXPECT_TRUE(tx.insert(*long_ones, {&c - all.data(), std::string(3U << 20U, 'x')}));
        c.how = tx.commit();
        c.time = tx.commit_time();
        mine = nullptr;
      });
      while (!c.parked.load()) std::this_thread::yield();
    }
  }
  /// Until it is published.
  void go_on(std::size_t which) {
    const std::uint64_t before = base->stats().log.sequence;
    all[which].goes_on = true;
    while (base->stats().log.sequence == before) std::this_thread::yield();
  }
  void join() {
    for (one& c : all) c.runs.join();
    old.reset();
  }
  /// So many long rows, and commits.
  void expect_found(std::int64_t rows, std::int64_t commits) const {
    database found = database::open(place, over(files->synced()));
    EXPECT_EQ(commits_in(found), commits);
    std::int64_t there = 0;
    found.snapshot().for_each(found.find_table("long"), [&](const row&) { ++there; });
    EXPECT_EQ(there, rows);
  }

  struct one {
    std::thread runs;
    std::atomic<bool> parked{false};
    std::atomic<bool> goes_on{false};
    status how;
    std::uint64_t time = 0;
  };
  static thread_local one* mine;
  const disk files = new_disk();
  std::optional<database> base;
  table* ledger = nullptr;
  table* long_ones = nullptr;
  std::unique_ptr<reader> old;  // for on_slow_reader
  std::vector<one> all;
};
thread_local on_their_way::one* on_their_way::mine = nullptr;

/// It is published before the database begins again, while that goes on, or behind it.
TEST(resume, commits_that_are_on_their_way) {
  for (const int when : {0, 1, 2}) {
    SCOPED_TRACE(when);
    on_their_way w(1);
    on_their_way::one& late = w.all[0];
    w.files->sync_fails_at = w.files->syncs + 1;
    ASSERT_EQ(write_down(*w.base, *w.ledger, 2), outcome::storage_failed);
    if (when == 0) w.go_on(0);
    if (when == 1) {
      w.files->before_write = [&, first = true]() mutable {
        if (std::exchange(first, false)) w.go_on(0);
      };
    }
    const resume_report report = w.base->resume();
    w.files->before_write = nullptr;
    if (when == 2) {
      w.files->set_capacity(w.files->room_taken());  // it has its room
      late.goes_on = true;
    }
    w.join();
    EXPECT_NE(late.time, 0U);
    EXPECT_EQ(report.durable.size(), when == 2 ? 1U : 2U);
    EXPECT_EQ(std::count(report.durable.begin(), report.durable.end(), late.time),
              when == 2 ? 0 : 1);
    EXPECT_TRUE(when != 2 || late.how);
    w.expect_found(1, 2);
    w.files->set_capacity(~std::uint64_t{0});
    ASSERT_TRUE(write_down(*w.base, *w.ledger, 3));
    EXPECT_EQ(reopened(w.files->synced()), 3);
  }
}

/// Of two that are published while the database begins again, the second one's write fails: both
/// are told by the next try, though the first one was written by this one.
TEST(resume, what_one_try_has_written_the_next_one_tells) {
  on_their_way w(2);
  w.files->sync_fails_at = w.files->syncs + 1;
  ASSERT_EQ(write_down(*w.base, *w.ledger, 2), outcome::storage_failed);
  w.files->before_write = [&, first = true]() mutable {
    if (std::exchange(first, false)) w.go_on(0);
  };
  bool both = false;
  w.files->before_sync = [&] {
    const auto names = w.files->names();
    const auto segments = std::count_if(names.begin(), names.end(), [](const std::string& n) {
      return n.find("/log-") != n.npos && !n.ends_with(".tmp");
    });
    if (both || segments < 2) return;
    both = true;  // the first one is on its way into the new segment
    w.go_on(1);
    w.files->sync_fails_at = w.files->syncs + 2;
  };
  EXPECT_THROW(w.base->resume(), storage_error);
  EXPECT_TRUE(both);
  w.files->before_write = nullptr;
  w.files->before_sync = nullptr;
  const resume_report report = w.base->resume();
  w.join();
  EXPECT_EQ(report.durable.size(), 3U);
  for (const auto& c : w.all)
    EXPECT_TRUE(std::count(report.durable.begin(), report.durable.end(), c.time));
  w.expect_found(2, 2);
}

/// A table's end that has its room, and gets its place only when the log has failed: it waits.
TEST(resume, changes_of_the_catalogue_that_are_on_their_way) {
  on_their_way w(1);
  table& third = w.base->create_table({.name = "third", .columns = {{"k", int64, primary_key}}});
  status dropped;
  std::thread other([&] { dropped = w.base->drop_table(third); });
  // It waits for the commit that is inside.
  const auto closed = [&] {
    transaction tx = w.base->begin();
    const status s = tx.insert(third, {1});
    return s == outcome::schema_changed || (s && tx.commit() == outcome::schema_changed);
  };
  while (!closed()) std::this_thread::yield();
  w.files->sync_fails_at = w.files->syncs + 1;
  ASSERT_EQ(write_down(*w.base, *w.ledger, 2), outcome::storage_failed);
  w.files->before_write = [&, first = true]() mutable {
    if (!std::exchange(first, false)) return;
    w.go_on(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // enough for one that waits not
  };
  const resume_report report = w.base->resume();
  other.join();
  w.join();
  w.files->before_write = nullptr;
  EXPECT_TRUE(dropped);
  EXPECT_EQ(report.undone, 0U);
  expect_same_shape(*w.base, w.files->synced(), "after it");
}

/// Threads that commit and change the catalogue while steps of the log's files fail, and one that
/// begins again each time.
class beside_commits {
 public:
  explicit beside_commits(durability_level level) {
    options o = w_.with();
    o.durability = level;
    o.loss_window = std::chrono::milliseconds(1);
    o.segment_bytes = 16384;
    level_ = level;
    base_.emplace(database::open(place, o));
    t_ = &base_->create_table({.name = "t",
                               .columns = {{"k", int64, primary_key}, {"v", text(40)}},
                               .indexes = {{"by_v", {"v"}}}});
  }
  void run() {
    std::vector<std::thread> all;
    for (std::int64_t n = 0; n < threads; ++n) {
      all.emplace_back([this, n] { commit_all(n); });
    }
    all.emplace_back([this] { change_catalog(); });
    std::mt19937_64 random(7);
    for (int round = 0; round < 12 || told_.empty(); ++round) {
      wait_for_commits();
      w_.fails->from_now(1 + random() % 8, random() % 2 == 0, EIO,
                         [](const file_step& s) { return is_log_write(s) || is_log_sync(s); });
      while (!base_->stats().log.failed) std::this_thread::yield();
      expect_acknowledged();
      // Others fail the log again meanwhile, where steps still fail.
      do {
        w_.fails->from_now(random() % 3 == 0 ? 1 + random() % 10 : 0);
        resume();
        w_.fails->from_now(0);
      } while (base_->stats().log.failed);
      expect_acknowledged();
    }
    stop_ = true;
    for (std::thread& runs : all) runs.join();
    while (base_->stats().log.failed) resume();
    EXPECT_TRUE(base_->sync());
    EXPECT_EQ(w_.fails->tried_again(), "");
    expect_told();
    expect_same_shape(*base_, w_.files->synced(), "at the end");
  }

 private:
  struct one {
    std::int64_t key;
    bool good;
    std::uint64_t time;
  };
  static constexpr std::int64_t threads = 3;

  void commit_all(std::int64_t n) {
    for (std::int64_t key = n; !stop_.load(); key += threads) {
      transaction tx =
          base_->begin({.isolation = n == 0 ? isolation::serializable : isolation::snapshot});
      EXPECT_TRUE(tx.insert(*t_, {key, "value " + std::to_string(key)}));
      const status s = tx.commit();
      {
        const std::lock_guard hold(lock_);
        made_.push_back({key, static_cast<bool>(s), tx.commit_time()});
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));  // the table stays small
    }
  }
  void change_catalog() {
    for (std::int64_t i = 0; !stop_.load(); ++i) {
      try {
        table& gone = base_->create_table(
            {.name = "t" + std::to_string(i), .columns = {{"k", int64, primary_key}}});
        static_cast<void>(base_->drop_table(gone));
        static_cast<void>(base_->create_index(*t_, {"also", {"v"}}));
        static_cast<void>(base_->drop_index(*t_, "also"));
      } catch (const storage_error&) {
        std::this_thread::yield();
      } catch (const std::invalid_argument&) {  // the index is there already, or not
        std::this_thread::yield();
      }
    }
  }
  /// They go on.
  void wait_for_commits() {
    std::size_t from = 0;
    for (bool first = true;; first = false) {
      {
        const std::lock_guard hold(lock_);
        if (first) from = made_.size();
        if (std::any_of(made_.begin() + static_cast<std::ptrdiff_t>(from), made_.end(),
                        [](const one& c) { return c.good; })) {
          return;
        }
      }
      std::this_thread::yield();
    }
  }
  void resume() {
    try {
      const resume_report report = base_->resume();
      told_.insert(report.durable.begin(), report.durable.end());
    } catch (const storage_error&) {
      return;  // once more
    }
  }
  static std::set<std::int64_t> keys_in(const database& base) {
    const table& t = base.find_table("t");
    std::set<std::int64_t> keys;
    base.snapshot().for_each(
        t, [&](const row& r) { keys.insert(r.get(t.column<std::int64_t>("k"))); });
    return keys;
  }
  /// If power is lost now.
  void expect_acknowledged() {
    if (level_ != durability_level::sync) return;
    std::vector<one> made;
    {
      const std::lock_guard hold(lock_);
      made = made_;
    }
    const database found = database::open(place, over(w_.files->synced()));
    const std::set<std::int64_t> there = keys_in(found);
    for (const one& c : made) {
      const bool must_be = c.good || told_.contains(c.time);
      EXPECT_TRUE(!must_be || there.contains(c.key)) << c.key;
    }
  }
  void expect_told() {
    const std::set<std::int64_t> shown = keys_in(*base_);
    for (const one& c : made_) {
      EXPECT_EQ(shown.contains(c.key), c.time != 0) << "what memory shows has a time";
      EXPECT_TRUE(!c.good || c.time != 0);
      EXPECT_TRUE(c.good || c.time == 0 || told_.contains(c.time));
    }
    const database found = database::open(place, over(w_.files->synced()));
    EXPECT_EQ(keys_in(found), shown);
  }

  world w_;
  durability_level level_;
  std::optional<database> base_;
  table* t_ = nullptr;
  std::atomic<bool> stop_{false};
  std::mutex lock_;
  std::vector<one> made_;
  std::set<std::uint64_t> told_;
};

TEST(resume, beside_commits_sync) { beside_commits(durability_level::sync).run(); }
TEST(resume, beside_commits_async) { beside_commits(durability_level::async).run(); }

TEST(resume, async_goes_on) {
  world w;
  options o = w.with();
  o.durability = durability_level::async;
  o.loss_window = std::chrono::milliseconds(1);
  database base = database::open(place, o);
  table& ledger = make_ledger(base);
  std::int64_t done = 0;
  for (int round = 0; round < 3; ++round) {
    w.fails->from_now(1, true, EIO, is_log_sync);
    while (write_down(base, ledger, done + 1)) {
      ++done;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const std::int64_t shown = commits_in(base).value_or(-1);
    const resume_report report = base.resume();
    EXPECT_GE(report.durable.size(), static_cast<std::size_t>(shown - done));
    EXPECT_FALSE(report.durable.empty()) << "commits that were acknowledged are in doubt, too";
    done = shown;
    EXPECT_EQ(reopened(w.files->synced()), done);
    // The thread that makes them durable goes on.
    ASSERT_TRUE(write_down(base, ledger, ++done));
    const auto start = std::chrono::steady_clock::now();
    while (base.stats().log.durable != base.stats().log.sequence &&
           std::chrono::steady_clock::now() - start < std::chrono::seconds(60)) {
      std::this_thread::yield();
    }
    EXPECT_EQ(reopened(w.files->synced()), done);
  }
}

TEST(resume, readers_that_ask_for_what_is_durable) {
  world w;
  database base = database::open(place, w.with());
  table& ledger = make_ledger(base);
  ASSERT_TRUE(write_down(base, ledger, 1));
  w.fails->from_now(1, true, EIO, is_log_sync);
  ASSERT_EQ(write_down(base, ledger, 2), outcome::storage_failed);
  transaction before = base.begin({.durable_reads = true});
  transaction stays = base.begin({.durable_reads = true});
  EXPECT_TRUE(before.find(ledger, {2}));
  EXPECT_EQ(before.commit(), outcome::storage_failed);
  base.resume();
  EXPECT_TRUE(stays.find(ledger, {2}));
  EXPECT_TRUE(stays.commit()) << "it is durable by now";
}

TEST(resume, a_layer_of_files_cannot_commit_in_it) {
  const disk files = new_disk();
  database base = database::open(place, over(files));
  table& ledger = make_ledger(base);
  ASSERT_TRUE(write_down(base, ledger, 1));
  files->sync_fails_at = files->syncs + 1;
  ASSERT_EQ(write_down(base, ledger, 2), outcome::storage_failed);
  int refused = 0;
  files->before_sync = [&] {
    const auto is_refused = [&](auto&& call) {
      try {
        call();
      } catch (const std::invalid_argument&) {
        ++refused;
      }
    };
    is_refused([&] { static_cast<void>(base.sync()); });
    is_refused([&] { static_cast<void>(write_down(base, ledger, 3)); });
    is_refused([&] { base.resume(); });
    is_refused([&] { base.create_table({.name = "t", .columns = {{"k", int64, primary_key}}}); });
  };
  base.resume();
  files->before_sync = nullptr;
  EXPECT_GE(refused, 8);
  EXPECT_EQ(refused % 4, 0);
}

}  // namespace
