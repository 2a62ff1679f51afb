// SPDX-License-Identifier: Apache-2.0
// segment_table.hpp: where the buckets of split_ordered_hash.hpp begin: words by the buckets'
// numbers, of which there may be more at any time. None is ever moved.
//
// The first words lie in the table itself. Of the others, those whose numbers have as many bits lie
// together: in one segment, or where they are too many for it, in several, which are made when one
// of their words is set, and so is what leads to them. So no operation has to make more than a
// segment, and a pointer for each segment of one number of bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include <spolia/base/atomic.hpp>
#include <spolia/base/bits.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// Words that lead to a T, null at first.
template <class T>
class segment_table {
 public:
  static constexpr unsigned most_bits = 40;
  static constexpr std::size_t inside = 8;

  segment_table() = default;
  segment_table(const segment_table&) = delete;
  segment_table& operator=(const segment_table&) = delete;
  ~segment_table() {
    for (unsigned bits = first_bits; bits <= most_bits; ++bits) {
      const std::size_t n = segments_of(bits);
      if (n == 1) {
        end(small_[bits - first_bits].load_relaxed(), words_of(bits));
      } else if (segments* const all = large_[bits - large_bits].load_relaxed()) {
        for (std::size_t i = 0; i < n; ++i) end(all[i].load_relaxed(), segment_words);
        end(all, n);
      }
    }
  }

  /// What the word of this number was set to, or null.
  [[nodiscard]] T* get(std::uint64_t number) const noexcept {
    // acquire, here and below ← the release in set(): what it leads to is there.
    if (number < inside) return inside_[number].load_acquire();
    const unsigned bits = bit_length(number);
    const std::uint64_t at = number - (std::uint64_t{1} << (bits - 1));
    const word* words = nullptr;
    // acquire, all ← the release in made(): the words are there.
    if (bits < large_bits) {
      words = small_[bits - first_bits].load_acquire();
    } else if (const segments* const all = large_[bits - large_bits].load_acquire()) {
      words = all[at / segment_words].load_acquire();
    }
    // acquire: as the first.
    return words == nullptr ? nullptr : words[at % segment_words].load_acquire();
  }

  /// Throws std::bad_alloc.
  void set(std::uint64_t number, T* to) {
    // release → the acquire in get(): a thread that finds `to` there sees it as it was made.
    if (SPOLIA_FAULT("split_ordered.set_relaxed")) return word_of(number).store_relaxed(to);
    word_of(number).store_release(to);
  }

 private:
  using word = atomic<T*>;
  using segments = atomic<word*>;
  static constexpr unsigned first_bits = 4;
  static constexpr unsigned segment_bits = 12;
  static constexpr std::size_t segment_words = std::size_t{1} << segment_bits;
  /// From so many bits on there are several segments.
  static constexpr unsigned large_bits = segment_bits + 2;

  static constexpr std::size_t words_of(unsigned bits) noexcept {
    return std::size_t{1} << (bits - 1);
  }
  static constexpr std::size_t segments_of(unsigned bits) noexcept {
    return bits < large_bits ? 1 : words_of(bits) / segment_words;
  }

  word& word_of(std::uint64_t number) {
    if (number < inside) return inside_[number];
    const unsigned bits = bit_length(number);
    const std::uint64_t at = number - (std::uint64_t{1} << (bits - 1));
    if (bits < large_bits) return made(small_[bits - first_bits], words_of(bits))[at];
    segments* const all = made(large_[bits - large_bits], segments_of(bits));
    return made(all[at / segment_words], segment_words)[at % segment_words];
  }

  /// So many W, made by this thread or another.
  template <class W>
  static W* made(atomic<W*>& where, std::size_t n) {
    // acquire, here and in the exchange ← the release below: the words are there.
    if (W* const there = where.load_acquire()) return there;
    auto* const mine = static_cast<W*>(memory::allocate(n * sizeof(W), alignof(W)));
    std::uninitialized_default_construct_n(mine, n);
    W* there = nullptr;
    // release → the acquires above and in get().
    const bool first = SPOLIA_FAULT("split_ordered.segment_relaxed")
                           ? where.cas_strong_relaxed(there, mine)
                           : where.cas_strong_acq_rel(there, mine);
    if (first) return mine;
    end(mine, n);
    return there;
  }

  template <class W>
  static void end(W* words, std::size_t n) noexcept {
    if (words == nullptr) return;
    std::destroy_n(words, n);
    memory::deallocate(words, n * sizeof(W), alignof(W));
  }

  std::array<word, inside> inside_{};
  std::array<atomic<word*>, large_bits - first_bits> small_{};
  std::array<atomic<segments*>, most_bits - large_bits + 1> large_{};
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
