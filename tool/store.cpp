// SPDX-License-Identifier: Apache-2.0
#include "store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <spolia/db/store_status.hpp>

#include "bytes.hpp"
#include "errors.hpp"
#include "text.hpp"

namespace tool {
namespace {

namespace fs = std::filesystem;

/// A user who dumps or copies a store has to know what is not in it.
void tell_what_is_left_out(const db::recovery_report& found) {
  if (found.left_out_rows == 0) return;
  for (const db::recovery_note& note : found.notes) say(note.text + "\n");
}

/// It is about what is in a file, or is missing; not about the system, or another process.
bool is_damage(const db::storage_error& e) {
  return e.fault() == db::storage_fault::damaged || e.fault() == db::storage_fault::longer ||
         e.fault() == db::storage_fault::another_database;
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

/// None: it is not there, or the file system has no locks.
std::optional<bool> lock_is_free(const fs::path& store) {
  const int fd = ::open((store / "SPOLIA").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  const bool had = ::flock(fd, LOCK_SH | LOCK_NB) == 0;
  const bool taken = !had && errno == EWOULDBLOCK;
  ::close(fd);
  if (!had && !taken) return std::nullopt;
  return had;
}

/// What there is to do about damage. A program that has the store open may have rows in its memory
/// that the files have lost, so no advice is to end it.
std::string what_helps(const fs::path& directory) {
  const char* const keep =
      " has it open, and its memory may be whole: do not stop it; let it call checkpoint() or "
      "backup()";
  if (const auto holder = db::find_holder(directory)) {
    const std::string name = holder->name.empty() ? "" : " (" + printable(holder->name) + ")";
    return fmt::format("; process {}{}{}", holder->process, name, keep);
  }
  if (!is_store(directory)) {
    return "; where SPOLIA is missing, no process is seen that has it open: if there is one, do "
           "not "
           "stop it, put the same file back, and let it call resume(), or backup(). If there is "
           "none, spolia salvage makes a new store out of what is whole";
  }
  if (lock_is_free(directory) == false) {
    return std::string("; a process that is not seen from here") + keep;
  }
  return "; spolia salvage makes a new store out of what is whole";
}

/// Whether SPOLIA is right: there are data files that have its number of the store.
bool has_own_files(const fs::path& directory) {
  const std::string id = identity_of(directory).id;
  std::error_code ignored;
  const fs::directory_iterator none;
  for (fs::directory_iterator one(directory, ignored); !ignored && one != none;
       one.increment(ignored)) {
    if (one->path().extension() != ".spl") continue;
    std::array<char, 32> header{};
    std::ifstream(one->path(), std::ios::binary).read(header.data(), header.size());
    std::string theirs;  // docs/formats.md: behind 16 bytes
    for (std::size_t i = 16; i < header.size(); ++i) {
      theirs += fmt::format("{:02x}", static_cast<unsigned char>(header[i]));
    }
    if (theirs == id) return true;
  }
  return false;
}

/// Says what can be done about damage.
db::database open_old(const fs::path& directory, db::options o, progress_mode show) {
  try {
    return open_it(directory, std::move(o), show);
  } catch (const db::storage_error& e) {
    if (!is_damage(e)) throw;
    if (e.fault() == db::storage_fault::another_database && has_own_files(directory)) {
      throw failure(plain(e) + "; move this file out of the folder");
    }
    const char* const copy =
        is_copy(directory) ? "; the copy is damaged: make a new one, in another folder" : "";
    throw failure(plain(e) + copy + what_helps(directory));
  }
}

/// What is not there is an answer; what this process may not look at is none.
[[noreturn]] void fail_to_look(const fs::path& at, const std::error_code& why) {
  throw could_not_look(at.string() + ": cannot look at it: " + why.message());
}

}  // namespace

bool is_stream_of_backup(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  std::array<char, 8> mark{};
  std::ifstream(path, std::ios::binary).read(mark.data(), mark.size());
  return std::string_view(mark.data(), mark.size()) == "SPOLIACP";
}

bool says_nothing(std::error_code reason, db::storage_fault fault) {
  if (reason) return is_denied(reason.value());
  return fault == db::storage_fault::unknown_format || fault == db::storage_fault::changes;
}

bool says_nothing(const db::storage_error& e) { return says_nothing(e.reason(), e.fault()); }

void refuse_no_store(const fs::path& directory) {
  if (directory.empty()) throw usage_error("a store needs a name: '' is not the folder of one");
  const std::string name = directory.string();
  const std::string no_store = name + " is not the folder of a store: ";
  if (directory == standard_stream) throw usage_error(no_store + "a stream is none");
  std::error_code ignored;
  const fs::file_status there = fs::status(directory, ignored);
  if (!fs::exists(there)) throw usage_error(no_store + "there is nothing of that name");
  if (is_stream_of_backup(directory)) {
    throw usage_error(no_store + "it is a copy as a stream; use: spolia restore - NEW < " + name);
  }
  if (!fs::is_directory(there)) throw usage_error(no_store + "it is a file");
  throw usage_error(no_store + "it has no file SPOLIA and no data files");
}

// As database::backup() does, before the store is opened.
void refuse_within(const fs::path& store, const fs::path& to) {
  const db::path_place where = db::place_of(to, store);
  if (where == db::path_place::elsewhere) return;
  const char* const how = where == db::path_place::within  ? "is in the folder of the store"
                          : where == db::path_place::above ? "has the folder of the store in it"
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
  try {
    return open_old(directory, std::move(o), show);
  } catch (const db::storage_error& e) {
    if (e.fault() != db::storage_fault::not_writable) throw;
    if (e.reason().value() == EROFS) {
      throw failure(e.file().string() + ": you may not write there: the disk is read-only");
    }
    throw could_not_look(e.file().string() + ": you may not write there; run it as its owner");
  }
}

store_identity identity_of(const fs::path& store) {
  store_identity says;
  std::ifstream identity(store / "SPOLIA", std::ios::binary);
  for (std::string line; std::getline(identity, line);) {
    if (line.starts_with("format ")) says.format = line.substr(7);
    if (line.starts_with("id ")) says.id = line.substr(3);
  }
  return says;
}

bool nobody_has(const fs::path& store) { return lock_is_free(store).value_or(false); }

bool is_taken(const fs::path& store) {
  return db::find_holder(store).has_value() || lock_is_free(store) == false;
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
