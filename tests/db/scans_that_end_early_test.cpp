// SPDX-License-Identifier: Apache-2.0
// Scans whose function stops, throws, or ends the transaction: a serializable transaction has read
// what was shown, and nothing else; and nothing of what the scan goes through is used any more.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>

#include "db/storages.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using spolia::test::over_storages;

constexpr std::int64_t rows = 150;  // more than what an index copies at a time
constexpr std::int64_t gap = 10;    // between two keys, and two values of `v`
constexpr std::int64_t last = (rows - 1) * gap;

enum class way : std::uint8_t { table, up, down, index_up, index_down, hash };
constexpr way ways[] = {way::table, way::up, way::down, way::index_up, way::index_down, way::hash};
/// What the function does at the last row that it wants.
enum class finish : std::uint8_t { stop, raise, commit };
constexpr finish finishes[] = {finish::stop, finish::raise, finish::commit};

class scans_that_end_early : public over_storages {
 protected:
  /// A table of its own for what is dropped, with values that are the keys.
  table& make(const std::string& name) {
    table& t = base.create_table(
        {.name = name,
         .columns = {{"id", int64, primary_key}, {"v", int64}, {"group", int64}},
         .primary = index_kind::ordered,
         .indexes = {{"by_v", {"v"}},
                     {.name = "by_group", .columns = {"group"}, .kind = index_kind::hash}}});
    EXPECT_TRUE(base.transact([&](transaction& tx) -> status {
      for (std::int64_t i = 0; i < rows; ++i) {
        if (const status s = tx.insert(t, {i * gap, i * gap, 7}); !s) return s;
      }
      return outcome::ok;
    }));
    return t;
  }
  static void scan(const reader& at, const table& t, way w,
                   const std::function<bool(const row&)>& f) {
    switch (w) {
      case way::table:
        return at.for_each(t, f);
      case way::up:
        return at.scan(t, {}, {}, f);
      case way::down:
        return at.scan_down(t, {}, {}, f);
      case way::index_up:
        return at.scan(t.index("by_v"), {}, {}, f);
      case way::index_down:
        return at.scan_down(t.index("by_v"), {}, {}, f);
      case way::hash:
        return at.scan(t.index("by_group"), {7}, {7}, f);
    }
  }
  static bool down(way w) { return w == way::down || w == way::index_down; }
  transaction serial() { return base.begin({.isolation = isolation::serializable}); }

  /// A serializable transaction that changes something elsewhere, and scans until it has seen so
  /// many rows. meanwhile(shown) is called when these were shown, before it commits.
  status ends_after(const table& t, way w, finish how, std::size_t count,
                    const std::function<void(const std::set<std::int64_t>&)>& meanwhile) {
    transaction tx = serial();
    const column<std::int64_t> key = t.column<std::int64_t>("id");
    EXPECT_TRUE(tx.insert(items, {++inserted_, 1, inserted_, nullptr}));
    std::set<std::int64_t> shown;
    std::optional<status> committed;
    const auto f = [&](const row& r) {
      shown.insert(r.get(key));
      if (shown.size() < count) return true;
      if (how == finish::raise) throw std::domain_error("enough");
      if (how == finish::commit) {
        meanwhile(shown);
        committed = tx.commit();
      }
      return how == finish::commit;  // it ends without being told
    };
    if (how == finish::raise) {
      EXPECT_THROW(scan(tx, t, w, f), std::domain_error);
    } else {
      scan(tx, t, w, f);
    }
    EXPECT_EQ(shown.size(), count) << "way " << static_cast<int>(w);
    if (committed) return *committed;
    meanwhile(shown);
    return tx.commit();
  }
  status set_v(table& t, std::int64_t key, std::int64_t x) {
    return base.transact([&](transaction& tx) { return tx.update(t, {key}, {{"v", x}}); });
  }
  status insert(table& t, std::int64_t key) {
    return base.transact([&](transaction& tx) { return tx.insert(t, {key, key, 7}); });
  }
  status erase(table& t, std::int64_t key) {
    return base.transact([&](transaction& tx) { return tx.erase(t, {key}); });
  }

  std::int64_t inserted_ = 0;
};
SPOLIA_OVER_STORAGES(scans_that_end_early);

/// What the scan has not come to may change in every way.
TEST_P(scans_that_end_early, what_was_not_shown_is_no_reason_to_give_up) {
  table& t = make("things");
  for (const way w : ways) {
    if (w == way::hash) continue;  // all are one key, and that was looked at
    for (const finish how : finishes) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{5}, std::size_t{100}}) {
        const status s = ends_after(t, w, how, count, [&](const std::set<std::int64_t>& shown) {
          const std::int64_t far = down(w) ? gap : last - gap;
          ASSERT_EQ(shown.count(far), 0U);
          EXPECT_TRUE(set_v(t, far, far + 1));
          EXPECT_TRUE(erase(t, far));
          EXPECT_TRUE(insert(t, far));
          EXPECT_TRUE(insert(t, far + 1));
          EXPECT_TRUE(erase(t, far + 1));
          // Next to the last one that was shown, on the other side.
          const std::int64_t next = down(w) ? *shown.begin() - 1 : *shown.rbegin() + 1;
          if (w != way::table) {
            EXPECT_TRUE(insert(t, next));
            EXPECT_TRUE(set_v(t, next, next));
          }
        });
        EXPECT_TRUE(s) << s.message() << ", way " << static_cast<int>(w) << ", finish "
                       << static_cast<int>(how) << ", rows " << count;
        for (std::int64_t k = 0; k < rows * gap; ++k) {
          if (k % gap != 0) static_cast<void>(erase(t, k));
        }
      }
    }
  }
}

/// Each row that was shown counts, and so does each place between them.
TEST_P(scans_that_end_early, what_was_shown_is_one) {
  table& t = make("things");
  const auto refused = [&](way w, finish how, std::size_t count,
                           const std::function<void(const std::set<std::int64_t>&)>& meanwhile) {
    const status s = ends_after(t, w, how, count, meanwhile);
    EXPECT_EQ(s, outcome::conflict) << "way " << static_cast<int>(w) << ", finish "
                                    << static_cast<int>(how) << ", rows " << count;
  };
  for (const way w : ways) {
    for (const finish how : finishes) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{5}}) {
        refused(w, how, count,
                [&](const auto& shown) { EXPECT_TRUE(set_v(t, *shown.begin(), *shown.begin())); });
        refused(w, how, count, [&](const auto& shown) {
          EXPECT_TRUE(set_v(t, *shown.rbegin(), *shown.rbegin()));
        });
      }
      if (w == way::table) continue;  // its rows are in no order
      std::int64_t made = 0;
      refused(w, how, 5, [&](const auto& shown) {
        made = down(w) ? *shown.begin() + 1 : *shown.rbegin() - 1;
        EXPECT_TRUE(insert(t, made));
      });
      EXPECT_TRUE(erase(t, made));
    }
  }
}

/// What an inner scan has not shown is not read, either, though it ends by what the outer one's
/// function throws, or by the commit in it.
TEST_P(scans_that_end_early, scans_in_scans) {
  table& outer = make("outer");
  table& inner = make("inner");
  for (const way w : ways) {
    if (w == way::hash) continue;
    for (const finish how : finishes) {
      for (const bool seen : {false, true}) {
        const status s = ends_after(outer, way::up, how, 1, [](const std::set<std::int64_t>&) {});
        EXPECT_TRUE(s);
        transaction tx = serial();
        EXPECT_TRUE(tx.insert(items, {++inserted_, 1, inserted_, nullptr}));
        std::optional<status> committed;
        std::int64_t first = 0;
        const auto change = [&] {
          EXPECT_TRUE(set_v(outer, 5 * gap, 5 * gap));
          const std::int64_t k = seen ? first : down(w) ? gap : last - gap;
          EXPECT_TRUE(set_v(inner, k, k));
        };
        const auto f = [&](const row&) -> bool {
          scan(tx, inner, w, [&](const row& r) -> bool {
            first = r.get(inner.column<std::int64_t>("id"));
            if (how == finish::raise) throw std::domain_error("enough");
            if (how == finish::commit) {
              change();
              committed = tx.commit();
            }
            return false;
          });
          return false;
        };
        if (how == finish::raise) {
          EXPECT_THROW(scan(tx, outer, way::up, f), std::domain_error);
        } else {
          scan(tx, outer, way::up, f);
        }
        if (!committed) {
          change();
          committed = tx.commit();
        }
        EXPECT_EQ(*committed, seen ? outcome::conflict : outcome::ok)
            << "way " << static_cast<int>(w) << ", finish " << static_cast<int>(how);
      }
    }
  }
}

/// A scan that came to its end has read the whole range, whatever an earlier one has left out.
TEST_P(scans_that_end_early, a_whole_one_after_one_that_was_stopped) {
  table& t = make("things");
  for (const way w : {way::table, way::up, way::down, way::index_up, way::index_down}) {
    for (const bool first : {false, true}) {
      transaction tx = serial();
      EXPECT_TRUE(tx.insert(items, {++inserted_, 1, inserted_, nullptr}));
      const auto all = [](const row&) { return true; };
      if (first) scan(tx, t, w, all);
      scan(tx, t, w, [](const row&) { return false; });
      if (!first) scan(tx, t, w, all);
      EXPECT_TRUE(insert(t, last + gap));
      EXPECT_EQ(tx.commit(), outcome::conflict) << "way " << static_cast<int>(w);
      EXPECT_TRUE(erase(t, last + gap));
    }
  }
}

/// A query that has given no answer has told nothing, but for what its condition was asked about.
TEST_P(scans_that_end_early, queries_without_an_answer) {
  table& t = make("things");
  const auto v = t.column<std::int64_t>("v");
  const auto commits = [&](std::int64_t changed, const std::function<void(const query&)>& ask) {
    transaction tx = serial();
    EXPECT_TRUE(tx.insert(items, {++inserted_, 1, inserted_, nullptr}));
    ask(tx.query(t));
    EXPECT_TRUE(set_v(t, changed, changed));
    return tx.commit();
  };
  const auto stopped = [](query q) {
    std::stop_source never;
    never.request_stop();
    EXPECT_EQ(q.aggregate(count()).run({.stop = never.get_token()}).code(), outcome::stopped);
  };
  EXPECT_TRUE(commits(0, stopped));
  const auto raised = [&](query q) {
    q.where(v, [](std::int64_t x) -> bool { throw std::domain_error(std::to_string(x)); });
    EXPECT_THROW(static_cast<void>(q.aggregate(count()).run({.threads = 1, .morsel = 8})),
                 std::domain_error);
  };
  EXPECT_TRUE(commits(last, raised));
  EXPECT_EQ(commits(0, raised), outcome::conflict);
  const auto answered = [](query q) { EXPECT_TRUE(q.aggregate(count()).run()); };
  EXPECT_EQ(commits(last, answered), outcome::conflict);
}

/// The function ends the transaction, and then everything goes that the scan went through; another
/// transaction has the memory that the first one worked with.
TEST_P(scans_that_end_early, what_is_scanned_goes_when_the_transaction_has_ended) {
  int number = 0;
  for (const way w : ways) {
    for (const int how : {0, 1, 2, 3}) {
      for (const bool index_alone : {false, true}) {
        if (index_alone && (w == way::table || w == way::up || w == way::down)) continue;
        table& t = make("t" + std::to_string(++number));
        transaction tx = serial();
        int shown = 0;
        scan(tx, t, w, [&](const row& r) {
          if (++shown < 3) return true;
          const std::int64_t k = r.get(t.column<std::int64_t>("id"));
          if (how == 0) {
            tx.rollback();
          } else if (how == 1) {
            EXPECT_TRUE(tx.update(t, {k}, {{"v", 3}}));
            EXPECT_TRUE(tx.commit());
          } else if (how == 2) {
            EXPECT_TRUE(tx.commit()) << "it has changed nothing";
          } else {
            transaction other = base.begin();
            EXPECT_TRUE(other.update(t, {k}, {{"v", 4}}));
            EXPECT_EQ(tx.update(t, {k}, {{"v", 3}}), outcome::conflict);
          }
          EXPECT_TRUE(index_alone ? base.drop_index(t, w == way::hash ? "by_group" : "by_v")
                                  : base.drop_table(t));
          base.collect();
          transaction next = base.begin();
          for (int i = 0; i < 50; ++i) {
            ++inserted_;
            EXPECT_TRUE(next.insert(items, {inserted_, 1, inserted_, "a long text of it"}));
          }
          EXPECT_TRUE(next.commit());
          return true;
        });
        EXPECT_EQ(shown, 3) << "way " << static_cast<int>(w) << ", end " << how;
        EXPECT_FALSE(tx.state());
        if (index_alone) {
          EXPECT_TRUE(base.drop_table(t));
        }
      }
    }
  }
}

/// Others that begin and end in the function are others: the scan goes on at its snapshot.
TEST_P(scans_that_end_early, others_that_the_function_begins) {
  table& t = make("things");
  for (const way w : ways) {
    transaction tx = serial();
    std::int64_t sum = 0;
    int shown = 0;
    scan(tx, t, w, [&](const row& r) {
      const std::int64_t k = r.get(t.column<std::int64_t>("id"));
      if (++shown == 3) {
        // Rows that are still to come, and such as were shown.
        EXPECT_TRUE(base.transact([&](transaction& other) -> status {
          for (std::int64_t i = 0; i < rows; ++i) {
            if (const status s = other.update(t, {i * gap}, {{"v", i * gap}}); !s) return s;
          }
          return outcome::ok;
        }));
        EXPECT_TRUE(insert(t, last + gap));
        EXPECT_TRUE(erase(t, last + gap));
      }
      sum += r.get(t.column<std::int64_t>("v"));
      EXPECT_EQ(r.get(t.column<std::int64_t>("v")), k);
      return true;
    });
    EXPECT_EQ(shown, rows);
    EXPECT_EQ(sum, gap * rows * (rows - 1) / 2);
    EXPECT_TRUE(tx.insert(items, {++inserted_, 1, inserted_, nullptr}));
    EXPECT_EQ(tx.commit(), outcome::conflict) << "what it has read was changed since";
  }
}

/// transact() cannot try again what has ended by itself, and says so.
TEST_P(scans_that_end_early, functions_of_transact_that_end_the_transaction) {
  int calls = 0;
  EXPECT_EQ(base.transact([&](transaction& tx) {
    ++calls;
    EXPECT_TRUE(tx.insert(items, {1, 1, 1, nullptr}));
    EXPECT_TRUE(tx.commit());
  }),
            outcome::ended);
  EXPECT_EQ(a_now(1), 1) << "it did commit";
  EXPECT_EQ(base.transact([&](transaction& tx) {
    ++calls;
    EXPECT_TRUE(tx.insert(items, {2, 2, 2, nullptr}));
    tx.rollback();
  }),
            outcome::ended);
  EXPECT_EQ(a_now(2), -1);
  EXPECT_EQ(calls, 2);
}

}  // namespace
