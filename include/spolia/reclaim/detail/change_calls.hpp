// SPDX-License-Identifier: Apache-2.0
// change_calls.hpp: functions that are called when something has changed (live.hpp).
//
// Idea:        functions are called by one thread at a time, in the order of their registration.
//              No lock is held meanwhile: a list has one for a few instructions, in which a
//              function is said to be running, and so is not deleted.
#pragma once

#include <cstdint>
#include <exception>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/base/unwind.hpp>
#include <spolia/reclaim/detail/turns.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

class change_calls {
 public:
  struct entry {
    entry() = default;
    entry(const entry&) = delete;
    entry& operator=(const entry&) = delete;
    virtual ~entry() = default;
    virtual void call(const void* value, std::uint64_t version) = 0;

    entry* next = nullptr;        // under the lock, like all that follows
    std::uint64_t running = 0;    // the identity of the thread that calls it; 0: none does
    bool removed = false;         // it is not called any more
    bool left_to_caller = false;  // it was removed by itself
  };

  change_calls() = default;
  change_calls(const change_calls&) = delete;
  change_calls& operator=(const change_calls&) = delete;

  [[nodiscard]] bool empty() const noexcept {
    // acquire ← the release in add(): a thread that changes the value after it was told of a
    // registration calls what was registered.
    return first_.load_acquire() == nullptr;
  }

  /// Owns it from now on.
  void add(entry* made) noexcept {
    const locked here(lock_);
    entry* last = first_.load_relaxed();
    while (last != nullptr && last->next != nullptr) last = last->next;
    if (last != nullptr) {
      last->next = made;
    } else {
      first_.store_release(made);  // → the acquire in empty()
    }
  }

  /// Returns when the function does not run any more, unless that is what calls this.
  void remove(entry* gone) noexcept {
    for (backoff wait;; wait.pause()) {
      const locked here(lock_);
      gone->removed = true;
      if (gone->running != 0 && !threads::lost(gone->running)) {
        if (!threads::is_this(static_cast<std::uint32_t>(gone->running) - 1)) continue;
        gone->left_to_caller = true;
        return;
      }
      unlink(gone);
      break;
    }
    delete gone;
  }

  /// Calls each; `self` is the calling thread's identity. Returns what was thrown first. Where a
  /// function ends its thread (pthread_exit, pthread_cancel), the later ones are not called.
  std::exception_ptr call_all(const void* value, std::uint64_t version, std::uint64_t self) {
    std::exception_ptr thrown;
    running at{*this, next_to_call(nullptr, self)};
    while (at.now != nullptr) {
      try {
        at.now->call(value, version);
      } catch (...) {
        let_unwinding_pass();
        if (!thrown) thrown = std::current_exception();
      }
      at.now = next_to_call(at.now, self);
    }
    return thrown;
  }

 private:
  struct locked {
    explicit locked(turn& l) noexcept : of(l) { of.enter(threads::passing_identity()); }
    ~locked() { of.leave(); }
    locked(const locked&) = delete;
    locked& operator=(const locked&) = delete;
    turn& of;
  };

  /// The function that is being called: it is not running any more when the thread ends within it.
  struct running {
    change_calls& of;
    entry* now;
    ~running() {
      if (now != nullptr) of.stop(now);
    }
  };

  entry* next_to_call(entry* done, std::uint64_t self) noexcept {
    entry* gone = nullptr;
    entry* next = nullptr;
    {
      const locked here(lock_);
      next = done == nullptr ? first_.load_relaxed() : done->next;
      while (next != nullptr && next->removed) next = next->next;
      if (next != nullptr) next->running = self;
      if (done != nullptr) gone = finish(done);
    }
    delete gone;  // outside of the lock: what it holds is the user's
    return next;
  }
  void stop(entry* done) noexcept {
    entry* gone = nullptr;
    {
      const locked here(lock_);
      gone = finish(done);
    }
    delete gone;
  }
  /// Under the lock. Returns it if it was removed meanwhile, by itself.
  entry* finish(entry* done) noexcept {
    done->running = 0;
    if (!done->left_to_caller) return nullptr;
    unlink(done);
    return done;
  }

  void unlink(entry* gone) noexcept {
    entry* const first = first_.load_relaxed();
    if (first == gone) {
      first_.store_release(gone->next);  // → the acquire in empty(), which only asks for null
      return;
    }
    entry* before = first;
    while (before->next != gone) before = before->next;
    before->next = gone->next;
  }

  turn lock_;
  atomic<entry*> first_{nullptr};
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
