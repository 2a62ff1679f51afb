// SPDX-License-Identifier: Apache-2.0
// comparisons.hpp: how pointers of this folder compare, swap, print and hash, whichever of them
// they are: by the object's address, as the standard's.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <ostream>

#include <spolia/base/config.hpp>
#include <spolia/counted/detail/conversions.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class T>
class private_ptr;
template <class T>
class thin_ptr;
template <class T>
class private_thin_ptr;

namespace counted::detail {

// What is compared is the pointer of this folder that p is or derives from, as the standard's
// operators do: a derived class may have other members by the names of ours.
template <class T>
const shared_ptr<T>& as_pointer(const shared_ptr<T>& p) noexcept {
  return p;
}
template <class T>
const private_ptr<T>& as_pointer(const private_ptr<T>& p) noexcept {
  return p;
}
template <class T>
const thin_ptr<T>& as_pointer(const thin_ptr<T>& p) noexcept {
  return p;
}
template <class T>
const private_thin_ptr<T>& as_pointer(const private_thin_ptr<T>& p) noexcept {
  return p;
}

template <class P>
concept pointer = requires(const P& p) { counted::detail::as_pointer(p); };
template <class A, class B>
concept comparable = pointer<A> && pointer<B> && requires(const A& a, const B& b) {
  counted::detail::as_pointer(a).get() == counted::detail::as_pointer(b).get();
};

template <class P>
struct pointer_hash {
  std::size_t operator()(const P& p) const noexcept {
    return std::hash<typename P::element_type*>{}(p.get());
  }
};

}  // namespace counted::detail

template <class A, class B>
  requires counted::detail::comparable<A, B>
bool operator==(const A& a, const B& b) noexcept {
  return counted::detail::as_pointer(a).get() == counted::detail::as_pointer(b).get();
}
template <counted::detail::pointer P>
bool operator==(const P& p, std::nullptr_t) noexcept {
  return counted::detail::as_pointer(p).get() == nullptr;
}
template <class A, class B>
  requires counted::detail::comparable<A, B>
std::strong_ordering operator<=>(const A& a, const B& b) noexcept {
  return std::compare_three_way{}(counted::detail::as_pointer(a).get(),
                                  counted::detail::as_pointer(b).get());
}
template <counted::detail::pointer P>
std::strong_ordering operator<=>(const P& p, std::nullptr_t) noexcept {
  auto* const object = counted::detail::as_pointer(p).get();
  return std::compare_three_way{}(object, static_cast<decltype(object)>(nullptr));
}

// For these types only. What derives from them is swapped as a whole, by std::swap, which these
// would take the place of if they fitted it as well: then they would leave its own members behind.
template <class T>
void swap(shared_ptr<T>& a, shared_ptr<T>& b) noexcept {
  a.swap(b);
}
template <class T>
void swap(weak_ptr<T>& a, weak_ptr<T>& b) noexcept {
  a.swap(b);
}
template <class T>
void swap(private_ptr<T>& a, private_ptr<T>& b) noexcept {
  a.swap(b);
}
template <class T>
void swap(thin_ptr<T>& a, thin_ptr<T>& b) noexcept {
  a.swap(b);
}
template <class T>
void swap(private_thin_ptr<T>& a, private_thin_ptr<T>& b) noexcept {
  a.swap(b);
}

template <class C, class Traits, counted::detail::pointer P>
std::basic_ostream<C, Traits>& operator<<(std::basic_ostream<C, Traits>& out, const P& p) {
  return out << counted::detail::as_pointer(p).get();
}

}  // namespace spolia::inline SPOLIA_FLAVOUR

template <class T>
struct std::hash<spolia::shared_ptr<T>>
    : spolia::counted::detail::pointer_hash<spolia::shared_ptr<T>> {};
template <class T>
struct std::hash<spolia::private_ptr<T>>
    : spolia::counted::detail::pointer_hash<spolia::private_ptr<T>> {};
template <class T>
struct std::hash<spolia::thin_ptr<T>> : spolia::counted::detail::pointer_hash<spolia::thin_ptr<T>> {
};
template <class T>
struct std::hash<spolia::private_thin_ptr<T>>
    : spolia::counted::detail::pointer_hash<spolia::private_thin_ptr<T>> {};
