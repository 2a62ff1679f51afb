// SPDX-License-Identifier: Apache-2.0
// member.hpp: what one thread has in the collector, and the figures that go with it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/ticks.hpp>
#include <spolia/counted/detail/count_cache.hpp>
#include <spolia/counted/detail/names.hpp>
#include <spolia/counted/detail/pins.hpp>
#include <spolia/counted/detail/unit_log.hpp>
#include <spolia/counted/detail/work.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

/// What weighs more counts as several units.
inline constexpr std::size_t bytes_of_unit = 64;

struct collector_options {
  std::uint32_t help_every = 64;    ///< logged units, of bytes_of_unit or less, between two tasks
  std::uint64_t epoch_at = 4096;    ///< logged units of one thread that ask for an epoch
  std::uint32_t step = 256;         ///< entries, and destroyed objects, of one task
  std::uint64_t hurry_from = 8192;  ///< with more units waiting, a thread helps more often
  std::uint64_t wait_at = 8192;     ///< with so many logged in an epoch that only others keep from
                                    ///< ending, a thread waits a little before each more
  std::int64_t epoch_every = 250'000'000;    ///< ns, while units are logged
  std::int64_t seldom = 1'000'000;           ///< ns, from one logged unit to the next, so that each
                                             ///< asks for an epoch
  std::uint32_t look_every = 1024;           ///< reads between two looks at the clock, at most
  std::int64_t overdue_after = 500'000'000;  ///< ns without an epoch; then those that read help
};

struct collector_counts {
  std::uint64_t logged = 0;   ///< units that locations gave up
  std::uint64_t dropped = 0;  ///< of these
  std::uint64_t doomed = 0;   ///< objects whose last unit a helper dropped
  std::uint64_t ended = 0;    ///< of these
  std::uint64_t epochs = 0;
  std::uint64_t pins = 0;  ///< private pins handed out at most so far, over all threads
  // What tasks took while they were timed (see time_tasks), in ticks: of scans with the begin of
  // their epochs, of sweeps, of the ends of objects.
  std::uint64_t scan_ticks = 0;
  std::uint64_t sweep_ticks = 0;
  std::uint64_t end_ticks = 0;

  /// Not yet dropped, or dropped and not yet ended.
  [[nodiscard]] std::uint64_t waiting() const noexcept {
    return logged - dropped + (doomed - ended);
  }
};

/// Adds to a tally how long it lives, if that is wanted.
class stopwatch {
 public:
  stopwatch(tally& to, bool wanted) noexcept
      : to_(wanted ? &to : nullptr), start_(wanted ? ticks::read() : 0) {}
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;
  ~stopwatch() {
    if (to_ != nullptr) to_->add(ticks::read() - start_);
  }

 private:
  tally* const to_;
  const std::uint64_t start_;
};

/// How many operations of one kind a thread does from one look at the clock to the next: one where
/// they are seldom, and else more and more.
struct pacing {
  std::uint32_t each = 1;
  std::int64_t at = 0;  // ns, of the last look

  /// A look. True: there was less than one operation in so many ns since the last one.
  bool is_seldom(std::int64_t now, std::int64_t ns, std::uint32_t most) noexcept {
    const bool seldom = now - std::exchange(at, now) > static_cast<std::int64_t>(each) * ns;
    each = seldom ? 1 : (std::min)(2 * each, most);
    return seldom;
  }
};

/// What one thread has. Outlives the thread; the next one with its number goes on with it.
struct alignas(cache_line) member {
  pin_set pins;
  count_cache cache;
  unit_log log;
  std::int64_t credit = 0;  // this much may be logged before the thread helps
  std::uint32_t depth = 0;  // objects that this thread is just destroying, one within the other
  bool helping = false;
  bool quiet = false;
  bool owes = false;          // a task was due while it was quiet
  std::int64_t budget = 0;    // objects that this task may still destroy
  std::uint64_t in_hand = 0;  // entries that it took from `work`, while code of the user's runs
  std::uint64_t interval = 0;
  pacing changing;            // of a thread that logs seldom: units between two tasks
  pacing reading;             // reads from one call of collector::look to the next
  bool reads_seldom = false;  // as far as the last one knew
  std::uint32_t haste = 0;    // how often in a row objects were left over
  std::uint64_t since_epoch = 0;
  std::uint64_t told_of = 0;  // so many of these a thread that has ended has told of
  std::uint64_t epoch = 0;    // the last one that the thread has heard of
  latest<long> os_thread;     // the thread's, for people
  latest<bool> left;          // the number's last thread has ended
  work_stack work;
  tally unlogged;  // units that went to `work` at once
  tally kept;      // entries that were logged a second time
  tally dropped;
  tally doomed;
  tally ended;
  tally scan_ticks;  // while tasks are timed
  tally sweep_ticks;
  tally end_ticks;
  alignas(cache_line) name_list names;  // the collector's

  void count_done(collector_counts& sum) const noexcept {
    sum.ended += ended.value();
    sum.dropped += dropped.value();
    sum.logged -= kept.value();
    sum.pins += pins.high();
    sum.scan_ticks += scan_ticks.value();
    sum.sweep_ticks += sweep_ticks.value();
    sum.end_ticks += end_ticks.value();
  }
  void count_begun(collector_counts& sum) const noexcept {
    sum.doomed += doomed.value();
    sum.logged += log.appended() + unlogged.value();
  }

  /// What it has dropped, kept and ended as a helper.
  [[nodiscard]] std::uint64_t entries_done() const noexcept {
    return dropped.value() + kept.value() + ended.value();
  }

  /// Of a thread that has ended, whose log was captured by the caller: whether there is anything.
  [[nodiscard]] bool is_empty() const noexcept {
    bool names_something = false;
    pins.visit([&](word) { names_something = true; });
    return !names_something && !cache.holds() && log.waiting() == 0 && work.empty();
  }

  /// The thread was lost in a fork.
  void forget() noexcept {
    pins.forget();
    cache.forget();
    work.forget();
    helping = quiet = owes = false;
    depth = 0;
    in_hand = 0;
  }
};

}  // namespace counted::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
