// SPDX-License-Identifier: Apache-2.0
/// \file
/// private_ptr: a pointer to a shared object for one thread's own use, such as a walk through a
/// structure. While it points to an object, the object does not end. Taken from an atomic location
/// it counts nothing, so any number of threads may look at one object without a shared write.
///
///     spolia::private_ptr<node> n(head);            // head, next: spolia::atomic_shared_ptr<node>
///     while (n && n->key < key) n = n->next;
///
/// Thread safety: a private_ptr, its copies and what it was moved to belong to one thread, and are
/// gone before that thread ends.
/// Errors: taking a pointer from a location or a shared_ptr may throw std::bad_alloc: on the
/// thread's first use, and when it has more private pointers than ever before. Then nothing has
/// changed. Assigning to one that has no copies never fails.
/// Cost: a private_ptr taken from a location also holds up the object that it pointed to before,
/// until it is assigned to again, reset or destroyed. One taken from a shared_ptr holds a count.
/// Copies share the protection; they cost a plain increment.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/counted/home.hpp>
#include <spolia/counted/pins.hpp>
#include <spolia/counted/shared_ptr.hpp>
#include <spolia/counted/shared_ptr_tools.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class T>
class atomic_shared_ptr;

template <class T>
class private_ptr {
 public:
  using element_type = std::remove_extent_t<T>;

  constexpr private_ptr() noexcept = default;
  constexpr private_ptr(std::nullptr_t) noexcept {}

  private_ptr(const private_ptr& r) noexcept : object_(r.object_), pin_(r.pin_) { share(); }
  template <class Y>
    requires counted::compatible<Y, T>
  private_ptr(const private_ptr<Y>& r) noexcept : object_(r.object_), pin_(r.pin_) {
    share();
  }
  private_ptr(private_ptr&& r) noexcept
      : object_(std::exchange(r.object_, nullptr)), pin_(std::exchange(r.pin_, nullptr)) {}
  template <class Y>
    requires counted::compatible<Y, T>
  private_ptr(private_ptr<Y>&& r) noexcept
      : object_(std::exchange(r.object_, nullptr)), pin_(std::exchange(r.pin_, nullptr)) {}

  /// What the location holds now.
  template <class Y>
    requires counted::compatible<Y, T>
  SPOLIA_ALWAYS_INLINE explicit private_ptr(const atomic_shared_ptr<Y>& from) {
    load(from);
  }
  /// Holds a count of its own, so r may go.
  template <class Y>
    requires counted::compatible<Y, T>
  explicit private_ptr(const shared_ptr<Y>& r) {
    if (!r) return;
    pin_ = counted::here().pins.take();
    object_ = r.get();
    if (counted::control* const owner = counted::access::owner_of(r)) {
      owner->add(counted::control::strong_unit);
      pin_->link = owner;
    }
  }

  SPOLIA_ALWAYS_INLINE ~private_ptr() { let_go(pin_); }

  private_ptr& operator=(const private_ptr& r) noexcept {
    private_ptr(r).swap(*this);
    return *this;
  }
  private_ptr& operator=(private_ptr&& r) noexcept {
    private_ptr(std::move(r)).swap(*this);
    return *this;
  }
  template <class Y>
    requires counted::compatible<Y, T>
  private_ptr& operator=(const private_ptr<Y>& r) noexcept {
    private_ptr(r).swap(*this);
    return *this;
  }
  template <class Y>
    requires counted::compatible<Y, T>
  private_ptr& operator=(private_ptr<Y>&& r) noexcept {
    private_ptr(std::move(r)).swap(*this);
    return *this;
  }
  /// What the location holds now. It may lie in the object that this points to.
  template <class Y>
    requires counted::compatible<Y, T>
  SPOLIA_ALWAYS_INLINE private_ptr& operator=(const atomic_shared_ptr<Y>& from) {
    load(from);
    return *this;
  }
  template <class Y>
    requires counted::compatible<Y, T>
  private_ptr& operator=(const shared_ptr<Y>& r) {
    private_ptr(r).swap(*this);
    return *this;
  }
  private_ptr& operator=(std::nullptr_t) noexcept {
    reset();
    return *this;
  }

  void swap(private_ptr& r) noexcept {
    std::swap(object_, r.object_);
    std::swap(pin_, r.pin_);
  }
  void reset() noexcept { private_ptr().swap(*this); }

  [[nodiscard]] element_type* get() const noexcept { return object_; }
  template <class U = T>
    requires(!std::is_array_v<U> && !std::is_void_v<U>)
  U& operator*() const noexcept {
    return *object_;
  }
  template <class U = T>
    requires(!std::is_array_v<U>)
  U* operator->() const noexcept {
    return object_;
  }
  template <class U = element_type>
    requires std::is_array_v<T>
  U& operator[](std::ptrdiff_t i) const {
    return object_[i];
  }
  explicit operator bool() const noexcept { return object_ != nullptr; }

  /// A counted pointer to the same object, which may leave the thread.
  [[nodiscard]] shared_ptr<T> share_out() const noexcept {
    if (object_ == nullptr) return {};
    counted::control* const owner = this->owner();
    if (owner != nullptr) owner->add(counted::control::strong_unit);
    return counted::access::make<shared_ptr<T>>(object_, owner);
  }
  explicit operator shared_ptr<T>() const noexcept { return share_out(); }

  friend bool operator==(const private_ptr& a, std::nullptr_t) noexcept {
    return a.object_ == nullptr;
  }

 private:
  template <class Y>
  friend class private_ptr;
  template <class Y>
  friend class atomic_shared_ptr;

  template <class Y>
  SPOLIA_ALWAYS_INLINE void load(const atomic_shared_ptr<Y>& from) {
    counted::word w;
    if (pin_ != nullptr && pin_->users == 1 && pin_->link == nullptr) [[likely]] {
      w = pin_->protect(from.location());
    } else {
      const anew fresh = load_anew(pin_, from.location());
      pin_ = fresh.at;
      w = fresh.seen;
    }
    object_ = counted::object_of<typename shared_ptr<Y>::element_type>(w);
  }

  struct anew {
    counted::pin* at;
    counted::word seen;
  };
  /// Not a function of *this, so that a walk's pointer can stay in registers.
  SPOLIA_NOINLINE static anew load_anew(counted::pin* old,
                                        const spolia::atomic<counted::word>& from) {
    counted::pin* const fresh = counted::here().pins.take();
    const counted::word seen = fresh->name(from);
    // Only now: the location may lie in the object that this pointed to.
    let_go(old);
    return {fresh, seen};
  }

  [[nodiscard]] counted::control* owner() const noexcept {
    if (pin_->link != nullptr) return pin_->unit();
    return counted::pair_of(pin_->now.load_relaxed()).owner;
  }

  void share() noexcept {
    if (pin_ == nullptr) return;
    if (object_ == nullptr) {
      pin_ = nullptr;
    } else {
      ++pin_->users;
    }
  }

  static void let_go(counted::pin* p) noexcept {
    if (p == nullptr || --p->users > 0) return;
    counted::control* const unit = p->unit();
    counted::here().pins.give_back(p);
    if (unit != nullptr) counted::release_strong(unit);
  }

  element_type* object_ = nullptr;
  counted::pin* pin_ = nullptr;
};

template <class T, class U>
bool operator==(const private_ptr<T>& a, const private_ptr<U>& b) noexcept {
  return a.get() == b.get();
}
template <class T, class U>
bool operator==(const private_ptr<T>& a, const shared_ptr<U>& b) noexcept {
  return a.get() == b.get();
}
template <class T, class U>
std::strong_ordering operator<=>(const private_ptr<T>& a, const private_ptr<U>& b) noexcept {
  return std::compare_three_way{}(a.get(), b.get());
}

template <class T>
void swap(private_ptr<T>& a, private_ptr<T>& b) noexcept {
  a.swap(b);
}

}  // namespace spolia::inline SPOLIA_FLAVOUR

template <class T>
struct std::hash<spolia::private_ptr<T>> {
  std::size_t operator()(const spolia::private_ptr<T>& p) const noexcept {
    return std::hash<typename spolia::private_ptr<T>::element_type*>{}(p.get());
  }
};
