// SPDX-License-Identifier: Apache-2.0
// record.hpp: one row on its way into a table, and files that rows come from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <spolia/db.hpp>

#include "errors.hpp"

namespace tool {

namespace db = spolia::db;

/// Values for all columns of a table, with the texts that they refer to. What does not fit its
/// column is refused with a sentence: the result, empty if it fits.
class record {
 public:
  using complaint = std::string;

  void begin(const db::table& t);
  /// Whether the column has got a value, be it null.
  [[nodiscard]] bool given(const db::column_layout& c) const noexcept {
    return (given_ >> c.number & 1U) != 0;
  }
  complaint set_null(const db::column_layout& c);
  complaint set(const db::column_layout& c, std::int64_t v);
  complaint set(const db::column_layout& c, double v);
  complaint set(const db::column_layout& c, bool v);
  complaint set(const db::column_layout& c, db::decimal_number v);
  complaint set(const db::column_layout& c, db::instant v);
  complaint set_text(const db::column_layout& c, std::string_view v);
  /// Of a text or blob column.
  complaint set_bytes(const db::column_layout& c, std::string_view v);
  /// A value of the column's type, written as text; not null. Blobs are in base64.
  complaint set_written(const db::column_layout& c, std::string_view v);
  /// No more values: columns that got none become null.
  complaint complete();
  [[nodiscard]] db::values values() const noexcept { return values_; }
  /// The columns of the primary key.
  [[nodiscard]] std::vector<db::value> key() const;

 private:
  void put(const db::column_layout& c, const db::value& v);

  const db::table* table_ = nullptr;
  std::uint64_t given_ = 0;
  std::vector<db::value> values_;
  std::vector<std::string> texts_;
};

/// A file with rows.
class row_source {
 public:
  row_source() = default;
  row_source(const row_source&) = delete;
  row_source& operator=(const row_source&) = delete;
  virtual ~row_source() = default;
  /// Reads the next row; false: there are no more, and the file is whole. Throws bad_input.
  virtual bool next() = 0;
  /// Of the row that was read.
  [[nodiscard]] virtual db::table& table() const = 0;
  [[nodiscard]] virtual const record& row() const = 0;
  /// What is wrong with the row, with its place.
  [[nodiscard]] virtual bad_input wrong(const std::string& why) const = 0;
  [[noreturn]] void refuse(const std::string& why) const { throw wrong(why); }
  /// Bytes read so far.
  [[nodiscard]] virtual std::uint64_t bytes() const = 0;
};

}  // namespace tool
