// SPDX-License-Identifier: Apache-2.0
// validate.cpp: what a serializable transaction has read, and whether it still holds.
#include <algorithm>

#include "engine.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

void reader::note_row(const table& t, std::uint64_t slot) const {
  session_->looked = true;
  if (notes_reads_) session_->reads.row(t.at(slot).head);
}

void reader::note_key(const table& t, const key_words& key) const {
  session_->looked = true;
  if (notes_reads_) session_->reads.key(t, key);
}

std::size_t reader::note_range(const range_read& r) const {
  session_->looked = true;
  if (notes_reads_) session_->reads.ranges.push_back(r);
  return session_->reads.ranges.size() - 1;
}

/// A scan was stopped at this key: nothing behind it was read.
void reader::cut_range(std::size_t number, const std::uint64_t* key, std::uint32_t words,
                       direction way) const noexcept {
  if (!notes_reads_) return;
  range_read& r = session_->reads.ranges[number];
  key_words& end = way == direction::up ? r.hi : r.lo;
  end.fill(0);
  std::copy_n(key, words, end.begin());
}

/// Nobody has committed the row after our snapshot, or is about to. Who is may come to nothing, or
/// after us; but to find that out would take waiting for him.
bool transaction::unchanged(const row_head& row) const noexcept {
  // Our own lock is there if it is: and then lock_row() has looked.
  if (row.lock.load_relaxed() >> 32U == session_->lock_word(0) >> 32U) return true;
  for (;;) {
    // acquire ← the releases in install() and restamp(): the record behind a mark.
    const std::uint64_t stamp = row.stamp.load_acquire();
    const std::uint64_t when = engine_.board.time_of(stamp, timestamp());
    if (when != look_again) return when <= timestamp();
  }
}

/// Whether all that was read is now as it was at the snapshot. Throws std::bad_alloc.
bool transaction::reads_hold() const {
  const read_set& reads = session_->reads;
  for (const row_head* const r : reads.rows) {
    if (!unchanged(*r)) return false;
  }
  bool hold = true;
  for (const range_read& r : reads.ranges) {
    const auto look = [&](std::uint64_t slot, const std::uint64_t*) {
      return hold = unchanged(*r.of->at(slot).head);
    };
    if (r.index != nullptr) {
      r.index->entries_->scan(r.lo, r.hi, slot_visitor(look));
    } else if (r.of->primary_->ordered()) {
      r.of->primary_->scan(r.lo, r.hi, slot_visitor(look));
    } else if (const std::uint64_t slot = r.of->primary_->find(r.lo); slot != no_slot) {
      look(slot, nullptr);
    }
    if (!hold) return false;
  }
  for (const table* const t : reads.tables) {
    for (std::uint64_t slot = 0, end = t->slots(); slot < end; ++slot) {
      if (!unchanged(*t->at(slot).head)) return false;
    }
  }
  return true;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
