// SPDX-License-Identifier: Apache-2.0
#include "load_from.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "csv.hpp"
#include "errors.hpp"
#include "json_lines.hpp"
#include "store.hpp"
#include "text.hpp"

namespace tool {
namespace {

namespace fs = std::filesystem;

void make(db::database& base, const db::table_spec& spec) {
  try {
    base.create_table(spec);
  } catch (const std::invalid_argument& e) {
    throw failure(fmt::format("table {} cannot be made: {}", printable(spec.name), plain(e)));
  }
}

std::vector<dumped_table> read_schema(const fs::path& path) {
  file_source file(path);
  std::string text;
  std::string part(1U << 16U, '\0');
  while (const std::size_t got = file.read(part.data(), part.size())) {
    text.append(part, 0, got);
    if (text.size() > text_input::longest) throw failure(path.string() + ": too long for a schema");
  }
  return parse_schema(text, path.string());
}

text_format format_of(const load_request& r) {
  if (r.format) return *r.format;
  return r.from.extension() == ".csv" ? text_format::csv : text_format::json;
}

text_format format_of_file(const std::string& name) {
  return name.ends_with(".csv") ? text_format::csv : text_format::json;
}

std::vector<std::string> names_of(const std::vector<dumped_table>& tables) {
  std::vector<std::string> names;
  for (const dumped_table& t : tables) names.push_back(t.spec.name);
  return names;
}

/// The schema of a dump names files beside it, and no others.
void check_file(const fs::path& folder, const dumped_table& t) {
  const fs::path name = t.file;
  if (t.file.empty() || name.has_parent_path() || name == "." || name == "..") {
    throw failure(fmt::format("{}: table {} has no file of this folder",
                              (folder / "schema.json").string(), t.spec.name));
  }
  std::error_code why;
  const auto size = fs::file_size(folder / name, why);
  if (why)
    throw failure(fmt::format("cannot read {}: {}", (folder / name).string(), why.message()));
  if (t.bytes && *t.bytes != size) {
    throw failure(fmt::format("{}: {}, where the dump had {}", (folder / name).string(),
                              so_many(size, "byte"), *t.bytes));
  }
}

std::unique_ptr<row_source> one_table(text_format format, byte_source& from,
                                      const std::string& name, text_input& lines, db::table& into) {
  if (format == text_format::csv) return std::make_unique<csv_source>(from, name, into);
  return std::make_unique<json_source>(lines, into);
}

}  // namespace

load_job::load_job(load_request request) : request_(std::move(request)) {
  if (!request_.schema.empty()) tables_ = read_schema(request_.schema);
  if (request_.from != standard_stream && fs::is_directory(request_.from)) {
    kind_ = kind::folder;
    if (request_.format) throw usage_error("--format is for files; a folder's schema says it");
    read_folder();
    return;
  }
  format_ = format_of(request_);
  if (!request_.table.empty()) {
    kind_ = kind::one_table;
    described_ = names_of(tables_);
    std::erase_if(tables_, [&](const auto& t) { return t.spec.name != request_.table; });
  } else if (format_ == text_format::csv) {
    throw usage_error("give --table NAME: the file has rows of one table");
  } else {
    kind_ = kind::stream;
    if (!request_.schema.empty()) throw usage_error("--schema: a stream has its own");
  }
  file_ = std::make_unique<file_source>(request_.from);
}

void load_job::read_folder() {
  if (!request_.schema.empty()) throw usage_error("--schema: a folder has its own");
  std::error_code ignored;
  if (is_store(request_.from) && !fs::exists(request_.from / "schema.json", ignored)) {
    throw usage_error(request_.from.string() + " is a store, not a dump: spolia dump it first");
  }
  tables_ = read_schema(request_.from / "schema.json");
  if (!request_.table.empty()) {
    std::erase_if(tables_, [&](const auto& t) { return t.spec.name != request_.table; });
    if (tables_.empty()) throw usage_error("the folder has no table '" + request_.table + "'");
  }
  for (const dumped_table& t : tables_) check_file(request_.from, t);
}

/// Before anything is changed.
void load_job::begin(const std::vector<std::string>& tables, load_notes& notes) const {
  const bool stream = request_.from == standard_stream;
  notes.begin(stream ? "standard input" : request_.from.string(), tables, request_.start_over);
}

/// Looks at all tables before it makes the first.
void load_job::prepare(db::database& base, load_notes& notes) const {
  std::vector<std::string> missing;
  for (const dumped_table& t : tables_) {
    const db::table* const there = base.try_find_table(t.spec.name);
    if (there != nullptr) {
      const std::string differs = db::difference(there->spec(), t.spec);
      if (!differs.empty()) {
        throw failure(
            fmt::format("table {} exists with other columns or indexes: {}", t.spec.name, differs));
      }
    }
    if (there == nullptr) missing.push_back(t.spec.name);
  }
  db::database trial = db::database::open();  // what cannot be made is refused before the first
  for (const dumped_table& t : tables_) make(trial, t.spec);
  notes.make(missing);
  for (const dumped_table& t : tables_) {
    if (base.try_find_table(t.spec.name) == nullptr) make(base, t.spec);
    notes.use(base.find_table(t.spec.name));
  }
}

void load_job::run(db::database& base, load_notes& notes, load_counts& done) {
  switch (kind_) {
    case kind::folder:
      return run_folder(base, notes, done);
    case kind::stream:
      return run_stream(base, notes, done);
    case kind::one_table:
      return run_file(base, notes, done);
  }
}

void load_job::run_folder(db::database& base, load_notes& notes, load_counts& done) {
  begin(names_of(tables_), notes);
  prepare(base, notes);
  for (const dumped_table& t : tables_) {
    file_source file(request_.from / t.file);
    text_input lines(file, file.name());
    const auto rows =
        one_table(format_of_file(t.file), file, file.name(), lines, base.find_table(t.spec.name));
    const std::uint64_t count = load(base, *rows, notes, done, file.size());
    if (t.rows && count != *t.rows) {
      throw failure(fmt::format("{}: {}, where the dump had {}", file.name(), so_many(count, "row"),
                                *t.rows));
    }
  }
}

void load_job::run_stream(db::database& base, load_notes& notes, load_counts& done) {
  text_input lines(*file_, file_->name());
  std::string first;
  if (!lines.next_line(first)) lines.fail("there is nothing to load");
  tables_ = parse_schema(first, file_->name() + ":1:1");
  begin(names_of(tables_), notes);
  prepare(base, notes);
  stream_source rows(lines, [&](std::string_view name) {
    const bool ours = std::any_of(tables_.begin(), tables_.end(),
                                  [&](const auto& t) { return t.spec.name == name; });
    return ours ? base.try_find_table(name) : nullptr;
  });
  load(base, rows, notes, done, file_->size());
}

void load_job::run_file(db::database& base, load_notes& notes, load_counts& done) {
  text_input lines(*file_, file_->name());
  begin({request_.table}, notes);
  prepare(base, notes);
  db::table* const into = base.try_find_table(request_.table);
  if (into == nullptr && !request_.schema.empty()) {
    throw failure(fmt::format("{} has no table '{}'; there are: {}", request_.schema.string(),
                              request_.table, fmt::join(described_, ", ")));
  }
  if (into == nullptr) {
    throw failure("there is no table " + request_.table + "; --schema can say how to make it");
  }
  notes.use(*into);
  const auto rows = one_table(format_, *file_, file_->name(), lines, *into);
  load(base, *rows, notes, done, file_->size());
}

/// How many rows there were.
std::uint64_t load_job::load(db::database& base, row_source& rows, load_notes& notes,
                             load_counts& done, std::uint64_t total) {
  progress bar("load", total, request_.show);
  const std::uint64_t before = done.rows();
  std::uint64_t count = 0;
  load_rows(base, rows, request_.options, notes, done,
            [&](const row_source& at) { bar.at(at.bytes(), before + ++count); });
  return count;
}

}  // namespace tool
