// SPDX-License-Identifier: Apache-2.0
// row.hpp: one row of the main storage: its head, how a snapshot reads it, how a commit changes it.
//
// Idea:        the newest version lies in place, in words that readers copy while a writer may be
//              changing them: a reader reads the stamp before and after (a sequence lock whose
//              sequence is the commit timestamp). No latch, no store by readers.
// Why a copy is whole: the writer stores its mark before the first word, and each word with
//   release. A reader that got one of the new words (acquire) then sees the mark, or what replaced
//   it, and not the stamp that it saw before: stamps never come back, for timestamps and marks are
//   unique. But 0 comes back, when the memory of free slots is given back (table.cpp). So a reader
//   that finds 0 uses nothing else of what it has read. No snapshot that is alive sees a row in
//   such a slot, nor one that was there before: a reader that sees a row's commit sees its mark, or
//   what replaced that.
// Why a row is whole after changes were undone in it, where versions have the changed columns only:
//   the reader copies the words in place, torn or not, before it looks for the chain. A word of a
//   commit that it got (acquire) comes after that commit's link, so the chain has that commit's
//   before-image, and all later ones on the way to it: the last of them that has the column gives
//   the value. What no version on the way has, no commit after the snapshot has changed.
// Why a reader finds its version: the before-image is linked (`older`) before the mark is stored. A
//   reader that sees a stamp after its snapshot therefore sees the chain that leads to its version.
// Cost:        a read: one acquire load more than the words. Progress: a read is repeated only when
//              a commit got in between, and then goes to the chain: wait-free but for commit.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/db/columns.hpp>
#include <spolia/db/commit.hpp>
#include <spolia/db/delta.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Half a cache line for each row.
struct row_head {
  atomic<std::uint64_t> lock{0};   ///< row_lock.hpp: the row's birth, or what has the lock
  atomic<std::uint64_t> stamp{0};  ///< commit.hpp; 0: no snapshot sees a row
  atomic<std::uint64_t> older{0};  ///< delta.hpp: a handle
  atomic<std::uint64_t> shape{0};  ///< delta.hpp
};

/// Where a row is.
struct row_place {
  row_head* head = nullptr;
  atomic<std::uint64_t>* block = nullptr;  // the words of all rows of its block
  std::uint32_t row = 0;                   // which of them
  std::uint64_t id = 0;                    // no other row of the database has it

  /// The words of a column which has so many from `first` on.
  [[nodiscard]] atomic<std::uint64_t>* column(std::size_t first, std::size_t words) const noexcept {
    return block + first * rows_per_block + row * words;
  }
  /// Calls f(word of a row image, where it is) for the words from `i` on, of which the first is
  /// `at`.
  template <class F>
  static void each_in(atomic<std::uint64_t>* at, std::size_t i, std::size_t end, F&& f) {
    for (; i + 4 <= end; i += 4, at += 4) {
      f(i, at[0]);
      f(i + 1, at[1]);
      f(i + 2, at[2]);
      f(i + 3, at[3]);
    }
    for (; i != end; ++i, ++at) f(i, *at);
  }
  /// Calls f(word of a row image, where it is) for all words of these columns. Inlined: else what f
  /// has captured is loaded again for each word.
  template <class F>
  SPOLIA_ALWAYS_INLINE void each_word(std::span<const column_run> columns, F&& f) const {
    for (const column_run& r : columns) {
      const std::size_t width = r.width;
      std::size_t first = r.first;
      const std::size_t end = first + r.count * width;
      if (width == 1) {  // most columns: no loop for each
        atomic<std::uint64_t>* at = column(first, 1);
#pragma GCC unroll 4
        for (; first != end; ++first, at += rows_per_block) f(first, *at);
        continue;
      }
      for (; first != end; first += width) {
        each_in(column(first, width), first, first + width, f);
      }
    }
  }
  /// Copies them to their positions in a row image. Precondition: the caller has the row's lock.
  void load(std::span<const column_run> columns, std::uint64_t* out) const noexcept {
    each_word(columns, [&](std::size_t i, auto& word) { out[i] = word.load_relaxed(); });
  }
  void load(column_span c, std::uint64_t* out) const noexcept {
    each_in(column(c.first, c.words), 0, c.words,
            [&](std::size_t i, auto& word) { out[i] = word.load_relaxed(); });
  }
  /// Precondition: no thread reads the row, unless it finds out by the stamp that it must not use
  /// what it has read.
  void store(std::span<const column_run> columns, const std::uint64_t* image) const noexcept {
    each_word(columns, [&](std::size_t i, auto& word) { word.store_relaxed(image[i]); });
  }
  void store(column_span c, const std::uint64_t* from) const noexcept {
    atomic<std::uint64_t>* const at = column(c.first, c.words);
    for (std::uint32_t i = 0; i < c.words; ++i) at[i].store_relaxed(from[i]);
  }
};

/// Copies the words of these columns, so that the copy is whole unless the stamp has changed. Not
/// inlined: within read_version() the loop is left without registers.
SPOLIA_NOINLINE inline void copy_whole(const row_place& row, std::span<const column_run> runs,
                                       std::uint64_t* out) noexcept {
  // acquire, all ← the releases in install(): see "Why a copy is whole".
  row.each_word(runs, [out](std::size_t i, auto& word) { out[i] = word.load_acquire(); });
}

/// Copies the columns of the row's version at `time`, which the caller has announced, to their
/// places in the row image `out`; returns its shape: 0 if there is no row then. Calls since(t) with
/// the time from which on it is so; 0: from the beginning.
template <class Since>
std::uint64_t read_version(commit_board& board, const delta& old, const row_place& row,
                           std::uint64_t time, const column_set& wanted, std::uint64_t* out,
                           Since&& since) {
  const auto copy = [&] { copy_whole(row, wanted.runs, out); };
  for (;;) {
    // acquire ← the releases in install() and restamp(): the chain, the words, the record.
    const std::uint64_t stamp = row.head->stamp.load_acquire();
    std::uint64_t when = stamp;
    if (static_cast<std::int64_t>(stamp) <= 0) [[unlikely]] {  // a mark, or 0
      if (stamp == 0 && !SPOLIA_FAULT("row.zero_is_a_time")) return since(0), 0;
      when = board.time_of(stamp, time);
      if (when == look_again) continue;
    }
    if (when > time) break;
    // acquire ← the release in install(), as for the words.
    const std::uint64_t shape = row.head->shape.load_acquire();
    copy();
    if (SPOLIA_FAULT("row.no_second_look") || row.head->stamp.load_relaxed() == stamp) {
      since(when);
      return (shape & row_exists) == 0 ? 0 : shape;
    }
  }
  const taking_back back(wanted, out);
  struct taker final : version_taker {
    explicit taker(const taking_back& to) noexcept : copies(to) {}
    void take(std::size_t, std::span<const version* const> found) override {
      const version* const v = found.front();
      if (v == nullptr) return;
      from = v->since.read();
      shape = v->shape.read();
      if ((shape & row_exists) != 0) copies(*v);
    }
    const taking_back& copies;
    std::uint64_t from = 0;
    std::uint64_t shape = 0;
  };
  taker found(back);
  const auto find = [&](const atomic<std::uint64_t>& chain) {
    const old_row wanted_row{&chain, row.id};
    old.visit({&wanted_row, 1}, time, old.changes_only() ? &back : nullptr, found);
  };
  if (SPOLIA_FAULT("row.chain_before_words")) {
    const atomic<std::uint64_t> chain(row.head->older.load_acquire());  // as in find()
    copy();
    find(chain);
  } else {
    if (old.changes_only()) copy();  // before the chain: see "Why a row is whole after"
    find(row.head->older);
  }
  since(found.from);
  return (found.shape & row_exists) == 0 ? 0 : found.shape;
}

inline std::uint64_t read_row(commit_board& board, const delta& old, const row_place& row,
                              std::uint64_t time, const column_set& wanted, std::uint64_t* out) {
  return read_version(board, old, row, time, wanted, out, [](std::uint64_t) {});
}

/// Whether no transaction has committed the row after `time`, and none is about to. One that is
/// about to may fail, or commit after the caller; but to find that out the caller would have to
/// wait for it.
inline bool unchanged_since(commit_board& board, const row_head& row, std::uint64_t time) noexcept {
  for (;;) {
    // acquire ← the releases in install() and restamp(): the record that a mark leads to.
    const std::uint64_t when = board.time_of(row.stamp.load_acquire(), time);
    if (when != look_again) return when <= time;
  }
}

/// Whether something that a snapshot at `time` has read of the table is so at `drawn`, as far as it
/// depends on this row, which is not unchanged: neither the row that the snapshot sees is part of
/// it, nor the row as it is at `drawn`. `part()` says that of a row, by the columns in `out`.
/// `later()` is a snapshot that was announced after `drawn` was drawn.
///
/// What that one sees is the row at `drawn`, unless there was a commit of it in between. A commit
/// that is undecided comes after that snapshot, and so after `drawn`: see commit.hpp. A commit with
/// an earlier time than `drawn` had its marks in place when that was drawn.
template <class Later, class Part>
verdict look_at_changed(commit_board& board, const delta& old, const row_place& row,
                        std::uint64_t time, std::uint64_t drawn, const column_set& wanted,
                        std::uint64_t* out, Later&& later, Part&& part) {
  const bool seen = !SPOLIA_FAULT("row.snapshots_key_not_looked_at") &&
                    read_row(board, old, row, time, wanted, out) != 0;
  if (seen && part()) return verdict::broken;
  std::uint64_t since = 0;
  const bool there =
      !SPOLIA_FAULT("row.present_key_not_looked_at") &&
      read_version(board, old, row, later(), wanted, out, [&](std::uint64_t t) { since = t; }) != 0;
  if (there && part()) return verdict::broken;
  return since <= drawn || SPOLIA_FAULT("row.now_for_then") ? verdict::holds : verdict::later;
}

/// Keeps the row as it is at `v`, as far as was asked for. The caller holds the row's lock.
inline void keep_image(version& v, const ask& a, const row_place& row,
                       const column_set& whole) noexcept {
  v.since.write(a.since);
  v.older.store_relaxed(a.older);  // published with the version
  v.shape.write(row.head->shape.load_relaxed());
  v.columns.write(a.columns);
  if (a.columns == every_column) {
    if (a.words == 0) return v.columns.write(0);
    row.each_word(whole.runs, [&v](std::size_t i, auto& word) {
      v.put(static_cast<std::uint32_t>(i), word.load_relaxed());
    });
    return;
  }
  std::uint32_t at = 0;
  each_column(a.columns, [&](std::uint32_t c) {
    const column_span span = whole.all[c];
    atomic<std::uint64_t>* const words = row.column(span.first, span.words);
    for (std::uint32_t i = 0; i < span.words; ++i) v.put(at++, words[i].load_relaxed());
  });
}

/// Puts a new version in place, of which `image` has the changed columns. `older` is the handle of
/// its before-image; 0: there was no row. The caller holds the row's lock and has filled the
/// before-image.
inline void install(const row_place& row, std::uint64_t mark, std::uint64_t older,
                    std::uint64_t shape, const std::uint64_t* image, std::uint64_t changed,
                    const column_set& whole) noexcept {
  const bool late = SPOLIA_FAULT("row.chain_after_mark");
  // release → the acquires in read_row(): the version is filled when it is found.
  if (!late) row.head->older.store_release(older);
  // release → the acquire in read_row(): the record, and the chain.
  row.head->stamp.store_release(mark);
  if (late) row.head->older.store_release(older);
  // release, all → the acquires in read_row(): a reader that copies one of these sees the mark.
  row.head->shape.store_release(shape);
  const auto put = [&](std::size_t i, atomic<std::uint64_t>& word) {
    if (word.load_relaxed() == image[i]) return;
    if (SPOLIA_FAULT("row.relaxed_words")) {
      word.store_relaxed(image[i]);
    } else {
      // As above.
      word.store_release(image[i]);
    }
  };
  if (changed == every_column) return row.each_word(whole.runs, put);
  each_column(changed, [&](std::uint32_t c) {
    const column_span span = whole.all[c];
    if (span.words == 1) return put(span.first, *row.column(span.first, 1));  // mostly: no loop
    atomic<std::uint64_t>* const words = row.column(span.first, span.words);
    for (std::uint32_t i = 0; i < span.words; ++i) put(span.first + i, words[i]);
  });
}

/// The transaction may not happen after all: the row becomes again what `before` has kept (null:
/// nothing), through `image`. To be published and restamped like a change: what was there has a new
/// stamp then. With the old one, a copy of what is taken back here could pass for whole.
inline void take_back(const row_place& row, std::uint64_t mark, const version* before,
                      std::uint64_t handle, std::uint64_t* image,
                      const column_set& whole) noexcept {
  if (before == nullptr) return install(row, mark, handle, 0, image, 0, whole);
  taking_back(whole, image)(*before);
  install(row, mark, handle, before->shape.read(), image, before->columns.read(), whole);
}

/// The commit is published: its timestamp takes the mark's place.
inline void restamp(const row_place& row, std::uint64_t commit) noexcept {
  // release → the acquire in read_row(): the words.
  row.head->stamp.store_release(commit);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
