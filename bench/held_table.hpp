// SPDX-License-Identifier: Apache-2.0
// held_table.hpp: the table of `spolia-bench held`, and what one thread's transactions do to it.
//
//     queue    inserts a row after the last one, finds the first one by the index and deletes it;
//              of a hash index, any row under the one key of the thread's rows
//     touched  gives a row another value in the indexed column: one that was never there before;
//              in a hash index the next of a few, so that many entries have one key
//     churn    deletes a row and inserts another one, out of twice as many keys as there are rows
//     report   adds one to the mark of a random row and takes one from another's, so that the sum
//              of all marks stays
//
// A row is a number and a mark, in `report` and a place; the upper bits of the number say which
// thread changes the row.
#pragma once

#include <spolia/db.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "random.hpp"

namespace bench {

struct held_shape {
  std::string workload;
  std::string index;
  std::uint64_t rows = 0;
  std::uint32_t threads = 1;
  [[nodiscard]] bool hashed() const noexcept { return index != "ordered"; }
  [[nodiscard]] bool reports() const noexcept { return workload == "report"; }
  /// Whether the index that is measured is over the marks; else it is the primary key's.
  [[nodiscard]] bool by_mark() const noexcept {
    return workload == "touched" || (workload == "queue" && hashed());
  }
  /// Rows of one thread.
  [[nodiscard]] std::uint64_t share(std::uint32_t thread) const noexcept {
    return rows / threads + (thread < rows % threads ? 1 : 0);
  }
};

/// What a report finds: how many rows, and the sum of their marks.
struct held_sums {
  std::uint64_t rows = 0;
  std::int64_t marks = 0;
  friend bool operator==(const held_sums&, const held_sums&) = default;
};

/// One thread's rows. No other thread changes them.
class held_share {
 public:
  held_share() = default;
  virtual ~held_share() = default;
  held_share(const held_share&) = delete;
  held_share& operator=(const held_share&) = delete;
  /// Inserts the row that is its `place`th when the run begins.
  virtual spolia::db::status fill(spolia::db::transaction& tx, std::uint64_t place) = 0;
  /// What a transaction does; it may be run again after a conflict.
  virtual spolia::db::status change(spolia::db::transaction& tx) = 0;
  /// The last change is there.
  virtual void committed() noexcept = 0;
};

class held_table {
 public:
  /// What is called with the number and the mark of a row.
  using visitor = std::function<void(std::int64_t number, std::int64_t mark)>;

  held_table(spolia::db::database& in, const held_shape& shape);
  std::unique_ptr<held_share> share(std::uint32_t thread, std::uint64_t seed);

  /// All rows, by the table.
  void each(const spolia::db::reader& at, const visitor& f) const;
  /// All rows, by the index that is measured.
  void by_index(const spolia::db::reader& at, const visitor& f) const;
  /// Looks for the first row of the index; in a hash index, for a row of one key. Whether there is.
  bool first_row(const spolia::db::reader& at, random_source& random) const;
  /// A report: by a query of one thread.
  [[nodiscard]] held_sums by_query(const spolia::db::reader& at) const;
  /// A report: row by row.
  [[nodiscard]] held_sums by_rows(const spolia::db::reader& at) const;
  /// What each report finds in the table of the workload `report`, at any time.
  [[nodiscard]] held_sums expected() const noexcept;
  /// Of a row of that table, which has it at all times.
  [[nodiscard]] std::int64_t random_number(random_source& random) const noexcept;
  /// The mark of a row, by its number.
  [[nodiscard]] std::optional<std::int64_t> find(const spolia::db::reader& at,
                                                 std::int64_t number) const;

 private:
  friend class queue_share;
  friend class touched_share;
  friend class churn_share;
  friend class report_share;
  /// Numbers of a thread's rows begin here.
  static std::int64_t first_of(std::uint32_t thread) noexcept {
    return static_cast<std::int64_t>(std::uint64_t{thread} << 40U);
  }
  static spolia::db::table_spec spec(const held_shape& shape);
  /// How many different marks there are, where the hash index is over them.
  [[nodiscard]] std::int64_t marks() const noexcept;

  const held_shape shape_;
  spolia::db::table& rows_;
  const spolia::db::secondary* const by_mark_;  // null: there is none
  const spolia::db::column<std::int64_t> number_ = rows_.column<std::int64_t>("number");
  const spolia::db::column<std::int64_t> mark_ = rows_.column<std::int64_t>("mark");
};

}  // namespace bench
