// SPDX-License-Identifier: Apache-2.0
// storage.cpp: opens the directory of a database.
#include "db/files/storage.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/so_many.hpp"
#include "db/engine.hpp"
#include "db/files/status_file.hpp"
#include "db/log/nan_rows.hpp"
#include "db/log/recovery.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

/// The name of a file for the rows of one table that were left out, in a database that ends with
/// this record.
std::string left_out_name(std::uint64_t sequence, std::uint32_t table) {
  std::string name = file_name(file_kind::log, sequence);  // log-SEQUENCE.spl
  name = name.substr(name.find('-'), name.find('.') - name.find('-'));
  return "left-out" + name + "-table-" + std::to_string(table) + ".jsonl";
}

/// Where the zeros at the end of a file begin; not before `from`.
std::uint64_t end_of_bytes(storage_file& file, std::uint64_t from) {
  std::array<std::byte, 4096> part{};
  std::uint64_t end = file.size();
  while (end > from) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(part.size(), end - from));
    const bytes_view got(part.data(), file.read(end - size, std::span(part).first(size)));
    if (!only_zeros(got)) break;
    end -= size;
  }
  return end;
}

const options& checked(const options& o) {
  if (o.segment_bytes < 4096) {
    throw std::invalid_argument("spolia::db: options::segment_bytes is " +
                                std::to_string(o.segment_bytes) + ": it is 4096 at least");
  }
  if (o.checkpoint_share == 0 || o.checkpoint_share > 100) {
    throw std::invalid_argument("spolia::db: options::checkpoint_share is " +
                                std::to_string(o.checkpoint_share) + ": it is from 1 to 100");
  }
  if (o.attach && !o.read_only) {
    throw std::invalid_argument(
        "spolia::db: options::attach is for looking at a database that another process may change: "
        "it needs read_only");
  }
  if (o.read_only && o.open == open_mode::must_be_new) {
    throw std::invalid_argument(
        "spolia::db: options::open is must_be_new, and read_only makes no database: use one of "
        "them");
  }
  if (o.loss_window.count() <= 0) {
    throw std::invalid_argument("spolia::db: options::loss_window is " +
                                std::to_string(o.loss_window.count()) +
                                " ms: it is a millisecond at least");
  }
  return o;
}

}  // namespace

storage::storage(engine& of, const std::filesystem::path& directory, const options& o)
    : engine_(of),
      files_(o.files != nullptr ? o.files : real_files()),
      options_(checked(o)),
      folder_(*files_, directory,
              {.write = !o.read_only,
               .make = o.open != open_mode::must_exist,
               .attach = o.attach,
               .without_lock = o.allow_without_lock}) {
  const auto start = std::chrono::steady_clock::now();
  const folder_content has = folder_.look();
  refuse_lost(has);
  if (folder_.known() && o.open == open_mode::must_be_new) {
    throw storage_error(folder_.path(), storage_error::nowhere,
                        "a database is there already, and options::open is must_be_new: use "
                        "another directory, or open what is there");
  }
  if (!folder_.known()) folder_.make(random_id(), false);
  report_.guard = folder_.guard();
  nan_rows nans;
  recovery found(engine_, folder_, options_, report_);
  end_ = found.run(has, nans);
  past_ = found.past();
  origin_ = history::new_origin();
  whole_from_ = found.whole_from();
  unproven_from_ = found.unproven_from();
  log_at_open_ = report_.log_bytes;
  // Each opening is an epoch of its own: of two histories that part, one has the higher number.
  if (!o.read_only) ++end_.epoch;
  report_.epoch = end_.epoch;
  last_.store_relaxed(end_.sequence);
  if (o.read_only) {
    if (o.attach) make_what_was_read_durable(found.unproven_segment());
    note_left_out(nans);
  } else {
    begin(has, nans);
  }
  report_.durable_names = folder_.durable_names();
  report_.took = std::chrono::steady_clock::now() - start;
}

storage::~storage() { end_background(); }

void storage::end_background() noexcept {
  if (!background_.here()) return;
  stopping_.store_relaxed(true);
  const std::lock_guard hold(background_lock_);
  if (background_->joinable()) background_->join();
}

/// For an opening that attaches: syncs what the process that has the directory has written, since
/// the caller will be shown it, and it must not be lost after that. Segments before `unproven` are
/// left out: a record of that segment says that it was written when all before it was on the disk.
void storage::make_what_was_read_durable(std::uint64_t unproven) {
  try {
    folder_.sync_from(unproven);
  } catch (const storage_error& e) {
    report_.notes.push_back(
        {"what was written last may be lost with the power: " + words_of(e.what()), e.reason(),
         e.fault()});
  }
}

/// Refuses a directory that had a database of which files are missing: it must not become a new
///                                                                     one.
void storage::refuse_lost(const folder_content& has) const {
  if (!folder_.known() && (has.copy || !has.checkpoints.empty())) {
    throw storage_error(folder_.path(), storage_error::nowhere, unfinished_copy_text);
  }
  if (folder_.had_data() && !has.has_data()) {
    throw damage_at(
        folder_.path(), storage_error::nowhere,
        "all data files of the database are missing (log-*.spl and checkpoint-*.spl), and its file "
        "SPOLIA says that there were some. Put them back, or restore a backup; to begin with "
        "nothing, use another directory");
  }
}

/// Begins to change the directory. All its files have been read, so from here on only the system
/// can make the opening fail. Unfinished files are removed first, since they may have filled the
/// disk.
void storage::begin(const folder_content& has, const nan_rows& nans) {
  for (const std::string& name : has.temporary) folder_.remove(name);
  try {
    if (options_.durability == durability_level::none) {
      change_directory(has, nans);
      folder_.sync();  // only to know whether it can be done: durable_names
      return;
    }
    folder_.settle();
    log_ = std::make_unique<journal>(engine_, folder_, options_);
    log_->start(end_, origin_,
                {.cut_zeros = [&] { cut_zeros(has); },
                 .before_name = [&] { change_directory(has, nans); }});
  } catch (...) {
    take_back(has, nans);
    throw;
  }
  folder_.note_data();
  if (!nans.changes().empty()) log_->write_alone(nans.changes());
  if (!has.segments.empty() && has.segments.front() <= whole_from_) remove_what_parts();
}

/// Removes segments that do not lead up to the checkpoint, which an earlier process had no time to
/// remove, or could not. Those that cannot be removed are ignored.
void storage::remove_what_parts() noexcept {
  try {
    remove_up_to(folder_, whole_from_);
  } catch (const std::exception&) {
    return;
  }
}

/// Makes the changes that come before anything is logged, and after everything that can refuse the
/// opening.
void storage::change_directory(const folder_content& has, const nan_rows& nans) {
  write_left_out(nans);
  if (options_.publish_status) {
    status_file::prepare(folder_);
    shown_ = true;
  }
  repair_last(has);
  // Last, since to put the marker back may fail as well. The removal becomes durable together with
  // the name of the next segment, before that has a record.
  if (has.copy) folder_.remove(copy_marker);
  folder_.keep();
}

/// Undoes change_directory(), but not the repairs: the opening is refused after all.
void storage::take_back(const folder_content& has, const nan_rows& nans) noexcept {
  if (shown_) status_file::remove(folder_);
  try {
    if (has.copy) folder_.open(copy_marker, file_mode::write);
    for (const nan_rows::left_out& out : nans.out()) {
      remove_quietly(folder_, left_out_name(end_.sequence, out.number));
    }
  } catch (const std::exception&) {
    return;  // files that stay say nothing wrong
  }
}

/// Makes the last segment's records durable before any new record depends on them: the last process
/// may have left them in the system's memory. A sync alone is not enough. If one has failed before,
/// the system may have marked as written what the disk does not have, and the next sync does not
/// report that. So the records that are not proven to be on the disk are written again, byte for
/// byte in place: that needs no room, and bytes that a loss of power leaves out are as they were.
void storage::repair_last(const folder_content& has) {
  // No new record depends on segments before a checkpoint. The last of these may have failed.
  if (has.segments.empty() || has.segments.back() <= report_.checkpoint_sequence) return;
  const std::string name = file_name(file_kind::log, has.segments.back());
  const auto file = folder_.open(name, file_mode::write);
  if (report_.cut_file == folder_.path_of(name)) file->truncate(report_.cut_offset);
  write_again(*file, folder_.path_of(name), unproven_from_);
  file->sync();
}

/// Cuts off the room that was reserved after the last record, and nothing else: an opening that is
/// refused after all leaves the bytes of a torn end. The file is synced, since some file systems
/// free the room no sooner.
void storage::cut_zeros(const folder_content& has) {
  if (has.segments.empty() || has.segments.back() <= report_.checkpoint_sequence) return;
  const std::string name = file_name(file_kind::log, has.segments.back());
  const auto file = folder_.open(name, file_mode::write);
  const bool early = report_.cut_file == folder_.path_of(name);
  file->truncate(end_of_bytes(*file, early ? report_.cut_offset : file->size()));
  file->sync();
}

/// Writes the records from there to the end again. The opening may have read them from the system's
/// memory alone, and they may be lost since: then the last record is not the same any more, and
/// this throws.
void storage::write_again(storage_file& file, const std::filesystem::path& name,
                          std::uint64_t from) const {
  constexpr std::size_t enough = 1U << 20U;
  read_buffers buffers;
  file_stream records(buffers, file, from);
  std::uint32_t chain = end_.chain;
  byte_buffer some;
  const auto write_some = [&] {
    file.write(records.at() - some.size(), some);
    some.clear();
  };
  while (records.left() != 0) {
    record_header h;
    if (const char* const why = next_record(records, h)) {
      throw damage_at(name, records.at(), std::string("it has changed meanwhile: ") + why);
    }
    chain = h.crc;
    const std::size_t bytes = record_header::bytes + h.length;
    const bytes_view record = records.look(bytes).first(bytes);
    some.insert(some.end(), record.begin(), record.end());
    records.pass(bytes);
    if (some.size() >= enough) write_some();
  }
  if (!some.empty()) write_some();
  if (chain != end_.chain) {
    throw damage_at(name, from, "it has changed meanwhile: its last record is another one");
  }
}

/// Writes the rows that were left out to files, and notes that in the report.
void storage::write_left_out(const nan_rows& nans) {
  for (const nan_rows::left_out& out : nans.out()) {
    const std::string name = left_out_name(end_.sequence, out.number);
    write_whole(name, out.lines);
    const auto file = folder_.path_of(name);
    report_.left_out_files.push_back(file);
    note_left_out(out, "they are in " + file.string());
  }
}

/// Only notes them in the report: nothing may be changed.
void storage::note_left_out(const nan_rows& nans) {
  for (const nan_rows::left_out& out : nans.out()) {
    note_left_out(out,
                  "they are not shown; opening the database to change it writes them to a file");
  }
}

void storage::note_left_out(const nan_rows::left_out& out, const std::string& where) {
  report_.left_out_rows += out.rows;
  report_.notes.push_back({"of " + so_many(out.rows, "row") + " of table " + out.of->name() +
                           " that differ from others only in which not-a-number is the key, or the "
                           "value of a unique index, there is one now: " +
                           where});
}

/// Writes a file so that it is there whole, and durable, or not at all.
void storage::write_whole(const std::string& name, std::string_view content) {
  const std::string temporary = name + ".spl.tmp";  // the next opening removes such a file
  try {
    const auto file = folder_.open(temporary, file_mode::fresh);
    file->write(0, std::as_bytes(std::span(content)));
    file->sync();
    folder_.rename(temporary, name);
  } catch (...) {
    remove_quietly(folder_, temporary);
    throw;
  }
  folder_.sync();
}

/// Refuses a copy by an opening that does not show all rows: it would lack the others.
void storage::refuse_partial_copy() const {
  if (!options_.read_only || report_.left_out_rows == 0) return;
  throw storage_error(folder_.path(), storage_error::nowhere,
                      "a copy would not have the rows that are left out; open the database to "
                      "change it once, which writes them to a file");
}

void storage::fill(log_stats& s) const noexcept {
  s.epoch = report_.epoch;
  s.sequence = s.durable = last_.load_relaxed();
  if (log_ != nullptr) log_->fill(s);
  s.since_checkpoint = log_at_open_ + s.bytes - log_at_checkpoint_.load_relaxed();
  s.checkpoints = checkpoints_.load_relaxed();
  s.failed_checkpoints = failed_checkpoints_.load_relaxed();
}

std::string storage::checkpoint_failure() const {
  const std::lock_guard hold(failure_lock_);
  return failure_;
}

std::string storage::failure() const { return log_ != nullptr ? log_->why_not() : std::string(); }

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
