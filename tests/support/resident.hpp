// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the process has in memory, by the system's own account.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace spolia::test {

inline std::uint64_t resident_bytes() {
  std::uint64_t whole = 0;
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> whole >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace spolia::test
