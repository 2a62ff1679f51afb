// SPDX-License-Identifier: Apache-2.0
// command_dump.cpp: `spolia dump`.
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "commands.hpp"
#include "errors.hpp"
#include "store.hpp"
#include "text.hpp"

namespace tool {
namespace {

std::uint64_t to_output(const db::reader& at, const std::vector<db::table*>& tables,
                        const dump_request& r, const row_count& tell) {
  file_sink out(r.to);
  const bool stream = r.format == text_format::json && r.tables.size() != 1;
  const std::uint64_t rows = stream ? dump_stream(at, tables, out, tell)
                                    : dump_table(at, *tables.front(), r.format, out, 0, tell);
  out.finish();
  return rows;
}

/// What JSON has no names for is left out, and everything else is dumped.
std::string left_out(const std::vector<db::table*>& tables) {
  std::string all;
  for (const db::table* t : tables) {
    constexpr std::size_t longest = 100;
    if (!all.empty()) all += ", ";
    all += printable(t->name().substr(0, longest)) + (t->name().size() > longest ? "..." : "");
  }
  return fmt::format(
      "not dumped, as a name of it is not UTF-8, which JSON cannot hold: table {}. CSV on standard "
      "output can: spolia dump STORE - --format csv --table NAME",
      all);
}

}  // namespace

void run_dump(const dump_request& r, const common& c) {
  const bool output = r.to == standard_stream;
  if (output && r.format == text_format::csv && r.tables.size() != 1) {
    throw usage_error("CSV on standard output holds one table: say which with --table");
  }
  if (!output) refuse_within(r.store, r.to);
  const db::database base = open_to_read(r.store, c.chosen.store, {c.show, c.nice});
  auto tables = chosen_tables(base, r.tables);
  std::vector<db::table*> left;
  if (!output || r.format == text_format::json) left = take_unnameable(tables);
  if (tables.empty() && !left.empty()) throw failure(left_out(left));
  progress bar("dump", 0, c.show);
  const db::reader now = base.snapshot("dump");
  const row_count tell = [&](std::uint64_t rows) { bar.at(0, rows); };
  const std::uint64_t rows =
      output ? to_output(now, tables, r, tell) : dump_folder(now, tables, r.format, r.to, tell);
  if (!output)
    fmt::print("{} of {} in {}\n", so_many(rows, "row"), so_many(tables.size(), "table"),
               printable(r.to.string()));
  if (!left.empty()) throw something_is_missing(left_out(left));
}

}  // namespace tool
