// SPDX-License-Identifier: Apache-2.0
// backup.cpp: copies of a database in another directory: a checkpoint at first, log afterwards.
#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <span>
#include <utility>

#include <spolia/base/unwind.hpp>

#include "db/engine.hpp"
#include "db/files/storage.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

namespace {

/// A file that is written from the beginning to the end, on its way elsewhere.
class passing_file final : public storage_file {
 public:
  passing_file(const byte_sink& to, const uncancelled& whole) : to_(to), whole_(whole) {}
  std::size_t read(std::uint64_t, std::span<std::byte>) override { return 0; }
  void write(std::uint64_t, std::span<const std::byte> from) override {
    const cancelled_as_before in_the_program(whole_);
    to_(from);
  }
  void sync() override {}
  void truncate(std::uint64_t) override {}
  std::uint64_t size() override { return 0; }
  lock_result lock(bool) override { return lock_result::unsupported; }
  file_identity identity() override { return {}; }

 private:
  const byte_sink& to_;
  const uncancelled& whole_;
};

/// Fills `to` unless the source ends before.
std::size_t read_all_of(const byte_source& from, std::span<std::byte> to,
                        const uncancelled& whole) {
  const cancelled_as_before in_the_program(whole);
  std::size_t done = 0;
  while (done < to.size()) {
    const std::size_t got = from(to.subspan(done));
    if (got == 0) break;
    done += got;
  }
  return done;
}

constexpr const char* does_not_fit =
    "the copy does not fit to the log, which does not go on where it ends: it is of another "
    "history of the database, as after a backup was restored. Use another directory";

/// Marks a directory that a copy is written into. If that comes to nothing, and nothing was there
/// before, nothing is left there: what is the last to be written may be what the disk has no room
/// for.
class unfinished_copy {
 public:
  explicit unfinished_copy(folder& of) : of_(of), made_(!of.has(copy_marker)) {
    try {
      of.open(copy_marker, file_mode::write)->sync();
    } catch (...) {
      take_back();
      throw;
    }
  }
  unfinished_copy(const unfinished_copy&) = delete;
  unfinished_copy& operator=(const unfinished_copy&) = delete;
  ~unfinished_copy() { take_back(); }

 private:
  /// A directory without the mark has data only if it is known whose.
  void take_back() noexcept {
    if (!made_ || of_.known()) return;
    try {
      for (const std::uint64_t s : of_.look().checkpoints) {
        of_.remove(file_name(file_kind::checkpoint, s));
      }
      of_.remove(copy_marker);
    } catch (const std::exception&) {
      return;  // the mark is in the way of nothing but an opening: the next backup uses it
    }
  }

  folder& of_;
  const bool made_;
};

}  // namespace

/// Where the copy in a directory ends. Its last segment is read as a whole.
log_end storage::end_of_backup(folder& copy, const folder_content& has) const {
  log_end end;
  const bool log = !has.segments.empty() &&
                   (has.checkpoints.empty() || has.segments.back() > has.checkpoints.back());
  const file_kind kind = log ? file_kind::log : file_kind::checkpoint;
  const std::string name = file_name(kind, log ? has.segments.back() : has.checkpoints.back());
  const auto refuse = [&](std::uint64_t at, const char* why) {
    throw storage_error(copy.path_of(name), at, why);
  };
  const file_bytes all = read_file(copy, name);
  file_header header;
  if (const char* const why = read_header(kind, all.view(), header)) refuse(0, why);
  if (header.id != folder_.id()) refuse(0, "it belongs to another database");
  end = {header.epoch, log ? header.sequence - 1 : header.sequence, header.chain};
  if (!log) return end;
  for (std::size_t at = file_header::bytes; at < all.size;) {
    record_header h;
    if (const char* const why = read_record(all.view().subspan(at), h)) {
      if (only_zeros(all.view().subspan(at))) break;
      refuse(at, why);
    }
    end.sequence = h.sequence;
    end.chain = h.crc;
    at += record_header::bytes + h.length;
  }
  return end;
}

/// Leaves out an end that is torn or empty, which an opening that only reads has left in place.
std::uint64_t storage::copy_file(const std::string& name, folder& to) {
  const std::string temporary = name + ".tmp";
  std::uint64_t done = 0;
  try {
    const auto source = folder_.open(name, file_mode::read);
    const auto copy = to.open(temporary, file_mode::fresh);
    const bool torn = options_.read_only && folder_.path_of(name) == report_.cut_file;
    const std::uint64_t end = torn ? report_.cut_offset : source->size();
    byte_block part(1U << 20U);
    while (done < end) {
      const std::size_t most = std::min<std::uint64_t>(part.size(), end - done);
      const std::size_t got = source->read(done, std::span(part).first(most));
      if (got == 0) {
        throw storage_error(
            folder_.path_of(name), done,
            "the file has become shorter while it was copied: another process changes it");
      }
      copy->write(done, bytes_view(part).first(got));
      done += got;
    }
    copy->sync();
    to.rename(temporary, name);
  } catch (...) {
    remove_quietly(to, temporary);
    throw;
  }
  return done;
}

/// Copies the segments after `from`, up to where the log is cut now. False: the first of them is
/// not there any more.
bool storage::copy_segments(folder& to, const log_end& from, backup_report& report) {
  // A directory that is open to be read has no log to cut: no process writes to it.
  const log_end now = log_ != nullptr ? log_->cut([] { return std::uint64_t{0}; }) : end_;
  const std::uint64_t end = now.sequence;
  refuse_ahead(to, from, end);
  // Of two that were restored from one copy, both may have come as far.
  if (from.sequence == end && from.chain != now.chain) {
    throw storage_error(to.path(), storage_error::nowhere, does_not_fit);
  }
  const folder_content has = folder_.look();
  const auto first = std::lower_bound(has.segments.begin(), has.segments.end(), from.sequence + 1);
  if (from.sequence != end && (first == has.segments.end() || *first != from.sequence + 1)) {
    return false;
  }
  if (from.sequence < whole_from_) return false;
  for (auto s = first; s != has.segments.end() && *s <= end; ++s) {
    const std::string file = file_name(file_kind::log, *s);
    if (s == first) fits(file, from, to);
    report.bytes += copy_file(file, to);
    ++report.files;
    // No segment may be there without those before it, whatever order the names come in.
    to.sync();
  }
  report.sequence = end;
  report.incremental = true;
  return true;
}

void storage::refuse_ahead(const folder& copy, const log_end& theirs, std::uint64_t ours) {
  if (theirs.sequence <= ours) return;
  throw storage_error(copy.path(), storage_error::nowhere,
                      "the copy has " + std::to_string(theirs.sequence) +
                          " changes, and the database " + std::to_string(ours) +
                          ": what it has more would be lost. Use another directory");
}

/// Throws if the copy's end is not where the segment begins.
void storage::fits(const std::string& segment, const log_end& end, const folder& copy) {
  std::array<std::byte, file_header::bytes> bytes{};
  const std::size_t got = folder_.open(segment, file_mode::read)->read(0, bytes);
  file_header header;
  if (const char* const why = read_header(file_kind::log, bytes_view(bytes).first(got), header)) {
    throw storage_error(folder_.path_of(segment), 0, why);
  }
  if (header.chain != end.chain) {
    throw storage_error(copy.path(), storage_error::nowhere, does_not_fit);
  }
}

backup_report storage::backup(const std::filesystem::path& to) {
  const std::lock_guard hold(checkpoint_lock_);
  refuse_partial_copy();
  folder theirs(*files_, to, {.write = true, .without_lock = options_.allow_without_lock});
  const folder_content has = theirs.look();
  if (theirs.known() && theirs.id() != folder_.id()) {
    throw storage_error(
        theirs.path(), storage_error::nowhere,
        "the directory has another database: a backup goes to a new directory, or to "
        "an earlier backup of the same database");
  }
  if (theirs.known() && !has.copy) {
    throw storage_error(
        theirs.path(), storage_error::nowhere,
        "the directory has the database itself, or a copy that was opened to be changed "
        "since: a backup goes to a new directory, or to a copy that was not");
  }
  if (theirs.known() && log_failed()) {
    throw storage_error(theirs.path(), storage_error::nowhere,
                        "the log of the database has failed, so that nothing can be added to this "
                        "copy: until resume() has returned, a backup goes to a new directory");
  }
  // What a backup has left that was killed may be as long as a copy.
  if (has.copy) {
    for (const std::string& name : has.temporary) theirs.remove(name);
  }
  backup_report report;
  if (theirs.known() && has.has_data()) {
    const log_end end = end_of_backup(theirs, has);
    if (!logged()) refuse_ahead(theirs, end, end_.sequence);
    if (logged() && copy_segments(theirs, end, report)) {
      finish_copy(theirs, folder_.id());
      return report;
    }
  }
  const unfinished_copy marked(theirs);
  std::unique_ptr<reader> view;
  const checkpoint_source from = begin_backup(view, report);
  const checkpoint_report made = write_checkpoint(theirs, from, checkpoint_pace::shared);
  finish_copy(theirs, from.id);
  remove_up_to(theirs, made.sequence);
  report.sequence = made.sequence;
  report.files = 1;
  report.bytes = made.bytes;
  return report;
}

/// Its data are durable.
void storage::finish_copy(folder& copy, const database_id& id) {
  if (copy.known()) {
    copy.sync();  // as another process may have left it
    copy.note_data();
  } else {
    copy.make(id, true);
  }
  copy.keep();
}

/// After a failure of the log: its end is not known, and neither is which of the commits in doubt
/// an opening would find. So the copy has all that memory shows, and an id of its own: to add the
/// log of what becomes of the database could leave out commits that only the copy has.
///
/// Changes of tables and indexes that are in doubt are undone by their callers first, as for
/// resume().
checkpoint_source storage::begin_copy_apart(std::unique_ptr<reader>& view, backup_report& report) {
  const std::lock_guard settled(engine_.unsettled);
  checkpoint_source from = part_here(view);
  from.id = random_id();
  report.apart = true;
  report.in_doubt = log_->in_doubt().times;
  return from;
}

checkpoint_source storage::begin_backup(std::unique_ptr<reader>& view, backup_report& report) {
  return log_failed() ? begin_copy_apart(view, report) : begin_copy(view);
}

backup_report storage::backup(const byte_sink& to) {
  const uncancelled whole;
  const std::lock_guard hold(checkpoint_lock_);
  refuse_partial_copy();
  std::unique_ptr<reader> view;
  backup_report report;
  const checkpoint_source from = begin_backup(view, report);
  passing_file file(to, whole);
  const checkpoint_report made = write_rows(file, from, checkpoint_pace::shared);
  report.sequence = made.sequence;
  report.files = 1;
  report.bytes = made.bytes;
  return report;
}

void storage::restore(storage_files& files, const byte_source& from,
                      const std::filesystem::path& directory) {
  const uncancelled whole;
  byte_block part(1U << 20U);
  std::size_t got = read_all_of(from, std::span(part).first(file_header::bytes), whole);
  file_header header;
  if (const char* const why =
          read_header(file_kind::checkpoint, bytes_view(part).first(got), header)) {
    throw storage_error("the stream", 0, why);
  }
  folder mine(files, directory, {.write = true});
  if (mine.known() || mine.look().has_data()) {
    throw storage_error(mine.path(), storage_error::nowhere,
                        "there is a database, or data files of one: restore into a new directory");
  }
  const unfinished_copy marked(mine);
  const std::string name = file_name(file_kind::checkpoint, header.sequence);
  const std::string temporary = name + ".tmp";
  try {
    const auto file = mine.open(temporary, file_mode::fresh);
    for (std::uint64_t at = 0; got != 0; got = read_all_of(from, part, whole)) {
      file->write(at, bytes_view(part).first(got));
      at += got;
    }
    file->sync();
    mine.rename(temporary, name);
  } catch (...) {
    remove_quietly(mine, temporary);
    throw;
  }
  mine.sync();
  mine.make(header.id, true);
  mine.keep();
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
