// SPDX-License-Identifier: Apache-2.0
// A load that does not come to its end, as a user meets it: it is killed or stopped, or the input
// has a mistake; then the next one goes on, or all of it is undone.

#include <gtest/gtest.h>

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

#include <spolia/db.hpp>

#include "support/sanitized.hpp"
#include "tool/program.hpp"

namespace {

using namespace tool_test;
namespace stores = spolia::db;

class stopped_load : public program {
 protected:
  stopped_load() {
    write_text(
        here / "schema.json",
        R"({"spolia_dump":1,"tables":[{"name":"people","primary":"ordered","columns":[)"
        R"({"name":"id","type":"int64","key":true},{"name":"name","type":"text","bytes":20},)"
        R"({"name":"weight","type":"float64","nullable":true}],)"
        R"("indexes":[{"name":"by_name","columns":["name"],"unique":true}]}]})");
    write_text(here / "people.csv", people(1, 3));
  }
  ~stopped_load() override {
    if (writer_ >= 0) ::close(writer_);
  }

  static std::string people(int first, int last, const std::string& begin = "id,name\r\n") {
    std::string text = begin;
    for (int n = first; n <= last; ++n)
      text += std::to_string(n) + ",n" + std::to_string(n) + "\r\n";
    return text;
  }
  static std::vector<std::string> load(const std::string& from,
                                       const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"load", "bank", from, "--table", "people", "--format", "csv"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  void make_bank() const {
    EXPECT_EQ(good(load("people.csv", {"--schema", "schema.json"})), "3 rows inserted\n");
  }
  /// Begins to load what is in `text` so far, and waits until it has read that.
  [[nodiscard]] pid_t begin(const std::string& text, std::vector<std::string> more) {
    const std::string pipe = (here / "pipe").string();
    EXPECT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    const pid_t child = start(load("pipe", more));
    writer_ = ::open(pipe.c_str(), O_WRONLY);
    EXPECT_EQ(::write(writer_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    int unread = 1;
    for (int i = 0; unread != 0 && i < 120'000; ++i) {
      ::usleep(1000);
      EXPECT_EQ(::ioctl(writer_, FIONREAD, &unread), 0);
    }
    return child;
  }
  /// Until so many rows are in the store, kept, and then kills it.
  void kill(pid_t child, const std::string& rows) {
    for (int i = 0; i < 1000; ++i) {
      if (run({"info", "bank"}).out.find("people: " + rows + " rows") != std::string::npos) break;
    }
    ::kill(child, SIGKILL);
    EXPECT_EQ(wait(child).code, -SIGKILL);
    fs::remove(here / "pipe");
    ::close(std::exchange(writer_, -1));
    EXPECT_NE(good({"info", "bank"}).find("people: " + rows + " rows"), std::string::npos);
  }
  [[nodiscard]] std::string rows() const {
    return good({"dump", "bank", "-", "--table", "people", "--format", "csv"});
  }
  static std::string dumped(int first, int last) {
    std::string text = "id,name,weight\r\n";
    for (int n = first; n <= last; ++n) {
      text += std::to_string(n) + ",n" + std::to_string(n) + ",\r\n";
    }
    return text;
  }
  void nothing_is_noted() const {
    EXPECT_EQ(good({"info", "bank"}).find("spolia_load"), std::string::npos);
    EXPECT_NE(good({"check", "bank"}).find("good; 1 table"), std::string::npos);
  }

 private:
  int writer_ = -1;
};

TEST_F(stopped_load, goes_on_after_a_kill) {
  make_bank();
  kill(begin(people(4, 28), {"--batch", "10", "--resume"}), "23");
  write_text(here / "all.csv", people(4, 40));
  EXPECT_EQ(good(load("all.csv", {"--resume", "--batch", "7"})),
            "after 20 rows loaded before: 17 rows inserted\n");
  EXPECT_EQ(rows(), dumped(1, 40));
  nothing_is_noted();
  // That has come to its end: this is another one.
  bad(1, "all.csv:2:1: table people has a row with this key", load("all.csv", {"--resume"}));
}

TEST_F(stopped_load, goes_on_in_a_store_that_it_has_made) {
  kill(begin(people(1, 25), {"--batch", "10", "--resume", "--schema", "schema.json"}), "20");
  write_text(here / "all.csv", people(1, 25));
  EXPECT_EQ(good(load("all.csv", {"--resume", "--schema", "schema.json"})),
            "after 20 rows loaded before: 5 rows inserted\n");
  EXPECT_EQ(rows(), dumped(1, 25));
  nothing_is_noted();
}

TEST_F(stopped_load, goes_on_when_a_mistake_was_mended) {
  make_bank();
  write_text(here / "new.csv", people(4, 9) + "ten,n10\r\n11,n11\r\n");
  bad(1, "'ten' (before that: 6 rows inserted; --resume goes on after them)",
      load("new.csv", {"--resume", "--batch", "2"}));
  write_text(here / "new.csv", people(4, 11));
  EXPECT_EQ(good(load("new.csv", {"--resume"})), "after 6 rows loaded before: 2 rows inserted\n");
  EXPECT_EQ(rows(), dumped(1, 11));
  nothing_is_noted();
}

/// Rows of four columns of so many bytes, in one of the forms.
struct wide_row {
  std::size_t id, name, note, photo;
  std::string column = {};  // where the mistake is in a line of CSV
  std::string said = {};

  [[nodiscard]] std::string in(const std::string& format) const {
    const std::string k(id, 'k');
    const std::string x(name, 'x');
    const std::string y(note, 'y');
    const std::string base64(photo / 3 * 4, 'Q');
    if (format == "csv") return k + "," + x + "," + y + "," + base64 + "\n";
    return R"({"id":")" + k + R"(","name":")" + x + R"(","note":")" + y +
           R"(","photo":{"base64":")" + base64 + "\"}}\n";
  }
};

/// It says where, what was given and what is allowed. Texts of a length, as keys too, and texts and
/// blobs of any length.
TEST_F(stopped_load, goes_on_when_what_was_too_long_was_mended) {
  if (spolia::test::no_long_cases) GTEST_SKIP() << "SKIPPED it is long here";
  constexpr std::size_t most = std::size_t{16} << 20U;
  write_text(here / "schema.json",
             R"({"spolia_dump":1,"tables":[{"name":"people","columns":[)"
             R"({"name":"id","type":"text","bytes":4,"key":true},)"
             R"({"name":"name","type":"text","bytes":8},{"name":"note","type":"text"},)"
             R"({"name":"photo","type":"blob"}]}]})");
  write_text(here / "people.csv", "id,name,note,photo\n");
  const wide_row good_one{4, 8, 1, 3};
  const auto there = [&](int rows) {
    const std::string said = good({"info", "bank"});
    EXPECT_NE(said.find("people: " + std::to_string(rows) + " rows"), std::string::npos) << said;
  };
  const auto look = [&](const std::string& format, const wide_row& wrong) {
    SCOPED_TRACE(format + ": " + wrong.said);
    fs::remove_all(here / "bank");
    EXPECT_EQ(good(load("people.csv", {"--schema", "schema.json"})), "0 rows inserted\n");
    const auto load_it = [&](const std::string& last, std::vector<std::string> more) {
      const std::string begin = format == "csv" ? "id,name,note,photo\n" : "";
      write_text(here / "new",
                 begin + wide_row{1, 1, 0, 0}.in(format) + wide_row{2, 1, 0, 0}.in(format) + last);
      more.insert(more.begin(), {"load", "bank", "new", "--table", "people", "--format", format});
      return more;
    };
    const std::string place = format == "csv" ? "new:4:" + wrong.column + ": " : "new:3:";
    bad(1, wrong.said + " (nothing of it stays)",
        load_it(wrong.in(format), {"--all-or-nothing", "--batch", "1"}));
    there(0);
    bad(1, place, load_it(wrong.in(format), {"--batch", "0"}));
    there(0);
    bad(1, wrong.said + " (before that: 2 rows inserted; --resume goes on after them)",
        load_it(wrong.in(format), {"--resume", "--batch", "1"}));
    there(2);
    EXPECT_EQ(good(load_it(good_one.in(format), {"--resume"})),
              "after 2 rows loaded before: 1 row inserted\n");
    there(3);
    nothing_is_noted();
  };
  for (const std::string format : {"csv", "json"}) {
    look(format, {5, 1, 1, 3, "1", "column id has room for 4 bytes, not 5"});
    look(format, {4, 9, 1, 3, "6", "column name has room for 8 bytes, not 9"});
  }
  look("json", {4, 8, most + 1, 3, "", "column note has room for 16777216 bytes, not 16777217"});
  look("csv", {4, 8, 1, most + 2, "17", "column photo has room for 16777216 bytes, not 16777218"});
}

TEST_F(stopped_load, goes_on_with_its_own_input_alone) {
  make_bank();
  write_text(here / "new.csv", people(4, 9) + "ten,n10\r\n");
  bad(1, "before that: 6 rows", load("new.csv", {"--resume", "--batch", "2"}));
  const std::string before = good({"dump", "bank", "-"});
  write_text(here / "other.csv", people(4, 8) + "9,another\r\n10,n10\r\n");
  bad(2,
      "other.csv does not begin with the 6 rows that the unfinished load of new.csv has loaded. "
      "Give that input, or add --start-over",
      load("other.csv", {"--resume"}));
  write_text(here / "short.csv", people(4, 7));
  bad(2, "short.csv has 4 rows, and the unfinished load of new.csv has loaded 6",
      load("short.csv", {"--resume"}));
  write_text(here / "two.json",
             R"({"spolia_dump":1,"tables":[{"name":"two","columns":[{"name":"id","type":"int64",)"
             R"("key":true}]}]})");
  bad(2, R"(into the tables ["people"], and this one is into ["two"])",
      {"load", "bank", "people.csv", "--table", "two", "--schema", "two.json", "--resume"});
  bad(2, "the store has an unfinished load of new.csv, which has loaded 6 rows",
      load("other.csv", {"--all-or-nothing"}));
  EXPECT_EQ(good({"dump", "bank", "-"}), before);
  // Rows of another input may go in meanwhile, and say so where they cannot.
  write_text(here / "meanwhile.csv", people(20, 21));
  EXPECT_EQ(good(load("meanwhile.csv")), "2 rows inserted\n");
  bad(1, "has 6 rows of a load that --resume goes on with", load("new.csv"));
  write_text(here / "new.csv", people(4, 12));
  EXPECT_EQ(good(load("new.csv", {"--resume"})), "after 6 rows loaded before: 3 rows inserted\n");
  EXPECT_EQ(rows(), dumped(1, 12) + people(20, 20, "").replace(6, 2, ",\r\n") +
                        people(21, 21, "").replace(6, 2, ",\r\n"));
  nothing_is_noted();
}

TEST_F(stopped_load, starts_over_if_told_to) {
  make_bank();
  write_text(here / "new.csv", people(4, 9) + "ten,n10\r\n");
  bad(1, "before that: 6 rows", load("new.csv", {"--resume", "--batch", "2"}));
  write_text(here / "other.csv", people(30, 31));
  EXPECT_EQ(good(load("other.csv", {"--resume", "--start-over"})), "2 rows inserted\n");
  EXPECT_NE(good({"info", "bank"}).find("people: 11 rows"), std::string::npos);
  nothing_is_noted();
  bad(2, "--start-over goes with --resume", load("other.csv", {"--start-over"}));
  bad(2, "exclude each other", load("other.csv", {"--resume", "--all-or-nothing"}));
}

/// Of several tables, also where the input ends too early and everything was loaded.
TEST_F(stopped_load, goes_on_with_streams_and_folders) {
  make_bank();
  {
    stores::database base = stores::database::open(here / "bank");
    stores::table& second =
        base.create_table({.name = "second",
                           .columns = {{"id", stores::int64, stores::primary_key}},
                           .primary = stores::index_kind::ordered});
    ASSERT_TRUE(base.transact([&](stores::transaction& tx) -> stores::status {
      for (int n = 0; n < 5; ++n) {
        if (auto s = tx.insert(second, {n}); !s) return s;
      }
      return stores::outcome::ok;
    }));
  }
  const std::string whole = good({"dump", "bank", "-"});
  static_cast<void>(good({"dump", "bank", "folder"}));
  write_text(here / "stream", whole.substr(0, whole.rfind('{')));
  const auto stopped = [&](const std::string& said, const std::vector<std::string>& words) {
    const ended e = run(words);
    EXPECT_EQ(e.code, 1);
    EXPECT_NE(e.err.find(said + " rows inserted; --resume goes on after them)"), std::string::npos)
        << e.err;
  };
  stopped("the dump is cut off: its last line is missing (before that: 8",
          {"load", "copy", "stream", "--resume", "--batch", "4"});
  write_text(here / "stream", whole);
  EXPECT_EQ(good({"load", "copy", "stream", "--resume"}),
            "after 8 rows loaded before: 0 rows inserted\n");
  EXPECT_EQ(good({"dump", "copy", "-"}), whole);
  const std::string second = read_text(here / "folder/second.jsonl");
  std::string broken = second;
  broken[broken.size() - 3] = 'x';
  write_text(here / "folder/second.jsonl", broken);
  stopped("(before that: 6", {"load", "third", "folder", "--resume", "--batch", "3"});
  write_text(here / "folder/second.jsonl", second);
  EXPECT_EQ(good({"load", "third", "folder", "--resume"}),
            "after 6 rows loaded before: 2 rows inserted\n");
  EXPECT_EQ(good({"dump", "third", "-"}), whole);
}

TEST_F(stopped_load, counts_what_it_skips_and_replaces) {
  make_bank();
  write_text(here / "new.csv", people(2, 6) + "x,y\r\n");
  bad(1, "before that: 2 rows inserted, 2 skipped",
      load("new.csv", {"--resume", "--batch", "2", "--on-conflict", "skip"}));
  write_text(here / "new.csv", people(2, 6) + "1,other\r\n");
  EXPECT_EQ(good(load("new.csv", {"--resume", "--on-conflict", "replace"})),
            "after 4 rows loaded before: 1 row inserted, 1 replaced\n");
  EXPECT_NE(rows().find("\r\n1,other,\r\n2,n2,"), std::string::npos);
}

TEST_F(stopped_load, leaves_nothing_after_a_mistake) {
  make_bank();
  const std::string before = good({"dump", "bank", "-"});
  write_text(here / "new.csv", people(4, 9) + "ten,n10\r\n");
  bad(1, "'ten' (nothing of it stays)", load("new.csv", {"--all-or-nothing", "--batch", "2"}));
  EXPECT_EQ(good({"dump", "bank", "-"}), before);
  // Each of two rows gets the name of the other; one more comes in between, and twice.
  write_text(here / "swap.csv", "id,name\r\n1,x\r\n2,n1\r\n1,n2\r\n7,new\r\n7,newer\r\nx,y\r\n");
  bad(1, "nothing of it stays",
      load("swap.csv", {"--all-or-nothing", "--batch", "1", "--on-conflict", "replace"}));
  EXPECT_EQ(good({"dump", "bank", "-"}), before);
  nothing_is_noted();
  // A table that it has made goes, too.
  write_text(here / "two.json",
             R"({"spolia_dump":1,"tables":[{"name":"two","columns":[{"name":"id","type":"int64",)"
             R"("key":true}]}]})");
  write_text(here / "two.csv", "id\r\n1\r\nx\r\n");
  bad(1, "nothing of it stays",
      {"load", "bank", "two.csv", "--table", "two", "--schema", "two.json", "--all-or-nothing"});
  EXPECT_EQ(good({"dump", "bank", "-"}), before);
  write_text(here / "new.csv", people(4, 9));
  EXPECT_EQ(good(load("new.csv", {"--all-or-nothing", "--batch", "2"})), "6 rows inserted\n");
  EXPECT_EQ(rows(), dumped(1, 9));
  nothing_is_noted();
}

TEST_F(stopped_load, leaves_nothing_after_a_kill) {
  make_bank();
  const std::string before = good({"dump", "bank", "-"});
  kill(begin(people(2, 2) + people(4, 27, ""),
             {"--batch", "10", "--all-or-nothing", "--on-conflict", "replace"}),
       "22");
  write_text(here / "none.csv", "id,name\r\n");
  EXPECT_EQ(good(load("none.csv")),
            "undone: a load that was stopped, of 20 rows\n0 rows inserted\n");
  EXPECT_EQ(good({"dump", "bank", "-"}), before);
  nothing_is_noted();
}

TEST_F(stopped_load, leaves_nothing_when_it_is_stopped) {
  make_bank();
  const pid_t child = begin(people(4, 28), {"--batch", "10", "--all-or-nothing"});
  ::kill(child, SIGTERM);
  const ended e = wait(child);
  EXPECT_EQ(e.code, 128 + SIGTERM);
  EXPECT_EQ(e.err, "spolia: interrupted (nothing of it stays)\n");
  EXPECT_EQ(rows(), dumped(1, 3));
  nothing_is_noted();
}

TEST_F(stopped_load, takes_no_table_of_the_program_for_its_notes) {
  make_bank();
  {
    stores::database base = stores::database::open(here / "bank");
    base.create_table(
        {.name = "spolia_load", .columns = {{"id", stores::int64, stores::primary_key}}});
  }
  write_text(here / "new.csv", people(4, 9));
  bad(1, "the store has a table spolia_load that is not one of spolia load",
      load("new.csv", {"--resume"}));
  EXPECT_EQ(good(load("new.csv")), "6 rows inserted\n");
}

}  // namespace
