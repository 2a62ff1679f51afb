// SPDX-License-Identifier: Apache-2.0
// The gate between a thread and the visitors that take over its blocks (biased_gate.hpp): the
// thread does not wait for a visitor that is kept in its fence, and a visitor that must get in
// does.
#include <spolia/base/biased_gate.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#include <ucontext.h>
#endif

#include "support/soon.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// Stops a thread where it is in the kernel, until told otherwise. A signal that comes elsewhere
/// changes nothing.
class stop_in_kernel {
 public:
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
  static constexpr bool possible = true;
#else
  static constexpr bool possible = false;
#endif

  stop_in_kernel() {
    struct sigaction action{};
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    action.sa_sigaction = [](int, siginfo_t*, void* where) {
      if (!stop.load(std::memory_order_relaxed) || !behind_system_call(where)) return;
      stopped.store(true, std::memory_order_relaxed);
      while (stop.load(std::memory_order_relaxed)) sched_yield();
      stopped.store(false, std::memory_order_relaxed);
    };
    sigaction(SIGUSR1, &action, &before_);
  }
  stop_in_kernel(const stop_in_kernel&) = delete;
  stop_in_kernel& operator=(const stop_in_kernel&) = delete;
  ~stop_in_kernel() { sigaction(SIGUSR1, &before_, nullptr); }

  /// Returns when `victim`, which makes system calls again and again, stands after one.
  static void halt(std::thread& victim) {
    stop.store(true, std::memory_order_relaxed);
    while (!stopped.load(std::memory_order_relaxed)) {
      pthread_kill(victim.native_handle(), SIGUSR1);
      std::this_thread::yield();
    }
  }
  static void go_on() {
    stop.store(false, std::memory_order_relaxed);
    while (stopped.load(std::memory_order_relaxed)) std::this_thread::yield();
  }

 private:
  static bool behind_system_call([[maybe_unused]] const void* where) {
    [[maybe_unused]] const auto& at = static_cast<const ucontext_t*>(where)->uc_mcontext;
#if defined(__x86_64__)
    const auto* const next = reinterpret_cast<const std::uint8_t*>(at.gregs[REG_RIP]);
    return next[-2] == 0x0f && next[-1] == 0x05;
#elif defined(__aarch64__)
    return reinterpret_cast<const std::uint32_t*>(at.pc)[-1] == 0xd4000001;
#else
    return false;
#endif
  }

  static inline std::atomic<bool> stop{false};
  static inline std::atomic<bool> stopped{false};
  struct sigaction before_{};
};

TEST(biased_gate, an_owner_does_not_wait_for_a_visitor_in_its_fence) {
  if (SPOLIA_TSAN) GTEST_SKIP() << "signals come when the race detector likes";
  if (!stop_in_kernel::possible) GTEST_SKIP() << "it cannot be told where a thread was stopped";
  if (!core::asymmetric()) GTEST_SKIP() << "the fence is an instruction, not a system call";
  const stop_in_kernel signal;
  biased_gate gate;
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> visits{0};
  std::thread visitor([&] {
    while (!over.load(std::memory_order_relaxed)) {
      gate.visit([&] { visits.fetch_add(1, std::memory_order_relaxed); });
    }
  });
  for (int round = 0; round < 200; ++round) {
    stop_in_kernel::halt(visitor);
    // On a thread of its own: the gate may keep it forever.
    std::atomic<bool> came{false};
    std::thread owner([&] {
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(gate.come(1), biased_gate::arrival::plain);
        gate.go(1);
      }
      came.store(true, std::memory_order_relaxed);
    });
    const bool free = soon([&] { return came.load(std::memory_order_relaxed); });
    EXPECT_TRUE(free) << "held up";
    stop_in_kernel::go_on();
    owner.join();
    if (!free) break;
  }
  EXPECT_TRUE(soon([&] { return visits.load(std::memory_order_relaxed) != 0; }));
  over.store(true, std::memory_order_relaxed);
  visitor.join();
}

TEST(biased_gate, an_owner_that_comes_and_goes_does_not_keep_out_who_insists) {
  biased_gate gate;
  std::atomic<std::uint64_t> stays{0};
  std::atomic<bool> over{false};
  std::thread owner([&] {
    while (!over.load(std::memory_order_relaxed)) {
      gate.come(1);
      gate.go(1);
      for (int i = 0; i < 20; ++i) stays.fetch_add(1, std::memory_order_relaxed);
    }
  });
  // Of 200 tries nearly all, but none where the owner was interrupted while present, which it is
  // for a small part of its time.
  std::array<int, 21> visits{};
  for (int& round : visits) {
    const std::uint64_t before = stays.load(std::memory_order_relaxed);
    EXPECT_TRUE(soon([&] { return stays.load(std::memory_order_relaxed) > before + 200; }));
    for (int i = 0; i < 200; ++i) round += gate.insist([] {}) ? 1 : 0;
  }
  over.store(true, std::memory_order_relaxed);
  owner.join();
  std::ranges::sort(visits);
  EXPECT_GT(visits[visits.size() / 2], 100);
}

}  // namespace
