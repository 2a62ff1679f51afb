// SPDX-License-Identifier: Apache-2.0
// Looking at a database that another process has: what it shows is whole, has all that was durable,
// and stays.

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "db/durable.hpp"
#include "db/own_place.hpp"
#include "support/descriptor_limit.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

options attaching(const disk& files) {
  options o = over(files);
  o.read_only = true;
  o.attach = true;
  return o;
}

/// How many commits are seen; -1 if they are none that ever were.
std::int64_t seen(const disk& files) {
  database there = database::open(place, attaching(files));
  return commits_in(there).value_or(-1);
}

class attached : public growing_ledger {
 protected:
  /// The last segment.
  [[nodiscard]] std::string segment() const {
    std::string last;
    for (const std::string& name : files_->names()) {
      if (name.find("log-") != std::string::npos && !name.ends_with(".tmp")) last = name;
    }
    return last;
  }
};

TEST_F(attached, a_copy_to_which_the_other_process_adds_meanwhile_is_to_be_tried_again) {
  write(10);
  database there = database::open(place, attaching(files_));
  write(20);
  base_.backup("copy");
  try {
    there.backup("copy");
    ADD_FAILURE() << "a copy was taken back to what was seen before";
  } catch (const storage_error& e) {
    EXPECT_NE(std::string(e.what()).find(
                  "Another backup may have added to the copy meanwhile: then try again"),
              std::string::npos)
        << e.what();
  }
  EXPECT_TRUE(database::open(place, attaching(files_)).backup("copy").incremental);
}

TEST_F(attached, shows_what_is_durable_and_changes_nothing) {
  write(10);
  EXPECT_THROW(database::open(place, over(files_)), storage_error) << "it is open";
  const auto names = files_->names();
  const std::uint64_t changes = files_->changes;
  {
    database there = database::open(place, attaching(files_));
    EXPECT_EQ(commits_in(there), 10);
    write(20);
    EXPECT_EQ(commits_in(there), 10);
    transaction tx = there.begin();
    ASSERT_TRUE(tx.erase(there.find_table("ledger"), {1}));
    EXPECT_EQ(tx.commit(), outcome::read_only);
    EXPECT_THROW(there.checkpoint(), std::invalid_argument);
  }
  EXPECT_EQ(seen(files_), 20);
  EXPECT_EQ(files_->names(), names);
  EXPECT_GT(files_->changes, changes) << "by the twenty commits alone";
  options wrong = attaching(files_);
  wrong.read_only = false;
  EXPECT_THROW(database::open(place, wrong), std::invalid_argument);
}

TEST_F(attached, stays_while_the_database_goes_on_without_its_files) {
  write(10);
  base_.checkpoint();
  write(15);
  database there = database::open(place, attaching(files_));
  write(20);
  base_.checkpoint();
  write(25);
  base_.checkpoint();
  EXPECT_EQ(commits_in(there), 15);
  there.backup("copy");
  database copy = database::open("copy", over(files_));
  EXPECT_EQ(commits_in(copy), 15);
  EXPECT_EQ(seen(files_), 25);
}

/// Takes descriptors until so many are left.
std::vector<int> take_all_but(int left) {
  std::vector<int> taken;
  for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken.push_back(fd);
  for (; left > 0 && !taken.empty(); --left, taken.pop_back()) ::close(taken.back());
  return taken;
}

TEST_F(attached, has_more_files_than_the_process_may_have_open) {
  database bank = database::open("bank", small_segments());
  commit(bank, 1, 10);
  bank.backup("copy");
  commit(bank, 11, 4000);
  options o = small_segments();
  o.read_only = o.attach = true;
  const auto look = [&] {
    database there = database::open("bank", o);
    EXPECT_EQ(commits_in(there), 4000);
    EXPECT_TRUE(there.backup("copy").incremental);
  };
  {
    const descriptor_limit few(64);
    EXPECT_GT(data_files("bank"), 100U);
    look();
  }
  EXPECT_EQ(commits_at("copy"), 4000);
  commit(bank, 4001, 4010);
  bank.checkpoint();
  commit(bank, 4011, 8000);
  // UBSan, which comes with ASan, needs descriptors of its own to look at objects.
  if (!spolia::test::sanitized) {  // fewer than its limit says
    const descriptor_limit few(256);
    const std::vector<int> taken = take_all_but(40);
    database there = database::open("bank", o);
    EXPECT_EQ(commits_in(there), 8000);
    for (const int fd : taken) ::close(fd);
  }
}

constexpr std::int64_t few_commits = 1000;

/// How an opening ends in a process that may have so many descriptors besides its first three.
int opened_with(rlim_t left, const options& o) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (int fd = 3; fd < 1024; ++fd) ::close(fd);
    const struct rlimit most{.rlim_cur = 3 + left, .rlim_max = 3 + left};
    if (::setrlimit(RLIMIT_NOFILE, &most) != 0) ::_exit(4);
    try {
      database there = database::open("bank", o);
      ::_exit(commits_in(there).value_or(-1) == few_commits ? 0 : 1);
    } catch (const storage_error& e) {
      ::_exit(e.reason() == std::errc::too_many_files_open ? 2 : 3);
    }
  }
  int how = 0;
  EXPECT_EQ(::waitpid(child, &how, 0), child);
  return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

TEST_F(attached, opens_with_more_descriptors_where_it_does_with_few) {
  // A sanitizer's own threads and files are not there in the child.
  if (spolia::test::sanitized) GTEST_SKIP() << "SKIPPED descriptors are the sanitizer's, too";
  options o = small_segments();
  {
    database bank = database::open("bank", o);
    commit(bank, 1, few_commits);
  }
  EXPECT_GE(data_files("bank"), 30U);
  o.read_only = o.attach = true;
  bool opens = false;
  for (rlim_t left = 1; left <= 48; ++left) {
    const int how = opened_with(left, o);
    EXPECT_EQ(how, opens || how == 0 ? 0 : 2) << left;
    opens = opens || how == 0;
    if (left >= 4) {
      EXPECT_EQ(how, 0) << left;
    }
  }
}

/// Each record says what was durable before it.
TEST_F(attached, syncs_no_segment_that_is_known_to_be_durable) {
  base_ = database::open();
  options o = over(files_);
  o.segment_bytes = 4096;
  for (std::int64_t last = 0; last < 900; last += 300) {
    base_ = database::open();
    base_ = database::open(place, o);
    for (std::int64_t n = last + 1; n <= last + 300; ++n) {
      ASSERT_TRUE(write_down(base_, base_.find_table("ledger"), n));
    }
    const std::uint64_t before = files_->syncs;
    EXPECT_EQ(seen(files_), last + 300);
    EXPECT_EQ(files_->syncs, before + 1) << "the last one alone may have more";
  }
}

TEST_F(attached, says_which_file_went_that_it_could_not_keep_open) {
  base_ = database::open();
  base_ = database::open(place, [&] {
    options o = over(files_);
    o.segment_bytes = 4096;
    return o;
  }());
  table& ledger = base_.find_table("ledger");
  for (std::int64_t n = 1; n <= 1500; ++n) ASSERT_TRUE(write_down(base_, ledger, n));
  const descriptor_limit few(40);
  int times = 1;
  files_->after_read = [&](const std::string& /*name*/, std::span<std::byte> /*got*/) {
    if (times-- == 1) base_.checkpoint();
  };
  const std::string why = refused([&] { seen(files_); });
  files_->after_read = nullptr;
  EXPECT_NE(why.find("removed it before it was read"), std::string::npos) << why;
  EXPECT_EQ(seen(files_), 1500) << "and the next try succeeds";
}

TEST_F(attached, keeps_nobody_from_opening) {
  write(10);
  base_ = database::open();
  database there = database::open(place, attaching(files_));
  database again = database::open(place, over(files_));
  ASSERT_TRUE(write_down(again, again.find_table("ledger"), 11));
  EXPECT_EQ(commits_in(there), 10);
  EXPECT_EQ(seen(files_), 11);
}

TEST_F(attached, goes_by_the_checkpoint_that_is_made_meanwhile) {
  write(10);
  int times = 3;
  bool within = false;
  files_->after_list = [&](std::vector<std::string>& /*names*/) {
    if (within || times == 0) return;
    within = true;  // a checkpoint lists the directory, too
    --times;
    write(last_ + 1);
    base_.checkpoint();
    within = false;
  };
  database there = database::open(place, attaching(files_));
  files_->after_list = nullptr;
  EXPECT_EQ(times, 0);
  EXPECT_GE(commits_in(there).value_or(-1), 10);
}

/// A directory is not listed in one moment: the older one had gone, the newer was not there yet.
TEST_F(attached, misses_no_checkpoint) {
  write(10);
  base_.checkpoint();
  write(15);
  int times = 1;
  files_->after_list = [&](std::vector<std::string>& names) {
    if (times-- <= 0) return;
    std::erase_if(names, [](const std::string& n) { return n.starts_with("checkpoint-"); });
  };
  EXPECT_EQ(seen(files_), 15);
  EXPECT_LT(times, 0);
}

TEST_F(attached, adds_to_a_copy_what_it_shows) {
  write(10);
  base_.backup("copy");
  write(15);
  database there = database::open(place, attaching(files_));
  write(20);
  EXPECT_TRUE(there.backup("copy").incremental);
  database copy = database::open("copy", over(files_));
  EXPECT_EQ(commits_in(copy), 15);
}

/// Bytes of a record are read before they are written, and those behind it after that.
TEST_F(attached, reads_again_what_was_being_written) {
  write(20);
  for (std::size_t from_end = 40; from_end < 1500; from_end += 60) {
    int times = 1;
    files_->after_read = [&](const std::string& name, std::span<std::byte> got) {
      if (name != segment() || got.size() < 2000 || times == 0) return;
      --times;
      std::size_t end = got.size();
      while (end > 0 && got[end - 1] == std::byte{0}) --end;
      const std::size_t at = end - from_end;
      std::fill_n(got.begin() + static_cast<std::ptrdiff_t>(at), 30, std::byte{0});
    };
    EXPECT_EQ(seen(files_), 20) << from_end;
    EXPECT_EQ(times, 0);
    files_->after_read = nullptr;
  }
}

/// Of two looks, the second one finds what was written behind the end meanwhile, and the end torn.
/// The process could not make the name of another segment durable, took it back, and went on with
/// the one before: who had listed it meanwhile sees what was there then.
TEST_F(attached, passes_over_what_came_after_a_segment_that_was_taken_back) {
  write(10);
  const disk other = files_->copy();
  {
    database base = database::open(place, over(other));
  }  // makes another segment
  std::string taken_back;
  for (const std::string& name : other->names()) {
    const bool here = std::ranges::count(files_->names(), name) != 0;
    if (name.find("/log-") != std::string::npos && !here) taken_back = name;
  }
  ASSERT_NE(taken_back, "");
  for (const std::int64_t last : {std::int64_t{10}, std::int64_t{11}, std::int64_t{20}}) {
    SCOPED_TRACE(last);
    if (last > 10) write(last);
    const disk listed = files_->copy();
    listed->put(taken_back, other->content(taken_back));
    EXPECT_EQ(seen(listed), 10);
    bytes& before = listed->content(segment());
    before[before.size() / 2] ^= std::byte{1};
    EXPECT_THROW(seen(listed), storage_error) << "what it has been before that is damaged";
  }
}

TEST_F(attached, takes_nothing_that_is_being_written_for_damage) {
  write(20);
  int times = 0;
  files_->after_read = [&](const std::string& name, std::span<std::byte> got) {
    if (name != segment() || got.size() < 900 || times == 2) return;
    const std::size_t at = got.size() - 900;
    std::fill_n(got.begin() + static_cast<std::ptrdiff_t>(at), times++ == 0 ? 900 : 30,
                std::byte{0});
  };
  EXPECT_EQ(seen(files_), 20);
  EXPECT_EQ(times, 2);
}

TEST_F(attached, refuses_what_is_damaged) {
  write(20);
  bytes& content = files_->content(segment());
  std::size_t end = content.size();
  while (end > 0 && content[end - 1] == std::byte{0}) --end;
  content[end - 900] ^= std::byte{1};
  EXPECT_THROW(seen(files_), storage_error) << "what follows proves that it was durable";
  content[end - 900] ^= std::byte{1};
  content[end - 1] ^= std::byte{1};
  EXPECT_EQ(seen(files_), 19) << "its end may be being written";
  content[end - 1] ^= std::byte{1};
  EXPECT_EQ(seen(files_), 20);
}

/// Who only looks says no more of a store than who opens it.
TEST_F(attached, refuses_damage_behind_a_segment_that_is_not_the_last) {
  write(10);
  const disk other = files_->copy();
  {
    database base = database::open(place, over(other));
    commit(base, 11, 12);
  }
  const std::string first = segment();
  bytes& content = other->content(first);
  std::size_t end = content.size();
  while (end > 0 && content[end - 1] == std::byte{0}) --end;
  content.resize(end);
  for (const int after : {0, 1, 24, 100}) {
    SCOPED_TRACE(after);
    content.resize(end);
    content.resize(end + static_cast<std::size_t>(after), std::byte{0x5a});
    if (after == 0) {
      EXPECT_EQ(seen(other), 12);
      content.resize(end + 1000);
      EXPECT_EQ(seen(other), 12) << "room that was not used";
      continue;
    }
    EXPECT_THROW(seen(other), storage_error);
    EXPECT_THROW(database::open(place, over(other->copy())), storage_error) << "nor is it opened";
  }
}

TEST_F(attached, shows_nothing_that_the_loss_of_power_takes_back) {
  write(10);
  std::atomic<bool> in_sync{false};
  std::atomic<bool> go_on{false};
  std::thread::id writer;
  files_->before_sync = [&] {
    if (std::this_thread::get_id() != writer) return;
    in_sync = true;
    while (!go_on) std::this_thread::yield();
  };
  std::thread commits([&] {
    writer = std::this_thread::get_id();
    write(11);
  });
  while (!in_sync) std::this_thread::yield();
  database there = database::open(place, attaching(files_));
  EXPECT_EQ(commits_in(there), 11) << "written, and not acknowledged yet";
  const disk left = files_->synced();
  go_on = true;
  commits.join();
  files_->before_sync = nullptr;
  database after = database::open(place, over(left));
  EXPECT_EQ(commits_in(after), 11);
}

/// Real files, small segments, checkpoints all the time.
TEST_F(attached, has_all_that_was_acknowledged_beside_commits) {
  for (const durability_level level : {durability_level::sync, durability_level::async}) {
    options o;
    o.durability = level;
    o.segment_bytes = 8192;
    o.checkpoint_log_bytes = 32U << 10U;
    const std::string name = level == durability_level::sync ? "real" : "async";
    database base = database::open(name, o);
    table& ledger = make_ledger(base);
    std::atomic<std::int64_t> done{0};
    std::atomic<bool> stop{false};
    std::thread writer([&] {
      for (std::int64_t n = 1; !stop; ++n) {
        ASSERT_TRUE(write_down(base, ledger, n));
        if (level == durability_level::async && n % 64 == 0) {
          ASSERT_TRUE(base.sync());
        }
        if (level == durability_level::sync || n % 64 == 0) done = n;
      }
    });
    options look;
    look.read_only = look.attach = true;
    const auto until = std::chrono::steady_clock::now() +
                       std::chrono::milliseconds(spolia::test::quick_tests ? 500 : 2000);
    int rounds = 0;
    for (; std::chrono::steady_clock::now() < until || rounds < 20; ++rounds) {
      const std::int64_t before = done;
      database there = database::open(name, look);
      const std::int64_t now = commits_in(there).value_or(-1);
      EXPECT_GE(now, before);
      if (rounds % 8 == 0) {
        const std::string copy = name + "-copy-" + std::to_string(rounds);
        there.backup(copy);
        database opened = database::open(copy);
        EXPECT_EQ(commits_in(opened), now);
      }
    }
    stop = true;
    writer.join();
    EXPECT_GT(base.stats().log.checkpoints, 0U);
  }
}

}  // namespace
