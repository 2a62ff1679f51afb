// SPDX-License-Identifier: Apache-2.0
// recovery.hpp: from files to tables. Internal.
//
// One thread reads and checks; the rows are put in place by several, each of which has the keys
// with some hash, so that the changes of one row are made in their order. Secondary indexes are
// filled at the end, from the rows that are left.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <spolia/db/durability.hpp>
#include <spolia/db/files.hpp>

#include "engine.hpp"
#include "journal.hpp"
#include "log_format.hpp"
#include "storage.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Puts rows into tables that nobody else uses yet.
class loader {
 public:
  explicit loader(engine& of) noexcept : engine_(of) {}
  /// A row without its change_header. Throws malformed, std::bad_alloc.
  void put(table& t, decoder& row);
  void erase(table& t, decoder& key);
  /// Adds the rows of some slots to the secondary indexes.
  void index(table& t, std::uint64_t first, std::uint64_t end);
  static table& create(engine& of, const table_spec& spec);
  static bool indexed(const table& t) noexcept { return !t.secondaries_.empty(); }

 private:
  engine& engine_;
  std::vector<std::uint64_t> image_;
};

/// Changes that one thread makes, all from one file; or a block of a checkpoint.
struct change_batch {
  struct change {
    table* of = nullptr;
    row_change what = row_change::put;
    bytes_view row;
  };
  std::shared_ptr<const file_bytes> bytes;  // what the rows lie in
  std::filesystem::path file;
  std::uint64_t at = 0;  // of `bytes` in the file
  std::vector<change> changes;
  table* block_of = nullptr;
};

/// The threads that make them; one is the one that reads.
class loading_crew {
 public:
  loading_crew(engine& of, std::uint32_t threads);
  ~loading_crew();
  loading_crew(const loading_crew&) = delete;
  loading_crew& operator=(const loading_crew&) = delete;

  [[nodiscard]] std::size_t size() const noexcept {
    return std::max<std::size_t>(workers_.size(), 1);
  }
  /// Waits while the worker has enough to do. Throws what a worker has thrown.
  void give(std::size_t worker, change_batch&& b);
  /// Until all is done.
  void finish();
  /// Drops what is not done yet, and what went wrong.
  void abandon();

 private:
  static constexpr std::size_t most_waiting = 8;
  struct worker {
    std::thread runs;
    std::mutex lock;
    std::condition_variable changed;
    std::deque<change_batch> waiting;
    bool busy = false;
    bool stop = false;
    std::exception_ptr failed;
  };
  void run(worker& w) noexcept;
  static void make(loader& with, const change_batch& b);
  static void load(loader& with, const change_batch& b);
  static void look(worker& w);

  engine& engine_;
  loader alone_{engine_};
  std::vector<std::unique_ptr<worker>> workers_;  // none: alone
};

class recovery {
 public:
  recovery(engine& of, storage_files& files, const std::filesystem::path& directory,
           const database_id& id, const options& o, recovery_report& report);
  /// Where the log ends; log_end::epoch is that of the last writer. With `repair` the end of the
  /// last segment is cut off where it is torn.
  log_end run(const directory_content& has, bool repair);

 private:
  std::uint64_t begin_with(const directory_content& has, std::exception_ptr& failed);
  void load_checkpoint(std::uint64_t sequence);
  void load_blocks(storage_file& file, const std::filesystem::path& name, const file_header& header,
                   std::uint32_t chain);
  void load_table(const change_batch& block, const block_header& h);
  void replay(const directory_content& has);
  void replay_segment(std::uint64_t first, bool last);
  const char* follows(const record_header& h, std::uint32_t epoch) const noexcept;
  void apply(const record_header& h, bytes_view body);
  void apply_changes(bytes_view body);
  void give(std::size_t worker);
  void give_all();
  void cut(const std::filesystem::path& name, bytes_view all, std::size_t at, const char* why);
  void repair_last(const directory_content& has);
  void fill_indexes();
  void tell(const char* stage, std::uint64_t done, std::uint64_t of);
  [[noreturn]] static void refuse(const std::filesystem::path& name, std::uint64_t at,
                                  const std::string& why);

  engine& engine_;
  storage_files& files_;
  const std::filesystem::path directory_;
  const database_id id_;
  const options& options_;
  recovery_report& report_;
  loading_crew crew_;
  log_end end_;
  bool log_follows_ = false;  // the checkpoint says so
  std::vector<change_batch> batches_;
  std::shared_ptr<const file_bytes> bytes_;  // of the segment that is read
  std::filesystem::path name_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
