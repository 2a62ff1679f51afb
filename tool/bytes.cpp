// SPDX-License-Identifier: Apache-2.0
#include "bytes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "errors.hpp"
#include "progress.hpp"

namespace tool {
namespace {

constexpr std::size_t buffered = std::size_t{1} << 18U;

[[noreturn]] void fail(const std::string& what, const std::string& name) {
  throw failure("cannot " + what + " " + name + ": " + std::strerror(errno));
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
  std::error_code ignored;
  if (path_.empty()) throw usage_error("a new folder needs a name");
  if (std::filesystem::exists(std::filesystem::symlink_status(path_, ignored))) {
    throw usage_error(path_.string() + " exists; choose a name for a new folder");
  }
  const auto above = std::filesystem::absolute(path_).parent_path();
  if (!std::filesystem::is_directory(above, ignored)) {
    throw usage_error("there is no folder " + above.string());
  }
  place_ = path_;
  place_ += ".partial-" + std::to_string(::getpid());
  std::filesystem::remove_all(place_, ignored);  // of a process that had our number
}

new_folder::~new_folder() {
  std::error_code ignored;
  if (!whole_) std::filesystem::remove_all(place_, ignored);
}

void new_folder::finish() {
  sync_folder(place_);
  // Unlike rename(2), refuses what somebody else has put there meanwhile.
  if (::renameat2(AT_FDCWD, place_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno != EINVAL && errno != ENOSYS) fail("make", path_.string());
    // Some file systems have no such thing.
    if (::rename(place_.c_str(), path_.c_str()) != 0) fail("make", path_.string());
  }
  whole_ = true;
  sync_folder(std::filesystem::absolute(path_).parent_path());
}

void sync_folder(const std::filesystem::path& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) fail("read", path.string());
  const int done = ::fsync(folder);
  const int why = errno;
  ::close(folder);
  errno = why;
  if (done != 0 && why != EINVAL && why != EROFS) fail("write", path.string());
}

}  // namespace tool
