// SPDX-License-Identifier: Apache-2.0
// catalog.cpp: building and dropping indexes and tables beside transactions.
#include "db/catalog/catalog.hpp"

#include <algorithm>
#include <memory>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "db/at_work.hpp"
#include "db/catalog/catalog_record.hpp"
#include "db/catalog/slot_chunks.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

status is_gone(const table& t) noexcept {
  return said(outcome::dropped, [&] {
    return "table " + t.name() + " was dropped: look it up again, by database::find_table()";
  });
}

std::unique_ptr<index_set> set_with(const index_set& old, secondary* one) {
  auto made = std::make_unique<index_set>(old);
  if (one != nullptr) made->all.push_back(one);
  return made;
}

}  // namespace

struct catalog::building {
  table& of;
  secondary& index;
  std::uint64_t columns;              // of its key
  note_queue notes{};                 // of rows that were changed meanwhile
  std::vector<key_words> suspects{};  // of which there may be two

  ~building() {
    while (note* const n = notes.pop()) note::free(n);
  }
};

void catalog::refuse(const char* call) const {
  if (engine_.read_only) {
    throw std::invalid_argument(std::string("spolia::db: the database was opened read_only, and ") +
                                call + " would change it");
  }
}

void catalog::refuse_to_change(const table& t, const char* call) const {
  at_work::must_not_wait(engine_, at_work::asking | at_work::writing | at_work::lengthening, call);
  refuse(call);
  if (!t.is_of(engine_)) t.refuse_stranger();
}

void catalog::must_be_free(const std::string& name) const {
  if (engine_.tables.named(name) != nullptr) {
    throw std::invalid_argument("spolia::db: a table " + name +
                                " exists: use another name, or find_table()");
  }
}

void catalog::must_be_new(const std::string& name) const {
  must_be_free(name);
  if (engine_.table_numbers == most_tables) {
    throw std::invalid_argument(
        "spolia::db: " + std::to_string(most_tables) +
        " tables were made in this database, also such as were dropped: there can be no more");
  }
}

table& catalog::create_table(const table_spec& spec) {
  at_work::must_not_wait(engine_, at_work::writing | at_work::lengthening, "create_table()");
  refuse("create_table()");
  const auto unmake = [this](table* t) { engine_.tables.unmake(*t); };
  std::unique_ptr<table, decltype(unmake)> made(&engine_.tables.make(spec, engine_), unmake);
  made->when_.build(engine_.board.clock.tick());
  catalog_record record(engine_, record_kind::create_table,
                        [&](byte_buffer& to) { put_table(to, made->spec()); });
  if (record.refused()) engine_.log->throw_refusal();
  table& added = *made;
  const auto free = [](note* n) { note::free(n); };
  // Only a record that is written can fail from here on.
  std::unique_ptr<note, decltype(free)> end_of_it(
      engine_.log != nullptr ? note::of_table(added) : nullptr, free);
  const std::shared_lock not_settled(engine_.unsettled);
  {
    const std::lock_guard hold(engine_.catalog_lock);
    engine_.tables.strip_gone();
    must_be_new(spec.name);
    added.number_ = engine_.table_numbers;
    engine_.tables.add(added);
    static_cast<void>(made.release());
    ++engine_.table_numbers;
    added.parts_->logged.made = record.place();
  }
  if (!record.wait()) {
    {
      // It keeps its number: the log may have its record, and later ones count from there.
      const std::lock_guard hold(engine_.catalog_lock);
      added.parts_->logged.dropped = added.parts_->logged.made;
      engine_.tables.give_name_up(added);
    }
    drop_later(end_of_it.release(), added.when_.birth(), end(added.when_));
    engine_.log->throw_refusal();
  }
  added.when_.begin(added.when_.birth());
  return added;
}

/// Shows the indexes, and waits until all commits know them.
void catalog::show(table& t, std::unique_ptr<const index_set> next) const {
  t.show(std::move(next));
  wait_for_commits();
}

/// Until those that are under way are over.
void catalog::wait_for_commits() const {
  commit_section::see_to_it();
  engine_.board.for_each(engine_.sessions, [](const session& s) { s.section.wait(); });
}

status catalog::create_index(table& t, const index_spec& spec) {
  refuse_to_change(t, "create_index()");
  const std::lock_guard hold(engine_.changing);
  const index_set& before = t.indexes();
  if (before.closed) return is_gone(t);
  for (const secondary* const i : before.all) {
    if (i->parts_->name == spec.name) {
      throw std::invalid_argument("spolia::db: table " + t.name() + " has an index " + spec.name +
                                  " already: use another name, or drop it before");
    }
  }
  const auto unmake = [this](secondary* i) { engine_.tables.unmake(*i); };
  std::unique_ptr<secondary, decltype(unmake)> made(&t.make_index(spec), unmake);
  catalog_record record(engine_, record_kind::create_index, [&](byte_buffer& to) {
    put_number(to, t.number_);
    put_index(to, spec);
  });
  if (record.refused()) return engine_.log_refuses();
  const std::uint64_t birth = engine_.board.clock.tick();
  made->when_.build(birth);
  made->parts_->birth = birth;
  made->parts_->logged.made = logged_span::never;
  auto with = set_with(before, made.get());
  with->columns |= made->parts_->mask;
  with->birth = birth;
  auto with_again = std::make_unique<index_set>(*with);
  auto without = set_with(before, nullptr);
  t.parts_->index_sets.reserve(t.parts_->index_sets.size() + 3);
  {
    const std::lock_guard hold_names(engine_.catalog_lock);
    t.parts_->secondaries.push_back(made.get());
  }
  secondary& added = *made.release();
  building b{.of = t, .index = added, .columns = added.parts_->mask};
  note* const last = note::of_index(b.index);
  show(t, std::move(with));
  std::uint64_t since = 0;
  outcome end = outcome::duplicate_key;
  try {
    // Transactions that have begun before may have changed rows that have no entries.
    engine_.board.clock.tick();
    const reader now(engine_, "index");
    since = now.timestamp();
    if (fill(now, b)) {
      if (spec.unique) show(t, std::move(with_again));
      if (build(b)) end = outcome::ok;
    } else {
      end = outcome::limit;
    }
  } catch (...) {
    give_up(b, std::move(without), last);
    throw;
  }
  if (end == outcome::ok && !record.write(b.index.parts_->logged.made))
    end = outcome::storage_failed;
  if (end != outcome::ok) {
    give_up(b, std::move(without), last);
    if (end == outcome::duplicate_key) return {end, t.in_words(spec.name)};
    return end == outcome::limit ? engine_.budget_is_used_up() : engine_.log_refuses();
  }
  b.index.when_.begin(since);
  note::free(last);
  engine_.cleaner.add(b.notes);
  return outcome::ok;
}

/// Adds an entry for each row that the snapshot sees. False: options::budget has no room for them.
bool catalog::fill(const reader& at, building& b) const {
  constexpr std::uint64_t looks_every = 1024;  // entries
  std::uint64_t added = 0;
  const schema& s = b.of.form();
  const selection key_only(s, b.columns);
  const column_set wanted = key_only.in(s);
  const slot_chunks& slots = *b.of.parts_->chunks;
  const std::uint64_t end = slots.end();
  for (std::uint64_t slot = slots.next_shown(0, end, at.timestamp()); slot < end;
       slot = slots.step(slot, end, at.timestamp())) {
    const reader::short_image image(at, b.of);
    if (at.read_step(b.of, slot, wanted, image.words()) != 0) {
      add(at, b, slot, s.key_of(b.index.parts_->columns, image.words()));
      if (++added % looks_every == 0 && engine_.rows.limited()) {
        b.of.count_indexes();
        if (engine_.is_full()) return false;
      }
    }
  }
  return true;
}

void catalog::add(const reader& at, building& b, std::uint64_t slot, const key_words& key) const {
  secondary_index& entries = *b.index.entries_;
  // Only snapshots from this one on use the index.
  const std::uint64_t claim = entries.add_once(key, slot, {engine_.next_claim(), at.timestamp()});
  const row_head& head = *b.of.at(slot).head;
  // acquire ← the release of the transaction that unlocked it: its stamp.
  const bool quiet = is_unlocked(head.lock.load_acquire());
  if (!quiet || head.stamp.load_relaxed() > at.timestamp()) {
    note* const n = b.index.note_of(slot, key);
    n->what = note::kind::built;
    n->claim() = claim;
    b.notes.push(n);
  }
  if (!b.index.parts_->unique) return;
  bool others = false;
  const auto look = [&](std::uint64_t found, const std::uint64_t*) {
    others = others || found != slot;
    return !others;
  };
  entries.scan(key, key, at.timestamp(), slot_visitor(look));
  if (others) b.suspects.push_back(key);
}

/// Whether two rows have the key at the snapshot.
bool catalog::twice(const reader& at, const building& b, const key_words& key) {
  const schema& s = b.of.form();
  const selection key_only(s, b.columns);
  const column_set wanted = key_only.in(s);
  int rows = 0;
  const auto look = [&](std::uint64_t slot, const std::uint64_t*) {
    const reader::short_image image(at, b.of);
    if (at.read_step(b.of, slot, wanted, image.words()) != 0 &&
        s.key_of(b.index.parts_->columns, image.words()) == key) {
      ++rows;
    }
    return rows < 2;
  };
  b.index.entries_->scan(key, key, at.timestamp(), slot_visitor(look));
  return rows == 2;
}

/// All entries are there, and every transaction knows the index. False: a unique one has a key
/// twice.
bool catalog::build(building& b) const {
  if (b.suspects.empty()) return true;
  const reader now(engine_, "index");
  return std::none_of(b.suspects.begin(), b.suspects.end(),
                      [&](const key_words& k) { return twice(now, b, k); });
}

/// Nothing was built: as if dropped at once.
void catalog::give_up(building& b, std::unique_ptr<const index_set> before,
                      note* last) const noexcept {
  b.of.show(std::move(before));
  // Transactions that begin now do not know it.
  drop_later(last, b.index.parts_->birth, engine_.board.clock.tick());
}

/// The memory of an index that was dropped counts until it is freed.
void catalog::keep_counting(note& n) noexcept {
  n.dropped_bytes() = n.index().entries_->bytes();
  n.of().parts_->dropped_index_bytes.fetch_add_relaxed(n.dropped_bytes());
  n.of().count_indexes();
}

/// Snapshots in that life may use it.
void catalog::drop_later(note* n, std::uint64_t since, std::uint64_t until) const noexcept {
  n->what = note::kind::dropped;
  n->since = since;
  n->until = until;
  if (!n->is_row()) keep_counting(*n);
  note_queue one;
  one.push(n);
  engine_.cleaner.add(one);
  engine_.cleaner.look_now();
}

/// A snapshot at the time that is returned, or later, knows that it is over then.
std::uint64_t catalog::end(validity& v) const noexcept {
  commit_clock& clock = engine_.board.clock;
  for (std::uint64_t ahead = 64;; ahead *= 2) {
    const std::uint64_t time = clock.now() + ahead;
    v.end(time);
    // A snapshot that reads this or a later time from the clock sees what was stored.
    if (clock.tick() > time) continue;  // other threads were quicker
    while (clock.tick() < time) {
    }
    return time;
  }
}

status catalog::drop_index(table& t, std::string_view name) {
  refuse_to_change(t, "drop_index()");
  const std::lock_guard hold(engine_.changing);
  const index_set& before = t.indexes();
  if (before.closed) return is_gone(t);
  const auto found = std::find_if(before.all.begin(), before.all.end(),
                                  [&](const secondary* i) { return i->parts_->name == name; });
  if (found == before.all.end()) static_cast<void>(t.index(name));  // throws
  secondary& gone = **found;
  catalog_record record(engine_, record_kind::drop_index, [&](byte_buffer& to) {
    put_number(to, t.number_);
    put_text(to, name);
  });
  auto left = std::make_unique<index_set>();
  for (secondary* const i : before.all) {
    if (i == &gone) continue;
    left->all.push_back(i);
    left->columns |= i->parts_->mask;
    left->birth = std::max(left->birth, i->parts_->birth);
  }
  t.parts_->index_sets.reserve(t.parts_->index_sets.size() + 1);
  note* const n = note::of_index(gone);
  if (record.refused() || !record.write(gone.parts_->logged.dropped)) {
    note::free(n);
    return engine_.log_refuses();
  }
  end(gone.when_);  // before changes pass it by, so that no reader misses them
  t.show(std::move(left));
  // Transactions that have begun before may have changes that go to it.
  drop_later(n, std::max(t.when_.birth(), gone.parts_->birth), engine_.board.clock.tick());
  return outcome::ok;
}

status catalog::drop_table(table& t) {
  refuse_to_change(t, "drop_table()");
  const std::lock_guard hold(engine_.changing);
  const index_set& before = t.indexes();
  if (before.closed) return is_gone(t);
  catalog_record record(engine_, record_kind::drop_table,
                        [&](byte_buffer& to) { put_number(to, t.number_); });
  if (record.refused()) return engine_.log_refuses();
  auto again = set_with(before, nullptr);
  t.parts_->index_sets.reserve(t.parts_->index_sets.size() + 1);
  note* const n = note::of_table(t);
  t.close();
  wait_for_commits();
  if (!record.write(t.parts_->logged.dropped)) {
    t.show(std::move(again));
    note::free(n);
    return engine_.log_refuses();
  }
  const std::uint64_t until = end(t.when_);
  {
    const std::lock_guard hold_names(engine_.catalog_lock);
    engine_.tables.give_name_up(t);
  }
  drop_later(n, t.when_.birth(), until);
  const std::lock_guard hold_names(engine_.catalog_lock);
  engine_.tables.strip_gone();
  return outcome::ok;
}

void catalog::refuse_unknown(std::string_view name) {
  throw std::invalid_argument("spolia::db: there is no table " + std::string(name) +
                              ": tables() has all that there are");
}

status catalog::rename_table(table& t, const std::string& name, std::string_view is) {
  refuse_to_change(t, "rename_table()");
  look_at_table_name(name);
  const std::lock_guard hold(engine_.changing);
  if (t.indexes().closed) return is_gone(t);
  if (!is.empty() && is != t.name()) refuse_unknown(is);
  if (name == t.name()) return outcome::ok;
  catalog_record record(engine_, record_kind::rename_table, [&](byte_buffer& to) {
    put_number(to, t.number_);
    put_text(to, name);
  });
  if (record.refused()) return engine_.log_refuses();
  std::string next = name;
  table_name& described = *t.form().names();
  std::uint64_t* since = nullptr;
  {
    const std::lock_guard hold_names(engine_.catalog_lock);
    must_be_free(name);
    since = &described.begin(name);
    try {
      engine_.tables.add_name(name, t);
    } catch (...) {
      described.take_back();
      throw;
    }
  }
  const bool done = record.write(*since);
  const std::lock_guard hold_names(engine_.catalog_lock);
  if (!done) {
    engine_.tables.take_name(name);
    described.take_back();
    return engine_.log_refuses();
  }
  engine_.tables.take_name(t.name());
  t.show_name(std::move(next));
  return outcome::ok;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
