// SPDX-License-Identifier: Apache-2.0
// storage.cpp: opening a directory.
#include "db/versions/storage.hpp"

#include <chrono>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "db/engine.hpp"
#include "db/log/nan_rows.hpp"
#include "db/log/recovery.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

/// Of rows of one table, which a database that ends with this record has left out.
std::string left_out_name(std::uint64_t sequence, std::uint32_t table) {
  std::string name = file_name(file_kind::log, sequence);  // log-SEQUENCE.spl
  name = name.substr(name.find('-'), name.find('.') - name.find('-'));
  return "left-out" + name + "-table-" + std::to_string(table) + ".jsonl";
}

const options& checked(const options& o) {
  if (o.segment_bytes < 4096) {
    throw std::invalid_argument("spolia::db: a segment of the log has 4096 bytes at least");
  }
  if (o.checkpoint_share == 0 || o.checkpoint_share > 100) {
    throw std::invalid_argument("spolia::db: checkpoint_share is from 1 to 100");
  }
  if (o.loss_window.count() <= 0) {
    throw std::invalid_argument("spolia::db: the loss window is a millisecond at least");
  }
  return o;
}

}  // namespace

storage::storage(engine& of, const std::filesystem::path& directory, const options& o)
    : engine_(of),
      files_(o.files != nullptr ? o.files : real_files()),
      options_(checked(o)),
      folder_(*files_, directory, {.write = !o.read_only, .without_lock = o.allow_without_lock}) {
  const auto start = std::chrono::steady_clock::now();
  const folder_content has = folder_.look();
  refuse_lost(has);
  if (!folder_.known()) folder_.make(random_id(), false);
  report_.guard = folder_.guard();
  nan_rows nans;
  end_ = recover(has, nans);
  keep_left_out(nans);  // before anything is logged
  log_at_open_ = report_.log_bytes;
  // Each opening is an epoch of its own: of two histories that part, one has the higher number.
  if (!o.read_only) ++end_.epoch;
  report_.epoch = end_.epoch;
  last_.store_relaxed(end_.sequence);
  if (!o.read_only && o.durability != durability_level::none) {
    log_ = std::make_unique<journal>(folder_, o);
    log_->start(end_);
    folder_.note_data();
    if (!nans.changes().empty()) log_->write_alone(nans.changes());
  } else if (!o.read_only) {
    folder_.sync();  // to know whether that can be done
  }
  report_.durable_names = folder_.durable_names();
  report_.took = std::chrono::steady_clock::now() - start;
}

storage::~storage() {
  if (!background_.here()) return;
  stopping_.store_relaxed(true);
  const std::lock_guard hold(background_lock_);
  if (background_->joinable()) background_->join();
}

/// What was in a directory and is not there any more does not make a new database.
void storage::refuse_lost(const folder_content& has) const {
  const auto refuse = [&](const char* why) {
    throw storage_error(folder_.path(), storage_error::nowhere, why);
  };
  if (!folder_.known() && (has.copy || !has.checkpoints.empty())) {
    refuse("a copy that was not finished");
  }
  if (folder_.had_data() && !has.has_data()) {
    refuse(
        "all data files of the database are missing (log-*.spl and checkpoint-*.spl), and its file "
        "SPOLIA says that there were some. Put them back, or restore a backup; to begin with "
        "nothing, use another directory");
  }
}

log_end storage::recover(const folder_content& has, nan_rows& nans) {
  if (!options_.read_only) {
    for (const std::string& name : has.temporary) folder_.remove(name);
    if (has.copy) {
      folder_.remove(copy_marker);
      folder_.sync();
    }
  }
  recovery all(engine_, folder_, options_, report_);
  return all.run(has, !options_.read_only, nans);
}

/// Rows that are left out go to files, unless nothing may be changed.
void storage::keep_left_out(const nan_rows& nans) {
  for (const nan_rows::left_out& out : nans.out()) {
    report_.left_out_rows += out.rows;
    std::string note = std::to_string(out.rows) + " rows of table " + out.of->name() +
                       " differ from others only in which not-a-number is their key, or their "
                       "value of a unique index, and there is one now: ";
    if (options_.read_only) {
      note += "they are not shown; opening the database to change it writes them to a file";
    } else {
      const std::string name = left_out_name(end_.sequence, out.number);
      write_whole(name, out.lines);
      report_.left_out_files.push_back(folder_.path_of(name));
      note += "they are in " + folder_.path_of(name).string();
    }
    report_.notes.push_back(std::move(note));
  }
}

/// A file of the directory that is there whole, and durable, or not at all.
void storage::write_whole(const std::string& name, std::string_view content) {
  const std::string temporary = name + ".spl.tmp";  // which an opening removes
  {
    const auto file = folder_.open(temporary, file_mode::fresh);
    file->write(0, std::as_bytes(std::span(content)));
    file->sync();
  }
  folder_.rename(temporary, name);
  folder_.sync();
}

/// What is not shown would not be in it.
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
