// SPDX-License-Identifier: Apache-2.0
/// \file
/// The system's files for processes that are killed, with a disk under them that a kill does not
/// touch and a loss of power shows: crash_disk.
///
/// What a process writes is in the system's memory, and stays there when the process is killed. So
/// a kill alone never shows that a sync is missing. Here the disk is a second directory, beside the
/// database's: for each file there is what a sync has put onto the disk, and which pages differ
/// from that; and there are the names that a sync of the directory has made durable. All processes
/// of a run share it. lose_power() makes the directory as the next start of the machine finds it.
///
/// A sync that fails is as Linux has it: of the pages that differ some reach the disk, and all are
/// taken for written from then on. So a second sync of the file says nothing about them, while
/// a process that reads the file still finds them.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
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

#include "db/crash_support.hpp"
#include "db/faulty_files.hpp"

namespace spolia::test {

/// An open file of the disk, or a lock.
class raw_file {
 public:
  raw_file(const std::filesystem::path& name, int flags) : fd_(::open(name.c_str(), flags, 0644)) {
    if (fd_ < 0) wrong("the disk: " + name.string() + ": " + std::strerror(errno));
  }
  raw_file(const raw_file&) = delete;
  raw_file& operator=(const raw_file&) = delete;
  ~raw_file() { ::close(fd_); }
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] std::uint64_t number() const {
    struct stat s{};
    if (::fstat(fd_, &s) != 0) wrong("the disk: no number");
    return s.st_ino;
  }
  void set_size(std::uint64_t size) {
    if (::ftruncate(fd_, static_cast<::off_t>(size)) != 0) wrong("the disk is full");
  }
  void write(std::uint64_t at, std::span<const std::byte> from) {
    const ::ssize_t done = ::pwrite(fd_, from.data(), from.size(), static_cast<::off_t>(at));
    if (done != static_cast<::ssize_t>(from.size())) wrong("the disk is full");
  }
  std::size_t read(std::uint64_t at, std::span<std::byte> to) {
    const ::ssize_t done = ::pread(fd_, to.data(), to.size(), static_cast<::off_t>(at));
    if (done < 0) wrong("the disk cannot be read");
    return static_cast<std::size_t>(done);
  }

 private:
  const int fd_;
};

/// Other processes, and other openings of this one, wait. The system ends it with the process.
class between_processes {
 public:
  explicit between_processes(const raw_file& of) : fd_(of.get()) {
    while (::flock(fd_, LOCK_EX) != 0) {
      if (errno != EINTR) wrong("the disk cannot be locked");
    }
  }
  between_processes(const between_processes&) = delete;
  between_processes& operator=(const between_processes&) = delete;
  ~between_processes() { ::flock(fd_, LOCK_UN); }

 private:
  const int fd_;
};

/// Which pages of a file differ from the disk, in memory that all processes share and a kill leaves
/// as it is.
class page_notes {
 public:
  static constexpr std::size_t page = 4096;
  static constexpr std::size_t most = 4096;  // pages

  explicit page_notes(const raw_file& in) {
    void* const at =
        ::mmap(nullptr, sizeof(notes), PROT_READ | PROT_WRITE, MAP_SHARED, in.get(), 0);
    if (at == MAP_FAILED) wrong("the disk: no memory for the notes of a file");
    at_ = static_cast<notes*>(at);
  }
  page_notes(const page_notes&) = delete;
  page_notes& operator=(const page_notes&) = delete;
  ~page_notes() { ::munmap(at_, sizeof(notes)); }
  static constexpr std::size_t size() { return sizeof(notes); }

  void mark(std::uint64_t from, std::uint64_t to) {
    if (to > page * most) wrong("a file is too long for the disk of this test");
    for (std::uint64_t p = from / page; p * page < to; ++p) {
      at_->differs[p / 64].fetch_or(std::uint64_t{1} << p % 64);
    }
  }
  /// Calls f(page) for each page that differs; then it does not. A page of which a kill has ended
  /// that stays marked.
  template <class F>
  void each(F&& f) {
    for (std::size_t w = 0; w < most / 64; ++w) {
      std::uint64_t these = at_->differs[w].load() | at_->on_its_way[w].load();
      for (; these != 0; these &= these - 1) {
        const auto bit = static_cast<std::size_t>(std::countr_zero(these));
        const std::uint64_t mask = std::uint64_t{1} << bit;
        at_->on_its_way[w].fetch_or(mask);
        at_->differs[w].fetch_and(~mask);
        f(w * 64 + bit);
        at_->on_its_way[w].fetch_and(~mask);
      }
    }
  }

 private:
  // Their orders are the strongest: what is shared with other processes is no place to save.
  struct notes {
    std::array<std::atomic<std::uint64_t>, most / 64> differs;
    std::array<std::atomic<std::uint64_t>, most / 64> on_its_way;  // to the disk
  };
  notes* at_;
};

/// Where the files of a database are, and where its disk is.
class crash_disk {
 public:
  explicit crash_disk(const std::filesystem::path& beside)
      : base_(beside / "base"), at_(beside / "disk") {}

  [[nodiscard]] const std::filesystem::path& base() const noexcept { return base_; }
  [[nodiscard]] std::filesystem::path lock() const { return at_ / "lock"; }
  [[nodiscard]] std::filesystem::path names() const { return at_ / "names"; }
  /// Of a file, by its number in the system: a second name, which keeps the number from being used
  /// again; what is on the disk; which pages differ.
  [[nodiscard]] std::filesystem::path of(std::uint64_t number, const char* what) const {
    return at_ / (std::to_string(number) + what);
  }
  static constexpr const char* now = ".now";
  static constexpr const char* durable = ".durable";
  static constexpr const char* notes = ".notes";

  /// Nothing is there. No process uses it, as for lose_power().
  void begin() const {
    std::filesystem::remove_all(base_);
    std::filesystem::remove_all(at_);
    std::filesystem::create_directory(at_);
    std::ofstream(names()).flush();
  }
  /// A file, empty, that has no name yet but in here.
  [[nodiscard]] std::uint64_t make_file() const {
    const auto nameless = at_ / "nameless";
    std::filesystem::remove(nameless);
    const raw_file made(nameless, O_RDWR | O_CREAT | O_EXCL);
    const std::uint64_t number = made.number();
    raw_file(of(number, durable), O_RDWR | O_CREAT | O_TRUNC).set_size(0);
    raw_file(of(number, notes), O_RDWR | O_CREAT | O_TRUNC).set_size(page_notes::size());
    std::filesystem::rename(nameless, of(number, now));
    return number;
  }
  /// The number that each name has in the directory as the system's memory has it.
  [[nodiscard]] std::map<std::string, std::uint64_t> names_now() const {
    std::map<std::string, std::uint64_t> all;
    std::error_code none;
    for (const auto& one : std::filesystem::directory_iterator(base_, none)) {
      struct stat s{};
      if (::stat(one.path().c_str(), &s) == 0) all[one.path().filename().string()] = s.st_ino;
    }
    return all;
  }
  [[nodiscard]] std::map<std::string, std::uint64_t> durable_names() const {
    std::map<std::string, std::uint64_t> all;
    std::ifstream in(names());
    std::uint64_t number = 0;
    for (std::string name; in >> number >> name;) all[name] = number;
    return all;
  }
  /// Under the lock.
  void make_names_durable() const {
    const auto now_there = names_now();
    const auto next = at_ / "names.next";
    {
      std::ofstream out(next);
      for (const auto& [name, number] : now_there) out << number << ' ' << name << '\n';
      out.flush();
      if (!out) wrong("the disk is full");
    }
    std::filesystem::rename(next, names());
    forget_all_but({&now_there});
  }

  /// The machine stops, and starts again.
  void lose_power(std::mt19937_64& random) const {
    const auto kept = names_after(random);
    crash_disk next(at_ / "next");
    std::filesystem::create_directory(at_ / "next");
    next.begin();
    std::filesystem::create_directory(next.base());
    for (const auto& [name, number] : kept) {
      const std::uint64_t made = next.make_file();
      {
        raw_file to(next.of(made, now), O_RDWR);
        content_after(number, to, random);
      }
      std::filesystem::copy_file(next.of(made, now), next.of(made, durable),
                                 std::filesystem::copy_options::overwrite_existing);
      std::filesystem::create_hard_link(next.of(made, now), next.base() / name);
    }
    next.make_names_durable();
    const auto old = std::filesystem::path(at_).concat(".old");
    std::filesystem::remove_all(base_);
    std::filesystem::remove_all(old);
    std::filesystem::rename(next.base(), base_);
    std::filesystem::rename(at_, old);
    std::filesystem::rename(old / "next" / "disk", at_);
    std::filesystem::remove_all(old);
  }

 private:
  using name_table = std::map<std::string, std::uint64_t>;

  void forget_all_but(std::vector<const name_table*> tables) const {
    std::vector<std::uint64_t> used;
    for (const name_table* t : tables) {
      for (const auto& [name, number] : *t) used.push_back(number);
    }
    std::sort(used.begin(), used.end());
    std::vector<std::filesystem::path> gone;
    for (const auto& one : std::filesystem::directory_iterator(at_)) {
      const std::string name = one.path().filename().string();
      if (name.front() < '0' || name.front() > '9') continue;
      if (!std::binary_search(used.begin(), used.end(), std::stoull(name))) {
        gone.push_back(one.path());
      }
    }
    for (const auto& path : gone) std::filesystem::remove(path);
  }

  /// For each file that was made, renamed or removed since the last sync of the directory, either
  /// all of that is there or nothing. A file that another one has replaced is gone if and only if
  /// that has its name.
  [[nodiscard]] name_table names_after(std::mt19937_64& random) const {
    const name_table before = durable_names();
    const name_table after = names_now();
    const std::uint64_t how = random() % 4;
    if (how == 0) return before;
    if (how == 1) return after;
    std::map<std::uint64_t, bool> done;  // of a file: it is as it is now
    for (const auto& [name, number] : after) done.try_emplace(number, random() % 2 == 0);
    for (const auto& [name, number] : before) {
      const auto has_it = after.find(name);
      done.try_emplace(number, has_it != after.end() ? done[has_it->second] : random() % 2 == 0);
    }
    name_table kept;
    for (const auto& [name, number] : before) {
      if (!done[number]) kept[name] = number;
    }
    for (const auto& [name, number] : after) {
      if (done[number]) kept[name] = number;
    }
    return kept;
  }

  /// What is on the disk, and of the pages that differ some, whole or torn.
  void content_after(std::uint64_t number, raw_file& to, std::mt19937_64& random) const {
    constexpr std::uint64_t sector = 512;
    raw_file disk(of(number, durable), O_RDONLY);
    raw_file memory(of(number, now), O_RDONLY);
    const auto size = std::filesystem::file_size(of(number, random() % 2 == 0 ? now : durable));
    bytes content(size);
    static_cast<void>(disk.read(0, content));
    const raw_file in(of(number, notes), O_RDWR);
    page_notes(in).each([&](std::size_t p) {
      const std::uint64_t fate = random() % 3;
      const std::uint64_t at = p * page_notes::page;
      if (fate == 0 || at >= size) return;
      bytes of_page(fate == 1 ? page_notes::page : random() % (page_notes::page / sector) * sector);
      of_page.resize(memory.read(at, of_page));
      const std::size_t fits = std::min<std::size_t>(of_page.size(), size - at);
      std::copy_n(of_page.begin(), fits, content.begin() + static_cast<std::ptrdiff_t>(at));
    });
    to.write(0, content);
  }

  std::filesystem::path base_;
  std::filesystem::path at_;
};

/// Files of a crash_disk, each step of which is asked for whether it is to fail; of other
/// directories as they are.
class disk_files : public db::storage_files {
 public:
  /// The error that a step ends in, of the system's; 0: it is done. By any thread.
  using chooser = std::function<int(const file_step&)>;

  /// tracked: with the disk. Without it, power must not be lost.
  disk_files(crash_disk on, bool tracked, std::uint64_t seed, chooser choose)
      : all_(std::make_shared<shared>(std::move(on), tracked, seed, std::move(choose))) {}

  std::unique_ptr<db::storage_directory> open_directory(const std::filesystem::path& path,
                                                        db::directory_mode how) override {
    auto under = db::real_files()->open_directory(path, how);
    if (path != all_->on.base()) return under;
    return std::make_unique<folder>(all_, std::move(under));
  }

 private:
  struct shared {
    shared(crash_disk d, bool t, std::uint64_t seed, chooser c)
        : on(std::move(d)), tracked(t), choose(std::move(c)), random(seed) {}
    int fails(file_step::kind what, const std::string& name) { return choose({what, name}); }
    void step(file_step::kind what, const std::string& name) {
      if (const int why = fails(what, name); why != 0) fail(name, why);
    }
    [[noreturn]] static void fail(const std::string& name, int why) {
      throw db::storage_error(name, db::storage_error::nowhere, "told to fail",
                              std::error_code(why, std::system_category()));
    }
    std::uint64_t draw() {
      const std::lock_guard hold(lock);
      return random();
    }
    const crash_disk on;
    const bool tracked;
    const chooser choose;
    std::mutex lock;
    std::mt19937_64 random;
  };
  using shared_name = std::shared_ptr<std::string>;

  /// What the disk has of a file.
  struct on_disk {
    on_disk(const crash_disk& d, std::uint64_t number)
        : durable(d.of(number, crash_disk::durable), O_RDWR),
          noted(d.of(number, crash_disk::notes), O_RDWR),
          notes(noted) {}
    raw_file durable;
    raw_file noted;
    page_notes notes;
  };

  class file final : public db::storage_file {
   public:
    file(std::shared_ptr<shared> all, shared_name name, std::unique_ptr<db::storage_file> under)
        : all_(std::move(all)), name_(std::move(name)), under_(std::move(under)) {
      if (all_->tracked) disk_.emplace(all_->on, under_->identity().number);
    }
    std::size_t read(std::uint64_t offset, std::span<std::byte> to) override {
      all_->step(file_step::kind::read, *name_);
      return under_->read(offset, to);
    }
    void write(std::uint64_t offset, std::span<const std::byte> from) override {
      const int why = all_->fails(file_step::kind::write, *name_);
      if (why != 0) from = from.first(all_->draw() % (from.size() + 1));
      mark(offset, offset + from.size());
      under_->write(offset, from);
      mark(offset, offset + from.size());
      if (why != 0) shared::fail(*name_, why);
    }
    void sync() override {
      const int why = all_->fails(file_step::kind::sync, *name_);
      if (disk_) put_onto_disk(why != 0);
      if (why != 0) shared::fail(*name_, why);
    }
    void reserve(std::uint64_t from, std::uint64_t count) override {
      all_->step(file_step::kind::reserve, *name_);
      mark(from, from + count);
      under_->reserve(from, count);
      mark(from, from + count);
    }
    /// Memory that is the file cannot fail: there is none where there is a disk.
    std::span<std::byte> map(std::uint64_t from, std::size_t count) noexcept override {
      return disk_ ? std::span<std::byte>() : under_->map(from, count);
    }
    void renamed(const std::string& name) override { under_->renamed(name); }
    void truncate(std::uint64_t size) override {
      all_->step(file_step::kind::truncate, *name_);
      shorten(size);
    }
    void shorten(std::uint64_t size) {
      const std::uint64_t before = std::max(under_->size(), size + 1);
      mark(size, before);
      under_->truncate(size);
      mark(size, before);
    }
    std::uint64_t size() override { return under_->size(); }
    db::lock_result lock(bool exclusive) override { return under_->lock(exclusive); }
    db::file_identity identity() override { return under_->identity(); }

   private:
    void mark(std::uint64_t from, std::uint64_t to) {
      if (disk_) disk_->notes.mark(from, to);
    }
    void put_onto_disk(bool fails) {
      const between_processes alone(disk_->durable);
      const std::uint64_t size = under_->size();
      disk_->notes.each([&](std::size_t p) {
        if (fails && all_->draw() % 2 == 0) return;
        std::array<std::byte, page_notes::page> content{};
        const std::uint64_t at = p * content.size();
        if (at >= size) return;
        const std::size_t got = under_->read(at, content);
        disk_->durable.write(at, std::span(content).first(got));
      });
      if (!fails) disk_->durable.set_size(size);
    }

    const std::shared_ptr<shared> all_;
    const shared_name name_;
    const std::unique_ptr<db::storage_file> under_;
    std::optional<on_disk> disk_;
  };

  class folder final : public db::storage_directory {
   public:
    folder(std::shared_ptr<shared> all, std::unique_ptr<db::storage_directory> under)
        : storage_directory(under->path()),
          all_(std::move(all)),
          under_(std::move(under)),
          lock_file_(all_->on.lock(), O_RDWR | O_CREAT) {}
    std::unique_ptr<db::storage_file> open(const std::string& name, db::file_mode how) override {
      const std::lock_guard hold(lock_);
      const between_processes alone(lock_file_);
      all_->step(file_step::kind::open, name);
      const bool known = under_->identity(name).has_value();
      if (!known && how != db::file_mode::read && all_->tracked) make(name);
      const bool empty = known && how == db::file_mode::fresh;
      auto opened = under_->open(name, empty ? db::file_mode::write : how);
      auto called = std::make_shared<std::string>(name);
      auto made = std::make_unique<file>(all_, called, std::move(opened));
      if (empty) made->shorten(0);
      called_[name] = std::move(called);
      return made;
    }
    std::vector<std::string> list() override {
      all_->step(file_step::kind::list, path().filename().string());
      return under_->list();
    }
    void rename(const std::string& from, const std::string& to) override {
      const std::lock_guard hold(lock_);
      const between_processes alone(lock_file_);
      all_->step(file_step::kind::rename, from);
      under_->rename(from, to);
      if (auto found = called_.extract(from)) {
        *found.mapped() = to;  // by the thread that has it open, as all renaming is
        called_[to] = found.mapped();
      }
    }
    void remove(const std::string& name) override {
      const std::lock_guard hold(lock_);
      const between_processes alone(lock_file_);
      all_->step(file_step::kind::remove, name);
      under_->remove(name);
    }
    std::optional<db::file_identity> identity(const std::string& name) override {
      return under_->identity(name);
    }
    bool sync() override {
      const std::lock_guard hold(lock_);
      const between_processes alone(lock_file_);
      all_->step(file_step::kind::sync_directory, path().filename().string());
      if (all_->tracked) all_->on.make_names_durable();
      return true;
    }
    bool sync_own_name() override { return under_->sync_own_name(); }
    void remove_made() noexcept override { under_->remove_made(); }

   private:
    void make(const std::string& name) {
      const std::uint64_t number = all_->on.make_file();
      std::filesystem::create_hard_link(all_->on.of(number, crash_disk::now), path() / name);
    }

    const std::shared_ptr<shared> all_;
    const std::unique_ptr<db::storage_directory> under_;
    const raw_file lock_file_;
    std::mutex lock_;
    std::map<std::string, shared_name> called_;
  };

  const std::shared_ptr<shared> all_;
};

}  // namespace spolia::test
