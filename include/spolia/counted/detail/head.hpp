// SPDX-License-Identifier: Apache-2.0
// head.hpp: the eight bytes before an object that was made for thin pointers: its count, and of
// what kind it is.
//
// A thin object has no weak units, no deleter and no aliases, so one count does; and what ends it
// is the same for all objects of a type, so a small number for the type does.
//
// Errors:      65536 kinds may be loaded at a time; add_thin_kind throws std::length_error beyond.
// Cost:        as in control.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/weight.hpp>
#include <spolia/counted/detail/control.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {

#if !defined(SPOLIA_MODEL)
/// By number; each is set before the first object of its kind is made, and stays while what made it
/// is loaded.
extern SPOLIA_EXPORT SPOLIA_NO_COPY const void* thin_kinds[65536];
/// Throws std::length_error. See src/counted/thin_kinds.cpp.
SPOLIA_EXPORT std::uint32_t add_thin_kind(const void* ops);
#endif

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

struct head;

/// Is an object asked what it owns?
template <class T>
consteval bool is_weighed() {
  if constexpr (requires { sizeof(T); }) {
    return !weightless<std::remove_cv_t<T>>;
  } else {
    return false;
  }
}
/// What the object owns is asked for when a location gives it up: the maps' nodes, which only the
/// holder of a lock changes, who is also the one that gives them up.
template <class T>
concept weighed_when_given_up = requires { requires T::is_weighed_late; };
/// It is asked for when the object is made, and before a location takes it, if it is unshared then.
template <class T>
inline constexpr bool may_weigh = is_weighed<T>() && !weighed_when_given_up<T>;

/// What differs from kind to kind.
struct head_ops {
  void (*end)(head*) noexcept;  ///< ends the object and gives its memory back
  std::size_t bytes;            ///< what the object weighs
  bool silent;                  ///< its end runs no code of the user's
};

#if defined(SPOLIA_MODEL)
inline const void* thin_kinds[64];
inline std::uint32_t kinds_so_far = 0;
inline std::uint32_t add_thin_kind(const void* ops) {
  thin_kinds[kinds_so_far] = ops;
  return kinds_so_far++;
}
#else
using core::add_thin_kind;
using core::thin_kinds;
#endif

struct head {
  explicit head(std::uint32_t k) noexcept : kind(k) {}

  [[nodiscard]] const head_ops& ops() const noexcept {
    const void* const found = thin_kinds[kind % one_code];
#if !defined(SPOLIA_MODEL)
    // Two copies of the library number their kinds from different numbers on.
    if (found == nullptr) [[unlikely]]
      core::report_other_copy(counted_pointer);
#endif
    return *static_cast<const head_ops*>(found);
  }
  /// What the object owns, as was said when it was weighed: while no other thread can reach it.
  [[nodiscard]] std::size_t owned_bytes() const noexcept {
    return spolia::detail::weighing::bytes_of(kind / one_code);
  }
  void weighs(std::size_t owned) noexcept {
    kind = kind % one_code + spolia::detail::weighing::code_of(owned) * one_code;
  }
  /// Whether the caller has all that leads to the object.
  [[nodiscard]] bool is_unshared() const noexcept {
    // acquire ← the releases of those that had units before: what they did with the object.
    return units.load_acquire() == 1;
  }
  [[nodiscard]] void* object() noexcept { return this + 1; }

  /// The caller knows that there is a unit that stays meanwhile.
  void add(std::uint32_t n) noexcept {
    if (one_thread()) {
      units.store_relaxed(units.load_relaxed() + n);
    } else {
      units.fetch_add_relaxed(n);
    }
  }
  void add_one() noexcept { add(1); }

  /// n units less. True: they were the last; the caller ends the object. As control::drop_strong.
  template <class Elsewhere>
  [[nodiscard]] bool drop(std::uint32_t n, Elsewhere elsewhere) noexcept {
    // acquire ← the release of the thread that dropped its unit before us: no other thread has any
    // unit, so none can make one either.
    if (units.load_acquire() == n) return true;
    if (one_thread()) {
      units.store_relaxed(units.load_relaxed() - n);
      return false;
    }
    if (elsewhere()) [[unlikely]]
      return false;
    if (SPOLIA_FAULT("thin.drop_relaxed")) return units.fetch_sub_relaxed(n) == n;
    // release → the acquire of the thread that drops the last unit, here or above: our accesses to
    // the object happen before its end.
    return units.fetch_sub_acq_rel(n) == n;
  }
  [[nodiscard]] bool drop(std::uint32_t n = 1) noexcept {
    return drop(n, [] { return false; });
  }

  atomic<std::uint32_t> units{1};

 private:
  static constexpr std::uint32_t one_code = std::uint32_t{1} << 16U;

  std::uint32_t kind;  // and in its upper half the code of a weight
};
// No larger than a block: see name in word.hpp.
static_assert(sizeof(head) % 8 == 0 && sizeof(head) <= sizeof(control));

inline head* head_of(const volatile void* object) noexcept {
  return static_cast<head*>(const_cast<void*>(object)) - 1;
}

inline void end_object(head* h) noexcept { h->ops().end(h); }

}  // namespace counted::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
