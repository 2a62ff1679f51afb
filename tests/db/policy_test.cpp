// SPDX-License-Identifier: Apache-2.0
// Readers whose time is over, or that the program ends; budgets.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "db/storages.hpp"
#include "support/resident.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace std::chrono_literals;

/// Where a reader holds all that is written while it lives.
options holding_all(options o) {
  o.versions = version_storage::one_shot;
  return o;
}

struct shop {
  explicit shop(const options& o)
      : base(database::open(holding_all(o))),
        t(base.create_table(
            {.name = "t",
             .columns = {{"k", int64, primary_key}, {"v", int64}, {"pad", text(900)}}})) {}

  status put(std::int64_t k) {
    return base.transact([&](transaction& tx) { return tx.insert(t, {k, 0, ""}); });
  }
  status bump(std::int64_t k) {
    return base.transact([&](transaction& tx) { return tx.update(t, {k}, {{"v", 1}}); });
  }

  database base;
  table& t;
};

class budgets : public testing::TestWithParam<test::storage_kind> {};
SPOLIA_OVER_STORAGES(budgets);

TEST(policy, a_deadline_ends_a_reader) {
  shop s({});
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(s.put(i));
  const reader patient = s.base.snapshot();
  const reader now = s.base.snapshot({.label = "report", .deadline = 1ms});
  transaction tx = s.base.begin({.deadline = 1ms});
  ASSERT_TRUE(tx.update(s.t, {1}, {{"v", 7}}));
  EXPECT_TRUE(now.find(s.t, {1}));
  std::this_thread::sleep_for(5ms);
  EXPECT_TRUE(now.find(s.t, {1})) << "it is in no commit's way";
  int rows = 0;
  EXPECT_THROW(now.for_each(s.t,
                            [&](const row&) {
                              if (++rows == 2) s.base.collect();
                            }),
               no_result);
  EXPECT_EQ(rows, 2);
  EXPECT_TRUE(now.ended());
  EXPECT_EQ(now.find(s.t, {1}).code(), outcome::ended_by_policy);
  EXPECT_EQ(tx.update(s.t, {1}, {{"v", 8}}), outcome::ended_by_policy);
  EXPECT_EQ(tx.commit(), outcome::ended_by_policy);
  EXPECT_TRUE(s.bump(1)) << "its locks are gone";
  EXPECT_EQ(s.base.readers().size(), 1U);
  EXPECT_TRUE(patient.find(s.t, {1}));
  EXPECT_EQ(s.base.stats().ended_by_policy, 2U);
}

TEST(policy, the_longest_times_never_end) {
  constexpr auto longest = std::chrono::nanoseconds::max();
  options o;
  o.slow_after = longest;
  o.on_slow_reader = [](const slow_reader&) { return slow_reader_action::end; };
  shop s(o);
  ASSERT_TRUE(s.put(1));
  const reader now = s.base.snapshot({.label = "report", .deadline = longest});
  transaction tx = s.base.begin({.deadline = longest});
  ASSERT_TRUE(tx.insert(s.t, {2, 0, ""}));
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(s.bump(1));
  s.base.collect();
  EXPECT_FALSE(now.ended());
  EXPECT_TRUE(now.find(s.t, {1}));
  EXPECT_TRUE(tx.commit());
}

TEST(policy, the_program_says_who_is_ended) {
  slow_reader last;
  bool end = false;
  std::uint64_t asked = 0;
  shop s({.version_budget = 300000, .on_slow_reader = [&](const slow_reader& r) {
            last = r;
            ++asked;
            return end ? slow_reader_action::end : slow_reader_action::leave;
          }});
  ASSERT_TRUE(s.put(1));
  const reader old = s.base.snapshot("old");
  status done;
  for (int i = 0; i < 2000 && done; ++i) done = s.bump(1);
  EXPECT_EQ(done, outcome::limit);
  EXPECT_EQ(asked, 1U);
  EXPECT_EQ(last.label, "old");
  EXPECT_GT(last.behind, 50U);
  EXPECT_GT(last.version_bytes, 100000U);
  EXPECT_TRUE(old.find(s.t, {1}));
  end = true;
  std::this_thread::sleep_for(11ms);
  EXPECT_TRUE(s.bump(1));
  EXPECT_EQ(old.find(s.t, {1}).code(), outcome::ended_by_policy);
  EXPECT_NE(old.find(s.t, {1}).why().reason().find("options::on_slow_reader has said so"),
            std::string_view::npos);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(s.bump(1));
  EXPECT_EQ(asked, 2U) << "no other reader is in the way";
}

/// Not by each commit that is refused, nor by each insertion.
TEST(policy, the_program_is_asked_every_10_ms_at_most) {
  for (const bool versions : {true, false}) {
    int asked = 0;
    options o;
    (versions ? o.version_budget : o.budget) = 1U << 20U;
    o.on_slow_reader = [&](const slow_reader&) {
      ++asked;
      return slow_reader_action::leave;
    };
    shop s(o);
    ASSERT_TRUE(s.put(0));
    const reader old = s.base.snapshot("old");
    status done;
    std::int64_t k = 0;
    const auto more = [&] { return versions ? s.bump(0) : s.put(++k); };
    while (done) done = more();
    EXPECT_EQ(done, outcome::limit);
    asked = 0;
    int refused = 0;
    const auto start = std::chrono::steady_clock::now();
    // So many, too: of the time, the machine may have taken most.
    while (std::chrono::steady_clock::now() - start < 60ms || refused < 1000) {
      refused += more() ? 0 : 1;
    }
    const auto took = std::chrono::steady_clock::now() - start;
    EXPECT_GT(refused, 2 * asked) << versions;
    EXPECT_GE(asked, 1) << versions;
    EXPECT_LE(asked, took / 10ms + 1) << versions;
  }
}

TEST(policy, the_program_may_end_its_reader_itself) {
  std::unique_ptr<reader> old;
  shop s({.version_budget = 300000, .on_slow_reader = [&](const slow_reader&) {
            old.reset();
            return slow_reader_action::leave;
          }});
  ASSERT_TRUE(s.put(1));
  old.reset(new reader(s.base.snapshot("old")));
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(s.bump(1)) << i;
  EXPECT_EQ(old, nullptr) << "it was in the way";
}

TEST(policy, slow_readers_are_asked_about_now_and_then) {
  std::uint64_t asked = 0;
  shop s({.on_slow_reader =
              [&](const slow_reader& r) {
                EXPECT_GE(r.age, 1ms);
                ++asked;
                return slow_reader_action::leave;
              },
          .slow_after = 1ms});
  ASSERT_TRUE(s.put(1));
  const reader old = s.base.snapshot("old");
  ASSERT_TRUE(s.bump(1));
  std::this_thread::sleep_for(3ms);
  ASSERT_TRUE(s.bump(1));
  EXPECT_GE(asked, 1U);
  EXPECT_TRUE(old.find(s.t, {1}));
}

/// Programs that mostly read have slow readers, too.
TEST(policy, commits_that_change_nothing_ask_about_slow_readers) {
  bool throws = false;
  int asked = 0;
  shop s({.on_slow_reader =
              [&](const slow_reader& r) {
                EXPECT_EQ(r.label, "old");
                ++asked;
                if (throws) throw std::range_error("mine");
                return slow_reader_action::leave;
              },
          .slow_after = 1ns});
  ASSERT_TRUE(s.put(1));
  const reader old = s.base.snapshot("old");
  transaction looks = s.base.begin();
  EXPECT_TRUE(looks.find(s.t, {1}));
  EXPECT_TRUE(looks.commit());
  EXPECT_EQ(asked, 1);
  throws = true;
  transaction last = s.base.begin();
  EXPECT_THROW((void)last.commit(), std::range_error);
  EXPECT_EQ(last.commit(), outcome::ended);
  EXPECT_EQ(s.base.readers().size(), 1U);
}

TEST(policy, all_of_it_has_a_budget) {
  shop s({.budget = 2000000});
  status done;
  std::int64_t rows = 0;
  for (; rows < 10000 && done; ++rows) done = s.put(rows);
  EXPECT_EQ(done, outcome::limit);
  --rows;
  EXPECT_GT(rows, 500);
  const statistics used = s.base.stats();
  EXPECT_LE(used.table_bytes, 2000000U);
  EXPECT_GE(used.limits, 1U);
  EXPECT_TRUE(s.bump(1));
  transaction tx = s.base.begin();
  EXPECT_EQ(tx.insert(s.t, {100000, 0, ""}), outcome::limit);
  EXPECT_TRUE(tx.erase(s.t, {1})) << "the transaction goes on";
  EXPECT_TRUE(tx.commit());
  s.base.collect();
  EXPECT_TRUE(s.put(100000)) << "there is room again";
  EXPECT_EQ(s.put(100001), outcome::limit);
}

/// The budget is used up because of a report: rows can be deleted, which nothing else gets the room
/// of, and all goes on when the report has ended.
TEST_P(budgets, deletions_have_a_reserve) {
  constexpr std::uint64_t budget = 400000;
  constexpr std::uint64_t reserve = 512U << 10U;
  constexpr std::int64_t rows = 1500;
  shop s(
      {.versions = GetParam(), .changes_only = GetParam().changes_only, .version_budget = budget});
  for (std::int64_t i = 0; i < rows; ++i) ASSERT_TRUE(s.put(i));
  const auto change = [&](transaction& tx, std::int64_t k) {
    return tx.update(s.t, {k}, {{"pad", "x"}});
  };
  const auto bump = [&](std::int64_t k) {
    return s.base.transact([&](transaction& tx) { return change(tx, k); });
  };
  const auto drop = [&](std::int64_t k) {
    return s.base.transact([&](transaction& tx) -> status {
      if (const status first = change(tx, k); !first) return first;
      const savepoint before = tx.savepoint();
      if (const status back = change(tx, rows - 1); !back) return back;
      if (const status back = tx.rollback_to(before); !back) return back;
      return tx.erase(s.t, {k});
    });
  };
  {
    const reader report = s.base.snapshot("report");
    status done;
    for (std::int64_t i = 0; i < rows && done; ++i) done = bump(i);
    ASSERT_EQ(done, outcome::limit) << "the report needs a version of each";
    std::int64_t dropped = 0;
    done = outcome::ok;
    for (; dropped < rows && done; ++dropped) {
      done = drop(dropped);
      ASSERT_EQ(bump(rows - 1), outcome::limit) << dropped;
    }
    EXPECT_EQ(done, outcome::limit) << "the reserve is used up";
    EXPECT_GT(dropped, 200) << "each is a version, a row that waits, and what names it";
    // Consolidation counts versions that wait for readers that may be walking over them, too.
    EXPECT_LE(s.base.stats().versions.bytes, budget + reserve + budget);
    EXPECT_TRUE(s.put(rows));
    std::int64_t seen = 0;
    report.for_each(s.t, [&](const row&) { ++seen; });
    EXPECT_EQ(seen, rows);
  }
  if (GetParam() == version_storage::none) return;
  EXPECT_TRUE(bump(rows - 1)) << "the report has ended";
  EXPECT_LE(s.base.stats().versions.bytes, budget);
}

/// A transaction that does anything besides deleting gets nothing of the reserve.
TEST_P(budgets, the_reserve_is_for_deletions_only) {
  shop s(
      {.versions = GetParam(), .changes_only = GetParam().changes_only, .version_budget = 400000});
  for (std::int64_t i = 0; i < 1000; ++i) ASSERT_TRUE(s.put(i));
  const reader report = s.base.snapshot("report");
  status done;
  std::int64_t last = 0;
  for (; last < 1000 && done; ++last) {
    done = s.base.transact([&](transaction& tx) -> status {
      if (const status first = tx.erase(s.t, {last}); !first) return first;
      return tx.insert(s.t, {1000 + last, 0, ""});
    });
  }
  EXPECT_EQ(done, outcome::limit);
  EXPECT_LE(s.base.stats().versions.bytes, 400000U);
  EXPECT_TRUE(report.find(s.t, {--last}));
  const auto drop = [&] {
    return s.base.transact([&](transaction& tx) { return tx.erase(s.t, {last}); });
  };
  EXPECT_TRUE(drop());
}

/// And not a whole segment's when it begins, which would keep one insertion waiting for all of it.
TEST(policy, memory_is_taken_as_rows_come) {
  shop s({});
  std::uint64_t before = s.base.stats().table_bytes;
  std::uint64_t most = 0;
  for (std::int64_t rows = 0; rows < 20000; ++rows) {
    ASSERT_TRUE(s.put(rows));
    const std::uint64_t now = s.base.stats().table_bytes;
    most = std::max(most, now - before);
    before = now;
  }
  EXPECT_GT(most, 0U);
  EXPECT_LE(most, 65536U);
}

/// Readers see one moment, or are told that they were ended. Writers never wait for them.
TEST(policy, readers_are_ended_beside_writers) {
  shop s({.versions = version_storage::steam});
  constexpr std::int64_t rows = 8;
  for (std::int64_t i = 0; i < rows; ++i) ASSERT_TRUE(s.put(i));
  const auto v = s.t.column<std::int64_t>("v");
  std::atomic<int> ended{0};
  test::run_stress({.threads = 4, .share = 0.4}, [&](test::stress_thread& self) {
    // On a busy machine it takes a while until a writer runs while a reader is there.
    while (self.running() || ended.load(std::memory_order_relaxed) == 0) {
      if (self.index() % 2 == 0) {
        EXPECT_TRUE(s.base.transact([&](transaction& tx) -> status {
          std::int64_t next = -1;
          for (std::int64_t i = 0; i < rows; ++i) {
            auto e = tx.edit(s.t, {i});
            if (!e) return e.why();
            if (next < 0) next = e->get(v) + 1;
            if (const status set = e->set(v, next); !set) return set;
          }
          return outcome::ok;
        }));
        continue;
      }
      const reader now = s.base.snapshot({.deadline = std::chrono::microseconds(20)});
      try {
        std::int64_t seen = -1;
        for (int again = 0; again < 5; ++again) {
          now.for_each(s.t, [&](const row& r) {
            if (seen < 0) seen = r.get(v);
            EXPECT_EQ(r.get(v), seen);
          });
          self.jitter();
        }
      } catch (const no_result& e) {
        EXPECT_EQ(e.code(), outcome::ended_by_policy);
        ended.fetch_add(1, std::memory_order_relaxed);
      }
    }
  });
}

/// A budget for everything, which versions that a reader holds can use up.
struct tight_shop {
  static constexpr std::uint64_t budget = 8U << 20U;
  static constexpr std::int64_t rows = 200;

  explicit tight_shop(options o)
      : base(database::open(holding_all((o.budget = budget, o)))),
        t(base.create_table({.name = "t",
                             .columns = {{"k", int64, primary_key},
                                         {"v", int64},
                                         {"pad", text(900)},
                                         {"words", text()}}})) {
    for (std::int64_t k = 0; k < rows; ++k) EXPECT_TRUE(put(k));
  }
  status put(std::int64_t k) {
    return base.transact([&](transaction& tx) { return tx.insert(t, {k, 0, "", words}); });
  }
  status reword(std::int64_t k) {
    return base.transact([&](transaction& tx) { return tx.update(t, {k}, {{"words", words}}); });
  }
  /// While the reader is there: what is replaced after its end goes.
  void use_up(const reader& held) {
    const auto used = [&] {
      const statistics all = base.stats();
      return all.versions.bytes + all.table_bytes + all.value_bytes;
    };
    // To ask takes longer than to change a row: so not each time, before it is nearly used up.
    constexpr std::int64_t seldom = 16;
    bool nearly = false;
    for (std::int64_t k = 0; !held.ended(); ++k) {
      if (nearly || k % seldom == 0) {
        const std::uint64_t now = used();
        if (now >= budget) return;
        nearly = now + (64U << 10U) >= budget;
      }
      ASSERT_TRUE(base.transact(
          [&](transaction& tx) { return tx.update(t, {k % rows}, {{"v", k}, {"pad", "x"}}); }));
    }
  }

  const std::string words = std::string(500, 'w');
  database base;
  table& t;
};

TEST(policy, a_reader_that_is_overdue_is_ended_for_an_insertion_beyond_the_budget) {
  tight_shop s({});
  std::uint64_t at_first = 0;
  auto deadline = 150ms;
  for (std::int64_t round = 1; round <= (test::sanitized ? 2 : 6);) {
    const reader report = s.base.snapshot({.label = "report", .deadline = deadline});
    s.use_up(report);
    if (report.ended()) {  // by one of these commits: the machine is busy
      deadline *= 2;
      continue;
    }
    if (round == 1) at_first = test::resident_bytes();
    std::this_thread::sleep_for(deadline);
    EXPECT_TRUE(report.find(s.t, {1})) << "it is in no commit's way yet";
    const std::uint64_t before = s.base.stats().ended_by_policy;
    EXPECT_TRUE(round % 2 == 0 ? s.put(1000 + round) : s.reword(1));
    EXPECT_EQ(report.find(s.t, {1}).code(), outcome::ended_by_policy);
    EXPECT_EQ(s.base.stats().ended_by_policy, before + 1);
    for (std::int64_t k = 0; k < 20; ++k) ASSERT_TRUE(s.reword(k)) << "there is room";
    ++round;
  }
  EXPECT_EQ(s.base.stats().limits, 0U);
  // A sanitizer keeps what was freed.
  if (!test::sanitized) {
    EXPECT_LT(test::resident_bytes(), at_first + 2 * tight_shop::budget);
  }
}

TEST(policy, who_is_not_overdue_is_not_ended_for_an_insertion_beyond_the_budget) {
  tight_shop s({});
  const reader patient = s.base.snapshot({.label = "patient", .deadline = 1h});
  const reader plain = s.base.snapshot("plain");
  s.use_up(plain);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(s.reword(1), outcome::limit);
    std::this_thread::sleep_for(15ms);
  }
  EXPECT_TRUE(patient.find(s.t, {1}));
  EXPECT_TRUE(plain.find(s.t, {1}));
  EXPECT_EQ(s.base.stats().ended_by_policy, 0U);
  EXPECT_EQ(s.base.stats().limits, 3U);
}

/// It has a slot.
TEST(policy, a_key_that_is_there_needs_no_room_beyond_the_budget) {
  tight_shop s({});
  const reader old = s.base.snapshot("old");
  s.use_up(old);
  transaction tx = s.base.begin();
  EXPECT_EQ(tx.insert(s.t, {1, 0, "", ""}), outcome::duplicate_key);
  EXPECT_TRUE(tx.erase(s.t, {1}));
  EXPECT_TRUE(tx.insert(s.t, {1, 7, "", ""}));
  EXPECT_TRUE(tx.commit());
}

/// It asks, at most every 10 ms, and not about itself; and may be overdue itself.
TEST(policy, an_insertion_beyond_the_budget_asks_the_program) {
  bool end = false;
  int asked = 0;
  transaction* inserts = nullptr;
  table* of = nullptr;
  tight_shop s({.on_slow_reader = [&](const slow_reader& r) {
    EXPECT_EQ(r.label, "old");
    if (inserts == nullptr)
      return slow_reader_action::leave;  // the commits that use it up ask, too
    EXPECT_THROW(static_cast<void>(inserts->erase(*of, {1})), std::invalid_argument);
    ++asked;
    return end ? slow_reader_action::end : slow_reader_action::leave;
  }});
  of = &s.t;
  const reader old = s.base.snapshot("old");
  s.use_up(old);
  const auto begun = std::chrono::steady_clock::now();
  transaction tx = s.base.begin({.label = "mine", .deadline = 1ms});
  inserts = &tx;
  std::this_thread::sleep_for(5ms);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(tx.update(s.t, {1}, {{"words", s.words}}), outcome::limit);
  }
  const auto took = std::chrono::steady_clock::now() - begun;
  EXPECT_GE(asked, 1);
  EXPECT_LE(asked, took / 10ms + 1);
  EXPECT_FALSE(old.ended());
  end = true;
  std::this_thread::sleep_for(15ms);
  EXPECT_TRUE(tx.update(s.t, {1}, {{"words", s.words}}));
  EXPECT_TRUE(tx.insert(s.t, {1000, 0, "", s.words}));
  EXPECT_EQ(old.find(s.t, {1}).code(), outcome::ended_by_policy);
  EXPECT_TRUE(tx.commit()) << "it has not ended itself";
}

/// What the program throws comes out of the change; the transaction goes on.
TEST(policy, an_insertion_beyond_the_budget_passes_on_what_the_program_throws) {
  bool used_up = false;
  bool throws = true;
  tight_shop s({.on_slow_reader = [&](const slow_reader&) {
    if (!used_up) return slow_reader_action::leave;  // the commits that use it up ask, too
    if (throws) throw std::range_error("mine");
    return slow_reader_action::end;
  }});
  const reader old = s.base.snapshot("old");
  s.use_up(old);
  used_up = true;
  transaction tx = s.base.begin();
  ASSERT_TRUE(tx.update(s.t, {2}, {{"v", 5}}));
  EXPECT_THROW(static_cast<void>(tx.update(s.t, {1}, {{"words", s.words}})), std::range_error);
  throws = false;
  std::this_thread::sleep_for(15ms);
  EXPECT_TRUE(tx.update(s.t, {1}, {{"words", s.words}}));
  EXPECT_TRUE(tx.commit());
}

/// The time slow_after is for commits: however short it is, insertions ask at most every 10 ms.
TEST(policy, insertions_beyond_the_budget_ask_no_more_often_with_a_short_time) {
  int asked = 0;
  tight_shop s({.on_slow_reader =
                    [&](const slow_reader&) {
                      ++asked;
                      return slow_reader_action::leave;
                    },
                .slow_after = 1ns});
  const reader old = s.base.snapshot("old");
  s.use_up(old);
  transaction tx = s.base.begin();
  asked = 0;
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(tx.update(s.t, {1}, {{"words", s.words}}), outcome::limit);
  }
  EXPECT_LE(asked, (std::chrono::steady_clock::now() - begun) / 10ms + 1);
}

/// Also where the program is not asked, and no reader is ended.
TEST(policy, what_a_reader_has_held_makes_room_for_an_insertion_when_it_has_ended) {
  tight_shop s({});
  {
    const reader old = s.base.snapshot("old");
    s.use_up(old);
  }
  transaction tx = s.base.begin();
  EXPECT_TRUE(tx.update(s.t, {1}, {{"words", s.words}}));
  EXPECT_TRUE(tx.commit());
}

/// Insertions look for memory at most every 10 ms. A reader that is overdue gets no such delay.
TEST(policy, a_reader_that_is_overdue_is_ended_by_the_first_insertion) {
  tight_shop s({});
  auto deadline = 100ms;
  for (int round = 0; round < 3;) {
    const reader report = s.base.snapshot({.label = "report", .deadline = deadline});
    const auto begun = std::chrono::steady_clock::now();
    s.use_up(report);
    if (report.ended()) {
      deadline *= 2;
      continue;
    }
    status done;
    bool overdue = false;
    do {
      overdue = std::chrono::steady_clock::now() - begun > deadline + 1ms;
      done = s.reword(1);
    } while (!overdue && !done);
    EXPECT_TRUE(done);
    ++round;
  }
}

TEST(policy, what_a_change_that_is_refused_has_made_of_its_values_goes) {
  database base = database::open({.budget = 4U << 20U});
  table& t = base.create_table(
      {.name = "t", .columns = {{"k", int64, primary_key}, {"a", text()}, {"b", text()}}});
  const std::string fits(300U << 10U, 'f');
  const std::string too_long(5U << 20U, 'l');
  transaction tx = base.begin();
  ASSERT_TRUE(tx.insert(t, {1, "", ""}));
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(tx.update(t, {1}, {{"a", fits}, {"b", too_long}}), outcome::limit);
  }
  EXPECT_TRUE(tx.update(t, {1}, {{"a", fits}}));
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(tx.insert(t, {2, fits, too_long}), outcome::limit);
  }
  EXPECT_TRUE(tx.insert(t, {2, fits, ""}));
  EXPECT_TRUE(tx.commit());
}

/// The first try has made some of them, and they are gone.
TEST(policy, values_are_those_that_were_given_where_the_second_try_has_room) {
  database base = database::open({.budget = 4U << 20U});
  table& t = base.create_table(
      {.name = "t", .columns = {{"k", int64, primary_key}, {"a", text()}, {"b", text()}}});
  const std::string large(1U << 20U, 'l');
  const std::string fits(300U << 10U, 'f');
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {1, "", ""}); }));
  std::vector<std::unique_ptr<const reader>> held;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.update(t, {1}, {{"b", large}}); }));
    held.emplace_back(new reader(base.snapshot()));
  }
  const auto change = [&](transaction& tx) {
    return tx.update(t, {1}, {{"a", fits}, {"b", large}});
  };
  const auto insert = [&](transaction& tx) { return tx.insert(t, {2, fits, large}); };
  EXPECT_EQ(base.transact(change), outcome::limit);
  EXPECT_EQ(base.transact(insert), outcome::limit);
  held.clear();
  std::this_thread::sleep_for(15ms);  // until it is looked for memory again
  ASSERT_TRUE(base.transact(change));
  const auto has_them = [&](std::int64_t key) {
    const reader now = base.snapshot();
    const auto row = now.find(t, {key});
    EXPECT_EQ(row->get(t.column<std::string_view>("a")), fits);
    EXPECT_EQ(row->get(t.column<std::string_view>("b")), large);
  };
  has_them(1);
  std::this_thread::sleep_for(15ms);
  ASSERT_TRUE(base.transact(insert));
  has_them(2);
}

/// It learns that there is no such key.
TEST(policy, an_insertion_that_is_refused_for_want_of_room_has_looked_for_its_key) {
  shop s({.budget = 1U << 20U});
  std::int64_t rows = 0;
  while (s.put(rows)) ++rows;
  std::unique_ptr<const reader> old(new reader(s.base.snapshot("old")));
  for (std::int64_t k = 0; k < 10; ++k) {
    ASSERT_TRUE(s.base.transact([&](transaction& tx) { return tx.erase(s.t, {k}); }));
  }
  transaction tx = s.base.begin({.isolation = isolation::serializable});
  ASSERT_EQ(tx.insert(s.t, {5000, 0, ""}), outcome::limit);
  old.reset();
  s.base.collect();
  ASSERT_TRUE(s.put(5000)) << "there is room again";
  ASSERT_TRUE(tx.update(s.t, {rows - 1}, {{"v", 7}}));
  EXPECT_EQ(tx.commit(), outcome::conflict);
}

/// Though it be the oldest one of all.
/// Rows with an indexed column, which changes of them lead on and on.
struct touched_rows {
  static constexpr std::int64_t count = test::fewer > 1 ? 5000 : 20000;

  explicit touched_rows(const options& o)
      : base(database::open(o)),
        t(base.create_table({.name = "t",
                             .columns = {{"k", int64, primary_key}, {"touched", int64}},
                             .indexes = {{.name = "by_touched", .columns = {"touched"}}}})) {
    for (std::int64_t k = 0; k < count; ++k) {
      EXPECT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {k, k}); }));
    }
  }
  /// What its rows and entries take.
  std::uint64_t bytes() const { return base.stats().table_bytes + base.stats().index_bytes; }
  status touch(std::int64_t n, std::int64_t of) {
    return base.transact(
        [&](transaction& tx) { return tx.update(t, {n % of}, {{"touched", count + n}}); });
  }

  database base;
  table& t;
};

// Versions, and entries and notes that wait, take more than there is, and no insertion is refused.
TEST_P(budgets, what_is_kept_for_readers_beyond_all_is_asked_about) {
  if (spolia::test::no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  options o{.versions = GetParam()};
  o.budget = touched_rows(o).bytes() + (std::uint64_t{1} << 20U);
  std::uint64_t asked = 0;
  o.on_slow_reader = [&](const slow_reader& about) {
    ++asked;
    return about.label == "held" ? slow_reader_action::end : slow_reader_action::leave;
  };
  touched_rows rows(o);
  const reader held = rows.base.snapshot("held");
  for (std::int64_t n = 0; n < 5 * touched_rows::count && asked == 0; ++n) {
    ASSERT_TRUE(rows.touch(n, touched_rows::count));
  }
  EXPECT_EQ(asked, 1U);
  EXPECT_EQ(held.find(rows.t, {1}).code(), outcome::ended_by_policy);
  EXPECT_LE(rows.base.stats().cleaning, 1U) << "but for what that commit has left";
}

// Rows alone use it up: to end a reader would be of no use.
TEST(policy, what_is_not_kept_for_readers_is_not_asked_about) {
  options o{.versions = version_storage::steam_eager};
  o.budget = touched_rows(o).bytes() + (std::uint64_t{64} << 10U);
  std::uint64_t asked = 0;
  o.on_slow_reader = [&](const slow_reader&) {
    ++asked;
    return slow_reader_action::end;
  };
  touched_rows rows(o);
  const reader held = rows.base.snapshot("held");
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t n = 0; std::chrono::steady_clock::now() - start < 100ms; ++n) {
    ASSERT_TRUE(rows.touch(n, 100));
  }
  EXPECT_EQ(asked, 0U);
}

TEST(policy, a_commit_is_not_asked_about_itself) {
  std::string asked;
  shop s({.version_budget = 400000, .on_slow_reader = [&](const slow_reader& r) {
            asked = r.label;
            return slow_reader_action::leave;
          }});
  for (std::int64_t k = 0; k < 1000; ++k) ASSERT_TRUE(s.put(k));
  transaction mine = s.base.begin("mine");
  ASSERT_TRUE(mine.update(s.t, {999}, {{"v", 7}}));
  std::int64_t bumped = 0;
  while (s.bump(bumped)) ++bumped;
  EXPECT_EQ(std::exchange(asked, ""), "mine");
  EXPECT_EQ(mine.commit(), outcome::limit);
  EXPECT_EQ(asked, "");
}

/// A transaction that has waited for its first row begins when it gets that row. How far it is
/// behind counts from there.
TEST(policy, one_that_begins_late_is_not_behind_by_what_came_before) {
  std::atomic<bool> counts{false};
  std::uint64_t behind = 0;
  int asked = 0;
  shop s({.on_slow_reader =
              [&](const slow_reader& r) {
                if (!counts.load(std::memory_order_relaxed)) return slow_reader_action::leave;
                EXPECT_EQ(r.label, "late");
                behind = std::max(behind, r.behind);
                ++asked;
                return slow_reader_action::leave;
              },
          .slow_after = 1ns});
  for (std::int64_t k = 0; k < 3; ++k) ASSERT_TRUE(s.put(k));
  transaction holder = s.base.begin("holder");
  ASSERT_TRUE(holder.update(s.t, {1}, {{"v", 5}}));
  std::atomic<bool> waits{false};
  std::thread other([&] {
    transaction late = s.base.begin({.label = "late", .longest_wait = 1h});
    waits.store(true, std::memory_order_relaxed);
    EXPECT_TRUE(late.update(s.t, {1}, {{"v", 6}}));
    counts.store(true, std::memory_order_relaxed);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(s.bump(2));
    counts.store(false, std::memory_order_relaxed);
    EXPECT_TRUE(late.commit());
  });
  while (!waits.load(std::memory_order_relaxed)) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(s.bump(2));
  EXPECT_TRUE(holder.commit());
  other.join();
  EXPECT_GT(asked, 0);
  EXPECT_LE(behind, 3U);
}

}  // namespace
