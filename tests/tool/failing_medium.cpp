// SPDX-License-Identifier: Apache-2.0
// A medium that does not answer, for a program that is started with this before its libraries:
// reads of files whose paths have SPOLIA_UNREADABLE in them end at the offset SPOLIA_UNREADABLE_AT,
// and there with an input/output error. So does fsync() of what has the path SPOLIA_UNSYNCED.
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

/// Empty if it has none.
std::string path_of(int fd) {
  std::array<char, 64> link{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink(link.data(), path.data(), path.size());
  return size <= 0 ? std::string() : std::string(path.data(), static_cast<std::size_t>(size));
}

bool is_unreadable(int fd) {
  const char* const part = std::getenv("SPOLIA_UNREADABLE");
  return part != nullptr && path_of(fd).find(part) != std::string::npos;
}

ssize_t read_at(int fd, void* to, std::size_t bytes, off_t offset) {
  if (is_unreadable(fd)) {
    const char* const from = std::getenv("SPOLIA_UNREADABLE_AT");
    const off_t end = from != nullptr ? static_cast<off_t>(std::atoll(from)) : 0;
    if (bytes != 0 && offset >= end) {
      errno = EIO;
      return -1;
    }
    bytes = std::min(bytes, static_cast<std::size_t>(end - offset));
  }
  return ::syscall(SYS_pread64, fd, to, bytes, offset);
}

}  // namespace

extern "C" ssize_t pread(int fd, void* to, std::size_t bytes, off_t offset) {
  return read_at(fd, to, bytes, offset);
}
extern "C" ssize_t pread64(int fd, void* to, std::size_t bytes, off_t offset) {
  return read_at(fd, to, bytes, offset);
}
extern "C" int fsync(int fd) {
  const char* const path = std::getenv("SPOLIA_UNSYNCED");
  if (path != nullptr && path_of(fd) == path) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
