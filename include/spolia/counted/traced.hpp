// SPDX-License-Identifier: Apache-2.0
/// \file
/// traced: a base for objects that can name their children, so that cycles of them can be found,
/// and ended if you like: see cycles.hpp.
///
///     struct person : spolia::traced<person> {
///       spolia::shared_ptr<person> best_friend;
///       spolia::atomic_shared_ptr<person> boss;
///       template <class F> void each_child(F&& f) { f(best_friend), f(boss); }
///     };
///
/// each_child calls f for each counted pointer in the object: shared_ptr, thin_ptr, and locations
/// of both; weak ones are no children. A pointer that each_child leaves out counts as held from
/// outside, so nothing that it leads to is taken for a cycle.
///
/// Objects from make_shared, allocate_shared, make_thin or shared_ptr(new T) take part. Others,
/// such as members of other objects and elements of arrays, may derive from traced, too; what they
/// point to counts as held from outside.
///
/// Cost: 32 bytes an object, and one of 16 locks for its begin and its end. Thread safety: as
/// the object's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <typeinfo>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/counted/detail/conversions.hpp>
#include <spolia/counted/detail/type_of.hpp>
#include <spolia/counted/detail/unit_log.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {

class traced_object;

/// Hears of an object's children.
class child_visitor {
 public:
  /// The child's block or head, as an entry of a log, and what a pin of the pointer names, if that
  /// is something else. True: the pointer is to become null.
  virtual bool child(std::uintptr_t entry, std::uintptr_t pinned_as) = 0;

 protected:
  ~child_visitor() = default;
};

/// What differs from type to type.
struct traced_kind {
  void (*children)(traced_object&, child_visitor&);
  const std::type_info* type;  ///< null: made without RTTI
  std::size_t bytes;
};

/// An object in the list of all.
class traced_object {
 public:
  traced_object(const traced_object&) = delete;
  traced_object& operator=(const traced_object&) = delete;

  [[nodiscard]] const traced_kind& kind() const noexcept { return kind_; }
  /// Its block or head; 0 while nothing is known to own it for its whole life.
  [[nodiscard]] std::uintptr_t owner() const noexcept { return owner_; }
  void owned_by(std::uintptr_t entry) noexcept { owner_ = entry; }

 protected:
  explicit traced_object(const traced_kind& k) noexcept : kind_(k) { enlist(); }
  ~traced_object() { leave(); }

 private:
  friend class traced_list;
#if defined(SPOLIA_MODEL)
  void enlist() noexcept {}
  void leave() noexcept {}
#else
  SPOLIA_EXPORT void enlist() noexcept;
  SPOLIA_EXPORT void leave() noexcept;
#endif

  const traced_kind& kind_;
  std::uintptr_t owner_ = 0;
  traced_object* next_ = nullptr;
  traced_object* previous_ = nullptr;
};

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {

template <class T>
class atomic_shared_ptr;
template <class T>
class thin_ptr;
template <class T>
class atomic_thin_ptr;

namespace counted::detail {

/// What each_child is given.
class child_caller {
 public:
  explicit child_caller(core::child_visitor& v) noexcept : visitor_(v) {}

  template <class T>
  void operator()(shared_ptr<T>& p) const {
    if (told(access::owner_of(p))) p.reset();
  }
  template <class T>
  void operator()(thin_ptr<T>& p) const {
    if (told_thin(reinterpret_cast<word>(p.get()))) p.reset();
  }
  // No other thread may use a location now, and its reference keeps what it holds. So it is read,
  // and not loaded: a thread that loads often has references at hand (count_cache.hpp), which would
  // count as held.
  template <class T>
  void operator()(atomic_shared_ptr<T>& p) const {
    const word w = access::words_of(p).load_relaxed();
    if (told(pair_of(w).owner, (w & tag_mask) == tag_alias ? name_of(w) : 0)) p.store(nullptr);
  }
  template <class T>
  void operator()(atomic_thin_ptr<T>& p) const {
    if (told_thin(access::words_of(p).load_relaxed())) p.store(nullptr);
  }

 private:
  [[nodiscard]] bool told(const control* owner, name pinned_as = 0) const {
    return owner != nullptr && visitor_.child(entry_of(owner, task::drop_strong), pinned_as);
  }
  [[nodiscard]] bool told_thin(word w) const {
    if (w == 0) return false;
    const head* const h = head_of(reinterpret_cast<const void*>(w));
    return visitor_.child(entry_of(h, task::drop_strong), 0);
  }
  core::child_visitor& visitor_;
};

// Of classes alone: the question would complete what other types are made of.
template <class T>
concept is_traced =
    std::is_class_v<T> && std::is_convertible_v<std::remove_cv_t<T>*, core::traced_object*>;

/// The object at p is owned by b, a block or head, from its begin to its end.
template <class T, class Block>
void tell_traced([[maybe_unused]] T* p, [[maybe_unused]] const Block* b) noexcept {
  if constexpr (is_traced<T>) {
    const_cast<std::remove_cv_t<T>*>(p)->owned_by(entry_of(b, task::drop_strong));
  }
}
/// It is about to end; its count need not say so.
template <class T>
void no_longer_traced([[maybe_unused]] T* p) noexcept {
  if constexpr (is_traced<T>) const_cast<std::remove_cv_t<T>*>(p)->owned_by(0);
}

}  // namespace counted::detail

template <class T>
class traced : public core::traced_object {
 protected:
  traced() noexcept : core::traced_object(kind_of_all) {}
  traced(const traced&) noexcept : traced() {}
  traced& operator=(const traced&) noexcept { return *this; }
  ~traced() = default;

 private:
  static void children(core::traced_object& o, core::child_visitor& v) {
    static_cast<T&>(static_cast<traced&>(o)).each_child(counted::detail::child_caller(v));
  }
  SPOLIA_OWN_COPY static constexpr core::traced_kind kind_of_all{
      &children, counted::detail::type_of<T>(), sizeof(T)};
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
