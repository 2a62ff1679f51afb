// SPDX-License-Identifier: Apache-2.0
// schema_json.hpp: what tables are made from, as JSON: the first line of a stream, and schema.json
// of a folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <spolia/db.hpp>

namespace tool {

namespace db = spolia::db;

struct dumped_table {
  db::table_spec spec;
  std::string file;                    ///< in a folder
  std::optional<std::uint64_t> rows;   ///< that the file has, if it is known
  std::optional<std::uint64_t> bytes;  ///< that the file has, if it is known
};

/// As schemas and people are told; text comes without its length.
const char* type_name(db::base_type t);
/// Whether all names are UTF-8: JSON has no others.
bool has_names(const db::table_spec& s);
/// Throws failure where a table has others.
std::string schema_text(const std::vector<dumped_table>& tables);
/// Throws failure, which begins with `where`, for anything that is not such a schema, or has a
/// member that is not known.
std::vector<dumped_table> parse_schema(std::string_view text, const std::string& where);

/// Whether a table made from one would be as a table made from the other. The order of indexes does
/// not count.
bool same(const db::table_spec& a, const db::table_spec& b);

}  // namespace tool
