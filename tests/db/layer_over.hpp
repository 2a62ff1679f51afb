// SPDX-License-Identifier: Apache-2.0
/// \file
/// The system's files, with functions that are called before each step that changes something,
/// which they may fail, and before each lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <spolia/db/files.hpp>

namespace spolia::test {

/// What is different from the system's files.
struct layer_faults {
  std::function<void()> before_change = [] {};
  std::function<void()> after_own_name = [] {};  ///< the directory's name is durable
  std::function<void()> before_lock = [] {};
  /// Of a file, by its name.
  std::function<void(const std::string&)> before_open = [](const std::string&) {};
  /// Of a file: its name, where, and how many bytes.
  std::function<void(const std::string&, std::uint64_t, std::size_t)> before_read =
      [](const std::string&, std::uint64_t, std::size_t) {};
  bool no_locks = false;
};

class layer_over : public db::storage_files {
 public:
  explicit layer_over(layer_faults faults)
      : faults_(std::make_shared<layer_faults>(std::move(faults))) {}
  std::unique_ptr<db::storage_directory> open_directory(const std::filesystem::path& path,
                                                        db::directory_mode how) override {
    faults_->before_change();
    return std::make_unique<directory>(db::real_files()->open_directory(path, how), faults_);
  }

 private:
  using shared_faults = std::shared_ptr<const layer_faults>;

  class file final : public db::storage_file {
   public:
    file(std::unique_ptr<db::storage_file> of, shared_faults faults, std::string name)
        : of_(std::move(of)), faults_(std::move(faults)), name_(std::move(name)) {}
    std::size_t read(std::uint64_t offset, std::span<std::byte> to) override {
      faults_->before_read(name_, offset, to.size());
      return of_->read(offset, to);
    }
    void write(std::uint64_t offset, std::span<const std::byte> from) override {
      faults_->before_change();
      of_->write(offset, from);
    }
    void sync() override {
      faults_->before_change();
      of_->sync();
    }
    void reserve(std::uint64_t from, std::uint64_t count) override {
      faults_->before_change();
      of_->reserve(from, count);
    }
    void renamed(const std::string& name) override { of_->renamed(name); }
    void truncate(std::uint64_t size) override {
      faults_->before_change();
      of_->truncate(size);
    }
    std::uint64_t size() override { return of_->size(); }
    db::lock_result lock(bool exclusive) override {
      faults_->before_lock();
      return faults_->no_locks ? db::lock_result::unsupported : of_->lock(exclusive);
    }
    db::file_identity identity() override { return of_->identity(); }

   private:
    const std::unique_ptr<db::storage_file> of_;
    const shared_faults faults_;
    const std::string name_;
  };

  class directory final : public db::storage_directory {
   public:
    directory(std::unique_ptr<db::storage_directory> of, shared_faults faults)
        : storage_directory(of->path()), of_(std::move(of)), faults_(std::move(faults)) {}
    std::unique_ptr<db::storage_file> open(const std::string& name, db::file_mode how) override {
      if (how != db::file_mode::read) faults_->before_change();
      faults_->before_open(name);
      return std::make_unique<file>(of_->open(name, how), faults_, name);
    }
    std::vector<std::string> list() override { return of_->list(); }
    void rename(const std::string& from, const std::string& to) override {
      faults_->before_change();
      of_->rename(from, to);
    }
    void remove(const std::string& name) override {
      faults_->before_change();
      of_->remove(name);
    }
    std::optional<db::file_identity> identity(const std::string& name) override {
      return of_->identity(name);
    }
    bool sync() override {
      faults_->before_change();
      return of_->sync();
    }
    bool sync_own_name() override {
      const bool done = of_->sync_own_name();
      faults_->after_own_name();
      return done;
    }
    void remove_made() noexcept override { of_->remove_made(); }

   private:
    const std::unique_ptr<db::storage_directory> of_;
    const shared_faults faults_;
  };

  const std::shared_ptr<layer_faults> faults_;
};

}  // namespace spolia::test
