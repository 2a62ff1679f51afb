// SPDX-License-Identifier: Apache-2.0
// transaction.cpp: a transaction until it ends: what it locks, changes, adds to indexes, and
// undoes. How it ends is in commit/commit.cpp.
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <spolia/base/backoff.hpp>

#include "db/catalog/slot_chunks.hpp"
#include "db/catalog/too_long.hpp"
#include "db/engine.hpp"
#include "db/log/journal.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

/// Throws std::invalid_argument if the column can never have the value.
void may_be_set(const column_layout& c, const argument& v) {
  if (c.role == column_role::key) {
    throw std::invalid_argument("spolia::db: " + c.in_words() +
                                " is part of the primary key, which is not changed: erase the row, "
                                "and insert another one");
  }
  if (v.null() && c.role != column_role::nullable) {
    throw std::invalid_argument("spolia::db: " + c.in_words() +
                                " cannot be null: give it a value, or make it nullable");
  }
}

// release → the acquires of the transaction that locks the row next.
void unlock(row_head& r, std::uint64_t birth) noexcept { r.lock.store_release(birth); }

}  // namespace

transaction::transaction(engine& of, const transaction_options& o, std::string_view label,
                         std::uint64_t age)
    : reader(of, label), age_(age), longest_wait_(o.longest_wait) {
  is_transaction_ = true;
  notes_reads_ = o.isolation == isolation::serializable;
  if (longest_wait_.count() == 0) {
    age_ = never_waits;
  } else if (age_ == never_waits) {
    age_ = engine_.next_claim();
  }
  // release → the acquire in take_lock(), through the lock that is taken later. It is our own.
  session_->age.store_release(age_);
  be_limited(o.deadline);
  if (o.durable_reads || of.settings.durable_reads) [[unlikely]] {
    durable_reads_ = true;
    note_seen();
  }
}

/// To be called when its snapshot has begun.
void transaction::note_seen() noexcept {
  if (durable_reads_ && engine_.log != nullptr) seen_ = engine_.log->visible();
}

transaction::transaction(transaction&& from) noexcept
    : reader(from, true),
      age_(from.age_),
      longest_wait_(from.longest_wait_),
      state_(from.session_ != nullptr ? outcome::ended
                                      : std::exchange(from.state_, outcome::ended)),
      durable_reads_(from.durable_reads_),
      seen_(from.seen_),
      commit_time_(from.commit_time_) {}

transaction& transaction::operator=(transaction&& from) noexcept {
  if (this == &from || !may_move(*this, from)) return *this;
  std::destroy_at(this);
  return *std::construct_at(this, std::move(from));
}

transaction::~transaction() { roll_back(); }

/// Ends the transaction with this status, which all later calls return.
status transaction::fail(status why) noexcept {
  if (why == outcome::conflict) session_->conflicts.add(1);
  if (why == outcome::limit) session_->limits.add(1);
  if (why == outcome::storage_failed) engine_.storage_refusals.fetch_add_relaxed(1);
  roll_back(why);
  if (why == outcome::limit || why == outcome::storage_failed) engine_.show_refusal();
  return why;
}

namespace {

constexpr const char* was_changed =
    " was changed by another transaction after this one began: run this one again, as transact() "
    "does";
constexpr const char* was_deleted =
    " was deleted by another transaction after this one began: run this one again, as transact() "
    "does";
constexpr const char* is_another =
    " or its indexes were changed after this transaction began: run it again, as transact() does";

}  // namespace

SPOLIA_NOINLINE status transaction::fail_by_others() noexcept { return fail(session_->way.why()); }

/// Ends the transaction because another one has locked a row, or has changed it.
outcome transaction::lose_row(const table& t, const char* how) noexcept {
  return fail(session_->say(outcome::conflict, "a row of table ", t, how)).code();
}

/// Runs one change. If there is no memory for it, the transaction is rolled back. If f throws
/// row_budget::exceeded it has changed nothing, and is run once more, if there may be room then.
template <class F>
auto transaction::change(F&& f) -> decltype(f()) {
  if (!goes_on()) [[unlikely]]
    return state_;
  no_query_runs();
  const alone now(*this);
  const step here(*this);
  if (!here) [[unlikely]]
    return fail_by_others();
  try {
    // f is called at one place, so that it is inlined.
    for (bool again = false; !again || look_for_memory(); again = true) {
      try {
        return f();
      } catch (const row_budget::exceeded&) {  // NOLINT: f runs once more, or the loop ends
        if (again) break;
      }
    }
  } catch (const too_long& e) {  // before anything was changed
    return e.why();
  } catch (const std::bad_alloc&) {
    roll_back();
    throw;
  }
  session_->limits.add(1);
  engine_.show_refusal();
  return engine_.budget_is_used_up();
}

/// The status of a change of the table, with its reason.
inline status transaction::told(const table& t, outcome s) noexcept {
  if (s == outcome::ok) [[likely]]
    return s;
  return told_why(t, s);
}

SPOLIA_NOINLINE status transaction::told_why(const table& t, outcome s) noexcept {
  if (!goes_on()) return state_;  // the change has ended the transaction
  if (s != outcome::duplicate_key) return said_of(t, s);
  // Before the name: if that is newer, the status only shows it too early.
  const std::uint32_t renames = t.renames_.load_relaxed();
  if (const secondary* const i = std::exchange(session_->taken, nullptr)) {
    return i->parts_->taken.get(s, [&] { return t.in_words(i->parts_->name); }, renames);
  }
  return t.parts_->taken.get(s, [&] { return "primary key of table " + t.name(); }, renames);
}

/// Frees out-of-line values that were made during its life, unless they are kept, or the
/// transaction has ended and has freed them.
class transaction::new_values {
 public:
  explicit new_values(transaction& of) noexcept : of_(of), before_(of.session_->made.first) {}
  new_values(const new_values&) = delete;
  new_values& operator=(const new_values&) = delete;
  ~new_values() {
    if (!kept_ && of_.session_ != nullptr) of_.drop_apart(before_);
  }
  void keep() noexcept { kept_ = true; }

 private:
  transaction& of_;
  const value_block* const before_;
  bool kept_ = false;
};

/// A row image that is given back unless it is kept, or the transaction has ended and has freed all
/// its images.
class transaction::new_image {
 public:
  /// Throws std::bad_alloc.
  new_image(transaction& of, const table& t)
      : of_(of), words_(t.form().words()), image_(of.session_->changes.take(words_)) {}
  new_image(const new_image&) = delete;
  new_image& operator=(const new_image&) = delete;
  ~new_image() {
    if (image_ != nullptr && of_.session_ != nullptr) of_.session_->changes.give(image_, words_);
  }
  [[nodiscard]] std::uint64_t* get() const noexcept { return image_; }
  void keep() noexcept { image_ = nullptr; }
  /// Keeps its own image, which replaces the other, and gives that back instead.
  void replace(std::uint64_t* other) noexcept { image_ = other; }

 private:
  transaction& of_;
  const std::size_t words_;
  std::uint64_t* image_;
};

/// Values for all columns, encoded as in a row of the table. Throws std::invalid_argument and
/// too_long if the table cannot have them, and std::bad_alloc.
class transaction::new_row {
 public:
  new_row(transaction& of, const table& t, values v)
      : image(of, t), shape(t.form().encode_row(v, image.get())) {}

  new_image image;
  const std::uint64_t shape;
};

inline status transaction::insert_told(table& t, new_row& row) {
  new_values made(*this);
  const outcome s = insert_row(t, row);
  if (s == outcome::ok) made.keep();
  return told(t, s);
}

status transaction::insert(table& t, values v) {
  return change([&]() -> status {
    if (const outcome s = may_change(t); s != outcome::ok) return told_why(t, s);
    new_row made(*this, t, v);
    return insert_told(t, made);
  });
}

/// Whether the table is there, for changes.
inline outcome transaction::may_change(const table& t) {
  if (!t.is_of(engine_)) [[unlikely]]
    t.refuse_stranger();
  const index_set& now = t.indexes();
  if (!now.closed && timestamp() >= now.birth && t.when_.begun(timestamp())) [[likely]]
    return outcome::ok;
  if (!now.closed) return enter(t);
  if (t.when_.ended(timestamp())) return outcome::dropped;
  return fail(session_->say(outcome::schema_changed, "table ", t, is_another)).code();
}

/// The indexes for changes of a table that may be changed. None, if one is younger than this
/// transaction, and not kept for it: then it does not commit.
inline const index_set& transaction::indexes_of(const table& t) const noexcept {
  const index_set& now = t.indexes();
  if (timestamp() >= now.birth) [[likely]]
    return now;
  return is_elder_in(t) ? now : engine_.no_changes;
}

/// Precondition: the table may be changed.
outcome transaction::insert_row(table& t, new_row& row) {
  new_image& made = row.image;
  std::uint64_t* const image = made.get();
  const std::uint64_t shape = row.shape;
  const schema& form = t.form();
  each_column(form.apart(), [&](std::uint32_t c) { make_apart(image + form.span_of(c).first); });
  const key_words key = form.key_of(form.key(), image);
  if (!session_->passed.empty()) session_->passed.show_at(&t, {key});
  if (sees_buried(t, key)) return outcome::duplicate_key;
  for (;;) {
    std::uint64_t slot = no_slot;
    try {
      slot = claim_slot(t, key, image, shape);
    } catch (const row_budget::exceeded&) {
      slot = t.primary_->find(key);  // if the key has a slot, no room is needed
      if (slot == no_slot) {
        note_key(t, key);
        throw;
      }
    }
    if (slot == no_slot) break;
    if (const auto s = take_over(t, slot, key, made, shape)) return *s;
  }
  made.keep();
  const auto number = static_cast<std::uint32_t>(session_->writes.size() - 1);
  const auto take_back = [&] {
    session_->writes[number].changed = false;
    session_->writes[number].shape = 0;
    give_up_last_rows();
  };
  try {
    outcome s = outcome::duplicate_key;
    // Again: a row that was there at the first check may have been buried before the key was free.
    if (!sees_buried(t, key)) s = index_row(number, every_column);
    if (s == outcome::duplicate_key) take_back();
    return s;
  } catch (const row_budget::exceeded&) {
    take_back();
    throw;
  }
}

/// Whether this snapshot sees a buried row with the key. If so, notes that it was read.
bool transaction::sees_buried(const table& t, const key_words& key) const {
  const std::uint64_t slot = t.primary_->find_buried(key, timestamp());
  if (slot == no_slot) return false;
  std::uint64_t none = 0;
  if (read_row(engine_.board, *engine_.old, t.at(slot), timestamp(), {}, &none) == 0) return false;
  note_row(t, slot);
  return true;
}

/// Gives the key a new slot, locked, as the last write: no_slot. Else the slot that the key has.
std::uint64_t transaction::claim_slot(table& t, const key_words& key, std::uint64_t* image,
                                      std::uint64_t shape) {
  session_->writes.emplace_back(t, image, session_->level);
  std::uint64_t slot = no_slot;
  std::uint64_t has = no_slot;
  row_place place;
  try {
    slot = t.take_slot(session_->lock_word(session_->writes.size() - 1));
    place = t.at(slot);
    // The key, for readers that check whether an index has led them to the right row. A reader that
    // has followed an older entry may see the key change, but it sees no row here.
    const schema& form = t.form();
    for (const std::uint32_t n : form.key()) {
      const column_span c = form.span_of(n);
      place.store(c, image + c.first);
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
  pending_write& made = session_->writes.back();  // field by field: a whole one would be copied
  made.indexes = &indexes_of(t);
  made.slot = slot;
  made.place = place;
  made.shape = shape;
  made.has = made.sets = every_column;
  made.fresh = made.changed = true;
  return no_slot;
}

/// Inserts in the slot that the key has already: that of a deleted row, or of one being inserted.
/// Nothing is returned if the key does not have the slot any more.
std::optional<outcome> transaction::take_over(table& t, std::uint64_t slot, const key_words& key,
                                              new_image& image, std::uint64_t shape) {
  const row_place place = t.at(slot);
  if (own(*place.head) == nullptr) {
    std::uint64_t none = 0;
    if (read_row(engine_.board, *engine_.old, place, timestamp(), {}, &none) != 0) {
      note_row(t, slot);
      return outcome::duplicate_key;
    }
    if (sees_buried(t, key)) return outcome::duplicate_key;
  }
  const write_number number = lock_row(t, slot, place, key);
  if (!number) return number.why();
  if (*number == slot_is_gone) return std::nullopt;
  if ((session_->writes[*number].shape & row_exists) != 0) {
    note_row(t, slot);
    return outcome::duplicate_key;
  }
  pending_write& w = touch(*number);
  if (!w.fresh && !w.revives && (place.head->shape.load_relaxed() & row_exists) == 0) {
    t.parts_->chunks->revive(slot);
    w.revives = true;
  }
  const pending_write before = w;
  w.image = image.get();
  w.shape = shape;
  w.has = w.sets = every_column;
  w.changed = true;
  try {
    const outcome s = index_row(*number, every_column);
    if (s == outcome::duplicate_key) {
      session_->writes[*number] = before;
    } else {
      image.replace(before.image);
    }
    return s;
  } catch (const row_budget::exceeded&) {
    session_->writes[*number] = before;
    throw;
  }
}

result<editor> transaction::edit(table& t, values key) {
  return change([&]() -> result<editor> {
    const write_number number = lock_key(t, key);
    if (!number) return told_why(t, number.why());
    session_->writes[*number].pinned = true;
    return editor(*session_, *number);
  });
}

result<row> transaction::lock(table& t, values key) {
  return change([&]() -> result<row> {
    const write_number number = lock_key(t, key);
    if (!number) return told_why(t, number.why());
    pending_write& w = session_->writes[*number];
    w.fetch(every_column);
    row_image& image = session_->results.take(t.form().words());
    std::copy_n(w.image, t.form().words(), image.words());
    return row(t.form(), image.words(), w.shape, every_column, image_share(image));
  });
}

status transaction::update(table& t, values key, std::span<const assignment> changes) {
  std::array<column_value, most_columns> to;
  return change([&]() -> status {
    const outcome there = may_change(t);  // else nothing is known of its columns
    if (there != outcome::ok) return told_why(t, there);
    const auto all = in_columns(t, changes, to.data());
    const write_number number = lock_key(t, key);
    if (!number || all.empty()) return told(t, number.why());
    return told(t, assign(*number, all));
  });
}

/// `to` has room for as many columns as a table may have.
std::span<const transaction::column_value> transaction::in_columns(
    const table& t, std::span<const assignment> changes, column_value* to) {
  if (changes.size() > most_columns) {
    throw std::invalid_argument("spolia::db: an update of table " + t.name() + " sets " +
                                std::to_string(changes.size()) +
                                " columns: at most 62 are allowed");
  }
  std::size_t count = 0;
  std::uint64_t known = 0;
  for (const assignment& a : changes) {
    const column_layout& c = t.form().column(a.column);
    may_be_set(c, a.to);
    const std::uint64_t bit = std::uint64_t{1} << c.number;
    if ((known & bit) != 0) {
      throw std::invalid_argument("spolia::db: " + c.in_words() +
                                  " is given twice: it can have one value");
    }
    known |= bit;
    to[count++] = {&c, &a.to};
  }
  return {to, count};
}

/// The values are encoded once, before it is known whether the row is there: so a value that may
/// not be stored is refused in any case.
put_status transaction::put(table& t, values v) {
  return change([&]() -> put_status {
    if (const outcome s = may_change(t); s != outcome::ok) return told_why(t, s);
    const schema& form = t.form();
    new_row made(*this, t, v);
    const std::uint64_t* const image = made.image.get();
    const write_number number = lock_key(t, form.key_of(form.key(), image));
    if (number.why() == outcome::not_found) return {insert_told(t, made), true};
    if (!number) return told_why(t, number.why());
    std::array<column_value, most_columns> to;
    std::size_t count = 0;
    for (const column_layout& c : form.columns()) {
      if ((form.keyed() >> c.number & 1U) == 0) to[count++] = {&c, &v[c.number]};
    }
    if (count == 0) return outcome::ok;
    return told(t, assign(*number, {to.data(), count}, image));
  });
}

status transaction::erase(table& t, values key) {
  return change([&]() -> status {
    const write_number number = lock_key(t, key);
    if (!number) return told_why(t, number.why());
    pending_write& w = touch(*number);
    w.shape = 0;
    if (w.changed && (w.sets & w.indexes->columns) != 0) take_back_former(w, w.image, w.sets);
    w.changed = true;
    if (w.fresh) give_up_last_rows();
    return outcome::ok;
  });
}

/// For an editor.
status transaction::set(std::uint32_t number, const column_value& to) {
  may_be_set(*to.column, *to.to);
  return change([&]() -> status {
    const table& t = *session_->writes[number].of;
    return told(t, assign(number, {&to, 1}));
  });
}

/// The same for several columns, as one change.
status transaction::set(std::uint32_t number, std::span<const assignment> changes) {
  const table& t = *session_->writes[number].of;
  std::array<column_value, most_columns> to;
  const auto all = in_columns(t, changes, to.data());
  if (all.empty()) return outcome::ok;
  return change([&]() -> status { return told(t, assign(number, all)); });
}

/// Writes the values' words to `to`, one after the other, or takes them from a row's image that has
/// them, if that is not null. Makes blocks for out-of-line values. Throws std::invalid_argument if
/// a value does not fit; then there are no new blocks.
void transaction::encode_changes(std::span<const column_value> changes, const std::uint64_t* image,
                                 std::uint64_t* to) {
  std::uint64_t* at = to;
  for (const auto& [c, v] : changes) {
    if (image != nullptr) {
      std::copy_n(image + c->first, c->words, at);
    } else {
      std::fill_n(at, c->words, 0);
      if (!v->null()) c->encode(*v, at);
    }
    at += c->words;
  }
  at = to;
  for (const auto& [c, v] : changes) {
    if (lies_apart(c->type.base)) make_apart(at);
    at += c->words;
  }
}

/// Frees the images that were taken during its life.
class transaction::short_images {
 public:
  explicit short_images(const transaction& of) noexcept
      : of_(of), before_(of.session_->images.here()) {}
  short_images(const short_images&) = delete;
  short_images& operator=(const short_images&) = delete;
  ~short_images() {
    // If null, the transaction has ended, and has freed them.
    if (of_.session_ != nullptr) of_.session_->images.rewind(before_);
  }

 private:
  const transaction& of_;
  const arena::mark before_;
};

/// Makes all of the changes, or none: unique indexes are checked for the row after the last change.
/// The image has the values, unless it is null.
outcome transaction::assign(std::uint32_t number, std::span<const column_value> changes,
                            const std::uint64_t* image) {
  std::uint64_t bits = 0;
  std::uint64_t nulls = 0;
  std::size_t words = 0;
  for (const auto& [c, v] : changes) {
    const std::uint64_t bit = std::uint64_t{1} << c->number;
    bits |= bit;
    // If a column comes twice, the last value counts.
    nulls = v->null() ? nulls | bit : nulls & ~bit;
    words += c->words;
  }
  const short_images here(*this);
  std::uint64_t* const fresh = session_->images.take(words);
  new_values made(*this);
  encode_changes(changes, image, fresh);
  pending_write& w = touch(number);
  const bool indexed = (w.indexes->columns & bits) != 0;
  std::uint64_t* const old = indexed ? session_->images.take(w.words()) : nullptr;
  if (indexed) w.fetch(bits);
  const pending_write before = w;
  const auto each = [&](auto&& f) {
    for (const auto& [c, v] : changes) f(*c);
  };
  if (indexed) {
    each([&](const column_layout& c) { std::copy_n(w.image + c.first, c.words, old + c.first); });
  }
  const std::uint64_t* from = fresh;
  each([&](const column_layout& c) {
    std::copy_n(from, c.words, w.image + c.first);
    from += c.words;
  });
  w.shape = (w.shape & ~bits) | nulls;
  w.has |= bits;
  w.sets |= bits;
  w.changed = true;
  const auto take_back = [&] {
    each([&](const column_layout& c) { std::copy_n(old + c.first, c.words, w.image + c.first); });
    w.shape = before.shape;
    w.sets = before.sets;
    w.changed = before.changed;
  };
  try {
    const outcome s = indexed ? index_row(number, bits) : outcome::ok;
    if (s == outcome::ok) made.keep();
    // Another column of the same index may have been set before.
    if (s == outcome::ok && indexed && (before.sets & w.indexes->columns) != 0) {
      take_back_former(w, old, bits);
    }
    if (s == outcome::duplicate_key) take_back();
    return s;
  } catch (const row_budget::exceeded&) {
    take_back();
    throw;
  }
}

// --- locks on rows: taken by the first change, held to the end -----------------------------------

/// Locks the row to which the key's entry has led, if it was not committed after this snapshot. The
/// write's number; or slot_is_gone: the key has another slot now, and is to be looked up again.
transaction::write_number transaction::lock_row(table& t, std::uint64_t slot,
                                                const row_place& place, const key_words& key) {
  auto& writes = session_->writes;
  if (const pending_write* const w = own(*place.head)) {
    return static_cast<std::uint32_t>(w - writes.data());
  }
  new_image image(*this, t);
  const auto number = static_cast<std::uint32_t>(writes.size());
  const std::uint64_t snapshot = timestamp();
  writes.emplace_back(t, image.get(), session_->level);
  const auto has_slot = [&] {
    try {
      return t.primary_->find(key) == slot;
    } catch (const std::bad_alloc&) {
      return true;  // not known: as if it had the slot
    }
  };
  const bool locked = wait_for_lock(*place.head, number, has_slot);
  // The first committer wins.
  if (!locked || (place.head->stamp.load_relaxed() > timestamp() && !begins_late(t, *place.head))) {
    if (locked) unlock(*place.head, writes.back().birth);
    writes.pop_back();
    if (!has_slot()) return slot_is_gone;
    return locked ? lose_row(t, was_changed) : lose_lock(t, *place.head);
  }
  const std::uint64_t shape = place.head->shape.load_relaxed();
  // The entry was there after our snapshot, so a row of another key would be committed later than
  // that. If there is no row, another key may have the slot: the key of an insertion that was
  // undone, when there was no memory to give the slot back.
  const bool known = snapshot == timestamp() && (shape & row_exists) != 0;
  if (!known && !t.key_is(slot, key)) {
    unlock(*place.head, writes.back().birth);
    writes.pop_back();
    return slot_is_gone;
  }
  pending_write& made = writes.back();  // field by field: a whole one would be copied
  made.indexes = &indexes_of(t);
  made.slot = slot;
  made.place = place;
  made.shape = (shape & row_exists) != 0 ? shape : 0;
  image.keep();
  return number;
}

/// Takes the row's lock for a write of that number; waits as long as the transaction's options
/// allow. Gives up if the key's insertion was undone, so that the slot and its lock are another
/// key's.
template <class HasSlot>
bool transaction::wait_for_lock(row_head& row, std::uint32_t number, HasSlot&& has_slot) {
  const auto age_of = [this](std::uint32_t record) {
    // acquire ← the release in the constructor.
    return engine_.sessions.find(record)->age.load_acquire();
  };
  backoff waiting;
  std::chrono::steady_clock::time_point start{};
  const auto pause = [&] {
    const auto now = std::chrono::steady_clock::now();
    if (start == std::chrono::steady_clock::time_point{}) {
      if (is_locked_by_caller(row)) return false;
      start = now;
    }
    // Sleeps count, too, in case the clock stands still. In microseconds, as longest_wait_: its
    // highest value has no number in a shorter unit.
    const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(
        std::max<std::chrono::nanoseconds>(now - start, waiting.slept()));
    if (waited >= longest_wait_ || !has_slot()) return false;
    waiting.pause();
    return true;
  };
  return take_lock(row.lock, session_->lock_word(number), age_, age_of, pause,
                   session_->writes[number].birth);
}

/// Begins a new snapshot, if the row that we have locked was committed after ours, and we have read
/// nothing at ours yet. Throws std::bad_alloc; the row is unlocked then.
bool transaction::begins_late(const table& t, row_head& row) {
  if (age_ == never_waits || session_->looked || session_->writes.size() > 1) return false;
  // Under transact() only the thread that has announced the snapshot may replace it.
  if (session_->by_transact.load_relaxed() && !session_->is_begun_here()) return false;
  try {
    census::ticket late =
        engine_.board.living.announce(engine_.board.clock, session_->label.mark());
    // The old announcement keeps the row until it is unlocked.
    if (t.when_.ended(late.timestamp())) return false;
    ticket_ = std::move(late);
    session_->snapshot.store_release(ticket_.id());  // → the acquire in is_begun_here()
    session_->label.announced(timestamp());
    if (gated_) engine_.gates.renew(session_->way);
    note_seen();
  } catch (...) {
    unlock(row, session_->writes.back().birth);
    session_->writes.pop_back();
    throw;
  }
  return true;
}

transaction::write_number transaction::lock_key(table& t, values key) {
  if (const outcome there = may_change(t); there != outcome::ok) return there;
  return lock_key(t, t.form().whole_key(key));
}

/// Precondition: the table may be changed.
inline transaction::write_number transaction::lock_key(table& t, const key_words& wanted) {
  for (;;) {
    const std::uint64_t slot = t.primary_->find(wanted);
    if (slot == no_slot) {
      if (sees_buried(t, wanted)) return lose_row(t, was_deleted);
      note_key(t, wanted);
      return outcome::not_found;
    }
    const row_place place = t.at(slot);
    const bool held = own(*place.head) != nullptr;
    const write_number number = lock_row(t, slot, place, wanted);
    if (!number) return number;
    if (*number == slot_is_gone) continue;
    const pending_write& w = session_->writes[*number];
    if ((w.shape & row_exists) != 0) return number;
    // A slot of our own insertion that was refused never had a row, and so hides no buried one.
    const bool own_end = held && !w.fresh;
    if (!held) {
      unlock(*w.place.head, w.birth);
      session_->changes.give(w.image, w.words());
      session_->writes.pop_back();
    }
    if (!own_end && sees_buried(t, wanted)) return lose_row(t, was_deleted);
    if (!held) note_key(t, wanted);
    return outcome::not_found;
  }
}

// --- out-of-line values --------------------------------------------------------------------------
//
// A value gets its block when it is set, and the transaction keeps all its blocks to the end:
// values that it has shown stay, and a rollback to a savepoint needs them. At a commit the blocks
// to which the rows refer now stay; those to which they referred before go to value_blocks.

/// Puts the value that the words refer to into a block. Throws std::bad_alloc and
/// row_budget::exceeded; the words are as before then.
void transaction::make_apart(std::uint64_t* words) {
  if (!lies_apart(words)) return;
  const std::uint64_t beside = engine_.rows.limited() ? engine_.beside_rows() : 0;
  value_block* const b = engine_.values.make(apart_in(words), beside);
  words[1] = b->address();
  session_->made.add(b);
}

/// Notes the row's values of these columns, which the commit replaces.
void transaction::replace_apart(const pending_write& w, std::uint64_t columns) noexcept {
  each_column(columns & w.of->form().apart(), [&](std::uint32_t c) {
    std::array<std::uint64_t, apart_words> words;
    w.place.load(w.of->form().span_of(c), words.data());
    if (lies_apart(words.data())) session_->replaced.add(value_block::of(words[1]));
  });
}

/// Resolves the transaction's values at its end: `commit` is its time, or 0 for a rollback. Its
/// rows are still locked. The values that it has replaced are retired later, when they are not.
void transaction::settle_apart(std::uint64_t commit) noexcept {
  session& s = *session_;
  for (const pending_write& w : s.writes) {
    if (commit == 0 || !w.changed || (w.shape & row_exists) == 0) continue;
    each_column(w.sets & w.of->form().apart(), [&](std::uint32_t c) {
      const std::uint64_t* const words = w.image + w.of->form().span_of(c).first;
      if (lies_apart(words)) value_block::of(words[1])->since.write(commit);
    });
  }
  while (s.made.first != nullptr) {
    value_block* const b = s.made.take();
    if (b->since.read() == 0) engine_.values.free(b);
  }
}

/// Frees the blocks that were made after this one.
void transaction::drop_apart(const value_block* down_to) noexcept {
  while (session_->made.first != down_to) engine_.values.free(session_->made.take());
}

// --- entries of secondary indexes, before the commit ---------------------------------------------

note& session::add_once(note* n) noexcept {
  constexpr std::uint64_t many = 64;
  if (known.empty() && note_count >= many) {
    for (note* each = notes; each != nullptr; each = each->next) {
      if (each->what != note::kind::taken_back) known.put(*each);
    }
  }
  if (!known.empty()) {
    if (note* const there = known.find(n->about()); there != nullptr) {
      note::free(n);
      return *there;
    }
    known.put(*n);
  }
  n->until = notes_made++;
  return add(n);
}

/// Adds entries to the secondary indexes over these columns. Throws std::bad_alloc and
/// row_budget::exceeded: then, as after duplicate_key, no entry is left that leads nowhere.
outcome transaction::index_row(std::uint32_t number, std::uint64_t changed) {
  const std::uint64_t before = session_->notes_made;
  try {
    const outcome s = add_entries(number, changed);
    if (s == outcome::duplicate_key) take_back_since(before);
    return s;
  } catch (const row_budget::exceeded&) {
    take_back_since(before);
    throw;
  }
}

outcome transaction::add_entries(std::uint32_t number, std::uint64_t changed) {
  pending_write& w = session_->writes[number];
  for (secondary* const i : w.indexes->all) {
    const secondary::parts& its = *i->parts_;
    if ((its.mask & changed) == 0) continue;
    w.fetch(its.mask);
    const key_words key = w.form().key_of(its.columns, w.image);
    if (!session_->passed.empty()) session_->passed.show_at(i, {key, w.slot});
    // So that the bytes of these entries count when the next ones need room.
    if (session_->count_notes() && engine_.rows.limited()) w.of->count_indexes();
    const std::uint64_t before = session_->notes_made;
    note& n = session_->add_once(i->note_of(w.slot, key));
    n.claim() = session_->next_claim();
    // The builder of an index may rely on an entry that it finds, from its snapshot on.
    const bool is_built = i->when_.begun(timestamp());
    const std::uint64_t birth = is_built ? timestamp() + 1 : 0;
    const index_addition done = i->entries_->add(key, w.slot, {n.claim(), birth});
    n.since = done.birth;
    const bool noted = session_->notes_made != before;
    if (noted && (done.made || !session_->goes_to_former(n))) {
      n.made = done.made && is_built;
      w.pinned = w.pinned || !n.made;
    }
    if (!its.unique) continue;
    if (const outcome s = unique_in(w, *i, key); s != outcome::ok) return s;
  }
  return outcome::ok;
}

/// Whether no other row has the key, at this snapshot or since, and no other transaction is giving
/// it to one. Our own entry is there, and open (engine::is_open) until this transaction is over.
///
/// Why at least one of two transactions that give a key to two rows is refused: if both entries are
/// new, one transaction sees the other's. If one of the entries was there, of a former key of its
/// row, we read its claim under the entry's lock. If the other transaction adds the entry again
/// after that, it takes the lock later than we did, and so sees our entry when it checks. If it had
/// the lock before, its claim is there: it is open, or it is over and the row shows what it has
/// changed.
outcome transaction::unique_in(const pending_write& w, const secondary& i, const key_words& key) {
  outcome found = outcome::ok;
  const session* caller = nullptr;
  const table& t = *w.of;
  const auto look = [&](std::uint64_t slot, const std::uint64_t*) {
    if (slot == w.slot) return true;
    const selection key_only(t.form(), i.parts_->mask);
    const short_image image(*this, t);
    if (read(t, slot, key_only.in(t.form()), image.words()) != 0 &&
        t.form().key_of(i.parts_->columns, image.words()) == key) {
      found = outcome::duplicate_key;
      note_row(t, slot);
    } else if (own(*t.at(slot).head) == nullptr) {
      const std::uint64_t claim = i.entries_->entry_of(key, slot).claim;
      const bool open = engine_.is_open(claim);
      if (open || has_now(i, slot, key)) found = outcome::conflict;
      if (open) {
        const auto number = static_cast<std::uint32_t>((claim >> claim_bits) - 1);
        const session& other = *engine_.sessions.find(number);
        caller = is_caller(other) ? &other : nullptr;
      }
    }
    return found == outcome::ok;
  };
  i.entries_->scan(key, key, timestamp(), slot_visitor(look));
  if (found == outcome::duplicate_key) session_->taken = &i;
  if (found != outcome::conflict) return found;
  if (caller != nullptr) return lose_to_caller(*caller, t, &i);
  return fail(said(outcome::conflict,
                   [&] {
                     return "another transaction has, or wants, the same value in " +
                            t.in_words(i.parts_->name) + ": run this one again, as transact() does";
                   }))
      .code();
}

/// Whether the row in the slot, which does not have the key at our snapshot, has it now.
bool transaction::has_now(const secondary& i, std::uint64_t slot, const key_words& key) const {
  const table& t = *i.of_;
  const row_place place = t.at(slot);
  if (unchanged_since(engine_.board, *place.head, timestamp())) return false;
  const census::ticket now = engine_.board.living.announce(engine_.board.clock);
  const selection key_only(t.form(), i.parts_->mask);
  const short_image image(*this, t);
  return read_row(engine_.board, *engine_.old, place, now.timestamp(), key_only.in(t.form()),
                  image.words()) != 0 &&
         t.form().key_of(i.parts_->columns, image.words()) == key;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
