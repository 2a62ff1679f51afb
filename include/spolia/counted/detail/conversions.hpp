// SPDX-License-Identifier: Apache-2.0
// conversions.hpp: which pointers may become which shared pointers, and the way into their insides
// for the rest of this folder.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/counted/detail/control.hpp>
#include <spolia/counted/detail/word.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class T>
class weak_ptr;
template <class T>
class shared_ptr;
template <class T>
class enable_shared_from_this;
using std::bad_weak_ptr;

namespace counted::detail {

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

/// Whether shared_ptr<T> may take over a Y*. There need be no arrays of Y.
template <class Y, class T>
inline constexpr bool ownable = std::is_convertible_v<Y*, T*>;
template <class Y, class U>
inline constexpr bool ownable<Y, U[]> =
    requires { requires std::is_convertible_v<Y(*)[], U(*)[]>; };
template <class Y, class U, std::size_t N>
inline constexpr bool ownable<Y, U[N]> =
    requires { requires std::is_convertible_v<Y(*)[N], U(*)[N]>; };

// Not void: compilers take `delete` of a void* for well-formed, and warn of it at most.
template <class Y, class T>
concept deletable = ownable<Y, T> && !std::is_void_v<Y> &&
                    ((std::is_array_v<T> && requires(Y* p) { delete[] p; }) ||
                     (!std::is_array_v<T> && requires(Y* p) { delete p; }));
// The standard asks for no more: a deleter's destructor may be noexcept(false).
template <class D, class P>
concept deleter_for = std::is_move_constructible_v<D> && requires(D& d, P& p) { d(p); };
// Null by its type, which the literals 0 and NULL are not.
template <class N>
concept null_pointer = std::is_null_pointer_v<std::remove_reference_t<N>>;

/// Whether shared_ptr<T> may take over what a unique_ptr<Y, D> owns.
template <class Y, class D, class T>
concept takes_over =
    compatible<Y, T> && std::is_move_constructible_v<D> &&
    std::is_convertible_v<typename std::unique_ptr<Y, D>::pointer, std::remove_extent_t<T>*>;

/// The deleter that a unique_ptr<Y, D> leaves behind: one that it refers to is referred to on.
template <class D>
struct left_deleter {
  using type = D;
  static D&& take(D& d) noexcept { return std::move(d); }
};
template <class D>
struct left_deleter<D&> {
  // Not reference_wrapper<D>: a reference to a reference_wrapper becomes a copy of it.
  using type = decltype(std::ref(std::declval<D&>()));
  static type take(D& d) noexcept { return std::ref(d); }
};

/// Where a unique_ptr's pointer points to: a pointer of the program's own class need not have more
/// than the conversion to E*; if it has ->, that gives the type of the object itself.
template <class E, class P>
auto plain_pointer(const P& p) noexcept {
  if constexpr (std::is_pointer_v<P>) {
    return p;
  } else if constexpr (requires { p.operator->(); }) {
    return counted::detail::plain_pointer<E>(p.operator->());
  } else {
    return static_cast<E*>(p);
  }
}

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
concept knows_itself = requires(Y* p) { counted::detail::self_base(p); };

template <class Y>
void tell_itself(Y* p, control* owner) noexcept {
  if constexpr (knows_itself<std::remove_cv_t<Y>>) {
    if (p != nullptr) {
      auto* const plain = const_cast<std::remove_cv_t<Y>*>(p);
      access::name_owner(counted::detail::self_base(plain), plain, owner);
    }
  }
}

}  // namespace counted::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
