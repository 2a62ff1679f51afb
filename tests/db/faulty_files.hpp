// SPDX-License-Identifier: Apache-2.0
/// \file
/// A layer of files over another one that asks before each step whether it is to fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <spolia/db/files.hpp>

namespace spolia::test {

/// What is about to be done, and to which file.
struct file_step {
  enum class kind : std::uint8_t {
    open_directory,
    open,
    list,
    read,
    write,
    sync,
    reserve,
    truncate,
    rename,
    remove,
    sync_directory
  };
  kind what;
  std::string name;  // without its directory; as it is called now

  [[nodiscard]] bool is_temporary() const { return name.ends_with(".tmp"); }
  [[nodiscard]] bool is_segment() const { return name.starts_with("log-") && !is_temporary(); }
  [[nodiscard]] bool is_reserve() const { return name.starts_with("reserve.spl"); }
};

class faulty_files : public db::storage_files {
 public:
  /// The error that a step ends in, of the system's; 0: it is done. By any thread.
  using chooser = std::function<int(const file_step&)>;

  faulty_files(std::shared_ptr<db::storage_files> under, chooser choose)
      : all_(std::make_shared<shared>(std::move(choose))), under_(std::move(under)) {}

  std::unique_ptr<db::storage_directory> open_directory(const std::filesystem::path& directory,
                                                        db::directory_mode how) override {
    all_->step(file_step::kind::open_directory, directory.filename().string());
    return std::make_unique<folder>(all_, under_->open_directory(directory, how));
  }

 private:
  struct shared {
    explicit shared(chooser c) : choose(std::move(c)) {}
    void step(file_step::kind what, const std::string& name) {
      if (const int why = choose({what, name}); why != 0) {
        throw db::storage_error(name, db::storage_error::nowhere, "told to fail",
                                std::error_code(why, std::system_category()));
      }
    }
    const chooser choose;
  };
  using shared_name = std::shared_ptr<std::string>;

  class file final : public db::storage_file {
   public:
    file(std::shared_ptr<shared> all, shared_name name, std::unique_ptr<db::storage_file> under)
        : all_(std::move(all)), name_(std::move(name)), under_(std::move(under)) {}
    std::size_t read(std::uint64_t offset, std::span<std::byte> to) override {
      all_->step(file_step::kind::read, *name_);
      return under_->read(offset, to);
    }
    void expect(std::uint64_t offset, std::size_t count) noexcept override {
      under_->expect(offset, count);
    }
    void write(std::uint64_t offset, std::span<const std::byte> from) override {
      all_->step(file_step::kind::write, *name_);
      under_->write(offset, from);
    }
    void sync() override {
      all_->step(file_step::kind::sync, *name_);
      under_->sync();
    }
    void reserve(std::uint64_t from, std::uint64_t count) override {
      all_->step(file_step::kind::reserve, *name_);
      under_->reserve(from, count);
    }
    std::span<std::byte> map(std::uint64_t from, std::size_t count) noexcept override {
      return under_->map(from, count);
    }
    void renamed(const std::string& name) override { under_->renamed(name); }
    void truncate(std::uint64_t size) override {
      all_->step(file_step::kind::truncate, *name_);
      under_->truncate(size);
    }
    std::uint64_t size() override { return under_->size(); }
    db::lock_result lock(bool exclusive) override { return under_->lock(exclusive); }
    db::file_identity identity() override { return under_->identity(); }

   private:
    const std::shared_ptr<shared> all_;
    const shared_name name_;
    const std::unique_ptr<db::storage_file> under_;
  };

  class folder final : public db::storage_directory {
   public:
    folder(std::shared_ptr<shared> all, std::unique_ptr<db::storage_directory> under)
        : storage_directory(under->path()), all_(std::move(all)), under_(std::move(under)) {}
    std::unique_ptr<db::storage_file> open(const std::string& name, db::file_mode how) override {
      all_->step(file_step::kind::open, name);
      auto opened = under_->open(name, how);
      auto called = std::make_shared<std::string>(name);
      const std::lock_guard hold(lock_);
      called_[name] = called;
      return std::make_unique<file>(all_, std::move(called), std::move(opened));
    }
    std::vector<std::string> list() override {
      all_->step(file_step::kind::list, path().filename().string());
      return under_->list();
    }
    void rename(const std::string& from, const std::string& to) override {
      all_->step(file_step::kind::rename, from);
      under_->rename(from, to);
      const std::lock_guard hold(lock_);
      if (auto found = called_.extract(from)) {
        *found.mapped() = to;  // by the thread that has it open, as all renaming is
        called_[to] = found.mapped();
      }
    }
    void remove(const std::string& name) override {
      all_->step(file_step::kind::remove, name);
      under_->remove(name);
    }
    std::optional<db::file_identity> identity(const std::string& name) override {
      return under_->identity(name);
    }
    bool sync() override {
      all_->step(file_step::kind::sync_directory, path().filename().string());
      return under_->sync();
    }
    bool sync_own_name() override { return under_->sync_own_name(); }
    void remove_made() noexcept override { under_->remove_made(); }

   private:
    const std::shared_ptr<shared> all_;
    const std::unique_ptr<db::storage_directory> under_;
    std::mutex lock_;
    std::map<std::string, shared_name> called_;
  };

  const std::shared_ptr<shared> all_;
  const std::shared_ptr<db::storage_files> under_;
};

}  // namespace spolia::test
