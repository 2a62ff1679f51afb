// SPDX-License-Identifier: Apache-2.0
// location.hpp: a word that many threads change and read at once, and that holds a unit of the
// object it points to: what atomic_shared_ptr, atomic_weak_ptr and atomic_thin_ptr have in common.
//
// Source:      ISMM 2018, section 3.1; what is deferred and what is not: collector.hpp.
// A location's unit is never handed to a plain pointer, which would drop it at once under the eyes
// of a pin: load and exchange count up for their caller, and exchange logs the location's unit.
//
// Errors:      what changes the location may throw std::bad_alloc, and so may load on a thread's
//              first use; then nothing has changed. The destructor never throws.
#pragma once

#include <atomic>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/counted/detail/conversions.hpp>
#include <spolia/counted/detail/word.hpp>
#include <spolia/counted/home.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

/// A location that holds pointers of type P. Units says how they become words:
///     static word take(P&);                  the word for a pointer, whose unit it takes over; may
///                                            throw std::bad_alloc, then the pointer has it still
///     static P give_back(word) noexcept;     the pointer that a word was taken from
///     static P counted_up(word) noexcept;    one with a unit of its own
///     static bool same(word, const P&)       whether they point to the same object, and own it
///     static constexpr bool caches_counts;   whether threads have units of them at hand: see
///                                            count_cache.hpp
///     static bool counts_itself(word);       whether counted_up counts what `unit` names
///     static entry unit(word) noexcept;      what to log, and
///     static std::size_t bytes(word) noexcept;   how much it weighs
///     static element_type* object(word) noexcept;
///     static element_type* made_object(word) noexcept;   the same of null, or of a word from a
///                                            pointer that make_shared or make_thin returned
template <class P, class Units>
class location {
  using order = std::memory_order;

 public:
  using value_type = P;
  using units = Units;
  static constexpr bool is_always_lock_free = true;

  constexpr location() noexcept = default;
  location(P desired) : word_(Units::take(desired)) {}
  location(const location&) = delete;
  location& operator=(const location&) = delete;
  ~location() {
    // relaxed: the thread that ends the location sees all its changes.
    if (const word w = word_.load_relaxed(); w != 0) {
      end_of_location<Units>(w);
    }
  }

  [[nodiscard]] bool is_lock_free() const noexcept { return true; }

  [[nodiscard]] P load(order o = order::seq_cst) const {
    const bool total = o == order::seq_cst;
    // acquire ← the release that put the word here. seq_cst: only because the user asks for it.
    word w = total ? word_.load_seq_cst() : word_.load_acquire();
    member& me = here();
    if constexpr (Units::caches_counts) {
      if (take_from_count_cache(me, w)) return Units::give_back(w);
    }
    slot& p = me.pins.passing();
    w = put_name_seen(p, w, word_, total);
    P found = Units::counted_up(w);
    clear_name(p);
    if constexpr (Units::caches_counts) {
      if (me.cache.ends_turns(w)) [[unlikely]]
        after_some_loads(me, w);
    }
    return found;
  }
  operator P() const { return load(); }

  void store(P desired, order o = order::seq_cst) {
    member& me = here();
    me.log.reserve();
    give_up(me, replace(Units::take(desired), o));
  }
  void operator=(P desired) { store(std::move(desired)); }

  P exchange(P desired, order o = order::seq_cst) {
    member& me = here();
    me.log.reserve();
    const word old = replace(Units::take(desired), o);
    // Our unit of `old` keeps its block until it is logged.
    if (SPOLIA_FAULT("counted.exchange_moves")) return Units::give_back(old);
    P found = Units::counted_up(old);
    give_up(me, old);
    return found;
  }

  bool compare_exchange_strong(P& expected, P desired, order success, order /*failure*/) {
    member& me = here();
    me.log.reserve();
    prepared fresh(desired);
    slot& p = me.pins.passing();
    for (;;) {
      const word seen = put_name(p, word_, success == order::seq_cst);
      if (!Units::same(seen, expected)) {
        P found = Units::counted_up(seen);
        clear_name(p);
        fresh.undo(desired);
        expected = std::move(found);
        return false;
      }
      if (swapped(seen, fresh.value(), success)) {
        clear_name(p);
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

  /// Blocks until the location holds something else than `old`, and a thread has called notify.
  void wait(P old, order = order::seq_cst) const {
    here();  // what may throw does so before we wait
    counted::detail::wait_for(this, [&] { return differs(old); });
  }
  void notify_one() noexcept { counted::detail::wake(this); }
  void notify_all() noexcept { counted::detail::wake(this); }

 protected:
  friend struct access;

  /// A word, and how to go back if it is not used.
  class prepared {
   public:
    explicit prepared(P& from) : word_(Units::take(from)) {}
    prepared(const prepared&) = delete;
    prepared& operator=(const prepared&) = delete;
    ~prepared() = default;
    [[nodiscard]] word value() const noexcept { return word_; }
    void keep() noexcept { word_ = 0; }
    /// The unit goes back to the pointer that it came from.
    void undo(P& to) noexcept { to = Units::give_back(word_); }

   private:
    word word_;
  };

  /// The caller has a unit of w, which it has loaded.
  SPOLIA_NOINLINE static void after_some_loads(member& me, word w) noexcept {
    const bool again = me.cache.was_loaded_again(me.reading.each);
    // One that loads seldom needs none, and looks at the clock each time without.
    if (again && !me.reads_seldom && w != 0 && Units::counts_itself(w))
      fill_count_cache(me, {Units::unit(w), w});
    if (me.cache.is_time_to_look(me.reading.each)) look_at_time(me);
  }

  word replace(word fresh, order o) noexcept {
    // release → the acquire in put_name: the object's construction. acquire ← the release that
    // put the old word here: we may look at its block. seq_cst: only because the user asks for it.
    return o == order::seq_cst ? word_.exchange_seq_cst(fresh) : word_.exchange_acq_rel(fresh);
  }
  bool swapped(word seen, word fresh, order o) noexcept {
    // As in replace.
    return o == order::seq_cst ? word_.cas_strong_seq_cst(seen, fresh)
                               : word_.cas_strong_acq_rel(seen, fresh);
  }

  /// Puts `desired` in the place of a word that is `wanted`, if that is what stands here.
  template <class Wanted>
  bool replace_where(const Wanted& wanted, P desired) {
    member& me = here();
    me.log.reserve();
    prepared fresh(desired);
    slot& p = me.pins.passing();
    for (;;) {
      const word seen = put_name(p, word_);
      const bool equal = wanted(seen);
      if (equal && !swapped(seen, fresh.value(), order::acq_rel)) continue;
      clear_name(p);
      if (!equal) {
        fresh.undo(desired);
        return false;
      }
      fresh.keep();
      give_up(me, seen);
      return true;
    }
  }

  static void give_up(member& me, word w) noexcept {
    if (w == 0) return;
    if (SPOLIA_FAULT("counted.drop_at_once")) {
      Units::give_back(w);
    } else {
      defer(me, Units::unit(w), Units::bytes(w));
    }
  }

  bool differs(const P& old) const noexcept {
    slot& p = here().pins.passing();
    const bool other = !Units::same(put_name(p, word_), old);
    clear_name(p);
    return other;
  }

  atomic<word> word_{0};
};

}  // namespace counted::detail

// The standard's functions for code that calls no members: atomic_load(&place) and so on. They are
// found by the argument, so they are called without `std::`, in which nothing may be added.

template <class P, class Units>
bool atomic_is_lock_free(const counted::detail::location<P, Units>* at) noexcept {
  return at->is_lock_free();
}
template <class P, class Units>
P atomic_load(const counted::detail::location<P, Units>* at) {
  return at->load();
}
template <class P, class Units>
P atomic_load_explicit(const counted::detail::location<P, Units>* at, std::memory_order o) {
  return at->load(o);
}
template <class P, class Units>
void atomic_store(counted::detail::location<P, Units>* at, std::type_identity_t<P> desired) {
  at->store(std::move(desired));
}
template <class P, class Units>
void atomic_store_explicit(counted::detail::location<P, Units>* at, std::type_identity_t<P> desired,
                           std::memory_order o) {
  at->store(std::move(desired), o);
}
template <class P, class Units>
P atomic_exchange(counted::detail::location<P, Units>* at, std::type_identity_t<P> desired) {
  return at->exchange(std::move(desired));
}
template <class P, class Units>
P atomic_exchange_explicit(counted::detail::location<P, Units>* at, std::type_identity_t<P> desired,
                           std::memory_order o) {
  return at->exchange(std::move(desired), o);
}
template <class P, class Units>
bool atomic_compare_exchange_strong(counted::detail::location<P, Units>* at,
                                    std::type_identity_t<P>* expected,
                                    std::type_identity_t<P> desired) {
  return at->compare_exchange_strong(*expected, std::move(desired));
}
template <class P, class Units>
bool atomic_compare_exchange_weak(counted::detail::location<P, Units>* at,
                                  std::type_identity_t<P>* expected,
                                  std::type_identity_t<P> desired) {
  return at->compare_exchange_weak(*expected, std::move(desired));
}
template <class P, class Units>
bool atomic_compare_exchange_strong_explicit(counted::detail::location<P, Units>* at,
                                             std::type_identity_t<P>* expected,
                                             std::type_identity_t<P> desired,
                                             std::memory_order success, std::memory_order failure) {
  return at->compare_exchange_strong(*expected, std::move(desired), success, failure);
}
template <class P, class Units>
bool atomic_compare_exchange_weak_explicit(counted::detail::location<P, Units>* at,
                                           std::type_identity_t<P>* expected,
                                           std::type_identity_t<P> desired,
                                           std::memory_order success, std::memory_order failure) {
  return at->compare_exchange_weak(*expected, std::move(desired), success, failure);
}
template <class P, class Units>
void atomic_wait(const counted::detail::location<P, Units>* at, std::type_identity_t<P> old) {
  at->wait(std::move(old));
}
template <class P, class Units>
void atomic_wait_explicit(const counted::detail::location<P, Units>* at,
                          std::type_identity_t<P> old, std::memory_order o) {
  at->wait(std::move(old), o);
}
template <class P, class Units>
void atomic_notify_one(counted::detail::location<P, Units>* at) noexcept {
  at->notify_one();
}
template <class P, class Units>
void atomic_notify_all(counted::detail::location<P, Units>* at) noexcept {
  at->notify_all();
}

}  // namespace spolia::inline SPOLIA_FLAVOUR
