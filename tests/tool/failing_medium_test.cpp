// SPDX-License-Identifier: Apache-2.0
// What the program answers where the medium does not: that is no damage, and says nothing about the
// store.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <spolia/db.hpp>

#include "tool/program.hpp"

namespace {

using namespace tool_test;
namespace stores = spolia::db;

/// While it lives, what is started cannot read such files from a place on.
class unreadable {
 public:
  unreadable(const std::string& path, std::size_t at) {
    ::setenv("SPOLIA_UNREADABLE", path.c_str(), 1);
    ::setenv("SPOLIA_UNREADABLE_AT", std::to_string(at).c_str(), 1);
    ::setenv("LD_PRELOAD", SPOLIA_FAILING_MEDIUM, 1);
  }
  ~unreadable() {
    for (const char* name : {"SPOLIA_UNREADABLE", "SPOLIA_UNREADABLE_AT", "LD_PRELOAD"}) {
      ::unsetenv(name);
    }
  }
  unreadable(const unreadable&) = delete;
  unreadable& operator=(const unreadable&) = delete;
};

class failing_medium : public program {
 protected:
  /// A checkpoint, and a log after it.
  failing_medium() {
    stores::database base = stores::database::open(here / "bank");
    stores::table& t = base.create_table(
        {.name = "people", .columns = {{"id", stores::int64, stores::primary_key}}});
    const auto add = [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t id = first; id < end; ++id) {
        EXPECT_TRUE(base.transact([&](stores::transaction& tx) { return tx.insert(t, {id}); }));
      }
    };
    add(0, 50);
    fs::create_directory(here / "before");
    for (const auto& one : fs::directory_iterator(here / "bank")) {
      const std::string name = one.path().filename().string();
      if (name.starts_with("log-")) fs::create_hard_link(one.path(), here / "before" / name);
    }
    base.checkpoint();
    add(50, 300);
  }
  /// What a command says that ends in this way, in one line that names the file, the place and what
  /// the system says.
  void cannot_look(const std::vector<std::string>& words, const std::string& file,
                   std::size_t at) const {
    SCOPED_TRACE(words.front() + " " + file);
    const unreadable now(file, at);
    const ended e = run(words);
    EXPECT_EQ(e.code, 5) << e.err;
    EXPECT_TRUE(e.err.starts_with("spolia: ")) << e.err;
    EXPECT_EQ(e.err.find('\n'), e.err.size() - 1) << e.err;
    EXPECT_NE(e.err.find(file), std::string::npos) << e.err;
    EXPECT_NE(e.err.find(" at " + std::to_string(at) + ": cannot read: Input/output error"),
              std::string::npos)
        << e.err;
    EXPECT_EQ(e.err.find("salvage"), std::string::npos) << e.err;
    EXPECT_EQ(e.err.find("damaged"), std::string::npos) << e.err;
  }
};

TEST_F(failing_medium, a_folder_whose_name_may_go_is_said_to_be_whole) {
  ::setenv("SPOLIA_UNSYNCED", fs::canonical(here).c_str(), 1);
  ::setenv("LD_PRELOAD", SPOLIA_FAILING_MEDIUM, 1);
  const ended e = run({"dump", "bank", "rows"});
  ::unsetenv("LD_PRELOAD");
  ::unsetenv("SPOLIA_UNSYNCED");
  EXPECT_EQ(e.code, 5) << e.err;
  EXPECT_NE(e.err.find("Input/output error; rows is whole; that its name stays"), std::string::npos)
      << e.err;
  static_cast<void>(good({"load", "again", "rows"}));
}

TEST_F(failing_medium, an_error_in_the_middle_is_no_damage) {
  for (const char* const file : {"bank/log-", "bank/checkpoint-", "bank/SPOLIA"}) {
    const std::size_t at = std::string(file) == "bank/SPOLIA" ? 0 : 100;
    cannot_look({"check", "bank"}, file, at);
    cannot_look({"info", "bank"}, file, at);
    cannot_look({"dump", "bank", "new"}, file, at);
    cannot_look({"dump", "bank", "-"}, file, at);
    cannot_look({"backup", "bank", "new"}, file, at);
    cannot_look({"backup", "bank", "-"}, file, at);
    cannot_look({"restore", "bank", "new"}, file, at);
    EXPECT_FALSE(fs::exists(here / "new"));
  }
  EXPECT_NE(good({"check", "bank"}).find("good"), std::string::npos);
}

/// A copy that is added to, and read as a whole afterwards.
TEST_F(failing_medium, an_error_in_a_copy_is_no_damage) {
  static_cast<void>(good({"backup", "bank", "copy"}));
  cannot_look({"backup", "bank", "copy"}, "copy/checkpoint-", 0);
  cannot_look({"backup", "bank", "copy"}, "copy/checkpoint-", 100);
  static_cast<void>(good({"backup", "bank", "copy"}));
}

/// The log from the beginning does in place of the checkpoint, and all rows are there.
TEST_F(failing_medium, a_checkpoint_that_is_passed_over_for_that_is_no_damage) {
  for (const auto& one : fs::directory_iterator(here / "before")) {
    const fs::path to = here / "bank" / one.path().filename();
    if (!fs::exists(to)) fs::create_hard_link(one.path(), to);
  }
  cannot_look({"check", "bank"}, "bank/checkpoint-", 100);
  const unreadable now("bank/checkpoint-", 100);
  const ended e = run({"info", "bank"});
  EXPECT_EQ(e.code, 0) << e.err;
  EXPECT_NE(e.out.find("people: 300 rows"), std::string::npos) << e.out;
  EXPECT_NE(e.out.find("Input/output error"), std::string::npos) << e.out;
}

/// That is what it is for: it brings out what can be read.
TEST_F(failing_medium, salvage_goes_on_without_what_cannot_be_read) {
  for (const std::size_t at :
       {std::size_t{8192}, std::size_t{100}}) {  // in a page further on; in that of the header
    SCOPED_TRACE(at);
    const unreadable now("bank/log-", at);
    const ended e = run({"salvage", "bank", "new" + std::to_string(at)});
    EXPECT_EQ(e.code, 3) << e.err;
    EXPECT_NE(e.out.find("log-"), std::string::npos) << e.out;
    EXPECT_NE(e.out.find("the disk does not give these bytes"), std::string::npos) << e.out;
    EXPECT_NE(e.out.find("people: "), std::string::npos) << e.out;
  }
}

}  // namespace
