// SPDX-License-Identifier: Apache-2.0
/// \file
/// Time stamps for histories. All threads read one clock, and an operation's linearisation point
/// lies between its two stamps: before() is read before the operation touches memory, and after()
/// only once all its stores can be seen by others. Without that fence a plain release store could
/// still sit in the store buffer at the stamped end, and a correct structure would be accused.
#pragma once

#include <chrono>
#include <cstdint>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <atomic>
#endif

namespace spolia::test {

/// Whether every processor's hardware counter runs at one rate and shows one time: an invariant
/// counter that the operating system itself uses as its clock. Asked once, then remembered.
[[nodiscard]] bool hardware_counter_is_global() noexcept;

/// Reads the hardware counter if it is global, std::chrono::steady_clock otherwise. Units are
/// ticks. Trivially copyable; every thread may use its own copy.
class stamp_clock {
 public:
  stamp_clock() noexcept : counter_(hardware_counter_is_global()) {}

  /// The slow clock, whatever the machine offers.
  [[nodiscard]] static stamp_clock steady() noexcept { return stamp_clock(false); }

  [[nodiscard]] bool uses_counter() const noexcept { return counter_; }

  [[nodiscard]] std::uint64_t before() const noexcept {
    const std::uint64_t now = counter_ ? counter() : steady_ticks();
    wait_until_read();
    return now;
  }

  [[nodiscard]] std::uint64_t after() const noexcept {
    drain_stores();
    return counter_ ? counter() : steady_ticks();
  }

 private:
  explicit stamp_clock(bool counter) noexcept : counter_(counter) {}

  static std::uint64_t steady_ticks() noexcept {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }

#if defined(__x86_64__)
  static std::uint64_t counter() noexcept {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    asm volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (static_cast<std::uint64_t>(high) << 32) | low;
  }
  static void wait_until_read() noexcept { asm volatile("lfence" : : : "memory"); }
  static void drain_stores() noexcept { asm volatile("mfence\n\tlfence" : : : "memory"); }
#elif defined(__aarch64__)
  static std::uint64_t counter() noexcept {
    std::uint64_t now = 0;
    asm volatile("mrs %0, cntvct_el0" : "=r"(now) : : "memory");
    return now;
  }
  static void wait_until_read() noexcept { asm volatile("isb" : : : "memory"); }
  static void drain_stores() noexcept { asm volatile("dsb ish\n\tisb" : : : "memory"); }
#else
  static std::uint64_t counter() noexcept { return steady_ticks(); }
  static void wait_until_read() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }
  static void drain_stores() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }
#endif

  bool counter_;
};

}  // namespace spolia::test
