// SPDX-License-Identifier: Apache-2.0
// snapshot_watch.hpp: what the updates of a container do for snapshots: they end leases that are
// overdue (version/lease.hpp), and tell of snapshots past their limits (version/holdings.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/ticks.hpp>
#include <spolia/version/holdings.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

class snapshot_watch {
 public:
  explicit snapshot_watch(snapshot_limits limits) : limits_(std::move(limits)) {
    if (limits_.any()) looks_.emplace(limits_.every);
  }

  /// Tells of the snapshots that are past the limits; returns how many. `account()` gives the
  /// holdings of the container. Throws std::bad_alloc.
  template <class Timeline, class Account>
  std::size_t review(Timeline& time, Account&& account) const {
    if (!limits_.any()) return 0;
    std::size_t past = 0;
    for (const snapshot_holding& s :
         limits_.bytes == 0 ? detail::version::snapshots_in(time.living()) : account().snapshots) {
      const bool old = limits_.age.count() != 0 && s.age > limits_.age;
      if (!old && (limits_.bytes == 0 || s.bytes <= limits_.bytes)) continue;
      limits_.passed(s);
      ++past;
    }
    return past;
  }

  /// After an update, outside of sessions.
  template <class Timeline, class Account>
  void updated(Timeline& time, Account&& account) noexcept {
    if (time.leases().due()) time.leases().end_overdue();
    if (!looks_ || !looks_->due()) return;
    const std::uint64_t start = ticks::read();
    try {
      review(time, std::forward<Account>(account));
    } catch (const std::bad_alloc&) {  // then at the next look
    }
    if (limits_.bytes != 0) looks_->took(start);
  }

 private:
  const snapshot_limits limits_;
  std::optional<detail::version::look_timer> looks_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
