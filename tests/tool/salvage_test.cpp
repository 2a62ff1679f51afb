// SPDX-License-Identifier: Apache-2.0
// The program brings out what is whole of a damaged store.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <spolia/db.hpp>

#include "tool/people.hpp"
#include "tool/program.hpp"

namespace {

using namespace tool_test;
namespace db = spolia::db;

/// The last segment of the bank, with one bit flipped in its first record.
class tool_salvage : public tool_program {
 protected:
  tool_salvage() {
    make_bank();
    write_text(here / "more.csv", "id,name\n4,Di\n5,Ed\n");
    EXPECT_EQ(good({"load", "bank", "more.csv", "--table", "people", "--batch", "1"}),
              "2 rows inserted\n");
    for (const auto& one : fs::directory_iterator(here / "bank")) {
      if (one.path().filename().string().starts_with("log-")) log_ = one.path();
    }
  }
  void damage() const {
    std::string bytes = read_text(log_);
    bytes[110] = static_cast<char>(bytes[110] ^ 4);
    write_text(log_, bytes);
  }
  /// Names, bytes and times of change.
  [[nodiscard]] std::string state() const {
    std::vector<std::string> all;
    for (const auto& one : fs::directory_iterator(here / "bank")) {
      const auto time = fs::last_write_time(one.path()).time_since_epoch().count();
      all.push_back(one.path().string() + std::to_string(time) + read_text(one.path()));
    }
    all.push_back(std::to_string(fs::last_write_time(here / "bank").time_since_epoch().count()));
    std::sort(all.begin(), all.end());
    std::string together;
    for (const std::string& s : all) together += s;
    return together;
  }

  fs::path log_;
};

TEST_F(tool_salvage, brings_out_what_is_whole_and_says_what_is_missing) {
  damage();
  bad(1, "spolia salvage", {"check", "bank"});
  bad(1, "spolia salvage", {"dump", "bank", "d"});
  const std::string before = state();
  const ended dry = run({"salvage", "bank", "--dry-run", "--json"});
  EXPECT_EQ(dry.code, 3) << dry.err;
  EXPECT_NE(dry.out.find(R"("missing":[{"first":2,"last":2}])"), std::string::npos) << dry.out;
  EXPECT_NE(dry.out.find(R"("complete":false)"), std::string::npos) << dry.out;
  EXPECT_EQ(dry.out.find('\n'), dry.out.size() - 1) << dry.out;
  EXPECT_FALSE(fs::exists(here / "new"));
  const ended e = run({"salvage", "bank", "new"});
  EXPECT_EQ(e.code, 3) << e.err;
  EXPECT_EQ(e.err.find('\n'), e.err.size() - 1) << e.err;
  EXPECT_NE(e.out.find(log_.filename().string() + " at 64, "), std::string::npos) << e.out;
  EXPECT_NE(e.out.find("missing      change 2\n"), std::string::npos) << e.out;
  EXPECT_NE(e.out.find("3 rows may be older than change 2"), std::string::npos) << e.out;
  EXPECT_EQ(state(), before);
  EXPECT_NE(good({"check", "new"}).find("4 rows"), std::string::npos);
  EXPECT_EQ(csv("new"), people + "5,Ed,\r\n");
  EXPECT_EQ(good({"load", "new", "more.csv", "--table", "people", "--on-conflict", "skip"}),
            "1 row inserted, 1 skipped\n");
}

TEST_F(tool_salvage, is_named_by_what_finds_the_store_damaged) {
  const std::string identity = read_text(here / "bank/SPOLIA");
  const std::string rows = csv("bank");
  // In its first line, its format, and its number: to a digit, and to none.
  for (const std::size_t at : {3U, 18U, 30U, 40U}) {
    for (const char bit : {'\x01', '\x40'}) {
      std::string damaged = identity;
      damaged[at] = static_cast<char>(damaged[at] ^ bit);
      write_text(here / "bank/SPOLIA", damaged);
      for (const char* command : {"info", "check"}) {
        bad(1, "; spolia salvage makes a new store", {command, "bank"});
      }
      bad(1, "; spolia salvage makes a new store", {"dump", "bank", "d"});
      static_cast<void>(good({"salvage", "bank", "new"}));
      EXPECT_EQ(csv("new"), rows);
      fs::remove_all(here / "new");
    }
  }
}

TEST_F(tool_salvage, brings_nothing_out_of_a_newer_format) {
  std::string identity = read_text(here / "bank/SPOLIA");
  identity[23] = '7';
  write_text(here / "bank/SPOLIA", identity);
  // Headers of data files would say that SPOLIA is damaged.
  for (const fs::path& file : std::vector<fs::path>(fs::directory_iterator(here / "bank"), {})) {
    if (file.extension() == ".spl") fs::remove(file);
  }
  const std::string before = state();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"salvage", "bank", "new"}, {"salvage", "bank", "--dry-run"}}) {
    const ended e = run(words);
    EXPECT_EQ(e.code, 5);
    EXPECT_EQ(e.out, "");
    EXPECT_NE(e.err.find("7, which is newer: it knows 1 to "), std::string::npos) << e.err;
    EXPECT_FALSE(fs::exists(here / "new"));
    EXPECT_EQ(state(), before);
  }
}

TEST_F(tool_salvage, names_a_file_once) {
  damage();
  fs::remove(log_);
  fs::create_directory(log_);
  const ended e = run({"salvage", "bank", "--dry-run"});
  EXPECT_EQ(e.code, 3) << e.err;
  const std::string name = log_.filename().string();
  EXPECT_NE(e.out.find("damage       " + name + ": is not a regular file"), std::string::npos)
      << e.out;
  EXPECT_NE(e.out.find(": Is a directory"), std::string::npos) << e.out;
  EXPECT_EQ(e.out.find("spolia::db"), std::string::npos) << e.out;
}

TEST_F(tool_salvage, says_so_if_nothing_is_missing) {
  fs::create_directory(here / "empty");
  for (const char* to : {"new", "empty"}) {
    const ended e = run({"salvage", "bank", to});
    EXPECT_EQ(e.code, 0) << e.err;
    EXPECT_EQ(e.err, "");
    EXPECT_EQ(csv(to), csv("bank"));
  }
  fs::remove(here / "bank/SPOLIA");
  bad(1, "no file SPOLIA", {"check", "bank"});
  EXPECT_EQ(run({"salvage", "bank", "third"}).code, 0);
  EXPECT_EQ(csv("third"), csv("new"));
}

/// A monitor tells it from damage.
TEST_F(tool_salvage, is_not_needed_for_a_torn_end) {
  const std::string whole = read_text(log_);
  write_text(log_, whole + "SPLR and half of a record");
  bad(4, "a torn end, and good before it: from " + std::to_string(whole.size()) + " on, 25 bytes",
      {"check", "bank"});
  EXPECT_NE(good({"info", "bank"}).find("torn end     25 bytes"), std::string::npos);
  for (const char* to : {"copy", "copy", "-"}) {  // made, brought up to date, and a stream
    const ended e = run({"backup", "bank", to});
    EXPECT_EQ(e.code, 0) << e.err;
    EXPECT_TRUE(e.err.starts_with("spolia: ")) << e.err;
    EXPECT_NE(e.err.find(": a torn end, and good before it: "), std::string::npos) << e.err;
    EXPECT_EQ(e.err.find('\n'), e.err.size() - 1) << e.err;
  }
  damage();
  bad(1, "spolia salvage", {"check", "bank"});
}

TEST_F(tool_salvage, refuses_what_makes_no_sense) {
  bad(2, "bank is the folder of the store", {"salvage", "bank", "bank"});
  bad(2, "name the new folder, or give --dry-run", {"salvage", "bank"});
  bad(2, "not the folder", {"salvage", "nothing", "new"});
  fs::create_directory(here / "letters");
  bad(1, "no database", {"salvage", "letters", "new"});
  const db::database mine = db::database::open(here / "bank");
  bad(1, "use a copy", {"salvage", "bank", "new"});
}

}  // namespace
