// SPDX-License-Identifier: Apache-2.0
/// \file
/// The order, the hash and the equality of keys that maps use unless told otherwise:
///
///     default_order<Key>     std::less<Key>, and for floating-point keys a total order
///     default_hash<Key>      std::hash<Key>
///     default_equal<Key>     std::equal_to<Key>
///     string_hash            of text, whatever type it has
///
/// Floating-point keys (float, double, long double, and what else the compiler calls so and is
/// binary): NaN is one key, whatever its sign and payload, and is above all others, infinity among
/// them. -0 is 0. All else is ordered as by `<`.
///
/// Reason:      with `<` and `==` a NaN is neither below nor above nor equal to anything, so it is
///              nowhere in a map, and keys beside it are lost.
/// How:         by the bits, as integers. So the answers are the same with -ffast-math and -Ofast,
///              where a compiler may take x != x for false, and in threads whose processor takes
///              small numbers for 0.
/// Cost:        some five instructions for each key that is looked at; in an abtree of float or
///              double once for each operation, and once for each key that a scan shows. Other
///              keys: nothing.
/// Keys of other types: where the comparison says `is_transparent`, as std::less<> does, and in a
/// hash map the hash and the equality (counted_hash has none and asks ==), find, contains, visit,
/// erase, updates by the value, what finds a pair by its place in the order, and the ends of ranges
/// take what these can compare with a key, and no key is made of it:
///
///     spolia::abtree<std::string, int, spolia::domain<>, std::less<>> ages;
///     ages.find(std::string_view("Ada"));
///
/// It must be ordered among the keys, and hashed, as a key would be that is equivalent to it. Where
/// a map does not take it, the compiler says so in one sentence. What is put in is a key always;
/// of what upsert and get_or_insert are given a key is made where it is absent, and by the other
/// updates none. find_all takes keys, and a range of a
/// snapshot_tree makes keys of its ends, which it keeps. Numbers are compared as they are, but
/// those that std::less<> or std::greater<> would turn into the map's type anyway, which is done at
/// once.
///
/// A comparison, hash or equality of the user's own that is named instead is used as it is; what
/// maps promise if it is not consistent is said in map/concepts.hpp.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string_view>
#include <type_traits>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// Tells the constructor of an ordered map that the keys it is given ascend, and none comes twice.
struct sorted_unique_t {
  explicit sorted_unique_t() = default;
};
inline constexpr sorted_unique_t sorted_unique{};

/// A hash of text that takes a std::string, a std::string_view and a literal alike, as the map's
/// key and as one of another type: with std::equal_to<>, where the map takes an equality.
struct string_hash {
  using is_transparent = void;
  [[nodiscard]] std::size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>()(text);
  }
};

namespace detail::map {

template <std::size_t Bytes>
struct word_of_bytes {
  __extension__ using type = unsigned __int128;
};
template <>
struct word_of_bytes<2> {
  using type = std::uint16_t;
};
template <>
struct word_of_bytes<4> {
  using type = std::uint32_t;
};
template <>
struct word_of_bytes<8> {
  using type = std::uint64_t;
};

/// How a floating-point type is laid out; `known` if it is in a way that float_rank can read.
template <class T, bool = std::is_floating_point_v<T>>
struct float_layout {
  static constexpr bool known = false;
};
template <class T>
struct float_layout<T, true> {
  static constexpr int digits = std::numeric_limits<T>::digits;
  /// The 80 bits of x87: the first bit of the mantissa is stored, and there is padding.
  static constexpr bool extended = digits == 64 && sizeof(T) > 8;
  /// Two doubles, the second of which is added to the first.
  static constexpr bool pair = digits == 106 && sizeof(T) == 16;
  static constexpr bool plain = digits == 8 || digits == 11 || digits == 24 || digits == 53 ||
                                (digits == 113 && sizeof(T) == 16);
  static constexpr bool known = std::numeric_limits<T>::radix == 2 && (extended || pair || plain);
  using word = typename word_of_bytes<sizeof(T)>::type;
};

/// The bits of a plain one. (From a reference: with -ffast-math clang takes it that no function is
/// given a NaN by value.)
template <class T>
using float_word = typename float_layout<T>::word;

template <class T>
inline constexpr auto sign_bit =
    static_cast<float_word<T>>(float_word<T>{1} << (sizeof(T) * 8 - 1));
template <class T>
inline constexpr auto infinity_bits =
    static_cast<float_word<T>>(float_word<T>(sign_bit<T> - 1) >>
                               (float_layout<T>::digits - 1) << (float_layout<T>::digits - 1));

/// A number whose order is that of the keys.
template <class T>
SPOLIA_ALWAYS_INLINE float_word<T> float_rank(const T& x) noexcept {
  using word = float_word<T>;
  if constexpr (float_layout<T>::extended) {
    std::uint64_t mantissa = 0;
    std::uint16_t top = 0;
    std::memcpy(&mantissa, &x, sizeof mantissa);
    std::memcpy(&top, reinterpret_cast<const char*>(&x) + sizeof mantissa, sizeof top);
    constexpr word middle = word{1} << 80U;
    const word size = word{top & 0x7FFFU} << 64U | mantissa;
    if ((top & 0x7FFFU) == 0x7FFF && mantissa << 1U != 0) return middle << 1U;
    return (top >> 15U) != 0 ? middle - size : middle + size;
  } else if constexpr (float_layout<T>::pair) {
    double part[2];
    std::memcpy(part, &x, sizeof part);
    const std::uint64_t high = float_rank(part[0]);
    // What is added to 0 or to a NaN is of no account.
    const bool alone = high == float_rank(0.0) || high == ~std::uint64_t{0};
    return word{high} << 64U | (alone ? 0 : float_rank(part[1]));
  } else {
    const auto bits = std::bit_cast<word>(x);
    const auto size = static_cast<word>(bits & word(sign_bit<T> - 1));
    if (size > infinity_bits<T>) return static_cast<word>(~word{0});
    return static_cast<word>(bits != size ? sign_bit<T> - size : sign_bit<T> + size);
  }
}

/// Puts the key of that rank into `to`: NaN with the canonical bits, 0 without a sign. (Not as a
/// result: with -ffast-math clang takes it that no function gives back a NaN.)
template <class T>
  requires(float_layout<T>::plain)
SPOLIA_ALWAYS_INLINE void float_of_rank(float_word<T> rank, T& to) noexcept {
  using word = float_word<T>;
  constexpr word canonical_nan = infinity_bits<T> | word{1} << (float_layout<T>::digits - 2);
  word bits = canonical_nan;
  if (rank != static_cast<word>(~word{0})) {
    bits = static_cast<word>(rank >= sign_bit<T> ? rank - sign_bit<T>
                                                 : word(sign_bit<T> - rank) | sign_bit<T>);
  }
  std::memcpy(&to, &bits, sizeof to);
}

template <class T>
struct float_order {
  SPOLIA_ALWAYS_INLINE bool operator()(const T& a, const T& b) const noexcept {
    return float_rank(a) < float_rank(b);
  }
};
template <class T>
struct float_equal {
  SPOLIA_ALWAYS_INLINE bool operator()(const T& a, const T& b) const noexcept {
    return float_rank(a) == float_rank(b);
  }
};
template <class T>
struct float_hash {
  std::size_t operator()(const T& x) const noexcept {
    const auto rank = float_rank(x);
    auto h = static_cast<std::uint64_t>(rank);
    if constexpr (sizeof rank > sizeof h) h ^= static_cast<std::uint64_t>(rank >> 64U);
    // Numbers that people use differ in their upper bits, tables go by the lower ones.
    h = (h ^ h >> 32U) * 0x9E3779B97F4A7C15U;
    return h ^ h >> 32U;
  }
};

}  // namespace detail::map

template <class Key>
using default_order = std::conditional_t<detail::map::float_layout<Key>::known,
                                         detail::map::float_order<Key>, std::less<Key>>;
template <class Key>
using default_hash = std::conditional_t<detail::map::float_layout<Key>::known,
                                        detail::map::float_hash<Key>, std::hash<Key>>;
template <class Key>
using default_equal = std::conditional_t<detail::map::float_layout<Key>::known,
                                         detail::map::float_equal<Key>, std::equal_to<Key>>;

}  // namespace spolia::inline SPOLIA_FLAVOUR
