// SPDX-License-Identifier: Apache-2.0
// dump.hpp: tables as text, all from one snapshot.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bytes.hpp"
#include "schema_json.hpp"

namespace tool {

enum class text_format : std::uint8_t { csv, json };

/// Called for each row: rows so far.
using row_count = std::function<void(std::uint64_t)>;

/// The tables with these names, or all. Throws usage_error if there is none of a name.
std::vector<db::table*> chosen_tables(const db::database& base,
                                      const std::vector<std::string>& names);

/// One table: CSV with a header, or an object on each line. Returns how many rows.
std::uint64_t dump_table(const db::reader& at, const db::table& t, text_format format,
                         byte_sink& to, std::uint64_t rows_before, const row_count& tell);

/// Several tables as a stream of JSON lines that holds their schema. Returns how many rows.
std::uint64_t dump_stream(const db::reader& at, const std::vector<db::table*>& tables,
                          byte_sink& to, const row_count& tell);

/// A file for each table, and schema.json, in a folder that is made. Returns how many rows.
std::uint64_t dump_folder(const db::reader& at, const std::vector<db::table*>& tables,
                          text_format format, const std::filesystem::path& to,
                          const row_count& tell);

/// Takes those out that have a name which JSON cannot hold, the table's own or that of a column or
/// an index. They are in no stream and no folder.
std::vector<db::table*> take_unnameable(std::vector<db::table*>& from);

/// The name of a table's file: letters, digits, '-', '_' and '.' as they are, the rest in per
/// cents. Of one that is too long for a file, the beginning and the table's number in the dump.
std::string file_name(const std::string& table, text_format format, std::size_t number);

/// Rows of a table and a sum over them: the same for two tables that hold the same rows, in any
/// order.
struct content {
  std::uint64_t rows = 0;
  std::uint64_t hash = 0;
};
content content_of(const db::reader& at, const db::table& t, const row_count& tell);

}  // namespace tool
