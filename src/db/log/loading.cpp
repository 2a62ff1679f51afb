// SPDX-License-Identifier: Apache-2.0
// loading.cpp: putting rows into tables that no transaction uses yet.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "db/versions/large_memory.hpp"

#include "db/log/recovery.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::uint64_t loading = born_before_all;  // in a row's lock
constexpr std::size_t at_once = 64;                 // rows that are fetched beside each other
constexpr std::uint32_t most_expected = 16;         // words of one
constexpr std::uint64_t slots_at_once = 64;
constexpr std::uint64_t shares = 8;  // of what is left: so little is left over in the end

}  // namespace

void loader::reserve(table& t, std::uint64_t rows) {
  if (rows == 0) return;
  t.parts_->expected = rows;
  t.primary_->reserve(rows);
}

/// Changes of rows of one table. What is met for one of them is fetched long before it is needed,
/// while other groups are worked at: first the places in the index, then the rows.
struct loader::group {
  std::span<const row_edit> edits;
  bool right = false;          // find() would have said the same
  std::uint64_t inserted = 0;  // when the slots were looked up
  std::uint64_t erased = 0;
  std::array<std::uint64_t, at_once> hashes;
  std::array<std::uint64_t, at_once> slots;
  std::array<row_place, at_once> places;  // of the slots
  std::array<bytes_view, at_once> rests;  // of the rows, after their keys, and after what is set
  std::array<set_columns, at_once> sets;

  [[nodiscard]] table& of() const noexcept { return *edits[0].of; }
  /// Takes over the first ones of these.
  void take(std::span<const row_edit>& from);
};

/// Slots are taken many at a time, so that two threads seldom write to one cache line; and so many
/// where many will come that they seldom touch a page together for the first time.
std::uint64_t loader::slot_for(table& t) {
  range& mine = range_of(t);
  if (mine.next == mine.end) {
    const std::uint64_t freed = t.take_free(loading);
    if (freed != no_slot) return freed;
    take_slots(t, mine);
  }
  const std::uint64_t slot = mine.next++;
  if (mine.bare && slot % rows_per_block == 0) t.construct_block(slot);
  t.at(slot).head->lock.store_relaxed(loading);
  return slot;
}

loader::range& loader::range_of(const table& t) {
  if (t.number_ >= taken_.size()) taken_.resize(t.number_ + 1);
  return taken_[t.number_];
}

void loader::take_slots(table& t, range& mine) {
  mine.of = &t;
  mine.bare = t.form().apart() == 0;
  if (!mine.bare) {  // when the table goes, it searches all slots for values
    std::uint64_t some = slots_at_once;
    mine.next = t.take_bare(some);
    mine.end = mine.next + some;
    for (std::uint64_t slot = mine.next; slot != mine.end; slot += rows_per_block) {
      t.construct_block(slot);
    }
    return;
  }
  const std::uint64_t left = t.parts_->expected - std::min(t.parts_->expected, t.row_slots());
  const std::uint64_t most = huge_page / t.block_bytes_ * rows_per_block;
  std::uint64_t count = std::clamp(left / shares, slots_at_once, std::max(most, slots_at_once)) /
                        rows_per_block * rows_per_block;
  mine.next = t.take_bare(count);
  mine.end = mine.next + count;
}

void loader::release() noexcept {
  for (range& r : taken_) {
    for (; r.next != r.end; ++r.next) {
      if (r.bare && r.next % rows_per_block == 0) r.of->construct_block(r.next);
      r.of->give_slot(r.next);
    }
  }
}

/// Gives the image's out-of-line values in these columns blocks of their own. Throws
/// std::bad_alloc; then it has none.
void loader::make_apart(const table& t, std::uint64_t columns) {
  value_list made;
  try {
    each_column(t.form().apart() & columns, [&](std::uint32_t c) {
      std::uint64_t* const words = image_.data() + t.form().span_of(c).first;
      if (!lies_apart(words)) return;
      made.add(engine_.values.make(apart_in(words), 0));
      words[1] = made.first->address();
    });
  } catch (...) {
    engine_.values.free_all(made);
    throw;
  }
}

/// What the image says.
void loader::write_row(const table& t, const row_place& place, std::uint64_t shape) noexcept {
  place.store(t.form().whole().runs, image_.data());
  finish_row(*place.head, shape);
}

void loader::finish_row(row_head& head, std::uint64_t shape) noexcept {
  head.shape.store_relaxed(shape);
  head.stamp.store_relaxed(stamp_of_loaded);
  // release → the acquires of threads that lock the row when the database is open.
  head.lock.store_release(born_before_all);
}

void loader::put(table& t, const row_edit& e, std::uint64_t slot) {
  decoder row(e.row());
  const std::uint64_t shape = read_row_image(row, t.form(), false, image_.data());
  must_be_done(row.rest());
  const bool fresh = slot == no_slot;
  if (fresh) slot = slot_for(t);
  const row_place place = t.at(slot);
  make_apart(t);
  if (!fresh) engine_.values.free_row(t.form(), place, every_column);
  write_row(t, place, shape);
  if (!fresh) return;
  t.primary_->claim(key_of(e), slot);
  ++inserted_;
}

/// What a log is mostly made of: `data` is whole numbers for these columns. Returns what follows
/// them.
static bytes_view set_numbers(const schema& s, bytes_view data, std::uint64_t columns,
                              const row_place& place) {
  roomy_decoder from(data);
  each_column(columns, [&](std::uint32_t c) {
    place.column(s.span_of(c).first, 1)->store_relaxed(read_number(from));
  });
  return from.rest();
}

/// `data` is what follows the key and `set`. The row's head, which is a line of the caches by
/// itself, stays as it is unless some of the columns may be null. Others see it all by
/// loading_pool::finish().
void loader::set(const table& t, bytes_view data, set_columns set, const row_place& place) {
  const schema& s = t.form();
  if (set.nulls == 0 && (set.columns & ~s.numbers()) == 0) {
    data = set_numbers(s, data, set.columns, place);
  } else {
    decoder from(data, decoder::spare);
    read_columns(from, s, set, image_.data());
    data = from.rest();
    make_apart(t, set.columns);
    engine_.values.free_row(s, place, set.columns);
    each_column(set.columns, [&](std::uint32_t c) {
      const column_span span = s.span_of(c);
      place.store(span, image_.data() + span.first);
    });
  }
  must_be_done(data);
  if ((set.columns & s.nullable()) == 0) return;
  atomic<std::uint64_t>& shape = place.head->shape;
  shape.store_relaxed((shape.load_relaxed() & ~set.columns) | set.nulls);
}

void loader::must_be_done(bytes_view rest) {
  if (!rest.empty()) throw malformed("a change is longer than its row");
}

void loader::erase(table& t, const row_edit& e, std::uint64_t slot) {
  if (slot == no_slot) throw malformed("a row is erased that does not exist");
  if (!t.primary_->remove(key_of(e), slot)) throw std::bad_alloc();
  ++erased_;
  const row_place place = t.at(slot);
  engine_.values.free_row(t.form(), place, every_column);
  place.head->stamp.store_relaxed(0);
  place.head->shape.store_relaxed(0);
  t.give_slot(slot);
}

/// Fetches what a row's change will write.
void loader::expect_row(const schema& s, row_change what, set_columns set, const row_place& place) {
  if (what == row_change::set) {
    each_column(set.columns, [&](std::uint32_t c) {
      const column_span span = s.span_of(c);
      __builtin_prefetch(place.column(span.first, span.words), 1);
    });
    if ((set.columns & s.nullable()) == 0) return;
  } else {
    place.each_word(s.whole().runs, [](std::size_t i, const auto& word) {
      if (i < most_expected) __builtin_prefetch(&word, 1);
    });
  }
  __builtin_prefetch(place.head, 1);
}

key_words loader::key_of(const row_edit& e) {
  const schema& s = e.of->form();
  decoder from(e.row());
  read_row_image(from, s, true, image_.data());
  return s.key_of(s.key(), image_.data());
}

bytes_view loader::behind_key(const row_edit& e) {
  decoder from(e.row());
  read_row_image(from, e.of->form(), true, image_.data());
  return from.rest();
}

void loader::group::take(std::span<const row_edit>& from) {
  std::size_t count = 0;
  while (count < std::min(at_once, from.size()) && from[count].of == from[0].of) {
    hashes[count] = from[count].hash;
    ++count;
  }
  edits = from.first(count);
  from = from.subspan(count);
  if (count != 0 && of().form().one_number()) {
    of().primary_->expect_words(std::span(hashes).first(count));
  }
}

/// Where the rows are, as far as is known yet.
void loader::look_at(group& g, const row_edit*& now) {
  const table& t = g.of();
  const schema& s = t.form();
  const std::size_t count = g.edits.size();
  const bool one_number = s.one_number();
  const set_rules rules = s;
  image_.resize(std::max<std::size_t>(image_.size(), s.words()));
  if (one_number) {
    g.right = t.primary_->guess_words(std::span(g.hashes).first(count), g.slots.data());
  } else {
    std::array<key_words, at_once> keys;
    for (std::size_t i = 0; i < count; ++i) keys[i] = key_of(*(now = &g.edits[i]));
    g.right = t.primary_->guess_all(std::span(keys).first(count), g.slots.data());
  }
  g.inserted = inserted_;
  g.erased = erased_;
  for (std::size_t i = 0; i < count; ++i) {
    now = &g.edits[i];
    // key_hash() has looked.
    g.rests[i] = one_number ? now->row().subspan(sizeof(std::uint64_t)) : behind_key(*now);
    if (now->what == row_change::set) {
      roomy_decoder from(g.rests[i]);
      g.sets[i] = read_which(from, rules);
      g.rests[i] = from.rest();
    }
    if (g.slots[i] == no_slot) continue;
    g.places[i] = t.at(g.slots[i]);
    expect_row(s, now->what, g.sets[i], g.places[i]);
  }
}

/// A key that had no slot may have one now; one that had may have lost it, or have another.
bool loader::still_right(const group& g, std::uint64_t slot) const noexcept {
  return g.right && g.erased == erased_ && (slot != no_slot || g.inserted == inserted_);
}

void loader::make(group& g, const row_edit*& now) {
  table& t = g.of();
  const schema& s = t.form();
  const std::uint64_t simple = s.numbers() & ~s.nullable();
  for (std::size_t i = 0; i < g.edits.size(); ++i) {
    now = &g.edits[i];
    std::uint64_t slot = g.slots[i];
    if (!still_right(g, slot)) {
      slot = t.primary_->find(key_of(*now));
      if (slot != no_slot) g.places[i] = t.at(slot);
    }
    if (now->what == row_change::set) {
      if (slot == no_slot) throw malformed("a row is changed that does not exist");
      if ((g.sets[i].columns & ~simple) == 0) {
        must_be_done(set_numbers(s, g.rests[i], g.sets[i].columns, g.places[i]));
      } else {
        set(t, g.rests[i], g.sets[i], g.places[i]);
      }
    } else if (now->what == row_change::put) {
      put(t, *now, slot);
    } else {
      must_be_done(g.rests[i]);
      erase(t, *now, slot);
    }
  }
}

/// A row is met after two misses of the caches: those of several rows run beside each other, and
/// beside what is done with the rows before.
void loader::make(std::span<const row_edit> edits, const row_edit*& now) {
  std::array<group, 3> groups;
  group* made = &groups[0];
  group* looked_at = &groups[1];
  group* expected = &groups[2];
  expected->take(edits);
  do {
    std::swap(looked_at, expected);
    expected->take(edits);
    if (!looked_at->edits.empty()) look_at(*looked_at, now);
    if (!made->edits.empty()) make(*made, now);
    std::swap(made, looked_at);
  } while (!made->edits.empty());
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
