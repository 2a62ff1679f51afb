// SPDX-License-Identifier: Apache-2.0
#include "schema_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "errors.hpp"
#include "text.hpp"

namespace tool {
namespace {

using json = nlohmann::ordered_json;

constexpr std::uint64_t format_version = 1;

const char* kind_name(db::index_kind k) {
  switch (k) {
    case db::index_kind::hash:
      return "hash";
    case db::index_kind::ordered:
      break;
  }
  return "ordered";
}

json column_json(const db::column_spec& c) {
  json j = {{"name", c.name}, {"type", type_name(c.type.base)}};
  if (c.type.base == db::base_type::text) j["bytes"] = c.type.bytes;
  if (c.type.base == db::base_type::decimal) j["digits"] = c.type.digits;
  if (c.role == db::column_role::key) j["key"] = true;
  if (c.role == db::column_role::nullable) j["nullable"] = true;
  return j;
}

json table_json(const dumped_table& t) {
  json columns = json::array();
  for (const auto& c : t.spec.columns) columns.push_back(column_json(c));
  json indexes = json::array();
  for (const auto& i : t.spec.indexes) {
    json one = {{"name", i.name}, {"columns", i.columns}, {"unique", i.unique}};
    if (i.kind != db::index_kind::ordered) one["kind"] = kind_name(i.kind);
    indexes.push_back(std::move(one));
  }
  json j = {{"name", t.spec.name},
            {"primary", kind_name(t.spec.primary)},
            {"columns", std::move(columns)},
            {"indexes", std::move(indexes)}};
  if (!t.file.empty()) j["file"] = t.file;
  if (t.rows) j["rows"] = *t.rows;
  if (t.bytes) j["bytes"] = *t.bytes;
  return j;
}

[[noreturn]] void refuse(const std::string& what) { throw failure(what); }

[[noreturn]] void refuse_behind(std::string_view before, const std::string& where,
                                const char* what) {
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;
  refuse(fmt::format("{}: not the schema of a dump: {} at line {}, column {}", where, what, line,
                     column));
}

json parse_json(std::string_view text, const std::string& where) {
  // For the parser that is the end, whatever comes after it.
  const std::size_t zero = text.find('\0');
  if (zero != std::string_view::npos) refuse_behind(text.substr(0, zero), where, "a zero byte");
  try {
    return json::parse(text);
  } catch (const json::parse_error& e) {
    refuse_behind(text.substr(0, e.byte == 0 ? 0 : e.byte - 1), where, "no JSON");
  } catch (const json::exception&) {  // a number that is too large
    refuse(where + ": not the schema of a dump");
  }
}

/// An object of which each member is asked for, or is one too many.
class members {
 public:
  members(const json& j, std::string what, std::initializer_list<const char*> known)
      : json_(j), what_(std::move(what)) {
    if (!j.is_object()) refuse(what_ + " is not an object");
    for (const auto& [name, ignored] : j.items()) {
      bool found = false;
      for (const char* k : known) found = found || name == k;
      if (!found) refuse(what_ + " has a member that is not known: '" + name + "'");
    }
  }
  [[nodiscard]] const json& at(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) refuse(fmt::format("{} has no member '{}'", what_, name));
    return *found;
  }
  [[nodiscard]] std::string text(const char* name) const {
    if (!at(name).is_string()) refuse(fmt::format("'{}' of {} is not a string", name, what_));
    return at(name).get<std::string>();
  }
  [[nodiscard]] bool flag(const char* name) const {
    if (!json_.contains(name)) return false;
    if (!at(name).is_boolean()) refuse(fmt::format("'{}' of {} is not true or false", name, what_));
    return at(name).get<bool>();
  }
  [[nodiscard]] std::optional<std::uint64_t> count(const char* name) const {
    if (!json_.contains(name)) return std::nullopt;
    if (!at(name).is_number_unsigned()) refuse(fmt::format("'{}' of {} is no count", name, what_));
    return at(name).get<std::uint64_t>();
  }
  [[nodiscard]] const json& array(const char* name) const {
    static const json none = json::array();
    if (!json_.contains(name)) return none;
    if (!at(name).is_array()) refuse(fmt::format("'{}' of {} is not an array", name, what_));
    return at(name);
  }

 private:
  const json& json_;
  std::string what_;
};

/// `what` begins the sentence that refuses it.
db::index_kind kind_of(const std::string& name, const std::string& what) {
  if (name == "hash") return db::index_kind::hash;
  if (name == "ordered") return db::index_kind::ordered;
  refuse(fmt::format("{} '{}'; there are hash, ordered", what, name));
}

db::column_type type_of(const members& m, const std::string& column) {
  const std::string type = m.text("type");
  // Before its digits: what is asked of these depends on it.
  constexpr std::array types{"int64", "float64", "boolean", "decimal", "timestamp", "text", "blob"};
  if (std::ranges::find(types, type) == types.end()) {
    refuse(
        fmt::format("column {} has type '{}'; there are {}", column, type, fmt::join(types, ", ")));
  }
  const auto bytes = m.count("bytes");
  if (bytes && type != "text") refuse("column " + column + " has 'bytes', but is not text");
  const auto digits = m.count("digits");
  if (digits && type != "decimal") refuse("column " + column + " has 'digits', but is no decimal");
  if (type == "timestamp") return db::timestamp;
  if (type == "blob") return db::blob();
  if (type == "decimal") {
    if (!digits || *digits > db::most_digits) {
      refuse("column " + column + " does not say how many digits follow the point, up to 18");
    }
    return db::decimal(static_cast<std::uint32_t>(*digits));
  }
  if (type == "int64") return db::int64;
  if (type == "float64") return db::float64;
  if (type == "boolean") return db::boolean;
  if (!bytes) return db::text();
  if (*bytes > 0xffff)
    refuse("column " + column + " has room for too many bytes; text without 'bytes' has no limit");
  return db::text(static_cast<std::uint32_t>(*bytes));
}

db::column_spec parse_column(const json& j, const std::string& table) {
  const members m(j, "a column of table " + table,
                  {"name", "type", "bytes", "digits", "key", "nullable"});
  db::column_spec c{.name = m.text("name"), .type = {}};
  c.type = type_of(m, c.name);
  const bool key = m.flag("key");
  if (m.flag("nullable")) {
    if (key) refuse("column " + c.name + " is of the key, and cannot be nullable");
    c.role = db::nullable;
  } else if (key) {
    c.role = db::primary_key;
  }
  return c;
}

db::index_spec parse_index(const json& j, const std::string& table) {
  const members m(j, "an index of table " + table, {"name", "columns", "unique", "kind"});
  db::index_spec i{.name = m.text("name"), .columns = {}, .unique = m.flag("unique")};
  if (j.contains("kind")) {
    i.kind = kind_of(m.text("kind"), "index " + i.name + " of table " + table + " is");
  }
  for (const json& c : m.array("columns")) {
    if (!c.is_string()) refuse("a column of index " + i.name + " is not a name");
    i.columns.push_back(c.get<std::string>());
  }
  return i;
}

dumped_table parse_table(const json& j) {
  const members m(j, "a table", {"name", "primary", "columns", "indexes", "file", "rows", "bytes"});
  dumped_table t;
  t.spec.name = m.text("name");
  if (j.contains("primary")) {
    t.spec.primary = kind_of(m.text("primary"), "table " + t.spec.name + " has a primary index");
  }
  for (const json& c : m.array("columns")) t.spec.columns.push_back(parse_column(c, t.spec.name));
  for (const json& i : m.array("indexes")) t.spec.indexes.push_back(parse_index(i, t.spec.name));
  if (j.contains("file")) t.file = m.text("file");
  t.rows = m.count("rows");
  t.bytes = m.count("bytes");
  return t;
}

}  // namespace

const char* type_name(db::base_type t) {
  switch (t) {
    case db::base_type::int64:
      return "int64";
    case db::base_type::float64:
      return "float64";
    case db::base_type::boolean:
      return "boolean";
    case db::base_type::text:
    case db::base_type::long_text:
      return "text";
    case db::base_type::blob:
      return "blob";
    case db::base_type::decimal:
      return "decimal";
    case db::base_type::timestamp:
      return "timestamp";
  }
  return "unknown";
}

bool has_names(const db::table_spec& s) {
  const auto has_name = [](const auto& named) { return is_utf8(named.name); };
  return has_name(s) && std::all_of(s.columns.begin(), s.columns.end(), has_name) &&
         std::all_of(s.indexes.begin(), s.indexes.end(), has_name);
}

std::string schema_text(const std::vector<dumped_table>& tables) {
  json all = json::array();
  for (const dumped_table& t : tables) {
    if (!has_names(t.spec)) {
      throw failure("a name of table " + printable(t.spec.name) +
                    " is not UTF-8, which JSON cannot hold");
    }
    all.push_back(table_json(t));
  }
  return json{{"spolia_dump", format_version}, {"tables", std::move(all)}}.dump();
}

std::vector<dumped_table> parse_schema(std::string_view text, const std::string& where) {
  const json j = parse_json(text, where);
  if (!j.is_object() || !j.contains("spolia_dump")) refuse(where + ": not the schema of a dump");
  try {
    const members m(j, "the schema", {"spolia_dump", "tables"});
    const auto version = m.count("spolia_dump");
    if (version != format_version) {
      refuse(fmt::format("written in version {} of the format; this program reads version {}",
                         m.at("spolia_dump").dump(), format_version));
    }
    std::vector<dumped_table> tables;
    for (const json& t : m.array("tables")) tables.push_back(parse_table(t));
    return tables;
  } catch (const failure& e) {
    throw failure(where + ": " + e.what());
  }
}

bool same(const db::table_spec& a, const db::table_spec& b) { return db::difference(a, b).empty(); }

}  // namespace tool
