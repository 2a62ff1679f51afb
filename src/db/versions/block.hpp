// SPDX-License-Identifier: Apache-2.0
// block.hpp: a block of rows, read column by column: what a query does instead of asking for row
// after row.
//
// Idea:        most rows of most blocks were committed before the snapshot. So the stamps of all
//              rows of a block are looked at, then their shapes and the words of the columns are
//              copied, a run of words for each column, and then the stamps are looked at again. The
//              rows whose stamp was not after the snapshot, and has not changed, are as read_row()
//              would have read them. The others, if there are any, are for read_row(). Where all
//              stamps are after the snapshot, as in a report at an old one, nothing is copied.
// Why a copy is whole: as in row.hpp, row by row: who got a word of a later commit (acquire) sees
//   its mark, or what replaced that, when it looks at the stamp the second time.
// Cost:        two loads of each stamp, one of each shape, and the columns; no branch for a row.
// Progress:    wait-free.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/db/columns.hpp>
#include <spolia/db/row.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// A column of many rows: where its words go, row after row.
struct column_copy {
  column_span from;
  std::uint64_t* to = nullptr;
};

/// Rows of a block, a bit for each.
using block_rows = std::uint32_t;
inline constexpr block_rows every_row = (block_rows{1} << rows_per_block) - 1;

/// Copies the shapes of all rows of a block, and these columns to the places for the rows from
/// `row` on; returns the rows for which that is what a snapshot at `time` sees. Marks are above
/// every time. If there are none, nothing is copied.
inline block_rows read_block(const row_head* heads, const atomic<std::uint64_t>* words,
                             std::uint64_t time, std::span<const column_copy> columns,
                             std::uint32_t row, std::uint64_t* shapes) noexcept {
  std::uint64_t stamps[rows_per_block];
  std::uint64_t newest = 0;
  for (std::uint32_t i = 0; i < rows_per_block; ++i) {
    // acquire ← the releases in install() and restamp(): the words.
    stamps[i] = heads[i].stamp.load_acquire();
    newest = (std::max)(newest, stamps[i]);
  }
  if (newest > time) {
    bool any = false;
    for (const std::uint64_t stamp : stamps) any |= stamp <= time;
    if (!any) return 0;
  }
  // acquire, all ← the releases in install(): see "Why a copy is whole". A stamp of 0 comes back,
  // and means no row (row.hpp).
  for (std::uint32_t i = 0; i < rows_per_block; ++i) {
    const std::uint64_t shape = heads[i].shape.load_acquire();
    shapes[i] = stamps[i] != 0 || SPOLIA_FAULT("block.zero_is_a_time") ? shape : 0;
  }
  for (const column_copy& c : columns) {
    const atomic<std::uint64_t>* const from = words + std::size_t{c.from.first} * rows_per_block;
    std::uint64_t* const to = c.to + std::size_t{row} * c.from.words;
    const std::uint32_t end = rows_per_block * c.from.words;
    // acquire ← install(), as above.
    for (std::uint32_t i = 0; i < end; ++i) to[i] = from[i].load_acquire();
  }
  std::uint64_t again[rows_per_block];
  std::uint64_t changed = 0;
  for (std::uint32_t i = 0; i < rows_per_block; ++i) {
    again[i] = SPOLIA_FAULT("block.no_second_look") ? stamps[i] : heads[i].stamp.load_relaxed();
    changed |= again[i] ^ stamps[i];
  }
  if (newest <= time && changed == 0) return every_row;
  block_rows good = 0;
  for (std::uint32_t i = 0; i < rows_per_block; ++i) {
    good |= block_rows{stamps[i] <= time && again[i] == stamps[i]} << i;
  }
  return good;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
