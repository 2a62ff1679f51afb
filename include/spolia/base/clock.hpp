// SPDX-License-Identifier: Apache-2.0
/// \file
/// Where timestamps come from: a shared counter, or the processor's counter with a measured
/// uncertainty (the Ordo primitive that MV-RLU builds on; `timestamp_clock` says what both
/// promise).
///
///     logical_clock clock;                      // or hardware_clock, or selected_clock
///     const auto t = clock.now();               // a snapshot's timestamp
///     clock.pass(t);                            // from here on now() is above t in every thread
///     const auto s = clock.tick();              // above every now() that happened before
///     if (clock.after(version, t)) skip();      // certainly newer
///
/// All operations may be called by any thread at any time, never fail, and allocate nothing. The
/// value 0 is older than every timestamp; timestamps stay below `largest_timestamp`.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/ticks.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {

/// How far the processors' counters are apart, and whether they can give timestamps at all.
struct counter_report {
  bool trusted = false;
  std::uint64_t bound = 0;    ///< ticks; no two processors' counters differ by more
  std::uint32_t cpus = 0;     ///< how many processors were compared
  std::string_view reason{};  ///< why not trusted; empty if trusted; text that lives forever
};

/// Measures once in a process, in the first call; see hardware_clock.
SPOLIA_EXPORT const counter_report& counters_compared() noexcept;

/// The least a single reference processor's measurements allow to promise: `to[i]` is the smallest
/// (receiver's minus sender's) difference seen when the reference sent to processor i, and
/// `from[i]` when i sent to the reference. Differences include the time of flight, so each bounds
/// how far the receiver's counter is ahead, and two of them bound any pair.
SPOLIA_EXPORT std::uint64_t offset_bound(const std::int64_t* to, const std::int64_t* from,
                                         std::uint32_t count) noexcept;

/// Whether all processors of a list as the kernel writes it ("0-3,8") are among `cpus`. False if it
/// is none.
SPOLIA_EXPORT bool all_among(std::string_view list, const std::uint32_t* cpus,
                             std::uint32_t count) noexcept;

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {

inline constexpr std::uint64_t largest_timestamp = (std::uint64_t{1} << 63U) - 1;

/// What two timestamps say about which came first.
enum class time_order : std::uint8_t { less, greater, uncertain };

/// Gives timestamps. "Happens before" is the C++ relation, joined with real time between
/// processors. With b = bound(), which never changes:
///   1. tick() is above every value that now() or tick() returned before it in that relation.
///   2. After pass(t) has returned, every now() that it happens before is above t.
///   3. now() is below no earlier now() or tick() by more than b.
///   4. after(x, y) implies that y was not taken later than x; compare says uncertain exactly if
///      the values are at most b apart; where b is 0, if they are equal.
///   5. advances_alone: the clock moves without tick() and pass(); two now() may never agree.
/// pass(t) wants a t that came from this clock. A thread's own stores are ordered before its later
/// now() only if a fence stands between.
template <class Clock>
concept timestamp_clock = requires(Clock& c, const Clock& k, std::uint64_t t) {
  { k.now() } noexcept -> std::same_as<std::uint64_t>;
  { c.tick() } noexcept -> std::same_as<std::uint64_t>;
  { c.pass(t) } noexcept -> std::same_as<void>;
  { k.bound() } noexcept -> std::same_as<std::uint64_t>;
  { k.after(t, t) } noexcept -> std::same_as<bool>;
  { k.compare(t, t) } noexcept -> std::same_as<time_order>;
  { Clock::advances_alone } -> std::convertible_to<bool>;
};

/// A clock that can be read together with others: all that are is_everybodys() are one clock, and
/// all others move by tick() and pass() only.
template <class Clock>
concept joinable_clock = timestamp_clock<Clock> && requires(const Clock& k) {
  { k.is_everybodys() } noexcept -> std::same_as<bool>;
};

namespace detail {

/// x is above y by more than `bound`. Differences, not sums: a timestamp near the largest value
/// (the mark of what is not committed yet, say) must not wrap round to a small one.
constexpr bool certainly_after(std::uint64_t x, std::uint64_t y, std::uint64_t bound) noexcept {
  return x > y && x - y > bound;
}

constexpr time_order order_of(std::uint64_t x, std::uint64_t y, std::uint64_t bound) noexcept {
  if (certainly_after(y, x, bound)) return time_order::less;
  return certainly_after(x, y, bound) ? time_order::greater : time_order::uncertain;
}

}  // namespace detail

/// A shared counter. Threads that want a new timestamp at the same moment share one increment:
/// tick() and pass() wait a little and increment only if no other thread has, so the counter's
/// cache line changes hands once for all of them. Source: the clock of the multiversion schemes
/// (section "vCAS" of the bounded-space paper's implementation).
///
/// Two threads may get the same value from tick(); each value is above all that was read before.
/// Cost: now() is a load. tick() alone is a load and a compare-and-swap; under contention at most
/// 512 pause instructions more. Progress: wait-free. Memory: two cache lines.
///
/// All accesses are seq_cst: a version is published and then stamped with now(), a snapshot passes
/// the clock and then reads versions. If the store were not ordered before the clock's load there,
/// and the pass before the loads here, the version could get a stamp inside the snapshot and yet be
/// missed by it. (Free for loads on x86; the publishing access and the reading one must be seq_cst
/// as well.)
class logical_clock {
 public:
  static constexpr bool advances_alone = false;

  constexpr explicit logical_clock(std::uint64_t first = 1) noexcept : value_(first) {}
  logical_clock(const logical_clock&) = delete;
  logical_clock& operator=(const logical_clock&) = delete;

  [[nodiscard]] std::uint64_t now() const noexcept { return value_.load_seq_cst(); }

  std::uint64_t tick() noexcept {
    const std::uint64_t before = now();
    pass(before);
    return before + 1;
  }

  /// A tick that is this thread's own step and not one that another thread made meanwhile; 0 under
  /// contention. A thread that reads it or a later value sees, with acquire, what this thread had
  /// done.
  std::uint64_t tick_alone() noexcept {
    if (is_crowded()) return 0;
    std::uint64_t before = now();
    const std::uint64_t after = before + 1;
    if (value_.cas_strong_seq_cst(before, after) || SPOLIA_FAULT("clock.alone_in_a_crowd")) {
      return after;
    }
    patience_of_this_thread() = 1;
    return 0;
  }

  void pass(std::uint64_t t) noexcept {
    if (now() > t) return;
    std::uint32_t& patience = patience_of_this_thread();
    wait(patience);
    if (now() > t) return;
    // Failure needs no second try: t came from this clock, so the thread that was faster went past
    // it.
    if (value_.cas_strong_seq_cst(t, t + 1)) {
      patience /= 2;
    } else {
      patience = std::clamp(patience * 2, 1U, most_patience);
    }
  }

  [[nodiscard]] static constexpr bool is_everybodys() noexcept { return false; }
  [[nodiscard]] static constexpr std::uint64_t bound() noexcept { return 0; }
  [[nodiscard]] static constexpr bool after(std::uint64_t x, std::uint64_t y) noexcept {
    return detail::certainly_after(x, y, 0);
  }
  [[nodiscard]] static constexpr time_order compare(std::uint64_t x, std::uint64_t y) noexcept {
    return detail::order_of(x, y, 0);
  }

 private:
  static constexpr std::uint32_t most_patience = 512;

  /// How long the thread waits before it tries, after what it met before. Each shared object may
  /// have one of its own: it decides how soon, and never what.
  /// In the model build variant no thread waits, and nothing may be carried from one execution to
  /// the next.
  static std::uint32_t& patience_of_this_thread() noexcept {
    static constinit thread_local std::uint32_t patience = 0;
    return patience;
  }
  static bool is_crowded() noexcept {
#if defined(SPOLIA_MODEL)
    return false;
#else
    return patience_of_this_thread() != 0;
#endif
  }
  static void wait([[maybe_unused]] std::uint32_t rounds) noexcept {
#if !defined(SPOLIA_MODEL)
    for (std::uint32_t i = 0; i < rounds; ++i) cpu_relax();
#endif
  }

  alignas(cache_line) atomic<std::uint64_t> value_;
};

/// The processor's own counter: no shared cache line, but timestamps of two processors that are at
/// most bound() apart cannot be ordered. Source: Ordo, as used by MV-RLU.
///
/// The first object in a process measures bound(): two helper threads, pinned to a reference
/// processor and to each other processor in turn, send each other the counter's value; the smallest
/// difference seen in each direction bounds how far one counter can be ahead. Takes about a
/// millisecond a processor on an idle machine, some two seconds in all at most on a busy one; the
/// caller's own affinity is not touched.
/// (Departure from the paper, which measures each pair: two legs through the reference are added,
/// so the bound is up to twice as large with more than two processors, and the time is linear.)
/// All processors that the kernel calls possible are compared, also those that this process may not
/// use now; if one could not be (it is offline, or not in the cpuset), the clock is not trusted.
/// What the measurement cannot see is a virtual machine or process that is moved to another host,
/// or saved and restored: counters may then differ by more, or fall, and nothing looks again. Use a
/// logical clock where that can happen.
///
/// If !trusted(), the promises of timestamp_clock are not kept, and reason() says why: use
/// selected_clock, which falls back. All else but the constructor is wait-free.
/// Errors: none; whatever fails in measuring makes it untrusted.
/// Cost: now() about 20 ns, tick() and pass() wait for bound(), typically 50 to 300 ns.
///
/// In the model build variant it is a logical clock, one for all, that claims to advance alone.
class hardware_clock {
 public:
  static constexpr bool advances_alone = true;
  [[nodiscard]] static constexpr bool is_everybodys() noexcept { return true; }

#if defined(SPOLIA_MODEL)
  hardware_clock() = default;

  [[nodiscard]] static constexpr bool trusted() noexcept { return true; }
  [[nodiscard]] static constexpr std::string_view reason() noexcept { return {}; }
  [[nodiscard]] static constexpr std::uint64_t bound() noexcept { return 0; }
  [[nodiscard]] std::uint64_t now() const noexcept { return simulated_.now(); }
  std::uint64_t tick() noexcept { return simulated_.tick(); }
  void pass(std::uint64_t t) noexcept { simulated_.pass(t); }
#else
  hardware_clock() noexcept : bound_(core::counters_compared().bound) {}

  [[nodiscard]] static bool trusted() noexcept { return core::counters_compared().trusted; }
  /// Why not trusted; empty if trusted. The text lives forever.
  [[nodiscard]] static std::string_view reason() noexcept {
    return core::counters_compared().reason;
  }
  /// In ticks, see core::ns_per_tick().
  [[nodiscard]] std::uint64_t bound() const noexcept { return bound_; }

  [[nodiscard]] std::uint64_t now() const noexcept { return ticks::read_in_order(); }

  std::uint64_t tick() noexcept { return wait_until_after(now()); }
  void pass(std::uint64_t t) noexcept { wait_until_after(t); }
#endif

  [[nodiscard]] bool after(std::uint64_t x, std::uint64_t y) const noexcept {
    return detail::certainly_after(x, y, bound());
  }
  [[nodiscard]] time_order compare(std::uint64_t x, std::uint64_t y) const noexcept {
    return detail::order_of(x, y, bound());
  }

 private:
#if defined(SPOLIA_MODEL)
  static inline constinit logical_clock simulated_{1};
#else
  std::uint64_t wait_until_after(std::uint64_t t) const noexcept {
    for (;;) {
      const std::uint64_t read = now();
      if (after(read, t)) return read;
      cpu_relax();
    }
  }

  std::uint64_t bound_;
#endif
};

enum class clock_kind : std::uint8_t { logical, hardware };

/// The clock that was asked for if this machine can keep its promises, else a logical clock: chosen
/// when the program runs, for one well-predicted branch a call.
class selected_clock {
 public:
  static constexpr bool advances_alone =
      true;  // sometimes; code that relies on it is safe either way

  explicit selected_clock(clock_kind wanted) noexcept {
    if (wanted == clock_kind::hardware && hardware_clock::trusted()) hardware_.emplace();
  }

  /// What was chosen; hardware_clock::reason() tells why it is not what was wanted.
  [[nodiscard]] clock_kind kind() const noexcept {
    return hardware_ ? clock_kind::hardware : clock_kind::logical;
  }

  [[nodiscard]] bool is_everybodys() const noexcept { return hardware_.has_value(); }
  [[nodiscard]] std::uint64_t now() const noexcept {
    return hardware_ ? hardware_->now() : logical_.now();
  }
  std::uint64_t tick() noexcept { return hardware_ ? hardware_->tick() : logical_.tick(); }
  void pass(std::uint64_t t) noexcept { hardware_ ? hardware_->pass(t) : logical_.pass(t); }
  [[nodiscard]] std::uint64_t bound() const noexcept { return hardware_ ? hardware_->bound() : 0; }
  [[nodiscard]] bool after(std::uint64_t x, std::uint64_t y) const noexcept {
    return detail::certainly_after(x, y, bound());
  }
  [[nodiscard]] time_order compare(std::uint64_t x, std::uint64_t y) const noexcept {
    return detail::order_of(x, y, bound());
  }

 private:
  std::optional<hardware_clock> hardware_;
  logical_clock logical_;
};

static_assert(joinable_clock<logical_clock> && joinable_clock<hardware_clock> &&
              joinable_clock<selected_clock>);

}  // namespace spolia::inline SPOLIA_FLAVOUR
