// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the process has in memory, by the system's own account.
#pragma once

#include <unistd.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

namespace spolia::test {

inline std::uint64_t resident_bytes() {
  std::uint64_t whole = 0;
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> whole >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

/// What is resident when the allocator keeps nothing that is free.
inline std::uint64_t resident_when_trimmed() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
  return resident_bytes();
}

/// The most that was resident since this began.
class peak_resident {
 public:
  peak_resident() {
    std::ofstream("/proc/self/clear_refs") << 5;
    begun_anew_ = since_then() <= resident_bytes() + (std::uint64_t{1} << 20U);
  }
  /// Where the system does not begin anew, only what is resident now is known.
  void look() { seen_ = std::max(seen_, begun_anew_ ? since_then() : resident_bytes()); }
  [[nodiscard]] std::uint64_t bytes() const { return seen_; }

 private:
  static std::uint64_t since_then() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) << 10U;
    }
    return ~std::uint64_t{0};
  }
  bool begun_anew_ = false;
  std::uint64_t seen_ = 0;
};

}  // namespace spolia::test
