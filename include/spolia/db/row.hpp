// SPDX-License-Identifier: Apache-2.0
// row.hpp: one row of the main storage: its head, how a snapshot reads it, how a commit changes it.
//
// Idea:        the newest version lies in place, in words that readers copy while a writer may be
//              changing them: a reader looks at the stamp before and after (a sequence lock whose
//              sequence is the commit timestamp). No latch, no store by readers.
// Why a copy is whole: the writer stores its mark before the first word, and each word with
// release.
//   A reader that got one of the new words (acquire) then sees the mark, or what replaced it, and
//   not the stamp that it saw before: stamps never come back, for timestamps and marks are unique.
// Why a reader finds its version: the before-image is linked (`older`) before the mark is stored;
//   who sees a stamp after its snapshot therefore sees the chain that leads to its version.
// Cost:        a read: one acquire load more than the words. Progress: a read is repeated only when
//              a commit got in between, and then goes to the chain: wait-free but for commit.hpp.
#pragma once

#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/db/commit.hpp>
#include <spolia/db/delta.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// The words of a row lie this far apart: a table stores this many rows column by column. As many
/// as make a cache line of each word: a scan of one column then reads whole lines, and a row is
/// made of lines that follow each other. (With 64 rows the words of one row would be 512 bytes
/// apart, and share an eighth of the cache's sets.)
#if defined(SPOLIA_MODEL)
inline constexpr std::uint32_t rows_per_block = 1;
#else
inline constexpr std::uint32_t rows_per_block = 8;
#endif

/// Half a cache line for each row.
struct row_head {
  atomic<std::uint64_t> lock{0};   ///< 0, or who holds it: see transaction.hpp
  atomic<std::uint64_t> stamp{0};  ///< commit.hpp; 0: there never was a row
  atomic<std::uint64_t> older{0};  ///< delta.hpp: a handle
  atomic<std::uint64_t> shape{0};  ///< delta.hpp
};

/// Where a row is.
struct row_place {
  row_head* head = nullptr;
  atomic<std::uint64_t>* first = nullptr;
  std::uint64_t id = 0;  ///< no other row of the database has it

  [[nodiscard]] atomic<std::uint64_t>& word(std::uint32_t i) const noexcept {
    return first[std::size_t{i} * rows_per_block];
  }
};

/// Copies the words from..from+count-1 of the row's version at `time`, which the caller has
/// announced, to `out`; returns its shape: 0 if there is no row then.
inline std::uint64_t read_row(commit_board& board, const delta& old, row_place row,
                              std::uint64_t time, std::uint32_t from, std::uint32_t count,
                              std::uint64_t* out) {
  for (;;) {
    // acquire ← the releases in install() and restamp(): the chain, the words, the record.
    const std::uint64_t stamp = row.head->stamp.load_acquire();
    const std::uint64_t when = board.time_of(stamp, time);
    if (when == look_again) continue;
    if (when > time) break;
    // acquire, all ← the releases in install(): see "Why a copy is whole".
    const std::uint64_t shape = row.head->shape.load_acquire();
    for (std::uint32_t i = 0; i < count; ++i) out[i] = row.word(from + i).load_acquire();
    if (SPOLIA_FAULT("row.no_second_look") || row.head->stamp.load_relaxed() == stamp) {
      return (shape & row_exists) == 0 ? 0 : shape;
    }
  }
  // acquire ← the release in install(): the version is filled.
  const version* const v = old.find(row.head->older.load_acquire(), row.id, time);
  if (v == nullptr) return 0;
  const std::uint64_t shape = v->shape.read();
  if ((shape & row_exists) == 0) return 0;
  for (std::uint32_t i = 0; i < count; ++i) out[i] = v->words()[from + i].read();
  return shape;
}

/// Keeps the row as it is at `v`. The caller holds the row's lock.
inline void keep_image(version& v, const ask& a, row_place row) noexcept {
  const std::uint32_t words = a.words;
  v.since.write(a.since);
  v.older.write(a.older);
  v.shape.write(row.head->shape.load_relaxed());
  for (std::uint32_t i = 0; i < words; ++i) v.words()[i].write(row.word(i).load_relaxed());
}

/// Puts a new version in place. `older` is the handle of its before-image; 0: there was no row. The
/// caller holds the row's lock and has filled the before-image.
inline void install(row_place row, std::uint64_t mark, std::uint64_t older, std::uint64_t shape,
                    const std::uint64_t* image, std::uint32_t words) noexcept {
  const bool late = SPOLIA_FAULT("row.chain_after_mark");
  // release → the acquires in read_row(): the version is filled when it is found.
  if (!late) row.head->older.store_release(older);
  // release → the acquire in read_row(): the record, and the chain.
  row.head->stamp.store_release(mark);
  if (late) row.head->older.store_release(older);
  // release, all → the acquires in read_row(): who copies one of these sees the mark.
  row.head->shape.store_release(shape);
  for (std::uint32_t i = 0; i < words; ++i) {
    if (row.word(i).load_relaxed() == image[i]) continue;
    if (SPOLIA_FAULT("row.relaxed_words")) {
      row.word(i).store_relaxed(image[i]);
    } else {
      // As above.
      row.word(i).store_release(image[i]);
    }
  }
}

/// The transaction may not happen after all: the row becomes again what `before` has kept (null:
/// nothing), of which `words` go through `image`. To be published and restamped like a change: what
/// was there has a new stamp then. With the old one, a copy of what is taken back here could pass
/// for whole.
inline void take_back(row_place row, std::uint64_t mark, const version* before,
                      std::uint64_t handle, std::uint64_t* image, std::uint32_t words) noexcept {
  for (std::uint32_t i = 0; i < words; ++i) image[i] = before->words()[i].read();
  install(row, mark, handle, before == nullptr ? 0 : before->shape.read(), image, words);
}

/// The commit is published: its timestamp takes the mark's place.
inline void restamp(row_place row, std::uint64_t commit) noexcept {
  // release → the acquire in read_row(): the words.
  row.head->stamp.store_release(commit);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
