// SPDX-License-Identifier: Apache-2.0
#include "db/files/attached.hpp"

#include <algorithm>
#include <chrono>
#include <map>
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

class attached_directory final : public storage_directory {
 public:
  /// `own`: null, or `to`.
  attached_directory(storage_directory& to, std::unique_ptr<storage_directory> own)
      : storage_directory(to.path()), own_(std::move(own)), to_(to) {
    for (int tries = 0; !open_all(); ++tries) {
      if (tries == most_tries) {
        throw storage_error(path(), storage_error::nowhere,
                            "the process that has the database makes checkpoints faster than they "
                            "can be opened: try again later");
      }
      std::this_thread::sleep_for(between_tries);
    }
  }

  std::unique_ptr<storage_file> open(const std::string& name, file_mode how) override {
    if (how != file_mode::read) refuse(name);
    const auto found = opened_.find(name);
    if (found == opened_.end()) return to_.open(name, how);
    return std::make_unique<attached_file>(found->second);
  }
  std::vector<std::string> list() override { return names_; }
  void rename(const std::string& from, const std::string& /*to*/) override { refuse(from); }
  void remove(const std::string& name) override { refuse(name); }
  std::optional<file_identity> identity(const std::string& name) override {
    return to_.identity(name);
  }
  bool sync() override {
    for (const auto& [name, file] : opened_) file->sync();
    return to_.sync();
  }
  bool sync_own_name() override { return to_.sync_own_name(); }

 private:
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

  /// False: the process has made a checkpoint meanwhile, which makes others superfluous.
  bool open_all() {
    opened_.clear();
    names_ = to_.list();
    const std::uint64_t newest = newest_checkpoint(names_);
    for (const std::string& name : names_) {
      std::uint64_t sequence = 0;
      const bool wanted =
          (parse_name(name, file_kind::checkpoint, sequence) && sequence == newest) ||
          (parse_name(name, file_kind::log, sequence) && sequence > newest);
      if (!wanted) continue;
      try {
        opened_.emplace(name, to_.open(name, file_mode::read));
      } catch (const storage_error&) {
        if (to_.identity(name)) throw;
        return false;
      }
    }
    return newest_checkpoint(to_.list()) == newest;
  }

  const std::unique_ptr<storage_directory> own_;
  storage_directory& to_;
  std::vector<std::string> names_;
  std::map<std::string, std::shared_ptr<storage_file>> opened_;
};

}  // namespace

std::unique_ptr<storage_directory> attach(std::unique_ptr<storage_directory> to) {
  storage_directory& at = *to;
  return std::make_unique<attached_directory>(at, std::move(to));
}

std::unique_ptr<storage_directory> attach(storage_directory& to) {
  return std::make_unique<attached_directory>(to, nullptr);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
