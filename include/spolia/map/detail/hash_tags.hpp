// SPDX-License-Identifier: Apache-2.0
// hash_tags.hpp: a byte of the hash of each pair in a bucket. Who looks for a key compares all of
// them at once: a pair that is not meant is not looked at, nor is the cache line fetched in which
// it lies, and no branch depends on where the pair is.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

class hash_tags {
 public:
  /// Of so many pairs: the first ones.
  static constexpr std::size_t most = 12;

  /// There was no pair at this place, and now there is one with that hash.
  void put(std::size_t at, std::uint64_t hash) noexcept {
    const std::uint64_t tag = of(hash);
    if (at < 8) {
      set(low() | tag << (at * 8), high());
    } else if (at < most) {
      set(low(), high() | tag << (at * 8 - 64));
    }
  }
  /// The pair at this place, one of the first, is no more, and those behind it move up.
  void take_out(std::size_t at) noexcept {
    if (at < 8) {
      set(without(low(), at) | high() << 56U, high() >> 8U);
    } else {
      set(low(), without(high(), at - 8));
    }
  }

  /// Those places whose pairs may have a hash, in ascending order.
  class places {
   public:
    [[nodiscard]] bool empty() const noexcept { return bits_ == 0; }
    [[nodiscard]] std::size_t first() const noexcept {
      return static_cast<std::size_t>(std::countr_zero(bits_));
    }
    void drop_first() noexcept { bits_ &= bits_ - 1; }

   private:
    friend class hash_tags;
    explicit places(std::uint32_t bits) noexcept : bits_(bits) {}
    std::uint32_t bits_;
  };
  /// No pair at another place has that hash.
  [[nodiscard]] places like(std::uint64_t hash) const noexcept {
#if defined(__SSE2__)
    const __m128i tags =
        _mm_unpacklo_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(words_.data())),
                           _mm_cvtsi32_si128(static_cast<int>(words_[2])));
    const __m128i same = _mm_cmpeq_epi8(tags, _mm_set1_epi8(static_cast<char>(of(hash))));
    return places(static_cast<std::uint32_t>(_mm_movemask_epi8(same)));
#else
    const std::uint64_t wanted = of(hash) * each;
    return places(zeros(low() ^ wanted) | zeros(high() ^ wanted) << 8U);
#endif
  }

 private:
  static constexpr std::uint64_t each = 0x0101010101010101;

  /// Buckets go by the lower bits. Not 0, which is where there is no pair.
  static constexpr std::uint64_t of(std::uint64_t hash) noexcept {
    const std::uint64_t tag = hash >> 56U;
    return tag + (tag == 0 ? 1 : 0);
  }
  [[nodiscard]] std::uint64_t low() const noexcept {
    return words_[0] | std::uint64_t{words_[1]} << 32U;
  }
  [[nodiscard]] std::uint64_t high() const noexcept { return words_[2]; }
  void set(std::uint64_t low, std::uint64_t high) noexcept {
    words_ = {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32U),
              static_cast<std::uint32_t>(high)};
  }
  static constexpr std::uint64_t without(std::uint64_t tags, std::size_t at) noexcept {
    const std::uint64_t below = (std::uint64_t{1} << (at * 8)) - 1;
    return (tags & below) | (tags >> 8U & ~below);
  }
  /// Bit i: byte i is 0.
  [[maybe_unused]] static constexpr std::uint32_t zeros(std::uint64_t bytes) noexcept {
    const std::uint64_t low_bits = 0x7F * each;
    const std::uint64_t tops = ~(((bytes & low_bits) + low_bits) | bytes | low_bits);
    // The product has the top bit of byte i as its bit 56 + i.
    return static_cast<std::uint32_t>((tops >> 7U) * 0x0102040810204080 >> 56U);
  }

  std::array<std::uint32_t, most / 4> words_{};  // 12 bytes, not 16
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
