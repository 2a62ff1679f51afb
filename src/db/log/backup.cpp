// SPDX-License-Identifier: Apache-2.0
// backup.cpp: copies of a database in another directory: a checkpoint at first, log afterwards.
#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <spolia/base/unwind.hpp>

#include "base/so_many.hpp"
#include "db/engine.hpp"
#include "db/files/reserve_file.hpp"
#include "db/files/storage.hpp"
#include "db/log/recovery.hpp"

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

[[noreturn]] void refuse_place(const std::filesystem::path& to, const std::string& where) {
  throw storage_error(to, storage_error::nowhere,
                      where +
                          ": a backup goes to a directory that is not that of the database, nor in "
                          "it, nor above it. Use one beside it, or elsewhere");
}

/// A copy there would be removed with the database, or copied with it, or be taken for it.
void refuse_own_place(const std::filesystem::path& ours, const std::filesystem::path& to) {
  std::error_code none;
  const auto here = [&] { return std::filesystem::weakly_canonical(ours, none).string(); };
  switch (place_of(to, ours)) {
    case path_place::elsewhere:
      return;
    case path_place::same:
      refuse_place(to, "this is the directory of the database itself");
    case path_place::within:
      refuse_place(to, "it lies in the directory of the database, " + here());
    case path_place::above:
      refuse_place(to, "the directory of the database lies in it, " + here());
  }
}

constexpr const char* does_not_fit =
    "the copy does not match the log, which does not go on where it ends: it is of another "
    "history of the database, as after a backup was restored. Use another directory";
constexpr const char* cannot_be_told =
    "an older version has written the end of the copy, and the log that went on there is gone: so "
    "nothing can tell whether the copy has changes that the database does not have. Use another "
    "directory";

/// Passes over the records of a segment that follow where the log ends, up to the one with the
/// number `last` or to the last one there is. Where the log ends then; and what is wrong with what
/// follows, if that is neither a record nor zeros.
std::pair<log_end, const char*> pass_records(file_stream& from, log_end end, std::uint64_t last) {
  while (end.sequence != last && from.left() != 0) {
    record_header h;
    const char* why = next_record(from, h);
    if (why == nullptr) why = follows(h, end);
    if (why != nullptr) {
      return {end, only_zeros(from.look(from.left())) ? nullptr : why};
    }
    end.sequence = h.sequence;
    end.chain = h.crc;
    from.pass(record_header::bytes + h.length);
  }
  return {end, nullptr};
}

bytes_view without_zeros(bytes_view all) {
  while (!all.empty() && all.back() == std::byte{0}) all = all.first(all.size() - 1);
  return all;
}

/// The beginning of one record and nothing else, which zeros may follow: what is left where the
/// copying of a file was cut short. It is no change, and none follows it.
bool is_begun(bytes_view rest) {
  rest = without_zeros(rest);
  if (rest.size() < record_header::bytes) return true;
  return rest.size() < record_header::bytes + std::size_t{parse_record(rest).length};
}

/// The database is well, and nothing can be added to the copy.
[[noreturn]] void refuse_damaged(const std::filesystem::path& file, std::uint64_t at,
                                 const std::string& why) {
  throw damage_at(file, at, why + "; the copy is damaged: make a new one, in another directory");
}

/// As an opening does that writes: what is added goes on after the last whole record. Durable
/// before that, for a segment with a torn end may only be the last one. One without a header goes:
/// what is added has its name, and takes its place where a loss of power brings it back.
void cut_torn(folder& copy, const copy_end& end) {
  if (end.torn.empty()) return;
  if (end.torn_at == 0) return copy.remove(end.torn);
  const auto file = copy.open(end.torn, file_mode::write);
  file->truncate(end.torn_at);
  file->sync();
}

[[noreturn]] void refuse_missing(const folder& copy, std::uint64_t first) {
  throw damage_at(copy.path_of(file_name(file_kind::log, first)), storage_error::nowhere,
                  "this part of the log is missing");
}

/// Of a segment that has the beginning of its header and nothing else, as is_begun(): what is wrong
/// with it. Null: its header may be whole, damaged, or of another format.
const char* header_is_begun(folder& copy, std::uint64_t number) {
  read_buffers buffers;
  const auto file = copy.open(file_name(file_kind::log, number), file_mode::read);
  file_stream from(buffers, *file);
  file_header none;
  const char* const why = read_header(file_kind::log, from.look(file_header::bytes), none);
  if (why == nullptr || why == unknown_header_format) return nullptr;
  return without_zeros(from.look(from.left())).size() < file_header::bytes ? why : nullptr;
}

/// Where a copy ends whose last segment it is. `epoch`: of what is before it.
copy_end end_of_segment(folder& copy, std::uint64_t number, std::uint32_t epoch) {
  read_buffers buffers;
  const std::string name = file_name(file_kind::log, number);
  const auto file = copy.open(name, file_mode::read);
  file_stream from(buffers, *file);
  const file_header header = copy.own_header(file_kind::log, number, from.look(file_header::bytes));
  from.pass(file_header::bytes);
  const log_end before{header.epoch, header.sequence - 1, header.chain};
  const auto [last, why] = pass_records(from, before, recovery::whole_log);
  copy_end end = {.epoch = std::max(epoch, last.epoch),
                  .sequence = last.sequence,
                  .chain = last.chain,
                  .origin = last.sequence == before.sequence ? 0 : header.origin};
  if (why == nullptr) return end;
  const bytes_view rest = from.look(from.left());
  if (!is_begun(rest) || proves_durable(rest, header.epoch, last.sequence + 1)) {
    throw damage_at(copy.path_of(name), from.at(), why);
  }
  end.torn = name;
  end.torn_at = from.at();
  end.torn_why = why;
  return end;
}

/// Marks a directory that a copy is written into. If that comes to nothing, and nothing was there
/// before, nothing is left there: what is the last to be written may be what the disk has no room
/// for.
class unfinished_copy {
 public:
  explicit unfinished_copy(folder& of) : of_(of), made_(!of.has(copy_marker)) {
    try {
      of.open(copy_marker, file_mode::write)->sync();
      // Else a loss of power could leave data without it, which the next backup would refuse.
      of.sync();
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

/// Where the copy in a directory ends, to go on there. So the header of its checkpoint is read, and
/// the last segment: not the rows of the checkpoint, nor the segments in between, of which each
/// backup adds one.
copy_end storage::find_end(folder& copy, const folder_content& has) {
  copy_end end;
  read_buffers buffers;
  if (!has.checkpoints.empty()) {
    const std::uint64_t newest = has.checkpoints.back();
    const auto file = copy.open(file_name(file_kind::checkpoint, newest), file_mode::read);
    file_stream from(buffers, *file);
    const file_header header =
        copy.own_header(file_kind::checkpoint, newest, from.look(file_header::bytes));
    end = {.epoch = header.epoch,
           .sequence = header.sequence,
           .chain = header.chain,
           .origin = header.origin};
  }
  const auto first = std::lower_bound(has.segments.begin(), has.segments.end(), end.sequence + 1);
  if (first == has.segments.end()) return end;
  if (*first != end.sequence + 1) refuse_missing(copy, end.sequence + 1);
  auto last = has.segments.end() - 1;
  const char* const begun = header_is_begun(copy, *last);
  if (begun == nullptr) return end_of_segment(copy, *last, end.epoch);
  const std::uint64_t torn = *last;
  if (last != first) {
    end = end_of_segment(copy, *--last, end.epoch);
    if (!end.torn.empty()) throw damage_at(copy.path_of(end.torn), end.torn_at, end.torn_why);
    if (torn != end.sequence + 1) refuse_missing(copy, end.sequence + 1);
  }
  end.torn = file_name(file_kind::log, torn);
  end.torn_at = 0;
  end.torn_why = begun;
  return end;
}

copy_end storage::end_of_backup(folder& copy, const folder_content& has) {
  try {
    return find_end(copy, has);
  } catch (const storage_error& e) {
    if (e.reason() || e.fault() == storage_fault::unknown_format) throw;
    refuse_damaged(e.file(), e.offset(), e.problem());
  }
}

/// Of a segment, as one that begins with one of its records.
struct storage::rest_of_segment {
  std::string from;
  std::uint64_t at = 0;
  std::string name;
  std::array<std::byte, file_header::bytes> header{};
};

/// What follows the copy's end in the segment that begins with this record, there or before;
/// nothing: it does not lead on from there. Throws if what is there in its place is another change
/// than that of the copy.
std::optional<storage::rest_of_segment> storage::rest_after(std::uint64_t first,
                                                            const copy_end& end,
                                                            const folder& copy) {
  read_buffers buffers;
  const std::string segment = file_name(file_kind::log, first);
  const auto file = folder_.open(segment, file_mode::read);
  file_stream from(buffers, *file);
  file_header header = folder_.own_header(file_kind::log, first, from.look(file_header::bytes));
  from.pass(file_header::bytes);
  const auto [at, why] = pass_records(from, {header.epoch, first - 1, header.chain}, end.sequence);
  if (why != nullptr) throw damage_at(folder_.path_of(segment), from.at(), why);
  if (at.sequence != end.sequence) return std::nullopt;
  if (at.chain != end.chain) {
    throw storage_error(copy.path(), storage_error::nowhere, does_not_fit);
  }
  // An opening that has logged nothing may have given the copy a later epoch, and its folder may
  // have been put back since: the copy is one of this history, and nothing can be added to it.
  if (header.epoch < end.epoch) return std::nullopt;
  header.sequence = end.sequence + 1;
  header.chain = end.chain;
  return rest_of_segment{.from = segment,
                         .at = from.at(),
                         .name = file_name(file_kind::log, header.sequence),
                         .header = write_header(file_kind::log, header)};
}

storage::rest_of_segment storage::whole_segment(std::uint64_t first) {
  const std::string name = file_name(file_kind::log, first);
  rest_of_segment all{.from = name, .at = file_header::bytes, .name = name, .header = {}};
  const std::size_t got = folder_.open(name, file_mode::read)->read(0, all.header);
  folder_.own_header(file_kind::log, first, bytes_view(all.header).first(got));
  return all;
}

/// Leaves out an end that is torn or empty, which an opening that only reads has left in place.
std::uint64_t storage::copy_rest(const rest_of_segment& rest, folder& to) {
  const std::string temporary = rest.name + ".tmp";
  std::uint64_t written = rest.header.size();
  try {
    const auto source = folder_.open(rest.from, file_mode::read);
    const auto copy = to.open(temporary, file_mode::fresh);
    const auto path = folder_.path_of(rest.from);
    const bool torn = options_.read_only && path == report_.cut_file;
    const std::uint64_t end = torn ? report_.cut_offset : source->size();
    byte_block part(1U << 20U);
    copy->write(0, rest.header);
    for (std::uint64_t done = rest.at; done < end;) {
      const std::size_t most = std::min<std::uint64_t>(part.size(), end - done);
      const std::size_t got = source->read(done, std::span(part).first(most));
      if (got == 0) {
        throw storage_error(
            path, done,
            "the file has become shorter while it was copied: another process changes it");
      }
      copy->write(written, bytes_view(part).first(got));
      done += got;
      written += got;
    }
    copy->sync();
    to.rename(temporary, rest.name);
  } catch (...) {
    remove_quietly(to, temporary);
    throw;
  }
  return written;
}

/// Copies what the log has after `from`, up to where it is cut now. False: it does not lead on from
/// there any more.
bool storage::copy_segments(folder& to, const copy_end& from, backup_report& report) {
  // A directory that is open to be read has no log to cut: no process writes to it.
  const log_end now = log_ != nullptr ? log_->cut([] { return std::uint64_t{0}; }) : end_;
  const std::uint64_t end = now.sequence;
  refuse_ahead(to, from, end);
  // Of two that were restored from one copy, both may have come as far.
  if (from.sequence == end && from.chain != now.chain) {
    throw storage_error(to.path(), storage_error::nowhere, does_not_fit);
  }
  if (from.sequence < whole_from_) return false;
  // What the checkpoint has made superfluous the process that has the directory removes, maybe
  // after the directory was listed.
  if (options_.attach && from.sequence < report_.checkpoint_sequence) return false;
  if (from.sequence != end) {
    const folder_content has = folder_.look();
    // A copy of a log that was being written ends within a segment.
    auto s = std::upper_bound(has.segments.begin(), has.segments.end(), from.sequence + 1);
    if (s == has.segments.begin()) return false;
    std::optional<rest_of_segment> rest = rest_after(*--s, from, to);
    if (!rest) return false;
    cut_torn(to, from);
    // A backup that was killed may have left names that are not durable: those of what is added now
    // must not be sooner.
    to.sync();
    for (;;) {
      report.bytes += copy_rest(*rest, to);
      ++report.files;
      // No segment may be there without those before it, whatever order the names come in.
      to.sync();
      if (++s == has.segments.end() || *s > end) break;
      rest = whole_segment(*s);
    }
  }
  report.sequence = end;
  report.incremental = true;
  return true;
}

void storage::refuse_ahead(const folder& copy, const copy_end& theirs, std::uint64_t ours) const {
  // Of what is torn nothing is lost if the database has it whole.
  if (theirs.sequence == ours && !theirs.torn.empty()) {
    refuse_damaged(copy.path_of(theirs.torn), theirs.torn_at, theirs.torn_why);
  }
  if (theirs.sequence <= ours) return;
  const std::string they = "the copy has " + so_many(theirs.sequence, "change") + ", and ";
  const std::string we = std::to_string(ours);
  throw storage_error(
      copy.path(), storage_error::nowhere,
      options_.attach
          ? they + "the database had " + we +
                " when it was read. Another backup may have added to the copy meanwhile: then try "
                "again. Else what it has more would be lost: use another directory"
          : they + "the database " + we +
                ": what it has more would be lost. Use another directory");
}

/// Before a copy is replaced, where no log is left that goes on at its end.
void storage::refuse_other_history(const folder& copy, const copy_end& theirs,
                                   const history& ours) {
  if (theirs.sequence == 0 || ours.has(theirs.sequence, theirs.origin)) return;
  throw storage_error(copy.path(), storage_error::nowhere,
                      theirs.origin != 0 ? does_not_fit : cannot_be_told);
}

backup_report storage::backup(const std::filesystem::path& to) {
  const std::lock_guard hold(checkpoint_lock_);
  refuse_partial_copy();
  refuse_own_place(folder_.path(), to);
  folder theirs(*files_, to, {.write = true, .without_lock = options_.allow_without_lock});
  if (theirs.is(folder_)) refuse_place(to, "this is the directory of the database itself");
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
        "the directory has a copy that was opened to be changed since, or that backup() has not "
        "made: a backup goes to a new directory, or to a copy that "
        "backup() made and no program has changed");
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
  std::optional<copy_end> end;
  if (theirs.known() && has.has_data()) {
    end = end_of_backup(theirs, has);
    if (!logged()) refuse_ahead(theirs, *end, end_.sequence);
    if (logged() && copy_segments(theirs, *end, report)) {
      finish_copy(theirs, folder_.id());
      return report;
    }
  }
  const unfinished_copy marked(theirs);
  std::unique_ptr<reader> view;
  const checkpoint_source from = begin_backup(view, report);
  if (end) {
    refuse_other_history(theirs, *end, from.past);
    cut_torn(theirs, *end);
  }
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
  from.past = {};
  from.past.reach(from.end.sequence, history::new_origin());
  report.apart = true;
  report.in_doubt = log_->in_doubt().times;
  return from;
}

checkpoint_source storage::begin_backup(std::unique_ptr<reader>& view, backup_report& report) {
  constexpr const char* tried =
      ", which the log of the database needs to begin a copy, wherever that goes: there is none, "
      "and nothing has changed. Make room on this disk; or copy the database from another process, "
      "which needs no room here (spolia backup)";
  if (log_failed()) return begin_copy_apart(view, report);
  return saying(tried, [&] { return begin_copy(view); });
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
  const file_header header =
      checked_header(file_kind::checkpoint, bytes_view(part).first(got), "the stream");
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
