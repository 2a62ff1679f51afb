// SPDX-License-Identifier: Apache-2.0
// transaction.cpp: changes before commit: locks, images, index entries.
#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include "engine.hpp"
#include "journal.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

/// Throws std::invalid_argument if the column can never have the value.
void may_be_set(const column_layout& c, const value& v) {
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
  if (of.settings.durable_reads) options_.durable_reads = true;
  if (options_.durable_reads) [[unlikely]]
    note_seen();
}

/// Its snapshot has begun.
void transaction::note_seen() noexcept {
  if (options_.durable_reads && engine_.log != nullptr) seen_ = engine_.log->visible();
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
  no_query_runs();
  const step here(*this);
  if (!here) return fail(outcome::ended_by_policy);
  try {
    return f();
  } catch (const std::bad_alloc&) {
    rollback();
    throw;
  }
}

/// Runs f, which leaves nothing where it throws row_budget::exceeded: once more, if there may be
/// room then.
template <class F>
status transaction::within_budget(F&& f) {
  try {
    return f();
  } catch (const row_budget::exceeded&) {  // NOLINT: what follows is done without it
  }
  if (look_for_memory()) {
    try {
      return f();
    } catch (const row_budget::exceeded&) {  // NOLINT: the same
    }
  }
  session_->limits.add(1);
  return outcome::limit;
}

status transaction::insert(table& t, values v) {
  return change([&]() -> status {
    const value_block* const before = session_->made.first;
    return within_budget([&]() -> status {
      try {
        const status s = insert_row(t, v);
        if (!s && state_) drop_apart(before);
        return s;
      } catch (const row_budget::exceeded&) {
        drop_apart(before);
        throw;
      }
    });
  });
}

/// Whether the table is there, for changes.
status transaction::may_change(const table& t) {
  if (!t.is_of(engine_)) [[unlikely]]
    t.refuse_stranger();
  if (!t.indexes().closed) return outcome::ok;
  return t.when_.ended(timestamp()) ? status(outcome::dropped) : fail(outcome::schema_changed);
}

status transaction::insert_row(table& t, values v) {
  if (const status s = may_change(t); !s) return s;
  std::uint64_t* const image = session_->changes.take(t.schema_.words());
  const std::uint64_t shape = t.schema_.encode_row(v, image);
  each_column(t.schema_.apart(),
              [&](std::uint32_t c) { make_apart(image + t.schema_.span_of(c).first); });
  const key_words key = t.schema_.key_of(t.schema_.key(), image);
  for (;;) {
    std::uint64_t slot = no_slot;
    try {
      slot = claim_slot(t, key, image, shape);
    } catch (const row_budget::exceeded&) {
      slot = t.primary_->find(key);  // if it has a slot, that will do
      if (slot == no_slot) {
        note_key(t, key);
        throw;
      }
    }
    if (slot == no_slot) break;
    if (const auto s = take_over(t, slot, key, image, shape)) return *s;
  }
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
  session_->writes.emplace_back(t, image, session_->level);
  std::uint64_t slot = no_slot;
  std::uint64_t has = no_slot;
  row_place place;
  try {
    slot = t.take_slot(session_->lock_word(session_->writes.size() - 1));
    place = t.at(slot);
    // The key, for those who look whether an index has led them to the right row. Who has come by
    // an older entry sees it change; he sees no row here.
    for (const std::uint32_t n : t.schema_.key()) {
      const column_span c = t.schema_.span_of(n);
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
  made.indexes = &t.indexes();
  made.slot = slot;
  made.place = place;
  made.shape = shape;
  made.has = made.sets = every_column;
  made.fresh = made.changed = true;
  return no_slot;
}

/// Inserts where the key has a slot already: that of a deleted row, or of one that is being made.
/// Nothing: the key has the slot no more.
std::optional<status> transaction::take_over(table& t, std::uint64_t slot, const key_words& key,
                                             std::uint64_t* image, std::uint64_t shape) {
  const row_place place = t.at(slot);
  if (own(*place.head) == nullptr) {
    std::uint64_t none = 0;
    if (read_row(engine_.board, *engine_.old, place, timestamp(), {}, &none) != 0) {
      note_row(t, slot);
      return outcome::duplicate_key;
    }
  }
  const result<std::uint32_t> number = lock_row(t, slot, place, key);
  if (!number) return number.why();
  if (*number == slot_is_gone) return std::nullopt;
  if ((session_->writes[*number].shape & row_exists) != 0) {
    note_row(t, slot);
    return outcome::duplicate_key;
  }
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
    return row(t.schema_, image, w.shape, every_column);
  });
}

status transaction::update(table& t, std::initializer_list<value> key,
                           std::initializer_list<assignment> changes) {
  std::array<column_value, most_columns> to;
  if (changes.size() > to.size()) {
    throw std::invalid_argument("spolia::db: an update of table " + t.name() + " sets " +
                                std::to_string(changes.size()) +
                                " columns: at most 62 are allowed");
  }
  std::size_t count = 0;
  for (const assignment& a : changes) {
    to[count++] = {&t.schema_.column(a.column), &a.to};
    may_be_set(*to[count - 1].column, a.to);
  }
  return change([&]() -> status {
    const result<std::uint32_t> number = lock_key(t, values(key.begin(), key.size()));
    if (!number || count == 0) return number ? status(outcome::ok) : number.why();
    return assign(*number, {to.data(), count});
  });
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
  return {w.of->layout(), w.image, w.shape, w.has};
}

std::uint64_t editor::word(std::uint32_t number, std::uint32_t first) const noexcept {
  pending_write& w = of_->session_->writes[number_];
  const std::uint64_t bit = std::uint64_t{1} << number;
  if ((w.has & bit) == 0) {
    w.has |= bit;
    w.image[first] = w.place.column(first, 1)->load_relaxed();
  }
  return w.image[first];
}

/// What set_column() does for a column of one word, where nothing can fail: no index, no savepoint,
/// no scan or query that begins a level, nobody who ends it. False: that has to do it.
bool editor::set_word(std::uint32_t number, std::uint32_t first, std::uint32_t table,
                      std::uint64_t word) noexcept {
  if (!of_->state_ || of_->gated_) return false;
  pending_write& w = of_->session_->writes[number_];
  if (table != w.of->layout().tag()) return false;
  const std::uint64_t bit = std::uint64_t{1} << number;
  if ((w.shape & row_exists) == 0 || w.level != of_->session_->level) return false;
  if (((w.indexes->columns | w.of->layout().keyed()) & bit) != 0) return false;
  w.image[first] = word;
  w.shape &= ~bit;
  w.has |= bit;
  w.sets |= bit;
  w.changed = true;
  return true;
}

/// In the checked flavour.
bool editor::has_ended() const noexcept {
  if (of_->session_ != nullptr) return false;
  misuse::report("an editor is asked after the end of its transaction", threads::number());
  return true;
}

/// The same.
void editor::is_of(std::uint32_t table) const noexcept {
  if (table != of_->session_->writes[number_].of->layout().tag()) {
    misuse::report("a column of another table is looked at", threads::number());
  }
}

status editor::set_column(std::uint32_t number, std::uint32_t table, const value& v) {
  if (!of_->state_) return of_->state_;
  const pending_write& w = of_->session_->writes[number_];
  if (table != w.of->layout().tag()) {
    throw std::invalid_argument("spolia::db: the column that is set is not one of table " +
                                w.of->layout().name() + ": take it from that table");
  }
  if ((w.shape & row_exists) == 0) return outcome::not_found;  // erased since, or taken back
  const transaction::column_value to{&w.of->layout().columns()[number], &v};
  may_be_set(*to.column, v);
  return of_->change([&]() -> status { return of_->assign(number_, {&to, 1}); });
}

/// Writes the values' words to `to`, one behind the other; those that lie apart get their blocks.
/// Throws std::invalid_argument: one does not fit; then there are no new blocks, as after a limit.
status transaction::encode_changes(std::span<const column_value> changes, std::uint64_t* to) {
  const value_block* const before = session_->made.first;
  std::uint64_t* at = to;
  for (const auto& [c, v] : changes) {
    std::fill_n(at, c->words, 0);
    if (!v->null()) c->encode(*v, at);
    at += c->words;
  }
  return within_budget([&]() -> status {
    at = to;
    try {
      for (const auto& [c, v] : changes) {
        if (lies_apart(c->type.base)) make_apart(at);
        at += c->words;
      }
    } catch (const row_budget::exceeded&) {
      drop_apart(before);
      throw;
    }
    return outcome::ok;
  });
}

/// All of them, or none: unique indexes are asked about the row as it is behind the last one.
status transaction::assign(std::uint32_t number, std::span<const column_value> changes) {
  std::uint64_t bits = 0;
  std::uint64_t nulls = 0;
  std::size_t words = 0;
  for (const auto& [c, v] : changes) {
    const std::uint64_t bit = std::uint64_t{1} << c->number;
    bits |= bit;
    // Of a column that comes twice, the last counts.
    nulls = v->null() ? nulls | bit : nulls & ~bit;
    words += c->words;
  }
  const arena::mark here = session_->images.here();
  std::uint64_t* const fresh = session_->images.take(words);
  if (const status s = encode_changes(changes, fresh); !s) return s;
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
  const status s = indexed ? index_row(number, bits) : status(outcome::ok);
  if (s == outcome::duplicate_key) {
    each([&](const column_layout& c) { std::copy_n(old + c.first, c.words, w.image + c.first); });
    w.shape = before.shape;
    w.sets = before.sets;
    w.changed = before.changed;
  }
  if (state_) session_->images.rewind(here);  // else it has no session any more
  return s;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
