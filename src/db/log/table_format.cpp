// SPDX-License-Identifier: Apache-2.0
// table_format.cpp: descriptions of tables and indexes as bytes. What is read may be anything.
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "db/log/log_format.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

template <class Enum>
Enum checked(std::uint8_t v, Enum last) {
  if (v > static_cast<std::uint8_t>(last)) throw malformed("a description has an unknown kind");
  return static_cast<Enum>(v);
}

constexpr unsigned unique_bit = 1;
constexpr unsigned hash_bit = 2;

/// The format has one bit for the kind of a secondary index. So a third kind needs a new format.
unsigned kind_bits(const index_spec& of) {
  switch (of.kind) {
    case index_kind::hash:
      return hash_bit;
    case index_kind::ordered:
      return 0;
  }
  throw std::invalid_argument("spolia::db: the log has no kind " +
                              std::to_string(static_cast<unsigned>(of.kind)) + ", which index " +
                              of.name + " has: use index_kind::hash or index_kind::ordered");
}

}  // namespace

void put_text(byte_buffer& to, std::string_view text) {
  if (text.size() > std::numeric_limits<std::uint16_t>::max()) {
    throw std::invalid_argument("spolia::db: a name of " + std::to_string(text.size()) +
                                " bytes is too long for the log: at most 65535 are allowed");
  }
  put_number(to, static_cast<std::uint16_t>(text.size()));
  const auto* const from = reinterpret_cast<const std::byte*>(text.data());
  to.insert(to.end(), from, from + text.size());
}

void put_index(byte_buffer& to, const index_spec& spec) {
  put_text(to, spec.name);
  const unsigned kind = (spec.unique ? unique_bit : 0U) | kind_bits(spec);
  put_number(to, static_cast<std::uint8_t>(kind));
  put_number(to, static_cast<std::uint16_t>(spec.columns.size()));
  for (const std::string& c : spec.columns) put_text(to, c);
}

index_spec read_index(decoder& from) {
  index_spec spec;
  spec.name = from.text();
  const auto kind = from.number<std::uint8_t>();
  if (kind > (unique_bit | hash_bit)) throw malformed("an index is of an unknown kind");
  spec.unique = (kind & unique_bit) != 0;
  spec.kind = (kind & hash_bit) != 0 ? index_kind::hash : index_kind::ordered;
  for (auto n = from.number<std::uint16_t>(); n > 0; --n) spec.columns.push_back(from.text());
  return spec;
}

void put_table(byte_buffer& to, const table_spec& spec) {
  put_text(to, spec.name);
  put_number(to, static_cast<std::uint8_t>(spec.primary));
  put_number(to, static_cast<std::uint16_t>(spec.columns.size()));
  for (const column_spec& c : spec.columns) {
    put_text(to, c.name);
    put_number(to, static_cast<std::uint8_t>(c.type.base));
    put_number(to, c.type.base == base_type::decimal ? c.type.digits : c.type.bytes);
    put_number(to, static_cast<std::uint8_t>(c.role));
  }
  put_number(to, static_cast<std::uint16_t>(spec.indexes.size()));
  for (const index_spec& i : spec.indexes) put_index(to, i);
}

table_spec read_table(bytes_view bytes) {
  decoder from(bytes);
  table_spec spec;
  spec.name = from.text();
  spec.primary = checked(from.number<std::uint8_t>(), index_kind::ordered);
  for (auto n = from.number<std::uint16_t>(); n > 0; --n) {
    column_spec c;
    c.name = from.text();
    c.type.base = checked(from.number<std::uint8_t>(), base_type::blob);
    (c.type.base == base_type::decimal ? c.type.digits : c.type.bytes) =
        from.number<std::uint32_t>();
    c.role = checked(from.number<std::uint8_t>(), column_role::nullable);
    spec.columns.push_back(std::move(c));
  }
  for (auto n = from.number<std::uint16_t>(); n > 0; --n) {
    spec.indexes.push_back(read_index(from));
  }
  if (!from.done()) throw malformed("something follows a description");
  return spec;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
