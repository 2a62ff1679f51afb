// SPDX-License-Identifier: Apache-2.0
// folder.hpp: the directory of a database, or of a copy, that this process has opened. Internal.
//
// It is opened once and locked by its file SPOLIA, and everything that the store does to its files
// goes through this class. Before it makes, renames or removes a file, it checks whether the
// directory still has the SPOLIA that is locked. If another program has emptied the directory, or
// has put another database into it, the store would change files that are not its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/db/durability.hpp>
#include <spolia/db/files.hpp>

#include "db/files/lock_file.hpp"
#include "db/log/log_format.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// The files in a directory, in ascending order of sequences.
struct folder_content {
  std::vector<std::uint64_t> segments;
  std::vector<std::uint64_t> checkpoints;
  std::vector<std::string> temporary;
  bool copy = false;  ///< made by backup(), and never opened to be changed
  [[nodiscard]] bool has_data() const noexcept { return !segments.empty() || !checkpoints.empty(); }
};
inline constexpr const char* copy_marker = "COPY";
inline constexpr const char* unfinished_copy_text =
    "this is a copy that was not finished: its file COPY says so. Make the backup to it once more, "
    "or remove the directory";

database_id random_id();

/// Whether the error means that the system does not let this process open a file, or lacks the
/// resources: that says nothing about what is in the file.
bool means_denied(const storage_error& e) noexcept;

/// What an error says, without the library's name at its beginning: for a sentence that is made of
/// it.
std::string words_of(std::string what);

/// What to throw where what is in a file is wrong, or the file is missing.
storage_error damage_at(const std::filesystem::path& file, std::uint64_t at,
                        const std::string& why);

/// Nothing that is written comes into the directory that was opened, since that has other files
/// now. After any other error, what was written may be there all the same.
class lost_directory : public storage_error {
 public:
  using storage_error::storage_error;
};

/// A file has a format that this version does not know, and is undamaged as far as that can be
/// told. Its content is not to be read as that of a known format.
class unknown_format : public storage_error {
 public:
  unknown_format(const std::filesystem::path& file, std::uint32_t format)
      : unknown_format(file, std::to_string(format), format > storage_format) {}
  unknown_format(const std::filesystem::path& file, const std::string& format, bool newer)
      : storage_error(file, 0,
                      "it has a format that this version does not know, " + format +
                          (newer ? ", which is newer" : "") + ": it knows " +
                          std::to_string(oldest_format) + " to " + std::to_string(storage_format) +
                          ". Use the version that wrote it, or a newer one",
                      {}, storage_fault::unknown_format),
        newer_(newer) {}
  [[nodiscard]] bool newer() const noexcept { return newer_; }

 private:
  bool newer_;
};

/// The header of a segment or a checkpoint. `file` names it in errors. Throws storage_error if it
/// is no header, and unknown_format.
file_header checked_header(file_kind kind, bytes_view from, const std::filesystem::path& file);

struct folder_use {
  bool write = false;
  bool make = true;           ///< with `write`: make the directory and SPOLIA if there are none
  bool attach = false;        ///< read without a lock: attached.hpp
  bool without_lock = false;  ///< go on without a lock if there cannot be one
  /// Read, whatever is missing or damaged. If SPOLIA makes no sense, the folder is not known(); if
  /// there is none, nothing is locked. It is for the caller to throw newer().
  bool damaged = false;
};

class folder {
 public:
  static constexpr const char* identity_name = "SPOLIA";

  /// Opens and locks the directory, and reads SPOLIA if there is one. If they are to be made, they
  /// are removed again unless keep() is called: so an opening that is refused leaves everything as
  /// it was.
  folder(storage_files& files, const std::filesystem::path& directory, folder_use use);
  ~folder();
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;

  /// The path by which errors name the directory; and (`path_of`) a file in it.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return at_->path(); }
  [[nodiscard]] std::filesystem::path path_of(const std::string& name) const {
    return path() / name;
  }
  /// The checked_header() of a segment or checkpoint, if it also has the number of this database
  /// and the sequence that its name has. Throws as that does.
  file_header own_header(file_kind kind, std::uint64_t sequence, bytes_view from) const;

  /// Whether both have the same file SPOLIA, and so are the same directory, whatever the paths are.
  [[nodiscard]] bool is(const folder& other) const {
    return locked_->identity() == other.locked_->identity();
  }
  /// False: the directory is new.
  [[nodiscard]] bool known() const noexcept { return known_; }
  [[nodiscard]] const database_id& id() const noexcept { return id_; }
  /// For a folder that was opened as `damaged`: the error to throw if SPOLIA is of a newer format,
  /// and not damaged.
  [[nodiscard]] const std::optional<unknown_format>& newer() const noexcept { return newer_; }
  /// Whether SPOLIA says that there were segments or checkpoints.
  [[nodiscard]] bool had_data() const noexcept { return had_data_; }
  [[nodiscard]] directory_guard guard() const noexcept { return guard_; }
  /// False: the system cannot make names durable by sync().
  [[nodiscard]] bool durable_names() const noexcept { return durable_names_.load_relaxed(); }
  void make(const database_id& id, bool with_data);
  /// To be called when the opening succeeds: what was made stays, and lock files that ended
  /// processes have left are removed.
  void keep();
  /// Makes the directory's name and SPOLIA durable; for an opening, before it changes anything. An
  /// earlier process may have ended before it had done that.
  void settle();
  /// Notes in SPOLIA that there is data, and makes SPOLIA durable, also if another process has
  /// written it. To be called when a segment or a checkpoint has a durable name, and before
  /// anything in it is acknowledged.
  void note_data();

  /// Throws lost_directory if the directory is not ours any more, or the name is not that of this
  /// file any more. Throws storage_error if that cannot be told.
  void still_has(const std::string& name, storage_file& file) const;
  // As the functions of storage_directory. Those that change something throw lost_directory if the
  // directory is not ours any more, and have changed nothing then.
  std::unique_ptr<storage_file> open(const std::string& name, file_mode how);
  void rename(const std::string& from, const std::string& to);
  void remove(const std::string& name);
  void sync();
  /// The same for a folder that attaches. Segments before that one are known to be durable.
  void sync_from(std::uint64_t segment);
  [[nodiscard]] folder_content look() const;
  /// The same directory with the files that it has now, which can be read even if they are removed
  /// later: attached.hpp. This folder must outlive it.
  [[nodiscard]] std::unique_ptr<folder> pinned();
  [[nodiscard]] bool has(const std::string& name) const { return at_->identity(name).has_value(); }

 private:
  explicit folder(std::unique_ptr<storage_directory> at) noexcept;
  [[noreturn]] void refuse_without_identity(const folder_content& has, folder_use use) const;
  void refuse_links_to_nothing(const folder_content& has, folder_use use) const;
  std::unique_ptr<storage_file> open_identity(folder_use use, bool there);
  void have_damaged(folder_use use);
  void have(folder_use use);
  void have_by_lock_file(folder_use use);
  void parse(std::string_view text, bool beside_data);
  void blank() noexcept;
  void have_own_name();
  /// Throws lost_directory if the directory's SPOLIA is not the one that is locked.
  void still_ours() const;

  std::unique_ptr<storage_directory> at_;
  std::unique_ptr<storage_file> locked_;  // SPOLIA
  std::unique_ptr<lock_file> lock_file_;
  directory_guard guard_ = directory_guard::lock;
  bool kept_ = false;
  bool fresh_ = false;  // this object has made SPOLIA, and removes it if it is not kept
  bool known_ = false;
  std::optional<unknown_format> newer_;
  bool had_data_ = false;
  bool noted_ = false;     // this object has written that durably
  bool own_name_ = false;  // the directory's name is durable
  database_id id_{};
  atomic<bool> durable_names_{true};
};

/// Reads a whole file.
struct file_bytes {
  std::unique_ptr<std::byte[]> data;
  std::size_t size = 0;
  [[nodiscard]] bytes_view view() const noexcept { return {data.get(), size}; }
};
file_bytes read_file(folder& in, const std::string& name);

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
