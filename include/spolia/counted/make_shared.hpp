// SPDX-License-Identifier: Apache-2.0
/// \file
/// make_shared, allocate_shared and their _for_overwrite forms, for objects and arrays: the object
/// and its counts in one allocation. An atomic location holds such an object without a further one.
///
/// Errors: what the allocator and the constructors throw; then nothing is left behind.
/// Another thread may destroy and give back an object that an atomic location has held, so its
/// allocator must be thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/counted/detail/blocks.hpp>
#include <spolia/counted/shared_ptr.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

template <class T>
using innermost = std::remove_cv_t<std::remove_all_extents_t<T>>;

/// How many innermost elements one element of the array T has.
template <class T>
inline constexpr std::size_t elements_each = sizeof(std::remove_extent_t<T>) / sizeof(innermost<T>);

template <class T, bool Overwrite, class M, class Begin>
shared_ptr<T> finish(M m, std::size_t n, Begin begin) {
  using block = together<innermost<T>, M, std::is_array_v<T>, Overwrite>;
  control* const c = block::make(std::move(m), n, begin);
  // For an array of arrays the first innermost element stands for the first element.
  auto* const first =
      reinterpret_cast<typename shared_ptr<T>::element_type*>(block::elements_of(c));
  if constexpr (!std::is_array_v<T>) {
    // Qualified: a look for these by the types that T is made of would complete all of them.
    counted::detail::tell_itself(first, c);
    counted::detail::tell_traced(first, c);
  }
  return access::make<shared_ptr<T>>(first, c);
}

template <class T, class M, class... Args>
shared_ptr<T> make_object(M m, Args&&... args) {
  return finish<T, false>(std::move(m), 1, [&](M& place, auto* at, std::size_t) {
    M::construct(place, at, std::forward<Args>(args)...);
  });
}
template <class T, class M>
shared_ptr<T> make_array(M m, std::size_t n) {
  return finish<T, false>(std::move(m), n,
                          [](M& place, auto* at, std::size_t) { M::construct(place, at); });
}
/// Each element of the array is a copy of `u`.
template <class T, class M>
shared_ptr<T> make_array(M m, std::size_t n, const std::remove_extent_t<T>& u) {
  const auto* const first = reinterpret_cast<const innermost<T>*>(std::addressof(u));
  return finish<T, false>(std::move(m), n, [first](M& place, auto* at, std::size_t i) {
    M::construct(place, at, first[i % elements_each<T>]);
  });
}
template <class T, class M>
shared_ptr<T> make_raw(M m, std::size_t n) {
  return finish<T, true>(std::move(m), n, [](M&, auto* at, std::size_t) {
    ::new (static_cast<void*>(at)) innermost<T>;
  });
}

template <class T>
inline constexpr std::size_t all_elements = sizeof(T) / sizeof(innermost<T>);

/// n elements of the array T, counted in innermost ones. Throws if that is more than there are.
template <class T>
std::size_t inner_count(std::size_t n) {
  if (n > std::size_t{PTRDIFF_MAX} / elements_each<T>) throw std::bad_array_new_length();
  return n * elements_each<T>;
}

}  // namespace counted::detail

template <class T, class... Args>
  requires(!std::is_array_v<T>)
shared_ptr<T> make_shared(Args&&... args) {
  return counted::detail::make_object<T>(counted::detail::own_memory{},
                                         std::forward<Args>(args)...);
}
template <class T>
  requires std::is_unbounded_array_v<T>
shared_ptr<T> make_shared(std::size_t n) {
  return counted::detail::make_array<T>(counted::detail::own_memory{},
                                        counted::detail::inner_count<T>(n));
}
template <class T>
  requires std::is_bounded_array_v<T>
shared_ptr<T> make_shared() {
  return counted::detail::make_array<T>(counted::detail::own_memory{},
                                        counted::detail::all_elements<T>);
}
template <class T>
  requires std::is_unbounded_array_v<T>
shared_ptr<T> make_shared(std::size_t n, const std::remove_extent_t<T>& u) {
  return counted::detail::make_array<T>(counted::detail::own_memory{},
                                        counted::detail::inner_count<T>(n), u);
}
template <class T>
  requires std::is_bounded_array_v<T>
shared_ptr<T> make_shared(const std::remove_extent_t<T>& u) {
  return counted::detail::make_array<T>(counted::detail::own_memory{},
                                        counted::detail::all_elements<T>, u);
}
template <class T>
  requires(!std::is_unbounded_array_v<T>)
shared_ptr<T> make_shared_for_overwrite() {
  return counted::detail::make_raw<T>(counted::detail::own_memory{},
                                      counted::detail::all_elements<T>);
}
template <class T>
  requires std::is_unbounded_array_v<T>
shared_ptr<T> make_shared_for_overwrite(std::size_t n) {
  return counted::detail::make_raw<T>(counted::detail::own_memory{},
                                      counted::detail::inner_count<T>(n));
}

template <class T, class A, class... Args>
  requires(!std::is_array_v<T>)
shared_ptr<T> allocate_shared(const A& a, Args&&... args) {
  return counted::detail::make_object<T>(counted::detail::users_memory<A>{a},
                                         std::forward<Args>(args)...);
}
template <class T, class A>
  requires std::is_unbounded_array_v<T>
shared_ptr<T> allocate_shared(const A& a, std::size_t n) {
  return counted::detail::make_array<T>(counted::detail::users_memory<A>{a},
                                        counted::detail::inner_count<T>(n));
}
template <class T, class A>
  requires std::is_bounded_array_v<T>
shared_ptr<T> allocate_shared(const A& a) {
  return counted::detail::make_array<T>(counted::detail::users_memory<A>{a},
                                        counted::detail::all_elements<T>);
}
template <class T, class A>
  requires std::is_unbounded_array_v<T>
shared_ptr<T> allocate_shared(const A& a, std::size_t n, const std::remove_extent_t<T>& u) {
  return counted::detail::make_array<T>(counted::detail::users_memory<A>{a},
                                        counted::detail::inner_count<T>(n), u);
}
template <class T, class A>
  requires std::is_bounded_array_v<T>
shared_ptr<T> allocate_shared(const A& a, const std::remove_extent_t<T>& u) {
  return counted::detail::make_array<T>(counted::detail::users_memory<A>{a},
                                        counted::detail::all_elements<T>, u);
}
template <class T, class A>
  requires(!std::is_unbounded_array_v<T>)
shared_ptr<T> allocate_shared_for_overwrite(const A& a) {
  return counted::detail::make_raw<T>(counted::detail::users_memory<A>{a},
                                      counted::detail::all_elements<T>);
}
template <class T, class A>
  requires std::is_unbounded_array_v<T>
shared_ptr<T> allocate_shared_for_overwrite(const A& a, std::size_t n) {
  return counted::detail::make_raw<T>(counted::detail::users_memory<A>{a},
                                      counted::detail::inner_count<T>(n));
}

}  // namespace spolia::inline SPOLIA_FLAVOUR
