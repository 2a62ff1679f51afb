// SPDX-License-Identifier: Apache-2.0
// read_set.hpp: the read set of a serializable transaction. Internal.
//
// Idea:        optimistic, as in Silo (Tu et al., SOSP 2013): the transaction reads at its snapshot
//              without a store that any other thread sees, and checks at commit whether everything
//              that it read is unchanged. A row is, if no version of it was committed after the
//              snapshot. For keys that were not there, and for scans, the index is read again: the
//              rows that it leads to must be the same as at the snapshot. So phantoms are found.
// Why not SSI: that aborts only where two rw dependencies follow each other. But it needs marks
//              that readers leave for writers in every row and range, and that are kept beyond the
//              transaction's end. Here readers store nothing, and a read-only transaction has
//              nothing to check. The price: a transaction that changes something is aborted if
//              anything that it read was changed, even where another order would have done.
// How reads are recorded: a key that was not there is recorded as that key, a scan as a range of
//   keys; never by the slot to which the index led, since a slot without a row may get one of
//   another key. A row that was seen is recorded by its head. Its life began before our snapshot
//   and had not ended then, so its slot is not given back while the snapshot is announced. Our own
//   rows have our locks.
// Which rows count when a range is checked: those that our snapshot sees in it, and those that are
//   in it at the time of our commit (row.hpp, look_at_changed()). Entries of rows that were never
//   committed, or had the key only earlier or in between, and slots without a row are no reason to
//   abort.
// Why an entry is there when it matters: a transaction that inserts, or changes a key, adds the
//   entry before its marks, and its marks come before it draws its time: see commit.hpp. An entry
//   is removed only when no snapshot is in its row's life; and, while we check, only if that life
//   ended before we drew our time: the validation floor of snapshot_list.hpp.
// Scans that end early, because the program has seen enough, throws, or commits in the scan's
//   function: the range up to the last key that was shown counts. So the record grows with the keys
//   that are shown (scan_note), and becomes the whole range when the scan has come to its end. Rows
//   that are shown in no order are recorded by their slots, up to that of the last one shown. A
//   slot can go to another row, but not without a change of the row that the snapshot sees in it.
// Repeated reads: are recorded again. When there is no room, the records are sorted and copies are
//   dropped. So a transaction that reads the same rows for an hour has one record of each. A range
//   within another one is dropped, too: a transaction that takes the first row of a range again and
//   again has one range, which is checked once.
//   The record of a scan that runs changes until the scan ends. So it keeps its position, and so do
//   those before it; those after it are of scans within that one.
// Why an insertion records nothing: it has the key's slot, locked, until the transaction ends; and
//   its entries in unique indexes are claims that other transactions find: transaction.cpp. If
//   another transaction had the key between our snapshot and the insertion, it has it no more, or
//   the insertion has found it.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <spolia/db/commit.hpp>
#include <spolia/db/row.hpp>
#include <spolia/db/schema.hpp>

#include "db/transaction/workspace.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class table;
class secondary;

/// The keys from `lo` to `hi` of an index; null: the primary one.
struct range_read {
  const table* of = nullptr;
  const secondary* index = nullptr;
  key_words lo{};
  key_words hi{};

  friend auto operator<=>(const range_read&, const range_read&) = default;
  /// Merges the next range, in sorted order, into this one, if one of the two contains the other.
  /// False: none does.
  bool takes_in(const range_read& next) noexcept {
    if (of != next.of || index != next.index) return false;
    if (next.hi <= hi) return true;
    if (next.lo != lo) return false;
    hi = next.hi;
    return true;
  }
  static range_read whole(const table& t) noexcept {
    range_read r{&t};
    r.hi.fill(~std::uint64_t{0});
    return r;
  }
  /// Whether the key is in the range, by its first so many words.
  [[nodiscard]] bool has(const key_words& key, std::uint32_t words) const noexcept {
    const auto less = [&](const key_words& x, const key_words& y) {
      return std::lexicographical_compare(x.begin(), x.begin() + words, y.begin(),
                                          y.begin() + words);
    };
    return !less(key, lo) && !less(hi, key);
  }
};

/// The rows in a table's slots below `end`.
struct table_read {
  static constexpr std::uint64_t all = ~std::uint64_t{0};
  const table* of = nullptr;
  std::uint64_t end = all;

  friend auto operator<=>(const table_read&, const table_read&) = default;
  bool takes_in(const table_read& next) noexcept {
    if (of != next.of) return false;
    end = next.end;
    return true;
  }
};

/// A key that was not there.
struct key_read {
  const table* of = nullptr;
  key_words key{};
  friend auto operator<=>(const key_read&, const key_read&) = default;
};

/// The records of scans, in the order in which these began.
template <class Note>
class scan_notes {
 public:
  explicit scan_notes(work_account& to) : all_(counted<Note>(to)) {}

  /// Adds a record, and returns its number. Repeated scans are merged. Throws std::bad_alloc and
  /// row_budget::exceeded; then nothing was recorded.
  std::size_t add(const Note& what) {
    // Not if most are fixed: few copies could be dropped, and most sorting would be for nothing.
    if (all_.size() >= enough_ && 2 * fixed_ <= all_.size()) drop_copies();
    all_.push_back(what);
    return all_.size() - 1;
  }
  /// Makes the first `count` records keep their positions. Returns how many did before.
  std::size_t fix(std::size_t count) noexcept { return std::exchange(fixed_, count); }
  [[nodiscard]] Note& operator[](std::size_t number) noexcept { return all_[number]; }
  [[nodiscard]] auto begin() const noexcept { return all_.begin(); }
  [[nodiscard]] auto end() const noexcept { return all_.end(); }
  [[nodiscard]] const Note& back() const noexcept { return all_.back(); }
  /// Drops records that others contain.
  void drop_copies() noexcept {
    const auto from = all_.begin() + static_cast<std::ptrdiff_t>(fixed_);
    if (from == all_.end()) return;
    std::sort(from, all_.end());
    auto last = from;
    for (auto next = from + 1; next != all_.end(); ++next) {
      if (!last->takes_in(*next)) *++last = *next;
    }
    all_.erase(last + 1, all_.end());
    enough_ = std::max(2 * all_.size(), few);
  }
  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }
  void clear(kept_memory keeps) noexcept {
    clear_and_shrink(all_, keeps);
    fixed_ = 0;
    enough_ = few;
  }

 private:
  static constexpr std::size_t few = 128;

  counted_vector<Note> all_;
  std::size_t fixed_ = 0;
  std::size_t enough_ = few;  // once there are so many, copies are looked for
};

/// Everything may throw std::bad_alloc and row_budget::exceeded; then nothing was recorded.
struct read_set {
  explicit read_set(work_account& to)
      : rows(counted<const row_head*>(to)), keys(counted<key_read>(to)), ranges(to), tables(to) {}

  counted_vector<const row_head*> rows;
  counted_vector<key_read> keys;
  // How many there were when copies were last looked for. They are not looked for again at the same
  // number: where there is no memory for more, each refused call would sort them all.
  std::size_t looked_at_rows = 0;
  std::size_t looked_at_keys = 0;
  scan_notes<range_read> ranges;
  scan_notes<table_read> tables;

  void row(const row_head* r) {
    if (!rows.empty() && rows.back() == r) return;
    if (rows.size() == rows.capacity()) [[unlikely]]
      drop_copies(rows, looked_at_rows);
    rows.push_back(r);
  }
  void key(const table& t, const key_words& k) {
    if (keys.size() == keys.capacity()) drop_copies(keys, looked_at_keys);
    keys.push_back({&t, k});
  }
  /// Whether all rows of the table are recorded already.
  [[nodiscard]] bool has_all(const table& t) const noexcept {
    if (tables.empty()) return false;
    const table_read& last = tables.back();
    return last.of == &t && last.end == table_read::all;
  }
  void clear(kept_memory keeps) noexcept {
    clear_and_shrink(rows, keeps);
    clear_and_shrink(keys, keeps);
    looked_at_rows = looked_at_keys = 0;
    ranges.clear(keeps);
    tables.clear(keeps);
  }

 private:
  /// Makes room for one more: drops copies, if that is worth the sorting; if few were dropped,
  /// reserves room for twice as many. So there is room for at most four times as many records as
  /// differ.
  template <class T>
  static void drop_copies(counted_vector<T>& all, std::size_t& looked_at) {
    constexpr std::size_t few = 256;
    if (all.size() >= few && all.size() != looked_at) {
      std::sort(all.begin(), all.end(), std::less<T>());
      all.erase(std::unique(all.begin(), all.end()), all.end());
      looked_at = all.size();
    }
    if (all.size() >= all.capacity() / 2) {
      all.reserve(std::max<std::size_t>(all.capacity() * 2, 16));
    }
  }
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
