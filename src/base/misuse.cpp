// SPDX-License-Identifier: Apache-2.0
// misuse.cpp: the process's handler for broken preconditions, and its serial numbers.
#include <spolia/base/misuse.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>

#include <spolia/base/threads.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {
namespace {

/// The system's name of the thread, as much as there is memory for.
std::string name_of([[maybe_unused]] long os_thread) noexcept {
#if !defined(SPOLIA_MODEL)
  try {
    return os_name(os_thread);
  } catch (const std::bad_alloc&) {  // then without
  }
#endif
  return {};
}

void tell_and_abort(const char* what, std::uint32_t thread) {
#if defined(SPOLIA_MODEL)
  const long os_thread = 0;
#else
  const long os_thread = os_id_of(thread);
#endif
  if (os_thread == 0) {
    std::fprintf(stderr, "spolia: misuse: %s (thread number %u)\n", what, thread);
  } else {
    const std::string name = name_of(os_thread);
    const char* const between = name.empty() ? "" : ", named ";
    std::fprintf(stderr, "spolia: misuse: %s (thread number %u, the system's %ld%s%s)\n", what,
                 thread, os_thread, between, name.c_str());
  }
  std::abort();
}

constinit std::atomic<misuse_handler> handler{&tell_and_abort};
constinit std::atomic<std::uint64_t> serial{0};

// Numbers of two copies of the library would only be the same after 2^29 of them: the marks lie in
// different pages.
std::uint64_t first_serial() noexcept {
  return reinterpret_cast<std::uintptr_t>(&copy_mark) << 17U;
}

}  // namespace

misuse_handler set_misuse_handler(misuse_handler h) noexcept {
  return handler.exchange(h != nullptr ? h : &tell_and_abort, std::memory_order_acq_rel);
}

void report_misuse(const char* what, std::uint32_t thread) noexcept {
  handler.load(std::memory_order_acquire)(what, thread);
}

const char copy_mark = 0;

#if !defined(SPOLIA_MODEL)
void report_other_copy(const char* what) {
  std::array<char, 256> text{};
  std::snprintf(
      text.data(), text.size(),
      "%s belongs to another copy of the Spolia library in this process; parts that share "
      "it must be linked with one shared library",
      what);
  report_misuse(text.data(), here.number_plus_one == 0 ? 0 : here.number_plus_one - 1);
  throw std::logic_error(text.data());
}
#endif

std::uint64_t next_serial() noexcept {
  return first_serial() + serial.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace spolia::core::inline SPOLIA_OF_VERSION
