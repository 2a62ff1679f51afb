// SPDX-License-Identifier: Apache-2.0
// names.hpp: what a scan has found: lists of the blocks that pins name, and a table of all of them.
//
// Errors:      functions that need memory and get none return false.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/counted/detail/word.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

/// An array that grows and keeps its memory.
template <class T>
class kept_array {
 public:
  kept_array() = default;
  kept_array(const kept_array&) = delete;
  kept_array& operator=(const kept_array&) = delete;
  ~kept_array() { drop(); }

  /// Room for n, made anew if that is more than before.
  [[nodiscard]] bool reserve(std::size_t n, std::size_t keep) noexcept {
    if (n <= capacity_) return true;
    try {
      void* const raw = memory::allocate(n * sizeof(T), alignof(T));
      T* const more = ::new (raw) T[n]();
      if constexpr (std::is_copy_assignable_v<T>) {
        for (std::size_t i = 0; i < keep; ++i) more[i] = at_[i];
      }
      drop();
      at_ = more;
      capacity_ = n;
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  T& operator[](std::size_t i) noexcept { return at_[i]; }
  const T& operator[](std::size_t i) const noexcept { return at_[i]; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  /// A fork may have caught it while it grew.
  void forget() noexcept {
    at_ = nullptr;
    capacity_ = 0;
  }

 private:
  void drop() noexcept { memory::deallocate(at_, capacity_ * sizeof(T), alignof(T)); }

  T* at_ = nullptr;
  std::size_t capacity_ = 0;
};

/// What one thread's pins name.
class name_list {
 public:
  void clear() noexcept { size_ = 0; }
  [[nodiscard]] bool add(name c) noexcept {
    if (!names_.reserve(size_ < names_.capacity() ? size_ + 1 : 2 * size_ + 8, size_)) return false;
    names_[size_++] = c;
    return true;
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  name operator[](std::size_t i) const noexcept { return names_[i]; }
  void forget() noexcept {
    names_.forget();
    size_ = 0;
  }

 private:
  kept_array<name> names_;
  std::size_t size_ = 0;
};

/// The set of all names: hashed, with open addresses, at most half full. Built by one thread; then
/// any number may look.
class name_table {
 public:
  [[nodiscard]] bool start(std::size_t names) noexcept {
    used_ = names == 0 ? 0 : std::bit_ceil(2 * names);
    if (!slots_.reserve(used_, 0) || !kept_.reserve(used_, 0)) return false;
    for (std::size_t i = 0; i < used_; ++i) {
      slots_[i] = 0;
      kept_[i].store_relaxed(0);
    }
    return true;
  }

  void add(name c) noexcept {
    std::size_t i = home_of(c);
    while (slots_[i] != 0 && slots_[i] != c) i = (i + 1) & (used_ - 1);
    slots_[i] = c;
  }

  /// Where the name stands, or absent.
  [[nodiscard]] std::size_t find(name c) const noexcept {
    if (used_ == 0) return absent;
    for (std::size_t i = home_of(c); slots_[i] != 0; i = (i + 1) & (used_ - 1)) {
      if (slots_[i] == c) return i;
    }
    return absent;
  }

  /// True for the first caller of all, for each name and each bit `kind`.
  [[nodiscard]] bool first(std::size_t i, std::uint32_t kind) noexcept {
    // relaxed: it only chooses one of several units, and all are kept or dropped in this sweep.
    return (kept_[i].fetch_or_relaxed(kind) & kind) == 0;
  }

  void forget() noexcept {
    slots_.forget();
    kept_.forget();
    used_ = 0;
  }

  static constexpr std::size_t absent = ~std::size_t{0};

 private:
  [[nodiscard]] std::size_t home_of(name c) const noexcept {
    const name bits = c >> 4U;
    return (bits ^ (bits >> 9U) ^ (bits >> 17U)) & (used_ - 1);
  }

  using flag = atomic<std::uint32_t>;

  kept_array<name> slots_;
  kept_array<flag> kept_;
  std::size_t used_ = 0;
};

}  // namespace counted::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
