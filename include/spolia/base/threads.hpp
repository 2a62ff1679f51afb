// SPDX-License-Identifier: Apache-2.0
// threads.hpp: a small dense number for each live thread, and news of threads that end.
//
// Use:         threads::number() names the calling thread; the first call of a thread joins it, no
//              registration is needed. Numbers of ended threads are given out again, smallest
//              first, so that arrays indexed by them stay short. There is no fixed maximum.
// Errors:      the first call of a thread may throw std::bad_alloc; later calls never fail. A
//              process needs one pthread key. If none is left when the library is loaded, first
//              calls throw a std::bad_alloc that says so, until one is.
// Cost:        one thread-local load and one test. Joining and leaving take a mutex.
// Thread end:  the number is given back by a pthread key destructor, which runs after C++
//              thread_local destructors, so those may still use every part of the library. If a key
//              destructor of other code runs later still and uses the library, the thread joins
//              once more.
// Fork:        in the child the forking thread keeps its number, and every other thread that has
//              one is reported to the listeners as lost; nothing has to be called by hand. What a
//              thread holds for a while, and puts its identity() into, others can take over once it
//              is lost().
// Unloading:   the shared library is linked so that it is never unloaded; a static copy inside a
//              plugin gives its key back when the plugin goes.
// Exit:        the key stays when the process exits: threads that go on, and threads whose first
//              call comes then, may use the library until the process is gone.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#if defined(SPOLIA_MODEL)
#include <spolia/model/engine.hpp>
#endif

namespace spolia::core::inline SPOLIA_OF_VERSION {

/// What the fast paths need to know of the calling thread, in one cache line.
struct this_thread {
  std::uint32_t number_plus_one = 0;  ///< 0: the thread has not joined, or has left
  std::uint64_t domain = 0;           ///< serial number of the domain whose cell was used last
  void* cell = nullptr;               ///< that cell
  std::uint32_t joined = 0;           ///< what `forks` was then
  void* readings = nullptr;           ///< where it names the live values that it reads
};

/// In the identity of a caller that gives no number: no thread's. Those of threads are below it.
inline constexpr std::uint32_t passing_number = ~std::uint32_t{0} >> 1U;

/// A listener's place among the others. A class by itself, since the listener's destructor is
/// protected, which a friend of its own would undo.
class listener_links {
  friend class registry;
  class listener* next_ = nullptr;
  class listener* previous_ = nullptr;
};

/// Hears of threads that end. Registered with `listen`; the calls are made under the registry's
/// lock, on the ending thread (`thread_left`) or in the child of a fork (the others), and must
/// neither throw nor call back into the registry nor run code of the user. What a thread may hold
/// that never asked for a number, a lock above all, is no lost thread's: `forked` comes once in
/// each child, to all listeners before the first of them hears of a lost thread, and `losses_told`
/// when all have heard of each.
class SPOLIA_EXPORT listener : public listener_links {
 public:
  virtual void thread_left(std::uint32_t number) noexcept = 0;
  /// Asked after that, and then whenever a thread joins until no listener does: whether something
  /// of the ended thread still has the number, so that no other thread may be given it.
  virtual bool keeps([[maybe_unused]] std::uint32_t number) noexcept { return false; }
  virtual void thread_lost(std::uint32_t number) noexcept = 0;
  virtual void forked() noexcept {}
  virtual void losses_told() noexcept {}

 protected:
  listener() = default;
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;
  ~listener() = default;
};

#if !defined(SPOLIA_MODEL)
// Read on every guard.
extern SPOLIA_EXPORT constinit thread_local this_thread here SPOLIA_TLS_MODEL;

/// From the first process to this one. Changed only in a child that has one thread yet.
extern SPOLIA_EXPORT SPOLIA_NO_COPY constinit std::uint32_t forks;

SPOLIA_EXPORT std::uint32_t join();
SPOLIA_EXPORT bool lost(std::uint64_t identity) noexcept;
SPOLIA_EXPORT std::uint32_t high_water() noexcept;
SPOLIA_EXPORT bool if_free(std::uint32_t number, void (*f)(void*), void* argument) noexcept;
SPOLIA_EXPORT void listen(listener&) noexcept;
SPOLIA_EXPORT void unlisten(listener&) noexcept;
SPOLIA_EXPORT void begin_making();
SPOLIA_EXPORT void end_making() noexcept;
SPOLIA_EXPORT bool process_exits() noexcept;
SPOLIA_EXPORT long os_id() noexcept;
SPOLIA_EXPORT std::string os_name(long id);
SPOLIA_EXPORT long os_id_of(std::uint32_t number) noexcept;
#endif

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {
namespace threads {

using core::listener;

#if defined(SPOLIA_MODEL)

inline std::uint32_t number() { return model::current_thread(); }
inline bool is_this(std::uint32_t n) noexcept { return n == model::current_thread(); }
inline long os_id() noexcept { return 0; }
inline std::string os_name(long) { return {}; }
inline long os_id_of(std::uint32_t) noexcept { return 0; }
inline std::uint32_t high_water() noexcept { return model::thread_count(); }
template <class F>
bool if_free(std::uint32_t, F&&) noexcept {
  return false;  // no number is given out again
}
inline void listen(listener&) noexcept {}
inline void unlisten(listener&) noexcept {}

/// Scenarios say that they are in a child now, of which no thread was there before.
inline std::uint32_t scenario_forks = 0;
inline std::uint64_t identity() {
  return std::uint64_t{scenario_forks} << 32U | (model::current_thread() + 1);
}
inline bool lost(std::uint64_t identity) noexcept { return identity >> 32U != scenario_forks; }
inline std::uint64_t passing_identity() noexcept {
  return std::uint64_t{scenario_forks} << 32U | core::passing_number;
}

class making {
 public:
  making() noexcept {}
};

/// The listener wants to hear when the calling thread ends. (Scenario threads have no registry.)
inline void watch_this_thread(listener& who) {
  model::at_thread_exit(
      [](void* l) { static_cast<listener*>(l)->thread_left(model::current_thread()); }, &who);
}

#else

/// The calling thread's number. Throws std::bad_alloc on a thread's first call only.
inline std::uint32_t number() {
  const std::uint32_t known = core::here.number_plus_one;
  if (known != 0) [[likely]]
    return known - 1;
  return core::join();
}

/// Whether it is the calling thread's number; gives it none.
inline bool is_this(std::uint32_t n) noexcept { return core::here.number_plus_one == n + 1; }

/// The calling thread among all that this process and those it was forked from have had at a time:
/// not 0, and no later thread's if it is lost in a fork. Throws as number().
inline std::uint64_t identity() { return std::uint64_t{core::forks} << 32U | (number() + 1); }
/// Whether the thread, which had not ended, was lost in a fork.
inline bool lost(std::uint64_t identity) noexcept {
  return identity >> 32U != core::forks && core::lost(identity);
}
/// For a caller that needs no number, and neither runs code of the user nor forks while it uses
/// this: in every child it is lost.
inline std::uint64_t passing_identity() noexcept {
  return std::uint64_t{core::forks} << 32U | core::passing_number;
}

/// All numbers given out so far are below this.
inline std::uint32_t high_water() noexcept { return core::high_water(); }

/// Calls f() if no thread has the number; then no thread is given it, and none leaves, before f has
/// returned. All that the number's threads did happens before. False: it was not called, because a
/// thread has the number or is just being given one. Not for listeners, when they are called; f is
/// to be short, throws nothing and runs no code of the user. Never waits.
template <class F>
bool if_free(std::uint32_t number, F&& f) noexcept {
  return core::if_free(
      number, [](void* g) { (*static_cast<std::remove_reference_t<F>*>(g))(); }, &f);
}

inline void listen(listener& who) noexcept { core::listen(who); }
/// After the return no call to the listener is running or will come.
inline void unlisten(listener& who) noexcept { core::unlisten(who); }

/// While one exists, no fork comes, and no thread but the calling one has one (made_once.hpp).
class making {
 public:
  making() { core::begin_making(); }
  ~making() { core::end_making(); }
  making(const making&) = delete;
  making& operator=(const making&) = delete;
};

inline void watch_this_thread(listener&) noexcept {}

/// Whether exit() has begun. If not, what runs an object's destructors unloads it.
inline bool process_exits() noexcept { return core::process_exits(); }

/// The system's number of the calling thread; 0 where it has none. A system call.
inline long os_id() noexcept { return core::os_id(); }
/// The system's name of the thread with that number (pthread_setname_np); empty if it has none or
/// is gone. Reads a file. Throws std::bad_alloc.
inline std::string os_name(long id) { return core::os_name(id); }
/// The system's number of the thread that has this number, or had it last; 0 where it is not known,
/// as of numbers from 1024 on.
inline long os_id_of(std::uint32_t number) noexcept { return core::os_id_of(number); }

#endif

}  // namespace threads
}  // namespace spolia::inline SPOLIA_FLAVOUR
