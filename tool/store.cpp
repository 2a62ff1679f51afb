// SPDX-License-Identifier: Apache-2.0
#include "store.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "text.hpp"

namespace tool {
namespace {

namespace fs = std::filesystem;

/// A user who dumps or copies a store has to know what is not in it.
void tell_what_is_left_out(const db::recovery_report& found) {
  if (found.left_out_rows == 0) return;
  for (const std::string& note : found.notes) say(note + "\n");
}

/// It is about what is in a file, or is missing; not about the system, or another process.
bool is_damage(const db::storage_error& e) {
  const std::string file = e.file().filename().string();
  const bool data = file.starts_with("log-") || file.starts_with("checkpoint-");
  const bool missing = e.problem().find("are missing") != std::string::npos ||
                       e.problem().find("no file SPOLIA") != std::string::npos;
  const bool identity = file == "SPOLIA" && e.problem().find("is damaged") != std::string::npos;
  return !e.reason() && !says_nothing(e) && (data || missing || identity);
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
    const char* const copy =
        is_copy(directory) ? "; the copy is damaged: make a new one, in another folder" : "";
    throw failure(plain(e) + copy + "; spolia salvage makes a new store out of what is whole");
  }
}

/// What is not there is an answer; what this process may not look at is none.
[[noreturn]] void fail_to_look(const fs::path& at, const std::error_code& why) {
  throw could_not_look(at.string() + ": cannot look at it: " + why.message());
}

bool has_data(const fs::path& directory) {
  std::error_code why;
  const fs::directory_iterator all(directory, why);
  if (why == std::errc::no_such_file_or_directory || why == std::errc::not_a_directory) {
    return false;
  }
  if (why) fail_to_look(directory, why);
  for (fs::directory_iterator one = all; one != fs::directory_iterator(); one.increment(why)) {
    if (one->path().extension() == ".spl") return true;
  }
  if (why) fail_to_look(directory, why);  // which has ended it
  return false;
}

}  // namespace

bool says_nothing(const db::storage_error& e) {
  if (e.reason()) return is_denied(e.reason().value());
  // As said by a look into a store whose program goes on faster.
  return e.problem().find("a format that this version does not know") != std::string::npos ||
         e.problem().find(": try again") != std::string::npos;
}

bool notes_say_nothing(const std::vector<std::string>& notes) {
  constexpr int most_reasons = 200;  // of any system
  return std::all_of(notes.begin(), notes.end(), [](const std::string& note) {
    for (int reason = 1; reason < most_reasons; ++reason) {
      if (is_denied(reason) && note.ends_with(": " + std::system_category().message(reason))) {
        return true;
      }
    }
    return false;
  });
}

void refuse_no_store(const fs::path& directory) {
  if (directory.empty()) throw usage_error("a store needs a name: '' is not the folder of one");
  throw usage_error(directory.string() + " is not the folder of a store");
}

namespace {

/// Where a path leads, as far as it is there.
fs::path leads_to(const fs::path& path) {
  std::error_code ignored;
  const fs::path known = fs::weakly_canonical(fs::absolute(path, ignored), ignored);
  return known.has_filename() ? known : known.parent_path();  // folder/
}

bool lies_in(fs::path path, const fs::path& folder) {
  std::error_code ignored;
  while (path != folder && !fs::equivalent(path, folder, ignored)) {
    if (path == path.parent_path()) return false;
    path = path.parent_path();
  }
  return true;
}

}  // namespace

// As database::backup() does, before the store is opened.
void refuse_within(const fs::path& store, const fs::path& to) {
  const fs::path here = leads_to(store);
  const fs::path there = leads_to(to);
  const bool in = lies_in(there, here);
  const bool above = lies_in(here, there);
  if (!in && !above) return;
  const char* const how = !above ? "is in the folder of the store"
                          : !in  ? "has the folder of the store in it"
                                 : "is the folder of the store";
  throw usage_error(fmt::format("{} {}; choose another place", to.string(), how));
}

bool is_folder(const fs::path& path) {
  std::error_code why;
  const fs::file_status there = fs::status(path, why);
  if (there.type() == fs::file_type::none) fail_to_look(path, why);
  return fs::is_directory(there);
}

bool is_store(const fs::path& directory) {
  std::error_code why;
  const fs::file_status there = fs::status(directory / "SPOLIA", why);
  if (there.type() == fs::file_type::none) fail_to_look(directory, why);
  return fs::exists(there);
}

bool is_copy(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / "COPY", ignored);
}

db::database open_to_read(const fs::path& directory, db::options o, looking how) {
  if (!is_store(directory) && !has_data(directory)) refuse_no_store(directory);
  o.read_only = true;
  o.attach = true;  // a program may have it
  // The program's threads go first where there are fewer processors than work. Threads that this
  // process starts from now on inherit it; to step back is always allowed.
  if (how.nice != 0) static_cast<void>(::nice(how.nice));
  return open_old(directory, std::move(o), how.show);
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
