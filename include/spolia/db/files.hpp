// SPDX-License-Identifier: Apache-2.0
// files.hpp: the files under a durable database, as a layer that can be replaced: by the real one,
// or by one that fails, lies and tears, as tests need it.
//
// Idea:        a directory is opened once. From then on its files are found by their names within
//              it, whatever becomes of the directory's own name and of the process's working
//              directory.
// Errors:      storage_error, with the file, the position in it, and the system's reason. A layer
//              must not retry a sync that has failed: the system may have dropped the data, and a
//              second sync that succeeds says nothing about the first.
// Threads:     different files by different threads; one file by one thread at a time, but read()
//              by any number, and reserve() and map() beside another thread's write() and sync(). A
//              directory by any number.
// Calls back:  a layer may read the database that it is under. What waits for the call that it is
//              made from, such as a commit within a write to the log, throws
//              std::invalid_argument: docs/reference/store-threads.md has the list.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// What is wrong, where a program may have to decide by it.
enum class storage_fault : std::uint8_t {
  other,             ///< only problem() says what, and reason()
  unknown_format,    ///< this version does not know it: that is no damage
  changes,           ///< another process changes the files faster than they are read: try again
  longer,            ///< the file is whole, and more follows after its end
  damaged,           ///< what is in the file is wrong, or a file is missing
  another_database,  ///< the file is whole, and one of another database than the folder's
  not_writable       ///< the process may not write there: what is there, options::read_only opens
};

/// Something is wrong with the files of a database.
class SPOLIA_EXPORT storage_error : public std::runtime_error {
 public:
  static constexpr std::uint64_t nowhere = ~std::uint64_t{0};

  storage_error(std::filesystem::path file, std::uint64_t offset, std::string what,
                std::error_code reason = {}, storage_fault fault = storage_fault::other);

  [[nodiscard]] const std::filesystem::path& file() const noexcept { return file_; }
  /// In bytes; nowhere: it is about the whole file.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }
  /// The system's reason, if it had one.
  [[nodiscard]] std::error_code reason() const noexcept { return reason_; }
  [[nodiscard]] storage_fault fault() const noexcept { return fault_; }

 private:
  std::filesystem::path file_;
  std::uint64_t offset_;
  std::string problem_;
  std::error_code reason_;
  storage_fault fault_;
};

enum class file_mode : std::uint8_t {
  read,   ///< must exist
  write,  ///< made if it does not exist; what is in it stays
  fresh   ///< made; what was in it goes
};

enum class directory_mode : std::uint8_t {
  existing,  ///< must exist
  made       ///< made if it does not exist, with those above it
};

/// Identifies a file whatever its name is. Two openings of one file have the same identity, and no
/// other file has it as long as one of them lasts.
struct file_identity {
  std::uint64_t device = 0;
  std::uint64_t number = 0;
  bool operator==(const file_identity&) const = default;
};

enum class lock_result : std::uint8_t {
  locked,
  taken,       ///< another process, or another opening of this one, has it
  unsupported  ///< there are no locks here
};

class storage_file {
 public:
  storage_file() = default;
  storage_file(const storage_file&) = delete;
  storage_file& operator=(const storage_file&) = delete;
  virtual ~storage_file() = default;

  /// Fewer bytes than wanted only at the end. Several threads may read at once.
  virtual std::size_t read(std::uint64_t offset, std::span<std::byte> to) = 0;
  /// This part will be read soon: the system may begin with it now. Beside read().
  virtual void expect(std::uint64_t /*offset*/, std::size_t /*bytes*/) noexcept {}
  /// All of it.
  virtual void write(std::uint64_t offset, std::span<const std::byte> from) = 0;
  /// What was written survives a loss of power from here on.
  virtual void sync() = 0;
  /// write(), and sync() of that at least.
  virtual void write_and_sync(std::uint64_t offset, std::span<const std::byte> from) {
    write(offset, from);
    sync();
  }
  /// Makes the file longer by zeros, from `from` on, so that what is written there needs no more
  /// room. Nothing but zeros is there, if anything. storage_error, with the system's reason, where
  /// there is no room: then the file ends at `from`. As it is here, it writes the zeros. May be
  /// called while another thread writes to what is before `from`, or syncs.
  virtual void reserve(std::uint64_t from, std::uint64_t bytes) {
    static constexpr std::array<std::byte, 64U << 10U> zeros{};
    try {
      for (std::uint64_t done = 0; done < bytes;) {
        const auto part =
            static_cast<std::size_t>(std::min<std::uint64_t>(zeros.size(), bytes - done));
        write(from + done, std::span(zeros).first(part));
        done += part;
      }
    } catch (const storage_error&) {
      truncate(from);
      throw;
    }
  }
  /// That part of the file as memory, until the next call but one, truncate() or the file's end,
  /// where nothing can fail under it and sync() has nothing to do: what is put there is written,
  /// and as durable as it gets. Else nothing. May be called while others use the file and what the
  /// last call gave.
  virtual std::span<std::byte> map(std::uint64_t /*from*/, std::size_t /*bytes*/) noexcept {
    return {};
  }
  /// Tells the file that its name in the directory has changed, so that errors use the new one.
  /// Only the thread that uses the file calls this. A layer whose errors name no file need do
  /// nothing.
  virtual void renamed(const std::string& /*name*/) {}
  virtual void truncate(std::uint64_t size) = 0;
  [[nodiscard]] virtual std::uint64_t size() = 0;
  /// Until the file is closed. Not shared with other openings of the file by this process.
  virtual lock_result lock(bool exclusive) = 0;
  virtual file_identity identity() = 0;
};

/// A directory that was opened. Names are those of files within it, without a slash.
class storage_directory {
 public:
  /// `path`: how errors name it.
  explicit storage_directory(std::filesystem::path path) : path_(std::move(path)) {}
  storage_directory(const storage_directory&) = delete;
  storage_directory& operator=(const storage_directory&) = delete;
  virtual ~storage_directory() = default;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  virtual std::unique_ptr<storage_file> open(const std::string& name, file_mode how) = 0;
  /// Names of files.
  virtual std::vector<std::string> list() = 0;
  /// Takes the place of what was there, at once or not at all.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  /// It need not exist.
  virtual void remove(const std::string& name) = 0;
  /// Of the file that has this name now; nothing: none has.
  virtual std::optional<file_identity> identity(const std::string& name) = 0;
  /// Names made, renamed and removed in it survive a loss of power from here on. False: the file
  /// system has no way to be told so, and names are as durable as it makes them by itself.
  virtual bool sync() = 0;
  /// The same of the directory's own name, in the one above, and of the names of those above it, in
  /// this file system.
  virtual bool sync_own_name() = 0;
  /// Undoes an opening that is refused: removes the directory, and those above it, if
  /// open_directory() has made them and they are empty. A layer need not.
  virtual void remove_made() noexcept {}

 private:
  const std::filesystem::path path_;
};

/// See storage_files::open().
struct override_open_directory_and_find_files_by_names_within_it {};

class storage_files {
 public:
  storage_files() = default;
  storage_files(const storage_files&) = delete;
  storage_files& operator=(const storage_files&) = delete;
  virtual ~storage_files() = default;

  /// A directory that is made is durable, by name, in the one above it, where the file system can
  /// be told so.
  virtual std::unique_ptr<storage_directory> open_directory(const std::filesystem::path& directory,
                                                            directory_mode how) = 0;

 private:
  /// Layers once opened files by their paths. The compiler refuses a layer that still does, with an
  /// error that names this type. What open(), list(), rename(), remove() and sync_directory() did
  /// by paths is now done by the storage_directory that open_directory() returns.
  virtual override_open_directory_and_find_files_by_names_within_it open(
      const std::filesystem::path& /*file*/, file_mode /*how*/) {
    return {};
  }
};

/// How a path lies to a directory, as far as they are there: links are followed.
enum class path_place : std::uint8_t {
  elsewhere,
  same,    ///< it leads to the directory
  within,  ///< in it, or in one that is in it
  above    ///< the directory is within it
};
/// How the path lies to the directory. backup() accepts only `elsewhere`. This is about the
/// system's files, also where a database uses others. Throws std::bad_alloc.
SPOLIA_EXPORT path_place place_of(const std::filesystem::path& path,
                                  const std::filesystem::path& directory);

/// The system's own.
SPOLIA_EXPORT std::shared_ptr<storage_files> real_files();

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
