// SPDX-License-Identifier: Apache-2.0
// What a transaction takes that does the same again and again: as much as what it has is different.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <spolia/db.hpp>

#include "support/cost.hpp"
#include "support/resident.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using db::isolation;
using db::outcome;
using db::transaction;

constexpr std::int64_t times = sanitized ? 2000 : 20000;
constexpr std::int64_t many = 10000;  // notes: a session keeps no room for so many
constexpr std::int64_t some_of_many[] = {1000, 1128, 1255, 1256, 5000, 999 + many};
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
  [[nodiscard]] std::int64_t value_of(const db::reader& at, std::int64_t k) const {
    return at.find(rows, {k}).value().get(v);
  }
  [[nodiscard]] transaction serial() { return base.begin({.isolation = isolation::serializable}); }
  /// A serializable transaction that looks, and changes what no other one changes, cannot commit
  /// once another transaction has made the change.
  template <class Look, class Change>
  void conflicts(Look&& look, Change&& change) {
    transaction tx = serial();
    look(tx);
    ASSERT_TRUE(tx.edit(rows, {1})->set(v, 5));
    ASSERT_TRUE(base.transact(change));
    EXPECT_EQ(tx.commit(), outcome::conflict);
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

TEST_F(long_transactions, go_back_to_new_savepoints_in_a_scan) {
  transaction tx = base.begin();
  static_cast<void>(tx.savepoint());
  tx.for_each(rows, [&](const db::row&) {
    takes_no_more([&](std::int64_t n) {
      const auto here = tx.savepoint();
      ASSERT_TRUE(tx.edit(rows, {1})->set(v, n % 7));
      ASSERT_TRUE(tx.rollback_to(here));
    });
    return false;
  });
  EXPECT_EQ(value_of(tx, 1), 1);
}

// Each scan has a level of its own, and the savepoint belongs to it.
TEST_F(long_transactions, go_back_to_savepoints_in_new_scans) {
  transaction tx = base.begin();
  ASSERT_TRUE(tx.edit(rows, {1})->set(v, 100));
  const auto first = tx.savepoint();
  takes_no_more([&](std::int64_t n) {
    for (std::int64_t k = 0; k < 10; ++k) {
      tx.scan(rows.index("by_u"), {k}, {k}, [&](const db::row& r) {
        const auto here = tx.savepoint();
        ASSERT_TRUE(tx.edit(rows, {k})->set(v, n % 7));
        ASSERT_TRUE(tx.rollback_to(here));
        ASSERT_EQ(r.get(v), k == 1 ? 100 : k);
      });
    }
  });
  for (std::int64_t k = 0; k < 10; ++k) ASSERT_EQ(value_of(tx, k), k == 1 ? 100 : k);
  ASSERT_TRUE(tx.edit(rows, {2})->set(v, 50));
  ASSERT_TRUE(tx.rollback_to(first));
  EXPECT_EQ(value_of(tx, 2), 2);
}

// What was there before the scan began is shown, and led back to, in it and after it.
TEST_F(long_transactions, go_back_in_a_scan_to_a_savepoint_from_before_it) {
  transaction tx = base.begin();
  ASSERT_TRUE(tx.edit(rows, {1})->set(v, 100));
  const auto first = tx.savepoint();
  std::vector<std::int64_t> shown;
  tx.scan(rows.index("by_u"), {}, {}, [&](const db::row& r) {
    shown.push_back(r.get(v));
    const auto here = tx.savepoint();
    for (const std::int64_t k : {1, 2, 9}) ASSERT_TRUE(tx.edit(rows, {k})->set(v, 200 + k));
    ASSERT_TRUE(tx.rollback_to(shown.size() % 2 == 0 ? first : here));
    for (const std::int64_t k : {1, 2, 9}) ASSERT_EQ(value_of(tx, k), k == 1 ? 100 : k);
    if (shown.size() == 5) {
      ASSERT_TRUE(tx.edit(rows, {9})->set(v, 300));
    }
    if (shown.size() == 7) {
      ASSERT_TRUE(tx.rollback_to(first));
    }
  });
  EXPECT_EQ(shown, (std::vector<std::int64_t>{0, 100, 2, 3, 4, 5, 6, 7, 8, 9}));
  for (const std::int64_t k : {1, 2, 9}) EXPECT_EQ(value_of(tx, k), k == 1 ? 100 : k);
  ASSERT_TRUE(tx.edit(rows, {1})->set(v, 7));
  ASSERT_TRUE(tx.rollback_to(first));
  EXPECT_EQ(value_of(tx, 1), 100);
}

TEST_F(long_transactions, are_given_what_is_too_long) {
  transaction tx = base.begin();
  const std::string text(1001, 'x');
  takes_no_more([&](std::int64_t) {
    try {
      EXPECT_FALSE(tx.update(rows, {1}, {{"t", text}}));
    } catch (const std::invalid_argument&) {
    }
  });
  EXPECT_EQ(value_of(tx, 1), 1);
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

// Its key has a slot while an older snapshot sees the row.
TEST_F(long_transactions, look_for_a_row_that_was_erased) {
  const db::reader before = base.snapshot();
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.erase(rows, {9}); }));
  transaction tx = base.begin();
  takes_no_more([&](std::int64_t) {
    ASSERT_EQ(tx.edit(rows, {9}).code(), outcome::not_found);
    ASSERT_EQ(tx.erase(rows, {9}), outcome::not_found);
  });
  EXPECT_EQ(value_of(before, 9), 9);
}

// An entry leads to a row that does not have the value any more, nor in the snapshot.
TEST_F(long_transactions, take_a_value_that_another_row_has_had) {
  transaction tx = base.begin();
  for (const std::int64_t value : {50, 60}) {
    ASSERT_TRUE(
        base.transact([&](transaction& other) { return other.edit(rows, {2})->set(u, value); }));
  }
  takes_no_more([&](std::int64_t) {
    ASSERT_TRUE(tx.insert(rows, {11, 11, 50, ""}));
    ASSERT_TRUE(tx.erase(rows, {11}));
  });
}

// What goes back when an insertion is refused is its own image alone.
TEST_F(long_transactions, keep_the_images_of_other_rows) {
  transaction tx = base.begin();
  ASSERT_TRUE(tx.erase(rows, {1}));
  ASSERT_EQ(tx.insert(rows, {1, 1, 2, ""}), outcome::duplicate_key);
  ASSERT_TRUE(tx.edit(rows, {3})->set(v, 30));
  ASSERT_TRUE(tx.insert(rows, {1, 10, 1, ""}));
  ASSERT_TRUE(tx.edit(rows, {4})->set(v, 40));
  ASSERT_TRUE(tx.edit(rows, {5})->set(v, 50));
  const auto check = [&](const db::reader& at) {
    EXPECT_EQ(value_of(at, 1), 10);
    for (const std::int64_t k : {3, 4, 5}) EXPECT_EQ(value_of(at, k), 10 * k);
  };
  check(tx);
  ASSERT_TRUE(tx.commit());
  check(base.snapshot());
}

// An image that has gone back is used for rows of its width.
TEST_F(long_transactions, have_rows_of_several_widths) {
  db::table& narrow = base.create_table(
      {.name = "narrow", .columns = {{"k", db::int64, db::primary_key}, {"v", db::int64}}});
  const auto of = narrow.column<std::int64_t>("v");
  transaction tx = base.begin();
  ASSERT_TRUE(tx.insert(narrow, {1, 1}));
  ASSERT_EQ(tx.insert(narrow, {1, 2}), outcome::duplicate_key);
  ASSERT_TRUE(tx.edit(rows, {1})->set(v, 3));
  for (std::int64_t k = 2; k < 100; ++k) ASSERT_TRUE(tx.insert(narrow, {k, k}));
  ASSERT_TRUE(tx.update(rows, {1}, {{"t", std::string(1000, 'y')}}));
  ASSERT_TRUE(tx.commit());
  const db::reader now = base.snapshot();
  for (std::int64_t k = 1; k < 100; ++k) ASSERT_EQ(now.find(narrow, {k})->get(of), k);
  EXPECT_EQ(value_of(now, 1), 3);
}

TEST_F(long_transactions, change_an_indexed_column_to_and_fro) {
  transaction tx = base.begin();
  takes_no_more([&](std::int64_t n) {
    for (std::int64_t k = 0; k < 10; ++k) ASSERT_TRUE(tx.edit(rows, {k})->set(v, n % 100));
  });
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
    for (int i = 0; i < 10; ++i) tx.for_each(rows, [](const db::row&) { return false; });
    for (std::int64_t i = 0; i < 40; ++i) {  // so the rows that were in the way are noted
      ASSERT_EQ(tx.insert(rows, {i % 10, 0, 100, ""}), outcome::duplicate_key);
    }
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

// Those of the inner ones are noted once as well, while the outer one runs.
TEST_F(long_transactions, note_what_nested_scans_read_once) {
  const auto& by_v = rows.index("by_v");
  transaction tx = serial();
  const auto nested = [&](std::int64_t n) {
    tx.scan(by_v, {n % 10}, {n % 10}, [&](const db::row&) {
      tx.scan(by_v, {(n + 1) % 10}, {(n + 1) % 10}, [](const db::row&) {});
      tx.for_each(rows, [](const db::row&) { return false; });
    });
  };
  takes_no_more(nested);
  tx.scan(by_v, {3}, {3}, [&](const db::row&) { takes_no_more(nested); });
  ASSERT_TRUE(tx.edit(rows, {1})->set(v, 5));
  ASSERT_TRUE(
      base.transact([&](transaction& other) { return other.insert(rows, {50, 3, 50, ""}); }));
  EXPECT_EQ(tx.commit(), outcome::conflict);
}

// A table noted as a whole is not noted again while it is the last one: so there are two.
TEST_F(long_transactions, note_the_tables_of_their_queries_once) {
  db::table& others = base.create_table(
      {.name = "others", .columns = {{"k", db::int64, db::primary_key}, {"v", db::int64}}});
  transaction tx = serial();
  takes_no_more([&](std::int64_t) {
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(tx.query(rows).aggregate(db::count()).run());
      ASSERT_TRUE(tx.query(others).aggregate(db::count()).run());
    }
  });
  ASSERT_TRUE(tx.edit(rows, {1})->set(v, 5));
  ASSERT_TRUE(base.transact([&](transaction& other) { return other.insert(others, {1, 1}); }));
  EXPECT_EQ(tx.commit(), outcome::conflict);
}

// Of many notes that differ none is taken for a copy.
TEST_F(long_transactions, keep_each_key_that_they_have_noted) {
  for (const std::int64_t k : some_of_many) {
    SCOPED_TRACE(k);
    conflicts(
        [&](transaction& tx) {
          for (std::int64_t i = 1000; i < 1000 + many; ++i) {
            ASSERT_EQ(tx.find(rows, {i}).code(), outcome::not_found);
          }
        },
        [&](transaction& other) { return other.insert(rows, {k, k, k, ""}); });
    ASSERT_TRUE(base.transact([&](transaction& other) { return other.erase(rows, {k}); }));
  }
}

TEST_F(long_transactions, keep_each_row_that_they_have_noted) {
  ASSERT_TRUE(base.transact([&](transaction& tx) {
    for (std::int64_t k = 1000; k < 1000 + many; ++k) {
      if (const db::status s = tx.insert(rows, {k, k, k, ""}); !s) return s;
    }
    return db::status();
  }));
  for (const std::int64_t k : some_of_many) {
    SCOPED_TRACE(k);
    conflicts(
        [&](transaction& tx) {
          for (std::int64_t i = 1000; i < 1000 + many; ++i) EXPECT_TRUE(tx.find(rows, {i}));
        },
        [&](transaction& other) { return other.edit(rows, {k})->set(v, -k); });
  }
}

TEST_F(long_transactions, keep_each_range_that_they_have_noted) {
  const auto put = [&](std::int64_t value) {
    return
        [this, value](transaction& other) { return other.insert(rows, {value, value, value, ""}); };
  };
  const auto& by_v = rows.index("by_v");
  for (const std::int64_t k : some_of_many) {
    SCOPED_TRACE(k);
    conflicts(
        [&](transaction& tx) {
          for (std::int64_t i = 1000; i < 1000 + many; ++i)
            tx.scan(by_v, {i}, {i}, [](const db::row&) {});
        },
        put(k));
    ASSERT_TRUE(base.transact([&](transaction& other) { return other.erase(rows, {k}); }));
  }
  // Those that begin at the same place differ by where they end.
  conflicts(
      [&](transaction& tx) {
        for (std::int64_t i = 999 + many; i >= 1000; --i) {
          tx.scan(by_v, {1000}, {i}, [](const db::row&) {});
        }
      },
      put(999 + many));
}

TEST_F(long_transactions, keep_the_largest_part_of_a_table_that_they_have_noted) {
  conflicts(
      [&](transaction& tx) {
        std::int64_t left = 10;
        tx.for_each(rows, [&](const db::row&) { return --left != 0; });
        for (int i = 0; i < many; ++i) tx.for_each(rows, [](const db::row&) { return false; });
      },
      [&](transaction& other) { return other.edit(rows, {9})->set(v, 90); });
}

// A scan has a place for its note, which stays while others are noted inside it.
TEST_F(long_transactions, keep_what_scans_inside_scans_have_noted) {
  const auto& by_v = rows.index("by_v");
  for (const std::int64_t value : {-many, std::int64_t{7}}) {
    SCOPED_TRACE(value);
    conflicts(
        [&](transaction& tx) {
          bool first = true;
          tx.scan(by_v, {5}, {9}, [&](const db::row&) {
            for (std::int64_t i = -many; i < 0 && first; ++i) {
              tx.scan(by_v, {i}, {i}, [](const db::row&) {});
            }
            first = false;
          });
        },
        [&](transaction& other) { return other.insert(rows, {100, value, 100, ""}); });
    ASSERT_TRUE(base.transact([&](transaction& other) { return other.erase(rows, {100}); }));
  }
}

TEST_F(long_transactions, keep_what_is_noted_while_a_table_is_read) {
  std::vector<db::table*> two;
  for (const char* const name : {"one", "two"}) {
    two.push_back(
        &base.create_table({.name = name, .columns = {{"k", db::int64, db::primary_key}}}));
    ASSERT_TRUE(base.transact([&](transaction& tx) {
      db::status s;
      for (std::int64_t k = 1; k <= 4 && s; ++k) s = tx.insert(*two.back(), {k});
      return s;
    }));
  }
  // Whichever of them comes first when notes are sorted.
  for (const std::size_t n : {0U, 1U}) {
    SCOPED_TRACE(n);
    db::table& of = *two[n];
    const db::table& other_one = *two[1 - n];
    const auto look_once = [&, first = true](transaction& tx) mutable {
      for (int i = 0; i < many && first; ++i) {
        tx.for_each(other_one, [](const db::row&) { return false; });
      }
      first = false;
    };
    conflicts([&, look = look_once](
                  transaction& tx) mutable { tx.for_each(of, [&](const db::row&) { look(tx); }); },
              [&](transaction& other) { return other.erase(of, {3}); });
    conflicts(
        [&, look = look_once](transaction& tx) mutable {
          const auto any = [&](std::int64_t) {
            look(tx);
            return true;
          };
          EXPECT_TRUE(tx.query(of)
                          .where(of.column<std::int64_t>("k"), any)
                          .aggregate(db::count())
                          .run({.threads = 1}));
        },
        [&](transaction& other) { return other.erase(of, {4}); });
  }
}

// So many that there is hardly room for one more than differ.
TEST_F(long_transactions, note_what_they_read_again_as_fast_as_before) {
  transaction tx = serial();
  const auto pass = [&] {
    for (std::int64_t k = 100; k < 100 + 16380; ++k) {
      EXPECT_EQ(tx.find(rows, {k}).code(), outcome::not_found);
    }
  };
  const double once = cost_of(pass);
  double again = 0;
  for (int n = 0; n < 5; ++n) again += cost_of(pass);
  EXPECT_LE(again, 100 * std::max(once, 0.001));
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
