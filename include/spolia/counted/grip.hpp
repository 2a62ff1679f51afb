// SPDX-License-Identifier: Apache-2.0
// grip.hpp: how a private pointer holds on to what it points to: by a pin of its thread, which its
// copies share, or which holds a unit.
//
// Errors:      taking a pin that the thread does not have yet throws std::bad_alloc; then nothing
//              has changed. In the checked flavour, use by another thread than the pin's is
//              reported, and then does nothing.
#pragma once

#include <cstdint>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/counted/home.hpp>
#include <spolia/counted/pins.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted {

class grip {
 public:
  constexpr grip() noexcept = default;
  grip(const grip& r) noexcept : pin_(r.pin_) {
    if (pin_ == nullptr) return;
    if (right_thread(pin_)) {
      ++pin_->users;
    } else {
      pin_ = nullptr;
    }
  }
  grip(grip&& r) noexcept : pin_(std::exchange(r.pin_, nullptr)) {}
  grip& operator=(grip r) noexcept {
    std::swap(pin_, r.pin_);
    return *this;
  }
  SPOLIA_ALWAYS_INLINE ~grip() {
    if (pin_ != nullptr) let_go(pin_);
  }

  /// Takes over one unit of the block or head.
  template <class Block>
  void hold(Block* b) {
    grip fresh(here().pins.take());
    if (b != nullptr) {
      b->add_one();
      fresh.pin_->hold(b);
    }
    std::swap(pin_, fresh.pin_);
  }

  /// A pin, and what it names.
  struct hold_on {
    pin* at;
    word seen;
  };
  /// A hold on what the location has now, for a new grip. What may throw does so here, before there
  /// is a grip that would have to be destroyed: so that can stay in registers.
  SPOLIA_ALWAYS_INLINE static hold_on begin_at(const atomic<word>& from) {
    pin* const p = here().pins.take();
    return {p, p->name(from)};
  }
  explicit grip(const hold_on& h) noexcept : pin_(h.at) {}

  /// Holds what the location has now, and says what that is. `last(pin)` is the word that this
  /// held until now; the location may lie in its object.
  template <class Last>
  SPOLIA_ALWAYS_INLINE word move_to(const atomic<word>& from, Last last) {
    if (pin_ != nullptr && pin_->movable() && right_thread(pin_)) [[likely]] {
      return pin_->protect(from, last(*pin_));
    }
    const hold_on fresh = move_anew(pin_, from);
    pin_ = fresh.at;
    return fresh.seen;
  }

  [[nodiscard]] const pin* at() const noexcept { return pin_; }

  /// Checked flavour: whether the calling thread is the pin's, after a report if it is not.
  SPOLIA_ALWAYS_INLINE static bool right_thread([[maybe_unused]] const pin* p) noexcept {
#if SPOLIA_CHECKS
    if (p != nullptr && p->owner != threads::number()) {
      misuse::report("a private pointer is used or destroyed by another thread than its owner",
                     threads::number());
      return false;
    }
#endif
    return true;
  }

 private:
  explicit grip(pin* p) noexcept : pin_(p) {}

  /// Not a function of *this, so that a walk's pointer can stay in registers.
  SPOLIA_NOINLINE static hold_on move_anew(pin* old, const atomic<word>& from) {
    const hold_on fresh = begin_at(from);
    // Only now: the location may lie in the object that this pointed to.
    if (old != nullptr) let_go(old);
    return fresh;
  }

  SPOLIA_ALWAYS_INLINE static void let_go(pin* p) noexcept {
    if (!right_thread(p)) return;
    if (!p->movable()) [[unlikely]]
      return let_go_of_more(p);
    here().pins.give_back(p);
  }
  /// It has other users, or a unit.
  SPOLIA_NOINLINE static void let_go_of_more(pin* p) noexcept {
    if (!p->leave()) return;
    void* const unit = p->take_unit();
    here().pins.give_back(p);
    if (unit != nullptr) release_any(reinterpret_cast<std::uintptr_t>(unit));
  }
  static void release_any(std::uintptr_t address) noexcept {
    const entry e = address;
    is_thin(e) ? release(head_of_entry(e)) : release(block_of_entry(e));
  }

  pin* pin_ = nullptr;
};

/// What both kinds of private pointers are: where the object is, and the grip on it.
template <class T>
class private_base {
 public:
  using element_type = std::remove_extent_t<T>;

  [[nodiscard]] element_type* get() const noexcept {
    grip::right_thread(grip_.at());
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
    grip_ = {};
  }

 protected:
  constexpr private_base() noexcept = default;
  /// Null holds nothing.
  private_base(const private_base& r) noexcept
      : object_(r.object_), grip_(r.object_ != nullptr ? r.grip_ : grip()) {}
  private_base(private_base&& r) noexcept
      : object_(std::exchange(r.object_, nullptr)), grip_(std::move(r.grip_)) {}
  private_base& operator=(const private_base& r) noexcept {
    private_base(r).swap(*this);
    return *this;
  }
  private_base& operator=(private_base&& r) noexcept {
    private_base(std::move(r)).swap(*this);
    return *this;
  }
  ~private_base() = default;
  private_base(element_type* object, grip held) noexcept
      : object_(object), grip_(std::move(held)) {}
  /// `object(word)` is where the object is that h names.
  template <class Object>
  SPOLIA_ALWAYS_INLINE private_base(const grip::hold_on& h, Object object) noexcept
      : object_(object(h.seen)), grip_(h) {}

  void swap(private_base& r) noexcept {
    std::swap(object_, r.object_);
    std::swap(grip_, r.grip_);
  }

  element_type* object_ = nullptr;
  grip grip_;
};

}  // namespace counted
}  // namespace spolia::inline SPOLIA_FLAVOUR
