// SPDX-License-Identifier: Apache-2.0
// Scans in which the program changes what it scans: each shows what was there when it began, each
// row once, and ends.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "db/storages.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using spolia::test::over_storages;

constexpr std::int64_t rows = 150;  // more than what an index copies at a time

/// Every way to go through all rows of the table, and one more for the rows of one key.
enum class way : std::uint8_t { table, up, down, index_up, index_down, hash };
constexpr way ways[] = {way::table, way::up, way::down, way::index_up, way::index_down, way::hash};

/// What a scan has shown: keys and values in their order.
using shown = std::vector<std::pair<std::int64_t, std::int64_t>>;

class scans_that_change : public over_storages {
 protected:
  scans_that_change()
      : things(base.create_table(
            {.name = "things",
             .columns = {{"id", int64, primary_key},
                         {"v", int64},
                         {"group", int64},
                         {"note", text(), nullable}},
             .primary = index_kind::ordered,
             .indexes = {{"by_v", {"v"}},
                         {.name = "by_group", .columns = {"group"}, .kind = index_kind::hash}}})),
        key(things.column<std::int64_t>("id")),
        v(things.column<std::int64_t>("v")),
        group(things.column<std::int64_t>("group")) {}

  void fill(std::int64_t count = rows) {
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      for (std::int64_t i = 0; i < count; ++i) {
        if (const status s = tx.insert(things, {i, 1000 + i, 7, "n"}); !s) return s;
      }
      return outcome::ok;
    }));
  }
  void scan(const reader& at, way w, const std::function<bool(const row&)>& f) const {
    switch (w) {
      case way::table:
        return at.for_each(things, f);
      case way::up:
        return at.scan(things, {}, {}, f);
      case way::down:
        return at.scan_down(things, {}, {}, f);
      case way::index_up:
        return at.scan(things.index("by_v"), {}, {}, f);
      case way::index_down:
        return at.scan_down(things.index("by_v"), {}, {}, f);
      case way::hash:
        return at.scan(things.index("by_group"), {7}, {7}, f);
    }
  }
  shown all(const reader& at, way w) const {
    shown found;
    scan(at, w, [&](const row& r) {
      found.emplace_back(r.get(key), r.get(v));
      return true;
    });
    return sorted(std::move(found));
  }
  static shown sorted(shown s) {
    std::sort(s.begin(), s.end());
    return s;
  }
  static void was_there(const shown& found, const std::map<std::int64_t, std::int64_t>& begun,
                        bool whole, way w) {
    for (const auto& [x, y] : found) {
      ASSERT_EQ(begun.count(x), 1U) << "a row that was not there, way " << static_cast<int>(w);
      ASSERT_EQ(begun.at(x), y) << "way " << static_cast<int>(w);
    }
    ASSERT_EQ(std::adjacent_find(found.begin(), found.end()), found.end()) << "a row twice";
    if (whole) {
      ASSERT_EQ(found.size(), begun.size()) << "way " << static_cast<int>(w);
    }
  }
  /// Scans, calls f for each row, and compares what was shown with what was there before.
  void shows_what_was_there(transaction& tx, way w, const std::function<void(const row&)>& f) {
    const shown before = all(tx, w);
    shown found;
    scan(tx, w, [&](const row& r) {
      found.emplace_back(r.get(key), r.get(v));
      f(r);
      EXPECT_EQ(r.get(v), found.back().second) << "the row that is shown changes";
      return found.size() <= 4 * before.size() + 10;  // a test that does not end tells nothing
    });
    EXPECT_EQ(sorted(found), before) << "way " << static_cast<int>(w);
  }

  table& things;
  column<std::int64_t> key;
  column<std::int64_t> v;
  column<std::int64_t> group;
};
SPOLIA_OVER_STORAGES(scans_that_change);

/// Each row gets its raise once, though the index over what is raised is scanned.
TEST_P(scans_that_change, values_of_the_index_that_is_scanned) {
  fill();
  for (const way w : ways) {
    transaction tx = base.begin();
    std::map<std::int64_t, int> raised;
    shows_what_was_there(tx, w, [&](const row& r) {
      ++raised[r.get(key)];
      auto e = tx.edit(things, {r.get(key)});
      ASSERT_TRUE(e);
      ASSERT_TRUE(e->set(v, r.get(v) + 100));
      EXPECT_EQ(tx.find(things, {r.get(key)})->get(v), r.get(v) + 100) << "find() sees the change";
    });
    EXPECT_EQ(raised.size(), static_cast<std::size_t>(rows));
    EXPECT_TRUE(std::all_of(raised.begin(), raised.end(), [](auto& x) { return x.second == 1; }));
    const shown after = all(tx, way::up);
    for (const auto& [k, x] : after) EXPECT_EQ(x, 1100 + k);
    tx.rollback();
  }
}

/// What the transaction had changed before is what a scan shows of it.
TEST_P(scans_that_change, rows_that_were_changed_before) {
  fill();
  for (const way w : ways) {
    transaction tx = base.begin();
    for (std::int64_t i = 0; i < rows; i += 2) {
      ASSERT_TRUE(tx.update(things, {i}, {{"v", 5000 + i}}));
    }
    ASSERT_TRUE(tx.insert(things, {rows + 1, 1, 7, nullptr}));
    ASSERT_TRUE(tx.erase(things, {3}));
    shows_what_was_there(tx, w, [&](const row& r) {
      const std::int64_t other = (r.get(key) * 7 + 11) % rows;  // before and after it in the scan
      static_cast<void>(tx.update(things, {other}, {{"v", r.get(v) + 1}, {"note", "changed"}}));
      static_cast<void>(tx.update(things, {r.get(key)}, {{"v", r.get(v) + 100}}));
    });
    EXPECT_EQ(tx.find(things, {3}).why(), outcome::not_found);
    EXPECT_TRUE(tx.commit());
    ASSERT_TRUE(base.transact([&](transaction& reset) -> status {
      for (std::int64_t i = 0; i < rows; ++i) {
        static_cast<void>(reset.erase(things, {i}));
        if (const status s = reset.insert(things, {i, 1000 + i, 7, "n"}); !s) return s;
      }
      return reset.erase(things, {rows + 1});
    }));
  }
}

/// Rows that the function inserts lie after the one that is shown, and it would come to them.
TEST_P(scans_that_change, insertions) {
  for (const way w : ways) {
    fill();
    transaction tx = base.begin();
    shows_what_was_there(tx, w, [&](const row& r) {
      const std::int64_t k = r.get(key);
      ASSERT_TRUE(tx.insert(things, {k + 1000, r.get(v) + 1000, 7, "copy"}));
      ASSERT_TRUE(tx.insert(things, {k - 1000, r.get(v) - 1000, 7, "copy"}));
    });
    EXPECT_EQ(all(tx, w).size(), static_cast<std::size_t>(3 * rows));
    tx.rollback();
    ASSERT_TRUE(base.transact([&](transaction& reset) -> status {
      for (std::int64_t i = 0; i < rows; ++i) {
        if (const status s = reset.erase(things, {i}); !s) return s;
      }
      return outcome::ok;
    }));
    base.collect();
  }
}

/// All rows go while the first is shown, and some come again.
TEST_P(scans_that_change, erasures_and_insertions_in_their_places) {
  fill();
  for (const way w : ways) {
    transaction tx = base.begin();
    ASSERT_TRUE(tx.update(things, {10}, {{"v", 4}}));
    bool first = true;
    shows_what_was_there(tx, w, [&](const row&) {
      if (!std::exchange(first, false)) return;
      for (std::int64_t i = 0; i < rows; ++i) {
        ASSERT_TRUE(tx.erase(things, {i}));
        if (i % 3 == 0) {
          ASSERT_TRUE(tx.insert(things, {i, 9000 + i, 7, "again"}));
        }
      }
    });
    EXPECT_EQ(all(tx, w).size(), static_cast<std::size_t>(rows / 3));
    tx.rollback();
  }
}

/// A scan in the function of another one sees what was changed until then, and each its own moment.
TEST_P(scans_that_change, scans_in_scans) {
  fill(40);
  for (const way outer : ways) {
    for (const way inner : ways) {
      transaction tx = base.begin();
      ASSERT_TRUE(tx.update(things, {5}, {{"v", 1}}));
      std::int64_t round = 0;
      std::int64_t fresh = 2000;
      shows_what_was_there(tx, outer, [&](const row& r) {
        if (++round > 2) return;
        ASSERT_TRUE(tx.update(things, {r.get(key)}, {{"v", 100 * round}}));
        shows_what_was_there(tx, inner, [&](const row& s) {
          ASSERT_TRUE(tx.update(things, {s.get(key)}, {{"v", s.get(v) + 1}}));
          ASSERT_TRUE(tx.insert(things, {++fresh, s.get(v), 7, "new"}));
        });
        ASSERT_TRUE(tx.update(things, {20}, {{"v", -1}}));
      });
      tx.rollback();
    }
  }
}

/// What is taken back inside is a change as any other, for the scan; and really taken back.
TEST_P(scans_that_change, savepoints_from_inside_and_from_before) {
  fill(60);
  for (const way w : ways) {
    for (const bool before : {false, true}) {
      transaction tx = base.begin();
      ASSERT_TRUE(tx.update(things, {1}, {{"v", 2}}));
      savepoint here = tx.savepoint();
      for (std::int64_t i = 0; i < 60; i += 3) {
        ASSERT_TRUE(tx.update(things, {i}, {{"v", 3000 + i}}));
      }
      ASSERT_TRUE(tx.insert(things, {77, 77, 7, nullptr}));
      ASSERT_TRUE(tx.erase(things, {50}));
      int n = 0;
      shows_what_was_there(tx, w, [&](const row& r) {
        ++n;
        if (!before && n % 5 == 1) here = tx.savepoint();
        ASSERT_TRUE(tx.update(things, {r.get(key)}, {{"v", 5000 + n}}) || before);
        static_cast<void>(tx.update(things, {59 - n % 60}, {{"v", 6000 + n}}));
        static_cast<void>(tx.insert(things, {9000 + n, 1, 7, nullptr}));
        if (n % 5 == 0) {
          ASSERT_TRUE(tx.rollback_to(here));
        }
      });
      if (before) {
        ASSERT_TRUE(tx.rollback_to(here));
        const shown now = all(tx, way::up);
        ASSERT_EQ(now.size(), 60U);
        for (const auto& [k, x] : now) EXPECT_EQ(x, k == 1 ? 2 : 1000 + k);
      }
      EXPECT_TRUE(tx.commit());
      ASSERT_TRUE(base.transact([&](transaction& reset) -> status {
        std::vector<std::int64_t> keys;
        reset.for_each(things, [&](const row& r) { keys.push_back(r.get(key)); });
        for (const std::int64_t k : keys) {
          if (const status s = reset.erase(things, {k}); !s) return s;
        }
        for (std::int64_t i = 0; i < 60; ++i) {
          if (const status s = reset.insert(things, {i, 1000 + i, 7, "n"}); !s) return s;
        }
        return outcome::ok;
      }));
    }
  }
}

/// Stopped, left by an exception, or together with the transaction: nothing of it is left.
TEST_P(scans_that_change, scans_that_end_early) {
  fill(50);
  for (const way w : ways) {
    transaction tx = base.begin();
    int n = 0;
    scan(tx, w, [&](const row& r) {
      EXPECT_TRUE(tx.update(things, {r.get(key)}, {{"v", 1}}));
      return ++n < 10;
    });
    EXPECT_EQ(n, 10);
    EXPECT_THROW(scan(tx, w,
                      [&](const row& r) -> bool {
                        EXPECT_TRUE(tx.update(things, {r.get(key)}, {{"v", 2}}));
                        throw std::domain_error("enough");
                      }),
                 std::domain_error);
    shows_what_was_there(tx, w, [](const row&) {});
    const savepoint here = tx.savepoint();
    n = 0;
    scan(tx, w, [&](const row& r) {
      EXPECT_TRUE(tx.update(things, {r.get(key)}, {{"v", 3}}));
      if (++n == 5) {
        EXPECT_TRUE(tx.rollback_to(here));
      }
      if (n == 8) tx.rollback();
      // Another transaction of this thread may have what the first one worked with.
      if (n == 8) {
        EXPECT_TRUE(base.begin().insert(things, {500, 1, 7, nullptr}));
      }
      return true;
    });
    EXPECT_EQ(n, 8);
    EXPECT_EQ(tx.state(), outcome::ended);
  }
  transaction tx = base.begin();
  int n = 0;
  tx.for_each(things, [&](const row& r) {
    ++n;
    EXPECT_TRUE(tx.update(things, {r.get(key)}, {{"v", 4}}));
    EXPECT_TRUE(tx.commit());
  });
  EXPECT_EQ(n, 1);
}

/// Whatever is done in a scan, the transaction is afterwards what a map says.
TEST_P(scans_that_change, at_random) {
  fill(25);
  std::mt19937 random(static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed()) + 1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < spolia::test::tries(24); ++round) {
    transaction tx =
        base.begin({.isolation = round % 2 == 0 ? isolation::snapshot : isolation::serializable});
    using map = std::map<std::int64_t, std::int64_t>;
    map now;
    for (const auto& [k, x] : all(tx, way::up)) now[k] = x;
    std::vector<std::pair<savepoint, map>> marks;
    int budget = 400;
    const std::function<void(int)> act = [&](int depth) {
      if (--budget < 0) return;
      const std::int64_t k = below(40);
      switch (below(depth < 3 ? 8 : 7)) {
        case 0:
        case 1: {
          const status s = tx.update(things, {k}, {{"v", budget}});
          ASSERT_EQ(bool(s), now.count(k) == 1);
          if (s) now[k] = budget;
          return;
        }
        case 2:
          ASSERT_EQ(bool(tx.erase(things, {k})), now.erase(k) == 1);
          return;
        case 3:
        case 4:
          if (tx.insert(things, {k, budget, 7, nullptr})) {
            ASSERT_TRUE(now.emplace(k, budget).second);
          } else {
            ASSERT_EQ(now.count(k), 1U);
          }
          return;
        case 5:
          marks.emplace_back(tx.savepoint(), now);
          return;
        case 6:
          if (marks.empty()) return;
          marks.resize(static_cast<std::size_t>(below(static_cast<int>(marks.size()))) + 1);
          ASSERT_TRUE(tx.rollback_to(marks.back().first));
          now = marks.back().second;
          return;
        default:
          break;
      }
      const map begun = now;
      shown found;
      const way w = ways[below(6)];
      const int stop = below(4) == 0 ? below(20) : 1000;
      scan(tx, w, [&](const row& r) {
        found.emplace_back(r.get(key), r.get(v));
        for (int i = below(3); i > 0; --i) act(depth + 1);
        return static_cast<int>(found.size()) < stop;
      });
      ASSERT_NO_FATAL_FAILURE(was_there(sorted(found), begun, stop == 1000, w));
    };
    while (budget > 0 && !HasFatalFailure()) act(0);
    ASSERT_EQ(all(tx, way::up), shown(now.begin(), now.end()));
    if (round % 3 == 0) {
      ASSERT_TRUE(tx.commit());
      ASSERT_EQ(all(base.snapshot(), way::index_up), shown(now.begin(), now.end()));
    }
  }
}

/// A loop of scans that change rows takes no more for each row and scan than the row's image.
TEST_P(scans_that_change, what_was_kept_for_a_scan_goes_with_it) {
  fill(10);
  transaction tx = base.begin();
  const savepoint here = tx.savepoint();
  int last = 0;
  const auto change = [&](int scans) {
    for (int i = 0; i < scans; ++i) {
      ++last;
      tx.scan(things, {3}, {3},
              [&](const row& r) { EXPECT_TRUE(tx.update(things, {r.get(key)}, {{"v", last}})); });
    }
    return base.readers().at(0).work_bytes;
  };
  const std::uint64_t before = change(50);
  constexpr std::uint64_t image = 100;
  EXPECT_LE(change(2000), before + 2000 * image);
  EXPECT_EQ(tx.find(things, {3})->get(v), last);
  EXPECT_TRUE(tx.rollback_to(here));
  EXPECT_EQ(tx.find(things, {3})->get(v), 1003);
}

/// The condition of a query may be asked by several threads: it changes nothing.
TEST_P(scans_that_change, conditions_of_queries_change_nothing) {
  fill(20);
  transaction tx = base.begin();
  ASSERT_TRUE(tx.update(things, {1}, {{"v", 1}}));
  const auto raise = [&](auto&& change) {
    EXPECT_THROW(static_cast<void>(tx.query(things)
                                       .where(v,
                                              [&](std::int64_t) {
                                                change();
                                                return true;
                                              })
                                       .aggregate(count())
                                       .run({.threads = 1})),
                 std::invalid_argument);
  };
  auto e = tx.edit(things, {1});
  ASSERT_TRUE(e);
  raise([&] { static_cast<void>(tx.insert(things, {100, 1, 7, nullptr})); });
  raise([&] { static_cast<void>(tx.update(things, {2}, {{"v", 5}})); });
  raise([&] { static_cast<void>(e->set(group, 8)); });
  raise([&] { static_cast<void>(e->set(v, 8)); });
  raise([&] { static_cast<void>(tx.erase(things, {1})); });
  raise([&] { static_cast<void>(tx.savepoint()); });
  raise([&] { static_cast<void>(tx.commit()); });
  EXPECT_TRUE(e->set(v, 8));
  const auto counted = tx.query(things).where("v", equal, 8).aggregate(count()).run();
  ASSERT_TRUE(counted);
  EXPECT_EQ(counted->get<std::int64_t>(0, 0), 1);
  // A query in the function of a scan sees what was changed until then.
  tx.scan(things, {5}, {5}, [&](const row&) {
    EXPECT_TRUE(tx.update(things, {6}, {{"v", 8}}));
    const auto two = tx.query(things).where("v", equal, 8).aggregate(count()).run();
    EXPECT_EQ(two->get<std::int64_t>(0, 0), 2);
  });
  EXPECT_TRUE(tx.commit());
}

}  // namespace
