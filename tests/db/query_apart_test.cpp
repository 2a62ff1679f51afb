// SPDX-License-Identifier: Apache-2.0
// Conditions of a query for out-of-line values of rows.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include <spolia/db.hpp>

namespace {

using namespace spolia::db;

class query_apart : public testing::Test {
 protected:
  static constexpr std::int64_t rows = 2000;

  /// Every third is null, and every other one is longer than what lies in the row itself.
  static std::string text_of(std::int64_t k) {
    return (k % 2 == 0 ? "" : std::string(50, 'x')) + std::to_string(k);
  }
  query_apart() {
    EXPECT_TRUE(base.transact([&](transaction& tx) -> status {
      for (std::int64_t k = 0; k < rows; ++k) {
        const std::string text = text_of(k);
        const value shown = k % 3 == 0 ? value() : value(std::string_view(text));
        if (const status s = tx.insert(t, {k, shown, blob_view(text)}); !s) return s;
      }
      return outcome::ok;
    }));
  }
  std::int64_t count_of(query& q) {
    const result<answer> all = q.aggregate(count()).run({.threads = 3, .morsel = 64});
    return all ? all->get<std::int64_t>(0, 0) : -1;
  }
  /// That are no nulls, and end so.
  static std::int64_t that_end_in_7() {
    std::int64_t n = 0;
    for (std::int64_t k = 7; k < rows; k += 10) n += k % 3 == 0 ? 0 : 1;
    return n;
  }
  /// What holds for the rows as they were made.
  void all_are_found(const reader& at) {
    query ends = at.query(t);
    ends.where(note, [](std::string_view s) { return s.ends_with("7"); });
    EXPECT_EQ(count_of(ends), that_end_in_7());
    query data_ends = at.query(t);
    data_ends.where(data, [](blob_view b) { return b.chars().ends_with("7"); });
    EXPECT_EQ(count_of(data_ends), rows / 10);
    query one = at.query(t);
    one.where("note", equal, text_of(1001));
    EXPECT_EQ(count_of(one), 1);
    query others = at.query(t);
    others.where("note", unequal, text_of(1001)).where("k", less, 1003);
    EXPECT_EQ(count_of(others), 1003 - 1 - 335);
    query above = at.query(t);
    above.where("note", greater_equal, "x");
    EXPECT_EQ(count_of(above), rows / 2 - 333);
    query both = at.query(t);
    both.where(note, [](std::string_view s) { return s.ends_with("7"); })
        .where("data", less, blob_view(std::string_view("7")));
    EXPECT_EQ(count_of(both), 0) << "odd ones begin with an x";
    query null = at.query(t);
    null.where_null("note");
    EXPECT_EQ(count_of(null), 667);
  }
  void change_all() {
    EXPECT_TRUE(base.transact([&](transaction& tx) -> status {
      for (std::int64_t k = 0; k < rows; ++k) {
        if (const status s = tx.put(t, {k, std::string(70, 'z'), blob_view()}); !s) return s;
      }
      return outcome::ok;
    }));
    base.collect();
  }

  database base = database::open();
  table& t = base.create_table(
      {.name = "t",
       .columns = {{"k", int64, primary_key}, {"note", text(), nullable}, {"data", blob()}}});
  const column<std::string_view> note = t.column<std::string_view>("note");
  const column<blob_view> data = t.column<blob_view>("data");
};

TEST_F(query_apart, conditions_hold) {
  const reader at = base.snapshot();
  all_are_found(at);
  change_all();
  all_are_found(at);
  const reader now = base.snapshot();
  query z = now.query(t);
  z.where("note", equal, std::string(70, 'z'));
  EXPECT_EQ(count_of(z), rows);
}

/// Values are copied then, one at a time.
TEST_F(query_apart, conditions_hold_for_a_reader_that_may_be_ended) {
  const reader at = base.snapshot({.deadline = std::chrono::hours(1)});
  all_are_found(at);
  change_all();
  all_are_found(at);
}

TEST_F(query_apart, conditions_see_the_changes_of_a_transaction) {
  for (const bool may_be_ended : {false, true}) {
    transaction tx = base.begin(transaction_options{
        .deadline = may_be_ended ? std::chrono::hours(1) : std::chrono::hours(0)});
    ASSERT_TRUE(tx.update(t, {1}, {{"note", std::string(90, 'q')}}));
    ASSERT_TRUE(tx.erase(t, {7}));
    query q = tx.query(t);
    q.where("note", equal, std::string(90, 'q'));
    EXPECT_EQ(count_of(q), 1);
    query ends = tx.query(t);
    ends.where(note, [](std::string_view s) { return s.ends_with("7"); });
    EXPECT_EQ(count_of(ends), that_end_in_7() - 1);
    tx.rollback();
  }
}

TEST_F(query_apart, there_are_no_groups) {
  const reader at = base.snapshot();
  EXPECT_THROW(at.query(t).group_by("note"), std::invalid_argument);
  EXPECT_THROW(at.query(t).aggregate((max)("data")), std::invalid_argument);
  query q = at.query(t);
  EXPECT_THROW(q.where("data", equal, 7), std::invalid_argument);
}

}  // namespace
