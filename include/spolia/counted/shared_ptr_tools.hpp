// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the standard has beside shared_ptr and weak_ptr: comparisons, hashing and printing
/// (comparisons.hpp), casts, get_deleter, owner_less.
#pragma once

#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/counted/detail/comparisons.hpp>
#include <spolia/counted/detail/type_of.hpp>
#include <spolia/counted/shared_ptr.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// Null, as the standard library's, where RTTI is turned off.
template <class D, class T>
D* get_deleter(const shared_ptr<T>& p) noexcept {
  counted::detail::control* const c = counted::detail::access::owner_of(p);
  if (c == nullptr || c->ops().deleter == nullptr) return nullptr;
  return static_cast<D*>(c->ops().deleter(c, counted::detail::type_of<D>()));
}

#define SPOLIA_POINTER_CAST(name)                                                \
  template <class T, class U>                                                    \
  shared_ptr<T> name##_pointer_cast(const shared_ptr<U>& r) noexcept {           \
    return {r, name##_cast<typename shared_ptr<T>::element_type*>(r.get())};     \
  }                                                                              \
  template <class T, class U>                                                    \
  shared_ptr<T> name##_pointer_cast(shared_ptr<U>&& r) noexcept {                \
    auto* const p = name##_cast<typename shared_ptr<T>::element_type*>(r.get()); \
    return {std::move(r), p};                                                    \
  }
SPOLIA_POINTER_CAST(static)
SPOLIA_POINTER_CAST(const)
SPOLIA_POINTER_CAST(reinterpret)
#undef SPOLIA_POINTER_CAST

template <class T, class U>
shared_ptr<T> dynamic_pointer_cast(const shared_ptr<U>& r) noexcept {
  auto* const p = dynamic_cast<typename shared_ptr<T>::element_type*>(r.get());
  if (p == nullptr) return {};
  return {r, p};
}
template <class T, class U>
shared_ptr<T> dynamic_pointer_cast(shared_ptr<U>&& r) noexcept {
  auto* const p = dynamic_cast<typename shared_ptr<T>::element_type*>(r.get());
  if (p == nullptr) return {};
  return {std::move(r), p};
}

/// Orders by owner, as std::owner_less does: of one kind of pointer, and of shared and weak ones.
template <class P = void>
struct owner_less;

template <>
struct owner_less<void> {
  template <class A, class B>
  bool operator()(const A& a, const B& b) const noexcept {
    return a.owner_before(b);
  }
  using is_transparent = void;
};

namespace counted::detail {

template <class P, class Other>
struct less_by_owner {
  bool operator()(const P& a, const P& b) const noexcept { return a.owner_before(b); }
  bool operator()(const P& a, const Other& b) const noexcept { return a.owner_before(b); }
  bool operator()(const Other& a, const P& b) const noexcept { return a.owner_before(b); }
};

}  // namespace counted::detail

template <class T>
struct owner_less<shared_ptr<T>> : counted::detail::less_by_owner<shared_ptr<T>, weak_ptr<T>> {};
template <class T>
struct owner_less<weak_ptr<T>> : counted::detail::less_by_owner<weak_ptr<T>, shared_ptr<T>> {};

}  // namespace spolia::inline SPOLIA_FLAVOUR
