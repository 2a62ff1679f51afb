// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a damaged database has left, worked out without the library: which bytes are which record,
/// and what commits make of a ledger (durable.hpp) when some of them are lost.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <spolia/db/salvage.hpp>

#include "db/durable.hpp"
#include "db/seals.hpp"

namespace spolia::test {

/// Rows of the ledger: n, note, even, memo. A column that is not known is "?".
using ledger_row = std::vector<std::string>;
using ledger_rows = std::map<std::int64_t, ledger_row>;

/// What commits 1..last leave of the ledger, but for those that are lost.
struct ledger_model {
  ledger_rows rows;
  ledger_rows in_part;

  void commit(std::int64_t n) {
    const std::string note = n % 3 == 0 ? "null" : "note " + std::to_string(n);
    const std::string memo = memo_of(n).value_or("null");
    rows[n] = {std::to_string(n * 10), note, n % 2 == 0 ? "true" : "false", memo};
    in_part.erase(n);
    if (n % 5 == 0) {
      rows.erase(n - 2);
      in_part.erase(n - 2);
    }
    if (n == 1) {
      rows[0] = {"1", "null", "false", memo};
      return;
    }
    ledger_row& counter = rows.contains(0) ? rows[0] : in_part[0];
    if (counter.empty()) counter = {"?", "?", "?", "?"};
    counter[0] = std::to_string(n);
    counter[3] = memo;
  }
};

inline ledger_rows rows_in(db::database& base) {
  ledger_rows all;
  if (base.tables().empty()) return all;
  const db::table& ledger = base.find_table("ledger");
  base.snapshot().for_each(ledger, [&](const db::row& r) {
    const auto text = [&](const char* column) {
      const auto of = ledger.column<std::string_view>(column);
      return r.null(of) ? std::string("null") : std::string(r.get(of));
    };
    all[r.get(ledger.column<std::int64_t>("id"))] = {
        std::to_string(r.get(ledger.column<std::int64_t>("n"))), text("note"),
        r.get(ledger.column<bool>("even")) ? "true" : "false", text("memo")};
  });
  return all;
}

inline db::salvage_options into(const disk& files) {
  db::salvage_options o;
  o.store = over(files);
  return o;
}

struct salvaged {
  db::salvage_report report;
  ledger_rows rows;
};
/// Brings out what is whole, and looks into what was made. Checks what is so whatever is damaged.
inline salvaged salvage_all(const disk& files) {
  const auto before = files->copy();
  salvaged got;
  const auto looked = [&] {
    db::salvage_options o = into(files->copy());
    o.dry_run = true;
    return db::salvage(place, "new", o);
  }();
  got.report = db::salvage(place, "new", into(files));
  for (const std::string& name : before->names()) {
    EXPECT_TRUE(files->has(name) && files->content(name) == before->content(name)) << name;
  }
  EXPECT_EQ(looked.records, got.report.records) << "a dry run says the same";
  EXPECT_EQ(looked.missing, got.report.missing);
  EXPECT_EQ(looked.damage.size(), got.report.damage.size());
  EXPECT_EQ(looked.complete(), got.report.complete());
  db::database base = db::database::open("new", over(files));
  got.rows = rows_in(base);
  EXPECT_TRUE(base.recovered().notes.empty());
  std::uint64_t rows = 0;
  for (const db::table* t : base.tables()) {
    base.snapshot().for_each(*t, [&](const db::row&) { ++rows; });
  }
  for (const db::salvaged_table& t : got.report.tables) {
    EXPECT_LE(t.mixed, t.rows);
    rows -= t.rows;
  }
  EXPECT_EQ(rows, 0U) << "the report counts them";
  return got;
}

/// Whether a range of missing records has this one.
inline bool misses(const db::salvage_report& r, std::uint64_t number) {
  return std::any_of(r.missing.begin(), r.missing.end(), [&](const db::missing_records& m) {
    return m.first <= number && (m.last == 0 || number <= m.last);
  });
}
/// Whether a place of damage covers this one.
inline bool says_place(const db::salvage_report& r, const std::string& file, std::size_t at) {
  return std::any_of(r.damage.begin(), r.damage.end(), [&](const db::damaged_place& d) {
    return d.file == file &&
           (d.offset == db::storage_error::nowhere ||
            (d.offset <= at && at < d.offset + std::max<std::uint64_t>(d.bytes, 1)));
  });
}
inline std::string in_words(const db::salvage_report& r) {
  std::string s = "used " + std::to_string(r.records) + " up to " + std::to_string(r.sequence);
  for (const auto& d : r.damage) {
    s += "\n  " + d.file.string() + " at " +
         (d.offset == db::storage_error::nowhere ? std::string("-") : std::to_string(d.offset)) +
         ", " + std::to_string(d.bytes) + ": " + d.what + " (" + std::to_string(d.missing.first) +
         " to " + std::to_string(d.missing.last) + ")";
  }
  for (const auto& m : r.missing) {
    s += "\n  missing " + std::to_string(m.first) + " to " + std::to_string(m.last);
  }
  for (const auto& t : r.tables) {
    s += "\n  " + t.name + ": " + std::to_string(t.rows) + " rows, " + std::to_string(t.mixed) +
         " mixed, " + std::to_string(t.in_part) + " in part" +
         (t.incomplete ? ", incomplete" : "") + (t.doubtful ? ", doubtful" : "");
    for (const auto& o : t.older) {
      s += ", " + std::to_string(o.rows) + " older than " + std::to_string(o.than.first);
    }
  }
  for (const auto& t : r.lost_tables) {
    s += "\n  lost table " + std::to_string(t.number) + ": " + std::to_string(t.changes);
  }
  s += "\n  lost rows " + std::to_string(r.lost_rows) + (r.more_rows_lost ? " or more" : "") +
       ", unused " + std::to_string(r.unused_records);
  return s;
}

}  // namespace spolia::test
