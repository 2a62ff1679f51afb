// SPDX-License-Identifier: Apache-2.0
// What becomes of editors, scans, queries and results that are used after what they belong to has
// ended, was moved from, or never was there.

#include <gtest/gtest.h>

#include <pthread.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/base/misuse.hpp>
#include <spolia/db.hpp>

#include "support/parked_thread.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;

class after_the_end : public testing::Test {
 protected:
  after_the_end() {
    EXPECT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {1, 10, "one"}); }));
  }

  database base = database::open();
  table& t = base.create_table({.name = "t",
                                .columns = {{"k", int64, primary_key}, {"v", int64}, {"s", text()}},
                                .indexes = {{"by_v", {"v"}}}});
  const column<std::int64_t> v = t.column<std::int64_t>("v");
  const column<std::string_view> s = t.column<std::string_view>("s");
};

/// How the transaction can come to its end.
const std::vector<std::pair<const char*, std::function<void(transaction&)>>> ends = {
    {"commit", [](transaction& tx) { EXPECT_TRUE(tx.commit()); }},
    {"rollback", [](transaction& tx) { tx.rollback(); }},
};

TEST_F(after_the_end, a_scan_says_that_its_transaction_has_ended) {
  for (const auto& [name, end] : ends) {
    SCOPED_TRACE(name);
    transaction tx = base.begin();
    ASSERT_TRUE(tx.update(t, {1}, {{"v", 11}}));
    end(tx);
    const auto nothing = [](const row&) { ADD_FAILURE() << "a row of an ended transaction"; };
    const auto is_refused = [](auto&& scan) {
      try {
        scan();
        ADD_FAILURE() << "an empty table, as it seems";
      } catch (const no_result& e) {
        EXPECT_EQ(e.code(), outcome::ended);
      }
    };
    is_refused([&] { tx.for_each(t, nothing); });
    is_refused([&] { tx.scan(t, {}, {}, nothing); });
    is_refused([&] { tx.scan_down(t, {}, {}, nothing); });
    is_refused([&] { tx.scan(t.index("by_v"), {}, {}, nothing); });
    is_refused([&] { tx.scan_down(t.index("by_v"), {}, {}, nothing); });
    EXPECT_EQ(tx.find(t, {1}).code(), outcome::ended);
    EXPECT_EQ(tx.query(t).aggregate(count()).run().code(), outcome::ended);
    EXPECT_FALSE(tx.ended()) << "no other thread has ended it";
  }
}

/// A function that overlooks a conflict, and scans: there is another try, as without the scan.
TEST_F(after_the_end, transact_tries_a_scan_after_a_conflict_again) {
  int tries = 0;
  int rows = 0;
  std::unique_ptr<transaction> other(new transaction(base.begin()));
  ASSERT_TRUE(other->update(t, {1}, {{"v", 12}}));
  EXPECT_TRUE(base.transact([&](transaction& tx) {
    if (++tries == 2) other.reset();
    static_cast<void>(tx.update(t, {1}, {{"v", 12}}));
    tx.for_each(t, [&](const row&) { ++rows; });
  }));
  EXPECT_EQ(tries, 2);
  EXPECT_EQ(rows, 1);
  tries = 0;
  const auto looks_in_vain = [&](transaction& tx) -> status {
    ++tries;
    static_cast<void>(tx.find(t, {7}).value());
    return outcome::ok;
  };
  EXPECT_THROW(static_cast<void>(base.transact(looks_in_vain)), no_result);
  EXPECT_EQ(tries, 1) << "there was no conflict";
}

TEST_F(after_the_end, an_editor_sets_nothing) {
  for (const auto& [name, end] : ends) {
    SCOPED_TRACE(name);
    transaction tx = base.begin();
    auto e = tx.edit(t, {1});
    ASSERT_TRUE(e);
    end(tx);
    EXPECT_EQ(e->set(v, 13), outcome::ended);
    EXPECT_EQ(e->set(s, "x"), outcome::ended);
    EXPECT_EQ(e->set(t.layout().column("v"), 13), outcome::ended);
    EXPECT_EQ(base.snapshot().find(t, {1})->get(v), 10);
  }
}

TEST_F(after_the_end, queries_and_answers_that_were_moved_from) {
  const reader now = base.snapshot();
  query from = now.query(t).aggregate(sum("v"));
  query to = std::move(from);
  to.where("v", greater, 10);
  auto none = to.run();
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->null(0, 0));
  auto all = from.run();  // NOLINT: it stays what it was
  ASSERT_TRUE(all);
  answer got = std::move(*all);
  EXPECT_EQ(got.get<std::int64_t>(0, 0), 10);
  EXPECT_EQ(all->size(), 0U);  // NOLINT: this is what is tested
  EXPECT_EQ(all->columns(), 0U);
  EXPECT_THROW(static_cast<void>(all->name(0)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(all->at(0, 0)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(all->null(0, 0)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(all->get<double>(0, 0)), std::invalid_argument);
}

/// Readers and transactions go on in the database that is moved.
TEST_F(after_the_end, of_a_database_that_was_moved) {
  database there = database::open();
  const reader now = base.snapshot();
  transaction tx = base.begin();
  ASSERT_TRUE(tx.update(t, {1}, {{"v", 14}}));
  there = std::move(base);
  EXPECT_EQ(now.find(t, {1})->get(v), 10);
  EXPECT_TRUE(tx.commit());
  EXPECT_EQ(there.snapshot().find(t, {1})->get(v), 14);
}

#if SPOLIA_CHECKS

std::string last_mistake;

class misused : public after_the_end {
 protected:
  misused() {
    last_mistake.clear();
    before_ =
        core::set_misuse_handler([](const char* what, std::uint32_t) { last_mistake = what; });
  }
  ~misused() override { core::set_misuse_handler(before_); }
  static std::string told() { return std::exchange(last_mistake, ""); }

 private:
  core::misuse_handler before_;
};

TEST_F(misused, an_editor_that_is_asked_after_the_end) {
  const std::string said = "an editor is asked after the end of its transaction";
  for (const auto& [name, end] : ends) {
    SCOPED_TRACE(name);
    transaction tx = base.begin();
    auto e = tx.edit(t, {1});
    ASSERT_TRUE(e);
    EXPECT_EQ(e->get(v), 10);
    EXPECT_EQ(told(), "");
    end(tx);
    EXPECT_EQ(e->get(v), 0);
    EXPECT_EQ(told(), said);
    EXPECT_EQ(e->get(s), "");
    EXPECT_EQ(told(), said);
    EXPECT_TRUE(e->get(t.layout().column("v")).null());
    EXPECT_EQ(told(), said);
    EXPECT_TRUE(e->null(v));
    EXPECT_EQ(told(), said);
  }
}

TEST_F(misused, a_row_that_is_changed_while_it_is_shown) {
  const std::string said = "a row is changed while editor::visit() shows it";
  table& plain = base.create_table(
      {.name = "plain", .columns = {{"k", int64, primary_key}, {"n", int64}, {"s", text()}}});
  const column<std::int64_t> n = plain.column<std::int64_t>("n");  // in no index: set as a word
  const column<std::string_view> text = plain.column<std::string_view>("s");
  transaction tx = base.begin();
  ASSERT_TRUE(tx.insert(plain, {1, 10, "one"}));
  ASSERT_TRUE(tx.insert(plain, {2, 20, "two"}));
  auto e = tx.edit(plain, {1});
  auto other = tx.edit(plain, {2});
  ASSERT_TRUE(e);
  ASSERT_TRUE(other);
  const std::vector<std::pair<const char*, std::function<void()>>> changes = {
      {"set of a text", [&] { EXPECT_TRUE(e->set(text, "1")); }},
      {"set of a number", [&] { EXPECT_TRUE(e->set(n, 12)); }},
      {"update", [&] { EXPECT_TRUE(tx.update(plain, {1}, {{"s", "uno"}})); }},
      {"erase", [&] { EXPECT_TRUE(tx.erase(plain, {1})); }},
  };
  for (const auto& [name, change] : changes) {
    SCOPED_TRACE(name);
    e->visit(text, [&](std::string_view) {
      EXPECT_TRUE(other->set(text, "the other row"));
      other->visit(n, [](std::int64_t shown) { EXPECT_EQ(shown, 20); });
      EXPECT_EQ(told(), "");
      change();
    });
    EXPECT_EQ(told(), said);
    EXPECT_TRUE(other->set(n, 20));
    EXPECT_EQ(told(), "") << "it is over";
  }
}

TEST_F(misused, a_result_that_is_none) {
  const std::string said = "a result without a value is looked into";
  const reader now = base.snapshot();
  auto none = now.find(t, {2});
  const auto& same = none;
  EXPECT_THROW(static_cast<void>(none->get(v)), no_result);
  EXPECT_EQ(told(), said);
  EXPECT_THROW(static_cast<void>(*none), no_result);
  EXPECT_EQ(told(), said);
  EXPECT_THROW(static_cast<void>(same->get(v)), no_result);
  EXPECT_EQ(told(), said);
  EXPECT_THROW(static_cast<void>(*same), no_result);
  EXPECT_EQ(told(), said);
  EXPECT_THROW(static_cast<void>(none.value()), no_result) << "which is allowed";
  EXPECT_EQ(told(), "");
}

TEST_F(misused, an_empty_row) {
  const std::string said = "an empty row is looked at";
  const row empty;
  EXPECT_EQ(empty.get(v), 0);
  EXPECT_EQ(told(), said);
  EXPECT_TRUE(empty.null(v));
  EXPECT_EQ(told(), said);
  EXPECT_TRUE(empty.get(t.layout().column("s")).null());
  EXPECT_EQ(told(), said);
}

TEST_F(misused, by_two_threads_at_the_same_time) {
  transaction tx = base.begin();
  auto e = tx.edit(t, {1});
  const auto elsewhere = [](auto&& f) { std::thread(f).join(); };
  const auto is_named = [] {
    return std::exchange(last_mistake, "") ==
           "two threads use one reader or transaction at the same time";
  };
  tx.for_each(t, [&](const row&) {
    elsewhere([&] { static_cast<void>(tx.find(t, {2})); });
    EXPECT_TRUE(is_named());
    elsewhere([&] { static_cast<void>(tx.insert(t, {5, 5, ""})); });
    EXPECT_TRUE(is_named());
    elsewhere([&] { static_cast<void>(e->get(v)); });
    EXPECT_TRUE(is_named());
    elsewhere([&] { tx.scan(t.index("by_v"), {}, {}, [](const row&) {}); });
    EXPECT_TRUE(is_named());
    EXPECT_TRUE(tx.find(t, {1}));
    EXPECT_EQ(last_mistake, "") << "the thread itself";
  });
  elsewhere([&] { EXPECT_TRUE(tx.find(t, {1})); });
  ASSERT_TRUE(tx.query(t).where(v, [](std::int64_t) { return true; }).aggregate(count()).run());
  elsewhere([&] { EXPECT_TRUE(tx.commit()); });
  EXPECT_EQ(last_mistake, "") << "one after the other";
}

TEST(misused_databases, moved_from) {
  database base = database::open();
  const database there = std::move(base);
  EXPECT_DEATH(static_cast<void>(base.begin()), "is used that was moved from");     // NOLINT
  EXPECT_DEATH(static_cast<void>(base.snapshot()), "is used that was moved from");  // NOLINT
  EXPECT_DEATH(static_cast<void>(base.stats()), "is used that was moved from");     // NOLINT
  EXPECT_DEATH(base.create_table(table_spec()), "is used that was moved from");     // NOLINT
}

/// The commit that asks goes on with it.
TEST(misused_databases, closed_by_a_function_that_they_call) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::optional<database> base;
  bool closes = false;
  base.emplace(database::open({.on_slow_reader =
                                   [&](const slow_reader&) {
                                     if (closes) base.reset();
                                     return slow_reader_action::leave;
                                   },
                               .slow_after = std::chrono::nanoseconds(1)}));
  table& t = base->create_table({.name = "t", .columns = {{"k", int64, primary_key}}});
  const reader slow = base->snapshot();
  transaction tx = base->begin();
  ASSERT_TRUE(tx.insert(t, {1}));
  closes = true;
  EXPECT_DEATH(static_cast<void>(tx.commit()), "is closed by a function that it has called");
  closes = false;
  EXPECT_TRUE(tx.commit());
}

#endif

/// In a program that is begun anew for each: in a child by fork() it is no mistake.
TEST(misused_databases, ended_before_their_readers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::optional<database> base(database::open());
  table& t = base->create_table({.name = "t", .columns = {{"k", int64, primary_key}}});
  const char* const said = "ends before a reader or transaction of it";
  {
    const reader now = base->snapshot("the audit");
    EXPECT_DEATH(base.reset(), "ends before a reader or transaction of it, .* the audit");
    EXPECT_DEATH(*base = database::open(), said);
  }
  {
    std::optional<reader> now;
    const test::parked_thread other([&](test::parking_spot& spot) {
      pthread_setname_np(pthread_self(), "night shift");
      now.emplace(base->snapshot());
      spot.park();
    });
    EXPECT_DEATH(base.reset(), "ends before a reader .* named night shift");
    now.reset();
  }
  {
    transaction tx = base->begin();
    ASSERT_TRUE(tx.insert(t, {1}));
    EXPECT_DEATH(base.reset(), said);
    ASSERT_TRUE(tx.commit());
    base.reset();  // it has nothing of it any more
  }
}

}  // namespace
