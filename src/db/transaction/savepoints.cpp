// SPDX-License-Identifier: Apache-2.0
// savepoints.cpp: savepoints of a transaction, and scans that show an earlier moment.
//
// Each savepoint begins a level, and so does each scan. If a row was locked before the level began,
// the first change of the row on that level keeps the row's image, and goes on with a copy. A
// rollback to a savepoint restores the kept images, the newest first; rows that were locked since
// get the state that they had when they were locked. Existing rows stay locked.
// Entries:     a rollback at once removes the index entries that were made since and that no image
//              has any more: no other transaction could see them. So does a change that replaces a
//              value, or erases a row, on the level on which the entry was made: no kept image has
//              that value. Entries that others may need are removed when the transaction ends:
//              those that were there before, and those on which the builder of an index may rely.
//              A serializable transaction has seen that a value of a unique index was free, and
//              keeps its entry, as it keeps the slots of its insertions.
// Slots:       a rollback at once gives back the slots of rows that were inserted since, together
//              with their writes, from the last write on to the first that has to stay. The others
//              stay, since other data has the numbers of writes.
// Scans:       a scan shows the newest image of a row from before the scan's level; each image
//              knows where the one before it is kept. Of a row that was locked since, it shows what
//              is committed. If a scan that runs began after the savepoint, a rollback must keep
//              its images: so it changes the rows back, on a level of its own, and drops no kept
//              image.
#include <algorithm>
#include <new>
#include <stdexcept>

#include "db/engine.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

atomic<std::uint64_t> last_id{0};

}  // namespace

savepoint transaction::savepoint() {
  db::savepoint made;
  if (!goes_on()) return made;
  no_query_runs();
  session& s = *session_;
  // If nothing was changed or locked since the last savepoint, that one will do. If a scan has
  // begun since, it shows what was there at the savepoint as well: so the savepoint may count as
  // made in the scan, and no earlier image is needed for it.
  if (level_mark* const last = s.savepoints.empty() ? nullptr : &s.savepoints.back();
      last != nullptr && last->kept == s.kept.size() && last->writes == s.writes.size()) {
    if (last->level <= s.scan) {
      last->level = s.level = ++s.levels;
      last->notes = s.level_notes = s.notes_made;
    }
    made.number_ = s.savepoints.size();
    made.id_ = last->id;
    return made;
  }
  const std::uint64_t id = last_id.fetch_add_relaxed(1) + 1;
  s.savepoints.push_back({s.levels + 1, s.kept.size(), s.writes.size(), s.notes_made, id});
  s.level = ++s.levels;
  s.level_notes = s.notes_made;
  made.number_ = s.savepoints.size();
  made.id_ = id;
  return made;
}

/// The write, to be changed. Keeps its state for the savepoint, if that was not done. Throws
/// std::bad_alloc and row_budget::exceeded; nothing has changed then.
pending_write& transaction::touch(std::uint32_t number) {
  session& s = *session_;
  if constexpr (SPOLIA_CHECKS) s.is_not_visited(number);
  pending_write& w = s.writes[number];
  if (w.level == s.level) return w;
  s.kept.push_back({number, w});
  std::uint64_t* image = nullptr;
  try {
    image = s.changes.take(w.words());
  } catch (...) {
    s.kept.pop_back();
    throw;
  }
  w.kept = static_cast<std::uint32_t>(s.kept.size());
  each_column(w.has & w.of->form().whole().mask, [&](std::uint32_t c) {
    const column_span span = w.of->form().span_of(c);
    std::copy_n(w.image + span.first, span.words, image + span.first);
  });
  w.image = image;
  w.level = s.level;
  return w;
}

status transaction::rollback_to(const db::savepoint& to) {
  if (!goes_on()) return state_;
  no_query_runs();
  session& s = *session_;
  if (to.number_ == 0 || to.number_ > s.savepoints.size() ||
      s.savepoints[to.number_ - 1].id != to.id_) {
    throw std::invalid_argument(
        "spolia::db: this is no savepoint of the transaction, or no longer: another transaction "
        "made it, or it was made after one that was gone back to");
  }
  const work_account::unrefused whole(s.work);
  s.passed.forget();
  const level_mark mark = s.savepoints[to.number_ - 1];
  s.savepoints.resize(to.number_);
  if (s.scan > mark.level) {
    change_back(mark);
    return outcome::ok;
  }
  for (; s.kept.size() > mark.kept; s.kept.pop_back()) {
    pending_write& w = s.writes[s.kept.back().number];
    s.changes.give(w.image, w.words());
    const bool pinned = w.pinned;
    w = s.kept.back().was;
    w.pinned = pinned;
  }
  s.level = ++s.levels;
  for (std::size_t n = mark.writes; n < s.writes.size(); ++n) {
    forget_changes(s.writes[n]);
    s.writes[n].level = s.level;
  }
  take_back_since(mark.notes);
  s.level_notes = s.notes_made;
  give_up_last_rows();
  return outcome::ok;
}

/// Changes the rows back to the state that they had, by changes that can be undone as well. If
/// there is no memory for that, the whole transaction is rolled back.
void transaction::change_back(const level_mark& to) {
  session& s = *session_;
  s.level = ++s.levels;
  s.level_notes = s.notes_made;
  try {
    for (std::size_t i = to.kept, end = s.kept.size(); i < end; ++i) {
      const kept_write then = s.kept[i];
      // Only the first kept state since the savepoint, of rows that were locked before it.
      if (then.was.kept > to.kept || then.number >= to.writes) continue;
      pending_write& w = touch(then.number);
      each_column(then.was.has & w.of->form().whole().mask, [&](std::uint32_t c) {
        const column_span span = w.of->form().span_of(c);
        std::copy_n(then.was.image + span.first, span.words, w.image + span.first);
      });
      w.shape = then.was.shape;
      w.has = then.was.has;
      w.sets = then.was.sets;
      w.changed = then.was.changed;
    }
    for (std::size_t n = to.writes; n < s.writes.size(); ++n) {
      forget_changes(touch(static_cast<std::uint32_t>(n)));
    }
  } catch (const std::bad_alloc&) {
    roll_back();
    throw;
  }
}

/// The state that the transaction's write had before that level; null: the row was not locked yet.
pending_write* reader::own_before(pending_write* w, std::uint32_t level) const noexcept {
  while (w != nullptr && w->level >= level) {
    w = w->kept == 0 ? nullptr : &session_->kept[w->kept - 1].was;
  }
  return w;
}

/// Ends the scan's level: its changes count as made on the level before it, and states that this
/// level would not have kept are dropped.
void reader::scanning::give_changes_to_outer(session& s) const noexcept {
  for (std::size_t n = before_.writes; n < s.writes.size(); ++n) s.writes[n].level = before_.level;
  std::size_t left = before_.kept;
  for (std::size_t i = before_.kept; i < s.kept.size(); ++i) {
    const kept_write& k = s.kept[i];
    pending_write& w = s.writes[k.number];
    w.level = before_.level;
    if (k.was.level >= before_.level) {
      w.kept = k.was.kept;
      s.changes.give(k.was.image, k.was.words());
    } else {
      s.kept[left] = k;
      w.kept = static_cast<std::uint32_t>(++left);
    }
  }
  s.kept.resize(left);
}

/// Restores the state that the write had when its row was locked.
void transaction::forget_changes(pending_write& w) noexcept {
  w.changed = false;
  w.shape = 0;
  if (w.fresh) return;  // the key is needed to give the slot back
  w.has = w.sets = 0;
  const std::uint64_t shape = w.place.head->shape.load_relaxed();
  if ((shape & row_exists) != 0) w.shape = shape;
}

// --- undo before the end of the transaction ---

note* session::note_about(const note::subject& what) noexcept {
  if (!known.empty()) return known.find(what);
  note* n = notes;
  while (n != nullptr && (n->what == note::kind::taken_back || n->about() != what)) n = n->next;
  return n;
}

/// Merges the newest record, `n`, into an earlier one by which the transaction has made the same
/// entry, which gets the entry's new claim. (With two records the entry could not be removed at
/// once.) False: there is no earlier one.
bool session::goes_to_former(note& n) noexcept {
  if (!known.empty()) return false;  // add_once() would have found it
  note* former = n.next;
  while (former != nullptr && (!former->made || former->about() != n.about()))
    former = former->next;
  if (former == nullptr) return false;
  former->claim() = n.claim();
  takes_back(n);
  return true;
}

void session::takes_back(note& n) noexcept {
  if (n.kept) known.take(n);
  n.what = note::kind::taken_back;
  n.made = false;
  ++taken_back;
}

/// Frees the records that were taken back, once they are half of all: so each record is visited
/// about twice.
void session::free_taken_back() noexcept {
  if (2 * taken_back < note_count || taken_back == 0) return;
  for (note** at = &notes; *at != nullptr;) {
    note* const n = *at;
    if (n->what != note::kind::taken_back) {
      at = &n->next;
      continue;
    }
    *at = n->next;
    --note_count;
    note_bytes -= n->bytes();
    note::free(n);
  }
  taken_back = 0;
  if (note_bytes < counted_note_bytes) {
    work.give(counted_note_bytes - note_bytes);
    counted_note_bytes = note_bytes;
  }
}

/// Removes the entry if it is there for this transaction alone. False: it is not, or there was no
/// memory.
bool transaction::takes_entry_out(note& n) noexcept {
  return n.made && n.index().entries_->remove(n.key(), n.slot(), n.claim());
}

/// Removes the entry before the end of the transaction. If it cannot do that, finish() will.
void transaction::take_entry_back(note& n) noexcept {
  if (!n.made || (notes_reads_ && n.index().parts_->unique)) return;
  if (takes_entry_out(n)) {
    session_->takes_back(n);
  } else if (pending_write* const w = own(*n.of().at(n.slot()).head)) {
    w->pinned = true;
  }
}

/// Removes all entries that were made since there were so many records.
void transaction::take_back_since(std::uint64_t notes) noexcept {
  for (note* n = session_->notes; n != nullptr && n->until >= notes; n = n->next)
    take_entry_back(*n);
  session_->free_taken_back();
}

/// Removes entries of values that a row had on this level, in these columns of `then`, and has no
/// more. Overwrites the other columns of that image with those that the row has.
void transaction::take_back_former(pending_write& w, std::uint64_t* then,
                                   std::uint64_t columns) noexcept {
  session& s = *session_;
  const schema& form = w.form();
  for (const secondary* const i : w.indexes->all) {
    const secondary::parts& its = *i->parts_;
    if ((its.mask & columns) == 0) continue;
    w.fetch(its.mask);
    if (then != w.image) {
      each_column(its.mask & ~columns, [&](std::uint32_t c) {
        const column_span span = form.span_of(c);
        std::copy_n(w.image + span.first, span.words, then + span.first);
      });
    }
    const key_words key = form.key_of(its.columns, then);
    if ((w.shape & row_exists) != 0 && key == form.key_of(its.columns, w.image)) continue;
    note* const n = s.note_about(
        {.of = i, .slot = w.slot, .key = key.data(), .words = its.key_length, .is_row = false});
    if (n != nullptr && n->until >= s.level_notes) take_entry_back(*n);
  }
  s.free_taken_back();
}

/// Gives back the slots of inserted rows that were undone, from the last write on, on this level. A
/// serializable transaction has seen that their keys were free, and keeps them.
void transaction::give_up_last_rows() noexcept {
  session& s = *session_;
  while (!notes_reads_ && !s.writes.empty()) {
    pending_write& w = s.writes.back();
    const bool wanted = !w.fresh || (w.shape & row_exists) != 0 || w.pinned;
    if (wanted || w.level != s.level || w.kept != 0) return;
    undo(w);
    s.changes.give(w.image, w.words());
    s.writes.pop_back();
    s.looked = true;  // it has seen whether their keys were free: so its snapshot stays
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
