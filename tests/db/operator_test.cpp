// SPDX-License-Identifier: Apache-2.0
// What an operator does to a store without meaning to: a process without standard streams or
// descriptors; directories where files should be; paths that are long or odd; many processes that
// make one store at once.

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "db/layer_over.hpp"
#include "db/log/log_format.hpp"
#include "db/own_place.hpp"
#include "support/descriptor_limit.hpp"
#include "support/elsewhere.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

class operated : public own_place {
 protected:
  static std::int64_t seen_when_attached(const fs::path& directory) {
    const database there = database::open(directory, {.read_only = true, .attach = true});
    const table& ledger = there.find_table("ledger");
    const auto counter = there.snapshot().find(ledger, {0});
    return counter ? counter->get(ledger.column<std::int64_t>("n")) : -1;
  }
  /// Names of files of which the content is not that before, or which are new or gone.
  static std::string changed(const std::map<std::string, std::string>& before,
                             const fs::path& directory) {
    const auto now = content_of(directory);
    std::string names;
    for (const auto& [name, content] : before) {
      const auto found = now.find(name);
      if (found == now.end() || found->second != content) names += name + " ";
    }
    for (const auto& [name, content] : now) {
      if (!before.contains(name)) names += name + " ";
    }
    return names;
  }
  static bool has_temporary(const fs::path& directory) {
    const fs::directory_iterator all(directory);
    return std::any_of(begin(all), end(all),
                       [](const auto& one) { return one.path().extension() == ".tmp"; });
  }
};

// --- Standard streams ---

/// Whether one of the first three descriptors is a file or a directory of this place.
bool is_standard(const fs::path& root) {
  for (const int fd : {0, 1, 2}) {
    std::error_code none;
    const fs::path at = fs::read_symlink("/proc/self/fd/" + std::to_string(fd), none);
    if (!none && at.string().starts_with(root.string())) return true;
  }
  return false;
}

/// What such a process prints would go into the file that has the number.
TEST_F(operated, without_standard_streams) {
  const fs::path root = root_;
  const auto ended = [&](bool closed) {
    return status_of_child([&] {
      for (const int fd : {0, 1, 2}) ::close(fd);
      if (!closed) {
        for (int i = 0; i < 3; ++i) ASSERT_NE(::open(root.c_str(), O_RDONLY), -1);
        ASSERT_TRUE(is_standard(root)) << "what is looked for is found";
        return;
      }
      options o = small_segments();
      o.publish_status = true;
      o.files = std::make_shared<layer_over>(
          layer_faults{.before_change = [&] { EXPECT_FALSE(is_standard(root)); }});
      {
        database base = database::open("base", o);
        commit(base, 1, 40);
        base.checkpoint();
        base.backup("copy");
        commit(base, 41, 60);
        base.backup("copy");
        EXPECT_EQ(seen_when_attached("base"), 60);
        constexpr const char* said = "heard by none!";
        for (const int fd : {1, 2}) EXPECT_EQ(::write(fd, said, 14), -1);
        commit(base, 61, 70);
      }
      EXPECT_EQ(commits_at("base"), 70);
    });
  };
  EXPECT_EQ(ended(false), 0);
  EXPECT_EQ(ended(true), 0);
  EXPECT_EQ(commits_at("base"), 70);
  EXPECT_EQ(commits_at("copy"), 60);
}

// --- Descriptors ---

/// All descriptors that this process may have but so many.
class few_descriptors {
 public:
  explicit few_descriptors(int left) {
    for (int fd; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) != -1;) taken_.push_back(fd);
    for (; left > 0 && !taken_.empty(); --left) give_back();
  }
  few_descriptors(const few_descriptors&) = delete;
  few_descriptors& operator=(const few_descriptors&) = delete;
  ~few_descriptors() {
    while (!taken_.empty()) give_back();
  }

 private:
  void give_back() {
    ::close(taken_.back());
    taken_.pop_back();
  }
  const descriptor_limit most_{256};
  std::vector<int> taken_;
};

/// The undefined behaviour sanitizer needs one for what it looks at.
constexpr bool needs_descriptors_itself = SPOLIA_ASAN != 0;

/// Asks for it with one descriptor more each time, until there are enough. Returns how many.
int with_few_descriptors(const std::function<void()>& what, const std::function<void()>& between) {
  for (int left = 0; left < 64; ++left) {
    SCOPED_TRACE(std::to_string(left) + " descriptors");
    bool done = false;
    try {
      const few_descriptors few(left);
      what();
      done = true;
    } catch (const storage_error& e) {
      EXPECT_EQ(e.reason().value(), EMFILE) << e.what();
    }
    between();
    if (done || testing::Test::HasFailure()) return left;
  }
  ADD_FAILURE() << "so many are not needed";
  return 64;
}

TEST_F(operated, without_descriptors) {
  if (needs_descriptors_itself) GTEST_SKIP() << "the sanitizer needs some, too";
  std::int64_t last = 20;
  database base = database::open("base", small_segments());
  commit(base, 1, last);
  const auto goes_on = [&] {
    EXPECT_FALSE(base.stats().log.failed) << base.storage_failure();
    commit(base, last + 1, last + 30);  // and more than a segment
    last += 30;
    EXPECT_FALSE(has_temporary("base"));
    EXPECT_EQ(seen_when_attached("base"), last);
  };
  EXPECT_GT(with_few_descriptors([&] { base.checkpoint(); }, goes_on), 0);
  const auto nothing_half_made = [&] {
    goes_on();
    if (!fs::exists("copy")) return;
    EXPECT_FALSE(has_temporary("copy"));
    EXPECT_EQ(seen_when_attached("copy"), last - 30) << "it is there, and so it is whole";
  };
  EXPECT_GT(with_few_descriptors([&] { base.backup("copy"); }, nothing_half_made), 0);
  const auto copy_is_whole = [&] {
    goes_on();
    EXPECT_FALSE(has_temporary("copy"));
    EXPECT_GT(seen_when_attached("copy"), 0);
  };
  EXPECT_GT(with_few_descriptors([&] { base.backup("copy"); }, copy_is_whole), 0);
  EXPECT_GT(with_few_descriptors([&] { seen_when_attached("base"); }, goes_on), 0);
  const auto verified = [&] {
    const verify_report now = base.verify();
    EXPECT_TRUE(now.equal()) << now.text();
  };
  EXPECT_GT(with_few_descriptors(verified, goes_on), 0);
}

/// An opening that is refused for want of them leaves all as it was.
TEST_F(operated, without_descriptors_to_open) {
  if (needs_descriptors_itself) GTEST_SKIP() << "the sanitizer needs some, too";
  {
    database base = database::open("base", small_segments());
    commit(base, 1, 30);
  }
  auto before = content_of("base");
  bool opened = false;
  with_few_descriptors(
      [&] {
        const database base = database::open("base", small_segments());
        opened = true;
      },
      [&] {
        if (!opened) {
          EXPECT_EQ(changed(before, "base"), "");
        }
      });
  EXPECT_TRUE(opened);
  EXPECT_EQ(commits_at("base"), 30);
  opened = false;
  with_few_descriptors(
      [&] {
        const database base = database::open("new/base");
        opened = true;
      },
      [&] { EXPECT_TRUE(opened || !fs::exists("new")) << "what it has made goes again"; });
  EXPECT_TRUE(opened);
}

// --- Directories where files should be ---

TEST_F(operated, with_a_directory_in_the_place_of_a_file) {
  if (no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  {
    database base = database::open("base", small_segments());
    commit(base, 1, 20);
    base.checkpoint();
    commit(base, 21, 60);
  }
  std::vector<std::string> names;
  for (const auto& [file, content] : content_of("base")) names.push_back(file);
  std::erase(names, "reserve.spl");  // nothing needs one
  names.insert(names.end(), {"COPY", "status", "reserve.spl.tmp", "status.spl.tmp",
                             "checkpoint-00000000000000ff.spl.tmp"});
  options o = small_segments();
  o.publish_status = true;
  for (const std::string& taken : names) {
    SCOPED_TRACE(taken);
    const fs::path file = fs::path("base") / taken;
    const bool was_there = fs::exists(file);
    if (was_there) fs::rename(file, "aside");
    fs::create_directory(file);
    const auto before = content_of("base");
    for (int i = 0; i < 2; ++i) {
      const std::string why = refused([&] { database::open("base", o); });
      EXPECT_NE(why.find(taken), std::string::npos) << why;
      EXPECT_EQ(changed(before, "base"), "");
    }
    ASSERT_TRUE(fs::is_directory(file));
    fs::remove(file);
    if (was_there) fs::rename("aside", file);
    EXPECT_EQ(commits_at("base"), 60);
  }
}

/// While it is open: what would be made there is refused, and the database goes on.
TEST_F(operated, with_a_directory_in_the_way_of_the_next_file) {
  database base = database::open("base", small_segments());
  commit(base, 1, 20);
  const std::uint64_t last = base.stats().log.sequence;
  std::vector<fs::path> in_the_way;
  // Each name that the next segments and checkpoints may have.
  for (std::uint64_t n = last; n < last + 200; ++n) {
    for (const file_kind kind : {file_kind::log, file_kind::checkpoint}) {
      for (const char* end : {"", ".tmp"}) {
        in_the_way.push_back(fs::path("base") / (file_name(kind, n) + end));
        if (fs::exists(in_the_way.back())) {
          in_the_way.pop_back();
        } else {
          fs::create_directory(in_the_way.back());
        }
      }
    }
  }
  EXPECT_THROW(base.checkpoint(), storage_error);
  commit(base, 21, 100);  // several segments, if they could be made
  EXPECT_FALSE(base.stats().log.failed) << base.storage_failure();
  EXPECT_THROW(base.checkpoint(), storage_error);
  for (const fs::path& one : in_the_way) fs::remove(one);
  commit(base, 101, 140);
  base.checkpoint();
  EXPECT_EQ(seen_when_attached("base"), 140);
  EXPECT_EQ(commits_in(base), 140);
}

// --- Paths ---

TEST_F(operated, by_paths_that_are_odd) {
  const std::vector<std::string> odd = {"B\xc3\xa4nke \xe9\x93\xb6\xe8\xa1\x8c",
                                        "not \xff\xfe UTF-8",
                                        "two\nlines",
                                        " ",
                                        "-rf",
                                        "%s%n",
                                        "a'b\"c",
                                        "..."};
  for (const std::string& name : odd) {
    SCOPED_TRACE(name);
    {
      database base = database::open(fs::path(name) / "base", small_segments());
      commit(base, 1, 30);
      base.checkpoint();
      base.backup(fs::path(name) / "copy");
      EXPECT_EQ(seen_when_attached(fs::path(name) / "base"), 30);
      const std::string why = refused([&] { database::open(fs::path(name) / "base"); });
      EXPECT_NE(why.find(name), std::string::npos) << why;
    }
    EXPECT_EQ(commits_at(fs::path(name) / "base"), 30);
    EXPECT_EQ(commits_at(fs::path(name) / "copy"), 30);
  }
}

/// The longest that a system takes, so that files in there have no path of their own; and those
/// that it does not take leave nothing.
TEST_F(operated, by_paths_that_are_long) {
  fs::path deep = root_;
  while (deep.string().size() + 201 < 4080) deep /= std::string(200, 'd');
  deep /= std::string(4090 - deep.string().size() - 1, 'e');
  ASSERT_EQ(deep.string().size(), 4090U);
  {
    database base = database::open(deep, small_segments());
    commit(base, 1, 60);
    base.checkpoint();
    commit(base, 61, 80);
    base.backup("copy");
    EXPECT_EQ(seen_when_attached(deep), 80);
  }
  EXPECT_EQ(commits_at(deep), 80);
  EXPECT_EQ(commits_at("copy"), 80);
  const auto before = fs::directory_iterator(root_);
  const auto entries = std::distance(begin(before), end(before));
  for (const fs::path& bad :
       {fs::path("new") / std::string(300, 'n'), fs::path("new") / std::string(5000, 'n'),
        fs::path("new") / deep.relative_path()}) {
    EXPECT_NE(refused([&] { database::open(bad); }), "");
    database from = database::open("copy");
    EXPECT_NE(refused([&] { from.backup(bad); }), "");
  }
  const auto after = fs::directory_iterator(root_);
  EXPECT_EQ(std::distance(begin(after), end(after)), entries) << "the directories above go again";
}

// --- Many processes that open it ---

/// Each of some processes makes it, or opens what another one has made, and adds its row.
TEST_F(operated, by_many_processes_at_once) {
  constexpr int processes = 5;
  const int rounds = tries(80);
  for (int round = 0; round < rounds; ++round) {
    const fs::path where = fs::path("round" + std::to_string(round)) / "base";
    std::vector<pid_t> all;
    std::array<int, 2> start{};
    ASSERT_EQ(::pipe(start.data()), 0);
    for (int p = 0; p < processes; ++p) {
      const pid_t child = ::fork();
      if (child != 0) {
        all.push_back(child);
        continue;
      }
      ::alarm(300);
      ::close(start[1]);
      char none = 0;
      static_cast<void>(!::read(start[0], &none, 1));  // until all are there
      for (;;) {
        try {
          database base = database::open(where);
          if (base.tables().empty()) {
            base.create_table({.name = "t", .columns = {{"k", int64, primary_key}}});
          }
          table& t = base.find_table("t");
          const status s = base.transact([&](transaction& tx) { return tx.insert(t, {p}); });
          ::_exit(s ? 0 : 1);  // as if it was killed
        } catch (const storage_error& e) {
          // Another process has it, or its directory has just gone again.
          const bool taken = std::string(e.what()).find("open elsewhere") != std::string::npos;
          const bool gone = e.reason().value() == ENOENT ||
                            std::string(e.what()).find("SPOLIA was") != std::string::npos;
          if (!taken && !gone) ::_exit(2);
        } catch (...) {
          ::_exit(3);
        }
        ::usleep(200);
      }
    }
    for (const int end : start) ::close(end);
    for (const pid_t child : all) {
      int how = -1;
      EXPECT_EQ(::waitpid(child, &how, 0), child);
      ASSERT_EQ(how, 0);
    }
    const database base = database::open(where, {.read_only = true});
    int rows = 0;
    base.snapshot().for_each(base.find_table("t"), [&](const row&) { ++rows; });
    EXPECT_EQ(rows, processes);
  }
}

}  // namespace
