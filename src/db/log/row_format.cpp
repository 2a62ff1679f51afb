// SPDX-License-Identifier: Apache-2.0
// row_format.cpp: rows as bytes. What is read may be anything: each field is looked at before it is
// believed.
#include <algorithm>
#include <bit>

#include <spolia/db/delta.hpp>

#include "db/log/log_format.hpp"

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
  /// There is room for longest_packed, whatever it takes.
  void packed(std::uint64_t v) noexcept {
    const unsigned last = last_bit(v);
    if (last >= 56) [[unlikely]] {
      number(std::uint8_t{0});
      return number(v);
    }
    const unsigned length = sevens(last);
    to_little(at_, (v << 1U | 1U) << (length - 1));
    at_ += length;
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
    if (s.words_only()) {
      for (std::size_t i = 0; i < s.key().size(); ++i) number(image[i]);
      return;
    }
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
  /// Of these columns, none of which is null.
  void columns(const schema& s, const std::uint64_t* image, std::uint64_t which) noexcept {
    while (which != 0) {
      const auto c = static_cast<unsigned>(std::countr_zero(which));
      const std::uint64_t* const from = image + s.span_of(c).first;
      unsigned count = 1;
      if ((s.numbers() >> c & 1U) != 0) {
        count = run_of(which & s.numbers(), c);
        for (unsigned i = 0; i < count; ++i) packed(folded(from[i]));
      } else if ((s.doubles() >> c & 1U) != 0) {
        count = run_of(which & s.doubles(), c);
        for (unsigned i = 0; i < count; ++i) packed(__builtin_bswap64(from[i]));  // ends in zeros
      } else {
        value(s.columns()[c], from);
      }
      which &= ~std::uint64_t{0} << (c + count - 1) << 1U;
    }
  }
  /// In no more bytes than these.
  void packed_within(std::uint64_t v, unsigned length) noexcept {
    v = v << length | std::uint64_t{1} << (length - 1);
    for (; length != 0; --length, v >>= 8U) number(static_cast<std::uint8_t>(v));
  }
  void pass(std::size_t bytes) noexcept { at_ += bytes; }
  [[nodiscard]] std::byte* at() const noexcept { return at_; }

 private:
  /// So many follow each other, and so do their words.
  static unsigned run_of(std::uint64_t columns, unsigned first) noexcept {
    return static_cast<unsigned>(std::countr_one(columns >> first));
  }
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

/// At most what encoder::columns() writes.
std::size_t most_bytes(const schema& s, const std::uint64_t* image, std::uint64_t which) noexcept {
  std::size_t sum = 0;
  const std::uint64_t packed = which & (s.numbers() | s.doubles());
  each_column(which & ~packed, [&](std::uint32_t c) {
    sum += value_bytes(s.columns()[c], image + s.span_of(c).first);
  });
  return sum + static_cast<std::size_t>(std::popcount(packed)) * longest_packed;
}

std::size_t key_bytes(const schema& s, const std::uint64_t* image) noexcept {
  return s.words_only() ? s.key().size() * 8 : row_bytes(s, image, 0, true);
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

}  // namespace

void read_columns(decoder& from, const schema& s, set_columns set, std::uint64_t* image) {
  each_column(set.columns, [&](std::uint32_t n) {
    const column_layout& c = s.columns()[n];
    if ((set.nulls >> n & 1U) != 0) {
      std::fill_n(image + c.first, c.words, 0);
    } else if ((s.numbers() >> n & 1U) != 0) {
      image[c.first] = read_number(from);
    } else if ((s.doubles() >> n & 1U) != 0) {
      image[c.first] = __builtin_bswap64(from.packed());
    } else {
      read_value(from, c, image + c.first);
    }
  });
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

std::uint64_t long_key_hash(decoder from, const schema& s) {
  std::uint64_t hash = no_words_hash;
  for (const std::uint32_t n : s.key()) {
    const bytes_view b = from.bytes(value_bytes(from, s.columns()[n]));
    if (b.size() == 8) {
      hash = hash_with(hash, from_little<std::uint64_t>(b.data()));
    } else {
      for (const std::byte x : b) hash = (hash ^ static_cast<std::uint64_t>(x)) * 0x100000001B3U;
    }
  }
  return hash_of_all(hash);
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

/// The lengths of what is packed are not known before: there is room for the most that it may be.
void put_columns(byte_buffer& to, std::uint32_t table, const schema& s, const std::uint64_t* image,
                 std::uint64_t shape, std::uint64_t set) {
  const std::uint64_t nulls = shape & set;
  const std::size_t most =
      key_bytes(s, image) + 2 * longest_packed + most_bytes(s, image, set & ~nulls);
  const unsigned length = packed_length(most);
  encoder e = append(to, sizeof(row_change) + longest_packed + length + most);
  e.number(static_cast<std::uint8_t>(row_change::set));
  e.packed(table);
  encoder of_length = e;
  e.pass(length);
  const std::byte* const from = e.at();
  e.key(s, image);
  e.packed(set);
  e.packed(nulls);
  e.columns(s, image, set & ~nulls);
  of_length.packed_within(static_cast<std::uint64_t>(e.at() - from), length);
  to.resize(static_cast<std::size_t>(e.at() - to.data()));
}

void roomy_decoder::too_early() { throw malformed("it ends too early"); }

void set_rules::refuse(set_columns what) const {
  if ((what.columns & ~whole) != 0) throw malformed("a column that does not exist is set");
  if ((what.columns & ~settable) != 0) throw malformed("a column of the key is set");
  if ((what.nulls & ~what.columns) != 0) throw malformed("a column is null that is not set");
  throw malformed("a column cannot be null");
}

change_header read_long_change(decoder from) {
  const auto what = from.number<std::uint8_t>();
  if (what != 1 && what != 2) throw malformed("a change of an unknown kind");
  const auto table = from.number<std::uint32_t>();
  return {static_cast<row_change>(what), table, from.number<std::uint32_t>()};
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
