// SPDX-License-Identifier: Apache-2.0
// Loaders that are given mutilated files: rows or an error with a place, and never half a batch.

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "schema_json.hpp"
#include "tool/made_up.hpp"

namespace {

using namespace tool_test;
using tool::text_format;

std::string mutilated(maker& make, std::string text) {
  static constexpr std::array<std::string_view, 16> words = {"\"",
                                                             ",",
                                                             "\n",
                                                             "{",
                                                             "}",
                                                             "[",
                                                             "]",
                                                             "null",
                                                             "1e999",
                                                             "\\u0000",
                                                             "{\"base64\":\"",
                                                             ":",
                                                             "\xff",
                                                             std::string_view("\0", 1),
                                                             "rows",
                                                             "-"};
  const std::uint64_t times = 1 + make.below(3);
  for (std::uint64_t i = 0; i < times && !text.empty(); ++i) {
    const std::size_t at = make.below(text.size());
    const std::size_t length = 1 + make.below(12);
    switch (make.below(6)) {
      case 0:
        text[at] = static_cast<char>(static_cast<unsigned char>(text[at]) ^ (1U << make.below(8)));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, words[make.below(words.size())]);
        break;
      case 3:
        text.insert(make.below(text.size()), text.substr(at, length * 4));
        break;
      case 4:
        text.resize(at);
        break;
      default:
        text[at] = static_cast<char>(make.below(256));
        break;
    }
  }
  return text;
}

class tool_fuzz : public testing::TestWithParam<text_format> {};
INSTANTIATE_TEST_SUITE_P(formats, tool_fuzz, testing::Values(text_format::csv, text_format::json),
                         [](const auto& p) {
                           return std::string(p.param == text_format::csv ? "csv" : "json");
                         });

TEST_P(tool_fuzz, a_failed_batch_changes_nothing) {
  int good = 0;
  int bad = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    maker make(seed);
    auto source = db::database::open();
    db::table& t = source.create_table(make.table("t"));
    make.fill(source, t, 12);
    const std::string whole = dumped(source, t, GetParam());
    for (int round = 0; round < 5; ++round) {
      auto base = db::database::open();
      db::table& copy = base.create_table(t.spec());
      make.fill(base, copy, 3);
      const tool::content before = content(base, copy);
      const auto conflict = static_cast<tool::on_conflict>(make.below(3));
      const std::uint64_t batch = make.below(4);
      const std::string text = mutilated(make, whole);
      tool::load_counts done;
      const std::string wrong =
          load(base, copy, text, GetParam(), {.conflict = conflict, .batch = batch}, done);
      const tool::content after = content(base, copy);
      EXPECT_EQ(after.rows, before.rows + done.inserted);
      if (done.inserted + done.replaced == 0) {
        EXPECT_EQ(after.hash, before.hash);
      }
      if (!wrong.empty()) {
        EXPECT_TRUE(wrong.starts_with("in:")) << wrong;
      }
      ++(wrong.empty() ? good : bad);
      // Nothing is left locked.
      EXPECT_TRUE(base.transact([&](db::transaction& tx) -> db::status {
        const auto v = make.row(copy);
        const db::status s = tx.insert(copy, db::values(v));
        return s == db::outcome::duplicate_key ? db::status() : s;
      }));
    }
  }
  EXPECT_GT(good, 10);
  EXPECT_GT(bad, 250);
}

TEST(tool_fuzz_stream, a_stream_that_is_not_whole_is_refused) {
  int good = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    maker make(seed);
    auto source = db::database::open();
    make.fill(source, source.create_table(make.table("one")), 5);
    make.fill(source, source.create_table(make.table("two")), 5);
    text_sink whole;
    tool::dump_stream(source.snapshot(), source.tables(), whole, ignore_rows);
    const std::string text = mutilated(make, whole.text);
    auto base = db::database::open();
    text_source from(text);
    tool::text_input lines(from, "in");
    std::string first;
    lines.next_line(first);
    tool::load_counts done;
    try {
      for (const auto& t : tool::parse_schema(first, "in")) base.create_table(t.spec);
      tool::stream_source rows(lines, [&](std::string_view name) -> db::table* {
        for (db::table* t : base.tables()) {
          if (t->name() == name) return t;
        }
        return nullptr;
      });
      tool::load_notes none(base, tool::unfinished::keep);
      tool::load_rows(base, rows, {.batch = 0}, none, done, [](const tool::row_source&) {});
      ++good;
    } catch (const tool::failure& e) {
      EXPECT_TRUE(std::string(e.what()).starts_with("in")) << e.what();
      for (const db::table* t : base.tables()) EXPECT_EQ(content(base, *t).rows, 0U);
    } catch (const std::invalid_argument&) {
      EXPECT_EQ(done.rows(), 0U);  // a schema of which no table can be made
    }
  }
  EXPECT_GT(good, 2);
  EXPECT_LT(good, 200);
}

}  // namespace
