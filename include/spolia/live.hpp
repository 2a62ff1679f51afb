// SPDX-License-Identifier: Apache-2.0
/// \file
/// One value that every thread reads and that is replaced now and then: a configuration, a routing
/// table, feature flags.
///
///     spolia::live<config> current(load());
///
///     auto now = current.read();                    // any thread; waits for nothing
///     serve(now->limit);                            // `now` stays what it is until it goes
///
///     current.store(load());                        // replaces the value
///     current.update([](config& c) { ++c.limit; }); // changes a copy and puts it in
///     auto watch = current.on_change([](const config& c) { log(c); });
///
/// What waits. A value that was replaced ends at once when its last reader lets it go, in the
/// thread that does so. If no thread was reading it, it ends in the thread that replaced it.
///   in values:   at most one for each `reading` that is alive, and one for each thread that is
///                just replacing one or ending some; and the current one.
///   in bytes:    this number of values, each with all that it owns.
///   in seconds:  none after the last reader has gone, but for the destructor's own time and for
///                any time in which the system does not run the thread that is about to call it.
/// A reader that sleeps holds the one value that it reads, and no other. waiting() counts what
/// waits, and old_readings() says which threads hold it.
///
/// Thread safety: every member function but the constructors and the destructor may be called by
/// any threads at the same time. read() and the end of a reading wait for no thread. Changes take
/// turns, in which copying and the function of update() run: they delay other changes only, never a
/// reader. All operations are linearizable.
/// Your code: destructors of values run outside of all locks, in store, emplace, update, read and
/// where a reading ends. They may use the same live value, and must not throw.
/// Errors: a change throws std::bad_alloc, or what making the value throws, and then nothing has
/// changed. read() may throw std::bad_alloc on a thread's first read in the process, and each time
/// the thread holds eight more readings than it ever held before. A change that the function of
/// update() makes to the same value throws std::system_error (resource_deadlock_would_occur).
/// Cost: read and end together take fewer instructions than a guard of domain<>: no
/// read-modify-write, no store to what others write, and no fence where the kernel has membarrier.
/// The end of a reading whose value was replaced meanwhile checks one cache line for each thread
/// that reads live values, and may run the destructor. A change does the same, and a membarrier,
/// which takes some microseconds.
/// Memory: 96 bytes, and 24 bytes on top of each value that exists. All live values together take
/// 128 bytes for each thread.
/// Fork: in the child, values that vanished threads were reading or replacing stay forever.
/// waiting() counts those that they were reading, once they are replaced. It does not count those
/// that they were just ending, or had in a half-written list.
/// Source: hazard pointers (Michael, IEEE TPDS 15(6), 2004) with asymmetric fences; that the last
/// reader to let go ends the value is ours.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/reclaim/detail/change_calls.hpp>
#include <spolia/reclaim/detail/live_core.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// What a change did to a live value.
struct live_change {
  bool changed;           ///< false: the function of update said so, or the version was another one
  std::uint64_t version;  ///< of the value that the change has put in, or has found
  explicit operator bool() const noexcept { return changed; }
};

/// A reading of a value that was replaced meanwhile.
struct old_reading {
  std::uint64_t version;                  ///< of the value that it holds
  std::chrono::nanoseconds replaced_ago;  ///< how long ago it stopped being the current one
  std::uint32_t thread;                   ///< number of the thread that began it (threads.hpp)
  long os_thread;                         ///< the system's number of it; 0 if it is not known
  std::string thread_name;                ///< the system's name of it; empty if it is not known
};

template <class T>
class live final : private detail::reclaim::live_core {
  static_assert(std::is_object_v<T> && !std::is_array_v<T> && !std::is_const_v<T>,
                "live<T>: T must be an object type, not an array, and not const");
  static_assert(std::is_nothrow_destructible_v<T>, "live<T>: T's destructor must not throw");

 public:
  using value_type = T;
  class reading;
  class watch;

  /// Begins with T(arguments...), as version 1.
  template <class... Arguments>
    requires std::constructible_from<T, Arguments...>
  explicit live(std::in_place_t, Arguments&&... arguments)
      : live_core(&end, make(std::forward<Arguments>(arguments)...)) {}
  live()
    requires std::constructible_from<T>
      : live(std::in_place) {}
  explicit live(T first)
    requires std::move_constructible<T>
      : live(std::in_place, std::move(first)) {}
  live(const live&) = delete;
  live& operator=(const live&) = delete;
  /// No reading and no watch of it may be alive (checked build: reported).
  ~live() = default;

  /// The current value, which stays as long as the returned reading lives. Wait-free, but it starts
  /// over when the value is replaced while it runs.
  [[nodiscard]] SPOLIA_ALWAYS_INLINE reading read() const SPOLIA_REFERRED_TO {
    return reading(*this);
  }

  /// A copy of the current value.
  [[nodiscard]] T copy() const
    requires std::copy_constructible<T>
  {
    const reading now = read();
    return *now;
  }

  /// Puts in another value.
  live_change store(T value)
    requires std::move_constructible<T>
  {
    return emplace(std::move(value));
  }
  /// The same for T(arguments...), which is constructed in place.
  template <class... Arguments>
    requires std::constructible_from<T, Arguments...>
  live_change emplace(Arguments&&... arguments) {
    node* const made = make(std::forward<Arguments>(arguments)...);
    return put_in(made, [](std::uint64_t) { return true; });
  }

  /// The same, but only if the current value still has this version, as reading::version() gave it.
  live_change store_if(std::uint64_t version, T value)
    requires std::move_constructible<T>
  {
    node* const made = make(std::move(value));
    return put_in(made, [version](std::uint64_t found) { return found == version; });
  }

  /// Calls f(T&) once, on a copy of the current value, and puts the copy in; no other change comes
  /// in between. f returns nothing, or bool: false leaves the value as it is. An exception of the
  /// copy or of f reaches the caller, and nothing has changed. f may read this value and change
  /// others; it must not change this one, nor wait for a thread that does.
  template <class F>
  live_change update(F&& f)
    requires(std::copy_constructible<T> && std::invocable<F&, T&>);

  /// Calls f(const T&), f(const T&, version) or f() after each change that begins after this
  /// returns, for as long as the returned watch lives. Calls come one at a time, each for a later
  /// version than the one before; functions are called in the order of their registration. If
  /// several changes come while functions run, the functions are called only for the last of them.
  /// While f runs, no lock is held, and only the value that f is given is protected: f may read and
  /// change this and other values, register, and end its own or other watches.
  /// The thread that makes a change calls the functions before its store or update returns. If
  /// another thread is just calling them, that thread does it when it has finished. An exception of
  /// f does not keep the other functions from being called. The change whose thread called f throws
  /// the first such exception when all were called; the value is changed all the same. Throws
  /// std::bad_alloc.
  template <class F>
  [[nodiscard]] watch on_change(F f) SPOLIA_REFERRED_TO;

  /// The number of the current value: 1 at first, and one more for each change.
  [[nodiscard]] std::uint64_t version() const { return read().version(); }

  /// Values that were replaced and have not ended; approximate while others work.
  [[nodiscard]] std::uint64_t waiting() const noexcept { return live_core::waiting(); }

  /// The readings of values that wait, the oldest first. If threads let go of such a value
  /// meanwhile, this call ends it. Throws std::bad_alloc.
  [[nodiscard]] std::vector<old_reading> old_readings() const;

 private:
  struct node : live_core::node {
    template <class... Arguments>
    explicit node(Arguments&&... arguments) : value(std::forward<Arguments>(arguments)...) {}
    T value;
  };

  template <class... Arguments>
  static node* make(Arguments&&... arguments);
  static void end(live_core::node* n) noexcept;
  /// Of a node that is not put in.
  struct unused {
    ~unused() {
      if (of != nullptr) end(of);
    }
    node* of;
  };

  template <class Wanted>
  live_change put_in(node* made, Wanted wanted);
  static const void* value_of(const live_core::node* n) noexcept {
    return &static_cast<const node*>(n)->value;
  }

  template <class F>
  struct watched;
};

/// A value that is being read. It holds this one value, however often it is replaced meanwhile; it
/// may be moved, also to other threads. The live value must outlive it.
template <class T>
class live<T>::reading {
 public:
  reading(reading&& other) noexcept : hold_(std::exchange(other.hold_, {})) {}
  reading& operator=(reading&& other) noexcept {
    if (this != &other) {
      let_go();
      hold_ = std::exchange(other.hold_, {});
    }
    return *this;
  }
  SPOLIA_ALWAYS_INLINE ~reading() { let_go(); }

  /// Refer to the value as long as this lives: `for (auto& x : values.read()->list)` does not keep
  /// it, `auto now = values.read(); for (auto& x : now->list)` does.
  [[nodiscard]] const T& operator*() const noexcept SPOLIA_REFERRED_TO { return held()->value; }
  [[nodiscard]] const T* operator->() const noexcept SPOLIA_REFERRED_TO { return &held()->value; }
  [[nodiscard]] std::uint64_t version() const noexcept { return held()->version; }

 private:
  friend live;
  SPOLIA_ALWAYS_INLINE explicit reading(const live& from) : hold_(from.begin_reading()) {}
  SPOLIA_ALWAYS_INLINE void let_go() noexcept {
    if (hold_.slot != nullptr) end_reading(hold_);
  }
  const node* held() const noexcept {
    if (SPOLIA_CHECKS && hold_.slot == nullptr) {
      misuse::report(
          "a reading of a live value is used that was moved from, and holds nothing: use the one "
          "that it was moved to, or read again",
          threads::number());
    }
    return static_cast<const node*>(hold_.value);
  }

  live_core::hold hold_;
};

/// A registered function. The destructor removes it, and returns once the function does not run any
/// more; called in the function itself, it returns at once.
template <class T>
class [[nodiscard]] live<T>::watch {
 public:
  watch() noexcept = default;
  watch(watch&& other) noexcept
      : of_(std::exchange(other.of_, nullptr)), entry_(std::exchange(other.entry_, nullptr)) {}
  watch& operator=(watch&& other) noexcept {
    if (this != &other) {
      end();
      of_ = std::exchange(other.of_, nullptr);
      entry_ = std::exchange(other.entry_, nullptr);
    }
    return *this;
  }
  ~watch() { end(); }

  void end() noexcept {
    if (of_ != nullptr) std::exchange(of_, nullptr)->calls().remove(entry_);
  }

 private:
  friend live;
  watch(live& of, detail::reclaim::change_calls::entry* e) noexcept : of_(&of), entry_(e) {}

  live* of_ = nullptr;
  detail::reclaim::change_calls::entry* entry_ = nullptr;
};

template <class T>
template <class... Arguments>
auto live<T>::make(Arguments&&... arguments) -> node* {
  void* const place = memory::allocate(sizeof(node), alignof(node));
  try {
    return ::new (place) node(std::forward<Arguments>(arguments)...);
  } catch (...) {
    memory::deallocate(place, sizeof(node), alignof(node));
    throw;
  }
}

template <class T>
void live<T>::end(live_core::node* n) noexcept {
  node* const whole = static_cast<node*>(n);
  whole->~node();
  memory::deallocate(whole, sizeof(node), alignof(node));
}

template <class T>
template <class Wanted>
live_change live<T>::put_in(node* made, Wanted wanted) {
  unused own{made};
  telling after(*this);
  live_change done{};
  {
    change now(*this);
    done.version = now.current()->version;
    done.changed = wanted(done.version);
    if (done.changed) done.version = now.put_in(std::exchange(own.of, nullptr));
  }
  if (done.changed) after.tell(&value_of);
  return done;
}

template <class T>
template <class F>
live_change live<T>::update(F&& f)
  requires(std::copy_constructible<T> && std::invocable<F&, T&>)
{
  using returned = std::invoke_result_t<F&, T&>;
  static_assert(std::is_void_v<returned> || std::same_as<returned, bool>,
                "live::update: the function returns neither nothing nor bool: return false to "
                "leave the value as it is, true to change it, or nothing");
  unused own{nullptr};  // what is not put in ends after the turn
  telling after(*this);
  live_change done{};
  {
    change now(*this);
    own.of = make(static_cast<const node*>(now.current())->value);
    done = {true, now.current()->version};
    if constexpr (std::is_void_v<returned>) {
      f(own.of->value);
    } else {
      done.changed = f(own.of->value);
    }
    if (done.changed) done.version = now.put_in(std::exchange(own.of, nullptr));
  }
  if (done.changed) after.tell(&value_of);
  return done;
}

template <class T>
template <class F>
struct live<T>::watched final : detail::reclaim::change_calls::entry {
  explicit watched(F&& given) : f(std::move(given)) {}
  void call(const void* value, std::uint64_t version) override {
    if constexpr (std::invocable<F&, const T&, std::uint64_t>) {
      f(*static_cast<const T*>(value), version);
    } else if constexpr (std::invocable<F&, const T&>) {
      f(*static_cast<const T*>(value));
    } else {
      f();
    }
  }
  F f;
};

template <class T>
template <class F>
auto live<T>::on_change(F f) -> watch {
  static_assert(std::invocable<F&, const T&, std::uint64_t> || std::invocable<F&, const T&> ||
                    std::invocable<F&>,
                "live::on_change: the function takes (const T&, std::uint64_t version), (const T&) "
                "or nothing");
  auto* const made = new watched<F>(std::move(f));
  calls().add(made);
  return watch(*this, made);
}

template <class T>
auto live<T>::old_readings() const -> std::vector<old_reading> {
  std::vector<old_reading> found;
  each_old_reading(
      [&](const live_core::node& n, std::chrono::nanoseconds ago, std::uint32_t thread,
          long os_thread) { found.push_back({n.version, ago, thread, os_thread, {}}); });
  std::ranges::sort(found, std::greater<>{}, &old_reading::replaced_ago);
  for (old_reading& r : found) r.thread_name = threads::os_name(r.os_thread);
  return found;
}

}  // namespace spolia::inline SPOLIA_FLAVOUR
