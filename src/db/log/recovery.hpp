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
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <spolia/db/durability.hpp>
#include <spolia/db/files.hpp>

#include "db/engine.hpp"
#include "db/files/storage.hpp"
#include "db/log/history.hpp"
#include "db/log/journal.hpp"
#include "db/log/log_format.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// A change of a row, as the log has it.
struct row_edit {
  table* of = nullptr;
  std::uint64_t hash = 0;  // key_hash()
  const std::byte* begin = nullptr;
  std::uint32_t length = 0;
  row_change what = row_change::put;

  [[nodiscard]] bytes_view row() const noexcept { return {begin, length}; }
};

inline constexpr std::uint64_t stamp_of_loaded = 1;  // what the clock says at first

/// Puts rows into tables that no transaction uses yet. A call that throws malformed or
/// std::bad_alloc leaves tables that are of no use any more.
class loader {
 public:
  explicit loader(engine& of) noexcept : engine_(of) {}
  loader(const loader&) = delete;
  loader& operator=(const loader&) = delete;

  /// Makes them in their order. `now` is the one that it is at.
  void make(std::span<const row_edit> edits, const row_edit*& now);
  /// So many rows without their change_header, whose keys are new, into a table that has nothing
  /// else. They are found after settle() for each part of the table, or with `claim_each` at once.
  void put_all(table& t, decoder& from, std::uint64_t rows, bool claim_each);
  /// False: a key came twice.
  static bool settle(table& t, unsigned part, unsigned parts);
  /// Gives back the slots that it has taken beforehand.
  void release() noexcept;
  /// Their tables are gone.
  void forget() noexcept { taken_.clear(); }
  /// Adds the rows of some slots to the secondary indexes. Throws malformed where two rows have
  /// one key of a unique index.
  void index(table& t, std::uint64_t first, std::uint64_t end);
  static table& create(engine& of, const table_spec& spec, std::size_t number);
  static void add_index(table& t, const index_spec& spec);
  static void drop_index(table& t, const std::string& name);
  static void rename(table& t, const std::string& name);
  /// About so many rows will come, and then settle().
  static void reserve(table& t, std::uint64_t rows);
  static bool indexed(const table& t) noexcept { return !t.indexes().all.empty(); }

 private:
  struct range {
    table* of = nullptr;  // gone, maybe, if the range is empty
    std::uint64_t next = 0;
    std::uint64_t end = 0;
    bool bare = false;  // a block is constructed when it is begun
  };

  std::uint64_t slot_for(table& t);
  range& range_of(const table& t);
  static void take_slots(table& t, range& mine);
  void make_apart(const table& t, std::uint64_t columns = every_column);
  void write_row(const table& t, const row_place& place, std::uint64_t shape) noexcept;
  static void finish_row(row_head& head, std::uint64_t shape) noexcept;
  template <class Key>
  bool put_block(table& t, decoder& from, Key* keys, std::uint64_t* slots);
  template <class Key>
  void put_some(table& t, decoder& from, std::span<Key> keys, std::uint64_t* slots);
  template <class Key>
  void put_keyed(table& t, decoder& from, std::uint64_t rows, bool claim_each);
  struct group;
  void look_at(group& g, const row_edit*& now);
  void make(group& g, const row_edit*& now);
  [[nodiscard]] bool still_right(const group& g, std::uint64_t slot) const noexcept;
  void put(table& t, const row_edit& e, std::uint64_t slot);
  void set(const table& t, bytes_view data, set_columns set, const row_place& place);
  void erase(table& t, const row_edit& e, std::uint64_t slot);
  static void expect_row(const schema& s, row_change what, set_columns set, const row_place& place);
  static void must_be_done(bytes_view rest);
  static void must_be_alone(const table& t, const secondary& i, const key_words& key,
                            std::uint64_t slot);
  key_words key_of(const row_edit& e);
  bytes_view behind_key(const row_edit& e);

  engine& engine_;
  std::vector<std::uint64_t> image_;
  std::vector<key_note> notes_;
  std::vector<range> taken_;  // by the number of the table
  std::uint64_t inserted_ = 0;
  std::uint64_t erased_ = 0;
};

/// Memory that files are read into, again and again: new memory costs as much as reading does.
class read_buffers {
 public:
  struct buffer {
    std::unique_ptr<std::byte[]> data;
    std::size_t room = 0;
    std::size_t size = 0;  // of it, that was read
    [[nodiscard]] bytes_view view() const noexcept { return {data.get(), size}; }
  };
  using handle = std::shared_ptr<buffer>;

  read_buffers() { waiting_.reserve(most_waiting); }
  /// With so much room at least. All must be gone before this is.
  handle take(std::size_t room);

 private:
  static constexpr std::size_t most_waiting = 64;
  static constexpr std::size_t longest_kept = 8U << 20U;
  void give(buffer* b) noexcept;

  std::mutex lock_;
  std::vector<std::unique_ptr<buffer>> waiting_;
};

/// Has the system read on while what was read is looked at: a disk is as quick as it can be only if
/// it has something to do at all times.
class read_ahead {
 public:
  explicit read_ahead(storage_file& file) noexcept : file_(file) {}
  /// What comes from `at` on is looked at now.
  void reach(std::uint64_t at) noexcept {
    for (expected_ = std::max(expected_, at); expected_ < at + lead; expected_ += step) {
      file_.expect(expected_, step);
    }
  }

 private:
  static constexpr std::size_t lead = 8U << 20U;
  static constexpr std::size_t step = 1U << 20U;

  storage_file& file_;
  std::uint64_t expected_ = 0;  // up to here
};

/// Reads a file from some place, the beginning, to the end.
class file_stream {
 public:
  file_stream(read_buffers& from, storage_file& file, std::uint64_t at = 0)
      : buffers_(from), file_(file), size_(file.size()), ahead_(file), begin_(at) {}

  /// What follows, `bytes` of it at least unless the file ends before. There are decoder::spare
  /// bytes more.
  bytes_view look(std::size_t bytes);
  void pass(std::size_t bytes) noexcept { used_ += bytes; }
  /// What follows is read anew: another process may have written it since.
  void forget() {
    begin_ = at();
    used_ = 0;
    now_ = nullptr;
    size_ = file_.size();
  }
  /// Nothing follows.
  void end_here() {
    forget();
    size_ = begin_;
  }
  /// Of what follows, in the file.
  [[nodiscard]] std::uint64_t at() const noexcept { return begin_ + used_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint64_t left() const noexcept { return size_ - at(); }
  /// What the last look() was at, and where that begins in the file.
  [[nodiscard]] const read_buffers::handle& buffer() const noexcept { return now_; }
  [[nodiscard]] std::uint64_t begin() const noexcept { return begin_; }

 private:
  static constexpr std::size_t part = 256U << 10U;  // the caches hold some of them

  read_buffers& buffers_;
  storage_file& file_;
  std::uint64_t size_;
  read_ahead ahead_;
  read_buffers::handle now_;
  std::uint64_t begin_;   // of the buffer, in the file
  std::size_t used_ = 0;  // of the buffer
};

/// Changes that one thread makes, all from one file; or a block of a checkpoint, which that thread
/// reads: so the rows are in its cache.
struct change_batch {
  read_buffers::handle bytes;  // what the rows lie in
  std::filesystem::path file;
  std::uint64_t at = 0;  // of `bytes` in the file
  std::vector<row_edit> changes;
  table* block_of = nullptr;
  std::shared_ptr<storage_file> from;  // of a block
  std::size_t size = 0;                // of it
  bool claim_each = false;             // of its keys
  /// Throws storage_error if the file ends within it.
  void read_block(read_buffers& buffers);
};

/// The threads that make them; one is the one that reads.
class loading_pool {
 public:
  loading_pool(engine& of, read_buffers& buffers, std::uint32_t threads);
  ~loading_pool();
  loading_pool(const loading_pool&) = delete;
  loading_pool& operator=(const loading_pool&) = delete;

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
    explicit worker(engine& of) noexcept : with(of) {}
    loader with;
    std::thread runs;
    std::mutex lock;
    std::condition_variable changed;
    std::deque<change_batch> waiting;
    bool busy = false;
    bool stop = false;
    std::exception_ptr failed;
  };
  void run(worker& w) noexcept;
  void make(loader& with, change_batch& b);
  void load(loader& with, change_batch& b);
  static void look(worker& w);

  engine& engine_;
  read_buffers& buffers_;
  loader alone_{engine_};
  std::vector<std::unique_ptr<worker>> workers_;  // none: alone
};

/// The next record, whole unless the file ends before; or what is wrong.
const char* next_record(file_stream& from, record_header& out);
/// What is wrong if a record does not follow where the log ends before it.
const char* follows(const record_header& h, const log_end& before) noexcept;
/// Whether a record further on was written when record `sequence` was known to be durable. If none
/// was, a log that ends before that record has a torn end; else it is damaged.
bool proves_durable(bytes_view all, std::uint32_t epoch, std::uint64_t sequence);

class recovery {
 public:
  static constexpr std::uint64_t whole_log = ~std::uint64_t{0};

  /// Later records than `until` are left out. The checkpoints must not be later.
  recovery(engine& of, folder& where, const options& o, recovery_report& report,
           std::uint64_t until = whole_log);
  /// Where the log ends; log_end::epoch is that of the last writer. Changes no file. `nans` gets
  /// the rows that are left out.
  log_end run(const folder_content& has, nan_rows& nans);
  /// Then: segments that begin before this, if there are any, are not known to lead up to it.
  [[nodiscard]] std::uint64_t whole_from() const noexcept {
    return log_follows_ ? 0 : report_.checkpoint_sequence;
  }
  /// Up to where the log ends.
  [[nodiscard]] const history& past() const noexcept { return past_; }
  /// Where the records of the last segment begin that nothing proves to be on the disk. Each group
  /// of records says that all before it was durable when it was written.
  [[nodiscard]] std::uint64_t unproven_from() const noexcept { return unproven_from_; }
  /// The same of the whole log: the segments before that one are on the disk. 0: nothing proves it.
  [[nodiscard]] std::uint64_t unproven_segment() const noexcept { return unproven_segment_; }

 private:
  std::uint64_t begin_with(const folder_content& has, std::exception_ptr& failed);
  void load_checkpoint(std::uint64_t sequence);
  void start_anew();
  void load_blocks(const std::shared_ptr<storage_file>& file, const std::filesystem::path& name,
                   const file_header& header, std::uint32_t chain);
  void load_table(const change_batch& block, const block_header& h, const file_header& header,
                  std::uint64_t bytes_left);
  void read_past(const change_batch& end, std::uint64_t last);
  bool settle();
  void replay(const folder_content& has);
  void replay_segment(std::uint64_t first, bool last, std::uint64_t end);
  file_header begin_segment(file_stream& from, std::uint64_t first) const;
  void apply(const file_stream& from, const record_header& h, bytes_view body);
  void apply_changes(const file_stream& from, bytes_view body);
  void create_table(const table_spec& spec);
  void drop_table(std::uint32_t number);
  void change_table(record_kind what, decoder body);
  [[nodiscard]] table& numbered(std::uint32_t number) const {
    if (number >= numbered_.size() || numbered_[number] == nullptr) {
      throw malformed("a change of an unknown table");
    }
    return *numbered_[number];
  }
  void give(std::size_t worker);
  void give_all();
  const char* look_again(file_stream& from, std::uint32_t epoch, record_header& h, const char* why);
  void look_beyond(file_stream& from);
  void end_early(const file_stream& from);
  void end_torn(file_stream& from, std::uint32_t epoch, const char* why);
  void fill_indexes();
  void in_parts(std::size_t parts, const std::function<void(std::size_t)>& f) const;
  void tell(const char* stage, std::uint64_t done, std::uint64_t of);
  [[noreturn]] static void refuse(const std::filesystem::path& name, std::uint64_t at,
                                  const std::string& why);

  engine& engine_;
  folder& folder_;
  const options& options_;
  recovery_report& report_;
  const std::uint64_t until_;
  read_buffers buffers_;
  loading_pool pool_;
  log_end end_;
  history past_;
  bool log_follows_ = false;  // the checkpoint says so
  bool claim_each_ = false;   // of the checkpoint's keys: to tell which comes twice
  bool many_nans_ = false;    // a file that was read is of a format that may have several
  std::vector<change_batch> batches_;
  std::vector<table*> numbered_;  // by their numbers; null: gone
  std::filesystem::path name_;    // of the segment that is read
  std::uint64_t unproven_from_ = 0;
  std::uint64_t unproven_segment_ = 0;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
