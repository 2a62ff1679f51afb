// SPDX-License-Identifier: Apache-2.0
// storage.hpp: the directory of a database: who has it, what is in it, checkpoints and backups of
// it. Internal.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <spolia/base/at_home.hpp>
#include <spolia/base/atomic.hpp>
#include <spolia/db/database.hpp>
#include <spolia/db/durability.hpp>
#include <spolia/db/files.hpp>

#include "journal.hpp"
#include "log_format.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// The file SPOLIA: which database this is. Locked while a process has the directory.
class identity_file {
 public:
  static constexpr const char* name = "SPOLIA";

  /// Locks it, and reads it if there is one. With `write`, it is made if there is none.
  identity_file(storage_files& files, std::filesystem::path directory, bool write);

  /// False: the directory is new.
  [[nodiscard]] bool known() const noexcept { return known_; }
  [[nodiscard]] const database_id& id() const noexcept { return id_; }
  void make(const database_id& id);

 private:
  void parse(std::string_view text);

  storage_files& files_;
  const std::filesystem::path directory_;
  std::unique_ptr<storage_file> file_;
  bool known_ = false;
  database_id id_{};
};
database_id random_id();

/// What lies in a directory, in ascending order of sequences.
struct directory_content {
  std::vector<std::uint64_t> segments;
  std::vector<std::uint64_t> checkpoints;
  std::vector<std::string> temporary;
  bool copy = false;  ///< made by backup(), and never opened to be changed
};
inline constexpr const char* copy_marker = "COPY";
directory_content look_into(storage_files& files, const std::filesystem::path& directory);

/// A table as it was at some record of the log.
struct frozen_table {
  const table* of = nullptr;
  table_spec spec;
};

/// What is to be written, and where to.
struct checkpoint_source {
  const reader* view = nullptr;
  std::vector<frozen_table> tables;
  std::uint32_t numbers = 0;  // of tables
  database_id id{};
  log_end end;
  bool log_follows = false;
};

class storage {
 public:
  storage(engine& of, std::filesystem::path directory, const options& o);
  ~storage();
  storage(const storage&) = delete;
  storage& operator=(const storage&) = delete;

  /// Null: nothing is logged.
  [[nodiscard]] journal* log() noexcept { return log_.get(); }
  [[nodiscard]] const recovery_report& recovered() const noexcept { return report_; }
  checkpoint_report checkpoint(checkpoint_pace how);
  backup_report backup(const std::filesystem::path& to);
  backup_report backup(const byte_sink& to);
  static void restore(storage_files& files, const byte_source& from,
                      const std::filesystem::path& directory);
  /// Without a log: the number of a change after the last checkpoint. Under the lock of the
  /// catalogue.
  [[nodiscard]] std::uint64_t next() const noexcept { return last_.load_relaxed() + 1; }
  /// Starts a checkpoint if the log is long enough.
  void after_commit() noexcept;
  void fill(log_stats& s) const noexcept;
  [[nodiscard]] std::string failure() const;

 private:
  log_end recover();
  checkpoint_report make_checkpoint(checkpoint_pace how);
  void checkpoint_in_background() noexcept;
  log_end freeze(std::unique_ptr<reader>& view);
  void freeze_tables(checkpoint_source& from) const;
  checkpoint_report write_checkpoint(const std::filesystem::path& directory,
                                     const checkpoint_source& from, checkpoint_pace how);
  checkpoint_report write_rows(storage_file& file, const checkpoint_source& from,
                               checkpoint_pace how);
  checkpoint_source begin_copy(std::unique_ptr<reader>& view);
  std::uint64_t remove_up_to(const std::filesystem::path& directory, std::uint64_t sequence);
  log_end end_of_backup(const std::filesystem::path& directory, const directory_content& has);
  bool copy_segments(const std::filesystem::path& to, const log_end& from, backup_report& report);
  static void refuse_ahead(const std::filesystem::path& copy, const log_end& theirs,
                           std::uint64_t ours);
  void fits(const std::filesystem::path& segment, const log_end& end,
            const std::filesystem::path& copy) const;
  /// The directory has a log which goes on where each copy ends.
  [[nodiscard]] bool logged() const noexcept { return log_ != nullptr || options_.read_only; }
  std::uint64_t copy_file(const std::filesystem::path& from, const std::filesystem::path& to);

  engine& engine_;
  const std::filesystem::path directory_;
  const std::shared_ptr<storage_files> files_;
  const options options_;
  std::unique_ptr<identity_file> identity_;
  recovery_report report_;
  std::unique_ptr<journal> log_;

  std::mutex checkpoint_lock_;     // one checkpoint or backup at a time
  log_end end_;                    // without a log: of the last checkpoint
  atomic<std::uint64_t> last_{0};  // end_.sequence, for who does not hold the lock
  atomic<std::uint64_t> checkpoints_{0};
  atomic<std::uint64_t> log_at_checkpoint_{0};  // bytes of log that need not be read again
  std::uint64_t log_at_open_ = 0;               // bytes that were read
  atomic<bool> stopping_{false};
  atomic<bool> in_background_{false};
  std::mutex background_lock_;
  at_home<std::thread> background_;
  atomic<std::uint64_t> failed_checkpoints_{0};
};

/// Reads a whole file.
struct file_bytes {
  std::unique_ptr<std::byte[]> data;
  std::size_t size = 0;
  [[nodiscard]] bytes_view view() const noexcept { return {data.get(), size}; }
};
file_bytes read_file(storage_files& files, const std::filesystem::path& file);

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
