// SPDX-License-Identifier: Apache-2.0
// command_dump.cpp: `spolia dump`.
#include <fmt/format.h>

#include <cstdio>

#include "commands.hpp"
#include "errors.hpp"
#include "store.hpp"
#include "text.hpp"

namespace tool {
namespace {

std::uint64_t to_output(const db::reader& at, const std::vector<db::table*>& tables,
                        const dump_request& r, const row_count& tell) {
  if (r.format == text_format::json) check_names(tables);
  file_sink out(r.to);
  const bool stream = r.format == text_format::json && r.tables.size() != 1;
  const std::uint64_t rows = stream ? dump_stream(at, tables, out, tell)
                                    : dump_table(at, *tables.front(), r.format, out, 0, tell);
  out.finish();
  return rows;
}

}  // namespace

void run_dump(const dump_request& r, const common& c) {
  const bool output = r.to == standard_stream;
  if (output && r.format == text_format::csv && r.tables.size() != 1) {
    throw usage_error("CSV on standard output holds one table: say which with --table");
  }
  const db::database base = open_to_read(r.store, c.chosen.store, c.show);
  const auto tables = chosen_tables(base, r.tables);
  progress bar("dump", 0, c.show);
  const db::reader now = base.snapshot("dump");
  const row_count tell = [&](std::uint64_t rows) { bar.at(0, rows); };
  const std::uint64_t rows =
      output ? to_output(now, tables, r, tell) : dump_folder(now, tables, r.format, r.to, tell);
  if (!output) fmt::print("{} rows of {} tables in {}\n", rows, tables.size(), r.to.string());
}

}  // namespace tool
