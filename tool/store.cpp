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

}  // namespace

bool is_store(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / "SPOLIA", ignored);
}

db::database open_to_read(const fs::path& directory, db::options o, progress_mode show) {
  if (!is_store(directory)) throw usage_error(directory.string() + " is not the folder of a store");
  o.read_only = true;
  o.attach = true;  // a program may have it
  return open_it(directory, std::move(o), show);
}

db::database open_to_write(const fs::path& directory, db::options o, progress_mode show) {
  return open_it(directory, std::move(o), show);
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
