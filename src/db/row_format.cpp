// SPDX-License-Identifier: Apache-2.0
// row_format.cpp: rows and descriptions of tables as bytes. What is read may be anything: each
// field is looked at before it is believed.
#include <algorithm>
#include <limits>

#include <spolia/db/delta.hpp>

#include "log_format.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

/// Whether the row's image is copied, but for the word in between that says what is null.
bool as_it_is(const schema& s, std::uint64_t shape) noexcept {
  return std::endian::native == std::endian::little && s.words_only() && shape == row_exists;
}

/// Writes one after the other to where there is room.
class encoder {
 public:
  explicit encoder(std::byte* to) noexcept : at_(to) {}
  template <class T>
  void number(T v) noexcept {
    to_little(at_, v);
    at_ += sizeof(T);
  }
  void value(const column_layout& c, const std::uint64_t* from) noexcept {
    switch (c.type.base) {
      case base_type::int64:
      case base_type::float64:
      case base_type::decimal:
      case base_type::timestamp:
        return number(*from);
      case base_type::boolean:
        return number(static_cast<std::uint8_t>(*from));
      case base_type::text: {
        const std::string_view text = text_in(from, c.words);
        number(static_cast<std::uint16_t>(text.size()));
        return bytes(text);
      }
      case base_type::long_text:
      case base_type::blob:
        number(static_cast<std::uint32_t>(*from));
        return bytes(apart_in(from));
    }
  }
  void key(const schema& s, const std::uint64_t* image) noexcept {
    for (const std::uint32_t n : s.key()) value(s.columns()[n], image + s.columns()[n].first);
  }
  void row(const schema& s, const std::uint64_t* image, std::uint64_t shape) noexcept {
    if (as_it_is(s, shape)) {
      const std::size_t keyed = s.key().size();
      words(image, keyed);
      number(std::uint64_t{0});
      return words(image + keyed, s.words() - keyed);
    }
    key(s, image);
    number(shape & ~row_exists);
    for (const column_layout& c : s.columns()) {
      if (c.role == column_role::key || (shape >> c.number & 1U) != 0) continue;
      value(c, image + c.first);
    }
  }

 private:
  void bytes(std::string_view of) noexcept {
    if (!of.empty()) std::memcpy(at_, of.data(), of.size());
    at_ += of.size();
  }
  void words(const std::uint64_t* from, std::size_t count) noexcept {
    std::memcpy(at_, from, count * sizeof(*from));
    at_ += count * sizeof(*from);
  }
  std::byte* at_;
};

std::size_t value_bytes(const column_layout& c, const std::uint64_t* from) noexcept {
  switch (c.type.base) {
    case base_type::boolean:
      return 1;
    case base_type::text:
      return 2 + text_in(from, c.words).size();
    case base_type::long_text:
    case base_type::blob:
      return 4 + *from;
    case base_type::int64:
    case base_type::float64:
    case base_type::decimal:
    case base_type::timestamp:
      break;
  }
  return 8;
}

/// What encoder::row() writes, or with `key_only` encoder::key().
std::size_t row_bytes(const schema& s, const std::uint64_t* image, std::uint64_t shape,
                      bool key_only) noexcept {
  if (!key_only && as_it_is(s, shape)) return (std::size_t{s.words()} + 1) * 8;
  std::size_t sum = key_only ? 0 : 8;
  for (const column_layout& c : s.columns()) {
    if (c.role != column_role::key && (key_only || (shape >> c.number & 1U) != 0)) continue;
    sum += value_bytes(c, image + c.first);
  }
  return sum;
}

/// Where there is room for so many bytes more.
encoder append(byte_buffer& to, std::size_t bytes) {
  to.resize(to.size() + bytes);
  return encoder(to.data() + to.size() - bytes);
}

std::string_view as_text(bytes_view b) noexcept {
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}

void read_value(decoder& from, const column_layout& c, std::uint64_t* to) {
  switch (c.type.base) {
    case base_type::int64:
    case base_type::float64:
    case base_type::decimal:
    case base_type::timestamp:
      *to = from.number<std::uint64_t>();
      return;
    case base_type::boolean:
      *to = from.number<std::uint8_t>();
      if (*to > 1) throw malformed("a boolean is neither true nor false");
      return;
    case base_type::text: {
      const bytes_view b = from.bytes(from.number<std::uint16_t>());
      if (b.size() > c.type.bytes) throw malformed("a text is longer than its column");
      c.encode(as_text(b), to);
      return;
    }
    case base_type::long_text:
    case base_type::blob: {
      const bytes_view b = from.bytes(from.number<std::uint32_t>());
      if (b.size() > longest_value) throw malformed("a value is longer than 16 MiB");
      return put_apart(as_text(b), to);
    }
  }
}

/// Reads a row that was copied as it is. False: it was not, and nothing is read.
bool read_as_it_is(decoder& from, const schema& s, std::uint64_t* image) {
  const bytes_view row = take_as_they_are(from, s, 1);
  if (row.empty()) return false;
  const std::size_t keyed = s.key().size() * 8;
  std::memcpy(image, row.data(), keyed);
  std::memcpy(image + s.key().size(), row.data() + keyed + 8, row.size() - keyed - 8);
  return true;
}

/// How many bytes a value takes.
std::size_t value_bytes(decoder from, const column_layout& c) {
  switch (c.type.base) {
    case base_type::boolean:
      return 1;
    case base_type::text:
      return 2 + std::size_t{from.number<std::uint16_t>()};
    case base_type::long_text:
    case base_type::blob:
      return 4 + std::size_t{from.number<std::uint32_t>()};
    case base_type::int64:
    case base_type::float64:
    case base_type::decimal:
    case base_type::timestamp:
      break;
  }
  return 8;
}

template <class Enum>
Enum checked(std::uint8_t v, Enum last) {
  if (v > static_cast<std::uint8_t>(last)) throw malformed("a description has an unknown kind");
  return static_cast<Enum>(v);
}

}  // namespace

void put_text(byte_buffer& to, std::string_view text) {
  if (text.size() > std::numeric_limits<std::uint16_t>::max()) {
    throw std::invalid_argument("spolia::db: a name is too long for the log");
  }
  put_number(to, static_cast<std::uint16_t>(text.size()));
  const auto* const from = reinterpret_cast<const std::byte*>(text.data());
  to.insert(to.end(), from, from + text.size());
}

void put_row(byte_buffer& to, const schema& s, const std::uint64_t* image, std::uint64_t shape) {
  append(to, row_bytes(s, image, shape, false)).row(s, image, shape);
}

bytes_view take_as_they_are(decoder& from, const schema& s, std::size_t rows) {
  if (!as_it_is(s, row_exists)) return {};
  const std::size_t keyed = s.key().size() * 8;
  const std::size_t length = (std::size_t{s.words()} + 1) * 8;
  const bytes_view all = from.rest();
  if (all.size() < rows * length) return {};
  for (std::size_t i = 0; i < rows; ++i) {
    if (from_little<std::uint64_t>(all.data() + i * length + keyed) != 0) return {};
  }
  return from.bytes(rows * length);
}

std::uint64_t read_row_image(decoder& from, const schema& s, bool key_only, std::uint64_t* image) {
  if (!key_only && read_as_it_is(from, s, image)) return row_exists;
  for (const std::uint32_t n : s.key()) {
    const column_layout& c = s.columns()[n];
    read_value(from, c, image + c.first);
  }
  if (key_only) return 0;
  const auto nulls = from.number<std::uint64_t>();
  if (nulls >> s.columns().size() != 0) throw malformed("a column that does not exist is null");
  for (const column_layout& c : s.columns()) {
    const bool null = (nulls >> c.number & 1U) != 0;
    if (null && c.role != column_role::nullable) throw malformed("a column cannot be null");
    if (c.role == column_role::key) continue;
    if (null) {
      std::fill_n(image + c.first, c.words, 0);
    } else {
      read_value(from, c, image + c.first);
    }
  }
  return nulls | row_exists;
}

std::size_t least_bytes(const schema& s) noexcept {
  std::size_t sum = sizeof(std::uint64_t);
  for (const column_layout& c : s.columns()) {
    if (c.role == column_role::nullable) continue;
    if (lies_apart(c.type.base)) {
      sum += sizeof(std::uint32_t);
    } else if (c.type.base == base_type::text) {
      sum += sizeof(std::uint16_t);
    } else {
      sum += c.type.base == base_type::boolean ? 1 : 8;
    }
  }
  return sum;
}

std::uint64_t key_hash(decoder from, const schema& s) {
  std::uint64_t hash = 0x9E3779B97F4A7C15U;
  for (const std::uint32_t n : s.key()) {
    const bytes_view b = from.bytes(value_bytes(from, s.columns()[n]));
    if (b.size() == 8) {
      hash = (hash ^ from_little<std::uint64_t>(b.data())) * 0xD6E8FEB86659FD93U;
    } else {
      for (const std::byte x : b) hash = (hash ^ static_cast<std::uint64_t>(x)) * 0x100000001B3U;
    }
    hash ^= hash >> 32U;
  }
  return hash;
}

void put_change(byte_buffer& to, std::uint32_t table, const schema& s, const std::uint64_t* image,
                std::uint64_t shape) {
  const bool exists = (shape & row_exists) != 0;
  const std::size_t bytes = row_bytes(s, image, shape, !exists);
  encoder e = append(to, change_header::bytes + bytes);
  e.number(static_cast<std::uint8_t>(exists ? row_change::put : row_change::erase));
  e.number(table);
  e.number(static_cast<std::uint32_t>(bytes));
  exists ? e.row(s, image, shape) : e.key(s, image);
}

change_header read_change(decoder& from) {
  const auto what = from.number<std::uint8_t>();
  if (what != 1 && what != 2) throw malformed("a change of an unknown kind");
  const auto table = from.number<std::uint32_t>();
  return {static_cast<row_change>(what), table, from.number<std::uint32_t>()};
}

void put_index(byte_buffer& to, const index_spec& spec) {
  put_text(to, spec.name);
  const unsigned kind = (spec.unique ? 1U : 0U) | (spec.kind == index_kind::hash ? 2U : 0U);
  put_number(to, static_cast<std::uint8_t>(kind));
  put_number(to, static_cast<std::uint16_t>(spec.columns.size()));
  for (const std::string& c : spec.columns) put_text(to, c);
}

index_spec read_index(decoder& from) {
  index_spec spec;
  spec.name = from.text();
  const auto kind = from.number<std::uint8_t>();
  if (kind > 3) throw malformed("an index is of an unknown kind");
  spec.unique = (kind & 1U) != 0;
  spec.kind = (kind & 2U) != 0 ? index_kind::hash : index_kind::ordered;
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
