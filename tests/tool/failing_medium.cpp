// SPDX-License-Identifier: Apache-2.0
// A medium that does not answer, for a program that is started with this before its libraries:
// reads of files whose paths have SPOLIA_UNREADABLE in them end at the offset SPOLIA_UNREADABLE_AT,
// and there with an input/output error.
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

bool is_unreadable(int fd) noexcept {
  const char* const part = std::getenv("SPOLIA_UNREADABLE");
  if (part == nullptr) return false;
  std::array<char, 64> link{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink(link.data(), path.data(), path.size());
  if (size <= 0) return false;
  return std::string_view(path.data(), static_cast<std::size_t>(size)).find(part) !=
         std::string_view::npos;
}

ssize_t read_at(int fd, void* to, std::size_t bytes, off_t offset) noexcept {
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
