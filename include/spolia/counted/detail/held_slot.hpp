// SPDX-License-Identifier: Apache-2.0
// held_slot.hpp: how a private pointer keeps what it points to: by a slot of a pin of its thread.
// Its copies share the pin, or the pin holds a unit.
//
// Errors:      taking a pin that the thread does not have yet throws std::bad_alloc; then nothing
//              has changed. In the checked build variant, use by another thread than the pin's is
//              reported, and then does nothing.
#pragma once

#include <cstdint>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/counted/detail/pins.hpp>
#include <spolia/counted/home.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

class held_slot {
 public:
  constexpr held_slot() noexcept = default;
  held_slot(const held_slot& r) noexcept {
    if (r.at_ == nothing || !right_thread(r.holds())) return;
    ++r.holds()->users;
    r.at_ |= careful;
    at_ = r.at_;
  }
  held_slot(held_slot&& r) noexcept : at_(std::exchange(r.at_, nothing)) {}
  held_slot& operator=(held_slot r) noexcept {
    std::swap(at_, r.at_);
    return *this;
  }
  SPOLIA_ALWAYS_INLINE ~held_slot() { let_go(at_); }

  /// Takes over one unit of the block or head.
  template <class Block>
  void hold(Block* b) {
    pin* const p = here().pins.take();
    held_slot fresh(hold_on{bits(p) | careful, 0});
    if (b != nullptr) {
      b->add_one();
      p->hold(entry_of(b, task::drop_strong));
    }
    std::swap(at_, fresh.at_);
  }

  /// What a held slot has in at_, and the word that its pin names.
  struct hold_on {
    std::uintptr_t at;
    word seen;
  };
  /// A hold on what the location has now, for a new held slot. What may throw does so here, before
  /// there is an object that would have to be destroyed: so that can stay in registers. What
  /// happens seldom is in functions of its own, so that a look-up is short enough to become a part
  /// of its caller.
  SPOLIA_ALWAYS_INLINE static hold_on begin_at(const atomic<word>& from) {
    pin* p = first_private(0);
    if (!is_free(*p)) [[unlikely]] {
      p = first_private(most_found > 1 ? 1 : 0);
      const bool found =
          most_found > 1 && (p->is_free() || SPOLIA_FAULT("counted.second_is_shared"));
      if (!found) [[unlikely]]
        return begin_anew(from);
    }
    return hold_by_own(p->begin(), from);
  }
  explicit held_slot(const hold_on& h) noexcept : at_(h.at) {}

  /// Holds what the location has now, and says what that is. The location may lie in the object
  /// that this held until now.
  SPOLIA_ALWAYS_INLINE word move_to(const atomic<word>& from) {
    std::uintptr_t at = at_;
    if ((at & careful) == 0 && right_thread(holds())) [[likely]] {
      at = pin::after(at);
    } else {
      // The second one first: pointers that begin with something and those that begin with nothing
      // so do not find each other's pin in use.
      pin* const p = first_private(most_found > 1 ? 1 : 0);
      if (!is_free(*p, at)) [[unlikely]]
        return set(move_anew(at, from));
      at = p->begin_second();
    }
    return set(hold_by_own(at, from));
  }

  /// Null if there is none.
  [[nodiscard]] const pin* at() const noexcept { return at_ == nothing ? nullptr : holds(); }
  /// What this holds, of which there must be something: its unit, or 0 and then a name.
  [[nodiscard]] entry unit() const noexcept { return holds()->unit(); }
  [[nodiscard]] word named() const noexcept { return slot_of(at_)->load_relaxed(); }

  /// Checked build variant: whether the calling thread is the pin's, after a report if it is not.
  SPOLIA_ALWAYS_INLINE static bool right_thread([[maybe_unused]] const pin* p) noexcept {
#if SPOLIA_CHECKS
    if (p != nullptr && p->owner != threads::number()) {
      report_other_thread(p->owner);
      return false;
    }
#endif
    return true;
  }

 private:
#if SPOLIA_CHECKS
  SPOLIA_NOINLINE static void report_other_thread([[maybe_unused]] std::uint32_t owner) noexcept {
#if defined(SPOLIA_MODEL)
    misuse::report("a private pointer is used or destroyed by another thread than its owner",
                   threads::number());
#else
    core::report_private_pointer(owner, threads::number());
#endif
  }
#endif

  /// In at_: the pin has or had other users, or holds a unit, or light fences are not free; or
  /// there is no pin.
  static constexpr std::uintptr_t careful = 1;
  static constexpr std::uintptr_t nothing = careful;
  // So one comparison tells that nothing is held and that a pin is free.
  static_assert(nothing == free_mark);

  static slot* slot_of(std::uintptr_t at) noexcept {
    return reinterpret_cast<slot*>(at & ~careful);
  }
  static pin* pin_of(std::uintptr_t at) noexcept { return pin::of(at & ~careful); }
  template <class At>
  static std::uintptr_t bits(const At* at) noexcept {
    return reinterpret_cast<std::uintptr_t>(at);
  }
  [[nodiscard]] pin* holds() const noexcept { return pin_of(at_); }

  /// Of one of the first pins, which are found in use unless light fences are free. That stays so,
  /// and a held slot that is not careful knows it. For one that has `at`: false unless that is
  /// nothing.
  SPOLIA_ALWAYS_INLINE static bool is_free(const pin& p, std::uintptr_t at = nothing) noexcept {
    return p.is_free(at) || SPOLIA_FAULT("counted.slots_share");
  }

  /// By a pin that no other pointer uses. Null is named as well, for the pin stays in use: a test
  /// for it would be most of what a step costs.
  SPOLIA_ALWAYS_INLINE static hold_on hold_by_own(std::uintptr_t at, const atomic<word>& from) {
    // acquire: as in put_name_unless_null.
    const word seen = from.load_acquire();
    if (!name_if_held(at, seen, from)) [[unlikely]]
      return hold_by(at, from);
    return {at, seen};
  }

  word set(const hold_on& h) noexcept {
    at_ = h.at;
    return h.seen;
  }

  /// By a pin that no other pointer uses. Null gives it back.
  SPOLIA_NOINLINE static hold_on hold_by(std::uintptr_t at, const atomic<word>& from) noexcept {
    const word seen = put_name_unless_null(*slot_of(at), from, false);
    if (seen == 0) {
      if (!SPOLIA_FAULT("counted.null_leaves_name")) give_back(pin_of(at));
      return {nothing, 0};
    }
    return {at | (light_is_free() ? 0 : careful), seen};
  }

  /// As begin_at, where the pins that are looked at there are in use or cannot be used.
  SPOLIA_NOINLINE static hold_on begin_anew(const atomic<word>& from) {
    for (std::uint32_t i = 0; i < most_found; ++i) {
      pin* const p = first_private(i);
      if (!p->is_free() && !(i == 2 && SPOLIA_FAULT("counted.third_is_shared"))) continue;
      return hold_by(p->begin(), from);
    }
    return hold_by(here().pins.take()->begin(), from);
  }

  /// For a pointer that holds something, or finds no free pin. Not a function of *this, so that a
  /// walk's pointer can stay in registers.
  SPOLIA_NOINLINE static hold_on move_anew(std::uintptr_t old, const atomic<word>& from) {
    if (old == nothing) return begin_anew(from);
    pin* const p = pin_of(old);
    if (right_thread(p) && p->movable()) {  // the others have gone?
      return hold_by(pin::after(old & ~careful), from);
    }
    const hold_on fresh = begin_at(from);
    // Only now: the location may lie in the object that this pointed to.
    let_go(old);
    return fresh;
  }

  SPOLIA_ALWAYS_INLINE static void let_go(std::uintptr_t at) noexcept {
    // Here the compiler forgets what it knows of `at`. Else it tests it when the pointer begins,
    // and keeps the result in memory until here.
    __asm__ volatile("" : "+r"(at));
    if ((at & (careful | pin::in_list)) != 0) [[unlikely]] {
      if (at != nothing) let_go_of_other(at);
      return;
    }
    pin* const p = pin::of(at);
    if (right_thread(p)) clear_name(p->first(), free_mark);
  }
  /// Of a pin in the list, or one that may have other users, or a unit.
  SPOLIA_NOINLINE static void let_go_of_other(std::uintptr_t at) noexcept {
    pin* const p = pin_of(at);
    if (!right_thread(p)) return;
    entry unit = 0;
    if ((at & careful) != 0) {
      if (!p->leave()) return;
      unit = p->take_unit();
    }
    give_back(p);
    if (unit != 0) is_thin(unit) ? release(head_of_entry(unit)) : release(block_of_entry(unit));
  }
  static void give_back(pin* p) noexcept {
    (bits(p) & pin::in_list) != 0 ? here().pins.give_back(p) : p->clear(free_mark);
  }

  /// The address of the slot that names what is held. A copy makes its original careful, too.
  mutable std::uintptr_t at_ = nothing;
};

/// What both kinds of private pointers are: where the object is, and the slot that keeps it.
template <class T>
class private_base {
 public:
  using element_type = std::remove_extent_t<T>;

  [[nodiscard]] element_type* get() const noexcept {
    held_slot::right_thread(slot_.at());
    return object_;
  }
  template <class U = T>
    requires(!std::is_array_v<U> && !std::is_void_v<U>)
  U& operator*() const noexcept {
    return *get();
  }
  template <class U = T>
    requires(!std::is_array_v<U>)
  U* operator->() const noexcept {
    return get();
  }
  template <class U = element_type>
    requires std::is_array_v<T>
  U& operator[](std::ptrdiff_t i) const {
    return get()[i];
  }
  explicit operator bool() const noexcept { return object_ != nullptr; }

  void reset() noexcept {
    object_ = nullptr;
    slot_ = {};
  }

 protected:
  constexpr private_base() noexcept = default;
  /// Null holds nothing.
  private_base(const private_base& r) noexcept
      : object_(r.object_), slot_(r.object_ != nullptr ? r.slot_ : held_slot()) {}
  private_base(private_base&& r) noexcept
      : object_(std::exchange(r.object_, nullptr)), slot_(std::move(r.slot_)) {}
  private_base& operator=(const private_base& r) noexcept {
    private_base(r).swap(*this);
    return *this;
  }
  private_base& operator=(private_base&& r) noexcept {
    private_base(std::move(r)).swap(*this);
    return *this;
  }
  SPOLIA_ALWAYS_INLINE ~private_base() = default;  // a call would keep all of this in memory
  private_base(element_type* object, held_slot held) noexcept
      : object_(object), slot_(std::move(held)) {}
  /// `object(word)` is where the object is that h names.
  template <class Object>
  SPOLIA_ALWAYS_INLINE private_base(const held_slot::hold_on& h, Object object) noexcept
      : object_(object(h.seen)), slot_(h) {}

  void swap(private_base& r) noexcept {
    std::swap(object_, r.object_);
    std::swap(slot_, r.slot_);
  }

  element_type* object_ = nullptr;
  held_slot slot_;
};

}  // namespace counted::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
