// SPDX-License-Identifier: Apache-2.0
// signals.hpp: sections of a thread that another thread may interrupt, so that they start over.
//
// One real-time signal of the process is used for it: option `wanted` of claim(), or the
// environment variable SPOLIA_RESTART_SIGNAL, or else the first one above SIGRTMIN that has no
// handler, or SIGRTMIN itself. Claimed once, by the first domain that needs it, and kept until the
// process ends.
//
// What the rest of the program should know:
//   * The handler does nothing in threads that are not in a section, so a stray signal is harmless.
//     It is never chained to another handler: a signal that has one is refused
//     (std::runtime_error). Code that replaces our handler later makes threads deaf: they are then
//     not interrupted any more.
//   * It runs on the thread's stack for signals, if the thread has one (SA_ONSTACK).
//   * System calls are restarted (SA_RESTART); the few that never are may return EINTR.
//   * A handler of another signal that interrupts a section may itself be abandoned by a jump out
//     of the section. Handlers that must not be: put our signal into their sa_mask.
//   * A thread that blocks the signal is deaf too. A thread's first guard unblocks it, whatever
//     mask the thread inherited.
//   * fork: a child keeps handler and signal. exec: nothing is left.
//
// Thread safety: all functions, from any thread. Async-signal-safe: send().
#pragma once

#include <csetjmp>
#include <cstdint>

#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#if defined(SPOLIA_MODEL)
#include <array>

#include <spolia/model/engine.hpp>
#else
#include <chrono>
#endif

namespace spolia::core::inline SPOLIA_OF_VERSION {

/// Where a thread goes on when it is interrupted.
struct restart_point {
  /// Ends the section; called on its own thread, by the signal's handler. False if it is over
  /// already.
  bool (*leave)(restart_point&) noexcept;
  sigjmp_buf where;
};

#if !defined(SPOLIA_MODEL)
// A handler may read it at any moment: of a thread that has joined, which has all of the library's
// thread-local memory since then, so that the read allocates nothing.
extern SPOLIA_EXPORT constinit thread_local restart_point* restart_here SPOLIA_TLS_MODEL;

SPOLIA_EXPORT int claim_restart_signal(int wanted);
SPOLIA_EXPORT void answer_restart_signal(std::uint32_t number);
SPOLIA_EXPORT void unblock_restart_signal() noexcept;
SPOLIA_EXPORT void send_restart_signal(std::uint32_t number) noexcept;
SPOLIA_EXPORT bool deaf_to_restart_signal(std::uint32_t number) noexcept;
#endif

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {
namespace restart_signals {

using core::restart_point;

#if defined(SPOLIA_MODEL)

/// The calling thread's section; null: none.
inline restart_point*& here() noexcept {
  static std::array<restart_point*, model::max_threads> points{};
  return points[model::current_thread()];
}

inline void interrupt() {
  restart_point* const point = here();
  if (point != nullptr && point->leave(*point)) siglongjmp(point->where, 1);
}

inline int claim(int) { return 0; }
inline void answer(std::uint32_t) {}
inline void arrived() noexcept {}
inline void send(std::uint32_t number) noexcept { model::signal(number, &interrupt); }
inline bool deaf(std::uint32_t) noexcept { return false; }

class patience {
 public:
  bool pause() noexcept {
    spin_wait();
    return false;
  }
  bool in_doubt() const noexcept { return false; }
};

#else

/// The calling thread's section; null: none. The handler reads it.
SPOLIA_ALWAYS_INLINE restart_point*& here() noexcept { return core::restart_here; }

/// Takes the signal for this process if that has not been done yet, and returns it; 0 wants any.
/// \throws std::invalid_argument  `wanted` is no real-time signal, or another one is in use already
/// \throws std::runtime_error     the signal has a handler, or this system cannot do it
inline int claim(int wanted) { return core::claim_restart_signal(wanted); }

/// The calling thread, whose number this is, can be interrupted from now on. Throws std::bad_alloc.
inline void answer(std::uint32_t number) { core::answer_restart_signal(number); }

/// To be called after the jump: the signal is blocked still, as in the handler. The race detector
/// calls handlers later, from its own code, with all others blocked, too; those stay so there.
inline void arrived() noexcept { core::unblock_restart_signal(); }

/// Interrupts a thread soon, if it still runs. If it has ended and its kernel id was given to
/// another thread, that one's handler runs instead, and finds nothing to do or repeats a section in
/// vain.
inline void send(std::uint32_t number) noexcept { core::send_restart_signal(number); }

/// True if a signal sent now could not reach the thread: it is gone, or blocks the signal, or the
/// handler was replaced. Reads a file of /proc: for diagnosis only.
inline bool deaf(std::uint32_t number) noexcept { return core::deaf_to_restart_signal(number); }

/// For a loop that waits for an interrupted thread.
class patience {
 public:
  /// Waits a little. True now and then (every 20 ms, as far as it has slept): time to ask again, in
  /// case the signal was lost because the system's queue of signals was full.
  bool pause() noexcept {
    pause_.pause();
    if (pause_.slept() < next_) return false;
    next_ = pause_.slept() + std::chrono::milliseconds(20);
    return true;
  }
  /// Longer than any scheduler makes a runnable thread wait.
  bool in_doubt() const noexcept { return pause_.slept() > std::chrono::seconds(1); }

 private:
  backoff pause_;
  std::chrono::nanoseconds next_ = std::chrono::milliseconds(20);
};

#endif

}  // namespace restart_signals
}  // namespace spolia::inline SPOLIA_FLAVOUR
