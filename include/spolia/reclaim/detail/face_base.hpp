// SPDX-License-Identifier: Apache-2.0
// face_base.hpp: what the bases of hazard-protectable and rcu-protectable types share.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/detail/place.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// Deduction fails if an object has two such bases; the call is ill-formed if its one is private.
template <template <class, class> class Base, class T, class D>
Base<T, D>* base_of(Base<T, D>*);

template <class T, template <class, class> class Base, class D>
void names_its_owner(Base<T, D>*);

/// T has exactly one base Base<T, D>, which is public and not virtual, and no other Base<...>.
/// (From a virtual base there is no way down by static_cast.)
template <template <class, class> class Base, class T>
concept has_base_of_its_own = requires(T* object) {
  detail::reclaim::names_its_owner<T>(detail::reclaim::base_of<Base>(object));
  static_cast<T*>(detail::reclaim::base_of<Base>(object));
};

/// A place whose content stays where it is: a reader may copy an object that another thread is just
/// retiring.
struct uncopied_place : core::place {
  uncopied_place() = default;
  uncopied_place(const uncopied_place&) noexcept {}
  uncopied_place& operator=(const uncopied_place&) noexcept { return *this; }
  ~uncopied_place() = default;
};

/// How objects with such a base end.
struct endings {
  template <class Base, class T>
  static void run(core::place* where) noexcept {
    T* const object = static_cast<T*>(const_cast<void*>(where->object));
    call(static_cast<Base*>(object)->spolia_deleter_, object);
  }

 private:
  /// The deleter lies in the object that it ends, so what is called is another one.
  template <class D, class T>
  static void call(D& deleter, T* object) noexcept {
    if constexpr (std::is_move_constructible_v<D>) {
      D outlives(std::move(deleter));
      outlives(object);
    } else {
      D outlives;
      outlives = std::move(deleter);
      outlives(object);
    }
  }
};

/// The object is about to be retired. False, and reported, if it was before.
template <class Base, class T>
bool prepare(core::place& where, T* object) noexcept {
  if (SPOLIA_CHECKS && where.object == object) {
    misuse::report("an object was retired twice", threads::number());
    return false;
  }
  where.object = object;
  where.end = &endings::run<Base, T>;
  return true;
}

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
