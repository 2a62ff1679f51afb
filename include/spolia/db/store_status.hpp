// SPDX-License-Identifier: Apache-2.0
// store_status.hpp: what a database in a directory does right now, for other processes to read, as
// `spolia top` does. The database writes it to the file `status` of its directory if
// options::publish_status says so.
//
// Idea:        one page of fixed layout, written whole with one pwrite, with a checksum. A reader
//              that meets a page of which only a part is new reads again. No memory is shared, so
//              a program that cuts the file short or writes rubbish to it harms the readers and not
//              the database.
// When:        the page is written when the database is opened; by a commit, if the last page is
//              100 ms old or the commit is in doubt; and by database::resume() and
//              database::publish_status(). There is no thread for it. The file is removed when the
//              database is closed. After a kill it stays, and names the process.
// Where:       through the database's options::files, in the directory that it has open.
// Cost:        each commit reads the clock once. To write the page takes microseconds. One thread
//              at a time writes it, and the others go on. If that fails, as on a full disk, it is
//              tried again later.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Sums are since the database was opened. Times are nanoseconds since 1970, by a clock that may be
/// set meanwhile: how long something took says the steady one.
struct store_status {
  struct reader {
    std::uint64_t timestamp = 0;
    std::uint64_t behind = 0;  ///< commits since it began
    /// What waits for it, as in reader_info: deleted rows and index entries, and old versions.
    std::uint64_t held = 0;
    std::uint64_t held_bytes = 0;
    std::uint64_t held_versions = 0;
    std::uint64_t held_version_bytes = 0;
    std::uint64_t work_bytes = 0;  ///< what it works with itself, as in reader_info
    std::uint64_t thread = 0;      ///< Spolia's number of the thread that began it
    /// The system's, as `ps -L` shows it, of the thread that had this number last.
    std::uint64_t os_thread = 0;
    std::uint64_t age_ns = 0;
    std::array<char, 40> label{};
  };
  static constexpr std::size_t most_readers = 16;

  std::uint64_t process = 0;
  std::uint64_t opened = 0;
  std::uint64_t written = 0;         ///< when this was
  std::uint64_t opened_steady = 0;   ///< nanoseconds of std::chrono::steady_clock, which the
  std::uint64_t written_steady = 0;  ///< processes of a machine share until it is started again
  std::uint64_t commits = 0;
  std::uint64_t conflicts = 0;
  std::uint64_t limits = 0;
  std::uint64_t storage_refusals = 0;
  std::uint64_t ended_by_policy = 0;  ///< readers and transactions
  std::uint64_t tables = 0;
  std::uint64_t row_slots = 0;  ///< of rows, in use or to be used again
  std::uint64_t table_bytes = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t cleaning = 0;  ///< deleted rows and index entries that wait
  std::uint64_t cleaning_bytes = 0;
  std::uint64_t work_bytes = 0;   ///< of what readers and transactions work with
  std::uint64_t value_bytes = 0;  ///< of variable texts and blobs
  std::uint64_t value_bytes_waiting = 0;
  std::uint64_t versions_made = 0;
  std::uint64_t versions_dropped = 0;
  std::uint64_t version_bytes = 0;
  std::uint64_t partitions = 0;
  std::uint64_t partitions_used = 0;
  std::uint64_t partition_drops = 0;
  std::uint64_t log_sequence = 0;
  std::uint64_t log_durable = 0;
  std::uint64_t log_bytes = 0;
  std::uint64_t log_since_checkpoint = 0;
  std::uint64_t log_flushes = 0;
  std::uint64_t log_longest_flush_ns = 0;
  std::uint64_t checkpoints = 0;
  std::uint64_t failed_checkpoints = 0;
  std::uint64_t storage_failed = 0;           ///< 1: nothing is acknowledged any more
  std::uint64_t readers = 0;                  ///< how many there are
  std::array<reader, most_readers> oldest{};  ///< of them, the oldest first
  /// The texts of database::storage_failure() and checkpoint_failure(), or their beginnings.
  std::array<char, 256> storage_failure{};
  std::array<char, 256> checkpoint_failure{};
};

/// The status of the database in a directory; none: no process publishes one. Throws storage_error
/// if there is something else.
SPOLIA_EXPORT std::optional<store_status> read_status(const std::filesystem::path& directory);

/// The process that has the database in a directory open to change it.
struct store_holder {
  std::uint64_t process = 0;  ///< the system's number
  std::string name{};         ///< the system's; empty: not known
};
/// None: there is none, or it is not seen from here, as where it is in another container. Takes no
/// lock, and so is in the way of no opening.
SPOLIA_EXPORT std::optional<store_holder> find_holder(const std::filesystem::path& directory);

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
