// SPDX-License-Identifier: Apache-2.0
// columns.hpp: sets of columns, and where their words are: in a row image, in a block of rows.
//
// A row image has the words of one row, column after column. A block has those of a few rows: all
// of one column, row after row, then those of the next. So a value lies together, and so do the
// values of one column.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// A table stores this many rows column by column. As many as make a cache line of each column of
/// one word: a scan of such a column reads whole lines, and a row is made of lines that follow each
/// other. (With 64 rows the columns of one row would be 512 bytes apart, and share an eighth of the
/// cache's sets.)
#if defined(SPOLIA_MODEL)
inline constexpr std::uint32_t rows_per_block = 1;
#else
inline constexpr std::uint32_t rows_per_block = 8;
#endif

/// A column's words in a row image.
struct column_span {
  std::uint32_t first = 0;
  std::uint32_t words = 0;
};

/// Columns of one width that follow each other.
struct column_run {
  std::uint32_t first = 0;  ///< word of a row image
  std::uint32_t count = 0;
  std::uint32_t width = 0;  ///< words of each
};

/// Calls f(number) for each column of a set.
template <class F>
void each_column(std::uint64_t set, F&& f) {
  for (; set != 0; set &= set - 1) f(static_cast<std::uint32_t>(std::countr_zero(set)));
}

/// Some columns of a table. Refers to what has made it.
struct column_set {
  std::uint64_t mask = 0;
  std::span<const column_run> runs{};  ///< of these columns
  const column_span* all = nullptr;    ///< of all columns, by number

  /// Calls f(word of a row image) for all of them.
  template <class F>
  void each_word(F&& f) const {
    for (const column_run& r : runs) {
      for (std::uint32_t i = r.first, end = r.first + r.count * r.width; i < end; ++i) f(i);
    }
  }
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
