// SPDX-License-Identifier: Apache-2.0
// What transact() returns: what its function has made, or why nothing was committed.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <spolia/db.hpp>

#include "support/faults.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

class db_outcomes : public testing::Test {
 protected:
  db_outcomes() {
    EXPECT_TRUE(base.transact([&](transaction& tx) { return tx.insert(accounts, {1, 100}); }));
  }
  std::int64_t now() { return base.snapshot().find(accounts, {1})->get(balance); }
  /// The new balance.
  result<std::int64_t> withdraw(transaction& tx, std::int64_t amount) {
    auto account = tx.edit(accounts, {1});
    if (!account) return account.why();
    const std::int64_t left = account->get(balance) - amount;
    if (auto s = account->set(balance, left); !s) return s;
    if (left < 0) return refused("the balance is too low by " + std::to_string(-left));
    return left;
  }

  database base = database::open();
  table& accounts = base.create_table(
      {.name = "accounts", .columns = {{"id", int64, primary_key}, {"balance", int64}}});
  const column<std::int64_t> balance = accounts.column<std::int64_t>("balance");
};

template <class F>
using what = decltype(std::declval<database&>().transact(std::declval<F>()));
static_assert(std::is_same_v<what<void (*)(transaction&)>, status>);
static_assert(std::is_same_v<what<status (*)(transaction&)>, status>);
static_assert(std::is_same_v<what<const status& (*)(transaction&)>, status>);
static_assert(std::is_same_v<what<outcome (*)(transaction&)>, status>);
static_assert(std::is_same_v<what<int (*)(transaction&)>, result<int>>);
static_assert(std::is_same_v<what<const int& (*)(transaction&)>, result<int>>);
static_assert(std::is_same_v<what<result<int> (*)(transaction&)>, result<int>>);
static_assert(std::is_convertible_v<const char (&)[4], result<std::string>>, "return \"Ada\";");
static_assert(std::is_convertible_v<int, result<std::optional<std::int64_t>>>);
static_assert(!std::is_convertible_v<std::string_view, result<std::string>>, "nor is it a string");
static_assert(std::is_convertible_v<outcome, result<std::string>>);
static_assert(sizeof(status) == sizeof(void*));
static_assert(std::is_nothrow_copy_constructible_v<status>);
constexpr status known_at_compile_time = outcome::conflict;
static_assert(!known_at_compile_time && known_at_compile_time == outcome::conflict);

TEST_F(db_outcomes, a_function_that_returns_something_has_it_returned) {
  const auto left = base.transact([&](transaction& tx) { return withdraw(tx, 30); });
  ASSERT_TRUE(left);
  EXPECT_EQ(*left, 70);
  EXPECT_EQ(now(), 70);
  const auto plain = base.transact([&](transaction& tx) {
    static_cast<void>(withdraw(tx, 1));
    return std::make_unique<int>(5);  // which cannot be copied
  });
  ASSERT_TRUE(plain);
  EXPECT_EQ(**plain, 5);
  EXPECT_EQ(now(), 69);
}

TEST_F(db_outcomes, what_is_refused_is_not_committed_and_says_why) {
  int tries = 0;
  const auto left = base.transact([&](transaction& tx) {
    ++tries;
    return withdraw(tx, 130);
  });
  EXPECT_FALSE(left);
  EXPECT_EQ(left.code(), outcome::refused);
  EXPECT_EQ(left.why().reason(), "the balance is too low by 30");
  EXPECT_EQ(tries, 1) << "it is not tried again";
  EXPECT_EQ(now(), 100) << "what was set before is not there";
  EXPECT_EQ(base.transact([&](transaction& tx) { return withdraw(tx, 1).why(); }), outcome::ok)
      << "no lock is left";
  const status s = base.transact([&](transaction&) { return refused(); });
  EXPECT_EQ(s, outcome::refused);
  EXPECT_EQ(s.reason(), "the program has given none: refused() takes one");
  EXPECT_EQ(s.message(), "refused by the program");
}

TEST_F(db_outcomes, a_refusal_after_a_conflict_is_tried_again) {
  int tries = 0;
  const auto s = base.transact([&](transaction& tx) -> status {
    ++tries;
    if (tries == 1) {
      EXPECT_TRUE(base.transact([&](transaction& other) { return withdraw(other, 1).why(); }));
      if (tx.edit(accounts, {1}).code() == outcome::conflict) return refused("in a hurry");
    }
    return refused("in the end");
  });
  EXPECT_EQ(tries, 2);
  EXPECT_EQ(s.reason(), "in the end");
}

TEST_F(db_outcomes, the_value_is_that_of_the_try_that_was_committed) {
  int tries = 0;
  const auto made = base.transact([&](transaction& tx) -> result<std::string> {
    if (++tries < 3) {
      static_cast<void>(tx.find(accounts, {1}));
      EXPECT_TRUE(base.transact([&](transaction& other) { return withdraw(other, 1).why(); }));
    }
    if (auto s = withdraw(tx, 10); !s && tries != 1) return s.why();
    return "try " + std::to_string(tries);  // the first one overlooks its conflict
  });
  ASSERT_TRUE(made);
  EXPECT_EQ(*made, "try 3");
  EXPECT_EQ(now(), 88);
}

TEST_F(db_outcomes, without_a_commit_there_is_no_value) {
  const auto ended = base.transact([&](transaction& tx) {
    tx.rollback();
    return 5;
  });
  EXPECT_EQ(ended.code(), outcome::ended);
  const auto in_vain = base.transact(
      [&](transaction& tx) {
        static_cast<void>(tx.find(accounts, {1}));
        EXPECT_TRUE(base.transact([&](transaction& other) { return withdraw(other, 1).why(); }));
        static_cast<void>(withdraw(tx, 1));
        return 5;
      },
      {.tries = 2});
  EXPECT_EQ(in_vain.code(), outcome::conflict);
  EXPECT_EQ(now(), 98);
  EXPECT_THROW(static_cast<void>(base.transact([&](transaction& tx) -> int {
                 static_cast<void>(withdraw(tx, 1));
                 throw std::domain_error("of the program");
               })),
               std::domain_error);
  EXPECT_EQ(now(), 98);
}

TEST_F(db_outcomes, a_value_that_is_asked_for_in_vain_names_the_reason) {
  auto left = base.transact([&](transaction& tx) { return withdraw(tx, 101); });
  try {
    static_cast<void>(left.value());
    FAIL();
  } catch (const no_result& e) {
    EXPECT_EQ(e.code(), outcome::refused);
    EXPECT_EQ(e.why().reason(), "the balance is too low by 1");
    EXPECT_STREQ(e.what(), "spolia::db: refused by the program: the balance is too low by 1");
  }
}

class db_too_long : public testing::Test {
 protected:
  database base = database::open();
  table& t = base.create_table(
      {.name = "people",
       .columns = {{"name", text(5), primary_key}, {"town", text(5)}, {"more", text(), nullable}},
       .primary = index_kind::ordered,
       .indexes = {{"by_town", {"town"}}}});
  const column<std::string_view> town = t.column<std::string_view>("town");
};

TEST_F(db_too_long, changes_nothing_and_names_the_column) {
  transaction tx = base.begin();
  ASSERT_TRUE(tx.insert(t, {"Ada", "Paris", nullptr}));
  const auto is_refused = [&](const status& s, const char* why) {
    EXPECT_EQ(s, outcome::too_long);
    EXPECT_EQ(s.reason(), why);
    EXPECT_TRUE(tx.state()) << "the transaction goes on";
  };
  const char* const of_town = "column town of table people takes at most 5 bytes, got 6";
  const char* const of_name = "column name of table people takes at most 5 bytes, got 7";
  is_refused(tx.insert(t, {"Grace", "London", nullptr}), of_town);
  is_refused(tx.insert(t, {"Mallory", "Paris", nullptr}), of_name);
  auto ada = tx.edit(t, {"Ada"});
  ASSERT_TRUE(ada);
  is_refused(ada->set(town, "London"), of_town);
  is_refused(tx.update(t, {"Ada"}, {{"more", "some words that lie apart"}, {"town", "London"}}),
             of_town);
  is_refused(tx.edit(t, {"Mallory"}).why(), of_name);
  is_refused(tx.find(t, {"Mallory"}).why(), of_name);
  is_refused(tx.lock(t, {"Mallory"}).why(), of_name);
  is_refused(tx.erase(t, {"Mallory"}), of_name);
  is_refused(tx.update(t, {"Mallory"}, {{"town", "Rome"}}), of_name);
  const auto scan_is_refused = [&](auto&& scan, const char* why) {
    try {
      scan();
      FAIL() << "it has to be refused";
    } catch (const no_result& e) {
      is_refused(e.why(), why);
    }
  };
  const auto nothing = [](const row&) {};
  scan_is_refused([&] { tx.scan(t, {"Mallory"}, {}, nothing); }, of_name);
  scan_is_refused([&] { tx.scan(t.index("by_town"), {}, {"London"}, nothing); }, of_town);
  scan_is_refused([&] { tx.query(t).where("town", equal, "London"); }, of_town);
  ASSERT_TRUE(tx.commit());
  const reader now = base.snapshot();
  EXPECT_EQ(now.find(t, {"Ada"})->get(town), "Paris");
  EXPECT_TRUE(now.find(t, {"Ada"})->null(t.column<std::string_view>("more")));
  int rows = 0;
  now.for_each(t, [&](const row&) { ++rows; });
  EXPECT_EQ(rows, 1);
  EXPECT_EQ(base.stats().value_bytes, 0U);
}

/// Out-of-line texts and blobs as well, by each call that takes one.
TEST_F(db_too_long, is_what_has_more_than_16_mib) {
  table& apart = base.create_table(
      {.name = "apart",
       .columns = {
           {"id", int64, primary_key}, {"words", text(), nullable}, {"bytes", blob(), nullable}}});
  const std::string words((1U << 24U) + 1, 'w');
  const blob_view bytes(words);
  transaction tx = base.begin();
  ASSERT_TRUE(tx.insert(apart, {1, "short", blob_view("short")}));
  auto one = tx.edit(apart, {1});
  ASSERT_TRUE(one);
  const auto is_refused = [&](const status& s, const std::string& column) {
    EXPECT_EQ(s, outcome::too_long);
    EXPECT_EQ(
        s.reason(),
        "column " + column + " of table apart takes at most 16777216 bytes (16 MiB), got 16777217");
    EXPECT_TRUE(tx.state()) << "the transaction goes on";
  };
  is_refused(tx.insert(apart, {2, nullptr, bytes}), "bytes");
  is_refused(tx.insert(apart, {2, words, nullptr}), "words");
  is_refused(tx.update(apart, {1}, {{"words", "other"}, {"bytes", bytes}}), "bytes");
  is_refused(tx.update(apart, {1}, {{"bytes", blob_view("other")}, {"words", words}}), "words");
  is_refused(one->set(apart.column<blob_view>("bytes"), bytes), "bytes");
  is_refused(one->set(apart.column<std::string_view>("words"), words), "words");
  is_refused(one->set(apart.layout().column("bytes"), bytes), "bytes");
  ASSERT_TRUE(tx.commit());
  const auto found = base.snapshot().find(apart, {1});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->get(apart.column<std::string_view>("words")), "short");
  EXPECT_EQ(found->get(apart.column<blob_view>("bytes")), blob_view("short"));
  EXPECT_EQ(base.snapshot().find(apart, {2}).code(), outcome::not_found);
}

class db_taken : public testing::Test {
 protected:
  /// It says that this is what refuses, and the transaction goes on.
  static void is_refused(transaction& tx, const status& s, std::string_view why) {
    EXPECT_EQ(s, outcome::duplicate_key);
    EXPECT_EQ(s.reason(), why);
    EXPECT_TRUE(tx.state());
  }

  database base = database::open();
  table& t = base.create_table(
      {.name = "users",
       .columns = {{"id", int64, primary_key}, {"email", text(20)}, {"badge", int64}},
       .indexes = {
           {.name = "by_email", .columns = {"email"}, .unique = true},
           {.name = "by_badge", .columns = {"badge"}, .unique = true, .kind = index_kind::hash}}});
  const std::string primary = "primary key of table users";
  const std::string by_email = "index by_email of table users";
  const std::string by_badge = "index by_badge of table users";
};

TEST_F(db_taken, a_key_that_is_taken_is_named) {
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {1, "a@b", 11}); }));
  transaction tx = base.begin();
  is_refused(tx, tx.insert(t, {1, "c@d", 12}), primary);
  is_refused(tx, tx.insert(t, {2, "a@b", 12}), by_email);
  is_refused(tx, tx.insert(t, {2, "c@d", 11}), by_badge);
  is_refused(tx, tx.insert(t, {1, "c@d", 12}), primary);  // not the one of the call before
  ASSERT_TRUE(tx.insert(t, {2, "c@d", 12}));
  is_refused(tx, tx.insert(t, {2, "e@f", 13}), primary);
  is_refused(tx, tx.insert(t, {3, "c@d", 13}), by_email);
  is_refused(tx, tx.update(t, {1}, {{"email", "c@d"}}), by_email);
  is_refused(tx, tx.update(t, {1}, {{"email", "e@f"}, {"badge", 12}}), by_badge);
  auto first = tx.edit(t, {1});
  ASSERT_TRUE(first);
  is_refused(tx, first->set(t.column<std::string_view>("email"), "c@d"), by_email);
  is_refused(tx, first->set(t.column<std::int64_t>("badge"), 12), by_badge);
  // In the slot of a row that is erased, too.
  ASSERT_TRUE(tx.erase(t, {1}));
  is_refused(tx, tx.insert(t, {1, "g@h", 12}), by_badge);
  ASSERT_TRUE(tx.insert(t, {1, "g@h", 14}));
  is_refused(tx, tx.insert(t, {1, "i@j", 15}), primary);
  ASSERT_TRUE(tx.commit());
  const auto s = base.transact([&](transaction& again) -> result<int> {
    if (auto made = again.insert(t, {5, "c@d", 5}); !made) return made;
    return 5;
  });
  EXPECT_EQ(s.why().reason(), by_email) << "out of transact(), too";
}

TEST_F(db_taken, a_row_that_only_this_snapshot_sees_has_its_key) {
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {1, "a@b", 11}); }));
  transaction old = base.begin();
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.erase(t, {1}); }));
  base.collect();
  is_refused(old, old.insert(t, {1, "c@d", 12}), primary);
  is_refused(old, old.insert(t, {2, "a@b", 12}), by_email);
}

TEST_F(db_taken, an_index_that_cannot_be_built_is_named) {
  table& twins =
      base.create_table({.name = "twins", .columns = {{"id", int64, primary_key}, {"n", int64}}});
  ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
    if (auto s = tx.insert(twins, {1, 7}); !s) return s;
    return tx.insert(twins, {2, 7});
  }));
  const status s = base.create_index(twins, {.name = "by_n", .columns = {"n"}, .unique = true});
  EXPECT_EQ(s, outcome::duplicate_key);
  EXPECT_EQ(s.reason(), "index by_n of table twins");
}

TEST_F(db_taken, to_be_refused_again_allocates_nothing) {
  transaction tx = base.begin();
  ASSERT_TRUE(tx.insert(t, {1, "a@b", 11}));
  is_refused(tx, tx.insert(t, {1, "c@d", 12}), primary);
  const status of_index = tx.insert(t, {2, "a@b", 12});
  const std::uint64_t before = thread_allocations();
  for (int i = 0; i < 100; ++i) is_refused(tx, tx.insert(t, {1, "c@d", 12}), primary);
  EXPECT_EQ(thread_allocations() - before, 0U);
  // The record of the index entry is allocated, the reason is not.
  const status again = tx.insert(t, {2, "a@b", 12});
  EXPECT_EQ(again.reason().data(), of_index.reason().data());
}

TEST_F(db_taken, without_memory_for_the_reason_there_is_the_usual_one) {
  transaction tx = base.begin();
  ASSERT_TRUE(tx.insert(t, {1, "a@b", 11}));
  int told = 0;
  int untold = 0;
  for (std::uint64_t nth = 1; told == 0 && nth < 100; ++nth) {
    const fail_after none(nth);
    try {
      const status s = tx.insert(t, {1, "c@d", 12});
      EXPECT_EQ(s, outcome::duplicate_key);
      ++(s.reason() == primary ? told : untold);
      EXPECT_FALSE(s.reason().empty());
    } catch (const std::bad_alloc&) {
      tx = base.begin();
      ASSERT_TRUE(tx.insert(t, {1, "a@b", 11}));
    }
  }
  EXPECT_EQ(told, 1);
  EXPECT_GE(untold, 1);
}

TEST_F(db_taken, a_reason_outlives_its_database) {
  std::optional<database> other = database::open();
  table& of_other = other->create_table({.name = "users", .columns = {{"id", int64, primary_key}}});
  const status s = other->transact([&](transaction& tx) -> status {
    if (auto made = tx.insert(of_other, {1}); !made) return made;
    return tx.insert(of_other, {1});
  });
  other.reset();
  EXPECT_EQ(s.reason(), primary);
}

TEST(db_limits, a_budget_that_is_used_up_is_named) {
  database base = database::open({.version_budget = 1U << 20U, .budget = 8U << 20U});
  table& t = base.create_table(
      {.name = "rows", .columns = {{"id", int64, primary_key}, {"words", text()}}});
  const std::string words(4000, 'w');
  constexpr std::int64_t rows = 500;
  for (std::int64_t i = 0; i < rows; ++i) {
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {i, words}); }));
  }
  const reader old = base.snapshot();
  status s;
  for (std::int64_t i = 0; i < rows && s; ++i) {
    s = base.transact([&](transaction& tx) { return tx.update(t, {i}, {{"words", words}}); });
  }
  EXPECT_EQ(s, outcome::limit);
  EXPECT_EQ(s.reason(), "options::version_budget, 1048576 bytes");
  s = outcome::ok;
  for (std::int64_t i = rows; i < 4 * rows && s; ++i) {
    s = base.transact([&](transaction& tx) { return tx.insert(t, {i, words}); });
  }
  EXPECT_EQ(s, outcome::limit);
  EXPECT_EQ(s.reason(), "options::budget, 8388608 bytes");
  s = base.create_index(t, {.name = "by_id", .columns = {"id"}});
  EXPECT_TRUE(s || s.reason() == "options::budget, 8388608 bytes") << s.reason();
}

TEST(db_status, copies_share_one_reason_and_the_last_one_frees_it) {
  const std::int64_t before = live_allocations();
  {
    const std::uint64_t made_before = thread_allocations();
    status a = refused("a reason that is longer than what any string keeps in itself");
    status b = a;
    status c;
    c = b;
    status d = std::move(c);
    EXPECT_EQ(thread_allocations() - made_before, 1U);
    status& same = d;
    d = same;
    a = outcome::ok;
    b = refused("another one");
    EXPECT_EQ(d.reason(), "a reason that is longer than what any string keeps in itself");
    EXPECT_EQ(b, d) << "outcomes are compared";
    EXPECT_EQ(a.reason(), "");
    const std::string kept = status(d).reason();
    d = outcome::conflict;
    EXPECT_EQ(kept.size(), 60U);
  }
  EXPECT_EQ(live_allocations(), before);
}

TEST(db_status, without_a_reason_nothing_is_allocated) {
  const std::uint64_t before = thread_allocations();
  status a = refused();
  const status b = refused("");
  a = b;
  EXPECT_EQ(a, outcome::refused);
  EXPECT_EQ(thread_allocations(), before);
}

TEST(db_status, without_memory_for_a_reason_there_is_no_status) {
  const std::int64_t before = live_allocations();
  const fail_after none(1);
  EXPECT_THROW(static_cast<void>(refused("a reason")), std::bad_alloc);
  EXPECT_EQ(live_allocations(), before);
}

/// Of another transaction, as of a result's value(), or of the program's own.
TEST_F(db_outcomes, a_conflict_that_is_thrown_is_one_that_is_returned) {
  for (const outcome why : {outcome::conflict, outcome::schema_changed}) {
    int tried = 0;
    const status s = base.transact(
        [&](transaction& tx) -> status {
          EXPECT_TRUE(tx.update(accounts, {1}, {{"balance", 7}}));
          ++tried;
          throw no_result(status(why, "of another one"));
        },
        {.tries = 3, .longest_pause = {}});
    EXPECT_EQ(s, why);
    EXPECT_EQ(s.reason(), "of another one");
    EXPECT_EQ(tried, 3);
    const result<int> n =
        base.transact([&](transaction&) -> int { throw no_result(why); }, {.tries = 1});
    EXPECT_EQ(n.code(), why);
  }
  EXPECT_EQ(base.transact([&, n = 0](transaction&) mutable {
    if (++n < 3) throw no_result(outcome::conflict);
  }),
            outcome::ok)
      << "it is tried again";
  EXPECT_THROW(static_cast<void>(base.transact(
                   [&](transaction&) -> status { throw no_result(outcome::not_found); })),
               no_result);
  EXPECT_EQ(now(), 100);
}

/// It would wait for the function that has begun it: to try again is in vain.
TEST_F(db_outcomes, a_transact_within_another_one_is_told_who_has_the_row) {
  table& names = base.create_table({.name = "names",
                                    .columns = {{"id", int64, primary_key}, {"name", text(8)}},
                                    .indexes = {{"by_name", {"name"}, true}}});
  const retries often{.tries = 1000000};
  int tried = 0;
  const status s = base.transact(
      [&](transaction& tx) -> status {
        if (const status done = tx.update(accounts, {1}, {{"balance", 7}}); !done) return done;
        if (const status done = tx.insert(names, {1, "Ada"}); !done) return done;
        const status value = base.transact(
            [&](transaction& inner) { return inner.insert(names, {2, "Ada"}); }, often);
        EXPECT_EQ(value, outcome::refused);
        EXPECT_EQ(value.reason(),
                  "a transaction of this thread has it, a value of index by_name of table names: "
                  "that of a transact() whose function has begun this one, and goes on when this "
                  "has returned. Use that transaction, or do this after it");
        return base.transact(
            [&](transaction& inner) -> status {
              ++tried;
              const status lost = inner.update(accounts, {1}, {{"balance", 8}});
              EXPECT_EQ(lost, outcome::refused);
              EXPECT_EQ(inner.find(accounts, {1}).code(), outcome::refused) << "it has ended";
              return lost;
            },
            often);
      },
      often);
  EXPECT_EQ(s, outcome::refused);
  EXPECT_NE(s.reason().find("a transaction of this thread has it, a row of table accounts"),
            std::string::npos)
      << s.reason();
  EXPECT_EQ(tried, 1);
  EXPECT_EQ(now(), 100);
  EXPECT_TRUE(base.transact([&](transaction& tx) -> status {
    if (const status done = tx.update(accounts, {1}, {{"balance", 7}}); !done) return done;
    return base.transact([&](transaction& inner) { return inner.insert(accounts, {2, 1}); });
  })) << "they have nothing in common";
}

/// One that begin() has begun may be another thread's by now, and end: that is a conflict.
TEST_F(db_outcomes, a_lock_of_a_transaction_that_the_thread_has_begun_is_a_conflict) {
  const auto lost = [&] {
    return base.transact([&](transaction& tx) { return tx.erase(accounts, {1}); }, {.tries = 2});
  };
  transaction open = base.begin();
  ASSERT_TRUE(open.update(accounts, {1}, {{"balance", 7}}));
  const status s = lost();
  EXPECT_EQ(s, outcome::conflict);
  EXPECT_NE(s.reason().find("which this thread has begun: commit that one first"),
            std::string::npos)
      << s.reason();
  open.rollback();
  // The record of a transact() goes to what is begun next, which is not run by one.
  std::optional<transaction> after;
  EXPECT_TRUE(base.transact([&](transaction& tx) { return tx.insert(accounts, {2, 1}); }));
  after.emplace(base.begin());
  ASSERT_TRUE(after->update(accounts, {1}, {{"balance", 8}}));
  EXPECT_EQ(lost(), outcome::conflict);
}

/// docs/reference/store-transactions.md: a row that is changed stands for a range, and one that is
/// only locked does not.
TEST_F(db_outcomes, a_row_that_is_changed_keeps_older_transactions_out) {
  for (const bool changes : {false, true}) {
    const auto book = [&](transaction& tx, std::int64_t id) -> status {
      auto room = tx.edit(accounts, {1});
      if (!room) return room.why();
      if (changes) {
        if (const status s = room->set(balance, room->get(balance)); !s) return s;
      }
      return tx.insert(accounts, {id, 0});
    };
    transaction first = base.begin();
    transaction second = base.begin();
    EXPECT_TRUE(book(first, changes ? 10 : 20) && first.commit());
    EXPECT_EQ(book(second, changes ? 11 : 21), changes ? outcome::conflict : outcome::ok);
    EXPECT_EQ(second.commit(), changes ? outcome::conflict : outcome::ok);
  }
}

}  // namespace
