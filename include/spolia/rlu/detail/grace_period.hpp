// SPDX-License-Identifier: Apache-2.0
// grace_period.hpp: which intervals of time no section needs any more.
//
// Source:      MV-RLU, sections 3.6 and 3.7, has a detector thread that finds grace periods. Here
//              the collecting thread itself asks the census of live sections. So there is no
//              detector thread, nothing to wake, and nothing to wait for. A section that lives long
//              holds up the intervals that contain its time, and not all that came later (as the
//              multiversion collectors with range tracking do, see version/range_tracker.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include <spolia/base/backoff.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/census.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu::detail {

/// What the last scan of the census, or the last fast-path check, has found. Belongs to one
/// collector.
class grace_period {
 public:
  /// Scans the census. If there is no memory for the times, everything counts as needed.
  template <class Clock>
  void look(const census& sections, const Clock& clock) noexcept {
    before_.swap(times_);
    held_ = no_instant;
    try {
      known_ = sections.scan(clock, times_);
    } catch (const std::bad_alloc&) {
      known_ = 0;
    }
    compare();
  }

  /// Checks all threads but that of `mine` without a heavy fence: see online_state.hpp. False: the
  /// check has found nothing that the last scan had not, and what that has found stays.
  template <class Clock, class Session>
  bool fast_check(const cells<Session>& all, const Session& mine, const Clock& clock) noexcept {
    if constexpr (Clock::advances_alone) {
      return false;
    } else {
      seen_.clear();
      held_ = no_instant;
      const std::uint64_t limit = clock.now();
      std::uint64_t known = limit;
      if (!SPOLIA_FAULT("rlu.checks_unfenced")) fence::full();  // ↔ the one in come_online
      bool enough = true;
      all.for_each_occupied([&](std::uint32_t, const Session& s) {
        if (&s != &mine) enough = s.here.is_offline() ? see_offline(s) : see(s.slot, known);
        return enough;
      });
      if (enough && known <= known_ && known < limit) held_ = known;
      if (!enough || known <= known_) return false;
      std::sort(seen_.begin(), seen_.end());
      seen_.erase(std::unique(seen_.begin(), seen_.end()), seen_.end());
      before_.swap(times_);
      times_.swap(seen_);
      known_ = known;
      compare();
      return true;
    }
  }

  /// Whether no section, alive now or to come, has a time in [since, ended). What ended sections
  /// have done happens before the scan or check.
  [[nodiscard]] bool over(std::uint64_t since, std::uint64_t ended) const noexcept {
    return holder(since, ended) == no_instant;
  }

  /// The oldest instant in [since, ended) that a section sees; `no_instant` if there is none, and
  /// the interval is over; `unknown` if that cannot be said yet. An instant that was found holds
  /// the interval until `is_live` says that it has ended.
  [[nodiscard]] SPOLIA_ALWAYS_INLINE std::uint64_t holder(std::uint64_t since,
                                                          std::uint64_t ended) const noexcept {
    if (ended > known_ && !SPOLIA_FAULT("rlu.trusts_an_old_look")) return unknown;
    if (since > last_ || ended <= first_) return no_instant;
    if (since > first_ && ended <= second_) return no_instant;  // most, while one section sleeps
    return first_from(since, ended);
  }
  /// Whether some section may still see an instant that an earlier look has found.
  [[nodiscard]] bool is_live(std::uint64_t instant) const noexcept {
    return known_ == 0 || std::binary_search(times_.begin(), times_.end(), instant);
  }

  // Values that no clock returns.
  static constexpr std::uint64_t no_instant = 0;
  static constexpr std::uint64_t unknown = ~std::uint64_t{0};

  /// No section has a time below this. It is the time of the oldest section, if one was found.
  [[nodiscard]] std::uint64_t oldest() const noexcept {
    return times_.empty() ? known_ : (std::min)(times_.front(), known_);
  }

  /// Whether the look before this one had found the same oldest section.
  [[nodiscard]] bool has_sleeper() const noexcept { return sleeper_; }

  /// The instant of a section that has gone on since the look before; no_instant if none is known.
  [[nodiscard]] std::uint64_t held() const noexcept { return held_; }

  /// Whether the look before this one had found the same instants, or none as well.
  [[nodiscard]] bool is_as_before() const noexcept { return same_ && known_ != 0; }
  /// The latest instant that a section sees; 0: there is none.
  [[nodiscard]] std::uint64_t latest() const noexcept { return times_.empty() ? 0 : times_.back(); }

  /// How many instants sections see.
  [[nodiscard]] std::size_t instants() const noexcept { return times_.size(); }

  /// All sections with a time below this are known, also those to come.
  [[nodiscard]] std::uint64_t known() const noexcept { return known_; }

 private:
  /// Notes the section of a thread that is online. False: the thread is in no section, or was in
  /// none a moment ago.
  bool see(const census::reserved_slot& of, std::uint64_t& known) noexcept {
    std::uint64_t time = of.announced();
    for (std::uint32_t n = 0; time == spolia::detail::vacant_stamp && n < most_waits; ++n) {
      spin_wait();
      time = of.announced();
    }
    if (time == spolia::detail::vacant_stamp) return SPOLIA_FAULT("rlu.takes_silence_for_absence");
    known = (std::min)(known, time);
    return add(time);
  }
  /// The same for a thread that is offline. It may be in a section that began before it was. It has
  /// no slot if it has never used the domain.
  template <class Session>
  bool see_offline(const Session& s) noexcept {
    if (!s.used.load_acquire()) return true;  // ← the releases in join and thread_left
    const std::uint64_t time = s.slot.announced();
    return time == spolia::detail::vacant_stamp || SPOLIA_FAULT("rlu.overlooks_sleepers") ||
           add(time);
  }
  bool add(std::uint64_t time) noexcept {
    try {
      seen_.push_back(time);
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }

  void compare() noexcept {
    first_ = times_.empty() ? largest : times_.front();
    second_ = times_.size() < 2 ? largest : times_[1];
    last_ = latest();
    same_ = times_ == before_;
    sleeper_ = !times_.empty() && !before_.empty() && times_.front() == before_.front();
    if (sleeper_) held_ = times_.front();
  }

  SPOLIA_NOINLINE std::uint64_t first_from(std::uint64_t since,
                                           std::uint64_t ended) const noexcept {
    const std::uint64_t first = *std::lower_bound(times_.begin(), times_.end(), since);
    return first >= ended ? no_instant : first;
  }

  static constexpr std::uint64_t largest = ~std::uint64_t{0};

  // How often to look again for a section of a thread that is between two.
#if defined(SPOLIA_MODEL)
  static constexpr std::uint32_t most_waits = 0;
#else
  static constexpr std::uint32_t most_waits = 8;
#endif

  std::uint64_t known_ = 0;
  std::uint64_t held_ = no_instant;
  std::uint64_t first_ = largest;
  std::uint64_t second_ = largest;
  std::uint64_t last_ = 0;
  bool sleeper_ = false;
  bool same_ = false;
  std::vector<std::uint64_t> times_;
  std::vector<std::uint64_t> before_;
  std::vector<std::uint64_t> seen_;  // by a fast-path check
};

}  // namespace rlu::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
