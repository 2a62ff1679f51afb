// SPDX-License-Identifier: Apache-2.0
// locking.cpp: a transaction's locks on rows: taken by the first change, held to the end.
#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include <spolia/base/backoff.hpp>

#include "db/engine.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

/// In front of a lock's release: → the acquires of who locks the row next.
void unlock(row_head& r) noexcept { r.lock.store_release(unlocked); }

}  // namespace

/// Locks the row that the key's entry has led to, if it was not committed after this snapshot. The
/// write's number; or slot_is_gone: the key has this slot no more, and is to be looked up again.
result<std::uint32_t> transaction::lock_row(table& t, std::uint64_t slot, const row_place& place,
                                            const key_words& key) {
  auto& writes = session_->writes;
  if (const pending_write* const w = own(*place.head)) {
    return static_cast<std::uint32_t>(w - writes.data());
  }
  std::uint64_t* const image = session_->changes.take(t.schema_.words());
  const auto number = static_cast<std::uint32_t>(writes.size());
  const std::uint64_t snapshot = timestamp();
  writes.emplace_back(t, image, session_->level);
  const bool locked = wait_for_lock(*place.head, number);
  // The first committer wins.
  if (!locked || (place.head->stamp.load_relaxed() > timestamp() && !begins_late(t, *place.head))) {
    if (locked) unlock(*place.head);
    writes.pop_back();
    if (t.primary_->find(key) != slot) return slot_is_gone;
    return fail(outcome::conflict);
  }
  const std::uint64_t shape = place.head->shape.load_relaxed();
  // The entry was there after our snapshot: a row of another key would be committed later than it.
  // Without a row another key may have the slot all the same: that of an insertion which was taken
  // back, and for which there was no memory to give the slot back.
  const bool known = snapshot == timestamp() && (shape & row_exists) != 0;
  if (!known && !t.key_is(slot, key)) {
    unlock(*place.head);
    writes.pop_back();
    return slot_is_gone;
  }
  pending_write& made = writes.back();  // field by field: a whole one would be copied
  made.indexes = &t.indexes();
  made.slot = slot;
  made.place = place;
  made.shape = (shape & row_exists) != 0 ? shape : 0;
  return number;
}

/// Takes the row's lock for a write of that number, as far as the transaction's options go.
bool transaction::wait_for_lock(row_head& row, std::uint32_t number) {
  const auto age_of = [this](std::uint32_t record) {
    // acquire ← the release in the constructor.
    return engine_.sessions.find(record)->age.load_acquire();
  };
  backoff waiting;
  std::chrono::steady_clock::time_point start{};
  const auto pause = [&] {
    const auto now = std::chrono::steady_clock::now();
    if (start == std::chrono::steady_clock::time_point{}) start = now;
    // What it has slept counts where the clock stands. In its own unit: the longest of all is too
    // long in a shorter one.
    const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(
        std::max<std::chrono::nanoseconds>(now - start, waiting.slept()));
    if (waited >= options_.longest_wait) return false;
    waiting.pause();
    return true;
  };
  return take_lock(row.lock, session_->lock_word(number), options_.age, age_of, pause);
}

/// The row that we have locked was committed after our snapshot. If we have seen nothing of that
/// yet, we may as well begin now. Throws std::bad_alloc; the row is unlocked then.
bool transaction::begins_late(const table& t, row_head& row) {
  if (options_.age == never_waits || session_->looked || session_->writes.size() > 1) return false;
  try {
    census::ticket late = engine_.board.living.announce(engine_.board.clock, options_.label);
    // The old one keeps the row until it is unlocked.
    if (t.when_.ended(late.timestamp())) return false;
    ticket_ = std::move(late);
    note_seen();
  } catch (...) {
    unlock(row);
    session_->writes.pop_back();
    throw;
  }
  return true;
}

result<std::uint32_t> transaction::lock_key(table& t, values key) {
  if (const status there = may_change(t); !there) return there;
  const key_words wanted = t.schema_.whole_key(key);
  for (;;) {
    const std::uint64_t slot = t.primary_->find(wanted);
    if (slot == no_slot) {
      note_key(t, wanted);
      return outcome::not_found;
    }
    const row_place place = t.at(slot);
    const bool held = own(*place.head) != nullptr;
    const result<std::uint32_t> number = lock_row(t, slot, place, wanted);
    if (!number) return number;
    if (*number == slot_is_gone) continue;
    const pending_write& w = session_->writes[*number];
    if ((w.shape & row_exists) != 0) return number;
    if (held) return outcome::not_found;
    note_key(t, wanted);
    unlock(*w.place.head);
    session_->writes.pop_back();
    return outcome::not_found;
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
