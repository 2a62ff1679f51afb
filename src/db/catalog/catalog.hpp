// SPDX-License-Identifier: Apache-2.0
// catalog.hpp: indexes and tables that come and go while transactions run. Internal.
//
// An index is built in three steps. First it is shown to the transactions that change rows: from
//   then on all changes go to it, too. A transaction that has changed rows before that does not
//   commit, and is tried again. When the commits that were under way are over (commit_section.hpp),
//   a snapshot is begun. What it does not see has an entry; what it sees gets one now, row by row.
// Unique:      while the index is built, two rows may get the same key, if one of them has no entry
//              yet. Of the writer and the builder, the one that comes second sees the entry of the
//              first. A writer that sees one gives up; the builder writes the key down. At the end
//              the index is shown once more, so that all writers that checked too early give up.
//              Then the rows with the keys that were written down are counted.
// Changed rows: the builder may add an entry for a version that was replaced meanwhile. The entry
//              was not there when the writer looked for what the cleaner is to take out. So the
//              builder checks, after adding it, whether the row is locked or changed. If so, it has
//              the cleaner examine the entry later. Either the writer finds the entry, or the
//              builder finds the writer's lock.
// Dropping:    no change goes to it any more. Snapshots that began before can go on. When none of
//              them can use it any more, the cleaner frees it. What is left of a table is in
//              table_list.hpp.
//
// Users of what was made and dropped: each table and each index has a birth. The clock is advanced
//   to that time before any other thread has it. So a snapshot is one of three.
// Later than the drop: the end of a table, or the indexes without the one that has gone, were
//              stored before the clock came to the time of the drop. So it does not go there.
// From the birth to the drop: it may be there. The cleaner lists the snapshots after the drop, and
//              frees nothing while it finds one of that time. A reader that began between the birth
//              and the moment when the thing could be found counts, too.
// Before the birth: it is an elder. It enters table::parts::elders before it uses the table, or
//              changes rows that have entries in an index which is younger, and leaves when it has
//              ended. Both the elder and the thread that frees change that one word, so one of
//              them sees the other. If the elder is first, all stays until it has left. If the
//              thread is first, the elder is refused a table, and sees the indexes as they are
//              after the drop.
//              A transaction may find an index that is younger only when it has locked a row, too
//              late to enter: then its change goes to no index, and it does not commit.
//
// In a directory each change is one record of the log, and takes effect when that is durable. If
// the log fails, nothing was changed. What follows is why each prefix of the log makes sense, and
// each checkpoint with the log after it.
// Tables:      a table is found by its name, and so used, only when its record is durable: so its
//              rows come after that record. It is dropped in this order. Nothing of it may be
//              changed any more. The commits that were under way are over, and so have their
//              positions in the log (commit_section.hpp: a commit gets its position inside). The
//              record of its end gets its position. That record is durable. The table ends, for
//              all transactions and readers that begin then. So no record after that of its end has
//              rows of it. A transaction that wants to change rows of the table, while the record
//              is on its way to the disk, gets schema_changed, and finds out at the next try how
//              the change has ended.
// Numbers:     the log names a table by the number of its making. A number is never given again,
//              also not after the database was opened again: a checkpoint says how many were ever
//              made. So a record that a copy gets later means the same there.
// Indexes:     the log has no entries: the opening makes them of the rows that are left. The
//              position of an index's records among the commits matters for unique indexes alone.
//              The record of its making gets its position when the index is built, and no two rows
//              have the same key, nor can get it. The record of its end gets its position while
//              changes still go to the index, and so before rows with the same key. So the rows of
//              each prefix of the log fit the indexes that it has.
// Names:       while a table gets another name, both lead to it in the list of names, so no table
//              is made with either. The new one is shown, and the old one is free, when the record
//              is durable: so a record that makes a table with the old name comes after it. A
//              checkpoint has the name of its last record.
// Checkpoints: what is in one is decided by the numbers of the records: all that was made up to the
//              cut and not dropped up to there. A number is set under the lock of the catalogue,
//              under which the record gets its position, too. So a thread that takes that lock
//              after the cut knows all numbers before the cut, and those after it are higher.
//              A table that is dropped after the cut ends after the snapshot of the cut, so that
//              snapshot sees its rows. Entries are not needed.
//              Without a log, the snapshot is begun under that lock, and takes the next number.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "db/engine.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class catalog {
 public:
  explicit catalog(engine& of) noexcept : engine_(of) {}

  table& create_table(const table_spec& spec);
  status create_index(table& t, const index_spec& spec);
  status drop_index(table& t, std::string_view name);
  status drop_table(table& t);
  /// `is`: the name by which the caller has found it; empty: by none. Throws std::invalid_argument
  /// also where it has another one by now.
  status rename_table(table& t, const std::string& name, std::string_view is = {});
  /// Throws std::invalid_argument.
  [[noreturn]] static void refuse_unknown(std::string_view name);

 private:
  struct building;
  void refuse(const char* call) const;
  void refuse_to_change(const table& t, const char* call) const;
  void must_be_free(const std::string& name) const;
  void must_be_new(const std::string& name) const;
  void show(table& t, std::unique_ptr<const index_set> next) const;
  void wait_for_commits() const;
  [[nodiscard]] bool fill(const reader& at, building& b) const;
  void add(const reader& at, building& b, std::uint64_t slot, const key_words& key) const;
  static bool twice(const reader& at, const building& b, const key_words& key);
  bool build(building& b) const;
  void give_up(building& b, std::unique_ptr<const index_set> before, note* last) const noexcept;
  std::uint64_t end(validity& v) const noexcept;
  static void keep_counting(note& n) noexcept;
  void drop_later(note* n, std::uint64_t since, std::uint64_t until) const noexcept;

  engine& engine_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
