// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <thread>

namespace bench {
namespace {

/// The value after `key` in a file of lines "key: value" or "key=value"; empty if there is none.
std::string value_in(const char* file, const std::string& key, char separator) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const auto at = line.find(separator);
    if (at == std::string::npos) continue;
    const auto from = line.find_first_not_of(" \t\"", at + 1);
    const auto to = line.find_last_not_of(" \t\"");
    return from == std::string::npos ? "" : line.substr(from, to - from + 1);
  }
  return "";
}

}  // namespace

nlohmann::json machine() {
  utsname kernel{};
  uname(&kernel);
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::string cpu = value_in("/proc/cpuinfo", "model name", ':');
  if (cpu.empty()) cpu = kernel.machine;
  return {{"cpu", cpu},
          {"cores", std::thread::hardware_concurrency()},
          {"memory_bytes", pages * page},
          {"kernel", kernel.release},
          {"os", value_in("/etc/os-release", "PRETTY_NAME", '=')}};
}

std::string allocator() {
  const auto has = [](const char* symbol) { return dlsym(RTLD_DEFAULT, symbol) != nullptr; };
  if (has("mallctl")) return "jemalloc";
  if (has("mi_version")) return "mimalloc";
  if (has("tc_version") || has("MallocExtension_ReleaseFreeMemory")) return "tcmalloc";
  if (has("gnu_get_libc_version")) return "glibc";
  return "unknown";
}

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}", __clang_version__);
#else
  return fmt::format("gcc {}", __VERSION__);
#endif
}

void reset_peak_rss() {
  std::ofstream("/proc/self/clear_refs") << "5";  // 5: reset the high-water mark, nothing else
}

std::uint64_t peak_rss_bytes() {
  const std::string kib = value_in("/proc/self/status", "VmHWM", ':');
  if (!kib.empty()) return std::stoull(kib) * 1024;
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<std::uint64_t>(used.ru_maxrss) * 1024;
}

std::uint64_t page_faults() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<std::uint64_t>(used.ru_minflt);
}

std::uint64_t rss_bytes() {
  std::uint64_t all = 0;
  std::uint64_t resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::uint64_t processor_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1000000000U + static_cast<std::uint64_t>(t.tv_nsec);
}

}  // namespace bench
