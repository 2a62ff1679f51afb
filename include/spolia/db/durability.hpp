// SPDX-License-Identifier: Apache-2.0
// durability.hpp: what a database in a directory promises, and what it reports. docs/durability.md
// is the guide, with the files byte by byte.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/db/files.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// When commit() returns ok.
enum class durability_level : std::uint8_t {
  none,   ///< nothing is logged: checkpoint() alone saves
  async,  ///< at once; it is made durable within the loss window, by a thread of the database
  sync    ///< when it is durable, together with what other threads commit at the same time
};

/// How far opening a directory has come.
struct recovery_progress {
  std::string_view stage;      ///< "checkpoint", "log", "indexes"
  std::uint64_t done = 0;      ///< bytes; tables for indexes
  std::uint64_t of = 0;        ///< of so many
  std::uint64_t sequence = 0;  ///< the last change so far
};
using recovery_listener = std::function<void(const recovery_progress&)>;

/// What keeps others out of a directory that a process has.
enum class directory_guard : std::uint8_t {
  lock,       ///< one of the system's, on the file SPOLIA
  lock_file,  ///< the file system has none: files that say which process of this machine has it
  nothing     ///< nor can those be made: options::allow_without_lock
};

/// Something about an opening that a user should know.
struct recovery_note {
  std::string text;
  // As those of the storage_error that it is about.
  std::error_code reason{};
  storage_fault fault = storage_fault::other;
};

/// What opening a directory has found.
struct recovery_report {
  std::uint64_t epoch = 0;     ///< of this opening: one more each time
  std::uint64_t sequence = 0;  ///< of the last change that was found; they are numbered from 1
  std::uint64_t checkpoint_sequence = 0;  ///< 0: there was no checkpoint
  std::uint64_t checkpoint_rows = 0;
  std::uint64_t log_records = 0;  ///< after the checkpoint
  std::uint64_t log_bytes = 0;
  /// The end of the last segment that was not a whole record: never acknowledged, and cut off.
  std::uint64_t cut_bytes = 0;
  /// Where that began; also where the last segment had room left, and nothing was lost with it.
  std::filesystem::path cut_file;
  std::uint64_t cut_offset = 0;
  std::string cut_why;
  directory_guard guard = directory_guard::lock;
  /// False: the file system has no way to make names of files durable. After a loss of power files
  /// may be missing that were made shortly before, with what was acknowledged in them. True also
  /// where nothing was written, as the directory was opened to be read.
  bool durable_names = true;
  /// Rows that are not in their tables: those of older stores which differ from a row that is there
  /// only in which not-a-number is their key, or their value of a unique index.
  std::uint64_t left_out_rows = 0;
  /// Where they are, one file for a table, a row on each line as `spolia dump` writes it. With
  /// read_only nothing is written: there are none.
  std::vector<std::filesystem::path> left_out_files;
  std::vector<recovery_note> notes;  ///< such as a checkpoint that was not used, and why
  std::chrono::nanoseconds took{0};
};

/// How quickly a checkpoint is written.
enum class checkpoint_pace : std::uint8_t {
  shared,  ///< while others commit, it takes options::checkpoint_share at most
  full     ///< as quickly as can be
};

struct checkpoint_report {
  std::uint64_t sequence = 0;  ///< of the last change that is in it
  std::uint64_t rows = 0;
  std::uint64_t bytes = 0;
  std::uint64_t removed_files = 0;  ///< older checkpoints, and segments that are not needed now
  std::chrono::nanoseconds took{0};
};

/// What database::resume() has found in doubt: what was on its way to the log when that failed.
struct resume_report {
  /// Times of the commits that were in doubt, in ascending order, as transaction::commit_time() has
  /// them. They are durable now, as all is that memory shows. A commit that is not here, and whose
  /// commit() has ended in storage_failed, has no time: it has not happened.
  std::vector<std::uint64_t> durable;
  /// Changes of tables and indexes that were in doubt: memory does not show them, and no opening
  /// will. A commit that has a time is visible, so none is ever undone.
  std::uint64_t undone = 0;
  checkpoint_report checkpoint;  ///< that was written; empty if the log had not failed
};

/// Takes what comes next of a stream. What it throws ends the backup. What it may call:
/// database::backup().
using byte_sink = std::function<void(std::span<const std::byte>)>;
/// Gives what comes next; how many bytes: 0 at the end.
using byte_source = std::function<std::size_t(std::span<std::byte>)>;

struct backup_report {
  bool incremental = false;    ///< the directory had a backup, which log segments were added to
  std::uint64_t sequence = 0;  ///< of the last change that is in it
  std::uint64_t files = 0;     ///< written
  std::uint64_t bytes = 0;
  /// The log had failed: the copy has all that memory shows, and is a database of its own, to which
  /// no later backup is added.
  bool apart = false;
  /// Of the commits in such a copy those that are in doubt: their times, in ascending order. All
  /// others are durable in the files of the database, too.
  std::vector<std::uint64_t> in_doubt{};
};

/// For database::verify().
struct verify_options {
  /// Differences that are described; all are counted.
  std::uint64_t most_shown = 20;
  /// Also whether each index of memory leads to all rows of its table, and to no others.
  bool indexes = true;
  /// When its snapshot has lived for so long, others may end it: reader_options.
  std::chrono::nanoseconds deadline{0};
  /// Threads that put the rows of the copy in place: as options::recovery_threads.
  std::uint32_t threads = 1;
};

/// Something that memory and the files do not have in common.
struct verify_difference {
  enum class kind : std::uint8_t {
    end_of_log,          ///< the files end before a change that was durable
    table,               ///< one of the two lacks it, or describes it in another way
    row_only_in_memory,  ///< the files lack it
    row_only_in_files,   ///< memory lacks it, or its primary index does not lead to it
    row,                 ///< other values
    index                ///< of memory
  };
  kind what = kind::row;
  std::string table;    ///< its name; empty: of none
  std::string key;      ///< of the row, as JSON, its columns with commas between them
  std::string details;  ///< in words; long values are cut
};

/// What database::verify() has found.
struct verify_report {
  std::uint64_t timestamp = 0;       ///< of the snapshot: all commits up to this time are compared
  std::uint64_t sequence = 0;        ///< of the last change of these
  std::uint64_t found_sequence = 0;  ///< to which the files lead; the same, unless they end before
  std::uint64_t tables = 0;
  std::uint64_t rows = 0;  ///< of memory
  std::uint64_t different_tables = 0;
  std::uint64_t rows_only_in_memory = 0;
  std::uint64_t rows_only_in_files = 0;
  std::uint64_t different_rows = 0;
  std::uint64_t different_indexes = 0;
  std::vector<verify_difference> shown;  ///< the first ones
  std::chrono::nanoseconds took{0};

  /// Differences of all kinds.
  [[nodiscard]] std::uint64_t differences() const noexcept {
    return different_tables + rows_only_in_memory + rows_only_in_files + different_rows +
           different_indexes + (found_sequence != sequence ? 1U : 0U);
  }
  [[nodiscard]] bool equal() const noexcept { return differences() == 0; }
  /// A line with the figures, and one for each difference that is shown. Throws std::bad_alloc.
  [[nodiscard]] SPOLIA_EXPORT std::string text() const;
};

/// A part of statistics: approximate while others work.
struct log_stats {
  std::uint64_t epoch = 0;             ///< of this opening; higher after database::resume()
  std::uint64_t sequence = 0;          ///< of the last change
  std::uint64_t durable = 0;           ///< the last change that is durable
  std::uint64_t bytes = 0;             ///< written since the database was opened
  std::uint64_t since_checkpoint = 0;  ///< bytes of log that the next opening would read
  std::uint64_t flushes = 0;           ///< writes with a sync
  std::chrono::nanoseconds longest_flush{0};
  std::uint64_t checkpoints = 0;
  std::uint64_t failed_checkpoints = 0;  ///< of those that the length of the log started
  bool failed = false;  ///< nothing is acknowledged until database::resume(): storage_failure()
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
