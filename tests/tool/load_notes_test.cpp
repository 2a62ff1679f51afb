// SPDX-License-Identifier: Apache-2.0
// A load that fails, is killed or loses the power at each step of its files: the next one goes on,
// or undoes it, and each row is there once, or none.

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "db/memory_files.hpp"
#include "support/sanitized.hpp"
#include "tool/made_up.hpp"

namespace {

using namespace tool_test;
using spolia::test::memory_files;
using tool::unfinished;
using files = std::shared_ptr<memory_files>;

db::database opened(const files& on) {
  db::options o;
  o.recovery_threads = 1;
  o.checkpoint_log_bytes = 0;
  o.files = on;
  return db::database::open("store", o);
}

/// Rows 1 to 4, of which two have names that the load exchanges.
files store_before() {
  auto on = std::make_shared<memory_files>();
  db::database base = opened(on);
  db::table& t = base.create_table({.name = "t",
                                    .columns = {{"id", db::int64, db::primary_key},
                                                {"name", db::text(8)},
                                                {"memo", db::text(), db::nullable}},
                                    .indexes = {{"by_name", {"name"}, true}}});
  EXPECT_TRUE(base.transact([&](db::transaction& tx) -> db::status {
    for (int n = 1; n <= 4; ++n) {
      const std::string memo(static_cast<std::size_t>(n * 9), 'm');
      if (auto s = tx.insert(t, {n, std::to_string(n), memo}); !s) return s;
    }
    return db::outcome::ok;
  }));
  return on;
}

constexpr const char* exchanging =
    "id,name,memo\n1,x,\n2,1,two\n1,2,one\n5,five,\n6,six,a\n5,5,b\n7,seven,\n8,eight,\n";
/// What a store has that has loaded all of it.
constexpr const char* all_of_it =
    "1,2,one\r\n2,1,two\r\n3,3,mmmmmmmmmmmmmmmmmmmmmmmmmmm\r\n"
    "4,4,mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm\r\n5,5,b\r\n6,six,a\r\n7,seven,\r\n8,eight,\r\n";

/// In the order of the keys. There is no table of notes, unless `notes` says so.
std::string rows_in(db::database& base) {
  std::string all;
  db::table& t = base.find_table("t");
  for (int id = 0; id < 10; ++id) {
    const auto row = base.snapshot().find(t, {id});
    if (row) tool::append_csv_row(all, t, *row);
  }
  return all;
}

/// Loads a file with conflicts and small batches, as the command does.
void load_it(db::database& base, unfinished how, const std::string& text) {
  tool::load_notes notes(base, how);
  tool::load_counts done;
  try {
    notes.begin("in", {"t"}, false);
    notes.use(base.find_table("t"));
    text_source from(text);
    tool::csv_source rows(from, "in", base.find_table("t"));
    tool::load_rows(base, rows, {.conflict = tool::on_conflict::replace, .batch = 2}, notes, done,
                    [](const tool::row_source&) {});
    notes.finish();
  } catch (const std::exception&) {
    notes.fail();
    throw;
  }
}

/// What the files of a load have from its beginning to its end: each step fails once, with all
/// after it, in a run of its own. after(files) looks at what a kill leaves, and a loss of power.
void at_each_step(unfinished how, const std::string& text,
                  const std::function<void(const files&)>& after) {
  for (std::uint64_t step = 1;; step += spolia::test::steps_apart) {
    const files on = store_before();
    bool whole = false;
    {
      db::database base = opened(on);
      on->fails_at = on->changes + step;
      try {
        load_it(base, how, text);
        whole = true;
      } catch (const std::exception&) {
        whole = on->changes < on->fails_at;  // a mistake in the input
      }
    }
    on->fails_at = 0;
    SCOPED_TRACE(step);
    after(on->copy());
    after(on->synced());
    if (whole || testing::Test::HasFailure()) return;
    ASSERT_LT(step, 10'000U);
  }
}

void nothing_is_noted(const db::database& base) { EXPECT_EQ(base.tables().size(), 1U); }

TEST(load_notes, all_is_there_or_nothing) {
  const std::string before = [&] {
    db::database base = opened(store_before());
    return rows_in(base);
  }();
  int undone = 0;
  int loaded = 0;
  at_each_step(unfinished::undo, exchanging, [&](const files& left) {
    db::database base = opened(left);
    tool::load_notes next(base, unfinished::keep);
    const std::string now = rows_in(base);
    ++(now == before ? undone : loaded);
    EXPECT_TRUE(now == before || now == all_of_it) << now;
    nothing_is_noted(base);
  });
  EXPECT_GT(undone, 10);
  EXPECT_GT(loaded, 1);
}

/// The undoing of it is stopped as well, and that of what has stopped then.
TEST(load_notes, nothing_stays_wherever_the_undoing_is_stopped) {
  const std::string wrong = std::string(exchanging) + "nine,9,\n";
  const std::string before = [&] {
    db::database base = opened(store_before());
    return rows_in(base);
  }();
  at_each_step(unfinished::undo, wrong, [&](const files& left) {
    for (std::uint64_t step = 1;; step += 3) {
      const files on = left->copy();
      bool whole = false;
      try {
        db::database base = opened(on);
        on->fails_at = on->changes + step;
        tool::load_notes next(base, unfinished::keep);
        whole = true;
      } catch (const std::exception&) {
        whole = false;
      }
      on->fails_at = 0;
      db::database base = opened(on->synced());
      tool::load_notes next(base, unfinished::keep);
      EXPECT_EQ(rows_in(base), before);
      nothing_is_noted(base);
      if (whole || testing::Test::HasFailure()) return;
    }
  });
}

TEST(load_notes, each_row_is_loaded_once) {
  int resumed = 0;
  at_each_step(unfinished::resume, exchanging, [&](const files& left) {
    db::database base = opened(left);
    tool::load_notes look(base, unfinished::resume);
    if (look.passed() != 0) ++resumed;
    const bool begun = look.found().has_value();
    EXPECT_EQ(look.passed() % 2, 0U) << "whole batches";
    // Without notes it has not begun, or has come to its end. A row that came twice would replace
    // what a later one has made.
    if (begun || rows_in(base) != all_of_it) load_it(base, unfinished::resume, exchanging);
    EXPECT_EQ(rows_in(base), all_of_it);
    nothing_is_noted(base);
  });
  EXPECT_GT(resumed, 5);
}

/// What a program has put into a table after the load that has made it was stopped stays.
TEST(load_notes, rows_of_others_stay_in_tables_that_it_has_made) {
  for (const bool used : {false, true}) {
    db::database base = db::database::open();
    {
      tool::load_notes notes(base, unfinished::undo);
      notes.begin("in", {"t"}, false);
      notes.make({"t", "\xff"});
      db::table& t =
          base.create_table({.name = "t", .columns = {{"id", db::int64, db::primary_key}}});
      base.create_table({.name = "\xff", .columns = {{"id", db::int64, db::primary_key}}});
      notes.use(t);
      if (used) {
        ASSERT_TRUE(base.transact([&](db::transaction& tx) { return tx.insert(t, {1}); }));
      }
    }
    tool::load_notes next(base, unfinished::keep);
    EXPECT_EQ(next.undone(), 0U);
    EXPECT_EQ(base.tables().size(), used ? 1U : 0U);
  }
}

}  // namespace
