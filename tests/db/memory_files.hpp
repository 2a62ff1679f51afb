// SPDX-License-Identifier: Apache-2.0
/// \file
/// Files in memory that know what would survive a loss of power, and that fail, lie, tear and fill
/// up when told to.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <spolia/db/files.hpp>

namespace spolia::test {

using bytes = std::vector<std::byte>;

class memory_files : public db::storage_files, public std::enable_shared_from_this<memory_files> {
 public:
  // What goes wrong.
  std::uint64_t fails_at = 0;  ///< the n-th change from the beginning, and all after it; 0: none
  bool fails_once = false;     ///< that one alone
  int fails_with = EIO;
  std::uint64_t sync_fails_at = 0;  ///< the n-th sync of a file
  bool extends = false;             ///< what is reserved is seen as zeros
  bool lies = false;                ///< syncs say that they are done, and are not
  std::uint64_t capacity = ~std::uint64_t{0};
  std::function<void()> before_sync;   ///< of a file; may wait
  std::function<void()> before_write;  ///< to a file
  /// Of a directory. May change what was found.
  std::function<void(std::vector<std::string>& names)> after_list;
  /// May change what was read of a file.
  std::function<void(const std::string& name, std::span<std::byte> got)> after_read;
  // What has happened.
  std::uint64_t changes = 0;
  std::uint64_t syncs = 0;

  std::unique_ptr<db::storage_directory> open_directory(const std::filesystem::path& directory,
                                                        db::directory_mode /*how*/) override {
    return std::make_unique<open_folder>(shared_from_this(), directory);
  }

  /// What a process that opens the files now finds, as after a kill: all of it.
  std::shared_ptr<memory_files> copy() {
    const std::lock_guard hold(lock_);
    auto made = std::make_shared<memory_files>();
    for (const auto& [name, of] : now_) {
      made->put(name, of->now);
      made->now_[name]->reserved = of->reserved;
    }
    return made;
  }
  /// What is there after a loss of power at the worst moment: what was synced, and nothing else.
  std::shared_ptr<memory_files> synced() {
    const std::lock_guard hold(lock_);
    auto made = std::make_shared<memory_files>();
    for (const auto& [name, of] : durable_) made->put(name, of->synced);
    return made;
  }
  /// What is there after a loss of power. Of what was not synced some writes are there, whole or
  /// torn, in any combination, and so are changes of length: a file that was cut may be as long as
  /// it was, with what it had there. Of names that were not synced, half of the time those are
  /// there up to some moment, and else any: no file system has to keep their order.
  std::shared_ptr<memory_files> after_power_loss(std::mt19937_64& random) {
    const std::lock_guard hold(lock_);
    auto names = durable_;
    const std::size_t kept = random() % (names_.size() + 1);
    const bool in_order = random() % 2 == 0;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (in_order ? i < kept : random() % 2 == 0) apply(names, names_[i]);
    }
    auto made = std::make_shared<memory_files>();
    for (const auto& [name, of] : names) {
      bytes content = of->synced;
      for (const auto& w : of->pending) {
        const std::uint64_t fate = random() % 3;
        if (fate == 0) continue;
        if (w.cuts) {
          content.resize(w.offset);
          continue;
        }
        const std::size_t part = fate == 1 ? w.data.size() : random() % (w.data.size() + 1);
        write_to(content, w.offset, std::span(w.data).first(part));
      }
      made->put(name, content);
    }
    return made;
  }

  void remove(const std::string& name) {
    const std::lock_guard hold(lock_);
    step(name);
    if (now_.erase(name) != 0) names_.push_back({name, {}});
  }
  /// Of the disk, by all files.
  std::uint64_t room_taken() {
    const std::lock_guard hold(lock_);
    return used();
  }
  /// While others use it.
  void set_capacity(std::uint64_t most) {
    const std::lock_guard hold(lock_);
    capacity = most;
  }
  bytes& content(const std::string& name) {
    now_.at(name)->differs = true;
    return now_.at(name)->now;
  }
  /// With the room that it takes.
  void shorten(const std::string& name, std::size_t size) {
    content(name).resize(size);
    now_.at(name)->reserved = size;
  }
  [[nodiscard]] bool has(const std::string& name) const { return now_.contains(name); }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, of] : now_) all.push_back(name);
    return all;
  }
  void put(const std::string& name, const bytes& content) {
    auto made = std::make_shared<inode>();
    made->now = made->synced = content;
    now_[name] = durable_[name] = made;
  }

 private:
  struct write {
    std::uint64_t offset;
    bytes data;
    bool cuts = false;  // the file ends at the offset
  };
  struct inode {
    bytes now;
    bytes synced;
    std::vector<write> pending;
    bool differs = false;        // a test has changed it by hand
    std::uint64_t reserved = 0;  // the file's end as to the room that it takes
    int shared = 0;
    bool exclusive = false;

    [[nodiscard]] std::uint64_t room() const {
      return std::max<std::uint64_t>(now.size(), reserved);
    }
    /// Files are large, and are synced by each commit: they are not copied each time.
    void sync() {
      if (std::exchange(differs, false)) {
        synced = now;
      } else {
        for (const write& w : pending) {
          if (w.cuts) {
            synced.resize(w.offset);
          } else {
            write_to(synced, w.offset, w.data);
          }
        }
        synced.resize(now.size());
      }
      pending.clear();
    }
    void truncate(std::uint64_t size) {
      now.resize(size);
      reserved = size;
      pending.push_back({size, {}, true});
    }
  };
  struct naming {
    std::string from;  // empty: made
    std::string to;    // empty: removed
    std::shared_ptr<inode> of{};
  };
  using name_table = std::map<std::string, std::shared_ptr<inode>>;

  static void apply(name_table& to, const naming& n) {
    if (n.from.empty()) {
      to[n.to] = n.of;
    } else if (n.to.empty()) {
      to.erase(n.from);
    } else if (auto node = to.extract(n.from)) {
      to.insert_or_assign(n.to, node.mapped());
    }
  }
  static void write_to(bytes& content, std::uint64_t offset, std::span<const std::byte> from) {
    content.resize(std::max<std::size_t>(content.size(), offset + from.size()));
    std::copy(from.begin(), from.end(), content.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  [[noreturn]] static void fail(const std::filesystem::path& file, int reason) {
    throw db::storage_error(file, db::storage_error::nowhere, "told to fail",
                            std::error_code(reason, std::system_category()));
  }
  /// One change. True: it is the one that fails, and may be done in part.
  bool fails() {
    ++changes;
    if (fails_at == 0) return false;
    return fails_once ? changes == fails_at : changes >= fails_at;
  }
  void step(const std::filesystem::path& file) {
    if (fails()) fail(file, fails_with);
  }
  [[nodiscard]] std::uint64_t used() const {
    std::uint64_t sum = 0;
    for (const auto& [name, of] : now_) sum += of->room();
    return sum;
  }

  class open_file final : public db::storage_file {
   public:
    open_file(std::shared_ptr<memory_files> of, std::string name, std::shared_ptr<inode> node)
        : of_(std::move(of)), name_(std::move(name)), node_(std::move(node)) {}
    ~open_file() override {
      const std::lock_guard hold(of_->lock_);
      if (locked_ == 1) --node_->shared;
      if (locked_ == 2) node_->exclusive = false;
    }
    std::size_t read(std::uint64_t offset, std::span<std::byte> to) override {
      std::size_t n = 0;
      {
        const std::lock_guard hold(of_->lock_);
        const bytes& from = node_->now;
        if (offset >= from.size()) return 0;
        n = std::min<std::size_t>(to.size(), from.size() - offset);
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(offset), n, to.begin());
      }
      if (of_->after_read) of_->after_read(name_, to.first(n));
      return n;
    }
    void write(std::uint64_t offset, std::span<const std::byte> from) override {
      if (of_->before_write) of_->before_write();
      const std::lock_guard hold(of_->lock_);
      const std::uint64_t used = of_->used();
      const std::uint64_t left = of_->capacity > used ? of_->capacity - used : 0;
      const std::uint64_t room = node_->room() + left > offset ? node_->room() + left - offset : 0;
      const bool full = from.size() > room;
      const bool broken = of_->fails();
      if (full) from = from.first(room);
      if (broken) from = from.first(from.size() / 2);
      write_to(node_->now, offset, from);
      node_->pending.push_back({offset, {from.begin(), from.end()}});
      if (broken) fail(name_, of_->fails_with);
      if (full) fail(name_, ENOSPC);
    }
    void sync() override {
      if (of_->before_sync) of_->before_sync();
      const std::lock_guard hold(of_->lock_);
      ++of_->syncs;
      of_->step(name_);
      if (of_->sync_fails_at == of_->syncs) {
        // As Linux does it: what was to be written is taken for written from now on, and no later
        // sync writes it. A length is written with the names, by what a later sync does.
        std::erase_if(node_->pending, [](const auto& w) { return !w.cuts; });
        fail(name_, EIO);
      }
      if (of_->lies) return;
      node_->sync();
    }
    void reserve(std::uint64_t from, std::uint64_t more) override {
      const std::lock_guard hold(of_->lock_);
      const bool broken = of_->fails();
      if (broken) fail(name_, of_->fails_with);
      node_->reserved = std::max<std::uint64_t>(node_->reserved, from);
      if (of_->used() - node_->room() + from + more > of_->capacity) fail(name_, ENOSPC);
      node_->reserved = from + more;
      if (!of_->extends) return;
      const bytes zeros(more);
      write_to(node_->now, from, zeros);
      node_->pending.push_back({from, zeros});
    }
    void truncate(std::uint64_t size) override {
      const std::lock_guard hold(of_->lock_);
      of_->step(name_);
      node_->truncate(size);
    }
    std::uint64_t size() override {
      const std::lock_guard hold(of_->lock_);
      return node_->now.size();
    }
    db::lock_result lock(bool exclusive) override {
      const std::lock_guard hold(of_->lock_);
      if (node_->exclusive || (exclusive && node_->shared != 0)) return db::lock_result::taken;
      locked_ = exclusive ? 2 : 1;
      if (exclusive) {
        node_->exclusive = true;
      } else {
        ++node_->shared;
      }
      return db::lock_result::locked;
    }
    db::file_identity identity() override { return identity_of(*node_); }

   private:
    std::shared_ptr<memory_files> of_;
    std::string name_;
    std::shared_ptr<inode> node_;
    int locked_ = 0;
  };

  /// All names of all directories are in one table, by their whole paths.
  class open_folder final : public db::storage_directory {
   public:
    open_folder(std::shared_ptr<memory_files> of, std::filesystem::path path)
        : storage_directory(std::move(path)), of_(std::move(of)) {}
    std::unique_ptr<db::storage_file> open(const std::string& name, db::file_mode how) override {
      return of_->open_file_at((path() / name).string(), how);
    }
    std::vector<std::string> list() override {
      std::vector<std::string> names;
      {
        const std::lock_guard hold(of_->lock_);
        for (const auto& [name, of] : of_->now_) {
          if (std::filesystem::path(name).parent_path() == path()) {
            names.push_back(std::filesystem::path(name).filename().string());
          }
        }
      }
      if (of_->after_list) of_->after_list(names);
      return names;
    }
    void rename(const std::string& from, const std::string& to) override {
      const std::string whole_from = (path() / from).string();
      const std::string whole_to = (path() / to).string();
      const std::lock_guard hold(of_->lock_);
      of_->step(whole_from);
      const auto node = of_->now_.extract(whole_from);
      of_->now_.insert_or_assign(whole_to, node.mapped());
      of_->names_.push_back({whole_from, whole_to});
    }
    void remove(const std::string& name) override { of_->remove((path() / name).string()); }
    std::optional<db::file_identity> identity(const std::string& name) override {
      const std::lock_guard hold(of_->lock_);
      const auto found = of_->now_.find((path() / name).string());
      if (found == of_->now_.end()) return std::nullopt;
      return identity_of(*found->second);
    }
    bool sync() override {
      const std::lock_guard hold(of_->lock_);
      of_->step(path());
      if (of_->lies) return true;
      for (const auto& n : std::exchange(of_->names_, {})) apply(of_->durable_, n);
      return true;
    }
    bool sync_own_name() override { return true; }

   private:
    std::shared_ptr<memory_files> of_;
  };

  static db::file_identity identity_of(const inode& of) {
    return {1, static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&of))};
  }
  std::unique_ptr<db::storage_file> open_file_at(const std::string& name, db::file_mode how);

  std::mutex lock_;
  name_table now_;
  name_table durable_;
  std::vector<naming> names_;  // made, renamed and removed since the last sync of the directory
};

inline std::unique_ptr<db::storage_file> memory_files::open_file_at(const std::string& name,
                                                                    db::file_mode how) {
  const std::lock_guard hold(lock_);
  auto found = now_.find(name);
  if (found == now_.end()) {
    if (how == db::file_mode::read) fail(name, ENOENT);
    step(name);
    auto made = std::make_shared<inode>();
    found = now_.emplace(name, made).first;
    names_.push_back({{}, name, made});
  } else if (how == db::file_mode::fresh) {
    step(name);
    found->second->truncate(0);
  }
  return std::make_unique<open_file>(shared_from_this(), name, found->second);
}

}  // namespace spolia::test
