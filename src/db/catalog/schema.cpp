// SPDX-License-Identifier: Apache-2.0
// schema.cpp: values to words and keys.
#include <spolia/db/schema.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <stdexcept>

#include <spolia/db/delta.hpp>

#include "base/so_many.hpp"
#include "db/catalog/layouts.hpp"
#include "db/catalog/too_long.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::uint64_t sign = std::uint64_t{1} << 63U;
constexpr std::uint32_t longest_text = 60000;
constexpr std::size_t longest_name = 0xffff;
constexpr std::uint32_t most_words = 8000;        // of a row
constexpr std::size_t most_bytes_of_names = 500;  // in an error

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument("spolia::db: " + what);
}

/// Files have the length of a name in two bytes.
void look_at_name(const std::string& name, const std::string& whose) {
  if (name.empty()) refuse(whose + " needs a name");
  if (name.size() > longest_name) {
    refuse(whose + " has a name of " + std::to_string(name.size()) +
           " bytes: at most 65535 are allowed");
  }
}

[[noreturn]] void refuse_as_key(const column_layout& c) {
  refuse(c.in_words() + " has type " + c.type_in_words() +
         " and cannot be in a key: text(n) can, and other types");
}

[[noreturn]] void refuse_null(const column_layout& c) {
  refuse(c.in_words() + " cannot be null: give it a value, or make it nullable");
}

void look_at_key(const std::string& whose, std::uint32_t words) {
  if (words <= most_key_words) return;
  refuse("the key of " + whose + " has " + std::to_string(words * 8) +
         " bytes: at most 64 are allowed. Numbers take 8, and text(n) n + 2, rounded up to 8");
}

struct kind_of_value {
  const char* operator()(std::monostate) const noexcept { return "null"; }
  const char* operator()(std::int64_t) const noexcept { return "an integer"; }
  const char* operator()(double) const noexcept { return "a double"; }
  const char* operator()(bool) const noexcept { return "a bool"; }
  const char* operator()(std::string_view) const noexcept { return "a text"; }
  const char* operator()(blob_view) const noexcept { return "a blob_view"; }
  const char* operator()(decimal_number) const noexcept { return "a decimal_number"; }
  const char* operator()(instant) const noexcept { return "an instant"; }
};

const char* taken_by(base_type t) noexcept {
  switch (t) {
    case base_type::int64:
      return "an integer";
    case base_type::decimal:
      return "a decimal_number, as in decimal_number(\"1.50\")";
    case base_type::timestamp:
      return "an instant, as in instant_of(\"2026-11-22T21:14:00Z\")";
    case base_type::float64:
      return "a double";
    case base_type::boolean:
      return "a bool";
    case base_type::blob:
      return "a blob_view";
    case base_type::text:
    case base_type::long_text:
      break;
  }
  return "a text";
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

void encode_apart(std::string_view bytes, const column_layout& c, std::uint64_t* to) {
  if (bytes.size() > longest_value) {
    throw too_long(c, bytes.size(), "16777216 bytes (16 MiB)");
  }
  put_apart(bytes, to);
}

/// The decimal as a whole number of the column's last digits.
std::int64_t in_column(decimal_number d, const column_layout& c) {
  try {
    return d.with(c.type.digits).scaled();
  } catch (const std::invalid_argument&) {
    refuse(c.in_words() + " has type " + c.type_in_words() + " and cannot hold " + d.text() +
           ": it keeps " + so_many(c.type.digits, "digit") +
           " after the point, and 64 bits in all");
  }
}

/// Numbers without a name, which a cast can make, would be written to the log, and no opening could
/// read them.
void look_at_type(const column_layout& c) {
  if (c.type.base > base_type::blob) {
    refuse(c.in_words() + " has the type " + std::to_string(static_cast<unsigned>(c.type.base)) +
           ", which there is not: int64, float64, boolean, text(n), text(), blob(), decimal(n) and "
           "timestamp are allowed");
  }
  if (c.role > column_role::nullable) {
    refuse(c.in_words() + " has the role " + std::to_string(static_cast<unsigned>(c.role)) +
           ", which there is not: primary_key, nullable or none are allowed");
  }
  if (c.type.base == base_type::text && (c.type.bytes == 0 || c.type.bytes > longest_text)) {
    refuse(c.in_words() + " has type " + c.type_in_words() +
           ": from 1 to 60000 bytes are allowed, and text() takes up to 16 MiB");
  }
  if (c.type.base == base_type::decimal && c.type.digits > most_digits) {
    refuse(c.in_words() + " has type " + c.type_in_words() +
           ": at most 18 digits after the point are allowed");
  }
}

/// What encode() does where there is nothing to be asked: most values are integers.
inline bool encode_integer(const column_layout& c, const argument& v, std::uint64_t& to) noexcept {
  const auto* const i = std::get_if<std::int64_t>(&v.what());
  if (i == nullptr || c.type.base != base_type::int64) return false;
  to = std::bit_cast<std::uint64_t>(*i);
  return true;
}

/// What encode_key() does for a whole key, where all columns of it are int64 and so are all values.
/// False: encode_key() has to do it.
inline bool encode_integers(values v, key_words& key) noexcept {
  return v.as_they_are([&](const auto* first) {
    for (std::size_t i = 0; i < v.size(); ++i) {
      const auto* const number = std::get_if<std::int64_t>(&first[i].what());
      if (number == nullptr) [[unlikely]]
        return false;
      key[i] = number_in_key(std::bit_cast<std::uint64_t>(*number));
    }
    return true;
  });
}

/// The type that C++ has for a column's.
constexpr const char* cpp_type_of(base_type type) noexcept {
  switch (type) {
    case base_type::int64:
      return "std::int64_t";
    case base_type::float64:
      return "double";
    case base_type::boolean:
      return "bool";
    case base_type::text:
    case base_type::long_text:
      return "std::string_view";
    case base_type::decimal:
      return "decimal_number";
    case base_type::timestamp:
      return "instant";
    case base_type::blob:
      return "blob_view";
  }
  return "nothing";
}

}  // namespace

void refuse_to_read(const column_layout& c, base_type as) {
  refuse(c.in_words() + " has type " + c.type_in_words() + " and is read as " +
         cpp_type_of(c.type.base) + ", not as " + cpp_type_of(as));
}

void refuse_integer() {
  refuse(
      "an integer of more than 9223372036854775807 does not fit: integers have 64 bits, one of "
      "them a sign");
}

void column_layout::encode(const argument& v, std::uint64_t* to) const {
  const auto wrong = [&]() {
    refuse(in_words() + " has type " + type_in_words() + " and takes " + taken_by(type.base) +
           ", not " + std::visit(kind_of_value(), v.what()));
  };
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
        *to = std::bit_cast<std::uint64_t>(in_column(*d, *this));
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
        return encode_apart(*s, *this, to);
      }
      wrong();
      return;
    case base_type::blob:
      if (const auto* const b = std::get_if<blob_view>(&v.what())) {
        return encode_apart(b->chars(), *this, to);
      }
      wrong();
      return;
    case base_type::text:
      if (const auto* const s = std::get_if<std::string_view>(&v.what())) {
        if (s->size() > type.bytes) {
          throw too_long(*this, s->size(), so_many(type.bytes, "byte"));
        }
        encode_text(*s, words, to);
        return;
      }
      wrong();
      return;
  }
}

std::string column_layout::in_words() const {
  return "column " + name + " of table " + table->now();
}

std::string column_layout::type_in_words() const {
  switch (type.base) {
    case base_type::int64:
      return "int64";
    case base_type::decimal:
      return "decimal(" + std::to_string(type.digits) + ")";
    case base_type::timestamp:
      return "timestamp";
    case base_type::float64:
      return "float64";
    case base_type::boolean:
      return "boolean";
    case base_type::long_text:
      return "text()";
    case base_type::blob:
      return "blob()";
    case base_type::text:
      break;
  }
  return "text(" + std::to_string(type.bytes) + ")";
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

schema::schema(const table_spec& spec) : name_(std::make_shared<table_name>(spec.name)) {
  look_at_table_name(spec.name);
  if (spec.columns.empty() || spec.columns.size() > most_columns) {
    refuse("table " + name() + " has " + so_many(spec.columns.size(), "column") +
           ": from 1 to 62 are allowed");
  }
  std::set<std::string_view> names;
  for (const column_spec& c : spec.columns) {
    look_at_name(c.name, "a column of table " + name());
    if (!names.insert(c.name).second) {
      refuse("columns of table " + name() + " need different names: two are called " + c.name);
    }
    const auto number = static_cast<std::uint32_t>(columns_.size());
    columns_.push_back({c.name, c.type, c.role, number, words_, words_of(c.type), 0, name_});
    look_at_type(columns_.back());
    spans_.push_back({words_, columns_.back().words});
    words_ += columns_.back().words;
    const std::uint64_t bit = std::uint64_t{1} << number;
    if (lies_apart(c.type.base)) {
      if (c.role == column_role::key) refuse_as_key(columns_.back());
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
  if (key_.empty()) refuse("table " + name() + " has no column with primary_key: it needs one");
  if (words_ > most_words) {
    refuse("a row of table " + name() + " has " + std::to_string(words_ * 8) +
           " bytes: at most 64000 are allowed. text() and blob() take 16 of them");
  }
  look_at_key("table " + name(), key_length(key_));
  keyed_by_int64s_ = std::all_of(key_.begin(), key_.end(), [&](std::uint32_t n) {
    return columns_[n].type.base == base_type::int64;
  });
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
  std::string names;
  for (const column_layout& c : columns_) {
    if (names.size() < most_bytes_of_names) names += (names.empty() ? "" : ", ") + c.name;
  }
  refuse("table " + name() + " has no column " + std::string(wanted) + ". It has " + names);
}

namespace {

const index_spec* index_called(const std::string& name, const table_spec& in) {
  const auto found = std::find_if(in.indexes.begin(), in.indexes.end(),
                                  [&](const index_spec& i) { return i.name == name; });
  return found != in.indexes.end() ? &*found : nullptr;
}

std::string difference_of_columns(const table_spec& is, const table_spec& wanted) {
  const std::size_t both = std::min(is.columns.size(), wanted.columns.size());
  for (std::size_t n = 0; n < both; ++n) {
    const column_spec& a = is.columns[n];
    const column_spec& b = wanted.columns[n];
    if (a.name != b.name) return "column " + a.name + " is where " + b.name + " is wanted";
    if (a.type != b.type) return "column " + a.name + " has another type";
    if (a.role != b.role) return "column " + a.name + " differs in primary_key or nullable";
  }
  if (both < is.columns.size()) return "column " + is.columns[both].name + " is not wanted";
  if (both < wanted.columns.size()) return "column " + wanted.columns[both].name + " is missing";
  return "";
}

}  // namespace

std::string difference(const table_spec& is, const table_spec& wanted) {
  if (is.name != wanted.name) return "the name is " + is.name + ", and not " + wanted.name;
  if (std::string columns = difference_of_columns(is, wanted); !columns.empty()) return columns;
  if (is.primary != wanted.primary) return "the primary index is of another kind";
  for (const index_spec& b : wanted.indexes) {
    const index_spec* const a = index_called(b.name, is);
    if (a == nullptr) return "index " + b.name + " is missing";
    if (a->columns != b.columns) return "index " + b.name + " has other columns";
    if (a->unique != b.unique) return "index " + b.name + " differs in unique";
    if (a->kind != b.kind) return "index " + b.name + " is of another kind";
  }
  for (const index_spec& a : is.indexes) {
    if (index_called(a.name, wanted) == nullptr) return "index " + a.name + " is not wanted";
  }
  return "";
}

void look_at_table_name(const std::string& name) { look_at_name(name, "a table"); }

void look_at_index_name(const std::string& name, const std::string& table) {
  look_at_name(name, "an index of table " + table);
}

void schema::refuse_key(std::size_t count) const {
  refuse("a key of table " + name() + " has " + so_many(key_.size(), "value") + ", and not " +
         std::to_string(count));
}

key_words schema::whole_key(values v) const {
  if (v.size() != key_.size()) [[unlikely]]
    refuse_key(v.size());
  key_words key{};
  if (!keyed_by_int64s_ || !encode_integers(v, key)) key = encode_key(key_, v);
  return key;
}

std::vector<std::uint32_t> schema::key_columns(const std::string& index,
                                               const std::vector<std::string>& names) const {
  const std::string whose = "index " + index + " of table " + name();
  if (names.empty()) refuse(whose + " needs a column");
  std::vector<std::uint32_t> found;
  for (const std::string& n : names) {
    const column_layout& c = column(n);
    if (c.role == column_role::nullable) {
      refuse(whose + " takes no nullable column, as " + c.name + " is");
    }
    if (lies_apart(c.type.base)) refuse_as_key(c);
    found.push_back(c.number);
  }
  look_at_key(whose, key_length(found));
  return found;
}

std::uint32_t schema::key_length(const std::vector<std::uint32_t>& columns) const {
  std::uint32_t sum = 0;
  for (const std::uint32_t c : columns) sum += columns_[c].words;
  return sum;
}

std::uint64_t schema::encode_row(values v, std::uint64_t* image) const {
  if (v.size() != columns_.size()) {
    refuse("a row of table " + name() + " has " + so_many(columns_.size(), "value") + ", and not " +
           std::to_string(v.size()));
  }
  return v.as_they_are([&](const auto* next) {
    std::uint64_t shape = row_exists;
    for (const column_layout& c : columns_) {
      const argument& of = *next++;
      if (encode_integer(c, of, image[c.first])) continue;
      if (!of.null()) {
        c.encode(of, image + c.first);
        continue;
      }
      if (c.role != column_role::nullable) refuse_null(c);
      std::fill_n(image + c.first, c.words, 0);
      shape |= std::uint64_t{1} << c.number;
    }
    return shape;
  });
}

key_words schema::encode_key(const std::vector<std::uint32_t>& columns, values v,
                             std::uint64_t rest) const {
  if (v.size() > columns.size()) {
    refuse("a key of table " + name() + " has at most " + so_many(columns.size(), "value") +
           " here, and not " + std::to_string(v.size()));
  }
  return v.as_they_are([&](const auto* next) {
    key_words key;
    key.fill(rest);
    std::uint64_t* to = key.data();
    for (const std::uint32_t n : std::span(columns).first(v.size())) {
      const column_layout& c = columns_[n];
      const argument& of = *next++;
      if (std::uint64_t number = 0; encode_integer(c, of, number)) {
        *to++ = number_in_key(number);
        continue;
      }
      std::array<std::uint64_t, most_key_words> words{};
      c.encode(of, words.data());
      c.encode_key(words.data(), to);
      to += c.words;
    }
    return key;
  });
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
