// SPDX-License-Identifier: Apache-2.0
// Tables that are many, and tables that come and go: what they take and leave, by the system's own
// account, and that nothing becomes slower by them.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <spolia/db.hpp>

#include "db/durable.hpp"
#include "support/as_it_was.hpp"
#include "support/cost.hpp"
#include "support/one_processor.hpp"
#include "support/resident.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using db::index_kind;
using db::no_result;
using db::outcome;
using db::reader;
using db::status;
using db::transaction;

/// Sanitizers keep what is freed, and more besides; and they are slow at some things.
constexpr bool tells_cost = !sanitized;

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

db::table_spec wide(const std::string& name) {
  std::vector<db::column_spec> columns{{"id", db::int64, db::primary_key}};
  for (int i = 0; i < 20; ++i) {
    columns.push_back({"column_with_a_long_name_" + std::to_string(i), db::int64, db::nullable});
  }
  columns.push_back({"tenant", db::text(16)});
  return {.name = name, .columns = columns, .indexes = {{"by_tenant", {"tenant"}}}};
}
db::table_spec narrow(const std::string& name) {
  return {.name = name,
          .columns = {{"id", db::int64, db::primary_key}, {"v", db::int64}},
          .indexes = {{"by_v", {"v"}}}};
}

std::string name_of(std::uint64_t n) { return "t" + std::to_string(n); }

/// A database in which tables come and go.
class coming_and_going {
 public:
  using specs = std::function<db::table_spec(std::uint64_t)>;

  /// `held`: beside a reader.
  explicit coming_and_going(specs spec, bool held = false)
      : spec_(std::move(spec)), base(db::database::open()) {
    base.create_table(narrow("keep"));
    if (held) reader_.emplace(base.snapshot());
  }
  void go_on(std::uint64_t tables) {
    for (; tables > 0; --tables) EXPECT_TRUE(base.drop_table(base.create_table(spec_(made_++))));
  }
  /// What some of them cost.
  double batch() {
    return cost_of([this] { go_on(20); });
  }

 private:
  specs spec_;
  std::uint64_t made_ = 0;

 public:
  db::database base;

 private:
  std::optional<reader> reader_;
};

constexpr std::uint64_t a_quarter = 4000 / fewer;

/// Of 16 000 tables that come and go in one database, the last 12 000 leave at most 200 bytes each,
/// and the next ones cost what the first ones of a database cost.
template <class... How>
void leave_little(const How&... how) {
  std::optional<as_it_was> before;
  if (tells_cost) {
    before.emplace([&] {
      auto young = std::make_shared<coming_and_going>(how...);
      return [young](int) { return young->batch(); };
    });
  }
  coming_and_going old(how...);
  old.go_on(a_quarter);
  const std::uint64_t resident = resident_when_trimmed();
  old.go_on(3 * a_quarter);
  const std::uint64_t left =
      (std::max(resident_when_trimmed(), resident) - resident) / (3 * a_quarter);
  if (tells_cost) {
    EXPECT_LE(left, 200U);
    const one_processor both_are_here;
    const double ratio =
        times_as_much(51, [&] { return old.batch(); }, [&] { return (*before)(0); });
    EXPECT_LE(ratio, 1.2);
    testing::Test::RecordProperty("ratio", std::to_string(ratio));
  }
  EXPECT_EQ(old.base.tables().size(), 1U);
  EXPECT_EQ(old.base.find_table("keep").name(), "keep");
}

TEST(many_tables, that_come_and_go_leave_little) {
  for (const bool same_name : {true, false}) {
    SCOPED_TRACE(same_name);
    leave_little([=](std::uint64_t n) { return wide(same_name ? "t" : name_of(n)); });
  }
}

TEST(many_tables, that_were_used_leave_little) {
  db::database base = db::database::open();
  std::uint64_t n = 0;
  const auto make = [&] {
    db::table& t = base.create_table(narrow("t"));
    EXPECT_TRUE(base.transact([&](transaction& tx) -> status {
      for (std::int64_t k = 0; k < 10; ++k) {
        if (const status s = tx.insert(t, {k, k}); !s) return s;
      }
      return {};
    }));
    EXPECT_TRUE(base.create_index(t, {.name = "more", .columns = {"v"}, .kind = index_kind::hash}));
    EXPECT_TRUE(base.drop_table(t));
  };
  for (; n < a_quarter; ++n) make();
  base.collect();
  const std::uint64_t before = resident_when_trimmed();
  for (; n < 4 * a_quarter; ++n) make();
  base.collect();
  const std::uint64_t left = (std::max(resident_when_trimmed(), before) - before) / (3 * a_quarter);
  if (tells_cost) {
    EXPECT_LE(left, 240U) << "it had two indexes";
  }
  EXPECT_EQ(base.stats().table_bytes, 0U);
  EXPECT_EQ(base.stats().index_bytes, 0U);
}

/// What stays of each lies together: else it would keep a page of what its table has given back.
TEST(many_tables, that_were_there_at_once_leave_little) {
  db::database base = db::database::open();
  constexpr std::uint64_t all = 8000 / fewer;
  const std::uint64_t before = resident_when_trimmed();
  std::vector<db::table*> made;
  for (std::uint64_t n = 0; n < all; ++n) {
    made.push_back(&base.create_table(narrow("t" + std::to_string(n))));
  }
  for (db::table* const t : made) EXPECT_TRUE(base.drop_table(*t));
  base.collect();
  const std::uint64_t left = (std::max(resident_when_trimmed(), before) - before) / all;
  if (tells_cost) {
    EXPECT_LE(left, 400U) << "of which 100 for the next ones";
  }
}

/// While a reader is held that sees all of them, and when it has ended.
TEST(many_tables, that_a_reader_holds_go_with_it) {
  db::database base = db::database::open();
  constexpr std::uint64_t all = 4000 / fewer;
  std::vector<db::table*> made;
  const auto make_all = [&] {
    made.clear();
    for (std::uint64_t n = 0; n < all; ++n) {
      made.push_back(&base.create_table(narrow(name_of(n))));
    }
  };
  const auto drop_all = [&] {
    for (db::table* const t : made) EXPECT_TRUE(base.drop_table(*t));
    base.collect();
  };
  make_all();
  drop_all();
  const std::uint64_t before = resident_when_trimmed();
  const auto each = [&] { return (std::max(resident_when_trimmed(), before) - before) / all; };
  {
    make_all();
    const reader held = base.snapshot();
    drop_all();
    EXPECT_EQ(base.readers().at(0).held, all);
    if (tells_cost) {
      EXPECT_GT(each(), 1000U) << "it sees them";
    }
  }
  base.collect();
  if (tells_cost) {
    EXPECT_LE(each(), 200U);
  }
}

TEST(many_tables, that_are_younger_than_a_reader_leave_little_beside_it) {
  leave_little([](std::uint64_t) { return narrow("t"); }, true);
}

TEST(many_tables, that_are_empty_take_little) {
  if (!tells_cost) GTEST_SKIP() << "sanitizers tell nothing of memory";
  constexpr std::uint64_t all = 1000;
  for (const db::hash_kind hashes : {db::hash_kind::probing, db::hash_kind::cuckoo}) {
    for (const index_kind primary : {index_kind::hash, index_kind::ordered}) {
      for (const index_kind other : {index_kind::hash, index_kind::ordered}) {
        db::options o;
        o.hash_indexes = hashes;
        db::database base = db::database::open(o);
        const auto make = [&](std::uint64_t n) {
          db::table_spec spec{.name = name_of(n),
                              .columns = {{"id", db::int64, db::primary_key},
                                          {"tenant", db::text(16)},
                                          {"v", db::int64}},
                              .primary = primary,
                              .indexes = {{.name = "by", .columns = {"tenant"}, .kind = other}}};
          base.create_table(spec);
        };
        make(all);  // with what the database takes for its first one
        const std::uint64_t before = resident_when_trimmed();
        for (std::uint64_t n = 0; n < all; ++n) make(n);
        const std::uint64_t each = (std::max(resident_when_trimmed(), before) - before) / all;
        EXPECT_LE(each, 8192U) << static_cast<int>(hashes) << static_cast<int>(primary)
                               << static_cast<int>(other);
        EXPECT_EQ(base.tables().size(), all + 1);
        EXPECT_LE(base.stats().index_bytes / all, 4096U);
      }
    }
  }
}

/// Makes so many tables; then how long it takes to find them, to count them, and to close.
struct figures {
  double made = 0;
  double found = 0;
  double counted = 0;
  double stored = 0;
  double opened = 0;
};

constexpr std::uint64_t few_tables = 2000 / fewer;
constexpr std::uint64_t more_times = 5;

TEST(many_tables, are_found_as_few_are) {
  const auto seconds_for = [](std::uint64_t tables) {
    db::database base = db::database::open();
    for (std::uint64_t n = 0; n < tables; ++n) base.create_table(narrow(name_of(n)));
    const double start = cpu_seconds();
    for (std::uint64_t i = 0; i < 100'000 / fewer; ++i) {
      const std::string name = name_of(i % 100 * (tables / 100));
      EXPECT_EQ(base.find_table(name).name(), name);
    }
    EXPECT_THROW(static_cast<void>(base.find_table("none")), std::invalid_argument);
    return cpu_seconds() - start;
  };
  const double few = seconds_for(100);
  const double many = seconds_for(10'000 / fewer);
  if (tells_cost) {
    EXPECT_LE(many, 4 * few + 0.02);
  }
}

figures with_tables(std::uint64_t tables) {
  figures f;
  const disk files = new_disk();
  const auto seconds = [&](auto&& what) {
    const double start = cpu_seconds();
    what();
    return cpu_seconds() - start;
  };
  const auto in = [&](std::uint64_t n, db::database& base) {
    const reader now = base.snapshot();
    return bool(now.find(base.find_table(name_of(n)), {n}));
  };
  {
    db::database base = db::database::open(place, over(files));
    f.made = seconds([&] {
      for (std::uint64_t n = 0; n < tables; ++n) {
        db::table& t = base.create_table(narrow(name_of(n)));
        EXPECT_TRUE(base.drop_table(base.create_table(narrow("other"))));
        EXPECT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {n, n}); }));
      }
    });
    f.counted = seconds([&] {
      for (int i = 0; i < 10; ++i) EXPECT_GT(base.stats().table_bytes, 0U);
    });
  }
  for (const bool from_log : {true, false}) {
    f.opened += seconds([&] {
      db::database base = db::database::open(place, over(files));
      EXPECT_EQ(base.tables().size(), tables);
      EXPECT_TRUE(in(0, base) && in(tables - 1, base)) << from_log;
      EXPECT_THROW(static_cast<void>(base.find_table("other")), std::invalid_argument);
      if (from_log) f.stored = seconds([&] { base.checkpoint(); });
    });
  }
  return f;
}

TEST(many_tables, are_stored_and_opened_in_proportion) {
  const figures few = with_tables(few_tables);
  const figures many = with_tables(more_times * few_tables);
  const auto expect_linear = [](double f, double m, const char* what) {
    if (tells_cost) {
      EXPECT_LE(m, 2.0 * more_times * f + 0.02) << what;
    }
  };
  expect_linear(few.made, many.made, "made");
  expect_linear(few.counted, many.counted, "counted");
  expect_linear(few.stored, many.stored, "stored");
  expect_linear(few.opened, many.opened, "opened");
}

/// Of a durable database, whose log then has all of them.
TEST(many_tables, that_were_dropped_are_opened_once_more) {
  const disk files = new_disk();
  {
    db::database base = db::database::open(place, over(files));
    base.create_table(narrow("keep"));
    for (std::uint64_t n = 0; n < 4000 / fewer; ++n) {
      EXPECT_TRUE(base.drop_table(base.create_table(narrow(name_of(n)))));
    }
  }
  for (int i = 0; i < 2; ++i) {
    db::database base = db::database::open(place, over(files));
    ASSERT_EQ(base.tables().size(), 1U);
    base.create_table(narrow(name_of(0)));
    EXPECT_TRUE(base.drop_table(base.find_table(name_of(0))));
    base.checkpoint();
  }
}

outcome thrown(const auto& f) {
  try {
    f();
  } catch (const no_result& e) {
    return e.code();
  }
  return outcome::ok;
}

/// All that a program may have of a table, and do with it, when no snapshot sees it any more.
TEST(many_tables, a_dropped_one_is_known_as_that) {
  db::database base = db::database::open();
  db::table& t = base.create_table(narrow("gone"));
  const db::secondary& by_v = t.index("by_v");
  const db::selection some = t.select({"v"});
  const auto v = t.column<std::int64_t>("v");
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {1, 2}); }));
  const auto row_bytes = t.row_bytes();
  ASSERT_TRUE(base.drop_table(t));
  const auto keep = base.snapshot();

  EXPECT_EQ(t.name(), "gone");
  EXPECT_EQ(&by_v.of(), &t);
  EXPECT_EQ(t.row_bytes(), row_bytes);
  EXPECT_EQ(t.bytes() + t.index_bytes(), 0U);
  const auto ignore = [](const db::row&) {};
  transaction tx = base.begin();
  EXPECT_EQ(tx.find(t, {1}).code(), outcome::dropped);
  EXPECT_EQ(tx.find(t, {1}, some).code(), outcome::dropped);
  EXPECT_EQ(tx.insert(t, {1, 2}), outcome::dropped);
  EXPECT_EQ(tx.update(t, {1}, {{"v", 3}}), outcome::dropped);
  EXPECT_EQ(tx.update(t, {1}, {{"none", 3}}), outcome::dropped);
  EXPECT_EQ(tx.erase(t, {1}), outcome::dropped);
  EXPECT_EQ(tx.edit(t, {1}).code(), outcome::dropped);
  EXPECT_EQ(tx.lock(t, {1}).code(), outcome::dropped);
  const std::vector<std::pair<const char*, outcome>> all{
      {"for_each", thrown([&] { tx.for_each(t, ignore); })},
      {"some", thrown([&] { tx.for_each(t, ignore, some); })},
      {"scan", thrown([&] { tx.scan(by_v, {1}, {2}, ignore); })},
      {"primary", thrown([&] { tx.scan(t, {1}, {2}, ignore); })},
      {"layout", thrown([&] { static_cast<void>(t.layout()); })},
      {"column", thrown([&] { static_cast<void>(t.column<std::int64_t>("v")); })},
      {"select", thrown([&] { static_cast<void>(t.select({"v"})); })},
      {"index", thrown([&] { static_cast<void>(t.index("by_v")); })},
      {"spec", thrown([&] { static_cast<void>(t.spec()); })},
      {"name", thrown([&] { static_cast<void>(by_v.name()); })},
      {"unique", thrown([&] { static_cast<void>(by_v.unique()); })},
      {"kind", thrown([&] { static_cast<void>(by_v.kind()); })}};
  for (const auto& [what, o] : all) EXPECT_EQ(o, outcome::dropped) << what;
  EXPECT_EQ(tx.query(t).aggregate(db::count()).run().code(), outcome::dropped);
  EXPECT_TRUE(tx.commit()) << "it goes on";
  EXPECT_EQ(base.drop_table(t), outcome::dropped);
  EXPECT_EQ(base.create_index(t, {.name = "n", .columns = {"v"}}), outcome::dropped);
  EXPECT_EQ(base.drop_index(t, "by_v"), outcome::dropped);

  db::table& again = base.create_table(narrow("gone"));
  ASSERT_TRUE(base.transact([&](transaction& x) { return x.insert(again, {1, 2}); }));
  EXPECT_EQ(base.snapshot().find(again, {1}, some)->get(v), 2) << "what looks the same is the same";
  EXPECT_EQ(base.snapshot().find(t, {1}).code(), outcome::dropped);
  db::table& other =
      base.create_table({.name = "gone2", .columns = {{"id", db::int64, db::primary_key}}});
  EXPECT_THROW(static_cast<void>(base.snapshot().find(other, {1}, some)), std::invalid_argument);
}

/// The program ends a reader amid a scan, and drops what it scans: its scan still walks there.
TEST(many_tables, a_reader_that_was_ended_keeps_what_it_walks_on) {
  for (const bool by_index : {true, false}) {
    for (const bool drops_table : {true, false}) {
      db::database base = db::database::open();
      db::table& t = base.create_table(narrow("t"));
      ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
        for (std::int64_t k = 0; k < 100; ++k) {
          if (const status s = tx.insert(t, {k, k}); !s) return s;
        }
        return {};
      }));
      {
        const reader now =
            base.snapshot({.label = "slow", .deadline = std::chrono::nanoseconds(1)});
        const db::secondary& by_v = t.index("by_v");
        const auto drop = [&](const db::row&) {
          base.collect();  // which ends it
          EXPECT_TRUE(drops_table ? base.drop_table(t) : base.drop_index(t, "by_v"));
          base.collect();
        };
        EXPECT_EQ(
            thrown([&] { by_index ? now.scan(by_v, {0}, {50}, drop) : now.for_each(t, drop); }),
            outcome::ended_by_policy);
      }
      base.collect();
      base.collect();
      EXPECT_EQ(base.stats().cleaning, 0U);
      if (drops_table) {
        EXPECT_EQ(thrown([&] { static_cast<void>(t.layout()); }), outcome::dropped);
      }
    }
  }
}

/// Threads use a table, and what they have of it, while it is dropped.
TEST(many_tables, beside_threads_that_use_them) {
  db::database base = db::database::open();
  constexpr std::size_t places = 4;
  std::array<std::atomic<db::table*>, places> shown{};
  for (auto& s : shown) s.store(&base.create_table(narrow("t" + std::to_string(&s - &shown[0]))));
  run_stress({.threads = 4, .share = 0.3}, [&](stress_thread& self) {
    const auto use = [&](db::table& t) {
      EXPECT_EQ(t.name().front(), 't');
      const auto v = t.column<std::int64_t>("v");
      const db::secondary& by_v = t.index("by_v");
      const db::selection some = t.select({"v"});
      const auto k = static_cast<std::int64_t>(self.random().below(20));
      static_cast<void>(base.transact([&](transaction& tx) { return tx.insert(t, {k, k}); }));
      EXPECT_EQ(t.spec().indexes.size(), 1U);
      const reader now = base.snapshot();
      if (const auto found = now.find(t, {k}, some)) {
        EXPECT_EQ(found->get(v), k);
      }
      now.scan(by_v, {0}, {20}, [&](const db::row& r) { EXPECT_GE(r.get(v), 0); });
      now.for_each(t, [&](const db::row& r) { EXPECT_GE(r.get(v), 0); });
      EXPECT_FALSE(by_v.unique());
      EXPECT_EQ(t.layout().columns().size(), 2U);
    };
    while (self.running()) {
      std::atomic<db::table*>& at = shown[self.random().below(places)];
      db::table& t = *at.load();
      if (self.index() == 0) {
        self.jitter();
        ASSERT_TRUE(base.drop_table(t));
        at.store(&base.create_table(narrow(t.name())));
      } else {
        const outcome o = thrown([&] { use(t); });
        EXPECT_TRUE(o == outcome::ok || o == outcome::dropped);
      }
    }
  });
  base.collect();
  EXPECT_EQ(base.tables().size(), places);
}

}  // namespace
