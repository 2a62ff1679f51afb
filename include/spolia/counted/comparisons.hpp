// SPDX-License-Identifier: Apache-2.0
// comparisons.hpp: how pointers of this folder compare, swap, print and hash, whichever of them
// they are: by the object's address, as the standard's.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <ostream>

#include <spolia/base/config.hpp>
#include <spolia/counted/conversions.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class T>
class private_ptr;
template <class T>
class thin_ptr;
template <class T>
class private_thin_ptr;

namespace counted {

// Also what derives from one of them is one.
template <class T>
void is_pointer(const shared_ptr<T>&);
template <class T>
void is_pointer(const private_ptr<T>&);
template <class T>
void is_pointer(const thin_ptr<T>&);
template <class T>
void is_pointer(const private_thin_ptr<T>&);

template <class P>
concept pointer = requires(const P& p) { counted::is_pointer(p); };
template <class A, class B>
concept comparable =
    pointer<A> && pointer<B> && requires(const A& a, const B& b) { a.get() == b.get(); };
// By type, and not by a member's name: swap() is found for users' types, too, whose bases or
// template arguments are of this namespace.
template <class T>
void is_weak(const weak_ptr<T>&);
template <class P>
concept swappable = pointer<P> || requires(const P& p) { counted::is_weak(p); };

template <class P>
struct pointer_hash {
  std::size_t operator()(const P& p) const noexcept {
    return std::hash<typename P::element_type*>{}(p.get());
  }
};

}  // namespace counted

template <class A, class B>
  requires counted::comparable<A, B>
bool operator==(const A& a, const B& b) noexcept {
  return a.get() == b.get();
}
template <counted::pointer P>
bool operator==(const P& p, std::nullptr_t) noexcept {
  return p.get() == nullptr;
}
template <class A, class B>
  requires counted::comparable<A, B>
std::strong_ordering operator<=>(const A& a, const B& b) noexcept {
  return std::compare_three_way{}(a.get(), b.get());
}
template <counted::pointer P>
std::strong_ordering operator<=>(const P& p, std::nullptr_t) noexcept {
  return std::compare_three_way{}(p.get(), static_cast<typename P::element_type*>(nullptr));
}

template <counted::swappable P>
void swap(P& a, P& b) noexcept {
  a.swap(b);
}

template <class C, class Traits, counted::pointer P>
std::basic_ostream<C, Traits>& operator<<(std::basic_ostream<C, Traits>& out, const P& p) {
  return out << p.get();
}

}  // namespace spolia::inline SPOLIA_FLAVOUR

template <class T>
struct std::hash<spolia::shared_ptr<T>> : spolia::counted::pointer_hash<spolia::shared_ptr<T>> {};
template <class T>
struct std::hash<spolia::private_ptr<T>> : spolia::counted::pointer_hash<spolia::private_ptr<T>> {};
template <class T>
struct std::hash<spolia::thin_ptr<T>> : spolia::counted::pointer_hash<spolia::thin_ptr<T>> {};
template <class T>
struct std::hash<spolia::private_thin_ptr<T>>
    : spolia::counted::pointer_hash<spolia::private_thin_ptr<T>> {};
