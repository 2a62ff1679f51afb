// SPDX-License-Identifier: Apache-2.0
// Decimals and timestamps: values, columns, keys, files.

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "db/durable.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

template <class F>
std::string refused(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

TEST(mistakes, a_column_that_is_read_as_another_type) {
  database base = database::open();
  const table& t = base.create_table({.name = "t", .columns = {{"k", int64, primary_key}}});
  const std::string is = "spolia::db: column k of table t has type int64 and is read as ";
  EXPECT_EQ(refused([&] { static_cast<void>(t.column<double>("k")); }),
            is + "std::int64_t, not as double");
  EXPECT_EQ(refused([&] { static_cast<void>(t.column<std::string_view>("k")); }),
            is + "std::int64_t, not as std::string_view");
}

TEST(mistakes, are_named) {
  database base = database::open();
  const auto made = [&](const std::string& name, std::vector<column_spec> columns,
                        std::vector<index_spec> indexes = {}) {
    return refused([&] {
      base.create_table(
          {.name = name, .columns = std::move(columns), .indexes = std::move(indexes)});
    });
  };
  const column_spec key{"k", int64, primary_key};
  EXPECT_EQ(made("t", {key, {"", int64}}), "spolia::db: a column of table t needs a name");
  EXPECT_EQ(made("t", {key, {"k", int64}}),
            "spolia::db: columns of table t need different names: two are called k");
  // Which no log or checkpoint could hold.
  const std::string long_name(65536, 'x');
  EXPECT_EQ(made(long_name, {key}),
            "spolia::db: a table has a name of 65536 bytes: at most 65535 are allowed");
  EXPECT_EQ(made("t", {key, {long_name, int64}}),
            "spolia::db: a column of table t has a name of 65536 bytes: at most 65535 are allowed");
  EXPECT_EQ(made("t", {key}, {{.name = long_name, .columns = {"k"}}}),
            "spolia::db: an index of table t has a name of 65536 bytes: at most 65535 are allowed");
  EXPECT_EQ(made("t", {}), "spolia::db: table t has 0 columns: from 1 to 62 are allowed");
  EXPECT_EQ(made("t", {{"v", int64}}),
            "spolia::db: table t has no column with primary_key: it needs one");
  EXPECT_EQ(made("t", {key, {"w", text(60000)}, {"x", text(60000)}}),
            "spolia::db: a row of table t has 120024 bytes: at most 64000 are allowed. text() and "
            "blob() take 16 of them");
  EXPECT_EQ(made("t", {{"k", text(90), primary_key}}),
            "spolia::db: the key of table t has 96 bytes: at most 64 are allowed. Numbers take 8, "
            "and text(n) n + 2, rounded up to 8");
  EXPECT_EQ(made("t", {key, {"w", text(60001)}}),
            "spolia::db: column w of table t has type text(60001): from 1 to 60000 bytes are "
            "allowed, and text() takes up to 16 MiB");
  EXPECT_EQ(made("t", {key}, {{"x", {"k"}}, {"x", {"k"}}}),
            "spolia::db: indexes of table t need different names: two are called x");
  table& t = base.create_table({.name = "t", .columns = {key}});
  EXPECT_EQ(refused([&] { static_cast<void>(base.snapshot().find(t, {1, 2})); }),
            "spolia::db: a key of table t has 1 value, and not 2");
  EXPECT_EQ(refused([&] { static_cast<void>(base.begin().lock(t, {})); }),
            "spolia::db: a key of table t has 1 value, and not 0");
  EXPECT_EQ(refused([&] { base.create_table({.name = "t", .columns = {key}}); }),
            "spolia::db: a table t exists: use another name, or find_table()");
  EXPECT_EQ(refused([&] { static_cast<void>(base.find_table("u")); }),
            "spolia::db: there is no table u: tables() has all that there are");
  EXPECT_EQ(
      refused([&] { base.checkpoint(); }),
      "spolia::db: the database is in memory only: it has no checkpoints, no backups and no report "
      "of its opening. One that database::open(directory) makes has them");
  transaction tx = base.begin();
  EXPECT_EQ(refused([&] { static_cast<void>(tx.insert(t, {1, 2})); }),
            "spolia::db: a row of table t has 1 value, and not 2");
  EXPECT_EQ(refused([&] { static_cast<void>(tx.update(t, {1}, {{"k", 2}})); }),
            "spolia::db: column k of table t is part of the primary key, which is not changed: "
            "erase the row, and insert another one");
  EXPECT_EQ(refused([&] { static_cast<void>(tx.update(t, {1}, {{"v", 2}})); }),
            "spolia::db: table t has no column v. It has k");
  EXPECT_EQ(refused([&] { static_cast<void>(t.index("x")); }),
            "spolia::db: table t has no index x. It has none");
  EXPECT_EQ(
      refused([&] { static_cast<void>(value(~std::uint64_t{0})); }),
      "spolia::db: an integer of more than 9223372036854775807 does not fit: integers have 64 "
      "bits, one of them a sign");
  EXPECT_EQ(refused([] { database::open({.most_partitions = 1}); }),
            "spolia::db: options::most_partitions is 1: it is from 2 to 256");
}

// Such keys are encoded without a look at their columns.
TEST(keys_of_integers, are_found_by_all_their_values) {
  database base = database::open();
  table& t = base.create_table({.name = "t",
                                .columns = {{"a", int64, primary_key},
                                            {"b", int64, primary_key},
                                            {"c", int64, primary_key},
                                            {"v", int64}},
                                .primary = index_kind::ordered});
  const auto v = t.column<std::int64_t>("v");
  std::vector<std::vector<value>> keys;  // in ascending order
  const std::vector<std::int64_t> some = {least, -1, 0, 1, most};
  for (const std::int64_t a : some) {
    for (const std::int64_t b : some) {
      for (const std::int64_t c : some) keys.push_back({a, b, c});
    }
  }
  transaction tx = base.begin();
  for (std::size_t i = keys.size(); i-- != 0;) {
    ASSERT_TRUE(tx.insert(t, {keys[i][0], keys[i][1], keys[i][2], i}));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(tx.find(t, keys[i])->get(v), static_cast<std::int64_t>(i));
    EXPECT_EQ(tx.find(t, {keys[i][0], keys[i][1], keys[i][2]})->get(v),
              static_cast<std::int64_t>(i));
  }
  EXPECT_EQ(tx.find(t, {1, 1, 2}).code(), outcome::not_found);
  std::int64_t next = 0;
  tx.scan(t, {}, {}, [&](const row& r) { EXPECT_EQ(r.get(v), next++); });
  EXPECT_EQ(next, std::ssize(keys));
}

TEST(keys_of_integers, take_nothing_else) {
  database base = database::open();
  const std::vector<std::string> names = {"a", "b", "c"};
  table& t = base.create_table(
      {.name = "t",
       .columns = {
           {"a", int64, primary_key}, {"b", int64, primary_key}, {"c", int64, primary_key}}});
  transaction tx = base.begin();
  ASSERT_TRUE(tx.insert(t, {0, 0, 0}));
  const std::vector<value> others = {value(),    value(0.0),           value(false),
                                     value("0"), decimal_number(0, 0), instant()};
  for (std::size_t place = 0; place < names.size(); ++place) {
    for (const value& other : others) {
      std::vector<value> key = {0, 0, 0};
      key[place] = other;
      const std::string begin =
          "spolia::db: column " + names[place] + " of table t has type int64 and takes ";
      EXPECT_TRUE(refused([&] { static_cast<void>(tx.find(t, key)); }).starts_with(begin));
      EXPECT_TRUE(refused([&] { static_cast<void>(tx.edit(t, key)); }).starts_with(begin));
    }
  }
  // One column of another type is enough.
  table& mixed = base.create_table(
      {.name = "mixed", .columns = {{"a", int64, primary_key}, {"b", boolean, primary_key}}});
  transaction later = base.begin();
  ASSERT_TRUE(later.insert(mixed, {1, true}));
  EXPECT_TRUE(later.find(mixed, {1, true}));
  EXPECT_TRUE(refused([&] {
                static_cast<void>(later.find(mixed, {1, 1}));
              }).starts_with("spolia::db: column b of table mixed has type boolean and takes "));
}

enum plain { minus_two = -2, seven = 7 };
enum wide : std::uint64_t { largest = std::numeric_limits<std::uint64_t>::max() };

TEST(enumerators, are_whole_numbers) {
  database base = database::open();
  table& t = base.create_table(
      {.name = "t", .columns = {{"k", int64, primary_key}, {"n", int64}, {"f", float64}}});
  const auto k = t.column<std::int64_t>("k");
  const auto n = t.column<std::int64_t>("n");
  EXPECT_TRUE(base.transact([&](transaction& tx) -> status {
    if (const status s = tx.insert(t, {seven, minus_two, 0.5}); !s) return s;
    return tx.update(t, {seven}, {{"n", seven}});
  }));
  reader at = base.snapshot();
  const auto found = at.find(t, {seven});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->get(k), 7);
  EXPECT_EQ(found->get(n), 7);
  EXPECT_EQ(
      at.query(t).where("n", greater, minus_two).aggregate(count()).run()->get<std::int64_t>(0, 0),
      1);
  transaction tx = base.begin();
  EXPECT_NE(refused([&] { static_cast<void>(tx.update(t, {7}, {{"f", seven}})); }), "");
  EXPECT_NE(refused([&] { static_cast<void>(at.query(t).where("f", greater, seven)); }), "");
  EXPECT_NE(refused([&] { static_cast<void>(value(largest)); }), "");
}

TEST(decimals, are_what_is_written) {
  EXPECT_EQ(decimal_number("12.50").scaled(), 1250);
  EXPECT_EQ(decimal_number("12.50").digits(), 2U);
  EXPECT_EQ(decimal_number("-0.05").scaled(), -5);
  EXPECT_EQ(decimal_number("+7").text(), "7");
  EXPECT_EQ(decimal_number(-5, 2).text(), "-0.05");
  EXPECT_EQ(decimal_number(5, 0).text(), "5");
  EXPECT_EQ(decimal_number(least, 18).text(), "-9.223372036854775808");
  EXPECT_EQ(decimal_number("-9.223372036854775808").scaled(), least);
  EXPECT_EQ(decimal_number("9223372036854775807").scaled(), most);
  EXPECT_EQ(decimal_number("00000000000000000000001").scaled(), 1);
  for (const char* bad :
       {"", "-", ".", ".5", "5.", "1e3", "1.2.3", " 1", "1 ", "--1", "0x1", "1,5"}) {
    EXPECT_EQ(
        refused([&] { decimal_number{bad}; }),
        "spolia::db: \"" + std::string(bad) +
            "\" is not a decimal number: digits, maybe a sign before them and a point between "
            "them, as in -12.50");
  }
  for (const char* bad : {"9223372036854775808", "-9223372036854775809", "99999999999999999999.0",
                          "92233720368547758.08"}) {
    EXPECT_EQ(refused([&] { decimal_number{bad}; }),
              "spolia::db: \"" + std::string(bad) +
                  "\" does not fit in 64 bits: a decimal has at most 18 digits, or 19 up to "
                  "9223372036854775807");
  }
  EXPECT_EQ(refused([] { decimal_number("0.0000000000000000000"); }),
            "spolia::db: \"0.0000000000000000000\" has 19 digits after the point: at most 18 are "
            "allowed");
  EXPECT_THROW(decimal_number(1, 19), std::invalid_argument);
}

TEST(decimals, are_compared_as_numbers) {
  EXPECT_EQ(decimal_number("1.5"), decimal_number("1.500"));
  EXPECT_NE(decimal_number("1.5"), decimal_number("1.501"));
  // Each is less than the next.
  const std::vector<decimal_number> rising = {{least, 0}, {least, 18}, {-15, 1}, {-1499, 3},
                                              {-1, 18},   {0, 7},      {1, 18},  {1, 0},
                                              {most, 18}, {most, 0}};
  for (std::size_t i = 0; i < rising.size(); ++i) {
    for (std::size_t k = 0; k < rising.size(); ++k) {
      EXPECT_EQ(rising[i] < rising[k], i < k) << rising[i].text() << " " << rising[k].text();
    }
  }
  EXPECT_EQ(decimal_number("1.50").with(1).scaled(), 15);
  EXPECT_EQ(decimal_number("1.5").with(18).scaled(), 1500000000000000000);
  EXPECT_EQ(
      refused([] { static_cast<void>(decimal_number("1.55").with(1)); }),
      "spolia::db: 1.55 has more digits after the point than the 1 that are kept: round it before");
  EXPECT_EQ(refused([] { static_cast<void>(decimal_number("10").with(18)); }),
            "spolia::db: 10 with 18 digits after the point does not fit in 64 bits: a decimal has "
            "at most 18 digits, or 19 up to 9223372036854775807");
}

TEST(instants, are_written_as_iso_8601_has_it) {
  const auto text = [](std::int64_t t) { return to_text(instant_at(t)); };
  EXPECT_EQ(text(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(text(-1), "1969-12-31T23:59:59.999999Z");
  EXPECT_EQ(text(1500000), "1970-01-01T00:00:01.5Z");
  EXPECT_EQ(text(951827696789000), "2000-02-29T12:34:56.789Z");
  EXPECT_EQ(text(253402300800000000), "+010000-01-01T00:00:00Z");
  EXPECT_EQ(text(-62167219200000000), "0000-01-01T00:00:00Z");
  EXPECT_EQ(text(-62167219200000001), "-000001-12-31T23:59:59.999999Z");
  for (const std::int64_t t : {least, least + 1, least + 999999, most, most - 1}) {
    EXPECT_EQ(microseconds_of(instant_of(text(t))), t) << text(t);
  }
  // Days around each month's end for more than 400 years, as std::chrono counts them.
  for (std::int64_t day = -150000; day < 150000; day += 1) {
    const std::chrono::year_month_day d{std::chrono::sys_days(std::chrono::days(day))};
    if (d.day() > std::chrono::day(1) && d.day() < std::chrono::day(28)) continue;
    const std::string written = text(day * 86400000000);
    ASSERT_EQ(std::stoi(written.substr(0, 4)), int(d.year())) << written;
    ASSERT_EQ(std::stoul(written.substr(5, 2)), unsigned(d.month())) << written;
    ASSERT_EQ(std::stoul(written.substr(8, 2)), unsigned(d.day())) << written;
    ASSERT_EQ(microseconds_of(instant_of(written)), day * 86400000000);
  }
}

TEST(instants, are_read_with_a_difference_to_utc) {
  EXPECT_EQ(instant_of("2026-11-22T21:14:00+02:30"), instant_of("2026-11-22 18:44:00Z"));
  EXPECT_EQ(instant_of("2026-11-22T21:14:00-02:00"), instant_of("2026-11-22T23:14:00.000000000Z"));
  for (const char* bad :
       {"", "2026-11-22", "2026-11-22T21:14Z", "2026-11-22T21:14:00", "2026-11-22T21:14:00z",
        "26-11-22T21:14:00Z", "2026-11-22T21:14:00.Z", "2026-11-22T21:14:00Z ",
        "2026-1-22T21:14:00Z", "2026-11-22T21:14:00+2", "+2026-11-22T21:14:00Z"}) {
    EXPECT_EQ(refused([&] { instant_of(bad); }),
              "spolia::db: \"" + std::string(bad) +
                  "\" is not an instant as ISO 8601 has it, as 2026-11-22T21:14:00.5Z");
  }
  for (const char* bad : {"2026-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-13-01T00:00:00Z",
                          "2026-00-01T00:00:00Z", "2026-04-31T00:00:00Z", "2026-04-00T00:00:00Z"}) {
    EXPECT_EQ(refused([&] { instant_of(bad); }),
              "spolia::db: \"" + std::string(bad) + "\" has a day that there is not");
  }
  for (const char* bad : {"2026-11-22T24:00:00Z", "2026-11-22T23:60:00Z", "2026-11-22T23:59:60Z",
                          "2026-11-22T23:59:00+24:00"}) {
    EXPECT_EQ(refused([&] { instant_of(bad); }),
              "spolia::db: \"" + std::string(bad) + "\" has a time of day that there is not");
  }
  EXPECT_EQ(refused([] { instant_of("2026-11-22T21:14:00.0000001Z"); }),
            "spolia::db: \"2026-11-22T21:14:00.0000001Z\" has parts of a microsecond, which are "
            "not kept: round it before");
  for (const char* bad : {"+294247-01-10T04:00:54.775808Z", "-290308-12-21T19:59:05.224191Z",
                          "+999999-01-01T00:00:00Z"}) {
    EXPECT_EQ(refused([&] { instant_of(bad); }),
              "spolia::db: \"" + std::string(bad) +
                  "\" does not fit in 64 bits: the years -290307 to 294246 do");
  }
}

const table_spec payments{.name = "payments",
                          .columns = {{"at", timestamp, primary_key},
                                      {"fee", decimal(3), primary_key},
                                      {"amount", decimal(2)},
                                      {"settled", timestamp, nullable},
                                      {"rest", decimal(18), nullable}},
                          .primary = index_kind::ordered,
                          .indexes = {{"by_amount", {"amount"}}, {"by_fee", {"fee", "at"}, true}}};

struct payment_columns {
  explicit payment_columns(const table& t)
      : at(t.column<instant>("at")),
        amount(t.column<decimal_number>("amount")),
        settled(t.column<instant>("settled")),
        rest(t.column<decimal_number>("rest")) {}
  column<instant> at;
  column<decimal_number> amount;
  column<instant> settled;
  column<decimal_number> rest;
};

instant minute(std::int64_t n) { return instant_at(n * 60000000); }

/// Some before 1970, some amounts below zero.
void pay(database& base, table& t) {
  ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
    for (std::int64_t i = -10; i < 10; ++i) {
      const value settled = i % 2 == 0 ? value(nullptr) : value(minute(i + 1));
      const value rest = i % 3 == 0 ? value(nullptr) : value(decimal_number(i, 17));
      if (const status s = tx.insert(t, {minute(i), decimal_number(i * i, 3),
                                         decimal_number(i * 7 % 10, 1), settled, rest});
          !s) {
        return s;
      }
    }
    return {};
  }));
}
void look_at_payments(const database& base, const table& t) {
  const payment_columns c(t);
  const reader now = base.snapshot();
  const auto row = now.find(t, {minute(-9), decimal_number("0.081")});
  ASSERT_TRUE(row);
  EXPECT_EQ(row->get(c.at), minute(-9));
  EXPECT_EQ(row->get(c.amount), decimal_number("-0.3"));
  EXPECT_EQ(row->get(c.amount).text(), "-0.30");
  EXPECT_EQ(row->get(c.settled), minute(-8));
  EXPECT_TRUE(row->null(c.rest));
  EXPECT_EQ(row->get(t.layout().column("amount")).what(), value(decimal_number(-30, 2)).what());
  EXPECT_EQ(row->get(t.layout().column("settled")).what(), value(minute(-8)).what());
  EXPECT_TRUE(row->get(t.layout().column("rest")).null());
  // In the order of the values, not of their bits.
  std::vector<std::int64_t> minutes;
  now.scan(t, {minute(-3)}, {minute(2)},
           [&](const db::row& r) { minutes.push_back(microseconds_of(r.get(c.at)) / 60000000); });
  EXPECT_EQ(minutes, (std::vector<std::int64_t>{-3, -2, -1, 0, 1, 2}));
  std::vector<std::string> amounts;
  now.scan(t.index("by_amount"), {decimal_number("-0.8")}, {decimal_number("0.1")},
           [&](const db::row& r) { amounts.push_back(r.get(c.amount).text()); });
  EXPECT_EQ(amounts, (std::vector<std::string>{"-0.80", "-0.70", "-0.60", "-0.50", "-0.40", "-0.30",
                                               "-0.20", "-0.10", "0.00", "0.00", "0.10"}));
}

TEST(typed_columns, hold_decimals_and_timestamps) {
  auto base = database::open();
  table& t = base.create_table(payments);
  pay(base, t);
  look_at_payments(base, t);
  const payment_columns c(t);
  EXPECT_EQ(base.transact([&](transaction& tx) -> status {
    auto row = tx.edit(t, {minute(-9), decimal_number("0.0810")});
    if (!row) return row.why();
    if (const status s = row->set(c.amount, decimal_number("1.5")); !s) return s;
    EXPECT_EQ(row->get(c.amount), decimal_number("1.50"));
    if (const status s = row->set(c.settled, nullptr); !s) return s;
    return row->set(c.rest, decimal_number("-0.25"));
  }),
            outcome::ok);
  const reader now = base.snapshot();
  const auto row = now.find(t, {minute(-9), decimal_number(81, 3)});
  ASSERT_TRUE(row);
  EXPECT_TRUE(row->null(c.settled));
  EXPECT_EQ(row->get(c.rest).text(), "-0.250000000000000000");
  // A unique index.
  EXPECT_EQ(base.transact([&](transaction& tx) {
    return tx.insert(t, {minute(-9), decimal_number("0.081"), decimal_number(), nullptr, nullptr});
  }),
            outcome::duplicate_key);
}

TEST(typed_columns, refuse_what_they_cannot_hold) {
  auto base = database::open();
  table& t = base.create_table(payments);
  const auto insert = [&](const value& at, const value& amount) {
    return refused([&] {
      transaction tx = base.begin();
      static_cast<void>(tx.insert(t, {at, decimal_number(), amount, nullptr, nullptr}));
    });
  };
  EXPECT_EQ(insert(minute(1), decimal_number("1.005")),
            "spolia::db: column amount of table payments has type decimal(2) and cannot hold "
            "1.005: it keeps 2 digits after the point, and 64 bits in all");
  EXPECT_EQ(insert(minute(1), decimal_number(most, 1)),
            "spolia::db: column amount of table payments has type decimal(2) and cannot hold "
            "922337203685477580.7: it keeps 2 digits after the point, and 64 bits in all");
  const std::string takes =
      "spolia::db: column amount of table payments has type decimal(2) and takes a decimal_number, "
      "as in decimal_number(\"1.50\"), not ";
  EXPECT_EQ(insert(minute(1), 1), takes + "an integer");
  EXPECT_EQ(insert(minute(1), 1.5), takes + "a double");
  EXPECT_EQ(insert(minute(1), "1.5"), takes + "a text");
  EXPECT_EQ(
      insert(60000000, decimal_number()),
      "spolia::db: column at of table payments has type timestamp and takes an instant, as in "
      "instant_of(\"2026-11-22T21:14:00Z\"), not an integer");
  EXPECT_EQ(insert(nullptr, decimal_number()),
            "spolia::db: column at of table payments cannot be null: give it a value, or make it "
            "nullable");
  EXPECT_THROW(static_cast<void>(t.column<std::int64_t>("at")), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(t.column<instant>("amount")), std::invalid_argument);
  EXPECT_EQ(refused([&] {
              base.create_table({.name = "x", .columns = {{"k", decimal(19), primary_key}}});
            }),
            "spolia::db: column k of table x has type decimal(19): at most 18 digits after the "
            "point are allowed");
}

TEST(typed_columns, are_there_after_a_crash_and_in_copies) {
  const disk files = new_disk();
  {
    database base = database::open(place, over(files));
    pay(base, base.create_table(payments));
    const disk crashed = files->copy();
    const database again = database::open(place, over(crashed));
    look_at_payments(again, again.find_table("payments"));  // out of the log
    base.checkpoint();
    base.backup(std::filesystem::path("copy"));
  }
  for (const char* where : {place, "copy"}) {
    const database again = database::open(where, over(files->copy()));
    EXPECT_EQ(again.recovered().checkpoint_rows, 20U);
    const table& t = again.find_table("payments");
    look_at_payments(again, t);
    EXPECT_EQ(t.spec().columns[1].type, decimal(3));
    EXPECT_EQ(t.spec().columns[4].type, decimal(18));
    EXPECT_EQ(t.spec().columns[3].type, timestamp);
  }
}

/// Some in the row, some apart, some longer than a segment of the log and a block of a checkpoint.
TEST(variable_columns, are_there_after_a_crash_and_in_copies) {
  const disk files = new_disk();
  options o = over(files);
  o.segment_bytes = 1U << 16U;
  const auto words_of = [](std::int64_t n) {
    return std::string(n == 7 ? longest_value : static_cast<std::size_t>(n * n * 100 % 99999),
                       static_cast<char>('a' + n % 26));
  };
  const auto look = [&](const database& base) {
    const table& t = base.find_table("t");
    EXPECT_EQ(t.spec().columns[1].type, text());
    EXPECT_EQ(t.spec().columns[2].type, blob());
    const auto words = t.column<std::string_view>("words");
    const auto bytes = t.column<blob_view>("bytes");
    const reader now = base.snapshot();
    for (std::int64_t n = 0; n < 20; ++n) {
      const auto row = now.find(t, {n});
      ASSERT_EQ(static_cast<bool>(row), n % 5 != 4) << n;
      if (!row) continue;
      EXPECT_TRUE(row->get(words) == words_of(n)) << n;
      EXPECT_EQ(row->null(bytes), n % 3 == 0);
      EXPECT_TRUE(row->get(bytes).chars() == (n % 3 == 0 ? "" : words_of(n + 20))) << n;
    }
  };
  {
    database base = database::open(place, o);
    table& t = base.create_table(
        {.name = "t",
         .columns = {{"k", int64, primary_key}, {"words", text()}, {"bytes", blob(), nullable}}});
    for (std::int64_t n = 0; n < 20; ++n) {
      const std::string words = words_of(n);
      const std::string other = words_of(n + 20);
      ASSERT_TRUE(base.transact(
          [&](transaction& tx) { return tx.insert(t, {n, "at first", blob_view(words)}); }));
      ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
        if (n % 5 == 4) return tx.erase(t, {n});
        return tx.update(
            t, {n}, {{"words", words}, {"bytes", n % 3 == 0 ? value() : value(blob_view(other))}});
      }));
    }
    for (const std::uint32_t threads : {1U, 3U}) {
      options again = over(files->copy());
      again.recovery_threads = threads;
      look(database::open(place, again));
    }
    base.checkpoint();
    base.backup(std::filesystem::path("copy"));
  }
  for (const char* where : {place, "copy"}) {
    for (const std::uint32_t threads : {1U, 3U}) {
      options again = over(files->copy());
      again.recovery_threads = threads;
      const database base = database::open(where, again);
      EXPECT_EQ(base.recovered().checkpoint_rows, 16U);
      look(base);
    }
  }
}

std::string in_words(const value& v) {
  struct {
    std::string operator()(std::monostate) const { return "null"; }
    std::string operator()(std::int64_t n) const { return std::to_string(n); }
    std::string operator()(double n) const {
      return std::to_string(std::bit_cast<std::int64_t>(n));
    }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(std::string_view s) const { return "\"" + std::string(s); }
    std::string operator()(decimal_number n) const { return n.text(); }
    std::string operator()(instant t) const { return to_text(t); }
    std::string operator()(blob_view b) const { return "blob " + std::string(b.chars()); }
  } const write;
  return std::visit(write, v.what());
}
std::map<std::int64_t, std::string> rows_of(const database& base) {
  const table& t = base.find_table("t");
  const auto key = t.column<std::int64_t>("k");
  std::map<std::int64_t, std::string> all;
  base.snapshot().for_each(t, [&](const row& r) {
    for (const column_layout& c : t.layout().columns()) all[r.get(key)] += in_words(r.get(c)) + " ";
  });
  return all;
}

/// Transactions that do anything to a few rows, of any columns.
class any_changes {
 public:
  any_changes(database& base, std::uint64_t seed)
      : base_(base),
        table_(base.create_table({.name = "t",
                                  .columns = {{"k", int64, primary_key},
                                              {"number", int64, nullable},
                                              {"real", float64},
                                              {"yes", boolean, nullable},
                                              {"word", text(20), nullable},
                                              {"sum", decimal(2)},
                                              {"when", timestamp, nullable},
                                              {"words", text()},
                                              {"bytes", blob(), nullable}},
                                  .indexes = {{"by_sum", {"sum"}}}})),
        random_(seed) {}
  void make() {
    const status done = base_.transact([&](transaction& tx) -> status {
      for (std::uint64_t n = below(4) + 1; n > 0; --n) {
        if (const status s = change(tx); !s && s != outcome::not_found) return s;
      }
      const savepoint here = tx.savepoint();
      if (below(4) != 0) return outcome::ok;
      static_cast<void>(change(tx));
      return tx.rollback_to(here);
    });
    ASSERT_TRUE(done);
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  status change(transaction& tx) {
    const auto key = static_cast<std::int64_t>(below(8)) - 4;
    if (below(6) == 0) return tx.erase(table_, {key});
    if (!tx.find(table_, {key})) return tx.insert(table_, row(key));
    auto e = tx.edit(table_, {key});
    if (!e) return e.why();
    const std::vector<value> to = row(key);
    for (std::uint32_t c = 1; c < to.size(); ++c) {
      if (below(3) != 0) continue;
      if (const status s = e->set(table_.layout().columns()[c], to[c]); !s) return s;
    }
    return outcome::ok;
  }
  std::vector<value> row(std::int64_t key) {
    text_.push_back(std::string(below(4) * 9, static_cast<char>('a' + below(26))));
    const std::string_view some = text_.back();
    const auto number = static_cast<std::int64_t>(random_() >> below(64));
    const auto or_null = [&](value v) { return below(3) == 0 ? value() : v; };
    return {key,
            or_null(below(2) == 0 ? number : -number),
            static_cast<double>(number) / 8,
            or_null(below(2) == 0),
            or_null(some.substr(0, 20)),
            decimal_number(static_cast<std::int64_t>(below(1000)) - 500, 2),
            or_null(instant_at(number >> 12U)),
            some,
            or_null(blob_view(some))};
  }

  database& base_;
  table& table_;
  std::mt19937_64 random_;
  std::deque<std::string> text_;
};

/// The log has of a row's change the columns that were set: over what was there before, in the log
/// or in a checkpoint, they make the same rows again.
TEST(changed_columns, make_the_rows_that_were_there) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const disk files = new_disk();
  options o = over(files);
  o.segment_bytes = 1U << 14U;
  database base = database::open(place, o);
  any_changes changes(base, seed);
  for (int round = 0; round < tries(40); ++round) {
    for (int n = 0; n < 20; ++n) changes.make();
    if (round % 4 == 3) base.checkpoint();
    const auto there = rows_of(base);
    for (const std::uint32_t threads : {1U, 2U}) {
      options again = over(files->copy());
      again.recovery_threads = threads;
      ASSERT_EQ(rows_of(database::open(place, again)), there) << "round " << round;
    }
  }
}

}  // namespace
