// SPDX-License-Identifier: Apache-2.0
// log_writer.cpp: records into segments.
#include "db/log/journal.hpp"

#include <algorithm>
#include <new>

#include <spolia/base/unwind.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::size_t staging_bytes = 1U << 20U;
constexpr std::size_t most_kept = 8U << 20U;  // bytes of records that wait to be used again
constexpr std::size_t longest_kept = 64U << 10U;
constexpr std::chrono::microseconds quick_flush{50};
constexpr std::uint32_t slow_enough = 4;  // syncs, one after the other
constexpr std::uint64_t most_ahead = 1U << 20U;
constexpr const char* write_call = "a write to the log";
/// For commits that free room: some thousand deletions, one by one, or ten thousand together. A
/// small segment has as much as it is long.
constexpr std::uint64_t kept_room = 256U << 10U;
/// Of the room that a process has when it is killed, the next one must get a segment, and the one
/// after that. A file system gives room back by its blocks: that are four of most.
constexpr std::uint64_t opening_room = 16U << 10U;
/// What room is looked for in, where there is less than is wanted.
constexpr std::uint64_t least_part = 512;

}  // namespace

log_writer::log_writer(const engine& of, folder& where, const options& o)
    : engine_(of),
      folder_(where),
      segment_bytes_(o.segment_bytes),
      step_(std::min(most_ahead, segment_bytes_)),
      next_at_(segment_bytes_),
      staged_(staging_bytes),
      ns_per_tick_(core::ns_per_tick()),
      collects_(o.durability == durability_level::sync),
      reserve_(where, file_header::bytes + std::min(kept_room, segment_bytes_) + opening_room),
      room_left_(std::min(kept_room, segment_bytes_), opening_room) {}

log_writer::~log_writer() {
  try {
    // Not after a failure: then nothing more is written.
    if (at_home() && segment_ != nullptr && !broken_.load_relaxed()) end_room();
  } catch (const storage_error&) {
    // The zeros stay: the next opening cuts them off.
  }
  while (free_ != nullptr) delete std::exchange(free_, free_->next);
  while (doubtful_ != nullptr) delete std::exchange(doubtful_, doubtful_->next);
  for (const spare& s : spare_) delete s.entry.load_relaxed();
}

log_entry* log_writer::take(std::uint32_t session) {
  // acquire ← the release in give_back(): what the last thread that had it did.
  log_entry* const e = spare_[session % most_spare].entry.exchange_acquire(nullptr);
  if (e == nullptr) return take();
  e->data.resize(record_header::bytes);
  return e;
}

void log_writer::give_back(log_entry* e, std::uint32_t session) noexcept {
  if (e->data.capacity() > longest_kept) return give_back(e);
  // release → the acquire in take(); acquire ← the same of another thread record with this
  // position.
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
  made->commit = 0;
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

void log_writer::start(const log_end& end, std::uint64_t origin, const opening_steps& steps) {
  end_ = end;
  origin_ = origin;
  epoch_.store_relaxed(end.epoch);
  fresh_segment first(folder_);
  prepare_first(first, steps.cut_zeros);
  steps.before_name();
  name_segment(first);
  lengthen_first(first);
  room_left_.begin(first.room);
  {
    const std::lock_guard hold(room_lock_);
    use_segment(first);
  }
  reserve_.refill();
}

byte_buffer log_writer::next_header() const {
  const auto header = write_header(file_kind::log, {.id = folder_.id(),
                                                    .sequence = end_.sequence + 1,
                                                    .epoch = end_.epoch,
                                                    .chain = end_.chain,
                                                    .origin = origin_});
  return {header.begin(), header.end()};
}

std::string log_writer::next_name() const { return file_name(file_kind::log, end_.sequence + 1); }

/// It has another name yet, so that a segment without a whole header is never found. It has room
/// for a step and what is kept, or at least for `least` bytes.
void log_writer::prepare_segment(fresh_segment& next, std::uint64_t least) const {
  next.name = next_name();
  next.temporary = next.name + ".tmp";
  next.passing = true;
  next.file = folder_.open(next.temporary, file_mode::fresh);
  next.file->write(0, next_header());
  next.room = std::max(step_ + room_left_.kept(), least);
  try {
    next.file->reserve(file_header::bytes, next.room);
  } catch (const storage_error& e) {
    if (!means_full(e) || next.room == least) throw;
    next.room = least;
    if (least != 0) next.file->reserve(file_header::bytes, least);
  }
  next.file->sync();
}

/// Of an opening: where there is no room, it is the reserve. A process that was killed may have
/// used that, and has left what it had set aside behind its last record: that is room, too. A
/// segment that gets less than it should have is better than none: nothing else can be deleted in.
void log_writer::prepare_first(fresh_segment& next, const std::function<void()>& cut_zeros) {
  try {
    return prepare_segment(next, room_left_.kept());
  } catch (const storage_error& e) {
    if (!means_full(e)) throw;
  }
  next.file.reset();
  remove_quietly(folder_, next.temporary);
  next.passing = false;
  if (prepare_from_reserve(next)) return;
  cut_zeros();
  try {
    prepare_segment(next, 0);
    lengthen_first(next);
  } catch (const storage_error& e) {
    if (!means_full(e)) throw;
    throw storage_error(folder_.path(), storage_error::nowhere,
                        "there is no room for the next segment of the log, and no reserve: make "
                        "room for 4 KiB, or open it read_only",
                        e.reason());
  }
}

/// By as much as there is room for, up to what is kept. Nothing fails for it: a commit finds out.
void log_writer::lengthen_first(fresh_segment& next) const noexcept {
  const std::uint64_t wanted = room_left_.kept();
  for (std::uint64_t part = wanted; next.room < wanted && part >= least_part;) {
    try {
      part = std::min(part, wanted - next.room);
      next.file->reserve(file_header::bytes + next.room, part);
      next.room += part;
    } catch (const std::exception&) {
      part /= 2;
    }
  }
}

/// False: there is none, or it has not the room that it should have.
bool log_writer::prepare_from_reserve(fresh_segment& next) {
  next.file = reserve_.open();
  if (next.file == nullptr) return false;
  // It may have been made with smaller segments; to make it longer would need what there is not.
  // Where a layer of files reserves without making files longer, it has no size.
  const std::uint64_t size = next.file->size();
  next.room = size > file_header::bytes ? std::min(size, reserve_.bytes()) : reserve_.bytes();
  next.room -= file_header::bytes;
  try {
    next.file->reserve(file_header::bytes, next.room);
    next.file->write(0, next_header());
  } catch (const storage_error& e) {
    if (!means_full(e)) throw;
    next.file.reset();
    return false;
  }
  next.file->sync();
  next.name = next_name();
  next.temporary = reserve_file::name;
  return true;
}

/// What comes before it is durable. If this fails, nothing has changed; but if the name cannot be
/// taken back either, it may be there after a loss of power, and what would be written to the
/// segment before it would not be read then: in_doubt_.
///
/// After an opening that has logged nothing, the next one finds a segment of this name, without
/// records. The new segment replaces it, and stays where this fails: it says the same but for its
/// epoch, and to remove it would leave a database without a segment.
void log_writer::name_segment(fresh_segment& next) {
  const bool replaces = folder_.has(next.name);
  folder_.rename(next.temporary, next.name);
  next.passing = false;
  in_doubt_ = true;
  try {
    next.file->renamed(next.name);
    folder_.sync();
  } catch (...) {
    if (!replaces) {
      folder_.remove(next.name);
      folder_.sync();
    }
    in_doubt_ = false;
    throw;
  }
  in_doubt_ = false;
}

/// Precondition: the caller has the lead and the lock of the room. All that is promised has room in
/// the segment.
void log_writer::use_segment(fresh_segment& next) {
  forget_ahead();
  window_ = {};
  segment_ = std::move(next.file);
  name_.swap(next.name);
  size_ = file_header::bytes;
  room_ = size_ + next.room;
  next_at_ = segment_bytes_;
  look_later();
  in_place_.store_relaxed(true);
  map_all();
}

/// What is written to a file that the directory does not have is acknowledged and lost: so the log
/// fails where it has gone, a second later at most. Throws lost_directory; where that cannot be
/// told, the log goes on.
void log_writer::look_for_segment() {
  if (!is_time_to_look(ticks::read())) return;
  look_later();
  try {
    folder_.still_has(name_, *segment_);
  } catch (const lost_directory&) {
    throw;
  } catch (const storage_error&) {
    return;
  }
}

/// The same at once; false: it has gone, and the log fails.
bool log_writer::is_there() noexcept {
  const uncancelled whole;  // others wait for it
  const at_work now(engine_, at_work::writing, "sync()");
  look_later();
  try {
    folder_.still_has(name_, *segment_);
  } catch (const lost_directory&) {
    keep_failure();
    return false;
  } catch (const std::exception&) {
    return true;  // it cannot be told
  }
  return true;
}

void log_writer::look_later() noexcept {
  constexpr std::chrono::nanoseconds pause = std::chrono::seconds(1);
  look_at_ =
      ticks::read() + static_cast<std::uint64_t>(static_cast<double>(pause.count()) / ns_per_tick_);
}

/// Moves on to another segment, when all records of this one are staged. Where that cannot be made,
/// this one goes on, and why is returned; throws std::bad_alloc for the same, and what ends the
/// log.
///
/// What is promised lies in the room that this segment has left. So the next one has as much at
/// least, and no thread makes this one longer meanwhile.
std::optional<storage_error> log_writer::begin_another() {
  fresh_segment next(folder_);
  try {
    folder_.still_has(name_, *segment_);
    prepare_segment(next, room_left());
  } catch (const lost_directory&) {
    throw;
  } catch (const storage_error& e) {
    return e;
  }
  make_durable();
  const std::lock_guard hold(room_lock_);
  const at_work now(engine_, at_work::lengthening, write_call);
  const std::uint64_t promised = room_ - size_;
  try {
    if (next.room < promised) {
      next.file->reserve(file_header::bytes + next.room, promised - next.room);
      next.room = promised;
    }
    name_segment(next);
  } catch (const lost_directory&) {
    throw;
  } catch (const storage_error& e) {
    if (in_doubt_) throw;
    return e;
  }
  const std::unique_ptr<storage_file> before = std::move(segment_);
  const std::uint64_t end = size_;
  use_segment(next);
  room_left_.made(next.room - promised);
  try {
    before->truncate(end);
  } catch (const storage_error&) {
    return std::nullopt;  // its zeros stay: they are no damage
  }
  return std::nullopt;
}

void log_writer::keep_doubtful(log_entry* first) noexcept {
  if (first == nullptr) return;
  (doubtful_ == nullptr ? doubtful_ : last_doubtful_->next) = first;
  while (first->next != nullptr) first = first->next;
  last_doubtful_ = first;
}

void log_writer::tell(const log_entry* first, resumed_commits& to) {
  for (const log_entry* e = first; e != nullptr; e = e->next) {
    if (e->commit != 0) {
      to.times.push_back(e->commit);
    } else if (e->kind != record_kind::transaction && e->kind != record_kind::cut) {
      ++to.catalog_changes;
    }
  }
}

/// What another segment must have room for: all that is promised and will be written, and all that
/// no record was promised. Under the lock of the room.
std::uint64_t log_writer::promised_room() const noexcept {
  std::uint64_t left = room_ - size_ - used_;
  for (const log_entry* e = doubtful_; e != nullptr; e = e->next) left -= e->bytes;
  return left;
}

void log_writer::begin_again(const log_end& end, std::uint64_t origin) {
  const uncancelled whole;
  const at_work now(engine_, at_work::writing, write_call);
  end_ = end;
  origin_ = origin;
  fresh_segment next(folder_);
  std::uint64_t least = 0;
  {
    const std::lock_guard hold(room_lock_);
    least = promised_room();
  }
  prepare_segment(next, least);
  {
    // No thread makes the segment that has failed longer: nothing is promised beyond `least`.
    const std::lock_guard hold(room_lock_);
    const at_work longer(engine_, at_work::lengthening, write_call);
    name_segment(next);
    used_ = 0;
    dirty_ = false;
    use_segment(next);
    room_left_.made(next.room - least);
    for (log_entry* e = doubtful_; e != nullptr; e = e->next) e->bytes = 0;
    broken_.store_relaxed(false);
    refusal_.reset();
  }
  epoch_.store_relaxed(end.epoch);
  reserve_.refill();
}

void log_writer::nothing_in_doubt() noexcept {
  give_back_all(std::exchange(doubtful_, nullptr));
  last_doubtful_ = nullptr;
  const std::lock_guard hold(failure_lock_);
  failure_.reset();
}

/// Of this segment, for what is promised and what is not.
std::uint64_t log_writer::room_left() {
  const std::lock_guard hold(room_lock_);
  return room_ - size_ - used_;
}

bool log_writer::long_enough() const noexcept {
  const std::uint64_t size = size_ + used_;
  return size >= next_at_ && size > file_header::bytes;
}

/// A segment that is long enough ends here; or later, if another one cannot be made: that is tried
/// again when this one has become longer by a step.
void log_writer::next_segment() {
  if (!long_enough()) return;
  bool begun = false;
  try {
    begun = !begin_another();
  } catch (const std::bad_alloc&) {
    if (in_doubt_) throw;
  }
  if (begun) {
    reserve_.refill();
  } else {
    next_at_ = size_ + used_ + step_;
  }
}

/// The record of a cut was written: another segment begins at once. Where that cannot be made,
/// `done` says so, and the log goes on in this one.
void log_writer::end_segment(cut_result& done) {
  done.crc = end_.chain;
  try {
    done.reason = begin_another();
    done.begun = !done.reason;
  } catch (const std::bad_alloc&) {
    if (in_doubt_) throw;
  }
}

/// told: the log begins again, and what is written was in doubt.
bool log_writer::write(log_entry* first, std::uint64_t durable, resumed_commits* told) noexcept {
  const uncancelled whole;  // others wait for it
  const at_work now(engine_, at_work::writing, write_call);
  bool done = false;
  try {
    if (told != nullptr) tell(first, *told);
    write_all(first, durable);
    done = true;
    flushes_.store_relaxed(flushes_.load_relaxed() + 1);
  } catch (const std::exception&) {
    keep_failure();
  }
  if (done && told == nullptr) {
    give_back_all(first);
  } else {
    keep_doubtful(first);
  }
  return done;
}

/// As much of what is being handled as there is memory for. Its type is found by throwing it again:
/// -fno-rtti has no other way.
void log_writer::keep_failure() noexcept {
  broken_.store_relaxed(true);
  const std::lock_guard hold(failure_lock_);
  try {
    try {
      throw;
    } catch (const storage_error& known) {
      failure_words_ = known.what();
      failure_ = known;
    } catch (const std::exception& why) {
      failure_.emplace(folder_.path(), storage_error::nowhere,
                       std::string("cannot write the log: ") + why.what());
      failure_words_ = failure_->what();
    }
  } catch (const std::bad_alloc&) {
    failure_.reset();
  }
}

void log_writer::write_all(log_entry* first, std::uint64_t durable) {
  used_ = 0;
  look_for_segment();
  for (log_entry* e = first; e != nullptr; e = e->next) {
    next_segment();
    seal(*e, durable);
    stage(e->data);
    e->bytes = 0;  // it lies in its room
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
  bytes_.store_relaxed(bytes_.load_relaxed() + e.data.size());  // the lead alone stores it
}

/// All before it is durable. What needs the system, as another part of the segment, is write()'s.
bool log_writer::at_once(log_entry& e) noexcept {
  if (long_enough() || used_ != 0 || dirty_) return false;
  if (is_time_to_look(e.since)) return false;
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

/// There is none left that is not promised: makes more, for a record that has nothing promised. A
/// whole step where there is room for it, so that this is seldom done and a sync has the data alone
/// to care for; else as much as is needed. frees_room: the record may have what is kept.
bool log_writer::make_room(std::size_t bytes, bool frees_room) {
  const uncancelled whole;
  {
    const std::lock_guard hold(room_lock_);
    const at_work now(engine_, at_work::lengthening, write_call);
    if (room_left_.promise(bytes)) return true;  // another one was quicker
    if (!lengthen(bytes)) return frees_room && room_left_.promise_kept(bytes);
  }
  const at_work now(engine_, at_work::writing, write_call);  // others may wait for this commit
  reserve_.refill();
  return true;
}

/// Under the lock of the room. True: by so many bytes at least, which are promised to the caller,
/// and what is missing of those that are kept.
bool log_writer::lengthen(std::size_t bytes) {
  if (broken_.load_relaxed()) return false;
  const std::uint64_t least = bytes + room_left_.owed();
  std::uint64_t more = std::max(step_, least);
  try {
    try {
      segment_->reserve(room_, more);
    } catch (const storage_error& e) {
      if (!means_full(e) || more == least) throw;
      more = least;
      segment_->reserve(room_, more);
    }
  } catch (const storage_error& e) {
    refuse(e);
    return false;
  }
  room_ += more;
  room_left_.made(more - bytes);
  refusal_.reset();
  return true;
}

/// Under the lock of the room.
void log_writer::refuse(const storage_error& why) noexcept {
  try {
    refusal_words_ = why.what();
    refusal_ = why;
  } catch (const std::bad_alloc&) {
    refusal_.reset();
  }
}

std::optional<storage_error> log_writer::refusal() {
  if (at_work::within(engine_, at_work::lengthening)) return refusal_;  // this thread has the lock
  const std::lock_guard hold(room_lock_);
  return refusal_;
}

std::string log_writer::refusal_in_words() {
  const auto words = [this] { return refusal_ ? refusal_words_ : std::string(); };
  if (at_work::within(engine_, at_work::lengthening)) return words();  // as in refusal()
  const std::lock_guard hold(room_lock_);
  return words();
}

/// Memory for so many bytes, where the segment is memory: they have their room.
void log_writer::map_for(std::size_t bytes) noexcept {
  if (!in_place() || bytes <= window_.size() + behind_.size()) return;
  const std::lock_guard hold(room_lock_);
  const at_work now(engine_, at_work::lengthening, write_call);
  if (!ahead_.empty() && bytes <= window_.size() + ahead_.size()) return use_ahead();
  map_all();
}

/// Maps all that the segment has left. Precondition: the caller has the lead and the lock of the
/// room.
void log_writer::map_all() noexcept {
  forget_ahead();
  window_ = room_ > size_ ? segment_->map(size_, room_ - size_) : std::span<std::byte>();
  mapped_ = room_;
  in_place_.store_relaxed(!window_.empty());
  if (!window_.empty() && room_ < segment_bytes_) ask_at_ = most_ahead / 2;
}

/// Precondition: the caller has the lead. Waits for no thread: where another one has the lock, the
/// next leader does this. Not before the last window but one is done with: it ends when there is
/// another one.
void log_writer::ask_ahead() noexcept {
  const std::unique_lock hold(room_lock_, std::try_to_lock);
  if (!hold) return;
  ask_at_ = 0;
  ask_ = true;
  ahead_wanted_.store_relaxed(true);
}

/// Precondition: the caller does not have the lead, and holds no other lock. If it cannot be done,
/// a commit that needs the room finds out why.
void log_writer::make_ahead() noexcept {
  const uncancelled whole;
  const std::lock_guard hold(room_lock_);
  const at_work now(engine_, at_work::lengthening, write_call);
  if (!std::exchange(ask_, false)) return;  // the segment has come to its end, or was mapped
  if (broken_.load_relaxed()) return;
  try {
    if (room_ - mapped_ < most_ahead) {
      segment_->reserve(room_, most_ahead);
      room_ += most_ahead;
      room_left_.made(most_ahead);
    }
  } catch (const std::exception&) {
    if (room_ == mapped_) return;
  }
  ahead_ = segment_->map(mapped_, room_ - mapped_);
  if (!ahead_.empty()) mapped_ = room_;
}

/// For so many bytes. Precondition: the caller has the lead. Waits for no thread.
bool log_writer::take_ahead(std::size_t bytes) noexcept {
  const std::unique_lock hold(room_lock_, std::try_to_lock);
  if (!hold || ahead_.empty() || bytes > window_.size() + ahead_.size()) return false;
  use_ahead();
  return true;
}

/// Precondition: the caller has the lead and the lock of the room.
void log_writer::use_ahead() noexcept {
  (window_.empty() ? window_ : behind_) = std::exchange(ahead_, {});
  if (room_ < segment_bytes_) ask_at_ = most_ahead / 2;
}

/// The same.
void log_writer::forget_ahead() noexcept {
  behind_ = {};
  ahead_ = {};
  ask_ = false;
  ask_at_ = 0;
}

/// Nothing more comes: cuts the zeros off.
void log_writer::end_room() {
  const std::lock_guard hold(room_lock_);
  forget_ahead();
  window_ = {};
  if (size_ != room_) segment_->truncate(size_);
  room_ = size_;
}

void log_writer::stage(bytes_view record) {
  map_for(record.size());
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

/// Into the window and what follows it, which are long enough.
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

/// To spin costs less than to sleep where another thread's write is nearly over. A thread that
/// yields the processor instead gets it back only when all others have had a time slice.
bool log_writer::pause(std::uint32_t times) const noexcept {
  constexpr std::uint32_t most = 40;
  constexpr int step = 4;
  if (!quick() || times >= most) return false;
  for (int i = 0; i < step; ++i) cpu_relax();
  return true;
}

/// How long that was at least.
std::chrono::nanoseconds log_writer::give_way(std::chrono::nanoseconds at_most) noexcept {
  constexpr std::chrono::microseconds step{50};
  constexpr std::chrono::nanoseconds system_call{100};
  if (at_most > 2 * step) {
    core::nap(step);
    return step;
  }
  std::this_thread::yield();
  return system_call;
}

void log_writer::fill(log_stats& s) const noexcept {
  s.epoch = epoch_.load_relaxed();
  s.bytes = bytes_.load_relaxed();
  s.flushes = flushes_.load_relaxed();
  s.longest_flush = std::chrono::nanoseconds(longest_ns_.load_relaxed());
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
