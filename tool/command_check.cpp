// SPDX-License-Identifier: Apache-2.0
// command_check.cpp: `spolia check`: all files are read and their checksums compared, and the
// indexes lead to all rows.
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <variant>
#include <vector>

#include "commands.hpp"
#include "errors.hpp"
#include "store.hpp"
#include "text.hpp"

namespace tool {
namespace {

std::uint64_t check_rows(const db::reader& at, const db::table& t, progress& bar) {
  std::uint64_t rows = 0;
  std::vector<db::value> key(t.layout().key().size());
  at.for_each(t, [&](const db::row& r) {
    for (std::size_t i = 0; i < key.size(); ++i) {
      key[i] = r.get(t.layout().columns()[t.layout().key()[i]]);
    }
    if (!at.find(t, db::values(key))) {
      throw failure("table " + t.name() + ": the primary index misses a row");
    }
    bar.at(0, ++rows);
  });
  return rows;
}

/// The same for the same values.
std::string bytes_of(const std::vector<db::value>& key) {
  std::string all;
  for (const db::value& v : key) {
    std::visit(
        [&]<class T>(const T& x) {
          if constexpr (std::is_same_v<T, std::string_view>) {
            all.append(std::to_string(x.size())).append(":").append(x);
          } else if constexpr (!std::is_same_v<T, std::monostate>) {
            all.append(reinterpret_cast<const char*>(&x), sizeof x);
          }
        },
        v.what());
  }
  return all;
}

/// A hash index is asked for each key that a row has, once.
std::uint64_t rows_of_keys(const db::reader& at, const db::table& t, const db::index_spec& i,
                           progress& bar) {
  std::unordered_set<std::string> known;
  std::vector<db::value> key(i.columns.size());
  std::uint64_t found = 0;
  at.for_each(t, [&](const db::row& r) {
    for (std::size_t n = 0; n < key.size(); ++n) key[n] = r.get(t.layout().column(i.columns[n]));
    if (!known.insert(bytes_of(key)).second) return;
    at.scan(t.index(i.name), db::values(key), db::values(key),
            [&](const db::row&) { bar.at(0, ++found); });
  });
  return found;
}

void check_index(const db::reader& at, const db::table& t, const db::index_spec& i,
                 std::uint64_t rows, progress& bar) {
  std::uint64_t found = 0;
  if (i.kind == db::index_kind::hash) {
    found = rows_of_keys(at, t, i, bar);
  } else {
    at.scan(t.index(i.name), {}, {}, [&](const db::row&) { bar.at(0, ++found); });
  }
  if (found != rows) {
    throw failure(fmt::format("table {}: index {} has {} of {}", t.name(), i.name, found,
                              so_many(rows, "row")));
  }
}

}  // namespace

std::string torn_text(const db::recovery_report& found, bool copy) {
  return fmt::format(
      "{}: {}: from {} on, {} that are no whole record ({}), {}",
      printable(found.cut_file.string()),
      copy ? "a copy with a torn end, and good before it" : "a torn end, and good before it",
      found.cut_offset, so_many(found.cut_bytes, "byte"), found.cut_why,
      copy
          ? "as a copying leaves that was stopped; or the very last records are damaged. The next "
            "backup to it goes on there; if that refuses it, make a new copy in another folder. An "
            "opening that writes makes it no copy any more"
          : "as a process leaves that dies, of what was never acknowledged; or the very last "
            "records are damaged. An opening that writes cuts it off");
}

void run_check(const check_request& r, const common& c) {
  const db::database base = open_to_read(r.store, c.chosen.store, {c.show, c.nice});
  const db::recovery_report& found = base.recovered();
  progress bar("check", 0, c.show);
  const db::reader now = base.snapshot("check");
  std::uint64_t rows = 0;
  for (const db::table* t : base.tables()) {
    const std::uint64_t count = check_rows(now, *t, bar);
    for (const auto& i : t->spec().indexes) check_index(now, *t, i, count, bar);
    rows += count;
  }
  if (!found.notes.empty()) {
    std::string words;
    bool nothing = true;
    for (const db::recovery_note& n : found.notes) {
      words += (words.empty() ? "" : "; ") + n.text;
      if (n.fault == db::storage_fault::another_database)
        words += "; move this file out of the folder";
      nothing = nothing && says_nothing(n.reason, n.fault);
    }
    if (nothing) throw could_not_look(words);
    throw failure(words);
  }
  if (found.cut_bytes != 0) {
    throw torn_end(fmt::format("{}. {}, {}, up to change {}", torn_text(found, is_copy(r.store)),
                               so_many(base.tables().size(), "table"), so_many(rows, "row"),
                               found.sequence));
  }
  fmt::print("{}: good; {}, {}, up to change {}\n", printable(r.store.string()),
             so_many(base.tables().size(), "table"), so_many(rows, "row"), found.sequence);
}

}  // namespace tool
