// SPDX-License-Identifier: Apache-2.0
// The program without standard streams, or with full ones: nothing that it says gets into a store,
// and where it cannot say what was done, it says that; and a program that it watches while the
// system's clock is set.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <spolia/db.hpp>
#include <spolia/db/store_status.hpp>

#include "tool/program.hpp"

namespace {

using namespace tool_test;
namespace db = spolia::db;

class tool_streams : public program {
 protected:
  tool_streams() {
    write_text(here / "schema.json",
               R"({"spolia_dump":1,"tables":[{"name":"people","primary":"hash","columns":[)"
               R"({"name":"id","type":"int64","key":true}],"indexes":[]}]})");
    write_text(here / "people.csv", "id\r\n1\r\n2\r\n3\r\n");
    make("bank");
  }
  void make(const std::string& name) const {
    EXPECT_EQ(good({"load", name, "people.csv", "--table", "people", "--schema", "schema.json"}),
              "3 rows inserted\n");
  }
  [[nodiscard]] std::string csv(const std::string& store) const {
    return good({"dump", store, "-", "--table", "people", "--format", "csv"});
  }
  /// Of a line of the shell, in the folder; 'spolia' is the program.
  [[nodiscard]] int shell(std::string line) const {
    const std::string name = "spolia";
    line.replace(line.find(name), name.size(), SPOLIA_PROGRAM);
    const int how = std::system(("cd " + here.string() + " && " + line).c_str());
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
  }
};

const std::vector<std::string> commands_that_say_something = {
    "spolia info bank",
    "spolia check bank",
    "spolia dump bank new",
    "spolia dump bank - --table people --format csv",
    "spolia load bank more.csv --table people",
    "spolia load new people.csv --table people --schema schema.json",
    "spolia backup bank new",
    "spolia backup bank copy",
    "spolia backup bank -",
    "spolia restore copy new",
    "spolia salvage bank new",
    "spolia top shown --times 1 --interval 0.01",
    "spolia --version",
    "spolia load --help"};

/// How the streams are, in words of a shell, and whether standard output is heard.
struct some_streams {
  std::string words;
  bool heard;
};
const std::vector<some_streams> odd_streams = {{">/dev/full 2>err", false},
                                               {">&- 2>err", false},
                                               {"<&- >out 2>err", true},
                                               {">out 2>&-", true},
                                               {"<&- >&- 2>&-", false}};

/// By how much a command has lowered its priority, as is seen when it has ended.
int lowered_by(pid_t child) {
  siginfo_t how{};
  EXPECT_EQ(waitid(P_PID, static_cast<id_t>(child), &how, WEXITED | WNOWAIT), 0);
  const int its = getpriority(PRIO_PROCESS, static_cast<id_t>(child));
  return its - getpriority(PRIO_PROCESS, 0);
}

TEST_F(tool_streams, commands_that_look_at_a_store_let_its_program_go_first) {
  for (const char* const command : {"info", "check", "dump", "backup"}) {
    for (const int by : {10, 3, 0}) {
      std::vector<std::string> words = {command, "bank"};
      if (command[0] == 'd' || command[0] == 'b') words.push_back(command + std::to_string(by));
      if (by != 10) words.insert(words.end(), {"--nice", std::to_string(by)});
      const pid_t child = start(words);
      EXPECT_EQ(lowered_by(child), by) << command;
      EXPECT_EQ(wait(child).code, 0) << command;
    }
  }
  // The others have what they look at for themselves.
  const auto takes_no_step_back = [&](const std::vector<std::string>& words, int code,
                                      const std::string& input = "/dev/null") {
    const pid_t child = start(words, input);
    EXPECT_EQ(lowered_by(child), 0) << words[0];
    EXPECT_EQ(wait(child).code, code) << words[0];
  };
  takes_no_step_back({"load", "bank", "people.csv", "--table", "people"}, 1);  // they are there
  takes_no_step_back({"restore", "backup0", "restored"}, 0);
  EXPECT_EQ(shell("spolia backup bank - > stream 2>err"), 0);
  takes_no_step_back({"restore", "-", "restored too"}, 0, "stream");
  takes_no_step_back({"salvage", "bank", "salvaged"}, 0);
  takes_no_step_back({"top", "bank", "--times", "1"}, 1);  // no program has it
  bad(2, "--nice", {"info", "bank", "--nice", "20"});
  bad(2, "--nice", {"info", "bank", "--nice", "-1"});
}

TEST_F(tool_streams, that_are_closed_or_full_are_told_and_nothing_gets_into_a_store) {
  static_cast<void>(good({"backup", "bank", "copy"}));
  make("shown");
  db::database shown = db::database::open(here / "shown", {.publish_status = true});
  std::size_t rows = 3;
  for (const std::string& command : commands_that_say_something) {
    const bool loads = command.find("more.csv") != std::string::npos;
    for (const auto& [streams, heard] : odd_streams) {
      SCOPED_TRACE(command + " " + streams);
      fs::remove_all(here / "new");
      write_text(here / "err", "");
      if (loads) write_text(here / "more.csv", "id\n" + std::to_string(++rows) + "\n");
      EXPECT_EQ(shell(command + " " + streams), heard ? 0 : 1);
      const std::string err = read_text(here / "err");
      if (!heard && streams.find("2>err") != std::string::npos) {
        EXPECT_TRUE(err.starts_with("spolia: cannot write")) << err;
        EXPECT_NE(err.find("standard output: "), std::string::npos) << err;
        EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
      } else {
        EXPECT_EQ(err, "");
      }
    }
    SCOPED_TRACE(command);
    EXPECT_NE(good({"check", "bank"}).find("good"), std::string::npos);
    const std::string all = csv("bank");
    EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), static_cast<std::ptrdiff_t>(rows) + 1);
  }
}

/// What goes wrong is printed, too.
TEST_F(tool_streams, that_are_closed_get_no_error_into_a_store) {
  write_text(here / "bad.csv", "id\n7\nseven\n");
  for (const std::string streams : {"2>&-", "2>/dev/full", "<&- >&- 2>&-"}) {
    SCOPED_TRACE(streams);
    EXPECT_EQ(shell("spolia load bank bad.csv --table people --progress always " + streams), 1);
    EXPECT_EQ(shell("spolia load new bad.csv --table people --schema schema.json " + streams), 1);
    EXPECT_EQ(shell("spolia nothing " + streams), 2);
    EXPECT_NE(good({"check", "bank"}).find("good"), std::string::npos);
  }
  EXPECT_EQ(shell("spolia check bank --progress always >out 2>/dev/full"), 0)
      << "a bar that is not seen ends nothing";
}

/// Standard input that is closed is none that is empty.
TEST_F(tool_streams, that_are_closed_have_nothing_to_load) {
  for (const char* line : {"spolia load bank - --table people --format csv <&- >out 2>err",
                           "spolia restore - new <&- >out 2>err"}) {
    EXPECT_EQ(shell(line), 1) << line;
    const std::string err = read_text(here / "err");
    EXPECT_TRUE(err.starts_with("spolia: cannot read standard input: Bad file descriptor")) << err;
    EXPECT_FALSE(fs::exists(here / "new"));
  }
}

/// A limit on the size of files is a disk that is full, and not the end of the program.
TEST_F(tool_streams, and_files_that_may_not_be_long_are_told) {
  std::string rows = "id\n";
  for (int i = 10; i < 3000; ++i) rows += std::to_string(i) + "\n";
  write_text(here / "many.csv", rows);
  for (const std::string line : {"spolia load new many.csv --table people --schema schema.json",
                                 "spolia backup many new", "spolia salvage many new"}) {
    if (line.find(" many ") != std::string::npos && !fs::exists(here / "many")) {
      static_cast<void>(
          good({"load", "many", "many.csv", "--table", "people", "--schema", "schema.json"}));
    }
    // Of 16 blocks of 512 bytes.
    EXPECT_EQ(shell("(ulimit -f 16; " + line + " >out 2>err)"), 1) << line;
    const std::string err = read_text(here / "err");
    EXPECT_NE(err.find("File too large"), std::string::npos) << err;
    EXPECT_FALSE(fs::exists(here / "new"));
    for (const std::string& name : names()) EXPECT_EQ(name.find("partial"), std::string::npos);
  }
}

/// The words of the file `status`, as docs/tool.md says.
void set_the_clock(const fs::path& status, std::int64_t seconds) {
  std::string text = read_text(status);
  std::vector<std::uint64_t> words(text.size() / 8);
  std::memcpy(words.data(), text.data(), text.size());
  // The mark, the version, the process; when it was opened, and when this was written.
  for (const std::size_t i : {3U, 4U}) {
    words[i] += static_cast<std::uint64_t>(seconds * 1'000'000'000);
  }
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    sum = (sum ^ words[i]) * 0x9E37'79B9'7F4A'7C15U;
    sum ^= sum >> 29U;
  }
  words.back() = sum;
  std::memcpy(text.data(), words.data(), text.size());
  write_text(status, text);
}

TEST_F(tool_streams, of_a_store_whose_clock_was_set_have_no_absurd_age) {
  db::database base = db::database::open(here / "bank", {.publish_status = true});
  const db::reader held = base.snapshot("held");
  for (const std::int64_t day : {86400, -86400}) {
    base.publish_status();
    set_the_clock(here / "bank" / "status", day);
    ASSERT_TRUE(db::read_status(here / "bank"));
    const std::string shown = good({"top", "bank", "--times", "1", "--interval", "0.01"});
    const auto at = shown.find("open for ");
    ASSERT_NE(at, std::string::npos) << shown;
    EXPECT_LT(std::atof(shown.c_str() + at + 9), 20000) << shown;
    const auto silent = shown.find("nothing new for ");
    if (silent != std::string::npos) {
      EXPECT_LT(std::atof(shown.c_str() + silent + 16), 20000) << shown;
    }
  }
}

}  // namespace
