// SPDX-License-Identifier: Apache-2.0
// schema.hpp: what a table's columns are, how values lie in words, and how keys are made of them.
//
//     db.create_table({.name = "accounts",
//                      .columns = {{"id", int64, primary_key}, {"owner", text(32)},
//                                  {"balance", int64},
//                                  {"note", text(80), nullable}},
//                      .indexes = {{"by_owner", {"owner"}}}});
//
// Errors:      std::invalid_argument with one sentence; std::bad_alloc.
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/db/blob.hpp>
#include <spolia/db/columns.hpp>
#include <spolia/db/decimal.hpp>
#include <spolia/db/instant.hpp>
#include <spolia/db/owned.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

enum class base_type : std::uint8_t {
  int64,
  float64,
  boolean,
  text,
  decimal,
  timestamp,
  long_text,
  blob
};
/// Whether the values are out-of-line values: blob.hpp.
constexpr bool lies_apart(base_type t) noexcept {
  return t == base_type::long_text || t == base_type::blob;
}

/// Whether a value is a word of the row, and eight bytes of the log.
constexpr bool takes_a_word(base_type t) noexcept {
  return t == base_type::int64 || t == base_type::float64 || t == base_type::decimal ||
         t == base_type::timestamp;
}

/// A column's type. Text has at most `bytes` bytes, any bytes, and takes two more in each row,
/// rounded up to a multiple of 8. Decimals have `digits` after the point.
struct column_type {
  base_type base = base_type::int64;
  std::uint32_t bytes = 0;
  std::uint32_t digits = 0;
  friend bool operator==(const column_type&, const column_type&) = default;
};
inline constexpr column_type int64{base_type::int64, 0};
inline constexpr column_type float64{base_type::float64, 0};
inline constexpr column_type boolean{base_type::boolean, 0};
/// An instant: microseconds since 1970.
inline constexpr column_type timestamp{base_type::timestamp, 0};
/// Exact numbers with so many digits after the point, and as many in all as 64 bits hold.
constexpr column_type decimal(std::uint32_t digits) noexcept {
  return {base_type::decimal, 0, digits};
}
constexpr column_type text(std::uint32_t bytes) noexcept { return {base_type::text, bytes}; }
/// Text of any length up to 16 MiB, which takes its bytes and 16 in each row. Not for keys.
constexpr column_type text() noexcept { return {base_type::long_text, 0}; }
/// The same for bytes that are no text.
constexpr column_type blob() noexcept { return {base_type::blob, 0}; }

enum class column_role : std::uint8_t {
  plain,
  key,      ///< a part of the primary key, in the order of the columns; never null
  nullable  ///< may be null
};
inline constexpr column_role primary_key = column_role::key;
inline constexpr column_role nullable = column_role::nullable;

struct column_spec {
  std::string name;
  column_type type;
  column_role role = column_role::plain;
};

enum class index_kind : std::uint8_t {
  hash,    ///< finds equal keys
  ordered  ///< finds ranges, too
};

/// Which table a hash index is; docs/reference/store-hash-indexes.md says what speaks for which.
enum class hash_kind : std::uint8_t {
  probing,  ///< an entry beside the next one that is free: the quickest
  cuckoo    ///< one of two buckets, which may be all but full: a quarter to a half of the memory
};

struct index_spec {
  std::string name;
  std::vector<std::string> columns;  ///< the key, in this order; columns that cannot be null
  bool unique = false;
  index_kind kind = index_kind::ordered;
};

struct table_spec {
  std::string name;
  std::vector<column_spec> columns;
  index_kind primary = index_kind::hash;  ///< of the primary key's index
  std::vector<index_spec> indexes{};
};

/// Says in words where a table, by its spec(), first differs from what a program wants: in its
/// name, the kind of its primary index, a column, or an index. Empty: nowhere. The order of columns
/// counts, that of indexes does not.
[[nodiscard]] SPOLIA_EXPORT std::string difference(const table_spec& is, const table_spec& wanted);

[[noreturn]] SPOLIA_EXPORT void refuse_integer();

/// Whether each Int is one of the numbers that columns of type int64 hold.
template <std::integral Int>
inline constexpr bool always_fits = std::numeric_limits<Int>::digits <= 63;
/// Throws std::invalid_argument if v is none.
template <std::integral Int>
constexpr std::int64_t as_integer(Int v) noexcept(always_fits<Int>) {
  if constexpr (!always_fits<Int>) {
    if (static_cast<Int>(static_cast<std::int64_t>(v)) != v ||
        (v > 0 && static_cast<std::int64_t>(v) < 0)) {
      refuse_integer();
    }
  }
  return static_cast<std::int64_t>(v);
}

/// A value for a column, as an argument of a call. It does not copy texts and blobs: these must
/// live as long as the call, as its temporaries do. To keep a value, use `value`. A null is
/// std::monostate. A decimal may have more or fewer digits after the point than its column, if the
/// column's digits can write the same number. Of doubles, -0 is stored as 0, and every NaN as the
/// same one. As a key that one is equal to itself, and above all numbers.
class argument {
 public:
  argument() noexcept = default;
  argument(std::nullptr_t) noexcept {}  // NOLINT: all of these are
  argument(std::monostate) noexcept {}  // NOLINT: values
  argument(std::nullopt_t) noexcept {}  // NOLINT
  /// Null, or what it has.
  template <class T>
    requires std::constructible_from<argument, const T&>
  argument(const std::optional<T>& v) : argument(v ? argument(*v) : argument()) {}  // NOLINT
  /// Throws std::invalid_argument if it does not fit into 64 bits with a sign.
  template <std::integral Int>
    requires(!std::same_as<Int, bool>)
  argument(Int v) noexcept(always_fits<Int>) : what_(as_integer(v)) {}  // NOLINT: values
  /// An enumerator of an enum that is no class: the whole number that it is.
  template <class Enum>
    requires(std::is_enum_v<Enum> && std::convertible_to<Enum, std::underlying_type_t<Enum>>)
  argument(Enum v) noexcept(always_fits<decltype(+v)>) : argument(+v) {}  // NOLINT
  argument(double v) noexcept : what_(v) {}                               // NOLINT
  argument(std::same_as<bool> auto v) noexcept : what_(v) {}              // NOLINT: not pointers
  argument(decimal_number v) noexcept : what_(v) {}                       // NOLINT
  argument(instant v) noexcept : what_(v) {}                              // NOLINT
  /// Days, seconds or milliseconds. What would have to be rounded does not compile.
  template <class Duration>
    requires std::convertible_to<std::chrono::sys_time<Duration>, instant>
  argument(std::chrono::sys_time<Duration> v) noexcept : what_(instant(v)) {}  // NOLINT
  argument(blob_view v) noexcept : what_(v) {}                                 // NOLINT
  /// A span, a vector or an array of bytes.
  template <std::convertible_to<std::span<const std::byte>> Bytes>
  argument(const Bytes& v) noexcept : what_(blob_view(std::span<const std::byte>(v))) {}  // NOLINT
  argument(std::string_view v) noexcept : what_(v) {}                                     // NOLINT
  /// A null pointer is a null.
  argument(const char* v) noexcept {  // NOLINT
    if (v != nullptr) what_ = std::string_view(v);
  }
  argument(const std::string& v SPOLIA_REFERRED_TO) noexcept  // NOLINT
      : what_(std::string_view(v)) {}
  argument(const owned_blob& v SPOLIA_REFERRED_TO) noexcept : what_(blob_view(v)) {}  // NOLINT

  [[nodiscard]] bool null() const noexcept { return std::holds_alternative<std::monostate>(what_); }
  [[nodiscard]] const auto& what() const noexcept { return what_; }

 protected:
  std::variant<std::monostate, std::int64_t, double, bool, std::string_view, decimal_number,
               instant, blob_view>
      what_;
};
static_assert(std::is_trivially_destructible_v<argument>, "a call ends nothing for its arguments");

/// A value that may be kept. A value that is made of a temporary std::string, owned_text,
/// owned_blob, vector or array of bytes owns it, and so do copies of the value. Other texts and
/// blobs are not copied, and must live as long as the value; owned() copies them.
class value : public argument {
 public:
  using argument::argument;
  value() noexcept = default;
  template <class T>
    requires std::constructible_from<value, const T&>
  value(const std::optional<T>& v) : value(v ? value(*v) : value()) {}  // NOLINT
  template <class T>
    requires std::constructible_from<value, T&&>
  value(std::optional<T>&& v) : value(v ? value(*std::move(v)) : value()) {}  // NOLINT
  value(std::string&& v) { own_text(std::move(v)); }                          // NOLINT
  value(const std::string&& v) { own_text(std::string(v)); }                  // NOLINT
  value(owned_blob&& v) { own_blob(blob_view(v)); }                           // NOLINT
  template <std::convertible_to<std::span<const std::byte>> Bytes>
    requires(!std::is_lvalue_reference_v<Bytes> && !std::ranges::borrowed_range<Bytes>)
  value(Bytes&& v) {  // NOLINT
    own_blob(std::span<const std::byte>(v));
  }
  /// Throws std::bad_alloc if it owns its text.
  value(const value& from) : argument(from) {
    if (from.own_ != nullptr) [[unlikely]]
      *this = from.owned();
  }
  value(value&& from) noexcept : argument(from), own_(std::move(from.own_)) {
    from.what_ = std::monostate();
  }
  value& operator=(value from) noexcept {
    what_ = from.what_;
    own_ = std::move(from.own_);
    return *this;
  }
  ~value() = default;

  /// The same, with a copy of its text or blob. Throws std::bad_alloc.
  [[nodiscard]] value owned() const {
    value made;
    if (const auto* const text = std::get_if<std::string_view>(&what_)) {
      made.own_text(std::string(*text));
    } else if (const auto* const blob = std::get_if<blob_view>(&what_)) {
      made.own_blob(*blob);
    } else {
      made.what_ = what_;
    }
    return made;
  }

 private:
  void own_text(std::string&& text) {
    own_ = std::make_unique<std::string>(std::move(text));
    what_ = std::string_view(*own_);
  }
  void own_blob(blob_view blob) {
    own_ = std::make_unique<std::string>(blob.chars());
    what_ = blob_view(std::string_view(*own_));
  }

  std::unique_ptr<std::string> own_;  // which it refers to
};

/// Values one after the other, of a call or kept somewhere, which are not copied.
class values {
  template <class All>
  static constexpr bool is_list = std::convertible_to<const All&, std::span<const value>> ||
                                  std::convertible_to<const All&, std::span<const argument>>;

 public:
  class iterator {
   public:
    using value_type = argument;
    using difference_type = std::ptrdiff_t;
    iterator() = default;
    iterator(const values& of, std::size_t at) noexcept : of_(&of), at_(at) {}
    const argument& operator*() const noexcept { return (*of_)[at_]; }
    iterator& operator++() noexcept { return ++at_, *this; }
    iterator operator++(int) noexcept { return {*of_, at_++}; }
    bool operator==(const iterator& b) const noexcept { return at_ == b.at_; }

   private:
    const values* of_ = nullptr;
    std::size_t at_ = 0;
  };

  values() = default;
  values(const argument* first, std::size_t count) noexcept : first_(first), count_(count << 1U) {}
  values(const value* first, std::size_t count) noexcept
      : first_(first), count_(count << 1U | are_kept) {}
  /// A vector, an array or a named list of values, or of arguments.
  template <class All>
    requires(is_list<All> && !std::ranges::borrowed_range<All>)
  values(const All& all SPOLIA_REFERRED_TO) noexcept  // NOLINT: they are
      : values(std::ranges::data(all), std::ranges::size(all)) {}
  /// A span.
  template <class All>
    requires(is_list<All> && std::ranges::borrowed_range<All>)
  values(const All& all) noexcept  // NOLINT: as above
      : values(std::ranges::data(all), std::ranges::size(all)) {}

  [[nodiscard]] std::size_t size() const noexcept { return count_ >> 1U; }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// f(the first one) as what it is, value or argument, so that a loop does not ask for each.
  template <class F>
  decltype(auto) as_they_are(F&& f) const {
    if ((count_ & are_kept) != 0) return f(static_cast<const value*>(first_));
    return f(static_cast<const argument*>(first_));
  }
  const argument& operator[](std::size_t i) const noexcept {
    return as_they_are([i](const auto* first) -> const argument& { return first[i]; });
  }
  [[nodiscard]] iterator begin() const noexcept { return {*this, 0}; }
  [[nodiscard]] iterator end() const noexcept { return {*this, size()}; }

 private:
  static constexpr std::size_t are_kept = 1;  // each is a value, not an argument

  const void* first_ = nullptr;
  std::size_t count_ = 0;  // twice, and are_kept: two words go in registers
};

/// A value that stands alone, where a key has one column: no list of values.
template <class V>
concept single_value =
    std::constructible_from<argument, const V&> && !std::convertible_to<const V&, values>;

/// An end of a range of keys, as an argument of a call: a list in braces, anything that `values` is
/// made of, or a single value. Keys that begin with these values are in the range; key_after and
/// key_before leave them out.
class key_bound {
 public:
  enum class kind : std::uint8_t { included, after, before };

  key_bound() noexcept = default;                                           ///< no limit
  key_bound(std::initializer_list<argument> v SPOLIA_REFERRED_TO) noexcept  // NOLINT: all of
      : all_(v.begin(), v.size()) {}                                        // these are bounds
  key_bound(values v) noexcept : all_(v) {}                                 // NOLINT
  template <class All>
    requires(std::convertible_to<const All&, values>)
  key_bound(const All& all SPOLIA_REFERRED_TO) noexcept : all_(all) {}  // NOLINT
  /// Throws std::invalid_argument as `argument` does.
  template <single_value V>
  key_bound(const V& v SPOLIA_REFERRED_TO) : one_(v), all_(&one_, 1) {}  // NOLINT
  key_bound(const key_bound&) = delete;                                  // it may refer to itself
  key_bound& operator=(const key_bound&) = delete;

  [[nodiscard]] values all() const noexcept SPOLIA_REFERRED_TO { return all_; }
  /// Without values it is no limit, whatever it is called.
  [[nodiscard]] kind what() const noexcept { return all_.empty() ? kind::included : kind_; }

 protected:
  kind kind_ = kind::included;

 private:
  argument one_;
  values all_;
};

/// A key_bound that is not in the range itself.
template <key_bound::kind Kind>
class excluded_bound : public key_bound {
 public:
  explicit excluded_bound(std::initializer_list<argument> v SPOLIA_REFERRED_TO) noexcept
      : key_bound(v) {
    kind_ = Kind;
  }
  template <class All>
    requires(std::convertible_to<const All&, values>)
  explicit excluded_bound(const All& all SPOLIA_REFERRED_TO) noexcept : key_bound(all) {
    kind_ = Kind;
  }
  /// Throws std::invalid_argument as `argument` does.
  template <single_value V>
  explicit excluded_bound(const V& v SPOLIA_REFERRED_TO) : key_bound(v) {
    kind_ = Kind;
  }
};
/// A begin: what comes after the rows whose key begins so:
/// scan(t, key_after({7}), {}, f)
using key_after = excluded_bound<key_bound::kind::after>;
/// An end: what comes before the rows whose key begins so:
/// scan(t, {}, key_before({7}), f)
using key_before = excluded_bound<key_bound::kind::before>;

/// Throws std::invalid_argument if no table, or no index, can be called that.
void look_at_table_name(const std::string& name);
void look_at_index_name(const std::string& name, const std::string& table);

/// Keys are words of which the first that differs decides, as unsigned numbers.
inline constexpr std::uint32_t most_key_words = 8;
using key_words = std::array<std::uint64_t, most_key_words>;

/// How a number that may be negative lies in a key.
constexpr std::uint64_t number_in_key(std::uint64_t v) noexcept {
  return v ^ std::uint64_t{1} << 63U;
}

// Doubles as words. All decisions look at bits: arithmetic takes small numbers for zero where the
// processor is told to flush them, and knows no NaN where a compiler is told that there is none.

inline constexpr std::uint64_t infinity_word = 0x7FF0000000000000U;
inline constexpr std::uint64_t nan_word = 0x7FF8000000000000U;
constexpr bool is_nan_word(std::uint64_t bits) noexcept { return bits << 1U > infinity_word << 1U; }
constexpr bool is_infinite_word(std::uint64_t bits) noexcept {
  return bits << 1U == infinity_word << 1U;
}
/// How a double with these bits is stored: there is one zero, and one NaN, which keys and queries
/// have above all numbers.
constexpr std::uint64_t double_word(std::uint64_t bits) noexcept {
  // And not `bits << 1U == 0`, out of which clang makes a comparison of doubles.
  constexpr std::uint64_t negative_zero = std::uint64_t{1} << 63U;
  if (bits == negative_zero) return 0;
  return is_nan_word(bits) ? nan_word : bits;
}
constexpr std::uint64_t double_word(double v) noexcept {
  return double_word(std::bit_cast<std::uint64_t>(v));
}

/// What a table is called, for those who describe it, and was called before, for a checkpoint that
/// is being begun. A former name goes as soon as no checkpoint can need it: a table may be renamed
/// any number of times.
class table_name {
 public:
  explicit table_name(std::string_view first)
      : last_(std::make_unique<one>(one{std::string(first), 0, nullptr})), now_(last_.get()) {}
  ~table_name() { forget_former(); }
  table_name(const table_name&) = delete;
  table_name& operator=(const table_name&) = delete;

  /// A copy: the text goes when the table gets another name. Throws std::bad_alloc.
  [[nodiscard]] std::string now() const {
    const std::lock_guard hold(lock_);
    return now_->text;
  }

  // Internal, under the lock of the catalogue.

  /// Another name, which is not shown yet. Returns where the number of its record goes. Throws
  /// std::bad_alloc.
  std::uint64_t& begin(std::string_view next) {
    auto made = std::make_unique<one>(one{std::string(next), ~std::uint64_t{0}, nullptr});
    made->before = std::move(last_);
    last_ = std::move(made);
    return last_->since;
  }
  void show() noexcept {
    const std::lock_guard hold(lock_);
    now_ = last_.get();
  }
  void take_back() noexcept { last_ = std::move(last_->before); }
  /// Only the last name can be needed from now on, and it is shown. One after the other: a chain
  /// that ended itself would need stack for each name.
  void forget_former() noexcept {
    while (last_->before != nullptr) last_->before = std::move(last_->before->before);
  }
  /// As it was after this record of the log.
  [[nodiscard]] const std::string& after(std::uint64_t record) const noexcept {
    const one* n = last_.get();
    while (n->before != nullptr && n->since > record) n = n->before.get();
    return n->text;
  }

 private:
  struct one {
    std::string text;
    std::uint64_t since;
    std::unique_ptr<one> before;
  };
  mutable spolia::detail::short_lock lock_;  // of now_, and that its text stays
  std::unique_ptr<one> last_;
  const one* now_;
};

/// A column as a table has it.
struct column_layout {
  std::string name;
  column_type type;
  column_role role = column_role::plain;
  std::uint32_t number = 0;
  std::uint32_t first = 0;  ///< word in a row
  std::uint32_t words = 0;
  std::uint32_t of = 0;                       ///< schema::tag() of its table
  std::shared_ptr<const table_name> table{};  ///< of that

  /// Writes `v` to the column's words; of an out-of-line value, where it is. Throws
  /// std::invalid_argument if it is none of the column's, and no_result with outcome::too_long if
  /// it has more bytes than the column takes.
  SPOLIA_EXPORT void encode(const argument& v, std::uint64_t* to) const;
  /// The value in the column's words. Texts and blobs are not copied.
  [[nodiscard]] SPOLIA_EXPORT value decode(const std::uint64_t* from) const noexcept;
  /// For errors: the column with its table, and its type as a table is made with it.
  [[nodiscard]] SPOLIA_EXPORT std::string in_words() const;
  [[nodiscard]] SPOLIA_EXPORT std::string type_in_words() const;
  /// The words of a key out of the words of a value, so that keys compare as values do.
  SPOLIA_EXPORT void encode_key(const std::uint64_t* from, std::uint64_t* to) const noexcept;
};

/// The text in the words of a value.
inline std::string_view text_in(const std::uint64_t* from, std::uint32_t words) noexcept {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(from);
  const std::size_t size = std::size_t{bytes[words * 8 - 2]} << 8U | bytes[words * 8 - 1];
  return {reinterpret_cast<const char*>(bytes), size};
}

/// The columns of a table. Never changes, but for the name of the table.
class SPOLIA_EXPORT schema {
 public:
  explicit schema(const table_spec& spec);

  [[nodiscard]] std::string name() const { return name_->now(); }
  [[nodiscard]] const std::shared_ptr<table_name>& names() const noexcept { return name_; }
  /// What its columns say that they belong to: another number for other columns, and the same for
  /// tables with the same ones, also of another database. The name is no part of it: a table that
  /// is renamed keeps its columns.
  [[nodiscard]] std::uint32_t tag() const noexcept { return tag_; }
  [[nodiscard]] const std::vector<column_layout>& columns() const noexcept { return columns_; }
  [[nodiscard]] const std::vector<std::uint32_t>& key() const noexcept { return key_; }
  [[nodiscard]] std::uint32_t words() const noexcept { return words_; }
  /// All columns.
  [[nodiscard]] column_set whole() const noexcept { return {every_bit(), runs_, spans_.data()}; }
  /// Those of the primary key; and those that may be null.
  [[nodiscard]] std::uint64_t keyed() const noexcept { return keyed_; }
  [[nodiscard]] std::uint64_t nullable() const noexcept { return nullable_; }
  /// Those with out-of-line values.
  [[nodiscard]] std::uint64_t apart() const noexcept { return apart_; }
  /// Those of one word that hold whole numbers, of which most are small; and those with doubles.
  [[nodiscard]] std::uint64_t numbers() const noexcept { return numbers_; }
  [[nodiscard]] std::uint64_t doubles() const noexcept { return doubles_; }
  /// Every column is one word, and the key's come first: rows are written as their images are.
  [[nodiscard]] bool words_only() const noexcept { return words_only_; }
  /// The key is one whole number.
  [[nodiscard]] bool one_number() const noexcept {
    return key_.size() == 1 && (keyed_ & ~numbers_) == 0;
  }
  /// The runs that these columns make.
  [[nodiscard]] std::vector<column_run> runs_of(std::uint64_t columns) const;
  /// The same in `to`, where there is room for a run of each column; how many.
  std::uint32_t runs_of(std::uint64_t columns, column_run* to) const noexcept;
  [[nodiscard]] column_span span_of(std::uint32_t column) const noexcept { return spans_[column]; }
  /// Throws std::invalid_argument if there is none.
  [[nodiscard]] const column_layout& column(std::string_view name) const;
  /// The numbers of the columns of a key: they exist, cannot be null, and are not too long.
  [[nodiscard]] std::vector<std::uint32_t> key_columns(const std::string& index,
                                                       const std::vector<std::string>& names) const;
  [[nodiscard]] std::uint32_t key_length(const std::vector<std::uint32_t>& columns) const;

  /// Writes values for all columns to a row image; returns its shape.
  std::uint64_t encode_row(values v, std::uint64_t* image) const;
  /// The primary key that values for all of its columns make.
  [[nodiscard]] key_words whole_key(values v) const;
  /// The key that values for the first of its columns make; the rest is filled with `rest`.
  key_words encode_key(const std::vector<std::uint32_t>& columns, values v,
                       std::uint64_t rest = 0) const;
  /// The key that a row's image has.
  key_words key_of(const std::vector<std::uint32_t>& columns,
                   const std::uint64_t* image) const noexcept;

 private:
  std::shared_ptr<table_name> name_;
  std::vector<column_layout> columns_;
  std::vector<std::uint32_t> key_;
  std::vector<column_span> spans_;
  std::vector<column_run> runs_;
  std::uint64_t keyed_ = 0;
  std::uint64_t nullable_ = 0;
  std::uint64_t apart_ = 0;
  std::uint64_t numbers_ = 0;
  std::uint64_t doubles_ = 0;
  std::uint32_t words_ = 0;
  std::uint32_t tag_ = 0;
  bool words_only_ = true;
  bool keyed_by_int64s_ = false;

  [[noreturn]] SPOLIA_NOINLINE void refuse_key(std::size_t count) const;
  [[nodiscard]] std::uint64_t every_bit() const noexcept {
    return ~std::uint64_t{0} >> (64U - columns_.size());
  }
};

/// A column of a known type, to read and write it without looking at its name.
template <class T>
struct column {
  std::uint32_t number = 0;
  std::uint32_t first = 0;
  std::uint32_t words = 1;  // 0: an out-of-line text
  std::uint32_t of = 0;     // schema::tag()
};
template <>
struct column<decimal_number> {
  std::uint32_t number = 0;
  std::uint32_t first = 0;
  std::uint32_t digits = 0;
  std::uint32_t of = 0;
};

/// The value in the column's words.
template <class T>
T value_in(column<T> c, const std::uint64_t* words) noexcept {
  if constexpr (std::same_as<T, std::string_view>) {
    return c.words == 0 ? apart_in(words) : text_in(words, c.words);
  } else if constexpr (std::same_as<T, blob_view>) {
    return blob_view(apart_in(words));
  } else if constexpr (std::same_as<T, bool>) {
    return *words != 0;
  } else if constexpr (std::same_as<T, decimal_number>) {
    return {static_cast<std::int64_t>(*words), c.digits};
  } else if constexpr (std::same_as<T, instant>) {
    return instant_at(static_cast<std::int64_t>(*words));
  } else {
    return std::bit_cast<T>(*words);
  }
}

/// Whether columns that are read as a T have one word.
template <class T>
inline constexpr bool in_one_word =
    !std::same_as<T, std::string_view> && !std::same_as<T, blob_view>;

/// What is in the columns that are read as a T.
template <class T>
inline constexpr std::optional<base_type> base_of = std::nullopt;
template <>
inline constexpr std::optional<base_type> base_of<std::int64_t> = base_type::int64;
template <>
inline constexpr std::optional<base_type> base_of<double> = base_type::float64;
template <>
inline constexpr std::optional<base_type> base_of<bool> = base_type::boolean;
template <>
inline constexpr std::optional<base_type> base_of<std::string_view> = base_type::text;
template <>
inline constexpr std::optional<base_type> base_of<blob_view> = base_type::blob;
template <>
inline constexpr std::optional<base_type> base_of<decimal_number> = base_type::decimal;
template <>
inline constexpr std::optional<base_type> base_of<instant> = base_type::timestamp;

/// Throws std::invalid_argument: columns of that type are asked for.
[[noreturn]] SPOLIA_EXPORT void refuse_to_read(const column_layout& c, base_type as);

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
