// SPDX-License-Identifier: Apache-2.0
// What a program needs that learns the tables and their columns while it runs.

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <spolia/db.hpp>

namespace {

using namespace spolia;
using namespace spolia::db;

const table_spec every_kind{
    .name = "every kind",
    .columns = {{"label", text(9), primary_key},
                {"number", int64, primary_key},
                {"real", float64},
                {"flag", boolean},
                {"note", text(40), nullable},
                {"maybe", int64, nullable}},
    .primary = index_kind::ordered,
    .indexes = {{"by_real", {"real", "flag"}}, {"by_number", {"number"}, true}}};

void expect_same(const table_spec& a, const table_spec& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.primary, b.primary);
  ASSERT_EQ(a.columns.size(), b.columns.size());
  for (std::size_t i = 0; i < a.columns.size(); ++i) {
    EXPECT_EQ(a.columns[i].name, b.columns[i].name);
    EXPECT_EQ(a.columns[i].type, b.columns[i].type);
    EXPECT_EQ(a.columns[i].role, b.columns[i].role);
  }
  ASSERT_EQ(a.indexes.size(), b.indexes.size());
  for (std::size_t i = 0; i < a.indexes.size(); ++i) {
    EXPECT_EQ(a.indexes[i].name, b.indexes[i].name);
    EXPECT_EQ(a.indexes[i].columns, b.indexes[i].columns);
    EXPECT_EQ(a.indexes[i].unique, b.indexes[i].unique);
  }
}

TEST(dynamic, a_table_knows_what_it_was_made_from) {
  auto base = database::open();
  EXPECT_TRUE(base.tables().empty());
  const table& made = base.create_table(every_kind);
  const table& plain = base.create_table({.name = "plain", .columns = {{"k", int64, primary_key}}});
  EXPECT_EQ(base.tables(),
            (std::vector<table*>{&base.find_table("every kind"), &base.find_table("plain")}));
  expect_same(made.spec(), every_kind);
  EXPECT_EQ(plain.spec().primary, index_kind::hash);
  auto other = database::open();
  expect_same(other.create_table(made.spec()).spec(), every_kind);
}

TEST(dynamic, values_come_back_as_they_were_put) {
  auto base = database::open();
  table& t = base.create_table(every_kind);
  const std::string bytes("a\0\xff", 3);
  const std::vector<std::vector<value>> rows = {
      {"", std::numeric_limits<std::int64_t>::min(), 0.1, true, nullptr, nullptr},
      {bytes, std::numeric_limits<std::int64_t>::max(), -1e300, false, "", 0},
      {"nine char", 0, std::numeric_limits<double>::denorm_min(), true, "note", -1}};
  ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
    for (const auto& r : rows) {
      if (const status s = tx.insert(t, values(r)); !s) return s;
    }
    return {};
  }));
  const reader now = base.snapshot();
  for (const auto& r : rows) {
    const auto found = now.find(t, {r[0], r[1]});
    ASSERT_TRUE(found);
    for (const column_layout& c : t.layout().columns()) {
      EXPECT_EQ(found->get(c).what(), r[c.number].what()) << c.name;
    }
  }
}

/// A hash table packs a key of a few small numbers into one word, and looks at no row then.
TEST(dynamic, keys_are_told_apart_whether_their_numbers_are_small_or_not) {
  constexpr std::int64_t one = 1;
  const std::vector<std::int64_t> numbers = {
      0, 1, -1, one << 16, one << 21, (one << 32) - 1, one << 32, one << 62, -(one << 32)};
  auto base = database::open();
  for (std::size_t width = 2; width <= 5; ++width) {
    table_spec spec{.name = std::string("keys").append(std::to_string(width)), .columns = {}};
    for (std::size_t i = 0; i < width; ++i) {
      spec.columns.push_back({std::string(1, static_cast<char>('a' + i)), int64, primary_key});
    }
    spec.columns.push_back({"v", int64});
    table& t = base.create_table(spec);
    // Each number in each place, beside ones and beside itself.
    std::vector<std::vector<value>> keys;
    for (const std::int64_t n : numbers) {
      if (n != 1) keys.emplace_back(width, n);
      for (std::size_t at = 0; at < width; ++at) {
        if (n == 1 && at != 0) continue;
        keys.emplace_back(width, 1).at(at) = n;
      }
    }
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        std::vector<value> row = keys[i];
        row.emplace_back(static_cast<std::int64_t>(i));
        if (const status s = tx.insert(t, values(row)); !s) return s;
      }
      return {};
    }));
    const reader now = base.snapshot();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto found = now.find(t, values(keys[i]));
      ASSERT_TRUE(found);
      EXPECT_EQ(found->get(t.layout().column("v")).what(),
                value(static_cast<std::int64_t>(i)).what());
    }
  }
}

TEST(dynamic, an_editor_sets_columns_by_their_layout) {
  auto base = database::open();
  table& t = base.create_table(every_kind);
  const column_layout& note = t.layout().column("note");
  ASSERT_TRUE(base.transact(
      [&](transaction& tx) { return tx.insert(t, {"x", 1, 0.5, true, nullptr, 5}); }));
  ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
    auto row = tx.edit(t, {"x", 1});
    if (!row) return row.why();
    EXPECT_TRUE(row->get(note).null());
    EXPECT_THROW(static_cast<void>(row->set(t.layout().column("label"), "y")),
                 std::invalid_argument);
    if (const status s = row->set(note, "changed"); !s) return s;
    return row->set(t.layout().column("maybe"), nullptr);
  }));
  const reader now = base.snapshot();
  const auto found = now.find(t, {"x", 1});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->get(note).what(), value("changed").what());
  EXPECT_TRUE(found->get(t.layout().column("maybe")).null());
}

}  // namespace
