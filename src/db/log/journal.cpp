// SPDX-License-Identifier: Apache-2.0
// journal.cpp: commits on their way to the log.
#include "db/log/journal.hpp"

#include <algorithm>
#include <system_error>
#include <thread>

#include "base/entropy.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::chrono::hours longest_window{24};  // more cannot be counted in all units

}  // namespace

journal::journal(const engine& of, folder& where, const options& o)
    : engine_(of),
      writer_(of, where, o),
      level_(o.durability),
      window_(std::min<std::chrono::milliseconds>(o.loss_window, longest_window)),
      window_ticks_(static_cast<std::uint64_t>(
          static_cast<double>(std::chrono::nanoseconds(window_).count()) / core::ns_per_tick())) {}

journal::~journal() {
  const bool here = flusher_.here();
  if (here && flusher_->joinable()) {
    {
      const std::lock_guard hold(flush_lock_);
      stop_ = true;
    }
    flush_wanted_->notify_all();
    flusher_->join();
  }
  if (here) sync();  // what is queued in a child, its parent writes
  for (log_entry* e = queue_.abandon(); e != nullptr;) {
    log_entry* const next = e->next;
    writer_.give_back(e);
    e = next;
  }
}

void journal::start(const log_end& end, std::uint64_t origin, const opening_steps& steps) {
  epoch_ = end.epoch;
  // The thread first: that there is none must leave the files as they were.
  if (level_ == durability_level::async) {
    try {
      *flusher_ = std::thread([this] { run(); });
    } catch (const std::system_error& e) {
      throw storage_error(writer_.path(), storage_error::nowhere,
                          "the log's thread cannot be started", e.code());
    }
  }
  writer_.start(end, origin, steps);
  queue_.restart(end.sequence);
}

bool journal::admit() {
  at_work::must_not_wait(engine_, at_work::writing | at_work::lengthening, "commit()");
  if (queue_.failed()) return false;
  if (queue_.queued_bytes() <= most_queued) return true;
  return sync();
}

bool journal::acknowledge(const queue::place& where) noexcept {
  if (where.written) {
    writer_.look_ahead();
    return true;
  }
  // Where memory is the file, a commit that did not wait would let the queue grow, and then all
  // others would queue, too.
  if (level_ == durability_level::sync || writer_.in_place()) return queue_.wait(where.sequence);
  if (where.first) {
    ask_for_flush(false);
  } else if (queue_.queued_bytes() >= worth_a_flush && !hurry_.load_relaxed()) {
    ask_for_flush(true);
  }
  // While a flush takes longer than the window, commits wait for it.
  const std::uint64_t oldest = queue_.oldest();
  const std::uint64_t now = ticks::read();
  if (oldest != 0 && now > oldest && now - oldest > window_ticks_) {
    return queue_.wait(where.sequence);
  }
  return !queue_.in_doubt(where.sequence);
}

void journal::write_alone(bytes_view changes) {
  log_entry* const e = take();
  bool room = false;
  try {
    e->data.insert(e->data.end(), changes.begin(), changes.end());
    room = promise(*e, [] { return false; });
  } catch (...) {
    writer_.give_back(e);
    throw;
  }
  if (!room) {
    writer_.give_back(e);
    throw_refusal();
  }
  queue::place where;
  append(*e, where, [] { return 0; });
  if (where.written) writer_.give_back(e);
  if (!queue_.wait(where.sequence)) check();
}

void journal::ask_for_flush(bool now) noexcept {
  {
    const std::lock_guard hold(flush_lock_);
    wanted_ = true;
    if (now) hurry_.store_relaxed(true);
  }
  flush_wanted_->notify_one();
}

/// The thread of durability_level::async: half a window after something was queued, it is on its
/// way; or when there is much of it, while that is still in the caches.
void journal::run() noexcept {
  std::unique_lock hold(flush_lock_);
  for (;;) {
    flush_wanted_->wait(hold, [this] { return stop_ || wanted_; });
    if (stop_) return;
    wanted_ = false;
    // Once, and not until the time is over by a clock that may stand: to be early does no harm.
    if (!stop_ && !hurry_.load_relaxed()) flush_wanted_->wait_for(hold, window_ / 2);
    hurry_.store_relaxed(false);
    hold.unlock();
    sync();
    hold.lock();
  }
}

void journal::check() const {
  if (!failed()) return;
  if (const auto why = writer_.failure()) {
    throw storage_error(why->file(), why->offset(), why->problem() + until_resumed, why->reason(),
                        why->fault());
  }
  throw storage_error("the log", storage_error::nowhere,
                      std::string("cannot be written") + until_resumed);
}

void journal::throw_refusal() {
  check();
  if (const auto why = writer_.refusal()) throw storage_error(*why);
  // There was no memory for the reason; or the log had failed, and has begun again by now.
  throw storage_error("the log", storage_error::nowhere, "could not be written");
}

std::string journal::why_not() {
  const bool has_failed = failed();
  std::string why = has_failed ? writer_.failure_in_words() : writer_.refusal_in_words();
  return why.empty() && has_failed ? "the log cannot be written" : why;
}

/// The record of a cut, with its room.
log_entry* journal::begin_cut() {
  log_entry* const e = take();
  e->kind = record_kind::cut;
  e->complete();
  bool room = false;
  try {
    room = !failed() && promise(*e, [] { return false; });
  } catch (const std::bad_alloc&) {
    writer_.give_back(e);
    throw;
  }
  if (room) return e;
  writer_.give_back(e);
  throw_refusal();
}

/// The segment that has failed may have records behind what is durable, and two histories come to
/// the same numbers there: so the one that begins has a chain of its own.
std::uint32_t journal::another_chain() const {
  std::uint32_t chain = 0;
  while (chain == 0 || chain == writer_.chain()) {
    chain = static_cast<std::uint32_t>(core::random_bits());
  }
  return chain;
}

resumed_commits journal::in_doubt() const {
  resumed_commits told;
  writer_.tell(told);
  std::sort(told.times.begin(), told.times.end());  // of serializable ones the later may come first
  return told;
}

resumed_commits journal::begin_again(const log_end& end, std::uint64_t origin) {
  resumed_commits told = in_doubt();
  const auto make_new = [&] { writer_.begin_again(end, origin); };
  const auto write = [&](log_entry* first, std::uint64_t durable) {
    return writer_.write_since(first, durable, told);
  };
  if (!queue_.begin_again(end.sequence, make_new, write, [&] { writer_.nothing_in_doubt(); })) {
    check();
  }
  std::sort(told.times.begin(), told.times.end());  // of serializable ones the later may come first
  return told;
}

void journal::fill(log_stats& s) const noexcept {
  writer_.fill(s);
  s.sequence = queue_.last();
  s.durable = queue_.durable();
  s.failed = queue_.failed();
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
