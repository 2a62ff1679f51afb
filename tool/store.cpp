// SPDX-License-Identifier: Apache-2.0
#include "store.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

#include "errors.hpp"

namespace tool {
namespace {

namespace fs = std::filesystem;

/// A user who dumps or copies a store has to know what is not in it.
void tell_what_is_left_out(const db::recovery_report& found) {
  if (found.left_out_rows == 0) return;
  for (const std::string& note : found.notes) fmt::print(stderr, "{}\n", note);
}

/// It is about what is in a file, or is missing; not about the system, or another process.
bool is_damage(const db::storage_error& e) {
  const std::string file = e.file().filename().string();
  const bool data = file.starts_with("log-") || file.starts_with("checkpoint-");
  const bool missing = e.problem().find("are missing") != std::string::npos ||
                       e.problem().find("no file SPOLIA") != std::string::npos;
  const bool unknown = e.problem().find("format") != std::string::npos;
  return !e.reason() && !unknown && (data || missing);
}

db::database open_it(const fs::path& directory, db::options o, progress_mode show) {
  progress bar("open", 0, show);
  o.on_recovery = [&](const db::recovery_progress& p) {
    bar.total(p.of);
    bar.at(p.done);
  };
  db::database base = db::database::open(directory, o);
  tell_what_is_left_out(base.recovered());
  return base;
}

/// Says what can be done about damage.
db::database open_old(const fs::path& directory, db::options o, progress_mode show) {
  try {
    return open_it(directory, std::move(o), show);
  } catch (const db::storage_error& e) {
    if (!is_damage(e)) throw;
    throw failure(plain(e) + "; spolia salvage makes a new store out of what is whole");
  }
}

bool has_data(const fs::path& directory) {
  std::error_code ignored;
  for (const auto& one : fs::directory_iterator(directory, ignored)) {
    if (one.path().extension() == ".spl") return true;
  }
  return false;
}

}  // namespace

bool is_store(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / "SPOLIA", ignored);
}

db::database open_to_read(const fs::path& directory, db::options o, progress_mode show) {
  if (!is_store(directory) && !has_data(directory)) {
    throw usage_error(directory.string() + " is not the folder of a store");
  }
  o.read_only = true;
  o.attach = true;  // a program may have it
  return open_old(directory, std::move(o), show);
}

db::database open_made(const fs::path& directory, db::options o, progress_mode show) {
  o.read_only = true;
  return open_it(directory, std::move(o), show);
}

db::database open_to_write(const fs::path& directory, db::options o, progress_mode show) {
  return open_old(directory, std::move(o), show);
}

std::string plain(const std::exception& e) {
  constexpr std::string_view ours = "spolia::db: ";
  std::string s = e.what();
  if (s.starts_with(ours)) s.erase(0, ours.size());
  for (char& c : s) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return s;
}

}  // namespace tool
