// SPDX-License-Identifier: Apache-2.0
// What a transaction takes that does the same again and again: as much as what it has is different.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include <spolia/db.hpp>

#include "support/resident.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using db::isolation;
using db::outcome;
using db::transaction;

constexpr std::int64_t times = sanitized ? 2000 : 20000;
// Of what one of them takes, at a row of 1000 bytes, this is a tenth.
constexpr std::uint64_t most_growth = 2U << 20U;

class long_transactions : public testing::Test {
 protected:
  long_transactions() {
    const std::string text(1000, 'x');
    const auto fill = [&](transaction& tx) {
      for (std::int64_t k = 0; k < 10; ++k) {
        if (const db::status s = tx.insert(rows, {k, k, k, text}); !s) return s;
      }
      return db::status();
    };
    EXPECT_TRUE(base.transact(fill));
  }

  /// How much more is resident after so many times than after a few.
  template <class F>
  static void takes_no_more(F&& f) {
    for (std::int64_t n = 0; n < 1000; ++n) f(n);
    const std::uint64_t before = resident_bytes();
    for (std::int64_t n = 1000; n < times; ++n) f(n);
    const std::uint64_t after = resident_bytes();
    // The address sanitizer keeps what was freed for a while.
    EXPECT_LE(after, before + (sanitized ? ~std::uint64_t{0} / 2 : most_growth));
  }
  [[nodiscard]] std::int64_t value_of(transaction& tx, std::int64_t k) const {
    return tx.find(rows, {k}).value().get(v);
  }

  db::database base = db::database::open();
  db::table& rows = base.create_table(
      {.name = "rows",
       .columns = {{"k", db::int64, db::primary_key},
                   {"v", db::int64},
                   {"u", db::int64},
                   {"t", db::text(1000)}},
       .indexes = {{.name = "by_v", .columns = {"v"}, .kind = db::index_kind::ordered},
                   {.name = "by_u", .columns = {"u"}, .unique = true}}});
  db::column<std::int64_t> v = rows.column<std::int64_t>("v");
  db::column<std::int64_t> u = rows.column<std::int64_t>("u");
};

TEST_F(long_transactions, go_back_to_new_savepoints) {
  transaction tx = base.begin();
  takes_no_more([&](std::int64_t n) {
    const auto here = tx.savepoint();
    ASSERT_TRUE(tx.edit(rows, {1})->set(v, n % 7));
    ASSERT_TRUE(tx.rollback_to(here));
  });
  EXPECT_EQ(value_of(tx, 1), 1);
}

TEST_F(long_transactions, go_back_to_one_savepoint) {
  transaction tx = base.begin();
  ASSERT_TRUE(tx.edit(rows, {1})->set(v, 100));
  const auto here = tx.savepoint();
  takes_no_more([&](std::int64_t n) {
    ASSERT_TRUE(tx.edit(rows, {1})->set(v, n % 7));
    ASSERT_TRUE(tx.insert(rows, {11, n % 7, 11, ""}));
    ASSERT_TRUE(tx.rollback_to(here));
  });
  EXPECT_EQ(value_of(tx, 1), 100);
  EXPECT_EQ(tx.find(rows, {11}).code(), outcome::not_found);
}

TEST_F(long_transactions, insert_and_erase) {
  transaction tx = base.begin();
  takes_no_more([&](std::int64_t n) {
    ASSERT_TRUE(tx.insert(rows, {11, n % 7, 11, ""}));
    ASSERT_TRUE(tx.erase(rows, {11}));
  });
  ASSERT_TRUE(tx.insert(rows, {11, 12, 13, ""}));
  ASSERT_TRUE(tx.commit());
  EXPECT_EQ(base.snapshot().find(rows, {11})->get(v), 12);
}

TEST_F(long_transactions, are_refused) {
  transaction tx = base.begin();
  takes_no_more([&](std::int64_t n) {
    ASSERT_EQ(tx.insert(rows, {1, n % 7, 100, ""}), outcome::duplicate_key);
    ASSERT_EQ(tx.insert(rows, {12, n % 7, 2, ""}), outcome::duplicate_key);  // of the unique index
    ASSERT_EQ(tx.edit(rows, {1})->set(u, 2), outcome::duplicate_key);
    ASSERT_EQ(tx.edit(rows, {99}).code(), outcome::not_found);
    ASSERT_EQ(tx.erase(rows, {99}), outcome::not_found);
  });
  ASSERT_TRUE(tx.commit());
  const db::reader now = base.snapshot();
  EXPECT_EQ(now.find(rows, {12}).code(), outcome::not_found);
  EXPECT_EQ(now.find(rows, {1})->get(u), 1);
}

TEST_F(long_transactions, change_an_indexed_column_to_and_fro) {
  transaction tx = base.begin();
  takes_no_more([&](std::int64_t n) { ASSERT_TRUE(tx.edit(rows, {1})->set(v, n % 100)); });
  ASSERT_TRUE(tx.commit());
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
  std::int64_t shown = 0;
  const db::reader now = base.snapshot();
  now.scan(rows.index("by_v"), {}, {}, [&](const db::row&) { ++shown; });
  EXPECT_EQ(shown, 10);
  EXPECT_EQ(now.find(rows, {1})->get(v), (times - 1) % 100);
}

TEST_F(long_transactions, change_rows_in_scans) {
  transaction tx = base.begin();
  takes_no_more([&](std::int64_t n) {
    tx.for_each(rows, [&](const db::row& r) {
      ASSERT_TRUE(tx.edit(rows, {r.get(rows.column<std::int64_t>("k"))})->set(v, n % 7));
    });
  });
  EXPECT_EQ(value_of(tx, 9), (times - 1) % 7);
}

// A row of 1000 bytes that is found takes room until the transaction ends: so these look for what
// is not there, and scan.
TEST_F(long_transactions, note_what_they_read_once) {
  transaction tx = base.begin({.isolation = isolation::serializable});
  takes_no_more([&](std::int64_t n) {
    for (std::int64_t k = 100; k < 110; ++k) {
      ASSERT_EQ(tx.find(rows, {k}).code(), outcome::not_found);
    }
    tx.scan(rows.index("by_v"), {n % 10}, {n % 10}, [](const db::row&) {});
    tx.scan(rows.index("by_v"), {}, {}, [](const db::row&) { return false; });
    tx.for_each(rows, [](const db::row&) { return false; });
  });
  // What was noted counts yet, the first and the last of it.
  for (const std::int64_t k : {100, 109}) {
    transaction again = base.begin({.isolation = isolation::serializable});
    for (std::int64_t n = 0; n < 1000; ++n) {
      for (std::int64_t i = 100; i < 110; ++i) {
        ASSERT_EQ(again.find(rows, {i}).code(), outcome::not_found);
      }
    }
    ASSERT_TRUE(again.edit(rows, {1})->set(v, 5));
    ASSERT_TRUE(
        base.transact([&](transaction& other) { return other.insert(rows, {k, k, k, ""}); }));
    EXPECT_EQ(again.commit(), outcome::conflict) << k;
    ASSERT_TRUE(base.transact([&](transaction& other) { return other.erase(rows, {k}); }));
  }
}

/// What was read once counts, however often other things are read after it.
TEST_F(long_transactions, find_out_what_was_changed_of_what_they_have_read_once) {
  const auto look = [&](transaction& tx, std::int64_t k, std::int64_t from) {
    ASSERT_TRUE(tx.find(rows, {k}));
    ASSERT_EQ(tx.find(rows, {from}).code(), outcome::not_found);
    tx.scan(rows.index("by_v"), {from}, {from + 4}, [](const db::row&) {});
  };
  const auto read = [&](transaction& tx) {
    for (std::int64_t k = 0; k < 3; ++k) look(tx, k, 20 + 10 * k);
    for (std::int64_t n = 0; n < 2000; ++n) look(tx, 3 + n % 4, 70 + 10 * (n % 4));
  };
  const auto conflicts = [&](auto&& change) {
    transaction tx = base.begin({.isolation = isolation::serializable});
    read(tx);
    EXPECT_TRUE(tx.edit(rows, {9})->set(v, 9));
    EXPECT_TRUE(base.transact(change));
    return tx.commit() == outcome::conflict;
  };
  for (std::int64_t k = 0; k < 3; ++k) {
    EXPECT_TRUE(conflicts([&](transaction& tx) {
      return tx.update(rows, {k}, {{"t", "changed"}});
    })) << "row "
        << k;
  }
  for (const std::int64_t in : {20, 32, 44}) {
    EXPECT_TRUE(conflicts([&](transaction& tx) { return tx.insert(rows, {in + 100, in, in, ""}); }))
        << "range " << in;
  }
  for (const std::int64_t k : {20, 30, 40}) {
    EXPECT_TRUE(conflicts([&](transaction& tx) { return tx.insert(rows, {k, 60, 200 + k, ""}); }))
        << "key " << k;
    EXPECT_TRUE(base.transact([&](transaction& tx) { return tx.erase(rows, {k}); }));
  }
  EXPECT_FALSE(conflicts([&](transaction& tx) { return tx.insert(rows, {500, 60, 60, ""}); }));
}

TEST_F(long_transactions, savepoints_between_which_nothing_was_changed_are_one) {
  transaction tx = base.begin();
  const auto first = tx.savepoint();
  const auto second = tx.savepoint();
  ASSERT_TRUE(tx.edit(rows, {1})->set(v, 50));
  const auto third = tx.savepoint();
  ASSERT_TRUE(tx.edit(rows, {1})->set(v, 60));
  const auto fourth = tx.savepoint();
  ASSERT_TRUE(tx.rollback_to(third));
  EXPECT_EQ(value_of(tx, 1), 50);
  EXPECT_THROW(static_cast<void>(tx.rollback_to(fourth)), std::invalid_argument);
  ASSERT_TRUE(tx.rollback_to(first));
  EXPECT_EQ(value_of(tx, 1), 1);
  EXPECT_THROW(static_cast<void>(tx.rollback_to(third)), std::invalid_argument);
  ASSERT_TRUE(tx.rollback_to(second));
  EXPECT_EQ(value_of(tx, 1), 1);
}

}  // namespace
