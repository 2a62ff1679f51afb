// SPDX-License-Identifier: Apache-2.0
// told_stamp.hpp: a version's stamp, told once more beside its value. A thread that wants the
// current value, or that at a snapshot which sees it, need not look at the stamp itself then, which
// lies in another cache line.
#pragma once

#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/version/tracked.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::version {

class told_stamp {
 public:
  /// The version was made with that stamp, and is published later.
  void is(std::uint64_t stamp) noexcept { told_.store_relaxed(stamp); }
  /// no_stamp: it was not told yet.
  [[nodiscard]] std::uint64_t read() const noexcept { return told_.load_relaxed(); }
  [[nodiscard]] bool is_told() const noexcept {
    // acquire ← the release in see_to(): a thread that appends after the version, or reads on,
    // passes the stamp on, as after settle().
    return told_.load_acquire() != no_stamp;
  }
  /// As time.settle(v) for the version that this belongs to.
  template <class Timeline, class Version>
  void see_to(Timeline& time, Version& v) noexcept {
    if (is_told()) [[likely]]
      return;
    const std::uint64_t stamp = time.settle(v);
    // release → the acquire in is_told(): the stamp is there.
    told_.store_release(stamp);
  }

 private:
  atomic<std::uint64_t> told_{no_stamp};
};

}  // namespace detail::version
}  // namespace spolia::inline SPOLIA_FLAVOUR
