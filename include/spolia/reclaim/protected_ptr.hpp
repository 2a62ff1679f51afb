// SPDX-License-Identifier: Apache-2.0
// protected_ptr.hpp: a pointer that a guard has read, and its protection, in one object.
//
//     auto prev = guard.protect(head);
//     if (prev == nullptr) return;
//     auto cur = guard.protect(prev->next);   // prev stays protected
//     while (cur != nullptr) {
//       ...
//       prev = std::move(cur);                // moving on is a move
//       cur = guard.protect(prev->next);
//     }
//
// Under a scheme with slots (hazard pointers, hazard eras) the object owns the slot that names its
// block, one of the guard's eight, until it ends or something is moved into it. Under the other
// schemes what was read stays until the guard ends, and the object is just a pointer.
//
// It cannot be copied. A copy would name the block in a second slot. A thread that frees reads one
// slot after the other. It may read the second slot before the copy is made, and the first one
// after that was given up, and so see the block named in neither. A move takes the slot along.
// Where two protections are wanted, read the source twice: protect() checks again that the block is
// still linked. A function that only reads takes `const protected_ptr&`.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/source.hpp>
#include <spolia/reclaim/detail/slot_owners.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

struct protecting;

/// A pointer, or what carries one and marks and gives it by get().
template <class Pointer>
  requires(std::is_pointer_v<Pointer> || requires(const Pointer& p) { p.get(); })
auto plain_pointer(const Pointer& p) noexcept {
  if constexpr (std::is_pointer_v<Pointer>) {
    return p;
  } else {
    return p.get();
  }
}
template <class Pointer>
concept leads_to_an_object = requires(const Pointer& p) {
  *plain_pointer(p);
  requires std::is_pointer_v<decltype(plain_pointer(p))>;
};

}  // namespace detail::reclaim

/// What guard.protect(source) gives: `Pointer` as it was read, and its protection. `Pointer` is a
/// plain pointer, or a pointer with marks (base/source.hpp).
///
/// It must end before its guard does, or with it: after that it protects nothing (checked variant:
/// reported). Belongs to the guard's thread. Move-only (see above): a protection that has been
/// moved from is null. A block that a protection has given up may stay until the guard ends.
///
/// Complexity: constant. Memory: a pointer, and where slots are owned 16 bytes more.
template <class Pointer, class Keeper>
class protected_ptr {
 public:
  using pointer = Pointer;

  protected_ptr() noexcept = default;
  protected_ptr(std::nullptr_t) noexcept {}
  protected_ptr(protected_ptr&& other) noexcept
      : value_(std::exchange(other.value_, Pointer{})), keeper_(std::move(other.keeper_)) {}
  protected_ptr& operator=(protected_ptr&& other) noexcept {
    if (this != &other) {
      value_ = std::exchange(other.value_, Pointer{});
      keeper_ = std::move(other.keeper_);
    }
    return *this;
  }

  /// The pointer as it was read, with its marks. It may be followed as long as this object lives
  /// and is not moved from. There is no implicit conversion, which would hide that.
  [[nodiscard]] Pointer get() const noexcept {
    keeper_.expect_alive();
    return value_;
  }

  /// For pointers with marks that have get(): what get() points to.
  auto operator->() const noexcept
    requires detail::reclaim::leads_to_an_object<Pointer>
  {
    return detail::reclaim::plain_pointer(get());
  }
  auto& operator*() const noexcept
    requires detail::reclaim::leads_to_an_object<Pointer>
  {
    return *detail::reclaim::plain_pointer(get());
  }

  /// True if the pointer is not null. Marks do not count.
  [[nodiscard]] explicit operator bool() const noexcept { return bare_address(value_) != nullptr; }

  friend bool operator==(const protected_ptr& a, const protected_ptr& b) noexcept {
    return a.value_ == b.value_;
  }
  friend bool operator==(const protected_ptr& a, std::nullptr_t) noexcept {
    return !static_cast<bool>(a);
  }
  /// Compares with whatever the pointer itself can be compared with. `Self` is asked first: this is
  /// found for iterators of containers of protections, too, whose comparison must not ask for
  /// itself.
  template <std::same_as<protected_ptr> Self, class Other>
    requires(!std::same_as<Other, protected_ptr> && !std::same_as<Other, std::nullptr_t> &&
             requires(const Pointer& a, const Other& b) {
               { a == b } -> std::convertible_to<bool>;
             })
  friend bool operator==(const Self& a, const Other& b) noexcept {
    return static_cast<bool>(a.value_ == b);
  }

 private:
  friend struct detail::reclaim::protecting;

  protected_ptr(Pointer value, Keeper keeper) noexcept
      : value_(value), keeper_(std::move(keeper)) {}

  Pointer value_{};
  [[no_unique_address]] Keeper keeper_{};
};

namespace detail::reclaim {

/// Makes protections.
struct protecting {
  template <class Pointer>
  static protected_ptr<Pointer, no_slot> without_slot(Pointer p) noexcept {
    return {p, no_slot{}};
  }

  /// `p` has just been named in the slot.
  template <class Pointer>
  static protected_ptr<Pointer, owned_slot> in(owned_slot slot, Pointer p) noexcept {
    if constexpr (SPOLIA_CHECKS) slot.note({bare_address(p), size_behind(p)});
    return {p, std::move(slot)};
  }

 private:
  template <class Pointer>
  static constexpr std::size_t size_behind([[maybe_unused]] const Pointer& p) noexcept {
    if constexpr (requires { sizeof(*plain_pointer(p)); }) return sizeof(*plain_pointer(p));
    return 0;
  }
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
