// SPDX-License-Identifier: Apache-2.0
/// \file
/// The atomics that all algorithms here use. The memory order is part of each operation's name and
/// nothing has a default, so that an order is always a decision and can be found with grep.
///
/// spolia::atomic<T> is std::atomic<T> in a thin coat; in the model build variant it belongs to the
/// model checker. spolia::plain<T> is ordinary data that the checker watches for races, and costs
/// nothing elsewhere. Neither can be copied or moved.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#if defined(SPOLIA_MODEL)
#include <spolia/model/cells.hpp>
#elif SPOLIA_VALGRIND
#include <spolia/base/told_atomic.hpp>
#endif

namespace spolia::inline SPOLIA_FLAVOUR {

/// An atomic object of a trivially copyable T of at most 8 bytes: integers, bool, enumerations,
/// pointers, small structs without padding. All operations are lock-free and noexcept.
///
/// A compare-and-swap that fails loads with the strongest order that its success order implies for
/// a load: relaxed, acquire, relaxed (for release), acquire (for acq_rel), seq_cst. On failure it
/// writes what it saw to `expected`. The weak form may fail although the values are equal.
template <class T>
class atomic {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
#if defined(SPOLIA_MODEL)
  using backend = model::atomic_value<T>;
#else
#if SPOLIA_VALGRIND
  using backend = core::told_atomic<T>;
#else
  using backend = std::atomic<T>;
#endif
  // Where the compiler has no instruction for one byte or two (g++ before 13 for RISC-V), it calls
  // libatomic, which swaps the word around them: lock-free, though the compiler cannot know it.
  static_assert(backend::is_always_lock_free ||
                (sizeof(T) < sizeof(int) && std::atomic<int>::is_always_lock_free));
#endif
  using order = std::memory_order;

 public:
  using value_type = T;

  constexpr atomic() noexcept : value_(T{}) {}
  constexpr explicit atomic(T value) noexcept : value_(value) {}
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;

  SPOLIA_ALWAYS_INLINE T load_relaxed() const noexcept { return value_.load(order::relaxed); }
  SPOLIA_ALWAYS_INLINE T load_acquire() const noexcept { return value_.load(order::acquire); }
  SPOLIA_ALWAYS_INLINE T load_seq_cst() const noexcept { return value_.load(order::seq_cst); }

  SPOLIA_ALWAYS_INLINE void store_relaxed(T v) noexcept { value_.store(v, order::relaxed); }
  SPOLIA_ALWAYS_INLINE void store_release(T v) noexcept { value_.store(v, order::release); }
  SPOLIA_ALWAYS_INLINE void store_seq_cst(T v) noexcept { value_.store(v, order::seq_cst); }

// exchange_relaxed, cas_strong_relaxed, cas_weak_relaxed, fetch_add_relaxed, ...; and so on for the
// other orders. `on_failure` is the order of a compare-and-swap that fails.
#define SPOLIA_ATOMIC_RMW(name, on_failure)                                                        \
  SPOLIA_ALWAYS_INLINE T exchange_##name(T v) noexcept { return value_.exchange(v, order::name); } \
  SPOLIA_ALWAYS_INLINE bool cas_strong_##name(T& expected, T desired) noexcept {                   \
    static_assert(comparable);                                                                     \
    return value_.compare_exchange_strong(expected, desired, order::name, order::on_failure);      \
  }                                                                                                \
  SPOLIA_ALWAYS_INLINE bool cas_weak_##name(T& expected, T desired) noexcept {                     \
    static_assert(comparable);                                                                     \
    return value_.compare_exchange_weak(expected, desired, order::name, order::on_failure);        \
  }                                                                                                \
  SPOLIA_ATOMIC_FETCH(add, name)                                                                   \
  SPOLIA_ATOMIC_FETCH(sub, name)                                                                   \
  SPOLIA_ATOMIC_FETCH(or, name)                                                                    \
  SPOLIA_ATOMIC_FETCH(and, name)
#define SPOLIA_ATOMIC_FETCH(what, name)                      \
  SPOLIA_ALWAYS_INLINE T fetch_##what##_##name(T v) noexcept \
    requires(std::integral<T> && !std::same_as<T, bool>)     \
  {                                                          \
    return value_.fetch_##what(v, order::name);              \
  }

  SPOLIA_ATOMIC_RMW(relaxed, relaxed)
  SPOLIA_ATOMIC_RMW(acquire, acquire)
  SPOLIA_ATOMIC_RMW(release, relaxed)
  SPOLIA_ATOMIC_RMW(acq_rel, acquire)
  SPOLIA_ATOMIC_RMW(seq_cst, seq_cst)

#undef SPOLIA_ATOMIC_FETCH
#undef SPOLIA_ATOMIC_RMW

 private:
  // Compare-and-swap compares bytes, so padding would make it fail forever.
  static constexpr bool comparable =
      std::has_unique_object_representations_v<T> || std::is_floating_point_v<T>;

  backend value_;
};

/// Ordinary data that several threads may touch if something else orders their accesses. The model
/// checker reports two unordered accesses of which one is a write. Just a T elsewhere.
template <class T>
class plain {
 public:
  using value_type = T;

  constexpr plain() noexcept(std::is_nothrow_default_constructible_v<T>) : value_() {}
  constexpr explicit plain(T value) noexcept(std::is_nothrow_move_constructible_v<T>)
      : value_(std::move(value)) {}
  plain(const plain&) = delete;
  plain& operator=(const plain&) = delete;

  [[nodiscard]] SPOLIA_ALWAYS_INLINE constexpr T read() const
      noexcept(std::is_nothrow_copy_constructible_v<T>) {
#if defined(SPOLIA_MODEL)
    watch_.before_read(this);
#endif
    return value_;
  }

  SPOLIA_ALWAYS_INLINE constexpr void write(T value) noexcept(
      std::is_nothrow_move_assignable_v<T>) {
#if defined(SPOLIA_MODEL)
    watch_.before_write(this);
#endif
    value_ = std::move(value);
  }

 private:
  T value_;
#if defined(SPOLIA_MODEL)
  model::watched_plain watch_;
#endif
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
