// SPDX-License-Identifier: Apache-2.0
// pointers.hpp: what user code holds. A pointer to an object may be stored anywhere. A view or a
// copy of one of its versions may not.
//
//   ptr<T>    names an object as long as that exists: in a field of other objects, a local, a root.
//             Equal pointers name the same object. Only a section can follow it.
//   view<T>   what a section reads: a version that does not change, for as long as the section.
//   copy<T>   what a section that has the object's lock writes: visible to it alone until it
//             commits.
//
// A view or a copy is converted to the pointer of its object, so that an object never stores the
// address of a copy. The checked build variant reports a view or copy that is used after its
// section.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <spolia/base/config.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/rlu/object.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu {

namespace detail {
struct access;

/// Which section of a thread a view belongs to; checked in the checked build variant only.
class section_mark {
 public:
  section_mark() noexcept = default;
#if SPOLIA_CHECKS && !defined(SPOLIA_MODEL)
  explicit section_mark(const std::uint64_t& turn) noexcept : turn_(&turn), mine_(turn) {}
  void see_section_open() const noexcept {
    if (turn_ != nullptr && *turn_ != mine_) {
      misuse::report("rlu: a view or copy was used after its section", threads::number());
    }
  }

 private:
  const std::uint64_t* turn_ = nullptr;
  std::uint64_t mine_ = 0;
#else
  explicit section_mark(const std::uint64_t&) noexcept {}
  void see_section_open() const noexcept {}
#endif
};

}  // namespace detail

/// Names an object, and is null by default. It is a plain value, which can be copied, compared, and
/// stored in objects. T may be incomplete.
template <class T>
class ptr {
 public:
  constexpr ptr() noexcept = default;
  constexpr ptr(decltype(nullptr)) noexcept {}

  explicit constexpr operator bool() const noexcept { return object_ != nullptr; }
  friend constexpr bool operator==(ptr, ptr) noexcept = default;

 private:
  friend struct detail::access;
  explicit constexpr ptr(detail::object* o) noexcept : object_(o) {}
  detail::object* object_ = nullptr;
};

/// A version of an object, for the length of a section; empty if read from a null pointer.
template <class T>
class view {
 public:
  view() noexcept = default;

  explicit operator bool() const noexcept { return body_ != nullptr; }
  const T* operator->() const noexcept { return get(); }
  const T& operator*() const noexcept { return *get(); }
  /// What never changes in the object: a reference for as long as the section.
  const auto& fixed() const noexcept {
    mark_.see_section_open();
    return static_cast<detail::whole<T>*>(object_)->fixed;
  }
  /// What stands after the body, if T says T::tail.
  auto tail() const noexcept
    requires detail::has_tail<T>
  {
    mark_.see_section_open();
    using each = typename T::tail;
    const detail::whole<T>& o = *static_cast<detail::whole<T>*>(object_);
    return std::span(reinterpret_cast<const each*>(o.end_of(*body_)), o.tail.count);
  }
  /// The object that this is a version of.
  ptr<T> self() const noexcept;
  operator ptr<T>() const noexcept { return self(); }

 private:
  friend struct detail::access;
  view(detail::object* o, const T* body, detail::section_mark m) noexcept
      : object_(o), body_(body), mark_(m) {}
  const T* get() const noexcept {
    mark_.see_section_open();
    return not_null(body_);
  }

  detail::object* object_ = nullptr;
  const T* body_ = nullptr;
  [[no_unique_address]] detail::section_mark mark_;
};

/// The version that this section will commit; empty if the object could not be locked.
template <class T>
class copy {
 public:
  copy() noexcept = default;

  explicit operator bool() const noexcept { return body_ != nullptr; }
  T* operator->() const noexcept { return get(); }
  T& operator*() const noexcept { return *get(); }
  const auto& fixed() const noexcept {
    mark_.see_section_open();
    return static_cast<detail::whole<T>*>(object_)->fixed;
  }
  auto tail() const noexcept
    requires detail::has_tail<T>
  {
    mark_.see_section_open();
    using each = typename T::tail;
    const detail::whole<T>& o = *static_cast<detail::whole<T>*>(object_);
    return std::span(reinterpret_cast<each*>(o.end_of(*body_)), o.tail.count);
  }
  ptr<T> self() const noexcept;
  operator ptr<T>() const noexcept { return self(); }

 private:
  friend struct detail::access;
  copy(detail::object* o, T* body, detail::section_mark m) noexcept
      : object_(o), body_(body), mark_(m) {}
  T* get() const noexcept {
    mark_.see_section_open();
    return not_null(body_);
  }

  detail::object* object_ = nullptr;
  T* body_ = nullptr;
  [[no_unique_address]] detail::section_mark mark_;
};

namespace detail {

/// How the rest of this folder gets at the three.
struct access {
  template <class T>
  static ptr<T> pointer(object* o) noexcept {
    return ptr<T>(o);
  }
  template <class T>
  static whole<T>* master(ptr<T> p) noexcept {
    return static_cast<whole<T>*>(p.object_);
  }
  /// The first or the second, without a branch.
  template <class T>
  SPOLIA_ALWAYS_INLINE static ptr<T> either(bool first, ptr<T> a, ptr<T> b) noexcept {
    object* is = b.object_;
    object* other = a.object_;
    asm("" : "+r"(is), "+r"(other));  // else each would be read after one
    if (first) is = other;
    return ptr<T>(is);
  }
  template <class T>
  static view<T> look(whole<T>& o, const T& body, const std::uint64_t& turn) noexcept {
    return view<T>(&o, std::addressof(body), section_mark(turn));
  }
  template <class T>
  static copy<T> write(whole<T>& o, T& body, const std::uint64_t& turn) noexcept {
    return copy<T>(&o, std::addressof(body), section_mark(turn));
  }
};

template <class R>
inline constexpr bool bound_to_section = false;
template <class T>
inline constexpr bool bound_to_section<view<T>> = true;
template <class T>
inline constexpr bool bound_to_section<copy<T>> = true;

}  // namespace detail

template <class T>
ptr<T> view<T>::self() const noexcept {
  return detail::access::pointer<T>(object_);
}
template <class T>
ptr<T> copy<T>::self() const noexcept {
  return detail::access::pointer<T>(object_);
}

}  // namespace rlu
}  // namespace spolia::inline SPOLIA_FLAVOUR
