// SPDX-License-Identifier: Apache-2.0
// recovery.cpp: reading checkpoints and logs.
#include "db/log/recovery.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <spolia/base/processors.hpp>

#include "db/log/checksum.hpp"
#include "db/log/nan_rows.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::size_t changes_in_batch = 2048;

std::uint32_t threads_for(const options& o) {
  if (o.recovery_threads != 0) return std::min(o.recovery_threads, 64U);
  return std::min(processors(), 16U);
}

/// A checkpoint takes the place of the log up to it, which is removed then. So where the log begins
/// too late no program can tell which of the two was there. next: where it begins; 0: it does not.
std::string what_is_missing(std::uint64_t next) {
  const std::string one = "this part of the log is missing";
  if (next == 0) return one + ". Put it back, or restore a backup";
  return one + ", or the checkpoint of what was in it, " +
         file_name(file_kind::checkpoint, next - 1) +
         ": put that of the two back which was there, or restore a backup";
}

}  // namespace

const char* next_record(file_stream& from, record_header& out) {
  bytes_view all = from.look(record_header::bytes);
  if (all.size() >= record_header::bytes) {
    all = from.look(record_header::bytes + std::size_t{parse_record(all).length});
  }
  return read_record(all, out);
}

const char* follows(const record_header& h, const log_end& before) noexcept {
  if (h.chain != before.chain || h.sequence != before.sequence + 1 || h.epoch != before.epoch ||
      h.durable >= h.sequence) {
    return "a record does not follow the one before it";
  }
  return nullptr;
}

bool proves_durable(bytes_view all, std::uint32_t epoch, std::uint64_t sequence) {
  std::optional<part_checksums> sums;
  for (std::size_t at = 0; at + record_header::bytes <= all.size(); ++at) {
    const bytes_view rest = all.subspan(at);
    if (from_little<std::uint32_t>(rest.data()) != record_header::magic) continue;
    // Its checksum is looked at last: rows may be full of what looks like records.
    const record_header says = parse_record(rest);
    if (says.epoch != epoch || says.durable < sequence || says.durable >= says.sequence) continue;
    if (!sums) sums.emplace(all);
    record_header h;
    if (read_record(all, at, *sums, h) == nullptr) return true;
  }
  return false;
}

recovery::recovery(engine& of, folder& where, const options& o, recovery_report& report,
                   std::uint64_t until)
    : engine_(of),
      folder_(where),
      options_(o),
      report_(report),
      until_(until),
      pool_(of, buffers_, threads_for(o)),
      batches_(pool_.size()) {}

void recovery::refuse(const std::filesystem::path& name, std::uint64_t at, const std::string& why) {
  throw damage_at(name, at, why);
}

void recovery::tell(const char* stage, std::uint64_t done, std::uint64_t of) {
  if (options_.on_recovery) options_.on_recovery({stage, done, of, end_.sequence});
}

log_end recovery::run(const folder_content& has, nan_rows& nans) {
  std::exception_ptr newest_failed;
  const std::uint64_t at_least = begin_with(has, newest_failed);
  try {
    replay(has);
  } catch (const storage_error&) {
    // The log from the beginning is only asked for where the checkpoint cannot be used.
    if (newest_failed != nullptr) std::rethrow_exception(newest_failed);
    throw;
  }
  pool_.finish();
  // Without its newest checkpoint a database is whole only if the log reaches further.
  if (newest_failed != nullptr && end_.sequence < at_least) std::rethrow_exception(newest_failed);
  engine_.table_numbers = static_cast<std::uint32_t>(numbered_.size());
  if (many_nans_) nans.unify(engine_);
  fill_indexes();
  report_.sequence = end_.sequence;
  return end_;
}

/// Loads the newest checkpoint that is whole; returns the sequence of the newest. `failed` is what
/// is wrong with that, if it is another one.
std::uint64_t recovery::begin_with(const folder_content& has, std::exception_ptr& failed) {
  for (auto next = has.checkpoints.rbegin(); next != has.checkpoints.rend(); ++next) {
    try {
      load_checkpoint(*next);
      break;
    } catch (const storage_error& e) {
      if (failed == nullptr) failed = std::current_exception();
      report_.notes.push_back({"not used: " + words_of(e.what()), e.reason(), e.fault()});
    }
    start_anew();
  }
  return has.checkpoints.empty() ? 0 : has.checkpoints.back();
}

void recovery::start_anew() {
  pool_.abandon();
  engine_.tables.clear();
  numbered_.clear();
  end_ = {};
  past_ = {};
  unproven_segment_ = 0;
  log_follows_ = false;
  claim_each_ = false;
  many_nans_ = false;
  report_.checkpoint_rows = 0;
}

void recovery::load_checkpoint(std::uint64_t sequence) {
  const std::string in_folder = file_name(file_kind::checkpoint, sequence);
  const auto name = folder_.path_of(in_folder);
  const std::shared_ptr<storage_file> file = folder_.open(in_folder, file_mode::read);
  std::array<std::byte, file_header::bytes> bytes{};
  const std::size_t got = file->read(0, bytes);
  const file_header h =
      folder_.own_header(file_kind::checkpoint, sequence, bytes_view(bytes).first(got));
  load_blocks(file, name, h, header_checksum(bytes));
  if (!settle()) {  // where that is, is not known: once more, which finds it
    start_anew();
    claim_each_ = true;
    load_blocks(file, name, h, header_checksum(bytes));
  }
  end_ = {h.epoch, h.sequence, h.chain};
  log_follows_ = h.log_follows;
  many_nans_ = h.format < first_with_one_nan;
  report_.checkpoint_sequence = h.sequence;
}

void recovery::load_blocks(const std::shared_ptr<storage_file>& file,
                           const std::filesystem::path& name, const file_header& header,
                           std::uint32_t chain) {
  const std::uint64_t size = file->size();
  std::uint64_t rows = 0;
  std::uint64_t at = file_header::bytes;
  std::size_t turn = 0;
  read_ahead ahead(*file);
  for (;;) {
    ahead.reach(at);
    std::array<std::byte, block_header::bytes> head{};
    block_header h;
    const std::size_t got = file->read(at, head);
    if (const char* const why = read_block_header(bytes_view(head).first(got), h)) {
      refuse(name, at, why);
    }
    if (h.chain != chain) refuse(name, at, "a block does not follow the one before it");
    if (size - at - head.size() < h.length) refuse(name, at, "the file ends within a block");
    change_batch b{.bytes = {},
                   .file = name,
                   .at = at,
                   .changes = {},
                   .from = file,
                   .size = head.size() + h.length,
                   .claim_each = claim_each_};
    chain = h.crc;
    at += b.size;
    if (h.kind == block_kind::rows && h.table < numbered_.size() && numbered_[h.table] != nullptr) {
      rows += h.rows;
      b.block_of = numbered_[h.table];
      pool_.give(turn++ % pool_.size(), std::move(b));
      tell("checkpoint", at, size);
      continue;
    }
    b.read_block(buffers_);
    if (!block_whole(b.bytes->view(), h)) {
      refuse(name, b.at, "the checksum of a block is wrong");
    } else if (h.kind == block_kind::table) {
      load_table(b, h, header, size - at);
    } else if (h.kind == block_kind::end) {
      pool_.finish();
      const bool all = header.tables == numbered_.size() || header.format >= first_with_drops;
      if (h.rows != rows || !all || header.tables > most_tables) {
        refuse(name, b.at, "a checkpoint ends where it should not");
      }
      if (at != size) {
        throw storage_error(name, at, "there is more after the end of the checkpoint", {},
                            storage_fault::longer);
      }
      read_past(b, header.sequence);
      numbered_.resize(header.tables);  // the last ones are gone
      report_.checkpoint_rows = rows;
      tell("checkpoint", at, size);
      return;
    } else {
      refuse(name, b.at, "a block of an unknown kind, or of an unknown table");
    }
  }
}

void recovery::read_past(const change_batch& end, std::uint64_t last) {
  try {
    past_ = history::read(end.bytes->view().subspan(block_header::bytes), last);
  } catch (const malformed& e) {
    refuse(end.file, end.at, e.what());
  }
}

/// The block says how many rows the table had room for; what is left of the file, how many there
/// can be. Numbers that are left out were of tables that are gone.
void recovery::load_table(const change_batch& block, const block_header& h,
                          const file_header& header, std::uint64_t bytes_left) {
  try {
    const bool next = h.table == numbered_.size() ||
                      (h.table > numbered_.size() && header.format >= first_with_drops);
    if (!next || h.table >= std::min(header.tables, most_tables)) {
      throw malformed("a table is out of order");
    }
    numbered_.resize(h.table);
    create_table(read_table(block.bytes->view().subspan(block_header::bytes)));
    table& made = *numbered_.back();
    if (!claim_each_) {
      loader::reserve(made, std::min(h.rows, bytes_left / least_bytes(made.layout())));
    }
  } catch (const malformed& e) {
    refuse(block.file, block.at, e.what());
  }
}

/// A checkpoint ends where a segment does. Older segments may still be there.
void recovery::replay(const folder_content& has) {
  const auto first = std::lower_bound(has.segments.begin(), has.segments.end(), end_.sequence + 1);
  const bool found = first != has.segments.end() && *first == end_.sequence + 1;
  if (!found && (log_follows_ || first != has.segments.end())) {
    refuse(folder_.path_of(file_name(file_kind::log, end_.sequence + 1)), storage_error::nowhere,
           what_is_missing(first != has.segments.end() ? *first : 0));
  }
  for (auto at = first; at != has.segments.end() && *at <= until_; ++at) {
    const bool last = at + 1 == has.segments.end();
    // The process that has the directory may have made another segment, and have taken it back
    // since and gone on with this one: log_writer::name_segment(). What it has written to this one
    // since was not there when the directory was listed.
    const std::uint64_t end = !last && options_.attach ? at[1] - 1 : until_;
    replay_segment(*at, last, std::min(end, until_));
  }
  give_all();
}

/// Its header, if it is the next one.
file_header recovery::begin_segment(file_stream& from, std::uint64_t first) const {
  const file_header header =
      folder_.own_header(file_kind::log, first, from.look(file_header::bytes));
  if (first != end_.sequence + 1) refuse(name_, 0, "the log before this segment is missing");
  if (header.chain != end_.chain || header.epoch < end_.epoch) {
    refuse(name_, 0, "the segment does not follow the one before it");
  }
  from.pass(file_header::bytes);
  return header;
}

/// Its records up to `end`.
void recovery::replay_segment(std::uint64_t first, bool last, std::uint64_t end) {
  const std::string in_folder = file_name(file_kind::log, first);
  name_ = folder_.path_of(in_folder);
  const auto file = folder_.open(in_folder, file_mode::read);
  file_stream from(buffers_, *file);
  const file_header header = begin_segment(from, first);
  many_nans_ = many_nans_ || header.format < first_with_one_nan;
  const std::uint32_t epoch = header.epoch;
  end_.epoch = epoch;  // begin_segment(): none is later
  unproven_from_ = from.at();
  while (from.left() != 0 && end_.sequence < end) {
    record_header h;
    const char* why = next_record(from, h);
    if (why == nullptr) why = follows(h, end_);
    if (why != nullptr && last && options_.attach) why = look_again(from, epoch, h, why);
    if (why != nullptr) {
      if (only_zeros(from.look(from.left()))) {
        end_early(from);
      } else if (last) {
        end_torn(from, epoch, why);
      } else {
        refuse(name_, from.at(), why);
      }
      break;
    }
    if (h.durable == end_.sequence) {
      unproven_from_ = from.at();
      unproven_segment_ = first;
    }
    end_.sequence = h.sequence;
    end_.chain = h.crc;
    const std::size_t bytes = record_header::bytes + h.length;
    try {
      apply(from, h, from.look(bytes).first(bytes).subspan(record_header::bytes));
    } catch (const malformed& e) {
      refuse(name_, from.at(), e.what());
    }
    from.pass(bytes);
  }
  past_.reach(end_.sequence, header.origin);
  if (last && options_.attach) end_early(from);  // it may become longer
  if (!last && end_.sequence == end && end < until_) look_beyond(from);
  report_.log_bytes += from.at();
  tell("log", from.at(), from.size());
}

/// The process that has the directory may have been writing this record, so it is read again. If it
/// is not whole then either, and a later record had proved before that it was durable, it is
/// damaged. Otherwise the log ends here, and what follows is not looked at any more.
const char* recovery::look_again(file_stream& from, std::uint32_t epoch, record_header& h,
                                 const char* why) {
  constexpr int most_looks = 5;
  bool damaged = false;
  for (int looks = 1;; ++looks) {
    const bytes_view rest = from.look(from.left());
    damaged = proves_durable(rest, epoch, end_.sequence + 1);
    const bool torn = !damaged && !only_zeros(rest);
    from.forget();
    const char* now = next_record(from, h);
    if (now == nullptr) now = follows(h, end_);
    if (now == nullptr) return nullptr;
    if (!torn) break;
    if (looks == most_looks) {  // no process is writing it
      report_.cut_bytes = from.left();
      report_.cut_why = why;
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!damaged) from.end_here();
  return why;
}

/// Behind the last record of a segment that is not the last are zeros, or what the process has
/// written since it went on with this one. Anything else, seen again and again, is damage, for
/// which opening refuses the database: so must who only looks at it.
void recovery::look_beyond(file_stream& from) {
  constexpr int most_looks = 50;  // a process may be writing there
  for (int looks = 1;; ++looks) {
    if (only_zeros(from.look(from.left()))) return;
    record_header h;
    const char* why = next_record(from, h);
    if (why == nullptr) why = follows(h, end_);
    if (why == nullptr) return;
    if (looks == most_looks) refuse(name_, from.at(), why);
    from.forget();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void recovery::apply(const file_stream& from, const record_header& h, bytes_view body) {
  ++report_.log_records;
  switch (h.kind) {
    case record_kind::transaction:
      return apply_changes(from, body);
    case record_kind::create_table:
      return create_table(read_table(body));
    case record_kind::cut:
      return;
    case record_kind::drop_table:
    case record_kind::create_index:
    case record_kind::drop_index:
    case record_kind::rename_table:
      return change_table(h.kind, decoder(body));
  }
  throw malformed("a record of an unknown kind");
}

void recovery::apply_changes(const file_stream& from, bytes_view body) {
  const std::size_t workers = batches_.size();
  for (std::size_t i = 0; i < workers; ++i) {
    if (!batches_[i].changes.empty() && batches_[i].bytes != from.buffer()) give(i);
  }
  roomy_decoder changes(body);
  table* of = nullptr;
  bool one_number = false;  // its key
  std::uint32_t number = 0;
  while (!changes.done()) {
    const change_header c = read_change(changes);
    const bytes_view row(changes.pass(c.length), c.length);
    if (of == nullptr || c.table != number) {
      of = &numbered(number = c.table);
      one_number = of->layout().one_number();
    }
    const std::uint64_t hash =
        one_number ? key_hash(row) : long_key_hash(decoder(row), of->layout());
    // So that two seldom use one part of an index.
    const std::size_t worker = part_of_hash(hash, hash_parts) * workers / hash_parts;
    change_batch& b = batches_[worker];
    if (b.changes.empty()) {
      b.bytes = from.buffer();
      b.file = name_;
      b.at = from.begin();
      b.changes.reserve(changes_in_batch);
    }
    b.changes.push_back({of, hash, row.data(), c.length, c.what});
    if (b.changes.size() == changes_in_batch) give(worker);
  }
}

void recovery::give(std::size_t worker) { pool_.give(worker, std::exchange(batches_[worker], {})); }
void recovery::give_all() {
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    if (!batches_[i].changes.empty()) give(i);
  }
}

/// The segment was longer than what was written to it; or its end was lost, as when it is shorter.
void recovery::end_early(const file_stream& from) {
  report_.cut_file = name_;
  report_.cut_offset = from.at();
}

/// What follows is no record.
void recovery::end_torn(file_stream& from, std::uint32_t epoch, const char* why) {
  if (proves_durable(from.look(from.left()), epoch, end_.sequence + 1)) {
    refuse(name_, from.at(), std::string(why) + ", and what follows proves that it was durable");
  }
  end_early(from);
  report_.cut_bytes = from.left();
  report_.cut_why = why;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
