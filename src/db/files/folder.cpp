// SPDX-License-Identifier: Apache-2.0
// folder.cpp: opens, checks and locks a directory, and lists its files.
#include "db/files/folder.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <exception>
#include <optional>
#include <span>
#include <utility>

#include "base/entropy.hpp"
#include "db/files/attached.hpp"
#include "db/files/reserve_file.hpp"
#include "db/files/status_file.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

// SPOLIA has three lines of text. The second one, the format, also says whether the directory has
// had data: it has, from format 5 on. So a database is made with format 4, and gets format 5 with
// its first data. Only one byte changes then, so the change is there or it is not, whatever happens
// meanwhile. And programs that do not know format 5 read the format only if the file has the length
// that they know. A later format will be written in place of 5; each digit from 5 on still says
// that there was data.
constexpr std::string_view first_line = "spolia database\n";
constexpr std::string_view format_line = "format ";
constexpr std::string_view id_line = "id ";
constexpr char digit_of(std::uint32_t format) { return static_cast<char>('0' + format); }
constexpr char oldest_identity = digit_of(oldest_format);
constexpr char without_data = '4';
constexpr char with_data = digit_of(storage_format);
static_assert(without_data < with_data && with_data <= '9', "the format is one digit");
constexpr bool is_known(char format) { return format >= oldest_identity && format <= with_data; }
constexpr std::string_view decimal_digits = "0123456789";
/// Whether a newer version may have written this format. No version writes one that is no number,
/// or begins with a zero.
bool is_newer(std::string_view format) noexcept {
  if (format.find_first_not_of(decimal_digits) != std::string_view::npos) return false;
  return format.size() > 1 ? format[0] != '0' : format > std::string_view(&with_data, 1);
}
constexpr bool says_data(char format) { return format > without_data; }
constexpr std::size_t format_at = first_line.size() + format_line.size();

std::string identity_text(const database_id& id, char format) {
  std::string text(first_line);
  text += format_line;
  text += format;
  text += '\n';
  text += id_line;
  for (const std::byte b : id) {
    constexpr std::string_view symbols = "0123456789abcdef";
    text += symbols[static_cast<std::size_t>(b) >> 4U];
    text += symbols[static_cast<std::size_t>(b) & 0xfU];
  }
  return text + "\n";
}

std::unique_ptr<storage_directory> directory_for(storage_files& files,
                                                 const std::filesystem::path& directory,
                                                 folder_use use) {
  const auto how = use.write && use.make ? directory_mode::made : directory_mode::existing;
  std::unique_ptr<storage_directory> opened = files.open_directory(directory, how);
  return use.attach ? attach(std::move(opened)) : std::move(opened);
}
/// The rest of an error's text, if a damaged database is open in another process: that may write
/// meanwhile, which could not be told from damage, and may have rows that the files have lost.
const char* what_then(folder_use use) noexcept {
  return use.damaged ? ". Its memory may be whole: do not stop it, and let it call checkpoint() or "
                       "backup(); or use a copy of the directory"
                     : "";
}

/// Whether SPOLIA is empty or all zeros. That is what remains if a process was killed, or power was
/// lost, while a database was made: of unsynced writes, a file may have the length and not the
/// bytes.
bool is_blank(std::string_view identity) noexcept {
  return identity.find_first_not_of('\0') == std::string_view::npos;
}

int digit_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

database_id random_id() {
  const std::uint64_t one = core::random_bits();
  return std::bit_cast<database_id>(std::array<std::uint64_t, 2>{one, core::random_bits()});
}

bool means_denied(const storage_error& e) noexcept {
  const int why = e.reason().value();
  return why == EACCES || why == EPERM || why == ENOMEM || means_no_descriptors(e);
}

std::string words_of(std::string what) {
  constexpr std::string_view ours = "spolia::db: ";
  if (what.starts_with(ours)) what.erase(0, ours.size());
  return what;
}

storage_error damage_at(const std::filesystem::path& file, std::uint64_t at,
                        const std::string& why) {
  return {file, at, why, {}, storage_fault::damaged};
}

file_header checked_header(file_kind kind, bytes_view from, const std::filesystem::path& file) {
  file_header h{};
  const char* const why = read_header(kind, from, h);
  if (why == unknown_header_format) throw unknown_format(file, h.format);
  if (why != nullptr) throw damage_at(file, 0, why);
  return h;
}

file_header folder::own_header(file_kind kind, std::uint64_t sequence, bytes_view from) const {
  const std::filesystem::path file = path_of(file_name(kind, sequence));
  const file_header h = checked_header(kind, from, file);
  if (h.id != id_) {
    throw storage_error(file, 0, "it belongs to another database", {},
                        storage_fault::another_database);
  }
  if (h.sequence != sequence) throw damage_at(file, 0, "its name is not that of its content");
  return h;
}

folder::folder(std::unique_ptr<storage_directory> at) noexcept : at_(std::move(at)) {}

/// Delegates to the other constructor: when that has ended, the destructor runs if this one throws,
/// and removes what was made.
folder::folder(storage_files& files, const std::filesystem::path& directory, folder_use use)
    : folder(directory_for(files, directory, use)) {
  // In this order: another process that makes a database here makes its data files after SPOLIA.
  if (use.damaged) {
    have_damaged(use);
    return;
  }
  const folder_content before = look();
  refuse_links_to_nothing(before, use);
  const bool there = at_->identity(identity_name).has_value();
  const bool unfinished = before.copy && use.write;  // a copy: the next backup goes on with it
  const bool makes = use.write && use.make;
  if (!there && !unfinished && (before.has_data() || !makes)) refuse_without_identity(before, use);
  locked_ = open_identity(use, there);
  fresh_ = !there;
  if (!use.attach) have(use);
  still_ours();  // SPOLIA may have been replaced before it was locked
  std::array<char, 256> text{};
  const std::size_t size = locked_->read(0, std::as_writable_bytes(std::span(text)));
  // A process may have died while it made the database: then there are no other files. A backup
  // gets its SPOLIA last: an unfinished copy is refused by the opening.
  const folder_content has = look();
  const bool begun = is_blank({text.data(), size}) && !has.has_data() && !has.copy;
  if (begun && makes) return;
  const bool whole = size == identity_text({}, without_data).size();
  if (begun || (size == 0 && has.has_data() && !has.copy)) refuse_without_identity(has, use);
  if (whole || (has.has_data() && !has.copy) || (!use.write && !has.copy)) {
    parse({text.data(), size}, has.has_data());
  }
}

folder::~folder() {
  try {
    // While the lock is held: another process that has opened the file, and waits for the lock,
    // finds then that it was removed.
    if (fresh_ && at_->identity(identity_name) == locked_->identity()) {
      at_->remove(identity_name);
    }
    lock_file_.reset();
    if (!kept_) at_->remove_made();
  } catch (const std::exception&) {
    return;  // an empty SPOLIA in a directory without data does no harm
  }
}

/// Opens SPOLIA. If it must not be written, the error names options::read_only: often it can be
/// read.
std::unique_ptr<storage_file> folder::open_identity(folder_use use, bool there) {
  if (!use.write) return at_->open(identity_name, file_mode::read);
  try {
    return at_->open(identity_name, file_mode::write);
  } catch (const storage_error& e) {
    const int why = e.reason().value();
    if (why != EROFS && why != EACCES && why != EPERM) throw;
    throw storage_error(
        e.file(), e.offset(),
        e.problem() + (there ? " to write to the database: options::read_only opens it to be read; "
                               "to change it, give this process the right to write there"
                             : " to make a database: give this process the right to write there, "
                               "or use another directory"),
        e.reason(), storage_fault::not_writable);
  }
}

/// Opens and locks SPOLIA of a folder that may be damaged. Refuses only one that another process
/// has.
void folder::have_damaged(folder_use use) {
  try {
    locked_ = at_->open(identity_name, file_mode::read);
  } catch (const storage_error& e) {
    if (means_denied(e)) throw;  // another process may have the database open
    return;                      // SPOLIA is gone or cannot be read: then none can have it
  }
  have(use);
  std::array<char, 256> text{};
  try {
    parse({text.data(), locked_->read(0, std::as_writable_bytes(std::span(text)))}, true);
  } catch (const unknown_format& e) {
    if (e.newer()) newer_ = e;
  } catch (const storage_error&) {
    return;  // known_ stays false
  }
}

/// Refuses names that are links to nothing, by identity(), which throws. A check for such a file
/// would not find it, and so it would be replaced or ignored.
void folder::refuse_links_to_nothing(const folder_content& has, folder_use use) const {
  for (const std::uint64_t s : has.segments) at_->identity(file_name(file_kind::log, s));
  for (const std::uint64_t s : has.checkpoints) at_->identity(file_name(file_kind::checkpoint, s));
  if (!use.write) return;
  for (const char* name : {copy_marker, status_file::name, reserve_file::name}) {
    at_->identity(name);
  }
}

void folder::keep() {
  if (lock_file_ != nullptr) lock_file_->remove_ended();
  kept_ = true;
  fresh_ = false;
}

void folder::refuse_without_identity(const folder_content& has, folder_use use) const {
  if (has.copy) throw storage_error(path(), storage_error::nowhere, unfinished_copy_text);
  if (!has.has_data()) {
    const char* const makes = use.make ? "An opening that is not read_only makes one"
                                       : "options::open is must_exist, so none is made";
    throw storage_error(
        path(), storage_error::nowhere,
        std::string("there is no database: it has no file SPOLIA, or an empty one. ") + makes);
  }
  const bool log = !has.segments.empty();
  const std::string one = file_name(log ? file_kind::log : file_kind::checkpoint,
                                    log ? has.segments.front() : has.checkpoints.front());
  throw damage_at(
      path(), storage_error::nowhere,
      "it has data files of a database, as " + one +
          ", and no file SPOLIA, or an empty one, which says whose they are. Put SPOLIA "
          "back, or restore a backup to another directory; to begin with nothing, use "
          "another directory");
}

void folder::have(folder_use use) {
  const lock_result got = locked_->lock(use.write);
  if (got == lock_result::unsupported) return have_by_lock_file(use);
  if (got == lock_result::taken) {
    fresh_ = false;  // another opening has it now
    throw storage_error(path_of(identity_name), storage_error::nowhere,
                        "the database is open elsewhere: " +
                            lock_file::holder_of(locked_->identity()) + what_then(use));
  }
}

void folder::have_by_lock_file(folder_use use) {
  const auto process = lock_file::this_process();
  if (!process) {
    if (!use.without_lock) {
      throw storage_error(path(), storage_error::nowhere,
                          "the file system has no locks, and the system does not say which "
                          "processes there are, so that nothing keeps another process out; "
                          "options::allow_without_lock opens it all the same");
    }
    guard_ = directory_guard::nothing;
    return;
  }
  const file_identity mine = locked_->identity();
  if (use.write) lock_file_ = std::make_unique<lock_file>(*at_, mine, *process);
  const auto other =
      lock_file::in_the_way(*at_, mine, *process, lock_file_ != nullptr ? lock_file_->name() : "");
  guard_ = directory_guard::lock_file;
  if (!other) return;
  fresh_ = false;
  if (other->unknown == nullptr) {
    throw storage_error(
        path_of(other->name), storage_error::nowhere,
        "the database is open elsewhere: " + lock_file::in_words(other->number) + what_then(use));
  }
  if (!use.without_lock) {
    throw storage_error(
        path_of(other->name), storage_error::nowhere,
        std::string("the database may be open elsewhere: the file system has no "
                    "locks, and of this file, which names the process that has it, ") +
            other->unknown +
            "; remove it if no process has the database open, or use "
            "options::allow_without_lock");
  }
  guard_ = directory_guard::nothing;
}

/// Reads SPOLIA. If there are data files, a SPOLIA without the right lines is a damaged one; else
/// it is another program's file.
void folder::parse(std::string_view text, bool beside_data) {
  constexpr const char* not_ours =
      "this is not the file of a database: its first line is not \"spolia database\". Use another "
      "directory";
  constexpr const char* no_id =
      "it has no whole number of the database, of 32 hexadecimal digits: it is damaged. Put the "
      "SPOLIA of a backup in its place";
  constexpr const char* no_lines =
      "it is damaged: its lines should say \"spolia database\", a format, and the number that the "
      "data files beside it have as well. Put the SPOLIA of a backup in its "
      "place";
  const auto refuse = [&](const std::string& why) {
    throw damage_at(path_of(identity_name), 0, why);
  };
  const bool ours =
      text.starts_with(first_line) && text.substr(first_line.size()).starts_with(format_line);
  if (!ours && !beside_data) throw storage_error(path_of(identity_name), 0, not_ours);
  if (!ours) refuse(no_lines);
  text.remove_prefix(format_at);
  const std::string_view format = text.substr(0, std::min(text.find('\n'), text.size()));
  if (beside_data && format.find_first_not_of(decimal_digits) != std::string_view::npos) {
    refuse(no_lines);
  }
  if (format.size() != 1 || !is_known(format[0])) {
    throw unknown_format(path_of(identity_name), std::string(format), is_newer(format));
  }
  text.remove_prefix(std::min(format.size() + 1, text.size()));
  if (text.size() != id_line.size() + 2 * id_.size() + 1 || !text.starts_with(id_line) ||
      text.back() != '\n') {
    refuse(no_id);
  }
  text.remove_prefix(id_line.size());
  for (std::size_t i = 0; i < id_.size(); ++i) {
    const int high = digit_value(text[2 * i]);
    const int low = digit_value(text[2 * i + 1]);
    if (high < 0 || low < 0) refuse(no_id);
    id_[i] = static_cast<std::byte>(high * 16 + low);
  }
  had_data_ = says_data(format[0]);
  known_ = true;
}

/// Writes SPOLIA. Makes the names durable first: so if SPOLIA has content, its name and those of
/// the directories above it are durable.
void folder::make(const database_id& id, bool data) {
  still_ours();
  const std::string text = identity_text(id, data ? with_data : without_data);
  locked_->truncate(0);
  sync();
  have_own_name();
  try {
    locked_->write(0, std::as_bytes(std::span(text)));
    locked_->sync();
  } catch (const storage_error&) {
    blank();  // half of the text would be taken for another program's file
    throw;
  }
  id_ = id;
  known_ = true;
  had_data_ = noted_ = data;
}

/// Makes SPOLIA empty, as it was, if that can be done.
void folder::blank() noexcept {
  try {
    locked_->truncate(0);
  } catch (const std::exception&) {
    return;  // a new SPOLIA is removed; one that was blank makes the next opening fail
  }
}

void folder::have_own_name() {
  if (own_name_) return;
  at_->sync_own_name();
  own_name_ = true;
}

void folder::settle() {
  if (had_data_) return note_data();
  still_ours();
  have_own_name();
}

/// Not before the data file's name is durable: a loss of power could leave an empty directory that
/// is refused. Not after something in the file was acknowledged: a loss of power could leave a
/// directory that has lost that, and is not refused.
///
/// The whole of SPOLIA is written again, once: what was read may be in the system's memory alone,
/// if an earlier process ended before its sync, or its sync failed.
///
/// If the note cannot be made durable, it is undone: otherwise the next opening would find it in
/// the system's memory, and take it for durable.
void folder::note_data() {
  if (noted_) return;
  still_ours();
  if (!had_data_) have_own_name();
  char before = without_data;
  locked_->read(format_at, std::as_writable_bytes(std::span(&before, 1)));
  const std::string text = identity_text(id_, with_data);
  try {
    locked_->write(0, std::as_bytes(std::span(text)));
    locked_->sync();
  } catch (const storage_error&) {
    locked_->write(format_at, std::as_bytes(std::span(&before, 1)));
    throw;
  }
  had_data_ = noted_ = true;
}

void folder::sync() {
  if (!at_->sync()) durable_names_.store_relaxed(false);
}

void folder::sync_from(std::uint64_t segment) {
  are_durable_before(*at_, segment);
  sync();
}

void folder::still_ours() const {
  const std::optional<file_identity> there = at_->identity(identity_name);
  if (there && *there == locked_->identity()) return;
  throw lost_directory(
      path(), storage_error::nowhere,
      there ? "its file SPOLIA was replaced while the database was open: another database, or a "
              "copy, was put there; nothing in it is changed. Close this one, and open what is "
              "there now"
            : "its file SPOLIA was removed while the database was open; nothing in it is changed. "
              "Put the same file back (not a copy of it) and call resume(), or call backup() with "
              "another directory; restore a backup only if neither works");
}

void folder::still_has(const std::string& name, storage_file& file) const {
  still_ours();
  const std::optional<file_identity> there = at_->identity(name);
  if (there && *there == file.identity()) return;
  throw lost_directory(path_of(name), storage_error::nowhere,
                       there ? "it was replaced while the log was written to it"
                             : "it was removed while the log was written to it");
}

std::unique_ptr<storage_file> folder::open(const std::string& name, file_mode how) {
  if (how != file_mode::read) still_ours();
  return at_->open(name, how);
}
void folder::rename(const std::string& from, const std::string& to) {
  still_ours();
  at_->rename(from, to);
}
void folder::remove(const std::string& name) {
  still_ours();
  at_->remove(name);
}

folder_content folder::look() const {
  folder_content found;
  for (std::string& name : at_->list()) {
    std::uint64_t sequence = 0;
    if (parse_name(name, file_kind::log, sequence)) {
      found.segments.push_back(sequence);
    } else if (parse_name(name, file_kind::checkpoint, sequence)) {
      found.checkpoints.push_back(sequence);
    } else if (name.ends_with(".spl.tmp")) {
      found.temporary.push_back(std::move(name));
    } else if (name == copy_marker) {
      found.copy = true;
    }
  }
  std::sort(found.segments.begin(), found.segments.end());
  std::sort(found.checkpoints.begin(), found.checkpoints.end());
  return found;
}

std::unique_ptr<folder> folder::pinned() {
  std::unique_ptr<folder> same(new folder(attach(*at_)));
  same->kept_ = true;  // it has made nothing
  same->known_ = known_;
  same->had_data_ = had_data_;
  same->id_ = id_;
  return same;
}

file_bytes read_file(folder& in, const std::string& name) {
  const auto file = in.open(name, file_mode::read);
  file_bytes all;
  all.size = file->size();
  all.data = std::make_unique_for_overwrite<std::byte[]>(all.size);
  all.size = file->read(0, {all.data.get(), all.size});
  return all;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
