// SPDX-License-Identifier: Apache-2.0
// What spolia says of a store, and of what is none, to somebody who has only the tool.

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <spolia/db.hpp>
#include <spolia/db/store_status.hpp>

#include "db/faulty_files.hpp"
#include "program.hpp"

namespace {

namespace db = spolia::db;
namespace fs = std::filesystem;
using namespace tool_test;

class tool_told : public program {
 protected:
  void make_bank() const {
    write_text(here / "people.csv", "id,name\n1,Ada\n2,Bo\n");
    write_text(here / "schema.json", R"({"spolia_dump":1,"tables":[{"name":"people","columns":[)"
                                     R"({"name":"id","type":"int64","key":true},)"
                                     R"({"name":"name","type":"text","bytes":10}]}]})");
    ASSERT_EQ(
        run({"load", "bank", "people.csv", "--table", "people", "--schema", "schema.json"}).code,
        0);
  }
};

/// What the files have lost is in the memory of a program that has the store open.
TEST_F(tool_told, damage_is_no_reason_to_stop_a_program) {
  make_bank();
  write_text(here / "more.csv", "id,name\n4,Di\n5,Ed\n");
  ASSERT_EQ(run({"load", "bank", "more.csv", "--table", "people", "--batch", "1"}).code, 0);
  fs::path log;
  for (const auto& one : fs::directory_iterator(here / "bank")) {
    if (one.path().filename().string().starts_with("log-")) log = one.path();
  }
  const db::database mine = db::database::open(here / "bank");
  std::string bytes = read_text(log);
  bytes[110] = static_cast<char>(bytes[110] ^ 4);
  write_text(log, bytes);
  // Not each system says which process has a lock.
  const bool seen = db::find_holder(here / "bank").has_value();
  const std::string process = seen ? "process " + std::to_string(::getpid()) + " ("
                                   : "a process that is not seen from here";
  const std::string keep = "has it open, and its memory may be whole: do not stop it; let it call";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"check", "bank"}, {"info", "bank"}, {"backup", "bank", "copy"}}) {
    bad(1, process, words);
    bad(1, keep, words);
    EXPECT_EQ(run(words).err.find("salvage"), std::string::npos) << words.front();
  }
  bad(1, "emory may be whole: do not stop it, and let it call", {"salvage", "bank", "new"});
}

/// A program that has the store goes on, and can be looked at.
TEST_F(tool_told, that_a_store_has_lost_the_file_that_names_it) {
  make_bank();
  fs::rename(here / "bank/SPOLIA", here / "kept");
  bad(1, "bank: its file SPOLIA is missing, and its data files are there", {"top", "bank"});
  bad(1, "if there is one, do not stop it, put the same file back", {"check", "bank"});
  fs::rename(here / "kept", here / "bank/SPOLIA");
  const db::database mine = db::database::open(here / "bank", {.publish_status = true});
  fs::rename(here / "bank/SPOLIA", here / "kept");
  const std::string process = "process " + std::to_string(::getpid()) + ", open for";
  EXPECT_NE(good({"top", "bank", "--times", "1", "--interval", "0.05"}).find(process),
            std::string::npos);
  fs::rename(here / "kept", here / "bank/SPOLIA");
}

TEST_F(tool_told, which_store_it_is_and_which_program_has_it) {
  make_bank();
  const std::string identity = read_text(here / "bank/SPOLIA");
  const std::string format = identity.substr(identity.find("format ") + 7, 1);
  const std::string id = identity.substr(identity.find("id ") + 3, 32);
  std::string told = good({"info", "bank"});
  EXPECT_NE(told.find("format       " + format + "\nid           " + id + "\nnewest file  "),
            std::string::npos)
      << told;
  EXPECT_NE(told.find(" UTC\n"), std::string::npos) << told;
  EXPECT_EQ(told.find("open in "), std::string::npos) << told;
  std::string json = good({"info", "bank", "--json"});
  EXPECT_NE(json.find("\"format\":\"" + format + "\",\"id\":\"" + id + "\""), std::string::npos);
  EXPECT_NE(json.find("\"open_in\":null"), std::string::npos) << json;
  EXPECT_EQ(json.find("\"newest_file_ns\":0,"), std::string::npos) << json;
  const db::database mine = db::database::open(here / "bank");
  if (!db::find_holder(here / "bank")) return;  // not each system says it
  told = good({"info", "bank"});
  const std::string number = std::to_string(::getpid());
  EXPECT_NE(told.find("open in      process " + number + " ("), std::string::npos) << told;
  json = good({"info", "bank", "--json"});
  EXPECT_NE(json.find("\"open_in\":{\"process\":" + number + ",\"name\":\""), std::string::npos)
      << json;
}

TEST_F(tool_told, what_is_there_where_a_store_should_be) {
  make_bank();
  fs::create_directory(here / "letters");
  write_text(here / "stream", good({"backup", "bank", "-"}));
  bad(2, "nowhere is not the folder of a store: there is nothing of that name",
      {"info", "nowhere"});
  bad(2, "people.csv is not the folder of a store: it is a file", {"info", "people.csv"});
  bad(2, "letters is not the folder of a store: it has no file SPOLIA", {"info", "letters"});
  bad(2, "use: spolia restore - NEW < stream", {"info", "stream"});
  bad(2, "stream is a copy as a stream; use: spolia restore - new < stream",
      {"restore", "stream", "new"});
  bad(2, "bank is a store, not a dump: spolia dump it first", {"load", "new", "bank"});
  bad(1, "has a row with this key; --on-conflict skip or replace",
      {"load", "bank", "people.csv", "--table", "people"});
  static_cast<void>(
      good({"load", "other", "people.csv", "--table", "people", "--schema", "schema.json"}));
  fs::copy(here / "bank", here / "twin");
  fs::copy(here / "other/checkpoint-0000000000000001.spl",
           here / "twin/checkpoint-0000000000000009.spl");
  bad(1, "belongs to another database; move this file out of the folder", {"check", "twin"});
  // One that the store can do without, as it has a log.
  write_text(here / "more.csv", "id,name\n9,Eve\n");
  static_cast<void>(good({"load", "bank", "more.csv", "--table", "people"}));
  fs::copy(here / "bank", here / "older");
  fs::copy(here / "other/checkpoint-0000000000000001.spl",
           here / "older/checkpoint-0000000000000002.spl");
  bad(1,
      "checkpoint-0000000000000002.spl at 0: it belongs to another database; move this file out of "
      "the folder",
      {"check", "older"});
  if (::geteuid() == 0) return;  // who may write everywhere
  fs::permissions(here / "bank/SPOLIA", fs::perms::owner_read);
  bad(5, "you may not write there; run it as its owner",
      {"load", "bank", "people.csv", "--table", "people"});
}

/// To somebody who looks from outside.
TEST_F(tool_told, what_memory_and_the_disk_have_no_room_for) {
  std::atomic<bool> full{false};
  const auto files = std::make_shared<spolia::test::faulty_files>(
      db::real_files(), [&](const spolia::test::file_step& s) {
        const bool reserves = s.what == spolia::test::file_step::kind::reserve;
        return full && reserves && s.name.starts_with("log-") ? ENOSPC : 0;
      });
  db::database mine = db::database::open(
      here / "shop",
      {.budget = 1U << 20U, .segment_bytes = 4096, .files = files, .publish_status = true});
  db::table& t = mine.create_table({.name = "t", .columns = {{"k", db::int64, db::primary_key}}});
  const auto top = [&](bool json) {
    std::vector<std::string> words = {"top", "shop", "--times", "1", "--interval", "0.05"};
    if (json) words.emplace_back("--json");
    return good(words);
  };
  mine.publish_status();
  std::string shown = top(false);
  for (const char* word : {"MEMORY", "DISK", "CHECKPOINTS"}) {
    EXPECT_EQ(shown.find(word), std::string::npos) << shown;
  }
  full = true;
  const auto add = [&](std::int64_t key) {
    return mine.transact([&](db::transaction& tx) { return tx.insert(t, {key}); });
  };
  std::int64_t key = 0;
  while (key < 100'000 && add(key)) ++key;
  mine.publish_status();
  shown = top(false);
  EXPECT_NE(shown.find(" 0 conflicts /s, 1 refused\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find("\nDISK                1     commits refused or in doubt: "),
            std::string::npos)
      << shown;
  EXPECT_NE(shown.find("told to fail"), std::string::npos) << shown;
  const std::string json = top(true);
  EXPECT_NE(json.find("\"storage_failed\":false,\"storage_refusals\":1,\"storage_failure\":\""),
            std::string::npos)
      << json;
  EXPECT_NE(json.find("\"failed_checkpoints\":0,\"checkpoint_failure\":\"\""), std::string::npos)
      << json;
  full = false;
  db::table& b = mine.create_table(
      {.name = "b", .columns = {{"k", db::int64, db::primary_key}, {"v", db::text(1000)}}});
  const std::string v(1000, 'x');
  for (std::int64_t n = 0; n < 100'000; ++n) {
    if (!mine.transact([&](db::transaction& tx) { return tx.insert(b, {n, v}); })) break;
  }
  mine.publish_status();
  shown = top(false);
  EXPECT_NE(shown.find("\nMEMORY              1     commits and changes refused: a budget"),
            std::string::npos)
      << shown;
}

}  // namespace
