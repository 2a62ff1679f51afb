// SPDX-License-Identifier: Apache-2.0
// commit.cpp: how a transaction ends.
#include <algorithm>
#include <new>
#include <utility>

#include "db/at_work.hpp"
#include "db/commit/commit_record.hpp"
#include "db/engine.hpp"
#include "db/files/status_file.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

namespace {

/// The budget for versions, and what is kept for commits that only delete.
std::uint64_t with_reserve(std::uint64_t budget) noexcept {
  if (budget == 0) return 0;
  constexpr std::uint64_t least = std::uint64_t{512} << 10U;
  return budget + std::min(std::max(budget / 4, least), ~budget);
}

}  // namespace

/// Everything that can fail, before anything can be seen: notes for what the changes supersede, and
/// the order of the before-images.
void transaction::prepare() {
  session& s = *session_;
  s.asks.clear();
  for (pending_write& w : s.writes) {
    const bool existed = !w.fresh && (w.place.head->shape.load_relaxed() & row_exists) != 0;
    const bool exists = (w.shape & row_exists) != 0;
    if (!existed && !exists) w.changed = false;
    if (!w.changed) continue;
    const table& t = *w.of;
    if (existed && t.schema_.apart() != 0) {
      replace_apart(w, t.schema_.apart() & (exists ? w.sets : every_column));
    }
    if (existed && (!exists || (w.indexes->columns & w.sets) != 0)) {
      pending_write old = w;
      old.image = room_for(t);
      old.has = 0;
      for (secondary* const i : w.indexes->all) {
        if (exists && (i->mask_ & w.sets) == 0) continue;
        old.fetch(i->mask_);
        w.fetch(i->mask_);
        const key_words key = t.schema_.key_of(i->columns_, old.image);
        if (exists && key == t.schema_.key_of(i->columns_, w.image)) continue;
        note& n = s.make_note(*w.of, i, w.slot);
        n.what = note::kind::superseded;
        n.key = key;
        n.claim = i->entries_->claim_of(key, w.slot);
      }
      if (!exists) {
        note& n = s.make_note(*w.of, nullptr, w.slot);
        n.what = note::kind::superseded;
        old.fetch(t.layout().keyed());
        n.key = t.schema_.key_of(t.schema_.key(), old.image);
      }
    }
    if (notes_reads_ && !existed && !w.fresh) {
      note& n = s.make_note(*w.of, nullptr, w.slot);
      n.what = note::kind::revived;
      n.key = t.schema_.key_of(t.schema_.key(), w.image);
    }
    // Before a slot's first row there is nothing that a snapshot could look for. Before a later one
    // there is the end of the row that had the slot before, which nobody looks behind.
    const std::uint64_t since = w.place.head->stamp.load_relaxed();
    if (since == 0) continue;
    ask wanted{.row = w.place.id,
               .since = since,
               .older = w.fresh ? 0 : w.place.head->older.load_relaxed(),
               .chain = &w.place.head->older};
    if (existed && exists && engine_.old->changes_only() && w.sets != every_column) {
      wanted.columns = w.sets;
      each_column(w.sets, [&](std::uint32_t c) { wanted.words += t.schema_.span_of(c).words; });
    } else if (existed) {
      wanted.words = t.schema_.words();
    }
    s.asks.push_back(wanted);
  }
}

status transaction::commit() {
  if (!state_) return state_;
  no_query_runs();
  const step here(*this);
  if (!here) return fail(outcome::ended_by_policy);
  session& s = *session_;
  s.section.enter();
  if (!indexes_hold()) return fail(outcome::schema_changed);
  const std::uint32_t me = s.record->number();
  bool room = true;
  commit_record record(engine_, me);
  try {
    prepare();
    if (notes_reads_ && changes() && reads_hold(not_yet) == verdict::broken) {
      return fail(outcome::conflict);
    }
    const outcome o = record.write(s.writes, [this] { return deletes_only(); });
    if (o != outcome::ok) return fail(o);
    room = reserve();
  } catch (...) {
    rollback();
    throw;
  }
  if (!room) return fail(outcome::limit);
  if (!changes()) {
    rollback();  // there is nothing to undo but locks
    if (seen_ == 0) [[likely]]
      return outcome::ok;
    return seen_is_durable();
  }
  // From here on nothing fails.
  const std::uint64_t mark = engine_.board.begin(*s.record);
  auto next = s.asks.begin();
  for (pending_write& w : s.writes) {
    if (!w.changed) continue;
    std::uint64_t older = 0;
    if (w.place.head->stamp.load_relaxed() != 0) {
      keep_image(*next->place, *next, w.place, w.of->layout().whole());
      older = next->handle;
      ++next;
    }
    install(w.place, mark, older, w.shape, w.image, w.sets, w.of->layout().whole());
  }
  std::uint64_t commit = 0;
  if (!notes_reads_) {
    commit = record.publish(*s.record);
  } else if (!settle(record, commit)) {
    return withdraw(mark);
  }
  s.commits.add(1);
  finish(commit);
  engine_.old->published(me, commit);
  state_ = outcome::ended;
  end();
  const status durable = record.acknowledge();
  if (engine_.shown) engine_.shown->after_commit();
  if (seen_ != 0 && durable) [[unlikely]]
    return seen_is_durable();
  return durable;
}

/// Waits for what it has seen, which `seen_` says.
status transaction::seen_is_durable() const {
  at_work::must_not_wait(engine_, at_work::writing | at_work::lengthening, "commit()");
  return engine_.log->wait(seen_) ? outcome::ok : outcome::storage_failed;
}

/// Room for the versions, which others may have to be ended for.
bool transaction::reserve() {
  session& s = *session_;
  if (engine_.gates.due() || engine_.settings.slow_after.count() > 0) end_slow(false);
  const std::uint64_t budget = engine_.settings.version_budget;
  const auto fits = [&](std::uint64_t most) {
    return (s.replaced.bytes == 0 || engine_.values.fits(s.replaced.bytes, most)) &&
           engine_.old->reserve(s.record->number(), s.asks, s.asks.empty() ? 0 : most);
  };
  while (!fits(budget) && !(deletes_only() && fits(with_reserve(budget)))) {
    if (!end_slow(true)) return false;
    engine_.old->collect();
  }
  return true;
}

/// Whether the changes went to all indexes that there are, and the tables are there.
bool transaction::indexes_hold() const noexcept {
  return std::all_of(session_->writes.begin(), session_->writes.end(), [](const pending_write& w) {
    return !w.changed || (!w.indexes->closed && w.indexes == &w.of->indexes());
  });
}

bool transaction::changes() const noexcept {
  return std::any_of(session_->writes.begin(), session_->writes.end(),
                     [](const pending_write& w) { return w.changed; });
}

/// Whether every change is the end of a row. Behind prepare().
bool transaction::deletes_only() const noexcept {
  return std::all_of(session_->writes.begin(), session_->writes.end(), [](const pending_write& w) {
    return !w.changed || (w.shape & row_exists) == 0;
  });
}

/// Publishes if what was read holds.
bool transaction::settle(commit_record& record, std::uint64_t& commit) noexcept {
  try {
    commit = record.publish_if(*session_->record,
                               [this](std::uint64_t drawn) { return reads_hold(drawn); });
  } catch (const std::bad_alloc&) {
    commit = 0;  // nobody knows whether it holds
  }
  return commit != 0;
}

/// All changes are in place, but may not be: ends as a commit that leaves everything as it was.
status transaction::withdraw(std::uint64_t mark) noexcept {
  session& s = *session_;
  auto next = s.asks.begin();
  for (pending_write& w : s.writes) {
    if (!w.changed) continue;
    const bool kept = next != s.asks.end() && next->row == w.place.id;
    take_back(w.place, mark, kept ? next->place : nullptr, kept ? next->handle : 0, w.image,
              w.of->layout().whole());
    if (kept) ++next;
  }
  const std::uint64_t commit = engine_.board.publish(*s.record);
  for (pending_write& w : s.writes) {
    if (std::exchange(w.changed, false)) restamp(w.place, commit);
  }
  for (note* n = s.notes; n != nullptr; n = n->next) {
    if (n->what == note::kind::revived) n->until = commit;
  }
  finish(0);
  engine_.old->published(s.record->number(), commit);
  s.conflicts.add(1);
  state_ = outcome::conflict;
  end();
  return outcome::conflict;
}

void transaction::rollback() noexcept {
  if (session_ == nullptr || !state_) return;
  if (session_->asked) {
    misuse::report(
        "a transaction is rolled back by what it has called: a condition of its query, "
        "or on_slow_reader",
        threads::number());
    return;
  }
  state_ = outcome::ended;
  finish(0);
  end();
}

/// Sorts out the notes, and lets go of the rows. `commit` is 0 for a rollback.
void transaction::finish(std::uint64_t commit) noexcept {
  session& s = *session_;
  if (s.made.first != nullptr) settle_apart(commit);
  note* first = nullptr;
  note* last = nullptr;
  std::uint64_t count = 0;
  while (s.notes != nullptr) {
    note* const n = s.notes;
    s.notes = n->next;
    if (is_done(*n, commit != 0)) {
      free_note(n);
      continue;
    }
    // What a transaction that was rolled back has added may lie over an older claim, which a
    // snapshot of before may need.
    if (n->until == 0) n->until = commit != 0 ? commit : engine_.board.clock.now();
    n->next = first;
    first = n;
    if (last == nullptr) last = n;
    ++count;
  }
  for (pending_write& w : s.writes) {
    if (commit != 0 && w.changed) {
      restamp(w.place, commit);
    } else if (w.fresh) {
      undo(w);
      continue;
    }
    // release → the acquires in lock_row(): the row as it is now.
    w.place.head->lock.store_release(unlocked);
  }
  s.writes.clear();
  s.end_claims();
  if (s.replaced.first != nullptr) {
    value_list replaced = std::exchange(s.replaced, {});
    if (commit != 0) engine_.values.retire(replaced, commit);
  }
  if (first != nullptr) engine_.cleaner.add(first, last, count);
  if (commit != 0) engine_.cleaner.work(2 * count + 2);
}

/// Whether nothing is to be done about it.
bool transaction::is_done(const note& n, bool committed) noexcept {
  switch (n.what) {
    case note::kind::added:
      return has_key(n, committed);  // an entry that the row has now stays
    case note::kind::superseded:
      return !committed;  // a rollback takes nothing away
    case note::kind::revived:
      return n.until == 0;
    case note::kind::built:
    case note::kind::dropped:
      break;  // no transaction makes them
  }
  return true;
}

/// Whether the row has the note's key: in its new image, or in place.
bool transaction::has_key(const note& n, bool committed) noexcept {
  const table& t = *n.of;
  const row_place place = t.at(n.slot);
  pending_write* const w = own(*place.head);
  if (committed && w != nullptr && w->changed) {
    w->fetch(n.index->mask_);  // in place is what it has not
    return (w->shape & row_exists) != 0 && t.schema_.key_of(n.index->columns_, w->image) == n.key;
  }
  if (w == nullptr || w->fresh || (place.head->shape.load_relaxed() & row_exists) == 0)
    return false;
  return n.index->key_at(place) == n.key;
}

/// A slot that was taken for a row that never came to be.
void transaction::undo(pending_write& w) noexcept {
  table& t = *w.of;
  if (t.primary_->remove(t.schema_.key_of(t.schema_.key(), w.image), w.slot)) {
    t.give_slot(w.slot);
  } else {
    // No memory to take the key out: it keeps its slot, without a row, for who inserts it next.
    w.place.head->lock.store_release(unlocked);  // → the acquires in lock_row()
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
