// SPDX-License-Identifier: Apache-2.0
// backup.cpp: copies of a database in another directory: a checkpoint at first, log afterwards.
#include <algorithm>
#include <array>
#include <utility>

#include "engine.hpp"
#include "storage.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Where the copy in a directory ends. Its last segment is read as a whole.
log_end storage::end_of_backup(const std::filesystem::path& directory,
                               const directory_content& has) {
  log_end end;
  const auto refuse = [](const std::filesystem::path& name, std::uint64_t at, const char* why) {
    throw storage_error(name, at, why);
  };
  const bool log = !has.segments.empty() &&
                   (has.checkpoints.empty() || has.segments.back() > has.checkpoints.back());
  const file_kind kind = log ? file_kind::log : file_kind::checkpoint;
  const auto name = directory / file_name(kind, log ? has.segments.back() : has.checkpoints.back());
  const file_bytes all = read_file(*files_, name);
  file_header header;
  if (const char* const why = read_header(kind, all.view(), header)) refuse(name, 0, why);
  if (header.id != identity_->id()) refuse(name, 0, "it belongs to another database");
  end = {header.epoch, log ? header.sequence - 1 : header.sequence, header.chain};
  if (!log) return end;
  for (std::size_t at = file_header::bytes; at < all.size;) {
    record_header h;
    if (const char* const why = read_record(all.view().subspan(at), h)) refuse(name, at, why);
    end.sequence = h.sequence;
    end.chain = h.crc;
    at += record_header::bytes + h.length;
  }
  return end;
}

std::uint64_t storage::copy_file(const std::filesystem::path& from,
                                 const std::filesystem::path& to) {
  std::filesystem::path temporary = to;
  temporary += ".tmp";
  std::uint64_t done = 0;
  {
    const auto source = files_->open(from, file_mode::read);
    const auto copy = files_->open(temporary, file_mode::fresh);
    byte_buffer part(1U << 20U);
    while (const std::size_t got = source->read(done, part)) {
      copy->write(done, bytes_view(part).first(got));
      done += got;
    }
    copy->sync();
  }
  files_->rename(temporary, to);
  return done;
}

/// Copies the segments behind `from`, up to where the log is cut now. False: the first of them is
/// not there any more.
bool storage::copy_segments(const std::filesystem::path& to, const log_end& from,
                            backup_report& report) {
  const log_end end = log_->cut([] { return std::uint64_t{0}; });
  const directory_content has = look_into(*files_, directory_);
  const auto first = std::lower_bound(has.segments.begin(), has.segments.end(), from.sequence + 1);
  if (first == has.segments.end() || *first != from.sequence + 1) return false;
  std::array<std::byte, file_header::bytes> bytes{};
  const auto name = directory_ / file_name(file_kind::log, *first);
  files_->open(name, file_mode::read)->read(0, bytes);
  file_header header;
  if (const char* const why = read_header(file_kind::log, bytes, header)) {
    throw storage_error(name, 0, why);
  }
  if (header.chain != from.chain) {
    throw storage_error(to, storage_error::nowhere, "the copy does not fit to the log");
  }
  for (auto s = first; s != has.segments.end() && *s <= end.sequence; ++s) {
    const std::string file = file_name(file_kind::log, *s);
    report.bytes += copy_file(directory_ / file, to / file);
    ++report.files;
  }
  files_->sync_directory(to);
  report.sequence = end.sequence;
  report.incremental = true;
  return true;
}

backup_report storage::backup(const std::filesystem::path& to) {
  const std::lock_guard hold(checkpoint_lock_);
  identity_file theirs(*files_, to, true);
  const directory_content has = look_into(*files_, to);
  if (theirs.known() && theirs.id() != identity_->id()) {
    throw storage_error(to, storage_error::nowhere, "the directory has another database");
  }
  if (theirs.known() && !has.copy) {
    throw storage_error(to, storage_error::nowhere,
                        "it is no copy, or was opened to be changed since");
  }
  backup_report report;
  if (theirs.known() && (!has.segments.empty() || !has.checkpoints.empty())) {
    const log_end end = end_of_backup(to, has);
    if (log_ != nullptr && copy_segments(to, end, report)) return report;
  }
  files_->open(to / copy_marker, file_mode::write)->sync();
  std::unique_ptr<reader> view;
  checkpoint_source from;
  from.id = identity_->id();
  from.end = freeze(view, from.tables);
  from.view = view.get();
  const checkpoint_report made = write_checkpoint(to, from, false);
  if (!theirs.known()) theirs.make(identity_->id());
  remove_up_to(to, made.sequence);
  return {.incremental = false, .sequence = made.sequence, .files = 1, .bytes = made.bytes};
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
