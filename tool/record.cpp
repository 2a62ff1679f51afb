// SPDX-License-Identifier: Apache-2.0
#include "record.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "text.hpp"

namespace tool {
namespace {

using db::base_type;

const char* kind_of(const db::column_layout& c) {
  switch (c.type.base) {
    case base_type::int64:
      return "a whole number of 64 bits";
    case base_type::float64:
      return "a number that a double can hold";
    case base_type::boolean:
      return "true or false";
    case base_type::text:
    case base_type::long_text:
      return "text";
    case base_type::blob:
      return "a blob in base64";
    case base_type::decimal:
      return "a decimal number";
    case base_type::timestamp:
      return "a timestamp such as 2026-11-22T21:14:00.25Z";
  }
  return "known";
}

record::complaint wants(const db::column_layout& c) {
  return fmt::format("column {} must be {}", c.name, kind_of(c));
}

/// Words that a message can take.
std::string shown(std::string_view v) {
  constexpr std::size_t most = 40;
  const std::string_view part = v.substr(0, most);
  for (const char c : part) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f)
      return "this";
  }
  return fmt::format("'{}{}'", part, part.size() < v.size() ? "..." : "");
}

}  // namespace

void record::begin(const db::table& t) {
  table_ = &t;
  given_ = 0;
  values_.assign(t.layout().columns().size(), db::value());
  texts_.resize(std::max(texts_.size(), values_.size()));
}

void record::put(const db::column_layout& c, const db::value& v) {
  values_[c.number] = v;
  given_ |= std::uint64_t{1} << c.number;
}

record::complaint record::set_null(const db::column_layout& c) {
  if (c.role != db::nullable) return fmt::format("column {} cannot be null", c.name);
  put(c, nullptr);
  return {};
}

record::complaint record::set(const db::column_layout& c, std::int64_t v) {
  if (c.type.base == base_type::float64) return set(c, static_cast<double>(v));
  if (c.type.base == base_type::decimal) return set(c, db::decimal_number(v, 0));
  if (c.type.base != base_type::int64) return wants(c);
  put(c, v);
  return {};
}

record::complaint record::set(const db::column_layout& c, double v) {
  if (c.type.base != base_type::float64) return wants(c);
  put(c, v);
  return {};
}

record::complaint record::set(const db::column_layout& c, bool v) {
  if (c.type.base != base_type::boolean) return wants(c);
  put(c, v);
  return {};
}

record::complaint record::set(const db::column_layout& c, db::decimal_number v) {
  if (c.type.base != base_type::decimal) return wants(c);
  try {
    put(c, v.with(c.type.digits));
  } catch (const std::invalid_argument&) {
    return fmt::format("column {} with {} after the point cannot hold {}", c.name,
                       so_many(c.type.digits, "digit"), v.text());
  }
  return {};
}

record::complaint record::set(const db::column_layout& c, db::instant v) {
  if (c.type.base != base_type::timestamp) return wants(c);
  put(c, v);
  return {};
}

record::complaint record::set_text(const db::column_layout& c, std::string_view v) {
  if (c.type.base != base_type::text && c.type.base != base_type::long_text) return wants(c);
  return set_bytes(c, v);
}

record::complaint record::set_bytes(const db::column_layout& c, std::string_view v) {
  const bool apart = db::lies_apart(c.type.base);
  if (c.type.base != base_type::text && !apart) return wants(c);
  const std::size_t room = apart ? db::longest_value : c.type.bytes;
  if (v.size() > room) {
    return fmt::format("column {} has room for {}, not {}", c.name, so_many(room, "byte"),
                       v.size());
  }
  texts_[c.number] = v;
  const std::string_view kept = texts_[c.number];
  put(c, c.type.base == base_type::blob ? db::value(db::blob_view(kept)) : db::value(kept));
  return {};
}

record::complaint record::set_written(const db::column_layout& c, std::string_view v) {
  switch (c.type.base) {
    case base_type::int64:
      if (const auto i = to_int64(v)) return set(c, *i);
      break;
    case base_type::float64:
      if (const auto d = to_float64(v)) return set(c, *d);
      break;
    case base_type::boolean:
      if (v == "true" || v == "1") return set(c, true);
      if (v == "false" || v == "0") return set(c, false);
      break;
    case base_type::decimal:
      if (const auto d = to_decimal(v)) return set(c, *d);
      break;
    case base_type::timestamp:
      if (const auto t = to_instant(v)) return set(c, *t);
      break;
    case base_type::text:
    case base_type::long_text:
      return set_text(c, v);
    case base_type::blob:
      if (const auto bytes = from_base64(v)) return set_bytes(c, *bytes);
      break;
  }
  return fmt::format("{}, not {}", wants(c), shown(v));
}

record::complaint record::complete() {
  for (const db::column_layout& c : table_->layout().columns()) {
    if (!given(c) && c.role != db::nullable) {
      return fmt::format("column {} is missing, and cannot be null", c.name);
    }
  }
  return {};
}

std::vector<db::value> record::key() const {
  std::vector<db::value> k;
  for (const std::uint32_t c : table_->layout().key()) k.push_back(values_[c]);
  return k;
}

}  // namespace tool
