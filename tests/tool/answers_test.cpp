// SPDX-License-Identifier: Apache-2.0
// What the program answers to one who watches stores: by its exit codes, and about folders and
// names that are not as they should be.

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include <spolia/db.hpp>

#include "db/seals.hpp"
#include "tool/program.hpp"

namespace {

using namespace tool_test;
namespace stores = spolia::db;

class tool_answers : public program {
 protected:
  tool_answers() {
    stores::database base = stores::database::open(here / "bank");
    stores::table& t = base.create_table(
        {.name = "people", .columns = {{"id", stores::int64, stores::primary_key}}});
    EXPECT_TRUE(base.transact([&](stores::transaction& tx) { return tx.insert(t, {1}); }));
  }
  [[nodiscard]] fs::path segment() const {
    fs::path last;
    for (const auto& one : fs::directory_iterator(here / "bank")) {
      if (one.path().filename().string().starts_with("log-")) last = std::max(last, one.path());
    }
    return last;
  }
  [[nodiscard]] int shell(const std::string& line) const {
    const std::string all = "cd " + here.string() + " && " + line + " >out 2>err";
    return WEXITSTATUS(std::system(all.c_str()));
  }
};

/// Damage is something else.
TEST_F(tool_answers, what_cannot_be_looked_at_has_a_code_of_its_own) {
  EXPECT_EQ(shell("(ulimit -n 5; exec " SPOLIA_PROGRAM " check bank)"), 5);
  EXPECT_NE(read_text(here / "err").find("Too many open files"), std::string::npos)
      << read_text(here / "err");
  fs::create_symlink("loop", here / "loop");
  for (const char* const command : {"info", "check", "top"}) {
    const ended e = run({command, "loop"});
    EXPECT_EQ(e.code, 5);
    EXPECT_NE(e.err.find("cannot look at it"), std::string::npos) << e.err;
  }
  fs::remove(here / "loop");
  if (::geteuid() != 0) {  // who may look at everything
    fs::permissions(segment(), fs::perms::none);
    bad(5, "Permission denied", {"check", "bank"});
    fs::permissions(segment(), fs::perms::owner_all);
  }
  const std::string was = read_text(segment());
  std::string damaged = was;
  damaged[20] = static_cast<char>(damaged[20] ^ 1);
  write_text(segment(), damaged);
  bad(1, "the checksum of the header is wrong; spolia salvage", {"check", "bank"});
}

/// With as few descriptors as there may be: the folder may be made, and no file in it.
TEST_F(tool_answers, nothing_stays_of_a_new_folder_where_descriptors_are_few) {
  ASSERT_EQ(run({"dump", "bank", "rows"}).code, 0);
  const auto before = names();
  for (const char* const words : {"dump bank new", "backup bank new", "restore bank new",
                                  "load new rows", "salvage bank new"}) {
    bool done = false;
    for (int most = 3; !done && most < 40; ++most) {
      SCOPED_TRACE(std::string(words) + " " + std::to_string(most));
      done = shell("(ulimit -n " + std::to_string(most) + "; exec " SPOLIA_PROGRAM " " + words +
                   ")") == 0;
      if (done) fs::remove_all(here / "new");
      EXPECT_EQ(names(), before);
    }
    EXPECT_TRUE(done) << words;
  }
}

TEST_F(tool_answers, a_newer_format_is_named_and_is_no_damage) {
  std::string text = read_text(segment());
  spolia::test::bytes head(spolia::test::file_head);
  std::memcpy(head.data(), text.data(), head.size());
  spolia::test::put_at(head, 12, std::uint32_t{77});
  spolia::test::put_at(head, 8, spolia::test::plain_crc(std::span(head).subspan(12)));
  std::memcpy(text.data(), head.data(), head.size());
  write_text(segment(), text);
  const std::string said = "it has a format that this version does not know, 77, which is newer";
  bad(5, said, {"check", "bank"});
  bad(5, said, {"info", "bank"});
  bad(5, said, {"backup", "bank", "copy"});
  bad(5, said, {"salvage", "bank", "new"});
}

/// That the process of the page was killed is not known: it may have the folder that was copied.
TEST_F(tool_answers, a_copy_of_a_folder_is_not_said_to_be_of_a_process_that_was_killed) {
  const pid_t child = ::fork();
  if (child == 0) {
    const stores::database mine = stores::database::open(here / "bank", {.publish_status = true});
    for (;;) ::pause();
  }
  const auto top = [&](const char* store) {
    return run({"top", store, "--times", "1", "--interval", "0.05"});
  };
  for (int i = 0; top("bank").code != 0 && i < 1200; ++i) ::usleep(100'000);
  fs::copy(here / "bank", here / "copied");
  const ended e = top("copied");
  EXPECT_EQ(e.code, 1);
  EXPECT_NE(e.err.find("no process has it open"), std::string::npos) << e.err;
  EXPECT_NE(e.err.find("or this folder is a copy"), std::string::npos) << e.err;
  EXPECT_EQ(e.err.find("has ended"), std::string::npos) << e.err;
  EXPECT_NE(e.out.find("NOT OPEN NOW"), std::string::npos) << e.out;
  EXPECT_EQ(top("bank").code, 0);
  ::kill(child, SIGKILL);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST_F(tool_answers, nothing_is_made_in_the_folder_of_the_store) {
  for (const std::string to : {"bank/in", "bank/in/", "./bank/../bank/in"}) {
    bad(2, "is in the folder of the store", {"backup", "bank", to});
    bad(2, "is in the folder of the store", {"dump", "bank", to});
    bad(2, "is in the folder of the store", {"restore", "bank", to});
    bad(2, "is in the folder of the store", {"salvage", "bank", to});
  }
  fs::create_directory_symlink("bank", here / "link");
  bad(2, "is in the folder of the store", {"backup", "bank", "link/in"});
  bad(2, "is in the folder of the store", {"dump", "link", "bank/in"});
  EXPECT_FALSE(fs::exists(here / "bank/in"));
  static_cast<void>(good({"backup", "bank", "bank.copy"}));
}

/// The rule of database::backup(), for all that writes a folder.
TEST_F(tool_answers, nothing_is_made_of_the_store_or_of_a_folder_that_has_it) {
  fs::create_directory_symlink("bank", here / "link");
  static_cast<void>(good({"backup", "bank", "copy"}));
  static_cast<void>(good({"backup", "copy", "copy-of-it"}));
  fs::rename(here / "copy-of-it", here / "copy" / "inner");
  for (const std::string command : {"backup", "restore", "dump", "salvage"}) {
    bad(2, "bank is the folder of the store; choose another place", {command, "bank", "bank"});
    bad(2, "link is the folder of the store; choose another place", {command, "bank", "link"});
    bad(2, "bank/ is the folder of the store; choose another", {command, "link", "bank/"});
    bad(2, "copy is the folder of the store; choose another place", {command, "copy", "copy"});
    bad(2, ". has the folder of the store in it; choose another", {command, "bank", "."});
    bad(2, "copy has the folder of the store in it; choose", {command, "copy/inner", "copy"});
  }
}

TEST_F(tool_answers, an_empty_name_and_an_empty_input_are_named) {
  for (const char* const command : {"info", "check", "top"}) {
    bad(2, "a store needs a name: '' is not", {command, ""});
  }
  bad(2, "a store needs a name: '' is not", {"salvage", "", "new"});
  bad(1, "standard input is empty", {"restore", "-", "new"});
  write_text(here / "short", "SPOL");
  bad(1, "the file ends within its header", {"restore", "-", "new"}, (here / "short").string());
}

/// A terminal shows them.
TEST_F(tool_answers, names_are_shown_without_what_moves_a_cursor) {
  const std::string odd = "two\nlines \x1b[2J";
  const std::string shown = "two?lines ?[2J";
  EXPECT_EQ(good({"dump", "bank", odd}), "1 row of 1 table in " + shown + "\n");
  fs::remove_all(here / odd);
  for (int round = 0; round < 2; ++round) {  // a copy that is made, and one that is there
    const std::string said = good({"backup", "bank", odd});
    EXPECT_TRUE(said.starts_with(shown + ": ")) << said;
  }
  EXPECT_TRUE(good({"check", odd}).starts_with(shown + ": good"));
  EXPECT_NE(good({"info", odd}).find(shown + "\n"), std::string::npos);
  EXPECT_TRUE(good({"restore", odd, odd + "2"}).starts_with(shown + "2: "));
  EXPECT_NE(good({"salvage", odd, odd + "3"}).find("new store    " + shown + "3\n"),
            std::string::npos);
}

TEST_F(tool_answers, an_empty_folder_is_taken_with_its_rights_and_no_other) {
  const fs::perms rights = fs::perms::owner_all | fs::perms::group_read;
  ASSERT_EQ(run({"dump", "bank", "rows"}).code, 0);
  fs::create_directory(here / "empty");
  fs::permissions(here / "empty", rights);
  write_text(here / "wrong", "no copy");
  bad(1, "standard input", {"restore", "-", "empty"}, "wrong");
  using words = std::vector<std::string>;
  for (const words& w : {words{"dump", "bank"}, words{"backup", "bank"}, words{"restore", "bank"},
                         words{"load"}, words{"salvage", "bank"}}) {
    SCOPED_TRACE(w.front());
    const auto to = [&](const std::string& folder) {
      words all = w;
      all.push_back(folder);
      if (w.front() == "load") all.emplace_back("rows");
      return all;
    };
    fs::create_directory(here / "full");
    write_text(here / "full/mine", "mine");
    bad(2, "full exists", to("full"));
    fs::remove_all(here / "full");
    static_cast<void>(good(to("empty/")));
    EXPECT_EQ(fs::status(here / "empty").permissions(), rights);
    EXPECT_FALSE(fs::is_empty(here / "empty"));
    fs::remove_all(here / "empty");
    fs::create_directory(here / "empty");
    fs::permissions(here / "empty", rights);
  }
}

TEST_F(tool_answers, a_new_folder_may_have_as_long_a_name_as_there_is) {
  for (const std::size_t length : {200U, 250U, 255U}) {
    const std::string name(length, 'n');
    static_cast<void>(good({"backup", "bank", name}));
    static_cast<void>(good({"check", name}));
    const fs::directory_iterator made(here / name);
    const auto files = static_cast<std::size_t>(std::distance(begin(made), end(made)));
    EXPECT_EQ(names().size(), 2 + files) << "the two folders, and nothing beside them";
    fs::remove_all(here / name);
    static_cast<void>(good({"dump", "bank", name}));
    fs::remove_all(here / name);
  }
  bad(1, "File name too long", {"dump", "bank", std::string(256, 'n')});
}

}  // namespace
