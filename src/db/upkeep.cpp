// SPDX-License-Identifier: Apache-2.0
// upkeep.cpp: taking entries and rows out of indexes when no snapshot can see them.
#include <array>
#include <mutex>

#include "db/engine.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

upkeep::~upkeep() {
  while (first_ != nullptr) {
    note* const n = first_;
    first_ = n->next;
    free_note(n);
  }
}

void upkeep::add(note* first, note* last, std::uint64_t count) noexcept {
  const std::lock_guard hold(lock_);
  last->next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = first;
  last_ = last;
  waiting_.fetch_add_relaxed(count);
}

void upkeep::look() noexcept {
  // release → the acquire in next_ready(): what readers did whose withdrawal was seen.
  oldest_.store_release(board_.living.oldest(board_.clock));
}

/// The first one, if it is time for it. Apart, so that work(), which most transactions call when
/// nothing waits, saves no registers for it.
SPOLIA_NOINLINE note* upkeep::next_ready() noexcept {
  const std::uint64_t oldest = oldest_.load_acquire();
  const std::lock_guard hold(lock_);
  note* const n = first_;
  if (n == nullptr || n->until > oldest) return nullptr;
  first_ = n->next;
  if (first_ == nullptr) last_ = nullptr;
  waiting_.fetch_sub_relaxed(1);
  return n;
}

void upkeep::work(std::uint64_t most) noexcept {
  constexpr std::uint32_t look_every = 64;
  if (waiting() == 0) return;
  if (calls_.fetch_add_relaxed(1) % look_every == 0) look();
  for (std::uint64_t i = 0; i < most; ++i) {
    note* const n = next_ready();
    if (n == nullptr) return;
    if (done(*n)) {
      free_note(n);
    } else {
      add(n, n, 1);
    }
  }
}

void upkeep::collect() noexcept {
  look();
  work(waiting());
}

bool upkeep::done(note& n) noexcept {
  if (n.what == note::kind::dropped) return free_dropped(n);
  if (!n.of->enter()) return false;
  bool over = true;
  if (n.of->primary_ == nullptr || (n.index != nullptr && n.index->entries_ == nullptr)) {
    // It was dropped.
  } else if (n.index == nullptr) {
    over = remove_row(n);
  } else if (n.what == note::kind::built) {
    over = remove_built(n);
  } else {
    over = n.index->entries_->remove(n.key, n.slot, n.claim);
  }
  n.of->leave();
  return over;
}

/// No snapshot is left that could see it. False: somebody takes something out of it.
bool upkeep::free_dropped(note& n) noexcept {
  if (!n.of->enter_alone()) return false;
  if (n.index != nullptr) {
    n.index->entries_.reset();
  } else if (!n.of->engine_.old->looks_at_rows()) {
    n.of->free_rows();
  }
  n.of->leave_alone();
  return true;
}

/// Takes the entry out if the row has another key now, and no snapshot sees it with this one.
/// False: not yet, or there was no memory.
bool upkeep::remove_built(note& n) noexcept {
  const row_place row = n.of->at(n.slot);
  std::uint64_t was = unlocked;
  // acquire ← the release of the last transaction that unlocked it: its stamp, shape and key.
  if (!row.head->lock.cas_strong_acquire(was, being_cleaned)) {
    // Without a row there is nobody who needs it; a later one has a claim of its own.
    return was == free_slot && n.index->entries_->remove(n.key, n.slot, n.claim);
  }
  const std::uint64_t since = row.head->stamp.load_relaxed();
  const bool exists = (row.head->shape.load_relaxed() & row_exists) != 0;
  bool over = true;
  if (!exists || n.index->key_at(row) != n.key) {
    n.until = since;
    // acquire ← the release in look(), as in next_ready().
    over = since <= oldest_.load_acquire() && n.index->entries_->remove(n.key, n.slot, n.claim);
  }
  row.head->lock.store_release(unlocked);  // → the acquires of who locks it next
  return over;
}

/// Takes a deleted row's key out of the primary index, and gives the slot back. False: somebody has
/// locked the row, or there was no memory; try again later.
bool upkeep::remove_row(note& n) noexcept {
  row_head& head = *n.of->at(n.slot).head;
  std::uint64_t was = unlocked;
  // acquire ← the release of the last transaction that unlocked it: its stamp and shape.
  if (!head.lock.cas_strong_acquire(was, being_cleaned)) {
    // The note of a later deletion may be done before this one, and give the slot back.
    return was == free_slot;
  }
  const bool still_gone =
      head.stamp.load_relaxed() == n.until && (head.shape.load_relaxed() & row_exists) == 0;
  if (!still_gone) {
    head.lock.store_release(unlocked);  // → the acquires of who locks it next
    return true;
  }
  if (!n.of->primary_->remove(n.key, n.slot)) {
    head.lock.store_release(unlocked);  // → the acquires of who locks it next
    return false;
  }
  n.of->give_slot(n.slot);
  return true;
}

/// Those of a row that nobody uses any more.
void value_blocks::free_row(const schema& s, const row_place& place,
                            std::uint64_t columns) noexcept {
  each_column(s.apart() & columns, [&](std::uint32_t c) {
    std::array<std::uint64_t, apart_words> words;
    place.load(s.span_of(c), words.data());
    if (lies_apart(words.data())) free(value_block::of(words[1]));
  });
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
