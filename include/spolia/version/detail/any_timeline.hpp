// SPDX-License-Identifier: Apache-2.0
// any_timeline.hpp: a timeline of whatever type, for snapshots of several; and how these find an
// instant that timelines with clocks of their own have in common.
//
//     const spolia::snapshot now({stock.time(), orders.time()}, "report");
//
// How. A timeline's time t stands for all moments at which its clock shows t, if its updates move
// the clock, and then one look at two clocks, and a second look that finds both unmoved, has met a
// moment that is t of the one and u of the other. So:
//   1. Updates of each timeline are asked to move its clock from now on (those of an `on_snapshot`
//      timeline do not otherwise).
//   2. Read each clock, and announce what it showed, with a fence.
//   3. Read each clock again. If one has moved, go on with 2.
//   4. Pass each clock that snapshots move, and take the request back.
// Each update is seen if and only if it took effect by a moment m between 2 and 3. Let t be what
// its timeline's clock showed all that time; the update is seen if its stamp is at most t. All that
// follows is in the order of the seq_cst accesses: heads, requests, clocks.
//   - It drew its stamp, at most t, before m: it has taken effect before.
//   - It drew it, at most t, after m. Then it did not move the clock, so it found no request: that
//     was before 1, since after 4 the clock is past t. It looks for a request after it has set its
//     head, so the head stands before m. But no thread that looked at the object has come back from
//     there before m: it would have given it a stamp. So it may count as done at m.
//   - Its stamp is above t. The clock has passed t after m, and the update returns after that.
// So what was done before the snapshot was asked for is seen, and what is begun after it is there
// is not; and an update that happened after one that is not seen is not seen, in whatever timeline.
// Clocks that are one (`is_everybodys`: the processors' counter) move alone, but need no second
// look: between 2 and 3 they are read once for all that have them, and what was read is announced
// in each. They are ticked and passed there: an update that has returned when the others' clocks
// were read has a stamp below that, and one that begins after the second look one above it. (As
// with one timeline, of updates that processors made within the clock's bound the stamps say which
// was first.)
//
// Progress:    lock-free: 2 is repeated only if an update or another snapshot has moved a clock
//              meanwhile, or a collector's scan has completed an announcement. Updates never wait;
//              while a snapshot of several is being made, those of `on_snapshot` timelines pay for
//              a tick.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <spolia/base/census.hpp>
#include <spolia/base/census_draft.hpp>
#include <spolia/base/clock.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/version/timeline.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::version {

class meeting;

/// What is done with a timeline when it meets others.
struct meeting_steps {
  census_draft (*draft)(void* time, const char* label);
  void (*expect)(void* time) noexcept;
  bool (*is_everybodys)(void* time) noexcept;
  void (*propose)(void* time, census_draft& d) noexcept;
  std::uint64_t (*tick)(void* time) noexcept;
  /// The time that stands then. `everybodys`: what the clocks that are one have shown.
  std::uint64_t (*complete)(void* time, census_draft& d, std::uint64_t everybodys) noexcept;
  std::uint64_t (*now)(void* time) noexcept;
  void (*pass)(void* time, std::uint64_t t) noexcept;
  void (*part)(void* time, std::uint64_t t) noexcept;
};

/// The steps for one type.
template <class Timeline>
struct meeting_of {
  static_assert(joinable_clock<typename Timeline::clock_type>,
                "a snapshot of several timelines: one has a clock that does not say whether others "
                "are the same (joinable_clock)");

  static Timeline& it(void* time) noexcept { return *static_cast<Timeline*>(time); }
  static auto& clock(void* time) noexcept { return it(time).clock_; }

  SPOLIA_OWN_COPY static constexpr meeting_steps steps{
      .draft = [](void* t, const char* label) { return census_draft(it(t).living_, label); },
      .expect =
          [](void* t) noexcept {
            // seq_cst ↔ the look in stamp(): see above.
            if (!SPOLIA_FAULT("meeting.not_expected")) it(t).met_by_.fetch_add_seq_cst(1);
          },
      .is_everybodys = [](void* t) noexcept { return clock(t).is_everybodys(); },
      .propose = [](void* t, census_draft& d) noexcept { d.propose(clock(t)); },
      .tick = [](void* t) noexcept { return clock(t).tick(); },
      .complete =
          [](void* t, census_draft& d, std::uint64_t everybodys) noexcept {
            using clock_type = typename Timeline::clock_type;
            const bool common = clock(t).is_everybodys() && !SPOLIA_FAULT("meeting.own_times");
            return d.template complete<clock_type>(common ? everybodys : clock(t).now());
          },
      .now = [](void* t) noexcept { return clock(t).now(); },
      .pass = [](void* t, std::uint64_t passed) noexcept { clock(t).pass(passed); },
      .part =
          [](void* t, std::uint64_t passed) noexcept {
            if constexpr (Timeline::advances == stamping::on_snapshot) clock(t).pass(passed);
            // release → the load in stamp(): a thread that finds no request finds the clock past
            // it.
            if (!SPOLIA_FAULT("meeting.not_expected")) it(t).met_by_.fetch_sub_release(1);
          },
  };
};

}  // namespace detail::version

/// Refers to a timeline.
class any_timeline {
 public:
  template <class Clock, stamping When>
  any_timeline(basic_timeline<Clock, When>& time) noexcept  // NOLINT: as a reference
      : time_(&time), does_(&detail::version::meeting_of<basic_timeline<Clock, When>>::steps) {}

  [[nodiscard]] const void* identity() const noexcept { return time_; }
  friend bool operator==(const any_timeline& a, const any_timeline& b) noexcept {
    return a.time_ == b.time_;
  }

 private:
  friend class detail::version::meeting;
  void* time_;
  const detail::version::meeting_steps* does_;
};

namespace detail::version {

/// One instant of several timelines, announced in each.
class meeting {
 public:
  /// Of timelines that are not the same. Throws std::bad_alloc, and then nothing was announced.
  meeting(std::span<const any_timeline> times, const char* label) {
    present_.reserve(times.size());
    for (const any_timeline& t : times) present_.push_back({t, t.does_->draft(t.time_, label), 0});
    for (one& p : present_) p->expect(p.of.time_);
    while (!try_to_meet()) {
    }
    for (one& p : present_) p->part(p.of.time_, p.time);
  }

  /// The announcement in the i-th of the timelines.
  [[nodiscard]] census::ticket take(std::size_t i) noexcept { return present_[i].draft.finish(); }

 private:
  struct one {
    any_timeline of;
    census_draft draft;
    std::uint64_t time;
    const meeting_steps* operator->() const noexcept { return of.does_; }
    [[nodiscard]] bool is_everybodys() const noexcept { return of.does_->is_everybodys(of.time_); }
  };

  bool try_to_meet() noexcept {
    one* counter = nullptr;
    for (one& p : present_) {
      p->propose(p.of.time_, p.draft);
      if (p.is_everybodys()) counter = &p;
    }
    const std::uint64_t everybodys = counter == nullptr ? 0 : (*counter)->tick(counter->of.time_);
    bool met = true;
    for (one& p : present_) {
      p.time = p->complete(p.of.time_, p.draft, everybodys);
      if (!p.is_everybodys() || SPOLIA_FAULT("meeting.own_times")) continue;
      met = met && p.time == everybodys;
    }
    if (counter != nullptr) (*counter)->pass(counter->of.time_, everybodys);
    for (one& p : present_) {
      if (p.is_everybodys() || SPOLIA_FAULT("meeting.one_look")) continue;
      met = met && p->now(p.of.time_) == p.time;
    }
    return met;
  }

  std::vector<one> present_;
};

}  // namespace detail::version

}  // namespace spolia::inline SPOLIA_FLAVOUR
