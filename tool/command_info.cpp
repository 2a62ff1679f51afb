// SPDX-License-Identifier: Apache-2.0
// command_info.cpp: `spolia info`.
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>

#include <spolia/db/store_status.hpp>

#include "commands.hpp"
#include "schema_json.hpp"
#include "store.hpp"
#include "text.hpp"

namespace tool {
namespace {

using json = nlohmann::ordered_json;

/// Of the folder, beside what an opening finds.
struct folder_info {
  store_identity identity;
  std::filesystem::path newest;  // data file; empty: none
  std::uint64_t newest_ns = 0;   // since 1970
  std::optional<db::store_holder> holder;
};

std::uint64_t changed_at(const std::filesystem::path& file) {
  struct stat s{};
  if (::stat(file.c_str(), &s) != 0) return 0;  // it may have gone
#if defined(__APPLE__)
  const timespec& t = s.st_mtimespec;
#else
  const timespec& t = s.st_mtim;
#endif
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(t.tv_nsec);
}

/// Before it is opened: to look changes no time of change.
folder_info look_at(const std::filesystem::path& store) {
  folder_info f;
  f.identity = identity_of(store);
  std::error_code ignored;
  const std::filesystem::directory_iterator none;
  for (std::filesystem::directory_iterator one(store, ignored); !ignored && one != none;
       one.increment(ignored)) {
    const std::string name = one->path().filename().string();
    const bool data = name.starts_with("log-") || name.starts_with("checkpoint-");
    if (!data || one->path().extension() != ".spl") continue;
    if (const std::uint64_t at = changed_at(one->path()); at > f.newest_ns) {
      f.newest = one->path().filename();
      f.newest_ns = at;
    }
  }
  f.holder = db::find_holder(store);
  return f;
}

/// To the second, as the world's clocks have it.
std::string time_text(std::uint64_t ns) {
  const auto seconds = static_cast<std::time_t>(ns / 1'000'000'000U);
  std::tm t{};
  if (::gmtime_r(&seconds, &t) == nullptr) return "a time that is out of range";
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", t.tm_year + 1900, t.tm_mon + 1,
                     t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec);
}

void print_folder(const folder_info& f) {
  fmt::print("format       {}\n", printable(f.identity.format));
  fmt::print("id           {}\n", printable(f.identity.id));
  if (!f.newest.empty()) {
    fmt::print("newest file  {}, written to at {}\n", printable(f.newest.string()),
               time_text(f.newest_ns));
  }
  if (f.holder) {
    const std::string name = f.holder->name.empty() ? "" : fmt::format(" ({})", f.holder->name);
    fmt::print("open in      process {}{}\n", f.holder->process, printable(name));
  }
}

void add_folder(json& all, const folder_info& f) {
  all["format"] = f.identity.format;
  all["id"] = f.identity.id;
  all["newest_file"] = f.newest.string();
  all["newest_file_ns"] = f.newest_ns;
  all["open_in"] = nullptr;
  if (f.holder) all["open_in"] = {{"process", f.holder->process}, {"name", f.holder->name}};
}

/// What is looked up once, for both ways to print it.
struct table_info {
  db::table_spec spec;
  content rows;
  std::uint64_t bytes = 0;  // of the rows
  std::uint64_t index_bytes = 0;

  [[nodiscard]] std::uint64_t bytes_in_all() const noexcept { return bytes + index_bytes; }
};

std::string column_text(const db::column_spec& c) {
  std::string s = fmt::format("{} {}", printable(c.name), type_name(c.type.base));
  if (c.type.base == db::base_type::text) s += fmt::format("({})", c.type.bytes);
  if (c.type.base == db::base_type::decimal) s += fmt::format("({})", c.type.digits);
  if (c.role == db::primary_key) s += " key";
  if (c.role == db::nullable) s += " nullable";
  return s;
}

std::string index_text(const db::index_spec& i) {
  return fmt::format("{}{}index {} ({})", i.unique ? "unique " : "",
                     i.kind == db::index_kind::hash ? "hash " : "", printable(i.name),
                     printable(fmt::format("{}", fmt::join(i.columns, ", "))));
}

void print_table(const table_info& t, bool hash) {
  fmt::print("\n{}: {}; in memory {}B of rows and {}B of indexes, {}B in all",
             printable(t.spec.name), so_many(t.rows.rows, "row"), short_count(t.bytes),
             short_count(t.index_bytes), short_count(t.bytes_in_all()));
  if (hash) fmt::print(", hash {:016x}", t.rows.hash);
  fmt::print("\n");
  for (const auto& c : t.spec.columns) fmt::print("  {}\n", column_text(c));
  for (const auto& i : t.spec.indexes) fmt::print("  {}\n", index_text(i));
}

void print_text(const std::filesystem::path& store, const folder_info& folder,
                const db::recovery_report& found, const std::vector<table_info>& tables,
                bool hash) {
  fmt::print("store        {}\n", printable(store.string()));
  print_folder(folder);
  fmt::print("last change  {}\n", found.sequence);
  fmt::print("checkpoint   {}, up to change {}\n", so_many(found.checkpoint_rows, "row"),
             found.checkpoint_sequence);
  fmt::print("log          {} after it, {}B\n", so_many(found.log_records, "record"),
             short_count(found.log_bytes));
  if (found.cut_bytes != 0) {
    fmt::print("torn end     {} at {} of {}: {}\n", so_many(found.cut_bytes, "byte"),
               found.cut_offset, printable(found.cut_file.string()), found.cut_why);
  }
  for (const db::recovery_note& n : found.notes) {
    fmt::print("note         {}\n", printable(n.text));
  }
  fmt::print("opened in    {:.3f} s\n", std::chrono::duration<double>(found.took).count());
  for (const table_info& t : tables) print_table(t, hash);
}

void print_json(const std::filesystem::path& store, const folder_info& folder,
                const db::recovery_report& found, const std::vector<table_info>& tables,
                bool hash) {
  json all = {{"store", store.string()},
              {"sequence", found.sequence},
              {"checkpoint_sequence", found.checkpoint_sequence},
              {"checkpoint_rows", found.checkpoint_rows},
              {"log_records", found.log_records},
              {"log_bytes", found.log_bytes},
              {"cut_bytes", found.cut_bytes},
              {"notes", json::array()},
              {"tables", json::array()}};
  for (const db::recovery_note& n : found.notes) all["notes"].push_back(n.text);
  add_folder(all, folder);
  for (const table_info& t : tables) {
    json one = {{"name", t.spec.name},
                {"rows", t.rows.rows},
                {"table_bytes", t.bytes},
                {"index_bytes", t.index_bytes},
                {"bytes", t.bytes_in_all()}};
    if (hash) one["hash"] = fmt::format("{:016x}", t.rows.hash);
    for (const auto& c : t.spec.columns) one["columns"].push_back(column_text(c));
    for (const auto& i : t.spec.indexes) one["indexes"].push_back(index_text(i));
    all["tables"].push_back(std::move(one));
  }
  fmt::print("{}\n", all.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace

void run_info(const info_request& r, const common& c) {
  const folder_info folder = look_at(r.store);
  const db::database base = open_to_read(r.store, c.chosen.store, {c.show, c.nice});
  progress bar("read", 0, c.show);
  const db::reader now = base.snapshot("info");
  static_cast<void>(base.stats());  // counts the indexes
  std::vector<table_info> tables;
  for (const db::table* t : base.tables()) {
    table_info one{
        .spec = t->spec(), .rows = {}, .bytes = t->bytes(), .index_bytes = t->index_bytes()};
    if (r.hash) {
      one.rows = content_of(now, *t, [&](std::uint64_t rows) { bar.at(0, rows); });
    } else {
      now.for_each(*t, [&](const db::row&) { bar.at(0, ++one.rows.rows); });
    }
    tables.push_back(std::move(one));
  }
  (r.json ? print_json : print_text)(r.store, folder, base.recovered(), tables, r.hash);
}

}  // namespace tool
