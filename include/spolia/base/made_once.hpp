// SPDX-License-Identifier: Apache-2.0
// made_once.hpp: a thing of which a process has one, made when it is first asked for.
//
//     pool& the_pool() {
//       static constinit made_once<pool> it;
//       return it.get();
//     }
//
// Why not a static variable: a fork may come while another thread makes it. The child would find it
// half made forever, and wait in the first call that needs it. Here a fork waits until nothing is
// being made.
//
// Lifetime:    never destroyed, as threads may end, and objects of the user, after static
//              destructors. The room is its own, so a plugin that goes takes it along.
// Errors:      what the constructor throws; the next call tries again.
// Cost:        one load and one test; making takes a lock of the process.
// Threads:     any. A constructor may ask for other such things, and must neither register handlers
//              of forks (systems hold a lock of their own there) nor wait for threads that ask.
#pragma once

#include <new>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/threads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class T>
class made_once {
 public:
  constexpr made_once() noexcept = default;
  made_once(const made_once&) = delete;
  made_once& operator=(const made_once&) = delete;

  T& get() {
    return get([](void* place) { return ::new (place) T; });
  }

  /// `make` is called with the room for a T, and returns what it has made there.
  template <class Make>
  T& get(Make&& make) {
    // acquire ← the release in made(): a thread that finds it finds it whole.
    T* const known = it_.load_acquire();
    if (known != nullptr) [[likely]]
      return *known;
    return made(make);
  }

 private:
  template <class Make>
  SPOLIA_NOINLINE T& made(Make& make) {
    const threads::making no_fork;
    T* it = it_.load_relaxed();
    if (it == nullptr) {
      it = make(static_cast<void*>(place_));
      // release → the acquire in get(): what the constructor wrote is seen with it.
      it_.store_release(it);
    }
    return *it;
  }

#if defined(SPOLIA_MODEL)
  /// What outlives executions of a scenario is not the checker's to watch.
  struct unwatched {
    T* load_acquire() const noexcept { return it; }
    T* load_relaxed() const noexcept { return it; }
    void store_release(T* made) noexcept { it = made; }
    T* it = nullptr;
  };
  unwatched it_;
#else
  atomic<T*> it_{nullptr};
#endif
  alignas(T) unsigned char place_[sizeof(T)] = {};
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
