// SPDX-License-Identifier: Apache-2.0
// loading_pool.cpp: the threads that put rows into tables.
#include <memory>
#include <mutex>
#include <utility>

#include <spolia/base/unwind.hpp>

#include "db/log/recovery.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

loading_pool::loading_pool(engine& of, read_buffers& buffers, std::uint32_t threads)
    : engine_(of), buffers_(buffers) {
  for (std::uint32_t i = 0; threads > 1 && i < threads; ++i) {
    workers_.push_back(std::make_unique<worker>(engine_));
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    worker& w = *workers_[i];
    try {
      w.runs = std::thread([this, &w] { run(w); });
    } catch (...) {  // the system has no more: then by fewer, or alone
      let_unwinding_pass();
      workers_.resize(i);
    }
  }
}

loading_pool::~loading_pool() {
  for (const auto& w : workers_) {
    {
      const std::lock_guard hold(w->lock);
      w->stop = true;
    }
    w->changed.notify_all();
    w->runs.join();
  }
}

void loading_pool::run(worker& w) noexcept {
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
      let_unwinding_pass();
      failed = std::current_exception();
    }
    hold.lock();
    w.busy = false;
    if (failed) w.failed = failed;
    // The thread that gives batches is not woken for each of them.
    if (w.failed || w.waiting.size() <= most_waiting / 2) w.changed.notify_all();
  }
}

void loading_pool::make(loader& with, change_batch& b) {
  if (b.block_of != nullptr) return load(with, b);
  const row_edit* now = nullptr;
  try {
    with.make(b.changes, now);
  } catch (const malformed& e) {
    const auto at = static_cast<std::uint64_t>(now->begin - b.bytes->data.get());
    throw damage_at(b.file, b.at + at, e.what());
  }
}

void loading_pool::load(loader& with, change_batch& b) {
  b.read_block(buffers_);
  block_header h;
  read_block_header(b.bytes->view(), h);
  if (!block_whole(b.bytes->view(), h)) {
    throw damage_at(b.file, b.at, "the checksum of a block is wrong");
  }
  try {
    decoder from(b.bytes->view().subspan(block_header::bytes));
    with.put_all(*b.block_of, from, h.rows, b.claim_each);
    if (!from.done()) throw malformed("a block is longer than its rows");
  } catch (const malformed& e) {
    throw damage_at(b.file, b.at, e.what());
  }
}

void loading_pool::look(worker& w) {
  if (w.failed) std::rethrow_exception(w.failed);
}

void loading_pool::give(std::size_t worker_number, change_batch&& b) {
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

void loading_pool::abandon() {
  for (const auto& w : workers_) {
    std::unique_lock hold(w->lock);
    w->waiting.clear();
    w->changed.wait(hold, [&] { return !w->busy; });
    w->failed = nullptr;
    w->with.forget();
  }
  alone_.forget();
}

void loading_pool::finish() {
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
