// SPDX-License-Identifier: Apache-2.0
// storage.cpp: opening a directory.
#include "storage.hpp"

#include <algorithm>
#include <chrono>
#include <random>
#include <stdexcept>
#include <utility>

#include "engine.hpp"
#include "recovery.hpp"

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

identity_file::identity_file(storage_files& files, std::filesystem::path directory, bool write)
    : files_(files), directory_(std::move(directory)) {
  if (write) files_.make_directory(directory_);
  file_ = files_.open(directory_ / name, write ? file_mode::write : file_mode::read);
  if (!file_->lock(write)) {
    throw storage_error(directory_ / name, storage_error::nowhere,
                        "the database is open elsewhere: in this process, or in another one");
  }
  std::array<char, 256> text{};
  const std::size_t got = file_->read(0, std::as_writable_bytes(std::span(text)));
  // A process may have died while it made the database: then there is nothing else.
  const directory_content has = look_into(files_, directory_);
  const bool anything = !has.segments.empty() || !has.checkpoints.empty();
  // And a backup gets it last.
  if (got == identity_text({}).size() || (anything && !has.copy) || !write) {
    parse({text.data(), got});
  }
}

void identity_file::parse(std::string_view text) {
  const auto refuse = [&](const char* why) { throw storage_error(directory_ / name, 0, why); };
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

void identity_file::make(const database_id& id) {
  const std::string text = identity_text(id);
  file_->truncate(0);
  file_->write(0, std::as_bytes(std::span(text)));
  file_->sync();
  files_.sync_directory(directory_);
  const std::filesystem::path above = std::filesystem::absolute(directory_).parent_path();
  if (!above.empty()) files_.sync_directory(above);
  id_ = id;
  known_ = true;
}

directory_content look_into(storage_files& files, const std::filesystem::path& directory) {
  directory_content found;
  for (std::string& name : files.list(directory)) {
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

file_bytes read_file(storage_files& files, const std::filesystem::path& name) {
  const auto file = files.open(name, file_mode::read);
  file_bytes all;
  all.size = file->size();
  all.data = std::make_unique_for_overwrite<std::byte[]>(all.size);
  all.size = file->read(0, {all.data.get(), all.size});
  return all;
}

storage::storage(engine& of, std::filesystem::path directory, const options& o)
    : engine_(of),
      directory_(std::move(directory)),
      files_(o.files != nullptr ? o.files : real_files()),
      options_(o) {
  if (o.segment_bytes < 4096) {
    throw std::invalid_argument("spolia::db: a segment of the log has 4096 bytes at least");
  }
  if (o.checkpoint_share == 0 || o.checkpoint_share > 100) {
    throw std::invalid_argument("spolia::db: checkpoint_share is from 1 to 100");
  }
  if (o.loss_window.count() <= 0) {
    throw std::invalid_argument("spolia::db: the loss window is a millisecond at least");
  }
  const auto start = std::chrono::steady_clock::now();
  identity_ = std::make_unique<identity_file>(*files_, directory_, !o.read_only);
  if (!identity_->known()) {
    const directory_content has = look_into(*files_, directory_);
    if (has.copy || !has.checkpoints.empty()) {
      throw storage_error(directory_, storage_error::nowhere, "a copy that was not finished");
    }
    identity_->make(random_id());
  }
  end_ = recover();
  log_at_open_ = report_.log_bytes;
  // Each opening is an epoch of its own: of two histories that part, one has the higher number.
  if (!o.read_only) ++end_.epoch;
  report_.epoch = end_.epoch;
  last_.store_relaxed(end_.sequence);
  if (!o.read_only && o.durability != durability_level::none) {
    log_ = std::make_unique<journal>(*files_, directory_, identity_->id(), o);
    log_->start(end_);
  }
  report_.took = std::chrono::steady_clock::now() - start;
}

storage::~storage() {
  if (!background_.here()) return;
  stopping_.store_relaxed(true);
  const std::lock_guard hold(background_lock_);
  if (background_->joinable()) background_->join();
}

log_end storage::recover() {
  const directory_content has = look_into(*files_, directory_);
  if (!options_.read_only) {
    for (const std::string& name : has.temporary) files_->remove(directory_ / name);
    if (has.copy) {
      files_->remove(directory_ / copy_marker);
      files_->sync_directory(directory_);
    }
  }
  recovery all(engine_, *files_, directory_, identity_->id(), options_, report_);
  return all.run(has, !options_.read_only);
}

void storage::fill(log_stats& s) const noexcept {
  s.epoch = report_.epoch;
  s.sequence = s.durable = last_.load_relaxed();
  if (log_ != nullptr) log_->fill(s);
  s.since_checkpoint = log_at_open_ + s.bytes - log_at_checkpoint_.load_relaxed();
  s.checkpoints = checkpoints_.load_relaxed();
  s.failed_checkpoints = failed_checkpoints_.load_relaxed();
}

std::string storage::failure() const {
  if (log_ == nullptr || !log_->failed()) return {};
  return log_->failure() ? log_->failure()->what() : "the log cannot be written";
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
