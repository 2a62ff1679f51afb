// SPDX-License-Identifier: Apache-2.0
/// \file
/// The model build variant's stand-in for std::atomic<T>, and the watcher inside spolia::plain<T>.
#pragma once

#include <bit>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include <spolia/model/hooks.hpp>

namespace spolia::model {

/// Has the members of std::atomic<T> that spolia::atomic<T> uses.
template <class T>
class atomic_value {
 public:
  constexpr explicit atomic_value(T value) noexcept : cell_{encode(value), {}} {
    if (!std::is_constant_evaluated()) born(cell_.engine);
  }
  atomic_value(const atomic_value&) = delete;
  atomic_value& operator=(const atomic_value&) = delete;

  T load(std::memory_order order) const noexcept { return decode(model::load(cell_, order)); }
  void store(T value, std::memory_order order) noexcept {
    model::store(cell_, encode(value), order);
  }
  T exchange(T value, std::memory_order order) noexcept {
    return decode(model::exchange(cell_, encode(value), order));
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order success,
                               std::memory_order failure) noexcept {
    return compare_exchange(expected, desired, success, failure, false);
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order success,
                             std::memory_order failure) noexcept {
    return compare_exchange(expected, desired, success, failure, true);
  }
  T fetch_add(T operand, std::memory_order order) noexcept {
    return fetch(arithmetic::add, operand, order);
  }
  T fetch_sub(T operand, std::memory_order order) noexcept {
    return fetch(arithmetic::sub, operand, order);
  }
  T fetch_or(T operand, std::memory_order order) noexcept {
    return fetch(arithmetic::bit_or, operand, order);
  }
  T fetch_and(T operand, std::memory_order order) noexcept {
    return fetch(arithmetic::bit_and, operand, order);
  }

 private:
  static constexpr std::uint64_t mask = ~std::uint64_t{0} >> (64 - 8 * sizeof(T));

  static constexpr std::uint64_t encode(T value) noexcept {
    if (std::is_constant_evaluated()) return encode_constant(value);
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    return bits;
  }

  // A constant's bytes cannot be looked at if they are a pointer. Null works; for a global that
  // starts with another address, the abort makes the compiler initialise it at run time.
  static constexpr std::uint64_t encode_constant(T value) noexcept {
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      return static_cast<std::uint64_t>(value) & mask;
    } else if constexpr (std::is_pointer_v<T>) {
      if (value != nullptr) std::abort();
      return 0;
    } else {
      struct bytes {
        unsigned char at[sizeof(T)];
      };
      const auto raw = std::bit_cast<bytes>(value);
      std::uint64_t bits = 0;
      for (std::size_t i = 0; i < sizeof(T); ++i) bits |= std::uint64_t{raw.at[i]} << (8 * i);
      return bits;
    }
  }

  static T decode(std::uint64_t bits) noexcept {
    alignas(T) unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, &bits, sizeof(T));
    T value;
    std::memcpy(static_cast<void*>(&value), bytes, sizeof(T));
    return value;
  }

  bool compare_exchange(T& expected, T desired, std::memory_order success,
                        std::memory_order failure, bool weak) noexcept {
    std::uint64_t seen = encode(expected);
    const bool swapped =
        model::compare_exchange(cell_, seen, encode(desired), success, failure, weak);
    if (!swapped) expected = decode(seen);
    return swapped;
  }

  T fetch(arithmetic what, T operand, std::memory_order order) noexcept {
    return decode(model::fetch(cell_, what, encode(operand), mask, order));
  }

  atomic_cell cell_;
};

/// Lives beside the value in spolia::plain<T>.
class watched_plain {
 public:
  constexpr watched_plain() noexcept {
    if (!std::is_constant_evaluated()) born(engine_);
  }

  constexpr void before_read(const void* address) const noexcept {
    if (!std::is_constant_evaluated()) plain_read(engine_, address);
  }
  constexpr void before_write(const void* address) noexcept {
    if (!std::is_constant_evaluated()) plain_write(engine_, address);
  }

 private:
  mutable tie engine_{};
};

}  // namespace spolia::model
