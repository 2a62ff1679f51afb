// SPDX-License-Identifier: Apache-2.0
// schema.cpp: values to words and keys.
#include <spolia/db/schema.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <stdexcept>

#include <spolia/db/delta.hpp>

#include "db/catalog/layouts.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::uint64_t sign = std::uint64_t{1} << 63U;
constexpr std::uint32_t longest_text = 60000;
constexpr std::size_t longest_name = 0xffff;

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument("spolia::db: " + what);
}

/// Files have the length of a name in two bytes.
void look_at_name(const std::string& name, const char* whose) {
  if (name.empty()) refuse(std::string(whose) + " needs a name");
  if (name.size() > longest_name)
    refuse(std::string(whose) + " has a name of more than 65535 bytes");
}

[[noreturn]] void refuse_as_key(const std::string& column) {
  refuse("column " + column + " cannot be in a key: text without a limit and blobs cannot");
}

/// Text is its bytes, zeros, and its length in the last two bytes, the more significant first: so
/// the bytes of two texts compare as the texts do.
constexpr std::uint32_t words_of(column_type t) noexcept {
  if (lies_apart(t.base)) return apart_words;
  return t.base == base_type::text ? (t.bytes + 2 + 7) / 8 : 1;
}

constexpr std::uint64_t as_number(std::uint64_t bytes) noexcept {
  if constexpr (std::endian::native == std::endian::little) {
    return __builtin_bswap64(bytes);
  } else {
    return bytes;
  }
}

void encode_text(std::string_view s, std::uint32_t words, std::uint64_t* to) noexcept {
  std::fill_n(to, words, 0);
  auto* const bytes = reinterpret_cast<unsigned char*>(to);
  if (!s.empty()) std::memcpy(bytes, s.data(), s.size());
  bytes[words * 8 - 2] = static_cast<unsigned char>(s.size() >> 8U);
  bytes[words * 8 - 1] = static_cast<unsigned char>(s.size() & 0xffU);
}

void encode_apart(std::string_view bytes, const std::string& column, std::uint64_t* to) {
  if (bytes.size() > longest_value)
    refuse("the value for column " + column + " is longer than 16 MiB");
  put_apart(bytes, to);
}

/// The decimal as a whole number of the column's last digits.
std::int64_t in_column(decimal_number d, const std::string& column, std::uint32_t after_point) {
  try {
    return d.with(after_point).scaled();
  } catch (const std::invalid_argument&) {
    refuse("column " + column + " with " + std::to_string(after_point) +
           " digits after the point cannot hold " + d.text());
  }
}

/// What encode() does where there is nothing to be asked: most values are integers.
inline bool encode_integer(const column_layout& c, const value& v, std::uint64_t& to) noexcept {
  const auto* const i = std::get_if<std::int64_t>(&v.what());
  if (i == nullptr || c.type.base != base_type::int64) return false;
  to = std::bit_cast<std::uint64_t>(*i);
  return true;
}

}  // namespace

void refuse_integer() { refuse("an integer does not fit into 64 bits with a sign"); }

void column_layout::encode(const value& v, std::uint64_t* to) const {
  const auto wrong = [&]() { refuse("the value for column " + name + " has another type"); };
  switch (type.base) {
    case base_type::int64:
      if (const auto* const i = std::get_if<std::int64_t>(&v.what())) {
        *to = std::bit_cast<std::uint64_t>(*i);
        return;
      }
      wrong();
      return;
    case base_type::decimal:
      if (const auto* const d = std::get_if<decimal_number>(&v.what())) {
        *to = std::bit_cast<std::uint64_t>(in_column(*d, name, type.digits));
        return;
      }
      wrong();
      return;
    case base_type::timestamp:
      if (const auto* const t = std::get_if<instant>(&v.what())) {
        *to = std::bit_cast<std::uint64_t>(microseconds_of(*t));
        return;
      }
      wrong();
      return;
    case base_type::float64:
      if (const auto* const d = std::get_if<double>(&v.what())) {
        *to = double_word(*d);  // one zero and one NaN, so one key
        return;
      }
      wrong();
      return;
    case base_type::boolean:
      if (const auto* const b = std::get_if<bool>(&v.what())) {
        *to = *b ? 1 : 0;
        return;
      }
      wrong();
      return;
    case base_type::long_text:
      if (const auto* const s = std::get_if<std::string_view>(&v.what())) {
        return encode_apart(*s, name, to);
      }
      wrong();
      return;
    case base_type::blob:
      if (const auto* const b = std::get_if<blob_view>(&v.what())) {
        return encode_apart(b->chars(), name, to);
      }
      wrong();
      return;
    case base_type::text:
      if (const auto* const s = std::get_if<std::string_view>(&v.what())) {
        if (s->size() > type.bytes) refuse("the text for column " + name + " is too long");
        encode_text(*s, words, to);
        return;
      }
      wrong();
      return;
  }
}

value column_layout::decode(const std::uint64_t* from) const noexcept {
  switch (type.base) {
    case base_type::int64:
      return std::bit_cast<std::int64_t>(*from);
    case base_type::decimal:
      return decimal_number(std::bit_cast<std::int64_t>(*from), type.digits);
    case base_type::timestamp:
      return instant_at(std::bit_cast<std::int64_t>(*from));
    case base_type::float64:
      return std::bit_cast<double>(*from);
    case base_type::boolean:
      return *from != 0;
    case base_type::long_text:
      return apart_in(from);
    case base_type::blob:
      return blob_view(apart_in(from));
    case base_type::text:
      return text_in(from, words);
  }
  return {};
}

void column_layout::encode_key(const std::uint64_t* from, std::uint64_t* to) const noexcept {
  switch (type.base) {
    case base_type::int64:
    case base_type::decimal:
    case base_type::timestamp:
      *to = number_in_key(*from);
      return;
    case base_type::float64:
      *to = (*from & sign) != 0 ? ~*from : *from | sign;
      return;
    case base_type::boolean:
      *to = *from;
      return;
    case base_type::long_text:
    case base_type::blob:
      return;  // not in keys
    case base_type::text:
      for (std::uint32_t i = 0; i < words; ++i) to[i] = as_number(from[i]);
      return;
  }
}

schema::schema(const table_spec& spec) : name_(spec.name) {
  look_at_name(name_, "a table");
  if (spec.columns.empty() || spec.columns.size() > most_columns) {
    refuse("a table has from 1 to 62 columns");
  }
  std::set<std::string_view> names;
  for (const column_spec& c : spec.columns) {
    look_at_name(c.name, "a column");
    if (!names.insert(c.name).second) {
      refuse("columns of one table need different names: two are called " + c.name);
    }
    if (c.type.base == base_type::text && (c.type.bytes == 0 || c.type.bytes > longest_text)) {
      refuse("text has from 1 to 60000 bytes");
    }
    if (c.type.base == base_type::decimal && c.type.digits > most_digits) {
      refuse("a decimal has at most 18 digits after the point");
    }
    const auto number = static_cast<std::uint32_t>(columns_.size());
    columns_.push_back({c.name, c.type, c.role, number, words_, words_of(c.type)});
    spans_.push_back({words_, columns_.back().words});
    words_ += columns_.back().words;
    const std::uint64_t bit = std::uint64_t{1} << number;
    if (lies_apart(c.type.base)) {
      if (c.role == column_role::key) refuse_as_key(c.name);
      apart_ |= bit;
    }
    if (takes_a_word(c.type.base)) {
      (c.type.base == base_type::float64 ? doubles_ : numbers_) |= bit;
    }
    if (c.role == column_role::nullable) nullable_ |= bit;
    if (c.role == column_role::key) {
      key_.push_back(number);
      keyed_ |= bit;
    }
    words_only_ = words_only_ && takes_a_word(c.type.base) &&
                  (c.role != column_role::key || key_.size() == columns_.size());
  }
  if (key_.empty()) refuse("a table needs a key column");
  if (words_ > 8000) refuse("a row has at most 64000 bytes");
  if (key_length(key_) > most_key_words) refuse("a key has at most 64 bytes");
  runs_ = runs_of(every_bit());
  tag_ = layout_number(spec);
  for (column_layout& c : columns_) c.of = tag_;
}

std::vector<column_run> schema::runs_of(std::uint64_t columns) const {
  std::array<column_run, most_columns> runs;
  return {runs.data(), runs.data() + runs_of(columns, runs.data())};
}

std::uint32_t schema::runs_of(std::uint64_t columns, column_run* to) const noexcept {
  std::uint32_t count = 0;
  each_column(columns, [&](std::uint32_t c) {
    const column_span s = spans_[c];
    if (count != 0) {
      column_run& last = to[count - 1];
      if (last.width == s.words && last.first + last.count * last.width == s.first) {
        ++last.count;
        return;
      }
    }
    to[count++] = {s.first, 1, s.words};
  });
  return count;
}

const column_layout& schema::column(std::string_view wanted) const {
  for (const column_layout& c : columns_) {
    if (c.name == wanted) return c;
  }
  refuse("table " + name_ + " has no column " + std::string(wanted));
}

void look_at_index_name(const std::string& name) { look_at_name(name, "an index"); }

key_words schema::whole_key(values v) const {
  if (v.size() != key_.size()) {
    refuse("a key of table " + name_ + " has " + std::to_string(key_.size()) + " values, and not " +
           std::to_string(v.size()));
  }
  return encode_key(key_, v);
}

std::vector<std::uint32_t> schema::key_columns(const std::vector<std::string>& names) const {
  if (names.empty()) refuse("an index needs a column");
  std::vector<std::uint32_t> found;
  for (const std::string& n : names) {
    const column_layout& c = column(n);
    if (c.role == column_role::nullable) refuse("an index takes no nullable columns");
    if (lies_apart(c.type.base)) refuse_as_key(c.name);
    found.push_back(c.number);
  }
  if (key_length(found) > most_key_words) refuse("a key has at most 64 bytes");
  return found;
}

std::uint32_t schema::key_length(const std::vector<std::uint32_t>& columns) const {
  std::uint32_t sum = 0;
  for (const std::uint32_t c : columns) sum += columns_[c].words;
  return sum;
}

std::uint64_t schema::encode_row(values v, std::uint64_t* image) const {
  if (v.size() != columns_.size()) refuse("table " + name_ + " needs a value for each column");
  std::uint64_t shape = row_exists;
  for (const column_layout& c : columns_) {
    if (encode_integer(c, v[c.number], image[c.first])) continue;
    if (!v[c.number].null()) {
      c.encode(v[c.number], image + c.first);
      continue;
    }
    if (c.role != column_role::nullable) refuse("column " + c.name + " cannot be null");
    std::fill_n(image + c.first, c.words, 0);
    shape |= std::uint64_t{1} << c.number;
  }
  return shape;
}

key_words schema::encode_key(const std::vector<std::uint32_t>& columns, values v,
                             std::uint64_t rest) const {
  if (v.size() > columns.size()) refuse("too many values for a key of table " + name_);
  key_words key;
  key.fill(rest);
  std::uint32_t at = 0;
  for (std::size_t i = 0; i < v.size(); ++i) {
    const column_layout& c = columns_[columns[i]];
    if (std::uint64_t number = 0; encode_integer(c, v[i], number)) {
      key[at++] = number_in_key(number);
      continue;
    }
    std::array<std::uint64_t, most_key_words> words{};
    c.encode(v[i], words.data());
    c.encode_key(words.data(), key.data() + at);
    at += c.words;
  }
  return key;
}

key_words schema::key_of(const std::vector<std::uint32_t>& columns,
                         const std::uint64_t* image) const noexcept {
  key_words key{};
  std::uint32_t at = 0;
  for (const std::uint32_t n : columns) {
    const column_layout& c = columns_[n];
    if (c.type.base == base_type::int64) {
      key[at++] = number_in_key(image[c.first]);
      continue;
    }
    c.encode_key(image + c.first, key.data() + at);
    at += c.words;
  }
  return key;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
