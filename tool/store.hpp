// SPDX-License-Identifier: Apache-2.0
// store.hpp: opening the directory of a store, with a bar while it takes long.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include <spolia/db.hpp>

#include "progress.hpp"

namespace tool {

namespace db = spolia::db;

/// How a store is looked at that a program may have open.
struct looking {
  progress_mode show = progress_mode::automatic;
  int nice = 0;  ///< 0 to 19: by how much this process steps back behind the program
};

/// To be read: nothing in the directory changes. Throws usage_error if there is no store there.
db::database open_to_read(const std::filesystem::path& directory, db::options o, looking how);
/// The same for a copy that was just made: whether it is whole.
db::database open_made(const std::filesystem::path& directory, db::options o, progress_mode show);
/// A store that exists, or a new one.
db::database open_to_write(const std::filesystem::path& directory, db::options o,
                           progress_mode show);

/// Whether an error says nothing about what is in the files: this process may not read them, or has
/// not the means; or they are of a format that it does not know.
bool says_nothing(const db::storage_error& e);
/// The same of what an opening has noted about such an error.
bool says_nothing(std::error_code reason, db::storage_fault fault);
/// Of a path at which there is no store.
[[noreturn]] void refuse_no_store(const std::filesystem::path& directory);
/// What is made of a store goes to a folder that is not the store's, nor in it, nor above it: it
/// would lie among its files and go with it, or take it along. Throws usage_error.
void refuse_within(const std::filesystem::path& store, const std::filesystem::path& to);

/// Whether a folder is there. Throws could_not_look if that cannot be seen.
bool is_folder(const std::filesystem::path& path);
/// Whether a store is there, in whatever state. Throws could_not_look if that cannot be
/// seen.
bool is_store(const std::filesystem::path& directory);
/// Whether a store's data files are there.
bool has_data(const std::filesystem::path& directory);
/// Whether it is a file that `spolia backup STORE -` has written.
bool is_stream_of_backup(const std::filesystem::path& path);
/// database::backup() or restore() has made it, and no program has opened it to be changed.
bool is_copy(const std::filesystem::path& directory);

/// What SPOLIA says, without an opening; empty: it has no such line.
struct store_identity {
  std::string format;
  std::string id;
};
store_identity identity_of(const std::filesystem::path& store);

/// Whether no process has the store, not even in another container, where numbers of processes say
/// nothing: then its lock is free. The look takes the lock for a moment, in which no process can
/// open the store: only for one that shows nothing new, or is damaged.
bool nobody_has(const std::filesystem::path& store);
/// Whether a process has it open to change it, as far as that is seen. Looks as nobody_has() does,
/// unless the process is seen without that.
bool is_taken(const std::filesystem::path& store);

/// What is at fault, in one line: without the name of the library.
std::string plain(const std::exception& e);

}  // namespace tool
