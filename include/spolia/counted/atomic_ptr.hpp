// SPDX-License-Identifier: Apache-2.0
/// \file
/// atomic_shared_ptr and atomic_weak_ptr: the interface of std::atomic<std::shared_ptr<T>> and
/// std::atomic<std::weak_ptr<T>>. One word each, lock-free.
///
/// Differences from the standard's:
///   * What a location gave up ends later, perhaps in another thread; drain() ends it at once.
///   * Operations that change the location may throw std::bad_alloc (on the thread's first use, for
///     a log that grows, for an alias), and so may load on a thread's first use. Then nothing has
///     changed. The destructor never throws.
///   * Storing a pointer allocates an alias if its object begins neither right after its counts nor
///     where its owner says: a member, a base further inside, a null with an owner.
///   * A change of a location, and its end, may run destructors of other objects on the calling
///     thread. So may a load, if no thread has changed any location for half a second: see
///     counted::no_destructors.
/// Equality, for compare_exchange and wait, is the standard's: same pointer and same owner.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/counted/detail/blocks.hpp>
#include <spolia/counted/detail/location.hpp>
#include <spolia/counted/detail/word.hpp>
#include <spolia/counted/private_ptr.hpp>
#include <spolia/counted/shared_ptr.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

/// References of one kind, of pointers that have a block.
template <class P, keeping What>
struct block_units {
  static constexpr bool strong = What == keeping::object;

  static word take(P& p) {
    weigh_again(p);
    const word w = aliases<What>::word_of(access::pair_of(p));
    access::forget(p);
    return w;
  }
  static P give_back(word w) noexcept { return made(aliases<What>::undo(w)); }
  static P counted_up(word w) noexcept {
    const pair p = pair_of(w);
    if (p.owner != nullptr) p.owner->add(strong ? control::strong_unit : control::weak_unit);
    return made(p);
  }
  static bool same(word w, const P& p) noexcept { return pair_of(w) == access::pair_of(p); }
  static constexpr bool caches_counts = strong;
  static bool counts_itself(word w) noexcept { return (w & tag_mask) != tag_alias; }
  static entry unit(word w) noexcept {
    const bool owned = strong || (w & tag_mask) == tag_alias;
    return entry_of(block_of(w), owned ? task::drop_strong : task::drop_weak);
  }
  static std::size_t bytes(word w) noexcept {
    if constexpr (weighed_when_given_up<typename P::element_type>) {
      return bytes_of(block_of(w)) + weigh(*object(w));
    } else {
      return bytes_of(block_of(w));
    }
  }
  static typename P::element_type* object(word w) noexcept {
    return object_of<typename P::element_type>(w);
  }
  static typename P::element_type* made_object(word w) noexcept {
    return reinterpret_cast<typename P::element_type*>(w);
  }

 private:
  /// The object may own more than when it was made, and no other thread can be changing it.
  SPOLIA_ALWAYS_INLINE static void weigh_again([[maybe_unused]] const P& p) noexcept {
    if constexpr (strong && may_weigh<typename P::element_type>) {
      control* const owner = access::pair_of(p).owner;
      if (owner != nullptr && owner->is_unshared()) owner->be_weighed();
    }
  }
  static P made(const pair& p) noexcept {
    return access::make<P>(static_cast<typename P::element_type*>(p.object), p.owner);
  }
};

template <class P, keeping What>
using block_location = location<P, block_units<P, What>>;

}  // namespace counted::detail

template <class T>
class atomic_shared_ptr
    : public counted::detail::block_location<shared_ptr<T>, counted::detail::keeping::object> {
  using base = counted::detail::block_location<shared_ptr<T>, counted::detail::keeping::object>;

 public:
  constexpr atomic_shared_ptr() noexcept = default;
  constexpr atomic_shared_ptr(std::nullptr_t) noexcept {}
  atomic_shared_ptr(shared_ptr<T> desired) : base(std::move(desired)) {}
  atomic_shared_ptr(const atomic_shared_ptr&) = delete;
  atomic_shared_ptr& operator=(const atomic_shared_ptr&) = delete;

  void operator=(shared_ptr<T> desired) { this->store(std::move(desired)); }
  void operator=(std::nullptr_t) { this->store(nullptr); }

  /// Puts `desired` in the place of `expected`, if that is what the location holds.
  bool replace_if(const private_ptr<T>& expected, shared_ptr<T> desired) {
    const counted::detail::pair wanted =
        expected ? counted::detail::pair{as_void(expected.get()), expected.owner()}
                 : counted::detail::pair{};
    const auto same = [&](counted::detail::word seen) {
      return counted::detail::pair_of(seen) == wanted;
    };
    return this->replace_where(same, std::move(desired));
  }

 private:
  template <class Y>
  friend class private_ptr;

  static void* as_void(const volatile void* p) noexcept { return const_cast<void*>(p); }
};

template <class T>
class atomic_weak_ptr
    : public counted::detail::block_location<weak_ptr<T>, counted::detail::keeping::block> {
  using base = counted::detail::block_location<weak_ptr<T>, counted::detail::keeping::block>;

 public:
  constexpr atomic_weak_ptr() noexcept = default;
  atomic_weak_ptr(weak_ptr<T> desired) : base(std::move(desired)) {}
  atomic_weak_ptr(const atomic_weak_ptr&) = delete;
  atomic_weak_ptr& operator=(const atomic_weak_ptr&) = delete;

  void operator=(weak_ptr<T> desired) { this->store(std::move(desired)); }
};

// What a location holds, with a count of its own.
template <class T>
shared_ptr(const atomic_shared_ptr<T>&) -> shared_ptr<T>;
template <class T>
weak_ptr(const atomic_weak_ptr<T>&) -> weak_ptr<T>;

}  // namespace spolia::inline SPOLIA_FLAVOUR
