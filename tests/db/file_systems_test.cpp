// SPDX-License-Identifier: Apache-2.0
// File systems that lack something: locks, or a way to make names durable. The program has calls of
// the system of its own, which answer as such file systems do.

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "db/layer_over.hpp"
#include "db/own_place.hpp"
#include "support/sanitized.hpp"

namespace {
int flock_answers = 0;           // as errno; 0: as the system does
int directory_sync_answers = 0;  // the same
std::function<void(const struct stat&)> after_directory_sync;
}  // namespace

extern "C" int flock(int fd, int how) {
  if (flock_answers != 0) {
    errno = flock_answers;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_flock, fd, how));
}
extern "C" int fsync(int fd) {
  struct stat s{};
  const bool directory = ::fstat(fd, &s) == 0 && S_ISDIR(s.st_mode);
  if (directory_sync_answers != 0 && directory) {
    errno = directory_sync_answers;
    return -1;
  }
  const auto answer = static_cast<int>(::syscall(SYS_fsync, fd));
  if (answer == 0 && directory && after_directory_sync) after_directory_sync(s);
  return answer;
}

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

class file_systems : public own_place {
 protected:
  ~file_systems() override {
    flock_answers = 0;
    directory_sync_answers = 0;
    after_directory_sync = nullptr;
  }
  static options without_locks() {
    layer_faults faults;
    faults.no_locks = true;
    return over(std::make_shared<layer_over>(faults));
  }
  static bool says_open_elsewhere(const options& o) {
    return refused([&] { database::open("bank", o); }).find("is open elsewhere") !=
           std::string::npos;
  }
  static int in_child(const std::function<int()>& f) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(f());
    int how = 0;
    EXPECT_EQ(::waitpid(child, &how, 0), child);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
  }
  /// A process that has the database open, until it is killed. Its first thread may end before.
  static pid_t process_that_has_it(const options& o, bool first_ends = false) {
    std::array<int, 2> pipe{};
    EXPECT_EQ(::pipe(pipe.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      database base = database::open("bank", o);
      if (::write(pipe[1], "x", 1) != 1) ::_exit(1);
      if (first_ends) {
        std::thread([] {
          for (;;) ::pause();
        }).detach();
        ::syscall(SYS_exit, 0);  // of the thread alone
      }
      for (;;) ::pause();
    }
    char open = 0;
    EXPECT_EQ(::read(pipe[0], &open, 1), 1);
    ::close(pipe[0]);
    ::close(pipe[1]);
    return child;
  }
  static void wait_for_its_end(pid_t child) {
    siginfo_t how{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &how, WEXITED | WNOWAIT), 0);
  }
  static std::vector<std::string> lock_files(const fs::path& directory) {
    std::vector<std::string> all;
    for (const auto& [name, content] : content_of(directory)) {
      if (name.starts_with("LOCK")) all.push_back(name);
    }
    return all;
  }
  /// A file like that of this process, but for its n-th part.
  static std::string other_lock(std::size_t part) {
    std::string name;
    {
      const database base = database::open("bank", without_locks());
      name = lock_files("bank").at(0);
    }
    std::size_t at = 0;
    for (std::size_t n = 0; n <= part; ++n) at = name.find('-', at) + 1;
    name[at] = name[at] == '1' ? '2' : '1';
    std::ofstream("bank/" + name).flush();
    return name;
  }
};

/// However a directory is guarded, one process has it, or any number to be read.
void expect_guarded(const options& o, const std::function<bool(const options&)>& elsewhere,
                    bool readers_count) {
  options look = o;
  look.read_only = true;
  auto base = std::make_unique<database>(database::open("bank", o));
  EXPECT_TRUE(elsewhere(o)) << "twice by this process";
  EXPECT_TRUE(elsewhere(look));
  base.reset();
  {
    const database one = database::open("bank", look);
    const database two = database::open("bank", look);
    EXPECT_EQ(elsewhere(o), readers_count);
  }
  EXPECT_FALSE(elsewhere(o)) << "no process has it any more";
}

TEST_F(file_systems, without_flock_have_other_locks) {
  if (no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  for (const int answer : {ENOLCK, ENOTSUP, ENOSYS, EINVAL}) {
    SCOPED_TRACE(answer);
    fs::remove_all("bank");
    flock_answers = answer;
    const options o = over(nullptr);
    expect_guarded(o, says_open_elsewhere, true);
    auto base = std::make_unique<database>(database::open("bank", o));
    EXPECT_EQ(base->recovered().guard, directory_guard::lock);
    EXPECT_EQ(lock_files("bank"), std::vector<std::string>());
    EXPECT_EQ(in_child([&] { return says_open_elsewhere(o) ? 7 : 8; }), 7);
    // A child that destroys what it has from its parent ends no lock, and one that lives keeps
    // none.
    EXPECT_EQ(in_child([&] { return base.reset(), 7; }), 7);
    EXPECT_TRUE(says_open_elsewhere(o));
    const pid_t idle = ::fork();
    if (idle == 0) {
      for (;;) ::pause();
    }
    base.reset();
    EXPECT_FALSE(says_open_elsewhere(o));
    ::kill(idle, SIGKILL);
    ::waitpid(idle, nullptr, 0);
  }
}

TEST_F(file_systems, that_fail_to_lock_are_told_from_those_without_locks) {
  flock_answers = EIO;
  EXPECT_NE(refused([] { database::open("bank", over(nullptr)); }).find("cannot lock"),
            std::string::npos);
}

TEST_F(file_systems, without_any_locks_have_files_that_say_who_has_them) {
  if (no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  const options o = without_locks();
  expect_guarded(o, says_open_elsewhere, false);
  auto base = std::make_unique<database>(database::open("bank", o));
  EXPECT_EQ(base->recovered().guard, directory_guard::lock_file);
  commit(*base, 1, 2);
  EXPECT_EQ(lock_files("bank").size(), 1U);
  EXPECT_EQ(in_child([&] { return says_open_elsewhere(o) ? 7 : 8; }), 7);
  EXPECT_EQ(in_child([&] { return base.reset(), 7; }), 7);
  EXPECT_TRUE(says_open_elsewhere(o)) << "a child has ended what its parent has";
  // No process has the copy of the directory open, whatever was copied with it.
  fs::copy("bank", "copy");
  {
    options look = o;
    look.read_only = true;
    database copy = database::open("copy", look);
    EXPECT_EQ(commits_in(copy), 2);
    EXPECT_EQ(lock_files("copy").size(), 1U) << "it is as it was";
  }
  database copy = database::open("copy", o);
  EXPECT_EQ(commits_in(copy), 2);
  EXPECT_EQ(lock_files("copy").size(), 1U);
  base.reset();
  EXPECT_EQ(lock_files("bank").size(), 0U);
}

TEST_F(file_systems, without_any_locks_forget_processes_that_have_ended) {
  if (no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  const options o = without_locks();
  for (const bool asked_for : {false, true}) {
    const pid_t child = process_that_has_it(o);
    EXPECT_TRUE(says_open_elsewhere(o));
    ::kill(child, SIGKILL);
    wait_for_its_end(child);
    if (asked_for) ::waitpid(child, nullptr, 0);
    EXPECT_EQ(lock_files("bank").size(), 1U);
    EXPECT_FALSE(says_open_elsewhere(o));
    EXPECT_EQ(lock_files("bank").size(), 0U);
    if (!asked_for) ::waitpid(child, nullptr, 0);
  }
  // A process of which only the first thread has ended is called a zombie, too.
  const pid_t lives = process_that_has_it(o, true);
  const std::string state = "/proc/" + std::to_string(lives) + "/stat";
  while (text_of(state).find(") Z ") == std::string::npos) std::this_thread::yield();
  EXPECT_TRUE(says_open_elsewhere(o));
  ::kill(lives, SIGKILL);
  ::waitpid(lives, nullptr, 0);
  EXPECT_FALSE(says_open_elsewhere(o));
  // Before the machine was started anew; and one that had the number of this process.
  for (const std::size_t part : {2U, 5U}) {
    const std::string name = other_lock(part);
    EXPECT_EQ(refused([&] { database::open("bank", o); }), "");
    EXPECT_FALSE(fs::exists("bank/" + name));
  }
}

TEST_F(file_systems, without_any_locks_are_refused_where_the_owner_may_live) {
  options o = without_locks();
  for (const std::size_t part : {1U, 3U}) {
    const std::string name = other_lock(part);
    for (const bool read_only : {false, true}) {
      o.read_only = read_only;
      o.allow_without_lock = false;
      const std::string why = refused([&] { database::open("bank", o); });
      EXPECT_NE(why.find(name), std::string::npos) << why;
      EXPECT_NE(why.find(part == 1 ? "on another machine" : "in another container"),
                std::string::npos)
          << why;
      EXPECT_NE(why.find("allow_without_lock"), std::string::npos) << why;
      o.allow_without_lock = true;
      EXPECT_EQ(database::open("bank", o).recovered().guard, directory_guard::nothing);
    }
    EXPECT_EQ(lock_files("bank"), std::vector<std::string>{name});
    // The option is for what cannot be told, not for what can.
    o.read_only = false;
    const database base = database::open("bank", o);
    EXPECT_TRUE(says_open_elsewhere(o));
    fs::remove("bank/" + name);
  }
}

/// Without /proc there is no telling which processes live.
TEST_F(file_systems, without_any_locks_need_a_system_that_knows_its_processes) {
  const int how = in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", "/proc", "tmpfs", 0, nullptr) != 0) {
      return 9;
    }
    options o = without_locks();
    const std::string why = refused([&] { database::open("bank", o); });
    if (why.find("allow_without_lock") == std::string::npos) return 1;
    o.allow_without_lock = true;
    return database::open("bank", o).recovered().guard == directory_guard::nothing ? 0 : 2;
  });
  if (how == 9) GTEST_SKIP() << "needs root, to mount";
  EXPECT_EQ(how, 0);
}

TEST_F(file_systems, that_cannot_make_names_durable_are_served) {
  for (const int answer : {EINVAL, ENOTSUP}) {
    SCOPED_TRACE(answer);
    fs::remove_all("above");
    fs::remove_all("copy");
    directory_sync_answers = answer;
    for (const durability_level level : {durability_level::sync, durability_level::none}) {
      options o = small_segments();
      o.durability = level;
      database base = database::open("above/bank", o);
      EXPECT_FALSE(base.recovered().durable_names);
      if (level == durability_level::none) continue;
      commit(base, 1, 100);
      EXPECT_GT(base.checkpoint().removed_files, 1U);
      base.backup("copy");
      commit(base, 101, 110);
      EXPECT_TRUE(base.backup("copy").incremental);
    }
    EXPECT_EQ(commits_at("above/bank"), 110);
    EXPECT_EQ(commits_at("copy"), 110);
    directory_sync_answers = 0;
    EXPECT_TRUE(database::open("above/bank", over(nullptr)).recovered().durable_names);
  }
  directory_sync_answers = EIO;
  EXPECT_NE(refused([] { database::open("above/bank", over(nullptr)); }), "");
}

/// By links and other paths to it, too, here and in another process, however it is guarded.
TEST_F(file_systems, guard_a_directory_by_whatever_name_it_is_opened) {
  for (const options& o : {over(nullptr), without_locks()}) {
    fs::remove_all("bank");
    fs::remove_all("elsewhere");
    fs::create_directories("elsewhere/deep");
    fs::create_directory_symlink("../bank", "elsewhere/link");
    auto base = std::make_unique<database>(database::open("bank", o));
    const std::vector<fs::path> names = {"./bank/", "elsewhere/../bank", "elsewhere/link",
                                         "elsewhere/link/", fs::current_path() / "bank"};
    const auto refused_there = [&](const fs::path& name) {
      const std::string why = refused([&] { database::open(name, o); });
      return why.find("is open elsewhere") != std::string::npos;
    };
    for (const fs::path& name : names) {
      EXPECT_TRUE(refused_there(name)) << name;
      EXPECT_EQ(in_child([&] { return refused_there(name) ? 0 : 1; }), 0) << name;
    }
    commit(*base, 1, 3);
    base.reset();
    for (const fs::path& name : names) EXPECT_EQ(commits_at(name), 3) << name;
  }
}

/// A loss of power that takes the name of a directory takes the database below it. So each name is
/// durable before anything is acknowledged: those of directories that the opening makes, and those
/// that another program has made, or a process that has ended before it came to that.
TEST_F(file_systems, have_durable_names_of_all_directories_above) {
  const fs::path bank = fs::current_path() / "a/b/c/bank";
  for (const char* const there : {"", "a", "a/b", "a/b/c", "a/b/c/bank"}) {
    SCOPED_TRACE(there);
    fs::remove_all("a");
    if (*there != 0) fs::create_directories(there);
    // Of each directory, those that it had when it was synced.
    std::map<std::string, std::set<std::string>> durable;
    after_directory_sync = [&](const struct stat& s) {
      fs::path name = bank.parent_path();
      for (; name.has_relative_path(); name = name.parent_path()) {
        struct stat mine{};
        if (::stat(name.c_str(), &mine) != 0 || mine.st_ino != s.st_ino) continue;
        for (const auto& one : fs::directory_iterator(name)) {
          durable[name].insert(one.path().filename());
        }
      }
    };
    database base = database::open("a/b/c/bank", over(nullptr));
    commit(base, 1, 1);
    for (fs::path name = bank; name != fs::current_path().parent_path();
         name = name.parent_path()) {
      EXPECT_TRUE(durable[name.parent_path()].contains(name.filename())) << name;
    }
    // Once is enough.
    durable.clear();
    commit(base, 2, 4);
    EXPECT_TRUE(durable.empty());
    after_directory_sync = nullptr;
  }
}

}  // namespace
