// SPDX-License-Identifier: Apache-2.0
#include "bytes.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "errors.hpp"
#include "progress.hpp"

namespace tool {
namespace {

constexpr std::size_t buffered = std::size_t{1} << 18U;

[[noreturn]] void fail(const std::string& what, const std::string& name,
                       const std::string& after = {}) {
  const int reason = errno;
  const std::string why = "cannot " + what + " " + name + ": " + std::strerror(reason) + after;
  if (is_denied(reason)) throw could_not_look(why);
  throw failure(why);
}

constexpr int folder_flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

/// What is in a folder is on the disk afterwards, where the file system can be told so.
void sync_folder(int folder, const std::string& name, const std::string& after = {}) {
  if (::fsync(folder) == 0) return;
  if (errno != EINVAL && errno != ENOTSUP && errno != EROFS) fail("write", name, after);
}

/// Files, and folders with what is in them. What cannot be removed stays. The folder is closed: the
/// process may have no descriptor left for another look at it.
void remove_content(int folder) noexcept {
  DIR* const all = ::fdopendir(folder);
  if (all == nullptr) {
    ::close(folder);
    return;
  }
  while (const ::dirent* const entry = ::readdir(all)) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (::unlinkat(folder, entry->d_name, 0) == 0) continue;
    const int inner = ::openat(folder, entry->d_name, folder_flags | O_NOFOLLOW);
    if (inner < 0) continue;
    remove_content(inner);
    ::unlinkat(folder, entry->d_name, AT_REMOVEDIR);
  }
  ::closedir(all);
}

void sync(int file, const std::string& name) {
  // A pipe or a terminal has nothing to sync.
  if (::fsync(file) != 0 && errno != EINVAL && errno != EROFS) fail("write", name);
}

}  // namespace

file_source::file_source(const std::filesystem::path& path)
    : name_(path == standard_stream ? "standard input" : path.string()) {
  file_ =
      path == standard_stream ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) fail("read", name_);
  struct stat about{};
  if (::fstat(file_, &about) == 0 && S_ISREG(about.st_mode)) {
    size_ = static_cast<std::uint64_t>(about.st_size);
  }
}

file_source::~file_source() { ::close(file_); }

std::size_t file_source::read(char* to, std::size_t size) {
  for (;;) {
    const ::ssize_t got = ::read(file_, to, size);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) fail("read", name_);
    if (interrupted_now()) throw interrupted();
  }
}

file_sink::file_sink(const std::filesystem::path& path)
    : name_(path == standard_stream ? "standard output" : path.string()) {
  file_ = path == standard_stream
              ? ::dup(STDOUT_FILENO)
              : ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) fail("write", name_);
}

file_sink::file_sink(const new_folder& in, const std::string& file)
    : name_((in.place() / file).string()),
      file_(::openat(in.made_, file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  if (file_ < 0) fail("write", name_);
}

file_sink::~file_sink() {
  if (file_ >= 0) ::close(file_);
}

void file_sink::write(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= buffered) flush();
}

void file_sink::flush() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ::ssize_t done = ::write(file_, rest.data(), rest.size());
    if (done < 0 && errno == EINTR && interrupted_now()) throw interrupted();
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("write", name_);
    rest.remove_prefix(static_cast<std::size_t>(done));
    written_ += static_cast<std::uint64_t>(done);
  }
  buffer_.clear();
}

void file_sink::finish() {
  flush();
  sync(file_, name_);
  if (::close(std::exchange(file_, -1)) != 0) fail("write", name_);
}

new_folder::new_folder(std::filesystem::path path) : path_(std::move(path)) {
  if (!path_.has_filename()) path_ = path_.parent_path();  // folder/
  if (path_.empty()) throw usage_error("a new folder needs a name");
  refuse_taken();
  const auto above = std::filesystem::absolute(path_).parent_path();
  above_ = ::open(above.c_str(), folder_flags);
  if (above_ < 0 && errno != ENOENT) fail("open", above.string());
  if (above_ < 0) throw usage_error("there is no folder " + above.string());
  try {
    make();
  } catch (...) {
    give_up();
    throw;
  }
}

void new_folder::refuse_taken() {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path_, ignored))) return;
  if (!std::filesystem::is_directory(path_, ignored) ||
      !std::filesystem::is_empty(path_, ignored)) {
    throw usage_error(path_.string() +
                      " exists; choose a name for a new folder, or move it away first");
  }
  replaces_ = can_replace(path_);
  if (replaces_) return;
  throw usage_error(path_.string() +
                    " is an empty folder that cannot be replaced, as where a disk is mounted; "
                    "choose a name for a new folder in it");
}

bool new_folder::can_replace(const std::filesystem::path& path) {
  const std::filesystem::path name = path.filename();
  if (name.empty() || name == "." || name == "..") return false;
  const auto above = std::filesystem::absolute(path).parent_path();
  struct stat there{};
  struct stat around{};
  std::error_code ignored;
  return ::lstat(path.c_str(), &there) == 0 && S_ISDIR(there.st_mode) &&
         ::stat(above.c_str(), &around) == 0 && there.st_dev == around.st_dev &&
         ::access(above.c_str(), W_OK | X_OK) == 0 && std::filesystem::is_empty(path, ignored);
}

/// Somebody may have prepared it for those who are to read what is made.
void new_folder::take_rights() {
  struct stat there{};
  if (::lstat(path_.c_str(), &there) != 0) return;  // it went meanwhile
  if (::fchown(made_, there.st_uid, there.st_gid) != 0) {
    // Only root may give a folder away: else it belongs to who makes it.
  }
  constexpr ::mode_t rights = 07777;
  if (::fchmod(made_, there.st_mode & rights) != 0) fail("write", place_.string());
}

/// By a name that is not taken: a process of another container may have our number.
void new_folder::make() {
  const std::string suffix = ".partial-" + std::to_string(::getpid());
  std::string name = path_.filename().string();
  // A name that is as long as names may be leaves no room for that.
  constexpr std::size_t another = sizeof("-1000") - 1;
  const long longest = ::fpathconf(above_, _PC_NAME_MAX);
  const std::size_t most = longest > 64 ? static_cast<std::size_t>(longest) : 255;
  name.resize(std::min(name.size(), most - suffix.size() - another));
  name += suffix;
  std::string tried = name;
  for (int n = 1; ::mkdirat(above_, tried.c_str(), 0777) != 0; ++n) {
    if (errno != EEXIST || n > 1000) fail("make", path_.string());
    tried = name + "-" + std::to_string(n);
  }
  place_ = path_.parent_path() / tried;
  made_ = ::openat(above_, tried.c_str(), folder_flags);
  if (made_ >= 0) {
    if (replaces_) take_rights();
    return;
  }
  const int reason = errno;
  ::unlinkat(above_, tried.c_str(), AT_REMOVEDIR);  // of what is not empty that removes nothing
  errno = reason;
  fail("read", place_.string());
}

new_folder::~new_folder() { give_up(); }

/// What was put into it are files, and folders of files.
void new_folder::give_up() noexcept {
  if (made_ >= 0 && !whole_ && is_made(above_, place_.filename())) {
    remove_content(std::exchange(made_, -1));
    ::unlinkat(above_, place_.filename().c_str(), AT_REMOVEDIR);
  }
  for (const int folder : {made_, above_}) {
    if (folder >= 0) ::close(folder);
  }
}

bool new_folder::is_made(int above, const std::filesystem::path& name) const {
  struct stat made{};
  struct stat there{};
  return ::fstat(made_, &made) == 0 &&
         ::fstatat(above, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         made.st_dev == there.st_dev && made.st_ino == there.st_ino;
}

void new_folder::finish() {
  // By the whole path, too: that is what it was filled by.
  if (!is_made(above_, place_.filename()) || !is_made(AT_FDCWD, place_)) {
    throw failure(place_.string() + ": it was moved, or something else was put in its place");
  }
  sync_folder(made_, place_.string());
  const std::string from = place_.filename().string();
  const std::string to = path_.filename().string();
  // Unlike rename(2), fails if something was put there meanwhile; and that does so if something was
  // put into the empty folder.
  const unsigned how = replaces_ ? 0 : RENAME_NOREPLACE;
  if (::renameat2(above_, from.c_str(), above_, to.c_str(), how) != 0) {
    if (errno != EINVAL && errno != ENOSYS) fail("make", path_.string());
    // Some file systems have no such thing.
    if (::renameat(above_, from.c_str(), above_, to.c_str()) != 0) fail("make", path_.string());
  }
  whole_ = true;
  sync_folder(
      above_, std::filesystem::absolute(path_).parent_path().string(),
      "; " + path_.string() + " is whole; that its name stays after a loss of power is not sure");
}

}  // namespace tool
