// SPDX-License-Identifier: Apache-2.0
// savepoint.cpp: going back to an earlier moment of a transaction.
//
// Each savepoint begins a level. The first change of a row on a level that the row was locked
// before keeps the row's image, and goes on with a copy. Going back puts the kept images in place
// again, the newest first; rows that were locked since become what they were when they were locked.
// Locks stay, and so do index entries: finish() takes those away that lead nowhere.
#include <algorithm>
#include <stdexcept>

#include "engine.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

savepoint transaction::savepoint() {
  session& s = *session_;
  db::savepoint made;
  if (!state_) return made;
  s.savepoints.push_back({s.levels + 1, s.kept.size(), s.writes.size()});
  s.level = ++s.levels;
  made.number_ = s.savepoints.size();
  made.level_ = s.level;
  return made;
}

/// The write, to be changed: what it was stays with the savepoint. Throws std::bad_alloc.
pending_write& transaction::touch(std::uint32_t number) {
  session& s = *session_;
  pending_write& w = s.writes[number];
  if (w.level == s.level) return w;
  std::uint64_t* const image = s.changes.take(w.words());
  s.kept.push_back({number, w});
  each_column(w.has & w.of->layout().whole().mask, [&](std::uint32_t c) {
    const column_span span = w.of->layout().span_of(c);
    std::copy_n(w.image + span.first, span.words, image + span.first);
  });
  w.image = image;
  w.level = s.level;
  return w;
}

status transaction::rollback_to(const db::savepoint& to) {
  if (!state_) return state_;
  session& s = *session_;
  if (to.number_ == 0 || to.number_ > s.savepoints.size() ||
      s.savepoints[to.number_ - 1].level != to.level_) {
    throw std::invalid_argument("spolia::db: this is no savepoint of the transaction any more");
  }
  const level_mark mark = s.savepoints[to.number_ - 1];
  s.savepoints.resize(to.number_);
  for (; s.kept.size() > mark.kept; s.kept.pop_back()) {
    s.writes[s.kept.back().number] = s.kept.back().was;
  }
  for (std::size_t n = mark.writes; n < s.writes.size(); ++n) forget_changes(s.writes[n]);
  s.level = ++s.levels;
  return outcome::ok;
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
