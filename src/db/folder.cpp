// SPDX-License-Identifier: Apache-2.0
// folder.cpp: whose a directory is, and what lies in it.
#include "folder.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <span>
#include <utility>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::string_view first_line = "spolia database\n";
constexpr std::string_view format_line = "format ";
constexpr std::string_view id_line = "id ";

std::string identity_text(const database_id& id) {
  std::string text(first_line);
  text += format_line;
  text += std::to_string(storage_format) + "\n";
  text += id_line;
  for (const std::byte b : id) {
    constexpr std::string_view symbols = "0123456789abcdef";
    text += symbols[static_cast<std::size_t>(b) >> 4U];
    text += symbols[static_cast<std::size_t>(b) & 0xfU];
  }
  return text + "\n";
}

int digit_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

database_id random_id() {
  std::random_device random;
  database_id id{};
  for (std::byte& b : id) b = static_cast<std::byte>(random() & 0xffU);
  return id;
}

folder::folder(storage_files& files, const std::filesystem::path& directory, bool write)
    : at_(files.open_directory(directory, write ? directory_mode::made : directory_mode::existing)),
      locked_(at_->open(identity_name, write ? file_mode::write : file_mode::read)) {
  const lock_result got = locked_->lock(write);
  if (got == lock_result::unsupported) {
    throw storage_error(path_of(identity_name), storage_error::nowhere,
                        "the file system has no locks");
  }
  if (got == lock_result::taken) {
    throw storage_error(path_of(identity_name), storage_error::nowhere,
                        "the database is open elsewhere: in this process, or in another one");
  }
  still_ours();  // it may have been replaced before it was locked
  std::array<char, 256> text{};
  const std::size_t size = locked_->read(0, std::as_writable_bytes(std::span(text)));
  // A process may have died while it made the database: then there is nothing else.
  const folder_content has = look();
  // And a backup gets it last.
  if (size == identity_text({}).size() || (has.has_data() && !has.copy) || !write) {
    parse({text.data(), size});
  }
}

void folder::parse(std::string_view text) {
  const auto refuse = [&](const char* why) { throw storage_error(path_of(identity_name), 0, why); };
  if (!text.starts_with(first_line)) refuse("this is not the file of a database");
  text.remove_prefix(first_line.size());
  if (!text.starts_with(format_line)) refuse("this is not the file of a database");
  text.remove_prefix(format_line.size());
  const std::string_view format = text.substr(0, std::min(text.find('\n'), text.size()));
  static_assert(oldest_format == 1 && storage_format == 4);
  if (format.size() != 1 || format < "1" || format > "4") {
    refuse("it has a format that this version does not know");
  }
  text.remove_prefix(std::min(format.size() + 1, text.size()));
  if (text.size() != id_line.size() + 2 * id_.size() + 1 || !text.starts_with(id_line) ||
      text.back() != '\n') {
    refuse("it has no whole number of the database");
  }
  text.remove_prefix(id_line.size());
  for (std::size_t i = 0; i < id_.size(); ++i) {
    const int high = digit_value(text[2 * i]);
    const int low = digit_value(text[2 * i + 1]);
    if (high < 0 || low < 0) refuse("it has no whole number of the database");
    id_[i] = static_cast<std::byte>(high * 16 + low);
  }
  known_ = true;
}

void folder::make(const database_id& id) {
  still_ours();
  const std::string text = identity_text(id);
  locked_->truncate(0);
  locked_->write(0, std::as_bytes(std::span(text)));
  locked_->sync();
  at_->sync();
  at_->sync_own_name();
  id_ = id;
  known_ = true;
}

void folder::still_ours() const {
  const std::optional<file_identity> there = at_->identity(identity_name);
  if (there && *there == locked_->identity()) return;
  throw storage_error(
      path(), storage_error::nowhere,
      there ? "its file SPOLIA was replaced while the database was open: another database, or a "
              "copy, was put there; nothing in it is changed. Close this one, and open what is "
              "there now"
            : "its file SPOLIA was removed while the database was open; nothing in it is changed. "
              "Close the database, and restore a backup");
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
