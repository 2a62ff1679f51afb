// SPDX-License-Identifier: Apache-2.0
// What is not ok says why, each time; and a transaction that has ended says the same to every call.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "db/durable.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;
using namespace std::chrono_literals;

/// Calls f(o) for each enumerator.
template <class F>
void each_outcome(F&& f) {
  for (unsigned n = 0; message(static_cast<outcome>(n)) != "unknown"; ++n) {
    f(static_cast<outcome>(n));
  }
}

class reasons : public testing::Test {
 protected:
  reasons() {
    EXPECT_TRUE(base.transact([&](transaction& tx) { return tx.insert(users, {1, "a@b"}); }));
  }
  static table& make_users(database& in, const char* name) {
    return in.create_table({.name = name,
                            .columns = {{"id", int64, primary_key}, {"email", text(9)}},
                            .primary = index_kind::ordered,
                            .indexes = {{.name = "by_email", .columns = {"email"}, .unique = true},
                                        {.name = "some", .columns = {"email"}}}});
  }
  status change(std::int64_t id) {
    return base.transact(
        [&](transaction& tx) { return tx.put(users, {id, std::to_string(id) + "@c"}); });
  }
  /// What a scan or the like throws.
  template <class F>
  static status thrown_by(F&& f) {
    try {
      f();
    } catch (const no_result& e) {
      return e.why();
    }
    return {};
  }

  database base = database::open();
  table& users = make_users(base, "users");
};

TEST_F(reasons, each_outcome_has_one_without_any_words_of_its_own) {
  each_outcome([](outcome o) {
    EXPECT_EQ(status(o).reason().empty(), o == outcome::ok) << message(o);
    EXPECT_NE(status(o).reason(), message(o));
  });
}

/// What was met for real, and what it has to say.
class met_reasons : public reasons {
 protected:
  void meet(status s, std::string says) { met_.emplace_back(std::move(s), std::move(says)); }
  void meet_those_of_rows();
  void meet_conflicts();
  void meet_those_of_queries();
  void meet_those_of_tables();
  void meet_those_of_files();

  std::vector<std::pair<status, std::string>> met_;
};

void met_reasons::meet_those_of_rows() {
  transaction tx = base.begin();
  meet(tx.commit(), "");
  tx = base.begin();
  meet(tx.find(users, {7}).why(), "table users has no row");
  meet(tx.erase(users, {7}), "table users has no row");
  meet(tx.insert(users, {1, "x"}), "primary key of table users");
  meet(tx.insert(users, {2, "a@b"}), "index by_email of table users");
  meet(tx.insert(users, {2, "much too long"}), "column email of table users takes at most 9");
  const auto edited = tx.edit(users, {1});
  ASSERT_TRUE(tx.erase(users, {1}) && edited);
  meet(editor(*edited).set(users.column<std::string_view>("email"), "y"), "was erased since");
  tx.rollback();
  meet(tx.commit(), "rolled back before");
  tx = base.begin();
  ASSERT_TRUE(tx.put(users, {1, "b@c"}) && tx.commit());
  meet(tx.commit(), "committed before");
  meet(refused("too late"), "too late");
  meet(refused(), "has given none");
}

void met_reasons::meet_conflicts() {
  transaction other = base.begin();
  ASSERT_TRUE(other.lock(users, {1}));
  transaction tx = base.begin();
  meet(tx.lock(users, {1}).why(), "a row of table users is locked");
  other.rollback();
  tx = base.begin();
  ASSERT_TRUE(change(1));
  meet(tx.erase(users, {1}), "a row of table users was changed");
  tx = base.begin();
  ASSERT_TRUE(base.transact([&](transaction& t) { return t.erase(users, {1}); }));
  meet(tx.erase(users, {1}), "a row of table users was ");
  other = base.begin();
  ASSERT_TRUE(other.insert(users, {2, "x@y"}));
  tx = base.begin();
  meet(tx.insert(users, {3, "x@y"}), "in index by_email of table users");
  other.rollback();
  tx = base.begin({.isolation = isolation::serializable});
  EXPECT_FALSE(tx.find(users, {8}));
  ASSERT_TRUE(change(8) && tx.insert(users, {9, "z"}));
  meet(tx.commit(), "what this serializable one has read");
}

void met_reasons::meet_those_of_queries() {
  stop_source source;
  source.request_stop();
  const reader now = base.snapshot();
  query all = now.query(users);
  all.aggregate(count()).where(users.column<std::int64_t>("id"), [](std::int64_t) {
    std::this_thread::sleep_for(2ms);
    return true;
  });
  meet(all.run({.stop = source.get_token()}).why(), "query_options::stop was");
  meet(all.run({.longest = 1ms}).why(), "query_options::longest was");
  const reader late = base.snapshot({.deadline = 1ns});
  base.collect();
  meet(late.find(users, {1}).why(), "deadline was over");
  meet(thrown_by([&] { late.for_each(users, [](const row&) {}); }), "deadline was over");
}

void met_reasons::meet_those_of_tables() {
  transaction tx = base.begin();
  const secondary& some = users.index("some");
  ASSERT_TRUE(tx.insert(users, {20, "t"}));
  ASSERT_TRUE(base.create_index(users, {.name = "young", .columns = {"email"}}));
  meet(thrown_by([&] { tx.scan(users.index("young"), {}, {}, [](const row&) {}); }),
       "index young of table users is younger");
  meet(tx.commit(), "create_index");
  ASSERT_TRUE(base.drop_index(users, "some"));
  meet(thrown_by([&] { base.snapshot().scan(some, {}, {}, [](const row&) {}); }),
       "index some of table users was dropped");
  ASSERT_TRUE(base.drop_table(users));
  meet(base.drop_table(users), "table users was dropped");
  tx = base.begin();
  meet(tx.insert(users, {1, "x"}), "table users was dropped");
  meet(tx.find(users, {1}).why(), "table users was dropped");
  meet(thrown_by([&] { tx.for_each(users, [](const row&) {}); }), "table users was dropped");
}

void met_reasons::meet_those_of_files() {
  const disk files = new_disk();
  {
    database stored = database::open(place, over(files));
    table& t = make_users(stored, "users");
    files->fails_at = files->changes + 1;
    const auto write = [&] {
      return stored.transact([&](transaction& w) { return w.put(t, {1, "x"}); });
    };
    meet(write(), "in doubt: the commit of time ");
    meet(write(), "database::resume()");
    meet(stored.sync(), "database::resume()");
    meet(stored.drop_table(t), "log-0000000000000001.spl");
    files->fails_at = 0;
  }
  options look = over(files);
  look.read_only = true;
  database read = database::open(place, look);
  meet(read.transact([&](transaction& w) { return w.insert(read.find_table("users"), {5, "n"}); }),
       "options::read_only");
  database small = database::open({.budget = 1U << 20U});
  table& full = make_users(small, "full");
  status s;
  for (std::int64_t i = 0; s; ++i) {
    s = small.transact([&](transaction& w) { return w.insert(full, {i, std::to_string(i)}); });
  }
  meet(s, "options::budget, 1048576 bytes");
}

TEST_F(met_reasons, each_outcome_says_what_it_is_about) {
  meet_those_of_rows();
  meet_conflicts();
  meet_those_of_queries();
  meet_those_of_tables();
  meet_those_of_files();
  std::map<outcome, int> seen;
  for (const auto& [what, says] : met_) {
    ++seen[what.code()];
    EXPECT_EQ(what.reason().empty(), bool(what));
    EXPECT_NE(what.reason().find(says), std::string_view::npos)
        << what.message() << ": " << what.reason() << ", and not: " << says;
  }
  each_outcome([&](outcome o) { EXPECT_NE(seen[o], 0) << message(o) << " was not met"; });
}

/// One word for it, whatever is called: that of the call which has ended the transaction.
TEST_F(reasons, a_transaction_that_has_ended_says_the_same_to_every_call) {
  const std::vector<std::function<status(transaction&)>> calls = {
      [&](transaction& t) { return t.insert(users, {5, "x"}); },
      [&](transaction& t) { return t.put(users, {5, "x"}); },
      [&](transaction& t) { return t.edit(users, {1}).why(); },
      [&](transaction& t) { return t.update(users, {1}, {{"email", "x"}}); },
      [&](transaction& t) { return t.erase(users, {1}); },
      [&](transaction& t) { return t.lock(users, {1}).why(); },
      [&](transaction& t) { return t.find(users, {1}).why(); },
      [&](transaction& t) { return t.rollback_to(t.savepoint()); },
      [&](transaction& t) { return t.commit(); },
      [&](transaction& t) { return t.state(); },
      [&](transaction& t) { return t.query(users).aggregate(count()).run().why(); },
      [&](transaction& t) { return thrown_by([&] { t.for_each(users, [](const row&) {}); }); },
      [&](transaction& t) { return thrown_by([&] { t.scan(users, {}, {}, [](const row&) {}); }); },
      [&](transaction& t) {
        return thrown_by([&] { t.scan_down(users, {}, {}, [](const row&) {}); });
      },
      [&](transaction& t) {
        return thrown_by([&] { t.scan(users.index("by_email"), {}, {}, [](const row&) {}); });
      },
      [&](transaction& t) {
        return thrown_by([&] { t.scan_down(users.index("some"), {}, {}, [](const row&) {}); });
      },
      [](transaction& t) {
        t.rollback();
        return t.state();
      }};
  const auto each_says = [&](transaction& t, const status& how) {
    EXPECT_FALSE(how);
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const status s = calls[i](t);
      EXPECT_EQ(s, how) << "call " << i << " says: " << s.message();
      EXPECT_EQ(s.reason(), how.reason()) << "call " << i;
    }
  };
  transaction tx = base.begin();
  ASSERT_TRUE(change(1));
  const status lost = tx.erase(users, {1});
  EXPECT_EQ(lost, outcome::conflict);
  each_says(tx, lost);
  transaction moved = std::move(tx);
  each_says(moved, lost);
  each_says(tx, outcome::ended);  // NOLINT: what was moved from is looked at on purpose
  tx = base.begin({.deadline = 1ns});
  base.collect();
  each_says(tx, tx.erase(users, {1}));
  EXPECT_EQ(tx.state(), outcome::ended_by_policy);
  tx = base.begin();
  EXPECT_TRUE(tx.commit());
  each_says(tx, tx.state());
  tx = base.begin({.isolation = isolation::serializable});
  EXPECT_TRUE(tx.find(users, {1}));
  ASSERT_TRUE(change(1) && tx.insert(users, {6, "y"}));
  each_says(tx, tx.commit());
  EXPECT_EQ(tx.state(), outcome::conflict);
}

/// A thread that looks in vain again and again allocates nothing for it.
TEST_F(reasons, of_a_table_follow_its_name) {
  const reader now = base.snapshot();
  const status first = now.find(users, {7}).why();
  const status second = now.find(users, {8}).why();
  EXPECT_EQ(second.reason().data(), first.reason().data());
  ASSERT_TRUE(base.rename_table(users, "people"));
  EXPECT_NE(now.find(users, {7}).why().reason().find("table people has"), std::string_view::npos);
  transaction tx = base.begin();
  EXPECT_EQ(tx.insert(users, {1, "x"}).reason(), "primary key of table people");
  EXPECT_EQ(tx.insert(users, {2, "a@b"}).reason(), "index by_email of table people");
  EXPECT_EQ(tx.insert(users, {2, "much too long"}).reason(),
            "column email of table people takes at most 9 bytes, got 13");
  EXPECT_NE(first.reason().find("table users has"), std::string_view::npos);
}

}  // namespace
