// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the programs that are killed amid commits have in their database, and what must be so
/// whenever it is looked at. Each thread's commits have numbers: one inserts a row, sets the
/// thread's counter, erases the row of long ago, writes to the table that comes and goes, and moves
/// money from one account to another.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/db.hpp>

#include "db/crash_support.hpp"

namespace spolia::test {

inline constexpr std::int64_t threads = 4;
inline constexpr std::int64_t kept = 50;  // rows of a thread: it erases older ones
inline constexpr std::int64_t accounts = 16;
inline constexpr std::int64_t money = 1000;
inline constexpr std::array<std::string_view, 3> coming_names{"coming", "going", "aside"};

struct world {
  db::database base;
  db::table* rows = nullptr;      // thread * 2^40 + n
  db::table* counters = nullptr;  // how many of each thread
  db::table* bank = nullptr;
  // Two that come, are renamed, and go: threads write to the first while it has this and that name.
  spolia::atomic<db::table*> coming{nullptr};
  db::table* second = nullptr;
  bool twice = false;  // one of them is there by two names, as salvage may leave a damaged store

  world(const std::filesystem::path& directory, const db::options& o)
      : base(db::database::open(directory, o)) {
    for (db::table* const t : base.tables()) {
      if (t->name() == "rows") rows = t;
      if (t->name() == "counters") counters = t;
      if (t->name() == "bank") bank = t;
      if (std::count(coming_names.begin(), coming_names.end(), t->name()) != 0) find_coming(*t);
    }
  }
  // By its columns: what it is called is what is in question.
  void find_coming(db::table& t) {
    const auto& columns = t.layout().columns();
    const bool is_second = columns[1].name == "w";
    twice = twice || (is_second ? second != nullptr : coming.load_relaxed() != nullptr);
    if (is_second) {
      second = &t;
    } else {
      coming.store_relaxed(&t);
    }
  }
  void make() {
    const auto columns = std::vector<db::column_spec>{
        {"k", db::int64, db::primary_key}, {"v", db::int64}, {"text", db::text(60), db::nullable}};
    if (rows == nullptr) {
      rows = &base.create_table({.name = "rows", .columns = columns, .indexes = {{"by_v", {"v"}}}});
    }
    if (counters == nullptr) {
      counters = &base.create_table({.name = "counters", .columns = columns});
    }
    if (bank == nullptr) bank = &base.create_table({.name = "bank", .columns = columns});
    const db::status s = base.transact([&](db::transaction& tx) -> db::status {
      if (tx.find(*bank, {0})) return db::outcome::ok;
      for (std::int64_t a = 0; a < accounts; ++a) {
        if (auto done = tx.insert(*bank, {a, money, nullptr}); !done) return done;
      }
      for (std::int64_t t = 0; t < threads; ++t) {
        if (auto done = tx.insert(*counters, {t, 0, nullptr}); !done) return done;
      }
      return db::outcome::ok;
    });
    if (!s) wrong(std::string("the first rows: ") + std::string(s.message()));
  }
};

constexpr std::int64_t key_of(std::int64_t thread, std::int64_t n) { return thread << 40 | n; }
inline std::string text_of(std::int64_t n) {
  return std::string(static_cast<std::size_t>(n % 60), static_cast<char>('a' + n % 26));
}

/// The first of the tables that come, are renamed, and go; null: it is gone.
inline db::table* coming_table(const world& w) { return w.coming.load_relaxed(); }

/// What there is after so many changes of the catalogue.
struct catalog_state {
  std::string_view first{};  // what it is called; empty: it is not there
  std::string_view second{};
  bool index_of_it = false;
  bool index_of_rows = false;
  bool operator==(const catalog_state&) const = default;
};
constexpr catalog_state state_after(std::uint64_t changes) {
  constexpr std::array<catalog_state, 13> states{{{},
                                                  {"coming", "", false, false},
                                                  {"coming", "", true, false},
                                                  {"going", "", true, false},
                                                  {"going", "", true, true},
                                                  {"going", "coming", true, true},
                                                  {"aside", "coming", true, true},
                                                  {"aside", "going", true, true},
                                                  {"coming", "going", true, true},
                                                  {"coming", "going", false, true},
                                                  {"coming", "", false, true},
                                                  {"aside", "", false, true},
                                                  {"", "", false, true}}};
  return states[changes % states.size()];
}
inline bool has_index(const db::table& t, const char* name) {
  const db::table_spec s = t.spec();
  return std::any_of(s.indexes.begin(), s.indexes.end(),
                     [&](const db::index_spec& i) { return i.name == name; });
}
/// A table has one name, is found by that, and by no other one.
inline std::string_view only_name(const world& w, const db::table* t) {
  if (t == nullptr) return {};
  std::string_view is;
  for (const std::string_view name : coming_names) {
    if (w.base.try_find_table(name) != t) continue;
    if (!is.empty()) wrong("a table is found by two names");
    is = name;
  }
  if (is.empty() || is != t->name()) wrong("a table is not found by its name");
  return is;
}
inline catalog_state state_of(const world& w) {
  if (w.twice) wrong("a table is there by its former name and by the new one");
  const db::table* const t = coming_table(w);
  const catalog_state is{.first = only_name(w, t),
                         .second = only_name(w, w.second),
                         .index_of_it = t != nullptr && has_index(*t, "one"),
                         .index_of_rows = has_index(*w.rows, "more")};
  for (const std::string_view name : coming_names) {
    if (name != is.first && name != is.second && w.base.try_find_table(name) != nullptr) {
      wrong("a former name leads to a table");
    }
  }
  return is;
}

/// Another name; or a table comes or goes.
inline db::status change_second(world& w, std::string_view now, std::string_view next) {
  if (now.empty()) {
    w.second = &w.base.create_table({.name = std::string(next),
                                     .columns = {{"k", db::int64, db::primary_key},
                                                 {"w", db::int64},
                                                 {"text", db::text(60), db::nullable}}});
    return {};
  }
  if (!next.empty()) return w.base.rename_table(now, next);
  const db::status s = w.base.drop_table(*w.second);
  if (s) w.second = nullptr;
  return s;
}
inline db::status change_first(world& w, std::string_view now, std::string_view next) {
  if (now.empty()) {
    w.coming.store_relaxed(
        &w.base.create_table({.name = std::string(next),
                              .columns = {{"k", db::int64, db::primary_key}, {"v", db::int64}}}));
    return {};
  }
  if (!next.empty()) return w.base.rename_table(*coming_table(w), next);
  const db::status s = w.base.drop_table(*coming_table(w));
  if (s) w.coming.store_relaxed(nullptr);
  return s;
}

/// The change that follows so many.
inline db::status change_catalog(world& w, std::uint64_t changes) {
  const catalog_state now = state_after(changes);
  const catalog_state next = state_after(changes + 1);
  if (next.first != now.first) return change_first(w, now.first, next.first);
  if (next.second != now.second) return change_second(w, now.second, next.second);
  if (next.index_of_it && !now.index_of_it) {
    return w.base.create_index(
        *coming_table(w),
        {.name = "one",
         .columns = {"v"},
         .unique = true,
         .kind = changes % 4 < 2 ? db::index_kind::hash : db::index_kind::ordered});
  }
  if (now.index_of_it && !next.index_of_it) return w.base.drop_index(*coming_table(w), "one");
  if (next.index_of_rows)
    return w.base.create_index(*w.rows, {.name = "more", .columns = {"v", "k"}});
  return w.base.drop_index(*w.rows, "more");
}

/// The same, also where a table cannot be made.
inline db::status change_catalog_once(world& w, std::uint64_t changes) {
  try {
    return change_catalog(w, changes);
  } catch (const db::storage_error&) {
    return db::outcome::storage_failed;
  }
}

/// Two rows for the table that comes and goes, if it is there.
inline db::status write_to_coming(world& w, db::transaction& tx, std::int64_t key) {
  db::table* const t = coming_table(w);
  if (t == nullptr) return {};
  if (auto s = tx.insert(*t, {key, key}); !s) return s;
  return tx.insert(*t, {-key, -key});
}

/// The n-th commit of a thread.
struct one_commit {
  std::int64_t thread = 0;
  std::int64_t n = 0;
  std::int64_t from = 0;  // accounts
  std::int64_t to = 0;
};
inline db::status write(world& w, db::transaction& tx, const one_commit& c) {
  const auto v = w.bank->column<std::int64_t>("v");
  const std::string text = text_of(c.n);
  if (auto s = tx.insert(*w.rows, {key_of(c.thread, c.n), c.n, text}); !s) return s;
  if (auto s = tx.update(*w.counters, {c.thread}, {{"v", c.n}}); !s) return s;
  if (auto s = write_to_coming(w, tx, key_of(c.thread, c.n)); !s) return s;
  if (c.n > kept) {
    if (auto s = tx.erase(*w.rows, {key_of(c.thread, c.n - kept)}); !s) return s;
  }
  auto giver = tx.edit(*w.bank, {c.from});
  if (!giver) return giver.why();
  if (auto s = giver->set(v, giver->get(v) - 1); !s) return s;
  auto taker = tx.edit(*w.bank, {c.to});
  if (!taker) return taker.why();
  return taker->set(v, taker->get(v) + 1);
}

/// The rows of a thread: all since one that is not before the last acknowledged commit and not
/// after the last attempted one. Returns that.
inline std::int64_t check_rows(const world& w, const db::reader& now, std::int64_t thread,
                               std::int64_t acknowledged, std::int64_t attempted) {
  const auto v = w.rows->column<std::int64_t>("v");
  const auto text = w.rows->column<std::string_view>("text");
  const auto name = "thread " + std::to_string(thread) + ": ";
  const auto counter = now.find(*w.counters, {thread});
  if (!counter) wrong(name + "no counter");
  const std::int64_t last = counter->get(w.counters->column<std::int64_t>("v"));
  if (last < acknowledged) {
    wrong(name + "commit " + std::to_string(acknowledged) +
          " was acknowledged, the last that is there is " + std::to_string(last));
  }
  if (last > attempted) wrong(name + "a commit that no thread has made");
  std::int64_t next = std::max<std::int64_t>(last - kept + 1, 1);
  now.scan(w.rows->index("by_v"), {}, {}, [&](const db::row& r) {
    const std::int64_t k = r.get(w.rows->column<std::int64_t>("k"));
    if (k >> 40 != thread) return;
    if (k != key_of(thread, next) || r.get(v) != next || r.get(text) != text_of(next)) {
      wrong(name + "row " + std::to_string(next) + " is missing or wrong");
    }
    ++next;
  });
  if (next != last + 1) wrong(name + "rows are missing");
  return last;
}

/// All money is there. False: the accounts were not made yet.
inline bool check_bank(const world& w, const db::reader& now) {
  std::int64_t sum = 0;
  std::int64_t rows = 0;
  now.for_each(*w.bank, [&](const db::row& r) {
    ++rows;
    sum += r.get(w.bank->column<std::int64_t>("v"));
  });
  if (rows == 0) return false;
  if (rows != accounts || sum != accounts * money) wrong("money was lost or made");
  return true;
}

/// The rows of a thread in the table that comes and goes, whatever it is called: all since the
/// first, in pairs; and each has its entry in the index.
inline void check_coming(const world& w, const db::reader& now, std::int64_t thread,
                         std::int64_t last) {
  const db::table* const t = coming_table(w);
  if (t == nullptr) return;
  const bool indexed = has_index(*t, "one");
  const auto name = "thread " + std::to_string(thread) + ": ";
  const auto k = t->column<std::int64_t>("k");
  std::int64_t first = last + 1;
  std::int64_t found = 0;
  now.for_each(*t, [&](const db::row& r) {
    if (r.get(k) < 0 || r.get(k) >> 40 != thread) return;
    if (!now.find(*t, {-r.get(k)})) wrong(name + "half of a commit");
    int entries = 0;
    if (indexed) {
      now.scan(t->index("one"), {r.get(k)}, {r.get(k)}, [&](const db::row& by_it) {
        if (by_it.get(k) == r.get(k)) ++entries;
      });
    }
    if (entries != (indexed ? 1 : 0)) {
      wrong(name + "a row of the table that comes and goes has no entry, or two");
    }
    first = std::min(first, r.get(k) - key_of(thread, 0));
    ++found;
  });
  if (found != last - first + 1) wrong(name + "rows of the table that comes and goes are missing");
}

/// The index that comes and goes, while it is there.
inline void check_index(const world& w, const db::reader& now) {
  std::int64_t rows = 0;
  now.for_each(*w.rows, [&](const db::row&) { ++rows; });
  now.scan(w.rows->index("more"), {}, {}, [&](const db::row&) { --rows; });
  if (rows != 0) wrong("an index has not all rows");
}

}  // namespace spolia::test
