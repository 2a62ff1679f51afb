// SPDX-License-Identifier: Apache-2.0
// command_salvage.cpp: `spolia salvage`: a new store out of what is whole of a damaged one.
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "bytes.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "store.hpp"
#include "text.hpp"

namespace tool {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

std::string records_text(const db::missing_records& m) {
  if (m.last == 0) return fmt::format("changes from {} on, if there were any", m.first);
  if (m.first == m.last) return fmt::format("change {}", m.first);
  return fmt::format("changes {} to {}", m.first, m.last);
}

std::string place_text(const db::damaged_place& d) {
  std::string s = printable(d.file.filename().string());
  if (d.offset != db::storage_error::nowhere) {
    s += fmt::format(" at {}, {}", d.offset, so_many(d.bytes, "byte"));
  }
  s += fmt::format(": {}", printable(d.what));
  if (d.missing.first != 0) s += fmt::format(" ({})", records_text(d.missing));
  return s;
}

void say_of_table(const db::salvaged_table& t) {
  fmt::print("\n{}: {}\n", printable(t.name), so_many(t.rows, "row"));
  for (const db::older_rows& o : t.older) {
    fmt::print("  {} may be older than {}, or deleted by {}\n", so_many(o.rows, "row"),
               records_text(o.than), o.than.first == o.than.last ? "it" : "them");
  }
  if (t.mixed != 0) {
    fmt::print("  of them, with newer values in some columns than in others: {}\n", t.mixed);
  }
  if (t.in_part != 0) {
    const std::string where =
        t.in_part_file.empty() ? "" : ": " + t.in_part_file.filename().string();
    fmt::print("  known in some columns only, beside these: {}{}\n", so_many(t.in_part, "row"),
               where);
  }
  if (t.incomplete) fmt::print("  rows may be missing that were in a damaged checkpoint\n");
  if (t.doubtful) {
    fmt::print(
        "  its rows may be those of another table with such columns, of which the "
        "definition is lost\n");
  }
  if (!t.former_name.empty()) {
    fmt::print(
        "  it was called {}, which is another table now: it was renamed or dropped since, and its "
        "name here is made up\n",
        printable(t.former_name));
  }
  for (const std::string& i : t.not_unique) {
    fmt::print("  index {} is not unique any more: some rows have the same key\n", printable(i));
  }
  for (const std::string& i : t.lost_indexes) {
    fmt::print("  index {} could not be made\n", printable(i));
  }
}

void say_what_is_missing(const salvage_request& r, const db::salvage_report& done) {
  if (!r.dry_run) fmt::print("new store    {}\n", printable(r.to.string()));
  if (done.checkpoint_sequence != 0) {
    fmt::print("checkpoint   up to change {}\n", done.checkpoint_sequence);
  }
  fmt::print("log          {} used, up to record {}\n", so_many(done.records, "record"),
             done.sequence);
  for (const db::damaged_place& d : done.damage) fmt::print("damage       {}\n", place_text(d));
  for (const db::missing_records& m : done.missing) {
    fmt::print("missing      {}\n", records_text(m));
  }
  if (done.lost_rows != 0 || done.more_rows_lost) {
    fmt::print("missing      {}{} of a checkpoint\n", so_many(done.lost_rows, "row"),
               done.more_rows_lost ? " or more" : "");
  }
  if (done.unused_records != 0) {
    fmt::print("not used     {} without damage, which the others leave no place for\n",
               so_many(done.unused_records, "record"));
  }
  for (const db::lost_table& t : done.lost_tables) {
    fmt::print(
        "lost         the definition of table number {}: {} of it in a checkpoint, {} in "
        "the log\n",
        t.number, so_many(t.rows, "row"), so_many(t.changes, "change"));
  }
  for (const std::string& n : done.notes) fmt::print("note         {}\n", printable(n));
  for (const db::salvaged_table& t : done.tables) say_of_table(t);
}

json json_of(const db::missing_records& m) {
  if (m.first == 0) return nullptr;
  return {{"first", m.first}, {"last", m.last == 0 ? json(nullptr) : json(m.last)}};
}

json json_of(const db::salvaged_table& t) {
  json one = {{"name", t.name},
              {"rows", t.rows},
              {"older", json::array()},
              {"mixed", t.mixed},
              {"in_part", t.in_part},
              {"in_part_file", t.in_part_file.filename().string()},
              {"incomplete", t.incomplete},
              {"doubtful", t.doubtful},
              {"former_name", t.former_name},
              {"not_unique", t.not_unique},
              {"lost_indexes", t.lost_indexes}};
  for (const db::older_rows& o : t.older) {
    one["older"].push_back({{"than", json_of(o.than)}, {"rows", o.rows}});
  }
  return one;
}

void say_it_in_json(const salvage_request& r, const db::salvage_report& done) {
  json all = {{"store", r.store.string()},
              {"new_store", r.dry_run ? json(nullptr) : json(r.to.string())},
              {"complete", done.complete()},
              {"checkpoint_sequence", done.checkpoint_sequence},
              {"sequence", done.sequence},
              {"records", done.records},
              {"damage", json::array()},
              {"missing", json::array()},
              {"lost_rows", done.lost_rows},
              {"more_rows_lost", done.more_rows_lost},
              {"unused_records", done.unused_records},
              {"lost_tables", json::array()},
              {"notes", done.notes},
              {"tables", json::array()}};
  for (const db::damaged_place& d : done.damage) {
    const bool whole = d.offset == db::storage_error::nowhere;
    all["damage"].push_back({{"file", d.file.filename().string()},
                             {"offset", whole ? json(nullptr) : json(d.offset)},
                             {"bytes", whole ? json(nullptr) : json(d.bytes)},
                             {"what", d.what},
                             {"missing", json_of(d.missing)}});
  }
  for (const db::missing_records& m : done.missing) all["missing"].push_back(json_of(m));
  for (const db::lost_table& t : done.lost_tables) {
    all["lost_tables"].push_back({{"number", t.number}, {"rows", t.rows}, {"changes", t.changes}});
  }
  for (const db::salvaged_table& t : done.tables) all["tables"].push_back(json_of(t));
  fmt::print("{}\n", all.dump(-1, ' ', false, json::error_handler_t::replace));
}

db::salvage_report run_it(const salvage_request& r, const fs::path& to, const common& c) {
  db::salvage_options o;
  o.dry_run = r.dry_run;
  o.store = c.chosen.store;
  progress bar("salvage", 0, c.show);
  o.on_progress = [&](const db::recovery_progress& p) {
    bar.total(p.of);
    bar.at(p.done);
  };
  return db::salvage(r.store, to, o);
}

db::salvage_report into_new(const salvage_request& r, const common& c) {
  std::error_code ignored;
  // That may be the one place with room for it.
  const bool empty = fs::is_directory(r.to, ignored) && fs::is_empty(r.to, ignored);
  if (empty && !new_folder::can_replace(r.to)) return run_it(r, r.to, c);
  new_folder folder(r.to);
  const db::salvage_report done = run_it(r, folder.place(), c);
  folder.finish();
  return done;
}

}  // namespace

void run_salvage(const salvage_request& r, const common& c) {
  if (!is_folder(r.store)) refuse_no_store(r.store);
  if (!r.dry_run && r.to.empty()) throw usage_error("name the new folder, or give --dry-run");
  if (!r.dry_run) refuse_within(r.store, r.to);
  const db::salvage_report done = r.dry_run ? run_it(r, {}, c) : into_new(r, c);
  (r.json ? say_it_in_json : say_what_is_missing)(r, done);
  if (!done.complete()) {
    throw something_is_missing(
        "something is missing, or may be: the report on standard output says what and where");
  }
}

}  // namespace tool
