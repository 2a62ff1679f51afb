// SPDX-License-Identifier: Apache-2.0
// crowd.hpp: how many threads share a processor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/processors.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

/// The highest of numbers that any thread says.
class highest {
 public:
  void note(std::uint64_t n) noexcept {
    std::uint64_t most = most_.load_relaxed();
    while (most < n && !most_.cas_weak_relaxed(most, n)) continue;
  }
  std::uint64_t value() const noexcept { return most_.load_relaxed(); }

 private:
  atomic<std::uint64_t> most_{0};
};

/// A thread that waits for its processor may be away for as many time slices as others share it:
/// whoever waits for threads takes that many times as long before it calls one stalled.
class crowd {
 public:
  static constexpr std::size_t most = 8;

  /// `processors`; 0: as many as the process may use.
  explicit crowd(std::uint32_t processors) noexcept
      : processors_(processors != 0 ? processors : spolia::processors()) {}

  /// So many threads there are now.
  void note(std::size_t threads) noexcept { largest_.note(of(threads)); }
  /// The most so far.
  std::uint64_t largest() const noexcept { return std::max<std::uint64_t>(largest_.value(), 1); }

  std::uint64_t of(std::size_t threads) const noexcept {
    return std::clamp<std::size_t>(threads / processors_, 1, most);
  }

 private:
  const std::uint32_t processors_;
  highest largest_;
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
