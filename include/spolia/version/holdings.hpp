// SPDX-License-Identifier: Apache-2.0
// holdings.hpp: which versions there are, and which snapshot holds how many of them.
//
//     for (const snapshot_holding& s : table.account().snapshots) {
//       log(s.label, s.age, s.bytes, s.bytes_alone);
//     }
//
// An account is taken while others work, so its figures belong to a while and not to an instant:
// exact if no thread changes anything, otherwise off by what was changed meanwhile. It takes as
// long as there are versions, and lets go of what no snapshot needs on the way.
//
// Bytes are those of the blocks that the versions lie in, with what keys and values own
// (base/weight.hpp). Of what several versions share each has its part.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/census.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/base/ticks.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// A snapshot, and what it sees that is no longer current.
struct snapshot_holding {
  const char* label = nullptr;  ///< as the snapshot was given it
  std::uint64_t timestamp = 0;
  std::uint32_t thread = 0;         ///< the number of the thread that took it
  long os_thread = 0;               ///< the system's number of it; 0 if it is not known
  std::string thread_name{};        ///< the system's name of it; empty if it is not known
  std::chrono::nanoseconds age{0};  ///< since it was taken
  std::uint64_t versions = 0;       ///< what it sees
  std::uint64_t bytes = 0;
  std::uint64_t versions_alone = 0;  ///< of these, what no other snapshot sees: it would go
  std::uint64_t bytes_alone = 0;
};

/// The account of a container.
struct holdings {
  std::uint64_t current = 0;  ///< versions that are the newest of their lists
  std::uint64_t current_bytes = 0;
  std::uint64_t needed = 0;  ///< overwritten, and seen by a snapshot
  std::uint64_t needed_bytes = 0;
  std::uint64_t obsolete = 0;  ///< overwritten, seen by none, and held when the look began
  std::uint64_t waiting = 0;   ///< handed to the domain and not freed; of all that share it
  std::uint64_t waiting_bytes = 0;
  std::vector<snapshot_holding> snapshots;  ///< by time, the oldest first

  [[nodiscard]] std::uint64_t versions() const noexcept { return current + needed + obsolete; }
};

/// When a container is to say that a snapshot holds too much.
struct snapshot_limits {
  std::chrono::nanoseconds age{0};  ///< older than this; 0: whatever its age
  std::uint64_t bytes = 0;          ///< or holds more than this; 0: whatever it holds
  /// Is called for each such snapshot: by a thread that updates, outside of guards, or by one that
  /// calls check_snapshots(). It must not throw. Without a limit of bytes the holding says nothing
  /// of versions.
  std::function<void(const snapshot_holding&)> passed{};
  /// The least time between two looks by updates; 0: none by them. With a limit of bytes a look
  /// takes an account, for which one update waits, and the next one comes after 20 times as long as
  /// that has taken, if that is later.
  std::chrono::nanoseconds every = std::chrono::seconds(1);

  [[nodiscard]] bool any() const noexcept { return passed && (age.count() != 0 || bytes != 0); }
};

namespace detail::version {

inline std::chrono::nanoseconds since_ticks(std::uint64_t start) noexcept {
  const std::uint64_t now = ticks::read();
  if (start == 0 || now < start) return std::chrono::nanoseconds(0);
  const double ns = static_cast<double>(now - start) * core::ns_per_tick();
  return std::chrono::nanoseconds(static_cast<std::int64_t>(ns));
}

/// The snapshots of a census, by time. Throws std::bad_alloc.
inline std::vector<snapshot_holding> snapshots_in(const census& living) {
  std::vector<snapshot_holding> all;
  living.for_each([&](const census::entry& e) {
    if (!e.settled) return;
    all.push_back({.label = e.label,
                   .timestamp = e.timestamp,
                   .thread = e.thread,
                   .os_thread = threads::os_id_of(e.thread),
                   .age = since_ticks(e.start_ticks)});
  });
  // Files are read for the names: after the walk, which others may wait for.
  for (snapshot_holding& s : all) s.thread_name = threads::os_name(s.os_thread);
  std::ranges::sort(all, {}, &snapshot_holding::timestamp);
  return all;
}

/// Distributes ended versions over the snapshots that see them: each in O(log of their number).
class holdings_sum {
 public:
  /// Throws std::bad_alloc.
  explicit holdings_sum(const census& living)
      : snapshots_(snapshots_in(living)), more_(snapshots_.size() + 1) {}

  /// A version that was current from `since` on and before `until`.
  void add(std::uint64_t since, std::uint64_t until, std::uint64_t bytes) noexcept {
    const std::size_t first = index_of(since);
    const std::size_t end = index_of(until);
    if (first >= end) return;  // no snapshot's; or of one that came or went meanwhile
    ++needed_;
    needed_bytes_ += bytes;
    ++more_[first].versions;
    more_[first].bytes += bytes;
    --more_[end].versions;  // modulo 2^64
    more_[end].bytes -= bytes;
    if (end - first > 1) return;
    ++snapshots_[first].versions_alone;
    snapshots_[first].bytes_alone += bytes;
  }

  /// Puts the sums where they belong.
  void finish(holdings& all) {
    std::uint64_t versions = 0;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < snapshots_.size(); ++i) {
      snapshots_[i].versions = versions += more_[i].versions;
      snapshots_[i].bytes = bytes += more_[i].bytes;
    }
    all.needed = needed_;
    all.needed_bytes = needed_bytes_;
    all.snapshots = std::move(snapshots_);
  }

 private:
  struct change {
    std::uint64_t versions = 0;
    std::uint64_t bytes = 0;
  };

  /// How many of the snapshots are older than `t`.
  [[nodiscard]] std::size_t index_of(std::uint64_t t) const noexcept {
    return static_cast<std::size_t>(
        std::ranges::lower_bound(snapshots_, t, {}, &snapshot_holding::timestamp) -
        snapshots_.begin());
  }

  std::vector<snapshot_holding> snapshots_;
  std::vector<change> more_;  // from here on, so much more is seen
  std::uint64_t needed_ = 0;
  std::uint64_t needed_bytes_ = 0;
};

/// Says when it is time to look at the snapshots again.
class look_timer {
 public:
  explicit look_timer(std::chrono::nanoseconds every) noexcept
      : pause_(every.count() <= 0 ? 0
                                  : static_cast<std::uint64_t>(static_cast<double>(every.count()) /
                                                               core::ns_per_tick()) +
                                        1),
        every_(pause_.load_relaxed()),
        next_(ticks::read() + every_) {}

  /// True for one of the threads that ask, once in the time.
  [[nodiscard]] bool due() noexcept {
    if (every_ == 0) return false;
    std::uint64_t next = next_.load_relaxed();
    const std::uint64_t now = ticks::read();
    return now >= next && next_.cas_strong_relaxed(next, now + pause_.load_relaxed());
  }

  /// A look has taken from `start` until now. The next ones come so seldom that they take no more
  /// than that part of the time.
  void took(std::uint64_t start) noexcept {
    constexpr std::uint64_t part = 20;
    const std::uint64_t now = ticks::read();
    const std::uint64_t pause = (std::max)(every_, now > start ? part * (now - start) : 0);
    pause_.store_relaxed(pause);
    next_.store_relaxed(now + pause);
  }

 private:
  atomic<std::uint64_t> pause_;  // at least every_
  const std::uint64_t every_;
  atomic<std::uint64_t> next_;
};

}  // namespace detail::version
}  // namespace spolia::inline SPOLIA_FLAVOUR
