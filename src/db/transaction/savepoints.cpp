// SPDX-License-Identifier: Apache-2.0
// savepoints.cpp: savepoints of a transaction, and scans that show an earlier moment.
//
// Each savepoint begins a level, and so does each scan. The first change of a row on a level that
// the row was locked before keeps the row's image, and goes on with a copy. Going back puts the
// kept images in place again, the newest first; rows that were locked since become what they were
// when they were locked. Locks stay, and so do index entries: finish() removes those that lead
// nowhere.
// Scans:       what a scan shows of a row is the newest image from before the scan's level; each
//              image knows where the one before it is kept. Of a row that was locked since, it is
//              what is committed. Where a scan that runs began after the savepoint that is led back
//              to, its images must stay: so the rows are changed back, on a level of its own, and
//              nothing that was kept goes.
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
  // Where nothing was changed or locked since the last one, that one will do. If a scan has begun
  // since, what it shows is what was there at the savepoint as well: so the savepoint may count as
  // made in the scan, and no image from before is wanted for it.
  if (level_mark* const last = s.savepoints.empty() ? nullptr : &s.savepoints.back();
      last != nullptr && last->kept == s.kept.size() && last->writes == s.writes.size()) {
    if (last->level <= s.scan) last->level = s.level = ++s.levels;
    made.number_ = s.savepoints.size();
    made.id_ = last->id;
    return made;
  }
  const std::uint64_t id = last_id.fetch_add_relaxed(1) + 1;
  s.savepoints.push_back({s.levels + 1, s.kept.size(), s.writes.size(), id});
  s.level = ++s.levels;
  made.number_ = s.savepoints.size();
  made.id_ = id;
  return made;
}

/// The write, to be changed: what it was stays with the savepoint. Throws std::bad_alloc and
/// row_budget::exceeded; nothing has changed then.
pending_write& transaction::touch(std::uint32_t number) {
  session& s = *session_;
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
  const level_mark mark = s.savepoints[to.number_ - 1];
  s.savepoints.resize(to.number_);
  if (s.scan > mark.level) {
    change_back(mark);
    return outcome::ok;
  }
  for (; s.kept.size() > mark.kept; s.kept.pop_back()) {
    pending_write& w = s.writes[s.kept.back().number];
    s.changes.give(w.image, w.words());
    w = s.kept.back().was;
  }
  for (std::size_t n = mark.writes; n < s.writes.size(); ++n) forget_changes(s.writes[n]);
  s.level = ++s.levels;
  return outcome::ok;
}

/// Makes the rows what they were, by changes that can be undone as well. Without memory for that,
/// nothing of the transaction remains.
void transaction::change_back(const level_mark& to) {
  session& s = *session_;
  s.level = ++s.levels;
  try {
    for (std::size_t i = to.kept, end = s.kept.size(); i < end; ++i) {
      const kept_write then = s.kept[i];
      // The first that was kept of the row since, of a row that was locked before.
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

/// What the transaction's write was before that level; null: the row was not locked yet.
pending_write* reader::own_before(pending_write* w, std::uint32_t level) const noexcept {
  while (w != nullptr && w->level >= level) {
    w = w->kept == 0 ? nullptr : &session_->kept[w->kept - 1].was;
  }
  return w;
}

/// The scan's level ends. What was changed on it was changed on the level before it, and what that
/// one would not have kept goes.
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

/// Makes it what it was when it was locked.
void transaction::forget_changes(pending_write& w) noexcept {
  w.changed = false;
  w.shape = 0;
  if (w.fresh) return;  // its key is wanted yet
  w.has = w.sets = 0;
  const std::uint64_t shape = w.place.head->shape.load_relaxed();
  if ((shape & row_exists) != 0) w.shape = shape;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
