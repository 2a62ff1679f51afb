// SPDX-License-Identifier: Apache-2.0
// marked_ptr.hpp: a pointer with one mark in its lowest bit, in one word, so that both change
// together.
#pragma once

#include <cstdint>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// A `T*` and a mark. T's alignment must be at least 2. An ordinary value; put it into an atomic to
/// share it. `address()` is what guards announce (source.hpp): the mark does not make it another
/// block.
template <class T>
class marked_ptr {
 public:
  constexpr marked_ptr() noexcept = default;
  explicit marked_ptr(T* p) noexcept : bits_(reinterpret_cast<std::uintptr_t>(p)) {}

  T* get() const noexcept { return reinterpret_cast<T*>(bits_ & ~mark); }
  /// get() for going on to the next node: no mask where there is no mark. Between two loads each
  /// instruction counts, and a branch that is predicted is not one of them.
  T* follow() const noexcept { return marked() ? get() : unmarked(); }
  /// The same where the caller knows that there is none.
  T* unmarked() const noexcept { return reinterpret_cast<T*>(bits_); }
  const void* address() const noexcept { return get(); }
  bool marked() const noexcept { return (bits_ & mark) != 0; }

  marked_ptr with_mark() const noexcept {
    marked_ptr p;
    p.bits_ = bits_ | mark;
    return p;
  }

  friend bool operator==(marked_ptr, marked_ptr) noexcept = default;

 private:
  static constexpr std::uintptr_t mark = 1;

  std::uintptr_t bits_ = 0;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
