// SPDX-License-Identifier: Apache-2.0
/// \file
/// Hazard pointers with the names and the meaning of C++26 [saferecl.hp], in namespace spolia.
///
///     struct node : spolia::hazard_pointer_obj_base<node> { ... };
///     std::atomic<node*> head;
///
///     auto h = spolia::make_hazard_pointer();          // reader
///     if (node* n = h.protect(head)) use(*n);          // until h goes or protects something else
///
///     if (node* old = head.exchange(fresh)) old->retire();     // writer; frees it when it can
///
/// All hazard pointers of a process belong to one domain, which lives in the compiled library.
///
/// Thread safety: a hazard_pointer belongs to one thread at a time, like any object; it may be
/// moved to another thread, and be destroyed there after the first one has ended. retire may be
/// called anywhere: in deleters and in destructors of thread-local objects, too.
/// Errors: make_hazard_pointer and make_hazard_pointer_batch may throw std::bad_alloc; nothing else
/// fails, and retire never allocates. Deleters must not throw.
/// When: retire, and now and then make_hazard_pointer, may run deleters of other objects, in their
/// caller: hold no lock there that a deleter takes. About 1024 objects wait for each thread, or a
/// second is over, before it looks at the hazard pointers; the bound is
/// hazard_pointer_garbage_bound(). What a deleter retires comes on top of it until its thread's
/// next call of retire returns.
/// Handing on: a protected object is handed on by moving or swapping its hazard_pointer. Naming it
/// in a second one by reset_protection(p) helps against retirements that come after that, only.
/// Unloading: the code of a deleter must stay: call hazard_pointer_clean_up() before a plugin goes,
/// until it returns true.
///
/// Extensions: sources may be spolia::atomic, too; hazard_pointer_clean_up, _garbage,
/// _garbage_bytes, _garbage_bound. The scheme behind it: reclaim/detail/handed_hazards.hpp.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/source.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/base/weight.hpp>
#include <spolia/reclaim/detail/face_base.hpp>
#include <spolia/reclaim/detail/handed_hazards.hpp>
#include <spolia/reclaim/detail/place.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {
/// A slot is a spolia::atomic<const void*>. take_hazard_slot throws std::bad_alloc.
SPOLIA_EXPORT void* take_hazard_slot();
SPOLIA_EXPORT void give_back_hazard_slot(void* slot) noexcept;
/// `bytes`: what the object takes, with what it owns.
SPOLIA_EXPORT void retire_by_hazards(place&, std::size_t bytes) noexcept;
SPOLIA_EXPORT bool clean_up_hazards() noexcept;
SPOLIA_EXPORT std::uint64_t hazards_garbage() noexcept;
SPOLIA_EXPORT std::uint64_t hazards_garbage_bytes() noexcept;
SPOLIA_EXPORT std::uint64_t hazards_garbage_bound(std::size_t threads) noexcept;
}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {

template <class T, class D = std::default_delete<T>>
class hazard_pointer_obj_base;

/// T has exactly one base hazard_pointer_obj_base<T, D>, which is public and not virtual, and no
/// other specialization of it.
template <class T>
concept hazard_protectable = detail::reclaim::has_base_of_its_own<hazard_pointer_obj_base, T>;

/// The base of what hazard pointers can protect. T may be incomplete until a member is used.
template <class T, class D>
class hazard_pointer_obj_base {
 public:
  /// Calls d(x) for this object x once no hazard pointer protects it. At most once per object.
  void retire(D d = D()) noexcept {
    static_assert(hazard_protectable<T>,
                  "T must have one public, non-virtual base hazard_pointer_obj_base<T, D>");
    T* const self = static_cast<T*>(this);
    if (!detail::reclaim::prepare<hazard_pointer_obj_base>(spolia_place_, self)) return;
    spolia_deleter_ = std::move(d);
    core::retire_by_hazards(spolia_place_, detail::weighing::of_whole(*self));
  }

 protected:
  hazard_pointer_obj_base() = default;
  hazard_pointer_obj_base(const hazard_pointer_obj_base&) = default;
  hazard_pointer_obj_base(hazard_pointer_obj_base&&) = default;
  hazard_pointer_obj_base& operator=(const hazard_pointer_obj_base&) = default;
  hazard_pointer_obj_base& operator=(hazard_pointer_obj_base&&) = default;
  ~hazard_pointer_obj_base() = default;

 private:
  friend struct detail::reclaim::endings;

  // A long name, so that it hides none in classes that derive from this.
  detail::reclaim::uncopied_place spolia_place_;
  [[no_unique_address]] D spolia_deleter_;
};

/// Owns a hazard pointer, or is empty. Move-only.
class hazard_pointer {
 public:
  hazard_pointer() noexcept = default;
  hazard_pointer(hazard_pointer&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  hazard_pointer& operator=(hazard_pointer&& other) noexcept {
    if (this != &other) {
      finish();
      slot_ = std::exchange(other.slot_, nullptr);
    }
    return *this;
  }
  ~hazard_pointer() { finish(); }

  [[nodiscard]] bool empty() const noexcept { return slot_ == nullptr; }

  /// The pointer in `src`, protected. Not to be called on an empty object, like all that follows.
  template <class T>
  T* protect(const standard_atomic<T*>& src) noexcept {
    return protect_from<T>(src);
  }
  template <class T>
  T* protect(const atomic<T*>& src) noexcept {
    return protect_from<T>(src);
  }

  /// One attempt to protect `ptr`: true if it still stands in `src`. Else `ptr` is what stands
  /// there now, and nothing is protected.
  template <class T>
  bool try_protect(T*& ptr, const standard_atomic<T*>& src) noexcept {
    return try_protect_from(ptr, src);
  }
  template <class T>
  bool try_protect(T*& ptr, const atomic<T*>& src) noexcept {
    return try_protect_from(ptr, src);
  }

  /// Protects an object that is not retired yet.
  template <class T>
  void reset_protection(const T* ptr) noexcept {
    static_assert(hazard_protectable<T>, "T must be hazard-protectable");
    if (owns_one()) detail::reclaim::handed_hazards::associate(*slot_, ptr);
  }
  /// Ends the protection.
  void reset_protection(std::nullptr_t = nullptr) noexcept {
    if (owns_one()) detail::reclaim::handed_slots::clear(*slot_);
  }

  void swap(hazard_pointer& other) noexcept { std::swap(slot_, other.slot_); }

 private:
  using slot = detail::reclaim::handed_slots::slot;
  friend hazard_pointer make_hazard_pointer();
  friend void make_hazard_pointer_batch(std::span<hazard_pointer> batch);

  static slot* new_slot() { return static_cast<slot*>(core::take_hazard_slot()); }

  void finish() noexcept {
    if (slot_ != nullptr) core::give_back_hazard_slot(slot_);
  }

  bool owns_one() const noexcept {
    if (SPOLIA_CHECKS && slot_ == nullptr) {
      misuse::report("an empty hazard_pointer protects nothing", threads::number());
      return false;
    }
    return true;
  }

  template <class T, class Source>
  T* protect_from(const Source& src) noexcept {
    static_assert(hazard_protectable<T>, "T must be hazard-protectable");
    T* seen = source_traits<Source>::load_relaxed(src);
    if (!owns_one()) {
      seen = nullptr;
      // Else a compiler that sees it warns of null where a program uses what it has protected.
      asm("" : "+r"(seen));
      return seen;
    }
    while (!detail::reclaim::handed_hazards::try_protect(*slot_, seen, src)) continue;
    return seen;
  }

  template <class T, class Source>
  bool try_protect_from(T*& ptr, const Source& src) noexcept {
    static_assert(hazard_protectable<T>, "T must be hazard-protectable");
    return owns_one() && detail::reclaim::handed_hazards::try_protect(*slot_, ptr, src);
  }

  slot* slot_ = nullptr;
};

/// A hazard pointer that protects nothing yet. Throws std::bad_alloc.
[[nodiscard]] inline hazard_pointer make_hazard_pointer() {
  hazard_pointer made;
  made.slot_ = hazard_pointer::new_slot();
  return made;
}

inline void swap(hazard_pointer& a, hazard_pointer& b) noexcept { a.swap(b); }

/// Gives each empty element a hazard pointer. Throws std::bad_alloc; then nothing has changed.
inline void make_hazard_pointer_batch(std::span<hazard_pointer> batch) {
  using slot = hazard_pointer::slot;
  slot* chain = nullptr;  // each names the next one, and no object lies there: no scan minds
  const auto next_in_chain = [&] {
    slot* const first = chain;
    chain = static_cast<slot*>(const_cast<void*>(first->load_relaxed()));
    return first;
  };
  try {
    for (const hazard_pointer& h : batch) {
      if (!h.empty()) continue;
      slot* const fresh = hazard_pointer::new_slot();
      // release → the acquire in gather(), as for every name.
      fresh->store_release(chain);
      chain = fresh;
    }
  } catch (...) {
    while (chain != nullptr) core::give_back_hazard_slot(next_in_chain());
    throw;
  }
  for (hazard_pointer& h : batch) {
    if (!h.empty()) continue;
    h.slot_ = next_in_chain();
    detail::reclaim::handed_slots::clear(*h.slot_);
  }
}

/// Empties each element.
inline void clear_hazard_pointer_batch(std::span<hazard_pointer> batch) noexcept {
  for (hazard_pointer& h : batch) h = hazard_pointer();
}

/// Extension: frees what is retired and not protected by any thread, as far as no other thread is
/// busy with it, and what the deleters that it runs retire, however long a chain they make: each
/// link takes a scan of the hazard pointers. True if nothing waits any more.
inline bool hazard_pointer_clean_up() noexcept { return core::clean_up_hazards(); }

/// Extension: objects that are retired and not yet reclaimed; approximate while others work.
inline std::uint64_t hazard_pointer_garbage() noexcept { return core::hazards_garbage(); }

/// Extension: what these take, with what they own (base/weight.hpp).
inline std::uint64_t hazard_pointer_garbage_bytes() noexcept {
  return core::hazards_garbage_bytes();
}

/// Extension: how many can wait at most, whatever `threads` threads do, with the hazard pointers
/// made so far. Besides, there may wait all that the deleters which a call of retire runs have
/// retired, until the thread's next call returns: a deleter that retires a million objects goes a
/// million beyond. And what ended threads have left: it is taken over when that is 1024 objects.
inline std::uint64_t hazard_pointer_garbage_bound(std::size_t threads) noexcept {
  return core::hazards_garbage_bound(threads);
}

}  // namespace spolia::inline SPOLIA_FLAVOUR
