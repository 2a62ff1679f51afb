// SPDX-License-Identifier: Apache-2.0
// control.hpp: the block that counts the references to one object, and how an object ends.
//
// A unit is one reference that is counted. Strong units keep the object, weak units keep the block;
// all strong units together hold one weak unit. Both counts lie in one word, so that a thread that
// drops the last unit of both kinds sees so with one load and needs no read-modify-write.
//
// An object that was made together with its block begins where the block's head ends: from the
// object's address the head is found by a subtraction (see word.hpp).
//
// Errors:      none. Counts do not saturate: 2^32 strong or 2^32 weak units at once are too many.
// Cost:        a unit more: one relaxed read-modify-write; a unit less: one that releases and
//              acquires. While the process has one thread, glibc says so, and both are plain.
// Progress:    wait-free; try_add_strong is lock-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <typeinfo>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define SPOLIA_HAS_SINGLE_THREADED 1
#else
#define SPOLIA_HAS_SINGLE_THREADED 0
#endif

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/weight.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

struct control;

/// For errors.
inline constexpr const char* counted_pointer = "what a counted pointer points to";

/// What differs from kind to kind. Its address leaves room for what a single block's object owns.
struct alignas(spolia::detail::weighing::codes) control_ops {
  void (*dispose)(control*) noexcept;                          ///< ends the object
  void (*deallocate)(control*) noexcept;                       ///< gives the block back
  void* (*deleter)(control*, const std::type_info*) noexcept;  ///< null: has none
  std::size_t (*elements)(const control*) noexcept;            ///< null: one
  std::size_t bytes_around;                                    ///< what it weighs, about, but for
  std::size_t bytes_each;                                      ///< its elements
  std::size_t (*owned)(const control*) noexcept;  ///< what the object owns; null: nothing
  bool holds_pointer;                             ///< it is a pointer_control
  bool silent;  ///< its end runs no code of the user's, and dispose has nothing to do
  misuse::copy_of_the_library copy{};  ///< that the code is linked with which has made the block
};

/// The process has one thread, and so counts need no read-modify-write.
inline bool one_thread() noexcept {
#if defined(SPOLIA_MODEL) || !SPOLIA_HAS_SINGLE_THREADED
  return false;
#else
  return __libc_single_threaded != 0;
#endif
}

struct control {
  static constexpr std::uint64_t strong_unit = 1;
  static constexpr std::uint64_t weak_unit = std::uint64_t{1} << 32U;
  static constexpr std::uint64_t strong_mask = weak_unit - 1;

  explicit control(const control_ops& o) noexcept : how_(reinterpret_cast<std::uintptr_t>(&o)) {}

  [[nodiscard]] SPOLIA_ALWAYS_INLINE const control_ops& ops() const noexcept {
    return *reinterpret_cast<const control_ops*>(how_ & ~code_mask);
  }
  /// What the object owns, as was said when it was weighed.
  [[nodiscard]] std::size_t owned_bytes() const noexcept {
    return spolia::detail::weighing::bytes_of(static_cast<std::uint32_t>(how_ & code_mask));
  }
  /// Weighs the object, which no other thread can reach.
  void be_weighed() noexcept {
    if (const auto owned = ops().owned) {
      how_ = (how_ & ~code_mask) | spolia::detail::weighing::code_of(owned(this));
    }
  }
  /// Whether the caller has all that leads to the object.
  [[nodiscard]] bool is_unshared() const noexcept {
    // acquire ← the releases of those that had units before: what they did with the object.
    return counts.load_acquire() == (strong_unit | weak_unit);
  }

  [[nodiscard]] std::uint64_t strong() const noexcept {
    return counts.load_relaxed() & strong_mask;
  }

  /// The caller knows that there is a unit of this kind that stays meanwhile.
  void add(std::uint64_t unit) noexcept {
    if (one_thread()) {
      counts.store_relaxed(counts.load_relaxed() + unit);
    } else {
      counts.fetch_add_relaxed(unit);
    }
  }

  /// One strong unit more, as add.
  void add_one() noexcept { add(strong_unit); }

  /// One strong unit more, unless the object has ended.
  [[nodiscard]] bool try_add_strong() noexcept {
    std::uint64_t seen = counts.load_relaxed();
    for (;;) {
      if ((seen & strong_mask) == 0 && !SPOLIA_FAULT("counted.lock_blind")) return false;
      // acquire: what was done to the object before the other units were dropped is seen by the
      // thread that locks, as std::weak_ptr users expect of use_count() == 1 idioms; the release
      // sequence of the decrements carries it.
      if (counts.cas_weak_acquire(seen, seen + strong_unit)) return true;
    }
  }

  /// n strong units less. True: they were the last; the caller ends the object. `elsewhere()` is
  /// called before others would see it: if it has put the units elsewhere, it returns true.
  template <class Elsewhere>
  [[nodiscard]] bool drop_strong(std::uint64_t n, Elsewhere elsewhere) noexcept {
    const std::uint64_t units = n * strong_unit;
    // acquire ← the release of the thread that dropped its unit before us: no other thread has any
    // unit, so none can make one either.
    if (counts.load_acquire() == (units | weak_unit)) {
      counts.store_relaxed(weak_unit);
      return true;
    }
    if (one_thread()) {
      counts.store_relaxed(counts.load_relaxed() - units);
      return strong() == 0;
    }
    if (elsewhere()) [[unlikely]]
      return false;
    // release → the acquire of the thread that drops the last unit, here or above: our accesses to
    // the object happen before its end.
    return (drop_shared(units) & strong_mask) == units;
  }

  [[nodiscard]] bool drop_strong(std::uint64_t n = 1) noexcept {
    return drop_strong(n, [] { return false; });
  }

  /// n weak units less. True: they were the last; the caller gives the block back.
  [[nodiscard]] bool drop_weak(std::uint64_t n = 1) noexcept {
    const std::uint64_t units = n * weak_unit;
    // acquire ← the release of the thread that dropped its unit before us, as in drop_strong.
    if (counts.load_acquire() == units) return true;
    // release → the acquire of the thread that drops the last one: our accesses happen before the
    // end.
    return drop_shared(units) == units;
  }

 private:
  static constexpr std::uintptr_t code_mask = spolia::detail::weighing::codes - 1;

  std::uintptr_t how_;  // the kind's address, and in its low bits the code of a weight

 public:
  atomic<std::uint64_t> counts{strong_unit | weak_unit};

 private:
  std::uint64_t drop_shared(std::uint64_t units) noexcept {
    if (SPOLIA_FAULT("counted.drop_relaxed")) return counts.fetch_sub_relaxed(units);
    // release and acquire: see the two callers.
    return counts.fetch_sub_acq_rel(units);
  }
};

/// A block that says where its object is: one that took over a pointer, or an alias.
struct pointer_control : control {
  pointer_control(const control_ops& o, void* p) noexcept : control(o), object(p) {}
  void* const object;
};

/// What the object takes, with what it owns. Only an array must be asked.
inline std::size_t bytes_of(const control* c) noexcept {
  const control_ops& o = c->ops();
  return o.bytes_around + (o.elements == nullptr ? o.bytes_each : o.elements(c) * o.bytes_each) +
         c->owned_bytes();
}

inline void drop_weak(control* c) noexcept {
  if (c->drop_weak()) c->ops().deallocate(c);
}

/// Ends the object and drops the weak unit that all strong ones held together.
inline void end_object(control* c) noexcept {
  if (!c->ops().silent) c->ops().dispose(c);
  drop_weak(c);
}

}  // namespace counted::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
