// SPDX-License-Identifier: Apache-2.0
// timeline.hpp: the time that a set of versioned structures shares: a clock that stamps versions,
// and the census of the snapshots that are alive.
//
//     spolia::timeline time;                     // a shared counter that snapshots advance
//     spolia::basic_timeline<logical_clock, stamping::on_update> other;     // that updates advance
//     spolia::basic_timeline<hardware_clock> third;     // no shared cache line
//
// Source:      Wei et al., PPoPP 2023, section 2 (versioned CAS objects, announcements); the clocks
//              are in clock.hpp, the announcements in census.hpp.
// What it promises. A snapshot that began with time t sees exactly the versions with a stamp not
// above t. A version that the snapshot did not find at the head of its list gets a stamp above t:
//   on_snapshot:  the snapshot makes the clock pass t, and then reads heads. An update sets a head
//                 and then reads the clock. All four are seq_cst (head and clock of a logical
//                 clock), so an update whose head was not seen finds the clock past t.
//   on_update:    the snapshot only reads. An update sets a head and then takes a tick, which is
//                 above every time read before it.
//   hardware clock: the same, in real time: pass(t) and tick() wait until every processor's counter
//                 is past, and the update has a full fence between its head and its look.
// Structures that one snapshot sees together share a timeline, or the snapshot is told of several:
// any_timeline.hpp says how these meet. One batch of changes is in one timeline.
//
// Threads:     anything may be called by any thread at any time. Errors: announce throws
//              std::bad_alloc. The timeline outlives its snapshots.
// Cost:        settle(): a load, and once for each version a reading of the clock and a
//              compare-and-swap. announce: see census.hpp; with on_snapshot a compare-and-swap on
//              the clock, with back-off under contention.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/census.hpp>
#include <spolia/base/clock.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/made_once.hpp>
#include <spolia/version/lease.hpp>
#include <spolia/version/tracked.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

namespace detail::version {
template <class Timeline>
struct meeting_of;  // any_timeline.hpp
}  // namespace detail::version

/// What advances the clock.
enum class stamping : std::uint8_t {
  on_snapshot,  ///< snapshots; versions appended between two of them share a stamp
  on_update     ///< updates; each version has a stamp of its own
};

template <timestamp_clock Clock = logical_clock, stamping When = stamping::on_snapshot>
class basic_timeline {
 public:
  using clock_type = Clock;
  static constexpr stamping advances = When;

  basic_timeline() = default;
  /// With the clock that was asked for, if the machine has it.
  explicit basic_timeline(clock_kind wanted) noexcept
    requires std::constructible_from<Clock, clock_kind>
      : clock_(wanted) {}
  basic_timeline(const basic_timeline&) = delete;
  basic_timeline& operator=(const basic_timeline&) = delete;

  /// The present instant, protected while the ticket lives. Throws std::bad_alloc.
  [[nodiscard]] census::ticket announce(const char* label = nullptr) {
    census::ticket ticket = living_.announce(clock_, label);
    if constexpr (When == stamping::on_snapshot) {
      if (!SPOLIA_FAULT("timeline.no_pass")) clock_.pass(ticket.timestamp());
    }
    return ticket;
  }

  [[nodiscard]] std::uint64_t now() const noexcept { return clock_.now(); }

  /// A stamp for a version that no other thread can see yet: above all earlier snapshots.
  [[nodiscard]] std::uint64_t stamp() noexcept {
    return When == stamping::on_update || is_met() ? clock_.tick() : clock_.now();
  }

  /// Every stamp that is drawn afterwards is not below `t`, which was one. Only the clocks of
  /// several processors have to be waited for: a logical one is there already.
  void leave_behind([[maybe_unused]] std::uint64_t t) noexcept {
    if constexpr (Clock::advances_alone) clock_.pass(t);
  }

  /// Not above any stamp that is drawn later: hardware clocks may seem to step back a little.
  [[nodiscard]] std::uint64_t earliest() const noexcept {
    const std::uint64_t now = clock_.now();
    return now - (std::min)(now, clock_.bound());
  }

  /// Not below any stamp that was drawn before.
  [[nodiscard]] std::uint64_t latest() const noexcept { return clock_.now() + clock_.bound(); }

  /// The stamp of `v`, which was seen at the head of its list; sets it if no thread has. Any thread
  /// may do this for any other.
  template <class Node>
  std::uint64_t settle(Node& v) noexcept {
    // acquire ← the release below, so that a thread that appends after v, or reads on, passes the
    // stamp on.
    std::uint64_t seen = v.since.load_acquire();
    if (seen != no_stamp) [[likely]]
      return seen;
    const std::uint64_t drawn = draw(v);
    // release → the acquire above.
    return v.since.cas_strong_acq_rel(seen, drawn) ? drawn : seen;
  }

  /// What is announced: which versions are needed.
  void scan(scan_times& found) const {
    found.known = living_.scan(clock_, found.times, &found.looked_at);
  }
  /// The same by the oldest announcement only: what ended at or before it is not needed.
  void watermark(scan_times& found) const {
    found.known = living_.oldest(clock_, &found.looked_at);
    found.times.clear();
  }

  [[nodiscard]] const census& living() const noexcept { return living_; }
  /// Snapshots for a limited time: lease.hpp.
  [[nodiscard]] lease_board& leases() noexcept { return leases_; }

 private:
  template <class>
  friend struct detail::version::meeting_of;

  /// Whether a snapshot of several timelines is being made, and this one's clock does not move
  /// unless a thread moves it.
  [[nodiscard]] bool is_met() const noexcept {
    if constexpr (joinable_clock<Clock>) {
      // seq_cst, after the head and before the clock: any_timeline.hpp.
      return !clock_.is_everybodys() && met_by_.load_seq_cst() != 0;
    } else {
      return false;
    }
  }

  /// A stamp for v. Its head was loaded or set by a seq_cst access before.
  template <class Node>
  std::uint64_t draw([[maybe_unused]] Node& v) noexcept {
    if constexpr (!Clock::advances_alone) {
      return stamp();
    } else {
      // Between the head and the reading: the clock is no memory, so seq_cst does not order it.
      fence::full();
      const std::uint64_t read = stamp();
      // Another processor's counter may have been ahead when the older version was stamped, and
      // stamps must not fall. acquire ← the releases of left pointers. While v has no stamp, what
      // is left of it has not ended, so it is still there.
      const tracked* const older = v.left.load_acquire();
      return older == nullptr ? read : (std::max)(read, older->since.load_relaxed());
    }
  }

  [[no_unique_address]] Clock clock_;  // its line has room for the next
  atomic<std::uint32_t> met_by_{0};
  /// Collectors scan once in some tens of updates; with heavy fences that was half of the time.
  census living_{fence::cost::both};
  lease_board leases_;
};

using timeline = basic_timeline<>;

#if !defined(SPOLIA_MODEL)
namespace detail::version {
/// Null until default_timeline() has been called. It lies in the compiled library, and so does the
/// code that makes it: a static variable of a header would be one for each shared object, and where
/// copies of the library share it (g++ makes such variables unique in the process), threads of one
/// copy would announce under numbers that another copy gave out.
extern SPOLIA_EXPORT constinit atomic<timeline*> the_default_timeline;
/// Throws std::bad_alloc; the next call tries again.
SPOLIA_EXPORT timeline& make_default_timeline();
}  // namespace detail::version
#endif

/// The timeline of all structures and snapshots that name none: `spolia::snapshot now;` is an
/// instant of it. One for each copy of the library and each build variant: with a shared libspolia,
/// the program and all its plugins have the same; a plugin with a static copy has its own. Made
/// when first asked for, which may throw std::bad_alloc, and there forever.
inline timeline& default_timeline() {
#if defined(SPOLIA_MODEL)
  static constinit made_once<timeline> all;
  return all.get();
#else
  // acquire ← the release in make_default_timeline(): a thread that finds it finds it whole.
  timeline* const known = detail::version::the_default_timeline.load_acquire();
  if (known != nullptr) [[likely]]
    return *known;
  return detail::version::make_default_timeline();
#endif
}

inline lease::lease(std::chrono::nanoseconds at_most, const char* label)
    : lease(default_timeline(), at_most, label) {}

}  // namespace spolia::inline SPOLIA_FLAVOUR
