// SPDX-License-Identifier: Apache-2.0
// Databases in real directories: locks between processes, a disk that is full, one that cannot be
// written, permissions.

#include <gtest/gtest.h>

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <spolia/db/store_status.hpp>

#include "db/durable.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

class directories : public testing::Test {
 protected:
  directories()
      : root_(std::filesystem::temp_directory_path() /
              ("spolia-directories-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~directories() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  const std::filesystem::path root_;
};

TEST_F(directories, are_made_and_opened_again) {
  const auto place_here = root_ / "above" / "base";
  for (std::int64_t n = 1; n <= 3; ++n) {
    database base = database::open(place_here, over(nullptr));
    table& ledger = n == 1 ? make_ledger(base) : base.find_table("ledger");
    EXPECT_EQ(commits_in(base), n - 1);
    ASSERT_TRUE(write_down(base, ledger, n));
    EXPECT_EQ(base.recovered().epoch, static_cast<std::uint64_t>(n));
  }
}

/// The directory above may be one that this process can pass through, or make names in, and not
/// read.
TEST_F(directories, are_made_in_one_that_cannot_be_read) {
  const auto above = root_ / "above";
  std::filesystem::create_directories(above / "there");
  for (const auto& one : {above, above / "there"}) ASSERT_EQ(::chmod(one.c_str(), 0777), 0);
  ASSERT_EQ(::chmod(above.c_str(), 0333), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr ::uid_t unprivileged = 65534;
    if (::getuid() == 0 && ::setuid(unprivileged) != 0) ::_exit(2);
    try {
      for (const char* name : {"there", "made"}) {
        database base = database::open(above / name, over(nullptr));
        table& ledger = make_ledger(base);
        if (!write_down(base, ledger, 1)) ::_exit(3);
      }
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      ::_exit(4);
    }
    ::_exit(0);
  }
  int how = 0;
  EXPECT_EQ(::waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFEXITED(how));
  EXPECT_EQ(WEXITSTATUS(how), 0);
  ASSERT_EQ(::chmod(above.c_str(), 0777), 0);
}

TEST_F(directories, need_a_name) {
  EXPECT_THROW(static_cast<void>(database::open("", over(nullptr))), storage_error);
}

/// The system reads a path up to its first zero byte, so the database would be in another directory
/// than the one that was named.
TEST_F(directories, with_a_zero_byte_in_their_path_are_refused) {
  const std::string named = (root_ / "bank").string() + std::string(1, '\0') + "of-england";
  try {
    const database base = database::open(named, over(nullptr));
    FAIL() << "opened";
  } catch (const storage_error& e) {
    EXPECT_NE(std::string(e.what()).find("zero byte"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("bank"), std::string::npos) << e.what();
  }
  EXPECT_FALSE(std::filesystem::exists(root_ / "bank"));
}

TEST_F(directories, another_process_is_refused) {
  database base = database::open(root_ / "base", over(nullptr));
  const auto in_child = [&](bool read_only) {
    const pid_t child = ::fork();
    if (child == 0) {
      options o = over(nullptr);
      o.read_only = read_only;
      try {
        database again = database::open(root_ / "base", o);
      } catch (const storage_error& e) {
        const bool named = std::string(e.what()).find("open elsewhere") != std::string::npos;
        ::_exit(named ? 7 : 8);
      }
      ::_exit(9);
    }
    int how = 0;
    ::waitpid(child, &how, 0);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
  };
  EXPECT_EQ(in_child(false), 7);
  EXPECT_EQ(in_child(true), 7);
}

TEST_F(directories, are_free_when_they_are_closed_whatever_children_there_are) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  auto base = std::make_unique<database>(database::open(root_ / "base", over(nullptr)));
  const auto child_that = [&](bool closes) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::close(pipe[1]);
    if (closes) base.reset();  // as exit() does; it must not take the lock from its parent
    char wait = 0;
    const auto ended = ::read(pipe[0], &wait, 1);
    ::_exit(ended == 0 ? 0 : 1);
  };
  const auto open_elsewhere = [&] {
    try {
      database again = database::open(root_ / "base", over(nullptr));
      return false;
    } catch (const storage_error&) {
      return true;
    }
  };
  const pid_t idle = child_that(false);
  const pid_t closing = child_that(true);
  const auto ended_now = [&](pid_t child) {
    int how = 0;
    EXPECT_EQ(::waitpid(child, &how, 0), child);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
  };
  ::usleep(100'000);
  EXPECT_TRUE(open_elsewhere()) << "a child has closed what it must not use";
  base.reset();
  EXPECT_FALSE(open_elsewhere()) << "a child holds what its parent has closed";
  ::close(pipe[1]);
  EXPECT_EQ(ended_now(idle), 0);
  EXPECT_EQ(ended_now(closing), 0);
  ::close(pipe[0]);
}

TEST_F(directories, keep_what_was_acknowledged_when_a_child_ends) {
  for (const durability_level level : {durability_level::sync, durability_level::async}) {
    SCOPED_TRACE(static_cast<int>(level));
    std::filesystem::remove_all(root_ / "base");
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    options o = over(nullptr);
    o.publish_status = true;
    o.durability = level;
    auto base = std::make_unique<database>(database::open(root_ / "base", o));
    table& ledger = make_ledger(*base);
    for (std::int64_t n = 1; n <= 3; ++n) ASSERT_TRUE(write_down(*base, ledger, n));
    ::usleep(20'000);  // the thread of the database, if there is one, has come to wait
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(pipe[1]);
      char wait = 0;
      const auto ended = ::read(pipe[0], &wait, 1);
      base.reset();  // as exit() does
      ::_exit(ended == 0 ? 0 : 1);
    }
    for (std::int64_t n = 4; n <= 9; ++n) ASSERT_TRUE(write_down(*base, ledger, n));
    ::close(pipe[1]);
    int how = 0;
    ASSERT_EQ(::waitpid(child, &how, 0), child);
    EXPECT_EQ(how, 0);
    ::close(pipe[0]);
    EXPECT_TRUE(read_status(root_ / "base"));
    for (std::int64_t n = 10; n <= 11; ++n) ASSERT_TRUE(write_down(*base, ledger, n));
    base.reset();
    database again = database::open(root_ / "base", over(nullptr));
    EXPECT_EQ(commits_in(again), 11);
  }
}

TEST_F(directories, are_read_by_any_number_and_stay_as_they_are) {
  const auto here = root_ / "a place \xc3\xa9";
  {
    database base = database::open(here, over(nullptr));
    table& ledger = make_ledger(base);
    for (std::int64_t n = 1; n <= 3; ++n) ASSERT_TRUE(write_down(base, ledger, n));
    base.backup(root_ / "copy");
    std::filesystem::rename(root_ / "copy", here / "copy");
  }
  for (const char* left : {"log-00000000000000ff.spl.tmp", "status", "copy/x.spl.tmp"}) {
    std::ofstream(here / left) << "left";
  }
  std::string last;
  for (const auto& one : std::filesystem::directory_iterator(here)) {
    const std::string name = one.path().filename().string();
    if (name.starts_with("log-") && name.ends_with(".spl")) last = std::max(last, name);
  }
  std::ofstream(here / last, std::ios::app) << "torn";
  const auto all = [&] {
    std::vector<std::string> found;
    for (const auto& one : std::filesystem::recursive_directory_iterator(here)) {
      if (one.is_directory()) continue;
      std::ifstream in(one.path(), std::ios::binary);
      const std::string bytes(std::istreambuf_iterator<char>(in), {});
      const auto when = std::filesystem::last_write_time(one).time_since_epoch().count();
      found.push_back(one.path().string() + " " + std::to_string(when) + " " + bytes);
    }
    std::sort(found.begin(), found.end());
    return found;
  };
  const auto before = all();
  for (const char* which : {"", "copy"}) {
    options o = over(nullptr);
    o.read_only = true;
    o.publish_status = true;
    database one = database::open(here / which, o);
    database two = database::open(here / which, o);
    EXPECT_EQ(commits_in(one), 3);
    EXPECT_EQ(commits_in(two), 3);
    EXPECT_EQ(one.recovered().cut_bytes, *which == '\0' ? 4U : 0U);
    EXPECT_THROW(one.checkpoint(), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(database::open(here / which, over(nullptr))), storage_error);
  }
  EXPECT_EQ(all(), before);
}

TEST_F(directories, that_cannot_be_written_can_be_read) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root, to mount";
  const auto mounted = root_ / "disk";
  std::filesystem::create_directories(mounted);
  if (::mount("none", mounted.c_str(), "tmpfs", 0, "size=1m") != 0) GTEST_SKIP() << "no mount";
  {
    database base = database::open(mounted / "base", over(nullptr));
    ASSERT_TRUE(write_down(base, make_ledger(base), 1));
  }
  EXPECT_EQ(::mount("none", mounted.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr), 0);
  try {
    database base = database::open(mounted / "base", over(nullptr));
    ADD_FAILURE() << "it was opened to be written";
  } catch (const storage_error& e) {
    EXPECT_EQ(e.reason(), std::errc::read_only_file_system) << e.what();
  }
  {
    options o = over(nullptr);
    o.read_only = true;
    database base = database::open(mounted / "base", o);
    EXPECT_EQ(commits_in(base), 1);
  }
  EXPECT_EQ(::umount(mounted.c_str()), 0);
}

/// All that is left of the disk it is on.
void fill_up(const std::filesystem::path& file) {
  std::ofstream out(file, std::ios::binary | std::ios::app);
  for (const std::size_t part : {std::size_t{65536}, std::size_t{4096}, std::size_t{1}}) {
    const std::string zeros(part, '\0');
    while (out.write(zeros.data(), static_cast<std::streamsize>(part)).flush()) {
    }
    out.clear();
  }
}

/// Commits until one is refused; what was acknowledged is counted.
status commit_until_full(database& base, std::int64_t& done) {
  table& ledger = base.find_table("ledger");
  table& big = base.find_table("big");
  const std::string much(50000, 'x');
  status s;
  while ((s = write_down(base, ledger, done + 1))) {
    ++done;
    s = base.transact([&](transaction& tx) { return tx.insert(big, {done, much}); });
    if (!s) break;
  }
  return s;
}

TEST_F(directories, on_a_disk_that_fills_up) {
  if (no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  if (::getuid() != 0) GTEST_SKIP() << "needs root, to mount";
  const auto mounted = root_ / "disk";
  std::filesystem::create_directories(mounted);
  if (::mount("none", mounted.c_str(), "tmpfs", 0, "size=4m") != 0) GTEST_SKIP() << "no mount";
  std::int64_t done = 0;
  const auto erase = [](database& base, std::int64_t id) {
    return base.transact([&](transaction& tx) { return tx.erase(base.find_table("big"), {id}); });
  };
  {
    database base = database::open(mounted / "base", over(nullptr));
    make_ledger(base);
    base.create_table(
        {.name = "big", .columns = {{"k", int64, primary_key}, {"text", text(50000)}}});
    EXPECT_EQ(commit_until_full(base, done), outcome::storage_failed);
    EXPECT_NE(base.storage_failure().find("No space left"), std::string::npos)
        << base.storage_failure();
    fill_up(mounted / "filler");
    EXPECT_THROW(base.backup(mounted / "copy"), storage_error);
    EXPECT_THROW(base.checkpoint(), storage_error);
    EXPECT_EQ(commits_in(base), done);
    EXPECT_TRUE(erase(base, 1)) << "of the reserve";
    EXPECT_FALSE(base.stats().log.failed);
    std::filesystem::remove(mounted / "filler");
    EXPECT_EQ(::mount("none", mounted.c_str(), "tmpfs", MS_REMOUNT, "size=6m"), 0);
    const std::int64_t before = done;
    EXPECT_EQ(commit_until_full(base, done), outcome::storage_failed);
    EXPECT_GT(done, before) << "it goes on by itself";
    EXPECT_EQ(commits_in(base), done);
  }
  EXPECT_GT(done, 5);
  fill_up(mounted / "filler");
  {
    database base = database::open(mounted / "base", over(nullptr));
    EXPECT_EQ(commits_in(base), done);
    EXPECT_EQ(base.recovered().cut_bytes, 0U) << "nothing was written of what was refused";
    EXPECT_TRUE(erase(base, 2));
    EXPECT_FALSE(base.snapshot().find(base.find_table("big"), {2}));
  }
  for (const auto& e : std::filesystem::directory_iterator(mounted / "base")) {
    EXPECT_NE(e.path().extension(), ".tmp") << e.path();
  }
  std::filesystem::remove(mounted / "filler");
  EXPECT_EQ(::mount("none", mounted.c_str(), "tmpfs", MS_REMOUNT, "size=16m"), 0);
  {
    database base = database::open(mounted / "base", over(nullptr));
    EXPECT_TRUE(write_down(base, base.find_table("ledger"), ++done));
    EXPECT_EQ(commits_in(base), done);
    base.checkpoint();
    EXPECT_TRUE(std::filesystem::exists(mounted / "base" / "reserve.spl"));
  }
  EXPECT_EQ(::umount(mounted.c_str()), 0);
}

/// As a process leaves it that was killed: the log may be longer than what is in it.
void copy_an_open_one(const std::filesystem::path& root) {
  options o = over(nullptr);
  o.segment_bytes = 1U << 16U;  // records lie across its parts, and some are longer
  const std::string much(60000, 'x');
  database base = database::open(root / "base", o);
  table& ledger = make_ledger(base);
  table& big = base.create_table(
      {.name = "big", .columns = {{"k", int64, primary_key}, {"text", text(60000)}}});
  for (std::int64_t n = 1; n <= 40; ++n) {
    ASSERT_TRUE(write_down(base, ledger, n));
    const status s = base.transact([&](transaction& tx) {
      return tx.insert(big, {n, much.substr(0, static_cast<std::size_t>(n) * 1500)});
    });
    ASSERT_TRUE(s);
    if (n % 10 != 0) continue;
    const auto copy = root / std::to_string(n);
    std::filesystem::copy(root / "base", copy);
    database killed = database::open(copy, o);
    EXPECT_EQ(commits_in(killed), n);
    EXPECT_EQ(killed.recovered().cut_bytes, 0U) << killed.recovered().cut_why;
    EXPECT_TRUE(killed.snapshot().find(killed.find_table("big"), {n}));
  }
}

TEST_F(directories, that_a_killed_process_has_left) {
  std::filesystem::create_directories(root_ / "here");
  copy_an_open_one(root_ / "here");
  // In memory the log is written in place.
  const std::filesystem::path quick = "/dev/shm";
  if (!std::filesystem::is_directory(quick)) GTEST_SKIP() << "no files in memory";
  const auto there = quick / root_.filename();
  std::filesystem::create_directories(there);
  copy_an_open_one(there);
  std::filesystem::remove_all(there);
}

/// In memory, so that it goes with the test.
class directories_in_memory : public directories {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory("/dev/shm")) GTEST_SKIP() << "no files in memory";
    std::filesystem::create_directories(there_);
  }
  ~directories_in_memory() override {
    std::error_code ignored;
    std::filesystem::remove_all(there_, ignored);
  }
  static table& make_big(database& base) {
    return base.create_table(
        {.name = "big", .columns = {{"k", int64, primary_key}, {"words", blob()}}});
  }
  static status put(database& base, table& big, std::int64_t k, std::size_t bytes) {
    const std::string words(bytes, static_cast<char>('a' + k % 26));
    return base.transact(
        [&](transaction& tx) { return tx.insert(big, {k, blob_view(std::string_view(words))}); });
  }

  const std::filesystem::path there_ = std::filesystem::path("/dev/shm") / root_.filename();
};

/// So that no commit waits for the file to become longer.
TEST_F(directories_in_memory, have_a_log_that_is_made_longer_beforehand) {
  database base = database::open(there_ / "base", over(nullptr));
  table& big = make_big(base);
  const auto log = there_ / "base" / "log-0000000000000001.spl";
  for (std::int64_t k = 1; k <= 1200; ++k) {
    ASSERT_TRUE(put(base, big, k, 2000));
    ASSERT_GT(std::filesystem::file_size(log), base.stats().log.bytes + (256U << 10U)) << k;
  }
  std::filesystem::copy(there_ / "base", there_ / "copy");
  database killed = database::open(there_ / "copy", over(nullptr));
  EXPECT_EQ(killed.recovered().log_records, 1201U);
  EXPECT_EQ(killed.recovered().cut_bytes, 0U) << killed.recovered().cut_why;
}

TEST_F(directories_in_memory, have_what_several_threads_have_written) {
  constexpr std::int64_t threads = 4;
  constexpr std::int64_t each = 150;
  options o = over(nullptr);
  o.segment_bytes = 8U << 20U;
  {
    database base = database::open(there_ / "base", o);
    table& big = make_big(base);
    std::vector<std::thread> writers;
    for (std::int64_t n = 0; n < threads; ++n) {
      writers.emplace_back([&, n] {
        for (std::int64_t k = 0; k < each; ++k) {  // some are longer than what is made at once
          const std::size_t bytes = k % 100 == 50 ? 1'200'000 : 4000;
          EXPECT_TRUE(put(base, big, n * each + k, bytes));
          if (n == 0 && k % 100 == 0) base.checkpoint();
        }
      });
    }
    for (std::thread& w : writers) w.join();
  }
  database base = database::open(there_ / "base", o);
  const auto words = base.find_table("big").column<blob_view>("words");
  std::int64_t rows = 0;
  base.snapshot().for_each(base.find_table("big"), [&](const row& r) {
    ++rows;
    EXPECT_NE(r.get(words).size(), 0U);
  });
  EXPECT_EQ(rows, threads * each);
  EXPECT_EQ(base.recovered().cut_bytes, 0U) << base.recovered().cut_why;
}

/// The checkpoint's file has no room, and the log has: what is said is about that file.
TEST_F(directories, errors_of_checkpoints_call_their_files_and_say_what_to_do) {
  options o = over(nullptr);
  o.segment_bytes = 64U << 10U;
  o.durability = durability_level::sync;
  database base = database::open(root_ / "base", o);
  table& ledger = make_ledger(base);
  for (std::int64_t key = 1; key <= 20; ++key) {
    ASSERT_TRUE(base.transact([&](transaction& tx) {
      return tx.insert(ledger, {key, 0, nullptr, false, std::string(40U << 10U, 'x')});
    }));
  }
  struct ::rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct ::rlimit now = before;
  now.rlim_cur = 300U << 10U;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &now), 0);
  std::string what;
  std::string file;
  try {
    base.checkpoint();
  } catch (const storage_error& e) {
    what = e.what();
    file = e.file().filename().string();
    EXPECT_EQ(e.reason().value(), EFBIG);
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(file.starts_with("checkpoint-")) << what;
  EXPECT_NE(what.find(": cannot write "), what.npos) << what;
  EXPECT_NE(what.find(" bytes, of a checkpoint's file"), what.npos) << what;
  EXPECT_NE(what.find("then call checkpoint() again: "), what.npos) << what;
  EXPECT_EQ(base.storage_failure(), "") << "nothing is wrong with the log";
  EXPECT_FALSE(base.stats().log.failed);
  base.checkpoint();
}

/// A segment is opened before it gets its name.
TEST_F(directories, errors_call_files_by_the_names_that_they_have) {
  struct ::rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  options o = over(nullptr);
  o.segment_bytes = 64U << 10U;
  o.durability = durability_level::sync;
  database base = database::open(root_ / "base", o);
  table& ledger = make_ledger(base);
  // As if the disk were full from the end of the present segment on; then from later on.
  for (const rlim_t most : {rlim_t{200} << 10U, rlim_t{300} << 10U}) {
    struct ::rlimit now = before;
    now.rlim_cur = most;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &now), 0);
    std::int64_t key = static_cast<std::int64_t>(most);
    status done;
    while (done) {
      done = base.transact([&](transaction& tx) {
        return tx.insert(ledger, {++key, 0, nullptr, false, std::string(250U << 10U, 'x')});
      });
    }
    ::setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_EQ(done, outcome::storage_failed);
    const std::string why = base.storage_failure();
    const auto name = why.find("log-");
    ASSERT_NE(name, std::string::npos) << why;
    EXPECT_TRUE(std::filesystem::exists(root_ / "base" / why.substr(name, 24))) << why;
    EXPECT_EQ(why.find(".tmp"), std::string::npos) << why;
  }
  std::signal(SIGXFSZ, handler);
}

TEST_F(directories, with_something_else_in_them) {
  std::filesystem::create_directories(root_ / "base");
  std::ofstream(root_ / "base" / "notes.txt") << "mine";
  {
    database base = database::open(root_ / "base", over(nullptr));
    ASSERT_TRUE(write_down(base, make_ledger(base), 1));
  }
  EXPECT_TRUE(std::filesystem::exists(root_ / "base" / "notes.txt"));
  std::filesystem::remove(root_ / "base" / "SPOLIA");
  EXPECT_THROW(database::open(root_ / "base", over(nullptr)), storage_error)
      << "there is a log, and no telling of which database";
  EXPECT_THROW(database::open(root_ / "base" / "notes.txt", over(nullptr)), storage_error);
}

}  // namespace
