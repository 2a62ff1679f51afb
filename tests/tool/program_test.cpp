// SPDX-License-Identifier: Apache-2.0
// The program as a user meets it: what it makes, and what it refuses.

#include <gtest/gtest.h>

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include <spolia/db.hpp>
#include <spolia/db/store_status.hpp>
#include <spolia/version.hpp>

#include "tool/made_up.hpp"
#include "tool/people.hpp"
#include "tool/program.hpp"

#include "text.hpp"

namespace {

using namespace tool_test;

TEST_F(tool_program, says_how_it_is_used) {
  for (const char* command :
       {"info", "check", "dump", "load", "backup", "restore", "salvage", "top"}) {
    EXPECT_NE(good({"--help"}).find(command), std::string::npos);
    EXPECT_NE(good({command, "--help"}).find("--config"), std::string::npos);
  }
  EXPECT_EQ(good({"help"}), good({"--help"}));
  EXPECT_EQ(good({"help", "backup"}), good({"backup", "--help"}));
  bad(2, "there is no command 'dance'", {"help", "dance"});
  bad(2, "there is no command 'dance'", {"dance", "--help"});
  EXPECT_EQ(good({"--version"}), std::string(SPOLIA_VERSION_STRING) + "\n");
}

TEST_F(tool_program, a_schema_of_other_tables_says_which_it_has) {
  make_bank();
  write_text(here / "other.json", R"({"spolia_dump":1,"tables":[{"name":"staff",
    "columns":[{"name":"id","type":"int64","key":true}]}]})");
  bad(1, "other.json has no table 'stuff'; there are: staff",
      {"load", "bank", "people.csv", "--table", "stuff", "--schema", "other.json"});
  EXPECT_EQ(good({"info", "bank"}).find("staff"), std::string::npos);
}

TEST_F(tool_program, refuses_what_makes_no_sense) {
  make_bank();
  bad(2, "give a command: info, check, dump", {});
  bad(2, "there is no command 'dance'; there are: info, check, dump, load, backup", {"dance"});
  bad(2, "there is no command 'chekc'; did you mean check? (see --help)", {"chekc"});
  bad(2, "spolia info STORE: name the folder of a store (spolia info --help)", {"info"});
  bad(2, "spolia check has no option --json; there are: --help, --config",
      {"check", "x", "--json"});
  bad(2, "spolia check STORE takes no more words: 'y' is too much", {"check", "x", "y"});
  bad(2, "--nice: 'abc' is not a number from 0 to 19", {"info", "bank", "--nice", "abc"});
  bad(2, "--nice: '20' is not a number from 0 to 19", {"info", "bank", "--nice", "20"});
  for (const char* command : {"info", "check", "top"}) {
    bad(2, "store", {command});
    bad(2, "not the folder of a store", {command, "nowhere"});
    bad(2, "--frobnicate", {command, "bank", "--frobnicate"});
    bad(2, "--progress", {command, "bank", "--progress", "perhaps"});
  }
  bad(2, "spolia dump STORE TO: name the folder to make", {"dump", "bank"});
  bad(2, "not the folder of a store", {"dump", "nowhere", "d"});
  bad(2, "--format", {"dump", "bank", "d", "--format", "xml"});
  bad(2, "there is no table 'x'; there are: people", {"dump", "bank", "d", "--table", "x"});
  bad(2, "holds one table", {"dump", "bank", "-", "--format", "csv"});
  bad(2, "bank is the folder of the store", {"dump", "bank", "bank"});
  bad(2, "there is no folder", {"dump", "bank", "no/such/folder"});
  bad(2, "there is no folder", {"backup", "bank", "no/such/folder"});
  bad(2, "spolia load STORE FROM: name the folder of a dump", {"load", "bank"});
  bad(1, "No such file", {"load", "bank", "nothing.csv", "--table", "people"});
  bad(2, "give --table NAME: the file has rows of one table", {"load", "bank", "people.csv"});
  bad(2, "there are fail, skip, replace",
      {"load", "bank", "people.csv", "--table", "people", "--on-conflict", "hope"});
  bad(2, "there are none, async, sync",
      {"load", "bank", "people.csv", "--table", "people", "--durability", "maybe"});
  for (const char* batch : {"few", "-1", "99999999999999999999"}) {
    bad(2, "--batch", {"load", "bank", "people.csv", "--table", "people", "--batch", batch});
  }
  bad(1, "there is no table x", {"load", "bank", "people.csv", "--table", "x"});
  bad(1, "not the schema of a dump",
      {"load", "bank", "people.csv", "--table", "x", "--schema", "people.csv"});
  bad(2, "people.csv exists", {"load", "people.csv", "people.csv", "--table", "people"});
  for (const char* command : {"backup", "restore"}) {
    bad(2, ": name the folder to make", {command, "bank"});
    bad(2, "not the folder of a store", {command, "nowhere", "new"});
    bad(2, "people.csv exists; choose a name for a new folder, or move it away first",
        {command, "bank", "people.csv"});
  }
  bad(2, "bank is the folder of the store", {"restore", "bank", "bank"});
  for (const char* interval : {"0", "nan", "-1"}) {
    bad(2, "--interval", {"top", "bank", "--interval", interval});
  }
  bad(2, "--times", {"top", "bank", "--times", "-1"});
  bad(2, "a new folder needs a name", {"dump", "bank", ""});
  bad(2, "a new folder needs a name", {"backup", "bank", ""});
  write_text(
      here / "no_key.json",
      R"({"spolia_dump":1,"tables":[{"name":"t","columns":[{"name":"a","type":"int64"}]}]})");
  bad(1, "table t cannot be made: table t has no column with primary_key: it needs one",
      {"load", "new", "people.csv", "--table", "t", "--schema", "no_key.json"});
  bad(1, "publish_status", {"top", "bank"});
}

TEST_F(tool_program, refuses_options_that_are_not_known) {
  make_bank();
  const auto with = [&](const std::string& text, const std::string& said) {
    write_text(here / "options.toml", text);
    bad(2, said, {"info", "bank", "--config", "options.toml"});
  };
  bad(2, "cannot read nothing.toml", {"info", "bank", "--config", "nothing.toml"});
  bad(2, "cannot read .: Is a directory", {"info", "bank", "--config", "."});
  bad(2, "--config", {"info", "bank", "--config", ""});
  with("[store]\ndurability = \"sync\"\ndurable = true\n", "options.toml:3:11: there is no option");
  with("[shop]\n", "options.toml:1:1: there is no option shop");
  with("store = 1\n", "[store] is a section");
  with("[store\n", "options.toml:1:");
  with("[store]\ndurability = \"often\"\n", "there are none, async, sync");
  with("[store]\nmost_partitions = 1\n", "must be from 2 to 256");
  with("[store]\nsegment_bytes = \"many\"\n", "is a whole number");
  with("[store]\nread_only = true\n", "there is no option store.read_only");
  with("[load]\nbatch = -1\n", "must be from 0");
  with("[load]\non_conflict = 3\n", "is a name in quotes");
  with("[top]\ninterval = 0\n", "from 0.01");
  with("[top]\ntimes = 1\n", "there is no option top.times");
  write_text(here / "options.toml",
             "[store]\nversions = \"steam\"\nversion_budget = 1000000\nloss_window_ms = 5\n"
             "publish_status = true\n[load]\nbatch = 2\non_conflict = \"skip\"\n");
  EXPECT_EQ(good({"load", "bank", "people.csv", "--table", "people", "--config", "options.toml"}),
            "0 rows inserted, 3 skipped\n");
}

TEST_F(tool_program, loads_what_it_dumps) {
  make_bank();
  EXPECT_EQ(csv("bank"), people);
  EXPECT_EQ(good({"dump", "bank", "folder", "--format", "csv"}), "3 rows of 1 table in folder\n");
  EXPECT_EQ(read_text(here / "folder/people.csv"), people);
  EXPECT_EQ(good({"load", "second", "folder"}), "3 rows inserted\n");
  write_text(here / "stream", good({"dump", "second", "-"}));
  EXPECT_EQ(good({"load", "third", "-"}, (here / "stream").string()), "3 rows inserted\n");
  EXPECT_EQ(good({"dump", "third", "lines"}), "3 rows of 1 table in lines\n");
  EXPECT_EQ(good({"load", "fourth", "lines", "--table", "people"}), "3 rows inserted\n");
  EXPECT_EQ(csv("fourth"), people);
  EXPECT_EQ(good({"load", "fourth", "lines", "--on-conflict", "replace"}),
            "0 rows inserted, 3 replaced\n");
  const std::string first = good({"info", "bank", "--json", "--hash"});
  EXPECT_NE(first.find("\"rows\":3"), std::string::npos);
  const std::string hash = first.substr(first.find("\"hash\""), 26);
  EXPECT_NE(good({"info", "fourth", "--json", "--hash"}).find(hash), std::string::npos);
  const std::string told = good({"info", "fourth"});
  EXPECT_NE(told.find("people: 3 rows; in memory "), std::string::npos);
  EXPECT_NE(told.find("B of indexes, "), std::string::npos);
  EXPECT_NE(told.find("B in all\n"), std::string::npos);
  const auto bytes = [](const std::string& json, const std::string& name) -> std::uint64_t {
    const std::size_t at = json.find("\"" + name + "\":");
    return at == json.npos ? 0 : std::stoull(json.substr(at + name.size() + 3));
  };
  EXPECT_GT(bytes(first, "index_bytes"), 0U) << first;
  EXPECT_EQ(bytes(first, "bytes"), bytes(first, "table_bytes") + bytes(first, "index_bytes"));
  EXPECT_NE(told.find("\n  unique index by_name (name)\n  hash index same_name (name)\n"),
            std::string::npos);
  EXPECT_NE(good({"check", "fourth"}).find("good; 1 table, 3 rows"), std::string::npos);
}

/// Names are any bytes, and one that is odd stops no dump.
TEST_F(tool_program, dumps_and_loads_odd_names) {
  const std::string cut(300, '/');
  const std::vector<std::string> named = {
      "two\nlines, \"quoted\"", "..",       "a/../b", "\xC3\xA4", "schema", "%2E", cut + "first",
      cut + "second",           "% \t\r\n", "-"};
  const std::string bytes = "not \xFF utf-8";
  const auto make = [](db::database& base, const std::string& name, const std::string& column) {
    db::table& t = base.create_table(
        {.name = name,
         .columns = {{"k\"e,\ny", db::int64, db::primary_key}, {column, db::text(20)}},
         .indexes = {{"by\n" + name.substr(0, 50), {column}}}});
    EXPECT_TRUE(base.transact([&](db::transaction& tx) { return tx.insert(t, {1, "one"}); }));
  };
  {
    db::database base = db::database::open(here / "odd");
    for (const std::string& name : named) make(base, name, "a\r\n,b");
  }
  for (const char* const format : {"csv", "json"}) {
    const std::string folder = std::string("folder-") + format;
    EXPECT_EQ(good({"dump", "odd", folder, "--format", format}),
              "10 rows of 10 tables in " + folder + "\n");
    EXPECT_EQ(good({"load", std::string("again-") + format, folder}), "10 rows inserted\n");
    EXPECT_EQ(good({"dump", std::string("again-") + format, "-"}), good({"dump", "odd", "-"}));
  }
  write_text(here / "stream", good({"dump", "odd", "-"}));
  {
    db::database base = db::database::open(here / "odd");
    make(base, bytes, "a");
    db::table& by_column =
        base.create_table({.name = "of bytes", .columns = {{"\xFE", db::int64, db::primary_key}}});
    EXPECT_TRUE(base.transact([&](db::transaction& tx) { return tx.insert(by_column, {7}); }));
  }
  for (const std::string& to : {std::string("-"), std::string("rest")}) {
    const ended e = run({"dump", "odd", to});
    EXPECT_EQ(e.code, 3);
    EXPECT_NE(e.err.find("table not \xFF utf-8, of bytes."), std::string::npos) << e.err;
    EXPECT_EQ(e.out, to == "-" ? read_text(here / "stream") : "10 rows of 10 tables in rest\n");
  }
  EXPECT_EQ(good({"load", "third", "rest"}), "10 rows inserted\n");
  EXPECT_EQ(good({"dump", "third", "-"}), read_text(here / "stream"));
  EXPECT_EQ(good({"dump", "odd", "-", "--table", "of bytes", "--format", "csv"}),
            "\"\xFE\"\r\n7\r\n");
  bad(1, "not UTF-8", {"dump", "odd", "d", "--table", bytes});
}

/// Whichever not-a-number a program has put into a store, a dump of it can be loaded.
TEST_F(tool_program, loads_the_not_a_number_that_it_dumps) {
  {
    db::database base = db::database::open(here / "nan");
    db::table& t =
        base.create_table({.name = "t",
                           .columns = {{"k", db::float64, db::primary_key}, {"u", db::float64}},
                           .indexes = {{"u", {"u"}, true}}});
    const double some = std::bit_cast<double>(std::uint64_t{0xFFF8000000000007});
    const double other = std::bit_cast<double>(std::uint64_t{0x7FF8000000000001});
    ASSERT_TRUE(base.transact([&](db::transaction& tx) -> db::status {
      if (const db::status s = tx.insert(t, {some, some}); !s) return s;
      EXPECT_EQ(tx.insert(t, {other, 1.0}), db::outcome::duplicate_key);
      EXPECT_EQ(tx.insert(t, {1.0, other}), db::outcome::duplicate_key);
      return tx.insert(t, {-0.0, 5e-324});
    }));
  }
  for (const char* format : {"json", "csv"}) {
    const std::string dump = std::string("dump-") + format;
    const std::string copy = std::string("copy-") + format;
    static_cast<void>(good({"dump", "nan", dump, "--format", format}));
    static_cast<void>(good({"load", copy, dump}));
    EXPECT_EQ(good({"dump", copy, "-"}), good({"dump", "nan", "-"}));
  }
}

TEST_F(tool_program, writes_nothing_by_halves) {
  write_text(here / "bad.csv", "id,name,weight\n1,Ada,\n2,Bo,\n3,Cy,heavy\n");
  // A new store is whole or not there.
  bad(1, "bad.csv:4:6: column weight must be a number that a double can hold, not 'heavy'",
      {"load", "new", "bad.csv", "--table", "people", "--schema", "schema.json", "--batch", "1"});
  make_bank();
  const std::vector<std::string> load = {"load", "bank", "bad.csv", "--table", "people"};
  auto words = load;
  words.insert(words.end(), {"--on-conflict", "replace", "--batch", "0"});
  bad(1, "(before that: 0 rows inserted)", words);
  EXPECT_EQ(csv("bank"), people);
  words.back() = "1";
  bad(1, "(before that: 0 rows inserted, 2 replaced)", words);
  EXPECT_EQ(csv("bank"), "id,name,weight\r\n1,Ada,\r\n2,Bo,\r\n3,\"\",0.1\r\n");
  write_text(here / "bad.csv", "id,name\n4,Di\n5,Ed\nsix,Flo\n");
  bad(1, "(before that: 2 rows inserted)",
      {"load", "bank", "bad.csv", "--table", "people", "--batch", "2", "--durability", "none"});
  EXPECT_EQ(csv("bank"), "id,name,weight\r\n1,Ada,\r\n2,Bo,\r\n3,\"\",0.1\r\n4,Di,\r\n5,Ed,\r\n");
  // A dump that was cut short is refused before anything is loaded.
  EXPECT_EQ(good({"dump", "bank", "folder"}), "5 rows of 1 table in folder\n");
  const std::string lines = read_text(here / "folder/people.jsonl");
  write_text(here / "folder/people.jsonl", lines.substr(0, lines.find('\n') + 1));
  bad(1, "where the dump had", {"load", "second", "folder"});
  write_text(here / "stream", good({"dump", "bank", "-"}));
  const std::string stream = read_text(here / "stream");
  write_text(here / "stream", stream.substr(0, stream.rfind('{')));
  bad(1, "the dump is cut off", {"load", "second", "stream"});
  // A schema cannot reach out of its folder.
  std::string reaches = read_text(here / "folder/schema.json");
  reaches.replace(reaches.find("people.jsonl"), 12, "../bad.csv");
  write_text(here / "folder/schema.json", reaches);
  bad(1, "no file of this folder", {"load", "second", "folder"});
}

TEST_F(tool_program, restores_what_it_has_backed_up) {
  make_bank();
  EXPECT_NE(good({"backup", "bank", "copy"}).find("copy: "), std::string::npos);
  write_text(here / "more.csv", "id,name\n4,Di\n");
  EXPECT_EQ(good({"load", "bank", "more.csv", "--table", "people"}), "1 row inserted\n");
  EXPECT_NE(good({"restore", "copy", "again"}).find("again: "), std::string::npos);
  EXPECT_EQ(csv("again"), people);
  EXPECT_NE(good({"backup", "bank", "copy"}).find("B more, "), std::string::npos);
  EXPECT_NE(good({"restore", "copy", "newer"}).find("newer: "), std::string::npos);
  EXPECT_EQ(csv("newer"), csv("bank"));
  EXPECT_NE(good({"check", "newer"}).find("good; 1 table, 4 rows"), std::string::npos);
  EXPECT_EQ(good({"load", "other", "more.csv", "--table", "people", "--schema", "schema.json"}),
            "1 row inserted\n");
  bad(1, "another database", {"backup", "bank", "other"});
  fs::copy(here / "bank", here / "twin");
  bad(1, "that backup() has not made", {"backup", "bank", "twin"});
}

TEST_F(tool_program, says_that_a_copy_has_rotted) {
  make_bank();
  static_cast<void>(good({"backup", "bank", "copy"}));
  for (const auto& one : fs::directory_iterator(here / "copy")) {
    const std::string name = one.path().filename().string();
    if (!name.starts_with("checkpoint-")) continue;
    std::string content = read_text(one.path());
    content[content.size() - 90] ^= 1;  // of a row: the end is shorter
    write_text(one.path(), content);
  }
  write_text(here / "more.csv", "id,name\n4,Di\n");
  static_cast<void>(good({"load", "bank", "more.csv", "--table", "people"}));
  const ended told = run({"backup", "bank", "copy"});  // what is new was added before
  EXPECT_EQ(told.code, 1);
  EXPECT_NE(told.err.find("the copy is damaged"), std::string::npos) << told.err;
  bad(1, "the copy is damaged: make a new one, in another folder; spolia salvage",
      {"check", "copy"});
  static_cast<void>(good({"backup", "bank", "another"}));
  EXPECT_EQ(csv("another"), csv("bank"));
}

/// As of a copy whose copying elsewhere was stopped.
TEST_F(tool_program, goes_on_with_a_copy_that_has_a_torn_end) {
  make_bank();
  static_cast<void>(good({"backup", "bank", "copy"}));
  const auto more = [&](const std::string& row) {
    write_text(here / "more.csv", "id,name\n" + row + "\n");
    static_cast<void>(good({"load", "bank", "more.csv", "--table", "people"}));
  };
  more("4,Di");
  static_cast<void>(good({"backup", "bank", "copy"}));
  fs::path last;
  for (const auto& one : fs::directory_iterator(here / "copy")) {
    const std::string name = one.path().filename().string();
    if (name.starts_with("log-") && one.path() > last) last = one.path();
  }
  fs::resize_file(last, fs::file_size(last) - 3);
  more("5,Ed");
  bad(4, "a copy with a torn end, and good before it", {"check", "copy"});
  bad(4, "The next backup to it goes on there", {"check", "copy"});
  static_cast<void>(good({"backup", "bank", "copy"}));
  static_cast<void>(good({"check", "copy"}));
  EXPECT_EQ(csv("copy"), csv("bank"));
}

TEST_F(tool_program, keeps_a_copy_that_has_more) {
  make_bank();
  static_cast<void>(good({"backup", "bank", "older"}));
  write_text(here / "more.csv", "id,name\n4,Di\n");
  static_cast<void>(good({"load", "bank", "more.csv", "--table", "people"}));
  const std::string all = csv("bank");
  static_cast<void>(good({"backup", "bank", "newer"}));
  fs::remove_all(here / "bank");
  static_cast<void>(good({"restore", "older", "bank"}));
  write_text(here / "others.csv", "id,name\n5,Ed\n6,Fi\n7,Gus\n8,Hal\n");
  static_cast<void>(good({"load", "bank", "others.csv", "--table", "people", "--batch", "1"}));
  bad(1, "Use another directory", {"backup", "bank", "newer"});
  EXPECT_EQ(csv("newer"), all);
}

TEST_F(tool_program, knows_what_was_dropped) {
  make_bank();
  const std::string with_index = good({"info", "bank"});
  const auto change = [&](bool checkpoint) {
    spolia::db::database base = spolia::db::database::open(here / "bank");
    spolia::db::table& gone =
        base.create_table({.name = "gone", .columns = {{"k", db::int64, db::primary_key}}});
    EXPECT_TRUE(base.transact([&](db::transaction& tx) { return tx.insert(gone, {1}); }));
    EXPECT_TRUE(base.drop_table(gone));
    spolia::db::table& t = base.find_table("people");
    if (!checkpoint) {
      EXPECT_TRUE(base.drop_index(t, "by_name"));
      EXPECT_TRUE(base.create_index(t, {.name = "by_weight", .columns = {"id", "name"}}));
    } else {
      base.checkpoint();
    }
  };
  for (const bool checkpoint : {false, true}) {
    change(checkpoint);
    const std::string info = good({"info", "bank"});
    EXPECT_NE(with_index.find("index by_name"), std::string::npos);
    EXPECT_EQ(info.find("index by_name"), std::string::npos) << info;
    EXPECT_NE(info.find("index by_weight (id, name)"), std::string::npos) << info;
    EXPECT_EQ(info.find("gone"), std::string::npos) << info;
    EXPECT_NE(good({"check", "bank"}).find("good; 1 table, 3 rows"), std::string::npos);
    EXPECT_EQ(good({"dump", "bank", "-"}).find("gone"), std::string::npos);
    EXPECT_EQ(csv("bank"), people);
    EXPECT_NE(good({"backup", "bank", "copy"}).find("copy: "), std::string::npos);
    EXPECT_NE(good({"check", "copy"}).find("good; 1 table, 3 rows"), std::string::npos);
  }
}

TEST_F(tool_program, passes_over_lines_without_words) {
  write_text(here / "spaced.jsonl", "\n  \n{\"id\":1,\"name\":\"Ada\"}\r\n\t \r\n");
  EXPECT_EQ(good({"load", "new", "spaced.jsonl", "--table", "people", "--schema", "schema.json"}),
            "1 row inserted\n");
}

TEST_F(tool_program, reads_a_pipe_with_a_name_from_its_beginning) {
  make_bank();
  const std::string command =
      "cd " + here.string() +
      " && mkfifo pipe && { (trap '' PIPE; { printf 'id,name\\n'; sleep 0.2;"
      " printf '4,Di\\n'; } >pipe) 2>/dev/null & timeout 20 " SPOLIA_PROGRAM
      " load bank pipe --table people --format csv >out 2>err; }";
  EXPECT_EQ(std::system(command.c_str()), 0) << read_text(here / "err");
  EXPECT_EQ(read_text(here / "out"), "1 row inserted\n");
}

TEST_F(tool_program, copies_through_pipes) {
  make_bank();
  const ended copy = run({"backup", "bank", "-"});
  EXPECT_EQ(copy.code, 0) << copy.err;
  EXPECT_EQ(copy.err, "");
  write_text(here / "stream", copy.out);
  EXPECT_NE(good({"restore", "-", "again"}, "stream").find("again: "), std::string::npos);
  EXPECT_EQ(csv("again"), people);
  EXPECT_NE(good({"check", "again"}).find("good; "), std::string::npos);
  for (const std::size_t missing : {std::size_t{1}, copy.out.size() / 2, copy.out.size()}) {
    write_text(here / "half", copy.out.substr(0, copy.out.size() - missing));
    const bool empty = missing == copy.out.size();
    bad(1, empty ? "spolia: standard input is empty" : "spolia: standard input at ",
        {"restore", "-", "third"}, "half");
    EXPECT_EQ(run({"restore", "-", "again"}, "stream").code, 2) << "it exists";
  }
  for (const std::string& more : {std::string("\n"), copy.out}) {
    write_text(here / "more", copy.out + more);
    bad(1,
        "standard input at " + std::to_string(copy.out.size()) +
            ": there is more after the end of the copy",
        {"restore", "-", "third"}, "more");
  }
  for (const auto& left : fs::directory_iterator(here)) {
    EXPECT_EQ(left.path().filename().string().find("third"), std::string::npos) << left.path();
  }
}

TEST_F(tool_program, finds_every_flipped_bit) {
  make_bank();
  write_text(here / "more.csv", "id,name\n4,Di\n5,Ed\n");
  EXPECT_EQ(good({"load", "bank", "more.csv", "--table", "people"}), "2 rows inserted\n");
  const std::string before = csv("bank");
  int found = 0;
  for (const auto& one : fs::directory_iterator(here / "bank")) {
    if (one.path().filename() == "reserve.spl") continue;  // it is there for its length
    const std::string bytes = read_text(one.path());
    for (const std::size_t at : {std::size_t{0}, bytes.size() / 3, bytes.size() / 2}) {
      if (at >= bytes.size()) continue;
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ 4);
      write_text(one.path(), flipped);
      const ended e = run({"check", "bank"});
      // Of the last records it cannot be told whether they were ever whole.
      const bool torn = e.err.find("a torn end") != std::string::npos;
      EXPECT_EQ(e.code, torn ? 4 : 1) << one.path() << " at " << at << ": " << e.out;
      const std::string name = one.path().filename().string();
      // Another number of the database is found where it is compared.
      EXPECT_TRUE(e.err.find(name) != std::string::npos || name == "SPOLIA") << e.err;
      ++found;
    }
    write_text(one.path(), bytes);
  }
  EXPECT_GT(found, 3);
  EXPECT_EQ(csv("bank"), before);
}

TEST_F(tool_program, draws_a_bar_if_told_to) {
  const ended e = run({"load", "new", "people.csv", "--table", "people", "--schema", "schema.json",
                       "--progress", "always"});
  EXPECT_EQ(e.code, 0);
  EXPECT_NE(e.err.find("load ["), std::string::npos);
  EXPECT_TRUE(e.err.ends_with("\r\x1b[K")) << "and takes it away";
}

TEST_F(tool_program, says_that_no_program_reads_it) {
  make_bank();
  std::string text = "id,name\n";
  for (int i = 10; i < 10000; ++i) text += std::to_string(i) + ",n" + std::to_string(i) + "\n";
  write_text(here / "many.csv", text);
  EXPECT_EQ(good({"load", "bank", "many.csv", "--table", "people"}), "9990 rows inserted\n");
  const std::string command =
      "cd " + here.string() + " && " SPOLIA_PROGRAM " dump bank - 2>err | head -c 10 >out";
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(read_text(here / "err"), "spolia: cannot write standard output: Broken pipe\n");
}

TEST_F(tool_program, says_that_its_help_cannot_be_written) {
  for (const std::string word : {"--help", "--version", "info --help"}) {
    const std::string command =
        "cd " + here.string() + " && " SPOLIA_PROGRAM " " + word + " >/dev/full 2>err";
    EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 1) << word;
    EXPECT_EQ(read_text(here / "err"),
              "spolia: cannot write to standard output: No space left on device\n")
        << word;
  }
}

TEST_F(tool_program, looks_into_a_store_that_is_open_and_leaves_it_alone) {
  make_bank();
  const std::string before = csv("bank");
  db::database mine = db::database::open(here / "bank");
  bad(1, "open elsewhere", {"load", "bank", "people.csv", "--table", "people"});
  bad(2, "bank is the folder of the store", {"backup", "bank", "bank"});
  EXPECT_NE(good({"info", "bank"}).find("people"), std::string::npos);
  EXPECT_NE(good({"check", "bank"}).find("good"), std::string::npos);
  static_cast<void>(good({"backup", "bank", "copy"}));
  EXPECT_EQ(csv("bank"), before);
  EXPECT_EQ(csv("copy"), before);
  db::table& t = mine.find_table("people");
  ASSERT_TRUE(mine.transact([&](db::transaction& tx) { return tx.erase(t, {2}); }));
  EXPECT_NE(csv("bank"), before) << "what is durable is seen";
}

TEST_F(tool_program, takes_a_store_that_has_lost_its_data_for_no_empty_one) {
  make_bank();
  for (const auto& one : fs::directory_iterator(here / "bank")) {
    if (one.path().extension() == ".spl") fs::remove(one.path());
  }
  const std::string said = "data files of the database are missing";
  bad(1, said, {"info", "bank"});
  bad(1, said, {"check", "bank"});
  bad(1, said, {"dump", "bank", "d"});
  bad(1, said, {"backup", "bank", "copy"});
  bad(1, said, {"load", "bank", "people.csv", "--table", "people"});
}

/// While it reads what it is to load, its folder is moved, and something else put in its place.
TEST_F(tool_program, leaves_alone_what_is_not_the_folder_that_it_makes) {
  const fs::path pipe = here / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const pid_t child = start(
      {"load", "new", "pipe", "--table", "people", "--schema", "schema.json", "--format", "csv"});
  std::ofstream rows(pipe);
  const fs::path made = here / ("new.partial-" + std::to_string(child));
  for (int tries = 0; tries < 10000 && !fs::exists(made / "SPOLIA"); ++tries) ::usleep(1000);
  ASSERT_TRUE(fs::exists(made / "SPOLIA"));
  fs::rename(made, here / "aside");
  fs::create_directory(made);
  write_text(made / "mine", "mine");
  rows << people;
  rows.close();
  const ended e = wait(child);
  EXPECT_EQ(e.code, 1);
  EXPECT_NE(e.err.find("it was moved"), std::string::npos) << e.err;
  EXPECT_EQ(read_text(made / "mine"), "mine");
  EXPECT_FALSE(fs::exists(here / "new"));
}

TEST_F(tool_program, shows_what_a_running_program_does) {
  make_bank();
  db::database mine = db::database::open(
      here / "bank", {.durability = db::durability_level::none, .publish_status = true});
  db::table& t = mine.find_table("people");
  const db::reader held = mine.snapshot("the audit");
  for (int i = 10; i < 15; ++i) {
    ASSERT_TRUE(mine.transact(
        [&](db::transaction& tx) { return tx.insert(t, {i, std::to_string(i), nullptr}); }));
  }
  // Some allocation periods, so that the reader counts as held.
  for (int i = 0; i < 10000; ++i) {
    ASSERT_TRUE(mine.transact(
        [&](db::transaction& tx) { return tx.update(t, {2}, {{"name", std::to_string(-i)}}); }));
  }
  ASSERT_TRUE(mine.transact([&](db::transaction& tx) { return tx.erase(t, {1}); }));
  const db::reader late = mine.snapshot({.label = "late", .deadline = std::chrono::nanoseconds(1)});
  mine.collect();
  ASSERT_TRUE(late.ended());
  db::transaction work = mine.begin("at work");
  for (int i = 11; i < 15; ++i) ASSERT_TRUE(work.lock(t, {i}));
  const std::uint64_t works_with = mine.readers().back().work_bytes;
  ASSERT_GT(works_with, 0U);
  mine.publish_status();
  const std::string shown = good({"top", "bank", "--times", "2", "--interval", "0.05"});
  EXPECT_NE(shown.find("; works with " + tool::short_count(works_with)), std::string::npos)
      << shown;
  EXPECT_NE(shown.find("process " + std::to_string(::getpid())), std::string::npos) << shown;
  EXPECT_NE(shown.find("the audit"), std::string::npos) << shown;
  EXPECT_NE(shown.find("B to work with; 1 ended by deadline or policy\n"), std::string::npos)
      << shown;
  EXPECT_EQ(shown.find("late"), std::string::npos) << "it holds nothing any more: " << shown;
  const db::reader_info waits = mine.readers().front();
  EXPECT_GT(waits.held, 0U);
  EXPECT_EQ(waits.held_versions, 2U);
  EXPECT_NE(shown.find(std::to_string(waits.held) + " rows and index entries ("),
            std::string::npos);
  EXPECT_NE(shown.find(" behind, open "), std::string::npos) << shown;
  EXPECT_NE(shown.find(" s; holds "), std::string::npos) << shown;
  EXPECT_NE(shown.find("     room for "), std::string::npos) << shown;
  EXPECT_NE(shown.find("values 0 B; "), std::string::npos) << shown;
  EXPECT_NE(shown.find(" and 2 versions ("), std::string::npos) << shown;
  const std::string line = good({"top", "bank", "--times", "1", "--interval", "0.05", "--json"});
  EXPECT_NE(line.find("\"commits\":10006,"), std::string::npos) << line;
  EXPECT_NE(line.find("\"label\":\"the audit\""), std::string::npos) << line;
  EXPECT_NE(line.find("\"ended_by_policy\":1,"), std::string::npos) << line;
  EXPECT_NE(line.find("\"work_bytes\":" + std::to_string(works_with) + ",\"age_ns\""),
            std::string::npos)
      << line;
  const std::string bytes = std::to_string(waits.held_version_bytes);
  EXPECT_NE(line.find("\"held_versions\":2,\"held_version_bytes\":" + bytes), std::string::npos)
      << line;
  const pid_t child = start({"top", "bank", "--interval", "0.05"});
  for (int i = 0; read_text(here / "out").empty() && i < 120'000; ++i) ::usleep(1000);
  ::kill(child, SIGINT);
  EXPECT_EQ(wait(child).code, 0);
}

TEST_F(tool_program, says_what_it_cannot_look_at) {
  make_bank();
  fs::create_symlink("loop", here / "loop");
  const auto says = [&](const std::string& store, const std::string& why) {
    for (const char* command : {"info", "check", "top", "dump", "backup", "salvage"}) {
      std::vector<std::string> words = {command, store};
      if (*command != 'i' && *command != 'c' && *command != 't') words.emplace_back("new");
      const ended e = run(words);
      EXPECT_EQ(e.code, 5) << command;
      EXPECT_NE(e.err.find(why), std::string::npos) << command << ": " << e.err;
      EXPECT_FALSE(fs::exists(here / "new")) << command;
    }
  };
  says("loop", "cannot look at it: Too many levels of symbolic links");
  fs::remove(here / "loop");
  if (::geteuid() == 0) return;  // who may look at everything
  fs::permissions(here / "bank", fs::perms::none);
  says("bank", "Permission denied");
  fs::permissions(here / "bank", fs::perms::owner_all);
}

TEST_F(tool_program, waits_for_no_status_that_is_a_pipe) {
  make_bank();
  ASSERT_EQ(::mkfifo((here / "bank/status").c_str(), 0600), 0);
  bad(1, "is not a regular file", {"top", "bank"});
}

TEST_F(tool_program, says_that_no_program_has_what_it_shows) {
  make_bank();
  const pid_t child = ::fork();
  if (child == 0) {
    const db::database mine = db::database::open(here / "bank", {.publish_status = true});
    for (;;) ::pause();
  }
  for (int i = 0; !fs::exists(here / "bank" / "status") && i < 120'000; ++i) ::usleep(1000);
  const std::string name = "process " + std::to_string(child);
  EXPECT_NE(good({"top", "bank", "--times", "2", "--interval", "0.05"}).find(name + ", open"),
            std::string::npos)
      << "one that does nothing has not ended";
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  for (const bool json : {false, true}) {
    std::vector<std::string> words = {"top", "bank", "--interval", "0.05"};
    if (json) words.emplace_back("--json");
    const ended e = run(words);
    EXPECT_EQ(e.code, 1);
    EXPECT_NE(e.err.find("of " + name + ", which was killed; or this folder is a copy"),
              std::string::npos)
        << e.err;
    EXPECT_NE(e.out.find(json ? "\"ended\":true" : "NOT OPEN NOW"), std::string::npos) << e.out;
  }
}

TEST_F(tool_program, shows_nothing_when_no_program_reads_any_more) {
  make_bank();
  const db::database mine = db::database::open(here / "bank", {.publish_status = true});
  for (const std::string form : {"", " --json"}) {
    const std::string command = "cd " + here.string() +
                                " && timeout 20 " SPOLIA_PROGRAM " top bank --interval 0.01" +
                                form +
                                " 2>err | head -n 1 >out; "
                                "exit ${PIPESTATUS[0]}";
    const std::string shell = "bash -c '" + command + "'";
    EXPECT_EQ(WEXITSTATUS(std::system(shell.c_str())), 1) << form;
    EXPECT_EQ(read_text(here / "err"), "spolia: cannot write to standard output: Broken pipe\n")
        << form;
    const std::string full = "cd " + here.string() +
                             " && timeout 20 " SPOLIA_PROGRAM " top bank --interval 0.01" + form +
                             " >/dev/full 2>err";
    EXPECT_EQ(WEXITSTATUS(std::system(full.c_str())), 1) << form;
    EXPECT_EQ(read_text(here / "err"),
              "spolia: cannot write to standard output: No space left on device\n")
        << form;
  }
}

/// Words for a command that comes to wait for more.
class tool_waits : public tool_program {
 protected:
  tool_waits() {
    EXPECT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    writer = ::open(pipe.c_str(), O_RDWR);
    write_words();
  }
  ~tool_waits() override { ::close(writer); }
  void write_words() const {
    const std::string words = "id,name\n9,Io\n";
    EXPECT_EQ(::write(writer, words.data(), words.size()), static_cast<ssize_t>(words.size()));
  }
  /// Stops it when it has read the words.
  [[nodiscard]] ended stop(pid_t child, int signal) const {
    int unread = 1;
    for (int i = 0; unread != 0 && i < 120'000; ++i) {
      ::usleep(1000);
      EXPECT_EQ(::ioctl(writer, FIONREAD, &unread), 0);
    }
    ::kill(child, signal);
    return wait(child);
  }

  std::string pipe = (here / "pipe").string();
  int writer = -1;
};

TEST_F(tool_waits, a_new_store_goes_when_it_is_stopped) {
  const auto before = names();
  for (const int sent : {SIGTERM, SIGHUP}) {
    const ended e = stop(start({"load", "new", "-", "--table", "people", "--format", "csv",
                                "--schema", "schema.json"},
                               pipe),
                         sent);
    EXPECT_EQ(e.code, 128 + sent);
    EXPECT_EQ(e.err, "spolia: interrupted\n") << sent;
    EXPECT_EQ(names(), before) << sent;
    write_words();  // for the next one
  }
}

TEST_F(tool_waits, an_old_store_is_as_it_was_when_it_is_stopped) {
  make_bank();
  const ended e =
      stop(start({"load", "bank", "-", "--table", "people", "--format", "csv"}, pipe), SIGINT);
  EXPECT_EQ(e.code, 128 + SIGINT);
  EXPECT_EQ(e.err, "spolia: interrupted (before that: 0 rows inserted)\n");
  EXPECT_EQ(csv("bank"), people);
}

}  // namespace
