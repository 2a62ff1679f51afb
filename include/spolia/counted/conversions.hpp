// SPDX-License-Identifier: Apache-2.0
// conversions.hpp: which pointers may become which shared pointers, and the way into their insides
// for the rest of this folder.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>

#include <spolia/base/config.hpp>
#include <spolia/counted/control.hpp>
#include <spolia/counted/word.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class T>
class weak_ptr;
template <class T>
class shared_ptr;
template <class T>
class enable_shared_from_this;
using std::bad_weak_ptr;

namespace counted {

/// Whether a Y* may become a shared_ptr<T>'s.
template <class Y, class T>
inline constexpr bool compatible = std::is_convertible_v<Y*, T*>;
template <class U, std::size_t N>
inline constexpr bool compatible<U[N], U[]> = true;
template <class U, std::size_t N>
inline constexpr bool compatible<U[N], const U[]> = true;
template <class U, std::size_t N>
inline constexpr bool compatible<U[N], volatile U[]> = true;
template <class U, std::size_t N>
inline constexpr bool compatible<U[N], const volatile U[]> = true;

/// Whether shared_ptr<T> may take over a Y*.
template <class Y, class T>
inline constexpr bool ownable = std::is_convertible_v<Y*, T*>;
template <class Y, class U>
inline constexpr bool ownable<Y, U[]> = std::is_convertible_v<Y (*)[], U (*)[]>;
template <class Y, class U, std::size_t N>
inline constexpr bool ownable<Y, U[N]> = std::is_convertible_v<Y (*)[N], U (*)[N]>;

template <class Y, class T>
concept deletable = ownable<Y, T> && ((std::is_array_v<T> && requires(Y* p) { delete[] p; }) ||
                                      (!std::is_array_v<T> && requires(Y* p) { delete p; }));
template <class D, class P>
concept deleter_for = std::move_constructible<D> && requires(D& d, P& p) { d(p); };

/// Reaches into pointers, for the rest of this folder.
struct access {
  template <class P>
  static pair pair_of(const P& p) noexcept {
    return {const_cast<void*>(static_cast<const volatile void*>(p.object_)), p.owner_};
  }
  template <class P>
  static control* owner_of(const P& p) noexcept {
    return p.owner_;
  }
  /// Takes over a unit.
  template <class P>
  static P make(typename P::element_type* object, control* owner) noexcept {
    P made;
    made.object_ = object;
    made.owner_ = owner;
    return made;
  }
  /// The unit is the caller's from now on.
  template <class P>
  static void forget(P& p) noexcept {
    p.object_ = nullptr;
    p.owner_ = nullptr;
  }
  /// What an atomic location holds.
  template <class Location>
  static const atomic<word>& words_of(const Location& l) noexcept {
    return l.word_;
  }
  template <class E, class U>
  static void name_owner(enable_shared_from_this<E>* base, U* object, control* owner) noexcept {
    base->spolia_accept(object, owner);
  }
};

/// The one enable_shared_from_this among the bases of *p, if there is exactly one.
template <class E>
enable_shared_from_this<E>* self_base(enable_shared_from_this<E>* p) noexcept {
  return p;
}
template <class Y>
concept knows_itself = requires(Y* p) { counted::self_base(p); };

template <class Y>
void tell_itself(Y* p, control* owner) noexcept {
  if constexpr (knows_itself<std::remove_cv_t<Y>>) {
    if (p != nullptr) {
      auto* const plain = const_cast<std::remove_cv_t<Y>*>(p);
      access::name_owner(counted::self_base(plain), plain, owner);
    }
  }
}

}  // namespace counted
}  // namespace spolia::inline SPOLIA_FLAVOUR
