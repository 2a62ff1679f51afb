// SPDX-License-Identifier: Apache-2.0
/// \file
/// atomic_shared_ptr and atomic_weak_ptr: the interface of std::atomic<std::shared_ptr<T>> and
/// std::atomic<std::weak_ptr<T>>. One word each, lock-free.
///
/// Source: ISMM 2018, section 3.1; what is deferred and what is not: collector.hpp.
/// A location's unit is never handed to a plain pointer, which would drop it at once under the eyes
/// of a pin: load and exchange count up for their caller, and exchange logs the location's unit.
///
/// Differences from the standard's:
///   * What a location gave up ends later, perhaps in another thread; drain() ends it at once.
///   * Operations that change the location may throw std::bad_alloc (on the thread's first use, for
///     a log that grows, for an alias), and so may load on a thread's first use. Then nothing has
///     changed. The destructor never throws.
///   * Storing a pointer whose object does not begin right behind its counts, or where its owner
///     says (a member, a base further inside, a null with an owner) allocates an alias.
///   * Changing a location may run destructors of other objects in its caller: see
///     counted::no_destructors.
/// Equality, for compare_exchange and wait, is the standard's: same pointer and same owner.
#pragma once

#include <atomic>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/counted/blocks.hpp>
#include <spolia/counted/home.hpp>
#include <spolia/counted/private_ptr.hpp>
#include <spolia/counted/shared_ptr.hpp>
#include <spolia/counted/word.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted {

/// A location that holds pointers of type P, with units of one kind.
template <class P, keeping What>
class location {
  using aliasing = aliases<What>;
  static constexpr bool strong = What == keeping::object;
  static constexpr std::uint64_t unit = strong ? control::strong_unit : control::weak_unit;
  using order = std::memory_order;

 public:
  using value_type = P;
  static constexpr bool is_always_lock_free = true;

  constexpr location() noexcept = default;
  location(P desired) : word_(word_from(desired)) {}
  location(const location&) = delete;
  location& operator=(const location&) = delete;
  ~location() {
    // relaxed: who ends the location sees all its changes.
    if (const word w = word_.load_relaxed(); w != 0) {
      end_of_location(entry_of(block_of(w), kind_of(w)), block_of(w)->ops->bytes(block_of(w)));
    }
  }

  [[nodiscard]] bool is_lock_free() const noexcept { return true; }

  [[nodiscard]] P load(order o = order::seq_cst) const {
    pin& p = here().pins.passing();
    const word w = p.name(word_, o == order::seq_cst);
    P found = counted_up(w);
    p.clear();
    return found;
  }
  operator P() const { return load(); }

  void store(P desired, order o = order::seq_cst) {
    member& me = here();
    me.log.reserve();
    give_up(me, replace(word_from(desired), o));
  }
  void operator=(P desired) { store(std::move(desired)); }

  P exchange(P desired, order o = order::seq_cst) {
    member& me = here();
    me.log.reserve();
    const word old = replace(word_from(desired), o);
    // Our unit of `old` keeps its block until it is logged.
    if (SPOLIA_FAULT("counted.exchange_moves")) {
      const pair moved = aliasing::undo(old);
      return access::make<P>(static_cast<typename P::element_type*>(moved.object), moved.owner);
    }
    P found = counted_up(old);
    give_up(me, old);
    return found;
  }

  bool compare_exchange_strong(P& expected, P desired, order success, order /*failure*/) {
    member& me = here();
    me.log.reserve();
    const pair wanted = access::pair_of(expected);
    prepared fresh(desired);
    pin& p = me.pins.passing();
    for (;;) {
      const word seen = p.name(word_, success == order::seq_cst);
      if (pair_of(seen) != wanted) {
        P found = counted_up(seen);
        p.clear();
        fresh.undo(desired);
        expected = std::move(found);
        return false;
      }
      if (swapped(seen, fresh.value(), success)) {
        p.clear();
        fresh.keep();
        give_up(me, seen);
        return true;
      }
    }
  }
  bool compare_exchange_strong(P& expected, P desired, order o = order::seq_cst) {
    return compare_exchange_strong(expected, std::move(desired), o, o);
  }
  bool compare_exchange_weak(P& expected, P desired, order success, order failure) {
    return compare_exchange_strong(expected, std::move(desired), success, failure);
  }
  bool compare_exchange_weak(P& expected, P desired, order o = order::seq_cst) {
    return compare_exchange_strong(expected, std::move(desired), o, o);
  }

  /// Blocks until the location holds something else than `old`, and somebody has called notify.
  void wait(P old, order = order::seq_cst) const {
    here();  // what may throw does so before we wait
    wait_for(this, [&] { return differs(old); });
  }
  void notify_one() noexcept { wake(this); }
  void notify_all() noexcept { wake(this); }

 protected:
  [[nodiscard]] const atomic<word>& words() const noexcept { return word_; }

  [[nodiscard]] static constexpr task kind_of(word w) noexcept {
    return strong || (w & tag_mask) == tag_alias ? task::drop_strong : task::drop_weak;
  }

  /// A word, and how to go back if it is not used.
  class prepared {
   public:
    explicit prepared(P& from) : word_(word_from(from)) {}
    prepared(const prepared&) = delete;
    prepared& operator=(const prepared&) = delete;
    ~prepared() = default;
    [[nodiscard]] word value() const noexcept { return word_; }
    void keep() noexcept { word_ = 0; }
    /// The unit goes back to the pointer that it came from.
    void undo(P& to) noexcept {
      const pair p = aliasing::undo(word_);
      to = access::make<P>(static_cast<typename P::element_type*>(p.object), p.owner);
    }

   private:
    word word_;
  };

  /// Takes p's unit. Throws std::bad_alloc if there must be an alias; then p has it still.
  static word word_from(P& p) {
    const word w = aliasing::word_of(access::pair_of(p));
    access::forget(p);
    return w;
  }

  /// A pointer with a unit of its own. The caller protects w's block.
  static P counted_up(word w) noexcept {
    const pair p = pair_of(w);
    if (p.owner != nullptr) p.owner->add(unit);
    return access::make<P>(static_cast<typename P::element_type*>(p.object), p.owner);
  }

  word replace(word fresh, order o) noexcept {
    // release → the acquire in pin::name: the object's construction. acquire ← the release that
    // put the old word here: we may look at its block. seq_cst: only because the user asks for it.
    return o == order::seq_cst ? word_.exchange_seq_cst(fresh) : word_.exchange_acq_rel(fresh);
  }
  bool swapped(word seen, word fresh, order o) noexcept {
    // As in replace.
    return o == order::seq_cst ? word_.cas_strong_seq_cst(seen, fresh)
                               : word_.cas_strong_acq_rel(seen, fresh);
  }

  static void give_up(member& me, word w) noexcept {
    if (w == 0) return;
    if (SPOLIA_FAULT("counted.drop_at_once") && strong) return release_strong(block_of(w));
    defer(me, block_of(w), kind_of(w));
  }

  bool differs(const P& old) const noexcept {
    pin& p = here().pins.passing();
    const bool other = pair_of(p.name(word_)) != access::pair_of(old);
    p.clear();
    return other;
  }

  atomic<word> word_{0};
};

}  // namespace counted

template <class T>
class atomic_shared_ptr : public counted::location<shared_ptr<T>, counted::keeping::object> {
  using base = counted::location<shared_ptr<T>, counted::keeping::object>;

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
    counted::member& me = counted::here();
    me.log.reserve();
    const counted::pair wanted =
        expected ? counted::pair{as_void(expected.get()), expected.owner()} : counted::pair{};
    typename base::prepared fresh(desired);
    counted::pin& p = me.pins.passing();
    for (;;) {
      const counted::word seen = p.name(this->word_);
      const bool equal = counted::pair_of(seen) == wanted;
      if (equal && !this->swapped(seen, fresh.value(), std::memory_order::acq_rel)) continue;
      p.clear();
      if (!equal) {
        fresh.undo(desired);
        return false;
      }
      fresh.keep();
      base::give_up(me, seen);
      return true;
    }
  }

 private:
  template <class Y>
  friend class private_ptr;

  static void* as_void(const volatile void* p) noexcept { return const_cast<void*>(p); }
  [[nodiscard]] const spolia::atomic<counted::word>& location() const noexcept {
    return this->word_;
  }
};

template <class T>
class atomic_weak_ptr : public counted::location<weak_ptr<T>, counted::keeping::block> {
  using base = counted::location<weak_ptr<T>, counted::keeping::block>;

 public:
  constexpr atomic_weak_ptr() noexcept = default;
  atomic_weak_ptr(weak_ptr<T> desired) : base(std::move(desired)) {}
  atomic_weak_ptr(const atomic_weak_ptr&) = delete;
  atomic_weak_ptr& operator=(const atomic_weak_ptr&) = delete;

  void operator=(weak_ptr<T> desired) { this->store(std::move(desired)); }
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
