// SPDX-License-Identifier: Apache-2.0
// counted_writer.hpp: one writer at a time, for the containers over counted pointers.
#pragma once

#include <cstddef>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/patience.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

/// What writers wait for, and how much they have put in.
class writers {
 public:
  void enter() noexcept {
    patience wait;
    // acquire ← the release in leave: what the writer before us did.
    while (busy_.load_relaxed() || busy_.exchange_acquire(true)) wait.pause();
  }
  void leave() noexcept {
    // release → the acquire in enter.
    SPOLIA_FAULT("counted_map.leave_relaxed") ? busy_.store_relaxed(false)
                                              : busy_.store_release(false);
  }
  /// For the writer.
  void grew() noexcept { size_.store_relaxed(size_.load_relaxed() + 1); }
  void shrank() noexcept { size_.store_relaxed(size_.load_relaxed() - 1); }
  [[nodiscard]] std::size_t size() const noexcept { return size_.load_relaxed(); }

 private:
  atomic<bool> busy_{false};
  atomic<std::size_t> size_{0};
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

/// While one lives, its thread is the writer, and what it takes out ends after it has left.
template <class Family>
class writing {
 public:
  explicit writing(writers& all) : all_(all) { all_.enter(); }
  writing(const writing&) = delete;
  writing& operator=(const writing&) = delete;
  ~writing() { all_.leave(); }

 private:
  // Before the lock and behind it: destructors that run may use the container.
  [[no_unique_address]] typename Family::quiet quiet_;
  writers& all_;
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
