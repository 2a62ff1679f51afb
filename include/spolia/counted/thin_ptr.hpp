// SPDX-License-Identifier: Apache-2.0
/// \file
/// thin_ptr, atomic_thin_ptr, private_thin_ptr: shared pointers of one word each, for the nodes of
/// large structures. The object must come from make_thin, and a pointer points to the whole of it:
/// there are no aliases, conversions, deleters, allocators or weak pointers.
///
///     struct node { long key; spolia::atomic_thin_ptr<node> left, right; };
///     spolia::atomic_thin_ptr<node> root(spolia::make_thin<node>(7));
///     spolia::private_thin_ptr n(root);
///     while (n && n->key != key) n = key < n->key ? n->left : n->right;
///
/// Eight bytes of counts lie before the object, which comes from the pool (pool.hpp). So it takes
/// no more room than an object without counts that malloc allocates.
///
/// Objects end as with shared_ptr and atomic_shared_ptr: at once where a plain pointer drops the
/// last reference, later where a location does. See docs/memory.md.
///
/// Thread safety: thin_ptr as shared_ptr; atomic_thin_ptr by any thread; private_thin_ptr and its
/// copies belong to one thread, and must be gone before that thread ends. Errors: make_thin throws
/// std::bad_alloc, or what the constructor throws; changing a location and taking a private pointer
/// may throw std::bad_alloc as in location.hpp and held_slot.hpp. Do not dereference a null
/// pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/made_once.hpp>
#include <spolia/counted/detail/comparisons.hpp>
#include <spolia/counted/detail/head.hpp>
#include <spolia/counted/detail/held_slot.hpp>
#include <spolia/counted/detail/location.hpp>
#include <spolia/counted/detail/pool.hpp>
#include <spolia/counted/detail/word.hpp>
#include <spolia/counted/home.hpp>
#include <spolia/counted/traced.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class T>
class atomic_thin_ptr;

namespace counted::detail {

/// How objects of one type are made and ended.
template <class T>
struct thin_kind {
  static_assert(std::is_object_v<T> && !std::is_array_v<T>, "thin pointers are for single objects");
  // Heads lie at multiples of 8: see entry in unit_log.hpp.
  static constexpr std::size_t align = alignof(T) < 8 ? 8 : alignof(T);
  static constexpr std::size_t front = (sizeof(head) + align - 1) / align * align;

  template <class... Args>
  static T* make(Args&&... args) {
    const std::uint32_t kind = number();
    void* const at = allocate_thin<align, front>(sizeof(T));
    T* made = nullptr;
    try {
      made = ::new (at) T(std::forward<Args>(args)...);
    } catch (...) {
      deallocate_thin<align, front>(at, sizeof(T));
      throw;
    }
    auto* const h = ::new (static_cast<void*>(head_of(at))) head(kind);
    if constexpr (may_weigh<T>) h->weighs(weigh(*made));
    counted::detail::tell_traced(made, h);
    return made;
  }

  static void end(head* h) noexcept {
    auto* const object = static_cast<std::remove_cv_t<T>*>(h->object());
    counted::detail::no_longer_traced(object);
    std::destroy_at(object);
    h->~head();
    counted::detail::deallocate_thin<align, front>(object, sizeof(T));
  }
  SPOLIA_OWN_COPY static constexpr head_ops ops{&end, sizeof(head) + sizeof(T),
                                                std::is_trivially_destructible_v<T>};

 private:
  static std::uint32_t number() {
    return given.get([](void* at) { return ::new (at) std::uint32_t(add_thin_kind(&ops)); });
  }
  // The number belongs to the table of one copy of the library.
  SPOLIA_OWN_COPY static inline constinit made_once<std::uint32_t> given;
};

}  // namespace counted::detail

template <class T>
class thin_ptr {
 public:
  using element_type = T;

  constexpr thin_ptr() noexcept = default;
  constexpr thin_ptr(std::nullptr_t) noexcept {}
  thin_ptr(const thin_ptr& r) noexcept : object_(r.object_) {
    if (object_ != nullptr) counted::detail::head_of(object_)->add_one();
  }
  thin_ptr(thin_ptr&& r) noexcept : object_(std::exchange(r.object_, nullptr)) {}
  ~thin_ptr() {
    if (object_ != nullptr) counted::detail::release(counted::detail::head_of(object_));
  }
  thin_ptr& operator=(const thin_ptr& r) noexcept {
    thin_ptr(r).swap(*this);
    return *this;
  }
  thin_ptr& operator=(thin_ptr&& r) noexcept {
    thin_ptr(std::move(r)).swap(*this);
    return *this;
  }

  void swap(thin_ptr& r) noexcept { std::swap(object_, r.object_); }
  void reset() noexcept { thin_ptr().swap(*this); }

  [[nodiscard]] T* get() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  /// As shared_ptr's.
  [[nodiscard]] long use_count() const noexcept {
    return object_ == nullptr
               ? 0
               : static_cast<long>(counted::detail::head_of(object_)->units.load_relaxed());
  }

 private:
  template <class U, class... Args>
  friend thin_ptr<U> make_thin(Args&&... args);
  template <class U>
  friend class private_thin_ptr;
  template <class U>
  friend struct thin_units;

  /// Takes over a reference.
  explicit thin_ptr(T* object) noexcept : object_(object) {}

  T* object_ = nullptr;
};

template <class T, class... Args>
thin_ptr<T> make_thin(Args&&... args) {
  return thin_ptr<T>(counted::detail::thin_kind<T>::make(std::forward<Args>(args)...));
}

/// For location.hpp: the word is the object's address.
template <class T>
struct thin_units {
  static counted::detail::word take(thin_ptr<T>& p) noexcept {
    if constexpr (counted::detail::may_weigh<T>) {
      // It may own more than when it was made, and no other thread can be changing it.
      if (p && counted::detail::head_of(p.get())->is_unshared()) {
        counted::detail::head_of(p.get())->weighs(weigh(*p));
      }
    }
    return reinterpret_cast<counted::detail::word>(std::exchange(p.object_, nullptr));
  }
  static thin_ptr<T> give_back(counted::detail::word w) noexcept { return thin_ptr<T>(object(w)); }
  static thin_ptr<T> counted_up(counted::detail::word w) noexcept {
    if (w != 0) head(w)->add_one();
    return give_back(w);
  }
  static bool same(counted::detail::word w, const thin_ptr<T>& p) noexcept {
    return object(w) == p.get();
  }
  static constexpr bool caches_counts = true;
  static bool counts_itself(counted::detail::word) noexcept { return true; }
  static counted::detail::entry unit(counted::detail::word w) noexcept {
    return counted::detail::entry_of(head(w), counted::detail::task::drop_strong);
  }
  static std::size_t bytes([[maybe_unused]] counted::detail::word w) noexcept {
    std::size_t all = counted::detail::thin_kind<T>::ops.bytes;
    if constexpr (counted::detail::may_weigh<T>) {
      all += head(w)->owned_bytes();
    } else if constexpr (counted::detail::weighed_when_given_up<T>) {
      all += weigh(*object(w));
    }
    return all;
  }

  static T* object(counted::detail::word w) noexcept { return reinterpret_cast<T*>(w); }
  static T* made_object(counted::detail::word w) noexcept { return object(w); }
  static counted::detail::head* head(counted::detail::word w) noexcept {
    return counted::detail::head_of(object(w));
  }
};

/// A pointer for one thread's own use, as private_ptr.
template <class T>
class private_thin_ptr : public counted::detail::private_base<T> {
  using base = counted::detail::private_base<T>;

 public:
  constexpr private_thin_ptr() noexcept = default;
  constexpr private_thin_ptr(std::nullptr_t) noexcept {}
  /// What the location holds now.
  SPOLIA_ALWAYS_INLINE explicit private_thin_ptr(const atomic_thin_ptr<T>& from)
      : base(counted::detail::held_slot::begin_at(counted::detail::access::words_of(from)),
             &thin_units<T>::object) {}
  /// What a location holds that may lie in the object r points to. Goes on with r's protection.
  template <class Y>
  SPOLIA_ALWAYS_INLINE private_thin_ptr(private_thin_ptr<Y>&& r, const atomic_thin_ptr<T>& from) {
    r.object_ = nullptr;
    this->slot_ = std::move(r.slot_);
    load(from);
  }
  /// Holds its own count, so r may go.
  explicit private_thin_ptr(const thin_ptr<T>& r) {
    if (!r) return;
    this->slot_.hold(counted::detail::head_of(r.get()));
    this->object_ = r.get();
  }

  private_thin_ptr(const private_thin_ptr&) noexcept = default;
  private_thin_ptr(private_thin_ptr&&) noexcept = default;
  SPOLIA_ALWAYS_INLINE ~private_thin_ptr() = default;  // as private_base's
  private_thin_ptr& operator=(const private_thin_ptr&) noexcept = default;
  private_thin_ptr& operator=(private_thin_ptr&&) noexcept = default;
  /// What the location holds now. It may lie in the object that this points to.
  SPOLIA_ALWAYS_INLINE private_thin_ptr& operator=(const atomic_thin_ptr<T>& from) {
    load(from);
    return *this;
  }
  private_thin_ptr& operator=(const thin_ptr<T>& r) {
    private_thin_ptr(r).swap(*this);
    return *this;
  }
  private_thin_ptr& operator=(std::nullptr_t) noexcept {
    this->reset();
    return *this;
  }

  void swap(private_thin_ptr& r) noexcept { base::swap(r); }

  /// A counted pointer to the same object, which may leave the thread.
  [[nodiscard]] thin_ptr<T> share_out() const noexcept {
    return thin_units<T>::counted_up(reinterpret_cast<counted::detail::word>(this->object_));
  }
  explicit operator thin_ptr<T>() const noexcept { return share_out(); }

 private:
  template <class Y>
  friend class private_thin_ptr;

  SPOLIA_ALWAYS_INLINE void load(const atomic_thin_ptr<T>& from) {
    this->object_ =
        thin_units<T>::object(this->slot_.move_to(counted::detail::access::words_of(from)));
  }
};

/// A location that threads change and read at once: the members of atomic_shared_ptr.
template <class T>
class atomic_thin_ptr : public counted::detail::location<thin_ptr<T>, thin_units<T>> {
  using base = counted::detail::location<thin_ptr<T>, thin_units<T>>;

 public:
  constexpr atomic_thin_ptr() noexcept = default;
  constexpr atomic_thin_ptr(std::nullptr_t) noexcept {}
  atomic_thin_ptr(thin_ptr<T> desired) noexcept : base(std::move(desired)) {}
  atomic_thin_ptr(const atomic_thin_ptr&) = delete;
  atomic_thin_ptr& operator=(const atomic_thin_ptr&) = delete;
  ~atomic_thin_ptr() = default;

  void operator=(thin_ptr<T> desired) { this->store(std::move(desired)); }
  void operator=(std::nullptr_t) { this->store(nullptr); }

  /// Puts `desired` in the place of `expected`, if that is what the location holds.
  bool replace_if(const private_thin_ptr<T>& expected, thin_ptr<T> desired) {
    const auto same = [wanted = reinterpret_cast<counted::detail::word>(expected.get())](
                          counted::detail::word seen) { return seen == wanted; };
    return this->replace_where(same, std::move(desired));
  }
};

template <class T>
thin_ptr(const atomic_thin_ptr<T>&) -> thin_ptr<T>;
template <class T>
thin_ptr(const private_thin_ptr<T>&) -> thin_ptr<T>;

}  // namespace spolia::inline SPOLIA_FLAVOUR
