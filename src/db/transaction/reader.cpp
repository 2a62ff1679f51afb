// SPDX-License-Identifier: Apache-2.0
// reader.cpp: reading at a snapshot.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "db/catalog/slot_chunks.hpp"
#include "db/catalog/too_long.hpp"
#include "db/engine.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

/// How many rows' old versions a scan prefetches together: less than a chunk has, and a power of
/// two.
constexpr std::size_t scanned_together = 64;
/// After no more commits than this since a snapshot, few rows that it scans have older versions.
constexpr std::uint64_t few_commits = 256;

/// Where the row's first word would be if `words` were this part of the row.
std::uint64_t* from_first(std::uint64_t* words, column_span part) noexcept {
  return reinterpret_cast<std::uint64_t*>(reinterpret_cast<std::uintptr_t>(words) -
                                          part.first * sizeof(std::uint64_t));
}

std::size_t words_for(std::string_view bytes) noexcept { return (bytes.size() + 7) / 8; }

[[noreturn]] void refuse_scan(const std::string& what) {
  throw std::invalid_argument("spolia::db: " + what);
}

/// Make it the key of so many words that comes right after it, or right before; false: there is
/// none. The words after these become as they are in an included end.
bool to_next(key_words& key, std::uint32_t words) noexcept {
  std::fill(key.begin() + words, key.end(), 0);
  while (words != 0 && ++key[words - 1] == 0) --words;
  return words != 0;
}
bool to_last(key_words& key, std::uint32_t words) noexcept {
  std::fill(key.begin() + words, key.end(), ~std::uint64_t{0});
  while (words != 0 && key[words - 1]-- == 0) --words;
  return words != 0;
}

/// The first and the last key of a range; false: it has none.
bool ends_of(const schema& s, const std::vector<std::uint32_t>& columns, const key_bound& from,
             const key_bound& to, range_read& keys) {
  using kind = key_bound::kind;
  if (from.what() == kind::before || to.what() == kind::after) {
    refuse_scan(
        "key_after() is where a range begins, and key_before() is where it ends: in a scan of "
        "table " +
        s.name() + " they are the other way round");
  }
  constexpr std::uint64_t all_bits = ~std::uint64_t{0};
  const std::uint32_t words = s.key_length(columns);
  const bool has_from = from.what() == kind::included;
  const bool has_to = to.what() == kind::included;
  keys.lo = s.encode_key(columns, from.all(), has_from ? 0 : all_bits);
  keys.hi = s.encode_key(columns, to.all(), has_to ? all_bits : 0);
  return (has_from || to_next(keys.lo, words)) && (has_to || to_last(keys.hi, words));
}

}  // namespace

/// Notes how much of a range a scan has shown. It does so before a row is shown: so the note is
/// right wherever the program ends the scan, also by an exception or by a commit.
class reader::scan_note {
 public:
  /// `words`: of a key of the index.
  scan_note(const reader& of, const range_read& all, std::uint32_t words, direction way)
      : of_(of), all_(all), words_(words), way_(way), note_(of.session_, &read_set::ranges) {
    of.session_->looked = true;
  }
  scan_note(const scan_note&) = delete;
  scan_note& operator=(const scan_note&) = delete;

  /// To be called before the row with this key is shown. Throws std::bad_alloc.
  void reach(const std::uint64_t* key) {
    if (!of_.notes_reads_) return;
    range_read& r = mine();
    key_words& end = way_ == direction::up ? r.hi : r.lo;
    end.fill(0);
    std::copy_n(key, words_, end.begin());
  }
  /// Notes the whole range, which was scanned to its end. Throws std::bad_alloc.
  void finish() {
    if (of_.notes_reads_) mine() = all_;
  }

 private:
  range_read& mine() {
    if (!note_.begun()) note_.begin(all_);
    return note_.now();
  }

  const reader& of_;
  const range_read& all_;
  const std::uint32_t words_;
  const direction way_;
  running_note<range_read> note_;
};

reader::reader(engine& of, std::string_view label) : engine_(of), session_(nullptr) {
  commit_board::record& r = engine_.board.take();
  try {
    session_ = &engine_.sessions.of(r.number());
    session_->record = &r;
    session_->work.belongs_to(engine_);
    session_->label.set(label);
    ticket_ = engine_.board.living.announce(engine_.board.clock, session_->label.mark());
    session_->snapshot.store_release(ticket_.id());  // → the acquire in is_begun_here()
  } catch (...) {
    engine_.board.give_back(r);
    throw;
  }
  session_->owner = this;
  session_->label.announced(timestamp());
}

/// Whether nothing runs that it has called, and that would go on with it where it was.
bool reader::may_move(const reader& r) noexcept {
  if (r.in_use_ == 0) return true;
  misuse::report(
      "a reader or transaction is moved, or assigned to, by what it has called: the function of "
      "its scan, a condition of its query, or on_slow_reader",
      threads::number());
  return false;
}

bool reader::may_move(const reader& to, const reader& from) noexcept {
  if (to.is_transaction_ == from.is_transaction_) return may_move(to) && may_move(from);
  misuse::report("a transaction is moved as a reader, without its changes", threads::number());
  return false;
}

reader::reader(reader& from, bool is_transaction) noexcept
    : engine_(from.engine_), session_(nullptr), is_transaction_(is_transaction) {
  if (!may_move(*this, from)) return;
  notes_reads_ = from.notes_reads_;
  gated_ = from.gated_;
  session_ = std::exchange(from.session_, nullptr);
  if (session_ != nullptr) session_->owner = this;
  if (session_ != nullptr && gated_) {
    engine_.gates.hand_on(session_->way, ticket_);
  } else {
    ticket_ = std::move(from.ticket_);
  }
}

reader::reader(reader&& from) noexcept : reader(from, false) {}

reader& reader::operator=(reader&& from) noexcept {
  if (this == &from || !may_move(*this, from)) return *this;
  std::destroy_at(this);
  return *std::construct_at(this, std::move(from));  // engine_ is another one's then
}

reader::~reader() {
  if (SPOLIA_CHECKS && in_use_ != 0) {
    misuse::report("a reader or transaction is destroyed by what it has called", threads::number());
  }
  if (session_ == nullptr) return;
  if (!end()) engine_.go_on();
}

bool reader::end(outcome how) noexcept {
  if (session_ == nullptr) return false;
  session_->end_turn(how);
  if (gated_) engine_.gates.take(session_->way);
  session_->section.leave();
  session_->snapshot.store_relaxed(0);
  if (!session_->younger.empty()) leave_younger();
  ticket_.withdraw();
  session_->clear(notes_reads_);
  engine_.board.give_back(*std::exchange(session_, nullptr)->record);
  return engine_.snapshot_ended(timestamp());
}

std::uint64_t* reader::room_for(const table& t) const {
  return session_->images.take(t.form().words());
}

std::uint64_t reader::read(const table& t, std::uint64_t slot, const column_set& wanted,
                           std::uint64_t* out, std::uint32_t level) const {
  const row_place place = t.at(slot);
  pending_write* w = own(*place.head);
  if (w != nullptr) w = own_before(w, level);
  if (w != nullptr) {
    if ((w->shape & row_exists) == 0) return 0;
    w->fetch(wanted.mask);
    wanted.each_word([&](std::uint32_t i) { out[i] = w->image[i]; });
    return w->shape;
  }
  const std::uint64_t shape =
      read_row(engine_.board, *engine_.old, place, timestamp(), wanted, out);
  // Values stay where they are while the snapshot is announced: only one that may be ended copies.
  if (gated_ && shape != 0 && (t.form().apart() & wanted.mask) != 0) {
    keep_apart(t, t.form().apart() & wanted.mask, out);
  }
  return shape;
}

/// Copies out-of-line values, so that they stay when this reader is ended. In a step.
void reader::keep_apart(const table& t, std::uint64_t columns, std::uint64_t* words) const {
  each_column(columns, [&](std::uint32_t c) {
    std::uint64_t* const at = words + t.form().span_of(c).first;
    const std::string_view bytes = apart_in(at);
    if (!lies_apart(at)) return;
    std::uint64_t* const copy = session_->images.take(words_for(bytes));
    std::memcpy(copy, bytes.data(), bytes.size());
    at[1] = reinterpret_cast<std::uintptr_t>(copy);
  });
}

/// As read(), a step of its own. Throws no_result if the reader was ended.
std::uint64_t reader::read_step(const table& t, std::uint64_t slot, const column_set& wanted,
                                std::uint64_t* out, std::uint32_t level) const {
  const step here(*this);
  must_go_on(bool(here));
  return read(t, slot, wanted, out, level);
}

/// The columns of the table that are asked for.
column_set reader::columns_of(const table& t, const selection& only) const {
  if (!t.is_of(engine_)) [[unlikely]]
    t.refuse_stranger();
  if (only.of_ != 0 && only.of_ != t.form().tag()) {
    throw std::invalid_argument("spolia::db: the columns are not those of table " + t.name() +
                                ": take them from that table, by select()");
  }
  return only.in(t.form());
}

status reader::how_ended() const noexcept {
  if (is_transaction_) return static_cast<const transaction*>(this)->state_;
  return outcome::ended;
}

SPOLIA_NOINLINE status reader::said_of(const table& t, outcome why) const noexcept {
  if (why == outcome::not_found) {
    return session_->say(why, "table ", t,
                         " has no row with this key at this snapshot: insert() or put() makes one");
  }
  if (why != outcome::dropped) return why;
  return session_->say(why, "table ", t,
                       " was dropped: look it up again, by database::find_table()");
}

/// Throws no_result if the transaction has ended: a scan that showed nothing would be wrong.
void reader::must_be_open() const {
  if (session_ == nullptr) throw no_result(how_ended());
}

void reader::must_exist(const table& t) const {
  if (t.when_.serves(timestamp())) [[likely]]
    return;
  if (const outcome there = enter(t); there != outcome::ok) throw no_result(said_of(t, there));
}

// A snapshot keeps the tables that there were at its time. A younger table it sees without rows; it
// is kept for the reader from its first use of the table on.

/// Enters a table. outcome::dropped: it has ended for this snapshot, or before this first use.
SPOLIA_NOINLINE outcome reader::enter(const table& t) const {
  if (!t.is_of(engine_)) t.refuse_stranger();
  const validity& when = t.when_;
  if (when.ended(timestamp())) return outcome::dropped;
  if (is_elder_in(t)) return outcome::ok;
  // Not of an older table: a checkpoint may come to that while its drop is not finished.
  if (timestamp() < when.birth() && when.over()) return outcome::dropped;
  auto& all = session_->younger;
  all.push_back(&t);
  // Inside a visit, since the parts may be freed now.
  bool entered = false;
  if (t.described_.enter()) {
    entered = t.parts_->elders.enter();
    t.described_.leave();
  }
  if (entered) return outcome::ok;
  all.pop_back();
  return outcome::dropped;
}

/// Whether the table is younger than the reader, and kept for it.
bool reader::is_elder_in(const table& t) const noexcept {
  const auto& all = session_->younger;
  return std::find(all.begin(), all.end(), &t) != all.end();
}

SPOLIA_NOINLINE void reader::leave_younger() const noexcept {
  for (const table* const t : session_->younger) t->parts_->elders.leave();
  clear_and_shrink(session_->younger);
}

/// Throws no_result if the transaction has changed rows since the index was dropped: these changes
/// are not in it, and a scan that left them out would be wrong.
void reader::must_have_own_changes(const secondary& i) const {
  if (!i.when_.over()) return;
  for (const pending_write& w : session_->writes) {
    if (w.of != i.of_ || !w.changed) continue;
    const auto& all = w.indexes->all;
    if (std::find(all.begin(), all.end(), &i) == all.end()) {
      throw no_result(outcome::schema_changed);
    }
  }
}

/// Throws no_result if the index is not there for this snapshot.
void reader::must_serve(const secondary& i) const {
  must_exist(*i.of_);
  const auto refuse = [&](outcome why, const char* what) {
    throw no_result({why, i.of_->in_words(i.parts_->name) + what});
  };
  if (!i.when_.begun(timestamp())) {
    refuse(outcome::schema_changed, " is younger than this snapshot: begin again");
  }
  if (i.when_.ended(timestamp())) {
    refuse(outcome::dropped, " was dropped: scan another one, or the table");
  }
}

SPOLIA_NOINLINE result<row> reader::find_nothing(const table& t, outcome why) const {
  if (why == outcome::ended) return how_ended();
  if (why == outcome::ended_by_policy) return session_->way.why();
  return said_of(t, why);
}

result<row> reader::find(const table& t, values key, const selection& only) const try {
  if (session_ == nullptr) [[unlikely]]
    return find_nothing(t, outcome::ended);
  const alone now(*this);
  const step here(*this);
  if (!here) [[unlikely]]
    return find_nothing(t, outcome::ended_by_policy);
  if (!t.when_.serves(timestamp())) [[unlikely]] {
    if (const outcome there = enter(t); there != outcome::ok) {
      return find_nothing(t, there);
    }
  }
  const column_set wanted_columns = columns_of(t, only);
  const key_words wanted = t.form().whole_key(key);
  const std::uint64_t slot = t.primary_->find(wanted);
  if (slot != no_slot) [[likely]] {
    row found = row_in(t, slot, wanted_columns, only.part(t.form()));
    if (found.words_ != nullptr) [[likely]]
      return found;
  }
  return find_buried(t, wanted, only);
} catch (const row_budget::exceeded&) {
  return engine_.budget_is_used_up();  // there is no room to note what was read
} catch (const too_long& e) {
  return e.why();
}

/// The row in the slot, with an image of its own, and notes that it was seen; an empty one, if this
/// snapshot sees none.
inline row reader::row_in(const table& t, std::uint64_t slot, const column_set& wanted,
                          column_span part) const {
  if (gated_ && (t.form().apart() & wanted.mask) != 0) [[unlikely]] {
    return row_with_values(t, slot, wanted, part);
  }
  row_image& image = session_->results.take(part.words);
  std::uint64_t* const words = from_first(image.words(), part);
  const std::uint64_t shape = read(t, slot, wanted, words);
  if (shape == 0) return {};
  note_row(t, slot);
  return {t.form(), words, shape, wanted.mask, image_share(image)};
}

/// As row_in(), with out-of-line values in the row's image, too: they stay when this reader is
/// ended.
SPOLIA_NOINLINE row reader::row_with_values(const table& t, std::uint64_t slot,
                                            const column_set& wanted, column_span part) const {
  const short_image found(*this, t);
  const std::uint64_t shape = read(t, slot, wanted, found.words());
  if (shape == 0) return {};
  note_row(t, slot);
  std::size_t beside = 0;
  const std::uint64_t apart = t.form().apart() & wanted.mask;
  const auto each_apart = [&](std::uint64_t* of, auto&& f) {
    each_column(apart, [&](std::uint32_t c) {
      std::uint64_t* const at = of + t.form().span_of(c).first;
      if (lies_apart(at)) f(at, apart_in(at));
    });
  };
  each_apart(found.words(), [&](auto*, std::string_view v) { beside += words_for(v); });
  row_image& image = session_->results.take(part.words + beside);
  std::uint64_t* const words = from_first(image.words(), part);
  wanted.each_word([&](std::uint32_t i) { words[i] = found.words()[i]; });
  std::uint64_t* next = image.words() + part.words;
  each_apart(words, [&](std::uint64_t* at, std::string_view v) {
    std::memcpy(next, v.data(), v.size());
    at[1] = reinterpret_cast<std::uintptr_t>(next);
    next += words_for(v);
  });
  return {t.form(), words, shape, wanted.mask, image_share(image)};
}

/// Finds a buried row, when the index has led to no row that this snapshot sees.
SPOLIA_NOINLINE result<row> reader::find_buried(const table& t, const key_words& wanted,
                                                const selection& only) const {
  const std::uint64_t slot = t.primary_->find_buried(wanted, timestamp());
  if (slot != no_slot) {
    row found = row_in(t, slot, only.in(t.form()), only.part(t.form()));
    if (found.words_ != nullptr) return found;
  }
  note_key(t, wanted);
  return said_of(t, outcome::not_found);
}

/// Whether it is worthwhile to prefetch old versions for scans.
bool reader::is_old() const noexcept {
  return engine_.board.clock.now() - timestamp() > few_commits;
}

/// Prefetches the old versions of the rows that a scan shows next, `scanned_together` at most:
/// otherwise the scan would wait for each of them.
void reader::fetch_versions(const table& t, std::span<const std::uint64_t> row_slots) const {
  const step here(*this);
  if (!here) return;  // the reader was ended: the scan will find that out
  std::array<old_row, scanned_together> old;
  std::size_t count = 0;
  for (const std::uint64_t slot : row_slots) {
    const row_place place = t.at(slot);
    // relaxed: it is only a guess. A mark, which is negative here, counts as a newest version that
    // the snapshot sees.
    const auto stamp = static_cast<std::int64_t>(place.head->stamp.load_relaxed());
    if (stamp > static_cast<std::int64_t>(timestamp())) {
      old[count++] = {&place.head->older, place.id};
    }
  }
  if (count > 1) engine_.old->fetch(std::span(old).first(count), timestamp());
}

void reader::scan_table(const table& t, const row_visitor& f, const selection& only) const {
  must_be_open();
  must_exist(t);
  const column_set wanted = columns_of(t, only);
  session_->looked = true;
  const bool notes = notes_reads_ && !session_->reads.has_all(t);
  running_note<table_read> noted(session_, &read_set::tables);
  if (notes) noted.begin({&t, 0});
  const scanning now(*this);
  const arena::mark here = session_->images.here();
  const slot_chunks& slots = *t.parts_->chunks;
  const std::uint64_t end = slots.end();
  const bool old = is_old();
  for (std::uint64_t slot = slots.next_shown(0, end, timestamp()); slot < end;
       slot = slots.step(slot, end, timestamp())) {
    if (old && slot % scanned_together == 0) {
      std::array<std::uint64_t, scanned_together> next;
      const std::size_t count = std::min<std::uint64_t>(scanned_together, end - slot);
      std::iota(next.begin(), next.end(), slot);
      fetch_versions(t, std::span(next).first(count));
    }
    std::uint64_t* const image = room_for(t);
    const std::uint64_t shape = read_step(t, slot, wanted, image, now.level());
    if (notes && shape != 0) noted.now().end = slot + 1;
    const bool more = shape == 0 || f(row(t.form(), image, shape, wanted.mask));
    if (session_ == nullptr) return;  // f has ended the transaction, maybe by a conflict
    session_->images.rewind(here);
    if (!more) return;
  }
  must_go_on(!ended());  // if it was ended, chunks with rows that it saw may have been skipped
  if (notes) noted.now().end = table_read::all;
}

struct reader::index_range {
  column_set columns;
  range_read keys;
  std::uint32_t words;  // of a key
  direction way;
};

class reader::passing {
 public:
  passing(session& s, const index_range& of) noexcept
      : of_(of),
        passed_(of.keys.index == nullptr || of.keys.index->parts_->kind == index_kind::ordered
                    ? &s.passed
                    : nullptr) {}

  /// The position at which the scan may begin; nothing: at the beginning of its range.
  [[nodiscard]] std::optional<index_position> known() const noexcept {
    if (passed_ == nullptr || passed_->empty()) [[likely]]
      return std::nullopt;
    const index_position first = begin();
    const index_position from = passed_->begin_at(index(), down(), first);
    if (from == first) return std::nullopt;
    return from;
  }
  void passes() noexcept { count_ += shown_ ? 0U : 1U; }
  /// To be called before a row is shown, since the scan's function may change rows.
  void comes_to(const std::uint64_t* key, std::uint64_t slot) noexcept {
    if (!std::exchange(shown_, true) && count_ >= passed_over::few) leave(at(key, slot));
  }
  /// To be called when the scan has come to its end, perhaps without a row.
  void comes_to_end() const noexcept {
    if (shown_ || count_ < passed_over::few) return;
    leave(down() ? at(of_.keys.lo.data(), 0) : at(of_.keys.hi.data(), no_slot));
  }

 private:
  [[nodiscard]] bool down() const noexcept { return of_.way == direction::down; }
  [[nodiscard]] const void* index() const noexcept {
    if (of_.keys.index != nullptr) return of_.keys.index;
    return of_.keys.of;
  }
  [[nodiscard]] index_position at(const std::uint64_t* key, std::uint64_t slot) const noexcept {
    index_position p;
    std::copy_n(key, of_.words, p.key.begin());
    if (of_.keys.index != nullptr) p.slot = slot;
    return p;
  }
  [[nodiscard]] index_position begin() const noexcept {
    return down() ? at(of_.keys.hi.data(), no_slot) : at(of_.keys.lo.data(), 0);
  }
  SPOLIA_NOINLINE void leave(const index_position& edge) const noexcept {
    if (passed_ != nullptr) passed_->add({index(), down(), begin(), edge});
  }

  const index_range& of_;
  passed_over* const passed_;
  std::uint32_t count_ = 0;
  bool shown_ = false;
};

namespace {

void scan_from(const primary_index& entries, const index_position& from, const range_read& keys,
               bool down, std::uint64_t time, const slot_visitor& visit) {
  if (down) return entries.scan_down(keys.lo, from.key, time, visit);
  entries.scan(from.key, keys.hi, time, visit);
}
void scan_from(const secondary_index& entries, const index_position& from, const range_read& keys,
               bool down, std::uint64_t time, const slot_visitor& visit) {
  if (down) return entries.scan_down_from(from.key, from.slot, keys.lo, time, visit);
  entries.scan_from(from.key, from.slot, keys.hi, time, visit);
}

}  // namespace

/// Shows the rows of the entries whose key is_of(row, key of the entry).
template <class Entries, class IsOf>
void reader::show_entries(const Entries& entries, const index_range& of, const row_visitor& f,
                          IsOf&& is_of) const {
  const table& t = *of.keys.of;
  scan_note noted(*this, of.keys, of.words, of.way);
  const scanning now(*this);
  passing before(*session_, of);
  bool whole = true;
  const auto show = [&](std::uint64_t slot, const std::uint64_t* found) {
    const arena::mark here = session_->images.here();
    std::uint64_t* const image = room_for(t);
    const std::uint64_t shape = read_step(t, slot, of.columns, image, now.level());
    if (shape != 0 && is_of(image, found)) {
      before.comes_to(found, slot);
      noted.reach(found);
      whole = f(row(t.form(), image, shape, of.columns.mask));
    } else {
      before.passes();
    }
    if (session_ == nullptr) return whole = false;  // f has ended the transaction
    session_->images.rewind(here);
    return whole;
  };
  const auto expect = [&](std::span<const std::uint64_t> next) {
    next = next.first(std::min(scanned_together, next.size()));
    for (const std::uint64_t slot : next) __builtin_prefetch(t.at(slot).head);
    fetch_versions(t, next);
  };
  const slot_visitor visit = is_old() ? slot_visitor(show, expect) : slot_visitor(show);
  if (const std::optional<index_position> first = before.known()) {
    scan_from(entries, *first, of.keys, of.way == direction::down, timestamp(), visit);
  } else if (of.way == direction::down) {
    entries.scan_down(of.keys.lo, of.keys.hi, timestamp(), visit);
  } else {
    entries.scan(of.keys.lo, of.keys.hi, timestamp(), visit);
  }
  must_go_on(!ended());  // if it was ended, entries may have been missing
  if (!whole) return;
  before.comes_to_end();
  noted.finish();
}

void reader::scan_primary(const table& t, const key_bound& from, const key_bound& to,
                          const scan_how& how, const row_visitor& f) const {
  must_be_open();
  must_exist(t);
  const column_set wanted = columns_of(t, how.only);
  if (t.parts_->primary_kind != index_kind::ordered)
    refuse_scan("the primary key of table " + t.name() +
                " is not ordered: it finds one whole key. "
                "Scan an ordered secondary index, or make the table with index_kind::ordered");
  const schema& s = t.form();
  range_read keys{&t};
  if (!ends_of(s, s.key(), from, to, keys)) return;
  show_entries(*t.primary_,
               {.columns = wanted, .keys = keys, .words = s.key_length(s.key()), .way = how.way}, f,
               [](const std::uint64_t*, const std::uint64_t*) { return true; });
}

void reader::scan_secondary(const secondary& i, const key_bound& from, const key_bound& to,
                            const scan_how& how, const row_visitor& f) const {
  must_be_open();
  const table& t = *i.of_;
  must_serve(i);
  must_have_own_changes(i);
  // The columns of the key are read, too.
  const schema& s = t.form();
  std::array<column_run, most_columns> runs;
  const std::uint64_t mask = columns_of(t, how.only).mask | i.parts_->mask;
  const column_set wanted{mask, {runs.data(), s.runs_of(mask, runs.data())}, s.whole().all};
  range_read keys{&t, &i};
  const bool any = ends_of(s, i.parts_->columns, from, to, keys);
  const std::uint32_t length = s.key_length(i.parts_->columns);
  const std::size_t whole = i.parts_->columns.size();
  if (i.parts_->kind == index_kind::hash &&
      (from.all().size() != whole || to.all().size() != whole ||
       !std::equal(keys.lo.begin(), keys.lo.begin() + length, keys.hi.begin()))) {
    refuse_scan(t.in_words(i.parts_->name) +
                " is a hash index, which finds the rows of one whole key and no ranges");
  }
  if (!any) return;
  // An entry may be there for another version of the row.
  const auto is_of = [&](const std::uint64_t* image, const std::uint64_t* found) {
    const key_words has = s.key_of(i.parts_->columns, image);
    return std::equal(has.begin(), has.begin() + length, found);
  };
  show_entries(*i.entries_, {.columns = wanted, .keys = keys, .words = length, .way = how.way}, f,
               is_of);
}

// --- readers that may be ended -------------------------------------------------------------------

reader::reader(engine& of, const reader_options& o, std::string_view label) : reader(of, label) {
  engine_.go_on();
  be_limited(o.deadline);
}

/// Gives the reader a gate, if it or the database wants one.
void reader::be_limited(std::chrono::nanoseconds deadline) {
  if (deadline.count() <= 0 && !engine_.settings.on_slow_reader) return;
  engine_.gates.put(session_->way, ticket_, session_->label,
                    deadline.count() <= 0 ? 0 : in_ticks(deadline));
  gated_ = true;
}

SPOLIA_NOINLINE void reader::refuse_to_go_on() const { throw no_result(session_->way.why()); }

bool reader::ended() const noexcept {
  return session_ != nullptr && gated_ && session_->way.ended();
}

// --- the read set of a serializable transaction --------------------------------------------------

/// Notes that the row in the slot was seen, which is the snapshot's, or our own.
void reader::note_row(const table& t, std::uint64_t slot) const {
  session_->looked = true;
  if (!notes_reads_) return;
  const row_head* const head = t.at(slot).head;
  if (SPOLIA_CHECKS && head->lock.load_relaxed() == free_slot) {
    misuse::report("a slot without a row is taken for one that was read", threads::number());
  }
  session_->reads.row(head);
}

/// Notes that no row with the key was seen, whatever slot the index led to.
void reader::note_key(const table& t, const key_words& key) const {
  session_->looked = true;
  if (notes_reads_) session_->reads.key(t, key);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
