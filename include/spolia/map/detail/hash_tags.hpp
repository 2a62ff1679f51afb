// SPDX-License-Identifier: Apache-2.0
// hash_tags.hpp: a byte of the hash of each pair in a bucket. A search for a key compares all of
// them at once: a pair that is not meant is not looked at, nor is the cache line fetched in which
// it lies, and no branch depends on where the pair is.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

class hash_tags {
 public:
  /// Of so many pairs: the first ones.
  static constexpr std::size_t most = 20;

  /// The pair at this place has that hash now.
  void put(std::size_t at, std::uint64_t hash) noexcept {
    if (at < most) bytes_[at] = of(hash);
  }
  /// Those of others, with a pair with that hash before them. (From others, since what was written
  /// a moment ago cannot be read at once shifted by a byte.)
  void put_first(const hash_tags& others, std::uint64_t hash) noexcept {
    std::memcpy(bytes_.data() + 1, others.bytes_.data(), most - 1);
    bytes_[0] = of(hash);
  }
  /// Those of all but the pair at this place: the others after it move up. The last tag is left as
  /// it was.
  void put_without(const hash_tags& all, std::size_t at) noexcept {
    // As many steps whatever `at` is, so that there are no branches.
    for (std::size_t i = 0; i + 1 < most; ++i) bytes_[i] = all.bytes_[i < at ? i : i + 1];
    bytes_[most - 1] = all.bytes_[most - 1];
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
  /// Of the first `count` pairs, `most` at most: none of the others among them has that hash.
  [[nodiscard]] places like(std::uint64_t hash, std::size_t count) const noexcept {
    const std::uint32_t there = (std::uint32_t{1} << count) - 1;
#if defined(__SSE2__)
    const __m128i wanted = _mm_set1_epi8(static_cast<char>(of(hash)));
    const __m128i front = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes_.data()));
    const __m128i back = _mm_cvtsi32_si128(static_cast<int>(word<std::uint32_t>(16)));
    const auto bits = [&](__m128i tags) {
      return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(tags, wanted)));
    };
    return places((bits(front) | bits(back) << 16U) & there);
#else
    const std::uint64_t wanted = of(hash) * each;
    return places((zeros(word<std::uint64_t>(0) ^ wanted) |
                   zeros(word<std::uint64_t>(8) ^ wanted) << 8U |
                   zeros(word<std::uint32_t>(16) ^ wanted) << 16U) &
                  there);
#endif
  }

 private:
  static constexpr std::uint64_t each = 0x0101010101010101;

  /// Buckets go by the lower bits.
  static constexpr std::uint8_t of(std::uint64_t hash) noexcept {
    return static_cast<std::uint8_t>(hash >> 56U);
  }
  /// The tags from this place on, the first in the lowest byte.
  template <class Word>
  [[nodiscard]] Word word(std::size_t from) const noexcept {
    Word w = 0;
    if constexpr (std::endian::native == std::endian::little) {
      std::memcpy(&w, bytes_.data() + from, sizeof w);
    } else {
      for (std::size_t i = 0; i < sizeof w; ++i) w |= Word{bytes_[from + i]} << (i * 8);
    }
    return w;
  }
  /// Bit i: byte i is 0.
  [[maybe_unused]] static constexpr std::uint32_t zeros(std::uint64_t bytes) noexcept {
    const std::uint64_t low_bits = 0x7F * each;
    const std::uint64_t tops = ~(((bytes & low_bits) + low_bits) | bytes | low_bits);
    // The product has the top bit of byte i as its bit 56 + i.
    return static_cast<std::uint32_t>((tops >> 7U) * 0x0102040810204080 >> 56U);
  }

  alignas(4) std::array<std::uint8_t, most> bytes_{};
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
