// SPDX-License-Identifier: Apache-2.0
// source.hpp: where a guard may read pointers from: spolia::atomic or std::atomic of a raw pointer,
// or of a small class with `address()` (a pointer that carries marks in its low bits).
#pragma once

#include <atomic>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class S>
struct source_traits;

template <class P>
struct source_traits<atomic<P>> {
  using value = P;
  static P load_relaxed(const atomic<P>& s) noexcept { return s.load_relaxed(); }
  // acquire ← the release that published the pointer: the reader sees the block constructed.
  static P load_acquire(const atomic<P>& s) noexcept { return s.load_acquire(); }
};

#if !defined(SPOLIA_MODEL)
template <class P>
struct source_traits<std::atomic<P>> {
  using value = P;
  static P load_relaxed(const std::atomic<P>& s) noexcept {
    return s.load(std::memory_order_relaxed);
  }
  // acquire ← the release that published the pointer: the reader sees the block constructed.
  static P load_acquire(const std::atomic<P>& s) noexcept {
    return s.load(std::memory_order_acquire);
  }
};
#endif

/// What users of the standard faces have, spelled so that T can be deduced.
template <class T>
using standard_atomic = std::atomic<T>;

/// What a guard reads from `S`.
template <class S>
using source_value = typename source_traits<S>::value;

/// The bare address in a pointer that may carry marks.
template <class T>
const void* bare_address(T* p) noexcept {
  return p;
}
template <class P>
  requires requires(const P& p) { p.address(); }
const void* bare_address(const P& p) noexcept {
  return p.address();
}

}  // namespace spolia::inline SPOLIA_FLAVOUR
