// SPDX-License-Identifier: Apache-2.0
// storage.hpp: the directory of a database: its opening, its checkpoints and its backups. Internal.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <spolia/base/at_home.hpp>
#include <spolia/base/atomic.hpp>
#include <spolia/db/database.hpp>
#include <spolia/db/durability.hpp>
#include <spolia/db/files.hpp>

#include "db/files/folder.hpp"
#include "db/log/history.hpp"
#include "db/log/journal.hpp"
#include "db/log/log_format.hpp"
#include "db/log/nan_rows.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// A table as it was at some record of the log.
struct frozen_table {
  const table* of = nullptr;
  table_spec spec;
  std::vector<const secondary*> indexes;  // the indexes in `spec`
};

/// What is to be written as a checkpoint.
struct checkpoint_source {
  const reader* view = nullptr;
  std::vector<frozen_table> tables;
  std::uint32_t numbers = 0;  // how many numbers of tables were given
  database_id id{};
  log_end end;
  history past;
  bool log_follows = false;
};

/// Where a copy ends.
struct copy_end {
  std::uint32_t epoch = 0;
  std::uint64_t sequence = 0;
  std::uint32_t chain = 0;
  std::uint64_t origin = 0;
  // If bytes that are no record follow in its last segment: that segment's name, the position, and
  // the reason. At 0: it has no header. So it is if the copy was copied, and that was stopped.
  std::string torn{};
  std::uint64_t torn_at = 0;
  std::string torn_why{};
};

class storage {
 public:
  storage(engine& of, const std::filesystem::path& directory, const options& o);
  ~storage();
  storage(const storage&) = delete;
  storage& operator=(const storage&) = delete;

  [[nodiscard]] folder& where() noexcept { return folder_; }
  /// Null: nothing is logged.
  [[nodiscard]] journal* log() noexcept { return log_.get(); }
  [[nodiscard]] const recovery_report& recovered() const noexcept { return report_; }
  checkpoint_report checkpoint(checkpoint_pace how);
  resume_report resume();
  backup_report backup(const std::filesystem::path& to);
  backup_report backup(const byte_sink& to);
  static void restore(storage_files& files, const byte_source& from,
                      const std::filesystem::path& directory);
  verify_report verify(const verify_options& how);
  /// Without a log: the sequence of a change after the last checkpoint. Under the lock of the
  /// catalogue.
  [[nodiscard]] std::uint64_t next() const noexcept { return last_.load_relaxed() + 1; }
  /// Starts a checkpoint if the log is long enough.
  void after_commit() noexcept;
  /// Waits until a checkpoint that after_commit() has started is given up or over; none begins
  /// after this.
  void end_background() noexcept;
  void fill(log_stats& s) const noexcept;
  [[nodiscard]] std::string failure() const;
  [[nodiscard]] std::string checkpoint_failure() const;

 private:
  class copy_to_compare;
  class comparison;
  void refuse_lost(const folder_content& has) const;
  void make_what_was_read_durable(std::uint64_t unproven);
  void begin(const folder_content& has, const nan_rows& nans);
  void change_directory(const folder_content& has, const nan_rows& nans);
  void take_back(const folder_content& has, const nan_rows& nans) noexcept;
  void cut_zeros(const folder_content& has);
  void repair_last(const folder_content& has);
  void write_again(storage_file& file, const std::filesystem::path& name, std::uint64_t from) const;
  void remove_what_parts() noexcept;
  void write_left_out(const nan_rows& nans);
  void note_left_out(const nan_rows& nans);
  void note_left_out(const nan_rows::left_out& out, const std::string& where);
  void write_whole(const std::string& name, std::string_view content);
  void refuse_partial_copy() const;
  checkpoint_report make_checkpoint(checkpoint_pace how);
  void checkpoint_in_background() noexcept;
  void keep_failure(const std::exception* why) noexcept;
  class whole_list;
  void step_without_record();
  log_end freeze(std::unique_ptr<reader>& view);
  template <class Cut>
  log_end freeze_at(Cut&& cut, std::unique_ptr<reader>& view, const char* label);
  void note_checkpoint(std::uint64_t log_bytes) noexcept;
  void freeze_tables(checkpoint_source& from) const;
  std::unique_ptr<folder> freeze_files(checkpoint_source& from, std::unique_ptr<reader>& view);
  checkpoint_report write_checkpoint(folder& to, const checkpoint_source& from,
                                     checkpoint_pace how);
  checkpoint_report write_rows(storage_file& file, const checkpoint_source& from,
                               checkpoint_pace how);
  static void finish_copy(folder& copy, const database_id& id);
  checkpoint_source begin_copy(std::unique_ptr<reader>& view);
  checkpoint_source part_here(std::unique_ptr<reader>& view);
  checkpoint_source begin_copy_apart(std::unique_ptr<reader>& view, backup_report& report);
  checkpoint_source begin_backup(std::unique_ptr<reader>& view, backup_report& report);
  [[nodiscard]] bool log_failed() const noexcept { return log_ != nullptr && log_->failed(); }
  static std::uint64_t remove_up_to(folder& in, std::uint64_t sequence);
  [[nodiscard]] static copy_end find_end(folder& copy, const folder_content& has);
  [[nodiscard]] static copy_end end_of_backup(folder& copy, const folder_content& has);
  bool copy_segments(folder& to, const copy_end& from, backup_report& report);
  void refuse_ahead(const folder& copy, const copy_end& theirs, std::uint64_t ours) const;
  static void refuse_other_history(const folder& copy, const copy_end& theirs, const history& ours);
  struct rest_of_segment;
  std::optional<rest_of_segment> rest_after(std::uint64_t first, const copy_end& end,
                                            const folder& copy);
  [[nodiscard]] rest_of_segment whole_segment(std::uint64_t first);
  /// Whether the directory has a log that goes on where each copy ends.
  [[nodiscard]] bool logged() const noexcept { return log_ != nullptr || options_.read_only; }
  std::uint64_t copy_rest(const rest_of_segment& rest, folder& to);

  engine& engine_;
  const std::shared_ptr<storage_files> files_;
  const options options_;
  folder folder_;
  recovery_report report_;
  bool shown_ = false;  // there is a status file of this opening
  std::unique_ptr<journal> log_;

  std::mutex checkpoint_lock_;  // one checkpoint or backup at a time
  log_end end_;                 // without a log: the end of the last checkpoint
  // The history of what the opening has found, or resume() has written, and of what came since.
  // Under checkpoint_lock_.
  history past_;
  std::uint64_t origin_ = 0;
  // Segments that begin before this record may not lead up to those that begin after it: there is a
  // checkpoint at this record that has no log before it.
  std::uint64_t whole_from_ = 0;
  std::uint64_t unproven_from_ = 0;  // in the last segment that the opening has found
  atomic<std::uint64_t> last_{0};    // end_.sequence, to be read without the lock
  atomic<std::uint64_t> checkpoints_{0};
  atomic<std::uint64_t> log_at_checkpoint_{0};  // bytes of log that need not be read again
  std::uint64_t log_at_open_ = 0;               // bytes that were read
  atomic<bool> stopping_{false};
  atomic<bool> in_background_{false};
  std::mutex background_lock_;
  at_home<std::thread> background_;
  atomic<std::uint64_t> failed_checkpoints_{0};
  std::chrono::milliseconds pause_{0};  // before the next one; under in_background_
  atomic<std::int64_t> not_before_{0};  // on the steady clock; 0: at once
  mutable std::mutex failure_lock_;
  std::string failure_;  // why the last checkpoint failed; under failure_lock_
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
