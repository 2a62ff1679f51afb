// SPDX-License-Identifier: Apache-2.0
// row_view.hpp: a row as a snapshot shows it.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/db/owned.hpp>
#include <spolia/db/row_image.hpp>
#include <spolia/db/schema.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// One version of a row. Precondition of all members: it is not empty, as what row() makes is, and
/// it is there yet, for as long as transaction.hpp says. The checked build variant names the
/// use of an empty one. Copies of a row that find() or lock() has returned have its memory
/// together; each may go on another thread.
class row {
 public:
  /// A row that nothing has a name for: `->` of a result that is returned.
  class unnamed;

  row() = default;
  /// What a null holds is zero, false or empty. Texts and blobs are views, which stay as the row
  /// does; of a row without a name they are copies: owned.hpp.
  template <class T>
  [[nodiscard]] typename owned<T>::type get(column<T> c) const&& {
    return typename owned<T>::type(get(c));
  }
  template <class T>
  [[nodiscard]] T get(column<T> c) const& noexcept {
    if (is_empty() || !is_of(c.of) || !was_read(c.number)) return T{};
    return value_in(c, words_ + c.first);
  }
  template <class T>
  [[nodiscard]] bool null(column<T> c) const noexcept {
    if (is_empty() || !is_of(c.of)) return true;
    return (shape_ >> c.number & 1U) != 0;
  }
  /// For programs that learn the columns while they run: schema::columns(). Texts and blobs stay as
  /// the row does; of a row without a name the value owns them.
  [[nodiscard]] value get(const column_layout& c) const&& { return get(c).owned(); }
  [[nodiscard]] value get(const column_layout& c) const& noexcept {
    if (is_empty() || !is_of(c.of)) return {};
    if ((shape_ >> c.number & 1U) != 0 || !was_read(c.number)) return {};
    return c.decode(words_ + c.first);
  }

 private:
  friend class reader;
  friend class transaction;
  friend class editor;
  friend class storage;
  row(const schema& of, const std::uint64_t* words, std::uint64_t shape, std::uint64_t has,
      image_share image = {}) noexcept
      : words_(words), shape_(shape), has_(has), of_(of.tag()), image_(std::move(image)) {}
  // Checked: after a mistake that was reported, nothing is read that may not be there.
  [[nodiscard]] bool is_empty() const noexcept {
    if (!SPOLIA_CHECKS || words_ != nullptr) return false;
    misuse::report("an empty row is looked at", threads::number());
    return true;
  }
  [[nodiscard]] bool is_of(std::uint32_t table) const noexcept {
    if (!SPOLIA_CHECKS || table == of_) return true;
    misuse::report("a column of another table is looked at", threads::number());
    return false;
  }
  [[nodiscard]] bool was_read(std::uint32_t column) const noexcept {
    if (!SPOLIA_CHECKS || (has_ >> column & 1U) != 0) return true;
    misuse::report("a column is looked at that was not selected", threads::number());
    return false;
  }
  const std::uint64_t* words_ =
      nullptr;  // of all columns, of which only those that it has are there
  std::uint64_t shape_ = 0;
  std::uint64_t has_ = 0;  // columns
  std::uint32_t of_ = 0;   // schema::tag()
  image_share image_;      // where the words are, unless something else keeps them
};

class row::unnamed {
 public:
  explicit unnamed(row&& of) noexcept : of_(std::move(of)) {}
  template <class T>
  [[nodiscard]] typename owned<T>::type get(column<T> c) const {
    return std::move(of_).get(c);
  }
  [[nodiscard]] value get(const column_layout& c) const { return std::move(of_).get(c); }
  template <class T>
  [[nodiscard]] bool null(column<T> c) const noexcept {
    return of_.null(c);
  }
  const unnamed* operator->() const noexcept { return this; }

 private:
  row of_;
};

/// Something that takes rows; false: enough.
using row_visitor = std::function<bool(const row&)>;

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
