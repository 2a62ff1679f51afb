// SPDX-License-Identifier: Apache-2.0
// read_phase.hpp: a part of an operation that other threads can make start over, and the proof that
// it did.
//
// Each thread has a phase number: odd while it is in a read phase, even otherwise, and never the
// same again. It changes when a phase ends, be it by itself or in the signal's handler, so the
// number alone tells a thread that saw it odd that this phase is over: no other acknowledgement is
// needed.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/signals.hpp>
#include <spolia/base/threads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// The phase number of one thread. Written by the thread and its signal handler, read by all
/// threads.
class read_phase {
 public:
  read_phase() = default;
  read_phase(const read_phase&) = delete;
  read_phase& operator=(const read_phase&) = delete;

  /// Runs f in a read phase, from its beginning as often as it takes; `again()` runs in between,
  /// outside of the phase. This function's frame is the jump's target, and it is alive while f
  /// runs.
  template <class F, class Again>
  SPOLIA_NOINLINE std::invoke_result_t<F&> run(F& f, Again again) noexcept {
    attempt here(*this);
    // The signal mask is not saved, which would be a system call in every phase: so the jump out of
    // the handler leaves our signal blocked.
    if (sigsetjmp(here.where, 0) != 0) {
      restart_signals::arrived();
      again();
    }
    begin(here);
    if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
      f();
      end();
    } else {
      const auto result = f();
      end();
      return result;
    }
  }

  /// For the thread itself.
  bool active() const noexcept { return (number_.load_relaxed() & 1U) != 0; }

  std::uint64_t number() const noexcept {
    // acquire ← the releases in begin(), end(), interrupted(): the reads of every phase before
    // happen before us, and we see what those phases reserved.
    return number_.load_acquire();
  }

  void end() noexcept {
    if (SPOLIA_FAULT("nbr.keep_late") && !active()) return;
    // release → the acquire in number(). The handler, on this thread, sees the phase or its end.
    if (SPOLIA_FAULT("nbr.end_relaxed")) {
      number_.store_relaxed(number_.load_relaxed() + 1);
    } else {
      number_.store_release(number_.load_relaxed() + 1);
    }
    restart_signals::here() = nullptr;
  }

  /// The thread has vanished in a fork.
  void forget() noexcept {
    if (active()) number_.store_relaxed(number_.load_relaxed() + 1);
  }

 private:
  struct attempt : restart_signals::restart_point {
    explicit attempt(read_phase& phase) noexcept : of(phase) { leave = &interrupted; }
    read_phase& of;
  };

  void begin(attempt& here) noexcept {
    restart_signals::here() = &here;
    // release → the acquire in number(): a thread that waits for an earlier phase may see this
    // number first.
    if (SPOLIA_FAULT("nbr.begin_relaxed")) {
      number_.store_relaxed(number_.load_relaxed() + 1);
    } else {
      number_.store_release(number_.load_relaxed() + 1);
    }
    // light → the heavy fence of a round: either the round sees us reading, or our reads see
    // unlinked what it wants to free.
    if (!SPOLIA_FAULT("nbr.no_light")) fence::light();
  }

  /// In the handler.
  static bool interrupted(restart_signals::restart_point& point) noexcept {
    read_phase& phase = static_cast<attempt&>(point).of;
    if (!phase.active()) return false;
    // release → the acquire in number(): the reads of this attempt happen before.
    phase.number_.store_release(phase.number_.load_relaxed() + 1);
    return true;
  }

  atomic<std::uint64_t> number_{0};
};

/// A thread that was found in a read phase.
struct reader {
  const read_phase* phase;
  std::uint64_t seen;  // its number
  std::uint32_t thread;

  bool has_answered() const noexcept {
    return phase->number() != seen || SPOLIA_FAULT("nbr.no_ack");
  }

  /// Waits until it has. False if the thread cannot be interrupted.
  bool wait() const noexcept {
    restart_signals::patience patience;
    while (!has_answered()) {
      if (!patience.pause()) continue;
      restart_signals::send(thread);
      if (patience.in_doubt() && restart_signals::deaf(thread)) {
        misuse::report("a thread in read() cannot be interrupted", thread);
        return false;
      }
    }
    return true;
  }
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
