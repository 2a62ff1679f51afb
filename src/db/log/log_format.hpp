// SPDX-License-Identifier: Apache-2.0
// log_format.hpp: the bytes of a database's files: headers, records, rows, tables' descriptions.
// docs/formats.md has them as diagrams. Numbers are little-endian. Internal.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/db/schema.hpp>

#include "db/index/index.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Format 1 has no decimals, timestamps, variable text and blobs; formats 1 and 2 drop nothing, and
/// make indexes with their tables alone; formats 1 to 3 log whole rows; formats 1 to 4 may have
/// several NaNs; formats 1 to 5 rename no table. All are read, too.
inline constexpr std::uint32_t storage_format = 6;
inline constexpr std::uint32_t oldest_format = 1;
inline constexpr std::uint32_t first_with_drops = 3;
inline constexpr std::uint32_t first_with_one_nan = 5;
using database_id = std::array<std::byte, 16>;
using bytes_view = std::span<const std::byte>;

/// Makes bytes that are anything: the caller that makes room for them writes them.
template <class T>
struct bare_allocator : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = bare_allocator<U>;
  };
  template <class U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
};
using byte_buffer = std::vector<std::byte, bare_allocator<std::byte>>;

/// So many bytes, which are anything until they are written. No vector: code that is not optimised
/// makes and destroys its elements one by one, and of a megabyte that was most of an opening.
class byte_block {
 public:
  explicit byte_block(std::size_t size)
      : data_(std::make_unique_for_overwrite<std::byte[]>(size)), size_(size) {}
  [[nodiscard]] std::byte* begin() const noexcept { return data_.get(); }
  [[nodiscard]] std::byte* end() const noexcept { return begin() + size_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_;
};

template <class T>
T from_little(const std::byte* from) noexcept {
  T v;
  std::memcpy(&v, from, sizeof(T));
  if constexpr (std::endian::native == std::endian::big) {
    if constexpr (sizeof(T) == 8) v = __builtin_bswap64(v);
    if constexpr (sizeof(T) == 4) v = __builtin_bswap32(v);
    if constexpr (sizeof(T) == 2) v = __builtin_bswap16(v);
  }
  return v;
}
template <class T>
void to_little(std::byte* to, T v) noexcept {
  if constexpr (std::endian::native == std::endian::big) {
    v = from_little<T>(reinterpret_cast<const std::byte*>(&v));
  }
  std::memcpy(to, &v, sizeof(T));
}

/// What was read has a right checksum and makes no sense all the same.
class malformed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads numbers and text one after the other. Throws malformed at the end.
class decoder {
 public:
  /// After what a file_stream shows there are so many bytes, whatever they are: a packed number is
  /// read as eight bytes, of which most are not its own.
  static constexpr std::size_t spare = 8;

  explicit decoder(bytes_view from, std::size_t behind = 0) noexcept
      : from_(from), behind_(behind) {}
  template <class T>
  T number() {
    return from_little<T>(bytes(sizeof(T)).data());
  }
  bytes_view bytes(std::size_t count) {
    if (from_.size() - at_ < count) throw malformed("it ends too early");
    at_ += count;
    return from_.subspan(at_ - count, count);
  }
  /// A number in one byte to nine: see packed_length().
  std::uint64_t packed() {
    const std::size_t left = from_.size() - at_;
    if (left + behind_ < 8) return packed_near_end();
    const auto eight = from_little<std::uint64_t>(from_.data() + at_);
    const auto length = static_cast<unsigned>(std::countr_zero(eight | 0x100U)) + 1;
    if (length == 9 || left < length) return packed_near_end();
    at_ += length;
    const unsigned others = 64 - 8 * length;
    return eight << others >> others >> length;
  }
  std::string text() {
    const bytes_view b = bytes(number<std::uint16_t>());
    return {reinterpret_cast<const char*>(b.data()), b.size()};
  }
  [[nodiscard]] bool done() const noexcept { return at_ == from_.size(); }
  [[nodiscard]] bytes_view rest() const noexcept { return from_.subspan(at_); }

 private:
  std::uint64_t packed_near_end() {
    const auto first = number<std::uint8_t>();
    if (first == 0) return number<std::uint64_t>();
    const auto length = static_cast<unsigned>(std::countr_zero(first)) + 1;
    std::uint64_t all = first;
    for (unsigned i = 1; i < length; ++i) {
      all |= std::uint64_t{number<std::uint8_t>()} << 8 * i;
    }
    return all >> length;
  }

  bytes_view from_;
  std::size_t behind_;
  std::size_t at_ = 0;
};

/// The same for what most of a log is made of, where decoder::spare bytes follow: it reads first
/// and looks for the end afterwards.
class roomy_decoder {
 public:
  explicit roomy_decoder(bytes_view from) noexcept
      : at_(from.data()), end_(from.data() + from.size()) {}
  /// The next eight bytes, which may be after the end.
  [[nodiscard]] std::uint64_t eight() const noexcept { return from_little<std::uint64_t>(at_); }
  const std::byte* pass(std::size_t count) {
    if (static_cast<std::size_t>(end_ - at_) < count) too_early();
    return std::exchange(at_, at_ + count);
  }
  std::uint64_t packed() {
    const std::uint64_t all = eight();
    const auto length = static_cast<unsigned>(std::countr_zero(all | 0x100U)) + 1;
    if (length == 9) [[unlikely]] {
      return from_little<std::uint64_t>(pass(9) + 1);
    }
    pass(length);
    return all << (64 - 8 * length) >> (64 - 7 * length);
  }
  [[nodiscard]] bool done() const noexcept { return at_ == end_; }
  [[nodiscard]] bytes_view rest() const noexcept { return {at_, end_}; }

 private:
  [[noreturn]] static void too_early();

  const std::byte* at_;
  const std::byte* end_;
};

/// A packed number takes one byte for each seven bits that it has: the lowest bit that is set in
/// the first byte says how many bytes there are, the bits above it are the number. After a first
/// byte of 0, it takes the next eight as they are.
inline constexpr std::size_t longest_packed = 9;
/// The number of the highest bit that is set; and how many sevens of bits reach up to one below 63.
constexpr unsigned last_bit(std::uint64_t v) noexcept {
  return 63U ^ static_cast<unsigned>(std::countl_zero(v | 1U));
}
constexpr unsigned sevens(unsigned last) noexcept { return (9 * last + 73) / 64; }
constexpr unsigned packed_length(std::uint64_t v) noexcept {
  return std::min<unsigned>(sevens(last_bit(v)), longest_packed);
}
/// Numbers near zero, also such as are negative, as small ones.
constexpr std::uint64_t folded(std::uint64_t v) noexcept {
  return v << 1U ^ (std::uint64_t{0} - (v >> 63U));
}
constexpr std::uint64_t unfolded(std::uint64_t v) noexcept {
  return v >> 1U ^ (std::uint64_t{0} - (v & 1U));
}

template <class T>
void put_number(byte_buffer& to, T v) {
  to.resize(to.size() + sizeof(T));
  to_little(to.data() + to.size() - sizeof(T), v);
}
void put_text(byte_buffer& to, std::string_view text);

// Records of the log.

enum class record_kind : std::uint32_t {
  transaction = 1,   ///< rows that were put and erased together
  create_table = 2,  ///< its description; tables are numbered from 0, and no number comes again
  cut = 3,           ///< the last of its segment: a checkpoint or a backup begins after it
  drop_table = 4,    ///< its number
  create_index = 5,  ///< the table's number, and the index's description
  drop_index = 6,    ///< the table's number, and the index's name
  rename_table = 7   ///< its number, and its new name
};
/// Tables of a database at most, also those that are gone.
inline constexpr std::uint32_t most_tables = 1U << 24U;

struct record_header {
  static constexpr std::size_t bytes = 40;
  static constexpr std::uint32_t magic = 0x524C5053U;  // "SPLR"
  std::uint32_t length = 0;                            ///< of what follows the header
  std::uint32_t crc = 0;                               ///< of all but this and the magic number
  std::uint32_t chain = 0;                             ///< the checksum of the record before
  std::uint64_t sequence = 0;
  std::uint64_t durable = 0;  ///< the last that was known durable when this was written
  std::uint32_t epoch = 0;
  record_kind kind = record_kind::transaction;
};

class part_checksums;

inline constexpr std::size_t longest_record = 0xffffffffU;

/// Fills the header of a record that is complete otherwise. Returns its checksum.
std::uint32_t seal_record(std::span<std::byte> record, record_header h) noexcept;
/// What stands where a record's header would be; `from` has that many bytes.
record_header parse_record(bytes_view from) noexcept;
/// The record at the beginning of `from`; why there is none (null: there is).
const char* read_record(bytes_view from, record_header& out) noexcept;
/// The same of the one at `at`. It takes about one time for any length, so that a caller can ask at
/// as many places as there are bytes that look like a record.
const char* read_record(bytes_view all, std::size_t at, const part_checksums& sums,
                        record_header& out) noexcept;

/// What stands after the last record of a segment that was made longer beforehand.
bool only_zeros(bytes_view from) noexcept;

// Segments and checkpoints begin with the same header.

struct file_header {
  static constexpr std::size_t bytes = 64;
  std::uint32_t format = storage_format;
  database_id id{};
  std::uint64_t sequence = 0;  ///< log: of the first record; checkpoint: of the last in it
  std::uint32_t epoch = 0;
  std::uint32_t chain = 0;   ///< the checksum of the record before the first, or of the last in it
  std::uint32_t tables = 0;  ///< of a checkpoint: that were ever made
  bool log_follows = false;  ///< of a checkpoint: a segment begins after it
  /// Of the records of a segment, of the last change in a checkpoint: history.hpp.
  std::uint64_t origin = 0;
};
enum class file_kind : std::uint8_t { log, checkpoint };

std::array<std::byte, file_header::bytes> write_header(file_kind kind, const file_header& h);
/// What read_header() says of a whole header of another format: `out` has the number then.
extern const char* const unknown_header_format;
/// Why it is none (null: it is one).
const char* read_header(file_kind kind, bytes_view from, file_header& out) noexcept;
/// Of a file that may be damaged: the header as it was, if its checksum, or another one that a
/// block names, proves the rest of it. False: neither does.
bool mend_header(file_kind kind, bytes_view from, std::uint32_t other_sum,
                 std::array<std::byte, file_header::bytes>& out) noexcept;
/// Of the header's bytes: what the first block of a checkpoint is chained to.
std::uint32_t header_checksum(bytes_view header) noexcept;

/// log-0000000000000001.spl and the like.
std::string file_name(file_kind kind, std::uint64_t sequence);
/// False: it is no such name.
bool parse_name(std::string_view name, file_kind kind, std::uint64_t& sequence) noexcept;

// Checkpoints are blocks.

enum class block_kind : std::uint32_t { table = 1, rows = 2, end = 3 };

struct block_header {
  static constexpr std::size_t bytes = 32;
  static constexpr std::uint32_t magic = 0x424C5053U;  // "SPLB"
  std::uint32_t length = 0;
  std::uint32_t crc = 0;
  std::uint32_t chain = 0;
  block_kind kind = block_kind::rows;
  std::uint32_t table = 0;
  /// In this block. At the end: in all. Of a table: it had room for so many, 0 if that is not
  /// known.
  std::uint64_t rows = 0;
};
std::uint32_t seal_block(std::span<std::byte> block, block_header h) noexcept;
/// The header alone; why there is none.
const char* read_block_header(bytes_view from, block_header& out) noexcept;
/// Whether the body belongs to the header.
bool block_whole(bytes_view block, const block_header& h) noexcept;

// Rows and descriptions.

void put_table(byte_buffer& to, const table_spec& spec);
table_spec read_table(bytes_view from);
void put_index(byte_buffer& to, const index_spec& spec);
index_spec read_index(decoder& from);

/// `set` is a change of a row that is there; formats 1 to 3 put the whole row instead.
enum class row_change : std::uint8_t { put = 1, erase = 2, set = 3 };

/// One change: what, which table, how long, the key's columns, the others.
struct change_header {
  static constexpr std::size_t bytes = 9;  ///< of put and erase
  row_change what = row_change::put;
  std::uint32_t table = 0;
  std::uint32_t length = 0;
};
void put_change(byte_buffer& to, std::uint32_t table, const schema& s, const std::uint64_t* image,
                std::uint64_t shape);
/// The same of a row that is there, of which the image has the key and the columns that are `set`.
void put_columns(byte_buffer& to, std::uint32_t table, const schema& s, const std::uint64_t* image,
                 std::uint64_t shape, std::uint64_t set);
change_header read_long_change(decoder from);
inline change_header read_change(roomy_decoder& from) {
  constexpr std::uint64_t what = 0xffU;
  constexpr std::uint64_t short_ones = what | 1U << 8U | 1U << 16U;  // two packed in one byte each
  const std::uint64_t all = from.eight();
  constexpr auto set = static_cast<std::uint64_t>(row_change::set);
  if ((all & short_ones) == (set | 1U << 8U | 1U << 16U)) {
    from.pass(3);
    return {row_change::set, static_cast<std::uint32_t>(all >> 9U & 0x7fU),
            static_cast<std::uint32_t>(all >> 17U & 0x7fU)};
  }
  if ((all & what) != set) {
    const change_header h = read_long_change(decoder(from.rest()));
    from.pass(change_header::bytes);
    return h;
  }
  from.pass(1);
  const std::uint64_t table = from.packed();
  const std::uint64_t length = from.packed();
  if (table >= most_tables || length > longest_record) throw malformed("a change of no table");
  return {row_change::set, static_cast<std::uint32_t>(table), static_cast<std::uint32_t>(length)};
}

/// The columns of a row without a change_header: the key's, which columns are null, the others.
void put_row(byte_buffer& to, const schema& s, const std::uint64_t* image, std::uint64_t shape);
/// Fills the image, which then refers to out-of-line values in `from`; returns the row's shape.
/// With `key_only` the key's columns alone.
std::uint64_t read_row_image(decoder& from, const schema& s, bool key_only, std::uint64_t* image);
/// What put_columns() has written after the key.
struct set_columns {
  std::uint64_t columns = 0;
  std::uint64_t nulls = 0;  ///< of these
};
/// Which may be set, and which of them be null.
struct set_rules {
  set_rules(const schema& s) noexcept  // NOLINT: it is what a schema says
      : whole(s.whole().mask), settable(whole & ~s.keyed()), nullable(s.nullable()) {}
  [[noreturn]] void refuse(set_columns what) const;

  std::uint64_t whole;
  std::uint64_t settable;
  std::uint64_t nullable;
};
inline set_columns read_which(roomy_decoder& from, const set_rules& rules) {
  set_columns what;
  what.columns = from.packed();
  what.nulls = from.packed();
  const std::uint64_t wrong = what.nulls & ~(what.columns & rules.nullable);
  if (((what.columns & ~rules.settable) | wrong) != 0) rules.refuse(what);
  return what;
}
/// A value of one of schema::numbers() after that.
template <class Decoder>
std::uint64_t read_number(Decoder& from) {
  return unfolded(from.packed());
}
/// Fills those columns of the image, as read_row_image() does.
void read_columns(decoder& from, const schema& s, set_columns set, std::uint64_t* image);
/// The bytes of so many rows that were written as their images are, but for the word after the key
/// that says what is null. Nothing: some were not, and none is passed.
bytes_view take_as_they_are(decoder& from, const schema& s, std::size_t rows);
/// No row takes less.
std::size_t least_bytes(const schema& s) noexcept;
/// A number that rows with the same key have in common; hash_of_word() of a key that is one number.
std::uint64_t long_key_hash(decoder from, const schema& s);
inline std::uint64_t key_hash(bytes_view row) {
  return hash_of_word(number_in_key(decoder(row).number<std::uint64_t>()));
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
