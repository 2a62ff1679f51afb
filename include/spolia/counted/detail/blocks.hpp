// SPDX-License-Identifier: Apache-2.0
// blocks.hpp: the kinds of blocks: one that took over a pointer with its deleter, one that was made
// together with its object or array, and the alias of word.hpp.
//
// A block that is made together lies so:
//     [front: the allocator, an array's length] [control] [object or elements]
// with the object right after the control, whatever its alignment.
//
// Errors:      making a block throws what the allocator throws, and what constructors throw; then
//              nothing is left of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/weight.hpp>
#include <spolia/counted/detail/control.hpp>
#include <spolia/counted/detail/pool.hpp>
#include <spolia/counted/detail/type_of.hpp>
#include <spolia/counted/detail/word.hpp>
#include <spolia/counted/home.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

/// What make_shared uses: the pool, and placement new.
struct own_memory {
  template <std::size_t Align>
  static void* allocate(own_memory&, std::size_t bytes) {
    return allocate_block<Align>(bytes);
  }
  template <std::size_t Align>
  static void deallocate(own_memory&, void* at, std::size_t bytes) noexcept {
    deallocate_block<Align>(at, bytes);
  }
  template <class E, class... Args>
  static void construct(own_memory&, E* at, Args&&... args) {
    ::new (static_cast<void*>(at)) E(std::forward<Args>(args)...);
  }
  template <class E>
  static void destroy(own_memory&, E* at) noexcept {
    at->~E();
  }
};

/// What allocate_shared uses.
template <class A>
struct users_memory {
  template <class E>
  using rebound = typename std::allocator_traits<A>::template rebind_alloc<E>;
  template <std::size_t Align>
  struct alignas(Align) unit {
    unsigned char bytes[Align];
  };

  template <std::size_t Align>
  static void* allocate(users_memory& m, std::size_t bytes) {
    rebound<unit<Align>> a(m.allocator);
    return std::to_address(
        std::allocator_traits<decltype(a)>::allocate(a, (bytes + Align - 1) / Align));
  }
  template <std::size_t Align>
  static void deallocate(users_memory& m, void* at, std::size_t bytes) noexcept {
    rebound<unit<Align>> a(m.allocator);
    using traits = std::allocator_traits<decltype(a)>;
    using pointer = typename traits::pointer;
    traits::deallocate(a, std::pointer_traits<pointer>::pointer_to(*static_cast<unit<Align>*>(at)),
                       (bytes + Align - 1) / Align);
  }
  template <class E, class... Args>
  static void construct(users_memory& m, E* at, Args&&... args) {
    rebound<E> a(m.allocator);
    std::allocator_traits<decltype(a)>::construct(a, at, std::forward<Args>(args)...);
  }
  template <class E>
  static void destroy(users_memory& m, E* at) noexcept {
    rebound<E> a(m.allocator);
    std::allocator_traits<decltype(a)>::destroy(a, at);
  }

  [[no_unique_address]] A allocator;
};

// ---- a pointer that was taken over

inline void* address_of(const volatile void* p) noexcept { return const_cast<void*>(p); }

template <class P, class D, class M>
struct taken final : pointer_control {
  /// `at` is where the object is.
  taken(P p, void* at, D d, M m) noexcept
      : pointer_control(ops_of, at),
        pointer(std::move(p)),
        deleter(std::move(d)),
        place(std::move(m)) {}

  /// Of a plain pointer, or null. Throws; then the deleter has ended p's object.
  static control* make(P p, D d, M m) {
    void* at = nullptr;
    try {
      at = M::template allocate<alignof(taken)>(m, sizeof(taken));
    } catch (...) {
      d(p);
      throw;
    }
    auto* const made =
        ::new (at) taken(p, counted::detail::address_of(p), std::move(d), std::move(m));
    made->be_weighed();
    return made;
  }

  static void dispose(control* c) noexcept {
    auto* const self = static_cast<taken*>(c);
    self->deleter(self->pointer);
  }
  static void deallocate(control* c) noexcept {
    auto* const self = static_cast<taken*>(c);
    M m(std::move(self->place));
    self->~taken();
    M::template deallocate<alignof(taken)>(m, self, sizeof(taken));
  }
  static void* find_deleter(control* c, const std::type_info* asked) noexcept {
    constexpr const std::type_info* mine = type_of<D>();
    if (asked == nullptr || mine == nullptr || *asked != *mine) return nullptr;
    return std::addressof(static_cast<taken*>(c)->deleter);
  }
  /// 0 where the type is incomplete, as handles of C libraries are; another part of the program may
  /// know more. Either will do: it is an estimate.
  static constexpr std::size_t pointee_bytes() noexcept {
    if constexpr (std::is_pointer_v<P>) {
      using pointee = std::remove_pointer_t<P>;
      if constexpr (std::is_object_v<pointee> && requires { sizeof(pointee); }) {
        return sizeof(pointee);
      }
    }
    return 0;
  }
  /// Only where the object is the pointer's alone.
  static constexpr auto owned_of() noexcept -> std::size_t (*)(const control*) noexcept {
    if constexpr (requires { requires D::ends_one_object; } && pointee_bytes() != 0) {
      using pointee = std::remove_cv_t<std::remove_pointer_t<P>>;
      if constexpr (!weightless<pointee>) {
        return [](const control* c) noexcept {
          const auto* const at = static_cast<const taken*>(c)->object;
          return at == nullptr ? 0 : weigh(*static_cast<const pointee*>(at));
        };
      }
    }
    return nullptr;
  }
  SPOLIA_OWN_COPY static constexpr control_ops ops_of{
      &dispose,        &deallocate, &find_deleter, nullptr, sizeof(pointer_control),
      pointee_bytes(), owned_of(),  true,          false};

  P pointer;
  [[no_unique_address]] D deleter;
  [[no_unique_address]] M place;
};

/// std::default_delete of one type, and nothing to look for: shared_ptr(p) has no deleter to get.
template <class Y, bool Array>
struct deletes {
  static constexpr bool ends_one_object = !Array;
  void operator()(Y* p) const noexcept {
    if constexpr (Array) {
      delete[] p;
    } else {
      delete p;
    }
  }
};

// ---- made together

/// How the elements begin: from arguments, each as a copy of one, or without a value.
enum class start : std::uint8_t { value, fill, overwrite };

template <class M, bool Array>
struct front_of {
  [[no_unique_address]] M place;
};
template <class M>
struct front_of<M, true> {
  [[no_unique_address]] M place;
  std::size_t elements;  // of the innermost type
};

/// E is the innermost element type, without const.
template <class E, class M, bool Array, bool Overwritten>
struct together {
  using front = front_of<M, Array>;
  static constexpr bool has_front = Array || !std::is_empty_v<M>;
  // Arrays as new makes them: what works on many elements at once likes that.
  static constexpr std::size_t align =
      (std::max)({alignof(control), alignof(E), has_front ? alignof(front) : 1,
                  Array ? std::size_t{__STDCPP_DEFAULT_NEW_ALIGNMENT__} : 1});
  static constexpr std::size_t front_bytes =
      ((has_front ? sizeof(front) : 0) + sizeof(control) + align - 1) / align * align -
      sizeof(control);
  static constexpr std::size_t before_elements = front_bytes + sizeof(control);

  static E* elements_of(control* c) noexcept {
    return reinterpret_cast<E*>(reinterpret_cast<unsigned char*>(c) + sizeof(control));
  }
  static unsigned char* base_of(control* c) noexcept {
    return reinterpret_cast<unsigned char*>(c) - front_bytes;
  }
  static front& front_at(control* c) noexcept {
    return *std::launder(reinterpret_cast<front*>(base_of(c)));
  }
  static std::size_t count_of([[maybe_unused]] const control* c) noexcept {
    if constexpr (Array) {
      return front_at(const_cast<control*>(c)).elements;
    } else {
      return 1;
    }
  }
  static std::size_t bytes_for(std::size_t n) {
    if (n > (std::size_t{PTRDIFF_MAX} - before_elements) / sizeof(E))
      throw std::bad_array_new_length();
    return before_elements + n * sizeof(E);
  }

  /// `begin(place, at, i)` constructs element i.
  template <class Begin>
  static control* make(M m, std::size_t n, Begin begin) {
    const std::size_t size = bytes_for(n);
    auto* const base = static_cast<unsigned char*>(M::template allocate<align>(m, size));
    auto* const c = reinterpret_cast<control*>(base + front_bytes);
    std::size_t i = 0;
    try {
      for (E* const at = elements_of(c); i < n; ++i) begin(m, at + i, i);
    } catch (...) {
      while (i-- > 0) end_element(m, elements_of(c) + i);
      M::template deallocate<align>(m, base, size);
      throw;
    }
    if constexpr (Array) {
      ::new (static_cast<void*>(base)) front{std::move(m), n};
    } else if constexpr (has_front) {
      ::new (static_cast<void*>(base)) front{std::move(m)};
    }
    auto* const made = ::new (static_cast<void*>(c)) control(ops_of);
    if constexpr (!weightless<E>) made->be_weighed();
    return made;
  }

  static std::size_t owned(const control* c) noexcept {
    const E* const at = std::launder(elements_of(const_cast<control*>(c)));
    std::size_t sum = 0;
    for (std::size_t i = count_of(c); i-- > 0;) sum += weigh(at[i]);
    return sum;
  }
  static constexpr auto owned_of() noexcept -> std::size_t (*)(const control*) noexcept {
    if constexpr (weightless<E>) {
      return nullptr;
    } else {
      return &owned;
    }
  }

  static void end_element(M& m, E* at) noexcept {
    if constexpr (Overwritten) {
      at->~E();  // it was not the allocator that constructed it
    } else {
      M::destroy(m, at);
    }
  }

  static void dispose(control* c) noexcept {
    if constexpr (has_front) {
      end_all(front_at(c).place, c);
    } else {
      M m;
      end_all(m, c);
    }
  }
  static void end_all(M& m, control* c) noexcept {
    for (std::size_t i = count_of(c); i-- > 0;) end_element(m, std::launder(elements_of(c)) + i);
  }
  static void deallocate(control* c) noexcept {
    const std::size_t size = before_elements + count_of(c) * sizeof(E);
    unsigned char* const base = base_of(c);
    c->~control();
    if constexpr (has_front) {
      front& f = *std::launder(reinterpret_cast<front*>(base));
      M m(std::move(f.place));
      f.~front();
      M::template deallocate<align>(m, base, size);
    } else {
      M m;
      M::template deallocate<align>(m, base, size);
    }
  }
  static constexpr bool silent =
      std::is_trivially_destructible_v<E> && std::is_same_v<M, own_memory>;
  SPOLIA_OWN_COPY static constexpr control_ops ops_of{
      &dispose,   &deallocate, nullptr, Array ? &count_of : nullptr, before_elements, sizeof(E),
      owned_of(), false,       silent};
};

// ---- aliases

/// An alias whose unit of the owner is of the kind that the location keeps.
template <keeping What>
struct aliases {
  static void dispose(control* c) noexcept {
    control* const owner = static_cast<alias_control*>(c)->owner;
    if (owner == nullptr) return;
    if constexpr (What == keeping::object) {
      release(owner);
    } else {
      drop_weak(owner);
    }
  }
  static void deallocate(control* c) noexcept {
    auto* const self = static_cast<alias_control*>(c);
    self->~alias_control();
    deallocate_block<alignof(alias_control)>(self, sizeof(alias_control));
  }
  SPOLIA_OWN_COPY static constexpr control_ops ops_of{
      &dispose, &deallocate, nullptr, nullptr, sizeof(alias_control), 0, nullptr, true, false};

  /// The word for p, whose unit it takes over. Throws std::bad_alloc, then p's unit is where it
  /// was; only where an alias is needed.
  static word word_of(const pair& p) {
    if (p == pair{}) return 0;
    if (const word w = plain_word(p)) return w;
    void* const at = allocate_block<alignof(alias_control)>(sizeof(alias_control));
    return reinterpret_cast<word>(::new (at) alias_control(ops_of, p)) | tag_alias;
  }

  /// The unit goes back to where it came from.
  static pair undo(word w) noexcept {
    const pair p = pair_of(w);
    if ((w & tag_mask) == tag_alias) deallocate(block_of(w));
    return p;
  }
};

}  // namespace counted::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
