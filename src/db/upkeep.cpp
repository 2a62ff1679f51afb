// SPDX-License-Identifier: Apache-2.0
// upkeep.cpp: taking entries and rows out of indexes when no snapshot can see them.
#include <mutex>

#include "engine.hpp"

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

/// The first one, if it is time for it.
note* upkeep::next_ready() noexcept {
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
  if (n.index != nullptr) return n.index->entries_->remove(n.key, n.slot, n.claim);
  return remove_row(n);
}

/// Takes a deleted row's key out of the primary index, and gives the slot back. False: somebody has
/// locked the row, or there was no memory; try again later.
bool upkeep::remove_row(note& n) noexcept {
  row_head& head = *n.of->at(n.slot).head;
  std::uint64_t was = unlocked;
  // acquire ← the release of the last transaction that unlocked it: its stamp and shape.
  if (!head.lock.cas_strong_acquire(was, being_cleaned)) return false;
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

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
