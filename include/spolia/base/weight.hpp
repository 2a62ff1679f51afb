// SPDX-License-Identifier: Apache-2.0
/// \file
/// What an object weighs: the bytes that it owns beyond its own size. Whatever waits to be freed is
/// counted with them: in `garbage_bytes`, budgets, accounts, and the pace at which memory is freed.
///
///     weight_of<T>          how a T is weighed; see below for what needs no word
///     weigh(a, b, ...)      what these own together
///     weight{n}             says so to `guard.retire(p, weight{n})`, for this block alone
///
/// Known are strings, vectors, deques, lists, sets, maps and hash tables of the standard library
/// and what has their members, std::array, pairs, tuples, optionals, and smart pointers; all with
/// what their elements own. Of what several std::shared_ptr share each has its part; of an array
/// behind a smart pointer it is not known how long it is, and it weighs nothing. What can be copied
/// as bytes weighs nothing, too, and so does every other class unless it says more: by a member,
///
///     struct image {
///       std::vector<char> pixels;
///       std::string name;
///       std::size_t owned_bytes() const noexcept { return spolia::weigh(pixels, name); }
///     };
///
/// or, for a class that you cannot change, by a specialization:
///
///     template <>
///     struct spolia::weight_of<other_image> {
///       static std::size_t bytes(const other_image& i) noexcept { return i.size(); }
///     };
///
/// A member owned_bytes() of another form is refused: it would be passed over.
///
/// Where:       domains and the containers over them, hazard pointers, RCU, counted pointers,
///              snapshot maps and read-log-update use it.
/// Bound:       large blocks, which own 256 bytes or are 1024 bytes themselves, are looked after
///              whenever a thread has given up 1 MiB of them, or a quarter of that through counted
///              pointers. So while no thread is kept from running in the middle of an operation,
///              each thread's waiting blocks are about 1 MiB, or the largest block, and what the
///              thread has at hand. If 4 MiB wait that an interrupted thread holds up, the others
///              give it their processors, for a few turns each time; what a thread holds up that
///              sleeps in a guard, a section or with a pin comes on top.
/// When:        an object is weighed once: when it was made and no other thread knows it, or when
///              it is retired. An object that is retired while other threads may still change it
///              must say a number that can be read then; or retire it with weight{n}.
/// Errors:      none. It is an estimate: nodes of standard containers are taken for what they hold
///              and two to four words; what an object behind a pointer to its base owns is what the
///              base says. What is kept for a block that waits is rounded up, by 16 bytes or a
///              sixteenth, whichever is more; 256 GiB is the most.
/// Cost:        as long as to destroy the object at most: each element that owns something is seen.
/// Thread safety: reads the object.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include <spolia/base/bits.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class T>
struct weight_of;

/// A number of bytes beyond an object's own size.
struct weight {
  std::size_t bytes = 0;
};

namespace detail::weighing {
template <class T>
concept says_none = requires { requires weight_of<T>::none; };
}  // namespace detail::weighing

/// These own nothing, whatever their values are.
template <class... T>
inline constexpr bool weightless = (... && detail::weighing::says_none<T>);

/// What these own, beyond their own sizes.
template <class... T>
[[nodiscard]] std::size_t weigh(const T&... each) noexcept {
  return (std::size_t{0} + ... + weight_of<T>::bytes(each));
}

namespace detail::weighing {

/// Says what it owns, by a member that can be called where the object is weighed.
template <class T>
concept says_bytes = requires(const T& x) {
  { x.owned_bytes() } noexcept -> std::convertible_to<std::size_t>;
};
/// Has a member of that name that cannot be called there, or says something else.
template <class T>
concept says_bytes_wrongly =
    !says_bytes<T> && requires(std::remove_const_t<T>& x) { x.owned_bytes(); };

/// What can be told from the members that a class has.
enum class kind : std::uint8_t {
  nothing,   // owns nothing, as far as is known
  told,      // says it itself
  array,     // elements in one piece, some of which may be room
  bits,      // the same of single bits
  nodes,     // elements each in a piece of its own, or some together
  several,   // a pair, a tuple or an array
  optional,  // one or none
  owner,     // a pointer to one object of its own
  sharer,    // a pointer to one object that others may share
};

template <class T>
consteval kind kind_of() {
  static_assert(
      !says_bytes_wrongly<T>,
      "owned_bytes() must be `std::size_t owned_bytes() const noexcept`; for a class that "
      "you cannot change, specialize spolia::weight_of");
  if constexpr (says_bytes<T>) {
    return kind::told;
  } else if constexpr (std::is_trivially_copyable_v<T>) {
    return kind::nothing;
  } else if constexpr (requires(const T& x) {
                         typename T::allocator_type;
                         x.capacity();
                         x.begin();
                       }) {
    return requires(const T& x) { x.data(); } ? kind::array : kind::bits;
  } else if constexpr (requires(const T& x) {
                         typename T::allocator_type;
                         typename T::value_type;
                         x.begin() != x.end();
                       }) {
    return kind::nodes;
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    return kind::several;
  } else if constexpr (requires(const T& x) {
                         typename T::value_type;
                         x.has_value();
                         requires std::is_object_v<typename T::value_type>;
                         *x;
                       }) {
    return kind::optional;
  } else if constexpr (requires(const T& x) {
                         typename T::element_type;
                         x.use_count();
                         *x.get();
                         requires(!requires { x[0]; });  // not of an array
                       }) {
    return kind::sharer;
  } else if constexpr (requires(const T& x) {
                         typename T::element_type;
                         typename T::deleter_type;
                         *x;
                       }) {
    return kind::owner;
  } else {
    return kind::nothing;
  }
}

template <class T, std::size_t... At>
consteval bool are_weightless(std::index_sequence<At...>) {
  return weightless<std::remove_cv_t<std::tuple_element_t<At, T>>...>;
}

template <class T>
consteval bool owns_nothing() {
  constexpr kind is = kind_of<T>();
  if constexpr (is == kind::several && requires(const T& x) { x.begin(); }) {
    return weightless<typename T::value_type>;
  } else if constexpr (is == kind::several) {
    return are_weightless<T>(std::make_index_sequence<std::tuple_size_v<T>>());
  } else if constexpr (is == kind::optional) {
    return weightless<std::remove_cv_t<typename T::value_type>>;
  } else {
    return is == kind::nothing;
  }
}

/// What the elements own.
template <class T>
std::size_t of_elements(const T& all) noexcept {
  std::size_t sum = 0;
  if constexpr (!weightless<typename T::value_type>) {
    for (const auto& one : all) sum += weigh(one);
  }
  return sum;
}

/// Does it lie in the object itself, as short strings do?
template <class T>
bool lies_inside(const T& x, const void* at) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(&x);
  const auto there = reinterpret_cast<std::uintptr_t>(at);
  return there - first < sizeof(T);
}

/// The bytes of nodes without their elements. Nodes of a tree have three links and a color, those
/// of a list two, those of a hash table one and a hash.
template <class T>
std::size_t of_nodes(const T& all) noexcept {
  std::size_t count = 0;
  if constexpr (requires { all.size(); }) {
    count = all.size();
  } else {
    for (auto at = all.begin(); at != all.end(); ++at) ++count;
  }
  std::size_t each = sizeof(typename T::value_type);
  std::size_t besides = 0;
  if constexpr (requires { typename T::key_compare; }) {
    each += 4 * sizeof(void*);
  } else if constexpr (requires { all.bucket_count(); }) {
    each += 2 * sizeof(void*);
    besides = all.bucket_count() * sizeof(void*);
  } else if constexpr (!requires { all[0]; }) {  // else it is a deque
    each += 2 * sizeof(void*);
  }
  return count * each + besides;
}

template <class T, std::size_t... At>
std::size_t of_members(const T& x, std::index_sequence<At...>) noexcept {
  using std::get;
  return weigh(get<At>(x)...);
}

/// An object that is owned by a pointer.
template <class T>
std::size_t of_whole([[maybe_unused]] const T& x) noexcept {
  if constexpr (requires { sizeof(T); }) {
    return sizeof(T) + weigh(x);
  } else {
    return 0;
  }
}

template <class T>
std::size_t bytes([[maybe_unused]] const T& x) noexcept {
  constexpr kind is = kind_of<T>();
  if constexpr (is == kind::told) {
    return x.owned_bytes();
  } else if constexpr (is == kind::array) {
    const std::size_t room = lies_inside(x, x.data()) ? 0 : x.capacity();
    return room * sizeof(typename T::value_type) + of_elements(x);
  } else if constexpr (is == kind::bits) {
    return x.capacity() / 8;
  } else if constexpr (is == kind::nodes) {
    return of_nodes(x) + of_elements(x);
  } else if constexpr (is == kind::several) {
    if constexpr (requires { x.begin(); }) {
      return of_elements(x);
    } else {
      return of_members(x, std::make_index_sequence<std::tuple_size_v<T>>());
    }
  } else if constexpr (is == kind::optional) {
    return x.has_value() ? weigh(*x) : 0;
  } else if constexpr (is == kind::owner) {
    return x ? of_whole(*x) : 0;
  } else if constexpr (is == kind::sharer) {
    const auto all = static_cast<std::size_t>(x.use_count());
    return x.get() != nullptr && all != 0 ? of_whole(*x.get()) / all : 0;
  } else {
    return 0;
  }
}

// What is kept of a weight where there are a few bits for it.

inline constexpr std::size_t codes = 512;
/// The object owns nothing, but is large itself. More than any other code.
inline constexpr std::uint32_t large_code = codes - 1;
/// What is as large as this itself counts for more than one block.
inline constexpr std::size_t large_from = 1024;

/// 0: owns nothing. Rounded up; more bytes never have a smaller code.
constexpr std::uint32_t code_of(std::size_t bytes) noexcept {
  if (bytes == 0) return 0;
  constexpr std::size_t most = std::size_t{1} << 38U;
  const std::size_t x = ((std::min)(bytes, most) - 1) / 16;
  if (x < 32) return static_cast<std::uint32_t>(1 + x);
  const auto e = bit_length(x) - 5;
  return 1 + 16 + e * 16 + static_cast<std::uint32_t>(x >> e) - 16;
}
constexpr std::size_t bytes_of(std::uint32_t code) noexcept {
  if (code == 0 || code == large_code) return 0;
  const std::uint32_t x = code - 1;
  if (x < 32) return (std::size_t{x} + 1) * 16;
  const std::uint32_t e = (x - 16) / 16;
  return (std::size_t{x % 16 + 16} + 1) << e << 4U;
}
static_assert(code_of(std::size_t{1} << 63U) < large_code);

}  // namespace detail::weighing

template <class T>
struct weight_of {
  /// Only here: a specialization may weigh something.
  static constexpr bool none = detail::weighing::owns_nothing<T>();
  static std::size_t bytes(const T& x) noexcept { return detail::weighing::bytes(x); }
};
template <class T>
struct weight_of<const T> : weight_of<T> {};

}  // namespace spolia::inline SPOLIA_FLAVOUR
