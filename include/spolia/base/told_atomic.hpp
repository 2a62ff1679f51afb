// SPDX-License-Identifier: Apache-2.0
/// \file
/// Atomics that tell valgrind's helgrind what they order. It sees machine instructions, in which a
/// release store looks like any other store, and so takes all that a program hands on through an
/// atomic pointer for a race. Where SPOLIA_VALGRIND is 1, for the program and the
/// library, all atomics of the library's algorithms are of this kind; nowhere else is this header
/// read.
#pragma once

#include <atomic>
#include <concepts>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {

/// What this thread has done so far happens before what a thread does after its tell_acquire() of
/// the same place. Nothing happens where no valgrind runs the program. Thread-safe; never fails.
/// They are there in a library that was built with SPOLIA_VALGRIND only.
SPOLIA_EXPORT void tell_release(const void* place) noexcept;
SPOLIA_EXPORT void tell_acquire(const void* place) noexcept;

/// What spolia::atomic asks of std::atomic<T>, told. Helgrind is told of more than is so: of a
/// release before its store is done, and of one that a compare-and-swap did not do after all. So a
/// race may be missed, and none is made up.
template <class T>
class told_atomic {
  using order = std::memory_order;

 public:
  static constexpr bool is_always_lock_free = std::atomic<T>::is_always_lock_free;

  constexpr explicit told_atomic(T value) noexcept : value_(value) {}

  T load(order o) const noexcept {
    const T seen = value_.load(o);
    if (acquires(o)) tell_acquire(this);
    return seen;
  }
  void store(T v, order o) noexcept {
    if (releases(o)) tell_release(this);
    value_.store(v, o);
  }
  T exchange(T v, order o) noexcept {
    return told(o, [&] { return value_.exchange(v, o); });
  }
  bool compare_exchange_strong(T& expected, T v, order o, order on_failure) noexcept {
    return told(o, [&] { return value_.compare_exchange_strong(expected, v, o, on_failure); });
  }
  bool compare_exchange_weak(T& expected, T v, order o, order on_failure) noexcept {
    return told(o, [&] { return value_.compare_exchange_weak(expected, v, o, on_failure); });
  }
  T fetch_add(T v, order o) noexcept
    requires(std::integral<T>)
  {
    return told(o, [&] { return value_.fetch_add(v, o); });
  }
  T fetch_sub(T v, order o) noexcept
    requires(std::integral<T>)
  {
    return told(o, [&] { return value_.fetch_sub(v, o); });
  }
  T fetch_or(T v, order o) noexcept
    requires(std::integral<T>)
  {
    return told(o, [&] { return value_.fetch_or(v, o); });
  }
  T fetch_and(T v, order o) noexcept
    requires(std::integral<T>)
  {
    return told(o, [&] { return value_.fetch_and(v, o); });
  }

 private:
  static constexpr bool acquires(order o) noexcept {
    return o == order::acquire || o == order::acq_rel || o == order::seq_cst;
  }
  static constexpr bool releases(order o) noexcept {
    return o == order::release || o == order::acq_rel || o == order::seq_cst;
  }
  template <class F>
  auto told(order o, const F& change) noexcept {
    if (releases(o)) tell_release(this);
    const auto result = change();
    if (acquires(o)) tell_acquire(this);
    return result;
  }

  std::atomic<T> value_;
};

}  // namespace spolia::core::inline SPOLIA_OF_VERSION
