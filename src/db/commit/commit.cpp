// SPDX-License-Identifier: Apache-2.0
// commit.cpp: how a transaction ends.
#include <algorithm>
#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "db/at_work.hpp"
#include "db/catalog/slot_chunks.hpp"
#include "db/engine.hpp"
#include "db/files/status_file.hpp"
#include "db/log/logged.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// One commit's record of the log. It is written before any change can be seen, and queued when the
/// commit is published.
class commit_record : logged {
 public:
  /// `session`: the number of the session that commits.
  commit_record(engine& of, std::uint32_t session) noexcept : logged(of), session_(session) {}
  ~commit_record() {
    if (entry_ == nullptr) return;
    if (promised_ && place_.sequence == 0) log_->give_room_back(*entry_);
    log_->give_back(entry_, session_);
  }

  /// Encodes the record, and has the log promise room for it, so that no later step fails for want
  /// of that. Not ok: the commit must not happen. deletes_only() tells whether only ends of rows
  /// are written. Throws std::bad_alloc, and row_budget::exceeded: there is no room for a record of
  /// that size.
  template <class DeletesOnly>
  outcome write(session& of, DeletesOnly&& deletes_only) {
    bool any = false;
    for (const pending_write& w : of.writes) any |= w.changed;
    if (!any) return outcome::ok;
    if (engine_.read_only) return outcome::read_only;
    if (log_ == nullptr) return outcome::ok;
    if (!log_->admit()) return outcome::storage_failed;
    std::uint64_t words = 0;
    for (const pending_write& w : of.writes) words += w.changed ? 1 + w.words() : 0;
    of.work.must_fit(words * sizeof(std::uint64_t));
    entry_ = log_->take(session_);
    for (pending_write& w : of.writes) {
      if (w.changed) put(w);
    }
    if (entry_->data.size() > longest_record) return outcome::limit;
    promised_ = log_->promise(*entry_, std::forward<DeletesOnly>(deletes_only));
    return promised_ ? outcome::ok : outcome::storage_failed;
  }

  /// The status if write() has returned outcome::limit. Throws std::bad_alloc.
  [[nodiscard]] status is_too_long() const {
    return {outcome::limit, "a record of the log, " + std::to_string(longest_record) +
                                " bytes: the changes take " + std::to_string(entry_->data.size())};
  }

  /// Makes the commit visible, and gives it its position in the log. Returns its timestamp.
  std::uint64_t publish(commit_board::record& r) noexcept {
    if (log_ == nullptr) return engine_.board.publish(r);
    const auto commit =
        log_->append(*entry_, place_, [&] { return entry_->commit = engine_.board.publish(r); });
    if (!place_.written) entry_ = nullptr;  // now it belongs to the log
    return commit;
  }

  /// The same for commit_board::publish_if(). The commit's position is after those of all commits
  /// that it has seen.
  template <class Valid>
  std::uint64_t publish_if(commit_board::record& r, Valid&& valid) {
    if (log_ == nullptr) return engine_.board.publish_if(r, std::forward<Valid>(valid));
    const auto settle = [&](std::uint64_t drawn, auto& step) {
      entry_->commit = drawn;
      if (!log_->append_if(*entry_, place_, drawn, step)) return false;
      if (!place_.written) entry_ = nullptr;  // as in publish()
      return true;
    };
    return engine_.board.publish_if(r, std::forward<Valid>(valid), settle);
  }

  /// Waits until it is as durable as the level of durability says.
  outcome acknowledge() noexcept {
    const bool done = is_durable([this](const auto& at) { return log_->acknowledge(at); });
    return done ? outcome::ok : outcome::storage_failed;
  }

 private:
  /// Encodes a write: for a row that exists, only the changed columns. That is enough: the log has
  /// the changes of a row in their order, and a checkpoint has the rows as of one position of the
  /// log; so a row that is changed after that position is in the checkpoint, or in the log before
  /// the change.
  void put(pending_write& w) {
    const bool there = !w.fresh && (w.place.head->shape.load_relaxed() & row_exists) != 0;
    const table& t = *w.of;
    if (there && (w.shape & row_exists) != 0 && w.sets != every_column) {
      w.fetch(t.form().keyed());
      return put_columns(entry_->data, t.number_, t.form(), w.image, w.shape, w.sets);
    }
    w.fetch(every_column);
    put_change(entry_->data, t.number_, t.form(), w.image, w.shape);
  }

  const std::uint32_t session_;
  log_entry* entry_ = nullptr;
  bool promised_ = false;  // the log keeps room for the record
};

namespace {

/// Puts the changes into the rows, marked as under way, and their before-images where readers find
/// them.
void install_all(session& s, std::uint64_t mark) noexcept {
  auto next = s.asks.begin();
  for (pending_write& w : s.writes) {
    if (!w.changed) continue;
    std::uint64_t older = 0;
    if (!w.fresh && w.place.head->stamp.load_relaxed() != 0) {
      keep_image(*next->place, *next, w.place, w.form().whole());
      older = next->handle;
      ++next;
    }
    install(w.place, mark, older, w.shape, w.image, w.sets, w.form().whole());
  }
}

}  // namespace

/// Reserves room for exactly as many allocation requests as there will be; for where they are many:
/// to grow step by step takes three times as much memory.
SPOLIA_NOINLINE void transaction::make_room_for_asks() {
  session& s = *session_;
  const auto count = std::count_if(s.writes.begin(), s.writes.end(),
                                   [](const pending_write& w) { return w.changed && !w.fresh; });
  try {
    return s.asks.reserve(static_cast<std::size_t>(count));
  } catch (const row_budget::exceeded&) {  // NOLINT: the second try follows outside
  }
  if (!look_for_memory()) throw row_budget::exceeded();
  s.asks.reserve(static_cast<std::size_t>(count));
}

/// Does what needs memory, before any change can be seen: makes the clean-up records for rows and
/// entries that the changes supersede, and the allocation requests for before-images. Throws
/// std::bad_alloc and row_budget::exceeded.
void transaction::prepare() {
  session& s = *session_;
  s.work.commits(true);
  s.asks.clear();
  constexpr std::size_t many = 1024;
  if (s.writes.size() >= many) make_room_for_asks();
  for (pending_write& w : s.writes) {
    const bool existed = !w.fresh && (w.place.head->shape.load_relaxed() & row_exists) != 0;
    const bool exists = (w.shape & row_exists) != 0;
    if (!existed && !exists) w.changed = false;
    if (!w.changed) continue;
    const schema& form = w.form();
    if (existed && form.apart() != 0) {
      replace_apart(w, form.apart() & (exists ? w.sets : every_column));
    }
    if (existed && (!exists || (w.indexes->columns & w.sets) != 0)) {
      const short_image room(*this, *w.of);
      pending_write old = w;
      old.image = room.words();
      old.has = 0;
      for (secondary* const i : w.indexes->all) {
        const secondary::parts& its = *i->parts_;
        if (exists && (its.mask & w.sets) == 0) continue;
        old.fetch(its.mask);
        w.fetch(its.mask);
        const key_words key = form.key_of(its.columns, old.image);
        if (exists && key == form.key_of(its.columns, w.image)) continue;
        s.count_notes();
        note& n = s.add(i->note_of(w.slot, key));
        n.what = note::kind::superseded;
        const index_entry e = i->entries_->entry_of(key, w.slot);
        n.claim() = e.claim;
        n.since = e.birth;
      }
      if (!exists) {
        s.count_notes();
        note& n = s.add(note::of_row(*w.of, w.slot));
        n.what = note::kind::superseded;
        n.since = w.birth;
      }
    }
    if (notes_reads_ && !existed && !w.fresh) {
      s.count_notes();
      note& n = s.add(note::of_row(*w.of, w.slot));
      n.what = note::kind::revived;
      n.since = w.birth;
    }
    // No snapshot looks for anything before the first version of a row; nor for the row that had
    // the slot before: its slot was given back.
    const std::uint64_t since = w.place.head->stamp.load_relaxed();
    if (w.fresh || since == 0) continue;
    ask wanted{.row = w.place.id,
               .since = since,
               .older = w.place.head->older.load_relaxed(),
               .chain = &w.place.head->older};
    if (existed && exists && engine_.old->changes_only() && w.sets != every_column) {
      wanted.columns = w.sets;
      each_column(w.sets, [&](std::uint32_t c) { wanted.words += form.span_of(c).words; });
    } else if (existed) {
      wanted.words = form.words();
    }
    s.asks.push_back(wanted);
  }
}

/// The steps of a commit, in the order in which they happen.
///
///   prepare      makes the clean-up records, and the allocation requests for before-images
///   validate     if serializable: what was read must hold so far
///   write        encodes the record; the log promises room for it
///   reserve      allocates the before-images, for which readers may be ended
///   install      keeps the before-images, and replaces the rows, marked as under way
///   publish      draws the timestamp, makes the commit visible, and gives its record a position in
///                the log, all as one step. If serializable: the timestamp is drawn before that
///                step, which is taken only if what was read holds at it
///   finish       hands over the clean-up records, and gives up the locks
///   acknowledge  waits until the record is as durable as was asked for
///
/// Why an acknowledged commit is there after a crash. All steps that can fail for want of memory or
/// room come before install, and leave everything as it was. So an installed commit is published,
/// or it is withdrawn, as a commit that changes nothing, if what was read does not hold, or there
/// is no memory to find out. A reader that meets a row under way waits for publish, or helps: so no
/// transaction relies on a commit that has no position in the log. So a commit's position comes
/// after those of all commits that it read from or replaced, and each prefix of the log can be
/// replayed. acknowledge returns after the prefix that ends with this record is written. If the log
/// fails before that, the commit is not acknowledged, although others may have seen it.
status transaction::commit() {
  if (!goes_on()) return state_;
  no_query_runs();
  const alone now(*this);
  const step here(*this);
  if (!here) return fail(session_->way.why());
  session& s = *session_;
  if (s.writes.empty()) return change_nothing();
  s.section.enter();
  if (!indexes_hold()) return fail(outcome::schema_changed);
  const std::uint32_t me = s.record->number();
  bool room = true;
  census::ticket floor;  // "the validation floor" in snapshot_list.hpp
  commit_record record(engine_, me);
  try {
    prepare();
    if (notes_reads_ && changes()) {
      floor = engine_.board.validating.announce(engine_.board.clock);
      if (reads_hold(not_yet) == verdict::broken) {
        return fail({outcome::conflict, cause::what_was_read});
      }
    }
    const outcome o = record.write(s, [this] { return deletes_only(); });
    if (o == outcome::limit) return fail(record.is_too_long());
    if (o == outcome::storage_failed) return fail(engine_.log_refuses());
    if (o != outcome::ok) return fail(o);
    room = reserve();
  } catch (const row_budget::exceeded&) {
    return fail(engine_.budget_is_used_up());
  } catch (...) {
    roll_back();
    throw;
  }
  if (!room) return fail(engine_.versions_do_not_fit());
  if (!changes()) return only_read();
  // From here on the commit is published or withdrawn.
  const std::uint64_t mark = engine_.board.begin(*s.record);
  install_all(s, mark);
  std::uint64_t commit = 0;
  if (!notes_reads_) {
    commit = record.publish(*s.record);
  } else if (!settle(record, commit)) {
    return withdraw(mark);
  }
  s.commits.add(1);
  commit_time_ = commit;
  const std::uint64_t left = finish(commit);
  engine_.old->published(me, commit);
  state_ = {outcome::ended, cause::committed};
  floor.withdraw();
  end();
  const outcome durable = record.acknowledge();
  engine_.cleaner.after_commit(left, s.rested);
  engine_.values.after_commit();
  if (engine_.shown) engine_.shown->after_commit();
  if (durable != outcome::ok) [[unlikely]]
    return in_doubt();
  if (seen_ != 0) [[unlikely]]
    return seen_is_durable();
  return outcome::ok;
}

/// The status of a commit that was published and is not known to be durable. It is shown to other
/// processes at once, since there may be no other commit that would do it.
status transaction::in_doubt() const noexcept {
  engine_.storage_refusals.fetch_add_relaxed(1);
  if (engine_.shown) engine_.shown->publish();
  try {
    return {outcome::storage_failed, "in doubt: the commit of time " +
                                         std::to_string(commit_time_) +
                                         " is visible, and is durable after database::resume()"};
  } catch (const std::bad_alloc&) {
    return outcome::storage_failed;
  }
}

/// Commits a transaction without changes.
status transaction::change_nothing() {
  try {
    look_after_slow_readers();
  } catch (...) {
    roll_back();
    throw;
  }
  return only_read();
}

/// Ends a transaction without changes, which has only locks to give up.
status transaction::only_read() {
  roll_back({outcome::ended, cause::committed});
  if (seen_ == 0) [[likely]]
    return outcome::ok;
  return seen_is_durable();
}

/// Waits until all commits that the transaction can have seen (`seen_`) are durable.
status transaction::seen_is_durable() const {
  at_work::must_not_wait(engine_, at_work::writing | at_work::lengthening, "commit()");
  if (engine_.log->wait(seen_)) return {};
  engine_.storage_refusals.fetch_add_relaxed(1);
  engine_.show_refusal();
  return engine_.log_refuses();
}

/// Ends readers whose time is over, and asks the program about other slow ones.
void transaction::look_after_slow_readers() {
  if (engine_.gates.due() || engine_.settings.slow_after.count() > 0) end_slow(false);
}

/// Allocates the before-images; may end readers to make room. False: there is none.
bool transaction::reserve() {
  session& s = *session_;
  look_after_slow_readers();
  if (engine_.may_look_at_what_is_kept()) ask_about_what_is_kept();
  const auto fits = [&](bool with_reserve) {
    const std::uint64_t most =
        s.asks.empty() ? 0 : engine_.most_for_versions(s.replaced.bytes, with_reserve);
    return engine_.old->reserve(s.record->number(), s.asks, most);
  };
  const auto has_room = [&] { return fits(false) || (deletes_only() && fits(true)); };
  if (has_room() || (engine_.collect_beside_versions() && has_room())) return true;
  do {
    const bool ended = end_slow(true);
    // The program that was asked may have ended readers itself, so memory may be found. But a look
    // walks over all that is kept, and a program may go on after each refusal: so looks are rare.
    if (!ended && (!engine_.settings.on_slow_reader || !engine_.may_look_for_memory()))
      return false;
    engine_.collect();
    if (!ended) return has_room();
  } while (!has_room());
  return true;
}

/// Asks the program about slow readers if too much memory is kept for them, even if there is room
/// for this commit: where version_budget does not bound that memory, it grows beyond
/// options::budget. Throws what on_slow_reader throws.
void transaction::ask_about_what_is_kept() {
  table* last = nullptr;
  for (const pending_write& w : session_->writes) {
    if (w.of != last) (last = w.of)->count_indexes();
  }
  if (engine_.keeps_too_much() && end_slow(true)) engine_.collect();
}

/// Whether the changes went to all indexes of their tables, and no table was dropped.
bool transaction::indexes_hold() const noexcept {
  return std::all_of(session_->writes.begin(), session_->writes.end(), [](const pending_write& w) {
    return !w.changed || (!w.indexes->closed && w.indexes == &w.of->indexes());
  });
}

bool transaction::changes() const noexcept {
  return std::any_of(session_->writes.begin(), session_->writes.end(),
                     [](const pending_write& w) { return w.changed; });
}

/// Whether every change is the end of a row. To be asked after prepare().
bool transaction::deletes_only() const noexcept {
  return std::all_of(session_->writes.begin(), session_->writes.end(), [](const pending_write& w) {
    return !w.changed || (w.shape & row_exists) == 0;
  });
}

/// Publishes the commit if what was read holds. False: it does not, or there was no memory to find
/// out.
bool transaction::settle(commit_record& record, std::uint64_t& commit) noexcept {
  try {
    commit = record.publish_if(*session_->record,
                               [this](std::uint64_t drawn) { return reads_hold(drawn); });
  } catch (const std::bad_alloc&) {
    commit = 0;
  }
  return commit != 0;
}

/// Undoes the changes, which are in the rows but must not take effect. The transaction ends as a
/// commit that leaves everything as it was.
status transaction::withdraw(std::uint64_t mark) noexcept {
  session& s = *session_;
  auto next = s.asks.begin();
  for (pending_write& w : s.writes) {
    if (!w.changed) continue;
    const bool kept = next != s.asks.end() && next->row == w.place.id;
    take_back(w.place, mark, kept ? next->place : nullptr, kept ? next->handle : 0, w.image,
              w.of->form().whole());
    if (kept) ++next;
  }
  const std::uint64_t commit = engine_.board.publish(*s.record);
  for (pending_write& w : s.writes) {
    if (std::exchange(w.changed, false)) restamp(w.place, commit);
  }
  for (note* n = s.notes; n != nullptr; n = n->next) {
    if (n->what == note::kind::revived) n->until = commit;
  }
  const std::uint64_t left = finish(0);
  engine_.old->published(s.record->number(), commit);
  s.conflicts.add(1);
  state_ = {outcome::conflict, cause::what_was_read};
  end(outcome::conflict);
  engine_.cleaner.after_commit(left, s.rested);
  return state_;
}

void transaction::rollback() {
  if (session_ == nullptr || !goes_on()) return;
  no_query_runs();
  roll_back();
}

void transaction::roll_back(status how) noexcept {
  if (session_ == nullptr || !goes_on()) return;
  if (session_->asked) {  // only in the destructor: all other callers have checked this before
    misuse::report(
        "a transaction is destroyed by what it has called: a condition of its query, "
        "or on_slow_reader",
        threads::number());
    return;
  }
  state_ = how;
  const std::uint64_t left = finish(0);
  atomic<std::uint64_t>& rested = session_->rested;
  end(how.code());
  engine_.cleaner.after_commit(left, rested);
}

/// Hands those clean-up records to the cleaner that are needed, and unlocks the rows. `commit` is 0
/// for a rollback. Returns how many records it has handed over.
std::uint64_t transaction::finish(std::uint64_t commit) noexcept {
  session& s = *session_;
  if (s.made.first != nullptr) settle_apart(commit);
  note_queue left;
  while (s.notes != nullptr) {
    note* const n = s.notes;
    s.notes = n->next;
    n->kept = false;
    if (is_done(*n, commit != 0) || takes_entry_out(*n)) {
      note::free(n);
      continue;
    }
    if (n->what == note::kind::added || n->until == 0) {
      n->until = commit != 0 ? commit : engine_.board.clock.now();
    }
    if (n->made) n->since = n->until;  // an empty life: no snapshot needs the entry
    left.push(n);
  }
  s.forget_notes();
  for (pending_write& w : s.writes) {
    if (commit != 0 && w.changed) {
      restamp(w.place, commit);
      if (w.fresh) {
        w.birth = commit;
      } else if ((w.shape & row_exists) == 0) {
        w.of->parts_->chunks->row_ended(w.slot, commit);
      }
    } else if (w.fresh) {
      undo(w);
      continue;
    } else if (w.revives) {
      w.of->parts_->chunks->revive_no_more(w.slot);
    }
    // release → the acquires in lock_row(): the row as it is now.
    w.place.head->lock.store_release(w.birth);
  }
  s.writes.clear();
  s.end_claims();
  if (s.replaced.first != nullptr) {
    value_list replaced = std::exchange(s.replaced, {});
    if (commit != 0) engine_.values.retire(replaced, commit);
  }
  const std::uint64_t count = left.count;
  engine_.cleaner.add(left);
  return count;
}

/// Whether the cleaner has nothing to do about the record.
bool transaction::is_done(const note& n, bool committed) noexcept {
  switch (n.what) {
    case note::kind::added:
      return has_key(n, committed);  // an entry that the row has now stays
    case note::kind::superseded:
      return !committed;  // a rollback ends nothing
    case note::kind::revived:
      return n.until == 0;
    case note::kind::taken_back:
      break;
    case note::kind::built:
    case note::kind::dropped:
      break;  // no transaction makes them
  }
  return true;
}

/// Whether the row has the record's key: in its new image, or else in place.
bool transaction::has_key(const note& n, bool committed) noexcept {
  const secondary& index = n.index();
  const table& t = index.of();
  const row_place place = t.at(n.slot());
  pending_write* const w = own(*place.head);
  if (committed && w != nullptr && w->changed) {
    w->fetch(index.parts_->mask);  // loads the columns that the image lacks
    return (w->shape & row_exists) != 0 &&
           t.form().key_of(index.parts_->columns, w->image) == n.key();
  }
  if (w == nullptr || w->fresh || (place.head->shape.load_relaxed() & row_exists) == 0)
    return false;
  return index.key_at(place) == n.key();
}

/// Gives back a slot that was taken for a row which was never committed.
void transaction::undo(pending_write& w) noexcept {
  table& t = *w.of;
  if (t.primary_->remove(t.form().key_of(t.form().key(), w.image), w.slot)) {
    t.give_slot(w.slot);
  } else {
    // No memory to take the key out: it keeps its slot, without a row, for the next insertion.
    t.parts_->chunks->row_ended(w.slot, 0);
    w.place.head->lock.store_release(born_before_all);  // → the acquires in lock_row()
  }
}

// --- validation: whether what was read holds -----------------------------------------------------

/// Whether no other transaction has committed the row after our snapshot, or is about to.
bool transaction::unchanged(const row_head& row) const noexcept {
  // So it is mostly. A mark is above all times. acquire, as in unchanged_since().
  if (row.stamp.load_acquire() <= timestamp()) return true;
  // Our own lock: then lock_row() has checked that. relaxed: we see a lock of our own.
  if (row.lock.load_relaxed() >> 32U == session_->lock_word(0) >> 32U) return true;
  return unchanged_since(engine_.board, row, timestamp());
}

/// Whether all that was read is the same at the time `drawn` as at the snapshot. Throws
/// std::bad_alloc.
verdict transaction::reads_hold(std::uint64_t drawn) const {
  const read_set& reads = session_->reads;
  for (const row_head* const r : reads.rows) {
    if (SPOLIA_CHECKS && r->lock.load_relaxed() == free_slot) {
      misuse::report("the slot of a row that was read was given back", threads::number());
    }
    if (!unchanged(*r)) return verdict::broken;
  }
  if (reads.keys.empty() && reads.ranges.empty() && reads.tables.empty()) return verdict::holds;
  census::ticket now;  // announced when it is needed
  verdict v = verdict::holds;
  const auto look_at_rows = [&](const range_read& r, std::uint64_t below = table_read::all) {
    const slot_chunks& slots = *r.of->parts_->chunks;
    const std::uint64_t end = std::min(below, slots.end());
    const std::uint64_t time = timestamp();
    for (std::uint64_t slot = slots.next_shown(0, end, time); slot < end;
         slot = slots.step(slot, end, time)) {
      v = slot_holds(r, slot, drawn, now);
      if (v != verdict::holds) return;
    }
  };
  const auto look_at_range = [&](const range_read& r) {
    const auto look = [&](std::uint64_t slot, const std::uint64_t*) {
      return (v = slot_holds(r, slot, drawn, now)) == verdict::holds;
    };
    if (r.index != nullptr) {
      r.index->entries_->scan(r.lo, r.hi, timestamp(), slot_visitor(look));
    } else if (r.of->primary_->ordered()) {
      r.of->primary_->scan(r.lo, r.hi, timestamp(), slot_visitor(look));
    } else if (const std::uint64_t slot = r.of->primary_->find(r.lo); slot != no_slot) {
      look(slot, nullptr);
    }
    // Changes made since an index was dropped have no entries in it: then the rows themselves are
    // checked. A transaction that did not change the index had seen that it is over before it drew
    // its time, and we drew ours later, so over() is true for us as well.
    if (v == verdict::holds && r.index != nullptr && r.index->when_.over()) look_at_rows(r);
    return v == verdict::holds;
  };
  for (const key_read& k : reads.keys) {
    if (!look_at_range({k.of, nullptr, k.key, k.key})) return v;
  }
  for (const range_read& r : reads.ranges) {
    if (!look_at_range(r)) return v;
  }
  for (const table_read& t : reads.tables) {
    look_at_rows(range_read::whole(*t.of), t.end);
    if (v != verdict::holds) return v;
  }
  return v;
}

/// The same for a range, as far as it depends on the row in this slot. The entry that has led here
/// may be of a row that was never committed, or of a former key of the row, and the slot may have
/// gone to another row since. So what counts are the keys that the row had.
verdict transaction::slot_holds(const range_read& r, std::uint64_t slot, std::uint64_t drawn,
                                census::ticket& now) const {
  const table& t = *r.of;
  const row_place place = t.at(slot);
  if (unchanged(*place.head)) return verdict::holds;
  const schema& s = t.form();
  const std::vector<std::uint32_t>& columns =
      r.index != nullptr ? r.index->parts_->columns : s.key();
  const selection key_only(s, r.index != nullptr ? r.index->parts_->mask : s.keyed());
  const short_image image(*this, t);
  const auto later = [&] {
    if (!now) now = engine_.board.living.announce(engine_.board.clock);
    return now.timestamp();
  };
  const auto part = [&] { return r.has(s.key_of(columns, image.words()), s.key_length(columns)); };
  return look_at_changed(engine_.board, *engine_.old, place, timestamp(), drawn, key_only.in(s),
                         image.words(), later, part);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
