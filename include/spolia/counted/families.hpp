// SPDX-License-Identifier: Apache-2.0
/// \file
/// Families of pointers for containers that are written once over any of them, such as counted_bst:
///
///     struct family {
///       template <class T> using pointer = ...;    owns with others, for one thread at a time
///       template <class T> using location = ...;   what threads change and read at once
///       template <class T> using view = ...;       what a thread holds while it looks, and walks;
///                                                  may be null, else its object stays
///       template <class T, class... Args> static pointer<T> make(Args&&...);
///       template <class T> static view<T> look(const location<T>&);
///       template <class T> static void step(view<T>&, const location<T>&);   look again; the
///                                                  location may lie in the object that is viewed
///       template <class T> static bool follow(view<T>&, const location<T>&);   the same of a view
///                                                  that is not null; but where the location holds
///                                                  null the view stays, and the answer is false.
///                                                  May be absent where views can be assigned
///       template <class To, class From> static view<To> onward(view<From>&&, const location<To>&);
///                                                  the same from an object of another type,
///                                                  which stays until the new view steps or goes
///       template <class T> static pointer<T> load(const location<T>&);
///       template <class T> static void set(location<T>&, pointer<T>);        a thread that looks
///                                                  at the object then sees what was done to it
///                                                  before
///       template <class T> static T* peek(const location<T>&);         where the object is, and
///       template <class T> static pointer<T> copy(const location<T>&);     a pointer to it, for a
///                                                  thread that keeps all others from changing the
///                                                  location; both may be absent
///       using quiet = ...;                         while one lives, set runs no destructors of
///                                                  other objects, if the family can do so. If
///                                                  set may throw: has reserve(), and the next
///                                                  set after that throws nothing
///     };
///
/// Locations can be made from pointers; what is looked at by views was made by make, and its
/// pointers were not converted. What a function allocates, it may throw std::bad_alloc for;
/// then nothing has changed.
#pragma once

#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/counted/atomic_ptr.hpp>
#include <spolia/counted/detail/walk.hpp>
#include <spolia/counted/home.hpp>
#include <spolia/counted/make_shared.hpp>
#include <spolia/counted/private_ptr.hpp>
#include <spolia/counted/shared_ptr.hpp>
#include <spolia/counted/thin_ptr.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

/// What both of our families do alike.
template <template <class> class Pointer, template <class> class Location,
          template <class> class Private>
struct own_family {
  template <class T>
  using pointer = Pointer<T>;
  template <class T>
  using location = Location<T>;
  template <class T>
  using private_pointer = Private<T>;
  template <class T>
  using view = walk<Location<T>>;
  using quiet = no_destructors;

  /// For one view at a time. See counted_look.hpp.
  class first_look {
   public:
    template <class T>
    using view = walk<Location<T>, first_pin>;

    /// False: it cannot be used now.
    SPOLIA_ALWAYS_INLINE bool find() noexcept { return by_.find(); }
    template <class T>
    SPOLIA_ALWAYS_INLINE view<T> look(const Location<T>& from) const noexcept {
      return view<T>(from, by_);
    }
    template <class T>
    SPOLIA_ALWAYS_INLINE static void step(view<T>& at, const Location<T>& to) noexcept {
      at.step(to);
    }
    template <class T>
    SPOLIA_ALWAYS_INLINE static bool follow(view<T>& at, const Location<T>& to) noexcept {
      return at.follow(to);
    }
    template <class To, class From>
    SPOLIA_ALWAYS_INLINE static view<To> onward(view<From>&& at, const Location<To>& to) noexcept {
      return view<To>(std::move(at), to);
    }

   private:
    first_pin by_;
  };

  template <class T>
  SPOLIA_ALWAYS_INLINE static view<T> look(const Location<T>& from) {
    return view<T>(from);
  }
  template <class T>
  SPOLIA_ALWAYS_INLINE static void step(view<T>& at, const Location<T>& to) {
    at.step(to);
  }
  template <class T>
  SPOLIA_ALWAYS_INLINE static bool follow(view<T>& at, const Location<T>& to) noexcept {
    return at.follow(to);
  }
  template <class To, class From>
  SPOLIA_ALWAYS_INLINE static view<To> onward(view<From>&& at, const Location<To>& to) {
    return view<To>(std::move(at), to);
  }
  template <class T>
  static Pointer<T> load(const Location<T>& from) {
    return from.load();
  }
  // relaxed: a thread that keeps others from changing a location sees what it holds.
  template <class T>
  static T* peek(const Location<T>& from) noexcept {
    return Location<T>::units::made_object(access::words_of(from).load_relaxed());
  }
  /// The location's own unit stays meanwhile, so no pin is needed.
  template <class T>
  static Pointer<T> copy(const Location<T>& from) noexcept {
    return Location<T>::units::counted_up(access::words_of(from).load_relaxed());
  }
  template <class T>
  static void set(Location<T>& to, Pointer<T> p) {
    to.store(std::move(p));
  }
};

}  // namespace counted::detail

/// shared_ptr, atomic_shared_ptr, private_ptr.
struct shared_family : counted::detail::own_family<shared_ptr, atomic_shared_ptr, private_ptr> {
  template <class T, class... Args>
  static shared_ptr<T> make(Args&&... args) {
    return make_shared<T>(std::forward<Args>(args)...);
  }
};

/// thin_ptr, atomic_thin_ptr, private_thin_ptr.
struct thin_family : counted::detail::own_family<thin_ptr, atomic_thin_ptr, private_thin_ptr> {
  template <class T, class... Args>
  static thin_ptr<T> make(Args&&... args) {
    return make_thin<T>(std::forward<Args>(args)...);
  }
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
