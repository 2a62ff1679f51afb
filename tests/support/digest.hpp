// SPDX-License-Identifier: Apache-2.0
/// \file
/// 128-bit digests and a set of them. A checker that remembers what it has tried by digest can be
/// fooled by a collision into skipping the one order that matters; with 128 bits, a search of 2^26
/// entries meets one with a probability below 2^-76.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace spolia::test {

/// The finaliser of the splitmix64 generator: a bijection in which each input bit reaches each
/// output bit.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

struct digest128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend constexpr bool operator==(const digest128&, const digest128&) = default;

  /// Of a set: exclusive or of its members' digests, so that members come and go in one step.
  constexpr digest128& operator^=(const digest128& other) noexcept {
    low ^= other.low;
    high ^= other.high;
    return *this;
  }
};

/// The two halves are bijections of `x` under unrelated constants.
[[nodiscard]] constexpr digest128 digest_of(std::uint64_t x) noexcept {
  return {mix64(x ^ 0x243f6a8885a308d3U), mix64(mix64(x) + 0x13198a2e03707344U)};
}

/// Order matters, unlike in operator^=.
[[nodiscard]] constexpr digest128 combine(const digest128& a, const digest128& b) noexcept {
  return {mix64(a.low + mix64(b.low)), mix64(a.high ^ (b.high * 0xa4093822299f31d1U))};
}

/// A set of digests with open addressing, made to be emptied and used again for the next key.
class digest_set {
 public:
  /// Empties the set; costs time in proportion to `expected`, not to what the set once held.
  void reset(std::size_t expected) {
    std::size_t slots = 16;
    while (slots < 2 * expected) slots *= 2;
    if (table_.size() < slots) table_.resize(slots);
    for (std::size_t i = 0; i < slots; ++i) table_[i] = {};
    mask_ = slots - 1;
    size_ = 0;
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// True if `d` was not in the set.
  bool insert(digest128 d) {
    if (d == digest128{}) d.low = 1;  // all zeros marks a free slot
    digest128& slot = place(d);
    if (slot == d) return false;
    slot = d;
    if (++size_ > mask_ / 2) grow();
    return true;
  }

 private:
  digest128& place(const digest128& d) noexcept {
    std::size_t i = d.low & mask_;
    while (!(table_[i] == digest128{}) && !(table_[i] == d)) i = (i + 1) & mask_;
    return table_[i];
  }

  void grow() {
    const std::size_t slots = 2 * (mask_ + 1);
    std::vector<digest128> old(table_.begin(),
                               table_.begin() + static_cast<std::ptrdiff_t>(mask_ + 1));
    table_.assign(table_.size() < slots ? slots : table_.size(), {});
    mask_ = slots - 1;
    for (const digest128& d : old) {
      if (!(d == digest128{})) place(d) = d;
    }
  }

  std::vector<digest128> table_ = std::vector<digest128>(16);
  std::size_t mask_ = 15;
  std::size_t size_ = 0;
};

}  // namespace spolia::test
