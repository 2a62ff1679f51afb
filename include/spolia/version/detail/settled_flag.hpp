// SPDX-License-Identifier: Apache-2.0
// settled_flag.hpp: that a version has its stamp, told once more beside its value. Who wants the
// current value need not look at the stamp then, which lies in another cache line.
#pragma once

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

class settled_flag {
 public:
  /// The version was made with a stamp, and is published later.
  void is_there() noexcept { told_.store_relaxed(true); }
  /// As time.settle(v) for the version that this belongs to.
  template <class Timeline, class Version>
  void see_to(Timeline& time, Version& v) noexcept {
    // acquire ← the release below: who appends behind v, or reads on, passes the stamp on, as after
    // settle().
    if (told_.load_acquire()) [[likely]]
      return;
    time.settle(v);
    // release → the acquire above: the stamp is there.
    told_.store_release(true);
  }

 private:
  atomic<bool> told_{false};
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
