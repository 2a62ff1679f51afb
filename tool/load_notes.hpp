// SPDX-License-Identifier: Apache-2.0
// load_notes.hpp: what a store remembers of a load until that has come to its end: how far it is,
// or what it has changed.
//
// The notes are tables of the store, and are written in the transactions that load the rows. So
// whatever ends the program, they say what is there.
//     spolia_load               one row: what is loaded, and how far it is
//     spolia_load.inserted.T    keys of rows that the load has put into table T
//     spolia_load.replaced.T    rows of T as they were before it
// The load has come to its end when the row of the first table goes; a load that finds tables
// without it drops them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "record.hpp"

namespace tool {

/// What becomes of a load that does not come to its end.
enum class unfinished : std::uint8_t {
  keep,    ///< the batches that were committed stay
  resume,  ///< the same, and the next load of the same input goes on after them
  undo     ///< all is as it was before
};

class load_notes {
 public:
  /// An earlier load that has not come to its end.
  struct left {
    unfinished how = unfinished::resume;
    std::string from;  ///< its input
    std::string tables;
    std::string made;  ///< tables that were not there before it; as JSON
    std::uint64_t rows = 0;
    std::uint64_t hash = 0;  ///< of these rows
  };

  /// Undoes an earlier load that was to be undone: undone() says how many rows that were.
  load_notes(db::database& base, unfinished how);
  load_notes(const load_notes&) = delete;
  load_notes& operator=(const load_notes&) = delete;

  /// `from`, which has rows of these tables, is loaded now. What it goes on with, if it does.
  /// start_over: without what an earlier load has left. Throws usage_error if that was of other
  /// tables, or this load does not go on with it.
  void begin(const std::string& from, const std::vector<std::string>& tables, bool start_over);
  /// These tables are made next.
  void make(const std::vector<std::string>& tables);
  /// Rows of the table are loaded next.
  void use(const db::table& t);

  /// Whether the next row was loaded before. Each row is given to one of the next two.
  [[nodiscard]] bool behind() const noexcept { return rows_ < passed(); }
  /// Throws usage_error if the rows up to here are others than those that were loaded.
  void pass(const row_source& row);
  void read(const row_source& row);
  // In the transaction that does it.
  void inserted(db::transaction& tx, const db::table& t, const record& row) const;
  void replaced(db::transaction& tx, const db::table& t, const record& row,
                const db::row& before) const;
  void commits(db::transaction& tx);

  /// All rows are in. Throws usage_error if they are fewer than those that were loaded before.
  void finish();
  /// The load has failed. Throws failure if it cannot be undone now; the next load does that then.
  void fail();

  [[nodiscard]] unfinished how() const noexcept { return how_; }
  /// The one that this load goes on with, or has nothing to do with.
  [[nodiscard]] const std::optional<left>& found() const noexcept { return left_; }
  /// Rows that were loaded before this load began.
  [[nodiscard]] std::uint64_t passed() const noexcept {
    return how_ == unfinished::resume && left_ ? left_->rows : 0;
  }
  [[nodiscard]] std::optional<std::uint64_t> undone() const noexcept { return undone_; }

 private:
  struct undo_tables {
    db::table* inserted = nullptr;
    db::table* replaced = nullptr;
  };

  [[nodiscard]] std::optional<left> look();
  db::status write_down(db::transaction& tx) const;
  std::uint64_t undo(const left& l);
  static db::status take_out(db::transaction& tx, db::table& of, const std::vector<db::value>& key);
  void drop_notes();
  void change(const std::function<db::status(db::transaction&)>& f);

  db::database& base_;
  const unfinished how_;
  db::table* notes_ = nullptr;  // the first table
  std::optional<left> left_;
  left now_;
  std::map<const db::table*, undo_tables> undo_;
  std::uint64_t rows_ = 0;
  std::uint64_t hash_ = 0;
  std::string line_;
  std::optional<std::uint64_t> undone_;
};

}  // namespace tool
