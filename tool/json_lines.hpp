// SPDX-License-Identifier: Apache-2.0
// json_lines.hpp: rows as JSON, one a line.
//
// A file of one table has an object of columns on each line:   {"id":1,"owner":"Ada","note":null}
// A dump of a whole store is a stream: the schema, then rows under their table's name, then how
// many rows there were:
//     {"spolia_dump":1,"tables":[...]}
//     {"accounts":{"id":1,"owner":"Ada","note":null}}
//     {"rows":1}
// Text that is not UTF-8 is {"base64":"..."}; numbers that JSON has no word for are "nan", "inf",
// "-inf". A column that is left out is null.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "record.hpp"
#include "text_input.hpp"

namespace tool {

void append_json_row(std::string& to, const db::table& t, const db::row& r);

/// Rows of one table.
class json_source final : public row_source {
 public:
  json_source(text_input& from, db::table& into) : input_(from), table_(into) {}
  bool next() override;
  [[nodiscard]] db::table& table() const override { return table_; }
  [[nodiscard]] const record& row() const override { return row_; }
  [[nodiscard]] bad_input wrong(const std::string& why) const override;
  [[nodiscard]] std::uint64_t bytes() const override { return input_.bytes(); }

 private:
  text_input& input_;
  db::table& table_;
  std::uint64_t number_ = 0;
  std::string line_;
  record row_;
};

/// Rows of a stream, after its first line.
class stream_source final : public row_source {
 public:
  /// The table with this name, or null.
  using finder = std::function<db::table*(std::string_view)>;
  stream_source(text_input& from, finder find) : input_(from), find_(std::move(find)) {}
  bool next() override;
  [[nodiscard]] db::table& table() const override { return *table_; }
  [[nodiscard]] const record& row() const override { return row_; }
  [[nodiscard]] bad_input wrong(const std::string& why) const override;
  [[nodiscard]] std::uint64_t bytes() const override { return input_.bytes(); }

 private:
  text_input& input_;
  finder find_;
  db::table* table_ = nullptr;
  std::uint64_t number_ = 0;
  std::uint64_t rows_ = 0;
  std::string line_;
  record row_;
};

}  // namespace tool
