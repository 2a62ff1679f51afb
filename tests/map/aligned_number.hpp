// SPDX-License-Identifier: Apache-2.0
/// \file
/// A number that lies as its type says, or is counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace spolia::test {

/// Counts the objects that do not lie as their type says.
inline int misplaced = 0;

template <std::size_t Alignment>
class alignas(Alignment) aligned_number {
 public:
  explicit aligned_number(std::uint64_t n) noexcept : value(n) { look(); }
  aligned_number(const aligned_number& other) noexcept : value(other.value) { look(); }
  aligned_number& operator=(const aligned_number& other) noexcept {
    value = other.value;
    look();
    return *this;
  }
  ~aligned_number() { look(); }

  friend bool operator<(const aligned_number& a, const aligned_number& b) noexcept {
    return a.value < b.value;
  }
  friend bool operator==(const aligned_number& a, const aligned_number& b) noexcept {
    return a.value == b.value;
  }

  std::uint64_t value;

 private:
  void look() const noexcept {
    // volatile: the compiler takes it for known where the object lies.
    const volatile auto at = reinterpret_cast<std::uintptr_t>(this);
    if (at % Alignment != 0) ++misplaced;
  }
};

}  // namespace spolia::test

template <std::size_t Alignment>
struct std::hash<spolia::test::aligned_number<Alignment>> {
  std::size_t operator()(const spolia::test::aligned_number<Alignment>& n) const noexcept {
    return n.value % 5;
  }
};
