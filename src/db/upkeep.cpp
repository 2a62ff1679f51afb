// SPDX-License-Identifier: Apache-2.0
// upkeep.cpp: removes rows and index entries when no snapshot sees them.
#include "db/upkeep.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>
#include <utility>

#include <spolia/base/backoff.hpp>
#include <spolia/base/ticks.hpp>

#include "db/engine.hpp"
#include "db/one_at_a_time.hpp"
#include "db/versions/large_memory.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

/// When a snapshot ends at which so many records hang, the next look is made at once.
constexpr std::uint64_t many_held = 64;
/// The clock is read once for so many records.
constexpr std::uint64_t notes_at_once = 16;
constexpr std::chrono::milliseconds longest_step{1};
/// By the lock of a row that the record at hand has not buried: whether the record of a later end
/// of the row was examined first, and has buried the row or given its slot back.
bool is_later_ones(std::uint64_t lock) noexcept { return lock == free_slot || lock == buried_row; }

}  // namespace

/// The right to examine records, which one thread at a time has.
class upkeep::turn {
 public:
  /// The object is false after that if another thread has its turn.
  explicit turn(upkeep& of) noexcept : of_(of), mine_(of.busy_) {}
  turn(upkeep& of, backoff waiting) noexcept : of_(of), mine_(of.busy_, waiting) {}
  ~turn() {
    if (!mine_) return;
    of_.ready_.store_relaxed(of_.todo_.count);
    const bool none = of_.held_.empty();
    of_.first_held_.store_relaxed(none ? 1 : of_.held_.front().time);
    of_.last_held_.store_relaxed(none ? 0 : of_.held_.back().time);
  }
  turn(const turn&) = delete;
  turn& operator=(const turn&) = delete;
  explicit operator bool() const noexcept { return static_cast<bool>(mine_); }

 private:
  upkeep& of_;
  const one_at_a_time mine_;
};

upkeep::~upkeep() {
  for (holder& h : held_) {
    todo_.append(h.young);
    todo_.append(h.rest);
  }
  todo_.append(queue_);
  while (note* const n = todo_.pop()) note::free(n);
}

void upkeep::add(note_queue& notes) noexcept {
  if (notes.count == 0) return;
  std::uint64_t weights = 0;
  std::uint64_t bytes = 0;
  for (const note* n = notes.first; n != nullptr; n = n->next) {
    weights += n->weight();
    bytes += n->bytes();
  }
  waiting_bytes_.fetch_add_relaxed(weights);
  note_bytes_.fetch_add_relaxed(bytes);
  const std::lock_guard hold(lock_);
  queued_.fetch_add_relaxed(notes.count);
  waiting_.fetch_add_relaxed(notes.count);
  queue_.append(notes);
}

/// Not inline: commits mostly find nothing that waits, and then save no registers for this.
SPOLIA_NOINLINE void upkeep::work(std::uint64_t left, atomic<std::uint64_t>& rested) noexcept {
  const std::uint64_t every = look_every_.load_relaxed();
  const bool due =
      queued_.load_relaxed() >= every || calls_.fetch_add_relaxed(1) % every == every - 1;
  if (!due && ready_.load_relaxed() == 0) return;
  const turn mine(*this);
  if (!mine) return;
  if (due) look();
  examine_some(2 * left);
  if (todo_.count == 0) return;
  const std::uint64_t now = ticks::read();
  const auto most = static_cast<std::int64_t>(in_ticks(longest_step));
  // As signed numbers: the counter of another processor may be a little slow; by far, if it was set
  // back.
  auto since = static_cast<std::int64_t>(now - rested.load_relaxed());
  if (since < -1000 * most) since = most;
  if (since <= 0) return;
  examine_until(now + static_cast<std::uint64_t>(std::min(since, most)));
  const std::uint64_t end = ticks::read();
  rested.store_relaxed(end + (end - now));
}

/// Only a snapshot at which many records hang is worth a look of its own.
SPOLIA_NOINLINE bool upkeep::snapshot_ended(std::uint64_t time) noexcept {
  const turn mine(*this);
  if (!mine) return false;
  const auto h = holder_at(time);
  const bool few =
      h == held_.end() || h->time != time || h->young.count + h->rest.count < many_held;
  if (few) return false;
  look();
  examine_until(ticks::read() + in_ticks(longest_step));
  return true;
}

SPOLIA_NOINLINE bool upkeep::go_on() noexcept {
  const turn mine(*this);
  if (mine) examine_until(ticks::read() + in_ticks(longest_step));
  return static_cast<bool>(mine);
}

void upkeep::look_now() noexcept {
  const turn mine(*this);
  if (!mine) return;
  look();
  examine_until(ticks::read() + in_ticks(longest_step));
}

void upkeep::collect() noexcept {
  const turn mine(*this, backoff());
  look();
  examine_some(todo_.count);
}

/// Lists the snapshots. Records that hung at snapshots which have ended are to be examined again,
/// and so are those that have come since the last look.
void upkeep::look() noexcept {
  {
    const std::lock_guard hold(lock_);
    queued_.store_relaxed(0);
    todo_.append(queue_);
  }
  if (!snapshots_.look(board_)) return;
  look_every_.store_relaxed(
      std::max<std::uint64_t>(least_notes, snapshots_.size() / snapshots_a_note));
  try {
    held_.reserve(snapshots_.size());
  } catch (const std::bad_alloc&) {
    return snapshots_.list_none();
  }
  snapshot_list::walk listed = snapshots_.from_first();
  std::erase_if(held_, [&](holder& h) {  // ascending by time, as the list is
    const bool ended = !listed.has(h.time);
    if (ended || snapshots_.is_old(h.time)) let_go(h.young);
    if (ended) let_go(h.rest);
    return ended;
  });
}

/// The pile's records are to be examined again.
void upkeep::let_go(pile& p) noexcept {
  todo_.append(p);
  p.bytes = 0;
}

std::vector<held_things> upkeep::held() {
  const turn mine(*this, backoff());
  std::vector<held_things> all;
  for (const holder& h : held_) all.push_back(h.sum());
  return all;
}

std::optional<held_things> upkeep::held_at(std::uint64_t time) noexcept {
  const turn mine(*this);
  if (!mine) return std::nullopt;
  const auto h = holder_at(time);
  return h == held_.end() || h->time != time ? held_things{.time = time} : h->sum();
}

void upkeep::examine_some(std::uint64_t most) noexcept {
  for (; most != 0; --most) {
    note* const n = todo_.pop();
    if (n == nullptr) return;
    examine(n);
  }
}

void upkeep::examine_until(std::uint64_t end) noexcept {
  while (todo_.count != 0 && static_cast<std::int64_t>(end - ticks::read()) > 0) {
    examine_some(notes_at_once);
  }
}

/// The first holder that is not before that time.
std::vector<upkeep::holder>::iterator upkeep::holder_at(std::uint64_t time) noexcept {
  return std::lower_bound(held_.begin(), held_.end(), time,
                          [](const holder& h, std::uint64_t t) { return h.time < t; });
}

void upkeep::examine(note* n) noexcept {
  const bool dropped = n->what == note::kind::dropped;
  if (!dropped) n->since = std::max(n->since, n->first_use());
  if (snapshots_.vouches_for(n->until)) {
    const snapshot_list::need need = snapshots_.needed_by(n->since, n->until);
    if (need.by != nullptr) {
      return dropped || n->what == note::kind::built ? hang(n, *need.by, false) : hold(n, need);
    }
    if (done(*n)) return forget(n);
  }
  const std::lock_guard hold(lock_);
  queue_.push(n);
}

void upkeep::forget(note* n) noexcept {
  if (n->kept) kept_.take(*n);
  waiting_.fetch_sub_relaxed(1);
  waiting_bytes_.fetch_sub_relaxed(n->weight());
  note_bytes_.fetch_sub_relaxed(n->bytes());
  note::free(n);
  small_blocks::freed();
}

/// Makes the record hang at the middle one of the snapshots that need its row or entry, and buries
/// that if it is needed for long.
void upkeep::hold(note* n, snapshot_list::need need) noexcept {
  if (!n->kept && !n->buried && merge(*n)) return forget(n);
  burial b = burial::no_memory;
  if (need.for_long && !n->buried) {
    b = bury(*n);
    if (b == burial::not_there) return forget(n);
    const std::uint64_t before = n->weight();
    n->buried = b == burial::done;
    waiting_bytes_.fetch_add_relaxed(n->weight() - before);
    if (n->buried && n->kept) kept_.take(*n);  // a later life of the same row or entry is another
  }
  hang(n, *need.by, !n->buried && b != burial::never);
}

/// Makes the record hang: it is examined again when the listed snapshots of that time have ended,
/// or, if `young`, when they are still there at the next look.
void upkeep::hang(note* n, std::uint64_t time, bool young) noexcept {
  auto at = holder_at(time);
  if (at == held_.end() || at->time != time) {
    // There is room: look() has reserved it for one holder of each listed time.
    at = held_.insert(at, holder{time, {}, {}});
  }
  pile& to = young ? at->young : at->rest;
  to.push(n);
  to.bytes += n->held_bytes();
}

/// Merges the record into one of an earlier end of the same row or entry, whose life has gone on
/// since, if there is one that hangs. True: the record itself is not needed any more.
bool upkeep::merge(note& n) noexcept {
  note* const there = kept_.find(n.about());
  if (there == nullptr) {
    kept_.put(n);
    return false;
  }
  there->since = std::min(there->since, n.since);
  if (there->until < n.until) {
    there->until = n.until;
    if (!n.is_row()) there->claim() = n.claim();
  }
  return true;
}

burial upkeep::bury(note& n) noexcept {
  table& t = n.of();
  if (!t.cleaning_.enter()) return burial::no_memory;  // another time
  burial b = burial::not_there;
  if (is_there(n)) {
    b = n.is_row() ? bury_row(n)
                   : n.index().entries_->bury(n.key(), n.slot(), n.claim(), n.since, n.until);
  }
  t.cleaning_.leave();
  return b;
}

/// Whether the record's table or index was not dropped. The caller has entered the table.
bool upkeep::is_there(const note& n) noexcept {
  return n.of().primary_ != nullptr && (n.is_row() || n.index().entries_ != nullptr);
}

std::uint64_t note::weight() const noexcept {
  std::uint64_t sum = bytes();
  if (is_row()) sum += of().row_bytes();
  // How many words a row's key has only its table knows; most have one.
  if (buried) sum += buried_bytes(is_row() ? 3U : words_ + 1U);
  return sum;
}

std::uint64_t note::held_bytes() const noexcept {
  if (what != kind::dropped) return weight();
  return weight() + (is_row() ? of().bytes() + of().index_bytes() : dropped_bytes());
}

std::uint64_t note::first_use() const noexcept {
  const std::uint64_t birth = of().when_.birth();
  return is_row() ? birth : std::max(birth, index().when_.birth());
}

table& note::of() const noexcept { return is_row() ? *static_cast<table*>(of_) : *index().of_; }

burial upkeep::bury_row(note& n) noexcept {
  const table& t = n.of();
  const row_place row = t.at(n.slot());
  row_head& head = *row.head;
  std::uint64_t was = head.lock.load_relaxed();
  // acquire ← the release of the last transaction that unlocked it: its stamp, shape and key.
  if (!is_unlocked(was) || !head.lock.cas_strong_acquire(was, being_cleaned)) {
    return is_later_ones(was) ? burial::not_there : burial::no_memory;  // else another time
  }
  burial b = burial::not_there;
  if (head.stamp.load_relaxed() == n.until && (head.shape.load_relaxed() & row_exists) == 0) {
    b = t.primary_->bury(t.key_at(row), n.slot(), n.since, n.until);
  }
  // release → the acquires of threads that read the lock next.
  head.lock.store_release(b == burial::done ? buried_row : was);
  return b;
}

note* kept_notes::find(const note::subject& what) const noexcept {
  if (count_ == 0) return nullptr;
  std::size_t at = what.hash() & mask();
  while (places_[at] != nullptr && places_[at]->about() != what) at = (at + 1) & mask();
  return places_[at];
}

std::size_t kept_notes::free_for(const note& n) const noexcept {
  std::size_t at = n.about().hash() & mask();
  while (places_[at] != nullptr) at = (at + 1) & mask();
  return at;
}

/// If there is no memory, the record is not kept: then a later end gets a record of its own.
void kept_notes::put(note& n) noexcept {
  if (4 * (count_ + 1) > 3 * places_.size() && !grow()) return;
  places_[free_for(n)] = &n;
  n.kept = true;
  ++count_;
}

/// Moves the records that follow up, so that no probe sequence has a gap.
void kept_notes::take(note& n) noexcept {
  n.kept = false;
  if (--count_ == 0) return clear();  // a reader may have held many: give the memory back
  std::size_t gap = n.about().hash() & mask();
  while (places_[gap] != &n) gap = (gap + 1) & mask();
  for (std::size_t at = gap; (places_[gap] = places_[at = (at + 1) & mask()]) != nullptr;) {
    // A record whose probe sequence begins after the gap stays.
    const std::size_t from_home = (at - places_[at]->about().hash()) & mask();
    if (from_home >= ((at - gap) & mask())) gap = at;
  }
}

/// False: there was no memory, or no room for it in the budget.
bool kept_notes::grow() noexcept {
  try {
    counted_vector<note*> old(std::max<std::size_t>(16, 2 * places_.size()), nullptr,
                              places_.get_allocator());
    old.swap(places_);
    for (note* const n : old) {
      if (n != nullptr) places_[free_for(*n)] = n;
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  } catch (const row_budget::exceeded&) {
    return false;
  }
}

/// Removes what the record names. False: that cannot be done yet, or there was no memory.
bool upkeep::done(note& n) noexcept {
  if (n.what == note::kind::dropped) return free_dropped(n);
  table& t = n.of();
  if (!t.cleaning_.enter()) return false;
  const bool over = !is_there(n) || (n.is_row() ? remove_row(n) : remove_entry(n));
  t.cleaning_.leave();
  return over;
}

/// Frees a dropped table or index. No snapshot is left that began in its life. False: an older one
/// uses it, a thread is removing something from it, or a reader that was ended may be in the middle
/// of a scan of it.
bool upkeep::free_dropped(note& n) noexcept {
  table& t = n.of();
  if (t.engine_.gates.is_left(n.since, n.until) || !t.cleaning_.enter_alone()) return false;
  const bool frees_table = n.is_row() && !t.engine_.old->looks_at_rows();
  // If not, the index went with its table before.
  const bool frees_index = !n.is_row() && n.index().entries_ != nullptr;
  // An older transaction that comes to the table of an index later makes no changes in that index.
  if ((frees_table && !t.parts_->elders.enter_alone()) ||
      (frees_index && !t.parts_->elders.empty())) {
    t.cleaning_.leave_alone();
    return false;
  }
  if (frees_table && t.engine_.old->wants_rows_of_tables()) t.let_versions_go();
  if (frees_table) t.free_rows();
  if (frees_index) {
    n.index().entries_.reset();
    t.parts_->dropped_index_bytes.fetch_sub_relaxed(n.dropped_bytes());
  }
  t.cleaning_.leave_alone();
  if (frees_index) t.count_indexes();
  if (frees_table) t.engine_.tables.has_gone(t);
  return true;
}

bool upkeep::remove_entry(note& n) noexcept {
  if (n.what == note::kind::built) return remove_built(n);
  secondary_index& from = *n.index().entries_;
  return n.buried ? from.unbury(n.key(), n.slot(), n.claim(), n.until)
                  : from.remove(n.key(), n.slot(), n.claim());
}

/// Removes the entry if the row has another key by now, and no snapshot that uses the index may see
/// the row with this one.
bool upkeep::remove_built(note& n) noexcept {
  const secondary& index = n.index();
  const row_place row = n.of().at(n.slot());
  const auto remove = [&] { return index.entries_->remove(n.key(), n.slot(), n.claim()); };
  const auto ended = [&](std::uint64_t until) {
    n.until = until;
    return snapshots_.vouches_for(until) && snapshots_.needed_by(n.since, until).by == nullptr &&
           remove();
  };
  std::uint64_t was = row.head->lock.load_relaxed();
  // No transaction can lock a buried row any more.
  if (was == buried_row) return ended(row.head->stamp.load_relaxed());
  // acquire ← the release of the last transaction that unlocked it: its stamp, shape and key.
  if (!is_unlocked(was) || !row.head->lock.cas_strong_acquire(was, being_cleaned)) {
    // If there is no row, no snapshot needs the entry; a later row has a claim of its own.
    return was == free_slot && remove();
  }
  const bool exists = (row.head->shape.load_relaxed() & row_exists) != 0;
  bool over = true;
  if (!exists || index.key_at(row) != n.key()) over = ended(row.head->stamp.load_relaxed());
  row.head->lock.store_release(was);  // → the acquires of threads that lock it next
  return over;
}

/// Removes a deleted row's key from the primary index, and gives the slot back. False: a
/// transaction has locked the row, or there was no memory.
bool upkeep::remove_row(note& n) noexcept {
  table& t = n.of();
  const row_place row = t.at(n.slot());
  row_head& head = *row.head;
  if (n.buried) {  // no transaction can lock it
    if (!t.primary_->unbury(t.key_at(row), n.slot(), n.until)) return false;
    give_back(t, n);
    return true;
  }
  std::uint64_t was = head.lock.load_relaxed();
  // acquire ← the release of the last transaction that unlocked it: its stamp, shape and key.
  if (!is_unlocked(was) || !head.lock.cas_strong_acquire(was, being_cleaned)) {
    return is_later_ones(was);
  }
  const bool still_gone =
      head.stamp.load_relaxed() == n.until && (head.shape.load_relaxed() & row_exists) == 0;
  if (still_gone && t.primary_->remove(t.key_at(row), n.slot())) {
    give_back(t, n);
    return true;
  }
  head.lock.store_release(was);  // → the acquires of threads that lock it next
  return !still_gone;
}

/// Gives the slot back. The row is in no index any more.
void upkeep::give_back(table& t, const note& n) noexcept {
  row_head& head = *t.at(n.slot()).head;
  t.engine_.old->row_gone(head.older, n.until);
  t.give_ended(n.slot(), head);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
