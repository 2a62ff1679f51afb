// SPDX-License-Identifier: Apache-2.0
// salvage.hpp: brings what is whole in a damaged database's directory into a new one, and says
// what is missing and where. docs/durability.md, "Damage", is the guide; `spolia salvage` is the
// command.
//
// Idea:        salvage takes what has a right checksum and fits to its neighbours. It applies the
//              records of the log in their order to the last checkpoint that is whole, or to the
//              whole blocks of one that is not. After a damaged record it looks for the next whole
//              one.
// Exact:       every value of the new database is one that a commit has put into that column of
//              that row. No record that is whole and fits is left out. A record is a commit, so
//              each commit is there wholly or not at all, but for changes of tables whose
//              definition is lost.
// Not exact:   where records are missing, a row may be older than these, and have newer values in
//              some columns than in others. The report counts such rows.
// The old one: salvage opens the old database to read it, and never changes it. No other process
//              may have it open.
// Bounds:      it needs memory for the new database, for the longest file of the log, and, after
//              missing records, some hundred bytes for each row that was changed since.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/db/database.hpp>
#include <spolia/db/durability.hpp>
#include <spolia/db/files.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Records of the log that are not there, by their numbers. The log has no times of commits:
/// records are numbered in the order in which commits became visible.
struct missing_records {
  std::uint64_t first = 0;
  std::uint64_t last = 0;  ///< 0: how many is not known, and there may be none
  friend bool operator==(const missing_records&, const missing_records&) = default;
};

/// A place in a file that could not be used, or a file that is not there.
struct damaged_place {
  std::filesystem::path file;
  std::uint64_t offset = storage_error::nowhere;  ///< nowhere: the whole file
  std::uint64_t bytes = 0;
  std::string what;
  missing_records missing{};  ///< that were there, or may have been; first == 0: none
};

/// Rows that are there as they were before some records that are missing: they may have been
/// changed or deleted by them.
struct older_rows {
  missing_records than;  ///< and maybe than what is missing later
  std::uint64_t rows = 0;
};

struct salvaged_table {
  std::string name;
  std::uint64_t rows = 0;
  std::vector<older_rows> older{};  ///< in the order of the log
  /// Of the older ones: rows that later records have changed in some columns.
  std::uint64_t mixed = 0;
  /// Rows of which only changes of some columns are there. They are not among `rows`.
  std::uint64_t in_part = 0;
  /// Where those are, in the new directory: one on each line, as `spolia dump` writes rows, with
  /// the key and the columns that are known. Empty: nowhere, there are none, or it is a dry run.
  std::filesystem::path in_part_file{};
  /// Rows may be missing of which nothing is known: they were in a checkpoint that is damaged.
  bool incomplete = false;
  /// Which table rows belong to could not be told for certain: another one, whose definition is
  /// lost, may have been meant, if it had the same columns.
  bool doubtful = false;
  /// Not empty: the name that it had. Another table has that now, as a record that is lost has
  /// renamed or dropped this one; `name` was made up.
  std::string former_name{};
  /// Unique indexes that are not unique any more, as some rows have the same key.
  std::vector<std::string> not_unique{};
  std::vector<std::string> lost_indexes{};  ///< that could not be made
};

/// A table whose definition is lost. Nothing of it is in the new database.
struct lost_table {
  std::uint32_t number = 0;   ///< in the order in which tables were made, from 0
  std::uint64_t rows = 0;     ///< in a checkpoint
  std::uint64_t changes = 0;  ///< of rows, in the log
};

struct salvage_report {
  std::vector<damaged_place> damage;
  std::vector<missing_records> missing;
  std::vector<salvaged_table> tables;
  std::vector<lost_table> lost_tables;
  std::uint64_t checkpoint_sequence =
      0;                       ///< where the checkpoint ends that was begun with; 0: none
  std::uint64_t sequence = 0;  ///< of the last record that was used
  std::uint64_t records = 0;   ///< of the log that were used
  /// Rows of damaged checkpoints that are lost, as far as their number is known.
  std::uint64_t lost_rows = 0;
  bool more_rows_lost = false;  ///< maybe more than lost_rows
  /// Records that are whole and were not used, since they do not fit to the others: of another
  /// history of the database, or bytes in a row that look like a record.
  std::uint64_t unused_records = 0;
  std::vector<std::string> notes;

  /// Nothing is missing: the new database is what an undamaged one would have been.
  [[nodiscard]] SPOLIA_EXPORT bool complete() const noexcept;
};

struct salvage_options {
  /// Nothing is written: the report alone.
  bool dry_run = false;
  /// Of the new database while it is made: how many threads, which index. It is made without a log.
  options store{};
  /// Called again and again, with the stages "scan", "rows", "indexes" and "write". What it throws
  /// comes out, and nothing stays of the new directory.
  recovery_listener on_progress{};
};

/// Makes a new database in the directory `to`, which must not exist, or be empty, out of what is
/// whole in the directory `from`. Throws storage_error, also where another process has the old
/// database open, this one may not read it, a file of it is of a format that this version does not
/// know, or the new one cannot be made; std::bad_alloc. Then nothing stays in `to`.
SPOLIA_EXPORT salvage_report salvage(const std::filesystem::path& from,
                                     const std::filesystem::path& to,
                                     const salvage_options& o = {});

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
