// SPDX-License-Identifier: Apache-2.0
// validate.cpp: what a serializable transaction has read, and whether it still holds.
#include <algorithm>

#include "db/engine.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// The row in the slot was seen: it is the snapshot's, or our own.
void reader::note_row(const table& t, std::uint64_t slot) const {
  session_->looked = true;
  if (!notes_reads_) return;
  const row_head* const head = t.at(slot).head;
  if (SPOLIA_CHECKS && head->lock.load_relaxed() == free_slot) {
    misuse::report("a slot without a row is taken for one that was read", threads::number());
  }
  session_->reads.row(head);
}

/// No row with the key was seen, whatever slot the index led to.
void reader::note_key(const table& t, const key_words& key) const {
  session_->looked = true;
  if (notes_reads_) session_->reads.key(t, key);
}

/// Nobody has committed the row after our snapshot, or is about to.
bool transaction::unchanged(const row_head& row) const noexcept {
  // Mostly; a mark is above all times. acquire, as in unchanged_since().
  if (row.stamp.load_acquire() <= timestamp()) return true;
  // Our own lock is there if it is: and then lock_row() has looked.
  if (row.lock.load_relaxed() >> 32U == session_->lock_word(0) >> 32U) return true;
  return unchanged_since(engine_.board, row, timestamp());
}

/// Whether all that was read is at the time `drawn` as it was at the snapshot. Throws
/// std::bad_alloc.
verdict transaction::reads_hold(std::uint64_t drawn) const {
  const read_set& reads = session_->reads;
  for (const row_head* const r : reads.rows) {
    if (SPOLIA_CHECKS && r->lock.load_relaxed() == free_slot) {
      misuse::report("the slot of a row that was read was given back", threads::number());
    }
    if (!unchanged(*r)) return verdict::broken;
  }
  if (reads.ranges.empty() && reads.tables.empty()) return verdict::holds;
  census::ticket now;  // announced when it is needed
  verdict v = verdict::holds;
  const auto look_at_rows = [&](const range_read& r, std::uint64_t below = table_read::all) {
    for (std::uint64_t slot = 0, end = std::min(below, r.of->row_slots()); slot < end; ++slot) {
      v = slot_holds(r, slot, drawn, now);
      if (v != verdict::holds) return;
    }
  };
  for (const range_read& r : reads.ranges) {
    const auto look = [&](std::uint64_t slot, const std::uint64_t*) {
      return (v = slot_holds(r, slot, drawn, now)) == verdict::holds;
    };
    if (r.index != nullptr) {
      r.index->entries_->scan(r.lo, r.hi, slot_visitor(look));
    } else if (r.of->primary_->ordered()) {
      r.of->primary_->scan(r.lo, r.hi, slot_visitor(look));
    } else if (const std::uint64_t slot = r.of->primary_->find(r.lo); slot != no_slot) {
      look(slot, nullptr);
    }
    // Changes made since an index was dropped have no entries in it: then the rows themselves are
    // asked. A transaction that passed the index by had seen that it is over before it drew its
    // time, and we drew ours later, so over() is true for us as well.
    if (v == verdict::holds && r.index != nullptr && r.index->when_.over()) look_at_rows(r);
    if (v != verdict::holds) return v;
  }
  for (const table_read& t : reads.tables) {
    look_at_rows(range_read::whole(*t.of), t.end);
    if (v != verdict::holds) return v;
  }
  return v;
}

/// The same for what was read of a range, as far as it depends on the row in this slot. The entry
/// that has led here may be of a row that was never committed, or of a former key of the row, and
/// the slot may have gone to another one since: what counts are the keys that the row had.
verdict transaction::slot_holds(const range_read& r, std::uint64_t slot, std::uint64_t drawn,
                                census::ticket& now) const {
  const table& t = *r.of;
  const row_place place = t.at(slot);
  if (unchanged(*place.head)) return verdict::holds;
  const schema& s = t.schema_;
  const std::vector<std::uint32_t>& columns = r.index != nullptr ? r.index->columns_ : s.key();
  const selection key_only(s, r.index != nullptr ? r.index->mask_ : s.keyed());
  const arena::mark here = session_->images.here();
  std::uint64_t* const image = room_for(t);
  const auto later = [&] {
    if (!now) now = engine_.board.living.announce(engine_.board.clock, options_.label);
    return now.timestamp();
  };
  const auto part = [&] { return r.has(s.key_of(columns, image), s.key_length(columns)); };
  const verdict v = look_at_changed(engine_.board, *engine_.old, place, timestamp(), drawn,
                                    key_only.in(s), image, later, part);
  session_->images.rewind(here);
  return v;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
