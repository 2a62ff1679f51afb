// SPDX-License-Identifier: Apache-2.0
// grace_period.hpp: which intervals of time no section needs any more.
//
// Source:      MV-RLU, section 3.6 and 3.7, asks a detector thread for grace periods. Here the
//              census of the live sections is asked instead, by whoever collects: no thread of its
//              own, nothing to wake, nothing to wait for. A section that lives long holds up the
//              intervals that contain its time, and not all that came later (the range idea of the
//              multiversion collectors, see version/range_tracker.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include <spolia/base/census.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu::detail {

/// One look at the census. Belongs to one collector.
class grace_period {
 public:
  /// If there is no memory for the times, everything counts as needed.
  template <class Clock>
  void look(const census& sections, const Clock& clock) noexcept {
    before_.swap(times_);
    try {
      known_ = sections.scan(clock, times_);
    } catch (const std::bad_alloc&) {
      known_ = 0;
    }
    same_ = times_ == before_;
    sleeper_ = !times_.empty() && !before_.empty() && times_.front() == before_.front();
  }

  /// No section, alive now or to come, has a time in [since, ended). What the sections that were
  /// had done happens before this look.
  [[nodiscard]] bool over(std::uint64_t since, std::uint64_t ended) const noexcept {
    return holder(since, ended) == nobody;
  }

  /// The oldest instant in [since, ended) that a section sees; `nobody` if it is over, `unknown` if
  /// that cannot be said yet. An instant that was found holds what it holds until it is not live.
  [[nodiscard]] SPOLIA_ALWAYS_INLINE std::uint64_t holder(std::uint64_t since,
                                                          std::uint64_t ended) const noexcept {
    if (ended > known_) return unknown;
    if (times_.empty() || ended <= times_.front() || since > times_.back()) return nobody;
    return first_from(since, ended);
  }
  /// Of one that an earlier look has found: some section still sees it, for all that is known.
  [[nodiscard]] bool is_live(std::uint64_t instant) const noexcept {
    return known_ == 0 || std::binary_search(times_.begin(), times_.end(), instant);
  }

  // No clock says these.
  static constexpr std::uint64_t nobody = 0;
  static constexpr std::uint64_t unknown = ~std::uint64_t{0};

  /// The oldest section's time, or what all are not below.
  [[nodiscard]] std::uint64_t oldest() const noexcept {
    return times_.empty() ? known_ : std::min(times_.front(), known_);
  }

  /// The oldest section was there at the look before this one, too.
  [[nodiscard]] bool has_sleeper() const noexcept { return sleeper_; }

  /// The look before this one has found the same instants, or none as well.
  [[nodiscard]] bool is_as_before() const noexcept { return same_ && known_ != 0; }
  /// The latest of them; 0: there is none.
  [[nodiscard]] std::uint64_t latest() const noexcept { return times_.empty() ? 0 : times_.back(); }

  /// How many instants there are that sections see.
  [[nodiscard]] std::size_t instants() const noexcept { return times_.size(); }

  [[nodiscard]] std::uint64_t known() const noexcept { return known_; }

 private:
  SPOLIA_NOINLINE std::uint64_t first_from(std::uint64_t since,
                                           std::uint64_t ended) const noexcept {
    const std::uint64_t first = *std::lower_bound(times_.begin(), times_.end(), since);
    return first >= ended ? nobody : first;
  }

  std::uint64_t known_ = 0;
  bool sleeper_ = false;
  bool same_ = false;
  std::vector<std::uint64_t> times_;
  std::vector<std::uint64_t> before_;
};

}  // namespace rlu::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
