// SPDX-License-Identifier: Apache-2.0
/// \file
/// shared_ptr and weak_ptr: the interface and the behaviour of the standard's [util.smartptr], in
/// namespace spolia. A plain shared_ptr drops its reference at once: the object ends in the thread
/// that drops the last one, before that thread goes on.
///
/// Differences from std::shared_ptr:
///   * Once an atomic location (atomic_shared_ptr, atomic_weak_ptr) has held an object, use_count
///     also counts references that the location gave up, or that threads have at hand, until they
///     are dropped. The object may end later, in another thread: see collector.hpp, count_cache.hpp
///     and docs/memory.md.
///   * Where destructors nest more than 48 deep, the objects below end after those above. So a list
///     of any length ends without filling the stack.
///   * There are no atomic_load, atomic_store, ... for plain shared pointers: use
///   atomic_shared_ptr.
///   * There is no shared_ptr to a function, such as shared_ptr<void()>.
///
/// Thread safety: as the standard's: different objects may be used by different threads at the same
/// time, the same one only for reading.
/// Errors: constructors that allocate throw what the allocator throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/counted/detail/blocks.hpp>
#include <spolia/counted/detail/control.hpp>
#include <spolia/counted/detail/conversions.hpp>
#include <spolia/counted/home.hpp>
#include <spolia/counted/traced.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class T>
class shared_ptr {
 public:
  using element_type = std::remove_extent_t<T>;
  using weak_type = weak_ptr<T>;

  constexpr shared_ptr() noexcept = default;
  constexpr shared_ptr(std::nullptr_t) noexcept {}

  template <class Y>
    requires counted::detail::deletable<Y, T>
  explicit shared_ptr(Y* p)
      : object_(p),
        owner_(counted::detail::taken<Y*, counted::detail::deletes<Y, std::is_array_v<T>>,
                                      counted::detail::own_memory>::make(p, {}, {})) {
    static_assert(
        requires { sizeof(Y); },
        "shared_ptr(p): the type of *p is incomplete here, so its destructor would not "
        "run; give a deleter");
    if constexpr (!std::is_array_v<T>) {
      counted::detail::tell_itself(p, owner_);
      counted::detail::tell_traced(p, owner_);
    }
  }
  template <class Y, class D>
    requires counted::detail::ownable<Y, T> && counted::detail::deleter_for<D, Y*>
  shared_ptr(Y* p, D d)
      : object_(p),
        owner_(
            counted::detail::taken<Y*, D, counted::detail::own_memory>::make(p, std::move(d), {})) {
    if constexpr (!std::is_array_v<T>) counted::detail::tell_itself(p, owner_);
  }
  template <class Y, class D, class A>
    requires counted::detail::ownable<Y, T> && counted::detail::deleter_for<D, Y*>
  shared_ptr(Y* p, D d, A a)
      : object_(p),
        owner_(counted::detail::taken<Y*, D, counted::detail::users_memory<A>>::make(
            p, std::move(d), {std::move(a)})) {
    if constexpr (!std::is_array_v<T>) counted::detail::tell_itself(p, owner_);
  }
  // A deleter may be a generic lambda. To ask whether it takes a nullptr_t compiles its body, which
  // may be an error. So it is asked only of a first argument that is a nullptr_t. If the answer is
  // no, the deleted constructors are chosen, and not the last two.
  template <counted::detail::null_pointer N, class D>
    requires counted::detail::deleter_for<D, std::nullptr_t>
  shared_ptr(N&&, D d)
      : owner_(counted::detail::taken<std::nullptr_t, D, counted::detail::own_memory>::make(
            nullptr, std::move(d), {})) {}
  template <counted::detail::null_pointer N, class D, class A>
    requires counted::detail::deleter_for<D, std::nullptr_t>
  shared_ptr(N&&, D d, A a)
      : owner_(counted::detail::taken<std::nullptr_t, D, counted::detail::users_memory<A>>::make(
            nullptr, std::move(d), {std::move(a)})) {}
  template <counted::detail::null_pointer N, class D>
  shared_ptr(N&&, D) = delete;
  template <counted::detail::null_pointer N, class D, class A>
  shared_ptr(N&&, D, A) = delete;
  // For what is converted: the literals 0 and NULL, {}, and classes. An rvalue, so that a nullptr_t
  // itself fits those above better.
  template <class D>
  shared_ptr(const std::nullptr_t&&, D d) : shared_ptr(nullptr, std::move(d)) {}
  template <class D, class A>
  shared_ptr(const std::nullptr_t&&, D d, A a) : shared_ptr(nullptr, std::move(d), std::move(a)) {}

  template <class Y>
  shared_ptr(const shared_ptr<Y>& r, element_type* p) noexcept : object_(p), owner_(r.owner_) {
    if (owner_ != nullptr) owner_->add(counted::detail::control::strong_unit);
  }
  template <class Y>
  shared_ptr(shared_ptr<Y>&& r, element_type* p) noexcept
      : object_(p), owner_(std::exchange(r.owner_, nullptr)) {
    r.object_ = nullptr;
  }

  shared_ptr(const shared_ptr& r) noexcept : object_(r.object_), owner_(r.owner_) {
    if (owner_ != nullptr) owner_->add(counted::detail::control::strong_unit);
  }
  template <class Y>
    requires counted::detail::compatible<Y, T>
  shared_ptr(const shared_ptr<Y>& r) noexcept : object_(r.object_), owner_(r.owner_) {
    if (owner_ != nullptr) owner_->add(counted::detail::control::strong_unit);
  }
  shared_ptr(shared_ptr&& r) noexcept
      : object_(std::exchange(r.object_, nullptr)), owner_(std::exchange(r.owner_, nullptr)) {}
  template <class Y>
    requires counted::detail::compatible<Y, T>
  shared_ptr(shared_ptr<Y>&& r) noexcept
      : object_(std::exchange(r.object_, nullptr)), owner_(std::exchange(r.owner_, nullptr)) {}

  template <class Y>
    requires counted::detail::compatible<Y, T>
  explicit shared_ptr(const weak_ptr<Y>& r);

  template <class Y, class D>
    requires counted::detail::takes_over<Y, D, T>
  shared_ptr(std::unique_ptr<Y, D>&& r) {
    take_over(r);
  }

  ~shared_ptr() {
    if (owner_ != nullptr) counted::detail::release(owner_);
  }

  shared_ptr& operator=(const shared_ptr& r) noexcept {
    shared_ptr(r).swap(*this);
    return *this;
  }
  template <class Y>
    requires counted::detail::compatible<Y, T>
  shared_ptr& operator=(const shared_ptr<Y>& r) noexcept {
    shared_ptr(r).swap(*this);
    return *this;
  }
  shared_ptr& operator=(shared_ptr&& r) noexcept {
    shared_ptr(std::move(r)).swap(*this);
    return *this;
  }
  template <class Y>
    requires counted::detail::compatible<Y, T>
  shared_ptr& operator=(shared_ptr<Y>&& r) noexcept {
    shared_ptr(std::move(r)).swap(*this);
    return *this;
  }
  template <class Y, class D>
    requires std::is_constructible_v<shared_ptr, std::unique_ptr<Y, D>>
  shared_ptr& operator=(std::unique_ptr<Y, D>&& r) {
    shared_ptr(std::move(r)).swap(*this);
    return *this;
  }

  void swap(shared_ptr& r) noexcept {
    std::swap(object_, r.object_);
    std::swap(owner_, r.owner_);
  }
  void reset() noexcept { shared_ptr().swap(*this); }
  template <class Y>
    requires counted::detail::deletable<Y, T>
  void reset(Y* p) {
    shared_ptr(p).swap(*this);
  }
  template <class Y, class D>
    requires counted::detail::ownable<Y, T> && counted::detail::deleter_for<D, Y*>
  void reset(Y* p, D d) {
    shared_ptr(p, std::move(d)).swap(*this);
  }
  template <class Y, class D, class A>
    requires counted::detail::ownable<Y, T> && counted::detail::deleter_for<D, Y*>
  void reset(Y* p, D d, A a) {
    shared_ptr(p, std::move(d), std::move(a)).swap(*this);
  }

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
  /// Exact where no atomic location was involved. Else it also counts references that wait to be
  /// dropped, and those that threads have at hand (count_cache.hpp).
  [[nodiscard]] long use_count() const noexcept {
    return owner_ == nullptr ? 0 : static_cast<long>(owner_->strong());
  }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  template <class Y>
  [[nodiscard]] bool owner_before(const shared_ptr<Y>& r) const noexcept {
    return std::less<>{}(owner_, counted::detail::access::owner_of(r));
  }
  template <class Y>
  [[nodiscard]] bool owner_before(const weak_ptr<Y>& r) const noexcept {
    return std::less<>{}(owner_, counted::detail::access::owner_of(r));
  }

 private:
  template <class Y>
  friend class shared_ptr;
  template <class Y>
  friend class weak_ptr;
  friend struct counted::detail::access;

  template <class Y, class D>
  void take_over(std::unique_ptr<Y, D>& r) {
    using pointer = typename std::unique_ptr<Y, D>::pointer;
    using left = counted::detail::left_deleter<D>;
    using block = counted::detail::taken<pointer, typename left::type, counted::detail::own_memory>;
    pointer p = r.get();
    if (p == nullptr) return;
    element_type* const object = p;
    auto* const itself = counted::detail::plain_pointer<element_type>(p);
    // Not block::make: if there is no memory, the object stays with r.
    void* const at = counted::detail::allocate_block<alignof(block)>(sizeof(block));
    owner_ = ::new (at)
        block(std::move(p), counted::detail::address_of(itself), left::take(r.get_deleter()), {});
    object_ = object;
    if constexpr (!std::is_array_v<T>) counted::detail::tell_itself(itself, owner_);
    r.release();
  }

  element_type* object_ = nullptr;
  counted::detail::control* owner_ = nullptr;
};

template <class T>
class weak_ptr {
 public:
  using element_type = std::remove_extent_t<T>;

  constexpr weak_ptr() noexcept = default;
  weak_ptr(const weak_ptr& r) noexcept : object_(r.object_), owner_(r.owner_) { add(); }
  template <class Y>
    requires counted::detail::compatible<Y, T>
  weak_ptr(const weak_ptr<Y>& r) noexcept {
    // The conversion may have to read the object, and that may have ended.
    const shared_ptr<Y> alive = r.lock();
    object_ = alive.get();
    owner_ = r.owner_;
    add();
  }
  template <class Y>
    requires counted::detail::compatible<Y, T>
  weak_ptr(const shared_ptr<Y>& r) noexcept : object_(r.object_), owner_(r.owner_) {
    add();
  }
  weak_ptr(weak_ptr&& r) noexcept
      : object_(std::exchange(r.object_, nullptr)), owner_(std::exchange(r.owner_, nullptr)) {}
  template <class Y>
    requires counted::detail::compatible<Y, T>
  weak_ptr(weak_ptr<Y>&& r) noexcept {
    const shared_ptr<Y> alive = r.lock();
    object_ = alive.get();
    owner_ = std::exchange(r.owner_, nullptr);
    r.object_ = nullptr;
  }
  ~weak_ptr() {
    if (owner_ != nullptr) counted::detail::drop_weak(owner_);
  }

  weak_ptr& operator=(const weak_ptr& r) noexcept {
    weak_ptr(r).swap(*this);
    return *this;
  }
  weak_ptr& operator=(weak_ptr&& r) noexcept {
    weak_ptr(std::move(r)).swap(*this);
    return *this;
  }
  template <class Y>
    requires counted::detail::compatible<Y, T>
  weak_ptr& operator=(const weak_ptr<Y>& r) noexcept {
    weak_ptr(r).swap(*this);
    return *this;
  }
  template <class Y>
    requires counted::detail::compatible<Y, T>
  weak_ptr& operator=(weak_ptr<Y>&& r) noexcept {
    weak_ptr(std::move(r)).swap(*this);
    return *this;
  }
  template <class Y>
    requires counted::detail::compatible<Y, T>
  weak_ptr& operator=(const shared_ptr<Y>& r) noexcept {
    weak_ptr(r).swap(*this);
    return *this;
  }

  void swap(weak_ptr& r) noexcept {
    std::swap(object_, r.object_);
    std::swap(owner_, r.owner_);
  }
  void reset() noexcept { weak_ptr().swap(*this); }

  [[nodiscard]] long use_count() const noexcept {
    return owner_ == nullptr ? 0 : static_cast<long>(owner_->strong());
  }
  [[nodiscard]] bool expired() const noexcept { return use_count() == 0; }
  [[nodiscard]] shared_ptr<T> lock() const noexcept {
    if (owner_ == nullptr || !owner_->try_add_strong()) return {};
    return counted::detail::access::make<shared_ptr<T>>(object_, owner_);
  }
  template <class Y>
  [[nodiscard]] bool owner_before(const shared_ptr<Y>& r) const noexcept {
    return std::less<>{}(owner_, counted::detail::access::owner_of(r));
  }
  template <class Y>
  [[nodiscard]] bool owner_before(const weak_ptr<Y>& r) const noexcept {
    return std::less<>{}(owner_, counted::detail::access::owner_of(r));
  }

 private:
  template <class Y>
  friend class weak_ptr;
  template <class Y>
  friend class shared_ptr;
  template <class E>
  friend class enable_shared_from_this;
  friend struct counted::detail::access;

  void add() noexcept {
    if (owner_ != nullptr) owner_->add(counted::detail::control::weak_unit);
  }

  element_type* object_ = nullptr;
  counted::detail::control* owner_ = nullptr;
};

template <class T>
template <class Y>
  requires counted::detail::compatible<Y, T>
shared_ptr<T>::shared_ptr(const weak_ptr<Y>& r) {
  if (r.owner_ == nullptr || !r.owner_->try_add_strong()) throw bad_weak_ptr();
  object_ = r.object_;
  owner_ = r.owner_;
}

template <class T>
shared_ptr(weak_ptr<T>) -> shared_ptr<T>;
template <class T, class D>
shared_ptr(std::unique_ptr<T, D>) -> shared_ptr<T>;
template <class T>
weak_ptr(shared_ptr<T>) -> weak_ptr<T>;

/// A base of objects that can make shared pointers to themselves, once one owns them.
template <class T>
class enable_shared_from_this {
 public:
  shared_ptr<T> shared_from_this() { return shared_ptr<T>(self_); }
  shared_ptr<const T> shared_from_this() const { return shared_ptr<const T>(self_); }
  weak_ptr<T> weak_from_this() noexcept { return self_; }
  weak_ptr<const T> weak_from_this() const noexcept { return self_; }

 protected:
  constexpr enable_shared_from_this() noexcept = default;
  enable_shared_from_this(const enable_shared_from_this&) noexcept {}
  enable_shared_from_this& operator=(const enable_shared_from_this&) noexcept { return *this; }
  ~enable_shared_from_this() = default;

 private:
  friend struct counted::detail::access;

  template <class U>
  void spolia_accept(U* object, counted::detail::control* owner) noexcept {
    if (!self_.expired()) return;
    weak_ptr<T> named;
    named.object_ = object;
    named.owner_ = owner;
    named.add();
    self_ = std::move(named);
  }

  weak_ptr<T> self_;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
