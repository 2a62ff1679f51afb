// SPDX-License-Identifier: Apache-2.0
/// \file
/// private_ptr: a pointer to a shared object for one thread's own use, such as a walk through a
/// structure. While it points to an object, the object does not end. Taken from an atomic location
/// it changes no count, so any number of threads may read one object without a shared write.
///
///     spolia::private_ptr n(head);                  // head, next: spolia::atomic_shared_ptr<node>
///     while (n && n->key < key) n = n->next;
///
/// Thread safety: a private_ptr, its copies and what it was moved to belong to one thread, and must
/// be gone before that thread ends.
/// Errors: taking a pointer from a location or a shared_ptr may throw std::bad_alloc: on the
/// thread's first use, and when it has more private pointers than ever before. Then nothing has
/// changed. Assigning to one that has no copies never fails.
/// Cost: a private_ptr taken from a location also holds up the object that it pointed to before,
/// until it is assigned to again, reset or destroyed. So does one that is null because the location
/// was null. A private_ptr taken from a shared_ptr holds a count.
/// Copies share the protection; they cost a plain increment.
#pragma once

#include <cstddef>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/counted/detail/comparisons.hpp>
#include <spolia/counted/detail/held_slot.hpp>
#include <spolia/counted/shared_ptr.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class T>
class atomic_shared_ptr;

template <class T>
class private_ptr : public counted::detail::private_base<T> {
  using base = counted::detail::private_base<T>;

 public:
  constexpr private_ptr() noexcept = default;
  constexpr private_ptr(std::nullptr_t) noexcept {}
  private_ptr(const private_ptr&) noexcept = default;
  private_ptr(private_ptr&&) noexcept = default;
  template <class Y>
    requires counted::detail::compatible<Y, T>
  private_ptr(const private_ptr<Y>& r) noexcept
      : base(r.object_, r.object_ != nullptr ? r.slot_ : counted::detail::held_slot()) {}
  template <class Y>
    requires counted::detail::compatible<Y, T>
  private_ptr(private_ptr<Y>&& r) noexcept
      : base(std::exchange(r.object_, nullptr), std::move(r.slot_)) {}

  /// What the location holds now.
  template <class Y>
    requires counted::detail::compatible<Y, T>
  SPOLIA_ALWAYS_INLINE explicit private_ptr(const atomic_shared_ptr<Y>& from)
      : base(counted::detail::held_slot::begin_at(counted::detail::access::words_of(from)),
             &object_in<Y>) {}
  /// What a location holds that may lie in the object r points to. Goes on with r's protection.
  template <class Y>
  SPOLIA_ALWAYS_INLINE private_ptr(private_ptr<Y>&& r, const atomic_shared_ptr<T>& from) {
    r.object_ = nullptr;
    this->slot_ = std::move(r.slot_);
    load(from);
  }
  /// Holds its own count, so r may go.
  template <class Y>
    requires counted::detail::compatible<Y, T>
  explicit private_ptr(const shared_ptr<Y>& r) {
    if (!r) return;
    this->slot_.hold(counted::detail::access::owner_of(r));
    this->object_ = r.get();
  }

  SPOLIA_ALWAYS_INLINE ~private_ptr() = default;  // as private_base's
  private_ptr& operator=(const private_ptr&) noexcept = default;
  private_ptr& operator=(private_ptr&&) noexcept = default;
  template <class Y>
    requires counted::detail::compatible<Y, T>
  private_ptr& operator=(const private_ptr<Y>& r) noexcept {
    private_ptr(r).swap(*this);
    return *this;
  }
  template <class Y>
    requires counted::detail::compatible<Y, T>
  private_ptr& operator=(private_ptr<Y>&& r) noexcept {
    private_ptr(std::move(r)).swap(*this);
    return *this;
  }
  /// What the location holds now. It may lie in the object that this points to.
  template <class Y>
    requires counted::detail::compatible<Y, T>
  SPOLIA_ALWAYS_INLINE private_ptr& operator=(const atomic_shared_ptr<Y>& from) {
    load(from);
    return *this;
  }
  template <class Y>
    requires counted::detail::compatible<Y, T>
  private_ptr& operator=(const shared_ptr<Y>& r) {
    private_ptr(r).swap(*this);
    return *this;
  }
  private_ptr& operator=(std::nullptr_t) noexcept {
    this->reset();
    return *this;
  }

  void swap(private_ptr& r) noexcept { base::swap(r); }

  /// A counted pointer to the same object, which may leave the thread.
  [[nodiscard]] shared_ptr<T> share_out() const noexcept {
    if (this->object_ == nullptr) return {};
    counted::detail::control* const owner = this->owner();
    if (owner != nullptr) owner->add_one();
    return counted::detail::access::make<shared_ptr<T>>(this->object_, owner);
  }
  explicit operator shared_ptr<T>() const noexcept { return share_out(); }

 private:
  template <class Y>
  friend class private_ptr;
  template <class Y>
  friend class atomic_shared_ptr;

  template <class Y>
  SPOLIA_ALWAYS_INLINE void load(const atomic_shared_ptr<Y>& from) {
    const counted::detail::word w = this->slot_.move_to(counted::detail::access::words_of(from));
    this->object_ =
        w == 0 ? nullptr : object_in<Y>(w);  // so a caller that asks for null has the answer
  }
  template <class Y>
  SPOLIA_ALWAYS_INLINE static auto object_in(counted::detail::word w) noexcept {
    return counted::detail::object_of<typename shared_ptr<Y>::element_type>(w);
  }

  [[nodiscard]] counted::detail::control* owner() const noexcept {
    if (const counted::detail::entry unit = this->slot_.unit())
      return counted::detail::block_of_entry(unit);
    return counted::detail::pair_of(this->slot_.named()).owner;
  }
};

template <class T>
private_ptr(const atomic_shared_ptr<T>&) -> private_ptr<T>;
template <class T>
private_ptr(const shared_ptr<T>&) -> private_ptr<T>;
template <class T>
shared_ptr(const private_ptr<T>&) -> shared_ptr<T>;

}  // namespace spolia::inline SPOLIA_FLAVOUR
