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
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/so_many.hpp"

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

/// The same for so many bytes for which there is no room. `what` is "cannot write ", say, and
/// `more` comes after the number.
[[noreturn]] void fail_to_put(const std::filesystem::path& file, const char* what,
                              std::uint64_t bytes, std::uint64_t offset, const char* more = "") {
  const std::error_code reason(errno, std::system_category());
  throw storage_error(file, offset, what + so_many(bytes, "byte") + more, reason);
}

/// Whether the error number means that the file system has no locks.
constexpr bool no_locks(int reason) noexcept {
  return reason == ENOLCK || reason == ENOTSUP || reason == EOPNOTSUPP || reason == ENOSYS ||
         reason == EINVAL;
}

file_identity identity_of(const struct stat& s) noexcept {
  return {static_cast<std::uint64_t>(s.st_dev), static_cast<std::uint64_t>(s.st_ino)};
}

class posix_file final : public storage_file {
 public:
  posix_file(std::filesystem::path name, int fd) : name_(std::move(name)), fd_(fd) {}
  ~posix_file() override {
    unmap(before_);
    unmap(mapped_);
    // Children share the lock, so without this it would last as long as the last of them. A child
    // must not end it.
    if (locked_by_ == ::getpid()) unlock();
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
  /// In parts: of one call, the system only reads as much as one request to the disk has.
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
      if (n < 0) fail_to_put(name_, "cannot write ", from.size() - done, offset + done);
      done += static_cast<std::size_t>(n);
    }
  }
  void sync() override {
    // Not tried again after EINTR or EIO: see the header.
    if (::fdatasync(fd_) != 0) fail(name_, "cannot make it durable");
  }
#if defined(RWF_DSYNC)
  /// By one system call, if the system has it. After an interruption the bytes are written again,
  /// so that the sync makes them durable.
  void write_and_sync(std::uint64_t offset, std::span<const std::byte> from) override {
    while (!from.empty()) {
      const ::iovec part{const_cast<std::byte*>(from.data()), from.size()};
      const ssize_t n = ::pwritev2(fd_, &part, 1, static_cast<off_t>(offset), RWF_DSYNC);
      if (n < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINTR)) {
        return storage_file::write_and_sync(offset, from);
      }
      // Not tried again, as in sync().
      if (n < 0) fail_to_put(name_, "cannot write ", from.size(), offset, " and make them durable");
      offset += static_cast<std::uint64_t>(n);
      from = from.subspan(static_cast<std::size_t>(n));
    }
  }
#endif
  void reserve(std::uint64_t from, std::uint64_t bytes) override {
    if (make_longer(from, bytes)) return;
    const int reason = errno;
    // Gives back the part for which there was room: others may need it, and nothing was written to
    // it.
    while (::ftruncate(fd_, static_cast<off_t>(from)) != 0 && errno == EINTR) {
    }
    errno = reason;
    fail_to_put(name_, "cannot make it longer by ", bytes, from);
  }
#if defined(__linux__)
  std::span<std::byte> map(std::uint64_t from, std::size_t bytes) noexcept override {
    unmap(before_);
    before_ = std::exchange(mapped_, {});
    // Not on a disk: a page may have to be read again, and if that fails the process is killed.
    if (!in_memory()) return {};
    const std::size_t before = from % static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const at = ::mmap(nullptr, before + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_,
                            static_cast<off_t>(from - before));
    if (at == MAP_FAILED) return {};
    mapped_ = {static_cast<std::byte*>(at), before + bytes};
#if defined(MADV_POPULATE_READ)
    // Maps the existing pages many at a time, so that writes to them cause no page faults.
    ::madvise(at, mapped_.size(), MADV_POPULATE_READ);
#endif
    return mapped_.subspan(before);
  }
#endif
  void renamed(const std::string& name) override {
    // Not replace_filename(), which leaves an unusable path if there is no memory.
    std::filesystem::path now = name_.parent_path() / name;
    name_.swap(now);
  }
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
  lock_result lock(bool exclusive) override {
    lock_result got = flock_it(exclusive ? LOCK_EX : LOCK_SH);
    if (got == lock_result::unsupported) {
      got = lock_range(exclusive ? F_WRLCK : F_RDLCK);
      by_range_ = true;
    }
    if (got == lock_result::locked) locked_by_ = ::getpid();
    return got;
  }
  file_identity identity() override {
    struct stat s{};
    if (::fstat(fd_, &s) != 0) fail(name_, "cannot look at it");
    return identity_of(s);
  }

 private:
  /// Extends the file. False: errno says why.
  bool make_longer(std::uint64_t from, std::uint64_t bytes) noexcept {
#if defined(__linux__)
    // Not in memory: to write zeros there costs a fifth less than fallocate() and the first writes.
    while (!in_memory()) {
      if (::fallocate(fd_, 0, static_cast<off_t>(from), static_cast<off_t>(bytes)) == 0)
        return true;
      if (errno == EOPNOTSUPP || errno == ENOSYS) break;
      if (errno != EINTR) return false;
    }
#endif
    static constexpr std::array<std::byte, 64U << 10U> zeros{};
    for (std::uint64_t done = 0; done < bytes;) {
      const auto part =
          static_cast<std::size_t>(std::min<std::uint64_t>(zeros.size(), bytes - done));
      const ssize_t n = ::pwrite(fd_, zeros.data(), part, static_cast<off_t>(from + done));
      if (n < 0 && errno == EINTR) continue;
      if (n == 0) errno = ENOSPC;
      if (n <= 0) return false;
      done += static_cast<std::uint64_t>(n);
    }
    return true;
  }
#if defined(__linux__)
  /// Whether the file is on tmpfs. For one thread at a time, as are reserve() and map().
  bool in_memory() noexcept {
    if (kind_ == where::unknown) {
      struct statfs of{};
      const bool told = ::fstatfs(fd_, &of) == 0;
      kind_ = told && of.f_type == TMPFS_MAGIC ? where::memory : where::disk;
    }
    return kind_ == where::memory;
  }
#endif
  lock_result flock_it(int how) {
    while (::flock(fd_, how | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return lock_result::taken;
      if (no_locks(errno)) return lock_result::unsupported;
      if (errno != EINTR) fail(name_, "cannot lock it");
    }
    return lock_result::locked;
  }
  /// For file systems without flock(). Such a lock belongs to the opening, like that of flock(),
  /// and not to the process: so it excludes a second opening by this process, too.
  lock_result lock_range([[maybe_unused]] short how) {
#if defined(F_OFD_SETLK)
    struct flock all{};
    all.l_type = how;
    all.l_whence = SEEK_SET;
    while (::fcntl(fd_, F_OFD_SETLK, &all) != 0) {
      if (errno == EAGAIN || errno == EACCES) return lock_result::taken;
      if (no_locks(errno)) return lock_result::unsupported;
      if (errno != EINTR) fail(name_, "cannot lock it");
    }
    return lock_result::locked;
#else
    return lock_result::unsupported;
#endif
  }
  void unlock() noexcept {
    if (!by_range_) {
      ::flock(fd_, LOCK_UN);
      return;
    }
#if defined(F_OFD_SETLK)
    struct flock all{};
    all.l_type = F_UNLCK;
    all.l_whence = SEEK_SET;
    ::fcntl(fd_, F_OFD_SETLK, &all);
#endif
  }
  static void unmap(std::span<std::byte>& memory) noexcept {
    if (!memory.empty()) ::munmap(memory.data(), memory.size());
    memory = {};
  }

  std::filesystem::path name_;
  int fd_;
  ::pid_t locked_by_ = 0;
  bool by_range_ = false;  // the lock
  enum class where : std::uint8_t { unknown, memory, disk };
  where kind_ = where::unknown;
  std::span<std::byte> mapped_;  // by the last map()
  std::span<std::byte> before_;  // by the one before
};

/// The same file by a descriptor that is none of the first three. If a process was started without
/// one of these, the first file that it opens gets that number, and all that the process or a
/// library prints would be written into the database. Negative: errno says why.
int beyond_standard(int fd) noexcept {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int other = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int reason = errno;
  ::close(fd);
  errno = reason;
  return other;
}

/// A file descriptor, which is closed with this object.
class descriptor {
 public:
  explicit descriptor(int fd) noexcept : fd_(beyond_standard(fd)) {}
  descriptor(descriptor&& from) noexcept : fd_(from.release()) {}
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  descriptor& operator=(descriptor&& from) noexcept {
    std::swap(fd_, from.fd_);
    return *this;
  }
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool open() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

constexpr int open_directory_flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

/// Makes the names in a directory durable. False: this file system cannot do that, as some on a
/// network or in user space.
bool sync_names(int directory, const std::filesystem::path& path) {
  if (::fsync(directory) == 0) return true;
  if (errno == EINVAL || errno == ENOTSUP || errno == EOPNOTSUPP) return false;
  fail(path, "cannot make it durable");
}

/// The same for the directory above `within`. If this process may search but not read it, it cannot
/// be opened: then the whole file system is synced.
bool sync_names_above(const descriptor& above, int within, const std::filesystem::path& path) {
  if (above.open()) return sync_names(above.get(), path);
#if defined(__linux__)
  if (errno == EACCES && ::syncfs(within) == 0) return true;
#endif
  fail(path, "cannot open this directory");
}

/// Whether the name of a directory is in the one above it: not if it is the root of a file system.
bool has_name_in(int above, int directory) noexcept {
  struct stat a{};
  struct stat d{};
  if (::fstat(above, &a) != 0 || ::fstat(directory, &d) != 0) return false;
  return a.st_dev == d.st_dev && a.st_ino != d.st_ino;
}

/// The directories that an opening has made, the highest first.
class made_directories {
 public:
  /// Makes the directory, with those above it. The name of each is durable before anything is put
  /// into it.
  void make(const std::filesystem::path& path) {
    std::error_code why;
    if (std::filesystem::is_directory(path, why)) return;
    const std::filesystem::path above = path.parent_path();
    if (above != path) make(above);
    all_.reserve(all_.size() + 1);
    if (::mkdir(path.c_str(), 0777) == 0) {
      all_.push_back(path);
    } else if (errno != EEXIST) {
      fail(path, "this directory does not exist and cannot be made");
    } else if (!std::filesystem::is_directory(path, why)) {
      throw storage_error(path, storage_error::nowhere,
                          "this name is taken by something that is no directory: use another one");
    }
    const descriptor here(::open(path.c_str(), open_directory_flags));
    const descriptor fd(::open(above.c_str(), open_directory_flags));
    sync_names_above(fd, here.get(), above);
  }
  /// Removes them, as long as they are empty.
  void remove() noexcept {
    for (; !all_.empty() && ::rmdir(all_.back().c_str()) == 0; all_.pop_back()) {
    }
  }

 private:
  std::vector<std::filesystem::path> all_;
};

class posix_directory final : public storage_directory {
 public:
  posix_directory(std::filesystem::path path, descriptor fd, made_directories made)
      : storage_directory(std::move(path)), fd_(std::move(fd)), made_(std::move(made)) {}

  std::unique_ptr<storage_file> open(const std::string& name, file_mode how) override {
    descriptor fd = open_or_make(name, how);
    struct stat s{};
    if (::fstat(fd.get(), &s) != 0) fail(path() / name, "cannot open");
    if (!S_ISREG(s.st_mode)) {
      errno = S_ISDIR(s.st_mode) ? EISDIR : EINVAL;
      fail(path() / name, "is not a regular file: move it away");
    }
    auto made = std::make_unique<posix_file>(path() / name, fd.get());
    fd.release();
    return made;
  }
  std::vector<std::string> list() override {
    std::vector<std::string> names;
    // Opened anew, since a duplicate of the descriptor would share its position in the list with
    // other threads that list. Not by std::filesystem, which ends the program if there is no
    // memory.
    descriptor again(::openat(fd_.get(), ".", open_directory_flags));
    if (!again.open()) fail(path(), "cannot list");
    const std::unique_ptr<DIR, int (*)(DIR*)> at(::fdopendir(again.get()), ::closedir);
    if (at == nullptr) fail(path(), "cannot list");
    again.release();
    for (;;) {
      errno = 0;
      const ::dirent* const entry = ::readdir(at.get());
      if (entry == nullptr && errno != 0) fail(path(), "cannot list");
      if (entry == nullptr) return names;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
  }
  void rename(const std::string& from, const std::string& to) override {
    if (::renameat(fd_.get(), from.c_str(), fd_.get(), to.c_str()) != 0) {
      fail(path() / from, ("cannot be renamed to " + to).c_str());
    }
  }
  void remove(const std::string& name) override {
    if (::unlinkat(fd_.get(), name.c_str(), 0) != 0 && errno != ENOENT) {
      fail(path() / name, "cannot remove");
    }
  }
  std::optional<file_identity> identity(const std::string& name) override {
    struct stat s{};
    if (::fstatat(fd_.get(), name.c_str(), &s, 0) == 0) return identity_of(s);
    if (errno != ENOENT) fail(path() / name, "cannot look at it");
    is_no_link(name);
    return std::nullopt;
  }
  bool sync() override { return sync_names(fd_.get(), path()); }
  /// Also syncs all directories above. They may have been made shortly before, by another program
  /// or by a process that has ended since, and a loss of power that takes one of their names takes
  /// all below it.
  bool sync_own_name() override {
    bool done = true;
    std::filesystem::path at = path();
    descriptor here(-1);
    do {
      at = at.parent_path();
      const int below = here.open() ? here.get() : fd_.get();
      descriptor above(::openat(below, "..", open_directory_flags));
      if (above.open() && !has_name_in(above.get(), below)) return done;
      done = sync_names_above(above, fd_.get(), at) && done;
      here = std::move(above);
    } while (here.open());  // if it could not be opened, the whole file system was synced
    return done;
  }
  void remove_made() noexcept override { made_.remove(); }

 private:
  /// Makes a file only if nothing has the name, not even a link: through a link the file would be
  /// made elsewhere, and would stay there when the name is removed.
  [[nodiscard]] descriptor open_or_make(const std::string& name, file_mode how) const {
    // O_NONBLOCK: if something else has the name, such as a fifo, this does not wait for its other
    // end.
    const int flags = (how == file_mode::read ? O_RDONLY : O_RDWR) | O_NONBLOCK | O_CLOEXEC;
    const int existing = how == file_mode::fresh ? flags | O_TRUNC : flags;
    for (;;) {
      descriptor found(::openat(fd_.get(), name.c_str(), existing));
      if (found.open()) return found;
      if (errno == ENOENT && how != file_mode::read) {
        is_no_link(name);
        const int fd = ::openat(fd_.get(), name.c_str(), flags | O_CREAT | O_EXCL, 0644);
        descriptor made(fd);
        if (made.open()) return made;
        if (fd < 0 && errno == EEXIST) continue;  // another process has made it, or a link
        if (fd >= 0) take_back(name);
      } else if (errno == ENOENT) {
        is_no_link(name);
        errno = ENOENT;
      }
      fail(path() / name, "cannot open");
    }
  }
  /// Removes a file that was made and cannot be kept open. Does not change errno.
  void take_back(const std::string& name) const noexcept {
    const int reason = errno;
    ::unlinkat(fd_.get(), name.c_str(), 0);
    errno = reason;
  }
  /// Throws if the name is that of a link that leads nowhere.
  void is_no_link(const std::string& name) const {
    struct stat s{};
    if (::fstatat(fd_.get(), name.c_str(), &s, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISLNK(s.st_mode))
      return;
    throw storage_error(path() / name, storage_error::nowhere,
                        "is a symbolic link to something that is not there: put that back, as by "
                        "mounting the disk that it is on. Removing a link of the name log-* or "
                        "checkpoint-* loses the rows that it leads to");
  }

  const descriptor fd_;
  made_directories made_;
};

class posix_files final : public storage_files {
 public:
  std::unique_ptr<storage_directory> open_directory(const std::filesystem::path& directory,
                                                    directory_mode how) override {
    if (directory.empty()) {
      throw storage_error(directory, storage_error::nowhere,
                          "a database needs a directory, and its path is empty");
    }
    // The system would take the part before the zero byte for the whole path.
    if (directory.native().find('\0') != std::string::npos) {
      throw storage_error(directory.c_str(), storage_error::nowhere,
                          "a database needs a directory, and its path goes on after a zero byte");
    }
    // Absolute: the process may change its working directory later.
    std::error_code why;
    std::filesystem::path path = std::filesystem::absolute(directory, why);
    if (why) throw storage_error(directory, storage_error::nowhere, "cannot find", why);
    if (!path.has_filename()) path = path.parent_path();  // directory/
    made_directories made;
    try {
      if (how == directory_mode::made) made.make(path);
      descriptor fd(::open(path.c_str(), open_directory_flags));
      if (!fd.open()) fail(path, "cannot open this directory");
      return std::make_unique<posix_directory>(std::move(path), std::move(fd), made);
    } catch (...) {
      made.remove();
      throw;
    }
  }
};

}  // namespace

storage_error::storage_error(std::filesystem::path file, std::uint64_t offset, std::string what,
                             std::error_code reason, storage_fault fault)
    : std::runtime_error(sentence(file, offset, what, reason)),
      file_(std::move(file)),
      offset_(offset),
      problem_(std::move(what)),
      reason_(reason),
      fault_(fault) {}

namespace {

/// Where a path leads, as far as its directories exist.
std::filesystem::path leads_to(const std::filesystem::path& path) {
  std::error_code none;
  const std::filesystem::path whole = std::filesystem::absolute(path, none);
  std::filesystem::path known = std::filesystem::weakly_canonical(whole, none);
  if (none) known = whole.lexically_normal();
  return known.has_filename() ? known : known.parent_path();  // directory/
}

/// Whether a result of leads_to() is in that directory, or is the directory itself.
bool lies_in(std::filesystem::path path, const std::filesystem::path& directory) {
  std::error_code none;
  while (path != directory && !std::filesystem::equivalent(path, directory, none)) {
    std::filesystem::path above = path.parent_path();
    if (above == path) return false;
    path = std::move(above);
  }
  return true;
}

}  // namespace

path_place place_of(const std::filesystem::path& path, const std::filesystem::path& directory) {
  const std::filesystem::path here = leads_to(directory);
  const std::filesystem::path there = leads_to(path);
  const bool above = lies_in(here, there);
  if (lies_in(there, here)) return above ? path_place::same : path_place::within;
  return above ? path_place::above : path_place::elsewhere;
}

std::shared_ptr<storage_files> real_files() { return std::make_shared<posix_files>(); }

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
