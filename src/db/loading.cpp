// SPDX-License-Identifier: Apache-2.0
// loading.cpp: putting rows into tables that nobody else uses yet.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include <spolia/db/large_memory.hpp>

#include "recovery.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::uint64_t loading = 1;       // in a row's lock
constexpr std::uint64_t stamp_of_all = 1;  // what the clock says at first
constexpr std::size_t at_once = 64;        // rows that are fetched beside each other
constexpr std::size_t keys_at_once = 256;
constexpr std::uint32_t most_expected = 16;  // words of one
constexpr std::uint64_t slots_at_once = 64;
constexpr std::uint64_t shares = 8;  // of what is left: so little is left over in the end

}  // namespace

void loader::reserve(table& t, std::uint64_t rows) {
  if (rows == 0) return;
  t.expected_ = rows;
  t.primary_->reserve(rows);
}

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
  mine.bare = t.layout().apart() == 0;
  if (!mine.bare) {  // when the table goes, it looks for values in all slots
    mine.next = t.take_fresh(slots_at_once, loading);
    mine.end = mine.next + slots_at_once;
    return;
  }
  const std::uint64_t left = t.expected_ - std::min(t.expected_, t.slots());
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

/// Gives the image's values in these columns that lie apart blocks of their own. Throws
/// std::bad_alloc; then it has none.
void loader::make_apart(const table& t, std::uint64_t columns) {
  value_list made;
  try {
    each_column(t.layout().apart() & columns, [&](std::uint32_t c) {
      std::uint64_t* const words = image_.data() + t.layout().span_of(c).first;
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
  place.store(t.layout().whole().runs, image_.data());
  finish_row(*place.head, shape);
}

void loader::finish_row(row_head& head, std::uint64_t shape) noexcept {
  head.shape.store_relaxed(shape);
  head.stamp.store_relaxed(stamp_of_all);
  // release → the acquires of who locks the row when the database is open.
  head.lock.store_release(unlocked);
}

void loader::put(table& t, decoder& row, const key_words& key, std::uint64_t slot) {
  const std::uint64_t shape = read_row_image(row, t.layout(), false, image_.data());
  const bool fresh = slot == no_slot;
  if (fresh) slot = slot_for(t);
  const row_place place = t.at(slot);
  make_apart(t);
  if (!fresh) engine_.values.free_row(t.layout(), place, every_column);
  write_row(t, place, shape);
  if (fresh) t.primary_->claim(key, slot);
}

void loader::set(table& t, decoder& row, std::uint64_t slot) {
  if (slot == no_slot) throw malformed("a row is changed that does not exist");
  const schema& s = t.layout();
  const set_columns set = read_columns(row, s, image_.data());
  const row_place place = t.at(slot);
  make_apart(t, set.columns);
  engine_.values.free_row(s, place, set.columns);
  each_column(set.columns, [&](std::uint32_t c) {
    const column_span span = s.span_of(c);
    place.store(span, image_.data() + span.first);
  });
  finish_row(*place.head, (place.head->shape.load_relaxed() & ~set.columns) | set.nulls);
}

void loader::erase(table& t, const key_words& key, std::uint64_t slot) {
  if (slot == no_slot) throw malformed("a row is erased that does not exist");
  if (!t.primary_->remove(key, slot)) throw std::bad_alloc();
  engine_.values.free_row(t.layout(), t.at(slot), every_column);
  t.at(slot).head->stamp.store_relaxed(0);
  t.give_slot(slot);
}

/// Fetches what a row's change will write.
void loader::expect_row(const table& t, std::uint64_t slot) noexcept {
  const row_place place = t.at(slot);
  __builtin_prefetch(place.head, 1);
  place.each_word(t.layout().whole().runs, [](std::size_t i, const auto& word) {
    if (i < most_expected) __builtin_prefetch(&word, 1);
  });
}

key_words loader::key_of(const row_edit& e) {
  const schema& s = e.of->layout();
  decoder from(e.row);
  read_row_image(from, s, true, image_.data());
  if (e.what == row_change::erase && !from.done())
    throw malformed("a change is longer than its key");
  return s.key_of(s.key(), image_.data());
}

void loader::make(std::span<const row_edit> edits, const row_edit*& now) {
  while (!edits.empty()) {
    std::size_t count = 1;  // of one table
    while (count < std::min(at_once, edits.size()) && edits[count].of == edits[0].of) ++count;
    make_some(*edits[0].of, edits.first(count), now);
    edits = edits.subspan(count);
  }
}

/// A row is met after two misses of the caches: those of several rows run beside each other.
void loader::make_some(table& t, std::span<const row_edit> edits, const row_edit*& now) {
  std::array<key_words, at_once> keys;
  std::array<std::uint64_t, at_once> slots;
  image_.resize(t.layout().words());
  for (std::size_t i = 0; i < edits.size(); ++i) {
    now = &edits[i];
    keys[i] = key_of(*now);
  }
  bool right = t.primary_->guess_all(std::span(keys).first(edits.size()), slots.data());
  for (std::size_t i = 0; i < edits.size(); ++i) {
    if (slots[i] != no_slot) expect_row(t, slots[i]);
  }
  for (std::size_t i = 0; i < edits.size(); ++i) {
    now = &edits[i];
    if (!right) slots[i] = t.primary_->find(keys[i]);
    // The key may come again.
    if (slots[i] == no_slot || now->what == row_change::erase) right = false;
    decoder from(now->row);
    if (now->what == row_change::erase) {
      erase(t, keys[i], slots[i]);
      continue;
    }
    now->what == row_change::put ? put(t, from, keys[i], slots[i]) : set(t, from, slots[i]);
    if (!from.done()) throw malformed("a change is longer than its row");
  }
}

/// Rows that lie in the file as their images do, as many as a block of the table has: column by
/// column. False: they do not, or there is no whole block for them.
bool loader::put_block(table& t, decoder& from, key_words* keys, std::uint64_t* slots) {
  const schema& s = t.layout();
  if (!s.words_only()) return false;
  range& mine = range_of(t);
  if (mine.next == mine.end) take_slots(t, mine);
  if (mine.next % rows_per_block != 0) return false;  // the range ends with a block
  const bytes_view rows = take_as_they_are(from, s, rows_per_block);
  if (rows.empty()) return false;
  t.construct_block(mine.next);
  const row_place first = t.at(mine.next);
  const std::size_t length = rows.size() / rows_per_block;
  const std::size_t keyed = s.key().size();
  for (std::size_t w = 0; w < s.words(); ++w) {
    const std::byte* const column = rows.data() + (w < keyed ? w : w + 1) * sizeof(w);
    for (std::size_t i = 0; i < rows_per_block; ++i) {
      first.block[w * rows_per_block + i].store_relaxed(
          from_little<std::uint64_t>(column + i * length));
    }
  }
  for (std::size_t i = 0; i < rows_per_block; ++i) {
    std::memcpy(image_.data(), rows.data() + i * length, keyed * sizeof(keyed));
    keys[i] = s.key_of(s.key(), image_.data());
    slots[i] = mine.next++;
    finish_row(first.head[i], row_exists);
  }
  return true;
}

void loader::put_some(table& t, decoder& from, std::span<key_words> keys, std::uint64_t* slots) {
  const schema& s = t.layout();
  for (std::size_t i = 0; i < keys.size();) {
    if (keys.size() - i >= rows_per_block && put_block(t, from, &keys[i], slots + i)) {
      i += rows_per_block;
      continue;
    }
    const std::uint64_t shape = read_row_image(from, s, false, image_.data());
    slots[i] = slot_for(t);
    make_apart(t);
    write_row(t, t.at(slots[i]), shape);
    keys[i++] = s.key_of(s.key(), image_.data());
  }
}

void loader::put_all(table& t, decoder& from, std::uint64_t rows, bool claim_each) {
  image_.resize(t.layout().words());
  notes_.resize(most_notes);
  std::array<key_words, keys_at_once> room;
  std::array<std::uint64_t, keys_at_once> slots;
  std::size_t noted = 0;
  while (rows != 0) {
    const auto keys = std::span(room).first(std::min<std::uint64_t>(keys_at_once, rows));
    put_some(t, from, keys, slots.data());
    rows -= keys.size();
    if (claim_each || !t.primary_->note_all(keys, slots.data(), notes_.data() + noted)) {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (t.primary_->claim(keys[i], slots[i]) != slots[i]) throw malformed("a key comes twice");
      }
      continue;
    }
    noted += keys.size();
    if (rows != 0 && noted + keys_at_once <= most_notes) continue;
    t.primary_->keep(std::span(notes_).first(std::exchange(noted, 0)));
  }
}

loading_crew::loading_crew(engine& of, read_buffers& buffers, std::uint32_t threads)
    : engine_(of), buffers_(buffers) {
  for (std::uint32_t i = 0; threads > 1 && i < threads; ++i) {
    workers_.push_back(std::make_unique<worker>(engine_));
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    worker& w = *workers_[i];
    try {
      w.runs = std::thread([this, &w] { run(w); });
    } catch (...) {  // the system has no more: then by fewer, or alone
      workers_.resize(i);
    }
  }
}

loading_crew::~loading_crew() {
  for (const auto& w : workers_) {
    {
      const std::lock_guard hold(w->lock);
      w->stop = true;
    }
    w->changed.notify_all();
    w->runs.join();
  }
}

void loading_crew::run(worker& w) noexcept {
  std::unique_lock hold(w.lock);
  for (;;) {
    w.changed.wait(hold, [&] { return w.stop || !w.waiting.empty(); });
    if (w.stop) return;
    change_batch b = std::move(w.waiting.front());
    w.waiting.pop_front();
    w.busy = true;
    const bool skip = w.failed != nullptr;
    hold.unlock();
    std::exception_ptr failed;
    try {
      if (!skip) make(w.with, b);
    } catch (...) {
      failed = std::current_exception();
    }
    hold.lock();
    w.busy = false;
    if (failed) w.failed = failed;
    w.changed.notify_all();
  }
}

void loading_crew::make(loader& with, change_batch& b) {
  if (b.block_of != nullptr) return load(with, b);
  const row_edit* now = nullptr;
  try {
    with.make(b.changes, now);
  } catch (const malformed& e) {
    const auto at = static_cast<std::uint64_t>(now->row.data() - b.bytes->data.get());
    throw storage_error(b.file, b.at + at, e.what());
  }
}

void loading_crew::load(loader& with, change_batch& b) {
  b.read_block(buffers_);
  block_header h;
  read_block_header(b.bytes->view(), h);
  if (!block_whole(b.bytes->view(), h)) {
    throw storage_error(b.file, b.at, "the checksum of a block is wrong");
  }
  try {
    decoder from(b.bytes->view().subspan(block_header::bytes));
    with.put_all(*b.block_of, from, h.rows, b.claim_each);
    if (!from.done()) throw malformed("a block is longer than its rows");
  } catch (const malformed& e) {
    throw storage_error(b.file, b.at, e.what());
  }
}

void loading_crew::look(worker& w) {
  if (w.failed) std::rethrow_exception(w.failed);
}

void loading_crew::give(std::size_t worker_number, change_batch&& b) {
  if (workers_.empty()) return make(alone_, b);
  worker& w = *workers_[worker_number];
  {
    std::unique_lock hold(w.lock);
    w.changed.wait(hold, [&] { return w.waiting.size() < most_waiting || w.failed; });
    look(w);
    w.waiting.push_back(std::move(b));
  }
  w.changed.notify_all();
}

void loading_crew::abandon() {
  for (const auto& w : workers_) {
    std::unique_lock hold(w->lock);
    w->waiting.clear();
    w->changed.wait(hold, [&] { return !w->busy; });
    w->failed = nullptr;
    w->with.forget();
  }
  alone_.forget();
}

void loading_crew::finish() {
  for (const auto& w : workers_) {
    std::unique_lock hold(w->lock);
    w->changed.wait(hold, [&] { return w->waiting.empty() && !w->busy; });
    look(*w);
    w->with.release();
  }
  alone_.release();
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
