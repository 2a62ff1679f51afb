// SPDX-License-Identifier: Apache-2.0
// oversubscription.hpp: how many threads share a processor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/processors.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

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
/// a thread that waits for others takes that many times as long before it calls one stalled.
class oversubscription {
 public:
  static constexpr std::size_t most = 8;

  /// `processors`; 0: as many as the process may use.
  explicit oversubscription(std::uint32_t processors) noexcept
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

/// What a thread that waits for others may let wait.
class stall_limits {
 public:
  stall_limits(std::uint32_t stall_after, std::uint32_t urge, std::uint32_t processors) noexcept
      : stall_after_(stall_after), urge_(urge), oversubscription_(processors) {}

  /// So many threads there are now.
  void note(std::size_t threads) noexcept { oversubscription_.note(threads); }

  /// A thread with this many blocks finds those stalled that hold it up.
  std::uint64_t stalled() const noexcept { return stall_after_ * oversubscription_.largest(); }
  /// So many more wait when a thread that is held up tries again.
  std::uint32_t urge() const noexcept { return urge_; }
  /// A thread with this many blocks does not go on before it has tried hard.
  std::uint64_t limit() const noexcept { return stalled() + slack(); }
  /// The same where there are so many threads.
  std::uint64_t limit(std::size_t threads) const noexcept {
    return stall_after_ * (std::max)(oversubscription_.largest(), oversubscription_.of(threads)) +
           slack();
  }
  /// A thread with so many may retire as many more before it looks around again.
  std::uint64_t room(std::uint64_t waiting) const noexcept {
    const std::uint64_t left = waiting < limit() ? limit() - waiting : 1;
    return std::clamp<std::uint64_t>(urge_, 1, left);
  }

 private:
  std::uint64_t slack() const noexcept { return 4 * std::uint64_t{urge_}; }

  const std::uint32_t stall_after_;
  const std::uint32_t urge_;
  oversubscription oversubscription_;
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
