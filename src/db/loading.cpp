// SPDX-License-Identifier: Apache-2.0
// loading.cpp: putting rows into tables that nobody else uses yet.
#include <algorithm>
#include <string>
#include <utility>

#include "recovery.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::uint64_t loading = 1;       // in a row's lock
constexpr std::uint64_t stamp_of_all = 1;  // what the clock says at first

}  // namespace

table& loader::create(engine& of, const table_spec& spec) {
  for (const auto& t : of.tables) {
    if (t->name() == spec.name) throw malformed("a table is made twice");
  }
  try {
    of.tables.push_back(std::make_unique<table>(spec, of));
  } catch (const std::invalid_argument& e) {
    throw malformed(e.what());
  }
  table& made = *of.tables.back();
  made.number_ = static_cast<std::uint32_t>(of.tables.size() - 1);
  return made;
}

void loader::put(table& t, decoder& row) {
  const schema& s = t.layout();
  image_.resize(s.words());
  const std::uint64_t shape = read_row_image(row, s, false, image_.data());
  const key_words key = s.key_of(s.key(), image_.data());
  std::uint64_t slot = t.primary_->find(key);
  const bool fresh = slot == no_slot;
  if (fresh) slot = t.take_slot(loading);
  const row_place place = t.at(slot);
  place.store(s.whole().runs, image_.data());
  place.head->shape.store_relaxed(shape);
  place.head->stamp.store_relaxed(stamp_of_all);
  if (!fresh) return;
  try {
    t.primary_->claim(key, slot);
  } catch (...) {
    t.give_slot(slot);
    throw;
  }
  // release → the acquires of who locks the row when the database is open.
  place.head->lock.store_release(unlocked);
}

void loader::erase(table& t, decoder& from) {
  const schema& s = t.layout();
  image_.resize(s.words());
  read_row_image(from, s, true, image_.data());
  const key_words key = s.key_of(s.key(), image_.data());
  const std::uint64_t slot = t.primary_->find(key);
  if (slot == no_slot) throw malformed("a row is erased that does not exist");
  if (!t.primary_->remove(key, slot)) throw std::bad_alloc();
  row_head& head = *t.at(slot).head;
  head.stamp.store_relaxed(0);
  t.give_slot(slot);
}

void loader::index(table& t, std::uint64_t first, std::uint64_t end) {
  const schema& s = t.layout();
  image_.resize(s.words());
  for (std::uint64_t slot = first; slot < end; ++slot) {
    const row_place place = t.at(slot);
    if (place.head->lock.load_relaxed() == free_slot) continue;
    place.load(s.whole().runs, image_.data());
    for (const auto& i : t.secondaries_) {
      i->entries_->add(s.key_of(i->columns_, image_.data()), slot, engine_.next_claim());
    }
  }
}

loading_crew::loading_crew(engine& of, std::uint32_t threads) : engine_(of) {
  for (std::uint32_t i = 0; threads > 1 && i < threads; ++i) {
    workers_.push_back(std::make_unique<worker>());
    worker& w = *workers_.back();
    w.runs = std::thread([this, &w] { run(w); });
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
  loader with(engine_);
  std::unique_lock hold(w.lock);
  for (;;) {
    w.changed.wait(hold, [&] { return w.stop || !w.waiting.empty(); });
    if (w.stop) return;
    const change_batch b = std::move(w.waiting.front());
    w.waiting.pop_front();
    w.busy = true;
    const bool skip = w.failed != nullptr;
    hold.unlock();
    std::exception_ptr failed;
    try {
      if (!skip) make(with, b);
    } catch (...) {
      failed = std::current_exception();
    }
    hold.lock();
    w.busy = false;
    if (failed) w.failed = failed;
    w.changed.notify_all();
  }
}

void loading_crew::make(loader& with, const change_batch& b) {
  if (b.block_of != nullptr) return load(with, b);
  for (const change_batch::change& c : b.changes) {
    decoder from(c.row);
    try {
      c.what == row_change::put ? with.put(*c.of, from) : with.erase(*c.of, from);
      if (!from.done()) throw malformed("a change is longer than its row");
    } catch (const malformed& e) {
      const auto at = static_cast<std::uint64_t>(c.row.data() - b.bytes->data.get());
      throw storage_error(b.file, b.at + at, e.what());
    }
  }
}

void loading_crew::load(loader& with, const change_batch& b) {
  block_header h;
  read_block_header(b.bytes->view(), h);
  if (!block_whole(b.bytes->view(), h)) {
    throw storage_error(b.file, b.at, "the checksum of a block is wrong");
  }
  try {
    decoder from(b.bytes->view().subspan(block_header::bytes));
    for (std::uint64_t n = 0; n < h.rows; ++n) with.put(*b.block_of, from);
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
  }
}

void loading_crew::finish() {
  for (const auto& w : workers_) {
    std::unique_lock hold(w->lock);
    w->changed.wait(hold, [&] { return w->waiting.empty() && !w->busy; });
    look(*w);
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
