// SPDX-License-Identifier: Apache-2.0
// log_writer.cpp: records into segments.
#include "journal.hpp"

#include <algorithm>
#include <new>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::size_t staging_bytes = 1U << 20U;
constexpr std::size_t most_kept = 8U << 20U;  // bytes of records that wait to be used again
constexpr std::size_t longest_kept = 64U << 10U;
constexpr std::chrono::microseconds quick_flush{50};
constexpr std::uint32_t slow_enough = 4;  // syncs, one after the other
constexpr std::uint64_t most_ahead = 1U << 20U;

}  // namespace

log_writer::log_writer(folder& where, const options& o)
    : folder_(where),
      segment_bytes_(o.segment_bytes),
      staged_(staging_bytes),
      ns_per_tick_(core::ns_per_tick()),
      collects_(o.durability == durability_level::sync) {}

log_writer::~log_writer() {
  try {
    // Not after a failure: then nothing more is written.
    if (at_home() && segment_ != nullptr && used_ == 0 && !dirty_) end_room();
  } catch (const storage_error&) {
    // The zeros stay: the next opening cuts them off.
  }
  while (free_ != nullptr) delete std::exchange(free_, free_->next);
  for (const spare& s : spare_) delete s.entry.load_relaxed();
}

log_entry* log_writer::take(std::uint32_t session) {
  // acquire ← the release in give_back(): what the last who had it did.
  log_entry* const e = spare_[session % most_spare].entry.exchange_acquire(nullptr);
  if (e == nullptr) return take();
  e->data.resize(record_header::bytes);
  return e;
}

void log_writer::give_back(log_entry* e, std::uint32_t session) noexcept {
  if (e->data.capacity() > longest_kept) return give_back(e);
  // release → the acquire in take(); acquire ← the same of another session with this place.
  give_back(spare_[session % most_spare].entry.exchange_acq_rel(e));
}

log_entry* log_writer::take() {
  log_entry* e = nullptr;
  {
    const std::lock_guard hold(free_lock_);
    if (free_ != nullptr) {
      e = std::exchange(free_, free_->next);
      free_bytes_.store_relaxed(free_bytes_.load_relaxed() - e->data.capacity());
    }
  }
  std::unique_ptr<log_entry> made(e != nullptr ? e : new log_entry);
  made->data.resize(record_header::bytes);
  made->kind = record_kind::transaction;
  made->cut = nullptr;
  return made.release();
}

void log_writer::give_back(log_entry* e) noexcept {
  if (e == nullptr) return;
  e->next = nullptr;
  give_back_all(e);
}

void log_writer::give_back_all(log_entry* first) noexcept {
  // Others wait for the lock: the entries, which are cold, are looked at before.
  log_entry* kept = nullptr;
  log_entry* last_kept = nullptr;
  std::size_t kept_bytes = free_bytes_.load_relaxed();
  const std::size_t before = kept_bytes;
  while (first != nullptr) {
    log_entry* const e = std::exchange(first, first->next);
    const std::size_t bytes = e->data.capacity();
    if (bytes > longest_kept || kept_bytes + bytes > most_kept) {
      delete e;
      continue;
    }
    kept_bytes += bytes;
    e->next = kept;
    if (kept == nullptr) last_kept = e;
    kept = e;
  }
  if (kept == nullptr) return;
  const std::lock_guard hold(free_lock_);
  last_kept->next = std::exchange(free_, kept);
  free_bytes_.store_relaxed(free_bytes_.load_relaxed() + kept_bytes - before);
}

void log_writer::start(const log_end& end) {
  end_ = end;
  epoch_.store_relaxed(end.epoch);
  begin_segment(prepare_segment());
}

/// Everything that takes memory. It has another name yet, so that a segment without a whole header
/// is never found.
log_writer::fresh_segment log_writer::prepare_segment() {
  fresh_segment next;
  next.name = file_name(file_kind::log, end_.sequence + 1);
  next.temporary = next.name + ".tmp";
  next.file = folder_.open(next.temporary, file_mode::fresh);
  const auto header = write_header(file_kind::log, {.id = folder_.id(),
                                                    .sequence = end_.sequence + 1,
                                                    .epoch = end_.epoch,
                                                    .chain = end_.chain});
  next.file->write(0, header);
  next.file->sync();
  return next;
}

/// What comes before it is durable.
void log_writer::begin_segment(fresh_segment next) {
  window_ = {};
  {
    const std::lock_guard hold(ahead_lock_);
    forget_ahead();
    segment_.reset();
  }
  folder_.rename(next.temporary, next.name);
  folder_.sync();
  segment_ = std::move(next.file);  // nobody is asked to make it longer yet
  size_ = room_ = file_header::bytes;
  ended_ = false;
}

bool log_writer::long_enough() const noexcept {
  const std::uint64_t size = size_ + used_;
  return ended_ || (size >= segment_bytes_ && size > file_header::bytes);
}

/// A segment that is long enough ends here; or later, if there is no memory to begin another one.
/// One that has its end already must not get more.
void log_writer::next_segment() {
  if (!long_enough()) return;
  std::optional<fresh_segment> next;
  try {
    next = prepare_segment();
  } catch (const std::bad_alloc&) {
    if (ended_) throw;
    return;
  }
  end_room();
  make_durable();
  begin_segment(std::move(*next));
}

/// The record of a cut was written: another segment begins at once. Without memory, whoever cuts is
/// told so, and it begins with the next record.
void log_writer::end_segment(cut_result& done) {
  end_room();
  make_durable();
  done.crc = end_.chain;
  ended_ = true;
  std::optional<fresh_segment> next;
  try {
    next = prepare_segment();
  } catch (const std::bad_alloc&) {
    return;
  }
  begin_segment(std::move(*next));
  done.begun = true;
}

bool log_writer::write(log_entry* first, std::uint64_t durable) noexcept {
  bool done = false;
  try {
    write_all(first, durable);
    done = true;
    flushes_.store_relaxed(flushes_.load_relaxed() + 1);
  } catch (const std::exception& e) {
    keep_failure(e);
  }
  give_back_all(first);
  return done;
}

/// As much of it as there is memory for.
void log_writer::keep_failure(const std::exception& why) noexcept {
  try {
    if (const auto* const known = dynamic_cast<const storage_error*>(&why)) {
      failure_ = *known;
    } else {
      failure_.emplace(folder_.path(), storage_error::nowhere,
                       std::string("cannot write the log: ") + why.what());
    }
  } catch (const std::bad_alloc&) {
    failure_.reset();
  }
}

void log_writer::write_all(log_entry* first, std::uint64_t durable) {
  used_ = 0;
  for (log_entry* e = first; e != nullptr; e = e->next) {
    next_segment();
    seal(*e, durable);
    stage(e->data);
    if (e->kind == record_kind::cut) end_segment(*e->cut);
  }
  make_durable();
}

/// It is the next one.
void log_writer::seal(log_entry& e, std::uint64_t durable) noexcept {
  end_.chain = seal_record(e.data, {.chain = end_.chain,
                                    .sequence = e.sequence,
                                    .durable = durable,
                                    .epoch = end_.epoch,
                                    .kind = e.kind});
  end_.sequence = e.sequence;
  bytes_.store_relaxed(bytes_.load_relaxed() + e.data.size());  // by who leads alone
}

/// All before it is durable. What needs the system, as another part of the segment, is write()'s.
bool log_writer::at_once(log_entry& e) noexcept {
  if (long_enough() || used_ != 0 || dirty_) return false;
  if (window_.size() < e.data.size() && !take_ahead(e.data.size())) return false;
  seal(e, end_.sequence);
  put(e.data);
  flushes_.store_relaxed(flushes_.load_relaxed() + 1);
  if (window_.size() < ask_at_) ask_ahead();
  return true;
}

void log_writer::make_durable() {
  if (used_ == 0 && !dirty_) return;
  const std::uint64_t start = ticks::read();
  if (used_ != 0 && !dirty_) {
    segment_->write_and_sync(size_, bytes_view(staged_).first(used_));
    size_ += std::exchange(used_, 0);
  } else {
    write_staged();
    segment_->sync();
    dirty_ = false;
  }
  const auto spent = static_cast<double>(ticks::read() - start);
  took_ = std::chrono::nanoseconds(static_cast<std::int64_t>(spent * ns_per_tick_));
  // One alone says little: the thread may have been interrupted.
  slow_ = took_ < quick_flush ? 0 : slow_ + 1;
  quick_.store_relaxed(slow_ < slow_enough);
  const auto ns = static_cast<std::uint64_t>(took_.count());
  longest_ns_.store_relaxed(std::max(longest_ns_.load_relaxed(), ns));
}

/// A file that is long enough already is quicker to write to: a sync has the data alone to care
/// for.
void log_writer::make_room(std::size_t bytes) {
  if (size_ + used_ + bytes <= room_) return;
  write_staged();
  const std::lock_guard hold(ahead_lock_);
  if (!ahead_.empty() && bytes <= window_.size() + ahead_.size()) return use_ahead();
  const std::size_t more = std::max<std::uint64_t>(bytes, std::min(most_ahead, segment_bytes_));
  room_ = std::max(room_ + ahead_.size(), size_ + more);
  forget_ahead();
  window_ = segment_->extend(size_, more);
  in_place_.store_relaxed(!window_.empty());
  if (!window_.empty() && room_ < segment_bytes_) ask_at_ = most_ahead / 2;
}

/// By who has the lead, and waits for nobody: else it is the next one's turn. Not before the last
/// window but one is done with: it ends when there is another one.
void log_writer::ask_ahead() noexcept {
  const std::unique_lock hold(ahead_lock_, std::try_to_lock);
  if (!hold) return;
  ask_at_ = 0;
  ahead_from_ = room_;
  ahead_wanted_.store_relaxed(true);
}

/// By somebody who leads nothing, and holds no other lock. If it cannot be done, who needs it will
/// be told why.
void log_writer::make_ahead() noexcept {
  const std::lock_guard hold(ahead_lock_);
  const std::uint64_t from = std::exchange(ahead_from_, 0);
  if (from == 0) return;  // the segment has come to its end, or was made longer by its leader
  try {
    ahead_ = segment_->extend(from, most_ahead);
  } catch (const std::exception&) {
    ahead_ = {};
  }
}

/// For so many bytes, by who has the lead. Waits for nobody.
bool log_writer::take_ahead(std::size_t bytes) noexcept {
  const std::unique_lock hold(ahead_lock_, std::try_to_lock);
  if (!hold || ahead_.empty() || bytes > window_.size() + ahead_.size()) return false;
  use_ahead();
  return true;
}

/// Under the lock, by who has the lead.
void log_writer::use_ahead() noexcept {
  room_ += ahead_.size();
  (window_.empty() ? window_ : behind_) = std::exchange(ahead_, {});
  if (room_ < segment_bytes_) ask_at_ = most_ahead / 2;
}

/// The same.
void log_writer::forget_ahead() noexcept {
  behind_ = {};
  ahead_ = {};
  ahead_from_ = 0;
  ask_at_ = 0;
}

/// Nothing more comes.
void log_writer::end_room() {
  write_staged();
  const std::lock_guard hold(ahead_lock_);
  room_ += ahead_.size();
  forget_ahead();
  if (size_ == room_) return;
  window_ = {};
  dirty_ = true;
  segment_->truncate(size_);
  room_ = size_;
}

void log_writer::stage(bytes_view record) {
  make_room(record.size());
  if (!window_.empty()) {
    dirty_ = true;
    return put(record);
  }
  if (record.size() > staged_.size() - used_) write_staged();
  if (record.size() > staged_.size()) {
    dirty_ = true;
    segment_->write(size_, record);
    size_ += record.size();
    return;
  }
  std::copy(record.begin(), record.end(), staged_.begin() + static_cast<std::ptrdiff_t>(used_));
  used_ += record.size();
}

/// Into the window, and what is behind it, which are long enough.
void log_writer::put(bytes_view record) noexcept {
  size_ += record.size();
  if (record.size() >= window_.size()) {
    std::copy_n(record.begin(), window_.size(), window_.begin());
    record = record.subspan(window_.size());
    window_ = std::exchange(behind_, {});
  }
  std::copy(record.begin(), record.end(), window_.begin());
  window_ = window_.subspan(record.size());
}

void log_writer::write_staged() {
  if (used_ == 0) return;
  dirty_ = true;
  segment_->write(size_, bytes_view(staged_).first(used_));
  size_ += used_;
  used_ = 0;
}

/// Looking on costs less than sleeping where another's write is nearly over. Whoever gives the
/// processor away instead gets it back when all others have had their turn.
bool log_writer::pause(std::uint32_t times) const noexcept {
  constexpr std::uint32_t most = 40;
  constexpr int step = 4;
  if (!quick() || times >= most) return false;
  for (int i = 0; i < step; ++i) cpu_relax();
  return true;
}

void log_writer::give_way(std::chrono::nanoseconds at_most) noexcept {
  constexpr std::chrono::microseconds step{50};
  if (at_most > 2 * step) {
    std::this_thread::sleep_for(step);
  } else {
    std::this_thread::yield();
  }
}

void log_writer::fill(log_stats& s) const noexcept {
  s.epoch = epoch_.load_relaxed();
  s.bytes = bytes_.load_relaxed();
  s.flushes = flushes_.load_relaxed();
  s.longest_flush = std::chrono::nanoseconds(longest_ns_.load_relaxed());
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
