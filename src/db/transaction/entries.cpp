// SPDX-License-Identifier: Apache-2.0
// entries.cpp: what the changes of a transaction do to secondary indexes before it commits.
#include "db/engine.hpp"

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
    n.claim = session_->next_claim();
    i->entries_->add(key, w.slot, n.claim);
    if (!i->unique_) continue;
    if (const status s = unique_in(w, *i, key); !s) return s;
  }
  return outcome::ok;
}

/// Whether no other row has the key, at this snapshot or since, and no other transaction wants it
/// for one. Our own entry is there, and open (engine::is_open) until this transaction is over.
///
/// Why of two that want a key for two rows, one at least gives up: if their entries are new, one
/// sees the other's. If one of them was there, of a former key of its row, its claim is looked at,
/// under the lock of the entry. Who adds it again takes that lock later, and so sees ours when he
/// looks. If he had it before, his claim is there: he goes on, or is over, and the row shows what
/// he has left.
status transaction::unique_in(const pending_write& w, const secondary& i, const key_words& key) {
  outcome found = outcome::ok;
  const table& t = *w.of;
  const auto look = [&](std::uint64_t slot, const std::uint64_t*) {
    if (slot == w.slot) return true;
    std::uint64_t* const image = room_for(t);
    const selection key_only(t.schema_, i.mask_);
    if (read(t, slot, key_only.in(t.schema_), image) != 0 &&
        t.schema_.key_of(i.columns_, image) == key) {
      found = outcome::duplicate_key;
      note_row(t, slot);
    } else if (own(*t.at(slot).head) == nullptr &&
               (engine_.is_open(i.entries_->claim_of(key, slot)) || has_now(i, slot, key))) {
      found = outcome::conflict;
    }
    return found == outcome::ok;
  };
  i.entries_->scan(key, key, slot_visitor(look));
  return found == outcome::conflict ? fail(outcome::conflict) : status(found);
}

/// Whether the row in the slot, which has not the key at our snapshot, has it now.
bool transaction::has_now(const secondary& i, std::uint64_t slot, const key_words& key) const {
  const table& t = *i.of_;
  const row_place place = t.at(slot);
  if (unchanged_since(engine_.board, *place.head, timestamp())) return false;
  const census::ticket now = engine_.board.living.announce(engine_.board.clock, options_.label);
  const selection key_only(t.schema_, i.mask_);
  std::uint64_t* const image = room_for(t);
  return read_row(engine_.board, *engine_.old, place, now.timestamp(), key_only.in(t.schema_),
                  image) != 0 &&
         t.schema_.key_of(i.columns_, image) == key;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
