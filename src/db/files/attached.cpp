// SPDX-License-Identifier: Apache-2.0
#include "db/files/attached.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "db/log/log_format.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr int most_tries = 100;
constexpr std::chrono::milliseconds between_tries{10};

/// An opening of a file that stays open.
class attached_file final : public storage_file {
 public:
  explicit attached_file(std::shared_ptr<storage_file> of) noexcept : of_(std::move(of)) {}

  std::size_t read(std::uint64_t offset, std::span<std::byte> to) override {
    return of_->read(offset, to);
  }
  void expect(std::uint64_t offset, std::size_t bytes) noexcept override {
    of_->expect(offset, bytes);
  }
  // The directory gives no file to be written.
  void write(std::uint64_t /*offset*/, std::span<const std::byte> /*from*/) override {}
  void truncate(std::uint64_t /*size*/) override {}
  void sync() override { of_->sync(); }
  [[nodiscard]] std::uint64_t size() override { return of_->size(); }
  lock_result lock(bool /*exclusive*/) override { return lock_result::locked; }
  file_identity identity() override { return of_->identity(); }

 private:
  std::shared_ptr<storage_file> of_;
};

/// Half of the descriptors that this process may have: the program that attaches needs some, too.
std::size_t most_kept_open() noexcept {
  struct rlimit most{};
  if (::getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur == RLIM_INFINITY) return ~0U;
  return static_cast<std::size_t>(most.rlim_cur) / 2;
}

class attached_directory final : public storage_directory {
 public:
  /// `own`: null, or `to`.
  attached_directory(storage_directory& to, std::unique_ptr<storage_directory> own)
      : storage_directory(to.path()), own_(std::move(own)), to_(to) {
    for (int tries = 0; !open_all(); ++tries) {
      if (tries == most_tries) {
        throw storage_error(path(), storage_error::nowhere,
                            "the process that has the database makes checkpoints faster than they "
                            "can be opened: try again later",
                            {}, storage_fault::changes);
      }
      std::this_thread::sleep_for(between_tries);
    }
  }

  std::unique_ptr<storage_file> open(const std::string& name, file_mode how) override {
    if (how != file_mode::read) refuse(name);
    const auto found = found_.find(name);
    if (found == found_.end()) return to_.open(name, how);
    if (found->second.file != nullptr) {
      return std::make_unique<attached_file>(found->second.file);
    }
    auto file = open_again(name, found->second.identity);
    if (file != nullptr) return file;
    throw storage_error(path() / name, storage_error::nowhere,
                        "the process that has the database has removed it before it was read, as "
                        "there are not descriptors enough to keep all files open: try again, or "
                        "with a higher limit (ulimit -n)",
                        {}, storage_fault::changes);
  }
  std::vector<std::string> list() override { return names_; }
  void rename(const std::string& from, const std::string& /*to*/) override { refuse(from); }
  void remove(const std::string& name) override { refuse(name); }
  /// What is open is there still, also for what attaches to this one.
  std::optional<file_identity> identity(const std::string& name) override {
    const auto found = found_.find(name);
    if (found != found_.end() && found->second.file != nullptr) return found->second.identity;
    return to_.identity(name);
  }
  bool sync() override {
    for (const auto& [name, one] : found_) {
      std::uint64_t sequence = 0;
      if (parse_name(name, file_kind::log, sequence) && sequence < durable_before_) continue;
      if (one.file != nullptr) {
        one.file->sync();
      } else if (const auto file = open_again(name, one.identity)) {
        file->sync();
      }
    }
    return to_.sync();
  }
  bool sync_own_name() override { return to_.sync_own_name(); }
  void are_durable_before(std::uint64_t segment) noexcept { durable_before_ = segment; }

 private:
  /// As it was when the directory was listed.
  struct found_file {
    file_identity identity;
    std::shared_ptr<storage_file> file{};  // null: it is opened when it is needed
  };

  [[noreturn]] void refuse(const std::string& name) const {
    throw storage_error(path() / name, storage_error::nowhere,
                        "another process has the database: this one only reads it");
  }
  static std::uint64_t newest_checkpoint(const std::vector<std::string>& names) {
    std::uint64_t newest = 0;
    std::uint64_t sequence = 0;
    for (const std::string& name : names) {
      if (parse_name(name, file_kind::checkpoint, sequence)) newest = std::max(newest, sequence);
    }
    return newest;
  }
  /// Null: it is not there any more, or another file is. What a checkpoint removes is superfluous
  /// when the checkpoint is durable.
  std::unique_ptr<storage_file> open_again(const std::string& name, const file_identity& was) {
    if (to_.identity(name) != was) return nullptr;
    try {
      auto file = to_.open(name, file_mode::read);
      return file->identity() == was ? std::move(file) : nullptr;
    } catch (const storage_error&) {
      if (to_.identity(name) == was) throw;
      return nullptr;
    }
  }

  /// The checkpoint, and the segments after it from the newest on: those before are read first.
  [[nodiscard]] std::vector<std::string> wanted(std::uint64_t newest) const {
    std::vector<std::string> all;
    std::uint64_t sequence = 0;
    for (const std::string& name : names_) {
      if (parse_name(name, file_kind::log, sequence) && sequence > newest) all.push_back(name);
    }
    std::sort(all.begin(), all.end(), std::greater<>());
    for (const std::string& name : names_) {
      const bool checkpoint = parse_name(name, file_kind::checkpoint, sequence);
      if (checkpoint && sequence == newest) all.insert(all.begin(), name);
    }
    return all;
  }

  /// Descriptors for what is read with, which others may take only when no more files are to be
  /// kept open: openings of one file, which go with this. Where there are fewer, no file is kept
  /// open. Without them a process that may have a few more than it needs to read one file after the
  /// other would keep so many open that it cannot read.
  std::vector<std::unique_ptr<storage_file>> set_aside(const std::string& name) {
    constexpr std::size_t to_read_with = 16;
    std::vector<std::unique_ptr<storage_file>> aside;
    while (aside.size() < to_read_with) {
      auto one = open_now(name);
      if (one == nullptr) return {};
      aside.push_back(std::move(one));
    }
    return aside;
  }
  /// Null: there is no descriptor left, or the file is gone.
  std::unique_ptr<storage_file> open_now(const std::string& name) {
    try {
      return to_.open(name, file_mode::read);
    } catch (const storage_error& e) {
      if (means_no_descriptors(e) || !to_.identity(name)) return nullptr;
      throw;
    }
  }

  /// False: the process has made a checkpoint meanwhile, which makes others superfluous.
  bool open_all() {
    found_.clear();
    names_ = to_.list();
    const std::uint64_t newest = newest_checkpoint(names_);
    const std::vector<std::string> all = wanted(newest);
    if (all.empty()) return newest_checkpoint(to_.list()) == newest;
    auto aside = set_aside(all.front());
    std::size_t left = aside.empty() ? 0 : most_kept_open();
    for (const std::string& name : all) {
      const auto identity = to_.identity(name);
      if (!identity) return false;
      found_file& one =
          found_.insert_or_assign(name, found_file{.identity = *identity}).first->second;
      if (left == 0) continue;
      try {
        one.file = open_again(name, *identity);
        if (one.file == nullptr) return false;
        --left;
      } catch (const storage_error& e) {
        if (!means_no_descriptors(e)) throw;
        left = 0;
      }
    }
    aside.clear();
    return newest_checkpoint(to_.list()) == newest;
  }

  const std::unique_ptr<storage_directory> own_;
  storage_directory& to_;
  std::vector<std::string> names_;
  std::map<std::string, found_file> found_;
  std::uint64_t durable_before_ = 0;
};

}  // namespace

bool means_no_descriptors(const storage_error& e) noexcept {
  return e.reason().value() == EMFILE || e.reason().value() == ENFILE;
}

std::unique_ptr<storage_directory> attach(std::unique_ptr<storage_directory> to) {
  storage_directory& at = *to;
  return std::make_unique<attached_directory>(at, std::move(to));
}

std::unique_ptr<storage_directory> attach(storage_directory& to) {
  return std::make_unique<attached_directory>(to, nullptr);
}

void are_durable_before(storage_directory& attached, std::uint64_t segment) noexcept {
  static_cast<attached_directory&>(attached).are_durable_before(segment);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
