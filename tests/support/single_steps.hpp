// SPDX-License-Identifier: Apache-2.0
/// \file
/// A thread that stops after each of its instructions: by the processor's trap flag. Not in the
/// libraries that it calls, though, where it may hold a lock that the watching thread needs.
///
///     single_steps steps(first, every);
///     std::thread victim([&] { steps.run([&] { domain.collect(); }); });
///     while (steps.stopped()) {
///       ...                       // it stands after one of its instructions
///       steps.go_on();
///     }
///     victim.join();
#pragma once

#include <csignal>
#include <cstdint>
#if defined(__x86_64__) && defined(__linux__)
#include <ucontext.h>
extern "C" {
extern const char __executable_start;  // by the linker
extern const char etext;
}
#endif

#include "support/parked_thread.hpp"

namespace spolia::test {

class single_steps {
 public:
#if defined(__x86_64__) && defined(__linux__)
  static constexpr bool possible = true;
#else
  static constexpr bool possible = false;
#endif

  /// Stops after instruction `first`, and after each `every`-th from there on.
  single_steps(std::uint64_t first, std::uint64_t every) : left_(first + 1), stride_(every) {
    struct sigaction action{};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int, siginfo_t*, void* where) {
      if (stepping != nullptr && is_own_code(where)) stepping->step();
    };
    sigaction(SIGTRAP, &action, &before_);
  }
  single_steps(const single_steps&) = delete;
  single_steps& operator=(const single_steps&) = delete;
  ~single_steps() { sigaction(SIGTRAP, &before_, nullptr); }

  /// On the thread that is to stop.
  template <class F>
  void run(F&& f) {
    stepping = this;
    set_trap(true);
    f();
    set_trap(false);
    stepping = nullptr;
    over_ = true;
    stopped_.post();
  }

  /// Waits for the next stop; false: run has ended.
  bool stopped() {
    stopped_.wait();
    return !over_;
  }
  void go_on() { go_.post(); }

 private:
  static inline thread_local single_steps* stepping = nullptr;

  static void set_trap([[maybe_unused]] bool on) {
#if defined(__x86_64__) && defined(__linux__)
    constexpr unsigned long long trap_flag = 0x100;
    const unsigned long long flags = __builtin_ia32_readeflags_u64();
    __builtin_ia32_writeeflags_u64(on ? flags | trap_flag : flags & ~trap_flag);
#endif
  }

  static bool is_own_code([[maybe_unused]] const void* where) {
#if defined(__x86_64__) && defined(__linux__)
    const auto at = static_cast<std::uintptr_t>(
        static_cast<const ucontext_t*>(where)->uc_mcontext.gregs[REG_RIP]);
    return at >= reinterpret_cast<std::uintptr_t>(&__executable_start) &&
           at < reinterpret_cast<std::uintptr_t>(&etext);
#else
    return false;
#endif
  }

  void step() {
    if (--left_ != 0) return;
    left_ = stride_;
    stopped_.post();
    go_.wait();
  }

  std::uint64_t left_;
  const std::uint64_t stride_;
  bool over_ = false;
  struct sigaction before_{};
  posix_semaphore stopped_;
  posix_semaphore go_;
};

}  // namespace spolia::test
