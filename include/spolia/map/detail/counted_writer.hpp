// SPDX-License-Identifier: Apache-2.0
// counted_writer.hpp: one writer at a time, for the containers over counted pointers.
//
// Fork:        in the child, the turn of a writer that was lost goes to the next thread that wants
//              it. Each change is one setting of a location, so the map is as before it or as after
//              it. What the lost writer had at hand is never given back, and size() may count a
//              pair too many for each, and never one too few. Families whose locations take locks,
//              as the standard's may, can leave one of these locked.
#pragma once

#include <cstddef>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/unwind.hpp>
#include <spolia/map/detail/writers_turn.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// What writers wait for, and how much they have put in.
class writers {
 public:
  /// Throws std::bad_alloc if the thread has no number yet.
  void enter() {
    if (turn_.enter() == writers_turn::entered::after_lost) [[unlikely]]
      lost_one_ = true;
  }
  void leave() noexcept { turn_.leave(); }
  /// For the writer: put() puts a pair in.
  template <class Put>
  void grow_by(const Put& put) {
    size_.store_relaxed(size_.load_relaxed() + 1);
    try {
      put();
    } catch (...) {
      shrank();
      throw;
    }
  }
  /// Before there are other threads: so many pairs are in.
  void begin_with(std::size_t pairs) noexcept { size_.store_relaxed(pairs); }
  /// For the writer: a pair was taken out.
  void shrank() noexcept { size_.store_relaxed(size_.load_relaxed() - 1); }
  /// For the writer: whether one before it was lost in the middle of its turn.
  [[nodiscard]] bool lost_one() const noexcept { return lost_one_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_.load_relaxed(); }
  /// For the writer: what stamps are counted by.
  [[nodiscard]] std::uint64_t& stamped() noexcept { return stamped_; }

 private:
  writers_turn turn_;
  atomic<std::size_t> size_{0};
  bool lost_one_ = false;      // the writers'
  std::uint64_t stamped_ = 0;  // likewise
};

/// For the writer: where the object is that the location leads to, or null. It stays while the
/// location is not changed.
template <class Family, class T, class Location>
SPOLIA_ALWAYS_INLINE T* peek(const Location& from) {
  if constexpr (requires { Family::template peek<T>(from); }) {
    return Family::template peek<T>(from);
  } else {
    const auto seen = Family::template look<T>(from);
    return seen ? &*seen : nullptr;
  }
}
/// For the writer: a pointer to the same.
template <class Family, class T, class Location>
auto copy(const Location& from) {
  if constexpr (requires { Family::template copy<T>(from); }) {
    return Family::template copy<T>(from);
  } else {
    return Family::template load<T>(from);
  }
}

/// For what may be left undone where memory is short.
template <class F>
void let_fail(const F& f) {
  try {
    f();
  } catch (...) {
    let_unwinding_pass();
  }
}

/// While one lives, what is taken out does not end: so in an update that has locks, and outlives
/// them. Its next set after to_set() throws nothing: what that may throw was thrown before.
template <class Family>
class set_quietly {
 public:
  void to_set() {
    if constexpr (requires { quiet_.reserve(); }) quiet_.reserve();
  }

 private:
  [[no_unique_address]] typename Family::quiet quiet_;
};

/// While one lives, its thread is the writer, and what it takes out ends after it has left. Its
/// first set throws nothing: what that may throw was thrown before.
template <class Family>
class writing {
 public:
  explicit writing(writers& all) : all_(all) {
    quiet_.to_set();
    all_.enter();
  }
  writing(const writing&) = delete;
  writing& operator=(const writing&) = delete;
  ~writing() { all_.leave(); }

 private:
  // Before the lock and after it: destructors that run may use the container.
  [[no_unique_address]] set_quietly<Family> quiet_;
  writers& all_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
