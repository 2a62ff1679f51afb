// SPDX-License-Identifier: Apache-2.0
// CSV, JSON lines and schemas: what is written is read back; what is wrong is said with its place.

#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "progress.hpp"
#include "schema_json.hpp"
#include "settings.hpp"
#include "text.hpp"
#include "tool/made_up.hpp"

namespace {

using namespace tool_test;
using tool::text_format;

constexpr text_format both[] = {text_format::csv, text_format::json};

TEST(tool_formats, what_is_dumped_is_what_is_loaded) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    maker make(seed);
    auto base = db::database::open();
    db::table& t = base.create_table(make.table("t"));
    make.fill(base, t, make.below(40));
    for (const text_format format : both) {
      const std::string text = dumped(base, t, format);
      auto other = db::database::open();
      db::table& copy = other.create_table(t.spec());
      tool::load_counts done;
      ASSERT_EQ(load(other, copy, text, format, {.batch = make.below(5)}, done), "") << text;
      EXPECT_EQ(dumped(other, copy, format), text);
      EXPECT_EQ(content(other, copy).hash, content(base, t).hash);
      EXPECT_EQ(content(other, copy).rows, done.inserted);
    }
  }
}

TEST(tool_formats, a_stream_holds_all_tables) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    maker make(seed);
    auto base = db::database::open();
    for (const char* name : {"one", "rows", "sp ace \"\xc3\xa9"}) {
      make.fill(base, base.create_table(make.table(name)), make.below(20));
    }
    text_sink to;
    tool::dump_stream(base.snapshot(), base.tables(), to, ignore_rows);
    auto other = db::database::open();
    text_source from(to.text);
    tool::text_input lines(from, "in");
    std::string first;
    ASSERT_TRUE(lines.next_line(first));
    for (const auto& t : tool::parse_schema(first, "in")) other.create_table(t.spec);
    tool::stream_source rows(lines, [&](std::string_view n) { return &other.find_table(n); });
    tool::load_counts done;
    tool::load_notes none(other, tool::unfinished::keep);
    tool::load_rows(other, rows, {}, none, done, [](const tool::row_source&) {});
    for (const db::table* t : base.tables()) {
      EXPECT_TRUE(tool::same(other.find_table(t->name()).spec(), t->spec()));
      EXPECT_EQ(content(other, other.find_table(t->name())).hash, content(base, *t).hash);
    }
  }
}

TEST(tool_formats, a_schema_says_the_kind_of_an_index) {
  const db::table_spec spec{
      .name = "t",
      .columns = {{"id", db::int64, db::primary_key}, {"a", db::int64}},
      .indexes = {{.name = "h", .columns = {"a"}, .unique = true, .kind = db::index_kind::hash},
                  {.name = "o", .columns = {"a"}}}};
  const std::string text = tool::schema_text({{.spec = spec, .file = {}, .rows = {}, .bytes = {}}});
  const auto read = tool::parse_schema(text, "in");
  ASSERT_EQ(read.size(), 1U);
  EXPECT_TRUE(tool::same(read[0].spec, spec)) << text;
  EXPECT_EQ(read[0].spec.indexes.at(0).kind, db::index_kind::hash);
  db::table_spec other = spec;
  other.indexes[0].kind = db::index_kind::ordered;
  EXPECT_FALSE(tool::same(other, spec));
}

/// One that was made later, as by create_index(), comes last.
TEST(tool_formats, the_order_of_indexes_does_not_count) {
  const db::table_spec spec{
      .name = "t",
      .columns = {{"id", db::int64, db::primary_key}, {"a", db::int64}},
      .indexes = {{.name = "x", .columns = {"a"}}, {.name = "y", .columns = {"a", "id"}}}};
  db::table_spec other = spec;
  std::swap(other.indexes[0], other.indexes[1]);
  EXPECT_TRUE(tool::same(other, spec));
  other.indexes[0].name = "z";
  EXPECT_FALSE(tool::same(other, spec));
  std::swap(other.columns[0], other.columns[1]);
  EXPECT_FALSE(tool::same(other, spec));
}

const db::table_spec people{.name = "people",
                            .columns = {{"id", db::int64, db::primary_key},
                                        {"name", db::text(8)},
                                        {"weight", db::float64, db::nullable},
                                        {"tall", db::boolean, db::nullable},
                                        {"note", db::text(8), db::nullable}},
                            .primary = db::index_kind::ordered,
                            .indexes = {{"by_name", {"name"}, true}}};

/// Loads into a table that holds the row 7,Ada.
struct loaded {
  explicit loaded(std::string_view text, text_format format,
                  const tool::load_options& o = {.batch = 2})
      : base(db::database::open()), t(base.create_table(people)) {
    EXPECT_TRUE(base.transact(
        [&](db::transaction& tx) { return tx.insert(t, {7, "Ada", nullptr, nullptr, "old"}); }));
    wrong = load(base, t, text, format, o, done);
  }
  [[nodiscard]] std::string csv() const { return dumped(base, t, text_format::csv); }

  db::database base;
  db::table& t;
  tool::load_counts done;
  std::string wrong;
};

const std::string head = "id,name,weight,tall,note\r\n";

TEST(tool_formats, csv_tells_null_from_empty) {
  const loaded l(
      "\xEF\xBB\xBFname,id,note,weight,tall\n\nBo,1,,,\n\"\",2,\"\",nan,false\n,3,\"a\nb\"\"\",1e2,"
      "1",
      text_format::csv);
  EXPECT_EQ(l.wrong, "in:5:1: unique index by_name of table people has the value already");
  EXPECT_EQ(l.csv(), head + "1,Bo,,,\r\n2,\"\",nan,false,\"\"\r\n7,Ada,,,old\r\n");
  const loaded good("id,name,note\r\n3,,\"a\nb\"\"\"\r\n", text_format::csv);
  EXPECT_EQ(good.wrong, "");
  EXPECT_EQ(good.csv(), head + "3,\"\",,,\"a\nb\"\"\"\r\n7,Ada,,,old\r\n");
}

TEST(tool_formats, csv_that_is_wrong_is_refused_with_its_place) {
  const auto wrong = [](const std::string& text) { return loaded(text, text_format::csv).wrong; };
  EXPECT_EQ(wrong(""), "in:1:1: there is no header line");
  EXPECT_EQ(wrong("id,nam\n"), "in:1:4: table people has no column 'nam'");
  EXPECT_EQ(wrong("id,name,id\n"), "in:1:9: column id is there twice");
  EXPECT_EQ(wrong("id\n1\n"), "in:2:1: column name is missing, and cannot be null");
  EXPECT_EQ(wrong("id,name\n1\n"), "in:2:1: 1 field, where the header has 2");
  EXPECT_EQ(wrong("id,name\n1,a,b\n"), "in:2:1: 3 fields, where the header has 2");
  EXPECT_EQ(wrong("id,name\n1x,a\n"),
            "in:2:1: column id must be a whole number of 64 bits, not '1x'");
  EXPECT_EQ(wrong("id,name\n9223372036854775808,a\n"),
            "in:2:1: column id must be a whole number of 64 bits, not '9223372036854775808'");
  EXPECT_EQ(wrong("id,name\n,a\n"), "in:2:1: column id cannot be null");
  EXPECT_EQ(wrong("id,name\n1,a\n2,nine char\n"),
            "in:3:3: column name has room for 8 bytes, not 9");
  EXPECT_EQ(wrong("id,name,weight\n1,a,1e999\n"),
            "in:2:5: column weight must be a number that a double can hold, not '1e999'");
  EXPECT_EQ(wrong("id,name,tall\n1,a,yes\n"),
            "in:2:5: column tall must be true or false, not 'yes'");
  EXPECT_EQ(wrong("id,name\n1,a\"b\n"), "in:2:4: a quote in a field that does not begin with one");
  EXPECT_EQ(wrong("id,name\n1,\"a\"b\n"), "in:2:6: text after the quote that ends a field");
  EXPECT_EQ(wrong("id,name\n1,\"a\n\n"), "in:2:3: the quote that begins here never ends");
  EXPECT_EQ(wrong("id,name\n1,a\rb\n"), "in:2:5: a carriage return without a line feed");
  EXPECT_EQ(wrong("id,name\n1,a\n7,b\n"),
            "in:3:1: table people has a row with this key; --on-conflict skip or replace");
}

TEST(tool_formats, json_that_is_wrong_is_refused_with_its_place) {
  const auto wrong = [](const std::string& text) { return loaded(text, text_format::json).wrong; };
  EXPECT_EQ(wrong(R"({"id":1,"name":"a","weight":2,"tall":null})"), "");
  EXPECT_EQ(wrong(R"({"id":1,"name":"a","weight":"-inf"})"
                  "\r\n\n"),
            "");
  EXPECT_EQ(wrong(R"({"id":1,"name":"a","weight":-0.0e-400})"), "");
  EXPECT_EQ(wrong(R"({"id":1,"name":"a","weight":1e-400})"),
            "in:1:35: column weight must be a number that a double can hold, not '1e-400'");
  EXPECT_EQ(wrong("[]"), "in:1:1: an array where a value must be");
  EXPECT_EQ(wrong("1"), "in:1:1: not an object with columns");
  EXPECT_EQ(wrong("{}"), "in:1:1: column id is missing, and cannot be null");
  EXPECT_EQ(wrong(R"({"id":1.5,"name":"a"})"),
            "in:1:10: column id must be a whole number of 64 bits");
  EXPECT_EQ(wrong(R"({"id":9223372036854775808,"name":"a"})"),
            "in:1:26: column id must be a whole number of 64 bits");
  EXPECT_EQ(wrong("\n"
                  R"({"id":1,"name":null})"),
            "in:2:19: column name cannot be null");
  EXPECT_EQ(wrong(R"({"id":1,"id":1})"), "in:1:12: column id is there twice");
  EXPECT_EQ(wrong(R"({"id":1,"nam":1})"), "in:1:13: table people has no column 'nam'");
  EXPECT_EQ(wrong(R"({"id":1,"name":{"x":""}})"), "in:1:19: the only member can be base64");
  EXPECT_EQ(wrong(R"({"id":1,"name":{"base64":"=aa="}})"), "in:1:31: this is not base64");
  EXPECT_EQ(wrong(R"({"id":1,"name":{}})"),
            R"(in:1:17: an object in a column must be {"base64":"..."})");
  EXPECT_EQ(wrong(R"({"id":1,"name":"a"} x)"), "in:1:21: not JSON: invalid literal");
  EXPECT_EQ(wrong(R"({"id":1e999})"), "in:1:12: not JSON, or a number that is too large");
  EXPECT_EQ(wrong(R"({"id":7,"name":"b"})"),
            "in:1:1: table people has a row with this key; --on-conflict skip or replace");
}

TEST(tool_formats, a_zero_byte_ends_no_json) {
  const auto with = [](const std::string& text) {
    const std::size_t at = text.find('#');
    return std::string(text).replace(at, 1, 1, '\0');
  };
  const auto wrong = [&](const std::string& text) {
    const loaded l(with(text), text_format::json);
    EXPECT_EQ(l.csv(), head + "7,Ada,,,old\r\n");
    return l.wrong;
  };
  const std::string here = "in:1:20: not JSON: a zero byte";
  EXPECT_EQ(wrong(R"({"id":1,"name":"a"}#{"id":2,"name":"b"})"), here);
  EXPECT_EQ(wrong(R"({"id":1,"name":"a"}#)"), here);
  EXPECT_EQ(wrong(R"({"id":1,"name":"a"}#)"
                  "\r\n"),
            here);
  EXPECT_EQ(wrong("#"), "in:1:1: not JSON: a zero byte");
  EXPECT_EQ(wrong(R"({"id":1,"name":"#"})"), "in:1:17: not JSON: a zero byte");
  try {
    tool::parse_schema(with(R"({"spolia_dump":1,"tables":[]})"
                            "\n# and more"),
                       "in");
    ADD_FAILURE() << "it was taken";
  } catch (const tool::failure& e) {
    EXPECT_STREQ(e.what(), "in: not the schema of a dump: a zero byte at line 2, column 1");
  }
}

TEST(tool_formats, rows_that_are_there_fail_stay_or_go) {
  const std::string text = "id,name,note\n1,a,x\n7,Bo,\n2,b,y\n";
  const loaded fail(text, text_format::csv, {.conflict = tool::on_conflict::fail, .batch = 1});
  EXPECT_EQ(fail.wrong,
            "in:3:1: table people has a row with this key; --on-conflict skip or replace");
  EXPECT_EQ(fail.done.inserted, 1U);
  EXPECT_EQ(fail.csv(), head + "1,a,,,x\r\n7,Ada,,,old\r\n");

  const loaded skip(text, text_format::csv, {.conflict = tool::on_conflict::skip, .batch = 0});
  EXPECT_EQ(skip.wrong, "");
  EXPECT_EQ(skip.done.skipped, 1U);
  EXPECT_EQ(skip.csv(), head + "1,a,,,x\r\n2,b,,,y\r\n7,Ada,,,old\r\n");

  const loaded replace(text, text_format::csv, {.conflict = tool::on_conflict::replace});
  EXPECT_EQ(replace.wrong, "");
  EXPECT_EQ(replace.done.replaced, 1U);
  EXPECT_EQ(replace.csv(), head + "1,a,,,x\r\n2,b,,,y\r\n7,Bo,,,\r\n");

  const loaded other_row("id,name\n1,Ada\n", text_format::csv,
                         {.conflict = tool::on_conflict::replace});
  EXPECT_EQ(other_row.wrong, "in:2:1: unique index by_name of table people has the value already");
}

TEST(tool_formats, decimals_and_timestamps_are_exact) {
  auto base = db::database::open();
  db::table& t = base.create_table(
      {.name = "t",
       .columns = {{"k", db::timestamp, db::primary_key}, {"d", db::decimal(2), db::nullable}},
       .primary = db::index_kind::ordered});
  tool::load_counts done;
  const auto wrong = [&](const std::string& text, text_format format) {
    return load(base, t, text, format, {}, done);
  };
  EXPECT_EQ(wrong("k,d\n1970-01-01T00:00:00+01:00,90071992547409.93\n1970-01-01T00:00:01Z,\n",
                  text_format::csv),
            "");
  EXPECT_EQ(wrong(R"({"k":"1970-01-01T00:00:02Z","d":90071992547409.93})"
                  "\n"
                  R"({"k":"1970-01-01T00:00:03.5Z","d":"-7"})"
                  "\n"
                  R"({"k":"1970-01-01T00:00:04Z","d":7})",
                  text_format::json),
            "");
  EXPECT_EQ(dumped(base, t, text_format::csv),
            "k,d\r\n1969-12-31T23:00:00Z,90071992547409.93\r\n1970-01-01T00:00:01Z,\r\n"
            "1970-01-01T00:00:02Z,90071992547409.93\r\n1970-01-01T00:00:03.5Z,-7.00\r\n"
            "1970-01-01T00:00:04Z,7.00\r\n");
  EXPECT_TRUE(dumped(base, t, text_format::json)
                  .starts_with(R"({"k":"1969-12-31T23:00:00Z","d":90071992547409.93})"));
  EXPECT_EQ(
      wrong("k,d\nyesterday,\n", text_format::csv),
      "in:2:1: column k must be a timestamp such as 2026-11-22T21:14:00.25Z, not 'yesterday'");
  EXPECT_EQ(wrong("k,d\n1970-01-01T00:00:09Z,1.005\n", text_format::csv),
            "in:2:22: column d with 2 digits after the point cannot hold 1.005");
  EXPECT_EQ(wrong("k,d\n1970-01-01T00:00:09Z,one\n", text_format::csv),
            "in:2:22: column d must be a decimal number, not 'one'");
  EXPECT_EQ(wrong(R"({"k":"1970-01-01T00:00:09Z","d":1e2})", text_format::json),
            "in:1:36: column d must be a decimal number, not '1e2'");
  EXPECT_EQ(wrong(R"({"k":9})", text_format::json),
            "in:1:7: column k must be a timestamp such as 2026-11-22T21:14:00.25Z");
}

TEST(tool_formats, blobs_are_base64) {
  auto base = db::database::open();
  db::table& t = base.create_table({.name = "t",
                                    .columns = {{"k", db::int64, db::primary_key},
                                                {"b", db::blob(), db::nullable},
                                                {"w", db::text()}},
                                    .primary = db::index_kind::ordered});
  tool::load_counts done;
  const auto wrong = [&](const std::string& text, text_format format) {
    return load(base, t, text, format, {}, done);
  };
  const std::string megabyte(1U << 20U, 'w');
  EXPECT_EQ(wrong("k,b,w\n1,Zm9vAA==,\n2,,x\n3,\"\"," + megabyte + "\n", text_format::csv), "");
  EXPECT_EQ(wrong(R"({"k":4,"b":{"base64":"/w=="},"w":{"base64":"/w=="}})"
                  "\n"
                  R"({"k":5,"b":"Zm9v","w":"Zm9v"})",
                  text_format::json),
            "in:2:17: column b must be a blob in base64");
  EXPECT_EQ(wrong(R"({"k":4,"b":{"base64":"/w=="},"w":{"base64":"/w=="}})", text_format::json), "");
  EXPECT_EQ(dumped(base, t, text_format::csv),
            "k,b,w\r\n1,Zm9vAA==,\"\"\r\n2,,x\r\n3,\"\"," + megabyte + "\r\n4,/w==,\"\xff\"\r\n");
  EXPECT_TRUE(dumped(base, t, text_format::json)
                  .starts_with(R"({"k":1,"b":{"base64":"Zm9vAA=="},"w":""})"
                               "\n"
                               R"({"k":2,"b":null,"w":"x"})"));
  EXPECT_EQ(wrong("k,b,w\n9,Zm9,\n", text_format::csv),
            "in:2:3: column b must be a blob in base64, not 'Zm9'");
  EXPECT_TRUE(tool::same(
      tool::parse_schema(
          tool::schema_text({{.spec = t.spec(), .file = {}, .rows = {}, .bytes = {}}}), "in")[0]
          .spec,
      t.spec()));
}

TEST(tool_formats, a_schema_that_is_wrong_is_refused) {
  const auto wrong = [](const std::string& text) -> std::string {
    try {
      tool::parse_schema(text, "in");
    } catch (const tool::failure& e) {
      return e.what();
    }
    return "";
  };
  const auto with = [](const std::string& tables) {
    return R"({"spolia_dump":1,"tables":[)" + tables + "]}";
  };
  EXPECT_EQ(wrong(with("")), "");
  EXPECT_EQ(wrong("nothing"), "in: not the schema of a dump: no JSON at line 1, column 2");
  EXPECT_EQ(wrong("{\n  \"spolia_dump\": 1,,\n}"),
            "in: not the schema of a dump: no JSON at line 2, column 20");
  EXPECT_EQ(wrong("[1e999]"), "in: not the schema of a dump");
  EXPECT_EQ(wrong("[]"), "in: not the schema of a dump");
  EXPECT_EQ(wrong(R"({"spolia_dump":2,"tables":[]})"),
            "in: written in version 2 of the format; this program reads version 1");
  EXPECT_EQ(wrong(R"({"spolia_dump":1,"tables":[],"more":1})"),
            "in: the schema has a member that is not known: 'more'");
  EXPECT_EQ(wrong(with("1")), "in: a table is not an object");
  EXPECT_EQ(wrong(with("{}")), "in: a table has no member 'name'");
  EXPECT_EQ(wrong(with(R"({"name":"t","columns":[{"name":"a","type":"int"}]})")),
            "in: column a has type 'int'; there are int64, float64, boolean, decimal, timestamp, "
            "text, blob");
  EXPECT_EQ(wrong(with(R"({"name":"t","columns":[{"name":"a","type":"numeric","digits":2}]})")),
            "in: column a has type 'numeric'; there are int64, float64, boolean, decimal, "
            "timestamp, text, blob");
  EXPECT_EQ(wrong(with(R"({"name":"t","columns":[{"name":"a","type":"text","bytes":70000}]})")),
            "in: column a has room for too many bytes; text without 'bytes' has no limit");
  EXPECT_EQ(wrong(with(R"({"name":"t","columns":[{"name":"a","type":"decimal"}]})")),
            "in: column a does not say how many digits follow the point, up to 18");
  EXPECT_EQ(wrong(with(R"({"name":"t","columns":[{"name":"a","type":"int64","digits":1}]})")),
            "in: column a has 'digits', but is no decimal");
  EXPECT_EQ(wrong(with(R"({"name":"t","primary":"tree"})")),
            "in: table t has a primary index 'tree'; there are hash, ordered");
  EXPECT_EQ(wrong(with(R"({"name":"t","indexes":[{"name":"i","kind":"tree"}]})")),
            "in: index i of table t is 'tree'; there are hash, ordered");
  EXPECT_THROW(
      tool::schema_text(
          {{.spec = {.name = "\xff", .columns = {}}, .file = {}, .rows = {}, .bytes = {}}}),
      tool::failure);
}

TEST(tool_formats, a_file_of_options_sets_them_all) {
  const auto file = std::filesystem::path(testing::TempDir()) / "spolia-options.toml";
  std::ofstream(file) << R"([store]
versions = "steam"
version_budget = 1
partition_transactions = 2
partition_bytes = 3
most_partitions = 4
hash_indexes = "cuckoo"
durability = "async"
loss_window_ms = 5
segment_bytes = 6000
checkpoint_log_bytes = 7
checkpoint_share = 8
recovery_threads = 9
publish_status = true
[load]
batch = 10
on_conflict = "replace"
[top]
interval = 2
)";
  const tool::settings s = tool::read_settings(file);
  std::filesystem::remove(file);
  EXPECT_EQ(s.store.versions, db::version_storage::steam);
  EXPECT_EQ(s.store.version_budget, 1U);
  EXPECT_EQ(s.store.partition_transactions, 2U);
  EXPECT_EQ(s.store.partition_bytes, 3U);
  EXPECT_EQ(s.store.most_partitions, 4U);
  EXPECT_EQ(s.store.hash_indexes, db::hash_kind::cuckoo);
  EXPECT_EQ(s.store.durability, db::durability_level::async);
  EXPECT_EQ(s.store.loss_window.count(), 5);
  EXPECT_EQ(s.store.segment_bytes, 6000U);
  EXPECT_EQ(s.store.checkpoint_log_bytes, 7U);
  EXPECT_EQ(s.store.checkpoint_share, 8U);
  EXPECT_EQ(s.store.recovery_threads, 9U);
  EXPECT_TRUE(s.store.publish_status);
  EXPECT_EQ(s.load.batch, 10U);
  EXPECT_EQ(s.load.conflict, tool::on_conflict::replace);
  EXPECT_EQ(s.interval, 2);
}

TEST(tool_formats, every_version_storage_can_be_named) {
  const auto file = std::filesystem::path(testing::TempDir()) / "spolia-storages.toml";
  const auto read = [&](const std::string& name) {
    std::ofstream(file) << "[store]\nversions = \"" << name << "\"\n";
    return tool::read_settings(file).store.versions;
  };
  for (const auto& info : db::version_storages()) {
    std::string name(info.name);
    std::ranges::replace(name, '_', '-');
    EXPECT_EQ(read(name), info.storage) << name;
  }
  EXPECT_EQ(read("steam-epo"), db::version_storage::steam_eager);
  EXPECT_THROW(read("one_shot"), std::exception);
  std::filesystem::remove(file);
}

TEST(tool_formats, small_things) {
  EXPECT_EQ(tool::progress::line("load", 0, 0, 0, 0), "load");
  EXPECT_EQ(tool::progress::line("load", 2500000, 0, 7, 9), "load 2.5 MB, 7 rows");
  EXPECT_EQ(tool::progress::line("load", 25, 100, 0, 5),
            "load [######------------------]  25 %, 15 s left");
  EXPECT_EQ(tool::progress::line("load", 200, 100, 0, 5),
            "load [########################] 100 %, 0 s left");
  EXPECT_EQ(tool::printable("a\x1b[2Jb"), "a?[2Jb");
  EXPECT_TRUE(tool::is_utf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x8c"));
  for (const char* bad : {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xff",
                          "\xf4\x90\x80\x80", "\xf0\x80\x80\x80"}) {
    EXPECT_FALSE(tool::is_utf8(bad));
  }
  for (const std::string_view s : {"", "f", "fo", "foo", "foob"}) {
    std::string text;
    tool::append_base64(text, s);
    EXPECT_EQ(tool::from_base64(text), s);
  }
  for (const char* bad : {"a", "====", "Zh==", "Z===", "Zg==Zg==", "Zm9=", "Zm 9"}) {
    EXPECT_FALSE(tool::from_base64(bad)) << bad;
  }
  EXPECT_EQ(tool::file_name("a/b c.d", text_format::csv, 0), "a%2Fb%20c.d.csv");
  EXPECT_EQ(tool::file_name("..", text_format::json, 0), "%2E..jsonl");
  EXPECT_EQ(tool::short_count(999), "999");
  EXPECT_EQ(tool::short_count(1234567), "1.2 M");
}

}  // namespace
