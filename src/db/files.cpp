// SPDX-License-Identifier: Apache-2.0
// files.cpp: the file layer over POSIX.
#include <spolia/db/files.hpp>

#include <dirent.h>
#include <fcntl.h>
#if defined(__linux__)
#include <linux/magic.h>
#include <sys/statfs.h>
#endif
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

std::string sentence(const std::filesystem::path& file, std::uint64_t offset,
                     const std::string& what, std::error_code reason) {
  std::string all = "spolia::db: " + file.string();
  if (offset != storage_error::nowhere) all += " at " + std::to_string(offset);
  all += ": " + what;
  if (reason) all += ": " + reason.message();
  return all;
}

[[noreturn]] void fail(const std::filesystem::path& file, const char* what,
                       std::uint64_t offset = storage_error::nowhere) {
  throw storage_error(file, offset, what, std::error_code(errno, std::system_category()));
}

class posix_file final : public storage_file {
 public:
  posix_file(std::filesystem::path name, int fd) : name_(std::move(name)), fd_(fd) {}
  ~posix_file() override {
    unmap(before_);
    unmap(mapped_);
    // Children have the lock, too: it would last as long as the last of them. None may end it.
    if (locked_by_ == ::getpid()) ::flock(fd_, LOCK_UN);
    ::close(fd_);
  }

  std::size_t read(std::uint64_t offset, std::span<std::byte> to) override {
    std::size_t done = 0;
    while (done < to.size()) {
      const ssize_t n =
          ::pread(fd_, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail(name_, "cannot read", offset + done);
      if (n == 0) break;
      done += static_cast<std::size_t>(n);
    }
    return done;
  }
#if defined(POSIX_FADV_WILLNEED)
  /// In parts: the system begins with as much as one request to the disk has, and forgets the rest.
  void expect(std::uint64_t offset, std::size_t bytes) noexcept override {
    constexpr std::size_t part = 128U << 10U;
    for (std::size_t done = 0; done < bytes; done += part) {
      ::posix_fadvise(fd_, static_cast<off_t>(offset + done),
                      static_cast<off_t>(std::min(part, bytes - done)), POSIX_FADV_WILLNEED);
    }
  }
#endif
  void write(std::uint64_t offset, std::span<const std::byte> from) override {
    std::size_t done = 0;
    while (done < from.size()) {
      const ssize_t n =
          ::pwrite(fd_, from.data() + done, from.size() - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail(name_, "cannot write", offset + done);
      done += static_cast<std::size_t>(n);
    }
  }
  void sync() override {
    // Not again after EINTR or EIO: see the header.
    if (::fdatasync(fd_) != 0) fail(name_, "cannot make it durable");
  }
#if defined(RWF_DSYNC)
  /// One call of the system, where it knows how. What was interrupted is written anew, and so is
  /// there to be made durable.
  void write_and_sync(std::uint64_t offset, std::span<const std::byte> from) override {
    while (!from.empty()) {
      const ::iovec part{const_cast<std::byte*>(from.data()), from.size()};
      const ssize_t n = ::pwritev2(fd_, &part, 1, static_cast<off_t>(offset), RWF_DSYNC);
      if (n < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINTR)) {
        return storage_file::write_and_sync(offset, from);
      }
      // As with sync(): not again.
      if (n < 0) fail(name_, "cannot write and make it durable", offset);
      offset += static_cast<std::uint64_t>(n);
      from = from.subspan(static_cast<std::size_t>(n));
    }
  }
#endif
#if defined(__linux__)
  std::span<std::byte> extend(std::uint64_t from, std::size_t bytes) override {
    unmap(before_);
    before_ = std::exchange(mapped_, {});
    // On a disk a page may have to be read again, and if that fails the process is killed.
    struct statfs of{};
    if (::fstatfs(fd_, &of) != 0 || of.f_type != TMPFS_MAGIC) {
      ::fallocate(fd_, 0, static_cast<off_t>(from), static_cast<off_t>(bytes));
      return {};
    }
    if (!write_zeros(from, bytes)) return {};
    const std::size_t before = from % static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const at = ::mmap(nullptr, before + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_,
                            static_cast<off_t>(from - before));
    if (at == MAP_FAILED) return {};
    mapped_ = {static_cast<std::byte*>(at), before + bytes};
#if defined(MADV_POPULATE_READ)
    // Pages that are there are put into the table of pages many at a time, to be written to.
    ::madvise(at, mapped_.size(), MADV_POPULATE_READ);
#endif
    return mapped_.subspan(before);
  }
#endif
  void truncate(std::uint64_t size) override {
    unmap(before_);
    unmap(mapped_);
    if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) fail(name_, "cannot cut it", size);
  }
  std::uint64_t size() override {
    struct stat s{};
    if (::fstat(fd_, &s) != 0) fail(name_, "cannot look at it");
    return static_cast<std::uint64_t>(s.st_size);
  }
  bool lock(bool exclusive) override {
    if (::flock(fd_, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0) {
      locked_by_ = ::getpid();
      return true;
    }
    if (errno == EWOULDBLOCK) return false;
    fail(name_, "cannot lock it");
  }

 private:
#if defined(__linux__)
  /// A page costs a fifth less than by fallocate() and what the first write to it does then.
  bool write_zeros(std::uint64_t from, std::size_t bytes) noexcept {
    static constexpr std::array<std::byte, 64U << 10U> zeros{};
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t n = ::pwrite(fd_, zeros.data(), std::min(zeros.size(), bytes - done),
                                 static_cast<off_t>(from + done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      done += static_cast<std::size_t>(n);
    }
    return true;
  }
#endif
  static void unmap(std::span<std::byte>& memory) noexcept {
    if (!memory.empty()) ::munmap(memory.data(), memory.size());
    memory = {};
  }

  std::filesystem::path name_;
  int fd_;
  ::pid_t locked_by_ = 0;
  std::span<std::byte> mapped_;  // by the last extend()
  std::span<std::byte> before_;  // by the one before
};

class posix_files final : public storage_files {
 public:
  std::unique_ptr<storage_file> open(const std::filesystem::path& file, file_mode how) override {
    const int flags = how == file_mode::read    ? O_RDONLY
                      : how == file_mode::write ? O_RDWR | O_CREAT
                                                : O_RDWR | O_CREAT | O_TRUNC;
    const int fd = ::open(file.c_str(), flags | O_CLOEXEC, 0644);
    if (fd < 0) fail(file, "cannot open");
    try {
      return std::make_unique<posix_file>(file, fd);
    } catch (...) {
      ::close(fd);
      throw;
    }
  }
  std::vector<std::string> list(const std::filesystem::path& directory) override {
    std::vector<std::string> names;
    // Not std::filesystem's, which ends the program if there is no memory.
    const std::unique_ptr<DIR, int (*)(DIR*)> at(::opendir(directory.c_str()), ::closedir);
    if (at == nullptr && errno == ENOENT) return names;
    if (at == nullptr) fail(directory, "cannot list");
    for (;;) {
      errno = 0;
      const ::dirent* const entry = ::readdir(at.get());
      if (entry == nullptr && errno != 0) fail(directory, "cannot list");
      if (entry == nullptr) return names;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
  }
  void make_directory(const std::filesystem::path& directory) override {
    std::error_code why;
    if (std::filesystem::is_directory(directory, why)) return;
    // Each is durable in the one above before anything is put into it.
    const std::filesystem::path above = std::filesystem::absolute(directory, why).parent_path();
    if (why) throw storage_error(directory, storage_error::nowhere, "cannot make", why);
    if (above != directory) make_directory(above);
    std::filesystem::create_directory(directory, why);
    if (why) throw storage_error(directory, storage_error::nowhere, "cannot make", why);
    sync_directory(above);
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail(from, "cannot rename");
  }
  void remove(const std::filesystem::path& file) override {
    if (::unlink(file.c_str()) != 0 && errno != ENOENT) fail(file, "cannot remove");
  }
  void sync_directory(const std::filesystem::path& directory) override {
    const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) fail(directory, "cannot open");
    const int done = ::fsync(fd);
    const int reason = errno;
    ::close(fd);
    errno = reason;
    if (done != 0) fail(directory, "cannot make it durable");
  }
};

}  // namespace

storage_error::storage_error(std::filesystem::path file, std::uint64_t offset, std::string what,
                             std::error_code reason)
    : std::runtime_error(sentence(file, offset, what, reason)),
      file_(std::move(file)),
      offset_(offset),
      problem_(std::move(what)),
      reason_(reason) {}

std::shared_ptr<storage_files> real_files() { return std::make_shared<posix_files>(); }

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
