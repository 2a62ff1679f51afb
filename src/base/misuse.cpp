// SPDX-License-Identifier: Apache-2.0
// misuse.cpp: the process's handler for broken preconditions, and its serial numbers.
#include <spolia/base/misuse.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace spolia::core {
namespace {

void tell_and_abort(const char* what, std::uint32_t thread) {
  std::fprintf(stderr, "spolia: misuse: %s (thread number %u)\n", what, thread);
  std::abort();
}

constinit std::atomic<misuse_handler> handler{&tell_and_abort};
constinit std::atomic<std::uint64_t> serial{0};

}  // namespace

misuse_handler set_misuse_handler(misuse_handler h) noexcept {
  return handler.exchange(h != nullptr ? h : &tell_and_abort, std::memory_order_acq_rel);
}

void report_misuse(const char* what, std::uint32_t thread) noexcept {
  handler.load(std::memory_order_acquire)(what, thread);
}

std::uint64_t next_serial() noexcept { return serial.fetch_add(1, std::memory_order_relaxed) + 1; }

}  // namespace spolia::core
