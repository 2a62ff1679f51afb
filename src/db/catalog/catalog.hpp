// SPDX-License-Identifier: Apache-2.0
// catalog.hpp: indexes and tables that come and go while transactions run. Internal.
//
// An index is built in three steps. First it is shown to those who change rows: from then on all
//   changes go to it, too; a transaction that has changed rows before does not happen, and is tried
//   again. When the commits that were under way are over (commit_section.hpp), a snapshot is begun:
//   whatever it does not see has an entry, and what it sees gets one now, row by row.
// Unique:      while it is built, two rows may get the same key, if one of them has no entry yet.
//              Who comes second, the writer or the builder, sees the entry of the first: the writer
//              then gives up, the builder takes the key down. At the end the index is shown once
//              more, so that all who have looked too early give up, and then the keys that were
//              taken down are counted.
// Changed rows: an entry that the builder adds for a version that was replaced meanwhile was not
//              there when the writer asked who is to take it out. So the builder looks, after
//              adding, whether the row is locked or changed, and has the cleaner look at the entry
//              later. Either the writer finds the entry, or the builder the writer's lock.
// Dropping:    no change goes to it any more; snapshots of before can go on; when the last of them
//              has ended, the cleaner frees it. The names are left, some hundred bytes.
//
// In a directory each change is one record of the log, and is seen when that is durable. If the log
// fails, nothing was changed. What follows is why each beginning of the log makes sense, and each
// checkpoint with the log behind it.
// Tables:      a table is found by its name, and so used, when its record is durable: its rows come
//              behind it. It is dropped in this order: nothing of it may be changed any more; the
//              commits that were under way are over, and so have their places in the log
//              (commit_section.hpp: a commit gets its place inside); its end gets its place; that
//              is durable; it ends for whoever begins then. So behind its end no record has rows
//              of it. While the record is on its way to the disk, who wants to change rows of the
//              table gets schema_changed, and finds out at the next try how it has ended.
// Numbers:     the log calls tables by the number of their making, and a number never comes again,
//              also not after openings: a checkpoint says how many were ever made. So what a copy
//              gets of the log, piece by piece, means the same there.
// Indexes:     the log has no entries: the opening makes them of the rows that are left. Where they
//              stand among the commits matters for the unique ones alone. The beginning gets its
//              place when the index is built, and no two rows have the same key, nor can get it.
//              The end gets its place while changes still go to the index, and so before rows with
//              the same key. So rows of each beginning of the log fit the indexes that it has.
// Checkpoints: what is in one is decided by the numbers of the records: all that was made up to the
//              cut and not dropped up to there. The numbers are set under the lock of the catalogue
//              which the record gets its place under; who takes that lock behind the cut knows all
//              that are before it, and those behind it have higher ones. A table that is dropped
//              behind the cut ends behind the snapshot of the cut, so that sees its rows; entries
//              are not needed.
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

 private:
  struct building;
  void refuse(const char* call) const;
  void refuse_to_change(const table& t, const char* call) const;
  void must_be_new(const std::string& name) const;
  void show(table& t, std::unique_ptr<const index_set> next) const;
  [[nodiscard]] bool fill(const reader& at, building& b) const;
  void add(const reader& at, building& b, std::uint64_t slot, const key_words& key) const;
  static bool twice(const reader& at, const building& b, const key_words& key);
  bool build(building& b) const;
  void give_up(building& b, std::unique_ptr<const index_set> before, note* last) const noexcept;
  std::uint64_t end(validity& v) const noexcept;
  void drop_later(note* n, std::uint64_t until) const noexcept;

  engine& engine_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
