// SPDX-License-Identifier: Apache-2.0
// transaction.cpp: changes before commit: locks, images, index entries.
#include <algorithm>
#include <chrono>
#include <new>
#include <stdexcept>
#include <string>

#include <spolia/base/patience.hpp>

#include "engine.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

/// In front of a lock's release: → the acquires of who locks the row next.
void unlock(row_place r) noexcept { r.head->lock.store_release(unlocked); }

}  // namespace

transaction::transaction(engine& of, const transaction_options& o)
    : reader(of, o.label), options_(o) {
  notes_reads_ = o.isolation == isolation::serializable;
  if (o.longest_wait.count() == 0) {
    options_.age = never_waits;
  } else if (o.age == never_waits) {
    options_.age = engine_.next_claim();
  }
  // release → the acquire in take_lock(), through the lock that is taken later. It is our own.
  session_->age.store_release(options_.age);
  be_limited(o.deadline, o.label);
}

transaction::~transaction() { rollback(); }

status transaction::fail(outcome why) noexcept {
  if (why == outcome::conflict) session_->conflicts.add(1);
  if (why == outcome::limit) session_->limits.add(1);
  rollback();
  state_ = why;
  return why;
}

/// Runs one change. Without memory for it, nothing of the transaction remains.
template <class F>
auto transaction::change(F&& f) -> decltype(f()) {
  if (!state_) return state_;
  const step here(*this);
  if (!here) return fail(outcome::ended_by_policy);
  try {
    return f();
  } catch (const std::bad_alloc&) {
    rollback();
    throw;
  }
}

status transaction::insert(table& t, values v) {
  return change([&] { return insert_row(t, v); });
}

/// Whether the table is there, for changes.
status transaction::may_change(const table& t) noexcept {
  if (!t.indexes().closed) return outcome::ok;
  return t.when_.ended(timestamp()) ? status(outcome::dropped) : fail(outcome::schema_changed);
}

status transaction::insert_row(table& t, values v) {
  if (const status s = may_change(t); !s) return s;
  std::uint64_t* const image = session_->changes.take(t.schema_.words());
  const std::uint64_t shape = t.schema_.encode_row(v, image);
  const key_words key = t.schema_.key_of(t.schema_.key(), image);
  std::uint64_t slot = no_slot;
  try {
    slot = claim_slot(t, key, image, shape);
  } catch (const row_budget::exceeded&) {
    slot = t.primary_->find(key);  // if it has a slot, that will do
    if (slot != no_slot) return take_over(t, slot, key, image, shape);
    session_->limits.add(1);
    note_key(t, key);
    return outcome::limit;
  }
  if (slot != no_slot) return take_over(t, slot, key, image, shape);
  const auto number = static_cast<std::uint32_t>(session_->writes.size() - 1);
  const status s = index_row(number, every_column);
  if (s == outcome::duplicate_key) {
    session_->writes[number].changed = false;
    session_->writes[number].shape = 0;
  }
  return s;
}

/// Gives the key a new slot, locked, as the last of the writes; no_slot. Or the slot that it has.
std::uint64_t transaction::claim_slot(table& t, const key_words& key, std::uint64_t* image,
                                      std::uint64_t shape) {
  session_->writes.emplace_back();
  std::uint64_t slot = no_slot;
  std::uint64_t has = no_slot;
  try {
    slot = t.take_slot(session_->lock_word(session_->writes.size() - 1));
    const row_place place = t.at(slot);
    // The key, for those who look whether an index has led them to the right row. Who has come by
    // an older entry sees it change; he sees no row here.
    for (const std::uint32_t n : t.schema_.key()) {
      const column_layout& c = t.schema_.columns()[n];
      const column_run one{c.first, 1, c.words};
      place.store({&one, 1}, image);
    }
    has = t.primary_->claim(key, slot);
  } catch (...) {
    if (slot != no_slot) t.give_slot(slot);
    session_->writes.pop_back();
    throw;
  }
  if (has != slot) {
    t.give_slot(slot);
    session_->writes.pop_back();
    return has;
  }
  session_->writes.back() = {.of = &t,
                             .indexes = &t.indexes(),
                             .slot = slot,
                             .place = t.at(slot),
                             .image = image,
                             .shape = shape,
                             .has = every_column,
                             .sets = every_column,
                             .fresh = true,
                             .changed = true,
                             .level = session_->level};
  return no_slot;
}

/// Inserts where the key has a slot already: that of a deleted row, or of one that is being made.
status transaction::take_over(table& t, std::uint64_t slot, const key_words& key,
                              std::uint64_t* image, std::uint64_t shape) {
  if (own(t.at(slot)) == nullptr) {
    std::uint64_t none = 0;
    if (read_row(engine_.board, *engine_.old, t.at(slot), timestamp(), {}, &none) != 0) {
      note_row(t, slot);
      return outcome::duplicate_key;
    }
  }
  const result<std::uint32_t> number = lock_row(t, slot);
  if (!number) return number.why();
  if ((session_->writes[*number].shape & row_exists) != 0) {
    note_row(t, slot);
    return outcome::duplicate_key;
  }
  // The slot may have gone to another key since it was looked up.
  if (!t.key_is(slot, key)) return fail(outcome::conflict);
  pending_write& w = touch(*number);
  const pending_write before = w;
  w.image = image;
  w.shape = shape;
  w.has = w.sets = every_column;
  w.changed = true;
  const status s = index_row(*number, every_column);
  if (s == outcome::duplicate_key) session_->writes[*number] = before;
  return s;
}

/// Locks a row, if it was not committed after this snapshot. The write's number.
result<std::uint32_t> transaction::lock_row(table& t, std::uint64_t slot) {
  const row_place place = t.at(slot);
  auto& writes = session_->writes;
  if (const pending_write* const w = own(place)) {
    return static_cast<std::uint32_t>(w - writes.data());
  }
  std::uint64_t* const image = session_->changes.take(t.schema_.words());
  const auto number = static_cast<std::uint32_t>(writes.size());
  writes.emplace_back();
  if (!wait_for_lock(place, number)) {
    writes.pop_back();
    return fail(outcome::conflict);
  }
  // The first committer wins.
  if (place.head->stamp.load_relaxed() > timestamp() && !begins_late(t, place)) {
    unlock(place);
    writes.pop_back();
    return fail(outcome::conflict);
  }
  const std::uint64_t shape = place.head->shape.load_relaxed();
  writes.back() = {.of = &t,
                   .indexes = &t.indexes(),
                   .slot = slot,
                   .place = place,
                   .image = image,
                   .shape = (shape & row_exists) != 0 ? shape : 0,
                   .level = session_->level};
  return number;
}

/// Takes the row's lock for a write of that number, as far as the transaction's options go.
bool transaction::wait_for_lock(row_place place, std::uint32_t number) {
  const auto age_of = [this](std::uint32_t record) {
    // acquire ← the release in the constructor.
    return engine_.sessions.find(record)->age.load_acquire();
  };
  patience waiting;
  std::chrono::steady_clock::time_point end{};
  const auto pause = [&] {
    const auto now = std::chrono::steady_clock::now();
    if (end == std::chrono::steady_clock::time_point{}) end = now + options_.longest_wait;
    if (now >= end) return false;
    waiting.pause();
    return true;
  };
  return take_lock(place.head->lock, session_->lock_word(number), options_.age, age_of, pause);
}

/// The row that we have locked was committed after our snapshot. If we have seen nothing of that
/// yet, we may as well begin now. Throws std::bad_alloc; the row is unlocked then.
bool transaction::begins_late(const table& t, row_place place) {
  if (options_.age == never_waits || session_->looked || session_->writes.size() > 1) return false;
  try {
    census::ticket late = engine_.board.living.announce(engine_.board.clock, options_.label);
    // The old one keeps the row until it is unlocked.
    if (t.when_.ended(late.timestamp())) return false;
    ticket_ = std::move(late);
  } catch (...) {
    unlock(place);
    session_->writes.pop_back();
    throw;
  }
  return true;
}

result<std::uint32_t> transaction::lock_key(table& t, values key) {
  const schema& s = t.schema_;
  if (const status there = may_change(t); !there) return there;
  if (key.size() != s.key().size()) {
    throw std::invalid_argument("spolia::db: table " + t.name() + " has a longer key");
  }
  const key_words wanted = s.encode_key(s.key(), key);
  const std::uint64_t slot = t.primary_->find(wanted);
  if (slot == no_slot) {
    note_key(t, wanted);
    return outcome::not_found;
  }
  const bool held = own(t.at(slot)) != nullptr;
  const std::uint64_t snapshot = timestamp();
  const result<std::uint32_t> number = lock_row(t, slot);
  if (!number) return number;
  const pending_write& w = session_->writes[*number];
  // The entry was there after our snapshot: a row of another key would be committed later than it.
  const bool same = snapshot == timestamp() || t.key_is(slot, wanted);
  if (same && (w.shape & row_exists) != 0) return number;
  if (!held) {
    note_row(t, slot);
    unlock(w.place);
    session_->writes.pop_back();
  }
  return outcome::not_found;
}

result<editor> transaction::edit(table& t, values key) {
  return change([&]() -> result<editor> {
    const result<std::uint32_t> number = lock_key(t, key);
    if (!number) return number.why();
    return editor(*this, *number);
  });
}

result<row> transaction::lock(table& t, values key) {
  return change([&]() -> result<row> {
    const result<std::uint32_t> number = lock_key(t, key);
    if (!number) return number.why();
    pending_write& w = session_->writes[*number];
    w.fetch(every_column);
    std::uint64_t* const image = room_for(t);
    std::copy_n(w.image, t.schema_.words(), image);
    return row(image, w.shape, every_column);
  });
}

status transaction::update(table& t, std::initializer_list<value> key,
                           std::initializer_list<assignment> changes) {
  for (const assignment& a : changes) static_cast<void>(t.schema_.column(a.column));
  result<editor> e = edit(t, key);
  if (!e) return e.why();
  for (const assignment& a : changes) {
    if (const status s = e->set_column(t.schema_.column(a.column).number, a.to); !s) return s;
  }
  return outcome::ok;
}

status transaction::erase(table& t, values key) {
  return change([&]() -> status {
    const result<std::uint32_t> number = lock_key(t, key);
    if (!number) return number.why();
    pending_write& w = touch(*number);
    w.shape = 0;
    w.changed = true;
    return outcome::ok;
  });
}

row editor::now(std::uint64_t columns) const noexcept {
  pending_write& w = of_->session_->writes[number_];
  w.fetch(columns);
  return {w.image, w.shape, w.has};
}

/// What set_column() does for a column of one word, where nothing can fail: no index, no savepoint,
/// nobody who ends it. False: that has to do it.
bool editor::set_word(std::uint32_t number, std::uint32_t first, std::uint64_t word) noexcept {
  if (!of_->state_ || of_->gated_) return false;
  pending_write& w = of_->session_->writes[number_];
  const std::uint64_t bit = std::uint64_t{1} << number;
  if ((w.shape & row_exists) == 0 || w.level != of_->session_->level) return false;
  if (((w.indexes->columns | w.of->keyed_) & bit) != 0) return false;
  w.image[first] = word;
  w.shape &= ~bit;
  w.has |= bit;
  w.sets |= bit;
  w.changed = true;
  return true;
}

status editor::set_column(std::uint32_t number, const value& v) {
  if (!of_->state_) return of_->state_;
  const pending_write& w = of_->session_->writes[number_];
  if ((w.shape & row_exists) == 0) return outcome::not_found;  // erased since, or taken back
  const column_layout& c = w.of->layout().columns()[number];
  if (c.role == column_role::key) {
    throw std::invalid_argument("spolia::db: column " + c.name + " is part of the primary key");
  }
  if (v.null() && c.role != column_role::nullable) {
    throw std::invalid_argument("spolia::db: column " + c.name + " cannot be null");
  }
  return of_->change([&]() -> status { return of_->assign(number_, c, v); });
}

status transaction::assign(std::uint32_t number, const column_layout& c, const value& v) {
  pending_write& w = touch(number);
  const std::uint64_t bit = std::uint64_t{1} << c.number;
  const bool indexed = (w.indexes->columns & bit) != 0;
  const pending_write before = w;
  std::uint64_t* old = nullptr;
  if (indexed) {
    w.fetch(bit);
    old = session_->changes.take(c.words);
    std::copy_n(w.image + c.first, c.words, old);
  }
  if (v.null()) {
    std::fill_n(w.image + c.first, c.words, 0);
    w.shape |= bit;
  } else {
    c.encode(v, w.image + c.first);
    w.shape &= ~bit;
  }
  w.has |= bit;
  w.sets |= bit;
  w.changed = true;
  if (!indexed) return outcome::ok;
  const status s = index_row(number, bit);
  if (s == outcome::duplicate_key) {
    std::copy_n(old, c.words, w.image + c.first);
    w.shape = before.shape;
    w.sets = before.sets;
    w.changed = before.changed;
  }
  return s;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
