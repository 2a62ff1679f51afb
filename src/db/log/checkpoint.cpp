// SPDX-License-Identifier: Apache-2.0
// checkpoint.cpp: all rows of a snapshot in one file, and what that makes superfluous.
//
// The snapshot is begun at the moment when a record gets its place in the log which ends a segment.
// So the rows are exactly what the log up to there makes, and the log after it begins with a file.
// The writer is a reader like any other: no thread waits for it, and it holds the versions that it
// sees.
// Tables and indexes are those that the records up to there have made and not dropped, whatever has
// become of them since: catalog.hpp.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include <spolia/base/passed.hpp>
#include <spolia/base/unwind.hpp>

#include "base/entropy.hpp"
#include "db/catalog/slot_chunks.hpp"
#include "db/files/status_file.hpp"
#include "db/files/storage.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::size_t block_bytes = 256U << 10U;
constexpr std::size_t usual_row = 64U << 10U;  // at most, without out-of-line values

/// Writes blocks, one after the other.
class block_writer {
 public:
  block_writer(storage_file& file, bytes_view header)
      : file_(file), chain_(header_checksum(header)) {
    block_.reserve(block_bytes + usual_row);  // it need not be copied as it grows
    file_.write(0, header);
    at_ = header.size();
    begin();
  }
  byte_buffer& body() noexcept { return block_; }
  [[nodiscard]] bool full() const noexcept { return block_.size() >= block_bytes; }
  void end(block_header h) {
    h.chain = chain_;
    chain_ = seal_block(block_, h);
    file_.write(at_, block_);
    at_ += block_.size();
    begin();
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return at_; }

 private:
  void begin() {
    block_.clear();
    block_.resize(block_header::bytes);
  }
  storage_file& file_;
  std::uint64_t at_ = 0;
  std::uint32_t chain_;
  byte_buffer block_;
};

constexpr std::chrono::milliseconds first_pause{100};  // after a checkpoint that failed
constexpr std::chrono::milliseconds longest_pause{60000};

std::int64_t steady_now() noexcept {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What this thread has had of a processor.
std::chrono::nanoseconds own_time() noexcept {
  struct timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

/// Gives the processor away so that a checkpoint takes its share and no more: of what others get,
/// too, so only while others commit; and not while the versions that it holds take half of what
/// they may. It counts what the thread has had of a processor: where processors are scarce it has
/// waited enough already.
class pace {
 public:
  using clock = std::chrono::steady_clock;
  pace(const engine& of, std::uint32_t share) noexcept : engine_(of), share_(share) {}
  void step() {
    if (share_ >= 100) return;
    const std::uint64_t seen = std::exchange(seen_, engine_.board.clock.now());
    const std::chrono::nanoseconds before = std::exchange(had_, own_time());
    const auto now = clock::now();
    // A writer that slept too long makes up for some of it. None sleeps for longer than it owes,
    // wherever the clock was set back to.
    const std::chrono::nanoseconds owes = (had_ - before) * 100 / share_;
    due_ = std::clamp(due_ + owes, now - most_ahead, now + owes);
    if (seen == seen_ || pressed()) {
      due_ = now;
    } else if (due_ > now) {
      std::this_thread::sleep_for(due_ - now);  // not until then: the clock may stand
    }
  }

 private:
  static constexpr std::chrono::milliseconds most_ahead{5};

  [[nodiscard]] bool pressed() const noexcept {
    const options& o = engine_.settings;
    const std::uint64_t most = o.version_budget != 0 ? o.version_budget : o.budget;
    return most != 0 && engine_.old->stats().bytes > most / 2;
  }

  const engine& engine_;
  const std::uint32_t share_;
  std::uint64_t seen_ = engine_.board.clock.now();
  std::chrono::nanoseconds had_ = own_time();
  clock::time_point due_ = clock::now();
};

constexpr const char* tried_segment =
    ", which the log needs to begin a checkpoint: there is none, and nothing has changed. Make "
    "room "
    "on this disk, then call checkpoint() again";
constexpr const char* tried_file =
    ", of a checkpoint's file, which takes room for all rows beside the files that are there: "
    "nothing has changed. Make that room on this disk, then call checkpoint() again";
constexpr const char* tried_file_to_resume =
    ", of a checkpoint's file, which takes room for all rows beside the files that are there: the "
    "log has failed as before. Make that room on this disk, then call resume() again";

/// The database is being closed.
class abandoned : public std::exception {};

}  // namespace

/// The end of a history that no log has. Two that part here come to the same numbers, so each gets
/// a chain of its own: without that, a copy of one, which was lost, would be taken for a copy of
/// the other and added to.
void storage::step_without_record() {
  last_.store_relaxed(++end_.sequence);
  const std::uint32_t before = end_.chain;
  while (end_.chain == before) end_.chain = static_cast<std::uint32_t>(core::random_bits());
}

/// While it lives, no table leaves the list. From before the cut until its tables are known: those
/// made since are counted, and have one of the last numbers.
class storage::whole_list {
 public:
  explicit whole_list(engine& of) : of_(of) { keep(true); }
  ~whole_list() { keep(false); }
  whole_list(const whole_list&) = delete;
  whole_list& operator=(const whole_list&) = delete;

 private:
  void keep(bool on) {
    const std::lock_guard hold(of_.catalog_lock);
    of_.tables.keep_gone(on);
  }
  engine& of_;
};

/// Begins a snapshot where the log can be cut.
log_end storage::freeze(std::unique_ptr<reader>& view) {
  if (log_ == nullptr) {
    const std::lock_guard hold(engine_.catalog_lock);  // changes are before it, or after it
    view.reset(new reader(engine_, "checkpoint"));
    if (!engine_.read_only) step_without_record();
    return end_;
  }
  return freeze_at([this](auto&& look) { return log_->cut(look); }, view, "checkpoint");
}

/// cut(look) calls look() at the moment where the snapshot is to begin.
template <class Cut>
log_end storage::freeze_at(Cut&& cut, std::unique_ptr<reader>& view, const char* label) {
  std::exception_ptr failed;
  const log_end end = cut([&] {
    try {
      view.reset(new reader(engine_, label));
    } catch (...) {
      let_unwinding_pass();
      failed = std::current_exception();
    }
    return view != nullptr ? view->timestamp() : 0;
  });
  if (failed) std::rethrow_exception(failed);
  return end;
}

checkpoint_source storage::begin_copy(std::unique_ptr<reader>& view) {
  checkpoint_source from;
  const whole_list all(engine_);
  from.id = folder_.id();
  from.end = freeze(view);
  from.past = past_;
  from.past.reach(from.end.sequence, origin_);
  from.view = view.get();
  freeze_tables(from);
  return from;
}

/// The catalogue as it was there.
void storage::freeze_tables(checkpoint_source& from) const {
  const std::uint64_t last = from.end.sequence;
  const std::lock_guard hold(engine_.catalog_lock);
  from.numbers = engine_.table_numbers;
  for (const auto& [number, t] : engine_.tables.by_number()) {
    if (t->parts_->logged.made > last) --from.numbers;  // it has one of the last numbers
    if (t->parts_->logged.covers(last)) {
      from.tables.push_back({t, t->spec_after(last), t->indexes_after(last)});
    }
  }
}

/// After a failure of the log: all that memory shows. Precondition: `unsettled` is held.
checkpoint_source storage::part_here(std::unique_ptr<reader>& view) {
  checkpoint_source from;
  const whole_list all(engine_);
  from.id = folder_.id();
  from.end = freeze_at([this](auto&& look) { return log_->part_here(look); }, view, "checkpoint");
  from.view = view.get();
  freeze_tables(from);
  return from;
}

/// Begins a snapshot, and has the files that lead up to it: they are durable, and opened. There is
/// no checkpoint among them that is later.
std::unique_ptr<folder> storage::freeze_files(checkpoint_source& from,
                                              std::unique_ptr<reader>& view) {
  const at_work now(engine_, at_work::copying, "verify()");
  const std::lock_guard hold(checkpoint_lock_);
  const whole_list all(engine_);
  if (log_ == nullptr) {
    view.reset(new reader(engine_, "verify"));
    from.end = end_;
  } else {
    const auto look_here = [this](auto&& look) {
      return log_end{.epoch = 0, .sequence = log_->look_here(look), .chain = 0};
    };
    from.end = freeze_at(look_here, view, "verify");
    if (!log_->wait(from.end.sequence)) log_->check();
  }
  freeze_tables(from);
  return folder_.pinned();
}

checkpoint_report storage::write_checkpoint(folder& to, const checkpoint_source& from,
                                            checkpoint_pace how) {
  const auto start = std::chrono::steady_clock::now();
  const std::string name = file_name(file_kind::checkpoint, from.end.sequence);
  const std::string temporary = name + ".tmp";
  checkpoint_report report;
  try {
    report = write_rows(*to.open(temporary, file_mode::fresh), from, how);
    to.rename(temporary, name);
  } catch (...) {
    remove_quietly(to, temporary);  // it may be what fills the disk
    throw;
  }
  try {
    to.sync();
  } catch (...) {
    remove_quietly(to, name);  // whole, but of no use: the log before it stays
    throw;
  }
  report.took = std::chrono::steady_clock::now() - start;
  return report;
}

checkpoint_report storage::write_rows(storage_file& file, const checkpoint_source& from,
                                      checkpoint_pace how) {
  checkpoint_report report;
  report.sequence = from.end.sequence;
  block_writer out(file, write_header(file_kind::checkpoint, {.id = from.id,
                                                              .sequence = from.end.sequence,
                                                              .epoch = from.end.epoch,
                                                              .chain = from.end.chain,
                                                              .tables = from.numbers,
                                                              .log_follows = from.log_follows,
                                                              .origin = from.past.origin()}));
  for (const frozen_table& t : from.tables) {
    put_table(out.body(), t.spec);
    out.end(
        {.kind = block_kind::table, .table = t.of->number_, .rows = t.of->parts_->chunks->taken()});
  }
  pace slowly(engine_, how == checkpoint_pace::shared ? options_.checkpoint_share : 100);
  for (const frozen_table& frozen : from.tables) {
    const table& t = *frozen.of;
    std::uint64_t rows = 0;
    const auto end_block = [&] {
      out.end({.kind = block_kind::rows, .table = t.number_, .rows = std::exchange(rows, 0)});
      if (stopping_.load_relaxed()) throw abandoned();
      slowly.step();
    };
    from.view->scan_table(t, [&](const row& r) {
      put_row(out.body(), t.form(), r.words_, r.shape_);
      ++rows;
      ++report.rows;
      if (out.full()) end_block();
      return true;
    });
    if (rows != 0) end_block();
  }
  from.past.put(out.body());
  out.end({.kind = block_kind::end, .rows = report.rows});
  report.bytes = out.bytes();
  file.sync();
  return report;
}

/// Checkpoints before `sequence`, and segments that end there or before; the oldest first, so that
/// what is left hangs together.
std::uint64_t storage::remove_up_to(folder& in, std::uint64_t sequence) {
  const folder_content has = in.look();
  std::uint64_t removed = 0;
  for (const std::uint64_t s : has.checkpoints) {
    if (s >= sequence) continue;
    in.remove(file_name(file_kind::checkpoint, s));
    ++removed;
  }
  for (const std::uint64_t s : has.segments) {
    if (s > sequence) continue;
    in.remove(file_name(file_kind::log, s));
    ++removed;
  }
  if (removed != 0) in.sync();
  return removed;
}

checkpoint_report storage::make_checkpoint(checkpoint_pace how) {
  const std::lock_guard hold(checkpoint_lock_);
  std::unique_ptr<reader> view;
  const std::uint64_t before = log_ != nullptr ? log_->bytes() : 0;
  if (log_ != nullptr) log_->check();  // else it would be said that room helps
  checkpoint_source from = saying(tried_segment, [&] { return begin_copy(view); });
  from.log_follows = log_ != nullptr;
  checkpoint_report report =
      saying(tried_file, [&] { return write_checkpoint(folder_, from, how); });
  folder_.note_data();
  view.reset();
  note_checkpoint(before);
  report.removed_files = remove_up_to(folder_, from.end.sequence);
  return report;
}

/// It is durable. So many bytes of log were written when it began.
void storage::note_checkpoint(std::uint64_t log_bytes) noexcept {
  log_at_checkpoint_.store_relaxed(log_at_open_ + log_bytes);
  checkpoints_.fetch_add_relaxed(1);
}

// After a failure of the log, and why each crash on the way leaves what was acknowledged, and
// nothing that memory has not shown.
//
// What is on the disk: all that was acknowledged, and behind it whole records, or torn ones, of
// commits that were published and are in doubt. So whatever an opening finds there is a prefix of
// what memory shows.
//
//   1  a position behind all that was published, and a snapshot there
//   2  the checkpoint of that snapshot is durable, and then its name: from here on an opening finds
//      the snapshot, and looks at no older segment
//   3  another segment, which begins behind the position
//   4  what was published meanwhile, by commits that were past their check, is durable in it
//   5  the log has not failed any more
//   6  older files go
//
// The checkpoint comes before the segment: a segment behind a position that no older record leads
// up to would be a gap. So the checkpoint cannot say that a segment follows it. The position is one
// that no record has had, and each try has its own: so each file is new by name, and nothing of a
// file that has failed is written, synced or replaced. Each try is an epoch with a chain of its
// own, as an opening is: for the segment that has failed may have records with numbers of later
// ones, and copies may have those.
//
// Changes of tables and indexes that have their place in the log and are in doubt hold `unsettled`
// until their callers have undone them. So the checkpoint has none of them, and the others wait.
resume_report storage::resume() {
  if (log_ == nullptr) {
    throw std::invalid_argument(
        "spolia::db: resume() begins a log again that has failed, and there is none: the database "
        "was opened read_only, or with durability_level::none");
  }
  const std::lock_guard hold(checkpoint_lock_);
  if (!log_->failed()) return {};
  const at_work now(engine_, at_work::writing, "resume()");  // commits may come to wait for this
  const std::lock_guard settled(engine_.unsettled);
  resume_report report;
  std::unique_ptr<reader> view;
  checkpoint_source from = part_here(view);
  const std::uint64_t origin = history::new_origin();
  // A copy may have changes of tables that were in doubt and are undone here: it is another one.
  from.past = past_;
  from.past.reach(log_->durable(), origin_);
  from.past.reach(from.end.sequence, origin);
  const std::uint64_t log_bytes = log_->bytes();
  report.checkpoint = saying(
      tried_file_to_resume, [&] { return write_checkpoint(folder_, from, checkpoint_pace::full); });
  view.reset();
  resumed_commits told = log_->begin_again(from.end, origin);
  report.durable = std::move(told.times);
  report.undone = told.catalog_changes;
  whole_from_ = from.end.sequence;
  past_ = std::move(from.past);
  origin_ = origin;
  note_checkpoint(log_bytes);
  not_before_.store_relaxed(0);
  keep_failure(nullptr);
  try {
    report.checkpoint.removed_files = remove_up_to(folder_, from.end.sequence);
  } catch (const std::exception&) {
    return report;  // what stays goes with the next checkpoint
  }
  return report;
}

checkpoint_report storage::checkpoint(checkpoint_pace how) {
  if (options_.read_only) {
    throw std::invalid_argument(
        "spolia::db: the database was opened read_only, and checkpoint() would change it: backup() "
        "does not");
  }
  return make_checkpoint(how);
}

void storage::after_commit() noexcept {
  if (options_.checkpoint_log_bytes == 0) return;
  const std::uint64_t long_since = log_at_open_ + log_->bytes() - log_at_checkpoint_.load_relaxed();
  if (long_since < options_.checkpoint_log_bytes || in_background_.load_relaxed()) return;
  const std::int64_t not_before = not_before_.load_relaxed();
  if (!is_over(steady_now(), not_before, std::chrono::nanoseconds(longest_pause).count())) return;
  // acquire ← the release at the end of the last one.
  if (in_background_.exchange_acquire(true)) return;
  const uncancelled whole;
  const std::lock_guard hold(background_lock_);
  try {
    if (background_->joinable()) background_->join();
    if (stopping_.load_relaxed()) return;
    *background_ = std::thread([this] { checkpoint_in_background(); });
  } catch (const std::exception&) {
    in_background_.store_relaxed(
        false);  // there is no thread for it: the log grows, and asks again
  }
}

/// Whether the log itself has failed is known to commits; a checkpoint that has not been written is
/// tried again, after pauses that grow: what is in its way is seldom gone at once, and each try
/// costs a part of a checkpoint.
void storage::checkpoint_in_background() noexcept {
  const at_work now(engine_, at_work::background, "a checkpoint");
  try {
    make_checkpoint(checkpoint_pace::shared);
    pause_ = {};
    not_before_.store_relaxed(0);
    keep_failure(nullptr);
  } catch (const std::exception& e) {
    pause_ = std::clamp(pause_ * 2, first_pause, longest_pause);
    not_before_.store_relaxed(steady_now() + std::chrono::nanoseconds(pause_).count());
    failed_checkpoints_.fetch_add_relaxed(1);
    keep_failure(&e);
  }
  if (engine_.shown) engine_.shown->publish();  // maybe no commit comes that would
  // release → the acquire in after_commit()
  in_background_.store_release(false);
}

/// null: there is none.
void storage::keep_failure(const std::exception* why) noexcept {
  const std::lock_guard hold(failure_lock_);
  try {
    failure_ = why != nullptr ? why->what() : "";
  } catch (const std::bad_alloc&) {
    failure_.clear();
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
