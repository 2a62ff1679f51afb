// SPDX-License-Identifier: Apache-2.0
// salvage.hpp: reading what is left of a damaged database. Internal; what it promises is in
// spolia/db/salvage.hpp.
//
// Steps:       salvage_history looks through all files, finds pieces of the log (records that
//              follow each other) and decides which of them make one history. salvaged_checkpoint
//              finds the whole blocks of one checkpoint. salvaged_tables puts rows into the new
//              database. The class salvaging drives them.
// Which fit:   each record names the checksum of the one before, its number and its epoch, and so
//              do the headers of files. Of pieces that exclude each other, those are used that have
//              the most bytes together. So bytes in a row that look like a record, and files of
//              another history with the same id, do not take the place of what is true.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <spolia/db/database.hpp>
#include <spolia/db/salvage.hpp>

#include "db/files/folder.hpp"
#include "db/log/linked_places.hpp"
#include "db/log/log_format.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

struct extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Reads a part of a file that exists. What a disk does not give is zeros, and added to
/// `unreadable`. Returns how many bytes there are. Throws storage_error where the system does not
/// let this process read.
std::size_t read_what_can_be(storage_file& from, std::uint64_t offset, std::span<std::byte> to,
                             std::vector<extent>& unreadable);

/// Records that follow each other in a file; or none, where the header of a file alone says which
/// record came before it.
struct log_piece {
  std::uint64_t first = 0;  // number of the first record
  std::uint64_t last = 0;   // first - 1: there is none
  std::uint32_t chain = 0;  // the checksum of the record before the first
  std::uint32_t crc = 0;    // of the last; without records: chain
  std::uint32_t epoch = 0;
  bool linked = true;  // these three are known
  bool checkpoint = false;
  std::size_t file = 0;
  std::uint64_t begin = 0;       // with the header, if that is a part of it
  std::uint64_t records_at = 0;  // where the first record is
  std::uint64_t end = 0;
  std::uint64_t weight = 0;
  /// The record before it is lost, and its header says that it was no new table.
  bool no_table_lost = false;

  [[nodiscard]] bool has_records() const noexcept { return last >= first; }
  [[nodiscard]] std::uint64_t records() const noexcept { return last + 1 - first; }
};

/// Of so many candidates in order the ones that fit to each other and weigh the most together.
/// fits(x, y): y may come right after x, which is before it.
template <class Weight, class Fits>
std::vector<std::size_t> heaviest_chain(std::size_t count, Weight&& weight, Fits&& fits) {
  constexpr std::size_t far_enough = 4096;  // candidates back: each is a hole of its own
  constexpr std::size_t none = ~std::size_t{0};
  std::vector<std::uint64_t> sum(count);
  std::vector<std::size_t> before(count, none);
  std::size_t best = none;
  for (std::size_t y = 0; y < count; ++y) {
    for (std::size_t x = y; x-- > (y > far_enough ? y - far_enough : 0);) {
      if (sum[x] > sum[y] && fits(x, y)) {
        sum[y] = sum[x];
        before[y] = x;
      }
    }
    sum[y] += weight(y);
    if (best == none || sum[y] > sum[best]) best = y;
  }
  std::vector<std::size_t> chain;
  for (; best != none; best = before[best]) chain.push_back(best);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

/// A whole block of a checkpoint.
struct whole_block {
  block_kind kind = block_kind::rows;
  std::uint32_t table = 0;
  std::uint64_t rows = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// What is left of a checkpoint.
class salvaged_checkpoint {
 public:
  /// Reads all of it. Throws storage_error if it cannot be opened, or this process may not read it.
  salvaged_checkpoint(folder& in, std::uint64_t named,
                      const std::function<void(std::uint64_t)>& tell);

  struct gap {
    extent where;
    std::uint32_t first = 0;  // tables whose rows may have been there: from, to
    std::uint32_t last = 0;
    bool rows = false;    // some may have been
    bool tables = false;  // definitions may have been
  };

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// Nothing: it is damaged, and no block proves what it says.
  [[nodiscard]] const std::optional<file_header>& header() const noexcept { return header_; }
  [[nodiscard]] const char* wrong_header() const noexcept { return wrong_header_; }
  [[nodiscard]] const std::vector<extent>& unreadable() const noexcept { return unreadable_; }
  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }
  [[nodiscard]] bool whole() const noexcept { return whole_; }
  [[nodiscard]] const std::vector<whole_block>& blocks() const noexcept { return blocks_; }
  [[nodiscard]] const std::vector<gap>& gaps() const noexcept { return gaps_; }
  [[nodiscard]] std::uint64_t bytes_in_blocks() const noexcept { return bytes_; }
  /// Whether rows of the table may be missing.
  [[nodiscard]] bool may_miss_rows(std::uint32_t table) const noexcept;
  /// Rows that are missing. Nothing: not known.
  [[nodiscard]] std::optional<std::uint64_t> missing_rows() const noexcept;
  /// The block with its header.
  [[nodiscard]] byte_block read(const whole_block& b);

 private:
  /// Blocks that follow each other, each of which names the checksum of the one before.
  struct run {
    std::vector<whole_block> blocks;
    std::uint32_t chain = 0;  // of the block before the first
    std::uint32_t crc = 0;    // of the last

    [[nodiscard]] std::uint64_t begin() const noexcept { return blocks.front().begin; }
    [[nodiscard]] std::uint64_t end() const noexcept { return blocks.back().end; }
    [[nodiscard]] bool is_end() const noexcept { return blocks.back().kind == block_kind::end; }
    [[nodiscard]] bool may_come_before(const run& y) const noexcept;
  };

  bool whole_at(std::uint64_t at, block_header& out);
  [[nodiscard]] bool has_history(bytes_view body) const;
  std::uint64_t next_after(std::uint64_t hole);
  void find_all(std::uint64_t from);
  void take(std::uint64_t at, const block_header& h);
  [[nodiscard]] bool has_end() const noexcept {
    return !blocks_.empty() && blocks_.back().kind == block_kind::end;
  }
  [[nodiscard]] std::uint64_t rows_in_blocks() const noexcept;
  void choose(bool header_fits);
  void find_gaps();
  void add_gap(const whole_block* before, const whole_block* after, extent where);

  std::string name_;
  std::unique_ptr<storage_file> file_;
  std::vector<extent> unreadable_;
  std::uint64_t size_ = 0;
  std::optional<file_header> header_;
  std::uint32_t header_crc_ = 0;
  const char* wrong_header_ = nullptr;
  std::uint64_t sequence_ = 0;
  // Of all whole blocks after the first hole that needs it: bytes of rows that look like blocks,
  // too.
  std::optional<linked_places> links_;
  std::vector<std::uint64_t> places_;
  std::vector<run> runs_;
  std::vector<whole_block> blocks_;
  std::vector<gap> gaps_;
  std::uint64_t bytes_ = 0;
  bool whole_ = false;
};

/// All files of a directory, and which parts of them make one history.
class salvage_history {
 public:
  salvage_history(folder& in, const recovery_listener& tell, salvage_report& report);

  /// Those that are used, in their order. If a checkpoint is whole, the last such one is the first.
  [[nodiscard]] const std::vector<log_piece>& pieces() const noexcept { return used_; }
  /// Of a piece; null: it is of a segment.
  [[nodiscard]] salvaged_checkpoint* checkpoint_of(const log_piece& p) const noexcept {
    return files_[p.file].checkpoint.get();
  }
  /// The file that a piece is in, as far as it can be read.
  [[nodiscard]] byte_block read(const log_piece& p) const;
  [[nodiscard]] std::filesystem::path path_of(const log_piece& p) const {
    return folder_.path_of(files_[p.file].name);
  }

 private:
  struct file {
    file_kind kind = file_kind::log;
    std::string name;
    std::uint64_t named = 0;
    std::uint64_t size = 0;
    std::unique_ptr<salvaged_checkpoint> checkpoint{};  // null: none, or it cannot be opened
    std::string wrong{};                                // why nothing of it can be used
    const char* wrong_header = nullptr;
    std::vector<extent> unreadable{};
  };

  void find_id();
  void look_at_segment(std::uint64_t named);
  void look_at_checkpoint(std::uint64_t named);
  void progress(std::uint64_t more);
  void choose();
  void count_unused();
  void find_proof();
  [[nodiscard]] bool superseded(std::size_t number) const;
  void report_segment(std::size_t file);
  void report_checkpoint(std::size_t file);
  void report_missing();
  void report_end();
  void add_missing(missing_records what, const char* why);
  [[nodiscard]] std::uint64_t end_of_used() const noexcept {
    return used_.empty() ? 0 : used_.back().last;
  }
  void report_tail(const file& of, std::size_t last);
  [[nodiscard]] std::string what_is_at(const file& of, extent where) const;
  [[nodiscard]] missing_records missing_before(std::size_t used) const;
  void note(std::filesystem::path path, extent where, std::string what,
            missing_records missing = {});

  folder& folder_;
  const recovery_listener& tell_;
  salvage_report& report_;
  const folder_content has_;
  std::optional<database_id> id_;
  std::vector<file> files_;
  std::vector<log_piece> pieces_;
  std::vector<log_piece> used_;
  std::vector<bool> is_used_;  // of pieces_
  std::uint64_t proven_ = 0;   // there were records up to this one, at least
  std::size_t proof_ = 0;      // a checkpoint that is not used says so, if they are not all used
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
};

/// The tables of the new database while it is filled. The members that take what a file says throw
/// malformed where it makes no sense, and have changed nothing then.
class salvaged_tables {
 public:
  explicit salvaged_tables(database& to) : base_(to) {}
  salvaged_tables(const salvaged_tables&) = delete;
  salvaged_tables& operator=(const salvaged_tables&) = delete;

  /// So far nothing is missing: what makes no sense is damage, and no consequence of it.
  [[nodiscard]] bool sound() const noexcept { return sound_; }
  void begin_incomplete() noexcept { sound_ = false; }
  /// Records are missing here.
  void hole(missing_records what);
  /// So many tables were made so far, also such as are lost.
  [[nodiscard]] std::uint32_t numbers() const noexcept {
    return static_cast<std::uint32_t>(tables_.size());
  }
  void number_up_to(std::uint32_t count);
  /// One more than the highest number that changes have named: so many must have been made.
  [[nodiscard]] std::uint32_t named() const noexcept { return named_; }
  /// Null: it was dropped, or its definition is lost.
  [[nodiscard]] const schema* layout_of(std::uint32_t number) const noexcept;
  /// Of what a record has, the next one, up to its row. Throws malformed.
  static change_header next_change(decoder& from);
  /// Whether these bytes can be a change of a table with these columns.
  [[nodiscard]] static bool can_be(const schema& s, const change_header& c, bytes_view row);

  void create_table(std::uint32_t number, const table_spec& spec, bool doubtful);
  void drop_table(std::uint32_t number);
  void rename_table(std::uint32_t number, const std::string& name);
  void create_index(std::uint32_t number, const index_spec& spec);
  void drop_index(std::uint32_t number, const std::string& name);
  /// The changes of a record, all but such as make no sense; what is wrong with those, or nothing.
  std::string apply(bytes_view changes);
  /// A table as a checkpoint has it. Its older rows stay if the checkpoint may have lost some.
  void begin_table(std::uint32_t number, const table_spec& spec, bool incomplete);
  /// The rows of a block, all or none; what is wrong with it, or nothing.
  std::string put_rows(std::uint32_t number, bytes_view rows, std::uint64_t count);

  /// Makes what was put visible.
  void flush();
  void make_indexes(const recovery_listener& tell);
  using line_writer =
      std::function<std::filesystem::path(const std::string& name, const std::string& lines)>;
  void report(salvage_report& to, const line_writer& write) const;

 private:
  /// What is known of a row that was changed behind a hole.
  struct mark {
    std::size_t exact = 0;    // the number of holes before what made it as it is, in all columns
    std::size_t since = 0;    // the same for the columns below
    std::uint64_t known = 0;  // that were set since
    bool mixed = false;
  };
  /// Of a row that is not there, columns that were set, as JSON; by their numbers.
  using part = std::map<std::uint32_t, std::string>;
  struct one {
    table* of = nullptr;
    table_spec spec;
    bool doubtful = false;
    bool incomplete = false;
    std::string former_name;                      // its name was made up
    bool begun_empty = false;                     // by the checkpoint that is read
    std::unordered_map<std::string, mark> marks;  // by the bytes of the key
    std::map<std::string, part> parts;            // the same
    std::vector<std::string> not_unique;
    std::vector<std::string> lost_indexes;
  };
  class words;

  one* known(std::uint32_t number);
  [[nodiscard]] one* find(std::uint32_t number) const noexcept;
  one& make(std::uint32_t number, const table_spec& spec);
  static void take_indexes(one& t, const table_spec& spec);
  void remove(std::unique_ptr<one>& t);
  [[nodiscard]] one* called(const std::string& name) const noexcept;
  void make_room_for(const std::string& name);
  void give_name(one& t, const std::string& name);
  void rename(one& t, const std::string& name);
  void begin_change(std::size_t bytes);
  void change(one& t, const change_header& c, bytes_view row, bool from_block);
  void put(one& t, const words& row, bool from_block);
  void set(one& t, const words& row);
  void erase(one& t, const words& row);
  void make_index(one& t, const index_spec& i);
  [[nodiscard]] std::vector<older_rows> older_of(const one& t, std::uint64_t rows) const;

  database& base_;
  std::unique_ptr<transaction> now_;
  std::size_t changes_ = 0;
  std::size_t bytes_ = 0;
  bool sound_ = true;
  std::vector<missing_records> holes_;
  std::vector<std::unique_ptr<one>> tables_;  // by number; null: dropped, or lost
  std::map<std::uint32_t, lost_table> lost_;
  std::uint32_t named_ = 0;
  std::vector<std::uint64_t> image_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
