// SPDX-License-Identifier: Apache-2.0
// entries.cpp: what the changes of a transaction do to secondary indexes before it commits.
#include "engine.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Adds entries to the secondary indexes over these columns.
status transaction::index_row(std::uint32_t number, std::uint64_t changed) {
  pending_write& w = session_->writes[number];
  for (secondary* const i : w.indexes->all) {
    if ((i->mask_ & changed) == 0) continue;
    w.fetch(i->mask_);
    const key_words key = w.of->schema_.key_of(i->columns_, w.image);
    note& n = session_->make_note(*w.of, i, w.slot);
    n.key = key;
    n.claim = engine_.next_claim();
    i->entries_->add(key, w.slot, n.claim);
    if (!i->unique_) continue;
    if (const status s = unique_in(w, *i, key); !s) return s;
  }
  return outcome::ok;
}

/// Whether no other row has the key, at this snapshot or since. Our own entry is there: of two that
/// look at the same time, one at least sees the other.
status transaction::unique_in(const pending_write& w, const secondary& i, const key_words& key) {
  outcome found = outcome::ok;
  const table& t = *w.of;
  const auto look = [&](std::uint64_t slot, const std::uint64_t*) {
    if (slot == w.slot) return true;
    const row_place place = t.at(slot);
    std::uint64_t* const image = room_for(t);
    // acquire ← the release of who unlocked it: its stamp.
    const std::uint64_t lock = place.head->lock.load_acquire();
    const bool mine = own(*place.head) != nullptr;
    const selection key_only(t.schema_, i.mask_);
    if (read(t, slot, key_only.in(t.schema_), image) != 0 &&
        t.schema_.key_of(i.columns_, image) == key) {
      found = outcome::duplicate_key;
      note_row(t, slot);
    } else if (!mine && lock != free_slot &&
               (lock != unlocked || place.head->stamp.load_relaxed() > timestamp())) {
      found = outcome::conflict;
    }
    return found == outcome::ok;
  };
  i.entries_->scan(key, key, slot_visitor(look));
  return found == outcome::conflict ? fail(outcome::conflict) : status(found);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
