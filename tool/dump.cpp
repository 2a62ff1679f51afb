// SPDX-License-Identifier: Apache-2.0
#include "dump.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "csv.hpp"
#include "errors.hpp"
#include "json_lines.hpp"
#include "text.hpp"

namespace tool {
namespace {

/// All rows; in the order of their keys where there is an index for it, so that two dumps of the
/// same rows are the same.
template <class F>
void each_row(const db::reader& at, const db::table& t, F&& f) {
  if (t.spec().primary == db::index_kind::ordered) {
    at.scan(t, {}, {}, f);
  } else {
    at.for_each(t, f);
  }
}

void append_row(std::string& to, const db::table& t, const db::row& r, text_format format) {
  if (format == text_format::csv) {
    append_csv_row(to, t, r);
    return;
  }
  append_json_row(to, t, r);
  to += '\n';
}

/// FNV-1a, and a finish that spreads what the last characters did.
std::uint64_t hash_of(std::string_view s) noexcept {
  std::uint64_t h = fnv1a(s);
  h = (h ^ h >> 32U) * 0xd6e8feb86659fd93U;
  return h ^ h >> 32U;
}

}  // namespace

std::vector<db::table*> chosen_tables(const db::database& base,
                                      const std::vector<std::string>& names) {
  const auto all = base.tables();
  if (names.empty()) return all;
  std::vector<db::table*> chosen;
  for (const std::string& n : names) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const db::table* t) { return t->name() == n; });
    if (found == all.end()) {
      std::string there;
      for (const db::table* t : all) there += (there.empty() ? "" : ", ") + t->name();
      throw usage_error(fmt::format("there is no table '{}'; there are: {}", n, there));
    }
    if (std::find(chosen.begin(), chosen.end(), *found) == chosen.end()) chosen.push_back(*found);
  }
  return chosen;
}

std::uint64_t dump_table(const db::reader& at, const db::table& t, text_format format,
                         byte_sink& to, std::uint64_t rows_before, const row_count& tell) {
  std::string line;
  if (format == text_format::csv) append_csv_header(line, t);
  to.write(line);
  std::uint64_t rows = 0;
  each_row(at, t, [&](const db::row& r) {
    line.clear();
    append_row(line, t, r, format);
    to.write(line);
    tell(rows_before + ++rows);
  });
  return rows;
}

std::uint64_t dump_stream(const db::reader& at, const std::vector<db::table*>& tables,
                          byte_sink& to, const row_count& tell) {
  std::vector<dumped_table> schema;
  for (const db::table* t : tables)
    schema.push_back({.spec = t->spec(), .file = {}, .rows = {}, .bytes = {}});
  to.write(schema_text(schema) + "\n");
  std::uint64_t rows = 0;
  std::string line;
  for (const db::table* t : tables) {
    std::string begin = "{";
    db::append_json_string(begin, t->name());
    begin += ':';
    each_row(at, *t, [&](const db::row& r) {
      line = begin;
      append_json_row(line, *t, r);
      line += "}\n";
      to.write(line);
      tell(++rows);
    });
  }
  to.write(fmt::format("{{\"rows\":{}}}\n", rows));
  return rows;
}

std::uint64_t dump_folder(const db::reader& at, const std::vector<db::table*>& tables,
                          text_format format, const std::filesystem::path& to,
                          const row_count& tell) {
  new_folder folder(to);
  std::vector<dumped_table> schema;
  for (const db::table* t : tables) {
    schema.push_back({.spec = t->spec(),
                      .file = file_name(t->name(), format, schema.size()),
                      .rows = {},
                      .bytes = {}});
  }
  std::uint64_t rows = 0;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    file_sink file(folder, schema[i].file);
    schema[i].rows = dump_table(at, *tables[i], format, file, rows, tell);
    rows += *schema[i].rows;
    file.finish();
    schema[i].bytes = file.written();
  }
  file_sink last(folder, "schema.json");
  last.write(schema_text(schema) + "\n");
  last.finish();
  folder.finish();
  return rows;
}

std::vector<db::table*> take_unnameable(std::vector<db::table*>& from) {
  std::vector<db::table*> taken;
  for (db::table* const t : from) {
    if (!has_names(t->spec())) taken.push_back(t);
  }
  std::erase_if(from, [&](const db::table* t) {
    return std::find(taken.begin(), taken.end(), t) != taken.end();
  });
  return taken;
}

std::string file_name(const std::string& table, text_format format, std::size_t number) {
  constexpr std::size_t longest = 200;
  std::string s;
  for (const char c : table) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter || c == '-' || c == '_' || (c == '.' && !s.empty())) {
      s += c;
    } else {
      s += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
  if (s.size() > longest) {
    s.resize(longest);
    s += fmt::format("%-{}", number);  // as no other name has it
  }
  return s + (format == text_format::csv ? ".csv" : ".jsonl");
}

content content_of(const db::reader& at, const db::table& t, const row_count& tell) {
  content sum;
  std::string line;
  at.for_each(t, [&](const db::row& r) {
    line.clear();
    append_json_row(line, t, r);
    sum.hash += hash_of(line);
    tell(++sum.rows);
  });
  return sum;
}

}  // namespace tool
