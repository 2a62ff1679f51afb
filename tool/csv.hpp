// SPDX-License-Identifier: Apache-2.0
// csv.hpp: one table as CSV, as in RFC 4180, with a header line.
//
// Text is its bytes, whatever they are. An empty field without quotes is null (in a text column
// that cannot be null: the empty text); "" is the empty text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record.hpp"
#include "text_input.hpp"

namespace tool {

/// Records of fields. Lines end with LF or CR LF; empty lines are passed over, and so is the mark
/// of UTF-8 at the beginning.
class csv_fields {
 public:
  struct field {
    std::string text;
    bool quoted = false;
    std::uint64_t line = 0;
    std::uint64_t column = 0;
  };

  csv_fields(byte_source& from, std::string name);
  /// False: there are no more.
  bool next(std::vector<field>& to);
  [[nodiscard]] const text_input& input() const noexcept { return input_; }

 private:
  void read_field(field& f);
  void read_quoted(field& f);
  /// After a field: true if another follows in the same record.
  bool more_follow();

  text_input input_;
};

class csv_source final : public row_source {
 public:
  csv_source(byte_source& from, std::string name, db::table& into);
  bool next() override;
  [[nodiscard]] db::table& table() const override { return table_; }
  [[nodiscard]] const record& row() const override { return row_; }
  [[nodiscard]] bad_input wrong(const std::string& why) const override;
  [[nodiscard]] std::uint64_t bytes() const override { return fields_.input().bytes(); }

 private:
  void read_header();
  void take(const db::column_layout& c, const csv_fields::field& f);
  [[noreturn]] void refuse_at(const csv_fields::field& f, const std::string& why) const;

  csv_fields fields_;
  db::table& table_;
  std::vector<const db::column_layout*> columns_;
  std::vector<csv_fields::field> found_;
  record row_;
};

void append_csv_header(std::string& to, const db::table& t);
void append_csv_row(std::string& to, const db::table& t, const db::row& r);

}  // namespace tool
