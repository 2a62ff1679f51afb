// SPDX-License-Identifier: Apache-2.0
// writers_turn.hpp: a lock of one word, which says which thread has it, so that in the child of a
// fork the threads that are there can take over what a lost one had. It can be closed for good: so
// a node that was taken out of its structure is never locked again.
#pragma once

#include <cstdint>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/threads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// Waits with backoff: a short wait costs no system call, a long one no processor.
class writers_turn {
 public:
  enum class entered : std::uint8_t { first, after_lost, never };

  /// after_lost: the thread that had it was lost in a fork, in the middle of its turn. never: it
  /// was closed. `may_follow(lost)`: whether the caller wants the turn of that one; else never.
  /// Throws std::bad_alloc if the thread has no number yet.
  template <class MayFollow>
  SPOLIA_ALWAYS_INLINE entered enter(const MayFollow& may_follow) {
    const std::uint64_t self = threads::identity();
    std::uint64_t seen = holder_.load_relaxed();
    // acquire ← the release in leave: what the thread before us did.
    if (seen == 0 && holder_.cas_strong_acquire(seen, self)) [[likely]]
      return entered::first;
    return enter_late(self, may_follow);
  }
  entered enter() {
    return enter([](std::uint64_t) { return true; });
  }
  /// False: a thread has it, or it was closed.
  [[nodiscard]] bool try_enter() {
    std::uint64_t seen = 0;
    // acquire: as in enter.
    return holder_.cas_strong_acquire(seen, threads::identity());
  }
  void leave() noexcept {
    // release → the acquire in enter.
    SPOLIA_FAULT("counted_map.leave_relaxed") ? holder_.store_relaxed(0) : holder_.store_release(0);
  }
  /// For the thread whose turn it is: there is none after it.
  void close() noexcept {
    // release → the acquire in is_closed: what replaces the node that is closed.
    holder_.store_release(closed);
  }
  [[nodiscard]] bool is_closed() const noexcept {
    // acquire ← the release in close: a thread that begins anew for this finds what has come in
    // the node's place. Without it, it might come here again and again.
    return holder_.load_acquire() == closed;
  }

 private:
  static constexpr std::uint64_t closed = ~std::uint64_t{0};  // no thread's identity

  template <class MayFollow>
  SPOLIA_NOINLINE entered enter_late(std::uint64_t self, const MayFollow& may_follow) {
    backoff wait;
    for (;;) {
      std::uint64_t seen = holder_.load_relaxed();
      if (seen == closed) return entered::never;
      const bool lost = seen != 0 && threads::lost(seen);
      if (lost && !may_follow(self)) return entered::never;
      if (seen == 0 || lost) {
        const entered how = lost ? entered::after_lost : entered::first;
        if (lost && SPOLIA_FAULT("counted_map.takes_without_asking")) {
          holder_.store_relaxed(self);
          return how;
        }
        // acquire: as in enter. What a lost thread did is here since the fork.
        if (holder_.cas_strong_acquire(seen, self)) return how;
      }
      wait.pause();
    }
  }

  atomic<std::uint64_t> holder_{0};  // its identity; 0: there is none
};

/// In the place of a turn where there is none.
struct no_turn {};

/// While one lives, its thread has the turn; unless it was closed. Empty where it has none, which
/// std::optional could say, too, if g++ 12 did not warn of one in a frame that recurses.
class turn_held {
 public:
  turn_held() noexcept = default;
  /// Of a turn that was entered.
  explicit turn_held(writers_turn& of) noexcept : of_(&of) {}
  turn_held(turn_held&& r) noexcept : of_(std::exchange(r.of_, nullptr)) {}
  turn_held& operator=(turn_held&&) = delete;
  ~turn_held() {
    if (of_ != nullptr) of_->leave();
  }
  explicit operator bool() const noexcept { return of_ != nullptr; }
  /// Takes over a turn that was entered; it has none yet.
  void hold(writers_turn& of) noexcept { of_ = &of; }
  void close() noexcept {
    if (!SPOLIA_FAULT("counted_tree.stays_current")) std::exchange(of_, nullptr)->close();
  }

 private:
  writers_turn* of_ = nullptr;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
